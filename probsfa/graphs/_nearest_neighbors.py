"""Nearest neighbours: every sample is joined to those closest to it."""

from typing import Any

import numpy as np
import scipy.sparse
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.utils import check_array

from probsfa._validation import check_count
from probsfa.graphs._rows import check_rows, exact_shift
from probsfa.graphs._sparse import SparseGraph, from_sparse

__all__ = ["TREE_FEATURES", "default_neighbors", "nearest_neighbors", "neighbor_edges"]

TREE_FEATURES = 15  # in more dimensions a tree looks at most points anyway; scikit-learn's own border
_LEAF = 24  # points below which a tree is not cut: the fastest for 3 to 8 dimensions


def nearest_neighbors(X: Any, n_neighbors: int = 10, *, node_weights: Any = "degree") -> SparseGraph:
    """Return the graph of nearest neighbours in Euclidean distance.

    Two samples are joined with weight 1 where each is among the `n_neighbors` nearest of the other, and with
    weight 1/2 where only one of the two is. GSFA on it is locality preserving projection.

    Parameters
    ----------
    X : array-like (N, D)
        Samples.
    n_neighbors : int, default=10
        How many others each sample is joined to, itself not counted; less than N.
    node_weights : array-like (N,), "degree" or None, default="degree"
        As in :func:`from_sparse`; "degree" by default.

    See Also
    --------
    heat_kernel : Weights that fall with the distance.
    from_sparse : Any other weights.

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


def default_neighbors(n: int) -> int:
    """Return how many neighbours the graph of n samples has where nobody says."""
    return max(1, min(10, n - 1))


def neighbor_edges(
    points: NDArray[np.float64], count: int, rows: NDArray[np.float64] | None = None
) -> scipy.sparse.csr_array:
    """Return ones between every row and the `count` points closest to it.

    The tree of SciPy finds neighbours in few dimensions in a half to two thirds of the time of
    scikit-learn's, which serves in many.

    Parameters
    ----------
    points : ndarray (n, D), or sparse array with many columns
        Where to search.
    count : int
        Neighbours of each row.
    rows : ndarray (N, D), optional
        Whose neighbours; by default those of the points themselves, each without itself.

    Returns
    -------
    sparse array (N, n)
        With 32-bit indices where they suffice: products take less time.
    """
    queries = points if rows is None else rows
    wanted = count + (rows is None)
    if points.shape[1] <= TREE_FEATURES:
        tree = cKDTree(points, leafsize=_LEAF)
        order = tree.indices if rows is None else np.arange(len(rows))
        neighbors = np.empty((len(queries), wanted), dtype=np.intp)
        # Points that are asked for one after the other then look into the same leaves.
        nearest = tree.query(queries[order], wanted, workers=effective_n_jobs(-1))[1]
        neighbors[order] = nearest.reshape(-1, wanted)
    else:
        from sklearn.neighbors import NearestNeighbors  # takes long to load

        # Distances are differences of products here, which a large offset would leave no digits.
        if not scipy.sparse.issparse(points):
            shift = exact_shift(points)
            points, queries = points - shift, queries - shift
        search = NearestNeighbors(n_neighbors=wanted).fit(points)
        neighbors = search.kneighbors(queries, return_distance=False)
    if rows is None:
        others = neighbors != np.arange(points.shape[0])[:, None]
        others[others.all(axis=1), -1] = False  # of several equal points the point itself may be missing
        neighbors = neighbors[others].reshape(-1, count)
    index = np.int32 if neighbors.size < np.iinfo(np.int32).max else np.int64
    starts = np.arange(0, neighbors.size + 1, count, dtype=index)
    edges = (np.ones(neighbors.size, dtype=np.float64), neighbors.ravel().astype(index), starts)
    return scipy.sparse.csr_array(edges, shape=(queries.shape[0], points.shape[0]))
