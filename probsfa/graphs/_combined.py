"""Graphs derived from other graphs: permutations, subsets of samples, sample weights, and unions."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa.graphs.moments import CentredRows
from probsfa.graphs.training_graph import IntArray, ReweightedGraph, TrainingGraph

__all__ = [
    "PermutedGraph",
    "SampleWeightedGraph",
    "SubsetGraph",
    "UnionGraph",
    "check_group_weights",
    "check_sample_weight",
    "union",
    "union_of_normalized",
    "weighted",
]


class PermutedGraph(TrainingGraph):
    """The graph `base` of the samples sorted by `order`, with vertices in the original order.

    Parameters
    ----------
    base : TrainingGraph
        Graph whose vertex i is sample ``order[i]``.
    order : ndarray (N,)
        A permutation, for example ``np.argsort(labels)``.
    """

    def __init__(self, base: TrainingGraph, order: NDArray[np.intp]) -> None:
        self._ranks = np.empty_like(order)  # rank of every sample
        self._ranks[order] = np.arange(len(order))
        super().__init__(base.node_weights[self._ranks], base.degrees[self._ranks])
        self.base = base
        self.order = order

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        edges = self.base.to_sparse().tocoo()
        rows, columns = self.order[edges.coords[0]], self.order[edges.coords[1]]
        return scipy.sparse.csr_array((edges.data, (rows, columns)), shape=edges.shape)

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return self.base.component_labels()[self._ranks]

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = np.empty_like(X)
        product[self.order] = self.base._laplacian_matmul(X[self.order])
        return product

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        return self.base._relative_energy(X.reordered(self.order))

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        vectors = self.base._slowest(root[self.order], count)
        return None if vectors is None else vectors[self._ranks]


# ---- a graph on a subset of the samples


class SubsetGraph(TrainingGraph):
    """The graph `base` on the rows `samples` of the data; all other rows have weight 0.

    Parameters
    ----------
    base : TrainingGraph
        Graph whose vertex i is sample ``samples[i]``.
    samples : ndarray (n,), int
        Different row numbers below `n_samples`.
    n_samples : int
        Number of rows of the data.
    """

    def __init__(self, base: TrainingGraph, samples: IntArray, n_samples: int) -> None:
        def extended(values: FloatArray) -> FloatArray:
            extended_values = np.zeros(n_samples, dtype=np.float64)
            extended_values[samples] = values
            return extended_values

        super().__init__(extended(base.node_weights), extended(base.degrees))
        self.base = base
        self.samples = samples

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        edges = self.base.to_sparse().tocoo()
        positions = (self.samples[edges.coords[0]], self.samples[edges.coords[1]])
        return scipy.sparse.csr_array((edges.data, positions), shape=(self.n_vertices, self.n_vertices))

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, (N,); each row outside the graph is a component."""
        labels_of_subset = self.base.component_labels()
        labels = np.arange(self.n_vertices, dtype=np.intp) + int(labels_of_subset.max()) + 1
        labels[self.samples] = labels_of_subset
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = np.zeros_like(X)
        product[self.samples] = self.base._laplacian_matmul(X[self.samples])
        return product

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        return self.base._relative_energy(X.reordered(self.samples))


# ---- sample weights, in addition to the weights of the graph


def check_sample_weight(sample_weight: Any, n: int) -> FloatArray:
    """Return sample weights (n,); raise a ValueError for invalid ones."""
    weights = as_float_array(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise ValueError(
            f"sample_weight must be one number for each of the {n} samples; got shape {weights.shape}."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not (weights > 0).any():
        raise ValueError("sample_weight must be finite and not negative, and not zero everywhere.")
    return weights


def check_group_weights(sizes: NDArray[Any]) -> None:
    """Raise a ValueError if all samples of a group have zero weight."""
    if not (sizes > 0).all():
        raise ValueError("sample_weight is zero for all samples of a class or group. Remove these samples.")


def weighted(graph: TrainingGraph, sample_weight: Any) -> TrainingGraph:
    """Return the graph with sample weights, or the graph itself if `sample_weight` is None."""
    return graph if sample_weight is None else SampleWeightedGraph(graph, np.asarray(sample_weight, float))


class SampleWeightedGraph(TrainingGraph):
    """The graph with sample n repeated ``s_n`` times; each copy has all edges of the sample.

    Node weights are multiplied by ``s_n`` and edge weights by ``s_n s_n'``.

    Parameters
    ----------
    base : TrainingGraph
        Graph without sample weights.
    sample_weight : ndarray (N,)
        s, nonnegative.
    """

    def __init__(self, base: TrainingGraph, sample_weight: FloatArray) -> None:
        s = sample_weight
        self._product = base._laplacian_matmul(s[:, None])[:, 0]
        degrees = np.maximum(base.degrees * s - self._product, 0.0)  # without negative rounding errors
        super().__init__(s * base.node_weights, s * degrees)
        self.base = base
        self.sample_weight = s

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        weights = scipy.sparse.diags_array(self.sample_weight)
        edges = scipy.sparse.csr_array(weights @ self.base.to_sparse() @ weights)
        edges.eliminate_zeros()
        return edges

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        if (self.sample_weight > 0).all():
            return self.base.component_labels()
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        s = self.sample_weight[:, None]
        # L maps constants to zero, so that centring X only reduces rounding errors.
        X = X - (self.sample_weight / self.sample_weight.sum()) @ X
        product = self.base._laplacian_matmul(s * X)
        product -= self._product[:, None] * X
        product *= s
        return product


# ---- unions of graphs


def union(graphs: Sequence[TrainingGraph], weights: Any = None) -> "UnionGraph":
    """Return the union of graphs of the same samples.

    Node weights and edge weights of the union are weighted sums over the graphs. Examples: a labelled time
    series, or two labels at once.

    Parameters
    ----------
    graphs : sequence of TrainingGraph
        Graphs, with the same number of vertices.
    weights : array-like of float, optional
        Positive factor of every graph; by default 1. Factors ``1 / graph.R`` give the graphs equal shares of
        the objective.

    Raises
    ------
    ValueError
        If sizes differ, or weights are not positive.

    See Also
    --------
    semi_supervised : Labels of a subset of the samples.
    TrainingGraph.repaired : Node weights that make any graph consistent.

    Examples
    --------
    >>> from probsfa.graphs import clustered, temporal
    >>> both = union([temporal(4), clustered([0, 0, 1, 1])])
    >>> both.Q, both.R
    (8.0, 10.0)
    """
    members = list(graphs)
    if not members or not all(isinstance(graph, TrainingGraph) for graph in members):
        raise ValueError("graphs must be a list of at least one training graph.")
    sizes = [graph.n_vertices for graph in members]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"graphs must be on the same samples; they have {sizes} vertices. For labels of some samples use "
            "semi_supervised."
        )
    factors = np.ones(len(members)) if weights is None else np.asarray(weights, dtype=np.float64)
    if factors.shape != (len(members),) or not (np.isfinite(factors) & (factors > 0)).all():
        raise ValueError(f"weights must be {len(members)} positive numbers, one per graph; got {weights!r}.")
    return UnionGraph(members, factors.tolist())


def union_of_normalized(graphs: Sequence[TrainingGraph], weights: Any = None) -> "UnionGraph":
    """Return the weighted union of graphs after scaling each to ``Q = R = 1``.

    The weights are then proportional to the contributions of the graphs to the objective and the constraints.
    The union of consistent graphs is consistent.
    """
    scaled = [ReweightedGraph(graph, graph.node_weights / graph.Q, scale=1.0 / graph.R) for graph in graphs]
    return union(scaled, weights)


class UnionGraph(TrainingGraph):
    """Weighted sum of graphs.

    Parameters
    ----------
    members : list of TrainingGraph
        Graphs on the same samples.
    factors : list of float
        Positive factor of every member.
    """

    def __init__(self, members: list[TrainingGraph], factors: list[float]) -> None:
        pairs = list(zip(members, factors, strict=True))
        with np.errstate(over="ignore"):  # reported by the base class
            nodes = np.sum([f * graph.node_weights for graph, f in pairs], axis=0)
            degrees = np.sum([f * graph.degrees for graph, f in pairs], axis=0)
        super().__init__(nodes, degrees)
        self._pairs = pairs

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        total = scipy.sparse.csr_array((self.n_vertices, self.n_vertices), dtype=np.float64)
        for graph, factor in self._pairs:
            total = total + factor * graph.to_sparse()
        return total

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        # Components of the bipartite graph that connects each vertex to its component in each member.
        n, n_nodes, components = self.n_vertices, self.n_vertices, []
        for graph, _ in self._pairs:
            labels = graph.component_labels()
            components.append(labels + n_nodes)
            n_nodes += int(labels.max()) + 1
        rows, columns = np.tile(np.arange(n), len(components)), np.concatenate(components)
        links = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes, n_nodes))
        return connected_components(links, directed=False)[1][:n].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        total = np.zeros_like(X)
        for graph, factor in self._pairs:
            total += factor * graph._laplacian_matmul(X)
        return total

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        energies = [factor * graph.R / self.R * graph._relative_energy(X) for graph, factor in self._pairs]
        return np.sum(energies, axis=0)
