"""The exact posterior by one step of the recursions for each row: the definition of what all strategies give.

Nothing here has the size of the data: the observations enter through their collapse onto the latents,

    J_t = C' diag(m_t / r) C,        h_t = C' diag(m_t / r) (x_t - mu),

``m_t`` being the weights of its cells, the mask as a rule (Jungbacker & Koopman 2015; Durbin & Koopman 2012,
section 6.5). A row in which nothing is observed has ``J_t = 0`` and ``h_t = 0`` and needs no special case.

*Forward*, from the distribution of ``z_t`` given the rows up to ``t - 1``, mean ``m`` and covariance
``P = L L'``::

    B = I + L' J L,   u = B^-1 L' (h - J m),   mean = m + L u,   covariance = W W',   W = L B^-1/2

Only sums of positive terms are factorised, so nothing is added to keep matrices positive. The step costs
``log|B|`` and ``|u|^2`` in the log-likelihood, both free of the cancellation of large terms that small
noise brings.

*Backward*, with the distribution of ``z_t`` given ``z_t+1`` and the rows up to ``t``: mean
``mean_t + G (z_t+1 - A mean_t)`` and covariance ``S``, both from ``W`` alone; then
``P_t = S_t + G_t P_t+1 G_t'``, again a sum of positive terms.

Arrays have time first. ``transitions`` lead to each row from the one before, ``following`` from each row to
the next. The functions are pure and are compiled by their callers.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.symmetric import pack, triangle, unpack


class Collapsed(NamedTuple):
    """Observations collapsed onto the latents: ``precision`` (T, K, K) and ``information`` (T, K)."""

    precision: Array
    information: Array


class Filtered(NamedTuple):
    """Distribution of each latent state given the rows up to its own.

    ``means`` (T, K); ``roots`` (T, K, K) with covariance ``W W'``; ``log_dets`` (T,) and ``distances``
    (T,), the terms ``log|B_t|`` and ``|u_t|^2`` of the log-likelihood.
    """

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


def collapse(problem: Problem) -> Collapsed:
    """Collapse observations onto the latents: two matrix products over the data."""
    n_states = problem.loadings.shape[1]
    scaled = problem.loadings / problem.noise_variance[:, None]
    rows, columns, _ = triangle(n_states)
    precision = unpack(problem.weights @ (scaled[:, rows] * problem.loadings[:, columns]), n_states)
    information = (problem.weights * (problem.values - problem.offset)) @ scaled
    return Collapsed(precision, information)


def row_log_likelihoods(problem: Problem, means: Array, log_dets: Array, distances: Array) -> Array:
    """Log density of each row given the rows before it, from the filtered means (T, K) and two terms (T,).

    A cell with a weight counts with its density raised to that power, the normaliser included.

    With the filtered mean in place of the predicted one, the quadratic form splits into two positive parts:
    the residual against the noise and the update against the predicted covariance.
    """
    residuals = problem.values - problem.offset - means @ problem.loadings.T
    log_norm = problem.weights @ jnp.log(2.0 * jnp.pi * problem.noise_variance)
    quadratic = (problem.weights * residuals**2) @ (1.0 / problem.noise_variance)
    return -0.5 * (log_norm + quadratic + log_dets + distances)


def _solve_rows(factor: Array, rows: Array) -> Array:
    """``rows factor'^-1``."""
    return triangular_solve(factor, rows, left_side=False, lower=True, transpose_a=True)


def filter_pass(collapsed: Collapsed, transitions: Transition, before: Gaussian) -> tuple[Filtered, Gaussian]:
    """Run the forward pass from the state before the first row; also the distribution of the last state."""
    identity = jnp.eye(before.mean.shape[0], dtype=before.mean.dtype)

    def step(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, Filtered]:
        precision, information, transition = row
        predicted = transition.predict(state)
        lower = jnp.linalg.cholesky(predicted.covariance, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        surprise = lower.T @ (information - precision @ predicted.mean)
        solved = _solve_rows(factor, jnp.concatenate([lower, surprise[None]]))
        root, whitened = solved[:-1], solved[-1]
        mean = predicted.mean + root @ whitened
        shift = triangular_solve(factor, whitened[:, None], left_side=True, lower=True, transpose_a=True)[
            :, 0
        ]
        out = Filtered(mean, root, 2.0 * jnp.sum(jnp.log(jnp.diag(factor))), shift @ shift)
        return Gaussian(mean, root @ root.T), out

    last, filtered = jax.lax.scan(step, before, (*collapsed, transitions))
    return filtered, last


def condition(root: Array, following: Transition) -> tuple[Array, Array]:
    """Gain ``G`` (K, K) and root (K, K) of the covariance of a state given the next one.

    ``root`` is that of its filtered covariance, ``following`` the transition to the next state.
    """
    identity = jnp.eye(root.shape[0], dtype=root.dtype)
    inner = identity + root.T @ following.information(root)
    factor = jnp.linalg.cholesky(inner, symmetrize_input=False)
    narrowed = _solve_rows(factor, root)
    return following.gain(narrowed @ narrowed.T), narrowed


def smoother_pass(
    filtered: Filtered, following: Transition, after: Gaussian, *, full: bool = True
) -> RowMoments:
    """Run the backward pass from the distribution of the state after the last row given all rows.

    Unless ``full``, only what sums need of ``lag_one`` is stored, (T, K).
    """

    def step(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, RowMoments]:
        filtered_mean, root, transition = row
        gain, narrowed = condition(root, transition)
        cross = state.covariance @ gain.T
        # One product for both: at a dozen latents, a call costs as much as the work in it.
        missed = state.mean - transition.move(filtered_mean)
        moved = gain @ jnp.concatenate([cross, missed[:, None]], axis=1)
        state = Gaussian(filtered_mean + moved[:, -1], narrowed @ narrowed.T + moved[:, :-1])
        return state, RowMoments(*state, cross if full else transition.lag_terms(cross))

    rows = (filtered.means, filtered.roots, following)
    return jax.lax.scan(step, after, rows, reverse=True)[1]


def draw_backwards(filtered: Filtered, following: Transition, normals: Array, after: Array) -> Array:
    """Draw states backwards, each given the next one: (T, n_draws, K) from as many standard normals.

    ``after`` (n_draws, K) are the draws of the state after the last row.
    """

    def step(later: Array, row: tuple[Array, Array, Transition, Array]) -> tuple[Array, Array]:
        filtered_mean, root, transition, normal = row
        gain, narrowed = condition(root, transition)
        missed = later - transition.move(filtered_mean)
        drawn = filtered_mean + missed @ gain.T + normal @ narrowed.T
        return drawn, drawn

    rows = (filtered.means, filtered.roots, following, normals)
    return jax.lax.scan(step, after, rows, reverse=True)[1]


class RecursionsForward(NamedTuple):
    """What the forward pass leaves for the backward one."""

    filtered: Filtered
    last: Gaussian

    @property
    def last_root(self) -> FloatArray:
        """Root ``W`` (K, K) of the covariance ``W W'`` of the last state, outside compiled programs."""
        return np.array(np.asarray(self.filtered.roots)[-1])


@dataclass(frozen=True)
class Recursions:
    """The strategy of this module: rows one after the other."""

    name: ClassVar[str] = "recursions"
    few_passes: ClassVar[bool] = True
    shares_forward: ClassVar[bool] = False

    def forward(self, problem: Problem, before: Gaussian) -> tuple[RecursionsForward, Array]:
        """See :class:`.Strategy`."""
        filtered, last = filter_pass(collapse(problem), problem.transitions, before)
        terms = (filtered.means, filtered.log_dets, filtered.distances)
        return RecursionsForward(filtered, last), row_log_likelihoods(problem, *terms)

    def packed_moments(self, problem: Problem, result: RecursionsForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        smoothed = smoother_pass(result.filtered, problem.following, after, full=False)
        return PackedMoments(smoothed.means.T, pack(smoothed.covariances).T, smoothed.lag_one.T)

    def moments(self, problem: Problem, result: RecursionsForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        return smoother_pass(result.filtered, problem.following, after)
