"""Distribution of each value given all other values, by a filter and smoother that process single values.

Let ``Sigma`` be the covariance of all observed values, ``e = Sigma^-1 (x - mu)`` their smoothing errors (de
Jong 1989), and ``d = diag(Sigma^-1)``. Given all other values, a value has the mean ``x - e / d`` and the
variance ``1 / d``. The values of a row are processed one after the other (univariate treatment, Koopman &
Durbin 2000). A backward pass accumulates the information of later values, as in the disturbance smoother (de
Jong 1989). Let ``c`` and ``r`` be the loadings and noise variance of a value, ``m`` and ``P`` the mean and
covariance of the state given all earlier values, and ``s`` and ``N`` the score and information of all later
values::

    f = c' P c + r,   g = P c / f,   v = x - mu - c' m,   m <- m + g v,   P <- P - g c' P
    e = v / f - g' s,   d = 1 / f + g' N g
    s <- s + c e,   N <- N - c (N g)' - (N g) c' + d c c'

No step divides by the noise variance. The usual alternative removes a value from the posterior given all
values. The relative rounding error of this alternative is ``1e-15`` times the ratio of the variance of the
value to its noise variance.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine.compiler import compile_program
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.problem import Model, Rows, make_problem
from probsfa.statespace.engine.recursions import stationary

__all__ = ["smoothing_errors"]


class _ValueUpdates(NamedTuple):
    """Update with a value: ``g`` (K,), ``v``, ``f``, whether the value is observed, and its loadings (K,)."""

    gain: Array
    error: Array
    variance: Array
    observed: Array
    loadings: Array


class _LaterInformation(NamedTuple):
    """Score ``s`` (K,) and information ``N`` (K, K) of later values about a state."""

    score: Array
    information: Array


@compile_program()
def smoothing_errors(model: Model, rows: Rows) -> tuple[Array, Array]:
    """Return smoothing errors ``e`` and precisions ``d``, both (T, D); zero for missing values.

    Parameters
    ----------
    model : Model
        Parameters.
    rows : Rows
        All rows, with weights of one (observed) and zero (missing).
    """
    problem = make_problem(model, rows, model.n_gaps)
    centred = problem.values - problem.offset

    def update_by_value(
        state: Gaussian, value_row: tuple[Array, Array, Array, Array]
    ) -> tuple[Gaussian, _ValueUpdates]:
        value, observed, loadings, noise = value_row
        cross_products = state.covariance @ loadings
        variance = loadings @ cross_products + noise
        gain, error = observed * cross_products / variance, value - loadings @ state.mean
        state = Gaussian(state.mean + gain * error, state.covariance - jnp.outer(gain, cross_products))
        return state, _ValueUpdates(gain, error, variance, observed, loadings)

    def forward(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, _ValueUpdates]:
        values, observed, transition = row
        value_rows = (values, observed, problem.loadings, problem.noise_variance)
        return jax.lax.scan(update_by_value, transition.predict(state), value_rows)

    def leave_out(
        later: _LaterInformation, value_update: _ValueUpdates
    ) -> tuple[_LaterInformation, tuple[Array, Array]]:
        gain, error, variance, observed, loadings = value_update
        information_gain = later.information @ gain
        smoothing_error = observed * (error / variance - gain @ later.score)
        precision = observed * (1.0 / variance + gain @ information_gain)
        cross_products = jnp.outer(loadings, information_gain - 0.5 * precision * loadings)
        information = later.information - cross_products - cross_products.T
        score = later.score + smoothing_error * loadings
        return _LaterInformation(score, information), (smoothing_error, precision)

    def backward(
        later: _LaterInformation, row: tuple[_ValueUpdates, Transition]
    ) -> tuple[_LaterInformation, tuple[Array, Array]]:
        updates, following = row
        later = _LaterInformation(
            following.move_back(later.score), following.move_information_back(later.information)
        )
        return jax.lax.scan(leave_out, later, updates, reverse=True)

    prior = stationary(model.n_states, centred.dtype)
    _, updates = jax.lax.scan(forward, prior, (centred, problem.weights, problem.transitions))
    zeros = _LaterInformation(*jax.tree.map(jnp.zeros_like, prior))
    return jax.lax.scan(backward, zeros, (updates, problem.following), reverse=True)[1]
