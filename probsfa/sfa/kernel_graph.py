"""Divisions of the vertices of a training graph, for slowness on vertices that a fit has not seen."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs._named import build_graph
from probsfa.graphs._sparse import from_sparse
from probsfa.graphs.training_graph import TrainingGraph, graph_moments
from probsfa.sfa.kernel_held_out import Held

__all__ = ["splits_of_graph"]

_MOST_VERTICES = 5000  # a graph of classes or windows may have the square of it in edges


def splits_of_graph(
    given: Any,
    graph: TrainingGraph,
    X: FloatArray,
    y: Any,
    features: FloatArray,
    support: NDArray[Any],
    n_folds: int,
) -> Iterator[Held]:
    """Leave out every so many-th vertex in the order of the labels, or of the rows where there are none.

    Parameters
    ----------
    given : TrainingGraph, builder, str or callable
        What makes a graph of samples; of a graph itself the edges among the vertices that are left are taken.
    graph : TrainingGraph
        The graph of all samples.
    X : ndarray (N, D)
        Samples.
    y : array-like (N,) or None
        Labels.
    features : ndarray (N, m)
        Kernel functions of the samples.
    support : ndarray (m,) of int, or ndarray (m, D)
        Samples that are support vectors, or support vectors that are none.
    n_folds : int
        Number of divisions.

    Raises
    ------
    ValueError
        If a graph is given that has too many vertices to take its edges apart.
    """
    if isinstance(given, TrainingGraph) and graph.n_vertices > _MOST_VERTICES:
        raise ValueError(
            f"regularization='auto' takes a graph apart, and this one has {graph.n_vertices} vertices, more "
            f"than {_MOST_VERTICES}. Give its name or a function of (X, y) that builds it, or a number as "
            "regularization."
        )
    n = len(X)
    labels = None if y is None else np.asarray(y)
    order = np.arange(n) if labels is None or labels.ndim != 1 else np.argsort(labels, kind="stable")
    fold = np.empty(n, dtype=np.intp)
    fold[order] = np.arange(n) % n_folds
    for at in range(n_folds):
        left, out = np.flatnonzero(fold != at), np.flatnonzero(fold == at)
        if support.ndim == 1:
            functions = np.flatnonzero(fold[support] != at)
        else:
            functions = np.arange(len(support))
        try:
            graphs = [_part(given, graph, X, labels, rows) for rows in (left, out)]
        except ValueError:  # too few vertices, or none that are joined
            continue
        train, test = (
            graph_moments(part, features[np.ix_(rows, functions)])
            for part, rows in zip(graphs, (left, out), strict=True)
        )
        yield Held(train, test, functions)


def _part(given: Any, graph: TrainingGraph, X: FloatArray, y: Any, rows: NDArray[np.intp]) -> TrainingGraph:
    """Return the graph of some of the samples."""
    if isinstance(given, TrainingGraph):
        return from_sparse(graph.to_sparse()[rows][:, rows], node_weights=graph.node_weights[rows])
    return build_graph(given, X[rows], None if y is None else y[rows])
