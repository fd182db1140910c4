"""Sums of expected moments over rows, in JAX, for parameter estimation.

They are sums over rows, so those of several parts of the data add up. Residuals are computed at the
parameters of the posterior. Differences of raw second moments would be lost in rounding errors if the noise
is small (``r / var(x)`` below 1e-8); sums of residuals are not.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.dynamics import Gaussian, Moments, Transition, expected_terms
from probsfa.statespace.engine.moments import PackedMoments, pack, triangle, unpack


class ObservationSums(NamedTuple):
    """Sums over rows that involve the observations; those of several parts of the data add up.

    Sums are over the rows in which each column is observed, and last over those in which any is. ``counts``
    (D + 1,) are numbers of rows; ``spread`` and ``second``, of shape (K (K + 1) / 2, D + 1), are sums of the
    upper triangles of ``Cov[z]`` and ``E[z z']``; ``first`` (K, D + 1) are those of ``E[z]``. With ``e`` the
    residuals at the posterior means, ``residual_power`` (D,) and ``residual_moments`` (K + 1, D) are the sums
    of ``e^2`` and of ``E[y] e'``.
    """

    counts: Array
    spread: Array
    second: Array
    first: Array
    residual_power: Array
    residual_moments: Array


def observation_sums(
    values: Array, weights: Array, loadings: Array, offset: Array, moments: PackedMoments
) -> ObservationSums:
    """Return the sums over rows from which :func:`complete_sums` computes the statistics."""
    means = moments.means
    upper = triangle(means.shape[0])
    anything = jnp.any(weights > 0.0, axis=1, keepdims=True).astype(weights.dtype)
    extended = jnp.concatenate([means, jnp.ones_like(means[:1])])

    def where_observed(numbers: Array) -> Array:
        return jnp.concatenate([numbers @ weights, numbers @ anything], axis=1)

    spread = where_observed(moments.covariances)
    # Computed before the product; inside it, the compiler's code would be slower.
    outer_products = jax.lax.optimization_barrier(means[upper.rows] * means[upper.columns])
    observed = where_observed(extended)
    residuals = values - offset - means.T @ loadings.T
    weighted = weights * residuals
    return ObservationSums(
        observed[-1],
        spread,
        spread + where_observed(outer_products),
        observed[:-1],
        jnp.sum(weighted * residuals, axis=0),
        extended @ weighted,
    )


def complete_sums(sums: ObservationSums, loadings: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return counts, residual power and moments, latent and total moments of :class:`Statistics`."""
    n_states = loadings.shape[1]
    second, counts, first = unpack(sums.second.T, n_states), sums.counts, sums.first.T
    latent = jnp.concatenate(
        [
            jnp.concatenate([second, first[:, :, None]], axis=2),
            jnp.concatenate([first[:, None, :], counts[:, None, None]], axis=2),
        ],
        axis=1,
    )
    loaded = jnp.einsum("dij,dj->di", unpack(sums.spread.T[:-1], n_states), loadings)
    power = sums.residual_power + jnp.einsum("di,di->d", loaded, loadings)
    cross_products = sums.residual_moments.T.at[:, :-1].add(-loaded)
    return counts[:-1], power, cross_products, latent[:-1], latent[-1]


def observation_statistics(
    values: Array, weights: Array, loadings: Array, offset: Array, moments: PackedMoments
) -> tuple[Array, Array, Array, Array, Array]:
    """Return counts, residual power and moments, latent and total moments of the observations."""
    return complete_sums(observation_sums(values, weights, loadings, offset, moments), loadings)


# Maximum number of distinct gaps for which sums over each are a product with indicators.
_MAX_FEW_GAPS = 32


def transition_statistics(
    following: Transition,
    gap_index: Array,
    n_gaps: int,
    moments: PackedMoments,
    after: Gaussian,
) -> tuple[Array, Array, Array, Array]:
    """Return sums that involve the dynamics, one row for each distinct gap between successive rows.

    ``following`` (T, K) and ``gap_index`` (T,) describe the step from each row to the next; the index is
    ``n_gaps`` if no row follows. ``after`` is the distribution of the state after the last row.
    """
    means, steps = moments.means, following.as_batch()
    here = Moments(means, steps.covariance_terms(moments.covariances))
    last = Moments(after.mean, steps.covariance_terms(pack(after.covariance)))
    later = Moments(
        *(jnp.concatenate([x[:, 1:], y[:, None]], axis=1) for x, y in zip(here, last, strict=True))
    )
    expected = expected_terms(steps, here, later, moments.lag_one)
    terms = (jnp.ones_like(means[:1]), *expected)
    if n_gaps <= _MAX_FEW_GAPS:
        which = (gap_index[:, None] == jnp.arange(n_gaps, dtype=gap_index.dtype)).astype(means.dtype)
        sums = [(term @ which).T for term in terms]
    else:
        sums = [
            jnp.zeros((n_gaps + 1, term.shape[0]), term.dtype).at[gap_index].add(term.T)[:n_gaps]
            for term in terms
        ]
    return sums[0][:, 0], sums[1], sums[2], sums[3]
