"""Regression by slow features: graph-based slow feature analysis with a regression on top."""

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score

from probsfa._saving import Saved
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_estimator_type, check_positive
from probsfa.graphs import ring, union
from probsfa.graphs._labels import LABEL_GRAPHS, check_labels
from probsfa.graphs.training_graph import TrainingGraph
from probsfa.sfa._choice import Options, choose, folds_of_rows
from probsfa.sfa._gaussian import GaussianClassifier
from probsfa.sfa._regression_steps import RidgeStep, SoftLabels
from probsfa.sfa._supervised import SlowFeatureStep, check_labelled, concatenated

__all__ = ["GraphSFARegressor"]

_COUNTS = (1, 2, 3, 5, 8, 13, 21, 34, 64)
# Of 36 simulated turning objects, 8 of 9 with errors above 40 degrees explained less; so did 1 with below 20.
_POOR = 0.5
_WIDTHS = (0.4, 1.0, 2.5)


class GraphSFARegressor(Saved, SlowFeatureStep, RegressorMixin, BaseEstimator):
    """Estimate numbers or angles from slow features on a training graph of the labels.

    Parameters
    ----------
    n_components : int or "auto", optional
        How many slow features the step on top gets. By default, or with "auto", chosen by cross-validation
        from 1, 2, 3, 5, 8 ... 64, as far as the rank of the data goes.
    graph : TrainingGraph, str or callable, optional
        As in :class:`GraphSFA`. By default "serial"; for angles :func:`probsfa.graphs.ring`. For several
        targets a graph that is named is built from each of them, and they are united.
    expansion : "auto", transformer or None, default="auto"
        As in :class:`GraphSFAClassifier`.
    n_labels : int, optional
        How many groups soft labels are cut into, of sizes that differ by one at most; labels that take no
        more values are their own groups. Default ``sqrt(N)``, at most 50. The groups of the graph are
        chosen apart: ``graph=lambda X, y: graphs.serial(y, n_groups=20)``.
    rank_tol : float, optional
        As in :class:`GraphSFA`.
    classifier : scikit-learn classifier with ``predict_proba``, optional
        Estimates are soft labels then: the labels are cut into groups, the classifier gives the probabilities
        of the groups, and the estimate is the mean of their labels under them. One target only.
    regressor : scikit-learn regressor, optional
        The step on top; it is cloned. By default cross-validation chooses among ridge regressions on the
        features, on these and products of the slowest 13, and on Gaussian kernels of three widths around
        some of the samples, and soft labels of Gaussian classes, by squared errors.
    period : float, optional
        Targets are angles, or other positions on a circle, that are the same after this period: ``2 * pi`` or
        360. Their sine and cosine are estimated, and estimates lie from 0 to the period.
    shrinkage : {"auto"}, float or None, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation among none, the estimate of Ledoit & Wolf,
        and some fixed ones. A graph that is given as such cannot be built anew for some of the samples, so
        that then "auto" is the estimate.
    shrinkage_target : {"auto", "diagonal", "identity"}, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation.
    preset : {"images"}, optional
        As in :class:`GraphSFAClassifier`.
    cv : int, default=5
        Number of folds for all that is chosen by cross-validation; sequences are held out as a whole where
        there are as many.

    Attributes
    ----------
    gsfa_ : GraphSFA
        Gives the slow features; without the graph.
    regressor_ : regressor
        The fitted step on top.
    label_values_ : ndarray (L,)
        Mean label of every group, where the step is soft labels.
    classifier_ : scikit-learn classifier
        Fitted to the slow features and these groups, where the step is soft labels.
    held_out_score_ : float
        Share of the variance of the targets that is explained on samples that were held out, of angles that
        of their sines and cosines; NaN where nothing was chosen. It is a little too large, because the best
        of all that was tried has it.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : The features without the regression.
    GraphSFAClassifier : For labels that are classes.

    Notes
    -----
    Soft labels are those of Escalante-B. & Wiskott (2013), JMLR 14:3683, section 5.5 and eq. 36: the best
    estimate under squared loss that a classifier of groups allows. They lie between the mean labels of the
    first and the last group; the other steps are continuous.

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
        """Find the slow features and fit the step on top.

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
            If X has missing cells, y does not fit, has missing labels or a constant target, or
            :class:`GraphSFA` raises it.

        Warns
        -----
        UserWarning
            If the features explain less than half of the variance of angles on held-out samples.
        """
        self._check_parameters()
        self._check_step()
        sequences, given = self._check_rows(X, y)
        check_labelled(np.asarray(given))
        targets = _check_targets(given)
        self._n_targets = None if np.ndim(given) == 1 else targets.shape[1]
        if targets.shape[1] > 1 and self.classifier is not None:
            raise ValueError(f"y has {targets.shape[1]} targets; soft labels are for one. Give a regressor.")
        order = self._order(sequences, targets)
        sequences, targets = sequences.take(order), targets[order]
        labels = targets[:, 0] if targets.shape[1] == 1 else targets
        fitted_to = targets if self.period is None else _on_circle(targets, self.period)
        if self.regressor is not None and fitted_to.shape[1] == 1:
            fitted_to = fitted_to[:, 0]
        most = self._most_components(sequences.values)
        auto = self.n_components is None or self.n_components == "auto"
        counts = [c for c in _COUNTS if c < most] + [most] if auto else [self.n_components]
        options = Options(
            self._bases(), self._further, counts, self._steps(fitted_to.size // len(fitted_to)), n_probes=2
        )
        folds = folds_of_rows(self.cv, sequences.lengths) if options.open else []
        choice = choose(self, sequences.values, labels, fitted_to, options, folds, _loss, sequences.lengths)
        self.held_out_score_ = 1.0 - choice.loss / float(fitted_to.var(axis=0).sum())
        if self.period is not None and self.held_out_score_ < _POOR:
            warnings.warn(
                f"On held-out samples, the features explain {self.held_out_score_:.2f} of the variance of "
                "the sines and cosines of y, so that estimates of the angle may be wrong by 45 degrees or "
                "more. Give more samples, or columns that tell opposite angles apart.",
                stacklevel=2,
            )
        if np.isnan(choice.loss) and auto:
            choice = choice._replace(n_components=min(most, len(targets) - 1))
        features = self._fit_features(sequences, labels, choice.n_components, choice.basis, chosen=auto)
        self.regressor_ = clone(choice.step).fit(features, fitted_to)
        for name in ("label_values_", "classifier_"):
            if hasattr(self.regressor_, name):
                setattr(self, name, getattr(self.regressor_, name))
        return self

    def predict(self, X: Any) -> Any:
        """Return estimates of the targets, in the shape of `y`, or a list of such for a list of sequences."""
        return self._on_features(X, self._estimates)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of the variance of the targets that is explained, R squared.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,) or (N, n_targets), list of such, or one label for each sequence
            Their targets. Of angles, sines and cosines are compared.
        sample_weight : array-like (N,), optional
            How much each row counts.
        """
        predicted, labels = concatenated(self.predict(X), y)
        if self.period is not None:
            predicted, labels = (
                _on_circle(np.asarray(a, dtype=np.float64).reshape(len(a), -1), self.period)
                for a in (predicted, labels)
            )
        return float(r2_score(labels, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn what the estimator accepts."""
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
            raise ValueError("classifier and regressor are two steps on top; give one of them.")
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
            raise ValueError("Soft labels of a classifier are for targets on a line; give a regressor.")

    def _steps(self, n_targets: int) -> list[Any]:
        """Return the steps on top to choose from, the simplest first."""
        if self.regressor is not None:
            return [self.regressor]
        if self.classifier is not None:
            return [SoftLabels(self.classifier, self.n_labels)]
        steps: list[Any] = [RidgeStep(), RidgeStep("quadratic")]
        steps += [RidgeStep("kernel", width) for width in _WIDTHS]
        if n_targets == 1:
            steps += [SoftLabels(GaussianClassifier(pooling, 0.01), self.n_labels) for pooling in (1.0, 0.1)]
        return steps

    def _graph_of(self) -> Any:
        if self.graph is None:
            name = "serial" if self.period is None else "ring"
        elif isinstance(self.graph, str) and self.graph in LABEL_GRAPHS:
            name = self.graph
        else:
            return self.graph
        return TargetGraph(name, self.period)


@dataclass(frozen=True)
class TargetGraph:
    """Builds the union of the graphs of all targets.

    Attributes
    ----------
    name : str
        Of a graph from labels.
    period : float or None
        Of the targets.
    """

    name: str
    period: float | None

    def __call__(self, X: FloatArray, y: FloatArray) -> TrainingGraph:
        """Return the graph of targets (N,) or (N, T)."""
        graphs = [self._of_one(column) for column in (y.T if y.ndim == 2 else [y])]
        return union(graphs) if len(graphs) > 1 else graphs[0]

    def _of_one(self, y: FloatArray) -> TrainingGraph:
        if self.name == "ring":
            return ring(y, period=2 * np.pi if self.period is None else self.period)
        return LABEL_GRAPHS[self.name](y)


def _check_targets(y: Any) -> FloatArray:
    """Return targets (N, T), or raise a ValueError naming the one that is constant."""
    columns = np.asarray(y)
    if columns.ndim not in (1, 2):
        raise ValueError(f"y must have the shape (N,) or (N, n_targets); got {columns.shape}.")
    targets = np.column_stack([check_labels(c) for c in (columns.T if columns.ndim == 2 else [columns])])
    constant = np.flatnonzero((targets == targets[0]).all(axis=0))
    if len(constant):
        which = "y" if targets.shape[1] == 1 else f"y[:, {constant[0]}]"
        raise ValueError(
            f"{which} has only one value, {targets[0, constant[0]]}; a graph of labels needs at least two."
        )
    return targets


def _on_circle(angles: FloatArray, period: float) -> FloatArray:
    """Return sines and cosines (N, 2 T)."""
    radians = angles * (2 * np.pi / period)
    return np.concatenate([np.sin(radians), np.cos(radians)], axis=1)


def _loss(fitted: Any, features: FloatArray, targets: NDArray[Any]) -> FloatArray:
    """Return squared errors of held-out targets, summed."""
    estimates = np.asarray(fitted.predict(features), dtype=np.float64)
    return np.array([np.sum((estimates.reshape(targets.shape) - targets) ** 2)])
