"""Square-root Kalman filter and smoother row by row in JAX, the reference for all other algorithms.

Covariances are represented by roots, ``P = W W'``, and computed by orthogonal transformations and by sums of
positive terms, which is accurate for very small noise and closely spaced rows. The passes consist of two
functions: *predict* the next state, and *update* it with a row. The update is an argument, so that other
likelihoods can use the same passes. In the formulas, ``O`` is orthogonal and ``'`` denotes the transpose.

*Predict* ``z_t+1 = A z_t + e`` with ``Cov e = Q = N' N``. Let ``U`` be the upper triangle of a QR
factorisation of ``[W' A'; N]``. Then ``U'`` is a root of the predicted covariance ``A P A' + Q``.

*Update.* Let ``R^-1/2 = diag(w / r)^1/2`` with the weights ``w`` of the values of a row, by default the mask.
With ``V = R^-1/2 C W`` and the residuals ``e = R^-1/2 (x - mu - C m)``::

    [I; V] = O B,    h = O' [0; e],    mean = m + W B^-1 h,    covariance = (W B^-1) (W B^-1)'

The terms ``-1/2 log|B' B|`` and ``-1/2 |B^-1 h|^2`` are parts of the log-likelihood of the row (Kailath,
Sayed & Hassibi 2000, chapter 12).

*Smooth* with the gain ``G = P A' (A P A' + Q)^-1`` (Rauch, Tung & Striebel 1965). ``P_t|T`` denotes smoothed
covariances::

    [N      0 ]       [B  M]
    [W' A'  W']  = O  [0  S],    G = (B^-1 M)',    Cov(z_t | z_t+1) = S' S,    P_t|T = S' S + G P_t+1|T G'

The first axis of arrays is time. ``transitions`` are from the previous row to each row, ``following`` from
each row to the next row. The functions are pure, and their callers compile them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.moments import PackedMoments, RowMoments, pack, triangle, unpack
from probsfa.statespace.engine.problem import Problem


def stationary(n_states: int, dtype: Any) -> Gaussian:
    """Return the stationary distribution, which is also the distribution of the first state of a sequence."""
    return Gaussian(jnp.zeros(n_states, dtype), jnp.eye(n_states, dtype=dtype))


class SquareRootState(NamedTuple):
    """Distribution of a state: ``mean`` (K,), and ``root`` ``W`` (K, K) with covariance ``W W'``."""

    mean: Array
    root: Array


class Updated(NamedTuple):
    """Updated state, and ``log|B' B|`` and ``|B^-1 h|^2`` of the row, see the module docstring."""

    state: SquareRootState
    log_det: Array
    distance: Array


#: Function that updates a predicted state with the data of a row.
Update = Callable[[SquareRootState, Any], Updated]


class Filtered(NamedTuple):
    """Filtered distributions: each state given its row and all earlier rows.

    ``means`` (T, K); ``roots`` (T, K, K) with covariance ``W W'``; ``log_dets`` (T,) and ``distances``
    (T,) as in :class:`Updated`.
    """

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class Collapsed(NamedTuple):
    """Observations collapsed onto the states (Jungbacker & Koopman 2015).

    ``precision`` (T, K, K), ``C' diag(w / r) C``, and ``information`` (T, K), ``C' diag(w / r) (x - mu)``.
    """

    precision: Array
    information: Array


def collapse(problem: Problem) -> Collapsed:
    """Collapse observations onto the states: two matrix products over the data."""
    n_states = problem.loadings.shape[1]
    scaled = problem.loadings / problem.noise_variance[:, None]
    rows, columns, _ = triangle(n_states)
    precision = unpack(problem.weights @ (scaled[:, rows] * problem.loadings[:, columns]), n_states)
    information = (problem.weights * (problem.values - problem.offset)) @ scaled
    return Collapsed(precision, information)


def row_log_likelihoods(problem: Problem, means: Array, log_dets: Array, distances: Array) -> Array:
    """Return the log density (T,) of each row given all earlier rows.

    ``means`` (T, K), ``log_dets`` (T,) and ``distances`` (T,) are those of :class:`Filtered`. The log density
    of a value, including its normalization, is multiplied by the weight of the value.

    The quadratic form of the prediction errors is the sum of two positive terms: the squared residuals at the
    filtered mean in units of the noise variances, and the squared change of the mean by the update in units
    of the predicted covariance.
    """
    residuals = problem.values - problem.offset - means @ problem.loadings.T
    log_norm = problem.weights @ jnp.log(2.0 * jnp.pi * problem.noise_variance)
    quadratic = (problem.weights * residuals**2) @ (1.0 / problem.noise_variance)
    return -0.5 * (log_norm + quadratic + log_dets + distances)


def _solve(triangular: Array, right: Array, *, transposed: bool = False) -> Array:
    """Return ``B^-1 X``, or ``B'^-1 X`` if `transposed`, for an upper triangle ``B`` and ``X = right``."""
    columns = right if right.ndim > 1 else right[:, None]
    solved = triangular_solve(triangular, columns, left_side=True, lower=False, transpose_a=transposed)
    return solved if right.ndim > 1 else solved[:, 0]


def predict(state: SquareRootState, transition: Transition) -> SquareRootState:
    """Predict the next state."""
    stack = jnp.concatenate([transition.move(state.root).T, transition.innovation_root().matrix()])
    return SquareRootState(transition.move(state.mean), jnp.linalg.qr(stack, mode="r").T)


def update_with_values(problem: Problem) -> tuple[Update, Any]:
    """Return the update with the values of a row, and its inputs for all rows."""
    loadings, offset = problem.loadings, problem.offset

    def update(predicted: SquareRootState, row: tuple[Array, Array]) -> Updated:
        values, weights = row
        scale = jnp.where(weights > 0.0, jnp.sqrt(jnp.where(weights > 0.0, weights, 1.0)), 0.0)
        scale = scale / jnp.sqrt(problem.noise_variance)
        n_states = predicted.mean.shape[0]
        identity = jnp.eye(n_states, dtype=predicted.mean.dtype)
        observed = scale[:, None] * (loadings @ predicted.root)
        residual = scale * (values - offset - loadings @ predicted.mean)
        orthogonal, triangular = jnp.linalg.qr(jnp.concatenate([identity, observed]))
        return _updated(predicted, triangular, orthogonal[n_states:].T @ residual)

    return update, (problem.values, problem.weights)


def update_with_information(predicted: SquareRootState, row: Collapsed) -> Updated:
    """Update with the precision and information vector of a row; inaccurate for very small noise."""
    identity = jnp.eye(predicted.mean.shape[0], dtype=predicted.mean.dtype)
    root = predicted.root
    upper = jnp.linalg.cholesky(identity + root.T @ row.precision @ root, symmetrize_input=False).T
    innovation = root.T @ (row.information - row.precision @ predicted.mean)
    return _updated(predicted, upper, _solve(upper, innovation, transposed=True))


def _updated(predicted: SquareRootState, triangular: Array, whitened: Array) -> Updated:
    """Return the updated state from ``B`` and ``h`` of the module docstring."""
    root = _solve(triangular, predicted.root.T, transposed=True).T
    shift = _solve(triangular, whitened)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.abs(jnp.diag(triangular))))
    return Updated(SquareRootState(predicted.mean + root @ whitened, root), log_det, shift @ shift)


def filter_pass(
    update: Update, rows: Any, transitions: Transition, before: Gaussian
) -> tuple[Filtered, Gaussian]:
    """Filter all rows, from the state before the first row; also return the last filtered state."""

    def step(state: SquareRootState, row: tuple[Any, Transition]) -> tuple[SquareRootState, Filtered]:
        updated = update(predict(state, row[1]), row[0])
        return updated.state, Filtered(*updated.state, updated.log_det, updated.distance)

    first = SquareRootState(before.mean, jnp.linalg.cholesky(before.covariance, symmetrize_input=False))
    last, filtered = jax.lax.scan(step, first, (rows, transitions))
    return filtered, Gaussian(last.mean, last.root @ last.root.T)


def condition(root: Array, following: Transition) -> tuple[Array, Array]:
    """Return the smoother gain ``G`` (K, K), and a lower triangle ``X`` with ``Cov(z_t | z_t+1) = X X'``.

    ``root`` is the root of the filtered covariance of the state, and ``following`` the transition to the next
    state.
    """
    n_states = root.shape[0]
    upper_rows = jnp.concatenate([following.innovation_root().matrix(), jnp.zeros_like(root)], axis=1)
    lower_rows = jnp.concatenate([following.move(root).T, root.T], axis=1)
    triangular = jnp.linalg.qr(jnp.concatenate([upper_rows, lower_rows]), mode="r")
    gain = _solve(triangular[:n_states, :n_states], triangular[:n_states, n_states:]).T
    return gain, triangular[n_states:, n_states:].T


def smoother_pass(
    filtered: Filtered, following: Transition, after: Gaussian, *, full: bool = True
) -> RowMoments:
    """Smooth all rows, from the smoothed distribution of the state after the last row.

    Unless ``full``, ``lag_one`` (T, L) only contains the :meth:`.Transition.lag_terms`.
    """

    def step(state: Gaussian, row: tuple[Array, Array, Transition]) -> tuple[Gaussian, RowMoments]:
        filtered_mean, root, transition = row
        gain, conditional_root = condition(root, transition)
        lag_one = state.covariance @ gain.T
        mean = filtered_mean + gain @ (state.mean - transition.move(filtered_mean))
        state = Gaussian(mean, conditional_root @ conditional_root.T + gain @ lag_one)
        return state, RowMoments(*state, lag_one if full else transition.lag_terms(lag_one))

    rows = (filtered.means, filtered.roots, following)
    return jax.lax.scan(step, after, rows, reverse=True)[1]


def draw_backwards(filtered: Filtered, following: Transition, normals: Array, after: Array) -> Array:
    """Draw states (T, n_draws, K) backwards, each given the next state, from standard normal variables.

    ``normals`` has the shape of the result; ``after`` (n_draws, K) are draws of the state after the last row.
    Roots of covariances have positive diagonals, so that all algorithms map the same normal variables to the
    same draws.
    """

    def step(later: Array, row: tuple[Array, Array, Transition, Array]) -> tuple[Array, Array]:
        filtered_mean, root, transition, normal = row
        gain, conditional_root = condition(root, transition)
        prediction_error = later - transition.move(filtered_mean)
        upper = conditional_root.T
        upper = jnp.where(jnp.diag(upper) < 0.0, -1.0, 1.0)[:, None] * upper
        draws = filtered_mean + prediction_error @ gain.T + normal @ upper
        return draws, draws

    rows = (filtered.means, filtered.roots, following, normals)
    return jax.lax.scan(step, after, rows, reverse=True)[1]


class RecursionsForward(NamedTuple):
    """Results of the forward pass that the backward pass uses."""

    filtered: Filtered
    last: Gaussian


@dataclass(frozen=True)
class Recursions:
    """Filter and smoother row by row, a :class:`.Strategy`."""

    name: ClassVar[str] = "recursions"
    low_optimization: ClassVar[bool] = True

    def forward(self, problem: Problem, before: Gaussian) -> tuple[RecursionsForward, Array]:
        """See :class:`.Strategy`."""
        filtered, last = filter_pass(*update_with_values(problem), problem.transitions, before)
        terms = (filtered.means, filtered.log_dets, filtered.distances)
        return RecursionsForward(filtered, last), row_log_likelihoods(problem, *terms)

    def packed_moments(self, problem: Problem, result: RecursionsForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        smoothed = smoother_pass(result.filtered, problem.following, after, full=False)
        return PackedMoments(smoothed.means.T, pack(smoothed.covariances).T, smoothed.lag_one.T)

    def moments(self, problem: Problem, result: RecursionsForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        return smoother_pass(result.filtered, problem.following, after)
