"""Symmetric matrices stored as lower triangles, in the format of the kernels."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray


@cache
def lower_triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries of a lower triangle, row after row."""
    return np.tril_indices(size)


def packed(matrix: FloatArray) -> FloatArray:
    """Return the lower triangle of a matrix, row after row."""
    return matrix[lower_triangle(len(matrix))]


def unpacked(lower: FloatArray) -> FloatArray:
    """Return the symmetric matrices (..., K, K) of lower triangles."""
    return lower[..., _places(lower.shape[-1])]


@cache
def _places(count: int) -> NDArray[np.intp]:
    """Return the indices of a symmetric matrix's entries in its lower triangle of ``count`` numbers."""
    size = round((np.sqrt(8.0 * count + 1.0) - 1.0) / 2.0)
    places = np.zeros((size, size), dtype=np.intp)
    places[lower_triangle(size)] = np.arange(count)
    return np.maximum(places, places.T)
