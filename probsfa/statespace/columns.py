"""Means, variances, autocorrelations, units and resolution of columns with missing values; their names."""

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
    "counts_sentence",
    "listed",
    "looks_counted",
    "merge_columns",
    "resolution_variance",
]

# Number of rows per block.
_BLOCK_ROWS = 65_536
# Number of rows from which the resolution is computed, and of their segments; sorting more rows is slow.
_N_RESOLUTION_ROWS, _N_RESOLUTION_SEGMENTS = 20_000, 8


class ColumnMoments(NamedTuple):
    """First and second moments of the observed values of each column, which can be merged over parts.

    Attributes
    ----------
    counts : ndarray of shape (D,)
        Number of observed values.
    origin : ndarray of shape (D,)
        Value that is subtracted before summation, for accuracy at a large offset.
    offset : ndarray of shape (D,)
        Mean of the values less `origin`.
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
        """Which columns (D,) are constant up to rounding errors."""
        return self.stds <= 8.0 * np.finfo(np.float64).eps * np.abs(self.means)

    def units(self, *, by_feature: bool) -> tuple[FloatArray, FloatArray]:
        """Return the shift and scale (D,) that standardise the columns.

        Parameters
        ----------
        by_feature : bool
            Whether each column has its own scale, or all have the same.

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
    """Compute the moments of the observed values of some rows, block by block to save memory."""
    blocks = [
        _moments_of_block(part.values[start : start + _BLOCK_ROWS])
        for start in range(0, part.n_rows, _BLOCK_ROWS)
    ]
    return merge_columns(blocks)._replace(lengths=part.lengths)


def _moments_of_block(values: FloatArray) -> ColumnMoments:
    observed = ~np.isnan(values)
    counts = observed.sum(axis=0).astype(np.float64)
    # The first observed value of each column: sums about it are accurate at a large offset.
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
    gap = np.where(right.counts > 0, right.origin - left.origin + right.offset - left.offset, 0.0)
    begun = left.counts > 0
    return ColumnMoments(
        counts,
        np.where(begun, left.origin, right.origin),
        np.where(begun, left.offset + gap * share, right.offset),
        left.scatter + right.scatter + gap**2 * left.counts * share,
        left.lengths + right.lengths,
    )


def resolution_variance(sequences: Sequences) -> FloatArray:
    """Return the noise variance (D,) that the resolution of each column implies.

    Rounding to multiples of a step ``h`` adds an error of variance ``h^2 / 12`` if the signal varies by
    several steps (Sheppard's correction). The step is the smallest distance of two distinct values; for
    values that were not rounded it is negligible.

    White noise of variance ``r`` gives a squared error of ``3 r / 2`` for interpolation between the adjacent
    values. The result is at most a hundredth of the variance that explains the column's interpolation error.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (D,)
        In squared units of the data.
    """
    n_rows = sequences.n_rows
    length = -(-min(n_rows, _N_RESOLUTION_ROWS) // _N_RESOLUTION_SEGMENTS)
    first = np.unique(np.linspace(0, n_rows - length, _N_RESOLUTION_SEGMENTS).astype(int))
    rows = sequences.values[np.unique(first[:, None] + np.arange(length))]
    out = np.zeros(sequences.n_features)
    for j, column in enumerate(rows.T):
        observed = column[~np.isnan(column)]
        if observed.size < 3:
            continue
        steps = np.diff(np.unique(observed))
        # Smaller steps imply less than the smallest noise variance allowed.
        steps = steps[steps**2 > 12.0 * MIN_NOISE * np.var(observed)]
        errors = observed[1:-1] - 0.5 * (observed[:-2] + observed[2:])
        if steps.size:
            # The result is at most this fraction of the noise variance that explains the error of linear
            # interpolation. If a column has few levels and changes rarely, interpolation has nearly no error,
            # and the distance of the levels does not measure the noise.
            largest = 0.01 * float(np.mean(errors**2)) / 1.5
            out[j] = min(float(steps.min()) ** 2 / 12.0, largest)
    return out


def listed(columns: NDArray[np.intp], names: Sequence[str] | None) -> str:
    """Return the names of up to five columns, or their numbers if they have no names."""
    words = ", ".join(str(j) if names is None else repr(names[j]) for j in columns[:5].tolist())
    return words + (", ..." if columns.size > 5 else "")


# Distance below zero from which negative values are reported, in standard deviations of the column: clipping
# values that are closer changes little.
_MIN_NEGATIVE_DISTANCE = 0.1


def unexpectedly_negative(observed: FloatArray, imputed: FloatArray) -> BoolArray:
    """Return which imputed values (N, D) are well below zero in columns without negative observations.

    Parameters
    ----------
    observed : ndarray of shape (N, D)
        Rows, NaN where missing.
    imputed : ndarray of shape (N, D)
        The same rows with imputed values.
    """
    missing = np.isnan(observed)
    columns = np.flatnonzero(~np.any(observed < 0.0, axis=0) & ~missing.all(axis=0))
    found = np.zeros(observed.shape, dtype=bool)
    limits = -_MIN_NEGATIVE_DISTANCE * np.nanstd(observed[:, columns], axis=0)
    found[:, columns] = missing[:, columns] & (imputed[:, columns] < limits)
    return found


# --------------------------------------------------------------------------------------------------- counts

# Columns of events or counts, for which Gaussian noise is not appropriate.

# Minimum number of values: fewer may be integers by chance or by rounding.
_MIN_VALUES = 50
# A column of integers is treated as counts if it has at most this many different values, or at least this
# share of zeros.
_MAX_DISTINCT_VALUES, _MIN_SHARE_OF_ZEROS = 20, 0.25


def looks_counted(column: FloatArray) -> bool:
    """Return whether a column (N,), NaN where missing, has binary values or counts.

    These are nonnegative integers with few different values or many zeros. A constant column is not counted.
    """
    cells = column[~np.isnan(column)]
    for part in (cells[:_MIN_VALUES], cells):  # the first values usually show that a column is not counted
        if len(part) < _MIN_VALUES or np.any(part < 0.0) or np.any(part != np.rint(part)):
            return False
    different = len(np.unique(cells))
    return different > 1 and (
        different <= _MAX_DISTINCT_VALUES or np.mean(cells == 0.0) >= _MIN_SHARE_OF_ZEROS
    )


def counts_sentence(sequences: Sequences) -> str:
    """Return a warning that names columns of counts and a suitable model; an empty string without these."""
    names = sequences.feature_names
    counted = [d for d in range(sequences.n_features) if looks_counted(sequences.values[:, d])]
    if not counted:
        return ""
    called = [f"{d}" if names is None else repr(names[d]) for d in counted]
    more = f" and {len(called) - 5} more" if len(called) > 5 else ""
    column, hold, them = ("Column", "holds", "it") if len(called) == 1 else ("Columns", "hold", "them")
    return (
        f"{column} {', '.join(called[:5])}{more} {hold} events or counts (nonnegative integers), for which "
        f"Gaussian noise is not appropriate. Use EmissionSFA, which has distributions for {them}."
    )


class Correlations(NamedTuple):
    """Autocorrelations at some lags.

    Attributes
    ----------
    lags : ndarray of int of shape (L,)
        Lags in rows.
    values : ndarray of shape (L, D)
        Mean product of two values at this lag, over the pairs in which both are observed, divided by the mean
        square; NaN without pairs.
    n_pairs : ndarray of shape (L, D)
        Number of these pairs.
    n_cells : ndarray of shape (D,)
        Number of observed values.
    """

    lags: NDArray[np.intp]
    values: FloatArray
    n_pairs: FloatArray
    n_cells: FloatArray


def autocorrelation(errors: FloatArray, lengths: Sequence[int], lags: NDArray[np.intp]) -> Correlations:
    """Compute the autocorrelations of each column about its mean, over observed pairs of values.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        Standardised errors, NaN where missing.
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
        power = np.sum(centred**2, axis=0) / counts
        which = np.repeat(np.arange(len(lengths)), lengths)
        values = np.full((len(lags), errors.shape[1]), np.nan)
        pairs = np.zeros(values.shape)
        for i, lag in enumerate(lags):
            if lag >= len(errors):
                continue
            within = (which[lag:] == which[:-lag])[:, None]
            pairs[i] = np.sum(observed[lag:] & observed[:-lag] & within, axis=0)
            values[i] = np.sum(centred[lag:] * centred[:-lag] * within, axis=0) / (pairs[i] * power)
    return Correlations(np.asarray(lags), values, pairs, counts)
