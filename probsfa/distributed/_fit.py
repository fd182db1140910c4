"""Fit estimators to data on a cluster."""

from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator

from probsfa.distributed._dask import compute, is_array
from probsfa.distributed._graph_moments import sum_graph_moments, temporal_graph_moments
from probsfa.distributed._moments import fit_expander, sum_moments
from probsfa.distributed._parts import DistributedRows, validated_parts
from probsfa.graphs._named import build_graph, check_has_edges, lag_of_differences, needs_rows
from probsfa.graphs._ordered import temporal
from probsfa.graphs.moments import MomentStream
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.sfa import SFA, GraphSFA, linear
from probsfa.sfa import graph as graph_based
from probsfa.sfa._shrinkage import labels_of_rows

__all__ = ["fit"]

_Estimator = TypeVar("_Estimator", bound=BaseEstimator)


def fit(estimator: _Estimator, X: Any, y: Any = None, *, lengths: Any = None) -> _Estimator:
    """Fit an estimator to data on a Dask cluster.

    Parameters
    ----------
    estimator : SFA, GraphSFA or ProbabilisticSFA
        Estimator, which is fitted in place.
    X : dask.array (T, D), or list with one entry for each sequence
        Rows in order of time. Entries of a list are dask arrays, or ``dask.delayed`` objects or futures that
        return array-likes (T_i, D). GraphSFA requires arrays, except with ``graph="temporal"``.
    y : array-like (T,), optional
        Labels, for a GraphSFA whose graph is built from them; in memory, or a dask array.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in an array.

    Returns
    -------
    estimator
        The fitted estimator.

    Raises
    ------
    ImportError
        If Dask is not installed.
    TypeError
        If the type of the estimator is not supported.
    ValueError
        As in ``fit`` for data in memory; the message names the rows or the sequence, as in ``X[300:600]``.
        Also if the data are not distributed.

    See Also
    --------
    probsfa.sfa.SFA, probsfa.sfa.GraphSFA, probsfa.ProbabilisticSFA : Fits in memory.

    Notes
    -----
    SFA and GraphSFA: an expansion is fitted to the first chunk of rows, as in ``partial_fit``.

    - SFA, and GraphSFA with a temporal graph, need one pass over the data. Each chunk receives the last rows
      of the previous chunk, so that differences between chunks are exact.
    - GraphSFA with other graphs: the rows remain in the memory of the cluster, and each task multiplies a few
      columns of all rows by the Laplacian.

    ProbabilisticSFA: rows remain on the workers, which receive parameters and return sums of expected
    statistics in each step of the fit. A task computes one or several whole sequences; very long sequences
    should be divided into several by `lengths`. Starting points are computed locally, from as many whole
    sequences as fit into 128 MiB. Rows are treated as evenly spaced; a DataFrame with an uneven index raises
    an error.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> from probsfa import SFA, distributed
    >>> X = np.cumsum(np.random.default_rng(0).standard_normal((1000, 3)), axis=0)
    >>> in_memory = SFA(n_components=2).fit(X)
    >>> on_cluster = distributed.fit(SFA(n_components=2), da.from_array(X, chunks=(300, 3)))
    >>> bool(np.allclose(in_memory.components_, on_cluster.components_, rtol=1e-10))
    True
    """
    if isinstance(estimator, SFA):
        _fit_sfa(estimator, X, lengths)
    elif isinstance(estimator, GraphSFA):
        _fit_graph_sfa(estimator, X, y, lengths)
    else:
        from probsfa.statespace import ProbabilisticSFA  # a slow import, not needed for other estimators

        if not isinstance(estimator, ProbabilisticSFA):
            raise TypeError(
                f"estimator must be an SFA, a GraphSFA or a ProbabilisticSFA; got {type(estimator).__name__}."
            )
        from probsfa.distributed._sequences import fit_probabilistic

        fit_probabilistic(estimator, X, lengths)
    return estimator


def _fit_sfa(estimator: SFA, X: Any, lengths: Any) -> None:
    linear.check_parameters(estimator)
    skip = estimator.missing == "skip"
    rows = validated_parts(estimator, X, lengths=lengths, lag=estimator.lag, allow_nan=skip)
    expander = fit_expander(estimator.expansion, rows)
    summed = sum_moments(rows, expander, estimator.lag, skip)
    stream = MomentStream(summed.moments, summed.tail)
    linear.set_fitted(estimator, stream, compute(expander)[0], summed.lengths)


def _fit_graph_sfa(estimator: GraphSFA, X: Any, y: Any, lengths: Any) -> None:
    graph_based.check_parameters(estimator)
    rows = validated_parts(estimator, X, lengths=lengths, lag=getattr(estimator.graph, "lag", 1))
    expander = fit_expander(estimator.expansion, rows)
    lag = lag_of_differences(estimator.graph)
    if lag is not None:
        summed = sum_moments(rows, expander, lag, skip_incomplete=False)
        graph: TrainingGraph = temporal(sum(summed.lengths), lag, summed.lengths)
        moments = temporal_graph_moments(summed.moments)
    else:
        graph = _graph(estimator, rows, y)
        moments = sum_graph_moments(graph, rows, expander)
    graph_based.set_fitted(estimator, graph, moments, compute(expander)[0])


def _graph(estimator: GraphSFA, rows: DistributedRows, y: Any) -> TrainingGraph:
    """Return the graph of distributed rows, from labels and lengths."""
    if isinstance(estimator.graph, TrainingGraph):
        return estimator.graph
    if needs_rows(estimator.graph):
        raise ValueError(
            f"graph={estimator.graph!r} is built from all rows of X, which are on the cluster. Use a "
            "TrainingGraph, a temporal graph or a graph of labels."
        )
    if rows.lengths is None:
        raise ValueError(
            "X has delayed sequences, whose numbers of rows are not known and cannot be matched with "
            "labels. Use a dask array, or a list of dask arrays."
        )
    # Graphs of labels and temporal graphs use only the number of rows, not their values.
    placeholder = np.broadcast_to(0.0, (sum(rows.lengths), 1))
    labels = labels_of_rows(compute(y)[0] if is_array(y) else y, rows.lengths)
    return check_has_edges(build_graph(estimator.graph, placeholder, labels, lengths=rows.lengths))
