"""Posterior moments of a stretch of rows, in full or as far as sums over rows need them."""

from typing import NamedTuple

from jax import Array

from probsfa.statespace.engine.symmetric import triangle


class RowMoments(NamedTuple):
    """Moments of the states given all rows.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``lag_one`` (T, K, K), where ``lag_one[t]`` is the
    covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    """

    means: Array
    covariances: Array
    lag_one: Array


class PackedMoments(NamedTuple):
    """Moments of the states given all rows, as far as sums over rows need them.

    ``means`` (K, T); ``covariances`` (K (K + 1) / 2, T), upper triangles; ``lag_one`` (K, T), the covariance
    of each latent with itself one row later. Rows are along the last axis because sums over them are then
    products that run at full speed.
    """

    means: Array
    covariances: Array
    lag_one: Array

    @property
    def variances(self) -> Array:
        """Variances (K, T), the diagonals of the covariances."""
        return self.covariances[triangle(self.means.shape[0]).diagonal]
