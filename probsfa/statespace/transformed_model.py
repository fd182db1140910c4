"""A fitted model with covariates and transforms of the columns.

A Gaussian model is fitted to ``y = T(x) - B u``. Each column has an increasing transform ``T``
(:mod:`.transforms`). Each row has covariates ``u``, with the coefficients ``B`` (:mod:`.covariates`).
Quantiles of ``x`` are inverse transforms of quantiles of ``y + B u``. Means and standard deviations of ``x``
are computed by numerical integration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from probsfa._like_input import like_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.covariates import Regression
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.engine.posterior import Posterior
from probsfa.statespace.filtering import FilterResult, FilterState, OneStep
from probsfa.statespace.fitted_model import delegated_to
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.regression import standard_errors_with_covariates
from probsfa.statespace.learning.standard_errors import StandardErrors
from probsfa.statespace.leave_one_out import InterpolationComparison, compare_with_interpolation
from probsfa.statespace.models import LinearGaussianModel, MaximumLikelihoodModel
from probsfa.statespace.news import News
from probsfa.statespace.prediction import Forecast, Imputation, ImputedDistribution, TransformedGaussian
from probsfa.statespace.transforms import Transforms

__all__ = ["TransformedFilterResult", "TransformedModel", "transformed_rows"]


@dataclass(frozen=True, eq=False)
class TransformedFilterResult(FilterResult):
    """Filter result of a model of transformed columns: predictions are in data units."""

    _inner: FilterResult = field(repr=False)
    _transforms: Transforms = field(repr=False)
    _effects: FloatArray | float = field(repr=False)

    @classmethod
    def in_data_units(
        cls,
        inner: FilterResult,
        transforms: Transforms,
        effects: FloatArray | float,
        log_jacobians: FloatArray,
    ) -> Self:
        """Return the result in data units.

        Parameters
        ----------
        inner : FilterResult
            Result for the transformed rows.
        transforms : Transforms
            The transforms of the columns.
        effects : ndarray of shape (T, D) or 0.0
            Effects of covariates.
        log_jacobians : ndarray of shape (T,)
            Log density of each row of data minus the log density of the transformed row.
        """
        log_likelihoods = inner.row_log_likelihoods + log_jacobians
        return cls(
            inner.means,
            inner.covariances,
            log_likelihoods,
            inner.state,
            inner._filtered,
            inner,
            transforms,
            effects,
        )

    @cached_property
    def _one_step(self) -> OneStep:
        return OneStep(
            *self._transforms.moments(self._inner.predictions + self._effects, self._inner.prediction_std)
        )

    @property
    def innovations(self) -> Any:
        """Standardized prediction errors of the transformed columns, shape (T, D); NaN where missing."""
        return like_array(self._like, self._inner.innovations)

    def quantile(self, probability: float) -> Any:
        """Return quantiles of the predictions in data units: ndarray of shape (T, D)."""
        predictions = TransformedGaussian(
            self._inner.predictions + self._effects, self._inner.prediction_std, self._transforms.inverse
        )
        return like_array(self._like, predictions.quantile(probability))


@delegated_to(
    lambda model: model.inner,
    lambda model, sequences: model.transform(sequences),
    "factor_means",
    "factor_moments",
    "outlier_scores",
    "draw_factors",
    "profile_timescale",
)
@dataclass(frozen=True, eq=False)
class TransformedModel(MaximumLikelihoodModel):
    """A model with covariates and transforms of the columns.

    Arguments and predictions are in data units. The docstring of a method names the units of other results.

    Attributes
    ----------
    inner : LinearGaussianModel
        The model of the transformed rows. The log-likelihood of its fit includes the Jacobian of the
        transforms.
    transforms : Transforms
        The transforms of the columns.
    regression : Regression or None
        Coefficients of covariates.
    """

    inner: LinearGaussianModel
    transforms: Transforms
    regression: Regression | None = field(default=None)

    @property
    def fitted(self) -> MaximumLikelihood:  # type: ignore[override]
        """Parameters in units of the transformed columns, and status of the fit."""
        return self.inner.fitted

    @property
    def factors_need_complete_rows(self) -> bool:  # type: ignore[override]
        """Whether `factor_means` requires complete rows."""
        return self.inner.factors_need_complete_rows

    @property
    def supports_irregular_times(self) -> bool:  # type: ignore[override]
        """Whether the time between rows may differ from one unit of time."""
        return self.inner.supports_irregular_times

    @property
    def n_parameters(self) -> int:
        """Number of free parameters, including coefficients and estimated powers of transforms."""
        n_coefficients = 0 if self.regression is None else self.regression.coefficients.size
        return self.inner.n_parameters + self.transforms.n_free + n_coefficients

    # ------------------------------------------------------------------------------- transforms

    def effects(self, sequences: Sequences) -> FloatArray | float:
        """Return the effects of covariates on each value (N, D), in units of the transformed columns."""
        return 0.0 if self.regression is None else self.regression.effects(sequences.exog)

    def transform(self, sequences: Sequences) -> Sequences:
        """Return the transformed rows, less the effects of covariates."""
        return transformed_rows(sequences, self.transforms, self.regression)

    # ---------------------------------------------------------------------------------------- methods

    def posterior(self, sequences: Sequences) -> Posterior:
        """Return the distribution of the latent states, and log-likelihoods of the rows of data."""
        posterior = self.inner.posterior(self.transform(sequences))
        log_jacobians = self.transforms.log_slopes(sequences.values)
        return posterior._replace(row_log_likelihoods=posterior.row_log_likelihoods + log_jacobians)

    def filter(self, sequences: Sequences, state: FilterState | None) -> list[FilterResult]:
        """Return the filtered distribution of the latent states, with predictions in data units."""
        results = self.inner.filter(self.transform(sequences), state)
        log_jacobians, effects = self.transforms.log_slopes(sequences.values), self.effects(sequences)
        return [
            TransformedFilterResult.in_data_units(
                result,
                self.transforms,
                effects if isinstance(effects, float) else effects[rows],
                log_jacobians[rows],
            )
            for result, rows in zip(results, sequences.slices, strict=True)
        ]

    def log_likelihood(self, sequences: Sequences) -> float:
        """Return the log-likelihood of all rows of data, in nats."""
        log_jacobian = float(np.sum(self.transforms.log_slopes(sequences.values)))
        return self.inner.log_likelihood(self.transform(sequences)) + log_jacobian

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values by their means in data units, with standard deviations."""
        missing = ~sequences.mask
        filled = self.inner.impute(self.transform(sequences), with_std=with_std or bool(self.transforms.used))
        # Means in data units depend on standard deviations only if a column is transformed.
        std = np.zeros_like(filled.values) if filled.std is None else filled.std
        means = filled.values + self.effects(sequences)
        values, std = self.transforms.moments(means, std, missing)
        values = np.where(missing, values, sequences.values)
        comparison = filled.interpolation_check
        if comparison is not None:
            comparison = self.compare_to_interpolation(sequences) or comparison
        if not with_std:
            return Imputation(values, None, comparison)
        assert filled.std is not None
        predictions = TransformedGaussian(means, filled.std, self.transforms.inverse)
        distribution = ImputedDistribution(sequences.values, predictions)
        return Imputation(values, np.where(missing, std, 0.0), comparison, distribution)

    def compare_to_interpolation(self, sequences: Sequences) -> InterpolationComparison | None:
        """Compare leave-one-out errors of the model with those of linear interpolation, in data units."""
        if self.factors_need_complete_rows:
            return None
        sample = self.inner.sample_of(sequences)
        means, variances = self.inner.leave_one_out_moments(self.transform(sample))
        is_determined = ~np.isnan(means)
        means = means + self.effects(sample)
        predictions = self.transforms.moments(means, np.sqrt(variances), is_determined)[0]
        return compare_with_interpolation(sample, predictions)

    def with_misfit_check(self, sequences: Sequences) -> Self:
        """Return the model with a warning in its status if one-step predictions have very large errors."""
        return replace(self, inner=self.inner.with_misfit_check(self.transform(sequences)))

    def with_fitted(self, fitted: MaximumLikelihood) -> Self:
        """Return the model with another result of the fit."""
        return replace(self, inner=self.inner.with_fitted(fitted))

    def contributions(self, sequences: Sequences) -> FloatArray:
        """Return contributions of factors, AR(1) noise and covariates to each transformed value."""
        contributions = self.inner.contributions(self.transform(sequences))
        if self.regression is None or sequences.exog is None:
            return contributions
        effects = sequences.exog[:, None, :] * self.regression.coefficients
        return np.concatenate([contributions, effects], axis=2)

    def forecast(
        self,
        sequences: Sequences,
        steps: Sequence[FloatArray],
        future_exog: Sequence[FloatArray] | None = None,
    ) -> list[Forecast]:
        """Forecast each sequence at times (H,) after its last row, given covariates (H, P)."""
        forecasts = self.inner.forecast(self.transform(sequences), steps)
        effects: list[FloatArray | float] = [0.0] * len(forecasts)
        if self.regression is not None:
            assert future_exog is not None
            effects = [self.regression.effects(rows) for rows in future_exog]
        return [
            one.with_distribution(
                TransformedGaussian(one.means + effect, one.std, self.transforms.inverse),
                *self.transforms.moments(one.means + effect, one.std),
            )
            for one, effect in zip(forecasts, effects, strict=True)
        ]

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Draw observations, in data units, and latent states from the model."""
        draws, factors = self.inner.sample(n_steps, rng)
        effects = 0.0 if self.regression is None else self.regression.effects(exog)
        return self.transforms.inverse(draws + effects), factors

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values, in data units, from their joint distribution given the observed values."""
        draws = self.inner.draw_values(self.transform(sequences), n_draws, rng)
        draws = self.transforms.inverse(draws + self.effects(sequences))
        return np.where(sequences.mask, sequences.values, draws)

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """Attribute the change of a prediction to new values, in units of the transformed columns."""
        news = self.inner.news(self.transform(old), self.transform(new), target)
        effects = self.effects(new)
        if isinstance(effects, float):
            return news
        effects_of_news = effects[news.rows, news.columns]
        return news._replace(
            before=news.before + float(effects[target]),
            after=news.after + float(effects[target]),
            expected=news.expected + effects_of_news,
            observed=news.observed + effects_of_news,
        )

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """Test the prediction errors of the model; predictions are in data units, errors standardized."""
        diagnostics = self.inner.diagnose(self.transform(sequences), block)
        means = diagnostics.predictions + self.effects(sequences)
        means, std = self.transforms.moments(means, diagnostics.prediction_std)
        return replace(diagnostics, predictions=means, prediction_std=std)

    def standard_errors(self, sequences: Sequences) -> StandardErrors:
        """Return standard errors of parameters and coefficients, in units of the transformed columns."""
        if self.regression is None:
            return self.inner.standard_errors(self.transform(sequences))
        if self.fitted.tails is not None:
            return self.inner.standard_errors(sequences)  # raises an error: not supported
        rows = replace(sequences, values=self.transforms.forward(sequences.values))
        return standard_errors_with_covariates(self.regression, self.fitted, rows)

    def arrays_to_save(self) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the model of the transformed rows."""
        return self.inner.arrays_to_save()


def transformed_rows(
    sequences: Sequences, transforms: Transforms, regression: Regression | None = None
) -> Sequences:
    """Return transformed rows, less the effects of covariates.

    Raises
    ------
    ValueError
        If a value is outside the domain of its column's transform.
    """
    transforms.check(sequences.values, sequences.feature_names)
    values = transforms.forward(sequences.values)
    if regression is not None:
        values = values - regression.effects(sequences.exog)
    return replace(sequences, values=values, exog=None)
