"""A fitted model with Student-t noise, and its methods.

Each method infers the weights of the values in its rows, at the fitted parameters (see :mod:`.student`).
Given the weights, the posterior is that of a Gaussian model. Log-likelihoods are lower bounds.
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
from probsfa.statespace.diagnostics import Diagnostics, PredictionErrors, left_out_row_moments
from probsfa.statespace.engine.dynamics import transition_table
from probsfa.statespace.engine.posterior import check_finite, draw_latents, smooth
from probsfa.statespace.filtering import FilterRows, one_step
from probsfa.statespace.learning.maximum_likelihood import FitStatus, MaximumLikelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.leave_one_out import compare_with_interpolation, leave_one_out_moments
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import HeavyTails
from probsfa.statespace.outlier_model import OutlierModel
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace, canonical
from probsfa.statespace.prediction import Imputation, fill
from probsfa.statespace.student import CellMoments, Inferred, cell_moments, infer_weights

__all__ = ["StudentModel", "model_of", "with_noise"]


@dataclass(frozen=True, eq=False)
class StudentModel(LinearGaussianModel):
    """The factorial AR(1) model with Student-t noise, at fitted parameters."""

    refusals: ClassVar[Mapping[str, str]] = {
        # Not supported: new values change the weights of others, so that news is not a sum over values.
        "news": "news is not supported with robust noise, where a new value changes the weights of others. "
        "Compare `impute` or `forecast` before and after.",
        "standard_errors": "standard_errors is not supported with robust noise: the curvature of the lower "
        "bound is not that of the likelihood. Fit again to series of `sample` "
        "(parametric bootstrap).",
        "profile_timescale": "profile_timescale is not supported with robust noise: the profile of the "
        "lower bound is not that of the likelihood. Fit again to series of `sample` "
        "(parametric bootstrap).",
    }

    @property
    def noise(self) -> HeavyTails:
        """Distribution of the weights, and which values share one."""
        assert self.fitted.tails is not None
        return self.fitted.tails

    @property
    def _scale(self) -> FloatArray:
        """Squared scales (D,) of the noise; zero for constant columns."""
        return self.fitted.predictive_params.noise_variance / self.noise.variance

    @property
    def n_parameters(self) -> int:
        """Number of free parameters: that with Gaussian noise, and those of its tails."""
        return super().n_parameters + self.noise.n_parameters

    def _panel(self, sequences: Sequences) -> Panel:
        """Return packed rows, marked as not complete because their weights differ."""
        return super()._panel(sequences)._replace(complete=False)

    def _infer(self, sequences: Sequences) -> tuple[Panel, Inferred]:
        """Return packed rows with inferred weights, and the result of the inference."""
        panel = self._panel(sequences)
        inferred = infer_weights(self._state_space, panel, self.noise)
        check_finite(sequences, self._state_space, inferred.bound, inferred.discrepancies)
        return panel.weighted(inferred.weights.values), inferred

    @property
    def _filter_rows(self) -> FilterRows:
        return partial(student.filter_rows, self.noise)

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return a lower bound of the log-likelihood of all rows, in nats."""
        return self._infer(self.varying(sequences))[1].bound

    def _cells(self, sequences: Sequences) -> tuple[CellMoments, Inferred]:
        """Return moments of the noise-free values given all rows."""
        panel, inferred = self._infer(sequences)
        moments = cell_moments(self._state_space, panel)
        check_finite(sequences, self._state_space, moments.means, moments.explained)
        return moments, inferred

    def _noise_of_new_cells(self, sequences: Sequences, inferred: Inferred) -> FloatArray:
        """Return noise variances (N, D) of new values of the same rows."""
        mask = sequences.mask.astype(np.float64)
        if not self.noise.by_row:
            return np.broadcast_to(self.fitted.predictive_params.noise_variance, mask.shape)
        spread = self.noise.expected_variances(inferred.discrepancies, mask)
        return spread * self.fitted.predictive_params.noise_variance / self.noise.variance

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values, with standard deviations of predicted observations."""
        moments, inferred = self._cells(sequences)
        noise = self._noise_of_new_cells(sequences, inferred)
        values, std = fill(sequences.values, moments.means, moments.explained + noise)
        std = np.where(sequences.mask, std, self._infinite_if_observed_once(std))
        if sequences.mask.all():
            return Imputation(values, std)
        left_out_means = self._without_own(sequences, moments, inferred)[0]
        return Imputation(values, std, compare_with_interpolation(sequences, left_out_means))

    def _without_own(
        self, sequences: Sequences, moments: CellMoments, inferred: Inferred
    ) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (N, D) of noise-free values, at the inferred weights."""
        weights = inferred.weights.values[: sequences.n_rows]
        own = self.fitted.params.noise_variance / np.where(sequences.mask, weights, 1.0)
        mean, variance = leave_one_out_moments(sequences.values, moments.means, moments.explained + own, own)
        return mean, np.maximum(variance - own, 0.0)

    def leave_one_out_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return leave-one-out means and variances (N, D) of observed values, noise included."""
        moments, inferred = self._cells(sequences)
        mean, explained = self._without_own(sequences, moments, inferred)
        return mean, explained + self._noise_of_new_cells(sequences, inferred)

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Return leave-one-out errors of observed values in standard deviations, with noise of weight one."""
        moments, inferred = self._cells(sequences)
        mean, explained = self._without_own(sequences, moments, inferred)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.abs(sequences.values - mean) / np.sqrt(explained + self.fitted.params.noise_variance)

    def comparison(self, sequences: Sequences) -> None:
        """Return None: neither the model nor linear interpolation predicts outliers."""

    def with_misfit_check(self, sequences: Sequences) -> Self:
        """Return the same model: Student-t noise allows for large errors."""
        return self

    def _draw_noise(self, shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
        """Draw noise of new rows."""
        return self.noise.draw(shape, self._scale, rng)

    def draw_cells(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values with Student-t noise around draws of the latent states."""
        params, values = self._state_space, sequences.values
        panel, inferred = self._infer(sequences)
        draws = params.offset + draw_latents(params, panel, n_draws, rng) @ params.loadings.T
        check_finite(sequences, params, draws)
        mask = sequences.mask.astype(np.float64)
        draws += self.noise.draw(draws.shape, self._scale, rng, inferred.discrepancies, mask)
        return np.where(np.isnan(values), draws, values)

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """Test the prediction errors of the model, transformed to normal scores."""
        fitted, noise = self.fitted, self.noise
        timed = sequences.retimed(fitted.time_unit)
        params, values = self._state_space, sequences.values
        panel = self._panel(sequences)
        k = params.n_states
        steps = transition_table(params, panel.gaps).at(panel.gap_index)
        filtering = student.filter_rows(noise, params, panel, np.zeros(k), np.eye(k))
        transitions = steps.at(slice(0, panel.n_rows))
        ahead = one_step(fitted.predictive_params, transitions, filtering.means, filtering.covariances)
        check_finite(sequences, params, ahead.means)

        def scores(data: FloatArray, means: FloatArray, explained: FloatArray) -> FloatArray:
            return noise.scores(data - means, explained, scale)

        scale = self._scale
        by_kind = {"one step": scores(values, ahead.means, ahead.std**2 - noise.variance * scale)}
        sample = self.sample_of(sequences)
        by_kind["cells"], by_kind["rows"] = self._scores_left_out(sample, scale)
        if block < sample.n_rows:
            hidden = hide_blocks(sample.values, block, 0.1, random_state=0)
            remaining = replace(sample, values=np.where(hidden, np.nan, sample.values))
            moments, _ = self._cells(remaining)
            by_kind["blocks"] = np.where(
                hidden, scores(sample.values, moments.means, moments.explained), np.nan
            )
        return self._diagnosed(PredictionErrors(*ahead, by_kind, block), timed, robust=True)

    def _scores_left_out(self, sample: Sequences, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return normal scores of values left out one at a time, and in whole rows."""
        params, values, noise = self._state_space, sample.values, self.noise
        panel, inferred = self._infer(sample)
        full = smooth(params, panel)
        weights = np.asarray(panel.cell_weights[: sample.n_rows])
        means, explained = left_out_row_moments(params, values, full.means, full.covariances, weights)
        rows = noise.scores(values - means, explained, scale)
        mean, left_out_variance = self._without_own(sample, cell_moments(params, panel), inferred)
        mask = sample.mask.astype(np.float64)
        return noise.scores_in_rows(
            values - mean, left_out_variance, scale, inferred.discrepancies, mask
        ), rows


def model_of(
    params: StateSpace,
    *,
    time_unit: float = 1.0,
    axis: TimeAxis | None = None,
    tails: HeavyTails | None = None,
    options: FitOptions | None = None,
) -> LinearGaussianModel:
    """Return a model with the given parameters, in data units, without a fit.

    Parameters
    ----------
    params : StateSpace
        Factors may be in any order.
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
    return with_noise(
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


def with_noise(fitted: MaximumLikelihood) -> LinearGaussianModel:
    """Return the model of a fit: with Student-t noise, without outliers, or Gaussian."""
    if fitted.tails is not None:
        return StudentModel(fitted)
    return LinearGaussianModel(fitted) if fitted.outlier_spread is None else OutlierModel(fitted)
