"""Sums of expected moments over rows, in JAX, for parameter estimation.

Sums of several parts of the data may be added. Moments of residuals are computed from the residuals at the
parameters for which the moments of the states were computed. Differences of second moments of the data would
have large rounding errors for small noise (``r / var(x)`` below 1e-8).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.dynamics import Gaussian, Moments, Transition, expected_terms
from probsfa.statespace.engine.moments import PackedMoments, pack, triangle, unpack


class ObservationSums(NamedTuple):
    """Sums over rows for the parameters of the columns.

    In arrays with ``D + 1`` columns, column ``d < D`` is a sum over the rows in which column ``d`` of the
    data is observed. The last column is a sum over the rows in which at least one column of the data is
    observed. ``y = (z, 1)`` is the state extended by one.

    Attributes
    ----------
    counts : Array of shape (D + 1,)
        Numbers of rows.
    covariances, second_moments : Array of shape (K (K + 1) / 2, D + 1)
        Sums of the upper triangles of ``Cov[z]`` and ``E[z z']``.
    means : Array of shape (K, D + 1)
        Sums of ``E[z]``.
    residual_power : Array of shape (D,)
        Sums of squared residuals ``e`` at the posterior means.
    residual_moments : Array of shape (K + 1, D)
        Sums of ``E[y] e'``.
    """

    counts: Array
    covariances: Array
    second_moments: Array
    means: Array
    residual_power: Array
    residual_moments: Array


def observation_sums(
    values: Array, weights: Array, loadings: Array, offset: Array, moments: PackedMoments
) -> ObservationSums:
    """Return the sums over rows from which :func:`complete_sums` computes the statistics."""
    means = moments.means
    upper = triangle(means.shape[0])
    any_observed = jnp.any(weights > 0.0, axis=1, keepdims=True).astype(weights.dtype)
    extended = jnp.concatenate([means, jnp.ones_like(means[:1])])

    def sum_observed(numbers: Array) -> Array:
        return jnp.concatenate([numbers @ weights, numbers @ any_observed], axis=1)

    covariance_sums = sum_observed(moments.covariances)
    # The barrier makes the compiler compute the products before the sums over rows, which is faster.
    outer_products = jax.lax.optimization_barrier(means[upper.rows] * means[upper.columns])
    observed = sum_observed(extended)
    residuals = values - offset - means.T @ loadings.T
    weighted = weights * residuals
    return ObservationSums(
        observed[-1],
        covariance_sums,
        covariance_sums + sum_observed(outer_products),
        observed[:-1],
        jnp.sum(weighted * residuals, axis=0),
        extended @ weighted,
    )


def complete_sums(sums: ObservationSums, loadings: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return counts, residual power and moments, latent and total moments of :class:`Statistics`."""
    n_states = loadings.shape[1]
    second_moments = unpack(sums.second_moments.T, n_states)
    counts, means = sums.counts, sums.means.T
    latent = jnp.concatenate(
        [
            jnp.concatenate([second_moments, means[:, :, None]], axis=2),
            jnp.concatenate([means[:, None, :], counts[:, None, None]], axis=2),
        ],
        axis=1,
    )
    covariance_loadings = jnp.einsum("dij,dj->di", unpack(sums.covariances.T[:-1], n_states), loadings)
    power = sums.residual_power + jnp.einsum("di,di->d", covariance_loadings, loadings)
    cross_products = sums.residual_moments.T.at[:, :-1].add(-covariance_loadings)
    return counts[:-1], power, cross_products, latent[:-1], latent[-1]


def observation_statistics(
    values: Array, weights: Array, loadings: Array, offset: Array, moments: PackedMoments
) -> tuple[Array, Array, Array, Array, Array]:
    """Return counts, residual power and moments, latent and total moments of the observations."""
    return complete_sums(observation_sums(values, weights, loadings, offset, moments), loadings)


# Up to this number of distinct gaps, sums over the transitions of each gap are computed by matrix products.
_MAX_GAPS_FOR_PRODUCTS = 32


def transition_statistics(
    following: Transition,
    gap_index: Array,
    n_gaps: int,
    moments: PackedMoments,
    after: Gaussian,
) -> tuple[Array, Array, Array, Array]:
    """Return number of transitions (U,) and sums of :class:`.TransitionTerms` (U, L) over each distinct gap.

    ``following`` (T, K) are the transitions from each row to the next one, and ``gap_index`` (T,) the indices
    of their gaps, which are ``n_gaps`` for rows without a next row. ``after`` is the distribution of the
    state after the last row.
    """
    means, steps = moments.means, following.as_batch()
    moments_of_rows = Moments(means, steps.covariance_terms(moments.covariances))
    last = Moments(after.mean, steps.covariance_terms(pack(after.covariance)))
    later = Moments(
        *(jnp.concatenate([x[:, 1:], y[:, None]], axis=1) for x, y in zip(moments_of_rows, last, strict=True))
    )
    expected = expected_terms(steps, moments_of_rows, later, moments.lag_one)
    terms = (jnp.ones_like(means[:1]), *expected)
    if n_gaps <= _MAX_GAPS_FOR_PRODUCTS:
        has_gap = (gap_index[:, None] == jnp.arange(n_gaps, dtype=gap_index.dtype)).astype(means.dtype)
        sums = [(term @ has_gap).T for term in terms]
    else:
        sums = [
            jnp.zeros((n_gaps + 1, term.shape[0]), term.dtype).at[gap_index].add(term.T)[:n_gaps]
            for term in terms
        ]
    return sums[0][:, 0], sums[1], sums[2], sums[3]
