"""Inference with non-Gaussian observations: a Gaussian site replaces the likelihood of each value.

The distribution of the latent factors given all rows is approximated by the Gaussian ``q`` that maximizes the
lower bound of the log-likelihood

    F(q) = sum over observed values of E_q[log p(x_td | eta_td)] - KL(q || p(z)),      eta = mu + C z.

The maximizing ``q`` is the prior times one site ``exp(b eta - lambda eta^2 / 2)`` for each observed value
(Opper & Archambeau 2009). Let ``E`` be the expectation of a value in the sum above, a function of the mean
``m`` and the variance ``v`` of its ``eta`` under ``q``. Then ``lambda = -2 dE/dv`` and ``b = dE/dm + lambda
m``. A site is equivalent to an observation ``b / lambda`` of ``eta`` with noise variance ``1 / lambda``. The
Kalman smoother therefore computes ``q`` for given sites. Its noise variances are one, and the weight of each
value is ``lambda``. Each step moves the sites towards the sites computed from
``q``, which is a natural-gradient step (Khan & Lin 2017). The step is halved until ``F`` does not decrease,
so the bound never decreases. A missing value has no site.

References
----------
Opper & Archambeau (2009), Neural Computation 21:786, doi:10.1162/neco.2008.08-07-592.
Khan & Lin (2017), Conjugate-computation variational inference, AISTATS, arXiv:1703.04265.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.emissions.family import Expectation, Family
from probsfa.statespace.engine.posterior import observation_moments, smooth
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "Block",
    "Inference",
    "Observations",
    "Shapes",
    "Sites",
    "engine_params",
    "expectation",
    "initial_sites",
    "infer",
    "make_observations",
    "predictor_moments",
    "row_blocks",
    "site_panel",
]

#: For each block of columns, an array (number of shape parameters, number of columns).
Shapes = tuple[FloatArray, ...]

# Number of values processed at a time; arrays of this size fit the cache.
_BLOCK_SIZE = 32_768
# Maximum number of halvings of a step of the sites.
_MAX_HALVINGS = 12


class Block(NamedTuple):
    """Columns of one family; ``columns`` are their indices among all model columns."""

    family: Family
    columns: NDArray[np.intp]


class Observations(NamedTuple):
    """Observed values, in the units of the model.

    Attributes
    ----------
    values : ndarray of shape (N, D)
        Zero where missing.
    mask : ndarray of shape (N, D)
        1.0 where observed.
    blocks : tuple of Block
        Columns of each family.
    panel : Panel
        The rows in the format of the Kalman filter, with the time steps between rows.
    constants : tuple of ndarray
        Constant terms of the log densities of each block's values (N, columns).
    """

    values: FloatArray
    mask: FloatArray
    blocks: tuple[Block, ...]
    panel: Panel
    constants: tuple[FloatArray, ...]


class Sites(NamedTuple):
    """Sites ``exp(information * eta - precision * eta^2 / 2)``, each (N, D); zeros where missing."""

    precision: FloatArray
    information: FloatArray

    def moved(self, towards: "Sites", by: float) -> "Sites":
        """Return ``(1 - by)`` times these sites plus ``by`` times other sites."""
        return Sites(
            *(current + by * (target - current) for current, target in zip(self, towards, strict=True))
        )

    @property
    def values(self) -> FloatArray:
        """Pseudo-observations of the predictors."""
        zeros = np.zeros_like(self.precision)
        return np.divide(self.information, self.precision, out=zeros, where=self.precision > 0.0)


class Inference(NamedTuple):
    """The Gaussian ``q`` for given sites.

    Attributes
    ----------
    sites : Sites
        The sites.
    means, covariances, lag_one_covariances : ndarray
        Moments of the latent factors, as in :class:`~probsfa.statespace.Posterior`.
    predictor_mean, predictor_variance : ndarray of shape (N, D)
        Moments of ``eta``.
    expectation : Expectation
        ``E`` of each value and its derivatives for these moments; zeros where missing.
    row_bounds : ndarray of shape (N,)
        Contributions of the rows to the bound.
    """

    sites: Sites
    means: FloatArray
    covariances: FloatArray
    lag_one_covariances: FloatArray
    predictor_mean: FloatArray
    predictor_variance: FloatArray
    expectation: Expectation
    row_bounds: FloatArray

    @property
    def bound(self) -> float:
        """The lower bound ``F(q)`` of the log-likelihood, in nats; minus infinity if it is not finite."""
        total = float(np.sum(self.row_bounds))
        return total if np.isfinite(total) else -np.inf

    @property
    def optimal_sites(self) -> Sites:
        """Sites computed from the moments of ``q``; they equal `sites` at the maximum of the bound."""
        _, slope, precision = self.expectation
        return Sites(precision, slope + precision * self.predictor_mean)


def make_observations(sequences: Sequences, blocks: Sequence[Block]) -> Observations:
    """Pack rows, NaN where missing, with times in the unit of the model."""
    mask = sequences.mask
    values = np.where(mask, sequences.values, 0.0)
    constants = tuple(family.constant(values[:, columns]) for family, columns in blocks)
    return Observations(values, mask.astype(np.float64), tuple(blocks), make_panel(sequences), constants)


def engine_params(params: StateSpace) -> StateSpace:
    """Return parameters with unit noise variance, for sites as observations."""
    return params.replace(noise_variance=np.ones(params.n_features))


def site_panel(observations: Observations, sites: Sites) -> Panel:
    """Return sites as observations of the predictors, with precisions in place of the mask."""
    values, mask = (np.zeros(observations.panel.values.shape) for _ in range(2))
    n = observations.panel.n_rows
    values[:n], mask[:n] = sites.values, sites.precision
    # The weights are replaced, too, because the engine selects its algorithm by them.
    return observations.panel._replace(values=values, mask=mask, weights=mask, complete=False)


def expectation(
    observations: Observations, mean: FloatArray, variance: FloatArray, shapes: Shapes
) -> Expectation:
    """Return the expected log density of each value, and its derivatives; zeros for missing values."""
    value, slope, precision = (np.empty_like(observations.values) for _ in range(3))
    with np.errstate(all="ignore"):
        for rows in row_blocks(*observations.values.shape):
            for (family, columns), shape, constant in zip(
                observations.blocks, shapes, observations.constants, strict=True
            ):
                block = rows, _as_slice(columns)
                part = family.expectation(observations.values[block], mean[block], variance[block], shape)
                value[block] = part.value + constant[rows]
                slope[block] = part.slope
                precision[block] = np.maximum(part.precision, family.min_precision(shape))
            is_missing = observations.mask[rows] == 0.0
            value[rows][is_missing] = slope[rows][is_missing] = 0.0
            precision[rows][is_missing] = 0.0
    return Expectation(value, slope, precision)


def row_blocks(n_rows: int, n_columns: int) -> Iterator[slice]:
    """Yield blocks of rows with a limited number of values."""
    step = max(1, _BLOCK_SIZE // n_columns)
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def _as_slice(columns: NDArray[np.intp]) -> slice | NDArray[np.intp]:
    """Return adjacent columns as a slice, which avoids a copy, and other columns unchanged."""
    first, last = int(columns[0]), int(columns[-1])
    return slice(first, last + 1) if last - first + 1 == len(columns) else columns


def initial_sites(observations: Observations, offset: FloatArray, shapes: Shapes) -> Sites:
    """Return initial sites, from observed values and from the means of the columns if ``eta = mu`` (D,)."""
    precision, information = (np.zeros_like(observations.values) for _ in range(2))
    for (family, columns), shape in zip(observations.blocks, shapes, strict=True):
        reference = family.moments(offset[columns], np.zeros(len(columns)), shape)[0]
        if not family.has_scale:
            reference = np.clip(reference, 1e-3, None)
        weights, values = family.initial_sites(observations.values[:, columns], reference, shape)
        precision[:, columns], information[:, columns] = weights, weights * values
    return Sites(precision * observations.mask, information * observations.mask)


def predictor_moments(
    params: StateSpace, means: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (N, D) of the predictors, from those of the latent factors."""
    return observation_moments(params.replace(noise_variance=np.zeros(params.n_features)), means, covariances)


def _distribution(params: StateSpace, observations: Observations, sites: Sites, shapes: Shapes) -> Inference:
    """Return ``q`` for given sites, and its bound."""
    panel = site_panel(observations, sites)
    engine_parameters = engine_params(params)
    posterior = smooth(engine_parameters, panel)
    mean, variance = predictor_moments(params, posterior.means, posterior.covariances)
    expected = expectation(observations, mean, variance, shapes)
    row_bounds = posterior.row_log_likelihoods + expected.value.sum(axis=1)
    for rows in row_blocks(*mean.shape):
        # Subtract the expected log density of each site. The log-likelihood of the smoother does not contain
        # log(sqrt(precision)), because noise variances are one.
        square = (panel.values[rows] - mean[rows]) ** 2 + (variance[rows] + np.log(2.0 * np.pi))
        row_bounds[rows] += 0.5 * np.einsum("td,td->t", sites.precision[rows], square)
    return Inference(
        sites,
        posterior.means,
        posterior.covariances,
        posterior.lag_one_covariances,
        mean,
        variance,
        expected,
        row_bounds,
    )


def infer(
    params: StateSpace,
    observations: Observations,
    shapes: Shapes,
    start: Sites | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> tuple[Inference, tuple[float, ...]]:
    """Maximize the lower bound at given parameters until a step increases it by less than `tol`.

    Parameters
    ----------
    params : StateSpace
        Dynamics, loadings and offset; the noise variance is not used.
    observations : Observations
        Observed values.
    shapes : tuple of ndarray
        Shape parameters of each block of columns.
    start : Sites, optional
        Initial sites.
    tol : float, default=1e-8
        The updates stop if a full step increases the bound by less than `tol` nats.
    max_iter : int, default=1000
        Maximum number of posterior evaluations.

    Returns
    -------
    inference : Inference
        The best distribution.
    history : tuple of float
        The bound after each accepted step; never decreases.
    """
    sites = initial_sites(observations, params.offset, shapes) if start is None else start
    best = _distribution(params, observations, sites, shapes)
    history = [best.bound]
    step, n_iterations = 1.0, 1
    while n_iterations < max_iter:
        optimal_sites = best.optimal_sites
        if not all(np.all(np.isfinite(part)) for part in optimal_sites):
            break
        gain = -np.inf
        for _ in range(_MAX_HALVINGS):
            proposed = _distribution(params, observations, best.sites.moved(optimal_sites, step), shapes)
            n_iterations += 1
            gain = proposed.bound - best.bound if np.isfinite(proposed.bound) else -np.inf
            if gain >= 0.0 or n_iterations >= max_iter:
                break
            step *= 0.5
        if not gain >= 0.0:
            break
        best = proposed
        history.append(best.bound)
        if gain < tol * step:
            break
        step = min(1.0, 2.0 * step)
    return best, tuple(history)
