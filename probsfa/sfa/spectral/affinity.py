"""Affinities of points: nearest-neighbour graphs, heat kernels and their bandwidths.

Edge weights are computed by one of three methods. Nearest neighbours have weight 1 if each point is a
neighbour of the other, 1/2 if only one is. A heat kernel ``exp(-gamma |x - x'|^2)`` has all pairs as edges. A
function of two arrays of rows returns any weights. Users can also pass an affinity matrix or a training
graph. This module validates all kinds of input.
"""

import abc
import math
import numbers
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils.validation import check_is_fitted, validate_data

from probsfa._arrays import as_float_array
from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_memory, check_option, check_sequences
from probsfa.graphs._rows import exact_shift
from probsfa.graphs._sparse import MAX_TREE_FEATURES
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.sfa.spectral.edges import (
    Edges,
    FunctionEdges,
    HeatEdges,
    NeighborEdges,
    NewEdges,
    nearest_points,
)
from probsfa.sfa.spectral.laplacian import is_sparse

__all__ = [
    "GAMMA_RULES",
    "AffinityEstimator",
    "AffinityGraph",
    "Embedding",
    "NewPoints",
    "affinity_graph",
    "affinity_rows",
    "check_affinity",
    "check_gamma",
    "choose_gamma",
    "n_other_neighbors",
    "new_edges",
]

# ---- rules for the width of a heat kernel ``exp(-gamma |x - x'|^2)``
#
# ``"median"``
#     ``gamma = 1 / (2 m)`` with ``m`` the median squared distance of two points (Garreau, Jitkrittum &
#     Kanagawa 2017, arXiv:1707.07269, eq. 2). The kernel is as wide as the data, so that it does not resolve
#     structure that is much finer than half of the data.
# ``"neighbors"``
#     ``gamma = 1 / (2 m)`` with ``m`` the mean squared distance to the neighbour number ``3/4 sqrt(n)``:
#     about the usual number for nearest-neighbour density estimates, ``sqrt(n)`` (Loftsgaarden & Quesenberry
#     1965, doi:10.1214/aoms/1177700079). The kernel becomes narrower with more points, as convergence to the
#     manifold of the points requires. The factor was fitted to circles and spheres of 500 to 2,000 points.
# ``"self_tuning"``
#     A separate scale for each point, ``exp(-|x - x'|^2 / (s s'))`` with ``s`` the distance to the seventh
#     neighbour (Zelnik-Manor & Perona 2004, NIPS 17): for clusters of different density.


GAMMA_RULES = ("median", "neighbors", "self_tuning")

_MAX_ROWS = 2000  # of more rows, the rules use a random sample of this size, with a fixed seed


def check_gamma(gamma: Any) -> None:
    """Raise a ValueError unless a `gamma` is a positive number, the name of a rule or None."""
    if gamma is None or (isinstance(gamma, str) and gamma in GAMMA_RULES):
        return
    if isinstance(gamma, bool) or not (isinstance(gamma, numbers.Real) and 0 < float(gamma) < np.inf):
        raise ValueError(
            f"gamma must be a positive number, None or one of the rules "
            f"{', '.join(map(repr, GAMMA_RULES))}; got {gamma!r}."
        )


def choose_gamma(gamma: Any, points: Any) -> float:
    """Return the ``gamma`` of a rule, the number itself, or ``1 / n_features`` for None.

    Parameters
    ----------
    gamma : float, {"median", "neighbors"} or None
        Validated value.
    points : ndarray or sparse array (n, D)
        Training points. If there are more than 2,000, a sample of 2,000 is used.

    Returns
    -------
    float
        The decay ``gamma``; ``1 / n_features`` if all points are equal.
    """
    if gamma is None:
        return 1.0 / points.shape[1]
    if not isinstance(gamma, str):
        return float(gamma)
    rows = points
    if points.shape[0] > _MAX_ROWS:
        rows = points[np.sort(np.random.default_rng(0).choice(points.shape[0], _MAX_ROWS, replace=False))]
    if gamma == "median":
        squared = euclidean_distances(rows, squared=True)[np.triu_indices(rows.shape[0], 1)]
        typical_square = float(np.median(squared))
    else:
        count = math.ceil(0.75 * math.sqrt(points.shape[0])) + 1
        distances, _ = nearest_points(points, rows, min(count, points.shape[0]))
        squared = distances[:, -1] ** 2  # the first of `count` points is the point itself
        typical_square = float(np.mean(squared))
    if typical_square == 0.0:
        positive = squared[squared > 0.0]
        typical_square = float(np.median(positive)) if len(positive) else points.shape[1] / 2.0
    return 1.0 / (2.0 * typical_square)


# ---- edge weights of the points from the input of a graph estimator


_DEFAULT_N_NEIGHBORS = 10
_SYMMETRY_TOL = 1e-10  # relative to the largest weight
_AFFINITIES = ("nearest_neighbors", "rbf", "precomputed")
_N_MATRICES = 3  # matrices of the size of the heat kernel in memory at a time
_EXTENSION_BLOCK = 2**22  # numbers in memory for the edges of a block of new points


class NewPoints(NamedTuple):
    """Data for edges between new points and the training points.

    Attributes
    ----------
    edges : Edges or None
        Method for the edges; None if edges of new points must be precomputed.
    shift : ndarray (D,)
        Shift subtracted from all points, because a large offset would make distances inaccurate.
    loops : bool
        Whether the training graph includes self-loops.
    """

    edges: Edges | None
    shift: FloatArray
    loops: bool


class AffinityGraph(NamedTuple):
    """Input data of a graph estimator.

    Attributes
    ----------
    sequences : Sequences or None
        The validated points; None for precomputed edges.
    weights : sparse array or ndarray (n, n)
        Edge weights.
    new : NewPoints
        Data for edges of new points.
    """

    sequences: Sequences | None
    weights: Any
    new: NewPoints


def affinity_graph(estimator: Any, X: Any, *, heat_loops: bool = False, loops: bool = False) -> AffinityGraph:
    """Validate the input of a graph estimator and return its edges.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Estimator with the parameters `affinity`, `n_neighbors` and `gamma`.
    X : array-like, list of array-likes, sparse matrix or TrainingGraph
        As in the estimator's ``fit``.
    heat_loops, loops : bool, default=False
        Whether a heat kernel (`heat_loops`), or any graph of points (`loops`), has self-loops of weight 1.

    Returns
    -------
    AffinityGraph
        Points, edge weights, and data for edges of new points.
    """
    _check_parameters(estimator)
    affinity = estimator.affinity
    zeros = np.zeros(0, dtype=np.float64)
    if isinstance(X, TrainingGraph) or _has_name(affinity, "precomputed"):
        return AffinityGraph(None, _precomputed_weights(estimator, X), NewPoints(None, zeros, True))
    if is_sparse(X) and _uses_distances(affinity):
        points = _sparse_points(estimator, X, reset=True)
        edges = _edges_of_points(estimator, points)
        with_loops = loops or (heat_loops and affinity == "rbf")
        return AffinityGraph(None, edges.training(with_loops), NewPoints(edges, zeros, with_loops))
    sequences = check_sequences(estimator, X, reset=True, allow_nan=False, min_rows=2)
    if isinstance(affinity, TrainingGraph):
        if affinity.n_vertices != sequences.n_rows:
            raise ValueError(
                f"affinity is a graph of {affinity.n_vertices} vertices; X has {sequences.n_rows} rows. Use "
                "a graph with one vertex for each row."
            )
        return AffinityGraph(sequences, affinity.to_sparse(), NewPoints(None, zeros, True))
    # A function may depend on the origin, unlike distances.
    shift = np.zeros(sequences.n_features) if callable(affinity) else exact_shift(sequences.values)
    edges = _edges_of_points(estimator, sequences.values - shift)
    with_loops = loops or (heat_loops and _has_name(affinity, "rbf"))
    return AffinityGraph(sequences, edges.training(with_loops), NewPoints(edges, shift, with_loops))


def new_edges(
    estimator: Any, X: Any, new: NewPoints
) -> tuple[Sequences | None, int, Iterator[tuple[slice, NewEdges]]]:
    """Validate new points; return them as sequences or None, their number, and blocks of their edges."""
    edges = new.edges
    if edges is None:
        if isinstance(estimator.affinity, TrainingGraph):
            raise ValueError(
                "affinity is a TrainingGraph, which has no edges to new points. Fit with "
                "affinity='precomputed', and pass the edge weights of new points to the training points as X."
            )
        W = affinity_rows(estimator, X, reset=False)
        return None, W.shape[0], iter([(slice(None), NewEdges.with_self_loops(W))])
    size = max(1, _EXTENSION_BLOCK // edges.values_per_row())
    sparse = _uses_distances(estimator.affinity) and (is_sparse(X) or not len(new.shift))
    sequences = None if sparse else check_sequences(estimator, X, reset=False, allow_nan=False)
    if sequences is None:
        rows: Any = _sparse_points(estimator, X, reset=False)
        if len(new.shift) and is_sparse(rows):
            rows = rows.toarray()  # because the training points were dense
    else:
        rows = sequences.values

    def blocks() -> Iterator[tuple[slice, NewEdges]]:
        for start in range(0, rows.shape[0], size):
            block = slice(start, start + size)
            shifted = rows[block] - new.shift if len(new.shift) else rows[block]
            yield block, _edges_to_graph(edges, shifted, new.loops)

    return sequences, rows.shape[0], blocks()


def _edges_to_graph(edges: Edges, rows: Any, loops: bool) -> NewEdges:
    """Return the edges of new points to a training graph with or without self-loops."""
    joined = edges.new(rows)
    return joined._replace(self_loops=np.zeros_like(joined.self_loops)) if loops else joined


def affinity_rows(estimator: Any, X: Any, **options: Any) -> Any:
    """Validate rows of a precomputed affinity, dense or sparse, with options of scikit-learn's function."""
    if isinstance(X, np.ma.MaskedArray):
        X = as_float_array(X, "X")  # masked values become NaN, which the validation rejects
    return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, **options)


class AffinityEstimator(Saveable):
    """Mixin of estimators on affinity graphs of points, with an extension to new points."""

    affinity: Any
    gamma: Any
    embedding_: FloatArray
    _new: NewPoints
    _last_attribute = "embedding_"  # the last attribute that `fit` sets

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the estimator to training points.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            Points; the members of a list are concatenated. A sparse matrix of points is supported if edges
            are computed from distances. A dense or sparse affinity, or a training graph, if
            ``affinity="precomputed"``.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter is out of range, an affinity is asymmetric or negative, a point without edges
            makes a normalized Laplacian undefined, or there are too few points.
        """
        self._fit(X)
        return self

    @abc.abstractmethod
    def _fit(self, X: Any) -> Sequences | None:
        """Fit; return the points as sequences, or None if X is a graph or a sparse matrix."""

    def _map_new(self, X: Any, mapped: Callable[[NewEdges], FloatArray]) -> tuple[Any, FloatArray]:
        """Return new points as sequences (or None), and the outputs of ``mapped`` for their edges."""
        check_is_fitted(self)
        sequences, n_rows, blocks = new_edges(self, X, self._new)
        outputs = np.empty((n_rows, self.embedding_.shape[1]), dtype=np.float64)
        for rows, edges in blocks:
            outputs[rows] = mapped(edges)
        return sequences, outputs

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether `fit` was completed."""
        return hasattr(self, self._last_attribute)

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn tags of the accepted input."""
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        is_precomputed = _has_name(self.affinity, "precomputed")
        tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = is_precomputed
        if _uses_distances(self.affinity):
            tags.input_tags.sparse = True
        return tags


class Embedding(AffinityEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of embeddings of points."""

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Embed the training points and return their coordinates, in the shape of the input.

        Parameters
        ----------
        X : array-like (n, D), list of array-likes (n_i, D), or affinity (n, n)
            As in :meth:`fit`.
        y : ignored

        Returns
        -------
        ndarray (n, K), or list of ndarrays (n_i, K)
            ``embedding_``.
        """
        sequences = self._fit(X)
        return self.embedding_ if sequences is None else sequences.restore(self.embedding_)

    @property
    def _n_features_out(self) -> int:
        return self.embedding_.shape[1]


def n_other_neighbors(estimator: Any, n: int) -> int:
    """Return the number of neighbours of each of n points, not counting the point itself."""
    count = estimator.n_neighbors
    if count is None:  # a complete graph of few points has no information on distances
        count = _DEFAULT_N_NEIGHBORS if n > _DEFAULT_N_NEIGHBORS else max(2, (n + 1) // 2)
    if count > n:
        raise ValueError(f"n_neighbors={count} is more than the {n} points of X.")
    return int(count) - 1


def check_affinity(W: Any) -> Any:
    """Return a precomputed affinity as a symmetric sparse or dense array.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Finite weights.

    Raises
    ------
    ValueError
        If it is not square, not symmetric, or has a negative weight; the message names the position.
    """
    if W.shape[0] != W.shape[1]:
        raise ValueError(
            f"X must be a square affinity matrix with affinity='precomputed'; got shape {W.shape}."
        )
    coo = sp.coo_array(W) if is_sparse(W) else None
    data = coo.data if coo is not None else W
    if data.size and data.min() < 0:
        position = int(np.argmin(data))
        i, j = (coo.row[position], coo.col[position]) if coo is not None else divmod(position, len(W))
        raise ValueError(
            f"Negative values in data: X[{i}, {j}] is {data.flat[position]:g}; affinities must be at least 0."
        )
    asymmetry = abs(W - W.T)
    if asymmetry.max() > _SYMMETRY_TOL * max(data.max(initial=0.0), np.finfo(np.float64).tiny):
        i, j = divmod(int(asymmetry.argmax()), W.shape[0])
        raise ValueError(
            f"X must be symmetric with affinity='precomputed'; X[{i}, {j}] is {W[i, j]:g} and X[{j}, {i}] "
            f"is {W[j, i]:g}. Use (X + X.T) / 2, for example."
        )
    return W * 0.5 + W.T * 0.5  # halves first: the sum of two large weights may overflow


def _has_name(affinity: Any, name: str) -> bool:
    """Return whether an affinity has a given name."""
    return isinstance(affinity, str) and affinity == name


def _uses_distances(affinity: Any) -> bool:
    """Return whether edges are computed from distances between points, which may be sparse."""
    return _has_name(affinity, "nearest_neighbors") or _has_name(affinity, "rbf")


def _sparse_points(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Validate a sparse matrix of points; return it dense if it has few enough columns for a k-d tree."""
    points = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2 if reset else 1
    )
    is_low_dimensional = points.shape[1] <= MAX_TREE_FEATURES
    if is_sparse(points) and is_low_dimensional:
        return points.toarray()
    return points if is_low_dimensional else sp.csr_array(points)


def _precomputed_weights(estimator: Any, X: Any) -> Any:
    """Return the edge weights of a training graph, or of a validated affinity."""
    if isinstance(X, TrainingGraph):
        if not _has_name(estimator.affinity, "precomputed"):
            raise ValueError(
                "X is a graph. Set affinity='precomputed', or pass points as X and the graph as affinity."
            )
        X = X.to_sparse()
    W = affinity_rows(estimator, X, ensure_min_samples=2, ensure_min_features=2)
    return check_affinity(sp.csr_array(W) if is_sparse(W) else W)


def _edges_of_points(estimator: Any, points: Any) -> Edges:
    """Return the edges between points, training and new."""
    affinity, n = estimator.affinity, points.shape[0]
    if callable(affinity):
        return FunctionEdges(points, affinity, check_affinity)
    if affinity == "nearest_neighbors":
        return NeighborEdges(points, n_other_neighbors(estimator, n))
    check_memory(
        8.0 * _N_MATRICES * n**2,
        f"The heat kernel of {n:,} points needs {{size}}",
        "Use affinity='nearest_neighbors'.",
    )
    if isinstance(estimator.gamma, str) and estimator.gamma == "self_tuning":
        return HeatEdges(points, None)
    return HeatEdges(points, choose_gamma(estimator.gamma, points))


def _check_parameters(estimator: Any) -> None:
    """Validate `affinity`, `n_neighbors` and `gamma` of an estimator."""
    affinity = estimator.affinity
    if not isinstance(affinity, TrainingGraph) and not callable(affinity):
        check_option("affinity", affinity, _AFFINITIES)
    if estimator.n_neighbors is not None:
        check_count("n_neighbors", estimator.n_neighbors, minimum=2)
    check_gamma(estimator.gamma)
    if estimator.n_landmarks not in ("deprecated", "auto", None):
        warnings.warn(
            "n_landmarks is ignored and will be removed in version 2.0: the heat kernel has all pairs of "
            "points. For very many points use affinity='nearest_neighbors'.",
            FutureWarning,
            stacklevel=5,
        )
