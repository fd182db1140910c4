"""Statistics of columns with missing values: moments, autocorrelations, rounding, and detection of counts."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.noise.gaussian import MIN_NOISE

__all__ = [
    "ColumnMoments",
    "Correlations",
    "autocorrelation",
    "column_moments",
    "counts_message",
    "has_counts",
    "list_columns",
    "merge_columns",
    "resolution_variance",
]

# Number of rows whose moments are computed at a time.
_BLOCK_ROWS = 65_536
# The resolution of a column is estimated from this number of rows, because sorting more rows is slow.
_N_RESOLUTION_ROWS = 20_000
# Number of segments that these rows consist of.
_N_RESOLUTION_SEGMENTS = 8
# Upper bound of the noise variance due to rounding, as a fraction of the noise variance that would explain
# the errors of linear interpolation. These errors are nearly zero in columns with few levels that change
# rarely; the distance between levels does not measure the noise of such columns.
_MAX_RESOLUTION_SHARE = 0.01


class ColumnMoments(NamedTuple):
    """First and second moments of the observed values of each column; moments of several parts can be merged.

    Attributes
    ----------
    counts : ndarray of shape (D,)
        Number of observed values.
    origin : ndarray of shape (D,)
        Value that is subtracted before summation, because a large mean would reduce accuracy.
    offset : ndarray of shape (D,)
        Mean of the values minus `origin`.
    scatter : ndarray of shape (D,)
        Sum of squared deviations from the mean.
    lengths : tuple of int
        Rows of each sequence.
    """

    counts: FloatArray
    origin: FloatArray
    offset: FloatArray
    scatter: FloatArray
    lengths: tuple[int, ...]

    @property
    def means(self) -> FloatArray:
        """Mean of each column."""
        return self.origin + self.offset

    @property
    def stds(self) -> FloatArray:
        """Standard deviation of each column."""
        return np.sqrt(self.scatter / self.counts)

    @property
    def constant(self) -> BoolArray:
        """Mask (D,) of columns that are constant up to rounding errors."""
        return self.stds <= 8.0 * np.finfo(np.float64).eps * np.abs(self.means)

    def units(self, *, by_feature: bool) -> tuple[FloatArray, FloatArray]:
        """Return the shift and scale (D,) that standardize the columns.

        Parameters
        ----------
        by_feature : bool
            Whether each column has a separate scale; otherwise all columns have one scale.

        Raises
        ------
        ValueError
            If all columns are constant.
        """
        stds = np.where(self.constant, 0.0, self.stds)
        if not np.any(stds > 0.0):
            raise ValueError("X has only constant columns. Add columns that vary.")
        if by_feature:
            return self.means, np.where(stds > 0.0, stds, 1.0)
        return self.means, np.full_like(stds, np.sqrt(np.mean(stds**2)))


def column_moments(part: Sequences) -> ColumnMoments:
    """Compute the moments of the observed values of some rows, in blocks of rows to save memory."""
    blocks = [
        _moments_of_block(part.values[start : start + _BLOCK_ROWS])
        for start in range(0, part.n_rows, _BLOCK_ROWS)
    ]
    return merge_columns(blocks)._replace(lengths=part.lengths)


def _moments_of_block(values: FloatArray) -> ColumnMoments:
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0).astype(np.float64)
    # The first observed value of each column is subtracted, because a large mean would reduce accuracy.
    origin = values[np.argmax(observed, axis=0), np.arange(values.shape[1])]
    origin = np.where(counts > 0, origin, 0.0)
    deviation = np.where(observed, values - origin, 0.0)
    offset = deviation.sum(axis=0) / np.maximum(counts, 1.0)
    scatter = np.sum(np.where(observed, deviation - offset, 0.0) ** 2, axis=0)
    return ColumnMoments(counts, origin, offset, scatter, ())


def merge_columns(parts: Sequence[ColumnMoments]) -> ColumnMoments:
    """Merge the moments of several parts."""
    return functools.reduce(_merge_two, parts)


def _merge_two(left: ColumnMoments, right: ColumnMoments) -> ColumnMoments:
    """Merge the moments of two parts (Chan, Golub & LeVeque 1983, eq. 2.1)."""
    counts = left.counts + right.counts
    share = right.counts / np.maximum(counts, 1.0)
    difference = right.origin - left.origin + right.offset - left.offset
    difference = np.where(right.counts > 0, difference, 0.0)
    has_left = left.counts > 0
    return ColumnMoments(
        counts,
        np.where(has_left, left.origin, right.origin),
        np.where(has_left, left.offset + difference * share, right.offset),
        left.scatter + right.scatter + difference**2 * left.counts * share,
        left.lengths + right.lengths,
    )


def resolution_variance(sequences: Sequences) -> FloatArray:
    """Return the noise variance (D,) that the resolution of each column implies.

    Rounding to multiples of a step ``h`` adds an error of variance ``h^2 / 12`` if the signal varies by
    several steps (Sheppard's correction). The step is the smallest difference of two distinct values; it is
    negligible if values were not rounded.

    White noise of variance ``r`` causes an error of variance ``3 r / 2`` in the interpolation between
    adjacent values. The result is at most a hundredth of the ``r`` that explains the interpolation errors of
    the column.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (D,)
        Noise variances in squared data units.
    """
    n_rows = sequences.n_rows
    length = -(-min(n_rows, _N_RESOLUTION_ROWS) // _N_RESOLUTION_SEGMENTS)
    first = np.unique(np.linspace(0, n_rows - length, _N_RESOLUTION_SEGMENTS).astype(int))
    rows = sequences.values[np.unique(first[:, None] + np.arange(length))]
    variances = np.zeros(sequences.n_features)
    for j, column in enumerate(rows.T):
        observed = column[~np.isnan(column)]
        if observed.size < 3:
            continue
        steps = np.diff(np.unique(observed))
        # Smaller steps imply a noise variance below the lower bound of all columns.
        steps = steps[steps**2 > 12.0 * MIN_NOISE * np.var(observed)]
        errors = observed[1:-1] - 0.5 * (observed[:-2] + observed[2:])
        if steps.size:
            maximum = _MAX_RESOLUTION_SHARE * float(np.mean(errors**2)) / 1.5
            variances[j] = min(float(steps.min()) ** 2 / 12.0, maximum)
    return variances


def list_columns(columns: NDArray[np.intp], names: Sequence[str] | None) -> str:
    """Return the names of up to five columns, or their indices without names."""
    listing = ", ".join(str(j) if names is None else repr(names[j]) for j in columns[:5].tolist())
    return listing + (", ..." if columns.size > 5 else "")


# Imputed values are reported as negative if they are at least this number of standard deviations of the
# column below zero.
_MIN_NEGATIVE_DISTANCE = 0.1


def unexpectedly_negative(observed: FloatArray, imputed: FloatArray) -> BoolArray:
    """Return a mask (N, D) of imputed values below zero in columns without negative observations.

    Parameters
    ----------
    observed : ndarray of shape (N, D)
        Rows, NaN where missing.
    imputed : ndarray of shape (N, D)
        The rows with imputed values.
    """
    missing = np.isnan(observed)
    columns = np.flatnonzero(~np.any(observed < 0.0, axis=0) & ~missing.all(axis=0))
    is_negative = np.zeros(observed.shape, dtype=bool)
    limits = -_MIN_NEGATIVE_DISTANCE * np.nanstd(observed[:, columns], axis=0)
    is_negative[:, columns] = missing[:, columns] & (imputed[:, columns] < limits)
    return is_negative


# --------------------------------------------------------------------------------------------------- counts

# Minimum number of values of a column of counts; fewer values may be integers by chance or by rounding.
_MIN_VALUES = 50
# A column of integers is treated as counts if it has at most this many different values, or at least this
# share of zeros.
_MAX_DISTINCT_VALUES, _MIN_SHARE_OF_ZEROS = 20, 0.25


def has_counts(column: FloatArray) -> bool:
    """Return whether a column (N,), NaN where missing, probably has binary values or counts.

    These are nonnegative integers with few distinct values or many zeros. A constant column has no counts.
    """
    values = column[~np.isnan(column)]
    for part in (values[:_MIN_VALUES], values):  # the first values usually decide
        if len(part) < _MIN_VALUES or np.any(part < 0.0) or np.any(part != np.rint(part)):
            return False
    n_distinct = len(np.unique(values))
    return n_distinct > 1 and (
        n_distinct <= _MAX_DISTINCT_VALUES or np.mean(values == 0.0) >= _MIN_SHARE_OF_ZEROS
    )


def counts_message(sequences: Sequences) -> str:
    """Return a warning that names columns of counts and a model for them; "" without such columns."""
    names = sequences.feature_names
    columns = [d for d in range(sequences.n_features) if has_counts(sequences.values[:, d])]
    if not columns:
        return ""
    listing = ", ".join(f"{d}" if names is None else repr(names[d]) for d in columns[:5])
    more = f" and {len(columns) - 5} more" if len(columns) > 5 else ""
    subject = f"Column {listing} contains" if len(columns) == 1 else f"Columns {listing}{more} contain"
    return (
        f"{subject} binary values or counts (nonnegative integers), for which Gaussian noise is not "
        "appropriate. Use EmissionSFA, which has distributions for counts."
    )


class Correlations(NamedTuple):
    """Autocorrelations at some lags.

    Attributes
    ----------
    lags : ndarray of int of shape (L,)
        Lags in rows.
    values : ndarray of shape (L, D)
        Mean product of two observed values at this lag, divided by the mean square; NaN without pairs of
        observed values.
    n_pairs : ndarray of shape (L, D)
        Numbers of pairs of observed values at this lag.
    n_values : ndarray of shape (D,)
        Number of observed values.
    """

    lags: NDArray[np.intp]
    values: FloatArray
    n_pairs: FloatArray
    n_values: FloatArray


def autocorrelation(errors: FloatArray, lengths: Sequence[int], lags: NDArray[np.intp]) -> Correlations:
    """Compute the autocorrelations of each column about its mean, over pairs of observed values.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        Standardized errors, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.
    lags : ndarray of int of shape (L,)
        Lags in rows.

    Returns
    -------
    Correlations
    """
    observed = ~np.isnan(errors)
    counts = observed.sum(axis=0).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(observed, errors, 0.0).sum(axis=0) / counts
        centred = np.where(observed, errors - mean, 0.0)
        mean_square = np.sum(centred**2, axis=0) / counts
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        values = np.full((len(lags), errors.shape[1]), np.nan)
        n_pairs = np.zeros(values.shape)
        for i, lag in enumerate(lags):
            if lag >= len(errors):
                continue
            is_same = (sequence[lag:] == sequence[:-lag])[:, None]
            n_pairs[i] = np.sum(observed[lag:] & observed[:-lag] & is_same, axis=0)
            values[i] = np.sum(centred[lag:] * centred[:-lag] * is_same, axis=0) / (n_pairs[i] * mean_square)
    return Correlations(np.asarray(lags), values, n_pairs, counts)
