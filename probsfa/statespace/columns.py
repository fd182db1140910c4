"""Means and variances of columns with holes, from parts of the rows."""

import functools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences

FloatArray = NDArray[np.float64]


class Columns(NamedTuple):
    """Observed cells of each feature: how many, their means about an origin, and their sums of squares.

    `lengths` has the rows of every sequence, `origin`, `offset` and `scatter` (D,) are as in
    :class:`probsfa.graphs.Moments`.
    """

    counts: FloatArray
    origin: FloatArray
    offset: FloatArray
    scatter: FloatArray
    lengths: tuple[int, ...]

    @property
    def means(self) -> FloatArray:
        """Mean of each feature."""
        return self.origin + self.offset

    @property
    def stds(self) -> FloatArray:
        """Standard deviation of each feature."""
        return np.sqrt(self.scatter / self.counts)


def column_sums(part: Sequences) -> Columns:
    """Sums over the observed cells of some rows."""
    values = part.values
    seen = ~np.isnan(values)
    counts = seen.sum(axis=0).astype(np.float64)
    # The first observed value of each feature: at a large offset, sums about it have all their digits.
    origin = values[np.argmax(seen, axis=0), np.arange(values.shape[1])]
    origin = np.where(counts > 0, origin, 0.0)
    deviation = np.where(seen, values - origin, 0.0)
    offset = deviation.sum(axis=0) / np.maximum(counts, 1.0)
    scatter = np.sum(np.where(seen, deviation - offset, 0.0) ** 2, axis=0)
    return Columns(counts, origin, offset, scatter, part.lengths)


def merge_columns(parts: list[Columns]) -> Columns:
    """Sums over all parts from those of each."""
    return functools.reduce(_join, parts)


def _join(left: Columns, right: Columns) -> Columns:
    """Join the sums of two parts (Chan, Golub & LeVeque 1983, eq. 2.1)."""
    counts = left.counts + right.counts
    share = right.counts / np.maximum(counts, 1.0)
    gap = np.where(right.counts > 0, right.origin - left.origin + right.offset - left.offset, 0.0)
    begun = left.counts > 0
    return Columns(
        counts,
        np.where(begun, left.origin, right.origin),
        np.where(begun, left.offset + gap * share, right.offset),
        left.scatter + right.scatter + gap**2 * left.counts * share,
        left.lengths + right.lengths,
    )
