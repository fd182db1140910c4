"""Any graph, from its matrix of edge weights."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["SparseGraph", "from_sparse"]

_SMALLEST, _LARGEST = 1e-100, 1e100  # sums of weights for which products with squares of data are safe


def from_sparse(W: Any, node_weights: Any = None) -> "SparseGraph":
    """Return the graph with the edge weights of a matrix.

    Parameters
    ----------
    W : sparse matrix or array-like (N, N)
        Edge weights; the diagonal holds self-loops. None may be below zero: a weight says how similar two
        samples are, and one below zero, which asks for samples to differ, would leave the objective without
        a lower bound. Directed weights are replaced by their mean over both directions, which leaves every
        delta value what it is.
    node_weights : array-like (N,), "degree" or None, default=None
        How much every sample counts, not below zero; by default all the same. "degree" takes the sums of the
        rows, which makes the graph consistent and its features those of locality preserving projections
        (section 7.1 of the paper).

    Returns
    -------
    TrainingGraph
        With a vertex for each row of `W`.

    Raises
    ------
    ValueError
        If `W` is not square, has an entry that is below zero, infinite or NaN, or no edge at all; or if
        `node_weights` are not N finite numbers of at least zero.

    See Also
    --------
    heat_kernel, nearest_neighbors : Graphs of this kind made from the samples.

    Examples
    --------
    >>> graph = from_sparse([[0, 2], [2, 0]], node_weights="degree")
    >>> graph.node_weights, graph.R
    (array([2., 2.]), 4.0)
    """
    if not scipy.sparse.issparse(W):
        W = as_float_array(W, "W")
    edges = scipy.sparse.csr_array(W, dtype=np.float64)
    if edges.ndim != 2 or edges.shape[0] != edges.shape[1]:
        raise ValueError(f"W must be square, one row and column per sample; got shape {edges.shape}.")
    if not np.isfinite(edges.data).all():
        raise ValueError("W contains NaN or infinity; leave out edges that are not there.")
    if (edges.data < 0).any():
        raise ValueError(
            f"W has negative weights, the smallest is {edges.data.min()}; edge weights are similarities."
        )
    edges = (edges / 2 + edges.T / 2).tocsr()
    with np.errstate(over="ignore"):  # told by the graph
        degrees = np.asarray(edges.sum(axis=1), dtype=np.float64)
    return SparseGraph(edges, check_node_weights(node_weights, degrees))


def check_node_weights(node_weights: Any, degrees: FloatArray) -> FloatArray:
    """Return node weights (N,) from None, "degree" or an array, or raise a ValueError naming them."""
    if node_weights is None:
        return np.ones_like(degrees)
    if isinstance(node_weights, str) and node_weights == "degree":
        return degrees
    if isinstance(node_weights, np.ma.MaskedArray):
        node_weights = as_float_array(node_weights, "node_weights")
    weights = np.asarray(node_weights) if not isinstance(node_weights, str) else np.zeros(0)
    if weights.shape != degrees.shape or weights.dtype.kind not in "biuf":
        raise ValueError(
            f'node_weights must be {len(degrees)} numbers, "degree" or None; got {node_weights!r:.80}.'
        )
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("node_weights must be finite and not negative.")
    return weights.astype(np.float64)


class SparseGraph(TrainingGraph):
    """A graph that keeps its edges in a sparse matrix.

    Parameters
    ----------
    edges : sparse array (N, N)
        Symmetric, not negative.
    node_weights : ndarray (N,)
        Not negative.
    """

    def __init__(self, edges: scipy.sparse.csr_array, node_weights: FloatArray) -> None:
        with np.errstate(over="ignore"):  # told by what follows
            degrees = np.asarray(edges.sum(axis=1), dtype=np.float64)
        super().__init__(node_weights, degrees)
        self._edges = edges
        # Without self-loops, so that a heavy one costs no digits of the product.
        self._between = edges - scipy.sparse.diags_array(edges.diagonal())
        self._between_degrees = np.asarray(self._between.sum(axis=1), dtype=np.float64)

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        return self._edges.copy()

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return connected_components(self._edges, directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = self._between_degrees[:, None] * X
        product -= self._between @ X
        return product

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        if _SMALLEST < self.R < _LARGEST:
            return super()._relative_energy(X)
        return SparseGraph((self._edges / self.R).tocsr(), self.node_weights)._energy(X)

    @cached_property
    def _walk(self) -> SparseWalk:
        return SparseWalk(self._edges)

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self._walk(start, n_steps, rng)
