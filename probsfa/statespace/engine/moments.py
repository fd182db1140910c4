"""Posterior moments: of a whole panel, of a stretch of rows, or as far as sums over rows need them."""

from typing import NamedTuple

from jax import Array

from probsfa._typing import FloatArray


class RowMoments(NamedTuple):
    """Moments of the states given all rows.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``lag_one`` (T, K, K), where ``lag_one[t]`` is the
    covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    """

    means: Array
    covariances: Array
    lag_one: Array


class PanelMoments(NamedTuple):
    """Moments of the states of a whole panel, as NumPy arrays.

    ``means`` (N, K), ``covariances`` (N, K, K), ``lag_one_covariances`` (N - 1, K, K), of each state with the
    one before it, and ``row_log_likelihoods`` (N,), the log density of each row given the rows before it.
    """

    means: FloatArray
    covariances: FloatArray
    lag_one_covariances: FloatArray
    row_log_likelihoods: FloatArray


class PackedMoments(NamedTuple):
    """Moments of the states given all rows, as far as sums over rows need them.

    ``means`` (K, T); ``covariances`` (K (K + 1) / 2, T), upper triangles; ``lag_one`` (K, T), what
    :meth:`.Transition.lag_terms` takes of the covariances of each state with the one before: of each latent
    with itself. Rows are along the last axis because sums over them are then products that run at full speed.
    """

    means: Array
    covariances: Array
    lag_one: Array
