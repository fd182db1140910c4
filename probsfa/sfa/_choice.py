"""What the supervised estimators choose by cross-validation: shrinkage, number of features, step on top.

In every fold the graph, the expansion and the features are learned without the samples that are judged:
features of the samples they were learned from look better than they are, and steps on top of them would be
chosen for that.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.graphs._graph_moments import graph_moments
from probsfa.graphs._named import build_graph
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.linalg import RankError, SlowDirections, slow_directions
from probsfa.sfa._expand import Expander
from probsfa.sfa._linear_map import outputs_from
from probsfa.sfa._shrinkage import ledoit_wolf, shrunk_moments

__all__ = [
    "Choice",
    "Options",
    "canonical_order",
    "choose",
    "first_least",
    "folds_of_classes",
    "folds_of_rows",
    "whole_blocks",
]

IntArray = NDArray[np.intp]
Folds = list[tuple[IntArray, IntArray]]
_Features = tuple[FloatArray, FloatArray, FloatArray]  # of training samples, of others, delta values
_EQUAL = 1e-9  # relative; losses closer than this differ by rounding


class Options(NamedTuple):
    """What there is to choose from.

    Attributes
    ----------
    shrinkage : sequence of float or "auto"
        Intensities; "auto" is Ledoit and Wolf's.
    n_components : sequence of int
        Numbers of features, ascending.
    steps : sequence of scikit-learn estimators
        What may stand on top.
    n_probes : int
        So many of the first steps decide about shrinkage; the others are tried with that alone.
    """

    shrinkage: Sequence[float | str]
    n_components: Sequence[int]
    steps: Sequence[Any]
    n_probes: int = 1

    @property
    def open(self) -> bool:
        """Whether there is more than one combination."""
        return len(self.shrinkage) * len(self.n_components) * len(self.steps) > 1


class Choice(NamedTuple):
    """What was chosen.

    Attributes
    ----------
    shrinkage : float or "auto"
        Of the moments of the graph.
    n_components : int
        How many features the step gets.
    step : scikit-learn estimator
        The step, not fitted.
    loss : float
        Mean loss of a held-out sample; NaN where nothing was tried.
    """

    shrinkage: float | str
    n_components: int
    step: Any
    loss: float


def choose(
    estimator: Any,
    X: FloatArray,
    labels: Any,
    targets: NDArray[Any],
    options: Options,
    folds: Sequence[tuple[IntArray, IntArray]],
    loss: Callable[[Any, FloatArray, NDArray[Any]], float],
    lengths: Sequence[int],
) -> Choice:
    """Return the combination with the smallest held-out loss; the first where several are equal.

    Parameters
    ----------
    estimator : GraphSFAClassifier or GraphSFARegressor
        Says how graph, expansion and shrinkage are made: `_graph_of`, `_expansion`, `_target`.
    X : ndarray (N, D)
        Samples.
    labels : ndarray (N, ...)
        What the graph is built from.
    targets : ndarray (N, ...)
        What the step is fitted to.
    options : Options
        The combinations.
    folds : sequence of (train, held out)
        Rows. Without any, the first combination is taken.
    loss : callable
        Of a fitted step, held-out features and their targets; summed over samples.
    lengths : sequence of int
        Rows of every sequence, across which graphs in time join nothing.
    """
    if not options.open or not folds:
        return Choice(options.shrinkage[0], options.n_components[0], clone(options.steps[0]), float("nan"))
    probes, others = options.steps[: options.n_probes], options.steps[options.n_probes :]
    # Hundreds of small problems: threads would wait for each other longer than they work.
    with one_blas_thread():
        sequence = np.repeat(np.arange(len(lengths)), lengths)
        features = [list(_features(estimator, X, labels, sequence, *fold, options)) for fold in folds]
        losses = [
            _losses(i, features, folds, targets, options, probes, loss) for i in range(len(features[0]))
        ]
        i = first_least(np.array([table.min() for table in losses]))
        table = losses[i]
        if others:
            table = np.hstack([table, _losses(i, features, folds, targets, options, others, loss)])
    j, k = divmod(first_least(table), table.shape[1])
    mean = float(table[j, k]) / sum(len(held_out) for _, held_out in folds)
    return Choice(options.shrinkage[i], options.n_components[j], clone(options.steps[k]), mean)


def first_least(losses: FloatArray) -> int:
    """Return the first (flat) index of the smallest loss; losses that differ by rounding count as equal."""
    least = losses.min()
    return int(np.argmax(losses <= least + _EQUAL * abs(least)))


def _losses(
    which: int,
    features: list[list[_Features]],
    folds: Sequence[tuple[IntArray, IntArray]],
    targets: NDArray[Any],
    options: Options,
    steps: Sequence[Any],
    loss: Callable[[Any, FloatArray, NDArray[Any]], float],
) -> FloatArray:
    """Return the summed losses, numbers of features by steps, at one intensity of shrinkage."""
    table = np.zeros((len(options.n_components), len(steps)), dtype=np.float64)
    for of_fold, (train, held_out) in zip(features, folds, strict=True):
        inside, outside, deltas = of_fold[which]
        tried: dict[int, list[float]] = {}
        for j, count in enumerate(options.n_components):
            K = whole_blocks(deltas, count) if len(options.n_components) > 1 else count
            if K not in tried:
                tried[K] = [
                    loss(clone(step).fit(inside[:, :K], targets[train]), outside[:, :K], targets[held_out])
                    for step in steps
                ]
            table[j] += tried[K]
    return np.where(np.isfinite(table), table, np.inf)


def whole_blocks(delta_values: FloatArray, count: int) -> int:
    """Return how many of the first `count` features to use so that no block of equal delta values is cut.

    Features of one block are equally slow, so slowness gives no reason to use some of them and not others.

    Parameters
    ----------
    delta_values : ndarray (K,)
        Ascending, and exactly equal inside a block, as :func:`probsfa.linalg.slow_directions` returns them.
    count : int
        How many features are wanted. Where the first block has more, `count` is returned.
    """
    if count >= len(delta_values):
        return len(delta_values)
    ends = np.flatnonzero(np.diff(delta_values[: count + 1]))
    return int(ends[-1]) + 1 if len(ends) else count


def _features(
    estimator: Any,
    X: FloatArray,
    labels: Any,
    sequence: IntArray,
    train: IntArray,
    held_out: IntArray,
    options: Options,
) -> Iterator[_Features]:
    """Yield features of training and held-out samples and their delta values for every shrinkage."""
    whole = isinstance(estimator.graph, TrainingGraph)  # cannot be built anew for some of the samples
    rows = X if whole else X[train]
    known = labels if whole else labels[train]
    of_train = np.bincount(sequence[train])
    graph = build_graph(estimator._graph_of(), rows, known, lengths=of_train[of_train > 0])
    expander = Expander.fit(estimator._expansion(), rows)
    expanded = expander(rows)
    moments = graph_moments(graph, expanded)
    for intensity in options.shrinkage:
        if isinstance(intensity, str):
            intensity = ledoit_wolf(graph, expanded, moments, estimator._target())
        shrunk = shrunk_moments(moments, intensity, estimator._target())
        directions = _slowest(shrunk, options.n_components[-1] + 1, estimator.rank_tol)
        components = directions.weights.T
        outside = outputs_from(X[held_out], expander, moments.mean, components)
        inside = (expanded - moments.mean) @ directions.weights
        yield (inside[train] if whole else inside), outside, directions.delta_values


def _slowest(moments: Any, n_components: int, rank_tol: float | None) -> SlowDirections:
    """Return as many slow directions as are wanted, or as there are."""
    A, B = moments.difference_moment, moments.covariance
    try:
        return slow_directions(A, B, n_components, rank_tol, variance_floor=moments.variance_floor)
    except RankError:
        return slow_directions(A, B, None, rank_tol, variance_floor=moments.variance_floor)


def canonical_order(X: FloatArray, targets: NDArray[Any]) -> IntArray:
    """Return an order of the samples (N,) that does not depend on the order in which they came.

    Nor does it depend on the order of the columns. Samples are sorted by their squared distance from the
    mean, by the sum of their deviations where these are equal, then by the squared deviation of their
    targets, so that the sign of these does not matter, and at last by the targets themselves.

    Parameters
    ----------
    X : ndarray (N, D)
        Samples.
    targets : ndarray (N, ...)
        Numbers.
    """
    centred = X - X.mean(axis=0)
    deviations = (targets - targets.mean(axis=0)).reshape(len(X), -1)
    keys = [np.sum(centred**2, axis=1), np.sum(centred, axis=1)]
    keys += [np.sum(deviations**2, axis=1), *targets.reshape(len(X), -1).T]
    return np.lexsort([_rounded(key) for key in reversed(keys)])


def _rounded(key: FloatArray) -> FloatArray:
    """Return numbers without their last digits, which depend on the order of summation."""
    unit = _EQUAL * float(np.abs(key).max())
    return np.round(key / unit) if unit > 0 else key


def folds_of_rows(n_folds: int, lengths: Sequence[int]) -> Folds:
    """Return folds at random, of whole sequences where there are enough of them; none of fewer than six.

    Parameters
    ----------
    n_folds : int
        How many.
    lengths : sequence of int
        Rows of every sequence.
    """
    n_rows = sum(lengths)
    if n_rows < 6:
        return []
    unit = _units(lengths, n_folds)
    n_units = int(unit[-1]) + 1
    place = np.random.RandomState(0).permutation(n_units) % min(n_folds, n_units)
    return _cut(place[unit], min(n_folds, n_units))


def folds_of_classes(
    n_folds: int, classes: IntArray, lengths: Sequence[int]
) -> list[tuple[IntArray, IntArray]]:
    """Return folds with as equal a share of every class as can be; what a class has once is never held out.

    Parameters
    ----------
    n_folds : int
        How many.
    classes : ndarray (N,)
        From 0.
    lengths : sequence of int
        Rows of every sequence; whole sequences are held out where that leaves some of every class.
    """
    unit = _units(lengths, n_folds)
    first = np.flatnonzero(np.diff(unit, prepend=-1))
    of_unit = classes[first]
    if len(first) < len(classes) and (
        (of_unit[unit] != classes).any() or np.bincount(of_unit, minlength=classes.max() + 1).min() < 2
    ):
        unit, of_unit = np.arange(len(classes)), classes
    place = np.full(len(of_unit), -1)
    _, first_of_class = np.unique(of_unit, return_index=True)
    # Classes in the order in which they come first, so that their names do not matter.
    for offset, k in enumerate(np.argsort(first_of_class)):
        members = np.flatnonzero(of_unit == k)
        if len(members) > 1:
            dealt = np.random.RandomState(offset).permutation(members)
            place[dealt] = (np.arange(len(members)) + offset) % n_folds
    return _cut(place[unit], n_folds)


def _units(lengths: Sequence[int], n_folds: int) -> IntArray:
    """Return the sequence of every row, or the row itself where sequences are too few to be held out."""
    if len(lengths) >= n_folds:
        return np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(sum(lengths))


def _cut(place: IntArray, n_folds: int) -> list[tuple[IntArray, IntArray]]:
    folds = ((np.flatnonzero(place != f), np.flatnonzero(place == f)) for f in range(n_folds))
    return [(train, held_out) for train, held_out in folds if len(held_out) and len(train) > 1]
