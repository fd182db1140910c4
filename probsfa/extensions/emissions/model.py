"""A fitted model with non-Gaussian observations, its methods on validated data, and its fit."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.extensions.emissions.columns import Column, encode, family_blocks, make_columns, with_links
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.filtering import EmissionFilter, filter_sequence
from probsfa.extensions.emissions.learning import Report, maximize_bound
from probsfa.extensions.emissions.prediction import (
    EmissionForecast,
    ValueDistribution,
    draw_values,
    level_probabilities,
    log_predictive,
    shapes_by_column,
)
from probsfa.extensions.emissions.sites import (
    Inference,
    Observations,
    Shapes,
    Sites,
    engine_params,
    infer,
    make_observations,
    predictor_moments,
    site_panel,
)
from probsfa.extensions.emissions.start import initialize
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.engine.posterior import Posterior, draw_factors
from probsfa.statespace.factor_uncertainty import covariances_of_mixture, parameter_variances
from probsfa.statespace.filtering import FilterState
from probsfa.statespace.fitted_model import FittedModel, random_parts
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace, canonical
from probsfa.statespace.prediction import Forecast, Imputation, ImputedDistribution, propagate

__all__ = ["EmissionFit", "EmissionModel", "fit_model"]

# Tolerance of the site updates of a fitted model, in nats of the bound.
_SITES_TOL = 1e-9
_MAX_SITE_STEPS = 1000

_STATUS_SENTENCES = {
    "converged": "Converged: a further step is expected to increase the lower bound by less than tol nats.",
    "flat": "Converged: changes of the lower bound are smaller than its numerical accuracy.",
    "max_iter": (
        "Stopped at max_iter before convergence: the lower bound was still increasing. Raise max_iter, or "
        "raise tol if the result is good enough."
    ),
    "stalled": (
        "Stopped: no step increased the lower bound, although its gradient is not zero. The parameters are "
        "the best found; n_components may be too large."
    ),
    "interrupted": "Interrupted: the model has the best parameters so far.",
}


class _EmissionParameters(NamedTuple):
    """Parameters of a fitted model, in plain arrays; see :class:`EmissionModel`."""

    decay: FloatArray
    loadings: FloatArray
    offset: FloatArray
    rhythm_decay: FloatArray
    rhythm_frequency: FloatArray
    smooth_rate: FloatArray
    shapes: Shapes
    columns: tuple[Column, ...]
    time_unit: float
    axis: tuple[str, str | None, bool, bool, float]
    level_and_scale: FloatArray | None = None


class EmissionModel(_EmissionParameters, FittedModel):
    """A fitted model, with its parameters in plain arrays.

    Attributes
    ----------
    decay, loadings, offset, rhythm_decay, rhythm_frequency, smooth_rate : ndarray
        Parameters of the linear model of the predictors, as in :class:`~probsfa.statespace.StateSpace`.
    shapes : tuple of ndarray
        Shape parameters of each block of model columns.
    columns : tuple of Column
        Encoding of the columns of X.
    time_unit : float
        Unit of time of the decays.
    axis : tuple
        Units of times: the parts of a :class:`~probsfa._times.TimeAxis`.
    level_and_scale : ndarray (S, S + 1, S + 1), optional
        Parameter uncertainty of each state with loadings
        (:func:`~probsfa.statespace.factor_uncertainty.covariances_of_mixture`). Files of earlier versions
        contain an array (2, K) or (2 + 2 K, K) for the AR(1) factors instead.
    """

    @property
    def time_axis(self) -> TimeAxis:
        """Units of times."""
        return TimeAxis(*self.axis)

    @property
    def params(self) -> StateSpace:
        """Parameters of latent factors and predictors, with noise variances of one."""
        return StateSpace(
            self.decay,
            self.loadings,
            np.ones(len(self.offset)),
            self.offset,
            rhythm_decay=self.rhythm_decay,
            rhythm_frequency=self.rhythm_frequency,
            smooth_rate=self.smooth_rate,
        )

    def shape_parameters(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return noise variances in squared data units, degrees of freedom and sizes, each (D,).

        Entries are NaN for columns whose family does not have the parameter.
        """
        noise, df, size = (np.full(len(self.columns), np.nan) for _ in range(3))
        column_shapes = shapes_by_column(self.columns, self.shapes)
        for d, column in enumerate(self.columns):
            values = np.exp(column_shapes[column.first][:, 0])
            if column.emission in ("gaussian", "student_t"):
                noise[d] = values[0] * column.scale**2
            if column.emission == "student_t":
                df[d] = values[1]
            if column.emission == "negative_binomial":
                size[d] = values[0]
        return noise, df, size

    def observations(self, sequences: Sequences) -> Observations:
        """Return validated rows, encoded in the units of the model."""
        return make_observations(
            encode(sequences, self.columns).with_time_unit(self.time_unit), family_blocks(self.columns)
        )

    def infer(self, sequences: Sequences) -> tuple[Observations, Inference]:
        """Return encoded rows, and the Gaussian distribution of their latent factors."""
        observations = self.observations(sequences)
        inference, _ = infer(self.params, observations, self.shapes, tol=_SITES_TOL, max_iter=_MAX_SITE_STEPS)
        if not np.isfinite(inference.bound):
            raise ValueError(
                "X is too far from the predictions of the model: its factors cannot be computed in double "
                "precision. Check the largest values, or fit the model to similar data."
            )
        return observations, inference

    def posterior(self, sequences: Sequences) -> Posterior:
        """Return the posterior of the latent factors given all rows, with the lower bound of each row."""
        _, inference = self.infer(sequences)
        bounds = inference.row_bounds - sequences.mask @ self._log_scales
        return Posterior(inference.means, inference.covariances, inference.lag_one_covariances, bounds)

    def factor_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and standard deviations, with parameter uncertainty."""
        posterior, loaded_states = self.posterior(sequences), self.params.state_layout.loaded_states
        if self.level_and_scale is None:
            return posterior.means, posterior.std
        covariances = self.level_and_scale
        if covariances.ndim == 2:
            covariances = _covariances_of_earlier_version(covariances, len(loaded_states))
        added_variances = parameter_variances(posterior.means, loaded_states, covariances)
        return posterior.means, np.sqrt(posterior.std**2 + added_variances)

    @property
    def n_states(self) -> int:
        """Number of columns of `transform`."""
        return self.params.n_states

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states of stochastic cycles and smooth factors."""
        return tuple(self.params.state_layout.names)

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, including those of links."""
        factor_parameters = (self.decay, self.rhythm_decay, self.rhythm_frequency, self.smooth_rate)
        sizes = [part.size for part in (*factor_parameters, self.loadings, self.offset, *self.shapes)]
        return int(sum(sizes))

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return posterior means of the factors given all rows of each sequence."""
        return self.infer(sequences)[1].means

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the lower bound of the log-likelihood of all rows in data units, in nats."""
        return self.infer(sequences)[1].bound - self.log_scale(sequences)

    def log_scale(self, sequences: Sequences) -> float:
        """Return the log density of all rows in model units minus the log density in data units, in nats."""
        return float(sequences.mask.sum(axis=0) @ self._log_scales)

    @property
    def _log_scales(self) -> FloatArray:
        """Logarithms of the scales of the columns (D,)."""
        return np.log([column.scale for column in self.columns])

    def value_distribution(self, sequences: Sequences) -> ValueDistribution:
        """Return the distribution of all values given the observed values.

        Its quantiles are computed for missing values only.
        """
        _, inference = self.infer(sequences)
        return ValueDistribution(
            self.params,
            self.columns,
            self.shapes,
            inference.means,
            inference.covariances,
            ~sequences.mask,
        )

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values by means, or by the most probable level of a categorical column."""
        distribution = self.value_distribution(sequences)
        moments, mask = distribution.moments(), sequences.mask
        values = np.where(mask, sequences.values, moments.means)
        std = np.where(mask, 0.0, moments.std)
        return Imputation(values, std, distribution=ImputedDistribution(sequences.values, distribution))

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return absolute standardized errors of predictions in ten-fold cross-validation.

        For binary and categorical columns, ``p`` is the predicted probability of the observed level, and the
        score is the normal quantile with the upper tail probability ``p / 2``.
        """
        scores = np.full_like(sequences.values, np.nan)
        has_levels = np.array([column.emission in ("bernoulli", "categorical") for column in self.columns])
        for held_out, remaining in random_parts(sequences):
            distribution = self.value_distribution(remaining)
            means, std, _ = distribution.moments()
            log_density = log_predictive(*distribution[:5], values=sequences.values)
            with np.errstate(divide="ignore", invalid="ignore"):
                errors = np.abs(sequences.values - means) / std
                level_scores = -special.ndtri(0.5 * np.exp(log_density))
            scores[held_out] = np.where(has_levels, level_scores, errors)[held_out]
        return scores

    def probabilities(self, sequences: Sequences) -> dict[int, FloatArray]:
        """Return a dict from the number of each binary or categorical column to probabilities (N, L)."""
        _, inference = self.infer(sequences)
        probabilities: dict[int, FloatArray] = {}
        mean, variance = predictor_moments(self.params, inference.means, inference.covariances)
        for d, column in enumerate(self.columns):
            if column.emission == "bernoulli":
                block = family_blocks((column._replace(first=0),))[0]
                block_moments = block.family.moments(
                    mean[:, column.model_columns], variance[:, column.model_columns], np.zeros((0, 1))
                )[0]
                probabilities[d] = np.concatenate([1.0 - block_moments, block_moments], axis=1)
            elif column.emission == "categorical":
                probabilities[d] = level_probabilities(
                    self.params, column, inference.means, inference.covariances
                )
        return probabilities

    def column_mean(self, column_index: int, predictor: FloatArray) -> FloatArray:
        """Return means of a column's values in data units, at predictors in the units of `mean_`."""
        column = self.columns[column_index]
        family, shape = FAMILIES[column.family], shapes_by_column(self.columns, self.shapes)[column.first]
        eta = predictor.reshape(-1, 1)
        if column.link == "identity":
            eta = (eta - column.shift) / column.scale
        mean = family.moments(eta, np.zeros_like(eta), shape)[0]
        return (column.shift + column.scale * mean).reshape(predictor.shape)

    def filter(
        self, sequences: Sequences, state: FilterState | None, rng: np.random.Generator | None = None
    ) -> list[EmissionFilter]:
        """Filter each sequence; residuals of counts are random, by default with a fixed seed."""
        if state is not None and len(sequences.lengths) > 1:
            raise ValueError(
                f"state continues one sequence, but X has {len(sequences.lengths)}. Filter each separately."
            )
        rng = np.random.default_rng(0) if rng is None else rng
        parts = [sequences.sequence(i) for i in range(len(sequences.lengths))]
        encoded = [encode(part, self.columns).with_time_unit(self.time_unit) for part in parts]
        return [
            filter_sequence(self.params, self.columns, self.shapes, part, encoded_rows, state, rng)
            for part, encoded_rows in zip(parts, encoded, strict=True)
        ]

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Forecast the given numbers of time units after the last row of each sequence."""
        _, inference = self.infer(sequences)
        forecasts: list[Forecast] = []
        for rows, horizon in zip(sequences.slices, steps, strict=True):
            last = rows.stop - 1
            means, covariances = propagate(
                self.params, inference.means[last], inference.covariances[last], horizon
            )
            distribution = ValueDistribution(self.params, self.columns, self.shapes, means, covariances)
            moments = distribution.moments()
            std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
            forecasts.append(
                EmissionForecast(moments.means, moments.std, means, std, _distribution=distribution)
            )
        return forecasts

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations and states from the model."""
        factors = simulate_factors(self.params, n_steps, rng)
        return draw_values(self.params, self.columns, self.shapes, factors, rng), factors

    def draw_factors(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw trajectories of the states (n_draws, N, K) from their joint distribution given the data."""
        observations, inference = self.infer(sequences)
        engine_parameters, panel = engine_params(self.params), site_panel(observations, inference.sites)
        return draw_factors(engine_parameters, panel, n_draws, rng)

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Return values (n_draws, N, D); missing values are drawn jointly given the observed values."""
        factors = self.draw_factors(sequences, n_draws, rng)
        draws = draw_values(self.params, self.columns, self.shapes, factors, rng)
        return np.where(sequences.mask, sequences.values, draws)


def _covariances_of_earlier_version(variances: FloatArray, n_loaded_states: int) -> FloatArray:
    """Return covariances (S, S + 1, S + 1) from `level_and_scale` of a file of an earlier version."""
    k = variances.shape[1]
    mixture = variances[2 : 2 + k] if len(variances) > 2 else np.zeros((k, k))
    diagonals = np.zeros((n_loaded_states, n_loaded_states + 1))
    diagonals[:k, :k] = mixture + np.diag(variances[1])
    diagonals[:k, -1] = variances[0]
    return diagonals[:, :, None] * np.eye(n_loaded_states + 1)


class EmissionFit(NamedTuple):
    """Outcome of a fit.

    Attributes
    ----------
    model : EmissionModel
        The fitted model.
    lower_bound : float
        Lower bound for the training data in data units, in nats, without priors.
    history : ndarray
        Bound plus log prior density after each accepted step, shifted so that the last value is
        `lower_bound`; never decreases.
    n_evaluations : int
        Number of evaluations of the bound.
    converged : bool
        Whether the fit reached a maximum.
    status : str
        Message about the end of the fit.
    """

    model: EmissionModel
    lower_bound: float
    history: FloatArray
    n_evaluations: int
    converged: bool
    status: str


def mean_noise(observations: Observations, sites: Sites) -> FloatArray:
    """Return noise variances (D,): the inverse of the mean precision of the sites of each column."""
    count = np.maximum(observations.mask.sum(axis=0), 1.0)
    precision = np.sum(observations.mask * sites.precision, axis=0) / count
    return np.asarray(1.0 / np.maximum(precision, 1e-12))


def predictor_scales(
    columns: Sequence[Column], observations: Observations, params: StateSpace, sites: Sites
) -> FloatArray:
    """Return column scales (D,); loadings are divided by them before the signs of the factors are fixed.

    The scale of a Gaussian column is the standard deviation of its observed values, as in the linear Gaussian
    model. For other columns it is the standard deviation of the predictor plus noise. The precision of this
    noise is the mean precision of the sites.
    """
    scale = np.sqrt(np.sum(params.loadings**2, axis=1) + mean_noise(observations, sites))
    for column in columns:
        if column.emission == "gaussian" and column.link == "identity":
            scale[column.model_columns] = 1.0  # the column is standardized
    return scale


def fit_model(
    sequences: Sequences,
    requested: Sequence[str],
    options: FitOptions,
    *,
    links: Sequence[str] = (),
    is_shared_link: bool = True,
    tol: float | str,
    max_iter: int,
    report: Report | None = None,
) -> EmissionFit:
    """Fit the model to validated rows.

    Parameters
    ----------
    sequences : Sequences
        Rows in data units, NaN where missing.
    requested : sequence of str
        Emission of each column; "auto" selects it from the values.
    options : FitOptions
        Options of the initial Gaussian model; the fitted model has the same factors and processes.
    links : sequence of str, optional
        The link of each column.
    is_shared_link : bool, default=True
        Whether the user gave one link for all Gaussian columns.
    tol : float or "auto"
        The optimizer stops if a step is expected to gain less than `tol` nats.
    max_iter : int
        Maximum number of evaluations of the bound.
    report : callable, optional
        Called with the number of evaluations and the best bound so far.

    Returns
    -------
    EmissionFit
    """
    columns = make_columns(sequences, requested)
    if links:
        columns = with_links(columns, links, is_shared=is_shared_link)
    encoded = encode(sequences, columns)
    blocks = family_blocks(columns)
    start = initialize(encoded, blocks, options)
    observations = make_observations(encoded.with_time_unit(start.time_unit), blocks)
    if tol == "auto":
        n_free = start.params.state_layout.n_free(start.params.n_features) + start.params.n_features
        tol = min(1e-4 * n_free**2, 0.03 * n_free)
    fit = maximize_bound(
        observations,
        start.params,
        start.shapes,
        start.prior,
        max_iter=1 if start.interrupted else max_iter,
        tol=float(tol),
        report=report,
    )
    status = "interrupted" if start.interrupted else fit.stop_reason
    scale = predictor_scales(columns, observations, fit.params, fit.inference.sites)
    params, axis = canonical(fit.params, scale), sequences.axis
    layout = Coordinates(
        params.state_layout, NoiseVariances.known(params.n_features), observations.panel.evenly_sampled
    )
    noisy_params = params.replace(noise_variance=mean_noise(observations, fit.inference.sites))
    model = EmissionModel(
        params.decay,
        params.loadings,
        params.offset,
        params.rhythm_decay,
        params.rhythm_frequency,
        params.smooth_rate,
        fit.shapes,
        columns,
        start.time_unit,
        (axis.kind, axis.calendar, axis.from_index, axis.even, axis.unit),
        covariances_of_mixture(
            layout, noisy_params, observations.mask.sum(axis=0), np.array(encoded.lengths)
        ),
    )
    bound = fit.inference.bound - model.log_scale(sequences)
    history = np.array(fit.history)
    if len(history):
        history = history - history[-1] + bound
    return EmissionFit(
        model, bound, history, fit.n_evaluations, status in ("converged", "flat"), _STATUS_SENTENCES[status]
    )
