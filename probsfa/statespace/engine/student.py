"""Causal inference under Student-t noise, row by row: a Gaussian approximation of the filtered state.

The filtered distribution of each state is approximated by a Gaussian. In each row, the weights of its values
and the state are iterated to the fixed point of :mod:`probsfa.statespace.student`, so that an outlier in the
newest row immediately has a small weight. Weights of earlier rows are not updated. After a level shift, the
new level is therefore accepted later than by a smoother.

References
----------
Agamennoni, G., Nieto, J. I. & Nebot, E. M. (2012). Approximate inference in state-space models with
heavy-tailed noise. IEEE Transactions on Signal Processing 60, 5024-5037.
https://doi.org/10.1109/TSP.2012.2208106
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve
from jax.scipy.special import betaln, gammaln

from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.problem import Model

__all__ = ["filter_program"]

# Maximum iterations for one row, and relative change of a weight at which to stop.
_MOST_ROUNDS, _CLOSE = 100, 1e-10


@partial(jax.jit, static_argnames="by_row")
def filter_program(
    values: Array,
    mask: Array,
    transitions: Transition,
    model: Model,
    before: Gaussian,
    degrees: Array,
    *,
    by_row: bool,
) -> tuple[Array, Array, Array]:
    """Return means, covariances and lower bounds of the log densities, from the state before the rows.

    ``degrees`` are the degrees of freedom of the noise; with `by_row` the values of a row share a weight.
    """
    loadings, r = model.loadings, model.noise_variance
    identity = jnp.eye(model.n_states, dtype=values.dtype)

    def shared(cells: Array) -> Array:
        return jnp.broadcast_to(jnp.sum(cells), cells.shape) if by_row else cells

    def step(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, tuple[Array, ...]]:
        x, seen, transition = row
        predicted = transition.predict(state)
        lower = jnp.linalg.cholesky(predicted.covariance, symmetrize_input=False)
        turned = loadings @ lower
        error = seen * (x - model.offset - loadings @ predicted.mean)
        counts = shared(seen)

        def weights_of(power: Array) -> Array:
            return (degrees + counts) / (degrees + shared(seen * power))

        def posterior(weights: Array) -> tuple[Array, Array, Array]:
            """Return factor of the precision, mean and root of the state in units of its predicted root."""
            scaled = (seen * weights / r)[:, None] * turned
            factor = jnp.linalg.cholesky(identity + turned.T @ scaled, symmetrize_input=False)
            half = triangular_solve(factor, (error @ scaled)[:, None], left_side=True, lower=True)
            mean = triangular_solve(factor, half, left_side=True, lower=True, transpose_a=True)[:, 0]
            root = triangular_solve(factor, identity, left_side=True, lower=True)
            return factor, mean, root

        def discrepancies(mean: Array, root: Array) -> Array:
            return ((error - turned @ mean) ** 2 + jnp.sum((turned @ root.T) ** 2, axis=1)) / r

        def improve(carried: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            weights, _, count = carried
            _, mean, root = posterior(weights)
            better = weights_of(discrepancies(mean, root))
            return better, jnp.max(seen * jnp.abs(better / weights - 1.0)), count + 1

        first = weights_of(error**2 / (r + jnp.sum(turned**2, axis=1)))
        start = (first, jnp.asarray(jnp.inf, values.dtype), jnp.asarray(0))
        weights, _, _ = jax.lax.while_loop(
            lambda carried: (carried[1] > _CLOSE) & (carried[2] < _MOST_ROUNDS), improve, start
        )
        factor, mean, root = posterior(weights)
        s, n = shared(seen * discrepancies(mean, root)), counts
        divergence = 0.5 * (
            jnp.sum(root**2) + mean @ mean - mean.shape[0] + 2.0 * jnp.sum(jnp.log(jnp.diag(factor)))
        )
        half = 0.5 * jnp.maximum(n, 1.0)
        ratio = gammaln(half) - betaln(0.5 * degrees, half) - half * jnp.log(0.5 * degrees)
        norm = jnp.where(n > 0.0, ratio, 0.0)
        terms = norm - 0.5 * (degrees + n) * jnp.log1p(s / degrees)
        terms = terms[0] if by_row else jnp.sum(seen * terms)
        log_norm = -0.5 * jnp.sum(seen * jnp.log(2.0 * jnp.pi * r))
        spread = lower @ root.T
        filtered = Gaussian(predicted.mean + lower @ mean, spread @ spread.T)
        return filtered, (*filtered, terms + log_norm - divergence)

    rows: tuple[Array, ...] = jax.lax.scan(step, before, (values, mask, transitions))[1]
    return rows[0], rows[1], rows[2]
