"""Selection of the regularization of kernel SFA by cross-validation, in time or on a graph.

In time, folds are consecutive rows. Moments of the training rows are sums of moments of folds, so that every
kernel value is computed once. On a graph, vertices are assigned to folds in turn, and each fold requires the
graphs of its training and held-out vertices. Support vectors in the held-out fold are not used for training.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs._named import build_graph
from probsfa.graphs._sparse import from_sparse
from probsfa.graphs.moments import Moments
from probsfa.graphs.training_graph import GraphMoments, TrainingGraph, graph_moments
from probsfa.linalg import RankError
from probsfa.sfa._expand import held_out_delta, noise_delta
from probsfa.sfa.kernel.problem import BorderDifferences, make_problem, merge_folds, select_functions, solve

__all__ = ["HeldOutPath", "HeldOutSplit", "graph_splits", "held_out_path", "temporal_splits"]

IntArray = NDArray[np.intp]

# Regularizations whose mean delta value is within 2 % of the smallest one are treated as equally good: five
# folds do not resolve smaller differences. The smallest of these regularizations is selected; without
# overfitting, this is zero.
_MAX_DELTA_RATIO = 1.02


class HeldOutSplit(NamedTuple):
    """One split of the rows into training and held-out rows.

    Attributes
    ----------
    train, test : Moments or GraphMoments
        Moments of the same kernel functions on training rows and on held-out rows.
    functions : ndarray (m_f,) of int
        Indices of the kernel functions whose support vectors are not held out.
    """

    train: Moments | GraphMoments
    test: Moments | GraphMoments
    functions: IntArray


class HeldOutPath(NamedTuple):
    """Slowness of K outputs on the held-out rows of F splits, for P regularizations.

    Attributes
    ----------
    changes : ndarray (F, P, K)
        Mean squared change of every output on the held-out rows.
    squares : ndarray (F, P, K)
        Mean square of every output on the held-out rows, about its mean over the training rows.
    """

    changes: FloatArray
    squares: FloatArray

    @property
    def delta_values(self) -> FloatArray:
        """Delta values on held-out rows, (P, K); see :func:`held_out_delta`."""
        return held_out_delta(self.changes, self.squares)

    def choose(self, n_rows: int) -> int:
        """Return the index of the smallest regularization with nearly the smallest mean delta value.

        If no output is slower than white noise, differences are random. The last index is then returned,
        because outputs with the smallest norm overfit least.
        """
        mean = self.delta_values.mean(axis=1)
        if mean.min() > noise_delta(n_rows):
            return len(mean) - 1
        return int(np.argmax(mean <= _MAX_DELTA_RATIO * mean.min()))


def temporal_splits(
    parts: list[Moments], borders: BorderDifferences, folds: list[slice], support: NDArray[Any]
) -> Iterator[HeldOutSplit]:
    """Yield the splits that hold out one fold each.

    Parameters
    ----------
    parts : list of Moments
        Moments of the kernel functions on every fold.
    borders : BorderDifferences
        Differences between folds.
    folds : list of slice
        The folds.
    support : ndarray (m,) of int, or ndarray (m, D)
        Rows that are support vectors, or other points.
    """
    if len(folds) < 2:
        return
    for fold_index, fold in enumerate(folds):
        if support.ndim == 1:
            functions = np.flatnonzero((support < fold.start) | (support >= fold.stop))
        else:
            functions = np.arange(len(support))
        train = merge_folds(parts, borders, without=fold_index, functions=functions)
        yield HeldOutSplit(train, select_functions(parts[fold_index], functions), functions)


def held_out_path(
    splits: Iterable[HeldOutSplit],
    gram: FloatArray,
    n_components: int,
    regularizations: FloatArray,
    rank_tol: float | None = None,
) -> HeldOutPath | None:
    """Fit the outputs for every regularization to training rows, and compute slowness on held-out rows.

    Parameters
    ----------
    splits : iterable of HeldOutSplit
        Splits into training and held-out rows.
    gram : ndarray (m, m)
        Kernel between the support vectors.
    n_components : int
        Number of outputs.
    regularizations : ndarray (P,)
        Values of ``lambda``.
    rank_tol : float, optional
        As in :func:`probsfa.sfa.kernel.problem.make_problem`.

    Returns
    -------
    HeldOutPath or None
        None if training or held-out rows of every split are insufficient.
    """
    changes, squares = [], []
    for train, test, functions in splits:
        if len(functions) < 2:
            continue
        try:
            problem = make_problem(train, gram[np.ix_(functions, functions)], rank_tol)
            A = np.array(
                [solve(problem, n_components, float(value)).coefficients for value in regularizations]
            )
            difference_moment, covariance = test.difference_moment, test.covariance
        except (RankError, ValueError):  # training or held-out rows without variation or difference
            continue
        changes.append(np.einsum("pik,pik->pk", A, difference_moment @ A))
        squares.append(np.einsum("pik,pik->pk", A, covariance @ A) + ((test.mean - train.mean) @ A) ** 2)
    if not changes:
        return None
    return HeldOutPath(np.maximum(changes, 0.0), np.maximum(squares, 0.0))


# ---- splits of the vertices of a training graph, for slowness on held-out vertices


_MAX_VERTICES = 5000  # a graph may have as many edges as the square of the number of vertices


def graph_splits(
    graph_option: Any,
    graph: TrainingGraph,
    X: FloatArray,
    y: Any,
    features: FloatArray,
    support: NDArray[Any],
    n_folds: int,
) -> Iterator[HeldOutSplit]:
    """Yield splits that hold out one of `n_folds` sets of vertices each.

    Vertices are assigned to the sets in turn, in the order of the labels, or of the rows without labels.

    Parameters
    ----------
    graph_option : TrainingGraph, builder, str or callable
        The parameter `graph` of an estimator. For a TrainingGraph, the subgraph of the training vertices is
        used.
    graph : TrainingGraph
        The graph of all samples.
    X : ndarray (N, D)
        Samples.
    y : array-like (N,) or None
        Labels.
    features : ndarray (N, m)
        Kernel functions of the samples.
    support : ndarray (m,) of int, or ndarray (m, D)
        Samples that are support vectors, or other points.
    n_folds : int
        Number of splits.

    Raises
    ------
    ValueError
        If a TrainingGraph has too many vertices for an explicit subgraph.
    """
    if isinstance(graph_option, TrainingGraph) and graph.n_vertices > _MAX_VERTICES:
        raise ValueError(
            f"regularization='auto' requires subgraphs, and this graph has {graph.n_vertices} vertices "
            f"(limit {_MAX_VERTICES}). Pass graph as a name or as a function of (X, y), or regularization as "
            "a number."
        )
    n = len(X)
    labels = None if y is None else np.asarray(y)
    order = np.arange(n) if labels is None or labels.ndim != 1 else np.argsort(labels, kind="stable")
    fold = np.empty(n, dtype=np.intp)
    fold[order] = np.arange(n) % n_folds
    for fold_index in range(n_folds):
        train_rows, test_rows = np.flatnonzero(fold != fold_index), np.flatnonzero(fold == fold_index)
        if support.ndim == 1:
            functions = np.flatnonzero(fold[support] != fold_index)
        else:
            functions = np.arange(len(support))
        try:
            graphs = [_subgraph(graph_option, graph, X, labels, rows) for rows in (train_rows, test_rows)]
        except ValueError:  # too few vertices, or no edge
            continue
        train, test = (
            graph_moments(part, features[np.ix_(rows, functions)])
            for part, rows in zip(graphs, (train_rows, test_rows), strict=True)
        )
        yield HeldOutSplit(train, test, functions)


def _subgraph(
    graph_option: Any, graph: TrainingGraph, X: FloatArray, y: Any, rows: NDArray[np.intp]
) -> TrainingGraph:
    """Return the graph of some of the samples."""
    if isinstance(graph_option, TrainingGraph):
        return from_sparse(graph.to_sparse()[rows][:, rows], node_weights=graph.node_weights[rows])
    return build_graph(graph_option, X[rows], None if y is None else y[rows])
