"""Training and evaluation of a network, layer by layer."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import check_array
from probsfa.expansions._base import FloatArray
from probsfa.graphs import TrainingGraph
from probsfa.linalg import RankError
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.nodes import (
    NodeBank,
    NodeMoments,
    NodeSolution,
    NodeStream,
    Workers,
    expand_nodes,
    gather,
    node_graph_moments,
    pool_nodes,
    slices,
    solve_igsfa,
    solve_pca,
    solve_sfa,
)

__all__ = [
    "ArraySource",
    "MappedSource",
    "SlownessObjective",
    "Source",
    "StageMoments",
    "StoredSource",
    "StreamSource",
    "check_first_chunk",
    "default_chunk_rows",
    "outputs",
    "stage_moments",
    "train_stage",
    "train_stages",
]

# ---- sources of rows in chunks: an array, a stream, or the layers below
#
# A *chunk* is an array (positions, rows, channels) of consecutive rows at all positions of a grid. A source
# yields the same chunks in the same order at each call.


class Source(Protocol):
    """A source of chunks of rows, for any number of passes."""

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels)."""

    def count_rows(self) -> int:
        """Return the number of rows of all chunks."""


class ArraySource:
    """Source: an array (N, positions * channels), without a copy."""

    def __init__(self, values: FloatArray, n_positions: int, chunk_rows: int) -> None:
        self.values = values
        self.n_positions = n_positions
        self.chunk_rows = chunk_rows

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels), views of the array."""
        yield from _array_chunks(self.values, self.n_positions, self.chunk_rows)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self.values)


class StreamSource:
    """Source: the arrays that a callable yields at each call.

    Parameters
    ----------
    estimator : scikit-learn estimator
        The estimator with the expected number of columns; see :func:`check_first_chunk`.
    factory : callable
        Function that returns an iterable of array-likes (rows, D), the same at each call.
    n_rows : int, optional
        Total number of rows, if known.
    """

    def __init__(
        self,
        estimator: Any,
        factory: Callable[[], Iterable[Any]],
        n_positions: int,
        chunk_rows: int,
        *,
        n_rows: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.factory = factory
        self.n_positions = n_positions
        self.chunk_rows = chunk_rows
        self.n_rows = n_rows
        self._expected = "lengths sum to" if n_rows is not None else "it yielded before"

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels).

        Raises
        ------
        ValueError
            If the callable yields anything but complete rows of numbers, or another number of rows than
            before.
        """
        for values in self._input_chunks():
            yield from _array_chunks(values, self.n_positions, self.chunk_rows)

    def count_rows(self) -> int:
        """Return the number of rows; the first call reads all rows."""
        if self.n_rows is None:
            self.n_rows = sum(len(values) for values in self._input_chunks())
        return self.n_rows

    def _input_chunks(self) -> Iterator[FloatArray]:
        n_read = 0
        for i, piece in enumerate(_iterate(self.factory)):
            values = _check_chunk(self.estimator, piece, i, reset=False)
            n_read += len(values)
            yield values
        if self.n_rows is None:
            self.n_rows = n_read
        if n_read != self.n_rows:
            raise ValueError(
                f"X is a callable that yielded {n_read} rows; {self._expected} {self.n_rows}. It is called "
                "for every pass over the data and must yield the same rows at each call."
            )


class StoredSource:
    """Source: chunks stored in memory."""

    def __init__(self, stored_chunks: list[FloatArray]) -> None:
        self.stored_chunks = stored_chunks

    def chunks(self) -> Iterator[FloatArray]:
        """Yield the chunks."""
        yield from self.stored_chunks

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(chunk.shape[1] for chunk in self.stored_chunks)


class MappedSource:
    """Source: a function of the chunks of another source, computed again on every pass."""

    def __init__(self, below: Source, function: Callable[[FloatArray], FloatArray]) -> None:
        self.below = below
        self.function = function

    def chunks(self) -> Iterator[FloatArray]:
        """Yield one chunk for each chunk of the source."""
        for chunk in self.below.chunks():
            yield self.function(chunk)

    def count_rows(self) -> int:
        """Return the number of rows of the source."""
        return self.below.count_rows()


def _array_chunks(values: FloatArray, n_positions: int, chunk_rows: int) -> Iterator[FloatArray]:
    for start in range(0, len(values), chunk_rows):
        rows = values[start : start + chunk_rows]
        yield rows.reshape(len(rows), n_positions, -1).transpose(1, 0, 2)


def _iterate(factory: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    pieces = factory()
    try:
        return iter(pieces)
    except TypeError:
        raise ValueError(
            f"X is a callable, so it must return an iterable of arrays (rows, features); it returned "
            f"{type(pieces).__name__}."
        ) from None


def check_first_chunk(estimator: Any, factory: Callable[[], Iterable[Any]]) -> None:
    """Set the number of columns and their names from the first array that a callable yields.

    Raises
    ------
    ValueError
        If it yields nothing, or no complete array of numbers.
    """
    for piece in _iterate(factory):
        _check_chunk(estimator, piece, 0, reset=True)
        return
    raise ValueError("X is a callable that yielded no array; expected arrays (rows, features).")


def _check_chunk(estimator: Any, piece: Any, index: int, *, reset: bool) -> FloatArray:
    name = f"chunk {index} of X"
    return check_array(estimator, piece, name, reset=reset, allow_nan=False, min_rows=1)


# ---- moments of the nodes of a stage, for as many nodes at a time as memory allows
#
# There are two orders of computation:
# - *By rows*: each chunk of rows is added to the moments of all nodes. This order is used for differences in
#   time and for principal components, if the expansion requires no fit.
# - *By columns*: all rows of a few nodes are gathered at a time. This order is used for training graphs,
#   whose edges may connect any two rows, and for expansions that are fitted to all rows.


# Number of values, 512 MiB of float64, in the moments or gathered columns of nodes that are trained together.
_MAX_STORED_SIZE = 2**26

# Moments of consecutive nodes, and their fitted expansions.
StageMoments = tuple[NodeMoments, list[Expander]]


@dataclass(frozen=True, eq=False)
class SlownessObjective:
    """Definition of slowness in training.

    Attributes
    ----------
    graph : TrainingGraph or None
        Training graph; None for edges between rows `lag` apart in one sequence.
    lag : int
        Lag of the differences, in rows.
    lengths : tuple of int or None
        Rows of every sequence; None for a single sequence.
    rank_tol : float or None
        Rank tolerance of every eigenproblem.
    """

    graph: TrainingGraph | None
    lag: int
    lengths: tuple[int, ...] | None
    rank_tol: float | None

    def valid_differences(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """Return a mask of the rows of a chunk for which the row `lag` earlier is in the same sequence."""
        index = np.arange(start, start + n_rows)
        starts = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]) if self.lengths else np.zeros(1, int)
        return index - starts[np.searchsorted(starts, index, side="right") - 1] >= self.lag


def stage_moments(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers
) -> Iterator[StageMoments]:
    """Yield the moments of the nodes of a stage, in order; with shared weights, of a single node."""
    if stage.stateless and (objective.graph is None or stage.method == "pca"):
        yield from _by_rows(stage, source, objective, workers)
    elif stage.share_weights:
        yield _by_columns_shared(stage, source, objective)
    else:
        yield from _by_columns(stage, source, objective, workers)


def _by_rows(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers
) -> Iterator[StageMoments]:
    """Yield the moments of groups of nodes, or of the shared node, from passes over the rows."""
    n_expanded = _n_expanded(stage)
    groups = _groups(stage.n_nodes, 2 * n_expanded**2)
    parts = (_stream(stage, source, objective, workers, group, n_expanded) for group in groups)
    if stage.share_weights:
        yield pool_nodes(_concatenate(list(parts))), []
    else:
        yield from ((part, []) for part in parts)


def _stream(
    stage: Stage,
    source: Source,
    objective: SlownessObjective,
    workers: Workers,
    group: slice,
    n_expanded: int,
) -> NodeMoments:
    positions = stage.positions[group]
    stream = NodeStream(len(positions), n_expanded, objective.lag if stage.method != "pca" else None)
    for chunk in source.chunks():
        valid = objective.valid_differences(stream.n_rows, chunk.shape[1])

        def task(nodes: slice, chunk: FloatArray = chunk, valid: NDArray[np.bool_] = valid) -> None:
            stream.update(nodes, expand_nodes(gather(chunk, positions[nodes]), stage, None, nodes), valid)

        workers.run(task, slices(len(positions), chunk.shape[1] * n_expanded))
        stream.advance(valid)
    return stream.finish()


def _by_columns(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers
) -> Iterator[StageMoments]:
    """Yield moments and fitted expansions of groups of nodes, with one pass over the rows for each group."""
    n_rows = source.count_rows()
    if stage.stateless:
        n_expanded = _n_expanded(stage)
    else:
        first = _columns(stage, source, slice(0, 1), n_rows)[:, 0]
        n_expanded = Expander.fit(stage.expansion, first).n_features_out
    n_running = workers.n_jobs * 3 * n_expanded  # expanded values per row that all threads hold at a time
    for group in _groups(stage.n_nodes, n_rows * stage.n_inputs, spare=n_rows * n_running):
        inputs = _columns(stage, source, group, n_rows)

        def task(nodes: slice, inputs: FloatArray = inputs) -> StageMoments:
            node_inputs = inputs[:, nodes]
            if stage.stateless:
                return _node_moments(_expanded(stage, node_inputs), objective, stage), []
            fitted = [
                _fit_expansion(stage, node_inputs[:, i], n_expanded) for i in range(node_inputs.shape[1])
            ]
            Z = np.stack([expander(node_inputs[:, i]) for i, expander in enumerate(fitted)], axis=1)
            return _node_moments(Z, objective, stage), fitted

        results = workers.run(task, slices(inputs.shape[1], n_rows * n_expanded))
        yield _concatenate([moments for moments, _ in results]), [e for _, fitted in results for e in fitted]


def _by_columns_shared(stage: Stage, source: Source, objective: SlownessObjective) -> StageMoments:
    """Return the moments of the shared node, and its expansion, fitted to the inputs of all nodes."""
    inputs = _columns(stage, source, slice(0, stage.n_nodes), source.count_rows())
    expander = Expander.fit(stage.expansion, inputs.reshape(-1, stage.n_inputs))
    parts = []
    for group in _groups(stage.n_nodes, len(inputs) * (stage.n_inputs + 3 * expander.n_features_out)):
        node_inputs = inputs[:, group]
        Z = expander(node_inputs.reshape(-1, stage.n_inputs)).reshape(*node_inputs.shape[:2], -1)
        parts.append(_node_moments(Z.copy() if expander.is_identity else Z, objective, stage))
    return pool_nodes(_concatenate(parts)), [] if stage.stateless else [expander]


def _fit_expansion(stage: Stage, inputs: FloatArray, n_expected: int) -> Expander:
    expander = Expander.fit(stage.expansion, inputs)
    if expander.n_features_out != n_expected:
        raise ValueError(
            f"{stage.name}.expansion returns {n_expected} columns in one node and {expander.n_features_out} "
            "in another. Use an expansion with a fixed number of columns; constant directions are "
            "discarded by the nodes."
        )
    return expander


def _n_expanded(stage: Stage) -> int:
    """Return the number of inputs of a node after an expansion that requires no fit."""
    return _expanded(stage, np.zeros((1, 1, stage.n_inputs), dtype=np.float64)).shape[2]


def _expanded(stage: Stage, inputs: FloatArray) -> FloatArray:
    return expand_nodes(inputs, stage, None, slice(0, 0))


def _columns(stage: Stage, source: Source, group: slice, n_rows: int) -> FloatArray:
    """Return the inputs (N, nodes, inputs) of a group of nodes."""
    positions = stage.positions[group]
    inputs = np.empty((n_rows, len(positions), stage.n_inputs), dtype=np.float64)
    start = 0
    for chunk in source.chunks():
        stop = start + chunk.shape[1]
        inputs[start:stop] = gather(chunk, positions).transpose(1, 0, 2)
        start = stop
    return inputs


def _node_moments(Z: FloatArray, objective: SlownessObjective, stage: Stage) -> NodeMoments:
    """Return the moments of expanded rows (N, nodes, E), which are overwritten."""
    if objective.graph is not None and stage.method != "pca":
        return node_graph_moments(Z, objective.graph)
    n_rows, n_nodes, n_expanded = Z.shape
    stream = NodeStream(n_nodes, n_expanded, objective.lag if stage.method != "pca" else None)
    valid = objective.valid_differences(0, n_rows)
    stream.update(slice(0, n_nodes), Z.transpose(1, 0, 2), valid)
    stream.advance(valid)
    return stream.finish()


def _groups(n_nodes: int, values_per_node: int, spare: int = 0) -> list[slice]:
    """Divide nodes into groups that fit into the memory limit, minus `spare` values for other arrays."""
    size = max(1, (_MAX_STORED_SIZE - spare) // max(values_per_node, 1))
    return [slice(start, min(start + size, n_nodes)) for start in range(0, n_nodes, size)]


def _concatenate(parts: list[NodeMoments]) -> NodeMoments:
    if len(parts) == 1:
        return parts[0]
    changes = [part.change for part in parts if part.change is not None]
    return NodeMoments(
        np.concatenate([part.origin for part in parts]),
        np.concatenate([part.offset for part in parts]),
        np.concatenate([part.covariance for part in parts]),
        np.concatenate(changes) if changes else None,
    )


# ---- training of one stage: moments of its nodes, eigenproblems, and ranks


def train_stage(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers, *, is_last: bool
) -> NodeBank:
    """Return the trained nodes of a stage.

    Parameters
    ----------
    is_last : bool
        Whether the stage is the last of the hierarchy. A rank below `n_components` is then an error; in other
        stages, outputs beyond the rank are zero.

    Raises
    ------
    RankError
        If the inputs of all nodes are constant, or those of a top node have a lower rank than its number of
        outputs.
    """
    means, solutions = [], []
    expanders: list[Expander] = []
    for moments, fitted in stage_moments(stage, source, objective, workers):
        means.append(moments.mean)
        solutions.append(_solve(stage, moments, objective, workers))
        expanders += fitted
    solution = NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))
    n_outputs = _n_outputs(stage, solution, is_last)
    bank = NodeBank(
        stage=stage,
        expanders=expanders or None,
        mean=np.concatenate(means),
        weights=np.ascontiguousarray(solution.weights[:, :, :n_outputs]),
        values=solution.values[:, :n_outputs],
        rank=solution.rank,
    )
    if isinstance(stage.clip, (int, float)):
        clip_limit = float(stage.clip) * (
            np.sqrt(bank.values) if stage.method == "pca" else np.ones_like(bank.values)
        )
        bank = bank.with_limits(-clip_limit, clip_limit)
    return bank


def _solve(
    stage: Stage, moments: NodeMoments, objective: SlownessObjective, workers: Workers
) -> NodeSolution:
    n_expanded = moments.mean.shape[1]
    K = n_expanded if stage.n_components is None else stage.n_components
    if K > n_expanded:
        raise RankError(
            f"{stage.name}.n_components is {K}, more than the {n_expanded} (expanded) inputs of a node."
        )
    A, B, floor = moments.change, moments.covariance, moments.variance_floor

    def task(nodes: slice) -> NodeSolution:
        if stage.method == "pca" or A is None:
            return solve_pca(B[nodes], K, variance_floor=floor[nodes])
        if stage.method == "igsfa":
            return solve_igsfa(
                A[nodes],
                B[nodes],
                K,
                stage.n_inputs,
                stage.delta_threshold,
                rank_tol=objective.rank_tol,
                variance_floor=floor[nodes],
            )
        return solve_sfa(A[nodes], B[nodes], K, rank_tol=objective.rank_tol, variance_floor=floor[nodes])

    solutions = workers.run(task, slices(len(B), 8 * n_expanded**2))
    return NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))


def _n_outputs(stage: Stage, solution: NodeSolution, is_last: bool) -> int:
    """Return the number of outputs of every node."""
    highest, lowest = int(solution.rank.max()), int(solution.rank.min())
    if highest == 0:
        raise RankError(
            f"Every input of every node of {stage.name} is constant: the rank is 0. Use inputs that vary."
        )
    if stage.n_components is None:
        return lowest if is_last and lowest > 0 else highest
    if is_last and lowest < stage.n_components:
        raise RankError(
            f"{stage.name}.n_components={stage.n_components} exceeds the rank of the data: the (expanded) "
            f"inputs of its node {int(solution.rank.argmin())} have the numerical rank {lowest}."
        )
    return stage.n_components


# ---- all stages: training from the bottom to the top, and evaluation of chunks


_CHUNK_SIZE = 2**22  # number of values, 32 MiB of float64, in the widest layer of a chunk
_CHUNK_ROWS = (64, 4096)


def train_stages(
    stages: Sequence[Stage], source: Source, objective: SlownessObjective, workers: Workers, *, keep: bool
) -> list[NodeBank]:
    """Return the trained nodes of all stages.

    Parameters
    ----------
    stages : sequence of Stage
        From the bottom to the top.
    source : Source
        The input.
    objective : SlownessObjective
        Definition of slowness.
    keep : bool
        Whether the outputs of each stage are stored in memory, or computed from the input in each pass.
    """
    banks: list[NodeBank] = []
    for stage in stages:
        is_last = stage is stages[-1]
        bank = train_stage(stage, source, objective, workers, is_last=is_last)
        if keep and not is_last:
            source, bank = _store(source, bank, workers)
        else:
            if stage.clip == "range":
                bank = _fit_limits(bank, (bank.apply(chunk, workers) for chunk in source.chunks()))
            source = _output_source(source, bank, workers)
        banks.append(bank)
    return banks


def outputs(source: Source, banks: Sequence[NodeBank], workers: Workers) -> Iterator[FloatArray]:
    """Yield the outputs (rows, n_nodes * K) of the last stage, chunk by chunk."""
    for chunk in source.chunks():
        signals = chunk
        for bank in banks:
            signals = bank.apply(signals, workers)
        yield signals.transpose(1, 0, 2).reshape(signals.shape[1], -1)


def default_chunk_rows(stages: Sequence[Stage], n_columns: int) -> int:
    """Return the number of rows in a chunk."""
    widest = max(n_columns, *(stage.n_nodes * stage.n_inputs for stage in stages))
    minimum, maximum = _CHUNK_ROWS
    return min(max(_CHUNK_SIZE // widest, minimum), maximum)


def _store(source: Source, bank: NodeBank, workers: Workers) -> tuple[Source, NodeBank]:
    """Return stored outputs of trained nodes; they replace stored chunks of the stage below one by one."""
    if isinstance(source, StoredSource):
        stored_chunks = source.stored_chunks
        for i in range(len(stored_chunks)):
            stored_chunks[i] = bank.apply(stored_chunks[i], workers)
    else:
        stored_chunks = [bank.apply(chunk, workers) for chunk in source.chunks()]
    if bank.stage.clip == "range":
        bank = _fit_limits(bank, stored_chunks)  # stored outputs are within their limits
    return StoredSource(stored_chunks), bank


def _output_source(source: Source, bank: NodeBank, workers: Workers) -> Source:
    return MappedSource(source, lambda chunk: bank.apply(chunk, workers))


def _fit_limits(bank: NodeBank, signals: Iterable[FloatArray]) -> NodeBank:
    """Return the nodes with limits at the smallest and largest value of each output."""
    low = np.full((bank.stage.n_nodes, bank.n_outputs), np.inf)
    high = -low
    for chunk in signals:
        np.minimum(low, chunk.min(axis=1), out=low)
        np.maximum(high, chunk.max(axis=1), out=high)
    return bank.with_limits(low, high)
