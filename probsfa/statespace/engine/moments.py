"""Results of exact inference: posterior moments, packed symmetric matrices, and sums over rows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray

if TYPE_CHECKING:
    from jax import Array

# Indices have 32 bits, because JAX cannot index by 64-bit arrays if the user has set single precision.
IntArray = NDArray[np.int32]


class RowMoments(NamedTuple):
    """Moments of the states given all rows.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``lag_one`` (T, K, K), where ``lag_one[t]`` is the
    covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    """

    means: Array
    covariances: Array
    lag_one: Array


class PanelMoments(NamedTuple):
    """Moments of the states at the ``N`` rows of a panel given all rows, as NumPy arrays.

    ``means`` (N, K); ``covariances`` (N, K, K); ``lag_one_covariances`` (N - 1, K, K), where entry ``[t]`` is
    the covariance of ``z_t+1`` (rows) with ``z_t`` (columns); and ``row_log_likelihoods`` (N,), the log
    density of each row given all earlier rows.
    """

    means: FloatArray
    covariances: FloatArray
    lag_one_covariances: FloatArray
    row_log_likelihoods: FloatArray


class Filtering(NamedTuple):
    """Filtered distributions: each state given its row and all earlier rows.

    ``means`` (N, K); ``covariances`` (N, K, K); and ``log_likelihoods`` (N,), the log density of each row
    given all earlier rows, zero for rows without observed values.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray


class PackedMoments(NamedTuple):
    """Moments of the states given all rows, packed for sums over rows.

    ``means`` (K, T); ``covariances`` (K (K + 1) / 2, T), upper triangles; ``lag_one`` (L, T), the
    :meth:`.Transition.lag_terms` of lag-one covariances. Rows are along the last axis, so that sums over rows
    are fast matrix products.
    """

    means: Array
    covariances: Array
    lag_one: Array


class Statistics(NamedTuple):
    """Sums over rows of expected moments, the expected sufficient statistics.

    ``y = (z, 1)`` is the state extended by one, and ``e = x - C z - mu`` the residual at given parameters. If
    values have weights, their terms are multiplied by the weights.

    Attributes
    ----------
    log_likelihood : float
        Log-likelihood at the parameters, in nats.
    counts : ndarray of shape (D,)
        Number of observed values of each column.
    residual_power : ndarray of shape (D,)
        Sum of ``E[e^2]`` over observed values.
    residual_moments : ndarray of shape (D, K + 1)
        Sum of ``E[e y']``.
    latent_moments : ndarray of shape (D, K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which each column is observed.
    total_moments : ndarray of shape (K + 1, K + 1)
        Sum of ``E[y y']`` over the rows with at least one observed value.
    transitions : ndarray of shape (U,)
        Number of transitions over each distinct gap of the panel.
    innovation_power, innovation_moments, previous_power : ndarray of shape (U, L)
        Sums of :class:`.TransitionTerms` over these transitions; for an AR(1) process, sums of ``E[(z_t - a
        z_t-1)^2]``, ``E[(z_t - a z_t-1) z_t-1]`` and ``E[z_t-1^2]``.
    """

    log_likelihood: float
    counts: FloatArray
    residual_power: FloatArray
    residual_moments: FloatArray
    latent_moments: FloatArray
    total_moments: FloatArray
    transitions: FloatArray
    innovation_power: FloatArray
    innovation_moments: FloatArray
    previous_power: FloatArray


class Triangle(NamedTuple):
    """Indices that convert between symmetric (K, K) matrices and their upper triangles.

    ``rows`` and ``columns`` are the row and column of each entry of the triangle. ``positions`` (K * K,) are,
    for each entry of the flattened matrix, its position in the triangle. Sums over triangles require about
    half of the operations of sums over matrices.
    """

    rows: IntArray
    columns: IntArray
    positions: IntArray

    @property
    def flat(self) -> IntArray:
        """Indices of the entries of the triangle in the flattened matrix."""
        return self.rows * int(self.columns[-1] + 1) + self.columns

    @property
    def diagonal(self) -> IntArray:
        """Indices of the diagonal entries in the triangle."""
        return np.flatnonzero(self.rows == self.columns).astype(np.int32)


@cache
def triangle(size: int) -> Triangle:
    """Return the upper triangle of matrices of a size.

    Examples
    --------
    >>> rows, columns, positions = triangle(2)
    >>> np.stack([rows, columns]).tolist()
    [[0, 0, 1], [0, 1, 1]]
    >>> positions.tolist()
    [0, 1, 1, 2]
    """
    rows, columns = (index.astype(np.int32) for index in np.triu_indices(size))
    positions = np.zeros((size, size), dtype=np.int32)
    positions[rows, columns] = np.arange(rows.size)
    return Triangle(rows, columns, np.maximum(positions, positions.T).ravel())


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
    return packed[:, triangle(size).positions].reshape(-1, size, size)
