"""Rows of the data relative to their mean, read block by block in any order."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs.moments import block_rows

__all__ = ["CentredRows"]

IntArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Samples minus their mean; nothing is copied before it is read.

    Attributes
    ----------
    rows : ndarray (N, D)
        Samples as they are.
    origin, offset : ndarray (D,)
        Their mean in two parts: a sample, and the mean relative to it.
    order : ndarray (n,), int, or None
        Which samples are read, and in which order; None is all of them as they stand.
    """

    rows: FloatArray
    origin: FloatArray
    offset: FloatArray
    order: IntArray | None = None

    def __len__(self) -> int:
        """Return the number of rows to read."""
        return len(self.rows) if self.order is None else len(self.order)

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return self.rows.shape[1]

    def reordered(self, order: IntArray) -> "CentredRows":
        """Return the same samples with row i at place ``order[i]`` of this order."""
        return replace(self, order=order if self.order is None else self.order[order])

    def take(self, index: slice | IntArray, columns: slice = slice(None)) -> FloatArray:
        """Return some rows and columns, centred, as a new array."""
        places = index if self.order is None else self.order[index]
        centred: FloatArray = self.rows[places, columns] - self.origin[columns]
        centred -= self.offset[columns]
        return centred

    def blocks(self, n_rows: int | None = None) -> Iterator[slice]:
        """Cut `n_rows` rows (by default all) into blocks that fit the cache."""
        n = len(self) if n_rows is None else n_rows
        size = block_rows(self.n_features)
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))
