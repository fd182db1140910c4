"""The penalty of kernel SFA, chosen on rows left out, in time or on a graph.

The rows are cut into consecutive stretches. The moments of kernel functions on all rows but one stretch are
sums of those of the other stretches, so every kernel value is computed once, however many there are.
Support vectors that lie in the stretch left out are left out with it.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs._named import build_graph
from probsfa.graphs._sparse import from_sparse
from probsfa.graphs.moments import Moments
from probsfa.graphs.training_graph import GraphMoments, TrainingGraph, graph_moments
from probsfa.linalg import RankError
from probsfa.sfa._expand import held_out_delta, noise_delta
from probsfa.sfa.kernel.problem import BorderDifferences, joined_moments, of_functions, pose, solve

__all__ = ["Held", "HeldOutPath", "held_out_path", "splits_of_graph", "splits_of_time"]

IntArray = NDArray[np.intp]

# Five folds cannot tell less apart; where nothing over-fits, nothing is then regularised.
_AS_SLOW = 1.02


class Held(NamedTuple):
    """One division of the rows.

    Attributes
    ----------
    train, test : Moments or GraphMoments
        Of the same kernel functions on the rows that are trained on and on those left out.
    functions : ndarray (m_f,) of int
        Which of the kernel functions these are: those of no support vector among the rows left out.
    """

    train: Moments | GraphMoments
    test: Moments | GraphMoments
    functions: IntArray


class HeldOutPath(NamedTuple):
    """Outputs on rows left out, for several regularisations.

    Attributes
    ----------
    changes, squares : ndarray (F, P, K)
        Mean squared change of every output on the rows left out, and its mean square about its mean over the
        training rows, division by division.
    """

    changes: FloatArray
    squares: FloatArray

    @property
    def delta_values(self) -> FloatArray:
        """Delta values on rows left out, (P, K); see :func:`held_out_delta`."""
        return held_out_delta(self.changes, self.squares)

    def choose(self, n_rows: int) -> int:
        """Return the first regularisation, by number, whose mean delta is the least or hardly above it.

        Where none is slower than noise of so many rows, differences are chance, and the last is returned: the
        outputs of the smallest norm fit the training rows least.
        """
        mean = self.delta_values.mean(axis=1)
        if mean.min() > noise_delta(n_rows):
            return len(mean) - 1
        return int(np.argmax(mean <= _AS_SLOW * mean.min()))


def splits_of_time(
    parts: list[Moments], borders: BorderDifferences, folds: list[slice], support: NDArray[Any]
) -> Iterator[Held]:
    """Leave out one stretch of rows after the other.

    Parameters
    ----------
    parts : list of Moments
        Of the kernel functions on every stretch.
    borders : BorderDifferences
        What lies between the stretches.
    folds : list of slice
        The stretches.
    support : ndarray (m,) of int, or ndarray (m, D)
        Rows that are support vectors, or support vectors that are no rows.
    """
    if len(folds) < 2:
        return
    for at, fold in enumerate(folds):
        if support.ndim == 1:
            functions = np.flatnonzero((support < fold.start) | (support >= fold.stop))
        else:
            functions = np.arange(len(support))
        train = joined_moments(parts, borders, without=at, functions=functions)
        yield Held(train, of_functions(parts[at], functions), functions)


def held_out_path(
    divisions: Iterable[Held],
    gram: FloatArray,
    n_components: int,
    regularizations: FloatArray,
    rank_tol: float | None = None,
) -> HeldOutPath | None:
    """Train with every regularisation on a part of the rows, and measure slowness on the others.

    Parameters
    ----------
    divisions : iterable of Held
        What to train on and what to leave out.
    gram : ndarray (m, m)
        Kernel between the support vectors.
    n_components : int
        How many outputs.
    regularizations : ndarray (P,)
        Values of ``lambda``.
    rank_tol : float, optional
        As in :func:`probsfa.sfa.kernel.problem.pose`.

    Returns
    -------
    HeldOutPath or None
        None where no division can be trained on and measured.
    """
    changes, squares = [], []
    for train, test, functions in divisions:
        if len(functions) < 2:
            continue
        try:
            problem = pose(train, gram[np.ix_(functions, functions)], rank_tol)
            A = np.array(
                [solve(problem, n_components, float(value)).coefficients for value in regularizations]
            )
            moved, spread = test.difference_moment, test.covariance
        except (RankError, ValueError):  # no variation, or no difference, in one of the two parts
            continue
        changes.append(np.einsum("pik,pik->pk", A, moved @ A))
        squares.append(np.einsum("pik,pik->pk", A, spread @ A) + ((test.mean - train.mean) @ A) ** 2)
    if not changes:
        return None
    return HeldOutPath(np.maximum(changes, 0.0), np.maximum(squares, 0.0))


# ---- divisions of the vertices of a training graph, for slowness on vertices that a fit has not seen


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
