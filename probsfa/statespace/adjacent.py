"""Comparison of values with adjacent observations, by medians, which a few outliers hardly change."""

from collections.abc import Sequence

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["MAD", "distance_from_adjacent", "robust_spread"]

#: Median absolute deviation of a normal distribution of unit variance.
MAD = 0.6744897501960817

# Adjacent observations on each side of a value.
_REACH = 2


def distance_from_adjacent(values: FloatArray, lengths: Sequence[int]) -> FloatArray:
    """Return the distance of each value from the median of the four adjacent observations of its column.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        Observations, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of shape (N, D)
        NaN where missing, or if a sequence has too few values of the column.
    """
    out = np.full(values.shape, np.nan)
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        for j in range(values.shape[1]):
            rows = start + np.flatnonzero(~np.isnan(values[start:stop, j]))
            if len(rows) > 2 * _REACH:
                out[rows, j] = values[rows, j] - _median_of_adjacent(values[rows, j])
    return out


def robust_spread(values: FloatArray) -> FloatArray:
    """Return robust standard deviations (D,) of columns about zero; zero for columns without values."""
    seen = ~np.isnan(values)
    out = np.zeros(values.shape[1])
    for j in np.flatnonzero(seen.any(axis=0)):
        out[j] = np.median(np.abs(values[seen[:, j], j])) / MAD
    return out


def _median_of_adjacent(x: FloatArray) -> FloatArray:
    """Return the median of the four adjacent numbers of each number; at the ends, of the four nearest."""
    n = len(x)
    at = np.arange(n)[:, None]
    first = np.clip(at - _REACH, 0, n - 2 * _REACH - 1)
    window = first + np.arange(2 * _REACH + 1)
    return np.asarray(np.median(x[window[window != at].reshape(n, 2 * _REACH)], axis=1))
