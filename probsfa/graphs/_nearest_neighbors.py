"""Nearest neighbours: every sample is joined to those closest to it."""

from typing import Any

import numpy as np
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_array

from probsfa._validation import check_count
from probsfa.graphs._sparse import SparseGraph, from_sparse

__all__ = ["nearest_neighbors"]


def nearest_neighbors(X: Any, n_neighbors: int = 10, *, node_weights: Any = "degree") -> SparseGraph:
    """Return the graph of nearest neighbours in Euclidean distance.

    Two samples are joined with weight 1 where each is among the `n_neighbors` nearest of the other, and with
    weight 1/2 where only one of the two is. GSFA on it is locality preserving projection.

    Parameters
    ----------
    X : array-like (N, D)
        Samples.
    n_neighbors : int
        How many others each sample is joined to, itself not counted; less than N.
    node_weights : array-like (N,), "degree" or None
        As in :func:`from_sparse`; "degree" by default.

    Examples
    --------
    >>> nearest_neighbors([[0.0], [1.0], [3.0]], n_neighbors=1).to_sparse().toarray()
    array([[0. , 1. , 0. ],
           [1. , 0. , 0.5],
           [0. , 0.5, 0. ]])
    """
    values = check_array(X, dtype=np.float64, ensure_min_samples=2)
    k = check_count("n_neighbors", n_neighbors)
    if k >= len(values):
        raise ValueError(f"n_neighbors must be smaller than the number of samples, {len(values)}; got {k}.")
    return from_sparse(kneighbors_graph(values, k), node_weights)
