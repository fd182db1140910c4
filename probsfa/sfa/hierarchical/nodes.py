"""Trained nodes: gather what each sees, expand it, apply its linear map, clip."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa.expansions._base import FloatArray
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.layers import Stage
from probsfa.sfa.hierarchical.workers import Workers, slices

__all__ = ["NodeBank", "expand_nodes", "gather"]


@dataclass(frozen=True, eq=False)
class NodeBank:
    """All nodes of one stage.

    Attributes
    ----------
    stage : Stage
        What they were trained for.
    expanders : list of Expander or None
        One for each set of weights, where the expansion learns from data.
    mean : ndarray (M, E)
        Of the expanded inputs; M is the number of nodes, or 1 where they share their weights.
    weights : ndarray (M, E, K)
        Linear maps; zero beyond the rank of a node.
    values : ndarray (M, K)
        Delta values, or variances for principal components; NaN or 0 beyond the rank.
    rank : ndarray (M,) of int
        Numerical rank of the expanded inputs.
    low, high : ndarray (M', K) or None
        Limits of the outputs; M' is the number of nodes or 1.
    """

    stage: Stage
    expanders: list[Expander] | None
    mean: FloatArray
    weights: FloatArray
    values: FloatArray
    rank: NDArray[np.intp]
    low: FloatArray | None = None
    high: FloatArray | None = None

    @property
    def n_outputs(self) -> int:
        """Outputs of every node, K."""
        return int(self.weights.shape[2])

    @property
    def n_expanded(self) -> int:
        """Inputs of every node after the expansion, E."""
        return int(self.weights.shape[1])

    def apply(self, chunk: FloatArray, workers: Workers) -> FloatArray:
        """Return the outputs (n_nodes, rows, K) for a chunk (positions, rows, channels)."""
        stage, rows = self.stage, chunk.shape[1]
        out = np.empty((stage.n_nodes, rows, self.n_outputs), dtype=np.float64)

        def task(nodes: slice) -> None:
            Z = expand_nodes(gather(chunk, stage.positions[nodes]), stage, self.expanders, nodes)
            own = slice(0, 1) if stage.share_weights else nodes
            Z -= self.mean[own, None]
            np.matmul(Z, self.weights[own], out=out[nodes])
            if self.low is not None and self.high is not None:
                limits = own if len(self.low) == len(self.mean) else nodes
                np.clip(out[nodes], self.low[limits, None], self.high[limits, None], out=out[nodes])

        workers.run(task, slices(stage.n_nodes, rows * self.n_expanded))
        return out

    def clipped_at(self, low: FloatArray, high: FloatArray) -> "NodeBank":
        """Return the same nodes with limits of their outputs."""
        return replace(self, low=low, high=high)


def gather(chunk: FloatArray, positions: NDArray[np.intp]) -> FloatArray:
    """Return the inputs of some nodes: (positions, rows, channels) to a new array (nodes, rows, inputs).

    The inputs of a node are ordered by position, then by channel.
    """
    n_channels = chunk.shape[2]
    n_nodes, n_positions = positions.shape
    if n_positions == 1:
        return chunk[positions[:, 0]]
    if n_channels == 1:  # pixels: rows are contiguous in the input, so take along them
        return np.take(chunk[:, :, 0].T, positions, axis=1).transpose(1, 0, 2)
    out = np.empty((n_nodes, chunk.shape[1], n_positions * n_channels), dtype=np.float64)
    for i in range(n_positions):
        out[:, :, i * n_channels : (i + 1) * n_channels] = chunk[positions[:, i]]
    return out


def expand_nodes(
    inputs: FloatArray, stage: Stage, expanders: list[Expander] | None, nodes: slice
) -> FloatArray:
    """Return the expanded inputs (nodes, rows, E) of a group of nodes; may be `inputs` itself."""
    if stage.expansion is None:
        return inputs
    if expanders is None:
        return _check_expanded(stage.expansion.expand(inputs), stage)
    own = expanders * len(inputs) if stage.share_weights else expanders[nodes]
    return np.stack([expander(x) for expander, x in zip(own, inputs, strict=True)])


def _check_expanded(expanded: Any, stage: Stage) -> FloatArray:
    values: FloatArray = expanded
    if not np.isfinite(np.sum(values)):  # one fast pass: a finite sum has finite terms
        raise ValueError(
            f"{stage.name}.expansion gave values that are not finite: {type(stage.expansion).__name__} "
            "overflows on these data. Scale the inputs first, or clip the outputs of the layer below."
        )
    return values
