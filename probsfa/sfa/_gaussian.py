"""Gaussian classification with covariances between one for each class and one for all."""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

from probsfa._typing import FloatArray

__all__ = ["GaussianClassifier"]


class GaussianClassifier(ClassifierMixin, BaseEstimator):
    """Regularised discriminant analysis (Friedman 1989, J. Am. Stat. Assoc. 84:165, eqs. 16 and 18).

    With the scatter ``S_k`` of the ``n_k`` samples of class k around its mean, and S and N those of all::

        C_k = ((1 - pooling) S_k + pooling S) / ((1 - pooling) n_k + pooling N)

    and ``(1 - damping) C_k + damping m I`` with the mean variance m of all samples. A class of few samples
    thereby leans on the others of its own accord.

    Parameters
    ----------
    pooling : float, default=0.0
        From 0, a covariance for each class, to 1, one for all.
    damping : float, default=0.01
        From 0 to 1.
    temperature : float, default=1.0
        Log-probabilities are divided by it and normalised. Above 1 it makes up for covariances that are too
        small, as those of features are on the samples that the features were learned from.

    Attributes
    ----------
    classes_ : ndarray (S,)
        The classes.
    """

    temperature = 1.0  # of classifiers that were saved without it

    def __init__(self, pooling: float = 0.0, damping: float = 0.01, temperature: float = 1.0) -> None:
        self.pooling = pooling
        self.damping = damping
        self.temperature = temperature

    def fit(self, X: FloatArray, y: NDArray[np.generic]) -> Self:
        """Fit a Gaussian to each class.

        Parameters
        ----------
        X : ndarray (N, K)
            Features, of finite numbers.
        y : ndarray (N,)
            Classes.
        """
        self.classes_, members = np.unique(y, return_inverse=True)
        counts = np.bincount(members)
        K = X.shape[1]
        self._means = np.stack([X[members == k].mean(axis=0) for k in range(len(counts))])
        centred = X - self._means[members]
        pooled = centred.T @ centred
        spread = float(X.var(axis=0).mean())
        floor = self.damping * (spread if spread > 0 else 1.0) * np.eye(K)
        self._whiteners, self._offsets = [], np.log(counts / counts.sum())
        factor = None
        for k, n in enumerate(counts):
            if self.pooling < 1:
                own = centred[members == k]
                weight = (1 - self.pooling) * n + self.pooling * len(X)
                scatter = ((1 - self.pooling) * (own.T @ own) + self.pooling * pooled) / weight
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
        chosen: NDArray[np.generic] = self.classes_[self.predict_log_proba(X).argmax(axis=1)]
        return chosen
