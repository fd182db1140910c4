"""Inference over the chunks of a panel with any of the JAX algorithms.

Each chunk starts from the exact distribution of the last state of the previous chunk, so that results do not
depend on the chunks. The backward pass repeats the forward pass of each chunk, so that only one chunk is in
memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._fork_check import check_not_forked
from probsfa._threads import lost_interrupts_raised, one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.batched import MAX_UNROLLED
from probsfa.statespace.engine.compiler import compile_program, on_cpu
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.leave_one_out import smoothing_errors
from probsfa.statespace.engine.moments import Filtering, PanelMoments, RowMoments, Statistics, unpack
from probsfa.statespace.engine.problem import (
    Model,
    Problem,
    Rows,
    Strategy,
    following_index,
    index_after,
    make_model,
    make_problem,
    rows_of,
)
from probsfa.statespace.engine.recursions import Recursions, draw_backwards
from probsfa.statespace.engine.scan import ParallelScan
from probsfa.statespace.engine.segmented import Segmented
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.engine.statistics import (
    ObservationSums,
    complete_sums,
    observation_sums,
    transition_statistics,
)
from probsfa.statespace.panel import Panel, RowSource, padded_length
from probsfa.statespace.parameters import StateSpace

__all__ = ["Sweep", "jax_strategy", "sampling_strategy"]

# Maximum bytes of the values and the (K, K) matrices of a chunk; programs may have several such arrays.
_CHUNK_BYTES = 64 * 2**20
# Numbers of segments, in order of preference: the first one that divides the number of rows is used. Samplers
# require at least `_MIN_SEGMENT_ROWS` segments of at least `_MIN_SEGMENT_ROWS` rows.
_SEGMENT_COUNTS, _MIN_SEGMENT_ROWS = (64, 32, 16, 8, 4, 2), 8
# On an accelerator: number of segments that uses all of its threads, and maximum number of rows of a segment.
_MAX_PARALLEL_SEGMENTS, _MAX_SEGMENT_ROWS = 8192, 64


def jax_strategy(n_rows: int, name: str | None, n_segments: int | None = None) -> Strategy:
    """Return the algorithm with the given name; recursions by default.

    Raises
    ------
    ValueError
        If the number of rows is not a multiple of ``n_segments``, or of any default number of segments.
    """
    if name not in ("segmented", "scan"):
        return Recursions()
    strategy_type = Segmented if name == "segmented" else ParallelScan
    if n_segments is None:
        segment_counts = _SEGMENT_COUNTS if name == "segmented" else (_n_parallel_segments(n_rows),)
    else:
        segment_counts = (n_segments,)
    min_rows = 2 if name == "segmented" else 1
    valid_counts = [s for s in segment_counts if n_rows % s == 0 and n_rows // s >= min_rows]
    if not valid_counts:
        raise ValueError(
            f"strategy={name!r} requires {' or '.join(map(str, segment_counts))} segments of equal length, "
            f"with at least {min_rows} rows each; there are {n_rows} rows. Set n_segments or chunk_rows."
        )
    return strategy_type(valid_counts[0])


def sampling_strategy(n_rows: int, n_states: int) -> Strategy:
    """Return the algorithm for a likelihood that is evaluated many times.

    The algorithm depends only on shapes, because the same program is used for all parameters and data.
    """
    if not on_cpu():
        return jax_strategy(n_rows, "scan") if n_rows > _SEGMENT_COUNTS[0] else Recursions()
    if n_states <= MAX_UNROLLED:
        for n_segments in _SEGMENT_COUNTS:
            if n_rows % n_segments == 0 and min(n_segments, n_rows // n_segments) >= _MIN_SEGMENT_ROWS:
                return Segmented(n_segments)
    return Recursions()


def _n_parallel_segments(n_rows: int) -> int:
    """Return the largest number of equally long segments that an accelerator runs at the same time."""
    lengths = [n for n in range(1, _MAX_SEGMENT_ROWS + 1) if n_rows % n == 0]
    return n_rows // next((n for n in lengths if n_rows // n <= _MAX_PARALLEL_SEGMENTS), lengths[-1])


@contextmanager
def _settings() -> Iterator[None]:
    """Apply the settings of the engine, regardless of the user's settings of JAX."""
    check_not_forked()
    with lost_interrupts_raised(), engine_settings(), one_blas_thread():
        yield


def chunk_length(n_rows: int, n_states: int, n_features: int) -> int:
    """Return the number of rows of each chunk; chunks are equally long and use the same compiled program."""
    maximum = max(_CHUNK_BYTES // (8 * (n_states**2 + 2 * n_features)), 1)
    return n_rows if n_rows <= maximum else padded_length(-(-n_rows // -(-n_rows // maximum)))


@compile_program("strategy")
def _likelihood_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian
) -> tuple[Gaussian, Array]:
    result, log_likelihoods = strategy.forward(make_problem(model, rows, after_index), before)
    return result.last, log_likelihoods


@compile_program("strategy")
def _moments_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian, after: Gaussian
) -> RowMoments:
    problem = make_problem(model, rows, after_index)
    return strategy.moments(problem, strategy.forward(problem, before)[0], after)


@compile_program("strategy")
def _sums_program(
    strategy: Strategy, model: Model, rows: Rows, after_index: Array, before: Gaussian, after: Gaussian
) -> tuple[tuple[Array, ...], tuple[Array, ...], Gaussian]:
    problem = make_problem(model, rows, after_index)
    moments = strategy.packed_moments(problem, strategy.forward(problem, before)[0], after)
    index = following_index(rows, after_index)
    steps = transition_statistics(problem.following, index, model.n_gaps, moments, after)
    sums = observation_sums(rows.values, rows.weights, model.loadings, model.offset, moments)
    first = unpack(moments.covariances[:, :1].T, model.n_states)[0]
    return tuple(sums), steps, Gaussian(moments.means[:, 0], first)


@compile_program()
def _filter_program(
    values: Array, weights: Array, transitions: Transition, model: Model, before: Gaussian
) -> tuple[Array, Array, Array]:
    zeros = transitions.at(0).starting()
    problem = Problem(values, weights, transitions, zeros, *model[1:])
    result, log_likelihoods = Recursions().forward(problem, before)
    roots = result.filtered.roots
    return result.filtered.means, roots @ jnp.swapaxes(roots, 1, 2), log_likelihoods


@compile_program()
def _draw_program(
    model: Model, rows: Rows, after_index: Array, before: Gaussian, normals: Array, after: Array
) -> Array:
    problem = make_problem(model, rows, after_index)
    filtered = Recursions().forward(problem, before)[0].filtered
    return draw_backwards(filtered, problem.following, normals, after)


@dataclass
class _Pass:
    """Forward and backward passes over a panel in chunks, with the state before each chunk."""

    strategy: Strategy
    params: StateSpace
    panel: Panel
    length: int

    def __post_init__(self) -> None:
        n_states = self.params.n_states
        self.model = make_model(self.params, self.panel)
        self.starts = range(0, self.panel.values.shape[0], self.length)
        zeros = np.zeros((n_states, n_states))
        self.states = [Gaussian(*map(jnp.asarray, (zeros[0], np.eye(n_states))))]
        # The state after the last row has no effect: the next row would start another sequence.
        self.state_after_end = Gaussian(*map(jnp.asarray, (zeros[0], zeros)))

    def chunk(self, start: int) -> tuple[Rows, int]:
        """Return the rows of a chunk, and the index of the gap that follows them."""
        return rows_of(self.panel, start, self.length), index_after(self.panel, start + self.length)

    def filter(self) -> FloatArray:
        """Run the forward pass; return the log density (N,) of each row given the rows before it."""
        parts = []
        for start in self.starts:
            state, part = _likelihood_program(self.strategy, self.model, *self.chunk(start), self.states[-1])
            self.states.append(state)
            parts.append(np.asarray(part))
        return np.concatenate(parts)[: self.panel.n_rows]

    def moments_backwards(self) -> Iterator[tuple[slice, RowMoments]]:
        """Yield the moments of the rows of each chunk without padding, the last chunk first."""
        after, n = self.state_after_end, self.panel.n_rows
        for i, start in reversed(list(enumerate(self.starts))):
            arguments = (*self.chunk(start), self.states[i], after)
            moments = _moments_program(self.strategy, self.model, *arguments)
            after = Gaussian(moments.means[0], moments.covariances[0])
            part = slice(start, min(start + self.length, n))
            if part.stop > part.start:
                yield part, RowMoments(*(np.asarray(x)[: part.stop - start] for x in moments))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Sweep:
    """Exact inference over a panel with JAX; methods as in :class:`.Core`.

    Parameters
    ----------
    name : str, optional
        The algorithm, see :func:`jax_strategy`.
    n_segments, chunk_rows : int, optional
        Number of segments of each chunk, and number of rows of each chunk. By default they depend on the
        numbers of rows, states and columns.
    """

    name: str | None = None
    n_segments: int | None = None
    chunk_rows: int | None = None

    def _length(self, params: StateSpace, panel: Panel) -> int:
        n_rows, n_features = panel.values.shape
        return min(self.chunk_rows or chunk_length(n_rows, params.n_states, n_features), n_rows)

    def _pass(self, params: StateSpace, panel: Panel) -> _Pass:
        length = self._length(params, panel)
        return _Pass(jax_strategy(length, self.name, self.n_segments), params, panel, length)

    def log_likelihood(self, params: StateSpace, panel: Panel) -> float:
        """Return the log-likelihood in nats, by the forward pass alone."""
        with _settings():
            return float(np.sum(self._pass(params, panel).filter()))

    def moments(self, params: StateSpace, panel: Panel) -> PanelMoments:
        """Return posterior moments of all rows, with their log densities."""
        with _settings():
            panel_pass, n, k = self._pass(params, panel), panel.n_rows, params.n_states
            terms = panel_pass.filter()
            arrays = np.empty((n, k)), np.empty((n, k, k)), np.empty((n, k, k))
            for part, moments in panel_pass.moments_backwards():
                for array, result in zip(arrays, moments, strict=True):
                    array[part] = result
            return PanelMoments(arrays[0], arrays[1], arrays[2][: n - 1], terms)

    def visit_moments(
        self, params: StateSpace, panel: Panel, visit: Callable[[slice, FloatArray, FloatArray], None]
    ) -> float:
        """Call ``visit`` with means and covariances of each chunk, last first; return the log-likelihood."""
        with _settings():
            panel_pass = self._pass(params, panel)
            value = float(np.sum(panel_pass.filter()))
            for part, moments in panel_pass.moments_backwards():
                visit(part, *map(np.asarray, moments[:2]))
            return value

    def expected_statistics(self, params: StateSpace, panel: Panel) -> Statistics:
        """Return sums of expected moments, with the log-likelihood."""
        with _settings():
            panel_pass = self._pass(params, panel)
            value, after, totals = float(np.sum(panel_pass.filter())), panel_pass.state_after_end, None
            for i, start in reversed(list(enumerate(panel_pass.starts))):
                arguments = (*panel_pass.chunk(start), panel_pass.states[i], after)
                sums, steps, after = _sums_program(panel_pass.strategy, panel_pass.model, *arguments)
                parts = [np.asarray(x) for x in (*sums, *steps)]
                totals = parts if totals is None else [x + y for x, y in zip(totals, parts, strict=True)]
            assert totals is not None
            observed = complete_sums(
                ObservationSums(*map(jnp.asarray, totals[:6])), panel_pass.model.loadings
            )
            return Statistics(value, *map(np.asarray, (*observed, *totals[6:])))

    def filter(
        self,
        params: StateSpace,
        panel: Panel,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None = None,
    ) -> Filtering:
        """Return filtered moments; see :func:`.posterior.filter_rows` for the arguments."""
        with _settings():
            rows = self._rows(params, panel, panel.value_weights, mean, covariance, first_transition)
            return Filtering(*(np.asarray(x)[: panel.n_rows] for x in _filter_program(*rows)))

    def _rows(
        self,
        params: StateSpace,
        panel: Panel,
        weights: RowSource,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None,
    ) -> tuple[Array, Array, Transition, Model, Gaussian]:
        """Return values, weights, transitions, model and the state before, for filter programs."""
        model = make_model(params, panel)
        steps = model.transitions.map(np.asarray).at(panel.gap_index)
        if first_transition is not None:
            steps = steps.with_first(first_transition.at(0))
        before = Gaussian(jnp.asarray(mean), jnp.asarray(covariance))
        values = (jnp.asarray(panel.values[:]), jnp.asarray(weights[:]))
        return *values, steps.map(jnp.asarray), model, before

    def draw(self, params: StateSpace, panel: Panel, normals: FloatArray) -> FloatArray:
        """Return draws (n_draws, N, K) of the states given all rows; see :meth:`.Core.draw`."""
        with _settings():
            length = self._length(params, panel)
            panel_pass = _Pass(Recursions(), params, panel, length)
            panel_pass.filter()
            after: Any = np.zeros(normals.shape[1:])
            parts = []
            for i, start in reversed(list(enumerate(panel_pass.starts))):
                chunk_normals = normals[start : start + length]
                chunk_normals = np.pad(chunk_normals, ((0, length - chunk_normals.shape[0]), (0, 0), (0, 0)))
                draws = _draw_program(
                    panel_pass.model, *panel_pass.chunk(start), panel_pass.states[i], chunk_normals, after
                )
                after = draws[0]
                parts.append(np.asarray(draws))
            return np.concatenate(parts[::-1])[: panel.n_rows].swapaxes(0, 1)

    def leave_one_out(self, params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
        """Return ``e`` and ``d`` of :mod:`.leave_one_out` for each value, (N, D); zero for missing values."""
        with _settings():
            arrays = (panel.values[:], panel.mask[:], panel.gap_index)
            result = smoothing_errors(make_model(params, panel), Rows(*map(jnp.asarray, arrays)))
            return tuple(np.asarray(x)[: panel.n_rows] for x in result)  # type: ignore[return-value]
