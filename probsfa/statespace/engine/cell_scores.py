"""What all other cells say of each cell, however small its noise, cell by cell instead of row by row.

With ``e = Sigma^-1 (x - mu)`` and ``d = diag(Sigma^-1)`` over all observed cells, a cell given all others has
mean ``x - e / d`` and variance ``1 / d``. The cells of a row are taken one after the other, as if each were
a row of its own (Koopman & Durbin 2000), and a backward pass gathers what later cells say, as the
disturbance smoother does (de Jong 1989). With ``c`` and ``r`` a cell's loadings and noise, ``N(m, P)`` the
state given the cells before it, and score ``s`` and information ``N`` of the cells after it about the state
given its own::

    f = c' P c + r,   g = P c / f,   v = x - c' m,   m <- m + g v,   P <- P - g c' P
    e = v / f - g' s,   d = 1 / f + g' N g
    s <- s + c e,   N <- N - c (N g)' - (N g) c' + d c c'

Nothing is divided by the noise, so that small noise costs few digits, where a posterior that knows the cell
has none left when it is told to forget it: ``1e-15`` of the cell's variance over that of its noise. A step
for each cell is slower; it is for the cells where the other way fails.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.compiler import program
from probsfa.statespace.engine.dynamics import Gaussian, Transition, stationary
from probsfa.statespace.engine.problem import Model, Rows, make_problem

__all__ = ["cell_scores"]


class _Cells(NamedTuple):
    """Of each cell: ``g`` (K,), ``v``, ``f`` and whether it is observed, and its loadings (K,)."""

    gain: Array
    error: Array
    variance: Array
    seen: Array
    loadings: Array


class _Later(NamedTuple):
    """Score ``s`` (K,) and information ``N`` (K, K) of later cells about a state."""

    score: Array
    information: Array


@program()
def cell_scores(model: Model, rows: Rows) -> tuple[Array, Array]:
    """``e`` and ``d`` of the module, (T, D); zero where a cell is missing.

    Parameters
    ----------
    model : Model
        Parameters.
    rows : Rows
        All rows, with weights of one and zero.
    """
    problem = make_problem(model, rows, model.n_gaps)
    centred = problem.values - problem.offset

    def told(state: Gaussian, cell: tuple[Array, Array, Array, Array]) -> tuple[Gaussian, _Cells]:
        value, seen, loadings, noise = cell
        crossed = state.covariance @ loadings
        variance = loadings @ crossed + noise
        gain, error = seen * crossed / variance, value - loadings @ state.mean
        state = Gaussian(state.mean + gain * error, state.covariance - jnp.outer(gain, crossed))
        return state, _Cells(gain, error, variance, seen, loadings)

    def forward(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, _Cells]:
        values, seen, transition = row
        cells = (values, seen, problem.loadings, problem.noise_variance)
        return jax.lax.scan(told, transition.predict(state), cells)

    def asked(later: _Later, cell: _Cells) -> tuple[_Later, tuple[Array, Array]]:
        gain, error, variance, seen, loadings = cell
        informed = later.information @ gain
        score = seen * (error / variance - gain @ later.score)
        precision = seen * (1.0 / variance + gain @ informed)
        crossed = jnp.outer(loadings, informed - 0.5 * precision * loadings)
        information = later.information - crossed - crossed.T
        return _Later(later.score + score * loadings, information), (score, precision)

    def backward(later: _Later, row: tuple[_Cells, Transition]) -> tuple[_Later, tuple[Array, Array]]:
        cells, following = row
        later = _Later(following.move_back(later.score), following.move_information_back(later.information))
        return jax.lax.scan(asked, later, cells, reverse=True)

    prior = stationary(model.n_states, centred.dtype)
    _, cells = jax.lax.scan(forward, prior, (centred, problem.weights, problem.transitions))
    nothing = _Later(*jax.tree.map(jnp.zeros_like, prior))
    return jax.lax.scan(backward, nothing, (cells, problem.following), reverse=True)[1]
