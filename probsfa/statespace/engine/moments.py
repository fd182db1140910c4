"""Results of exact inference: posterior moments, and their sums over rows for parameter estimation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from probsfa._typing import FloatArray

if TYPE_CHECKING:
    from jax import Array


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


class Filtering(NamedTuple):
    """Distribution of each state given the rows up to its own.

    ``means`` (N, K), ``covariances`` (N, K, K) and ``log_likelihoods`` (N,): log density of each row given
    the rows before it; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray


class PackedMoments(NamedTuple):
    """Moments of the states given all rows that sums over rows use.

    ``means`` (K, T); ``covariances`` (K (K + 1) / 2, T), upper triangles; ``lag_one`` (K, T), the
    :meth:`.Transition.lag_terms` of the covariances of each state with the one before: of each process with
    itself. Rows are along the last axis, so that sums over them are fast matrix products.
    """

    means: Array
    covariances: Array
    lag_one: Array


class Statistics(NamedTuple):
    """Sums of expected moments at given parameters; ``y = (z, 1)`` and ``e = x - C z - mu``.

    With weights of values, sums count each value by its weight.

    Attributes
    ----------
    log_likelihood : float
        Log-likelihood at the parameters, in nats.
    counts : ndarray of shape (D,)
        Observed values of each column.
    residual_power : ndarray of shape (D,)
        Sum of ``E[e^2]`` over observed values.
    residual_moments : ndarray of shape (D, K + 1)
        Sum of ``E[e y']``.
    latent_moments : ndarray of shape (D, K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which each column is observed.
    total_moments : ndarray of shape (K + 1, K + 1)
        Sum of ``E[y y']`` over the rows with at least one observed value.
    transitions : ndarray of shape (U,)
        Number of transitions over each of the panel's ``gaps``.
    innovation_power, innovation_moments, previous_power : ndarray of shape (U, K)
        Sums over those transitions of the :class:`.TransitionTerms`: ``E[(z_t - a z_t-1)^2]``,
        ``E[(z_t - a z_t-1) z_t-1]`` and ``E[z_t-1^2]``.
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
