"""Detection of gross outliers: a few values that dominate a Gaussian fit.

The prediction error of an outlier is compared with the errors of other values of the column. It is not
compared with the fitted variance, because outliers inflate this variance: four wrong rows in 15,000 can
increase it a hundred times. Columns with heavy-tailed errors, such as rain or visibility, are not tested,
because large errors are frequent in them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences

__all__ = [
    "MAD",
    "Outliers",
    "candidate_rows",
    "distance_from_adjacent",
    "gross_outliers",
    "outlier_message",
    "robust_scale",
]

#: Median absolute deviation of a normal distribution of unit variance.
MAD = 0.6744897501960817

# Number of adjacent observations on each side of a value; their median is robust to outliers.
_N_ADJACENT = 2


def distance_from_adjacent(values: FloatArray, lengths: Sequence[int]) -> FloatArray:
    """Return each value minus the median of the four adjacent observations of its column.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        Observations, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of shape (N, D)
        Signed differences; NaN where missing, and where a sequence has fewer than five values of the column.
    """
    distances = np.full(values.shape, np.nan)
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        for j in range(values.shape[1]):
            rows = start + np.flatnonzero(~np.isnan(values[start:stop, j]))
            if len(rows) > 2 * _N_ADJACENT:
                distances[rows, j] = values[rows, j] - _median_of_adjacent(values[rows, j])
    return distances


def robust_scale(values: FloatArray) -> FloatArray:
    """Return robust standard deviations (D,) of columns about zero; zero for columns without values."""
    observed = ~np.isnan(values)
    scales = np.zeros(values.shape[1])
    for j in np.flatnonzero(observed.any(axis=0)):
        scales[j] = np.median(np.abs(values[observed[:, j], j])) / MAD
    return scales


def _median_of_adjacent(x: FloatArray) -> FloatArray:
    """Return the median of the four numbers adjacent to each number; at the ends, of the four nearest."""
    n = len(x)
    index = np.arange(n)[:, None]
    first = np.clip(index - _N_ADJACENT, 0, n - 2 * _N_ADJACENT - 1)
    window = first + np.arange(2 * _N_ADJACENT + 1)
    return np.asarray(np.median(x[window[window != index].reshape(n, 2 * _N_ADJACENT)], axis=1))


# ---------------------------------------------------------------------------------------- outliers of a fit

# Minimum size of a gross outlier, in robust standard deviations.
_MIN_DEVIATIONS = 7.0
# Gross outliers of a column have at least this share of its sum of squared errors.
_MIN_SHARE_OF_SQUARES = 0.3
# If more than this share of the values of a column are large, they are not outliers.
_MAX_OUTLIER_SHARE = 0.1
# Minimum number of errors of a tested column.
_MIN_ERRORS = 50
# Approximate number of rows from which the medians of columns are computed, to save time.
_MAX_MEDIAN_ROWS = 50_000
# Largest ratio of the quantiles at 90 and 50 % of the absolute errors of a tested column: 2.4 for a normal
# distribution, 3.6 for Student's t with two degrees of freedom.
_MAX_QUANTILE_RATIO = 3.5


class Outliers(NamedTuple):
    """Columns with gross outliers, and the largest outlier of each column.

    Attributes
    ----------
    columns : ndarray of bool of shape (D,)
        Columns with gross outliers.
    positions : list of (int, int)
        Row and column of the largest outlier of each of these columns, largest first.
    sizes : list of float
        Errors of these values, in robust standard deviations of their columns.
    """

    columns: BoolArray
    positions: list[tuple[int, int]]
    sizes: list[float]


def candidate_rows(sequences: Sequences, n_rows: int) -> NDArray[np.intp]:
    """Select the rows with values farthest from the mean of adjacent values or from the median of a column.

    Distances are relative to their median in the column.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.
    n_rows : int
        Maximum number of rows.

    Returns
    -------
    ndarray of int of shape (M,)
        Indices of the rows, in order of time.
    """
    values = sequences.values
    starts = np.cumsum(sequences.lengths)[:-1]
    step = max(len(values) // _MAX_MEDIAN_ROWS, 1)
    largest_deviation = np.zeros(len(values))
    for x in values.T:  # one column at a time, to save memory
        from_adjacent = np.full(len(x), np.nan)
        from_adjacent[1:-1] = x[1:-1] - 0.5 * (x[:-2] + x[2:])
        from_adjacent[np.concatenate([starts, starts - 1])] = np.nan
        for deviations in (from_adjacent, x - _median(x[::step])):
            median_deviation = _median(np.abs(deviations[::step]))
            if median_deviation > 0.0:
                largest_deviation = np.fmax(largest_deviation, np.abs(deviations) / median_deviation)
    return np.sort(np.argsort(-largest_deviation, kind="stable")[:n_rows])


def _median(x: FloatArray) -> float:
    """Return the median of the observed values; NaN without observed values."""
    observed = x[~np.isnan(x)]
    return float(np.median(observed)) if observed.size else np.nan


def gross_outliers(sample: FloatArray, selected: FloatArray, rows: NDArray[np.intp], n_rows: int) -> Outliers:
    """Find gross outliers in standardized one-step prediction errors.

    Parameters
    ----------
    sample : ndarray of shape (S, D)
        Errors of rows that are evenly distributed over the data.
    selected : ndarray of shape (M, D)
        Errors of rows with possible outliers (see :func:`candidate_rows`).
    rows : ndarray of int of shape (M,)
        Indices of the rows with possible outliers.
    n_rows : int
        Number of rows of the data.

    Returns
    -------
    Outliers
    """
    d = sample.shape[1]
    columns, largest_outliers = np.zeros(d, dtype=bool), []
    for j in range(d):
        size = np.abs(sample[~np.isnan(sample[:, j]), j])
        if len(size) < _MIN_ERRORS:
            continue
        median, high = np.quantile(size, [0.5, 0.9])
        if not 0.0 < high <= _MAX_QUANTILE_RATIO * median:
            continue
        limit = _MIN_DEVIATIONS * median / MAD
        is_outlier = size > limit
        if np.mean(is_outlier) > _MAX_OUTLIER_SHARE:
            continue
        squares_of_others = float(np.sum(size[~is_outlier] ** 2))
        sizes_of_selected = np.abs(np.nan_to_num(selected[:, j]))
        outlier_sizes = np.where(sizes_of_selected > limit, sizes_of_selected, 0.0)
        # The share of outliers in the sum of squares is computed twice: for outliers of the sample, in the
        # sample; for outliers of the selected rows, in all rows, whose sum of squares is extrapolated from
        # the sample.
        for squares_of_outliers, others in (
            (float(np.sum(size[is_outlier] ** 2)), squares_of_others),
            (float(np.sum(outlier_sizes**2)), squares_of_others * n_rows / len(size)),
        ):
            columns[j] |= squares_of_outliers > _MIN_SHARE_OF_SQUARES * (squares_of_outliers + others)
        if columns[j] and outlier_sizes.any():
            row_of_largest = int(np.argmax(outlier_sizes))
            largest_outliers.append(
                (float(sizes_of_selected[row_of_largest]) * MAD / float(median), int(rows[row_of_largest]), j)
            )
    largest_outliers.sort(reverse=True)
    return Outliers(
        columns, [(row, j) for _, row, j in largest_outliers], [size for size, _, _ in largest_outliers]
    )


def outlier_message(outliers: Outliers, names: Sequence[str] | None) -> str:
    """Return a warning for `status_` if gross outliers dominate the fit, otherwise ""."""
    if not outliers.columns.any():
        return ""

    def name(j: int) -> str:
        return str(j) if names is None else repr(str(names[j]))

    largest = ", ".join(
        f"row {row}, column {name(j)}: {size:.3g} robust standard deviations"
        for (row, j), size in list(zip(outliers.positions, outliers.sizes, strict=True))[:3]
    )
    number = f"{np.count_nonzero(outliers.columns)} of {outliers.columns.size} columns"
    return (
        f" Outliers dominate the fit of {number}"
        + (f" (largest: {largest})" if largest else "")
        + ". Use robust=True, which gives them little weight; outlier_scores(X) ranks them."
    )
