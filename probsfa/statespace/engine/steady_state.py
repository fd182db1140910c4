"""The posterior of a complete series, whose covariances soon stop changing.

Where no cell is missing and all steps are alike, covariances do not depend on the data, and after some rows
they are those of the steady state to the last digit: the solution of a Riccati equation (Anderson & Moore
1979, chapter 4). How many rows that takes, ``n``, is known before: the state after ``n`` rows given the state
before them is ``N(F s + ..., P)``, and what is left of the past in the covariance is below
``F F'``. ``F`` and ``P`` of ``2 n`` rows follow from those of ``n`` rows (structure-preserving doubling: Chu,
Fan, Lin & Wang 2004, doi:10.1080/00207170410001714988).

So only the first ``n`` rows are filtered one by one and smoothed one by one, and ``n`` covariances are
computed for the end. In between the means follow a linear recursion with constant matrices, solved in blocks
by matrix products.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa._typing import FloatArray
from probsfa.statespace.engine.compiler import program
from probsfa.statespace.engine.dynamics import (
    Gaussian,
    Transition,
    TransitionTerms,
    stationary,
    transition_over,
)
from probsfa.statespace.engine.moments import PanelMoments
from probsfa.statespace.engine.problem import cached
from probsfa.statespace.engine.recursions import Collapsed, Filtered, condition, filter_pass, smoother_pass
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.engine.symmetric import pack
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

# What may be left of the past in a variance.
_FORGOTTEN = 1e-18
# Size of the matrices by which a recursion is solved in blocks.
_BLOCK_SIZE, _SHORTEST_BLOCK, _LONGEST_BLOCK = 32, 4, 16


def rows_until_steady(transition: Transition, precision: FloatArray, most: int) -> int | None:
    """Rows after which a state's distribution does not depend on the state before them, a power of two.

    Parameters
    ----------
    transition : Transition
        Over one step, NumPy arrays.
    precision : ndarray of shape (K, K)
        ``J = C' R^-1 C``, what each row says.
    most : int
        Where more rows than this are needed, the answer is None.
    """
    identity: Any = np.eye(len(precision))
    # One row: predict, then update.
    updated: Any = identity + transition.innovate(precision)  # type: ignore[arg-type]
    narrow = np.linalg.solve(updated, transition.innovation_covariance())
    transfer = np.linalg.solve(updated, transition.move(identity))
    information: Any = transition.move_back(precision @ transfer)  # type: ignore[arg-type]
    n = 1
    while np.any(np.sum(transfer**2, axis=1) > _FORGOTTEN * np.diagonal(narrow)):
        n *= 2
        if n > most:
            return None
        # (I + P J)^-1 [F, P]: the state between two halves, given what the second says of it.
        both = np.linalg.solve(identity + narrow @ information, np.hstack([transfer, narrow]))
        between, spread = np.hsplit(both, 2)
        narrow = narrow + transfer @ spread @ transfer.T
        information = information + transfer.T @ information @ between
        transfer = transfer @ between
    return n


def rows_of_an_end(params: Parameters, gap: FloatArray, most: int) -> int | None:
    """Rows after which covariances are those of the steady state; None where that takes more than ``most``.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    gap : ndarray of shape (1,)
        Time between rows.
    most : int
        Most rows.
    """
    precision = (params.loadings.T / params.noise_variance) @ params.loadings
    if not np.all(np.isfinite(precision)):
        return None
    return rows_until_steady(transition_over(params, gap).at(0), precision, most)


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


class SteadyForward(NamedTuple):
    """Filtered means of all rows (T, K), log densities of the rows (T,), and the first rows one by one."""

    means: Array
    log_likelihoods: Array
    start: Filtered
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
    """Parameters on the device, with the transition over one step."""

    transition: Transition
    loadings: Array
    noise_variance: Array
    offset: Array


def _forward(model: _Model, values: Array, n_rows: Array, n_end: int) -> SteadyForward:
    transition, loadings, noise_variance, offset = model
    n = loadings.shape[1]
    index = jnp.arange(values.shape[0])
    there = (index < n_rows).astype(values.dtype)
    scaled = loadings / noise_variance[:, None]
    precision = scaled.T @ loadings
    centred = values - offset
    information = (centred @ scaled) * there[:, None]
    first = Collapsed(jnp.broadcast_to(precision, (n_end, n, n)), information[:n_end])
    transitions = transition.repeated(n_end).kept_where(index[:n_end] > 0)
    start, last = filter_pass(first, transitions, stationary(n, values.dtype))
    root = start.roots[-1]
    lower = jnp.linalg.cholesky(transition.predict_covariance(last.covariance), symmetrize_input=False)
    # P S^-1 A, where 1 - P J would cancel when noise is small.
    half = triangular_solve(lower, last.covariance, left_side=True, lower=True)
    solved = triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)
    transfer = transition.move_rows_back(solved.T)
    terms = information @ last.covariance
    terms = jnp.where((index < n_end)[:, None], 0.0, terms).at[n_end - 1].set(last.mean)
    means = recursion(transfer, terms, _block(n)).at[:n_end].set(start.means)
    moved = means[n_end:] - transition.move_rows(means[n_end - 1 : -1])
    whitened = triangular_solve(lower, moved.T, left_side=True, lower=True)
    distances = jnp.concatenate([start.distances, jnp.sum(whitened**2, axis=0)])
    log_dets = jnp.concatenate(
        [start.log_dets, jnp.broadcast_to(start.log_dets[-1], (values.shape[0] - n_end,))]
    )
    residuals = centred - means @ loadings.T
    quadratic = (residuals**2) @ (1.0 / noise_variance) + jnp.sum(jnp.log(2.0 * jnp.pi * noise_variance))
    return SteadyForward(means, -0.5 * there * (quadratic + log_dets + distances), start, root)


def _backward(
    transition: Transition, forward: SteadyForward, n_rows: Array, n_end: int
) -> tuple[Array, Ends]:
    gain, narrowed = condition(forward.root, transition)
    spread = narrowed @ narrowed.T
    n = spread.shape[0]
    index = jnp.arange(forward.means.shape[0])[:, None]
    terms = forward.means - transition.move_rows(forward.means) @ gain.T
    terms = jnp.where(index < n_rows - 1, terms, jnp.where(index == n_rows - 1, forward.means, 0.0))
    means = recursion(gain, terms[::-1], _block(n))[::-1]

    def step(later: Array, _: None) -> tuple[Array, tuple[Array, Array]]:
        crossed = later @ gain.T
        return spread + gain @ crossed, (later, crossed)

    filtered = forward.root @ forward.root.T
    _, (end, end_lag_one) = jax.lax.scan(step, filtered, None, length=n_end)
    first = smoother_pass(forward.start, transition.repeated(n_end), Gaussian(means[n_end], end[-1]))
    means = means.at[:n_end].set(first.means)
    return means, Ends(first.covariances, first.lag_one, end, end_lag_one)


@program("n_end")
def _likelihood_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> Array:
    return jnp.sum(_forward(model, values, n_rows, n_end).log_likelihoods)


@program("n_end")
def _posterior_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> tuple[Array, Array, Ends]:
    forward = _forward(model, values, n_rows, n_end)
    means, ends = _backward(model.transition, forward, n_rows, n_end)
    return means, forward.log_likelihoods, ends


class Sums(NamedTuple):
    """Sums over rows of products of the means and of residuals, for the expected statistics."""

    log_likelihood: Array
    outer: Array
    total: Array
    residual_power: Array
    residual_moments: Array
    residual_sums: Array
    transitions: TransitionTerms


@program("n_end")
def _sums_program(model: _Model, values: Array, n_rows: Array, n_end: int) -> tuple[Sums, Ends]:
    transition, loadings, _, offset = model
    forward = _forward(model, values, n_rows, n_end)
    means, ends = _backward(transition, forward, n_rows, n_end)
    there = (jnp.arange(values.shape[0]) < n_rows).astype(values.dtype)[:, None]
    means = means * there
    residuals = there * (values - offset - means @ loadings.T)
    innovations = there[1:] * (means[1:] - transition.move_rows(means[:-1]))
    terms = transition.terms_of_rows(innovations, there[1:] * means[:-1])
    return Sums(
        jnp.sum(forward.log_likelihoods),
        means.T @ means,
        jnp.sum(means, axis=0),
        jnp.sum(residuals**2, axis=0),
        residuals.T @ means,
        jnp.sum(residuals, axis=0),
        TransitionTerms(*(jnp.sum(term, axis=0) for term in terms)),
    ), ends


def _model(params: Parameters, panel: Panel) -> _Model:
    observed = map(jnp.asarray, (params.loadings, params.noise_variance, params.offset))
    return _Model(transition_over(params, panel.gaps).at(0).map(jnp.asarray), *observed)


@dataclass(frozen=True)
class SteadyState:
    """The route of this module, for one complete series of even steps.

    Attributes
    ----------
    n_end : int
        Rows at either end that are worked through one by one.
    """

    n_end: int

    def log_likelihood(self, params: Parameters, panel: Panel) -> float:
        """See :class:`.Route`."""
        values, n_rows = _series(panel)
        return float(_likelihood_program(_model(params, panel), values, n_rows, n_end=self.n_end))

    def moments(self, params: Parameters, panel: Panel) -> PanelMoments:
        """See :class:`.Route`."""
        values, n = _series(panel)
        m = self.n_end
        means, rows, ends = _posterior_program(_model(params, panel), values, n, n_end=m)
        start, start_lag_one, end, end_lag_one = map(np.asarray, ends)
        covariances = np.empty((n, *start.shape[1:]))
        lag_one = np.empty((n - 1, *start.shape[1:]))
        covariances[:m], covariances[m : n - m], covariances[n - m :] = start, end[-1], end[::-1]
        lag_one[:m], lag_one[m : n - 1 - m], lag_one[n - 1 - m :] = (
            start_lag_one,
            end_lag_one[-1],
            end_lag_one[::-1],
        )
        return PanelMoments(np.asarray(means)[:n], covariances, lag_one, np.asarray(rows)[:n])

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """See :class:`.Route`."""
        values, n = _series(panel)
        m, model = self.n_end, _model(params, panel)
        on_device, ends = _sums_program(model, values, n, n_end=m)
        sums = jax.tree.map(np.asarray, on_device)
        start, start_lag_one, end, end_lag_one = map(np.asarray, ends)
        covariance = start.sum(axis=0) + (n - 2 * m) * end[-1] + end.sum(axis=0)
        crossed = start_lag_one.sum(axis=0) + (n - 1 - 2 * m) * end_lag_one[-1] + end_lag_one.sum(axis=0)
        transition = model.transition.map(np.asarray)
        later, earlier = (transition.covariance_terms(pack(covariance - x)) for x in (start[0], end[0]))
        terms = transition.with_covariances(sums.transitions, later, earlier, transition.lag_terms(crossed))
        d, n_states = params.loadings.shape
        moments = np.empty((n_states + 1, n_states + 1))
        moments[:-1, :-1] = covariance + sums.outer
        moments[:-1, -1] = moments[-1, :-1] = sums.total
        moments[-1, -1] = n
        loaded = params.loadings @ covariance
        return Statistics(
            float(sums.log_likelihood),
            counts=np.full(d, float(n)),
            residual_power=sums.residual_power + np.sum(loaded * params.loadings, axis=1),
            residual_moments=np.column_stack([sums.residual_moments - loaded, sums.residual_sums]),
            latent_moments=np.broadcast_to(moments, (d, *moments.shape)).copy(),
            total_moments=moments,
            transitions=np.array([n - 1.0]),
            innovation_power=terms.innovation_power[None],
            innovation_moments=terms.innovation_moments[None],
            previous_power=terms.previous_power[None],
        )


_values: dict[tuple[int, ...], Array] = {}


def _series(panel: Panel) -> tuple[Array, int]:
    """Values (T, D) on the device, and how many of these rows are data."""
    return cached(_values, panel, lambda: jnp.asarray(panel.values[:])), panel.n_rows
