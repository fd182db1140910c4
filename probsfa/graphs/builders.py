"""Kinds of training graphs as objects with settings, for pipelines and parameter searches."""

from collections.abc import Callable, Sequence
from typing import Any

from probsfa._typing import FloatArray
from probsfa.graphs._combined import union
from probsfa.graphs._exact_label import exact_label
from probsfa.graphs._group import clustered, mixed, serial, transition
from probsfa.graphs._multi_label import multi_label, semi_supervised
from probsfa.graphs._named import (
    GraphBuilder,
    build_graph,
    in_time,
    named,
    needs_labels,
    needs_rows,
    reference_graph,
)
from probsfa.graphs._ordered import WindowWeights, reordering, ring, sliding_window, temporal
from probsfa.graphs._sparse import default_n_neighbors, from_sparse, heat_kernel, nearest_neighbors
from probsfa.graphs.training_graph import TrainingGraph

__all__ = [
    "Clustered",
    "ExactLabel",
    "FromSparse",
    "GraphBuilder",
    "HeatKernel",
    "Mixed",
    "MultiLabel",
    "NearestNeighbors",
    "Reordering",
    "Ring",
    "SemiSupervised",
    "Serial",
    "SlidingWindow",
    "Temporal",
    "Transition",
    "Union",
]


class _LabelGraphBuilder(GraphBuilder):
    """Base class of builders from labels; parameters are those of the function with the same name."""

    needs_labels = True
    needs_rows = False
    _function: Callable[..., TrainingGraph]

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of labels."""
        return self._function(self._labels(y), **self.get_params(deep=False))


class _WeightedLabelGraphBuilder(_LabelGraphBuilder):
    """Base class of builders from labels that support sample weights."""

    takes_sample_weight = True

    def build(
        self, X: Any, y: Any = None, *, lengths: Any = None, sample_weight: Any = None
    ) -> TrainingGraph:
        """Return the graph of labels."""
        return self._function(self._labels(y), **self.get_params(deep=False), sample_weight=sample_weight)


@named("serial")
class Serial(_WeightedLabelGraphBuilder):
    """Builder of the serial graph of labels; see :func:`probsfa.graphs.serial`.

    Parameters
    ----------
    n_groups, balanced
        As in the function.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.model_selection import GridSearchCV
    >>> from probsfa import GraphSFARegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = GridSearchCV(GraphSFARegressor(2, graph=Serial()), {"graph__n_groups": [4, 8]}, cv=3)
    >>> sorted(search.fit(X, y).best_params_)
    ['graph__n_groups']
    """

    _function = staticmethod(serial)

    def __init__(self, n_groups: int | None = None, *, balanced: bool = True) -> None:
        self.n_groups = n_groups
        self.balanced = balanced

    def reference(self) -> Any:
        """Return the graph for scoring: that of samples in the order of their labels."""
        return Reordering()


@named("mixed")
class Mixed(_WeightedLabelGraphBuilder):
    """Builder of the mixed graph of labels; see :func:`probsfa.graphs.mixed`.

    Parameters
    ----------
    n_groups, balanced
        As in the function.
    """

    _function = staticmethod(mixed)

    def __init__(self, n_groups: int | None = None, *, balanced: bool = True) -> None:
        self.n_groups = n_groups
        self.balanced = balanced

    def reference(self) -> Any:
        """Return the graph for scoring: that of samples in the order of their labels."""
        return Reordering()


@named("sliding_window")
class SlidingWindow(_LabelGraphBuilder):
    """Builder of the sliding window graph of labels; see :func:`probsfa.graphs.sliding_window`.

    Parameters
    ----------
    half_width, mirrored, weights
        As in the function.
    """

    _function = staticmethod(sliding_window)

    def __init__(
        self,
        half_width: int | None = None,
        mirrored: bool = True,
        *,
        weights: WindowWeights | None = None,
    ) -> None:
        self.half_width = half_width
        self.mirrored = mirrored
        self.weights = weights

    def reference(self) -> Any:
        """Return the graph for scoring: that of samples in the order of their labels."""
        return Reordering()


@named("ring")
class Ring(_LabelGraphBuilder):
    """Builder of the ring graph of angles; see :func:`probsfa.graphs.ring`.

    Parameters
    ----------
    period, half_width, weights
        As in the function.
    """

    _function = staticmethod(ring)

    def __init__(
        self,
        period: float | None = None,
        half_width: int | None = None,
        *,
        weights: WindowWeights | None = None,
    ) -> None:
        self.period = period
        self.half_width = half_width
        self.weights = weights

    def reference(self) -> Any:
        """Return the graph for scoring: adjacent samples on the circle."""
        return Ring(self.period, 1)


@named("reordering")
class Reordering(_LabelGraphBuilder):
    """Builder of the reordering graph of labels; see :func:`probsfa.graphs.reordering`."""

    _function = staticmethod(reordering)


@named("clustered")
class Clustered(_WeightedLabelGraphBuilder):
    """Builder of the clustered graph of classes; see :func:`probsfa.graphs.clustered`.

    Parameters
    ----------
    weighting
        As in the function.
    """

    _function = staticmethod(clustered)

    def __init__(self, weighting: str = "samples") -> None:
        self.weighting = weighting

    def reference(self) -> Any:
        """Return the graph for scoring, in which all samples have the same weight."""
        return Clustered()


class ExactLabel(_LabelGraphBuilder):
    """Builder of the graph whose slowest functions are the labels; see :func:`probsfa.graphs.exact_label`.

    Parameters
    ----------
    degree, delta_values, nonnegative
        As in the function.
    """

    _function = staticmethod(exact_label)

    def __init__(
        self,
        degree: int = 1,
        *,
        delta_values: Sequence[float] | FloatArray | None = None,
        nonnegative: bool = False,
    ) -> None:
        self.degree = degree
        self.delta_values = delta_values
        self.nonnegative = nonnegative

    def reference(self) -> Any:
        """Return the graph for scoring: that of samples in the order of their labels."""
        return Reordering()


class MultiLabel(GraphBuilder):
    """Builder of the graph of several labels; see :func:`probsfa.graphs.multi_label`.

    Parameters
    ----------
    graph, weights
        As in the function. If `graph` is one builder for all labels, its settings are ``graph__...``.
    """

    needs_labels = True

    def __init__(self, graph: Any = "serial", *, weights: Any = None) -> None:
        self.graph = graph
        self.weights = weights

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether the graph of a label is also built from the rows."""
        return any(needs_rows(graph) for graph in _members(self.graph))

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of labels (N, M)."""
        return multi_label(self._labels(y), graph=self.graph, weights=self.weights, X=X)

    def reference(self) -> Any:
        """Return a MultiLabel in which the graph of each label is replaced by its graph for scoring."""
        return MultiLabel(reference_graph(self.graph), weights=self.weights)


class SemiSupervised(GraphBuilder):
    """Builder of the graph of partly labelled rows; see :func:`probsfa.graphs.semi_supervised`.

    Parameters
    ----------
    graph, unlabelled, weight, missing
        As in the function; the settings of builders are ``graph__...`` and ``unlabelled__...``.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from probsfa import GraphSFA
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::2] = -1
    >>> gsfa = GraphSFA(2, graph=SemiSupervised(Clustered(), NearestNeighbors(10), missing=-1)).fit(X, y)
    >>> gsfa.transform(X).shape
    (150, 2)
    """

    needs_labels = True

    def __init__(
        self,
        graph: Any = "clustered",
        unlabelled: Any = "nearest_neighbors",
        *,
        weight: float = 1.0,
        missing: Any = None,
    ) -> None:
        self.graph = graph
        self.unlabelled = unlabelled
        self.weight = weight
        self.missing = missing

    @property
    def in_time(self) -> bool:  # type: ignore[override]
        """Whether `unlabelled`, the graph of all samples, is temporal."""
        return in_time(self.unlabelled)

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether one of the graphs is built from the rows."""
        return needs_rows(self.graph) or needs_rows(self.unlabelled)

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows and their labels."""
        return semi_supervised(
            X,
            self._labels(y),
            graph=self.graph,
            unlabelled=self.unlabelled,
            weight=self.weight,
            missing=self.missing,
            lengths=lengths,
        )

    def reference(self) -> Any:
        """Return the graph for scoring: the union of the two graphs for scoring, with equal weights."""
        return SemiSupervised(
            reference_graph(self.graph), reference_graph(self.unlabelled), missing=self.missing
        )


@named("temporal")
class Temporal(GraphBuilder):
    """Builder of the graph of neighbours in time; see :func:`probsfa.graphs.temporal`.

    Parameters
    ----------
    lag
        As in the function.
    """

    in_time = True
    needs_rows = False

    def __init__(self, lag: int = 1) -> None:
        self.lag = lag

    @property
    def lag_of_differences(self) -> int:  # type: ignore[override]
        """Lag of the edges, in rows."""
        return self.lag

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows in order."""
        return temporal(len(X), self.lag, lengths)


class Transition(_LabelGraphBuilder):
    """Builder of the graph of transitions between states, the labels; see :func:`probsfa.graphs.transition`.

    Parameters
    ----------
    lag
        As in the function.
    """

    in_time = True

    def __init__(self, lag: int = 1) -> None:
        self.lag = lag

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some states in order."""
        return transition(self._labels(y), self.lag, lengths)


@named("nearest_neighbors")
class NearestNeighbors(GraphBuilder):
    """Builder of the graph of nearest neighbours; see :func:`probsfa.graphs.nearest_neighbors`.

    Parameters
    ----------
    n_neighbors : int, optional
        As in the function; by default 10, or all others if there are fewer.
    node_weights : "degree" or None, default="degree"
        As in the function.
    """

    def __init__(self, n_neighbors: int | None = None, *, node_weights: Any = "degree") -> None:
        self.n_neighbors = n_neighbors
        self.node_weights = node_weights

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows."""
        count = default_n_neighbors(len(X)) if self.n_neighbors is None else self.n_neighbors
        return nearest_neighbors(X, count, node_weights=self.node_weights)

    def reference(self) -> Any:
        """Return the graph for scoring, with the default number of neighbours."""
        return NearestNeighbors()


class HeatKernel(GraphBuilder):
    """Builder of the graph with the weights of a heat kernel; see :func:`probsfa.graphs.heat_kernel`.

    Parameters
    ----------
    bandwidth, node_weights
        As in the function.
    """

    def __init__(self, bandwidth: float, *, node_weights: Any = "degree") -> None:
        self.bandwidth = bandwidth
        self.node_weights = node_weights

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows."""
        return heat_kernel(X, self.bandwidth, node_weights=self.node_weights)

    def reference(self) -> Any:
        """Return the graph for scoring: that of nearest neighbours."""
        return NearestNeighbors()


class FromSparse(GraphBuilder):
    """Builder of the graph of a matrix of edge weights; see :func:`probsfa.graphs.from_sparse`.

    Parameters
    ----------
    W, node_weights
        As in the function. The matrix is for all rows of the fit, and cannot be used for subsets in
        cross-validation.
    """

    needs_rows = False

    def __init__(self, W: Any, *, node_weights: Any = None) -> None:
        self.W = W
        self.node_weights = node_weights

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph; rows and labels are ignored."""
        return from_sparse(self.W, self.node_weights)


class Union(GraphBuilder):
    """Builder of the union of several graphs of the same rows; see :func:`probsfa.graphs.union`.

    Parameters
    ----------
    graphs : sequence of str, builder, callable or TrainingGraph
        Kinds of graphs.
    weights
        As in the function.

    Examples
    --------
    >>> import numpy as np
    >>> both = Union([Temporal(), Clustered()]).build(np.zeros((4, 1)), [0, 0, 1, 1])
    >>> both.Q, both.R
    (8.0, 10.0)
    """

    def __init__(self, graphs: Sequence[Any], *, weights: Any = None) -> None:
        self.graphs = graphs
        self.weights = weights

    @property
    def needs_labels(self) -> bool:  # type: ignore[override]
        """Whether one of the graphs is built from labels."""
        return any(needs_labels(graph) for graph in self.graphs)

    @property
    def in_time(self) -> bool:  # type: ignore[override]
        """Whether one of the graphs depends on the order of the rows."""
        return any(in_time(graph) for graph in self.graphs)

    @property
    def needs_rows(self) -> bool:  # type: ignore[override]
        """Whether one of the graphs is built from the rows."""
        return any(needs_rows(graph) for graph in self.graphs)

    def build(self, X: Any, y: Any = None, *, lengths: Any = None) -> TrainingGraph:
        """Return the graph of some rows."""
        return union([build_graph(graph, X, y, lengths=lengths) for graph in self.graphs], self.weights)

    def reference(self) -> Any:
        """Return the graph for scoring: the union of the graphs for scoring."""
        return Union([reference_graph(graph) for graph in self.graphs], weights=self.weights)


def _members(graph: Any) -> Sequence[Any]:
    return graph if isinstance(graph, (list, tuple)) else [graph]
