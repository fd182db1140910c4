"""Classification by slow features: graph-based slow feature analysis with a classifier on top."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from probsfa._saving import Saved
from probsfa.sfa._supervised import fit_classifier, fit_slow_features, on_slow_features, rows_and_labels

__all__ = ["GraphSFAClassifier"]


def _classifier_has(name: str) -> Any:
    """Make a method available where the classifier on top has it; the default one has."""
    return lambda self: self.classifier is None or hasattr(self.classifier, name)


class GraphSFAClassifier(Saved, ClassifierMixin, BaseEstimator):
    """Classify samples by their slow features on a training graph of the classes.

    Parameters
    ----------
    n_components : int, optional
        How many slow features the classifier gets. Default: one less than there are classes, which on the
        clustered graph is all there is to know, or the rank of the data where that is lower.
    graph : TrainingGraph, str or callable, default="clustered"
        As in :class:`GraphSFA`.
    expansion : transformer, optional
        As in :class:`GraphSFA`; the linear features are those of Fisher's discriminant.
    rank_tol : float, optional
        As in :class:`GraphSFA`.
    classifier : scikit-learn classifier, optional
        What decides on the slow features; it is cloned. By default a Gaussian is fitted to each class, or
        Gaussians of equal covariance where a class has no more samples than there are features.

    Attributes
    ----------
    classes_ : ndarray (S,)
        The classes.
    gsfa_ : GraphSFA
        Gives the slow features.
    classifier_ : scikit-learn classifier
        Fitted to the slow features.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    GraphSFA : The features without the classifier.
    GraphSFARegressor : For labels that are numbers.

    Notes
    -----
    Escalante-B. & Wiskott (2013), JMLR 14:3683, sections 4.1 and 4.3. Given a list of sequences with a label
    for every row, predictions come as a list too; add up ``predict_log_proba`` over a sequence to classify it
    as a whole.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> print(round(GraphSFAClassifier().fit(X[::2], y[::2]).score(X[1::2], y[1::2]), 2))
    0.97
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        graph: Any = "clustered",
        expansion: Any = None,
        rank_tol: float | None = None,
        classifier: Any = None,
    ) -> None:
        self.n_components = n_components
        self.graph = graph
        self.expansion = expansion
        self.rank_tol = rank_tol
        self.classifier = classifier

    def fit(self, X: Any, y: Any) -> Self:
        """Find the slow features and fit the classifier to them.

        Parameters
        ----------
        X : array-like (N, D), or list of array-likes (N_i, D)
            Samples.
        y : array-like (N,), or list of array-likes (N_i,)
            Classes, at least two.

        Returns
        -------
        GraphSFAClassifier
            The fitted estimator.

        Raises
        ------
        ValueError
            If X has missing cells, y does not fit or has one class only, or :class:`GraphSFA` raises it.
        """
        sequences, labels = rows_and_labels(self, X, y)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        self.classes_, classes = np.unique(labels, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise ValueError(f"y has one class, {str(self.classes_[0])!r}; a classifier needs at least two.")
        self.gsfa_ = fit_slow_features(self, sequences.values, labels, default=n_classes - 1)
        self.classifier_ = fit_classifier(self.classifier, self.gsfa_.transform(sequences.values), classes)
        return self

    def predict(self, X: Any) -> Any:
        """Return the class of every sample, shape (N,), or a list of such for a list of sequences."""
        return on_slow_features(self, X, lambda features: self.classes_[self.classifier_.predict(features)])

    @available_if(_classifier_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probabilities of the classes, shape (N, S), or a list of such."""
        return on_slow_features(self, X, lambda features: self.classifier_.predict_proba(features))

    @available_if(_classifier_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of the probabilities of the classes, shape (N, S), or a list of such."""
        return on_slow_features(self, X, lambda features: self.classifier_.predict_log_proba(features))
