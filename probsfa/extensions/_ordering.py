"""Starting coordinates: ranks of principal components or of an eigenmap of nearest neighbours."""

import warnings

import numpy as np
from sklearn.metrics import pairwise_distances_argmin

from probsfa._typing import FloatArray
from probsfa.sfa import LaplacianEigenmaps

__all__ = ["MAX_ROWS", "eigenmap_coordinates", "principal_coordinates", "ranks"]

#: Maximum number of rows in the neighbour graph of an eigenmap. All other rows get the coordinates of their
#: nearest neighbour in the graph.
MAX_ROWS = 2000


def principal_coordinates(centred: FloatArray, k: int) -> FloatArray:
    """Return the scores (N, k) of the first principal components, padded with zeros."""
    directions = np.linalg.svd(centred, full_matrices=False)[2][:k]
    scores = np.zeros((len(centred), k))
    scores[:, : len(directions)] = centred @ directions.T
    return scores


def eigenmap_coordinates(centred: FloatArray, k: int) -> FloatArray | None:
    """Return the coordinates (N, k) of an eigenmap; None for few rows or a graph that is not connected."""
    selected = np.unique(np.linspace(0, len(centred) - 1, MAX_ROWS).astype(int))
    rows = centred[selected]
    if len(rows) <= k + 2:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # for a graph that is not connected
            embedded = LaplacianEigenmaps(k).fit(rows).embedding_
    except (UserWarning, ValueError):
        return None
    if len(rows) == len(centred):
        return np.asarray(embedded)
    return np.asarray(embedded[pairwise_distances_argmin(centred, rows)])


def ranks(scores: FloatArray) -> FloatArray:
    """Return the ranks of the rows in each column, from 0 to 1."""
    positions = np.argsort(np.argsort(scores, axis=0, kind="stable"), axis=0)
    return np.asarray(positions / max(len(scores) - 1, 1), dtype=np.float64)
