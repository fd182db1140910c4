"""Filter for non-Gaussian values: latent factors given the rows up to each row.

The predictive and the filtered distribution of each row are Gaussian (assumed density filtering). The
filtered distribution maximizes the lower bound of the likelihood of the row, with the sites of :mod:`.sites`.
Later rows do not change the sites of earlier rows. The filtered distribution of the last row is therefore
close to the smoothed distribution, but not equal.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import special

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.emissions.columns import Column, family_blocks
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.prediction import predict, shapes_by_column
from probsfa.extensions.emissions.sites import (
    Observations,
    Shapes,
    Sites,
    engine_params,
    expectation,
    make_observations,
    predictor_moments,
)
from probsfa.statespace.engine.dynamics import Transition, transition_table
from probsfa.statespace.engine.posterior import Filtering
from probsfa.statespace.filtering import FilterState, run_filter
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["EmissionFilter", "filter_observations", "filter_sequence", "quantile_residuals"]

# Maximum number of updates of the sites of a row.
_MAX_STEPS = 50
# Updates stop if a full step increases the bound of the row by less than this number of nats.
_TOL = 1e-10


class EmissionFilter(NamedTuple):
    """Filtered distributions of the latent factors, and one-step predictions.

    Attributes
    ----------
    means : ndarray (T, K)
        Means of the latent factors in each row, given this and all previous rows.
    covariances : ndarray (T, K, K)
        Their covariances.
    row_bounds : ndarray (T,)
        Lower bound of the log density of each row given the previous rows, in nats, for values in data units.
    state : FilterState
        State after the last row, with which the filter can be continued.
    predictions, prediction_std : ndarray (T, D)
        Means and standard deviations of the values of each row given the previous rows. For categorical
        columns: the most probable level, and ``sqrt(p (1 - p))`` with its probability ``p``.
    residuals : ndarray (T, D)
        Quantile residuals: standard normal quantiles of the predictive cumulative probability of the observed
        values given the previous rows. For a count or binary value ``x``, the probability is drawn at random
        between ``P(X < x)`` and ``P(X <= x)`` (Dunn & Smyth 1996). Residuals of a correct model are
        independent and standard normal. NaN for missing values and categorical columns.
    """

    means: FloatArray
    covariances: FloatArray
    row_bounds: FloatArray
    state: FilterState
    predictions: FloatArray
    prediction_std: FloatArray
    residuals: FloatArray


def filter_observations(
    params: StateSpace,
    observations: Observations,
    shapes: Shapes,
    steps: Transition,
    mean: FloatArray,
    covariance: FloatArray,
) -> tuple[Filtering, FloatArray, FloatArray]:
    """Filter encoded rows, from the distribution of the state before the first row.

    Parameters
    ----------
    params : StateSpace
        Dynamics, loadings and offset.
    observations : Observations
        Observed values.
    shapes : tuple of ndarray
        Shape parameters of each block of columns.
    steps : Transition
        Transitions that lead to each row.
    mean : ndarray (K,)
        Mean of the state before the first row.
    covariance : ndarray (K, K)
        Its covariance.

    Returns
    -------
    filtering : Filtering
        Means and covariances of the latent factors in each row, given this and all previous rows, and lower
        bounds of the log densities of the rows.
    means : ndarray (N, K)
        Means of the latent factors in each row, given the previous rows.
    covariances : ndarray (N, K, K)
        Their covariances.
    """
    n, k = len(observations.values), params.n_states
    means, covariances, bounds = np.empty((n, k)), np.empty((n, k, k)), np.zeros(n)
    predicted_means, predicted_covariances = np.empty_like(means), np.empty_like(covariances)
    for t in range(n):
        step = steps.at(t)
        mean = np.asarray(step.move(mean))
        state: Any = covariance
        covariance = np.asarray(step.predict_covariance(state))
        predicted_means[t], predicted_covariances[t] = mean, covariance
        row = observations._replace(
            values=observations.values[t : t + 1],
            mask=observations.mask[t : t + 1],
            constants=tuple(part[t : t + 1] for part in observations.constants),
        )
        if row.mask.any():
            mean, covariance, bounds[t] = _update_row(params, row, shapes, mean, covariance)
        means[t], covariances[t] = mean, covariance
    return Filtering(means, covariances, bounds), predicted_means, predicted_covariances


class _RowPosterior(NamedTuple):
    """Latent factors given one row: mean ``m + L correction`` and covariance ``L W L'``.

    Here ``m`` and ``L L'`` are the predicted mean and covariance, and ``W`` is `whitened_covariance`.
    `optimal_sites` are the sites computed from these moments.
    """

    correction: FloatArray
    whitened_covariance: FloatArray
    bound: float
    optimal_sites: Sites


def _update_row(
    params: StateSpace, row: Observations, shapes: Shapes, mean: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return mean and covariance of the latent factors given a row, and the bound of the row."""
    loadings, k = params.loadings, len(mean)
    root = np.linalg.cholesky(covariance)
    projected_root = loadings @ root
    predicted = params.offset + loadings @ mean

    def posterior_at(sites: Sites) -> _RowPosterior:
        precision, information = sites.precision[0], sites.information[0]
        whitened_covariance = np.linalg.inv(np.eye(k) + (projected_root.T * precision) @ projected_root)
        correction = whitened_covariance @ (projected_root.T @ (information - precision * predicted))
        eta = (predicted + projected_root @ correction)[None]
        predictor_variances = np.maximum(
            np.einsum("dk,kl,dl->d", projected_root, whitened_covariance, projected_root), 0.0
        )[None]
        value, slope, precisions = expectation(row, eta, predictor_variances, shapes)
        divergence = 0.5 * (
            np.trace(whitened_covariance)
            + correction @ correction
            - k
            - np.linalg.slogdet(whitened_covariance)[1]
        )
        bound = float(value.sum() - divergence)
        return _RowPosterior(
            correction,
            whitened_covariance,
            bound if np.isfinite(bound) else -np.inf,
            Sites(precisions, slope + precisions * eta),
        )

    empty_sites = Sites(np.zeros_like(row.values), np.zeros_like(row.values))
    sites, best, step_size = empty_sites, posterior_at(empty_sites), 1.0
    for _ in range(_MAX_STEPS):
        proposed = sites.moved(best.optimal_sites, step_size)
        candidate = posterior_at(proposed) if all(np.all(np.isfinite(part)) for part in proposed) else None
        if candidate is None or not candidate.bound >= best.bound:
            step_size *= 0.5
            continue
        gain = candidate.bound - best.bound
        sites, best = proposed, candidate
        if gain < _TOL * step_size:
            break
        step_size = min(1.0, 2.0 * step_size)
    whitened_covariance = best.whitened_covariance
    return (
        mean + root @ best.correction,
        root @ (0.5 * (whitened_covariance + whitened_covariance.T)) @ root.T,
        best.bound,
    )


def filter_sequence(
    params: StateSpace,
    columns: tuple[Column, ...],
    shapes: Shapes,
    sequence: Sequences,
    encoded_rows: Sequences,
    state: FilterState | None,
    rng: np.random.Generator,
) -> EmissionFilter:
    """Filter one sequence.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    columns : tuple of Column
        Encoding of the columns of X.
    shapes : tuple of ndarray
        Shape parameters of each block.
    sequence : Sequences
        The rows in data units.
    encoded_rows : Sequences
        The encoded rows, with times in units of the model.
    state : FilterState, optional
        State after earlier rows.
    rng : Generator
        Random number generator of the residuals of discrete values.

    Returns
    -------
    EmissionFilter
    """
    observations = make_observations(encoded_rows, family_blocks(columns))
    predicted: list[FloatArray] = []

    def filter_rows(
        model: StateSpace,
        panel: Panel,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None,
    ) -> Filtering:
        steps = transition_table(model, panel.gaps).at(panel.gap_index)
        if first_transition is not None:
            steps = steps.with_first(first_transition.at(0))
        filtering, means, covariances = filter_observations(
            model, observations, shapes, steps, mean, covariance
        )
        predicted.extend((means, covariances))
        return filtering

    engine_parameters = engine_params(params)
    result = run_filter(engine_parameters, encoded_rows, state, filter_rows=filter_rows)
    moments = predict(params, columns, shapes, predicted[0], predicted[1])
    scales = np.log([column.scale for column in columns])
    bounds = result.row_log_likelihoods - sequence.mask @ scales
    eta, variance = predictor_moments(params, predicted[0], predicted[1])
    residuals = quantile_residuals(columns, shapes, encoded_rows.values, eta, variance, rng)
    return EmissionFilter(
        result.means, result.covariances, bounds, result.state, moments.means, moments.std, residuals
    )


def quantile_residuals(
    columns: tuple[Column, ...],
    shapes: Shapes,
    values: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Return quantile residuals (N, D) of encoded values (N, E), given moments (N, E) of the predictors."""
    column_shapes = shapes_by_column(columns, shapes)
    residuals = np.full((len(values), len(columns)), np.nan)
    for d, column in enumerate(columns):
        x = values[:, column.first]
        observed = ~np.isnan(x)
        if column.emission == "categorical" or not observed.any():
            continue
        family = FAMILIES[column.family]
        predictive_arguments = (
            mean[observed, column.first],
            variance[observed, column.first],
            column_shapes[column.first],
        )
        high = family.predictive_cdf(x[observed], *predictive_arguments)
        if family.is_integer:
            low = family.predictive_cdf(x[observed] - 1.0, *predictive_arguments)
            high = low + rng.random(len(low)) * (high - low)
        residuals[observed, d] = special.ndtri(np.clip(high, 1e-16, 1.0 - 1e-16))
    return residuals
