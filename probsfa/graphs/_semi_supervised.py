"""Labels for some samples, neighbours or time for all."""

from numbers import Real
from typing import Any

import numpy as np

from probsfa.graphs._multi_label import on_labelled_rows
from probsfa.graphs._named import build_graph, needs_labels
from probsfa.graphs._rows import check_rows
from probsfa.graphs._union import UnionGraph, equal_parts

__all__ = ["semi_supervised"]


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
    """Return the graph of samples only some of which have a label.

    Those with a label are joined by it; all are joined to their nearest neighbours, or in time. What samples
    without a label say about the shape of the data then counts, and no label is made up for them.

    Parameters
    ----------
    X : array-like (N, D)
        Rows.
    y : array-like (N,)
        Labels; NaN, None and NA are missing.
    graph : str, builder or callable, default="clustered"
        Graph of the samples that have a label, built from labels.
    unlabelled : str, builder, callable or TrainingGraph, default="nearest_neighbors"
        Graph of all samples, not built from labels: neighbours, a heat kernel, "temporal".
    weight : float, default=1.0
        Part of the graph of all samples in the objective, for a part 1 of the labels.
    missing : label, optional
        A label that stands for none, besides NaN, None and NA: -1 where classes are numbered from 0.
    lengths : sequence of int, optional
        Samples of every sequence, for a graph in time.

    Returns
    -------
    TrainingGraph
        Each of the two graphs is scaled to ``Q = R = 1`` before it is weighted.

    Raises
    ------
    ValueError
        If fewer than two samples have a label, or the graphs or `weight` do not fit.

    See Also
    --------
    multi_label : Several labels, each of which some samples may lack.
    union : Any graphs.

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
            f"unlabelled must be a graph that needs no labels, such as 'nearest_neighbors' or 'temporal'; "
            f"got {unlabelled!r:.80}."
        )
    of_labels = on_labelled_rows(graph, y, rows, missing=missing)
    of_all = build_graph(unlabelled, rows, None, lengths=lengths)
    return equal_parts([of_labels, of_all], [1.0, float(weight)])
