"""Second moments of many nodes at once, over a leading node axis.

The definitions are those of :mod:`probsfa.graphs.moments` and of graph-based SFA. Rows arrive in blocks;
every block is centred by itself and joined by the update of Chan, Golub & LeVeque (1983), relative to the
first row of each node, so that offsets do not cancel digits.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa.expansions._base import FloatArray
from probsfa.graphs.moments import rounding_variance

__all__ = ["NodeMoments", "NodeStream", "node_graph_moments", "pool_nodes"]


class NodeMoments(NamedTuple):
    """Means and second moments of M nodes.

    Attributes
    ----------
    origin : ndarray (M, E)
        A row of each node.
    offset : ndarray (M, E)
        Mean of the rows minus `origin`, so that differences of means keep their digits at large offsets.
    covariance : ndarray (M, E, E)
        ``B``.
    change : ndarray (M, E, E) or None
        ``A``, the uncentred second moment of differences, where it was asked for.
    """

    origin: FloatArray
    offset: FloatArray
    covariance: FloatArray
    change: FloatArray | None

    @property
    def mean(self) -> FloatArray:
        """Mean of the rows, shape (M, E)."""
        return self.origin + self.offset

    @property
    def variance_floor(self) -> FloatArray:
        """Variance that rounding alone can give a constant column at this mean, shape (M, E)."""
        return rounding_variance(self.mean)


class NodeStream:
    """Running moments of M nodes with E features over consecutive blocks of rows.

    Nodes are updated in groups, which may run in parallel because no two touch the same memory; then
    :meth:`advance` counts the rows of the block for all of them.

    Parameters
    ----------
    n_nodes, n_features : int
        M and E.
    lag : int or None
        Rows from one member of a difference to the other; no differences when None.
    """

    def __init__(self, n_nodes: int, n_features: int, lag: int | None) -> None:
        self.lag = lag
        self.n_rows = 0
        self.n_differences = 0
        self.origin = np.zeros((n_nodes, n_features), dtype=np.float64)
        self.offset = np.zeros((n_nodes, n_features), dtype=np.float64)
        self.scatter = np.zeros((n_nodes, n_features, n_features), dtype=np.float64)
        if lag is not None:
            self.change = np.zeros((n_nodes, n_features, n_features), dtype=np.float64)
            self.tail = np.zeros((n_nodes, lag, n_features), dtype=np.float64)

    def update(self, nodes: slice, Z: FloatArray, valid: NDArray[np.bool_]) -> None:
        """Add a block of rows of some nodes.

        Parameters
        ----------
        nodes : slice
            Which nodes.
        Z : ndarray (G, rows, E)
            Their rows; overwritten.
        valid : ndarray (rows,)
            True where the row `lag` earlier is in the same sequence.
        """
        if self.n_rows == 0:
            self.origin[nodes] = Z[:, 0]
        Z -= self.origin[nodes, None]
        if self.lag is not None:
            self._add_differences(nodes, Z, valid, self.lag)
        rows = Z.shape[1]
        center = Z.mean(axis=1)
        Z -= center[:, None]
        total = self.n_rows + rows
        gap = center - self.offset[nodes]
        self.scatter[nodes] += Z.mT @ Z
        self.scatter[nodes] += gap[:, :, None] * gap[:, None, :] * (self.n_rows * (rows / total))
        self.offset[nodes] += gap * (rows / total)

    def advance(self, valid: NDArray[np.bool_]) -> None:
        """Count the rows of a block that all nodes have been updated with."""
        self.n_rows += len(valid)
        self.n_differences += int(valid.sum())

    def finish(self) -> NodeMoments:
        """Return the moments of all rows.

        Raises
        ------
        ValueError
            If differences were asked for and no two rows are far enough apart in one sequence.
        """
        change = None
        if self.lag is not None:
            if self.n_differences == 0:
                raise ValueError(
                    f"X has no two rows {self.lag} apart (lag={self.lag}) in one sequence, so nothing is "
                    "known about change. Give longer sequences or a smaller lag."
                )
            change = self.change / self.n_differences
        return NodeMoments(self.origin, self.offset, self.scatter / self.n_rows, change)

    def _add_differences(self, nodes: slice, Z: FloatArray, valid: NDArray[np.bool_], lag: int) -> None:
        tail, rows = self.tail[nodes], Z.shape[1]
        head = min(lag, rows)  # rows whose partner came in an earlier block, kept in the tail
        for later, earlier, ok in (
            (Z[:, :head], tail[:, :head], valid[:head]),
            (Z[:, lag:], Z[:, : max(rows - lag, 0)], valid[lag:]),
        ):
            if not ok.any():
                continue
            D = later - earlier
            if not ok.all():
                D *= ok[:, None]
            self.change[nodes] += D.mT @ D
        if rows < lag:
            tail[:, : lag - rows] = tail[:, rows:].copy()
        tail[:, lag - head :] = Z[:, rows - head :]


def node_graph_moments(Z: FloatArray, graph: Any) -> NodeMoments:
    """Return the moments of M nodes on a training graph (Escalante-B. & Wiskott 2013, eqs. 12-14).

    Parameters
    ----------
    Z : ndarray (N, M, E)
        Rows of all nodes; overwritten.
    graph : TrainingGraph
        With N vertices; its Laplacian is applied to the columns of all nodes in one call.

    Returns
    -------
    NodeMoments
        ``B = (1/Q) Z' V Z`` of the centred rows and ``A = (2/R) Z' L Z``.
    """
    n_rows = len(Z)
    if n_rows != graph.n_vertices:
        raise ValueError(f"graph has {graph.n_vertices} vertices and X {n_rows} rows; wanted one for each.")
    v = np.asarray(graph.node_weights, dtype=np.float64)
    origin = Z[0].copy()
    Z -= origin
    offset = np.tensordot(v, Z, axes=1) / graph.Q
    Z -= offset
    L = np.asarray(graph.laplacian_matmul(Z.reshape(n_rows, -1))).reshape(Z.shape)
    change = (2.0 / graph.R) * (Z.transpose(1, 2, 0) @ L.transpose(1, 0, 2))
    np.multiply(Z, v[:, None, None], out=L)
    covariance = Z.transpose(1, 2, 0) @ L.transpose(1, 0, 2) / graph.Q
    return NodeMoments(origin, offset, covariance, (change + change.mT) / 2)


def pool_nodes(moments: NodeMoments) -> NodeMoments:
    """Return the moments of one node that sees the rows of all: the nodes are sequences of equal weight."""
    origin = moments.origin[:1]
    offsets = (moments.origin - origin) + moments.offset
    center = offsets.mean(axis=0, keepdims=True)
    gaps = offsets - center
    covariance = moments.covariance.mean(axis=0) + gaps.T @ gaps / len(gaps)
    change = None if moments.change is None else moments.change.mean(axis=0)[None]
    return NodeMoments(origin, center, covariance[None], change)
