"""Moments of the nodes of a stage, for as many nodes at a time as memory allows.

There are two ways through the data. *By rows*: chunks of rows pass once and every node adds them to its
moments; for differences in time and expansions that need no data. *By columns*: the whole history of a few
nodes is gathered at a time; a training graph may join any two rows, and an expansion may learn from all.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probsfa.expansions._base import FloatArray
from probsfa.graphs import TrainingGraph
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.node_moments import NodeMoments, NodeStream, node_graph_moments, pool_nodes
from probsfa.sfa.hierarchical.nodes import expand_nodes, gather
from probsfa.sfa.hierarchical.signals import Source
from probsfa.sfa.hierarchical.workers import Workers, slices

__all__ = ["StageMoments", "SlownessObjective", "stage_moments"]

# 512 MiB of float64 for the moments, or the gathered columns, of nodes that are trained together
_BUDGET_CELLS = 2**26

# Of consecutive nodes, with their expansions if these learn.
StageMoments = tuple[NodeMoments, list[Expander]]


@dataclass(frozen=True, eq=False)
class SlownessObjective:
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

    graph: TrainingGraph | None
    lag: int
    lengths: tuple[int, ...] | None
    rank_tol: float | None

    def valid_differences(self, start: int, n_rows: int) -> NDArray[np.bool_]:
        """True for rows of a chunk whose partner `lag` rows earlier is in the same sequence."""
        index = np.arange(start, start + n_rows)
        begins = np.concatenate([[0], np.cumsum(self.lengths)[:-1]]) if self.lengths else np.zeros(1, int)
        return index - begins[np.searchsorted(begins, index, side="right") - 1] >= self.lag


def stage_moments(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers
) -> Iterator[StageMoments]:
    """Yield the moments of the nodes of a stage, in order; of a single one where they share their weights."""
    if stage.stateless and (objective.graph is None or stage.method == "pca"):
        yield from _by_rows(stage, source, objective, workers)
    elif stage.share_weights:
        yield _by_columns_shared(stage, source, objective)
    else:
        yield from _by_columns(stage, source, objective, workers)


def _by_rows(
    stage: Stage, source: Source, objective: SlownessObjective, workers: Workers
) -> Iterator[StageMoments]:
    """Yield the moments of groups of nodes from passes over the rows, or of the one shared node."""
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
    """Yield the moments and fitted expansions of groups of nodes, a pass over the rows for each group."""
    n_rows = source.count_rows()
    if stage.stateless:
        n_expanded = _n_expanded(stage)
    else:
        first = _columns(stage, source, slice(0, 1), n_rows)[:, 0]
        n_expanded = Expander.fit(stage.expansion, first).n_features_out
    n_running = workers.n_jobs * 3 * n_expanded  # beside the inputs of all, what the nodes at work expand to
    for group in _groups(stage.n_nodes, n_rows * stage.n_inputs, spare=n_rows * n_running):
        inputs = _columns(stage, source, group, n_rows)

        def task(nodes: slice, inputs: FloatArray = inputs) -> StageMoments:
            some = inputs[:, nodes]
            if stage.stateless:
                return _moments_of(_expanded(stage, some), objective, stage), []
            fitted = [_fit_expansion(stage, some[:, i], n_expanded) for i in range(some.shape[1])]
            Z = np.stack([expander(some[:, i]) for i, expander in enumerate(fitted)], axis=1)
            return _moments_of(Z, objective, stage), fitted

        done = workers.run(task, slices(inputs.shape[1], n_rows * n_expanded))
        yield _concatenate([moments for moments, _ in done]), [e for _, fitted in done for e in fitted]


def _by_columns_shared(stage: Stage, source: Source, objective: SlownessObjective) -> StageMoments:
    """Return the moments of the one node that sees what all see, and its expansion, fitted to all of it."""
    inputs = _columns(stage, source, slice(0, stage.n_nodes), source.count_rows())
    expander = Expander.fit(stage.expansion, inputs.reshape(-1, stage.n_inputs))
    parts = []
    for group in _groups(stage.n_nodes, len(inputs) * (stage.n_inputs + 3 * expander.n_features_out)):
        some = inputs[:, group]
        Z = expander(some.reshape(-1, stage.n_inputs)).reshape(*some.shape[:2], -1)
        parts.append(_moments_of(Z.copy() if expander.is_identity else Z, objective, stage))
    return pool_nodes(_concatenate(parts)), [] if stage.stateless else [expander]


def _fit_expansion(stage: Stage, inputs: FloatArray, n_expected: int) -> Expander:
    expander = Expander.fit(stage.expansion, inputs)
    if expander.n_features_out != n_expected:
        raise ValueError(
            f"{stage.name}.expansion makes {n_expected} columns in one node and {expander.n_features_out} in "
            "another. Give one that always makes as many; the rank rule of the nodes leaves out directions "
            "in which they do not vary."
        )
    return expander


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


def _moments_of(Z: FloatArray, objective: SlownessObjective, stage: Stage) -> NodeMoments:
    """Return the moments of expanded rows (N, nodes, E), which are overwritten."""
    if objective.graph is not None and stage.method != "pca":
        return node_graph_moments(Z, objective.graph)
    n_rows, n_nodes, n_expanded = Z.shape
    stream = NodeStream(n_nodes, n_expanded, objective.lag if stage.method != "pca" else None)
    valid = objective.valid_differences(0, n_rows)
    stream.update(slice(0, n_nodes), Z.transpose(1, 0, 2), valid)
    stream.advance(valid)
    return stream.finish()


def _groups(n_nodes: int, cells_per_node: int, spare: int = 0) -> list[slice]:
    size = max(1, (_BUDGET_CELLS - spare) // max(cells_per_node, 1))
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
