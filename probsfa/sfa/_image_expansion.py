"""Expansion of small images: principal components, and their products two by two."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from probsfa._typing import FloatArray
from probsfa.expansions import Polynomial
from probsfa.linalg import default_rank_tol

__all__ = ["PrincipalProducts"]


class PrincipalProducts(TransformerMixin, BaseEstimator):
    """Leading principal components in units of the first, and their products.

    Parameters
    ----------
    n_components : int, default=40
        How many components, or as many as the rows allow.
    """

    def __init__(self, n_components: int = 40) -> None:
        self.n_components = n_components

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Find the components of rows (N, D)."""
        self.mean_ = X.mean(axis=0)
        _, d, Vt = np.linalg.svd(X - self.mean_, full_matrices=False)
        rank = int(np.sum(d**2 > default_rank_tol(X.shape[1]) * d[0] ** 2)) if d[0] > 0 else 0
        K = max(1, min(self.n_components, rank))
        unit = d[0] / np.sqrt(len(X)) if rank else 1.0
        self.components_ = Vt[:K] / unit
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the components and products of rows, (N, K + K (K + 1) / 2)."""
        Y = (X - self.mean_) @ self.components_.T
        return Polynomial(2).expand(Y)
