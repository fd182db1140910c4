"""How slow outputs are on the graph of rows that may be new."""

from typing import Any

import numpy as np

from probsfa._validation import Sequences
from probsfa.graphs._named import build_graph
from probsfa.graphs.training_graph import TrainingGraph, graph_moments
from probsfa.sfa._labels_of_rows import labels_of_rows

__all__ = ["graph_score"]


def graph_score(graph: Any, sequences: Sequences, y: Any, outputs: Any) -> float:
    """Return minus the mean delta value of outputs on the graph of their rows.

    Parameters
    ----------
    graph : TrainingGraph, str or callable
        As an estimator has it; "temporal" where there is none.
    sequences : Sequences
        The rows.
    y : array-like or None
        Their labels.
    outputs : ndarray (N, K)
        Of the rows. Each is divided by its own variance, so that none is slow for being small.

    Raises
    ------
    ValueError
        If the graph is one of other rows.
    """
    if isinstance(graph, TrainingGraph) and graph.n_vertices != sequences.n_rows:
        raise ValueError(
            f"graph is a graph of {graph.n_vertices} training rows, so there is none of these "
            f"{sequences.n_rows} rows to score on. Give graph= as a name or a function of (X, y)."
        )
    labels = labels_of_rows(y, sequences.lengths)
    of_rows = build_graph(graph, sequences.values, labels, lengths=sequences.lengths)
    moments = graph_moments(of_rows, outputs)
    variances = np.diagonal(moments.covariance)
    with np.errstate(invalid="ignore", divide="ignore"):
        deltas = np.diagonal(moments.difference_moment) / np.where(
            variances > moments.variance_floor, variances, np.nan
        )
    return -float(np.mean(deltas))
