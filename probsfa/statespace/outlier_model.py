"""A fitted Gaussian model that leaves out gross outliers.

A value is left out under two conditions. First, it is far from the four observed values of its column that
are nearest in time. Second, it contradicts the model: its log density, given all values that do not meet the
first condition, is more than 12.5 nats below the maximum of this density. The cost is one additional
posterior.

Because the first condition does not depend on a model, outliers cannot mask each other. Because of the
second, steps and bursts that other columns or rows explain are not left out.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.fitted_model import delegated_to
from probsfa.statespace.gross_outliers import distance_from_adjacent, robust_spread
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.news import News
from probsfa.statespace.prediction import Imputation

__all__ = ["OutlierModel", "far_from_neighbours", "spread_of_dominated"]

# Robust standard deviations from the median of adjacent values beyond which a value may be an outlier.
_MIN_DEVIATIONS = 6.0
# A few values dominate a column if they are at most this share of its values and have at least this share of
# the sum of squared distances from adjacent values.
_MAX_OUTLIER_SHARE, _MIN_SHARE_OF_SQUARES = 0.02, 0.5


def spread_of_dominated(values: FloatArray, lengths: Sequence[int]) -> FloatArray:
    """Return robust spreads of columns in which a few values dominate, zero for other columns.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        All rows, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of shape (D,)
        Robust standard deviations of distances from the median of the four adjacent observed values.
    """
    errors = distance_from_adjacent(values, lengths)
    spread = robust_spread(errors)
    squares = np.where(np.isnan(errors), 0.0, errors) ** 2
    far = squares > (_MIN_DEVIATIONS * spread) ** 2
    few = far.sum(axis=0) <= _MAX_OUTLIER_SHARE * np.count_nonzero(~np.isnan(errors), axis=0)
    dominant = np.sum(squares, axis=0, where=far) >= _MIN_SHARE_OF_SQUARES * squares.sum(axis=0)
    return np.where(few & dominant & far.any(axis=0), spread, 0.0)


def far_from_neighbours(sequences: Sequences, spread: FloatArray) -> BoolArray:
    """Return which values (N, D) are more than six spreads (D,) from the median of adjacent values."""
    far = np.zeros(sequences.values.shape, dtype=bool)
    tested = np.flatnonzero(spread > 0.0)
    errors = distance_from_adjacent(sequences.values[:, tested], sequences.lengths)
    far[:, tested] = np.abs(np.nan_to_num(errors)) > _MIN_DEVIATIONS * spread[tested]
    return far


@delegated_to(
    lambda model: super(OutlierModel, model),
    lambda model, sequences: model.cleaned(sequences),
    "posterior",
    "factor_means",
    "log_likelihood",
    "contributions",
    "forecast",
    "draw_factors",
    "with_interpolation_check",
    "with_misfit_check",
    "diagnose",
    "standard_errors",
    "profile_timescale",
)
@dataclass(frozen=True, eq=False)
class OutlierModel(LinearGaussianModel):
    """A Gaussian model whose methods treat gross outliers in the data as missing.

    `filter` uses all values, because outliers are identified with the help of later values.
    """

    @classmethod
    def of(cls, fitted: MaximumLikelihood, spread: FloatArray) -> Self:
        """Return the model with the spreads (D,) of columns that may have outliers, zero for others."""
        return cls(replace(fitted, outlier_spread=spread))

    def outliers(self, sequences: Sequences) -> BoolArray:
        """Return which values (N, D) are outliers."""
        return sequences.mask & ~self.cleaned(sequences).mask

    def cleaned(self, sequences: Sequences) -> Sequences:
        """Return the rows with outliers missing; the same rows if there are none."""
        spread = self.fitted.outlier_spread
        assert spread is not None
        far = far_from_neighbours(sequences, spread)
        if not far.any():
            return sequences
        rest = replace(sequences, values=np.where(far, np.nan, sequences.values))
        predicted = super()._impute(rest, with_std=True)
        assert predicted.std is not None
        scores = np.zeros(far.shape)
        scores[far] = (sequences.values[far] - predicted.values[far]) / predicted.std[far]
        # Difference in nats between the maximum of the predictive log density and that of an outlier: five
        # standard deviations, which one in two million normal errors exceeds.
        out = 0.5 * scores**2 > 12.5
        if not out.any():
            return sequences
        return replace(sequences, values=np.where(out, np.nan, sequences.values))

    def leave_one_out_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (N, D) of observed values given all others but outliers."""
        cleaned = self.cleaned(sequences)
        means, variances = super().leave_one_out_moments(cleaned)
        out = sequences.mask & ~cleaned.mask
        if out.any():
            filled = super()._impute(cleaned, with_std=True)
            assert filled.std is not None
            means, variances = np.where(out, filled.values, means), np.where(out, filled.std**2, variances)
        return means, variances

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values from all values but outliers; outliers are not changed."""
        filled = super().impute(self.cleaned(sequences), with_std=with_std)
        std = None if filled.std is None else np.where(sequences.mask, 0.0, filled.std)
        values = np.where(sequences.mask, sequences.values, filled.values)
        return filled._replace(values=values, std=std)

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values given all values but outliers; outliers are not changed."""
        draws = super().draw_values(self.cleaned(sequences), n_draws, rng)
        return np.where(sequences.mask, sequences.values, draws)

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """Return the news of all values but outliers."""
        cleaned = self.cleaned(new)
        values = np.where(cleaned.mask, old.values, np.nan)
        return super().news(replace(old, values=values), cleaned, target)
