"""A panel worked through chunk by chunk, by any strategy.

What one chunk hands to the next is the distribution of one state, so the numbers are those of the whole
panel, exactly.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray
from probsfa.statespace.engine.compiler import program
from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.moments import PanelMoments, RowMoments
from probsfa.statespace.engine.problem import Chunks, Model, Rows, following_index, make_model, make_problem
from probsfa.statespace.engine.recursions import Recursions, draw_backwards
from probsfa.statespace.engine.statistics import (
    ObservationSums,
    Statistics,
    complete_sums,
    observation_sums,
    transition_statistics,
)
from probsfa.statespace.engine.strategy import Forward, Strategy
from probsfa.statespace.engine.symmetric import unpack
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters


@program("strategy")
def _forward_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian
) -> tuple[Forward, Array]:
    return strategy.forward(make_problem(model, rows, after_index), before)


@program("strategy")
def _likelihood_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian
) -> tuple[Gaussian, Array]:
    result, log_likelihoods = strategy.forward(make_problem(model, rows, after_index), before)
    return result.last, jnp.sum(log_likelihoods)


def _sums(
    strategy: Strategy,
    model: Model,
    rows: Rows,
    after_index: Array,
    result: Forward,
    after: Gaussian,
    backwards: Array | bool = False,
    last_counts: Array | bool = True,
) -> tuple[tuple[Array, ...], Gaussian]:
    """Sums of one chunk, which add up to what :func:`_completed` takes, and its first state."""
    problem = make_problem(model, rows, after_index)
    moments = strategy.packed_moments(problem, result, after)
    sums = (
        *observation_sums(rows.values, rows.weights, model.loadings, model.offset, moments),
        *transition_statistics(
            problem.following,
            following_index(rows, jnp.where(last_counts, after_index, model.n_gaps)),
            model.n_gaps,
            moments,
            after,
            backwards,
        ),
    )
    first = unpack(moments.covariances[:, :1].T, model.n_states)[0]
    return sums, Gaussian(moments.means[:, 0], first)


_sums_program = program("strategy")(_sums)


def _completed(model: Model, sums: Sequence[Any]) -> tuple[Array, ...]:
    """Fields of :class:`.Statistics` after the log-likelihood."""
    n_first = len(ObservationSums._fields)
    return (*complete_sums(ObservationSums(*sums[:n_first]), model.loadings), *sums[n_first:])


_completing_program = program()(_completed)


@program("strategy")
def _statistics_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian, after: Gaussian
) -> tuple[Array, tuple[Array, ...]]:
    result, log_likelihoods = strategy.forward(make_problem(model, rows, after_index), before)
    sums = _sums(strategy, model, rows, after_index, result, after)[0]
    return jnp.sum(log_likelihoods), _completed(model, sums)


@program("strategy")
def _moments_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, result: Forward, after: Gaussian
) -> RowMoments:
    return strategy.moments(make_problem(model, rows, after_index), result, after)


@program("strategy")
def _posterior_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian, after: Gaussian
) -> tuple[RowMoments, Array]:
    problem = make_problem(model, rows, after_index)
    result, log_likelihoods = strategy.forward(problem, before)
    return strategy.moments(problem, result, after), log_likelihoods


@program()
def _draw_program(
    model: Model, rows: Rows, after_index: Array, result: Any, normals: Array, after: Array
) -> Array:
    problem = make_problem(model, rows, after_index)
    return draw_backwards(result.filtered, problem.following, normals, after)


class Sweep:
    """The forward pass over all chunks, and what the backward pass needs of it.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    strategy : Strategy
        How each chunk is worked through.
    chunks : Chunks
        The chunks of the panel.
    cached_bytes : int
        Most memory for what the forward pass leaves; beyond it, the pass is made again.
    backwards : bool, default=False
        Whether the rows are in reverse order.
    """

    def __init__(
        self,
        params: Parameters,
        panel: Panel,
        strategy: Strategy,
        chunks: Chunks,
        cached_bytes: int,
        *,
        backwards: bool = False,
    ) -> None:
        self.strategy = strategy
        self.chunks = chunks
        self.model = make_model(params, panel, backwards=backwards)
        self.backwards = backwards
        n_states = self.model.n_states
        size = 8 * (n_states + 1) ** 2 * chunks.rows * len(chunks)
        self.caches = size <= cached_bytes
        # NumPy arrays: each JAX operation outside a compiled program is a program of its own.
        zeros = np.zeros((n_states, n_states))
        self.prior = Gaussian(*map(jnp.asarray, (zeros[0], np.eye(n_states))))
        #: What follows the last row: nothing, to which no transition leads.
        self.nothing = Gaussian(*map(jnp.asarray, (zeros[0], zeros)))
        self.states = [self.prior]
        self.results: list[Forward] = []
        self.log_likelihoods: list[Array] = []
        self.last: Forward | None = None
        self.totals: list[FloatArray] = []

    def forward(self) -> None:
        """Filter every chunk in turn."""
        for _ in self.filter_chunks():
            pass

    def filter_chunks(self) -> Iterator[Gaussian]:
        """Filter every chunk in turn; gives the distribution of each chunk's last state."""
        for k in range(len(self.chunks)):
            self.last, log_likelihoods = self._filter(k)
            self.log_likelihoods.append(log_likelihoods)
            self.states.append(self.last.last)
            if self.caches:
                self.results.append(self.last)
            yield self.last.last

    def _filter(self, k: int) -> tuple[Forward, Array]:
        result: tuple[Forward, Array] = _forward_program(
            self.strategy, self.model, self.chunks[k], self.chunks.after_index(k), self.states[k]
        )
        return result

    @property
    def log_likelihood(self) -> float:
        """Log density of all rows, after the forward pass."""
        return float(np.sum([np.sum(np.asarray(part)) for part in self.log_likelihoods]))

    def sum_chunks(self, after: Gaussian) -> Iterator[Gaussian]:
        """Add the sums of every chunk, from the last to the first, to ``totals``.

        ``after`` is the state after the last row. Of rows in reverse order, the transition past the last one
        is the other side's to count.
        """
        last = len(self.chunks) - 1
        for k, rows, after_index, result in self.backward():
            counts = not (self.backwards and k == last)
            sums, after = _sums_program(
                self.strategy, self.model, rows, after_index, result, after, self.backwards, counts
            )
            if not self.totals:
                self.totals = [np.array(x) for x in sums]
            else:
                for total, part in zip(self.totals, sums, strict=True):
                    total += np.asarray(part)
            yield after

    def backward(self) -> Iterator[tuple[int, Rows, int, Forward]]:
        """Chunks from the last to the first, with their forward pass."""
        for k in reversed(range(len(self.chunks))):
            result = self.results.pop() if self.results else self._filter(k)[0]
            yield k, self.chunks[k], self.chunks.after_index(k), result


def complete(model: Model, log_likelihood: float, sums: Sequence[Any]) -> Statistics:
    """Expected statistics from the sums of all chunks."""
    return Statistics(log_likelihood, *map(np.asarray, _completing_program(model, sums)))


def _joined(parts: Sequence[Array]) -> FloatArray:
    arrays = [np.asarray(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


@dataclass(frozen=True)
class InTurn:
    """One chunk after the other.

    Attributes
    ----------
    strategy : Strategy
        How each chunk is worked through.
    chunk_rows : int
        Rows of a chunk.
    cached_bytes : int
        Most memory for what the forward pass leaves.
    """

    strategy: Strategy
    chunk_rows: int
    cached_bytes: int

    def _sweep(self, params: Parameters, panel: Panel) -> Sweep:
        chunks = Chunks.of(panel, self.chunk_rows)
        return Sweep(params, panel, self.strategy, chunks, self.cached_bytes)

    def log_likelihood(self, params: Parameters, panel: Panel) -> float:
        """See :class:`.Route`: the forward pass alone."""
        sweep = self._sweep(params, panel)
        state, parts = sweep.prior, []
        for k in range(len(sweep.chunks)):
            after_index = sweep.chunks.after_index(k)
            state, part = _likelihood_program(self.strategy, sweep.model, sweep.chunks[k], after_index, state)
            parts.append(part)
        return float(np.sum(parts))

    def moments(self, params: Parameters, panel: Panel) -> PanelMoments:
        """See :class:`.Route`."""
        sweep, n = self._sweep(params, panel), panel.n_rows
        if len(sweep.chunks) == 1:
            smoothed, log_likelihoods = self._posterior_of_one(sweep)
            means, covariances, lag_one = map(np.asarray, smoothed)
            return PanelMoments(means[:n], covariances[:n], lag_one[: n - 1], np.asarray(log_likelihoods)[:n])
        sweep.forward()
        # Parts are copied into NumPy's memory, which comes in large pages, while they are in the cache: to
        # join them at the end took a fifth longer, and twice the memory.
        n_states = sweep.model.n_states
        whole = [np.empty((n, n_states)), *(np.empty((n, n_states, n_states)) for _ in range(2))]
        for part, smoothed in self._moments_backwards(sweep):
            for target, moments in zip(whole, smoothed, strict=True):
                target[part] = np.asarray(moments)[: len(target[part])]
        means, covariances, lag_one = whole
        return PanelMoments(means, covariances, lag_one[: n - 1], _joined(sweep.log_likelihoods)[:n])

    def _posterior_of_one(self, sweep: Sweep) -> tuple[RowMoments, Array]:
        """Moments and log density of the rows of the only chunk."""
        rows, after_index = sweep.chunks[0], sweep.chunks.after_index(0)
        if not self.strategy.shares_forward:
            first = (rows, after_index, sweep.prior)
            posterior: tuple[RowMoments, Array] = _posterior_program(
                self.strategy, sweep.model, *first, sweep.nothing
            )
            return posterior
        sweep.forward()
        [(_, smoothed)] = self._moments_backwards(sweep)
        return smoothed, sweep.log_likelihoods[0]

    def _moments_backwards(self, sweep: Sweep) -> Iterator[tuple[slice, RowMoments]]:
        after = sweep.nothing
        for k, rows, after_index, result in sweep.backward():
            smoothed = _moments_program(self.strategy, sweep.model, rows, after_index, result, after)
            after = Gaussian(smoothed.means[0], smoothed.covariances[0])
            yield slice(k * self.chunk_rows, (k + 1) * self.chunk_rows), smoothed

    def visit_moments(
        self, params: Parameters, panel: Panel, visit: Callable[[slice, FloatArray, FloatArray], None]
    ) -> float:
        """Show the means and covariances of the rows of each chunk, the last one first, and keep none.

        Returns the log-likelihood.
        """
        sweep, n = self._sweep(params, panel), panel.n_rows
        sweep.forward()
        for part, smoothed in self._moments_backwards(sweep):
            inside = slice(part.start, min(part.stop, n))
            length = max(inside.stop - inside.start, 0)
            if length:
                visit(inside, np.asarray(smoothed.means)[:length], np.asarray(smoothed.covariances)[:length])
        return sweep.log_likelihood

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """See :class:`.Route`."""
        sweep = self._sweep(params, panel)
        if len(sweep.chunks) == 1 and not self.strategy.shares_forward:
            first = (sweep.chunks[0], sweep.chunks.after_index(0), sweep.prior)
            total, sums = _statistics_program(self.strategy, sweep.model, *first, sweep.nothing)
            return Statistics(float(total), *map(np.asarray, sums))
        sweep.forward()
        for _ in sweep.sum_chunks(sweep.nothing):
            pass
        return complete(sweep.model, sweep.log_likelihood, sweep.totals)


def draw_in_turn(
    params: Parameters, panel: Panel, normals: FloatArray, chunk_rows: int, cached_bytes: int
) -> FloatArray:
    """Draws (n_draws, N, K) of the states given all rows, from standard normals (T, n_draws, K).

    Draws go backwards row by row, and so take :class:`.Recursions`, whatever serves for moments.
    """
    sweep = Sweep(params, panel, Recursions(), Chunks.of(panel, chunk_rows), cached_bytes)
    sweep.forward()
    after, parts = np.zeros(normals.shape[1:]), []
    for k, rows, after_index, result in sweep.backward():
        noise = normals[k * chunk_rows : (k + 1) * chunk_rows]
        noise = np.pad(noise, ((0, chunk_rows - noise.shape[0]), (0, 0), (0, 0)))
        draws = _draw_program(sweep.model, rows, after_index, result, noise, after)
        after = draws[0]
        parts.append(draws)
    return _joined(parts[::-1])[: panel.n_rows].swapaxes(0, 1)
