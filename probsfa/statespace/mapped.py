"""A fitted model of columns in their own scale, less the effects of covariates.

The model is of ``y = T(x) - B u``, with one increasing map for each column (:mod:`.transforms`) and known
inputs ``u`` of each row (:mod:`.covariates`). All that concerns the latents is that of the model of ``y``. A
Gaussian of a cell of ``y`` becomes one of ``T(x)`` by adding ``B u``, and a distribution of ``x`` by the map.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.covariates import Regression
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.filtering import FilterResult, FilterState, OneStep
from probsfa.statespace.fitted_model import MaximumLikelihoodModel
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.profile import TimescaleProfile
from probsfa.statespace.learning.regression import standard_errors_with
from probsfa.statespace.learning.standard_errors import StandardErrors
from probsfa.statespace.leave_one_out import Comparison, compare_with_interpolation
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.news import News
from probsfa.statespace.posterior import Posterior
from probsfa.statespace.prediction import CellDistribution, Forecast, Imputation, ImputedCells
from probsfa.statespace.transforms import Transforms

__all__ = ["MappedFilterResult", "MappedModel", "mapped"]


@dataclass(frozen=True, eq=False)
class MappedFilterResult(FilterResult):
    """The same, of a model of mapped columns: predictions are in data units."""

    _inner: FilterResult = field(repr=False)
    _transforms: Transforms = field(repr=False)
    _effects: FloatArray | float = field(repr=False)

    @classmethod
    def around(
        cls, inner: FilterResult, transforms: Transforms, effects: FloatArray | float, slopes: FloatArray
    ) -> Self:
        """The result of a model of mapped rows.

        Parameters
        ----------
        inner : FilterResult
            Of the mapped rows.
        transforms : Transforms
            The maps of the columns.
        effects : ndarray of shape (T, D) or 0.0
            Effects of covariates.
        slopes : ndarray of shape (T,)
            What the log density of each row of data exceeds that of the mapped row by.
        """
        log_likelihoods = inner.row_log_likelihoods + slopes
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
    def innovations(self) -> FloatArray:
        """Standardised prediction errors in the scales of the columns, shape (T, D); NaN where missing."""
        return self._inner.innovations

    def quantile(self, probability: float) -> FloatArray:
        """Quantiles of the predictions, in data units: ndarray of shape (T, D)."""
        cells = CellDistribution(
            self._inner.predictions + self._effects, self._inner.prediction_std, self._transforms.inverse
        )
        return cells.quantile(probability)


@dataclass(frozen=True, eq=False)
class MappedModel(MaximumLikelihoodModel):
    """A model of transformed columns, less effects of covariates; its methods are of data in their own units.

    Attributes
    ----------
    inner : FittedModel
        The model of the mapped rows; its log-likelihood is that of the data.
    transforms : Transforms
        The maps of the columns.
    regression : Regression or None
        Coefficients of covariates.
    """

    inner: MaximumLikelihoodModel
    transforms: Transforms
    regression: Regression | None = field(default=None)

    @property
    def fitted(self) -> MaximumLikelihood:  # type: ignore[override]
        """Parameters in the scales of the columns, and how the fit ended."""
        return self.inner.fitted

    @property
    def factors_of_complete_rows(self) -> bool:
        """As of the model of the mapped rows."""
        return self.inner.factors_of_complete_rows

    def check(self, sequences: Sequences) -> None:
        """As of the model of the mapped rows."""
        self.inner.check(sequences)

    @property
    def n_parameters(self) -> int:
        """Those of the model of the mapped rows, coefficients, and powers that were learned."""
        coefficients = 0 if self.regression is None else self.regression.coefficients.size
        return self.inner.n_parameters + self.transforms.n_free + coefficients

    # ------------------------------------------------------------------------------- there and back

    def effects(self, sequences: Sequences) -> FloatArray | float:
        """What covariates add to each cell (N, D), in the scales of the columns."""
        return 0.0 if self.regression is None else self.regression.effects(sequences.exog)

    def map(self, sequences: Sequences) -> Sequences:
        """The rows as the model of the mapped ones takes them."""
        return mapped(sequences, self.transforms, self.regression)

    def _to_data(
        self,
        means: FloatArray,
        std: FloatArray,
        effects: FloatArray | float,
        where: BoolArray | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Moments of cells in data units, from those of mapped cells."""
        return self.transforms.moments(means + effects, std, where)

    # ------------------------------------------------------------------------------------------ verbs

    def factor_means(self, sequences: Sequences) -> FloatArray:
        """Posterior means of the factors given all rows of each sequence."""
        return self.inner.factor_means(self.map(sequences))

    def posterior(self, sequences: Sequences) -> Posterior:
        """Distribution of the latents; log-likelihoods are those of the data."""
        whole = self.inner.posterior(self.map(sequences))
        slopes = self.transforms.log_slopes(sequences.values)
        return whole._replace(row_log_likelihoods=whole.row_log_likelihoods + slopes)

    def filter(self, sequences: Sequences, state: FilterState | None) -> list[FilterResult]:
        """Distribution of the latents given the rows up to their own; predictions in data units."""
        results = self.inner.filter(self.map(sequences), state)
        slopes, effects = self.transforms.log_slopes(sequences.values), self.effects(sequences)
        return [
            MappedFilterResult.around(
                one, self.transforms, effects if isinstance(effects, float) else effects[rows], slopes[rows]
            )
            for one, rows in zip(results, sequences.slices, strict=True)
        ]

    def log_likelihood(self, sequences: Sequences) -> float:
        """Log-likelihood of all rows of data, in nats."""
        slopes = float(np.sum(self.transforms.log_slopes(sequences.values)))
        return self.inner.log_likelihood(self.map(sequences)) + slopes

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Values with missing cells filled by their means in data units, and standard deviations."""
        missing = ~sequences.mask
        filled = self.inner.impute(self.map(sequences), with_std=with_std or bool(self.transforms.used))
        # Where there is no map, no standard deviation is asked for, and none is needed.
        std = np.zeros_like(filled.values) if filled.std is None else filled.std
        means, std = self._to_data(filled.values, std, self.effects(sequences), missing)
        values = np.where(missing, means, sequences.values)
        comparison = filled.beside_interpolation
        if comparison is not None:
            comparison = self._compare(sequences) or comparison
        if not with_std:
            return Imputation(values, None, comparison)
        assert filled.std is not None
        mapped_cells = CellDistribution(
            filled.values + self.effects(sequences), filled.std, self.transforms.inverse
        )
        cells = ImputedCells(sequences.values, mapped_cells)
        return Imputation(values, np.where(missing, std, 0.0), comparison, cells)

    def _compare(self, sequences: Sequences) -> Comparison | None:
        """How the model and straight lines find observed cells again, in data units."""
        if not isinstance(self.inner, LinearGaussianModel):
            return None
        sample = self.inner.sample_of(sequences)
        means, variances = self.inner.left_out(self.map(sample))
        told = ~np.isnan(means)
        by_model = self._to_data(means, np.sqrt(variances), self.effects(sample), told)[0]
        return compare_with_interpolation(sample, by_model)

    def beside_interpolation(self, sequences: Sequences) -> Self:
        """The same model; its status says so where straight lines find observed cells as well."""
        comparison = self._compare(sequences)
        if comparison is None or not comparison.sentence:
            return self
        status = self.fitted.status.adding("interpolation", comparison.sentence)
        return self.with_fitted(replace(self.fitted, status=status))

    def with_gross_misfit(self, sequences: Sequences) -> Self:
        """The same model; its status says so where predictions one row ahead are far off."""
        if not isinstance(self.inner, LinearGaussianModel):
            return self
        return replace(self, inner=self.inner.with_gross_misfit(self.map(sequences)))

    def with_fitted(self, fitted: MaximumLikelihood) -> Self:
        """The same model with another account of how the fit ended."""
        return replace(self, inner=replace(self.inner, fitted=fitted))  # type: ignore[type-var]

    def outlier_scores(self, sequences: Sequences) -> FloatArray:
        """Distance of each observed cell from what the others say, in the scales of the columns."""
        return self.inner.outlier_scores(self.map(sequences))

    def contributions(self, sequences: Sequences) -> FloatArray:
        """What each latent, and last each covariate, contributes to each cell, in the columns' scales."""
        whole = self.inner.contributions(self.map(sequences))
        if self.regression is None or sequences.exog is None:
            return whole
        effects = sequences.exog[:, None, :] * self.regression.coefficients
        return np.concatenate([whole, effects], axis=2)

    def forecast(
        self, sequences: Sequences, steps: Sequence[FloatArray], ahead: Sequence[FloatArray] | None = None
    ) -> list[Forecast]:
        """Distribution after each sequence, with the covariates (H, P) of each; in data units."""
        forecasts = self.inner.forecast(self.map(sequences), steps)
        effects: list[FloatArray | float] = [0.0] * len(forecasts)
        if self.regression is not None:
            assert ahead is not None
            effects = [self.regression.effects(rows) for rows in ahead]
        return [
            one.of_cells(
                CellDistribution(one.means + effect, one.std, self.transforms.inverse),
                *(self._to_data(one.means, one.std, effect)),
            )
            for one, effect in zip(forecasts, effects, strict=True)
        ]

    def sample(
        self, n_steps: int, rng: np.random.Generator, exog: FloatArray | None = None
    ) -> tuple[FloatArray, ...]:
        """Observations and latents drawn from the model, in data units."""
        drawn, latents = self.inner.sample(n_steps, rng)
        effects = 0.0 if self.regression is None else self.regression.effects(exog)
        return self.transforms.inverse(drawn + effects), latents

    def draw_latents(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Courses of the latents, from their joint distribution given the data."""
        return self.inner.draw_latents(self.map(sequences), n_draws, rng)

    def draw_cells(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Cells, missing ones drawn from their joint distribution given the others, in data units."""
        drawn = self.inner.draw_cells(self.map(sequences), n_draws, rng)
        cells = self.transforms.inverse(drawn + self.effects(sequences))
        return np.where(sequences.mask, sequences.values, cells)

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """What moved the prediction of a cell, in the scales of the columns."""
        told = self.inner.news(self.map(old), self.map(new), target)
        effects = self.effects(new)
        if isinstance(effects, float):
            return told
        at = effects[told.rows, told.columns]
        return told._replace(
            before=told.before + float(effects[target]),
            after=told.after + float(effects[target]),
            expected=told.expected + at,
            observed=told.observed + at,
        )

    def diagnose(self, sequences: Sequences, block: int) -> Diagnostics:
        """What prediction errors say of the model; predictions in data units, errors standardised."""
        told = self.inner.diagnose(self.map(sequences), block)
        means, std = self._to_data(told.predictions, told.prediction_std, self.effects(sequences))
        return replace(told, predictions=means, prediction_std=std)

    def standard_errors(self, sequences: Sequences) -> StandardErrors:
        """Standard errors of the parameters, with those of coefficients, in the scales of the columns."""
        if self.regression is None:
            return self.inner.standard_errors(self.map(sequences))
        if self.fitted.degrees_of_freedom is not None:  # which refuses
            return self.inner.standard_errors(sequences)
        in_scale = replace(sequences, values=self.transforms.forward(sequences.values))
        return standard_errors_with(self.regression, self.fitted, in_scale)

    def profile_timescale(self, sequences: Sequences, component: int, level: float) -> TimescaleProfile:
        """Interval of the time scale of a latent; coefficients of covariates are held."""
        return self.inner.profile_timescale(self.map(sequences), component, level)

    def arrays_to_save(self) -> Mapping[str, NDArray[Any]]:
        """As of the model of the mapped rows."""
        return self.inner.arrays_to_save()


def mapped(sequences: Sequences, transforms: Transforms, regression: Regression | None = None) -> Sequences:
    """Rows in the scales of their columns, less the effects of covariates.

    Raises
    ------
    ValueError
        If a value is outside the domain of its column's map.
    """
    transforms.check(sequences.values, sequences.feature_names)
    values = transforms.forward(sequences.values)
    if regression is not None:
        values = values - regression.effects(sequences.exog)
    return replace(sequences, values=values, exog=None)
