"""Regression by slow features: graph-based SFA followed by a regression."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score

from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_estimator_type, check_positive
from probsfa.graphs import ring, serial, sliding_window, union
from probsfa.graphs._labels import check_labels, label_groups
from probsfa.graphs._named import build_graph, needs_labels
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.sfa.supervised.choice import Basis, Options, choose, first_minimum, row_folds
from probsfa.sfa.supervised.classifier import GaussianClassifier
from probsfa.sfa.supervised.common import SlowFeatureStep, check_labelled, concatenate_for_score

__all__ = ["GraphSFARegressor", "RidgeStep", "SoftLabels"]

# ---- regressions on slow features: ridge regression on features, products or a kernel; soft labels


_PENALTIES = np.logspace(-8, 3, 23)  # relative to the sum of squares of a scaled column
_N_KERNEL_CENTRES = 200
# Relative to the root mean square of all columns. Columns of smaller scale are rounding errors, such as
# features of duplicated columns with shrinkage.
_CONSTANT_TOL = 1e-8
_MAX_FEATURES_OF_PRODUCTS = 13  # 13 features have 91 products


class RidgeStep(RegressorMixin, BaseEstimator):
    """Ridge regression on functions of slow features; the penalty minimizes the leave-one-out error.

    Parameters
    ----------
    basis : {"linear", "quadratic", "kernel"}, default="linear"
        Regressors: "linear" are the features; "quadratic" adds products of the slowest 13; "kernel" are
        Gaussian kernels around some of the samples.
    width : float, default=1.0
        Width of the Gaussian kernels, in units of the root mean square distance between samples.

    Attributes
    ----------
    penalty_ : float
        The selected penalty.
    """

    def __init__(self, basis: str = "linear", width: float = 1.0) -> None:
        self.basis = basis
        self.width = width

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to features (N, K) and targets (N, T).

        Notes
        -----
        The leave-one-out error of a sample is ``(y - f) / (1 - h)`` with the diagonal h of the hat matrix
        (Golub, Heath & Wahba 1979, Technometrics 21:215). One decomposition therefore suffices for all
        penalties.
        """
        if self.basis == "kernel":
            selected = np.random.RandomState(0).permutation(len(X))[:_N_KERNEL_CENTRES]
            self._centres = X[np.sort(selected)]
            mean_squared_distance = 2.0 * float(X.var(axis=0).sum())
            self._inverse = 1.0 / (
                2.0 * self.width**2 * (mean_squared_distance if mean_squared_distance > 0 else 1.0)
            )
        Z = self._functions(X)
        self._mean, self._target = Z.mean(axis=0), y.mean(axis=0)
        scale = np.sqrt(np.mean((Z - self._mean) ** 2, axis=0))
        common_scale = np.sqrt(np.mean(scale**2))
        scales = np.full_like(scale, common_scale) if self.basis == "kernel" else scale
        self._scale = (
            np.where(scales > _CONSTANT_TOL * common_scale, scales, np.inf)
            if common_scale > 0
            else np.full_like(scales, np.inf)
        )
        U, d, V = _smaller_svd((Z - self._mean) / self._scale)
        centred = y - self._target
        projected = U.T @ centred
        penalties = _PENALTIES * len(X)
        retained = d**2 / (d**2 + penalties[:, None])
        leverage = np.minimum(1.0 / len(X) + retained @ (U**2).T, 1 - 1e-9)
        left_out = (centred - U @ (retained[:, :, None] * projected)) / (1 - leverage)[:, :, None]
        errors = np.mean(left_out**2, axis=(1, 2))
        self.penalty_ = float(penalties[first_minimum(errors)])
        gain = d / (d**2 + self.penalty_)
        self._weights = (V * gain) @ projected / self._scale[:, None]
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the estimates (N, T)."""
        estimates: FloatArray = self._target + (self._functions(X) - self._mean) @ self._weights
        return estimates

    def _functions(self, X: FloatArray) -> FloatArray:
        if self.basis == "linear":
            return X
        if self.basis == "quadratic":
            i, j = np.triu_indices(min(X.shape[1], _MAX_FEATURES_OF_PRODUCTS))
            return np.hstack([X, X[:, i] * X[:, j]])
        squares = np.sum(X**2, axis=1)[:, None] + np.sum(self._centres**2, axis=1) - 2 * X @ self._centres.T
        return np.exp(-self._inverse * np.maximum(squares, 0.0))


def _smaller_svd(Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the singular value decomposition from the smaller of Z'Z and ZZ'.

    Singular values below 1e-7 of the largest are discarded; the smallest penalty is far above their squares.
    """
    has_more_rows = Z.shape[0] >= Z.shape[1]
    values, vectors = np.linalg.eigh(Z.T @ Z if has_more_rows else Z @ Z.T)
    retained = values > 1e-14 * max(float(values[-1]), 0.0)
    d, vectors = np.sqrt(values[retained]), vectors[:, retained]
    opposite_vectors = (Z @ vectors if has_more_rows else Z.T @ vectors) / d
    return (opposite_vectors, d, vectors) if has_more_rows else (vectors, d, opposite_vectors)


class SoftLabels(RegressorMixin, BaseEstimator):
    """Mean label of groups of labels, weighted by the group probabilities of a classifier.

    Escalante-B. & Wiskott (2013), JMLR 14:3683, eq. 36.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``
        Classifier of the groups.
    n_labels : int, optional
        Maximum number of groups; see :func:`probsfa.graphs._labels.label_groups`.

    Attributes
    ----------
    label_values_ : ndarray (L,)
        Mean label of every group.
    classifier_ : scikit-learn classifier
        The fitted classifier.
    """

    def __init__(self, classifier: Any, n_labels: int | None = None) -> None:
        self.classifier = classifier
        self.n_labels = n_labels

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to features (N, K) and one target (N, 1)."""
        labels = y[:, 0]
        groups = label_groups(labels, self.n_labels, name="n_labels")
        self.label_values_ = np.bincount(groups, weights=labels) / np.bincount(groups)
        self.classifier_ = clone(self.classifier).fit(X, groups)
        return self

    def predict(self, X: FloatArray) -> FloatArray:
        """Return the estimates (N, 1)."""
        estimates: FloatArray = (self.classifier_.predict_proba(X) @ self.label_values_)[:, None]
        return estimates


# ---- regression by slow features: graph-based SFA followed by a regression


_COMPONENT_COUNTS = (1, 2, 3, 5, 8, 13, 21, 34, 64)
# Share of the variance of sine and cosine that a fit with `period` must explain to avoid a warning. In
# simulations of 36 rotating objects, 8 of 9 fits with errors above 40 degrees were below this value, and 1
# fit with errors below 20 degrees.
_MIN_PERIODIC_SCORE = 0.5
_KERNEL_WIDTHS = (0.4, 1.0, 2.5)
_MIN_LABELS = 4  # with fewer labels, the serial graph has no slow function of the label


class GraphSFARegressor(Saveable, SlowFeatureStep, RegressorMixin, BaseEstimator):
    """Estimate numbers or angles from slow features on a training graph of the labels.

    Parameters
    ----------
    n_components : int or "auto", optional
        Number of slow features for the final step. By default, or with "auto", chosen by cross-validation
        from 1, 2, 3, 5, 8 ... 64, up to the rank of the data.
    graph : TrainingGraph, str or callable, optional
        As in :class:`GraphSFA`. By default "serial" or "sliding_window", chosen by cross-validation; for
        angles :func:`probsfa.graphs.ring`. For several targets, the union of one named graph for each target
        is used.
    expansion : "auto", transformer or None, default="auto"
        As in :class:`GraphSFAClassifier`; "auto" also tries 4, 8 and 16 principal components.
    n_labels : int, optional
        Maximum number of groups of soft labels. If there are at most this many distinct labels, each is a
        group; if no labels are equal, the sizes of the groups differ by at most one. Default ``sqrt(N)``, at
        most 50. The groups of the graph are set separately, as in ``graph=graphs.Serial(n_groups=20)``.
    rank_tol : float, optional
        As in :class:`GraphSFA`.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        With a classifier, estimates are soft labels: the labels are divided into groups, and the estimate is
        the mean label of the groups weighted by the probabilities of the classifier. One target only.
    regressor : scikit-learn regressor, optional
        Final step; it is cloned. By default selected by cross-validation: ridge regression on the features,
        on the features and products of the slowest 13, or on Gaussian kernels; or soft labels from Gaussian
        classes.
    period : float, optional
        Period of circular targets such as angles: ``2 * pi`` or 360. Their sine and cosine are estimated;
        estimates are between 0 and the period.
    shrinkage : {"auto"}, float or None, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation among no shrinkage, the estimate of Ledoit
        & Wolf, and fixed intensities. A TrainingGraph cannot be rebuilt for subsets of the samples; "auto" is
        then the estimate of Ledoit & Wolf.
    shrinkage_target : {"auto", "diagonal", "identity"}, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation.
    preset : {"images"}, optional
        As in :class:`GraphSFAClassifier`.
    cv : int, default=5
        Number of folds of all cross-validations. Whole sequences are held out if there are at least `cv`
        sequences.

    Attributes
    ----------
    gsfa_ : GraphSFA
        Fitted slow features; without the graph.
    regressor_ : regressor
        The fitted final step.
    label_values_ : ndarray (L,)
        Mean label of every group, if the final step uses soft labels.
    classifier_ : scikit-learn classifier
        Fitted to the slow features and these groups, if the final step uses soft labels.
    held_out_score_ : float
        R squared on held-out samples (for angles: of their sines and cosines); NaN without cross-validation.
        The score is slightly optimistic, because it is the score of the best candidate.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : The features without the regression.
    GraphSFAClassifier : Classification.

    Notes
    -----
    Soft labels are those of Escalante-B. & Wiskott (2013), JMLR 14:3683, section 5.5 and eq. 36: the best
    estimate under squared loss given group probabilities. They are between the mean labels of the first and
    the last group.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.linspace(-1, 1, 400)
    >>> X = np.column_stack([np.sin(2 * y), np.cos(3 * y)])
    >>> estimate = GraphSFARegressor(2).fit(X, y).predict(X)
    >>> bool(np.sqrt(np.mean((estimate - y) ** 2)) < 0.01)
    True

    Angles:

    >>> y = np.linspace(0, 360, 400, endpoint=False)
    >>> X = np.column_stack([np.sin(np.radians(y)), np.cos(np.radians(y))])
    >>> estimate = GraphSFARegressor(period=360).fit(X, y).predict(X)
    >>> bool(abs((estimate - y + 180) % 360 - 180).max() < 1)
    True
    """

    _few_components = (3, 4, 6, 8, 12, 16)

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        graph: Any = None,
        expansion: Any = "auto",
        n_labels: int | None = None,
        rank_tol: float | None = None,
        classifier: Any = None,
        regressor: Any = None,
        period: float | None = None,
        shrinkage: float | str | None = "auto",
        shrinkage_target: str = "auto",
        preset: str | None = None,
        cv: int = 5,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.n_labels = n_labels
        self.rank_tol = rank_tol
        self.classifier = classifier
        self.regressor = regressor
        self.period = period
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target
        self.preset = preset
        self.cv = cv

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the slow features, and the final step to them.

        Parameters
        ----------
        X : array-like (N, D), list of array-likes (N_i, D), or images (N, H, W[, C]) with the preset
            Samples.
        y : array-like (N,) or (N, n_targets), list of such, or one label for each sequence
            Numbers, not all the same.

        Returns
        -------
        GraphSFARegressor
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing values; if y has another length, missing labels or a constant target; or as in
            :class:`GraphSFA`.

        Warns
        -----
        UserWarning
            If the features explain less than half of the variance of angles on held-out samples.
        """
        self._check_parameters()
        self._check_step()
        sequences, row_labels = self._check_rows(X, y)
        check_labelled(np.asarray(row_labels))
        targets = _check_targets(row_labels)
        self._n_targets = None if np.ndim(row_labels) == 1 else targets.shape[1]
        if targets.shape[1] > 1 and self.classifier is not None:
            raise ValueError(
                f"y has {targets.shape[1]} targets; classifier (soft labels) supports one. Use regressor "
                "instead."
            )
        order = self._order(sequences, targets)
        sequences, targets = sequences.reordered(order), targets[order]
        labels = targets[:, 0] if targets.shape[1] == 1 else targets
        step_targets = targets if self.period is None else _on_circle(targets, self.period)
        if self.regressor is not None and step_targets.shape[1] == 1:
            step_targets = step_targets[:, 0]
        maximum = self._max_n_components(sequences.values)
        auto = self.n_components is None or self.n_components == "auto"
        counts = [c for c in _COMPONENT_COUNTS if c < maximum] + [maximum] if auto else [self.n_components]
        options = Options(
            self._bases(),
            self._larger_bases,
            counts,
            self._steps(step_targets.size // len(step_targets)),
            n_first_steps=2,
        )
        folds = row_folds(self.cv, sequences.lengths) if options.has_alternatives else []
        choice = choose(
            self.rank_tol, sequences.values, labels, step_targets, options, folds, _loss, sequences.lengths
        )
        self.held_out_score_ = 1.0 - choice.loss / float(step_targets.var(axis=0).sum())
        if self.period is not None and self.held_out_score_ < _MIN_PERIODIC_SCORE:
            warnings.warn(
                f"On held-out samples, the features explain {self.held_out_score_:.2f} of the variance of "
                "the sines and cosines of y, so that estimates of the angle may be wrong by 45 degrees or "
                "more. Use more samples, or columns that distinguish opposite angles.",
                stacklevel=2,
            )
        if np.isnan(choice.loss) and auto:
            choice = choice._replace(n_components=min(maximum, len(targets) - 1))
        features = self._fit_features(sequences, labels, choice, automatic=auto)
        self.regressor_ = clone(choice.step).fit(features, step_targets)
        for name in ("label_values_", "classifier_"):
            if hasattr(self.regressor_, name):
                setattr(self, name, getattr(self.regressor_, name))
        return self

    def predict(self, X: Any) -> Any:
        """Return estimates of the targets, in the shape of `y`, or a list for a list of sequences."""
        return self._on_features(X, self._estimates)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R squared, the share of the variance of the targets that is explained.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,) or (N, n_targets), list of such, or one target for each sequence
            Targets. If `period` is set, sines and cosines of the angles are compared.
        sample_weight : array-like (N,), optional
            Weights of the rows.
        """
        predicted, labels = concatenate_for_score(self.predict(X), y)
        if self.period is not None:
            predicted, labels = (
                _on_circle(np.asarray(a, dtype=np.float64).reshape(len(a), -1), self.period)
                for a in (predicted, labels)
            )
        return float(r2_score(labels, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Return the scikit-learn tags of the estimator."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.classifier is None
        return tags

    def _estimates(self, features: FloatArray) -> FloatArray:
        estimates = np.asarray(self.regressor_.predict(features), dtype=np.float64).reshape(len(features), -1)
        if self.period is not None:
            half = estimates.shape[1] // 2
            angles = np.arctan2(estimates[:, :half], estimates[:, half:])
            estimates = np.mod(angles / (2 * np.pi), 1.0) * self.period
        return estimates[:, 0] if self._n_targets is None else estimates

    def _check_step(self) -> None:
        if self.classifier is not None and self.regressor is not None:
            raise ValueError("classifier and regressor cannot both be set. Use one final step.")
        if self.classifier is not None:
            check_estimator_type("classifier", self.classifier, "predict_proba")
        if self.regressor is not None:
            check_estimator_type("regressor", self.regressor, "predict")
        if self.n_labels is not None:
            check_count("n_labels", self.n_labels, minimum=2)
        if self.period is None:
            return
        check_positive("period", self.period)
        if self.classifier is not None:
            raise ValueError(
                f"classifier (soft labels) is not supported with period={self.period!r}. Use regressor "
                "instead."
            )

    def _steps(self, n_targets: int) -> list[Any]:
        """Return the candidates for the final step, the simplest first."""
        if self.regressor is not None:
            return [self.regressor]
        if self.classifier is not None:
            return [SoftLabels(self.classifier, self.n_labels)]
        steps: list[Any] = [RidgeStep(), RidgeStep("quadratic")]
        steps += [RidgeStep("kernel", width) for width in _KERNEL_WIDTHS]
        if n_targets == 1:
            steps += [SoftLabels(GaussianClassifier(pooling, 0.01), self.n_labels) for pooling in (1.0, 0.1)]
        return steps

    def _bases(self) -> list[Basis]:
        bases = super()._bases()
        if self.graph is not None or self.period is not None:
            return bases
        # The serial graph has one feature fewer than groups, and its features are constant within groups.
        window = TargetGraph("sliding_window", None)
        return [*bases, *(basis._replace(graph=window) for basis in bases)]

    def _graph_parameter(self) -> Any:
        if self.graph is None:
            name = "default" if self.period is None else "ring"
        elif isinstance(self.graph, str) and needs_labels(self.graph):
            name = self.graph
        else:
            return self.graph
        return TargetGraph(name, self.period)


@dataclass(frozen=True)
class TargetGraph:
    """Builder of the union of the graphs of all targets.

    Attributes
    ----------
    name : str
        Name of a graph from labels; "default" is the serial graph, or the sliding window for few distinct
        labels.
    period : float or None
        Period of the targets.
    """

    name: str
    period: float | None

    def __call__(self, X: FloatArray, y: FloatArray) -> TrainingGraph:
        """Return the graph of targets (N,) or (N, T)."""
        graphs = [self._of_one(column) for column in (y.T if y.ndim == 2 else [y])]
        return union(graphs) if len(graphs) > 1 else graphs[0]

    def _of_one(self, y: FloatArray) -> TrainingGraph:
        if self.name == "ring":
            return ring(y, period=self.period)
        if self.name == "default":
            return serial(y) if len(np.unique(y)) >= _MIN_LABELS else sliding_window(y)
        return build_graph(self.name, np.empty((len(y), 0)), y)


def _check_targets(y: Any) -> FloatArray:
    """Return targets (N, T); raise a ValueError for a constant target."""
    columns = np.asarray(y)
    if columns.ndim not in (1, 2):
        raise ValueError(f"y must have the shape (N,) or (N, n_targets); got {columns.shape}.")
    targets = np.column_stack(
        [check_labels(column) for column in (columns.T if columns.ndim == 2 else [columns])]
    )
    constant = np.flatnonzero((targets == targets[0]).all(axis=0))
    if len(constant):
        target_name = "y" if targets.shape[1] == 1 else f"y[:, {constant[0]}]"
        raise ValueError(
            f"{target_name} has only one value, {targets[0, constant[0]]}; a graph of labels requires at "
            "least two."
        )
    return targets


def _on_circle(angles: FloatArray, period: float) -> FloatArray:
    """Return sines and cosines (N, 2 T)."""
    radians = angles * (2 * np.pi / period)
    return np.concatenate([np.sin(radians), np.cos(radians)], axis=1)


def _loss(fitted: Any, features: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Return the sum of squared errors of held-out targets."""
    estimates = np.asarray(fitted.predict(features), dtype=np.float64)
    return np.array([np.sum((estimates.reshape(targets.shape) - targets) ** 2)])
