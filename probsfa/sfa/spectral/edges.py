"""Edges between training points, and from new points to training points.

Three classes have one interface: nearest neighbours, a heat kernel, and a function of two arrays of rows.
``training(loops)`` returns the weights ``W`` (n, n) between training points, and ``new(rows)`` the weights
from new points to training points.

A new point that equals training point i must have the degree of point i. Its edges to the training points are
row i of ``W``, plus an edge to point i with the weight of a self-loop. If the training graph has self-loops,
this edge is part of row i. Otherwise its weight, ``self_loops``, is excluded from the degree and from the
extension to new points.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.neighbors import NearestNeighbors

from probsfa._typing import FloatArray
from probsfa.graphs._sparse import MAX_TREE_FEATURES, neighbor_edges
from probsfa.sfa.spectral.laplacian import is_sparse

__all__ = [
    "Edges",
    "FunctionEdges",
    "HeatEdges",
    "NeighborEdges",
    "NewEdges",
    "extend_random_walk",
    "extend_unnormalized",
    "local_scales",
    "nearest_points",
]

IntArray = NDArray[np.intp]

_BLOCK_SIZE = 2**22  # distances in memory at a time
_NEIGHBOR_RANK = 7  # as in Zelnik-Manor & Perona (2004)


class NewEdges(NamedTuple):
    """Edges from new points to the training points.

    Attributes
    ----------
    weights : sparse array or ndarray (N, n)
        Edge weights divided by `scale`.
    scale : ndarray (N,)
        Divisor of the weights in every row; it prevents underflow for distant points.
    self_loops : ndarray (N,)
        Part of the row sum that corresponds to a self-loop of the new point. It is excluded from the degree
        if the training graph has no self-loops, and is zero otherwise.
    nearest : ndarray (N,)
        Training point with the heaviest edge, -1 if it was not computed.
    """

    weights: Any
    scale: FloatArray
    self_loops: FloatArray
    nearest: IntArray

    @classmethod
    def with_self_loops(cls, weights: Any) -> "NewEdges":
        """Return edges to a graph that includes self-loops."""
        n = weights.shape[0]
        return cls(weights, np.ones(n), np.zeros(n), np.full(n, -1, dtype=np.intp))


class Edges(Protocol):
    """Interface of all kinds of edges."""

    def training(self, loops: bool) -> Any:
        """Return the edge weights of the training points, (n, n); `loops` includes self-loops."""

    def new(self, rows: Any) -> NewEdges:
        """Return the edges of new points, with the `self_loops` for a training graph without self-loops."""

    def values_per_row(self) -> int:
        """Return the approximate number of values in memory for the edges of one new point."""


class NeighborEdges:
    """Nearest neighbours: weight 1 if each of two points is among the nearest of the other, else 1/2.

    A new point has an edge of weight 1/2 to each of the `count` + 1 nearest training points; the first
    corresponds to the point itself. Another 1/2 is added for every training point whose radius contains the
    new point. This radius is midway between the distances to the neighbours number `count` and `count` + 1.
    Edges therefore do not change with small changes of a point. A row that equals a training point has the
    edges of that point.

    Parameters
    ----------
    points : ndarray or sparse array (n, D)
        Training points.
    count : int
        Neighbours of each point, not counting itself.
    """

    def __init__(self, points: Any, count: int) -> None:
        self.points = points
        self.count = count
        directed = neighbor_edges(points, count)
        self._edges = sp.csr_array((directed + directed.T) * 0.5)

    def training(self, loops: bool) -> Any:
        """Return the weights, sparse."""
        return sp.csr_array(self._edges + sp.eye_array(self.points.shape[0])) if loops else self._edges

    def values_per_row(self) -> int:
        """Return the approximate number of values for one new point: all columns of its neighbours."""
        return (self.count + 2) * (self.points.shape[1] + 4)

    def new(self, rows: Any) -> NewEdges:
        """Return the edges of new points, sparse."""
        distances, nearest = nearest_points(self.points, rows, self.count + 1)
        n_rows = rows.shape[0]
        row_starts = np.arange(0, nearest.size + 1, self.count + 1)
        neighbor_entries = (np.full(nearest.size, 0.5), nearest.ravel(), row_starts)
        weights = sp.csr_array(
            neighbor_entries, shape=(n_rows, self.points.shape[0])
        ) + 0.5 * self._edges_within_radii(rows)
        first = nearest[:, 0]
        is_training_point = distances[:, 0] == 0.0
        if is_training_point.any():
            selection = sp.csr_array(
                (
                    np.ones(is_training_point.sum()),
                    (np.flatnonzero(is_training_point), first[is_training_point]),
                ),
                shape=weights.shape,
            )
            weights = (
                sp.diags_array((~is_training_point).astype(np.float64)) @ weights
                + selection @ self._edges
                + selection
            )
        weights = sp.csr_array(weights)
        self_loops = np.asarray(weights[np.arange(n_rows), first], dtype=np.float64).ravel()
        return NewEdges(weights, np.ones(n_rows), self_loops, first)

    @functools.cached_property
    def _radii(self) -> FloatArray:
        """Radius of each training point; a new point within the radius counts as a neighbour of it."""
        n = self.points.shape[0]
        if self.count + 2 > n:
            return np.full(n, np.inf)
        radii = np.empty(n)
        size = max(1, _BLOCK_SIZE // self.values_per_row())
        for start in range(0, n, size):
            block = slice(start, start + size)
            distances, _ = nearest_points(self.points, self.points[block], self.count + 2)
            radii[block] = (distances[:, -2] + distances[:, -1]) / 2  # the first is the point itself
        return radii

    def _edges_within_radii(self, rows: Any) -> sp.csr_array:
        """Return ones where a new point lies within the radius of a training point, (N, n)."""
        n = self.points.shape[0]
        if self.points.shape[1] <= MAX_TREE_FEATURES:
            indices = cKDTree(rows).query_ball_point(self.points, self._radii, workers=effective_n_jobs(-1))
            sizes = np.fromiter(map(len, indices), dtype=np.intp, count=n)
            members = np.concatenate([np.asarray(part, dtype=np.intp) for part in indices])
            entries = (np.ones(len(members)), (members, np.repeat(np.arange(n), sizes)))
            return sp.csr_array(entries, shape=(len(rows), n))
        squared = self._radii**2
        size = max(1, _BLOCK_SIZE // n)
        blocks = [
            sp.csr_array(
                euclidean_distances(rows[start : start + size], self.points, squared=True) <= squared,
                dtype=np.float64,
            )
            for start in range(0, rows.shape[0], size)
        ]
        return sp.csr_array(sp.vstack(blocks, format="csr"))


def local_scales(squared: FloatArray) -> FloatArray:
    """Return the distance to the seventh neighbour of every row.

    Parameters
    ----------
    squared : ndarray (N, n)
        Squared distances to the training points. The nearest training point counts as the point itself, also
        for new points, so that a new point that equals a training point has the same scale.

    Returns
    -------
    ndarray (N,)
        Distances; if seven neighbours are equal to a point, the distance to the nearest different point.
    """
    rank = min(_NEIGHBOR_RANK, squared.shape[1] - 1)
    squared_distances: FloatArray = np.partition(squared, rank, axis=1)[:, rank]
    for i in np.flatnonzero(squared_distances <= 0.0):
        different = squared[i][squared[i] > 0.0]
        squared_distances[i] = different.min() if len(different) else 1.0
    return np.sqrt(squared_distances)


class HeatEdges:
    """A heat kernel of all pairs, ``exp(-|x - x'|^2 gamma)`` or ``exp(-|x - x'|^2 / (s s'))``.

    Parameters
    ----------
    points : ndarray or sparse array (n, D)
        Training points.
    gamma : float or None
        Decay per squared distance; None for a separate scale ``s`` of every row, by :func:`local_scales`.
    """

    def __init__(self, points: Any, gamma: float | None) -> None:
        self.points = points
        self.gamma = gamma
        self.scales: FloatArray | None = None
        if gamma is None:
            self.scales = local_scales(euclidean_distances(points, squared=True))

    def training(self, loops: bool) -> FloatArray:
        """Return the kernel, dense."""
        squared: FloatArray = euclidean_distances(self.points, squared=True)
        if self.scales is None:
            squared *= -float(self.gamma)  # type: ignore[arg-type]
        else:
            squared /= -np.outer(self.scales, self.scales)
        np.exp(squared, squared)
        np.fill_diagonal(squared, float(loops))
        return (squared + squared.T) * 0.5

    def values_per_row(self) -> int:
        """Return the number of training points."""
        return int(self.points.shape[0])

    def new(self, rows: Any) -> NewEdges:
        """Return the kernel relative to its maximum in each row."""
        squared = euclidean_distances(rows, self.points, squared=True)
        if self.scales is None:
            exponent = squared * float(self.gamma)  # type: ignore[arg-type]
        else:
            exponent = squared / np.outer(local_scales(squared), self.scales)
        return _relative_kernel(exponent)


class FunctionEdges:
    """Edge weights from a function of two arrays of rows.

    Parameters
    ----------
    points : ndarray (n, D)
        Training points.
    function : callable
        ``function(rows, points)`` returns nonnegative weights (N, n), dense or sparse.
    check : callable
        Function that validates the weights of the training points and returns them symmetric.
    """

    def __init__(self, points: FloatArray, function: Callable[..., Any], check: Callable[[Any], Any]) -> None:
        self.points = points
        self._function = function
        self._edges = check(self._weights(points))

    def training(self, loops: bool) -> Any:
        """Return the validated weights of the function, including self-loops."""
        return self._edges

    def values_per_row(self) -> int:
        """Return the number of training points."""
        return len(self.points)

    def new(self, rows: FloatArray) -> NewEdges:
        """Return the weights of new points; the function includes the weight of a point with itself."""
        return NewEdges.with_self_loops(self._weights(rows))

    def _weights(self, rows: FloatArray) -> Any:
        weights = self._function(rows, self.points)
        sparse = sp.issparse(weights)
        weights = sp.csr_array(weights) if sparse else np.asarray(weights, dtype=np.float64)
        if weights.shape != (len(rows), len(self.points)):
            raise ValueError(
                f"affinity(X, Y) must return one weight for each pair of a row of X and a row of Y, shape "
                f"({len(rows)}, {len(self.points)}); it returned shape {weights.shape}."
            )
        values: FloatArray = np.asarray(weights.data if sparse else weights)
        if not np.isfinite(values).all() or (values < 0).any():
            raise ValueError("affinity(X, Y) must return finite weights of at least 0.")
        return weights


def _relative_kernel(exponent: FloatArray) -> NewEdges:
    """Return ``exp(-exponent)`` relative to the maximum of each row."""
    nearest = exponent.argmin(axis=1).astype(np.intp)
    minimum = exponent[np.arange(len(exponent)), nearest]
    weights: FloatArray = np.exp(minimum[:, None] - exponent)
    return NewEdges(weights, np.exp(-minimum), np.ones(len(exponent)), nearest)


def nearest_points(points: Any, rows: Any, count: int) -> tuple[FloatArray, IntArray]:
    """Return distances (N, count), ascending, and the indices of the training points."""
    if points.shape[1] <= MAX_TREE_FEATURES:
        distances, indices = cKDTree(points).query(rows, count, workers=effective_n_jobs(-1))
        return np.reshape(distances, (-1, count)), np.reshape(indices, (-1, count)).astype(np.intp)
    nearest: IntArray = (
        NearestNeighbors(n_neighbors=count).fit(points).kneighbors(rows, return_distance=False)
    )
    if is_sparse(rows):
        differences = rows[np.repeat(np.arange(rows.shape[0]), count)] - points[nearest.ravel()]
        return _ascending(
            np.sqrt(np.asarray(differences.power(2).sum(axis=1)).reshape(nearest.shape)), nearest
        )
    # The search computes squared distances as differences, with cancellation. They are recomputed.
    distances = np.linalg.norm(rows[:, None, :] - points[nearest], axis=2)
    return _ascending(distances, nearest)


def _ascending(distances: FloatArray, nearest: IntArray) -> tuple[FloatArray, IntArray]:
    """Return distances and indices, sorted in each row."""
    order = np.argsort(distances, axis=1, kind="stable")
    return np.take_along_axis(distances, order, 1), np.take_along_axis(nearest, order, 1).astype(np.intp)


# ---- Nystroem extension of eigenvectors of a graph to new points
#
# A coordinate of the random walk satisfies ``(1 - lambda) d_i y_i = sum_j W_ij y_j``. The coordinate of a new
# point with edges ``w_j`` to the training points satisfies the same equation (Bengio et al. 2004, NIPS 16).
# If ``W`` has no self-loops, the edge ``w_o`` to the nearest training point corresponds to the self-loop and
# is excluded from the degree. Adding ``w_o y`` to both sides of the equation gives
#
#     y(x) = sum_j w_j y_j / (w_o + (1 - lambda) (sum_j w_j - w_o)).
#
# For the edges of a training point and the weight ``w_o`` of its self-loop, this is the coordinate of that
# point. It is a continuous function of the weights.


# A new point equals a training point only if the weight of its self-loop is within this tolerance of 1.
_COINCIDENCE_TOL = 1e-6
_MIN_DENOMINATOR = 1e-2
_MIN_EIGENVALUE = 1e-8  # of 1 - lambda; rounding errors dominate smaller values


def extend_random_walk(
    edges: NewEdges, vectors: FloatArray, eigenvalues: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Extend right eigenvectors of a random walk.

    Parameters
    ----------
    edges : NewEdges
        Edges of N new points to n training points.
    vectors : ndarray (n, K)
        ``y``.
    eigenvalues : ndarray (K,)
        ``lambda`` of the Laplacian: 1 minus the eigenvalue of the random walk.

    Returns
    -------
    ndarray (N, K)
        Coordinates of the new points.
    ndarray (N,)
        Degrees of the new points, without self-loops.

    Raises
    ------
    ValueError
        If a point has no edge. Also if a coordinate has the eigenvalue 1 and no self-loop is excluded from
        the degrees (``self_loops`` are zero).
    """
    degrees = np.asarray(edges.weights.sum(axis=1)).ravel()
    mean = np.asarray(edges.weights @ vectors)
    if not (degrees > 0).all():
        raise ValueError(f"X[{int(np.argmin(degrees))}] has no affinity to any training point.")
    others = np.maximum(degrees - edges.self_loops, 0.0)
    decay = 1.0 - eigenvalues
    if (edges.nearest >= 0).all() and edges.self_loops.all():
        # For lambda > 1 the denominator could vanish. The weight w_o, whose choice is arbitrary, is therefore
        # increased.
        mean = mean + np.outer(others, np.maximum(-decay, 0.0)) * vectors[edges.nearest]
        decay = np.maximum(decay, 0.0)
    elif (np.abs(decay) < _MIN_EIGENVALUE).any():
        raise ValueError(
            f"Component {int(np.argmin(np.abs(decay)))} has the eigenvalue 1 and cannot be extended to new "
            "points. Use fewer components."
        )
    return mean / (edges.self_loops[:, None] + np.outer(others, decay)), others * edges.scale


def extend_unnormalized(edges: NewEdges, vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    """Extend eigenvectors of ``L = D - W``, which does not depend on self-loops.

    Parameters
    ----------
    edges : NewEdges
        Edges of N new points to n training points.
    vectors : ndarray (n, K)
        ``y``.
    eigenvalues : ndarray (K,)
        ``lambda`` with ``L y = lambda y``.

    Returns
    -------
    ndarray (N, K)
        Coordinates of the new points.

    Raises
    ------
    ValueError
        If a point has no edge, or a point that is not a training point has a degree of at most an eigenvalue.
    """
    degrees = np.asarray(edges.weights.sum(axis=1)).ravel()
    if not (degrees > 0).all():
        raise ValueError(f"X[{int(np.argmin(degrees))}] has no affinity to any training point.")
    self_weights = edges.self_loops * edges.scale
    denominator = (degrees * edges.scale)[:, None] - eigenvalues
    # At a training point, numerator and denominator are zero, and the coordinate of the embedding is
    # returned.
    is_training_point = (
        (denominator <= _MIN_DENOMINATOR)
        & (self_weights >= 1.0 - _COINCIDENCE_TOL)[:, None]
        & (edges.nearest >= 0)[:, None]
    )
    if ((denominator <= 0) & ~is_training_point).any():
        i, k = np.argwhere((denominator <= 0) & ~is_training_point)[0]
        raise ValueError(
            f"X[{i}] has the degree {degrees[i] * edges.scale[i]:g}, which is not above eigenvalue {k} "
            f"({eigenvalues[k]:g}), so the unnormalized embedding cannot be extended to this point. Use "
            "normalization='random_walk'."
        )
    extended = (
        np.asarray(edges.weights @ vectors)
        * edges.scale[:, None]
        / np.where(is_training_point, 1.0, denominator)
    )
    return np.where(is_training_point, vectors[edges.nearest], extended)
