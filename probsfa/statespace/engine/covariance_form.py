"""The posterior of many latents seen in few columns, by covariances and updates of rank D.

The recursions of :mod:`.recursions` factorise matrices of the size of the latents, K x K, in
every row. With D columns, D well below K, one row changes a covariance by a matrix of rank D only, and what
must be factorised is of size D. Let ``C`` and ``x`` be the loadings and centred values of a row's cells over
the standard deviations of their noise, zero where a cell is missing (its innovation is then zero, with
variance one), and ``a`` the decays that lead to the row.

*Forward*, from the law ``N(m, P)`` of the state before::

    m <- a m,   P <- a P a + 1 - a^2                                      predicted
    1 + C P C' = L L',   G = L^-1 C P,   H = L^-1 C,   w = L^-1 (x - C m)
    m <- m + G' w,   P <- P - G' G                                        filtered

*Backward*, with the score ``r`` and the information ``N`` of the later rows about the next row's predicted
state (Bierman 1973; de Jong 1989; Durbin & Koopman 2012, section 4.4),
``a`` being the decays that lead to the next row::

    X = N a P,   Var z = P - P a X,   Cov(z_next, z) = a Var z - (1 - a^2) X,   E z = m + P a r
    U = G a N a,   r <- a r + H' (w - G a r),   N <- a N a - H' U - U' H + H' (1 + U G') H

``r`` and ``N`` about the row after a stretch follow from the law of its state.

*Floating-point operations of a row*, terms of order ``K D^2`` left out: ``4 K^2 D`` forward, ``6 K^2 D``
backward, and ``4 K^3`` for the two products that make the covariances. Those of the engine are ``23/3 K^3``
forward and ``28/3 K^3`` backward. So where ``D << K`` a posterior takes a quarter of them, and the likelihood
alone ``D / (2 K)`` of them. The covariance ``P`` of each row, ``8 K^2`` bytes, is kept from one pass to the
other, where the engine keeps its root.

*Accuracy.* Nothing of the size of ``1 / (1 - a^2)`` or of the inverse noise is formed and multiplied out
again, so with slow latents and small noise this is more accurate than the engine. But a posterior variance
``v`` is a difference of prior variances, of size one, and has lost ``1 / v`` roundings: with as many columns
as latents and tiny noise, nothing would be left. :func:`suits` bounds ``1 / v`` from the parameters.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.batched import on_cpu
from probsfa.statespace.engine.inference import MOST_LANE_COMPONENTS, Problem
from probsfa.statespace.engine.recursions import Law, Smoothed
from probsfa.statespace.engine.statistics import Moments
from probsfa.statespace.engine.symmetric import triangle
from probsfa.statespace.panel import Panel, decay_over
from probsfa.statespace.parameters import Parameters

#: What programs are given in place of a number of segments where this strategy is meant.
FEW_COLUMNS = 0
# Most columns for each latent with which it is quicker.
_MOST_COLUMNS = 0.5
# Largest ratio of prior to posterior variance: ten digits are left of the smallest variance.
_MOST_PRECISION = 1e5

_State = tuple[Array, Array]


class FilteredRows(NamedTuple):
    """What the forward pass leaves of each row.

    ``means`` (T, K) and ``covariances`` (T, K, K) of the state given the rows up to its own; ``gains``
    (T, D, K), ``loadings`` (T, D, K) and ``innovations`` (T, D): ``G``, ``H`` and ``w`` of the module.
    """

    means: Array
    covariances: Array
    gains: Array
    loadings: Array
    innovations: Array


class Forward(NamedTuple):
    """What the forward pass leaves for the backward one, and the law of the last state."""

    filtered: FilteredRows
    last: Law


def largest_precision(params: Parameters, panel: Panel) -> float:
    """Bound on the posterior precision of any latent or mixture of latents, those of the prior being one.

    One row adds at most ``s``, the largest eigenvalue of ``C' R^-1 C``; of the rows on either side, as many
    count as a latent remembers.
    """
    with np.errstate(all="ignore"):
        scaled = params.loadings / np.sqrt(params.noise_variance)[:, None]
        decay = np.max(np.abs(decay_over(params.decay, panel.gaps)), initial=0.0)
        gram = scaled @ scaled.T
        if not np.all(np.isfinite(gram)) or not decay < 1.0:
            return np.inf
        rows = min(float(panel.n_rows), (1.0 + decay**2) / ((1.0 - decay) * (1.0 + decay)))
    return 1.0 + rows * float(np.linalg.eigvalsh(gram)[-1])


def suits(params: Parameters, panel: Panel) -> bool:
    """Whether this strategy is quicker than the others, and as accurate."""
    n_features, n_components = params.loadings.shape
    return (
        n_components > MOST_LANE_COMPONENTS
        and n_features <= _MOST_COLUMNS * n_components
        and on_cpu()
        and largest_precision(params, panel) <= _MOST_PRECISION
    )


def _predict(law: Law, decay: Array) -> Law:
    spread = decay[:, None] * law.covariance * decay + jnp.diag((1.0 - decay) * (1.0 + decay))
    return Law(decay * law.mean, spread)


def forward(problem: Problem, before: Law) -> tuple[Forward, Array]:
    """Filter, and the log density of each row given the rows before it, shape (T,)."""
    n_components = problem.loadings.shape[1]
    spread = jnp.sqrt(problem.noise_variance)
    loadings = problem.loadings / spread[:, None]
    scaled = problem.mask * (problem.values - problem.offset) / spread
    identity = jnp.eye(spread.shape[0], dtype=spread.dtype)

    def step(state: Law, row: tuple[Array, Array, Array]) -> tuple[Law, tuple[FilteredRows, Array]]:
        values, seen, decay = row
        mean, covariance = _predict(state, decay)
        seen_loadings = seen[:, None] * loadings
        crossed = seen_loadings @ covariance
        factor = jnp.linalg.cholesky(identity + crossed @ seen_loadings.T, symmetrize_input=False)
        surprise = values - seen_loadings @ mean
        right = jnp.concatenate([crossed, seen_loadings, surprise[:, None]], axis=1)
        solved = triangular_solve(factor, right, left_side=True, lower=True)
        gain, whitened, innovation = (
            solved[:, :n_components],
            solved[:, n_components:-1],
            solved[:, -1],
        )
        state = Law(mean + innovation @ gain, covariance - gain.T @ gain)
        minus_twice = 2.0 * jnp.sum(jnp.log(jnp.diag(factor))) + innovation @ innovation
        return state, (FilteredRows(*state, gain, whitened, innovation), minus_twice)

    last, (filtered, minus_twice) = jax.lax.scan(step, before, (scaled, problem.mask, problem.decays))
    log_norm = problem.mask @ jnp.log(2.0 * jnp.pi * problem.noise_variance)
    return Forward(filtered, last), -0.5 * (log_norm + minus_twice)


def _told_by_later_rows(last: Law, after: Law, decay: Array) -> _State:
    """Score ``r`` and information ``N`` about the state after the last row, given its law ``after``."""
    predicted = _predict(last, decay)
    lower = jnp.linalg.cholesky(predicted.covariance, symmetrize_input=False)
    identity = jnp.eye(decay.shape[0], dtype=decay.dtype)
    root = triangular_solve(lower, identity, left_side=True, lower=True)
    score = root.T @ (root @ (after.mean - predicted.mean))
    return score, root.T @ (identity - root @ after.covariance @ root.T) @ root


def _earlier(filtered: FilteredRows, score: Array, information: Array) -> _State:
    """``r`` and ``N`` about a row's predicted state from those about its filtered state."""
    _, _, gain, loadings, innovation = filtered
    told = gain @ information
    inner = jnp.eye(gain.shape[0], dtype=gain.dtype) + told @ gain.T
    # H' U + U' H - H' (1 + U G') H in one product.
    half = told - 0.5 * inner @ loadings
    change = jnp.concatenate([half, loadings]).T @ jnp.concatenate([loadings, half])
    return score + (innovation - gain @ score) @ loadings, information - change


def _backward(problem: Problem, result: Forward, after: Law, *, full: bool) -> Smoothed | Moments:
    def step(state: _State, row: tuple[FilteredRows, Array]) -> tuple[_State, Smoothed | Moments]:
        filtered, decay = row
        score, information = decay * state[0], state[1]
        covariance = filtered.covariances
        crossed = information @ (decay[:, None] * covariance)
        smoothed = covariance - (covariance * decay) @ crossed
        mean = filtered.means + covariance @ score
        fresh = (1.0 - decay) * (1.0 + decay)
        state = _earlier(filtered, score, decay[:, None] * information * decay)
        if full:
            return state, Smoothed(mean, smoothed, decay[:, None] * smoothed - fresh[:, None] * crossed)
        variances = jnp.diagonal(smoothed)
        packed = smoothed.reshape(-1)[triangle(mean.shape[0]).flat]
        lag_one = decay * variances - fresh * jnp.diagonal(crossed)
        return state, Moments(mean, packed, lag_one)  # each of one row

    rows = (result.filtered, problem.following)
    told = _told_by_later_rows(result.last, after, problem.after_decay)
    moments: Smoothed | Moments = jax.lax.scan(step, told, rows, reverse=True)[1]
    return moments


def backward(problem: Problem, result: Forward, after: Law) -> Moments:
    """Moments for the sums over rows, given the law of the state after the last row."""
    moments = _backward(problem, result, after, full=False)
    return Moments(*(x.T for x in moments))


def backward_in_full(problem: Problem, result: Forward, after: Law) -> Smoothed:
    """All moments of all rows."""
    return _backward(problem, result, after, full=True)  # type: ignore[return-value]
