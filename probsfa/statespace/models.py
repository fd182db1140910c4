"""The model with Gaussian observation noise, and its methods on validated data."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from probsfa._times import TimeAxis
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.datasets import hide_blocks
from probsfa.statespace.advice import ModelProperties
from probsfa.statespace.calibration import distance_to_observed
from probsfa.statespace.columns import list_columns, resolution_variance
from probsfa.statespace.diagnostics import Diagnostics, diagnose
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.engine.posterior import (
    Posterior,
    check_finite,
    draw_factors,
    filter_rows,
    leave_one_out_distributions,
    log_likelihood,
    observation_moments,
    smooth,
    visit_moments,
)
from probsfa.statespace.factor_uncertainty import covariances_of_fit, parameter_variances
from probsfa.statespace.filtering import (
    FilterResult,
    FilterRows,
    FilterState,
    filter_all,
    misfit_message,
    one_step,
    run_filter,
    standardized_errors,
)
from probsfa.statespace.fitted_model import FittedModel
from probsfa.statespace.gross_outliers import candidate_rows, gross_outliers, outlier_message
from probsfa.statespace.idiosyncratic_posterior import IdiosyncraticPosterior
from probsfa.statespace.learning.budget import (
    N_SEGMENTS,
    affordable_rows,
    choose_segments,
    integrates_ar1_noise,
)
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.standard_errors import (
    StandardErrors,
    TimescaleProfile,
    free_coordinates,
    profile_decay,
    standard_errors,
)
from probsfa.statespace.leave_one_out import (
    InterpolationComparison,
    compare_with_interpolation,
    leave_one_out_means,
    leave_one_out_moments,
    near_zero_noise,
)
from probsfa.statespace.news import News, compute_news
from probsfa.statespace.panel import Panel, lazy_panel, make_panel
from probsfa.statespace.parameters import QUANTITIES, StateSpace
from probsfa.statespace.prediction import Forecast, Imputation, fill, forecast
from probsfa.statespace.prediction_errors import PredictionErrors, left_out_errors, left_out_rows
from probsfa.statespace.smooth_alternatives import find_smooth_factors
from probsfa.statespace.student import InferredWeights
from probsfa.statespace.summary import ParameterErrors

# Maximum size of stored moments of all rows, in bytes; longer data are imputed in blocks of rows.
_MAX_STORED_BYTES = 128 * 2**20
# Number of rows in which a fit is checked for misfit.
_N_CHECKED_ROWS = 1000
# Maximum number of states of a model that is checked for misfit.
_MAX_CHECKED_STATES = 40
# Number of rows with possible outliers that are checked in addition.
_N_CANDIDATE_ROWS = 10
# Number of rows that are filtered before each of these rows.
_N_ROWS_BEFORE = 30
# Minimum relative change of a constant column that is not a rounding error.
_CONSTANT_RTOL = 1e-8
# Noise variance, relative to the squared scale of the column, below which rounding errors affect one-step
# predictions.
_MIN_CHECKED_NOISE = 1e-8

__all__ = ["LinearGaussianModel", "MaximumLikelihoodModel"]


class MaximumLikelihoodModel(FittedModel):
    """A model with parameters that were fitted by maximum likelihood.

    Attributes
    ----------
    fitted : MaximumLikelihood
        Parameters, units, and status of the fit.
    """

    fitted: MaximumLikelihood

    @property
    def time_unit(self) -> float:
        """Unit of time of the decays."""
        return self.fitted.time_unit

    @property
    def time_axis(self) -> TimeAxis:
        """Type and unit of the times."""
        return self.fitted.axis

    @property
    def n_states(self) -> int:
        """Number of columns of `transform`."""
        return self.fitted.params.n_states

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the states of stochastic cycles and smooth factors."""
        return tuple(self.fitted.params.state_layout.names)

    @property
    def stationary_states(self) -> BoolArray:
        """Mask of the states that have loadings and a stationary variance; it is False for trends."""
        return self.fitted.params.state_layout.stationary

    def parameter_errors(self, sequences: Sequences | None, level: float) -> dict[str, ParameterErrors]:
        """Return standard errors from the observed information; empty without the training data."""
        if sequences is None:
            return {}
        errors = self.standard_errors(sequences)
        return {
            one.attribute: ParameterErrors(getattr(errors, one.name), *errors.interval(one.name, level))
            for one in QUANTITIES.values()
            if one.name in errors.names
        }

    def with_fitted(self, fitted: MaximumLikelihood) -> Self:
        """Return the model with another result of the fit."""
        return replace(self, fitted=fitted)  # type: ignore[type-var]

    def compare_to_interpolation(self, sequences: Sequences) -> InterpolationComparison | None:
        """Compare leave-one-out errors of the model with those of linear interpolation."""
        raise NotImplementedError

    def with_interpolation_check(self, sequences: Sequences) -> Self:
        """Return the model with a warning in its status if linear interpolation is at least as accurate."""
        comparison = self.compare_to_interpolation(sequences)
        if comparison is None or not comparison.warning:
            return self
        status = self.fitted.status.adding("interpolation", comparison.warning)
        return self.with_fitted(replace(self.fitted, status=status))

    def with_misfit_check(self, sequences: Sequences) -> Self:
        """Return the model with a warning in its status if one-step predictions show misfit.

        Misfit is strong autocorrelation of the prediction errors, or a few gross outliers that dominate the
        fit.
        """
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class LinearGaussianModel(MaximumLikelihoodModel):
    """The dynamic factor model with Gaussian observation noise, at fitted parameters.

    Attributes
    ----------
    fitted : MaximumLikelihood
        Parameters, units, and status of the fit.
    """

    fitted: MaximumLikelihood

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: decays, loadings, means, and estimated noise variances."""
        fitted, params = self.fitted, self.fitted.params
        # Loadings, mean, and noise variance; AR(1) noise also has a decay and a scale.
        n_per_constant_column = len(params.state_layout.loaded_states) + (4 if params.has_ar1_noise else 2)
        return fitted.coordinates(evenly_sampled=True).n_free - n_per_constant_column * fitted.n_constant

    def without_constant_columns(self, sequences: Sequences) -> Sequences:
        """Return the rows with NaN in the columns that were constant in the fit; warn if they vary now.

        The model defines no likelihood of a constant column, because its variance was not estimated.
        """
        constant = self.fitted.constant
        if constant is None:
            return sequences
        values = np.where(constant, sequences.values, np.nan)
        differences = np.abs(values - self.fitted.params.offset)
        is_changed = np.any(differences > _CONSTANT_RTOL * np.abs(self.fitted.params.offset), axis=0)
        if is_changed.any():
            names = list_columns(np.flatnonzero(is_changed), sequences.feature_names)
            warnings.warn(
                f"X varies in column {names}, which was constant in the fit. Its variance is not known, and "
                "likelihoods ignore it. Fit to rows in which it varies.",
                UserWarning,
                stacklevel=4,
            )
        return replace(sequences, values=np.where(constant, np.nan, sequences.values))

    def posterior(self, sequences: Sequences) -> Posterior:
        """Return the distribution of the latent states given all rows of each sequence."""
        sequences = self.without_constant_columns(sequences)
        integrated = self._integrated(sequences)
        if integrated is not None:
            return integrated.posterior()
        posterior, reported = self._posterior(sequences), self._reported_states
        return posterior if len(reported) == posterior.means.shape[1] else posterior.of(reported)

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Return posterior means (N, K) of the factors, given all rows of each sequence."""
        integrated = self._integrated(sequences)
        return self.posterior(sequences).means if integrated is None else integrated.means

    def factor_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return posterior means and standard deviations (N, K), with parameter uncertainty."""
        posterior, fitted = self.posterior(sequences), self.fitted
        covariances = covariances_of_fit(fitted, evenly_sampled=self._panel(sequences).evenly_sampled)
        if covariances is None:
            return posterior.means, posterior.std
        state_layout = fitted.params.state_layout
        added_variances = parameter_variances(posterior.means, state_layout.loaded_states, covariances)
        return posterior.means, np.sqrt(posterior.std**2 + added_variances)

    def _integrated(self, sequences: Sequences) -> IdiosyncraticPosterior | None:
        """Return the posterior if AR(1) noise is integrated out; None if the noise is part of the state."""
        if not self._integrates_ar1_noise(sequences):
            return None
        posterior = IdiosyncraticPosterior(self.fitted.params, self._infer(sequences)[0])
        check_finite(sequences, self.fitted.params, posterior.means)
        return posterior

    def _integrates_ar1_noise(self, sequences: Sequences) -> bool:
        """Return whether AR(1) noise is integrated out; otherwise it is part of the state."""
        params = self.fitted.params
        if not params.has_ar1_noise or params.state_layout.n_other_processes:
            return False
        return integrates_ar1_noise(sequences.n_rows, params.n_components, params.n_features)

    @property
    def _state_space(self) -> StateSpace:
        """Parameters of the model in which AR(1) noise processes are states."""
        return self.fitted.params.state_space

    @property
    def _predictive_params(self) -> StateSpace:
        """Parameters of all states, with the noise variance of new observations."""
        return self.fitted.predictive_params

    @property
    def _reported_states(self) -> NDArray[np.intp]:
        """Indices of the states that are factors."""
        return self.fitted.params.shared_states

    def _posterior(self, sequences: Sequences) -> Posterior:
        """Return the distribution of all states, including those of AR(1) noise."""
        panel, inferred = self._infer(sequences)
        posterior = smooth(self._state_space, panel)
        check_finite(sequences, self._state_space, *posterior)
        if inferred is None:
            return posterior
        bound_minus_likelihood = inferred.weights.bound_minus_likelihood(self._state_space, panel)
        return posterior._replace(row_log_likelihoods=posterior.row_log_likelihoods + bound_minus_likelihood)

    def _infer(self, sequences: Sequences) -> tuple[Panel, InferredWeights | None]:
        """Return the panel and, with Student-t noise, the inferred weights of its values."""
        return self._panel(sequences), None

    def leave_one_out_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (N, D) of observed values, noise included."""
        integrated = self._integrated(sequences)
        if integrated is not None:
            return integrated.leave_one_out_moments()
        params, posterior = self.fitted.predictive_params, self._posterior(sequences)
        moments = observation_moments(params, posterior.means, posterior.covariances)
        means, variances = leave_one_out_moments(sequences.values, *moments, params.noise_variance)
        has_near_zero_noise = near_zero_noise(params)
        if has_near_zero_noise.any():  # the difference of nearly equal precisions has no correct digits
            exact = leave_one_out_distributions(self._state_space, self._panel(sequences))
            means, variances = (
                np.where(has_near_zero_noise, e, a) for a, e in zip((means, variances), exact, strict=True)
            )
        return means, variances

    def contributions(self, sequences: Sequences) -> FloatArray:
        """Return contributions (N, D, K or K + 1) of factors, and of AR(1) noise, to each value."""
        integrated = self._integrated(sequences)
        if integrated is not None:
            return integrated.contributions
        params, means = self._predictive_params, self._posterior(sequences).means
        factors = self._reported_states
        factor_contributions = means[:, None, factors] * params.loadings[:, factors]
        if not self.fitted.params.has_ar1_noise:
            return factor_contributions
        ar1_noise_states = np.setdiff1d(np.arange(params.n_states), factors)
        noise_contributions = means[:, ar1_noise_states] * np.diagonal(params.loadings[:, ar1_noise_states])
        return np.dstack([factor_contributions, noise_contributions])

    def filter(self, sequences: Sequences, state: FilterState | None) -> list[FilterResult]:
        """Return the filtered distribution of the latent states of each sequence."""
        if state is not None and len(sequences.lengths) > 1:
            raise ValueError(
                f"state continues one sequence, but X has {len(sequences.lengths)} sequences. Filter each "
                "separately."
            )
        timed = self.without_constant_columns(sequences).with_time_unit(self.fitted.time_unit)
        predictive = self.fitted.predictive_params
        results = [
            run_filter(
                self.fitted.params,
                timed.sequence(i),
                state,
                predictive=predictive,
                filter_rows=self._filter_rows,
            )
            for i in range(len(timed.lengths))
        ]
        for result in results:
            check_finite(
                sequences, self._state_space, result.means, result.covariances, result.row_log_likelihoods
            )
        return results

    @property
    def _filter_rows(self) -> FilterRows:
        """Function that filters rows with this noise distribution."""
        return filter_rows

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood of all rows, in nats."""
        sequences = self.without_constant_columns(sequences)
        integrated = self._integrated(sequences)
        if integrated is not None:
            return integrated.log_likelihood()
        value = log_likelihood(self._state_space, self._panel(sequences))
        check_finite(sequences, self._state_space, value)
        return value

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values, with calibrated standard deviations of predicted observations."""
        filled = self._impute(sequences, with_std=with_std)
        if filled.std is None:
            return filled
        std = filled.std
        if self.fitted.calibration is not None:
            std = std * self._std_factors(sequences)
        return filled._replace(std=np.where(sequences.mask, std, self._infinite_if_observed_once(std)))

    def _infinite_if_observed_once(self, std: FloatArray) -> FloatArray:
        """Return standard deviations (N, D), infinite in columns with one observation in the fit."""
        observed_once = self.fitted.observed_once
        return std if observed_once is None else np.where(observed_once, np.inf, std)

    def _std_factors(self, sequences: Sequences) -> FloatArray:
        """Return calibration factors (N, D) of the standard deviations of predicted observations."""
        assert self.fitted.calibration is not None
        return self.fitted.calibration.at(distance_to_observed(sequences, self.fitted.time_unit))

    def _impute(self, sequences: Sequences, *, with_std: bool) -> Imputation:
        """Impute without calibration of the standard deviations."""
        integrated = self._integrated(sequences)
        if integrated is not None:
            return self._impute_integrated(sequences, integrated, with_std)
        if self._bytes_of_moments(sequences.n_rows) > _MAX_STORED_BYTES:
            return self._impute_in_blocks(sequences, with_std)
        posterior, params = self._posterior(sequences), self.fitted.predictive_params
        moments = observation_moments(params, posterior.means, posterior.covariances)
        check_finite(sequences, self._state_space, *moments)
        values, std = fill(sequences.values, *moments)
        if sequences.mask.all():
            return Imputation(values, std)
        predictions = leave_one_out_means(sequences.values, *moments, params.noise_variance)
        return Imputation(values, std, compare_with_interpolation(sequences, predictions))

    def _impute_integrated(
        self, sequences: Sequences, integrated: IdiosyncraticPosterior, with_std: bool
    ) -> Imputation:
        """Impute with AR(1) noise integrated out."""
        missing = ~sequences.mask
        values = np.where(missing, integrated.value_means, sequences.values)
        std = None
        if with_std:
            variances = integrated.value_variances() + self.fitted.predictive_params.noise_variance
            std = np.where(missing, np.sqrt(variances), 0.0)
        if not missing.any():
            return Imputation(values, std)
        return Imputation(
            values, std, compare_with_interpolation(sequences, integrated.leave_one_out_moments()[0])
        )

    def _bytes_of_moments(self, n_rows: int) -> int:
        """Return the size of the covariances of all states, and of means and variances of all values."""
        params = self._state_space
        return 8 * n_rows * (params.n_states**2 + 4 * params.n_features)

    def _impute_in_blocks(self, sequences: Sequences, with_std: bool) -> Imputation:
        """Impute blocks of rows; compare the model with linear interpolation on a sample of the rows."""
        sample = self.sample_of(sequences)
        comparison = None if sample is sequences else self.impute(sample).interpolation_check
        params = self.fitted.predictive_params
        values = sequences.values.copy()
        std = np.zeros_like(values) if with_std else None

        def impute_block(rows: slice, means: FloatArray, covariances: FloatArray) -> None:
            moments = observation_moments(params, means, covariances)
            check_finite(sequences, self._state_space, *moments)
            filled, filled_std = fill(values[rows], *moments)
            values[rows] = filled
            if std is not None:
                std[rows] = filled_std

        timed = sequences.with_time_unit(self.fitted.time_unit)
        panel = lazy_panel(timed.values.__getitem__, timed.n_features, timed.lengths, timed.times, timed.step)
        visit_moments(self._state_space, panel, impute_block)
        return Imputation(values, std, comparison)

    def sample_of(self, sequences: Sequences) -> Sequences:
        """Return segments of the rows if there are very many rows, otherwise all rows.

        The segments are shorter and more numerous than the segments of the fit, so that most of their rows
        were not used by the fit.
        """
        params = self._state_space
        affordable = affordable_rows(params.n_states, params.n_features)
        # Moments of the sample may use a quarter of the maximum memory, or the memory of 1,000 rows.
        affordable = min(affordable, max(_MAX_STORED_BYTES // (4 * self._bytes_of_moments(1)), 1000))
        if sequences.n_rows <= affordable:
            return sequences
        sample = choose_segments(sequences.mask, sequences.lengths, affordable, 3 * N_SEGMENTS)
        return sequences if sample is None else sequences.segments_as_sequences(sample)

    def compare_to_interpolation(self, sequences: Sequences) -> InterpolationComparison | None:
        """Compare leave-one-out errors of the model with those of linear interpolation."""
        return self.impute(self.sample_of(sequences)).interpolation_check

    def with_misfit_check(self, sequences: Sequences) -> Self:
        """Return the model with a warning in its status if one-step predictions show misfit.

        Misfit is strong autocorrelation of the prediction errors, or a few gross outliers that dominate the
        fit. Errors are computed for a sample of the rows, and for the rows with the most likely outliers.
        """
        params = self._state_space
        noise = params.noise_variance / self.fitted.scale**2
        if params.n_states > _MAX_CHECKED_STATES or noise.min() < _MIN_CHECKED_NOISE:
            return self
        rows = sequences
        if sequences.n_rows > _N_CHECKED_ROWS:
            sample = choose_segments(sequences.mask, sequences.lengths, _N_CHECKED_ROWS)
            rows = sequences if sample is None else sequences.segments_as_sequences(sample)
        if rows.n_rows > 2 * _N_CHECKED_ROWS:  # many short sequences, which are not divided
            return self
        candidates = candidate_rows(sequences, _N_CANDIDATE_ROWS)
        segments = _rows_before(sequences, candidates)
        try:
            with np.errstate(all="ignore"):
                errors = self.one_step_errors(rows)
                candidate_errors = self.one_step_errors(sequences.segments_as_sequences(segments))
        except np.linalg.LinAlgError:  # rounding errors with near-zero noise
            return self
        last_rows = np.cumsum([part.stop - part.start for part in segments]) - 1
        outliers = gross_outliers(errors, candidate_errors[last_rows], candidates, sequences.n_rows)
        status = self.fitted.status.adding(
            "misfit", misfit_message(errors, rows.lengths, rows.feature_names)
        ).adding("outliers", outlier_message(outliers, rows.feature_names), values=outliers.positions)
        return replace(self, fitted=replace(self.fitted, status=status))

    def one_step_errors(self, sequences: Sequences) -> FloatArray:
        """Return standardized one-step prediction errors (N, D)."""
        return self._one_step(sequences.with_time_unit(self.fitted.time_unit))[2]

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Return the distribution at given times after the end of each sequence."""
        forecasts, calibration = self._forecast(sequences, steps), self.fitted.calibration
        forecasts = [replace(one, std=self._infinite_if_observed_once(one.std)) for one in forecasts]
        if calibration is None:
            return forecasts
        distances = distance_to_observed(sequences, self.fitted.time_unit)
        calibrated: list[Forecast] = []
        for one, part, elapsed in zip(forecasts, sequences.slices, steps, strict=True):
            from_observed = distances[part.stop - 1] + np.asarray(elapsed)[:, None]
            calibrated.append(replace(one, std=one.std * calibration.factors_of_forecasts(from_observed)))
        return calibrated

    def _forecast(self, sequences: Sequences, steps: Sequence[FloatArray]) -> list[Forecast]:
        """Forecast without calibration of the standard deviations."""
        integrated = self._integrated(sequences)
        if integrated is not None:
            return self._forecast_integrated(sequences, integrated, steps)
        posterior, params = self._posterior(sequences), self._predictive_params
        reported = self._reported_states
        forecasts = [
            forecast(params, posterior.means[s.stop - 1], posterior.covariances[s.stop - 1], elapsed)
            for s, elapsed in zip(sequences.slices, steps, strict=True)
        ]
        return [
            replace(one, latent_means=one.latent_means[:, reported], latent_std=one.latent_std[:, reported])
            for one in forecasts
        ]

    def _forecast_integrated(
        self, sequences: Sequences, integrated: IdiosyncraticPosterior, steps: Sequence[FloatArray]
    ) -> list[Forecast]:
        """Forecast with AR(1) noise integrated out."""
        noise = self.fitted.predictive_params.noise_variance
        forecasts = []
        for part, elapsed in zip(sequences.slices, steps, strict=True):
            means, variances, factor_means, factor_variances = integrated.forecast(
                part.stop - 1, np.asarray(elapsed, float)
            )
            forecasts.append(
                Forecast(means, np.sqrt(variances + noise), factor_means, np.sqrt(factor_variances))
            )
        return forecasts

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations and latent states from the model."""
        params = self._predictive_params
        states = simulate_factors(params, n_steps, rng)
        values = (
            params.offset + states @ params.loadings.T + self._draw_noise((n_steps, params.n_features), rng)
        )
        return values, states[:, self._reported_states]

    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw the observation noise of new rows."""
        return rng.standard_normal(shape) * np.sqrt(self._predictive_params.noise_variance)

    def draw_factors(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw paths of the latent states from their joint distribution given the data."""
        integrated = self._integrated(sequences)
        if integrated is not None:
            return integrated.draw_factors(n_draws, rng)
        return self._draw_states(sequences, n_draws, rng)[:, :, self._reported_states]

    def _draw_states(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw paths of all states, including those of AR(1) noise."""
        draws = draw_factors(self._state_space, self._infer(sequences)[0], n_draws, rng)
        check_finite(sequences, self._state_space, draws)
        return draws

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values from their joint distribution given the observed values."""
        params, values = self._predictive_params, sequences.values
        integrated = self._integrated(sequences)
        if integrated is not None:
            draws = integrated.draw_values(n_draws, rng)
        else:
            draws = params.offset + self._draw_states(sequences, n_draws, rng) @ params.loadings.T
        draws += rng.standard_normal(draws.shape) * np.sqrt(params.noise_variance)
        if self.fitted.calibration is not None:
            means = self._impute(sequences, with_std=False).values
            draws = means + self._std_factors(sequences) * (draws - means)
        return np.where(np.isnan(values), draws, values)

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """Decompose the revision of a prediction, from old to new rows, into impacts of the new values."""
        revised = replace(new, values=np.where(np.isnan(old.values), np.nan, new.values))
        posteriors = self._posterior(old), self._posterior(revised), self._posterior(new)
        names = new.feature_names or tuple(str(j) for j in range(new.n_features))
        return compute_news(self._state_space, (old.values, new.values), posteriors, target, names)

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """Test the prediction errors of the model.

        One-step errors are computed for all rows. If there are many rows, errors of left-out values, rows and
        blocks are computed for a sample.
        """
        timed = sequences.with_time_unit(self.fitted.time_unit)
        predictions, prediction_std, innovations = self._one_step(timed)
        check_finite(sequences, self._state_space, predictions)
        sample = self.sample_of(sequences)
        by_kind = {"one step": innovations, **self._left_out_errors(sample, block)}
        errors = PredictionErrors(predictions, prediction_std, by_kind, block)
        smooth_factors = find_smooth_factors(self.fitted.params, sample.with_time_unit(self.fitted.time_unit))
        return self._diagnosed(errors, timed, smooth_factors=smooth_factors)

    def _diagnosed(
        self,
        errors: PredictionErrors,
        timed: Sequences,
        *,
        robust: bool = False,
        smooth_factors: Sequence[int] | NDArray[np.intp] = (),
    ) -> Diagnostics:
        """Test prediction errors, and suggest options that this model does not have."""
        fitted, params = self.fitted, self.fitted.params
        properties = ModelProperties(
            params.n_components,
            periods=params.rhythm_periods,
            n_smooth=sum(n for kind, n in params.state_layout.counts.items() if kind.option == "smooth"),
            ar1_noise=params.has_ar1_noise,
            robust=robust,
            smooth_factors=smooth_factors,
            n_states=self._state_space.n_states,
        )
        return diagnose(errors, timed, fitted.axis.seconds(fitted.time_unit), properties)

    def _one_step(self, timed: Sequences) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return one-step predictions, their standard deviations and standardized errors, all (N, D)."""
        filtering, steps = filter_all(self._state_space, make_panel(timed))
        predictions = one_step(self.fitted.predictive_params, steps, filtering.means, filtering.covariances)
        return *predictions, standardized_errors(timed.values, *predictions)

    def _left_out_errors(self, sequences: Sequences, block: int) -> dict[str, FloatArray]:
        """Return standardized errors of values, rows, and blocks of rows that are left out."""
        params, posterior = self.fitted.predictive_params, self._posterior(sequences)
        values = sequences.values
        moments = observation_moments(params, posterior.means, posterior.covariances)
        errors = {
            "cells": left_out_errors(values, *moments, params.noise_variance),
            "rows": left_out_rows(params, values, posterior.means, posterior.covariances),
        }
        if block < len(values):
            hidden = hide_blocks(values, block, 0.1, random_state=0)
            posterior = self._posterior(replace(sequences, values=np.where(hidden, np.nan, values)))
            means, variances = observation_moments(params, posterior.means, posterior.covariances)
            errors_of_blocks = standardized_errors(values, means, np.sqrt(variances))
            errors["blocks"] = np.where(hidden, errors_of_blocks, np.nan)
        return errors

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return absolute leave-one-out errors of observed values, in predicted standard deviations."""
        means, variances = self.leave_one_out_moments(sequences)
        return np.abs(standardized_errors(sequences.values, means, np.sqrt(variances)))

    def standard_errors(self, sequences: Sequences) -> StandardErrors:
        """Return standard errors of the parameters, from the observed information of the data."""
        fitted = self.fitted
        panel = self._panel(sequences.standardized(fitted.shift, fitted.scale))
        coordinates = self.fitted.coordinates(evenly_sampled=panel.evenly_sampled)
        floors = self._noise_floors(sequences)
        params = fitted.standardized_params.state_space
        return standard_errors(
            coordinates, params, panel, floors, fitted.scale, fitted.time_unit, fitted.params
        )

    def profile_timescale(self, sequences: Sequences, component: int, level: float) -> TimescaleProfile:
        """Return the profile likelihood interval of the time scale of a latent factor."""
        fitted, params = self.fitted, self.fitted.standardized_params.state_space
        panel = self._panel(sequences.standardized(fitted.shift, fitted.scale))
        coordinates = self.fitted.coordinates(evenly_sampled=panel.evenly_sampled)
        free = free_coordinates(coordinates, params, self._noise_floors(sequences))
        if not free[component]:
            raise ValueError(f"The decay of factor {component} is fixed and has no profile likelihood.")
        standardized = fitted.options.standardized_noise(fitted.scale)
        noise = standardized if standardized.prior > 0.0 else None
        return profile_decay(coordinates, params, panel, free, component, level, fitted.time_unit, noise)

    def _noise_floors(self, sequences: Sequences) -> FloatArray:
        """Return possible lower bounds (D, n) of standardized noise variances in the fit.

        Parameters at a lower bound have no standard error.
        """
        resolution = resolution_variance(sequences) / self.fitted.scale**2
        minimum = self.fitted.options.standardized_noise(self.fitted.scale, resolution).floor
        return np.column_stack([minimum, np.tile(self.fitted.options.noise_floors, (minimum.size, 1))])

    def _panel(self, sequences: Sequences) -> Panel:
        return make_panel(sequences.with_time_unit(self.fitted.time_unit))

    def standardized_panel(self, sequences: Sequences) -> Panel:
        """Return the rows in the units of ``fitted.standardized_params``."""
        return self._panel(sequences.standardized(self.fitted.shift, self.fitted.scale))


def _rows_before(sequences: Sequences, rows: NDArray[np.intp]) -> list[slice]:
    """Return a segment for each row: it begins up to 30 rows earlier in the same sequence, and ends there."""
    starts = np.concatenate([[0], np.cumsum(sequences.lengths)[:-1]])
    sequence_start = starts[np.searchsorted(starts, rows, side="right") - 1]
    start = np.maximum(sequence_start, rows - _N_ROWS_BEFORE)
    return [slice(int(a), int(b) + 1) for a, b in zip(start, rows, strict=True)]
