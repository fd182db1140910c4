"""What all builders of training graphs have in common."""

from abc import abstractmethod
from typing import Any

from sklearn.base import BaseEstimator

from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["GraphBuilder"]


class GraphBuilder(BaseEstimator):
    """A kind of training graph with its settings, built from the rows when there are any.

    Builders follow the conventions of scikit-learn for parameters: they clone, pickle, and show their
    settings to a search as ``graph__n_groups`` and the like.

    Attributes
    ----------
    needs_labels : bool
        Whether the graph is built from labels.
    needs_rows : bool
        Whether it is built from the values of the rows, not from labels and the lengths of sequences alone.
    in_time : bool
        Whether the order of the rows and the borders of sequences matter.
    takes_sample_weight : bool
        Whether ``build`` takes `sample_weight`; for other graphs the weights multiply those of the built one.
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
            Labels, where the graph is built from them.
        lengths : sequence of int, optional
            Rows of every sequence; by default there is one.

        Returns
        -------
        TrainingGraph
            With one vertex for each row.
        """

    def reference(self) -> Any:
        """Return the graph on which features of this kind of graph are scored, whatever its settings.

        Delta values on graphs of different settings cannot be compared: the more groups or the fewer
        neighbours, the smaller they are.
        """
        return self

    def __call__(self, X: Any, y: Any = None) -> TrainingGraph:
        """Return the graph of rows of one sequence."""
        return self.build(X, y)

    def _labels(self, y: Any) -> Any:
        if y is None:
            raise ValueError(f"{self!r} requires y to be passed, but the target y is None.")
        return y
