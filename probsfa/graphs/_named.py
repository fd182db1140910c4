"""Training graphs by builder or by name, built from the samples or their labels."""

import warnings
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa.graphs._combined import SampleWeightedGraph, SubsetGraph, check_sample_weight
from probsfa.graphs._labels import LABEL_GRAPHS
from probsfa.graphs._ordered import temporal
from probsfa.graphs._sparse import default_neighbors, nearest_neighbors
from probsfa.graphs.training_graph import TrainingGraph

__all__ = [
    "GraphBuilder",
    "build_graph",
    "check_joined",
    "in_time",
    "needs_labels",
    "needs_rows",
    "reference_graph",
]


class GraphBuilder(BaseEstimator):
    """A kind of training graph with its settings, built when an estimator is fitted.

    Builders follow the conventions of scikit-learn for parameters: they can be cloned and pickled, and a grid
    search can vary their settings as ``graph__n_groups``.

    Attributes
    ----------
    needs_labels : bool
        Whether the graph is built from labels.
    needs_rows : bool
        Whether the graph is built from the values of the rows, not only from labels and lengths of sequences.
    in_time : bool
        Whether the graph depends on the order of the rows and on sequence boundaries.
    takes_sample_weight : bool
        Whether ``build`` accepts `sample_weight`; otherwise sample weights multiply the weights of the built
        graph.
    """

    needs_labels: bool = False
    needs_rows: bool = True
    in_time: bool = False
    takes_sample_weight: bool = False

    @abstractmethod
    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows.

        Parameters
        ----------
        X : array-like (N, D)
            Rows.
        y : array-like (N,), optional
            Labels, if the graph is built from them.
        lengths : sequence of int, optional
            Rows of every sequence; by default there is one.

        Returns
        -------
        TrainingGraph
            With one vertex for each row.
        """

    def reference(self) -> Any:
        """Return the graph on which features of this kind of graph are scored, independent of its settings.

        Delta values on graphs of different settings are not comparable: they decrease with more groups or
        fewer neighbours.
        """
        return self

    def __call__(self, X: Any, y: Any = None) -> TrainingGraph:
        """Return the graph of rows of one sequence."""
        return self.build(X, y)

    def _labels(self, y: Any) -> Any:
        if y is None:
            raise ValueError(f"{self!r} requires y to be passed, but the target y is None.")
        return y


# ---- training graphs by name, built from the samples or their labels


_WITH_SAMPLE_WEIGHT = ("clustered", "serial", "mixed")
_NUMERIC_LABEL_GRAPHS = ("serial", "mixed", "sliding_window", "reordering")
_GRAPHS_WITHOUT_LABELS = ("temporal", "nearest_neighbors")


def needs_labels(graph: Any) -> bool:
    """Return whether a graph given by name or as a builder is built from labels."""
    if isinstance(graph, GraphBuilder):
        return graph.needs_labels
    return isinstance(graph, str) and graph in LABEL_GRAPHS


def needs_rows(graph: Any) -> bool:
    """Return whether a graph is built from the values of the rows."""
    if isinstance(graph, GraphBuilder):
        return graph.needs_rows
    named = isinstance(graph, str) and graph in ("temporal", *LABEL_GRAPHS)
    return not (named or isinstance(graph, TrainingGraph))


def in_time(graph: Any) -> bool:
    """Return whether a graph given by name or as a builder depends on the order of the rows."""
    return (
        graph.in_time if isinstance(graph, GraphBuilder) else isinstance(graph, str) and graph == "temporal"
    )


def reference_graph(graph: Any) -> Any:
    """Return the graph on which features are scored; see :meth:`GraphBuilder.reference`."""
    if isinstance(graph, GraphBuilder):
        return graph.reference()
    return "reordering" if isinstance(graph, str) and graph in _NUMERIC_LABEL_GRAPHS else graph


def _described(graph: Any) -> str:
    """Describe an invalid `graph` argument, with advice if it is a matrix of edge weights."""
    shape = getattr(graph, "shape", None)
    if shape is None:
        return f"{graph!r:.80}"
    return (
        f"a {type(graph).__name__} of shape {shape}. "
        "Use probsfa.graphs.from_sparse(W) for a matrix of edge weights"
    )


def build_graph(
    graph: Any, X: NDArray[np.float64], y: Any = None, *, lengths: Any = None, sample_weight: Any = None
) -> TrainingGraph:
    """Return a training graph of samples from the graph itself, its name, a builder or a function.

    Parameters
    ----------
    graph : TrainingGraph, str, GraphBuilder or callable
        A name, "temporal", "nearest_neighbors" or one of `LABEL_GRAPHS`, means the graph with the default
        settings; a callable is called with (X, y).
    X : ndarray (N, D)
        Samples.
    y : array-like (N,), optional
        Labels.
    lengths : sequence of int, optional
        Samples of every sequence, for graphs in time.
    sample_weight : array-like (N,), optional
        Sample weights. Clustered, serial and mixed graphs use them when they are built. Any other graph is
        built from the samples of positive weight (from all samples if it depends on time or is a function);
        then the weights multiply its node and edge weights.

    Raises
    ------
    ValueError
        If the name is unknown, labels are missing, or the graph does not have one vertex per sample.
    """
    if sample_weight is not None:
        built = _build_weighted(graph, X, y, lengths, check_sample_weight(sample_weight, len(X)))
    elif isinstance(graph, TrainingGraph):
        built = graph
    elif isinstance(graph, GraphBuilder):
        built = graph.build(X, y, lengths=lengths)
    elif callable(graph):
        built = graph(X, y)
        if not isinstance(built, TrainingGraph):
            raise ValueError(f"graph(X, y) must return a TrainingGraph; it returned {type(built).__name__}.")
    elif not isinstance(graph, str) or graph not in (*_GRAPHS_WITHOUT_LABELS, *LABEL_GRAPHS):
        raise ValueError(
            f"graph must be a TrainingGraph, a builder such as Serial(n_groups=20), a function of (X, y) "
            f"that returns one, or one of {', '.join(map(repr, (*_GRAPHS_WITHOUT_LABELS, *LABEL_GRAPHS)))}; "
            f"got {_described(graph)}."
        )
    elif graph == "temporal":
        built = temporal(len(X), lengths=lengths)
    elif graph == "nearest_neighbors":
        built = nearest_neighbors(X, default_neighbors(len(X)))
    elif y is None:
        raise ValueError(f"graph={graph!r} requires y to be passed, but the target y is None.")
    else:
        built = LABEL_GRAPHS[graph](y)
    if built.n_vertices != len(X):
        raise ValueError(
            f"graph has {built.n_vertices} vertices; X has {len(X)} rows. Use a graph with one "
            "vertex for each row."
        )
    return built


def _build_weighted(
    graph: Any, X: NDArray[np.float64], y: Any, lengths: Any, sample_weight: NDArray[np.float64]
) -> TrainingGraph:
    named = isinstance(graph, str)
    if in_time(graph) or not (named or isinstance(graph, GraphBuilder)):
        return SampleWeightedGraph(build_graph(graph, X, y, lengths=lengths), sample_weight)
    rows = np.flatnonzero(sample_weight > 0)
    subset_labels, subset_weights = (None if y is None else np.asarray(y)[rows]), sample_weight[rows]
    if isinstance(graph, GraphBuilder) and graph.takes_sample_weight:
        built = graph.build(X[rows], subset_labels, sample_weight=subset_weights)  # type: ignore[call-arg]
    elif subset_labels is not None and named and graph in _WITH_SAMPLE_WEIGHT:
        built = LABEL_GRAPHS[graph](subset_labels, sample_weight=subset_weights)
    else:
        built = SampleWeightedGraph(build_graph(graph, X[rows], subset_labels), subset_weights)
    return built if len(rows) == len(X) else SubsetGraph(built, rows, len(X))


def check_joined(graph: TrainingGraph) -> TrainingGraph:
    """Return a graph for fitting, or raise a ValueError if it has no edges between different samples.

    Warns
    -----
    UserWarning
        If more than half of the samples have no edge to another.
    """
    component = graph.component_labels()
    counts = graph.node_weights > 0
    isolated = counts & (np.bincount(component)[component] == 1)
    if isolated.sum() == counts.sum():
        raise ValueError(
            "No edge of this graph joins two samples, so that slowness is not defined. A class requires at "
            "least two samples. Use graph='serial' or 'sliding_window' for numeric labels, and a larger "
            "bandwidth for neighbours."
        )
    if 2 * isolated.sum() > counts.sum():
        warnings.warn(
            f"{int(isolated.sum())} of {int(counts.sum())} samples have no edges in this graph: outputs on "
            "them do not affect slowness. A class requires at least two samples. Use graph='serial' or "
            "'sliding_window' for numeric labels.",
            stacklevel=3,
        )
    return graph
