"""Regressions on slow features: ridges on them, on their products or on a kernel, and soft labels."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone

from probsfa._typing import FloatArray
from probsfa.expansions import Polynomial
from probsfa.graphs._labels import label_groups
from probsfa.sfa._choice import first_least

__all__ = ["RidgeStep", "SoftLabels"]

_PENALTIES = np.logspace(-8, 3, 23)  # relative to the mean square of a column
_KERNEL_CENTRES = 200
_CONSTANT = 1e-8  # relative; features of duplicated columns under shrinkage are rounding and vary by less
_MOST_PRODUCTS = 13  # the slowest features, of which there are 91 products


class RidgeStep(RegressorMixin, BaseEstimator):
    """Ridge regression on functions of slow features, its penalty by leaving out one sample at a time.

    Parameters
    ----------
    basis : {"linear", "quadratic", "kernel"}, default="linear"
        Functions of the features: themselves, with products of the slowest 13, or Gaussians around some of
        the samples.
    width : float, default=1.0
        Width of the Gaussians, in root mean square distances between samples.

    Attributes
    ----------
    penalty_ : float
        The chosen penalty.
    """

    def __init__(self, basis: str = "linear", width: float = 1.0) -> None:
        self.basis = basis
        self.width = width

    def fit(self, X: FloatArray, y: FloatArray) -> Self:
        """Fit to features (N, K) and targets (N, T).

        Notes
        -----
        The error of a sample that is left out is ``(y - f) / (1 - h)`` with the diagonal h of the hat matrix
        (Golub, Heath & Wahba 1979, Technometrics 21:215), so that all penalties take one decomposition.
        """
        if self.basis == "kernel":
            chosen = np.random.RandomState(0).permutation(len(X))[:_KERNEL_CENTRES]
            self._centres = X[np.sort(chosen)]
            spread = 2.0 * float(X.var(axis=0).sum())
            self._inverse = 1.0 / (2.0 * self.width**2 * (spread if spread > 0 else 1.0))
        Z = self._functions(X)
        self._mean, self._target = Z.mean(axis=0), y.mean(axis=0)
        scale = np.sqrt(np.mean((Z - self._mean) ** 2, axis=0))
        common = np.sqrt(np.mean(scale**2))
        own = np.full_like(scale, common) if self.basis == "kernel" else scale
        self._scale = (
            np.where(own > _CONSTANT * common, own, np.inf) if common > 0 else np.full_like(own, np.inf)
        )
        U, d, V = _decomposed((Z - self._mean) / self._scale)
        centred = y - self._target
        projected = U.T @ centred
        squares = U**2
        penalties, errors = _PENALTIES * len(X), []
        for penalty in penalties:
            kept = d**2 / (d**2 + penalty)
            leverage = np.minimum(1.0 / len(X) + squares @ kept, 1 - 1e-9)
            left_out = (centred - U @ (kept[:, None] * projected)) / (1 - leverage)[:, None]
            errors.append(float(np.mean(left_out**2)))
        self.penalty_ = float(penalties[first_least(np.array(errors))])
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
            return np.hstack([Polynomial(2).expand(X[:, :_MOST_PRODUCTS]), X[:, _MOST_PRODUCTS:]])
        squares = np.sum(X**2, axis=1)[:, None] + np.sum(self._centres**2, axis=1) - 2 * X @ self._centres.T
        return np.exp(-self._inverse * np.maximum(squares, 0.0))


def _decomposed(Z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the singular value decomposition by the smaller product of Z with itself, which takes less time.

    Singular values below 1e-7 of the largest are left out; the smallest penalty is far above their squares.
    """
    tall = Z.shape[0] >= Z.shape[1]
    values, vectors = np.linalg.eigh(Z.T @ Z if tall else Z @ Z.T)
    kept = values > 1e-14 * max(float(values[-1]), 0.0)
    d, vectors = np.sqrt(values[kept]), vectors[:, kept]
    others = (Z @ vectors if tall else Z.T @ vectors) / d
    return (others, d, vectors) if tall else (vectors, d, others)


class SoftLabels(RegressorMixin, BaseEstimator):
    """The mean label of groups of labels, under the probabilities that a classifier gives the groups.

    Escalante-B. & Wiskott (2013), JMLR 14:3683, eq. 36.

    Parameters
    ----------
    classifier : scikit-learn classifier with ``predict_proba``
        Gives the probabilities.
    n_labels : int, optional
        How many groups; see :func:`probsfa.graphs._labels.label_groups`.

    Attributes
    ----------
    label_values_ : ndarray (L,)
        Mean label of every group.
    classifier_ : scikit-learn classifier
        The fitted one.
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
