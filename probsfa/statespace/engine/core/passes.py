"""Forward and backward pass over a panel, chunk by chunk, with one of the two compiled algorithms."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NamedTuple, TypeVar

import numpy as np

from probsfa._threads import n_cores, on_two_threads
from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.kernels import kernels
from probsfa.statespace.engine.core.tables import Columns, Precisions, Roots, Sums, by_diagonals, packed
from probsfa.statespace.engine.dynamics import transition_table
from probsfa.statespace.panel import Panel, reading, resident_bytes
from probsfa.statespace.parameters import Parameters

Arrays = dict[str, FloatArray]
_T = TypeVar("_T", Precisions, Roots)

# Bytes of a chunk's values that are read from a file: they are read at the speed of the disk, and use little
# memory.
_READ_BYTES = 16 * 2**20
# Rows times products of a row at which a second thread saves more time than its start takes (some 50 us).
_LEAST_WORK = 1e7


class Scratch(threading.local):
    """Arrays that each thread allocates once: fresh memory takes as long as a pass over few states."""

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
    """A state between two chunks.

    Given all rows, it holds mean (K,) and covariance (K, K). Given the rows up to its own, it holds
    information and precision (segments), or mean and a root ``N`` of the covariance ``N' N`` (recursions).
    """

    vector: FloatArray
    matrix: FloatArray


class Chunk(ABC):
    """Consecutive rows of a panel, processed by one algorithm.

    Parameters
    ----------
    whole : PanelPass
        The pass that it belongs to.
    part : slice
        Its rows.
    fresh : bool
        Whether results to keep need newly allocated memory.
    """

    def __init__(self, whole: "PanelPass", part: slice, *, fresh: bool) -> None:
        panel, k = whole.panel, whole.n_states
        self.whole, self.part, self.fresh = whole, part, fresh
        self.n_rows = n = part.stop - part.start
        self.one_thread = n_cores() < 2 or n * k**2 * (k + whole.n_features) < _LEAST_WORK
        ends = part.stop == panel.n_rows
        self.following = whole.n_gaps if ends else int(panel.gap_index[part.stop])
        index = np.append(panel.gap_index[part], np.int32(self.following)).astype(np.int32)
        self.gap_index = index
        self.kernel: Any = kernels().Segments(
            n_states=k,
            n_single=whole.n_single,
            n_triples=whole.n_triples,
            n_features=whole.n_features,
            n_rows=n,
            n_groups=self._n_groups(),
            n_gaps=whole.n_gaps,
        )
        self.kernel.set_gaps(np.ascontiguousarray(index[:-1]), np.ascontiguousarray(index[1:]))
        self.kernel.transition, self.kernel.complete = whole.diagonals, panel.complete
        for name, array in whole.columns._asdict().items():
            setattr(self.kernel, name, array)
        self._read()

    def _n_groups(self) -> int:
        return 1

    def _read(self) -> None:
        """Read values and weights of the rows."""
        with reading:
            panel = self.whole.panel
            both = panel.values[self.part], panel.cell_weights[self.part]
        self.values, self.weights = (np.ascontiguousarray(x, np.float64) for x in both)
        self.kernel.values, self.kernel.weights = self.values, self.weights

    @classmethod
    @abstractmethod
    def rows_of_chunk(cls, n_states: int, shown: bool) -> int:
        """Return the number of rows of a chunk; ``shown`` if moments are returned in full."""

    @classmethod
    @abstractmethod
    def prior(cls, n_states: int) -> State:
        """Return the stationary state before the first row, in the form of the algorithm."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of the results kept for the backward pass."""

    @abstractmethod
    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        """Filter from the state before the first row; write terms of the likelihood and means."""

    @abstractmethod
    def smooth(self, last: State, into: Arrays, *, full: bool) -> State:
        """Smooth from the filtered last state and the state after it; return the first state.

        Moments are written into arrays: ``means`` (n, K), ``covariances`` (n, K, K), and ``lag_one`` (n, K,
        K), covariances of the next state with each. For sums they are: lower triangles of covariances and
        then of ``m m'`` (n + 1, K (K + 1)); the diagonals of ``lag_one`` and then, row after row, its other
        entries within blocks (n, L); and ``means`` (n + 1, K).
        """

    def filter(self, before: State) -> tuple[FloatArray, State]:
        """Filter from the state before the first row; return log densities of rows and the last state."""
        n = self.n_rows
        terms, means = np.empty(n), self._room_for_means()
        self.kernel.terms, self.kernel.filtered_means = terms, means
        last = self._filter(before, terms, means)
        self._on_rows(self.kernel.likelihoods)
        if not self.whole.resident:
            # Rows of a file are read again for the sums, because keeping them would fill the memory.
            del self.values, self.weights
            self.kernel.values = self.kernel.weights = None
        return terms, last

    def _room_for_means(self) -> FloatArray:
        return scratch.array("filtered means", self.n_rows, self.whole.n_states)

    def add_up(self, sums: Sums) -> None:
        """Add the sums over rows to ``sums``, after ``smooth(..., full=False)``."""
        k, n, after = self.whole.n_states, self.n_rows, self.whole.after
        if not hasattr(self, "values"):
            self._read()
        if after is not None:
            # Arrays for sums have one row more than the chunk, for the state after its last row.
            self.means[n], self.moments[n, : k * (k + 1) // 2] = after.vector, packed(after.matrix)
        if self.one_thread:
            self.kernel.add_up(0, n, *sums)
            return
        other = self.whole.no_sums()
        on_two_threads(
            lambda: self.kernel.add_up(0, n // 2, *sums), lambda: self.kernel.add_up(n // 2, n, *other)
        )
        for total, part in zip(sums, other, strict=True):
            total += part

    def _set_moments(self, into: Arrays) -> None:
        self.means, self.moments = into["means"], into["covariances"]
        self.kernel.set_moments(self.means, self.moments, into["lag_one"])

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
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    kind : type of Chunk
        The algorithm.
    kept_bytes : int
        Maximum memory for results of the forward pass; beyond it, they are recomputed.
    shown : bool, default=False
        Whether moments of whole chunks are returned, for which chunks are smaller.
    """

    def __init__(
        self, params: Parameters, panel: Panel, kind: type[Chunk], kept_bytes: int, *, shown: bool = False
    ) -> None:
        self.kind, self.kept_bytes = kind, kept_bytes
        self.panel, self.n_states, self.n_features = panel, params.n_states, params.n_features
        sizes = params.latents.sizes
        self.n_single, self.n_triples = sizes.count(1), sizes.count(3)
        self.n_terms = sum(size**2 for size in sizes)
        self.steps = transition_table(params, panel.gaps)
        self.diagonals = by_diagonals(self.steps.as_batch().matrix)
        self.columns = Columns.of(params)
        self.params = params
        self.resident = resident_bytes(panel.values) is not None
        rows = kind.rows_of_chunk(self.n_states, shown)
        if not self.resident:
            rows = min(rows, _READ_BYTES // (8 * self.n_features))
        rows = max(rows - rows % 8, 8)  # whole chunks then fill each SIMD lane of each group
        n = panel.n_rows
        self.parts = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
        self._tables: dict[Any, Any] = {}
        self.chunks: dict[int, Chunk] = {}
        self.states = [kind.prior(self.n_states)]
        self.after: State | None = None

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, ``U``."""
        return len(self.diagonals) - 1

    def no_sums(self) -> Sums:
        """Return sums over no rows."""
        sizes = self.n_states, self.n_terms, self.n_features, self.n_gaps
        return Sums.zero(*sizes, complete=self.panel.complete)

    def shared(self, kind: type[_T]) -> _T:
        """Return the table of a kind over the panel's gaps, computed once for all chunks."""
        if kind not in self._tables:
            self._tables[kind] = kind.of(self.steps)
        return self._tables[kind]

    def forward(self) -> Iterator[FloatArray]:
        """Filter all chunks in sequence; yield the log density of each row."""
        room = self.kept_bytes
        for i, part in enumerate(self.parts):
            # A single chunk keeps its results in scratch memory.
            chunk = self.kind(self, part, fresh=len(self.parts) > 1)
            terms, state = chunk.filter(self.states[i])
            self.states.append(state)
            room -= chunk.nbytes
            if room >= 0:
                self.chunks[i] = chunk
            yield terms

    def backward(self, room: Callable[[slice], Arrays], *, full: bool) -> Iterator[Chunk]:
        """Smooth all chunks, the last one first, into arrays that ``room`` returns for their rows.

        While a chunk is yielded, ``after`` is the state after it; None after the last chunk.
        """
        for i, chunk in self.filtered_backwards():
            first = chunk.smooth(self.states[i + 1], room(chunk.part), full=full)
            yield chunk
            self.after = first

    def filtered_backwards(self) -> Iterator[tuple[int, Chunk]]:
        """Yield all chunks with their forward pass, the last chunk first."""
        for i in reversed(range(len(self.parts))):
            chunk = self.chunks.pop(i, None)
            if chunk is None:
                chunk = self.kind(self, self.parts[i], fresh=True)
                chunk.filter(self.states[i])
            yield i, chunk
