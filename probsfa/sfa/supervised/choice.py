"""Cross-validation of the supervised estimators: shrinkage, number of features, and final step.

In every fold, the graph, the expansion and the features are fitted to the training samples only. Features
separate the labels of training samples better than those of other samples, which would bias the selection of
the final step.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import clone

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.graphs._named import build_graph
from probsfa.graphs.training_graph import GraphMoments, TrainingGraph, graph_moments
from probsfa.linalg import RankError, SlowDirections, default_rank_tol, slow_directions
from probsfa.sfa._expand import Expander
from probsfa.sfa._shrinkage import ledoit_wolf, shrunk_moments, shrunken_directions_by_intensity

__all__ = [
    "Basis",
    "Choice",
    "Options",
    "canonical_order",
    "choose",
    "class_folds",
    "first_minimum",
    "row_folds",
    "whole_blocks",
]

IntArray = NDArray[np.intp]
Folds = list[tuple[IntArray, IntArray]]
_Features = tuple[FloatArray, FloatArray, FloatArray]  # training and held-out features, delta values
Loss = Callable[[Any, FloatArray, NDArray[Any]], FloatArray]  # see `loss` of :func:`choose`
_EQUALITY_TOL = 1e-9  # relative; smaller differences of losses are rounding errors


class Basis(NamedTuple):
    """Function space of the slow features, and its shrinkage.

    Attributes
    ----------
    expansion : transformer or None
        As in :class:`probsfa.sfa.GraphSFA`.
    target : {"diagonal", "identity"}
        Target of the shrinkage.
    shrinkage : sequence of float or "auto"
        Intensities; "auto" is the intensity of Ledoit and Wolf.
    graph : TrainingGraph, str or callable
        As in :class:`probsfa.sfa.GraphSFA`.
    """

    expansion: Any
    target: str
    shrinkage: Sequence[float | str]
    graph: Any


class Options(NamedTuple):
    """Candidates of the cross-validation.

    Attributes
    ----------
    bases : sequence of Basis
        First candidates.
    larger_bases : callable
        Function that returns larger bases, given the best of `bases` and the number of training samples. A
        larger basis is selected only if its loss is lower by more than one standard error.
    n_components : sequence of int
        Numbers of features, ascending.
    steps : sequence of scikit-learn estimators
        Candidates for the final step.
    n_first_steps : int
        Number of steps with which the basis and the shrinkage are selected; other steps are tried only with
        the selected basis.
    temperatures : sequence of float
        Divisors of the log-probabilities of a step; 1 for a step without probabilities.
    """

    bases: Sequence[Basis]
    larger_bases: Callable[[Basis, int], Sequence[Basis]]
    n_components: Sequence[int]
    steps: Sequence[Any]
    n_first_steps: int = 1
    temperatures: Sequence[float] = (1.0,)

    @property
    def has_alternatives(self) -> bool:
        """Whether there is more than one combination."""
        n_bases = sum(len(basis.shrinkage) for basis in self.bases)
        return n_bases * len(self.n_components) * len(self.steps) > 1

    def reduced_for_few_samples(self) -> "Options":
        """Return fewer candidates for few samples, because folds cannot distinguish similar candidates.

        Only the strongest shrinkage of every basis, and the first step, remain.
        """

        def strongest(bases: Sequence[Basis]) -> list[Basis]:
            return [basis._replace(shrinkage=basis.shrinkage[-1:]) for basis in bases]

        def larger_bases(best: Basis, n_samples: int) -> list[Basis]:
            return strongest(self.larger_bases(best, n_samples))

        return self._replace(bases=strongest(self.bases), larger_bases=larger_bases, steps=self.steps[:1])

    @property
    def first_choice(self) -> "Choice":
        """The first combination."""
        basis = self.bases[0]._replace(shrinkage=self.bases[0].shrinkage[:1])
        return Choice(basis, self.n_components[0], clone(self.steps[0]), float("nan"))


class Choice(NamedTuple):
    """The selected combination.

    Attributes
    ----------
    basis : Basis
        The basis, with one intensity of shrinkage.
    n_components : int
        Number of features for the step.
    step : scikit-learn estimator
        The step, not fitted.
    loss : float
        Mean loss of a held-out sample; NaN without cross-validation.
    """

    basis: Basis
    n_components: int
    step: Any
    loss: float


def choose(
    rank_tol: float | None,
    X: FloatArray,
    labels: Any,
    targets: NDArray[Any],
    options: Options,
    folds: Sequence[tuple[IntArray, IntArray]],
    loss: Loss,
    lengths: Sequence[int],
) -> Choice:
    """Return the combination with the smallest held-out loss, the first of several with equal loss.

    Parameters
    ----------
    rank_tol : float, optional
        As in :class:`probsfa.sfa.GraphSFA`.
    X : ndarray (N, D)
        Samples.
    labels : ndarray (N, ...)
        Labels for the graph.
    targets : ndarray (N, ...)
        Targets of the step.
    options : Options
        The combinations.
    folds : sequence of (train, held out)
        Row indices. Without folds, the first combination is returned.
    loss : callable
        ``loss(step, features, targets)`` returns the sum of the losses of a fitted step over held-out
        samples, for each temperature.
    lengths : sequence of int
        Rows of every sequence; temporal graphs have no edges between sequences.
    """
    if not options.has_alternatives or not folds:
        return options.first_choice
    data = _Data(rank_tol, X, labels, targets, np.repeat(np.arange(len(lengths)), lengths), folds)
    # For hundreds of small problems, threads would wait longer than they compute. Warnings are suppressed in
    # folds, because the fit to all samples issues them again.
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        best = _best_of(data, options.bases, options, loss)
        larger_bases = options.larger_bases(best.basis, min(len(train) for train, _ in folds))
        if larger_bases:
            larger = _best_of(data, larger_bases, options, loss)
            gain = best.lowest_losses - larger.lowest_losses
            if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
                best = larger
    j, k, t = best.best_index
    mean = float(best.lowest_losses.sum()) / sum(len(held_out) for _, held_out in folds)
    step = clone(options.steps[k])
    if options.temperatures[t] != 1:
        step.set_params(temperature=options.temperatures[t])
    # The rank of all samples is higher than the rank in folds. If all features of the folds were best, all
    # features are used.
    n_features = max(test_features.shape[1] for _, test_features, _ in best.features)
    is_all = options.n_components[j] >= n_features
    return Choice(best.basis, options.n_components[-1 if is_all else j], step, mean)


class _Data(NamedTuple):
    """Training samples and folds; see :func:`choose`."""

    rank_tol: float | None
    X: FloatArray
    labels: Any
    targets: NDArray[Any]
    sequence: IntArray
    folds: Sequence[tuple[IntArray, IntArray]]


class _Candidate(NamedTuple):
    """A basis with one shrinkage intensity, its features in every fold, and their losses.

    Attributes
    ----------
    table : ndarray (F, ...)
        Losses by fold, number of features, step and temperature.
    """

    basis: Basis
    features: list[_Features]
    table: FloatArray

    @property
    def total(self) -> FloatArray:
        """Sum of the losses over folds."""
        total: FloatArray = self.table.sum(axis=0)
        return total

    @property
    def best_index(self) -> tuple[int, int, int]:
        """Indices of the number of features, the step and the temperature with the smallest loss."""
        j, k, t = np.unravel_index(first_minimum(self.total), self.total.shape)
        return int(j), int(k), int(t)

    @property
    def lowest_losses(self) -> FloatArray:
        """The losses of this combination in every fold, (F,)."""
        minimum: FloatArray = self.table[(slice(None), *self.best_index)]
        return minimum


def _best_of(data: _Data, bases: Sequence[Basis], options: Options, loss: Loss) -> _Candidate:
    """Return the basis and shrinkage with the smallest loss of the first steps, and losses of all steps."""
    first_steps, other_steps = options.steps[: options.n_first_steps], options.steps[options.n_first_steps :]
    candidates = []
    for basis in bases:
        features_by_fold = [list(_features(data, basis, options, *fold)) for fold in data.folds]
        for s, features in zip(basis.shrinkage, map(list, zip(*features_by_fold, strict=True)), strict=True):
            table = _losses(data, features, options, first_steps, loss)
            candidates.append(_Candidate(basis._replace(shrinkage=[s]), features, table))
    best = candidates[first_minimum(np.array([candidate.total.min() for candidate in candidates]))]
    if not other_steps:
        return best
    table = _losses(data, best.features, options, other_steps, loss)
    return best._replace(table=np.concatenate([best.table, table], axis=2))


def first_minimum(losses: FloatArray) -> int:
    """Return the first flat index of the smallest loss, up to rounding errors."""
    minimum = losses.min()
    return int(np.argmax(losses <= minimum + _EQUALITY_TOL * abs(minimum)))


def _losses(
    data: _Data,
    features: list[_Features],
    options: Options,
    steps: Sequence[Any],
    loss: Loss,
) -> FloatArray:
    """Return the losses by fold, number of features, step and temperature."""
    shape = len(features), len(options.n_components), len(steps), len(options.temperatures)
    table = np.zeros(shape, dtype=np.float64)
    for i, (train, held_out) in enumerate(data.folds):
        train_features, test_features, deltas = features[i]
        training_targets, test_targets = data.targets[train], data.targets[held_out]
        losses_by_count: dict[int, list[FloatArray]] = {}
        for j, count in enumerate(options.n_components):
            K = whole_blocks(deltas, count) if len(options.n_components) > 1 else count
            if K not in losses_by_count:
                losses_by_count[K] = [
                    loss(
                        clone(step).fit(train_features[:, :K], training_targets),
                        test_features[:, :K],
                        test_targets,
                    )
                    for step in steps
                ]
            table[i, j] = losses_by_count[K]
    return np.where(np.isfinite(table), table, np.inf)


def whole_blocks(delta_values: FloatArray, count: int) -> int:
    """Return the largest number of features up to `count` that splits no block of equal delta values.

    Features of one block are equally slow, so that slowness cannot select some of them.

    Parameters
    ----------
    delta_values : ndarray (K,)
        Delta values in ascending order, exactly equal inside a block (see
        :func:`probsfa.linalg.slow_directions`).
    count : int
        Maximum number of features. If the first block has more, `count` is returned.
    """
    if count >= len(delta_values):
        return len(delta_values)
    ends = np.flatnonzero(np.diff(delta_values[: count + 1]))
    return int(ends[-1]) + 1 if len(ends) else count


def _features(
    data: _Data, basis: Basis, options: Options, train: IntArray, held_out: IntArray
) -> Iterator[_Features]:
    """Yield features of training and held-out samples and their delta values for every shrinkage."""
    is_fixed_graph = isinstance(basis.graph, TrainingGraph)  # not built for subsets of samples
    rows = data.X if is_fixed_graph else data.X[train]
    training_lengths = np.bincount(data.sequence[train])
    labels = data.labels if is_fixed_graph else data.labels[train]
    graph = build_graph(basis.graph, rows, labels, lengths=training_lengths[training_lengths > 0])
    expander = Expander.fit(basis.expansion, rows)
    expanded, test_rows = expander(rows), expander(data.X[held_out])
    K = options.n_components[-1] + 1  # one more shows whether the last block of equal values is complete
    intensities, target = basis.shrinkage, basis.target
    n_varying = int(np.sum(np.ptp(expanded, axis=0) > 0))
    more_columns_than_rows = len(expanded) <= n_varying
    if target == "diagonal" or "auto" in intensities:
        moments = graph_moments(graph, expanded)
        intensities = [
            ledoit_wolf(graph, expanded, moments, target) if isinstance(s, str) else s for s in intensities
        ]
        if more_columns_than_rows and target == "diagonal" and any(intensities):
            column_scales = _identity_scales(moments)
            if column_scales is not None:
                expanded, test_rows, target = expanded / column_scales, test_rows / column_scales, "identity"
                n_varying = int(np.isfinite(column_scales).sum())
    if target == "identity":
        if more_columns_than_rows:
            expanded, test_rows = _row_space_coordinates(expanded, test_rows)
        moments = graph_moments(graph, expanded)
        solutions = _shrunk_to_identity(moments, intensities, K, n_varying, data.rank_tol)
    else:
        solutions = (
            _slowest(shrunk_moments(moments, s, target), K, data.rank_tol) for s in map(float, intensities)
        )
    train_rows = (expanded[train] if is_fixed_graph else expanded) - moments.mean
    test_rows = test_rows - moments.mean
    for solution in solutions:
        yield train_rows @ solution.weights, test_rows @ solution.weights, solution.delta_values


def _identity_scales(moments: GraphMoments) -> FloatArray | None:
    """Return column scales (D,) for which shrinkage to the diagonal equals shrinkage to the identity.

    Columns are divided by the scales; the scale of a constant column is infinite. The result is None if a
    column varies but has no differences, because shrinkage to the diagonal does not change this column.
    """
    varying = np.diagonal(moments.covariance) > moments.variance_floor
    scales = np.sqrt(np.maximum(np.diagonal(moments.difference_moment), 0.0) / 2)
    if not np.all(scales[varying] > 1e-6 * np.sqrt(np.diagonal(moments.covariance)[varying])):
        return None
    return np.where(varying, scales, np.inf)


def _shrunk_to_identity(
    moments: GraphMoments,
    intensities: Sequence[float | str],
    n_components: int,
    n_columns: int,
    rank_tol: float | None,
) -> Iterator[SlowDirections]:
    """Yield the slow directions at every intensity; one decomposition suffices for positive intensities."""
    shrunk = shrunken_directions_by_intensity(moments, [s for s in intensities if s], n_components, n_columns)
    for s in intensities:
        yield next(shrunk) if s else _slowest(moments, n_components, rank_tol)


def _row_space_coordinates(rows: FloatArray, others: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return coordinates of rows (N, D) and of other rows in the space of the centred rows.

    The space has at most N - 1 dimensions.
    """
    centred = rows - rows.mean(axis=0)
    _, sizes, Vt = scipy.linalg.svd(centred, full_matrices=False)
    V = Vt[sizes > np.sqrt(default_rank_tol(rows.shape[1])) * sizes[0]].T
    return centred @ V, (others - rows.mean(axis=0)) @ V


def _slowest(moments: GraphMoments, n_components: int, rank_tol: float | None) -> SlowDirections:
    """Return at most `n_components` slow directions."""
    A, B = moments.difference_moment, moments.covariance
    try:
        return slow_directions(A, B, n_components, rank_tol, variance_floor=moments.variance_floor)
    except RankError:
        return slow_directions(A, B, None, rank_tol, variance_floor=moments.variance_floor)


def canonical_order(X: FloatArray, targets: NDArray[Any]) -> IntArray:
    """Return an order (N,) of the samples that does not depend on the order of rows and columns.

    Samples are sorted by squared distance from the mean; ties by the sum of deviations, then by the squared
    deviation of the target, and finally by the target. Because squared deviations precede the target itself,
    the order rarely depends on the sign of targets.

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
    """Return numbers rounded to 1e-9 of the largest, because rounding errors depend on the order of sums."""
    unit = _EQUALITY_TOL * float(np.abs(key).max())
    return np.round(key / unit) if unit > 0 else key


def row_folds(n_folds: int, lengths: Sequence[int]) -> Folds:
    """Return random folds, of whole sequences if there are enough; no folds for fewer than six rows.

    Parameters
    ----------
    n_folds : int
        Number of folds.
    lengths : sequence of int
        Rows of every sequence.
    """
    n_rows = sum(lengths)
    if n_rows < 6:
        return []
    unit = _units(lengths, n_folds)
    n_units = int(unit[-1]) + 1
    fold_of_unit = np.random.RandomState(0).permutation(n_units) % min(n_folds, n_units)
    return _train_and_test_rows(fold_of_unit[unit], min(n_folds, n_units))


def class_folds(n_folds: int, classes: IntArray, lengths: Sequence[int]) -> list[tuple[IntArray, IntArray]]:
    """Return stratified folds; a sample without another sample of its class is never held out.

    Parameters
    ----------
    n_folds : int
        Number of folds.
    classes : ndarray (N,)
        Class of every row, numbered from 0.
    lengths : sequence of int
        Rows of every sequence; whole sequences are held out if some sequences of every class remain.
    """
    unit = _units(lengths, n_folds)
    first_rows = np.flatnonzero(np.diff(unit, prepend=-1))
    class_of_unit = classes[first_rows]
    if len(first_rows) < len(classes) and (
        (class_of_unit[unit] != classes).any()
        or np.bincount(class_of_unit, minlength=classes.max() + 1).min() < 2
    ):
        unit, class_of_unit = np.arange(len(classes)), classes
    fold_of_unit = np.full(len(class_of_unit), -1)
    _, first_of_class = np.unique(class_of_unit, return_index=True)
    # Classes in the order of first occurrence, so that results do not depend on their names.
    for offset, k in enumerate(np.argsort(first_of_class)):
        members = np.flatnonzero(class_of_unit == k)
        if len(members) > 1:
            shuffled = np.random.RandomState(offset).permutation(members)
            fold_of_unit[shuffled] = (np.arange(len(members)) + offset) % n_folds
    return _train_and_test_rows(fold_of_unit[unit], n_folds)


def _units(lengths: Sequence[int], n_folds: int) -> IntArray:
    """Return the sequence of every row, or the row itself if sequences are too few to be held out."""
    if len(lengths) >= n_folds:
        return np.repeat(np.arange(len(lengths)), lengths)
    return np.arange(sum(lengths))


def _train_and_test_rows(fold_of_sample: IntArray, n_folds: int) -> list[tuple[IntArray, IntArray]]:
    folds = (
        (np.flatnonzero(fold_of_sample != f), np.flatnonzero(fold_of_sample == f)) for f in range(n_folds)
    )
    return [(train, held_out) for train, held_out in folds if len(held_out) and len(train) > 1]
