"""Graphs of several labels, and of partly labelled samples."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_consistent_length

from probsfa.graphs._combined import SubsetGraph, UnionGraph, union_of_normalized
from probsfa.graphs._labels import is_missing
from probsfa.graphs._named import build_graph, needs_labels
from probsfa.graphs._rows import check_rows
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["labelled_graph_on_all_rows", "multi_label", "semi_supervised"]


def multi_label(Y: Any, *, graph: Any = "serial", weights: Any = None, X: Any = None) -> UnionGraph:
    """Return the graph of several labels: the weighted sum of their graphs.

    The contribution of a label to the objective is proportional to its weight. A sample without a label has
    no vertex in the graph of that label.

    Parameters
    ----------
    Y : array-like (N, M) or sequence of M array-likes (N,)
        Labels in columns; NaN, None and NA are missing. A DataFrame may have columns of classes and of
        numbers.
    graph : str, builder or callable, or sequence of M such, default="serial"
        The graph of each label: a name, a builder such as ``Clustered()``, or a function of (X, y).
    weights : array-like (M,), optional
        Positive weight of every label in the objective; equal by default.
    X : array-like (N, D), optional
        Rows, which are passed to functions in `graph`.

    Returns
    -------
    TrainingGraph
        The weighted union of the graphs of the labels, each scaled to ``Q = R = 1``.

    Raises
    ------
    ValueError
        If a graph cannot be built from its labels, or fewer than two samples have a label.

    See Also
    --------
    union : Union of any graphs.
    exact_label : Graph whose free responses are the labels.
    semi_supervised : Graph of partly labelled samples.

    Examples
    --------
    >>> import numpy as np
    >>> Y = np.column_stack([[0, 1, 2, 3, 4, 5], [0, 1, 0, 1, 0, 1]])
    >>> graph = multi_label(Y, graph=["sliding_window", "clustered"], weights=[2, 1])
    >>> graph.is_consistent(), round(graph.R, 6)
    (True, 3.0)
    """
    columns = _columns(Y)
    kinds = list(graph) if isinstance(graph, (list, tuple)) else [graph] * len(columns)
    if len(kinds) != len(columns):
        raise ValueError(
            f"graph must be one graph, or a list of {len(columns)}, one for each label; got {len(kinds)}."
        )
    members = [
        labelled_graph_on_all_rows(kind, column, X) for kind, column in zip(kinds, columns, strict=True)
    ]
    return union_of_normalized(members, weights)


def labelled_graph_on_all_rows(graph: Any, y: Any, X: Any = None, *, missing: Any = None) -> TrainingGraph:
    """Return the graph of the labelled samples, extended to all samples.

    Parameters
    ----------
    graph : str, builder or callable
        Kind of graph, built from labels.
    y : array-like (N,)
        Labels; NaN, None and NA are missing.
    X : array-like (N, D), optional
        Rows, for a callable.
    missing : label, optional
        A label that means missing, besides NaN, None and NA.
    """
    if isinstance(graph, TrainingGraph) or not (needs_labels(graph) or callable(graph)):
        raise ValueError(
            "graph must be the name of a graph of labels, a builder, or a function of (X, y) that returns a "
            f"graph; got {graph!r:.80}."
        )
    labels = np.asarray(y)
    is_unlabelled = is_missing(labels)
    if missing is not None:
        is_unlabelled = is_unlabelled | (labels == missing)
    rows = np.flatnonzero(~is_unlabelled)
    if len(rows) < 2:
        raise ValueError(f"y has {len(rows)} labels that are not missing; a graph requires at least two.")
    values = np.empty((len(labels), 0)) if X is None else np.asarray(X)
    check_consistent_length(values, labels)
    labelled_graph = build_graph(graph, values[rows], labels[rows])
    return labelled_graph if len(rows) == len(labels) else SubsetGraph(labelled_graph, rows, len(labels))


def _columns(Y: Any) -> list[Any]:
    """Return the columns of a DataFrame, of an array, or the members of a sequence."""
    if hasattr(Y, "iloc"):
        return [np.asarray(Y.iloc[:, j]) for j in range(Y.shape[1])] if Y.ndim == 2 else [np.asarray(Y)]
    if isinstance(Y, (list, tuple)) and Y and np.ndim(Y[0]) == 1 and not isinstance(Y[0], list):
        columns = [np.asarray(column) for column in Y]
        check_consistent_length(*columns)
        return columns
    labels = np.asarray(Y)
    if labels.ndim == 1:
        labels = labels[:, None]
    if labels.ndim != 2 or labels.shape[1] == 0:
        raise ValueError(f"Y must have shape (n_samples, n_labels); got shape {labels.shape}.")
    return list(labels.T)


# ---- partly labelled samples


def semi_supervised(
    X: Any,
    y: Any,
    *,
    graph: Any = "clustered",
    unlabelled: Any = "nearest_neighbors",
    weight: float = 1.0,
    missing: Any = None,
    lengths: Any = None,
) -> UnionGraph:
    """Return the graph of partly labelled samples.

    The graph is the union of the graph of the labelled samples and a graph of all samples: nearest
    neighbours, or temporal. Unlabelled samples affect features only by the second graph; their labels are not
    imputed.

    Parameters
    ----------
    X : array-like (N, D)
        Rows.
    y : array-like (N,)
        Labels; NaN, None and NA are missing.
    graph : str, builder or callable, default="clustered"
        Graph of the labelled samples.
    unlabelled : str, builder, callable or TrainingGraph, default="nearest_neighbors"
        Graph of all samples, not built from labels: nearest neighbours, a heat kernel, "temporal".
    weight : float, default=1.0
        Weight of the graph of all samples in the objective, relative to the graph of the labels.
    missing : label, optional
        A label that means missing, besides NaN, None and NA: for example -1 beside classes numbered from 0.
    lengths : sequence of int, optional
        Numbers of samples of the sequences, for ``unlabelled="temporal"``.

    Returns
    -------
    TrainingGraph
        The weighted union of the two graphs, each scaled to ``Q = R = 1``.

    Raises
    ------
    ValueError
        If fewer than two samples have a label, or a graph or `weight` is not valid.

    See Also
    --------
    multi_label : Several labels, each possibly missing for some samples.
    union : Union of any graphs.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]])
    >>> y = ["a", "a", None, "b", "b", None]
    >>> from probsfa.graphs import nearest_neighbors
    >>> graph = semi_supervised(X, y, unlabelled=lambda X, y: nearest_neighbors(X, 1))
    >>> graph.to_sparse().toarray()[2].round(3)
    array([0.   , 0.083, 0.   , 0.   , 0.   , 0.   ])
    """
    rows = check_rows(X, "X")
    if isinstance(weight, bool) or not isinstance(weight, Real) or not 0 < weight < np.inf:
        raise ValueError(f"weight must be a positive number; got {weight!r}.")
    if needs_labels(unlabelled):
        raise ValueError(
            "unlabelled must be a graph that requires no labels, such as 'nearest_neighbors' or "
            f"'temporal'; got {unlabelled!r:.80}."
        )
    label_graph = labelled_graph_on_all_rows(graph, y, rows, missing=missing)
    sample_graph = build_graph(unlabelled, rows, None, lengths=lengths)
    return union_of_normalized([label_graph, sample_graph], [1.0, float(weight)])
