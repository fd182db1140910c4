"""Nodes of a layer: moments, eigenproblems, fitted maps."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray

from probsfa._threads import one_blas_thread
from probsfa.expansions._base import FloatArray
from probsfa.graphs.moments import rounding_variance
from probsfa.linalg import canonical_directions, canonical_signs, default_rank_tol
from probsfa.sfa._expand import Expander
from probsfa.sfa.hierarchical.layers import Stage

__all__ = [
    "NodeBank",
    "NodeMoments",
    "NodeSolution",
    "NodeStream",
    "Workers",
    "expand_nodes",
    "gather",
    "node_graph_moments",
    "pool_nodes",
    "slices",
    "solve_igsfa",
    "solve_pca",
    "solve_sfa",
    "start_workers",
]

# ---- many small independent computations in parallel


_TASK_SIZE = 2**18  # 2 MiB of float64 in one task, so that its blocks fit the cache of a core


class Workers:
    """Runner of tasks: sequential, or in threads with one BLAS thread each.

    Parameters
    ----------
    executor : ThreadPoolExecutor or None
        Threads for the tasks; None for the calling thread.
    n_jobs : int
        Number of threads.
    """

    def __init__(self, executor: ThreadPoolExecutor | None, n_jobs: int) -> None:
        self.executor = executor
        self.n_jobs = n_jobs

    def run(self, task: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        """Return the results of a task for every item, in order.

        If there are fewer items than threads, they run sequentially, each with all BLAS threads.
        """
        items = list(items)
        if self.executor is None or len(items) < self.n_jobs:
            return [task(item) for item in items]

        def on_one_blas_thread(item: Any) -> Any:
            with one_blas_thread():  # set in each thread, because some libraries have a limit per thread
                return task(item)

        with one_blas_thread():
            return list(self.executor.map(on_one_blas_thread, items))


@contextmanager
def start_workers(n_jobs: int | None) -> Iterator[Workers]:
    """Yield workers; `n_jobs` is as in scikit-learn: None is 1, -1 is all cores."""
    n = effective_n_jobs(n_jobs)
    if n == 1:
        yield Workers(None, 1)
        return
    with ThreadPoolExecutor(n) as executor:
        yield Workers(executor, n)


def slices(n_nodes: int, values_per_node: int) -> list[slice]:
    """Divide nodes into groups of at least one node whose values fit the cache."""
    size = max(1, _TASK_SIZE // max(values_per_node, 1))
    return [slice(start, min(start + size, n_nodes)) for start in range(0, n_nodes, size)]


# ---- second moments of many nodes at once, over a leading node axis
#
# The definitions are those of :mod:`probsfa.graphs.moments`. Rows arrive in blocks. Every block is centred
# and added by the update of Chan, Golub & LeVeque (1983). All rows are relative to the first row of the node,
# because large offsets would cause cancellation.


class NodeMoments(NamedTuple):
    """Means and second moments of M nodes.

    Attributes
    ----------
    origin : ndarray (M, E)
        A row of each node.
    offset : ndarray (M, E)
        Mean of the rows minus `origin`, in full precision at large offsets.
    covariance : ndarray (M, E, E)
        ``B``.
    change : ndarray (M, E, E) or None
        ``A``, the uncentred second moment of differences; None without a lag.
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
        """Largest variance that rounding errors give to a constant column with this mean, shape (M, E)."""
        return rounding_variance(self.mean)


class NodeStream:
    """Running moments of M nodes with E columns over consecutive blocks of rows.

    :meth:`update` adds a block to a group of nodes; groups use separate memory and may be updated in
    parallel. After all groups, :meth:`advance` counts the rows of the block.

    Parameters
    ----------
    n_nodes, n_features : int
        M and E.
    lag : int or None
        Lag of the differences, in rows; no differences when None.
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
            Nodes of the rows `Z`.
        Z : ndarray (G, rows, E)
            Rows of these nodes; overwritten.
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
        n_rows = self.n_rows + rows
        mean_change = center - self.offset[nodes]
        self.scatter[nodes] += Z.mT @ Z
        self.scatter[nodes] += (
            mean_change[:, :, None] * mean_change[:, None, :] * (self.n_rows * (rows / n_rows))
        )
        self.offset[nodes] += mean_change * (rows / n_rows)

    def advance(self, valid: NDArray[np.bool_]) -> None:
        """Count the rows of a block, after the update of all nodes."""
        self.n_rows += len(valid)
        self.n_differences += int(valid.sum())

    def finish(self) -> NodeMoments:
        """Return the moments of all rows.

        Raises
        ------
        ValueError
            If a lag is set and every sequence is too short for a difference.
        """
        change = None
        if self.lag is not None:
            if self.n_differences == 0:
                raise ValueError(
                    f"X has no two rows {self.lag} apart (lag={self.lag}) in one sequence, so that no "
                    "differences can be computed. Use longer sequences or a smaller lag."
                )
            change = self.change / self.n_differences
        return NodeMoments(self.origin, self.offset, self.scatter / self.n_rows, change)

    def _add_differences(self, nodes: slice, Z: FloatArray, valid: NDArray[np.bool_], lag: int) -> None:
        tail, rows = self.tail[nodes], Z.shape[1]
        head = min(lag, rows)  # number of first rows whose earlier row is in the tail
        for later, earlier, is_valid in (
            (Z[:, :head], tail[:, :head], valid[:head]),
            (Z[:, lag:], Z[:, : max(rows - lag, 0)], valid[lag:]),
        ):
            if not is_valid.any():
                continue
            D = later - earlier
            if not is_valid.all():
                D *= is_valid[:, None]
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
        Graph of N vertices; its Laplacian is applied to the columns of all nodes in one call.

    Returns
    -------
    NodeMoments
        ``B = (1/Q) Z' V Z`` of the centred rows and ``A = (2/R) Z' L Z``.
    """
    n_rows = len(Z)
    if n_rows != graph.n_vertices:
        raise ValueError(
            f"graph has {graph.n_vertices} vertices and X has {n_rows} rows; expected one "
            "vertex for each row."
        )
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
    """Return the moments of one node with the rows of all nodes; all nodes have equal weight."""
    origin = moments.origin[:1]
    offsets = (moments.origin - origin) + moments.offset
    center = offsets.mean(axis=0, keepdims=True)
    gaps = offsets - center
    covariance = moments.covariance.mean(axis=0) + gaps.T @ gaps / len(gaps)
    change = None if moments.change is None else moments.change.mean(axis=0)[None]
    return NodeMoments(origin, center, covariance[None], change)


# ---- the eigenproblems of many nodes at once: the methods of :mod:`probsfa.linalg` with a leading node axis
#
# Nodes may differ in rank. Each node is padded with zero weights to the same number of outputs; the next
# layer discards these constant outputs.


class NodeSolution(NamedTuple):
    """Directions of M nodes.

    Attributes
    ----------
    values : ndarray (M, K)
        Delta values in increasing order, NaN beyond the rank; or variances in decreasing order, 0 beyond the
        rank.
    weights : ndarray (M, E, K)
        Zero beyond the rank.
    rank : ndarray (M,) of int
        Numerical rank of each node's covariance.
    """

    values: FloatArray
    weights: FloatArray
    rank: np.ndarray


def solve_sfa(
    A: FloatArray, B: FloatArray, n_components: int, *, rank_tol: float | None, variance_floor: FloatArray
) -> NodeSolution:
    """Solve ``A w = delta B w`` on the range of B, for every node.

    Parameters
    ----------
    A, B : ndarray (M, E, E)
        Second moments of differences, and covariances.
    n_components : int
        Outputs K of every node, at most E.
    rank_tol : float or None
        As in :func:`probsfa.linalg.slow_directions`.
    variance_floor : ndarray (M, E)
        Columns whose variance does not exceed this value are treated as constant.

    Returns
    -------
    NodeSolution
        For each node the result of :func:`probsfa.linalg.slow_directions`, padded to K columns.
    """
    n_features = B.shape[-1]
    tol = default_rank_tol(n_features) if rank_tol is None else rank_tol
    scales = _scales(B, variance_floor)
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    R = _symmetric(B * inverse[:, :, None] * inverse[:, None, :])
    eigenvalues, vectors = np.linalg.eigh(R)
    retained = eigenvalues > tol * eigenvalues[:, -1:]
    root = np.sqrt(eigenvalues, out=np.ones_like(eigenvalues), where=retained)
    W = inverse[:, :, None] * vectors * (retained / root)[:, None, :]
    inner = _symmetric(W.mT @ A @ W)
    # Rows of discarded directions in `inner` are zero; a diagonal above all eigenvalues makes them last.
    upper_bound = 2 * np.trace(inner, axis1=1, axis2=2) + 1
    diagonal = np.arange(n_features)
    inner[:, diagonal, diagonal] += np.where(retained, 0.0, upper_bound[:, None])
    deltas, rotation = np.linalg.eigh(inner)
    rank = retained.sum(axis=1)
    within_rank = np.arange(n_components) < rank[:, None]
    values = np.full(within_rank.shape, np.nan, dtype=np.float64)
    weights = np.zeros((*W.shape[:2], n_components), dtype=np.float64)
    for m, (r, K) in enumerate(zip(rank.tolist(), within_rank.sum(axis=1).tolist(), strict=True)):
        if K:
            directions = W[m] @ rotation[m, :, :r]
            node = canonical_directions(A[m], B[m], deltas[m, :r], directions, scales[m], K)
            values[m, :K], weights[m, :, :K] = node.delta_values, node.weights
    return NodeSolution(values, weights, rank)


def solve_pca(B: FloatArray, n_components: int, *, variance_floor: FloatArray) -> NodeSolution:
    """Return the leading orthonormal eigenvectors of the covariance of every node, largest variance first."""
    n_features = B.shape[-1]
    scales = _scales(B, variance_floor)
    varying = scales > 0
    B = np.where(varying[:, :, None] & varying[:, None, :], B, 0.0)
    eigenvalues, vectors = np.linalg.eigh(_symmetric(B))
    eigenvalues, vectors = eigenvalues[:, ::-1], vectors[:, :, ::-1]
    rank = (eigenvalues > default_rank_tol(n_features) * eigenvalues[:, :1]).sum(axis=1)
    within_rank = np.arange(n_components) < rank[:, None]
    weights = np.where(within_rank[:, None, :], vectors[:, :, :n_components], 0.0)
    values = np.where(within_rank, eigenvalues[:, :n_components], 0.0)
    return NodeSolution(values, weights * _signs(B @ weights, scales)[:, None, :], rank)


def solve_igsfa(
    A: FloatArray,
    B: FloatArray,
    n_components: int,
    n_inputs: int,
    delta_threshold: float,
    *,
    rank_tol: float | None,
    variance_floor: FloatArray,
) -> NodeSolution:
    """Return slow directions below a threshold, and principal components of the residual of the inputs.

    Parameters
    ----------
    A, B : ndarray (M, E, E)
        Second moments of differences, and covariances, of expanded inputs whose first columns are the inputs.
    n_components : int
        Outputs K of every node.
    n_inputs : int
        Number of columns that are the inputs.
    delta_threshold : float
        Maximum delta value of slow features.
    rank_tol, variance_floor
        As in :func:`solve_sfa`.

    Returns
    -------
    NodeSolution
        Slow directions first, scaled to the mean variance of the inputs of the node. All outputs are
        uncorrelated; `values` are their delta values.
    """
    slow = solve_sfa(A, B, n_components, rank_tol=rank_tol, variance_floor=variance_floor)
    weights = np.zeros_like(slow.weights)
    rank = np.zeros_like(slow.rank)
    for m in range(len(B)):
        J = int(np.sum(slow.values[m] < delta_threshold))
        S = slow.weights[m, :, :J]
        M = B[m, :n_inputs] @ S  # regression coefficients of the inputs on the slow outputs
        residual = B[m, :n_inputs, :n_inputs] - M @ M.T
        floor = np.maximum(
            variance_floor[m, :n_inputs], default_rank_tol(n_inputs) * np.diag(B[m])[:n_inputs]
        )
        residual_solution = solve_pca(
            residual[None], min(n_components - J, n_inputs), variance_floor=floor[None]
        )
        n_residual = int(residual_solution.rank[0]) if J < n_components else 0
        n_residual = min(n_residual, n_components - J)
        V = residual_solution.weights[0][:, :n_residual]
        weights[m, :, :J] = S * np.sqrt(np.trace(B[m, :n_inputs, :n_inputs]) / n_inputs)
        weights[m, :n_inputs, J : J + n_residual] = V
        weights[m, :, J : J + n_residual] -= S @ (M.T @ V)
        rank[m] = J + (int(residual_solution.rank[0]) if J < n_components else 0)
    variances = np.einsum("mek,mek->mk", weights, B @ weights)
    changes = np.einsum("mek,mek->mk", weights, A @ weights)
    values = np.divide(changes, variances, out=np.full_like(changes, np.nan), where=variances > 0)
    return NodeSolution(values, weights, rank)


def _scales(B: FloatArray, variance_floor: FloatArray) -> FloatArray:
    variances = np.diagonal(B, axis1=1, axis2=2)
    return np.where(variances > np.maximum(variance_floor, 0.0), np.sqrt(np.maximum(variances, 0.0)), 0.0)


def _signs(loadings: FloatArray, scales: FloatArray) -> FloatArray:
    return np.stack([canonical_signs(C, s) for C, s in zip(loadings, scales, strict=True)])


def _symmetric(S: FloatArray) -> FloatArray:
    return (S + S.mT) / 2


# ---- trained nodes: gather inputs, expand, apply linear maps, clip


@dataclass(frozen=True, eq=False)
class NodeBank:
    """All nodes of one stage.

    Attributes
    ----------
    stage : Stage
        The stage of the nodes.
    expanders : list of Expander or None
        One expander for each set of weights, if the expansion is fitted to data; None otherwise.
    mean : ndarray (M, E)
        Means of the expanded inputs; M is the number of nodes, or 1 with shared weights.
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
        outputs = np.empty((stage.n_nodes, rows, self.n_outputs), dtype=np.float64)

        def task(nodes: slice) -> None:
            Z = expand_nodes(gather(chunk, stage.positions[nodes]), stage, self.expanders, nodes)
            expander_index = slice(0, 1) if stage.share_weights else nodes
            Z -= self.mean[expander_index, None]
            np.matmul(Z, self.weights[expander_index], out=outputs[nodes])
            if self.low is not None and self.high is not None:
                limits = expander_index if len(self.low) == len(self.mean) else nodes
                np.clip(outputs[nodes], self.low[limits, None], self.high[limits, None], out=outputs[nodes])

        workers.run(task, slices(stage.n_nodes, rows * self.n_expanded))
        return outputs

    def with_limits(self, low: FloatArray, high: FloatArray) -> "NodeBank":
        """Return the same nodes with limits of their outputs."""
        return replace(self, low=low, high=high)


def gather(chunk: FloatArray, positions: NDArray[np.intp]) -> FloatArray:
    """Return the inputs of some nodes as a new array (nodes, rows, inputs).

    A chunk has the shape (positions, rows, channels). The inputs of a node are ordered by position, then by
    channel.
    """
    n_channels = chunk.shape[2]
    n_nodes, n_positions = positions.shape
    if n_positions == 1:
        return chunk[positions[:, 0]]
    if n_channels == 1:  # rows of pixels are contiguous in memory, which makes this indexing faster
        return np.take(chunk[:, :, 0].T, positions, axis=1).transpose(1, 0, 2)
    inputs = np.empty((n_nodes, chunk.shape[1], n_positions * n_channels), dtype=np.float64)
    for i in range(n_positions):
        inputs[:, :, i * n_channels : (i + 1) * n_channels] = chunk[positions[:, i]]
    return inputs


def expand_nodes(
    inputs: FloatArray, stage: Stage, expanders: list[Expander] | None, nodes: slice
) -> FloatArray:
    """Return the expanded inputs (nodes, rows, E) of a group of nodes; may be `inputs` itself."""
    if stage.expansion is None:
        return inputs
    if expanders is None:
        return _check_expanded(stage.expansion.expand(inputs), stage)
    node_expanders = expanders * len(inputs) if stage.share_weights else expanders[nodes]
    return np.stack([expander(x) for expander, x in zip(node_expanders, inputs, strict=True)])


def _check_expanded(expanded: Any, stage: Stage) -> FloatArray:
    values: FloatArray = expanded
    if not np.isfinite(np.sum(values)):  # the sum is finite only if all terms are
        raise ValueError(
            f"{stage.name}.expansion returned values that are not finite: {type(stage.expansion).__name__} "
            "overflows on these data. Scale the inputs first, or clip the outputs of the layer below."
        )
    return values
