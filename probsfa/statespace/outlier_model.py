"""A fitted Gaussian model that treats gross outliers as missing values.

A value is an outlier under two conditions. First, it is far from the median of the four observed values of
its column that are nearest in time. Second, its predictive log density is more than 12.5 nats below the
maximum of this density; predictions use only values that do not meet the first condition. To test the second
condition, one additional smoother pass is required.

The first condition does not depend on a model, so that outliers cannot mask each other. With the second
condition, steps and bursts that other columns or rows predict are not outliers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.fitted_model import delegated_to
from probsfa.statespace.gross_outliers import distance_from_adjacent, robust_scale
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.news import News
from probsfa.statespace.prediction import Imputation

__all__ = ["OutlierModel", "far_from_adjacent", "robust_scale_with_outliers"]

# Minimum distance of an outlier from the median of adjacent values, in robust standard deviations.
_MIN_DEVIATIONS = 6.0
# A few outliers dominate a column if they are at most 2 % of its values, but account for at least half of the
# sum of squared distances from adjacent values.
_MAX_OUTLIER_SHARE, _MIN_SHARE_OF_SQUARES = 0.02, 0.5


def robust_scale_with_outliers(values: FloatArray, lengths: Sequence[int]) -> FloatArray:
    """Return robust standard deviations of columns that a few outliers dominate; zero for other columns.

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
    scale = robust_scale(errors)
    squares = np.where(np.isnan(errors), 0.0, errors) ** 2
    is_far = squares > (_MIN_DEVIATIONS * scale) ** 2
    are_few = is_far.sum(axis=0) <= _MAX_OUTLIER_SHARE * np.count_nonzero(~np.isnan(errors), axis=0)
    are_dominant = np.sum(squares, axis=0, where=is_far) >= _MIN_SHARE_OF_SQUARES * squares.sum(axis=0)
    return np.where(are_few & are_dominant & is_far.any(axis=0), scale, 0.0)


def far_from_adjacent(sequences: Sequences, spread: FloatArray) -> BoolArray:
    """Return a mask (N, D) of values far from the median of adjacent values.

    A value is far if its distance exceeds six times `spread` (D,), the robust standard deviation of its
    column. If `spread` is zero, no value of the column is far.
    """
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
        """Return the model of a fit; `spread` (D,) is the result of :func:`robust_scale_with_outliers`."""
        return cls(replace(fitted, outlier_spread=spread))

    def outliers(self, sequences: Sequences) -> BoolArray:
        """Return which values (N, D) are outliers."""
        return sequences.mask & ~self.cleaned(sequences).mask

    def cleaned(self, sequences: Sequences) -> Sequences:
        """Return the rows with outliers replaced by NaN; the same object if there are no outliers."""
        spread = self.fitted.outlier_spread
        assert spread is not None
        far = far_from_adjacent(sequences, spread)
        if not far.any():
            return sequences
        without_candidates = replace(sequences, values=np.where(far, np.nan, sequences.values))
        predicted = super()._impute(without_candidates, with_std=True)
        assert predicted.std is not None
        scores = np.zeros(far.shape)
        scores[far] = (sequences.values[far] - predicted.values[far]) / predicted.std[far]
        # The difference of 12.5 nats corresponds to five standard deviations, which one in two million normal
        # errors exceeds.
        is_outlier = 0.5 * scores**2 > 12.5
        if not is_outlier.any():
            return sequences
        return replace(sequences, values=np.where(is_outlier, np.nan, sequences.values))

    def leave_one_out_moments(self, sequences: Sequences) -> tuple[FloatArray, FloatArray]:
        """Return means and variances (N, D) of observed values given all other values except outliers."""
        cleaned = self.cleaned(sequences)
        means, variances = super().leave_one_out_moments(cleaned)
        is_outlier = sequences.mask & ~cleaned.mask
        if is_outlier.any():
            filled = super()._impute(cleaned, with_std=True)
            assert filled.std is not None
            means, variances = (
                np.where(is_outlier, filled.values, means),
                np.where(is_outlier, filled.std**2, variances),
            )
        return means, variances

    def impute(self, sequences: Sequences, *, with_std: bool = True) -> Imputation:
        """Impute missing values given all values except outliers; outliers are not changed."""
        filled = super().impute(self.cleaned(sequences), with_std=with_std)
        std = None if filled.std is None else np.where(sequences.mask, 0.0, filled.std)
        values = np.where(sequences.mask, sequences.values, filled.values)
        return filled._replace(values=values, std=std)

    def draw_values(self, sequences: Sequences, n_draws: int, rng: np.random.Generator) -> FloatArray:
        """Draw missing values given all values except outliers; outliers are not changed."""
        draws = super().draw_values(self.cleaned(sequences), n_draws, rng)
        return np.where(sequences.mask, sequences.values, draws)

    def news(self, old: Sequences, new: Sequences, target: tuple[int, int]) -> News:
        """Return the news of all values except outliers."""
        cleaned = self.cleaned(new)
        values = np.where(cleaned.mask, old.values, np.nan)
        return super().news(replace(old, values=values), cleaned, target)
