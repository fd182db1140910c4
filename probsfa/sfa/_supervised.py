"""The two steps of supervised learning with slow features: the features, and a classifier on top."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis

from probsfa.linalg import RankError
from probsfa.sfa.graph import GraphSFA

__all__ = ["fit_classifier", "fit_slow_features"]

FloatArray = NDArray[np.float64]

# Slow features have unit variance, so this is 1 % of the variance of all classes together added to each.
_REGULARIZATION = 0.01


def fit_slow_features(
    X: FloatArray, y: NDArray[Any], n_components: int | None, default: int, **options: Any
) -> GraphSFA:
    """Return GraphSFA fitted with `n_components`, or with `default` as far as the rank allows."""
    if n_components is not None:
        return GraphSFA(n_components, **options).fit(X, y)
    try:
        return GraphSFA(default, **options).fit(X, y)
    except RankError:
        return GraphSFA(None, **options).fit(X, y)


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
    return clone(classifier).fit(features, classes)
