"""The two steps of supervised learning with slow features: the features, and a classifier on top."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_is_fitted

from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_sequences
from probsfa.linalg import RankError
from probsfa.sfa._labels_of_rows import labels_of_rows
from probsfa.sfa.graph import GraphSFA

__all__ = ["fit_classifier", "fit_slow_features", "on_slow_features", "rows_and_labels"]


# Slow features have unit variance, so this is 1 % of the variance of all classes together added to each.
_REGULARIZATION = 0.01


def rows_and_labels(estimator: Any, X: Any, y: Any) -> tuple[Sequences, NDArray[Any]]:
    """Check the training data of a supervised estimator."""
    sequences = check_sequences(estimator, X, reset=True, allow_nan=False, min_rows=2)
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")
    return sequences, column_or_1d(labels_of_rows(y, sequences.lengths), warn=True)


def fit_slow_features(estimator: Any, X: FloatArray, y: NDArray[Any], default: int) -> GraphSFA:
    """Return GraphSFA fitted as the estimator says, with `default` components as far as the rank allows."""
    options = {name: getattr(estimator, name) for name in ("graph", "expansion", "rank_tol")}
    if estimator.n_components is not None:
        return GraphSFA(estimator.n_components, **options).fit(X, y)
    try:
        return GraphSFA(default, **options).fit(X, y)
    except RankError:
        return GraphSFA(None, **options).fit(X, y)


def on_slow_features(estimator: Any, X: Any, function: Callable[[FloatArray], Any]) -> Any:
    """Return what a function makes of the slow features of new rows, in the shape of the input."""
    check_is_fitted(estimator)
    sequences = check_sequences(estimator, X, reset=False, allow_nan=False)
    return sequences.restore(function(estimator.gsfa_.transform(sequences.values)))


def fit_classifier(classifier: Any, features: FloatArray, classes: NDArray[np.intp]) -> Any:
    """Return a clone of the classifier fitted to slow features, by default a Gaussian classifier.

    Parameters
    ----------
    classifier : scikit-learn classifier or None
        None fits one Gaussian to each class, or Gaussians of equal covariance where a class has no more
        samples than there are features.
    features : ndarray (N, K)
        Slow features.
    classes : ndarray (N,)
        Class of every sample.
    """
    if classifier is None:
        if np.unique(classes, return_counts=True)[1].min() > features.shape[1]:
            classifier = QuadraticDiscriminantAnalysis(reg_param=_REGULARIZATION)
        else:
            classifier = LinearDiscriminantAnalysis()
    try:
        return clone(classifier).fit(features, classes)
    except IndexError:  # scikit-learn's linear discriminant analysis, where classes have no spread
        raise ValueError(
            f"{type(classifier).__name__} cannot be fitted to the slow features: they take one value in each "
            "class, so that there is no spread to compare with. Take fewer columns, or more rows, or give "
            "another classifier."
        ) from None
