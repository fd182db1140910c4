"""Training graphs by name, built from the samples or their labels."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa.graphs._labels import LABEL_GRAPHS
from probsfa.graphs._nearest_neighbors import nearest_neighbors
from probsfa.graphs._temporal import temporal
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["NAMED_GRAPHS", "build_graph", "needs_labels"]

# The builders of this package that take labels have registered themselves when it was imported.
NAMED_GRAPHS = ("temporal", "nearest_neighbors", *LABEL_GRAPHS)


def needs_labels(graph: Any) -> bool:
    """Tell whether a graph given by name is built from labels."""
    return isinstance(graph, str) and graph in LABEL_GRAPHS


def _described(graph: Any) -> str:
    """What was given as a graph, and what makes one of it where it holds edge weights."""
    shape = getattr(graph, "shape", None)
    if shape is None:
        return f"{graph!r:.80}"
    return (
        f"a {type(graph).__name__} of shape {shape}. "
        "A matrix of edge weights becomes a graph by probsfa.graphs.from_sparse(W)"
    )


def build_graph(graph: Any, X: NDArray[np.float64], y: Any = None, *, lengths: Any = None) -> TrainingGraph:
    """Return a training graph of samples from the graph itself, its name, or a function that makes it.

    Parameters
    ----------
    graph : TrainingGraph, str or callable
        One of `NAMED_GRAPHS` means the graph with the default settings; a callable is called with (X, y).
    X : ndarray (N, D)
        Samples.
    y : array-like (N,), optional
        Labels.
    lengths : sequence of int, optional
        Samples of every sequence, for "temporal".

    Raises
    ------
    ValueError
        If the name is unknown, labels are missing, or the graph does not have one vertex per sample.
    """
    if isinstance(graph, TrainingGraph):
        built = graph
    elif callable(graph):
        built = graph(X, y)
        if not isinstance(built, TrainingGraph):
            raise ValueError(f"graph(X, y) must return a TrainingGraph; it returned {type(built).__name__}.")
    elif not isinstance(graph, str) or graph not in NAMED_GRAPHS:
        raise ValueError(
            f"graph must be a TrainingGraph, a function of (X, y) that returns one, or one of "
            f"{', '.join(map(repr, NAMED_GRAPHS))}; got {_described(graph)}."
        )
    elif graph == "temporal":
        built = temporal(len(X), lengths=lengths)
    elif graph == "nearest_neighbors":
        built = nearest_neighbors(X, min(10, len(X) - 1))
    elif y is None:
        raise ValueError(f"graph={graph!r} requires y to be passed, but the target y is None.")
    else:
        built = LABEL_GRAPHS[graph](y)
    if built.n_vertices != len(X):
        raise ValueError(f"graph has {built.n_vertices} vertices; X has {len(X)} rows; both must agree.")
    return built
