"""Graphs defined by explicit edges: any sparse matrix, heat kernel, nearest neighbours."""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree
from sklearn.utils import check_array

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._rows import check_rows, exact_shift
from probsfa.graphs.moments import CentredRows
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = [
    "MAX_TREE_FEATURES",
    "SparseGraph",
    "default_n_neighbors",
    "from_sparse",
    "heat_kernel",
    "nearest_neighbors",
    "neighbor_edges",
]

# Range of sums of weights whose products with squared data neither underflow nor overflow.
_MIN_TOTAL_WEIGHT, _MAX_TOTAL_WEIGHT = 1e-100, 1e100


def from_sparse(W: Any, node_weights: Any = None) -> "SparseGraph":
    """Return the graph with the edge weights of a matrix.

    Parameters
    ----------
    W : sparse matrix or array-like (N, N)
        Nonnegative edge weights, with self-loops on the diagonal. Directed weights are replaced by their mean
        over both directions, which does not change delta values.
    node_weights : array-like (N,), "degree" or None, default=None
        Nonnegative weight of every sample; by default 1. "degree" uses the row sums of the edge weights. The
        graph is then consistent (see Notes), and its features are those of locality preserving projections.

    Returns
    -------
    TrainingGraph
        A graph with a vertex for each row of `W`.

    Raises
    ------
    ValueError
        If `W` is not square, has a negative, infinite or NaN entry, or no edge; or if `node_weights` are not
        N finite nonnegative numbers.

    See Also
    --------
    heat_kernel, nearest_neighbors : Graphs of similarities of samples.

    Notes
    -----
    A graph is consistent if node weights are proportional to the sums of the edge weights at their vertices
    (Escalante-B. & Wiskott 2013, JMLR 14:3683; section 7.1 on locality preserving projections).

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
        raise ValueError("W contains NaN or infinity. Use 0 for missing edges.")
    if (edges.data < 0).any():
        raise ValueError(
            f"W has negative weights, the smallest is {edges.data.min()}; edge weights are similarities."
        )
    edges = (edges / 2 + edges.T / 2).tocsr()
    with np.errstate(over="ignore"):  # reported by the graph
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
    """A graph with its edges in a sparse matrix.

    Parameters
    ----------
    edges : sparse array (N, N)
        Symmetric, not negative.
    node_weights : ndarray (N,)
        Not negative.
    """

    def __init__(self, edges: scipy.sparse.csr_array, node_weights: FloatArray) -> None:
        with np.errstate(over="ignore"):  # reported by the base class
            degrees = np.asarray(edges.sum(axis=1), dtype=np.float64)
        super().__init__(node_weights, degrees)
        self._edges = edges
        # Self-loops are omitted, because large ones would increase rounding errors of the product.
        self._edges_without_loops = edges - scipy.sparse.diags_array(edges.diagonal())
        self._degrees_without_loops = np.asarray(self._edges_without_loops.sum(axis=1), dtype=np.float64)

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        return self._edges.copy()

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return connected_components(self._edges, directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = self._degrees_without_loops[:, None] * X
        product -= self._edges_without_loops @ X
        return product

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        if _MIN_TOTAL_WEIGHT < self.R < _MAX_TOTAL_WEIGHT:
            return super()._relative_energy(X)
        return SparseGraph((self._edges / self.R).tocsr(), self.node_weights)._energy(X)


# ---- heat kernel: edge weights are a Gaussian function of the distance


def heat_kernel(X: Any, bandwidth: float, *, node_weights: Any = "degree") -> SparseGraph:
    """Return the graph with edge weights ``exp(-|x - x'|^2 / (2 bandwidth^2))``.

    Edges with weights below the rounding error of the largest weight (distances above about 8.5 bandwidths)
    are omitted, so that the graph is sparse if the bandwidth is small compared with the range of the data.
    There are no self-loops.

    Parameters
    ----------
    X : array-like (N, D)
        Samples.
    bandwidth : float
        Standard deviation of the Gaussian, in the units of `X`.
    node_weights : array-like (N,), "degree" or None, default="degree"
        As in :func:`from_sparse`; "degree" by default.

    See Also
    --------
    nearest_neighbors : Sparse graph for data of any scale.
    from_sparse : Graph with any other weights.

    Notes
    -----
    The isotropic Gaussian neighbourhood of Sprekeler (2011), Neural Computation 23:3287, figure 1.

    Examples
    --------
    >>> heat_kernel([[0.0], [1.0], [100.0]], bandwidth=1.0).to_sparse().toarray().round(3)
    array([[0.   , 0.607, 0.   ],
           [0.607, 0.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    values = check_array(check_rows(X, "X"), ensure_min_samples=2)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, Real) or not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number; got {bandwidth!r}.")
    width = float(bandwidth)
    from sklearn.neighbors import radius_neighbors_graph  # slow import

    max_distance = width * (-2.0 * np.log(np.finfo(np.float64).eps)) ** 0.5
    # Distances of many columns are computed as differences of products, which lose all digits at a large
    # offset.
    edges = radius_neighbors_graph(values - exact_shift(values), max_distance, mode="distance")
    if edges.nnz == 0:
        raise ValueError(
            f"bandwidth={bandwidth!r} results in no edges: all edge weights are below the rounding error of "
            f"the largest, because no distance of two samples is below {max_distance:.3g}. Use a "
            "larger bandwidth."
        )
    edges.data = np.exp(-0.5 * (edges.data / width) ** 2)
    return from_sparse(edges, node_weights)


# ---- nearest neighbours: edges from every sample to the closest ones


MAX_TREE_FEATURES = 15  # in more dimensions a search visits most points; scikit-learn has the same limit
_LEAF_SIZE = 24  # leaf size of the tree; fastest for 3 to 8 dimensions


def nearest_neighbors(X: Any, n_neighbors: int = 10, *, node_weights: Any = "degree") -> SparseGraph:
    """Return the graph of nearest neighbours in Euclidean distance.

    An edge has weight 1 if each of two samples is among the `n_neighbors` nearest neighbours of the other,
    and weight 1/2 if only one is. GSFA on this graph is locality preserving projection.

    Parameters
    ----------
    X : array-like (N, D)
        Samples.
    n_neighbors : int, default=10
        Number of neighbours of each sample, without itself; less than N.
    node_weights : array-like (N,), "degree" or None, default="degree"
        As in :func:`from_sparse`; "degree" by default.

    See Also
    --------
    heat_kernel : Weights that decrease with the distance.
    from_sparse : Graph with any other weights.

    Examples
    --------
    >>> nearest_neighbors([[0.0], [1.0], [3.0]], n_neighbors=1).to_sparse().toarray()
    array([[0. , 1. , 0. ],
           [1. , 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    values = check_array(check_rows(X, "X"), ensure_min_samples=2)
    k = check_count("n_neighbors", n_neighbors)
    if k >= len(values):
        raise ValueError(f"n_neighbors must be smaller than the number of samples, {len(values)}; got {k}.")
    return from_sparse(neighbor_edges(values, k), node_weights)


def default_n_neighbors(n: int) -> int:
    """Return the default number of neighbours for a graph of n samples."""
    return max(1, min(10, n - 1))


def neighbor_edges(points: NDArray[np.float64], count: int) -> scipy.sparse.csr_array:
    """Return a sparse matrix with ones between every point and its `count` nearest other points.

    Up to 15 dimensions the tree of SciPy is used, which takes a half to two thirds of the time of
    scikit-learn; in more dimensions, scikit-learn is used.

    Parameters
    ----------
    points : ndarray (n, D), or sparse array with many columns
        Points.
    count : int
        Neighbours of each point.

    Returns
    -------
    sparse array (n, n)
        Edges, with 32-bit indices if they suffice, for faster products.
    """
    n_points = points.shape[0]
    if points.shape[1] <= MAX_TREE_FEATURES:
        tree = cKDTree(points, leafsize=_LEAF_SIZE)
        neighbors = np.empty((n_points, count + 1), dtype=np.intp)
        # Sorted queries visit the same leaves of the tree in succession, which uses the cache.
        nearest = tree.query(points[tree.indices], count + 1, workers=effective_n_jobs(-1))[1]
        neighbors[tree.indices] = nearest.reshape(-1, count + 1)
    else:
        from sklearn.neighbors import NearestNeighbors  # slow import

        # scikit-learn computes distances as differences of products, which lose all digits at a large offset.
        if not scipy.sparse.issparse(points):
            points = points - exact_shift(points)
        search = NearestNeighbors(n_neighbors=count + 1).fit(points)
        neighbors = search.kneighbors(points, return_distance=False)
    is_other = neighbors != np.arange(n_points)[:, None]
    is_other[is_other.all(axis=1), -1] = False  # the search may omit the point itself among its duplicates
    neighbors = neighbors[is_other].reshape(-1, count)
    index = np.int32 if neighbors.size < np.iinfo(np.int32).max else np.int64
    starts = np.arange(0, neighbors.size + 1, count, dtype=index)
    edges = (np.ones(neighbors.size, dtype=np.float64), neighbors.ravel().astype(index), starts)
    return scipy.sparse.csr_array(edges, shape=(n_points, n_points))
