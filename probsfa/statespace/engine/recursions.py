"""The exact posterior of the factorial AR(1) model, as two passes over time.

Nothing here has the size of the data: the observations enter through their collapse onto the latents,

    J_t = C' diag(m_t / r) C,        h_t = C' diag(m_t / r) (x_t - mu),

``m_t`` being the mask (Jungbacker & Koopman 2015; Durbin & Koopman 2012, section 6.5). A row in which
nothing is observed has ``J_t = 0`` and ``h_t = 0`` and needs no special case.

*Forward*, from the law of ``z_t`` given the rows up to ``t - 1``, mean ``m`` and covariance ``P = L L'``::

    B = I + L' J L,   u = B^-1 L' (h - J m),   mean = m + L u,   covariance = W W',   W = L B^-1/2

Only sums of positive terms are factorised, so nothing is added to keep matrices positive. The step costs
``log|B|`` and ``|u|^2`` in the log-likelihood, both free of the cancellation of large terms that small
noise brings.

*Backward*, with the law of ``z_t`` given ``z_t+1`` and the rows up to ``t``: mean ``mean_t + G (z_t+1 - a
mean_t)`` and covariance ``S``, both from ``W`` alone; then ``P_t = S_t + G_t P_t+1 G_t'``, again a sum of
positive terms.

Arrays have time first. ``decays`` (T, K) holds the decay from the row before to each row, zero where a
sequence starts; ``following`` (T, K) the decay from each row to the next, zero where there is none. The
functions are pure and are compiled by their callers.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.symmetric import triangle, unpack

_State = tuple[Array, Array]


class Collapsed(NamedTuple):
    """Observations collapsed onto the latents: ``precision`` (T, K, K) and ``information`` (T, K)."""

    precision: Array
    information: Array


class Filtered(NamedTuple):
    """Law of each latent state given the rows up to its own.

    ``means`` (T, K); ``roots`` (T, K, K) with covariance ``W W'``; ``log_dets`` (T,) and ``distances``
    (T,), the terms ``log|B_t|`` and ``|u_t|^2`` of the log-likelihood.
    """

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class Law(NamedTuple):
    """Law of one state: ``mean`` (K,) and ``covariance`` (K, K)."""

    mean: Array
    covariance: Array


class Smoothed(NamedTuple):
    """Law of the states given all rows.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``lag_one`` (T, K, K), where ``lag_one[t]`` is the
    covariance of ``z_t+1`` (rows) with ``z_t`` (columns), or its diagonal alone: see :func:`smoother_pass`.
    """

    means: Array
    covariances: Array
    lag_one: Array


def collapse(values: Array, mask: Array, loadings: Array, noise_variance: Array, offset: Array) -> Collapsed:
    """Collapse observations onto the latents: two matrix products over the data."""
    n_components = loadings.shape[1]
    scaled = loadings / noise_variance[:, None]
    rows, columns, _ = triangle(n_components)
    precision = unpack(mask @ (scaled[:, rows] * loadings[:, columns]), n_components)
    information = (mask * (values - offset)) @ scaled
    return Collapsed(precision, information)


def _solve_rows(factor: Array, rows: Array) -> Array:
    """``rows factor'^-1``."""
    return triangular_solve(factor, rows, left_side=False, lower=True, transpose_a=True)


def prior_law(n_components: int, dtype: jnp.dtype) -> Law:
    """Stationary law of the latents."""
    return Law(jnp.zeros(n_components, dtype), jnp.eye(n_components, dtype=dtype))


def filter_pass(collapsed: Collapsed, decays: Array, before: Law) -> tuple[Filtered, Law]:
    """Run the forward pass from the law of the state before the first row; also the law of the last state."""
    identity = jnp.eye(decays.shape[1], dtype=decays.dtype)

    def step(state: _State, row: tuple[Array, Array, Array]) -> tuple[_State, Filtered]:
        mean, covariance = state
        precision, information, decay = row
        predicted = decay * mean
        spread = decay[:, None] * covariance * decay + jnp.diag((1.0 - decay) * (1.0 + decay))
        lower = jnp.linalg.cholesky(spread, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        surprise = lower.T @ (information - precision @ predicted)
        solved = _solve_rows(factor, jnp.concatenate([lower, surprise[None]]))
        root, whitened = solved[:-1], solved[-1]
        mean = predicted + root @ whitened
        shift = triangular_solve(factor, whitened[:, None], left_side=True, lower=True, transpose_a=True)[
            :, 0
        ]
        covariance = root @ root.T
        out = Filtered(mean, root, 2.0 * jnp.sum(jnp.log(jnp.diag(factor))), shift @ shift)
        return (mean, covariance), out

    last, filtered = jax.lax.scan(step, (before.mean, before.covariance), (*collapsed, decays))
    return filtered, Law(*last)


def condition(root: Array, following: Array) -> tuple[Array, Array]:
    """Gain ``G`` (K, K) and root (K, K) of the covariance of a state given the next one.

    ``root`` is that of its filtered covariance, ``following`` (K,) the decays to the next state.
    """
    weights = following / ((1.0 - following) * (1.0 + following))
    identity = jnp.eye(following.shape[0], dtype=following.dtype)
    inner = identity + root.T @ ((following * weights)[:, None] * root)
    factor = jnp.linalg.cholesky(inner, symmetrize_input=False)
    narrowed = _solve_rows(factor, root)
    return (narrowed @ narrowed.T) * weights, narrowed


def smoother_pass(filtered: Filtered, following: Array, after: Law, *, full: bool = True) -> Smoothed:
    """Run the backward pass from the law of the state after the last row given all rows.

    Unless ``full``, only the diagonals of ``lag_one`` are kept, (T, K).
    """

    def step(state: _State, row: tuple[Array, Array, Array]) -> tuple[_State, Smoothed]:
        mean, covariance = state
        filtered_mean, root, decay = row
        gain, narrowed = condition(root, decay)
        cross = covariance @ gain.T
        # One product for both: at a dozen latents, a call costs as much as the work in it.
        moved = gain @ jnp.concatenate([cross, (mean - decay * filtered_mean)[:, None]], axis=1)
        state = (filtered_mean + moved[:, -1], narrowed @ narrowed.T + moved[:, :-1])
        return state, Smoothed(*state, cross if full else jnp.diagonal(cross))

    rows = (filtered.means, filtered.roots, following)
    return jax.lax.scan(step, (after.mean, after.covariance), rows, reverse=True)[1]


def backward_draws(filtered: Filtered, following: Array, normals: Array, after: Array) -> Array:
    """Draw states backwards, each given the next one: (T, n_draws, K) from as many standard normals.

    ``after`` (n_draws, K) are the draws of the state after the last row.
    """

    def step(later: Array, row: tuple[Array, ...]) -> tuple[Array, Array]:
        filtered_mean, root, decay, normal = row
        gain, narrowed = condition(root, decay)
        drawn = filtered_mean + (later - decay * filtered_mean) @ gain.T + normal @ narrowed.T
        return drawn, drawn

    rows = (filtered.means, filtered.roots, following, normals)
    return jax.lax.scan(step, after, rows, reverse=True)[1]
