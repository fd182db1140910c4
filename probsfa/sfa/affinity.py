"""From the input of an estimator on graphs to the edge weights of its points.

Edges come from nearest neighbours (weight 1 where each of two points is among the nearest of the other, 1/2
where only one is), from a heat kernel ``exp(-gamma |x - x'|^2)`` of all pairs, of all pairs through landmarks
where there are very many points, from a function of two arrays of rows, or ready-made: as an affinity, as
distances of which the smallest are taken, or as a training graph. All are checked here.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import validate_data

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.graphs._rows import exact_shift
from probsfa.graphs._sparse import TREE_FEATURES
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.sfa.bandwidth import check_gamma, choose_gamma
from probsfa.sfa.edges import DistanceEdges, Edges, FunctionEdges, HeatEdges, NeighborEdges, NewEdges
from probsfa.sfa.landmarks import LandmarkEdges
from probsfa.sfa.laplacian import is_sparse

__all__ = [
    "AffinityGraph",
    "NewPoints",
    "affinity_graph",
    "affinity_rows",
    "affinity_tags",
    "check_affinity",
    "neighbor_count",
    "new_edges",
]


_DEFAULT_NEIGHBORS = 10
_SYMMETRY_TOL = 1e-10  # relative to the largest weight
_AFFINITIES = ("nearest_neighbors", "rbf", "precomputed", "precomputed_nearest_neighbors")
_MOST_PAIRWISE = 20_000  # points beyond which "auto" takes landmarks: the kernel would take 3 GB and more
_AUTO_LANDMARKS = 1000
_EXTENSION_BLOCK = 2**22  # numbers held at a time for the edges of new points


class NewPoints(NamedTuple):
    """How new points are joined to the training points.

    Attributes
    ----------
    edges : Edges or None
        Joins them; None where only ready-made edges can.
    shift : ndarray (D,)
        What is subtracted from all points, so that a large offset costs no digits of their distances.
    loops : bool
        Whether the training graph has its self-loops.
    """

    edges: Edges | None
    shift: FloatArray
    loops: bool


class AffinityGraph(NamedTuple):
    """What an estimator on graphs works on.

    Attributes
    ----------
    sequences : Sequences or None
        The checked points; None where edges or distances came in.
    weights : sparse array, ndarray or LowRankAffinity (n, n)
        Edge weights.
    new : NewPoints
        Joins new points.
    """

    sequences: Sequences | None
    weights: Any
    new: NewPoints


def affinity_graph(estimator: Any, X: Any, *, heat_loops: bool = False, loops: bool = False) -> AffinityGraph:
    """Check the input of an estimator on graphs and return its edges.

    Parameters
    ----------
    estimator : scikit-learn estimator
        With the parameters `affinity`, `n_neighbors`, `gamma` and `n_landmarks`.
    X : array-like, list of array-likes, sparse matrix or TrainingGraph
        As in the estimator's ``fit``.
    heat_loops, loops : bool, default=False
        Whether a heat kernel, or any graph made from points, has its self-loops, of weight 1.

    Returns
    -------
    AffinityGraph
        Points, edge weights, and what joins new points.
    """
    _check_parameters(estimator)
    affinity = estimator.affinity
    nothing = np.zeros(0, dtype=np.float64)
    if isinstance(X, TrainingGraph) or _is(affinity, "precomputed"):
        return AffinityGraph(None, _ready_made(estimator, X), NewPoints(None, nothing, True))
    if _is(affinity, "precomputed_nearest_neighbors"):
        distances = sp.csr_array(affinity_rows(estimator, X, ensure_min_samples=2, ensure_min_features=2))
        if distances.shape[0] != distances.shape[1]:
            raise ValueError(
                "X must be a square matrix of distances with affinity='precomputed_nearest_neighbors'; got "
                f"shape {distances.shape}."
            )
        ready = DistanceEdges(distances, neighbor_count(estimator, distances.shape[0]))
        return AffinityGraph(None, ready.training(loops), NewPoints(ready, nothing, loops))
    if is_sparse(X) and _by_distance(affinity):
        points = _sparse_points(estimator, X, reset=True)
        edges = _edges_of_points(estimator, points)
        with_loops = loops or (heat_loops and affinity == "rbf")
        return AffinityGraph(None, edges.training(with_loops), NewPoints(edges, nothing, with_loops))
    sequences = check_sequences(estimator, X, reset=True, allow_nan=False, min_rows=2)
    if isinstance(affinity, TrainingGraph):
        if affinity.n_vertices != sequences.n_rows:
            raise ValueError(
                f"affinity is a graph of {affinity.n_vertices} vertices; X has {sequences.n_rows} rows; both "
                "must agree."
            )
        return AffinityGraph(sequences, affinity.to_sparse(), NewPoints(None, nothing, True))
    # A function may depend on the origin; distances do not.
    shift = np.zeros(sequences.n_features) if callable(affinity) else exact_shift(sequences.values)
    edges = _edges_of_points(estimator, sequences.values - shift)
    with_loops = loops or (heat_loops and _is(affinity, "rbf"))
    return AffinityGraph(sequences, edges.training(with_loops), NewPoints(edges, shift, with_loops))


def new_edges(
    estimator: Any, X: Any, new: NewPoints
) -> tuple[Sequences | None, int, Iterator[tuple[slice, NewEdges]]]:
    """Check new points and return their number and their edges to the training points, block by block."""
    edges = new.edges
    if edges is None or isinstance(edges, DistanceEdges):
        if isinstance(estimator.affinity, TrainingGraph):
            raise ValueError(
                "A graph given as affinity has no edges to new points. Give their edge weights, with "
                "affinity='precomputed'."
            )
        W = affinity_rows(estimator, X, reset=False)
        joined = NewEdges.ready(W) if edges is None else _joined(edges, sp.csr_array(W), new.loops)
        return None, W.shape[0], iter([(slice(None), joined)])
    size = max(1, _EXTENSION_BLOCK // edges.cells_per_row())
    sparse = _by_distance(estimator.affinity) and (is_sparse(X) or not len(new.shift))
    sequences = None if sparse else check_sequences(estimator, X, reset=False, allow_nan=False)
    if sequences is None:
        rows: Any = _sparse_points(estimator, X, reset=False)
        if len(new.shift) and is_sparse(rows):
            rows = rows.toarray()  # what it was fitted on was dense
    else:
        rows = sequences.values

    def blocks() -> Iterator[tuple[slice, NewEdges]]:
        for start in range(0, rows.shape[0], size):
            block = slice(start, start + size)
            moved = rows[block] - new.shift if len(new.shift) else rows[block]
            yield block, _joined(edges, moved, new.loops)

    return sequences, rows.shape[0], blocks()


def _joined(edges: Edges, rows: Any, loops: bool) -> NewEdges:
    """Return the edges of new points to a training graph with or without its self-loops."""
    joined = edges.new(rows)
    return joined._replace(own=np.zeros_like(joined.own)) if loops else joined


def affinity_rows(estimator: Any, X: Any, **options: Any) -> Any:
    """Check rows of a ready-made affinity, dense or sparse; the options are those of scikit-learn's check."""
    if isinstance(X, np.ma.MaskedArray):
        X = as_float_array(X, "X")  # what is masked is missing, which the check refuses
    return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, **options)


def affinity_tags(tags: Any, affinity: Any) -> Any:
    """Return scikit-learn's tags of an estimator with what it accepts instead of points."""
    ready = _is(affinity, "precomputed")
    tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = ready
    if _is(affinity, "precomputed_nearest_neighbors"):
        tags.input_tags.pairwise = tags.input_tags.sparse = tags.input_tags.positive_only = True
    if _by_distance(affinity):
        tags.input_tags.sparse = True
    return tags


def neighbor_count(estimator: Any, n: int) -> int:
    """Return how many of n points each is joined to, itself not counted."""
    count = estimator.n_neighbors
    if count is None:  # all of few points would be a complete graph, in which no point is nearer than others
        count = _DEFAULT_NEIGHBORS if n > _DEFAULT_NEIGHBORS else max(2, (n + 1) // 2)
    if count > n:
        raise ValueError(f"n_neighbors={count} is more than the {n} points of X.")
    return int(count) - 1


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
    return W * 0.5 + W.T * 0.5  # halves first: the sum of two large weights may overflow


def _is(affinity: Any, name: str) -> bool:
    """Tell whether an affinity is given by a name."""
    return isinstance(affinity, str) and affinity == name


def _by_distance(affinity: Any) -> bool:
    """Tell whether edges come from distances between points, which products give for sparse ones as well."""
    return _is(affinity, "nearest_neighbors") or _is(affinity, "rbf")


def _sparse_points(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Check a sparse matrix of points; return it dense where it has so few columns that a tree serves."""
    points = validate_data(
        estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_min_samples=2 if reset else 1
    )
    few = points.shape[1] <= TREE_FEATURES
    if is_sparse(points) and few:
        return points.toarray()
    return points if few else sp.csr_array(points)


def _ready_made(estimator: Any, X: Any) -> Any:
    """Return the edge weights of a training graph, or of an affinity after a check."""
    if isinstance(X, TrainingGraph):
        if not _is(estimator.affinity, "precomputed"):
            raise ValueError(
                "X is a graph: give affinity='precomputed', or points as X and the graph as affinity."
            )
        X = X.to_sparse()
    W = affinity_rows(estimator, X, ensure_min_samples=2, ensure_min_features=2)
    return check_affinity(sp.csr_array(W) if is_sparse(W) else W)


def _edges_of_points(estimator: Any, points: Any) -> Edges:
    """Return what joins points, old and new."""
    affinity, n = estimator.affinity, points.shape[0]
    if callable(affinity):
        return FunctionEdges(points, affinity, check_affinity)
    if affinity == "nearest_neighbors":
        return NeighborEdges(points, neighbor_count(estimator, n))
    wanted = estimator.n_landmarks
    if isinstance(estimator.gamma, str) and estimator.gamma == "self_tuning":
        if isinstance(wanted, int):
            raise ValueError("gamma='self_tuning' cannot be had through landmarks; use n_landmarks=None.")
        return HeatEdges(points, None)
    gamma = choose_gamma(estimator.gamma, points)
    if wanted == "auto":
        wanted = _AUTO_LANDMARKS if n > _MOST_PAIRWISE else None
    return HeatEdges(points, gamma) if wanted is None else LandmarkEdges(points, gamma, wanted)


def _check_parameters(estimator: Any) -> None:
    """Check `affinity`, `n_neighbors`, `gamma` and `n_landmarks` of an estimator."""
    affinity = estimator.affinity
    if not isinstance(affinity, TrainingGraph) and not callable(affinity):
        check_option("affinity", affinity, _AFFINITIES)
    if estimator.n_neighbors is not None:
        check_count("n_neighbors", estimator.n_neighbors, minimum=2)
    check_gamma(estimator.gamma)
    wanted = estimator.n_landmarks
    if wanted is not None and wanted != "auto":
        check_count("n_landmarks", wanted)
