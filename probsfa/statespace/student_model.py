"""A fitted model with Student-t noise, and its methods.

Each method infers the weights of its data at the fitted parameters (:mod:`.student`). Given the weights, the
posterior is the posterior of a Gaussian model. Log-likelihoods are lower bounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

import numpy as np

from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.datasets import hide_blocks
from probsfa.statespace import student
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.engine.dynamics import transition_table
from probsfa.statespace.engine.posterior import Posterior, check_finite, draw_factors, smooth
from probsfa.statespace.filtering import FilterRows, one_step
from probsfa.statespace.idiosyncratic_posterior import IdiosyncraticPosterior
from probsfa.statespace.learning.maximum_likelihood import FitStatus, MaximumLikelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.leave_one_out import compare_with_interpolation
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.outlier_model import OutlierModel
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace, canonical
from probsfa.statespace.prediction import Imputation, fill
from probsfa.statespace.prediction_errors import PredictionErrors, left_out_row_moments
from probsfa.statespace.student import (
    InferredWeights,
    ValueMoments,
    infer_weights,
    left_out_moments,
    value_moments,
)

__all__ = ["StudentModel", "model_from_parameters", "model_of_fit"]


@dataclass(frozen=True, eq=False)
class StudentModel(LinearGaussianModel):
    """The factorial AR(1) model with Student-t noise, at fitted parameters."""

    unsupported_methods: ClassVar[Mapping[str, str]] = {
        "news": "news is not supported with robust=True, because a new value changes the weights of other "
        "values, and the revision is not a sum over values. Compare `impute` or `forecast` before and "
        "after.",
        "standard_errors": "standard_errors is not supported with robust=True: the curvature of the lower "
        "bound differs from the curvature of the likelihood. Refit to series from `sample` "
        "(parametric bootstrap).",
        "profile_timescale": "profile_timescale is not supported with robust=True: the profile of the "
        "lower bound differs from the profile of the likelihood. Refit to series from `sample` "
        "(parametric bootstrap).",
    }

    @property
    def noise(self) -> HeavyTails:
        """Distribution of the noise, with a weight for each value or for each row."""
        assert self.fitted.tails is not None
        return self.fitted.tails

    @property
    def _squared_scale(self) -> FloatArray:
        """Squared scales (D,) of the noise; zero for constant columns."""
        return self.fitted.predictive_params.noise_variance / self.noise.variance

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, including the parameters of the tails of the noise."""
        return super().n_parameters + self.noise.n_parameters

    def _panel(self, sequences: Sequences) -> Panel:
        """Return the panel, not marked as complete, because all weights of a complete panel are one."""
        return super()._panel(sequences)._replace(complete=False)

    def _infer(self, sequences: Sequences) -> tuple[Panel, InferredWeights]:
        """Return the panel with inferred weights, and the result of the inference."""
        panel, params = self._panel(sequences), self._params_of_posterior(sequences)
        inferred = infer_weights(params, panel, self.noise)
        check_finite(sequences, params, inferred.bound, inferred.squared_residuals)
        return panel.weighted(inferred.weights.values), inferred

    def _params_of_posterior(self, sequences: Sequences) -> StateSpace:
        """Return the parameters with AR(1) noise among the states unless it is integrated out."""
        return self.fitted.params if self._integrates_ar1_noise(sequences) else self._state_space

    def posterior(self, sequences: Sequences) -> Posterior:
        """Return the distribution of the latent states; log densities of rows are lower bounds."""
        if not self._integrates_ar1_noise(sequences):
            return super().posterior(sequences)
        panel, inferred = self._infer(self.without_constant_columns(sequences))
        posterior = IdiosyncraticPosterior(self.fitted.params, panel).posterior()
        n = sequences.n_rows  # bounds of single rows are not computed: all rows have the mean bound
        return posterior._replace(row_log_likelihoods=np.full(n, inferred.bound / n))

    @property
    def _filter_rows(self) -> FilterRows:
        return partial(student.filter_rows, self.noise)

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return a lower bound of the log-likelihood of all rows, in nats."""
        return self._infer(self.without_constant_columns(sequences))[1].bound

    def _value_moments(self, sequences: Sequences) -> tuple[ValueMoments, Panel, InferredWeights]:
        """Return moments of the noise-free values given all rows, the weighted panel, and the weights."""
        panel, inferred = self._infer(sequences)
        params = self._params_of_posterior(sequences)
        moments = value_moments(params, panel)
        check_finite(sequences, params, moments.means, moments.explained)
        return moments, panel, inferred

    def _predictive_noise(self, sequences: Sequences, inferred: InferredWeights) -> FloatArray:
        """Return the noise variances (N, D) of a new observation of each entry, observed or missing."""
        mask = sequences.mask.astype(np.float64)
        if not self.noise.by_row:
            return np.broadcast_to(self.fitted.predictive_params.noise_variance, mask.shape)
        return self.noise.expected_variances(inferred.squared_residuals, mask) * self._squared_scale

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values, with standard deviations of predicted observations."""
        moments, panel, inferred = self._value_moments(sequences)
        noise = self._predictive_noise(sequences, inferred)
        values, std = fill(sequences.values, moments.means, moments.explained + noise)
        std = np.where(sequences.mask, std, self._infinite_if_observed_once(std))
        if sequences.mask.all():
            return Imputation(values, std)
        left_out_means, _ = self._left_out_moments(panel, moments, inferred)
        return Imputation(values, std, compare_with_interpolation(sequences, left_out_means))

    def _left_out_moments(
        self, panel: Panel, moments: ValueMoments, inferred: InferredWeights
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (N, D) of noise-free values, at the inferred weights."""
        return left_out_moments(self._state_space, panel, moments, inferred.weights.values)

    def leave_one_out_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (N, D) of observed values, noise included."""
        moments, panel, inferred = self._value_moments(sequences)
        means, explained = self._left_out_moments(panel, moments, inferred)
        return means, explained + self._predictive_noise(sequences, inferred)

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return absolute leave-one-out errors, in predicted standard deviations of a value of weight one."""
        moments, panel, inferred = self._value_moments(sequences)
        means, explained = self._left_out_moments(panel, moments, inferred)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(sequences.values - means) / np.sqrt(explained + self.fitted.params.noise_variance)

    def compare_to_interpolation(self, sequences: Sequences) -> None:
        """Return None: outliers, which no model predicts, would dominate both errors."""

    def with_misfit_check(self, sequences: Sequences) -> Self:
        """Return the same model: Student-t noise allows for large errors."""
        return self

    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw the observation noise of new rows."""
        return self.noise.draw(shape, self._squared_scale, rng)

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values with Student-t noise around draws of the latent states."""
        params, values = self._state_space, sequences.values
        panel, inferred = self._infer(sequences)
        if self._integrates_ar1_noise(sequences):
            draws = IdiosyncraticPosterior(self.fitted.params, panel).draw_values(n_draws, rng)
        else:
            draws = params.offset + draw_factors(params, panel, n_draws, rng) @ params.loadings.T
        check_finite(sequences, params, draws)
        mask = sequences.mask.astype(np.float64)
        draws += self.noise.draw(draws.shape, self._squared_scale, rng, inferred.squared_residuals, mask)
        return np.where(np.isnan(values), draws, values)

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """Test the prediction errors of the model, transformed to normal scores."""
        fitted, noise = self.fitted, self.noise
        timed = sequences.with_time_unit(fitted.time_unit)
        params, values = self._state_space, sequences.values
        panel = self._panel(sequences)
        k = params.n_states
        steps = transition_table(params, panel.gaps).at(panel.gap_index)
        filtering = student.filter_rows(noise, params, panel, np.zeros(k), np.eye(k))
        transitions = steps.at(slice(0, panel.n_rows))
        predictions = one_step(fitted.predictive_params, transitions, filtering.means, filtering.covariances)
        check_finite(sequences, params, predictions.means)
        squared_scale = self._squared_scale

        def scores(values: FloatArray, means: FloatArray, explained: FloatArray) -> FloatArray:
            return noise.scores(values - means, explained, squared_scale)

        one_step_explained = predictions.std**2 - noise.variance * squared_scale
        by_kind = {"one step": scores(values, predictions.means, one_step_explained)}
        sample = self.sample_of(sequences)
        by_kind["cells"], by_kind["rows"] = self._left_out_scores(sample, squared_scale)
        if block < sample.n_rows:
            hidden = hide_blocks(sample.values, block, 0.1, random_state=0)
            remaining = replace(sample, values=np.where(hidden, np.nan, sample.values))
            moments, *_ = self._value_moments(remaining)
            by_kind["blocks"] = np.where(
                hidden, scores(sample.values, moments.means, moments.explained), np.nan
            )
        return self._diagnosed(PredictionErrors(*predictions, by_kind, block), timed, robust=True)

    def _left_out_scores(self, sample: Sequences, squared_scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return normal scores of leave-one-out errors, and of errors of values whose rows are left out."""
        params, values, noise = self._state_space, sample.values, self.noise
        panel, inferred = self._infer(sample)
        posterior = smooth(params, panel)
        weights = np.asarray(panel.value_weights[: sample.n_rows])
        means, explained = left_out_row_moments(
            params, values, posterior.means, posterior.covariances, weights
        )
        scores_of_rows = noise.scores(values - means, explained, squared_scale)
        means, explained = self._left_out_moments(panel, value_moments(params, panel), inferred)
        mask = sample.mask.astype(np.float64)
        scores_of_values = noise.scores_in_rows(
            values - means, explained, squared_scale, inferred.squared_residuals, mask
        )
        return scores_of_values, scores_of_rows


def model_from_parameters(
    params: StateSpace,
    *,
    time_unit: float = 1.0,
    axis: TimeAxis | None = None,
    tails: HeavyTails | None = None,
    options: FitOptions | None = None,
) -> LinearGaussianModel:
    """Return a model with given parameters, in data units.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model; factors may be in any order.
    time_unit : float, default=1.0
        Unit of time of the decays.
    axis : TimeAxis, optional
        Type and unit of the times; rows by default.
    tails : HeavyTails, optional
        Noise with heavy tails; Gaussian noise by default.
    options : FitOptions, optional
        Options of later fits.
    """
    scale = np.sqrt(np.sum(params.state_space.loadings**2, axis=1) + params.noise_variance)
    if options is None:
        options = FitOptions(params.n_components, robust=tails is not None)
    return model_of_fit(
        MaximumLikelihood(
            params=canonical(params, scale),
            shift=params.offset,
            scale=scale,
            time_unit=time_unit,
            log_likelihood=np.nan,
            history=np.empty(0),
            n_evaluations=0,
            converged=True,
            status=FitStatus.of("given", "The parameters are from from_parameters, not from a fit."),
            options=options,
            axis=TimeAxis() if axis is None else axis,
            tails=tails,
        )
    )


def model_of_fit(fitted: MaximumLikelihood) -> LinearGaussianModel:
    """Return a StudentModel, an OutlierModel or a LinearGaussianModel, as the result of the fit requires."""
    if fitted.tails is not None:
        return StudentModel(fitted)
    return LinearGaussianModel(fitted) if fitted.outlier_spread is None else OutlierModel(fitted)
