"""A panel taken through the library chunk by chunk, without JAX."""

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._threads import n_cores, on_two_threads
from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Blocks, transition_table
from probsfa.statespace.engine.moments import PanelMoments
from probsfa.statespace.engine.native.build import MOST_STATES
from probsfa.statespace.engine.native.library import Data, Passes, Work, passes, serves
from probsfa.statespace.engine.problem import reading
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.panel import Panel, resident_bytes
from probsfa.statespace.parameters import Parameters

__all__ = ["MOST_PRECISION_OF_STEPS", "MOST_STATES", "NativeSegments", "serves", "suits"]

#: Most precision of a filtered state for steps of a climb: sums keep seven digits, log-likelihoods ten. What
#: else serves takes ten times as long.
MOST_PRECISION_OF_STEPS = 2e6

# As in segments.c.
LANES, ROWS_TOGETHER = 4, 16
# Groups of four segments side by side, for two threads; fewer where segments would be shorter than this.
_GROUPS, _SHORTEST = 2, 24
# Bytes of a chunk's precisions, about, and fewest rows of one.
_CHUNK_BYTES, _FEWEST_CHUNK_ROWS = 8 * 2**20, 2048
# The same where moments are not shown in full: segments should be long beside the rows that depend on what
# was before them, which are gone through twice.
_LONG_CHUNK_BYTES, _LONG_CHUNK_ROWS = 64 * 2**20, 8192
# Bytes of a chunk's values, at most, where they are read from elsewhere; and fewest rows of such a chunk.
_READ_BYTES, _FEWEST_READ_ROWS = 16 * 2**20, 256
# What the forward pass leaves is kept for the backward pass up to this size; beyond it, it is made again.
_MOST_KEPT_BYTES = 1536 * 2**20
# Rows times the products of one from which a second thread is worth asking.
_LEAST_WORK = 1e7
# Different gaps up to which transitions are laid out for all lanes.
_FEW_GAPS = 64

Visit = Callable[[slice, FloatArray, FloatArray], None]
Arrays = dict[str, FloatArray]


def suits(params: Parameters) -> bool:
    """Whether the library is there, and for so many states."""
    return serves() and 1 <= params.n_states <= MOST_STATES


class Scratch(threading.local):
    """Arrays that are made once in each thread: fresh memory takes as long as a pass over few states."""

    def __init__(self) -> None:
        self._arrays: dict[str, FloatArray] = {}

    def array(self, name: str, *shape: int) -> FloatArray:
        """An array of a shape, with whatever numbers were in it before."""
        size = int(np.prod(shape))
        if name not in self._arrays or self._arrays[name].size < size:
            self._arrays[name] = np.empty(size)
        return self._arrays[name][:size].reshape(shape)


_scratch = Scratch()


class Table(NamedTuple):
    """Transitions over each gap and, last, the one that starts a sequence, and ``log|Q|`` (U + 1,).

    ``A``, ``A' Q^-1``, ``A' Q^-1 A`` and ``Q^-1`` by their diagonals and what is beside these in the rows of
    pairs, (U + 1, 2, K).
    """

    decay: FloatArray
    weight: FloatArray
    known: FloatArray
    inverse: FloatArray
    log_det: FloatArray

    @classmethod
    def of(cls, params: Parameters, panel: Panel) -> "Table":
        """From parameters and the gaps of a panel."""
        batch = transition_table(params, panel.gaps).as_batch()
        by_precision = batch.in_information_form()
        return cls(
            decay=_laid_out(batch.matrix),
            weight=_laid_out(by_precision.weights),
            known=_laid_out(by_precision.known),
            inverse=_laid_out(by_precision.innovation),
            log_det=np.asarray(batch.innovation_log_det()),
        )

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, ``U``."""
        return len(self.decay) - 1


def _laid_out(batch: Blocks) -> FloatArray:
    """Matrices of blocks (U, 2, K), from a batch of them."""
    n_states, count = batch.diagonal.shape
    out = np.zeros((count, 2, n_states))
    out[:, 0] = batch.diagonal.T
    if batch.beside is not None:
        out[:, 1, n_states - len(batch.beside) :] = batch.beside.T
    return out


class Columns(NamedTuple):
    """What is known of the columns; see ``data`` of ``segments.c``."""

    offset: FloatArray
    reciprocal_noise: FloatArray
    log_norm: FloatArray
    loadings: FloatArray
    scaled: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, params: Parameters) -> "Columns":
        """From parameters."""
        rows, columns = _triangle(params.n_states)
        scaled = params.loadings / params.noise_variance[:, None]
        arrays = (
            params.offset,
            1.0 / params.noise_variance,
            np.log(2.0 * np.pi * params.noise_variance),
            params.loadings.T,
            scaled,
            scaled[:, rows] * params.loadings[:, columns],
        )
        return cls(*(np.ascontiguousarray(array, np.float64) for array in arrays))


class State(NamedTuple):
    """A state between two chunks.

    Its ``mean`` (K,) and covariance (K, K), given all rows; or, given the rows up to its own, information and
    precision.
    """

    mean: FloatArray
    matrix: FloatArray


class Through:
    """A panel and parameters on their way through the library.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    kept_bytes : int
        Most memory for what the forward pass leaves to the backward one; beyond it, it is made again.
    shown : bool, default=False
        Whether moments of whole chunks are shown, for which memory is scarce.
    """

    def __init__(self, params: Parameters, panel: Panel, kept_bytes: int, *, shown: bool = False) -> None:
        self.kept_bytes = kept_bytes
        params = Parameters(**{name: np.asarray(x, np.float64) for name, x in params._asdict().items()})
        self.panel, self.n_states, self.n_features = panel, params.n_states, params.n_features
        self.n_paired = 2 * params.latents.n_pairs
        # Numbers that the forward pass leaves of a row: a mean, and the triangle of a covariance.
        self.size_of_row = params.n_states * (params.n_states + 3) // 2
        self.passes: Passes = passes(self.n_states)
        self.table, self.columns = Table.of(params, panel), Columns.of(params)
        n, k = panel.n_rows, self.n_states
        # All but the last chunk fill their segments: what follows the rows must follow the segments.
        of_a_row = 4 * k * (k + 1)
        rows = max(_CHUNK_BYTES // of_a_row, _FEWEST_CHUNK_ROWS)
        if not shown:
            rows = max(rows, min(_LONG_CHUNK_BYTES // of_a_row, _LONG_CHUNK_ROWS))
        self.resident = resident_bytes(panel.values) is not None
        if not self.resident:
            rows = min(rows, max(_READ_BYTES // (8 * self.n_features), _FEWEST_READ_ROWS))
        rows -= rows % (LANES * _GROUPS)
        self.parts = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
        self.chunks: dict[int, Chunk] = {}
        self.states = [State(np.zeros(k), np.eye(k))]
        self.after: State | None = None

    @property
    def n_alone(self) -> int:
        """Number of states that are in no pair: the first ones."""
        return self.n_states - self.n_paired

    def forward(self) -> Iterator[FloatArray]:
        """Filter all chunks in turn; gives the log density of each row."""
        room = self.kept_bytes
        for i, part in enumerate(self.parts):
            # What is kept of one chunk alone is in memory that there is already.
            chunk = Chunk(self, part, fresh=len(self.parts) > 1)
            terms, state = chunk.filter(self.states[i])
            self.states.append(state)
            room -= sum(chunk.arrays[name].nbytes for name in ("rows", "group", "steps"))
            if room >= 0:
                self.chunks[i] = chunk
            yield terms

    def backward(self, room: Callable[[slice], Arrays], *, full: bool) -> Iterator["Chunk"]:
        """Smooth all chunks, the last one first, into arrays that are asked for.

        Meanwhile ``after`` is the state after the chunk; none follows the last one.
        """
        for i in reversed(range(len(self.parts))):
            chunk = self.chunks.pop(i, None)
            if chunk is None:
                chunk = Chunk(self, self.parts[i], fresh=True)
                chunk.filter(self.states[i])
            first = chunk.smooth(self.states[i + 1], room(chunk.part), full=full)
            yield chunk
            self.after = first


# What is read of rows.
_CELLS = ("values", "weights")
# Names of what the structures of the library have.
_FIELDS = {kind: {field[0] for field in kind._fields_} for kind in (Work, Data)}


def _addresses(arrays: dict[str, NDArray[Any]]) -> dict[str, int]:
    """Where arrays are; nowhere, if there is nothing in them."""
    return {name: array.__array_interface__["data"][0] for name, array in arrays.items() if array.size}


class Chunk:
    """A stretch of rows.

    Parameters
    ----------
    whole : Through
        The panel that it is of.
    part : slice
        Its rows.
    fresh : bool
        Whether what it keeps needs memory of its own.
    """

    def __init__(self, whole: Through, part: slice, *, fresh: bool) -> None:
        panel, k = whole.panel, whole.n_states
        self.whole, self.part = whole, part
        self.n_rows = n = part.stop - part.start
        products = k**2 * (k + whole.n_features)
        # Whether one thread is quicker than two.
        self.one_thread = n_cores() < 2 or n * products < _LEAST_WORK
        self.n_groups = 1 if self.one_thread else min(_GROUPS, max(1, n // (LANES * _SHORTEST)))
        self.length = -(-n // (LANES * self.n_groups))
        index = np.ascontiguousarray(panel.gap_index[part], np.int32)
        ends, few = part.stop == panel.n_rows, whole.table.n_gaps <= _FEW_GAPS
        self.following = whole.table.n_gaps if ends else int(panel.gap_index[part.stop])
        size = LANES * self.n_groups * (self.length + 1) * whole.size_of_row
        self.arrays: dict[str, NDArray[Any]] = {
            **whole.columns._asdict(),
            **whole.table._asdict(),
            "gap_index": index,
            "next_gap": np.append(index[1:], np.int32(self.following)),
            "steps": np.empty((whole.table.n_gaps + 1) * whole.passes.size_of_step if few else 0, np.uint8),
            "group": np.zeros(self.n_groups * whole.passes.size_of_group, np.uint8),
            "rows": np.empty(size) if fresh else _scratch.array("rows", size),
        }
        self.addresses = _addresses(self.arrays)
        self._read()

    def _read(self) -> None:
        """Have values and weights of the rows, from now on."""
        with reading:
            cells = self.whole.panel.values[self.part], self.whole.panel.cell_weights[self.part]
        self._take(**dict(zip(_CELLS, (np.ascontiguousarray(x, np.float64) for x in cells), strict=True)))

    def _take(self, **arrays: NDArray[Any]) -> None:
        self.arrays.update(arrays)
        self.addresses.update(_addresses(arrays))

    def _work(self, **arrays: FloatArray) -> Any:
        """``work`` of the library, with addresses of these arrays besides those of the chunk."""
        whole = self.whole
        sizes = (whole.n_states, whole.n_alone, self.n_rows, self.length, whole.table.n_gaps)
        return self._structure(Work, sizes, arrays)

    def _data(self, **arrays: FloatArray) -> Any:
        """``data`` of the library."""
        whole = self.whole
        states = (whole.n_states, whole.n_alone)
        sizes = (*states, whole.n_features, self.n_rows, self.length, whole.table.n_gaps)
        return self._structure(Data, sizes, arrays)

    def _structure(self, kind: type[Work] | type[Data], sizes: tuple[int, ...], more: Arrays) -> Any:
        addresses = {**self.addresses, **_addresses(more)}
        return ctypes.byref(
            kind(*sizes, **{name: addresses[name] for name in _FIELDS[kind] & addresses.keys()})
        )

    def filter(self, before: State) -> tuple[FloatArray, State]:
        """Filter from the state before the first row; gives log densities of rows, and the last state."""
        whole, k, n, c = self.whole, self.whole.n_states, self.n_rows, self.whole.passes
        collapsed = _scratch.array("collapsed", LANES * self.n_groups * self.length * whole.size_of_row)
        arrays = {"collapsed": collapsed, "terms": np.empty(n)}
        means = _scratch.array("filtered means", n, k)
        data, work = self._data(**arrays, means=means), self._work(**arrays, filtered_means=means)
        if self.arrays["steps"].size:
            c.tabulate(work)
        information, precision = (x.copy() for x in before)
        self._on_groups(c.collapse, data)
        self._on_groups(c.eliminate, work)
        c.join(work, self.n_groups, precision.ctypes.data, information.ctypes.data)
        self._on_groups(c.refilter, work)
        self._on_rows(c.likelihoods, data)
        if not whole.resident:
            # What is read from elsewhere is read again for the sums: kept, it would fill the memory.
            for name in _CELLS:
                del self.arrays[name], self.addresses[name]
        return arrays["terms"], State(information, precision)

    def smooth(self, last: State, into: Arrays, *, full: bool) -> State:
        """Smooth from the filtered last state and the state after it; gives the first state.

        Moments are written into arrays: ``means`` (n, K), ``covariances`` (n, K, K), and ``lag_one``, those
        of the next state with each (n, K, K); or, where they are for sums, lower triangles of covariances and
        then of ``m m'`` (n + 1, K (K + 1)), and of ``lag_one`` the diagonals and what pairs have beside them
        (n, K + 2 P), and ``means`` (n + 1, K).
        """
        whole, k, c = self.whole, self.whole.n_states, self.whole.passes
        table, after = whole.table, whole.after
        mean = _inverse(last.matrix) @ last.mean
        covariance = _inverse(last.matrix + self._over_last(table.known))
        if after is not None:
            gain = covariance @ self._over_last(table.weight)
            crossed = gain @ after.matrix
            mean = mean + gain @ (after.mean - self._over_last(table.decay) @ mean)
            covariance = covariance + crossed @ gain.T
            into["lag_one"][-1] = crossed.T if full else self._of_lag_one(crossed.T)
        covariance = np.ascontiguousarray(covariance)
        work = self._work(**into)
        c.join_back(work, self.n_groups, mean.ctypes.data, covariance.ctypes.data)
        self._on_groups(c.smooth, work, int(full))
        c.link(work, self.n_groups, int(full))
        self._take(**into)
        first = into["covariances"][0]
        return State(into["means"][0].copy(), first.copy() if full else _unpacked(first[: k * (k + 1) // 2]))

    def _over_last(self, table: FloatArray) -> FloatArray:
        """The matrix (K, K) of a table for the step that follows the rows."""
        diagonal, beside = table[self.following]
        n = self.whole.n_paired
        return np.asarray(Blocks(diagonal, beside[-n:] if n else None).matrix())

    def _of_lag_one(self, matrix: FloatArray) -> FloatArray:
        """What sums need of the covariance of a state with the one before: see :meth:`smooth`."""
        paired = np.arange(self.whole.n_alone, self.whole.n_states)
        partner = paired.reshape(-1, 2)[:, ::-1].ravel()
        return np.concatenate([np.diagonal(matrix), matrix[paired, partner]])

    def add_up(self, sums: "Sums") -> None:
        """Add the sums over rows to others, once moments are there for them."""
        k, n, after = self.whole.n_states, self.n_rows, self.whole.after
        if "values" not in self.arrays:
            self._read()
        means, moments = self.arrays["means"], self.arrays["covariances"]
        if after is not None:
            # These have a row more than the chunk, where the step from the last one leads.
            means[n], moments[n, : k * (k + 1) // 2] = after.mean, _packed(after.matrix)
        data = self._data(moments=moments)
        parts = [sums] if self.one_thread else [sums, Sums.zero(self.whole)]

        def run(first: int, end: int, own: Sums) -> None:
            room = np.empty(ROWS_TOGETHER * (2 * own.residual_moments.shape[1] + k + 1))
            self.whole.passes.add_up(data, first, end, *(x.ctypes.data for x in own), room.ctypes.data)

        if len(parts) == 1:
            run(0, n, sums)
            return
        on_two_threads(lambda: run(0, n // 2, parts[0]), lambda: run(n // 2, n, parts[1]))
        for total, part in zip(*parts, strict=True):
            total += part

    def _on_rows(self, run: Callable[..., None], data: Any) -> None:
        if self.one_thread:
            return run(data, 0, self.n_rows)
        half = self.n_rows // 2
        return on_two_threads(lambda: run(data, 0, half), lambda: run(data, half, self.n_rows))

    def _on_groups(self, run: Callable[..., None], work: Any, *how: int) -> None:
        n = self.n_groups
        if n < 2:
            return run(work, 0, n, *how)
        return on_two_threads(lambda: run(work, 0, n // 2, *how), lambda: run(work, n // 2, n, *how))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Inverse of a symmetric positive definite matrix; NaN where rounding or worse has left none."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)
    return root.T @ root


def _packed(matrix: FloatArray) -> FloatArray:
    """The lower triangle of a matrix, row after row."""
    return matrix[_triangle(len(matrix))]


def _unpacked(lower: FloatArray) -> FloatArray:
    """The symmetric matrices (..., K, K) of lower triangles."""
    return lower[..., _places(lower.shape[-1])]


@cache
def _triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows and columns of a lower triangle."""
    return np.tril_indices(size)


@cache
def _places(packed: int) -> NDArray[np.intp]:
    """Where the entries of a symmetric matrix are in its lower triangle."""
    size = round((np.sqrt(8.0 * packed + 1.0) - 1.0) / 2.0)
    places = np.zeros((size, size), dtype=np.intp)
    places[_triangle(size)] = np.arange(packed)
    return np.maximum(places, places.T)


class Sums(NamedTuple):
    """Sums over rows that the expected statistics are made of; see ``add_up`` of ``segments.c``."""

    seen: FloatArray
    residual_moments: FloatArray
    residual_power: FloatArray
    transitions: FloatArray

    @classmethod
    def zero(cls, whole: Through) -> "Sums":
        """Nothing as yet."""
        k, d, u = whole.n_states, whole.n_features, whole.table.n_gaps
        width, n_terms = d + 1 + -(d + 1) % LANES, k + whole.n_paired
        shapes = ((k * (k + 1) + k + 1, width), (k + 1, width), (d,), (u + 1, 3 * n_terms + 1))
        return cls(*(np.zeros(shape) for shape in shapes))

    def complete(self, log_likelihood: float, loadings: FloatArray) -> Statistics:
        """The expected statistics."""
        d, k = loadings.shape
        packed, seen = k * (k + 1) // 2, self.seen[:, : d + 1]
        spread, second = (_unpacked(seen[part].T) for part in (slice(packed), slice(packed, 2 * packed)))
        first, counts = seen[2 * packed : -1].T, seen[-1]
        moments = np.empty((d + 1, k + 1, k + 1))
        moments[:, :k, :k] = spread + second
        moments[:, :k, k] = moments[:, k, :k] = first
        moments[:, k, k] = counts
        loaded = np.einsum("dij,dj->di", spread[:-1], loadings)
        crossed = self.residual_moments[:, :d].T.copy()
        crossed[:, :k] -= loaded
        power = self.residual_power + np.einsum("di,di->d", loaded, loadings)
        of_gaps = self.transitions[:-1]
        steps = (of_gaps[:, -1], *np.split(of_gaps[:, :-1], 3, axis=1))
        return Statistics(
            log_likelihood,
            counts[:-1].copy(),
            power,
            crossed,
            moments[:-1],
            moments[-1],
            *map(np.copy, steps),
        )


@dataclass(frozen=True)
class NativeSegments:
    """The route through the library.

    Attributes
    ----------
    kept_bytes : int, default=1.5 GiB
        Most memory for what the forward pass leaves to the backward one; beyond it, it is made again.
    """

    kept_bytes: int = _MOST_KEPT_BYTES

    def log_likelihood(self, params: Parameters, panel: Panel) -> float:
        """See :class:`.Route`: the forward pass alone."""
        return float(sum(map(np.sum, Through(params, panel, self.kept_bytes).forward())))

    def moments(self, params: Parameters, panel: Panel) -> PanelMoments:
        """See :class:`.Route`."""
        through, n = Through(params, panel, self.kept_bytes), panel.n_rows
        whole = _room_for_moments(n, params.n_states)
        terms = np.concatenate(list(through.forward()))
        for _ in through.backward(lambda part: {name: x[part] for name, x in whole.items()}, full=True):
            pass
        return PanelMoments(whole["means"], whole["covariances"], whole["lag_one"][: n - 1], terms)

    def visit_moments(self, params: Parameters, panel: Panel, visit: Visit) -> float:
        """Show the means and covariances of the rows of each chunk, the last one first, and keep none.

        Returns the log-likelihood.
        """
        through = Through(params, panel, self.kept_bytes, shown=True)
        value = float(sum(map(np.sum, through.forward())))
        for chunk in through.backward(
            lambda part: _room_for_moments(part.stop - part.start, params.n_states), full=True
        ):
            visit(chunk.part, chunk.arrays["means"], chunk.arrays["covariances"])
        return value

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """See :class:`.Route`."""
        through, k = Through(params, panel, self.kept_bytes), params.n_states

        def room(part: slice) -> Arrays:
            n = part.stop - part.start
            return {
                "means": _scratch.array("means", n + 1, k),
                "covariances": _scratch.array("moments", n + 1, k * (k + 1)),
                "lag_one": _scratch.array("lag-one", n, k + through.n_paired),
            }

        value = float(sum(map(np.sum, through.forward())))
        sums = Sums.zero(through)
        for chunk in through.backward(room, full=False):
            chunk.add_up(sums)
        return sums.complete(value, params.loadings)


def _room_for_moments(n_rows: int, n_states: int) -> Arrays:
    return {
        "means": np.empty((n_rows, n_states)),
        "covariances": np.empty((n_rows, n_states, n_states)),
        "lag_one": np.empty((n_rows, n_states, n_states)),
    }
