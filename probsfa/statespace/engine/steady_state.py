"""The posterior of a complete series, whose covariances soon stop changing.

Where no cell is missing and all steps are alike, covariances do not depend on the data, and after some rows
they are those of the steady state to the last digit: the solution of a Riccati equation (Anderson & Moore
1979, chapter 4). How many rows that takes, ``n``, is known before: the law of the state after ``n`` rows
given the state before them is ``N(F s + ..., P)``, and what is left of the past in the covariance is below
``F F'``. ``F`` and ``P`` of ``2 n`` rows follow from those of ``n`` rows (structure-preserving doubling: Chu,
Fan, Lin & Wang 2004, doi:10.1080/00207170410001714988).

So only the first ``n`` rows are filtered one by one and smoothed one by one, and ``n`` covariances are
computed for the end. In between the means follow a linear recursion with constant matrices, solved in blocks
by matrix products.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve
from numpy.typing import NDArray

from probsfa.statespace.engine.cache import Key, keep
from probsfa.statespace.engine.recursions import (
    Collapsed,
    Law,
    condition,
    filter_pass,
    prior_law,
    smoother_pass,
)
from probsfa.statespace.panel import Panel, decay_over
from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]

#: Fewest rows for which a program of its own is worth compiling.
FEWEST_ROWS = 2048
# Largest data (bytes) that are worked through at once; longer series go in chunks.
_MOST_BYTES = 512 * 2**20
# Rows at either end that are worked through one by one: the least of these that is enough.
_ENDS = (32, 128, 512)
# Share of the rows that one end may take.
_LONGEST_END = 0.25
# What may be left of the past in a variance.
_FORGOTTEN = 1e-18
# Size of the matrices by which a recursion is solved in blocks.
_BLOCK_SIZE, _SHORTEST_BLOCK, _LONGEST_BLOCK = 32, 4, 16


def rows_to_settle(decay: FloatArray, precision: FloatArray, most: int) -> int | None:
    """Rows after which the law of a state does not depend on the state before them, a power of two.

    Parameters
    ----------
    decay : ndarray of shape (K,)
        Decay over one step.
    precision : ndarray of shape (K, K)
        ``J = C' R^-1 C``, what each row says.
    most : int
        Where more rows than this are needed, the answer is None.
    """
    identity = np.eye(len(decay))
    innovation = (1.0 - decay) * (1.0 + decay)
    # One row: predict, then meet the data.
    narrow = np.linalg.solve(identity + innovation[:, None] * precision, np.diag(innovation))
    moves = np.linalg.solve(identity + innovation[:, None] * precision, np.diag(decay))
    told = decay[:, None] * (precision @ moves)
    n = 1
    while np.any(np.sum(moves**2, axis=1) > _FORGOTTEN * np.diagonal(narrow)):
        n *= 2
        if n > most:
            return None
        # (I + P J)^-1 [F, P]: the state between two halves, as the second tells of it.
        both = np.linalg.solve(identity + narrow @ told, np.hstack([moves, narrow]))
        between, spread = np.hsplit(both, 2)
        narrow = narrow + moves @ spread @ moves.T
        told = told + moves.T @ told @ between
        moves = moves @ between
    return n


_known: dict[Key, Array | None] = {}


def _values_if_complete(panel: Panel) -> Array | None:
    """Values of a complete series of even steps, on the device; None for any other panel."""
    n = panel.n_rows
    even = np.array_equal(panel.gap_index[:n], np.r_[panel.gaps.size, np.zeros(n - 1, dtype=np.intp)])
    return jnp.asarray(panel.values) if even and np.all(panel.mask[:n] > 0.0) else None


class Plan(NamedTuple):
    """A series for which the steady state is worth it: its length, values (T, D), and rows of an end."""

    n_rows: int
    values: Array
    n_end: int


def plan(params: Parameters, panel: Panel) -> Plan | None:
    """How to use the steady state; None where it is of no use: gaps, uneven steps, a short or slow series."""
    if panel.values.nbytes > _MOST_BYTES or panel.n_rows < FEWEST_ROWS or panel.gaps.size != 1:
        return None
    values = keep(_known, panel, lambda: _values_if_complete(panel))
    if values is None:
        return None
    most = min(_ENDS[-1], int(_LONGEST_END * panel.n_rows))
    precision = (params.loadings.T / params.noise_variance) @ params.loadings
    decay = decay_over(params.decay, panel.gaps)[0]
    needed = rows_to_settle(decay, precision, most) if np.all(np.isfinite(precision)) else None
    if needed is None:
        return None
    n_end = next(n for n in _ENDS if n >= needed)
    return Plan(panel.n_rows, values, n_end) if n_end <= most else None


def recursion(matrix: Array, terms: Array, n_block: int) -> Array:
    """Solve ``s_t = A s_t-1 + g_t`` from ``s = 0``, for terms ``g`` (T, K), by products of blocks of rows.

    Within a block the sum over its rows is one product; what blocks hand on is the same recursion with fewer
    and longer steps.
    """
    n_rows, n = terms.shape
    if n_rows <= 1:
        return terms
    n_block = min(n_block, n_rows)
    padded = jnp.pad(terms, ((0, -n_rows % n_block), (0, 0)))
    stacked = _powers(matrix, n_block)
    lag = np.subtract.outer(np.arange(n_block), np.arange(n_block))
    within = jnp.where((lag >= 0)[:, :, None, None], stacked[np.maximum(lag, 0)], 0.0)
    within = within.transpose(1, 3, 0, 2).reshape(n_block * n, n_block * n)
    local = padded.reshape(-1, n_block * n) @ within
    if local.shape[0] > 1:
        handed = recursion(stacked[-1], local[:-1, -n:], n_block)
        onward = stacked[1:].transpose(2, 0, 1).reshape(n, n_block * n)
        local = local.at[1:].add(handed @ onward)
    return local.reshape(-1, n)[:n_rows]


def _powers(matrix: Array, most: int) -> Array:
    """Powers 0 to ``most`` of a matrix (K, K), by doubling."""
    powers = jnp.stack([jnp.eye(matrix.shape[0], dtype=matrix.dtype), matrix])
    while len(powers) <= most:
        powers = jnp.concatenate([powers, powers[1:] @ powers[-1]])
    return powers[: most + 1]


class Forward(NamedTuple):
    """Filtered means of all rows (T, K), log densities of the rows (T,), and the first rows one by one."""

    means: Array
    log_likelihoods: Array
    start: object
    root: Array


class Ends(NamedTuple):
    """Covariances of the first rows and of the last.

    ``start`` and ``start_lag_one`` (n, K, K) are of the first ``n`` rows. ``end`` (n, K, K) counts rows from
    the last one backwards, its last entry being that of all rows in between; ``end_lag_one`` (n, K, K) is of
    the same row with the one before it.
    """

    start: Array
    start_lag_one: Array
    end: Array
    end_lag_one: Array


def _block(n: int) -> int:
    return int(np.clip(_BLOCK_SIZE // n, _SHORTEST_BLOCK, _LONGEST_BLOCK))


class _Model(NamedTuple):
    """Parameters on the device, the decay over one step."""

    decay: Array
    loadings: Array
    noise_variance: Array
    offset: Array


def _forward(model: _Model, values: Array, n_rows: Array, n_end: int) -> Forward:
    decay, loadings, noise_variance, offset = model
    n = decay.shape[0]
    index = jnp.arange(values.shape[0])
    there = (index < n_rows).astype(values.dtype)
    scaled = loadings / noise_variance[:, None]
    precision = scaled.T @ loadings
    centred = values - offset
    information = (centred @ scaled) * there[:, None]
    first = Collapsed(jnp.broadcast_to(precision, (n_end, n, n)), information[:n_end])
    decays = jnp.broadcast_to(decay, (n_end, n)).at[0].set(0.0)
    start, last = filter_pass(first, decays, prior_law(n, values.dtype))
    root = start.roots[-1]
    predicted = decay[:, None] * last.covariance * decay + jnp.diag((1.0 - decay) * (1.0 + decay))
    lower = jnp.linalg.cholesky(predicted, symmetrize_input=False)
    # P S^-1 a, where 1 - P J would cancel when noise is small.
    half = triangular_solve(lower, last.covariance, left_side=True, lower=True)
    transfer = triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True).T * decay
    terms = information @ last.covariance
    terms = jnp.where((index < n_end)[:, None], 0.0, terms).at[n_end - 1].set(last.mean)
    means = recursion(transfer, terms, _block(n)).at[:n_end].set(start.means)
    moved = means[n_end:] - means[n_end - 1 : -1] * decay
    whitened = triangular_solve(lower, moved.T, left_side=True, lower=True)
    distances = jnp.concatenate([start.distances, jnp.sum(whitened**2, axis=0)])
    log_dets = jnp.concatenate(
        [start.log_dets, jnp.broadcast_to(start.log_dets[-1], (values.shape[0] - n_end,))]
    )
    residuals = centred - means @ loadings.T
    quadratic = (residuals**2) @ (1.0 / noise_variance) + jnp.sum(jnp.log(2.0 * jnp.pi * noise_variance))
    return Forward(means, -0.5 * there * (quadratic + log_dets + distances), start, root)


def _backward(decay: Array, forward: Forward, n_rows: Array, n_end: int) -> tuple[Array, Ends]:
    gain, narrowed = condition(forward.root, decay)
    spread = narrowed @ narrowed.T
    index = jnp.arange(forward.means.shape[0])[:, None]
    terms = forward.means - (forward.means * decay) @ gain.T
    terms = jnp.where(index < n_rows - 1, terms, jnp.where(index == n_rows - 1, forward.means, 0.0))
    means = recursion(gain, terms[::-1], _block(decay.shape[0]))[::-1]

    def step(later: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        crossed = later @ gain.T
        return spread + gain @ crossed, (later, crossed)

    filtered = forward.root @ forward.root.T
    _, (end, end_lag_one) = jax.lax.scan(step, filtered, None, length=n_end)
    following = jnp.broadcast_to(decay, (n_end, decay.shape[0]))
    first = smoother_pass(forward.start, following, Law(means[n_end], end[-1]))  # type: ignore[arg-type]
    means = means.at[:n_end].set(first.means)
    return means, Ends(first.covariances, first.lag_one, end, end_lag_one)


@partial(jax.jit, static_argnames="n_end")
def _likelihood_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> Array:
    return jnp.sum(_forward(model, values, n_rows, n_end).log_likelihoods)


@partial(jax.jit, static_argnames="n_end")
def _posterior_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> tuple[Array, Array, Ends]:
    forward = _forward(model, values, n_rows, n_end)
    means, ends = _backward(model.decay, forward, n_rows, n_end)
    return means, forward.log_likelihoods, ends


class Sums(NamedTuple):
    """Sums over rows of products of the means and of residuals, for the expected statistics."""

    log_likelihood: Array
    outer: Array
    total: Array
    residual_power: Array
    residual_moments: Array
    residual_sums: Array
    innovation_power: Array
    innovation_moments: Array
    previous_power: Array


@partial(jax.jit, static_argnames="n_end")
def _sums_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> tuple[Sums, Ends]:
    decay, loadings, _, offset = model
    forward = _forward(model, values, n_rows, n_end)
    means, ends = _backward(decay, forward, n_rows, n_end)
    there = (jnp.arange(values.shape[0]) < n_rows).astype(values.dtype)[:, None]
    means = means * there
    residuals = there * (values - offset - means @ loadings.T)
    innovations = there[1:] * (means[1:] - decay * means[:-1])
    previous = there[1:] * means[:-1]
    return Sums(
        jnp.sum(forward.log_likelihoods),
        means.T @ means,
        jnp.sum(means, axis=0),
        jnp.sum(residuals**2, axis=0),
        residuals.T @ means,
        jnp.sum(residuals, axis=0),
        jnp.sum(innovations**2, axis=0),
        jnp.sum(innovations * previous, axis=0),
        jnp.sum(previous**2, axis=0),
    ), ends


def _model(params: Parameters, panel: Panel) -> _Model:
    decay = decay_over(params.decay, panel.gaps)[0]
    return _Model(*map(jnp.asarray, (decay, params.loadings, params.noise_variance, params.offset)))


def log_likelihood(params: Parameters, panel: Panel, plan: Plan) -> float:
    """Log-likelihood of the series."""
    model = _model(params, panel)
    return float(_likelihood_program(model, plan.values, plan.n_rows, n_end=plan.n_end))


def smooth(
    params: Parameters, panel: Panel, plan: Plan
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Means (N, K), covariances (N, K, K), lag-one covariances (N - 1, K, K), row log-likelihoods (N,)."""
    model = _model(params, panel)
    n, m = plan.n_rows, plan.n_end
    means, rows, ends = _posterior_program(model, plan.values, n, n_end=m)
    start, start_lag_one, end, end_lag_one = map(np.asarray, ends)
    covariances = np.empty((n, *start.shape[1:]))
    lag_one = np.empty((n - 1, *start.shape[1:]))
    covariances[:m], covariances[m : n - m], covariances[n - m :] = start, end[-1], end[::-1]
    lag_one[:m], lag_one[m : n - 1 - m], lag_one[n - 1 - m :] = (
        start_lag_one,
        end_lag_one[-1],
        end_lag_one[::-1],
    )
    return np.asarray(means)[:n], covariances, lag_one, np.asarray(rows)[:n]


def statistics(params: Parameters, panel: Panel, plan: Plan) -> tuple[float, tuple[FloatArray, ...]]:
    """Log-likelihood and the sums of :class:`.Statistics`, in their order."""
    model = _model(params, panel)
    n, m = plan.n_rows, plan.n_end
    found, ends = _sums_program(model, plan.values, n, n_end=m)
    sums = jax.tree.map(np.asarray, found)
    start, start_lag_one, end, end_lag_one = map(np.asarray, ends)
    covariance = start.sum(axis=0) + (n - 2 * m) * end[-1] + end.sum(axis=0)
    variance = np.diagonal(covariance)
    crossed = np.diagonal(
        start_lag_one.sum(axis=0) + (n - 1 - 2 * m) * end_lag_one[-1] + end_lag_one.sum(axis=0)
    )
    later, earlier = variance - np.diagonal(start[0]), variance - np.diagonal(end[0])
    decay, d = np.asarray(model.decay), panel.values.shape[1]
    moments = np.empty((len(decay) + 1, len(decay) + 1))
    moments[:-1, :-1] = covariance + sums.outer
    moments[:-1, -1] = moments[-1, :-1] = sums.total
    moments[-1, -1] = n
    loaded = params.loadings @ covariance
    return float(sums.log_likelihood), (
        np.full(d, float(n)),
        sums.residual_power + np.sum(loaded * params.loadings, axis=1),
        np.column_stack([sums.residual_moments - loaded, sums.residual_sums]),
        np.broadcast_to(moments, (d, *moments.shape)).copy(),
        moments,
        np.array([n - 1.0]),
        (sums.innovation_power + later - decay * (2.0 * crossed - decay * earlier))[None],
        (sums.innovation_moments + crossed - decay * earlier)[None],
        (sums.previous_power + earlier)[None],
    )
