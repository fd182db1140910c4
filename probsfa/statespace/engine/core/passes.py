"""Forward and backward pass over the chunks of a panel, with one of the two compiled algorithms."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from probsfa._threads import n_cores, on_two_threads
from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.kernels import (
    LANES,
    Columns,
    Precisions,
    Roots,
    Sums,
    by_diagonals,
    kernels,
    packed,
    unpacked,
)
from probsfa.statespace.engine.dynamics import Blocks, transition_table
from probsfa.statespace.panel import Panel, read_lock, resident_bytes
from probsfa.statespace.parameters import StateSpace

Arrays = dict[str, FloatArray]
_T = TypeVar("_T", Precisions, Roots)

# Maximum bytes of the values of a chunk that is read from a file: enough for the full speed of the disk.
_READ_BYTES = 16 * 2**20
# Minimum number of multiplications of a chunk for which a second thread is used. To start a thread takes
# about 50 us.
_MIN_WORK_OF_THREAD = 1e7
# Size of the results of a chunk that the forward pass stores for the backward pass: conditional covariances
# (segments), or gains and roots (recursions).
_CHUNK_BYTES = 64 * 2**20


class Scratch(threading.local):
    """Arrays that each thread allocates once and reuses.

    With few states, new allocations would take as long as the pass itself.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, FloatArray] = {}

    def array(self, name: str, *shape: int) -> FloatArray:
        """Return an uninitialized array of a shape."""
        size = prod(shape)
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = np.empty(size)
        return self._arrays[name][:size].reshape(shape)


scratch = Scratch()


class State(NamedTuple):
    """The distribution of the state between two chunks, as a vector (K,) and a matrix (K, K).

    - Backward pass: mean and covariance.
    - Forward pass of :class:`Segments`: information vector and precision.
    - Forward pass of :class:`Recursions`: mean and a root ``N`` of the covariance ``N' N``.
    """

    vector: FloatArray
    matrix: FloatArray


class Chunk(ABC):
    """Consecutive rows of a panel, processed by one algorithm.

    Parameters
    ----------
    panel_pass : PanelPass
        The pass over the panel.
    part : slice
        Rows of the chunk.
    new_memory : bool
        Whether results are written to new memory, not to the scratch memory of the thread.
    """

    def __init__(self, panel_pass: "PanelPass", part: slice, *, new_memory: bool) -> None:
        panel, k = panel_pass.panel, panel_pass.n_states
        self.panel_pass, self.part, self.new_memory = panel_pass, part, new_memory
        self.n_rows = n = part.stop - part.start
        self.one_thread = n_cores() < 2 or n * k**2 * (k + panel_pass.n_features) < _MIN_WORK_OF_THREAD
        is_last = part.stop == panel.n_rows
        self.next_gap_index = panel_pass.n_gaps if is_last else int(panel.gap_index[part.stop])
        index = np.append(panel.gap_index[part], np.int32(self.next_gap_index)).astype(np.int32)
        self.gap_index = index
        self.kernel: Any = kernels().Segments(
            n_states=k,
            n_single=panel_pass.n_single,
            n_triples=panel_pass.n_triples,
            n_features=panel_pass.n_features,
            n_rows=n,
            n_groups=self._n_groups(),
            n_gaps=panel_pass.n_gaps,
        )
        self.kernel.set_gaps(np.ascontiguousarray(index[:-1]), np.ascontiguousarray(index[1:]))
        self.kernel.transition, self.kernel.complete = panel_pass.diagonals, panel.complete
        for name, array in panel_pass.columns._asdict().items():
            setattr(self.kernel, name, array)
        self._read()

    def _n_groups(self) -> int:
        return 1

    def _read(self) -> None:
        """Read values and weights of the rows."""
        with read_lock:
            panel = self.panel_pass.panel
            both = panel.values[self.part], panel.value_weights[self.part]
        self.values, self.weights = (np.ascontiguousarray(x, np.float64) for x in both)
        self.kernel.values, self.kernel.weights = self.values, self.weights

    @classmethod
    @abstractmethod
    def rows_of_chunk(cls, n_states: int, moments_by_chunk: bool) -> int:
        """Return the number of rows of a chunk; ``moments_by_chunk`` as in :class:`PanelPass`."""

    @classmethod
    @abstractmethod
    def prior(cls, n_states: int) -> State:
        """Return the distribution of the state before the first row, the stationary distribution."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the results that are stored for the backward pass."""

    @abstractmethod
    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        """Filter from the state before the first row, and return the filtered last state.

        Filtered means (n, K), and terms (n,) of the log densities without residuals, are written to arrays.
        """

    @abstractmethod
    def smooth(self, last: State, arrays: Arrays, *, full: bool) -> State:
        """Smooth from the filtered last state; return the smoothed first state.

        The smoothed state after the chunk is ``panel_pass.after``. Moments are written into three arrays.
        With ``full=True``:

        - ``means`` (n, K);
        - ``covariances`` (n, K, K);
        - ``lag_one`` (n, K, K), covariances of the state of the next row with the state of each row.

        With ``full=False`` they are packed for sums over rows:

        - ``means`` (n + 1, K);
        - ``covariances`` (n + 1, K (K + 1)), the lower triangles of covariances, then those of the products
          ``m m'`` of means;
        - ``lag_one`` (n, L), the L entries of lag-one covariances inside the diagonal blocks, first the
          diagonal, then the others row by row.
        """

    def filter(self, before: State) -> tuple[FloatArray, State]:
        """Filter from the state before the first row; return log densities of rows and the last state."""
        n = self.n_rows
        terms, means = np.empty(n), self._array_for_means()
        self.kernel.terms, self.kernel.filtered_means = terms, means
        last = self._filter(before, terms, means)
        self._on_rows(self.kernel.likelihoods)
        if not self.panel_pass.resident:
            # Rows of a file are read again for the sums, because they may exceed the memory.
            del self.values, self.weights
            self.kernel.values = self.kernel.weights = None
        return terms, last

    def _array_for_means(self) -> FloatArray:
        return scratch.array("filtered means", self.n_rows, self.panel_pass.n_states)

    def add_up(self, sums: Sums) -> None:
        """Add the sums over rows to ``sums``, after ``smooth(..., full=False)``."""
        k, n, after = self.panel_pass.n_states, self.n_rows, self.panel_pass.after
        if not hasattr(self, "values"):
            self._read()
        if after is not None:
            # Arrays for sums have an additional row, for the state after the chunk.
            self.means[n], self.moments[n, : k * (k + 1) // 2] = after.vector, packed(after.matrix)
        if self.one_thread:
            self.kernel.add_up(0, n, *sums)
            return
        other = self.panel_pass.zero_sums()
        on_two_threads(
            lambda: self.kernel.add_up(0, n // 2, *sums), lambda: self.kernel.add_up(n // 2, n, *other)
        )
        for total, part in zip(sums, other, strict=True):
            total += part

    def _set_moments(self, arrays: Arrays) -> None:
        self.means, self.moments = arrays["means"], arrays["covariances"]
        self.kernel.set_moments(self.means, self.moments, arrays["lag_one"])

    def _on_rows(self, run: Callable[[int, int], None]) -> None:
        n = self.n_rows
        if self.one_thread:
            run(0, n)
        else:
            on_two_threads(lambda: run(0, n // 2), lambda: run(n // 2, n))


class PanelPass:
    """A forward and a backward pass over a panel.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    panel : Panel
        Packed observations.
    chunk_type : type of Chunk
        The algorithm.
    max_stored_bytes : int
        Maximum size of stored results of the forward pass. Results of further chunks are recomputed in the
        backward pass.
    moments_by_chunk : bool, default=False
        Whether each chunk has its own arrays of full moments. Chunks of :class:`Segments` are then smaller.
    """

    def __init__(
        self,
        params: StateSpace,
        panel: Panel,
        chunk_type: type[Chunk],
        max_stored_bytes: int,
        *,
        moments_by_chunk: bool = False,
    ) -> None:
        self.chunk_type, self.max_stored_bytes = chunk_type, max_stored_bytes
        self.panel, self.n_states, self.n_features = panel, params.n_states, params.n_features
        sizes = params.state_layout.sizes
        self.n_single, self.n_triples = sizes.count(1), sizes.count(3)
        self.n_terms = sum(size**2 for size in sizes)
        self.steps = transition_table(params, panel.gaps)
        self.diagonals = by_diagonals(self.steps.as_batch().matrix)
        self.columns = Columns.of(params)
        self.params = params
        self.resident = resident_bytes(panel.values) is not None
        n_chunk_rows = chunk_type.rows_of_chunk(self.n_states, moments_by_chunk)
        if not self.resident:
            n_chunk_rows = min(n_chunk_rows, _READ_BYTES // (8 * self.n_features))
        # Multiples of eight rows, so that two groups of four segments have equally long segments.
        n_chunk_rows = max(n_chunk_rows - n_chunk_rows % 8, 8)
        n = panel.n_rows
        self.parts = [slice(start, min(start + n_chunk_rows, n)) for start in range(0, n, n_chunk_rows)]
        self._tables: dict[Any, Any] = {}
        self.chunks: dict[int, Chunk] = {}
        self.states = [chunk_type.prior(self.n_states)]
        self.after: State | None = None

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, ``U``."""
        return len(self.diagonals) - 1

    def zero_sums(self) -> Sums:
        """Return sums over no rows."""
        sizes = self.n_states, self.n_terms, self.n_features, self.n_gaps
        return Sums.zero(*sizes, complete=self.panel.complete)

    def table(self, table_type: type[_T]) -> _T:
        """Return a table of transitions over the gaps of the panel, computed once for all chunks."""
        if table_type not in self._tables:
            self._tables[table_type] = table_type.of(self.steps)
        return self._tables[table_type]

    def forward(self) -> Iterator[FloatArray]:
        """Filter all chunks in sequence; yield the log densities of the rows of each chunk."""
        remaining_bytes = self.max_stored_bytes
        for i, part in enumerate(self.parts):
            # The results of a single chunk remain in scratch memory, because no other chunk overwrites them.
            chunk = self.chunk_type(self, part, new_memory=len(self.parts) > 1)
            terms, state = chunk.filter(self.states[i])
            self.states.append(state)
            remaining_bytes -= chunk.nbytes
            if remaining_bytes >= 0:
                self.chunks[i] = chunk
            yield terms

    def backward(self, allocate: Callable[[slice], Arrays], *, full: bool) -> Iterator[Chunk]:
        """Smooth all chunks, the last one first, into arrays that ``allocate`` returns for their rows.

        When a chunk is yielded, ``after`` is the smoothed state after it, or None for the last chunk.
        """
        for i, chunk in self.filtered_backwards():
            first = chunk.smooth(self.states[i + 1], allocate(chunk.part), full=full)
            yield chunk
            self.after = first

    def filtered_backwards(self) -> Iterator[tuple[int, Chunk]]:
        """Yield all chunks, the last one first, with the results of their forward pass."""
        for i in reversed(range(len(self.parts))):
            chunk = self.chunks.pop(i, None)
            if chunk is None:
                chunk = self.chunk_type(self, self.parts[i], new_memory=True)
                chunk.filter(self.states[i])
            yield i, chunk


# A chunk is divided into groups of four segments, one group for each thread: number of groups, and minimum
# number of rows of a segment if there are several groups.
_N_GROUPS, _MIN_SEGMENT_ROWS = 2, 24
# Maximum number of distinct gaps for which a table of transitions is made.
_MAX_TABULATED_GAPS = 64
# Minimum number of rows of a chunk. The first rows of each segment, which depend on the previous segment, are
# filtered twice; long chunks have fewer such rows. At 24 to 64 states, chunks of 2048 rows take 14 to 34 %
# more time than chunks of 8192 rows.
_MIN_CHUNK_ROWS = 2048


class Segments(Chunk):
    """Information filter and smoother over segments in parallel, see ``segments.c``.

    It is fast, but inaccurate for very small noise.
    """

    #: Maximum number of states of a block that the kernels support.
    max_block_size = 2

    @classmethod
    def rows_of_chunk(cls, n_states: int, moments_by_chunk: bool) -> int:
        """Return the number of rows of a chunk."""
        rows = _CHUNK_BYTES // (4 * n_states * (n_states + 1))
        # Full moments of a chunk are several times as large as its filtered results.
        return max(rows // 8 if moments_by_chunk else rows, _MIN_CHUNK_ROWS)

    @classmethod
    def prior(cls, n_states: int) -> State:
        """See :class:`.Chunk`: information vector and precision."""
        return State(np.zeros(n_states), np.eye(n_states))

    def _n_groups(self) -> int:
        return 1 if self.one_thread else min(_N_GROUPS, max(1, self.n_rows // (LANES * _MIN_SEGMENT_ROWS)))

    @property
    def nbytes(self) -> int:
        """Bytes of the results that are stored for the backward pass."""
        return int(self.row_buffer.nbytes + self.group.nbytes)

    @cached_property
    def _precisions(self) -> Precisions:
        return self.panel_pass.table(Precisions)

    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        kernel = self.kernel
        precisions = self._precisions
        kernel.weight, kernel.known = precisions.cross_precision, precisions.previous_precision
        kernel.inverse, kernel.log_det = precisions.innovation_precision, precisions.log_det
        self.group = np.zeros(kernel.size_of_groups, np.uint8)
        size = kernel.size_of_rows
        self.row_buffer = np.empty(size) if self.new_memory else scratch.array("rows", size)
        kernel.group, kernel.rows = self.group, self.row_buffer
        kernel.collapsed = scratch.array("collapsed", kernel.size_of_collapsed)
        if self.panel_pass.n_gaps <= _MAX_TABULATED_GAPS:
            kernel.steps = np.empty(kernel.size_of_steps, np.uint8)
            kernel.tabulate()
        information, precision = (x.copy() for x in before)
        self._on_groups(kernel.collapse)
        self._on_groups(kernel.eliminate)
        kernel.join(precision, information)
        self._on_groups(kernel.refilter)
        kernel.collapsed = None
        return State(information, precision)

    def smooth(self, last: State, arrays: Arrays, *, full: bool) -> State:
        """See :class:`.Chunk`."""
        k, after = self.panel_pass.n_states, self.panel_pass.after
        table = self._precisions
        mean = _inverse(last.matrix) @ last.vector
        covariance = _inverse(last.matrix + self._matrix_after_last_row(table.previous_precision))
        if after is not None:
            gain = covariance @ self._matrix_after_last_row(table.cross_precision)
            lag_one_covariance = gain @ after.matrix
            mean = mean + gain @ (
                after.vector - self._matrix_after_last_row(self.panel_pass.diagonals) @ mean
            )
            covariance = covariance + lag_one_covariance @ gain.T
            arrays["lag_one"][-1] = (
                lag_one_covariance.T if full else self._lag_one_entries(lag_one_covariance.T)
            )
        self._set_moments(arrays)
        self.kernel.join_back(mean, np.ascontiguousarray(covariance))
        self._on_groups(lambda first, end: self.kernel.smooth(first, end, full))
        self.kernel.link(full)  # adds lag-one covariances between segments
        first = arrays["covariances"][0]
        return State(arrays["means"][0].copy(), first.copy() if full else unpacked(first[: k * (k + 1) // 2]))

    def _matrix_after_last_row(self, table: FloatArray) -> FloatArray:
        """Return the matrix (K, K) of a table (U + 1, 2, K) for the transition from the last row."""
        diagonal, off_diagonal = table[self.next_gap_index]
        n = self.panel_pass.n_single
        paired = np.arange(n, self.panel_pass.n_states).reshape(-1, 2)
        pairs = np.stack([diagonal[paired], off_diagonal[paired]], axis=2)
        pairs[:, 1] = pairs[:, 1, ::-1]
        return np.asarray(Blocks(diagonal[:n], (pairs,) if len(pairs) else ()).matrix())

    def _lag_one_entries(self, matrix: FloatArray) -> FloatArray:
        """Return the entries of a lag-one covariance inside blocks (L,), in the order of :meth:`smooth`."""
        paired = np.arange(self.panel_pass.n_single, self.panel_pass.n_states)
        partner = paired.reshape(-1, 2)[:, ::-1].ravel()
        return np.concatenate([np.diagonal(matrix), matrix[paired, partner]])

    def _on_groups(self, run: Callable[[int, int], None]) -> None:
        n = self._n_groups()
        if n < 2:
            run(0, n)
        else:
            on_two_threads(lambda: run(0, n // 2), lambda: run(n // 2, n))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix; NaN if it is not positive definite."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)
    return root.T @ root


class Recursions(Chunk):
    """Square-root filter and smoother row by row, see ``recursions.c``.

    It is also accurate for very small noise and closely spaced rows.
    """

    @classmethod
    def rows_of_chunk(cls, n_states: int, moments_by_chunk: bool) -> int:
        """Return the number of rows of a chunk."""
        return _CHUNK_BYTES // (16 * n_states**2)

    @classmethod
    def prior(cls, n_states: int) -> State:
        """See :class:`.Chunk`: mean and root of the covariance."""
        return State(np.zeros(n_states), np.eye(n_states))

    @property
    def nbytes(self) -> int:
        """Bytes of the results that are stored for the backward pass.

        Rows in the steady state share one gain, which is counted once.
        """
        return 16 * self.n_slots * self.panel_pass.n_states**2 + self.filtered_means.nbytes

    @cached_property
    def _row_kernel(self) -> Any:
        roots, index = self.panel_pass.table(Roots).select(self.gap_index)
        return make_rows(self.panel_pass.params, self.values, self.weights, roots, index)

    def _array_for_means(self) -> FloatArray:
        self.filtered_means = np.empty((self.n_rows, self.panel_pass.n_states))
        return self.filtered_means

    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        n, k, rows = self.n_rows, self.panel_pass.n_states, self._row_kernel
        rows.filtered_means, rows.terms = means, terms
        rows.slot = np.empty(n, np.int32)
        rows.gain, rows.root = np.empty((n, k, k)), np.empty((n, k, k))
        mean, root = (x.copy() for x in before)
        self.n_slots = rows.filter(mean, root)
        rows.values = rows.weights = None
        return State(mean, root)

    def smooth(self, last: State, arrays: Arrays, *, full: bool) -> State:
        """See :class:`.Chunk`."""
        k, after = self.panel_pass.n_states, self.panel_pass.after
        mean, covariance = np.zeros(k), np.zeros((k, k))
        if after is not None:
            mean[:], covariance[:] = after
        self._set_moments(arrays)
        self._row_kernel.set_moments(arrays["means"], arrays["covariances"], arrays["lag_one"])
        self._row_kernel.smooth(full, self.panel_pass.n_single, self.panel_pass.n_triples, mean, covariance)
        return State(mean, covariance)

    def draw(self, normals: FloatArray, after: FloatArray, draws: FloatArray) -> None:
        """Compute draws (n, M, K) of the states from standard normal variables of the same shape.

        ``after`` (M, K) contains draws of the state after the last row, and is overwritten by draws of the
        first state.
        """
        self._row_kernel.draw(normals.shape[1], normals, after, draws)


def make_rows(
    params: StateSpace, values: FloatArray, weights: FloatArray, roots: Roots, gap_index: Any
) -> Any:
    """Return the kernel of ``recursions.c`` for some rows.

    ``gap_index`` (n + 1,) contains the indices in `roots` of the transitions to each row, and from the last
    row.
    """
    n, d = values.shape
    bandwidth = max(params.state_layout.sizes, default=1) - 1
    rows = kernels().Rows(params.n_states, d, n, len(roots.transition) - 1, bandwidth)
    rows.values, rows.weights, rows.gap_index = values, weights, gap_index
    rows.transition, rows.innovation = roots
    named = {"loadings": params.loadings, "noise": params.noise_variance, "offset": params.offset}
    for name, array in named.items():
        setattr(rows, name, np.ascontiguousarray(array, np.float64))
    return rows
