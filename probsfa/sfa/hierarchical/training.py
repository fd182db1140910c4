"""Training of one stage: gather, expand, sum moments, solve, for as many nodes at a time as memory allows.

There are two ways through the data. *By rows*: chunks of rows pass once and every node adds them to its
moments; for differences in time and expansions that need no data. *By columns*: the whole history of a few
nodes is gathered at a time; a training graph may join any two rows, and an expansion may learn from all.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa.expansions._base import FloatArray
from probsfa.linalg import RankError
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.eigen import NodeSolution, solve_pca, solve_sfa
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.node_moments import NodeMoments, NodeStream, graph_moments, pool_nodes
from probsfa.sfa.hierarchical.nodes import NodeBank, expand_nodes, gather
from probsfa.sfa.hierarchical.signals import Source
from probsfa.sfa.hierarchical.workers import Workers, slices

__all__ = ["Teacher", "train_stage"]

_BUDGET_CELLS = (
    2**26
)  # 512 MiB of float64 for the moments, or the gathered columns, of nodes trained together


@dataclass(frozen=True, eq=False)
class Teacher:
    """What slowness means in this training.

    Attributes
    ----------
    graph : TrainingGraph or None
        Joins rows; without one, rows `lag` apart in one sequence are joined.
    lag : int
        Rows from one member of a difference to the other.
    lengths : tuple of int or None
        Rows of every sequence; a single one when None.
    rank_tol : float or None
        Of every eigenproblem.
    """

    graph: Any
    lag: int
    lengths: tuple[int, ...] | None
    rank_tol: float | None

    def valid_differences(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """True for rows of a chunk whose partner `lag` rows earlier is in the same sequence."""
        index = np.arange(start, start + n_rows)
        begins = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]) if self.lengths else np.zeros(1, int)
        return index - begins[np.searchsorted(begins, index, side="right") - 1] >= self.lag


def train_stage(stage: Stage, source: Source, teacher: Teacher, workers: Workers, *, top: bool) -> NodeBank:
    """Return the trained nodes of a stage.

    Parameters
    ----------
    top : bool
        Whether its outputs are the outputs of the hierarchy. Then a rank below `n_components` is an error;
        elsewhere such a node has dead outputs, which stay zero.

    Raises
    ------
    RankError
        If no node of the stage varies, or a top node varies in fewer directions than it has outputs.
    """
    if stage.stateless and (teacher.graph is None or stage.method == "pca"):
        parts: Iterable[tuple[NodeMoments, list[Expander] | None]] = _by_rows(stage, source, teacher, workers)
    elif stage.share_weights:
        parts = _by_columns_shared(stage, source, teacher)
    else:
        parts = _by_columns(stage, source, teacher, workers)
    means, solutions, expanders = [], [], []
    for moments, fitted in parts:
        means.append(moments.mean)
        solutions.append(_solve(stage, moments, teacher, workers))
        expanders += fitted or []
    found = NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))
    n_outputs = _check_rank(stage, found, top)
    bank = NodeBank(
        stage=stage,
        expanders=expanders or None,
        mean=np.concatenate(means),
        weights=np.ascontiguousarray(found.weights[:, :, :n_outputs]),
        values=found.values[:, :n_outputs],
        rank=found.rank,
    )
    if isinstance(stage.clip, (int, float)):
        reach = float(stage.clip) * (
            np.sqrt(bank.values) if stage.method == "pca" else np.ones_like(bank.values)
        )
        bank = bank.clipped_at(-reach, reach)
    return bank


def _by_rows(
    stage: Stage, source: Source, teacher: Teacher, workers: Workers
) -> Iterator[tuple[NodeMoments, None]]:
    """Yield the moments of groups of nodes from passes over the rows, or of the one shared node."""
    n_expanded = _n_expanded(stage)
    groups = _groups(stage.n_nodes, 2 * n_expanded**2)
    parts = (_stream(stage, source, teacher, workers, group, n_expanded) for group in groups)
    if stage.share_weights:
        yield pool_nodes(_concatenate(list(parts))), None
    else:
        yield from ((part, None) for part in parts)


def _stream(
    stage: Stage, source: Source, teacher: Teacher, workers: Workers, group: slice, n_expanded: int
) -> NodeMoments:
    positions = stage.positions[group]
    stream = NodeStream(len(positions), n_expanded, teacher.lag if stage.method == "sfa" else None)
    for chunk in source.chunks():
        valid = teacher.valid_differences(stream.n_rows, chunk.shape[1])

        def task(nodes: slice, chunk: FloatArray = chunk, valid: NDArray[np.bool_] = valid) -> None:
            stream.update(nodes, expand_nodes(gather(chunk, positions[nodes]), stage, None, nodes), valid)

        workers.run(task, slices(len(positions), chunk.shape[1] * n_expanded))
        stream.advance(valid)
    return stream.finish()


def _by_columns(
    stage: Stage, source: Source, teacher: Teacher, workers: Workers
) -> Iterator[tuple[NodeMoments, list[Expander] | None]]:
    """Yield the moments and fitted expansions of groups of nodes, a pass over the rows for each group."""
    n_rows = sum(chunk.shape[1] for chunk in source.chunks())
    if stage.stateless:
        n_expanded = _n_expanded(stage)
    else:
        n_expanded = Expander.fit(
            stage.expansion, _columns(stage, source, slice(0, 1), n_rows)[:, 0]
        ).n_features_out
    n_running = workers.n_jobs * 3 * n_expanded  # beside the inputs of all, what the nodes at work expand to
    for group in _groups(stage.n_nodes, n_rows * stage.n_inputs, spare=n_rows * n_running):
        inputs = _columns(stage, source, group, n_rows)

        def task(nodes: slice, inputs: FloatArray = inputs) -> tuple[NodeMoments, list[Expander]]:
            some = inputs[:, nodes]
            if stage.stateless:
                return _moments_of(_expanded(stage, some), teacher, stage), []
            fitted = [Expander.fit(stage.expansion, some[:, i]) for i in range(some.shape[1])]
            Z = np.stack([expander(some[:, i]) for i, expander in enumerate(fitted)], axis=1)
            return _moments_of(Z, teacher, stage), fitted

        done = workers.run(task, slices(inputs.shape[1], n_rows * n_expanded))
        yield (
            _concatenate([moments for moments, _ in done]),
            [e for _, fitted in done for e in fitted] or None,
        )


def _by_columns_shared(
    stage: Stage, source: Source, teacher: Teacher
) -> Iterator[tuple[NodeMoments, list[Expander] | None]]:
    """Yield the moments of the one node that sees what all see, and its expansion, fitted to all of it."""
    n_rows = sum(chunk.shape[1] for chunk in source.chunks())
    inputs = _columns(stage, source, slice(0, stage.n_nodes), n_rows)
    expander = Expander.fit(stage.expansion, inputs.reshape(-1, stage.n_inputs))
    width = stage.n_inputs + 3 * expander.n_features_out
    parts = []
    for group in _groups(stage.n_nodes, n_rows * width):
        some = inputs[:, group]
        Z = expander(some.reshape(-1, stage.n_inputs)).reshape(*some.shape[:2], -1)
        parts.append(_moments_of(Z.copy() if expander.is_identity else Z, teacher, stage))
    yield pool_nodes(_concatenate(parts)), None if stage.stateless else [expander]


def _n_expanded(stage: Stage) -> int:
    """Return the number of inputs of a node after an expansion that needs no data."""
    return _expanded(stage, np.zeros((1, 1, stage.n_inputs), dtype=np.float64)).shape[2]


def _expanded(stage: Stage, inputs: FloatArray) -> FloatArray:
    return expand_nodes(inputs, stage, None, slice(0, 0))


def _columns(stage: Stage, source: Source, group: slice, n_rows: int) -> FloatArray:
    """Return the inputs (N, nodes, inputs) of a group of nodes."""
    positions = stage.positions[group]
    out = np.empty((n_rows, len(positions), stage.n_inputs), dtype=np.float64)
    start = 0
    for chunk in source.chunks():
        stop = start + chunk.shape[1]
        out[start:stop] = gather(chunk, positions).transpose(1, 0, 2)
        start = stop
    return out


def _moments_of(Z: FloatArray, teacher: Teacher, stage: Stage) -> NodeMoments:
    """Return the moments of expanded rows (N, nodes, E), which are overwritten."""
    if teacher.graph is not None and stage.method == "sfa":
        return graph_moments(Z, teacher.graph)
    n_rows, n_nodes, n_expanded = Z.shape
    stream = NodeStream(n_nodes, n_expanded, teacher.lag if stage.method == "sfa" else None)
    valid = teacher.valid_differences(0, n_rows)
    stream.update(slice(0, n_nodes), Z.transpose(1, 0, 2), valid)
    stream.advance(valid)
    return stream.finish()


def _solve(stage: Stage, moments: NodeMoments, teacher: Teacher, workers: Workers) -> NodeSolution:
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
        return solve_sfa(A[nodes], B[nodes], K, rank_tol=teacher.rank_tol, variance_floor=floor[nodes])

    solutions = workers.run(task, slices(len(B), 8 * n_expanded**2))
    return NodeSolution(*(np.concatenate(arrays) for arrays in zip(*solutions, strict=True)))


def _check_rank(stage: Stage, found: NodeSolution, top: bool) -> int:
    """Return how many outputs every node has."""
    highest, lowest = int(found.rank.max()), int(found.rank.min())
    if highest == 0:
        raise RankError(
            f"Every input of every node of {stage.name} is constant, so there is nothing slow to find: the "
            "rank is 0."
        )
    if stage.n_components is None:
        return lowest if top and lowest > 0 else highest
    if top and lowest < stage.n_components:
        raise RankError(
            f"{stage.name}.n_components={stage.n_components} is more than the data hold: the (expanded) "
            f"inputs of its node {int(found.rank.argmin())} have the numerical rank {lowest}."
        )
    return stage.n_components


def _groups(n_nodes: int, cells_per_node: int, spare: int = 0) -> list[slice]:
    size = max(1, (_BUDGET_CELLS - spare) // max(cells_per_node, 1))
    return [slice(start, min(start + size, n_nodes)) for start in range(0, n_nodes, size)]


def _concatenate(parts: list[NodeMoments]) -> NodeMoments:
    if len(parts) == 1:
        return parts[0]
    changes = [part.change for part in parts if part.change is not None]
    return NodeMoments(
        np.concatenate([part.mean for part in parts]),
        np.concatenate([part.covariance for part in parts]),
        np.concatenate(changes) if changes else None,
    )
