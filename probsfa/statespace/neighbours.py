"""Cells beside their neighbours in time, by medians that a few wrong cells hardly move."""

from collections.abc import Sequence

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["MAD", "from_neighbours", "robust_spread"]

#: Median absolute deviation of a normal distribution of unit variance.
MAD = 0.6744897501960817

# Neighbours on either side of a cell.
_REACH = 2


def from_neighbours(values: FloatArray, lengths: Sequence[int]) -> FloatArray:
    """Distances of cells from the median of the four observed cells of their column that are nearest in time.

    Parameters
    ----------
    values : ndarray of shape (N, D)
        Observations, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.

    Returns
    -------
    ndarray of shape (N, D)
        NaN where missing, and where a sequence has too few cells of a column.
    """
    out = np.full(values.shape, np.nan)
    ends = np.cumsum(lengths)
    for start, stop in zip(ends - lengths, ends, strict=True):
        for j in range(values.shape[1]):
            rows = start + np.flatnonzero(~np.isnan(values[start:stop, j]))
            if len(rows) > 2 * _REACH:
                out[rows, j] = values[rows, j] - _median_of_neighbours(values[rows, j])
    return out


def robust_spread(values: FloatArray) -> FloatArray:
    """Robust standard deviations (D,) of columns about zero; zero where there are none."""
    seen = ~np.isnan(values)
    out = np.zeros(values.shape[1])
    for j in np.flatnonzero(seen.any(axis=0)):
        out[j] = np.median(np.abs(values[seen[:, j], j])) / MAD
    return out


def _median_of_neighbours(x: FloatArray) -> FloatArray:
    """Median of the four neighbours of each number; of as many on one side at the ends."""
    n = len(x)
    at = np.arange(n)[:, None]
    first = np.clip(at - _REACH, 0, n - 2 * _REACH - 1)
    window = first + np.arange(2 * _REACH + 1)
    return np.asarray(np.median(x[window[window != at].reshape(n, 2 * _REACH)], axis=1))
