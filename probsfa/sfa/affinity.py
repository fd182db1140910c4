"""From points to the edge weights of an eigenmap.

Two ways to join points, both without loops: nearest neighbours (weight 1 where each of two points is among
the nearest of the other, 1/2 where only one is) and a heat kernel ``exp(-gamma |x - x'|^2)`` of all pairs.
Ready-made affinities are checked here too.
"""

import numbers
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel
from sklearn.utils.validation import validate_data

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.graphs._nearest_neighbors import neighbor_edges
from probsfa.sfa.laplacian import is_sparse

__all__ = [
    "affinity_graph",
    "affinity_rows",
    "affinity_tags",
    "check_affinity",
    "heat_graph",
    "heat_weights",
    "neighbor_count",
    "same_rows",
]


_DEFAULT_NEIGHBORS = 10
_SYMMETRY_TOL = 1e-10  # relative to the largest weight


def affinity_graph(estimator: Any, X: Any) -> tuple[Sequences | None, Any]:
    """Check the input of an estimator on graphs and return its points and edge weights."""
    _check_parameters(estimator)
    if estimator.affinity == "precomputed":
        W = affinity_rows(estimator, X, ensure_min_samples=2, ensure_min_features=2)
        return None, check_affinity(sp.csr_array(W) if is_sparse(W) else W)
    sequences = check_sequences(estimator, X, reset=True, allow_nan=False, min_rows=2)
    if estimator.affinity == "rbf":
        gamma = 1.0 / sequences.n_features if estimator.gamma is None else estimator.gamma
        return sequences, heat_graph(sequences.values, gamma)
    directed = neighbor_edges(sequences.values, neighbor_count(estimator, sequences.n_rows))
    return sequences, sp.csr_array((directed + directed.T) * 0.5)


def affinity_rows(estimator: Any, X: Any, **options: Any) -> Any:
    """Check rows of a ready-made affinity, dense or sparse; the options are those of scikit-learn's check."""
    if isinstance(X, np.ma.MaskedArray):
        X = as_float_array(X, "X")  # what is masked is missing, which the check refuses
    return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, **options)


def affinity_tags(tags: Any, affinity: str) -> Any:
    """Return scikit-learn's tags of an estimator with what it accepts instead of points."""
    ready = affinity == "precomputed"
    tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = ready
    return tags


def neighbor_count(estimator: Any, n: int) -> int:
    """Return how many of n points each is joined to, itself not counted."""
    count = min(_DEFAULT_NEIGHBORS, n) if estimator.n_neighbors is None else estimator.n_neighbors
    if count > n:
        raise ValueError(f"n_neighbors={count} is more than the {n} points of X.")
    return int(count) - 1


def heat_weights(rows: FloatArray, points: FloatArray, gamma: float) -> tuple[FloatArray, FloatArray]:
    """Return the heat kernel between new points and old ones, and the factor each row was divided by.

    Parameters
    ----------
    rows, points : ndarray (N, D), (n, D)
        New and old points.
    gamma : float
        Decay per squared distance.

    Returns
    -------
    weights : ndarray (N, n)
        Scaled so that the nearest old point has weight 1: far away, where the kernel itself would be
        zero in double precision, the proportions are still right.
    scale : ndarray (N,)
        ``weights * scale[:, None]`` is the kernel.
    """
    squared = euclidean_distances(rows, points, squared=True)
    nearest = squared.min(axis=1)
    weights: FloatArray = np.exp(-gamma * (squared - nearest[:, None]))
    return weights, np.exp(-gamma * nearest)


def heat_graph(points: FloatArray, gamma: float) -> FloatArray:
    """Return the heat kernel of all pairs without self-loops, (n, n)."""
    W: FloatArray = rbf_kernel(points, gamma=gamma)
    np.fill_diagonal(W, 0.0)
    return (W + W.T) * 0.5


def check_affinity(W: Any) -> Any:
    """Return a precomputed affinity as an exactly symmetric sparse or dense array.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Finite weights.

    Raises
    ------
    ValueError
        If it is not square, not symmetric, or has a negative weight; the message says where.
    """
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"X must be a square affinity matrix with affinity='precomputed'; got shape {W.shape}."
        )
    coo = sp.coo_array(W) if is_sparse(W) else None
    data = coo.data if coo is not None else W
    if data.size and data.min() < 0:
        place = int(np.argmin(data))
        i, j = (coo.row[place], coo.col[place]) if coo is not None else divmod(place, len(W))
        raise ValueError(
            f"Negative values in data: X[{i}, {j}] is {data.flat[place]:g}; affinities must be at least 0."
        )
    gap = abs(W - W.T)
    if gap.max() > _SYMMETRY_TOL * max(data.max(initial=0.0), np.finfo(np.float64).tiny):
        i, j = divmod(int(gap.argmax()), W.shape[0])
        raise ValueError(
            f"X must be symmetric with affinity='precomputed'; X[{i}, {j}] is {W[i, j]:g} and X[{j}, {i}] is "
            f"{W[j, i]:g}. Use (X + X.T) / 2 if that is what you mean."
        )
    return (W + W.T) * 0.5


def same_rows(rows: FloatArray, points: FloatArray) -> NDArray[np.intp]:
    """Return for every row the first point that equals it bit by bit, -1 where there is none."""
    seen: dict[bytes, int] = {}
    for i, point in enumerate(np.ascontiguousarray(points + 0.0)):  # adding 0 turns -0 into 0
        seen.setdefault(point.tobytes(), i)
    places = (seen.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows + 0.0))
    return np.fromiter(places, dtype=np.intp, count=len(rows))


def _check_parameters(estimator: Any) -> None:
    """Check `affinity`, `n_neighbors` and `gamma` of an estimator."""
    check_option("affinity", estimator.affinity, ("nearest_neighbors", "rbf", "precomputed"))
    if estimator.n_neighbors is not None:
        check_count("n_neighbors", estimator.n_neighbors, minimum=2)
    gamma = estimator.gamma
    if gamma is not None and not (isinstance(gamma, numbers.Real) and 0 < float(gamma) < np.inf):
        raise ValueError(f"gamma must be a positive number or None; got {gamma!r}.")
