"""Classification by slow features: graph-based SFA followed by a classifier."""

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from probsfa._saving import Saveable
from probsfa._typing import FloatArray
from probsfa._validation import check_estimator_type
from probsfa.sfa.supervised.choice import Options, choose, class_folds
from probsfa.sfa.supervised.common import SlowFeatureStep, check_labelled, concatenate_for_score

__all__ = ["GaussianClassifier", "GraphSFAClassifier"]

# ---- Gaussian classifier with a compromise of separate and pooled covariances


class GaussianClassifier(ClassifierMixin, BaseEstimator):
    """Regularized discriminant analysis (Friedman 1989, J. Am. Stat. Assoc. 84:165, eqs. 16 and 18).

    The covariance of class k is computed from the scatter ``S_k`` of its ``n_k`` samples around their mean,
    and from the sums S and N of these over classes::

        C_k = ((1 - pooling) S_k + pooling S) / ((1 - pooling) n_k + pooling N)

    The final covariance is ``(1 - damping) C_k + damping m I`` with the mean variance m of all samples. The
    covariance of a class with few samples is close to the pooled covariance.

    Parameters
    ----------
    pooling : float, default=0.0
        From 0, a separate covariance for each class, to 1, one pooled covariance.
    damping : float, default=0.01
        Share of the identity in the covariances, from 0 to 1.
    temperature : float, default=1.0
        Divisor of the log-probabilities, which are then normalized. A temperature above 1 compensates for
        covariances that are too small, as for features of the training samples.

    Attributes
    ----------
    classes_ : ndarray (S,)
        The classes.
    """

    temperature = 1.0  # default for saved files of earlier versions, which lack the parameter

    def __init__(self, pooling: float = 0.0, damping: float = 0.01, temperature: float = 1.0) -> None:
        self.pooling = pooling
        self.damping = damping
        self.temperature = temperature

    def fit(self, X: FloatArray, y: NDArray[np.generic]) -> Self:
        """Fit a Gaussian to each class.

        Parameters
        ----------
        X : ndarray (N, K)
            Finite features.
        y : ndarray (N,)
            Classes.
        """
        self.classes_, members = np.unique(y, return_inverse=True)
        counts = np.bincount(members)
        K = X.shape[1]
        self._means = np.stack([X[members == k].mean(axis=0) for k in range(len(counts))])
        centred = X - self._means[members]
        pooled = centred.T @ centred
        mean_variance = float(X.var(axis=0).mean())
        floor = self.damping * (mean_variance if mean_variance > 0 else 1.0) * np.eye(K)
        self._whiteners, self._offsets = [], np.log(counts / counts.sum())
        factor = None
        for k, n in enumerate(counts):
            if self.pooling < 1:
                class_rows = centred[members == k]
                weight = (1 - self.pooling) * n + self.pooling * len(X)
                scatter = ((1 - self.pooling) * (class_rows.T @ class_rows) + self.pooling * pooled) / weight
                factor = None
            else:
                scatter = pooled / len(X)
            if factor is None:
                values, vectors = np.linalg.eigh((1 - self.damping) * scatter + floor)
                values = np.maximum(values, 1e-12 * values[-1])
                factor = vectors / np.sqrt(values), 0.5 * np.log(values).sum()
            self._whiteners.append(factor[0])
            self._offsets[k] -= factor[1]
        return self

    def predict_log_proba(self, X: FloatArray) -> FloatArray:
        """Return the logarithms of the probabilities of the classes (N, S)."""
        logs: FloatArray = self.log_probabilities(X, [self.temperature])[0]
        return logs

    def log_probabilities(self, X: FloatArray, temperatures: Sequence[float]) -> FloatArray:
        """Return the logarithms of the probabilities of the classes at several temperatures, (M, N, S)."""
        joint = np.empty((len(X), len(self.classes_)), dtype=np.float64)
        for k, whitener in enumerate(self._whiteners):
            joint[:, k] = self._offsets[k] - 0.5 * np.sum(((X - self._means[k]) @ whitener) ** 2, axis=1)
        joint -= joint.max(axis=1, keepdims=True)
        scaled: FloatArray = joint / np.asarray(temperatures, dtype=np.float64)[:, None, None]
        return scaled - np.log(np.exp(scaled).sum(axis=2, keepdims=True))

    def predict_proba(self, X: FloatArray) -> FloatArray:
        """Return the probabilities of the classes (N, S)."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: FloatArray) -> NDArray[np.generic]:
        """Return the most probable class of every sample (N,)."""
        labels: NDArray[np.generic] = self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return labels


# ---- classification by slow features: graph-based slow feature analysis with a classifier on top


_POOLING_WEIGHTS = (1.0, 0.3, 0.1, 0.02, 0.0)
_N_FIRST_STEPS = 3  # number of candidate classifiers with which expansion and shrinkage are selected
_DAMPING_VALUES = (0.1, 0.01, 0.3)
_TEMPERATURES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
_MIN_CLASS_SIZE = 4  # mean samples per class; with fewer, about two of a class remain for training in a fold
_MIN_LOG_PROBABILITY = float(np.log(1e-4))  # limits the loss of a single held-out sample


def _classifier_has(name: str) -> Any:
    """Make a method available if the final classifier has it."""
    return lambda self: hasattr(GaussianClassifier if self.classifier is None else self.classifier, name)


class GraphSFAClassifier(Saveable, SlowFeatureStep, ClassifierMixin, BaseEstimator):
    """Classify samples by their slow features on a training graph of the classes.

    Parameters
    ----------
    n_components : int or "auto", optional
        Number of slow features for the classifier. Default: the number of classes minus one, or the rank of
        the data if lower; on the clustered graph these span all differences between class means. "auto"
        chooses by cross-validation among this number, half of it, and all features (at most 64): class
        covariances may differ in further directions.
    graph : TrainingGraph, str or callable, default="clustered"
        As in :class:`GraphSFA`.
    expansion : "auto", transformer or None, default="auto"
        As in :class:`GraphSFA`; None gives the linear features of Fisher's discriminant. "auto" chooses by
        cross-validation among these and quadratic functions: the 3, 6, 12 or 40 leading principal components
        and their products.
    rank_tol : float, optional
        As in :class:`GraphSFA`.
    classifier : scikit-learn classifier, optional
        Final classifier on the slow features; it is cloned. By default a Gaussian is fitted to each class,
        with covariances between separate and pooled ones, chosen by cross-validation.
    shrinkage : {"auto"}, float or None, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation among no shrinkage, the estimate of Ledoit
        & Wolf, and fixed intensities. A TrainingGraph cannot be rebuilt for subsets of the samples; "auto" is
        then the estimate of Ledoit & Wolf.
    shrinkage_target : {"auto", "diagonal", "identity"}, default="auto"
        As in :class:`GraphSFA`; "auto" chooses by cross-validation.
    preset : {"images"}, optional
        Settings for one kind of data. "images" is for images of some hundred pixels: the expansion returns
        the 40 leading principal components and their products, and the shrinkage target is "identity". X may
        then have the shape (N, H, W) or (N, H, W, C).
    cv : int, default=5
        Number of folds of all cross-validations. Whole sequences are held out if every class has several. The
        criterion is the mean log-probability of the held-out classes, or the accuracy if the classifier has
        no probabilities.

    Attributes
    ----------
    classes_ : ndarray (S,)
        The classes.
    gsfa_ : GraphSFA
        Fitted slow features; without the graph.
    classifier_ : scikit-learn classifier
        Fitted to the slow features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : The features without the classifier.
    GraphSFARegressor : Regression from numeric labels.

    Notes
    -----
    Escalante-B. & Wiskott (2013), JMLR 14:3683, sections 4.1 and 4.3. The Gaussians are those of regularized
    discriminant analysis (Friedman 1989, J. Am. Stat. Assoc. 84:165). In every fold features are fitted
    again, because they separate classes better on training samples than on others. For a list of sequences
    with a label for every row, or for every sequence, predictions are a list; sum ``predict_log_proba`` over
    a sequence to classify the whole sequence.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> print(round(GraphSFAClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2))
    0.97
    """

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        graph: Any = "clustered",
        expansion: Any = "auto",
        rank_tol: float | None = None,
        classifier: Any = None,
        shrinkage: float | str | None = "auto",
        shrinkage_target: str = "auto",
        preset: str | None = None,
        cv: int = 5,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.rank_tol = rank_tol
        self.classifier = classifier
        self.shrinkage = shrinkage
        self.shrinkage_target = shrinkage_target
        self.preset = preset
        self.cv = cv

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the slow features, and the classifier to them.

        Parameters
        ----------
        X : array-like (N, D), list of array-likes (N_i, D), or images (N, H, W[, C]) with the preset
            Samples.
        y : array-like (N,), or list of array-likes (N_i,), or one label for each sequence
            Labels of at least two classes, of which at least one has several samples.

        Returns
        -------
        GraphSFAClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing values; if y has another length, missing labels, a single class, or quantities
            instead of classes; or as in :class:`GraphSFA`.

        Warns
        -----
        UserWarning
            If more than half of the classes have one sample, or if -1 in y may mark missing labels.
        """
        self._check_parameters()
        if self.classifier is not None:
            check_estimator_type("classifier", self.classifier, "predict")
        sequences, row_labels = self._check_rows(X, y)
        labels = column_or_1d(row_labels, warn=True)
        check_labelled(labels)
        assert_all_finite(labels, input_name="y")
        _check_targets(labels)
        self.classes_, classes = np.unique(labels, return_inverse=True)
        _check_classes(self.classes_, classes)
        order = self._order(sequences, classes)
        sequences, labels, classes = sequences.reordered(order), labels[order], classes[order]
        n_classes = len(self.classes_)
        steps = [self.classifier] if self.classifier is not None else _gaussians()
        counts: list[int] = [n_classes - 1] if self.n_components in (None, "auto") else [self.n_components]
        if self.n_components == "auto":
            maximum = self._max_n_components(sequences.values)
            counts = sorted({min(c, maximum) for c in (-(-(n_classes - 1) // 2), n_classes - 1, maximum)})
        options = Options(
            self._bases(),
            self._larger_bases,
            counts,
            steps,
            n_first_steps=_N_FIRST_STEPS,
            temperatures=_TEMPERATURES if self.classifier is None else (1.0,),
        )
        if len(classes) < _MIN_CLASS_SIZE * n_classes:
            options = options.reduced_for_few_samples()
        folds = class_folds(self.cv, classes, sequences.lengths) if options.has_alternatives else []
        choice = choose(
            self.rank_tol, sequences.values, labels, classes, options, folds, _loss, sequences.lengths
        )
        features = self._fit_features(sequences, labels, choice, automatic=self.n_components == "auto")
        try:
            self.classifier_ = clone(choice.step).fit(features, classes)
        except IndexError:  # raised by LinearDiscriminantAnalysis if the variance within classes is zero
            raise ValueError(
                f"{type(choice.step).__name__} cannot be fitted to the slow features: they are constant in "
                "each class, and the variance within classes is zero. Use fewer columns, more rows, or "
                "another classifier."
            ) from None
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of every sample, shape (N,), or a list of arrays for a list of sequences."""
        return self._on_features(X, lambda features: self.classes_[self.classifier_.predict(features)])

    @available_if(_classifier_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, shape (N, S), or a list of such."""
        return self._on_features(X, lambda features: self.classifier_.predict_proba(features))

    @available_if(_classifier_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the classes, shape (N, S), or a list of such."""
        return self._on_features(X, lambda features: self.classifier_.predict_log_proba(features))

    @available_if(_classifier_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return the ``decision_function`` of the classifier."""
        return self._on_features(X, lambda features: self.classifier_.decision_function(features))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,), list of array-likes (N_i,), or one label for each sequence
            Their classes.
        sample_weight : array-like (N,), optional
            Weights of the rows.
        """
        predicted, labels = concatenate_for_score(self.predict(X), y)
        return float(accuracy_score(labels, predicted, sample_weight=sample_weight))


def _gaussians() -> list[GaussianClassifier]:
    """Return the candidate Gaussian classifiers, the simplest first."""
    return [
        GaussianClassifier(pooling, damping) for damping in _DAMPING_VALUES for pooling in _POOLING_WEIGHTS
    ]


def _loss(fitted: Any, features: FloatArray, classes: NDArray[np.intp]) -> FloatArray:
    """Return minus the sum of held-out log-probabilities at every temperature, or the number of errors."""
    if not hasattr(fitted, "predict_proba"):
        return np.array([np.sum(fitted.predict(features) != classes)], dtype=np.float64)
    column = np.searchsorted(fitted.classes_, classes)
    rows = np.arange(len(classes))
    if isinstance(fitted, GaussianClassifier):
        logs = fitted.log_probabilities(features, _TEMPERATURES)[:, rows, column]
    else:
        with np.errstate(divide="ignore"):
            logs = np.log(fitted.predict_proba(features)[None, rows, column])
    return -np.maximum(logs, _MIN_LOG_PROBABILITY).sum(axis=1)


def _check_targets(labels: NDArray[Any]) -> None:
    """Raise a ValueError for labels that are quantities."""
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise ValueError(f"{error} For quantities use GraphSFARegressor.") from None


def _check_classes(names: NDArray[Any], classes: NDArray[np.intp]) -> None:
    """Raise an error if classes cannot be fitted; warn if labels are probably quantities."""
    if len(names) < 2:
        raise ValueError(
            f"y has one class, {str(names[0])!r}; a classifier requires at least two. Add samples of "
            "another class, or use GraphSFA for features without labels."
        )
    sizes = np.bincount(classes)
    if sizes.max() == 1:
        raise ValueError(
            f"Each of the {len(names)} classes in y has one sample, so that the variance within classes "
            "cannot be estimated. If y is a quantity, use GraphSFARegressor; otherwise use several samples "
            "of a class."
        )
    n_single = int(np.sum(sizes == 1))
    if 2 * n_single > len(names):
        warnings.warn(
            f"{n_single} of the {len(names)} classes in y have one sample, which cannot be held out. If y "
            "is a quantity, use GraphSFARegressor.",
            stacklevel=3,
        )
    if names.dtype.kind in "if" and names[0] == -1 and len(names) > 2 and names[1] >= 0:
        warnings.warn(
            "The label -1 is treated as a class. If it marks samples without a label, remove these samples.",
            stacklevel=3,
        )
