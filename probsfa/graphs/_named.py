"""Base class of graph builders, and training graphs by name."""

import warnings
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa.graphs._combined import SampleWeightedGraph, SubsetGraph, check_sample_weight
from probsfa.graphs.training_graph import TrainingGraph

__all__ = [
    "NAMED",
    "GraphBuilder",
    "as_builder",
    "build_graph",
    "check_has_edges",
    "in_time",
    "is_slow_feature_analysis",
    "lag_of_differences",
    "named",
    "needs_labels",
    "needs_rows",
    "reference_graph",
]


class GraphBuilder(BaseEstimator):
    """A kind of training graph with its settings, built when an estimator is fitted.

    Builders have parameters as in scikit-learn: they can be cloned and pickled, and a grid search can vary
    their settings, for example ``graph__n_groups``.

    Attributes
    ----------
    needs_labels : bool
        Whether the graph is built from labels.
    needs_rows : bool
        Whether the graph is built from the values of the rows, not only from labels and lengths of sequences.
    in_time : bool
        Whether the graph depends on the order of the rows and on sequence boundaries.
    lag_of_differences : int or None
        Lag, in rows, between the two rows of an edge, for the graph of slow feature analysis; None for other
        graphs.
    takes_sample_weight : bool
        Whether ``build`` accepts `sample_weight`; otherwise sample weights multiply the weights of the built
        graph.
    """

    needs_labels: bool = False
    needs_rows: bool = True
    in_time: bool = False
    lag_of_differences: int | None = None
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
            Number of rows of each sequence; by default all rows are one sequence.

        Returns
        -------
        TrainingGraph
            With one vertex for each row.
        """

    def reference(self) -> Any:
        """Return the graph for scores of features, which does not depend on the settings of the builder.

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

#: Builders by the name under which estimators accept them, with default settings.
NAMED: dict[str, type[GraphBuilder]] = {}

_Builder = TypeVar("_Builder", bound=type[GraphBuilder])


def named(name: str) -> Callable[[_Builder], _Builder]:
    """Return a decorator that registers a builder under a name; all its settings have defaults."""

    def register(builder: _Builder) -> _Builder:
        NAMED[name] = builder
        return builder

    return register


def as_builder(graph: Any) -> GraphBuilder | None:
    """Return the builder of a graph given by name or as a builder; None for other graphs."""
    if isinstance(graph, str) and graph in NAMED:
        return NAMED[graph]()
    return graph if isinstance(graph, GraphBuilder) else None


def needs_labels(graph: Any) -> bool:
    """Return whether a graph given by name or as a builder is built from labels."""
    builder = as_builder(graph)
    return builder is not None and builder.needs_labels


def needs_rows(graph: Any) -> bool:
    """Return whether a graph is built from the values of the rows."""
    builder = as_builder(graph)
    return not isinstance(graph, TrainingGraph) if builder is None else builder.needs_rows


def in_time(graph: Any) -> bool:
    """Return whether a graph given by name or as a builder depends on the order of the rows."""
    builder = as_builder(graph)
    return builder is not None and builder.in_time


def lag_of_differences(graph: Any) -> int | None:
    """Return the lag of a temporal graph, given by name or as a builder; None for other graphs."""
    builder = as_builder(graph)
    return None if builder is None else builder.lag_of_differences


def is_slow_feature_analysis(graph: Any) -> bool:
    """Return whether `graph` is None or the name of the temporal graph; the estimator then sets the lag."""
    return graph is None or (isinstance(graph, str) and lag_of_differences(graph) is not None)


def reference_graph(graph: Any) -> Any:
    """Return the graph on which features are scored; see :meth:`GraphBuilder.reference`."""
    builder = as_builder(graph)
    return graph if builder is None else builder.reference()


def _describe_graph(graph: Any) -> str:
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
        A name in `NAMED` selects the builder with default settings; a callable is called with (X, y).
    X : ndarray (N, D)
        Samples.
    y : array-like (N,), optional
        Labels.
    lengths : sequence of int, optional
        Samples of every sequence, for graphs that depend on the order of the rows.
    sample_weight : array-like (N,), optional
        Sample weights. Clustered, serial and mixed graphs are built with the weights. For other graphs, the
        weights multiply the node and edge weights of the graph. Samples of weight zero are removed before
        this graph is built, except for temporal graphs, functions and explicit graphs.

    Raises
    ------
    ValueError
        If the name is unknown, labels are missing, or the graph does not have one vertex per sample.
    """
    if sample_weight is not None:
        built = _build_weighted(graph, X, y, lengths, check_sample_weight(sample_weight, len(X)))
    elif isinstance(graph, TrainingGraph):
        built = graph
    elif (builder := as_builder(graph)) is not None:
        if isinstance(graph, str) and builder.needs_labels and y is None:
            raise ValueError(f"graph={graph!r} requires y to be passed, but the target y is None.")
        built = builder.build(X, y, lengths=lengths)
    elif callable(graph):
        built = graph(X, y)
        if not isinstance(built, TrainingGraph):
            raise ValueError(f"graph(X, y) must return a TrainingGraph; it returned {type(built).__name__}.")
    else:
        raise ValueError(
            f"graph must be a TrainingGraph, a builder such as Serial(n_groups=20), a function of (X, y) "
            f"that returns one, or one of {', '.join(map(repr, NAMED))}; got {_describe_graph(graph)}."
        )
    if built.n_vertices != len(X):
        raise ValueError(
            f"graph has {built.n_vertices} vertices; X has {len(X)} rows. Use a graph with one "
            "vertex for each row."
        )
    return built


def _build_weighted(
    graph: Any, X: NDArray[np.float64], y: Any, lengths: Any, sample_weight: NDArray[np.float64]
) -> TrainingGraph:
    builder = as_builder(graph)
    if in_time(graph) or not (builder is not None or isinstance(graph, str)):
        return SampleWeightedGraph(build_graph(graph, X, y, lengths=lengths), sample_weight)
    rows = np.flatnonzero(sample_weight > 0)
    subset_labels, subset_weights = (None if y is None else np.asarray(y)[rows]), sample_weight[rows]
    if builder is not None and builder.takes_sample_weight:
        built = builder.build(X[rows], subset_labels, sample_weight=subset_weights)  # type: ignore[call-arg]
    else:
        built = SampleWeightedGraph(build_graph(graph, X[rows], subset_labels), subset_weights)
    return built if len(rows) == len(X) else SubsetGraph(built, rows, len(X))


def check_has_edges(graph: TrainingGraph) -> TrainingGraph:
    """Return the graph; raise a ValueError if it has no edges between different samples.

    Warns
    -----
    UserWarning
        If more than half of the samples have no edge to another sample.
    """
    component = graph.component_labels()
    has_weight = graph.node_weights > 0
    isolated = has_weight & (np.bincount(component)[component] == 1)
    if isolated.sum() == has_weight.sum():
        raise ValueError(
            "This graph has no edge between two samples, so that slowness is not defined. A class "
            "requires at least two samples. Use graph='serial' or 'sliding_window' for numeric labels, or "
            "a larger bandwidth of a heat kernel."
        )
    if 2 * isolated.sum() > has_weight.sum():
        warnings.warn(
            f"{int(isolated.sum())} of {int(has_weight.sum())} samples have no edges in this graph: "
            "outputs on them do not affect slowness. A class requires at least two samples. Use "
            "graph='serial' or 'sliding_window' for numeric labels.",
            stacklevel=3,
        )
    return graph
