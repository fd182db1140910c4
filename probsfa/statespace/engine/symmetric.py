"""Symmetric matrices stored as upper triangles, which halves the work of sums over many of them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax import Array

# 32 bits: JAX cannot index by 64-bit arrays if the user's setting is single precision.
IntArray = NDArray[np.int32]


class Triangle(NamedTuple):
    """Indices of the upper triangle's entries in a (K, K) matrix, and of its entries in the triangle."""

    rows: IntArray
    columns: IntArray
    places: IntArray

    @property
    def flat(self) -> IntArray:
        """Indices of the triangle's entries in the flattened matrix."""
        return self.rows * int(self.columns[-1] + 1) + self.columns

    @property
    def diagonal(self) -> IntArray:
        """Indices of the diagonal's entries in the triangle."""
        return np.flatnonzero(self.rows == self.columns).astype(np.int32)


@cache
def triangle(size: int) -> Triangle:
    """Return the upper triangle of matrices of a size.

    Examples
    --------
    >>> rows, columns, places = triangle(2)
    >>> np.stack([rows, columns]).tolist()
    [[0, 0, 1], [0, 1, 1]]
    >>> places.tolist()
    [0, 1, 1, 2]
    """
    rows, columns = (index.astype(np.int32) for index in np.triu_indices(size))
    places = np.zeros((size, size), dtype=np.int32)
    places[rows, columns] = np.arange(rows.size)
    return Triangle(rows, columns, np.maximum(places, places.T).ravel())


def pack(matrices: Array) -> Array:
    """Return upper triangles (..., K (K + 1) / 2) of symmetric matrices (..., K, K).

    Examples
    --------
    >>> pack(np.array([[1, 2], [2, 3]]))
    array([1, 2, 3])
    """
    size = matrices.shape[-1]
    return matrices.reshape(*matrices.shape[:-2], size * size)[..., triangle(size).flat]


def unpack(packed: Array, size: int) -> Array:
    """Return symmetric matrices (N, K, K) from their upper triangles (N, K (K + 1) / 2).

    Examples
    --------
    >>> unpack(np.array([[1, 2, 3]]), 2)
    array([[[1, 2],
            [2, 3]]])
    """
    return packed[:, triangle(size).places].reshape(-1, size, size)
