"""Products of principal components: quadratic functions of many columns."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from probsfa._typing import FloatArray
from probsfa.expansions import Polynomial
from probsfa.linalg import blocks_of, canonical_axes, default_rank_tol

__all__ = ["PrincipalProducts"]

_EQUAL = 1e-9  # relative; standard deviations closer than this are equal


class PrincipalProducts(TransformerMixin, BaseEstimator):
    """Leading principal components, and their products.

    Parameters
    ----------
    n_components : int, default=40
        How many components, or as many as the rows allow, or fewer where this would divide components of
        equal variance.
    standardize : bool, default=False
        Whether the columns are scaled to unit variance first.
    whiten : bool, default=False
        Whether every component is scaled to unit variance; otherwise all are divided by the standard
        deviation of the first.
    """

    standardize = False  # of estimators that were saved without these
    whiten = False

    def __init__(self, n_components: int = 40, standardize: bool = False, whiten: bool = False) -> None:
        self.n_components = n_components
        self.standardize = standardize
        self.whiten = whiten

    def fit(self, X: FloatArray, y: Any = None) -> Self:
        """Find the components of rows (N, D)."""
        self.mean_ = X[0] + (X - X[0]).mean(axis=0)
        centred = X - self.mean_
        scales = np.ones(X.shape[1], dtype=np.float64)
        if self.standardize:
            spread = centred.std(axis=0)
            floor = np.sqrt(default_rank_tol(1)) * np.abs(self.mean_)
            scales = np.where(spread > floor, spread, np.inf)
        unit = np.ones(X.shape[1], dtype=np.float64)
        _, d, Vt = np.linalg.svd(centred / scales, full_matrices=False)
        rank = int(np.sum(d**2 > default_rank_tol(X.shape[1]) * d[0] ** 2)) if d[0] > 0 else 0
        # Which components of equal variance come first is a matter of rounding: all are used, or none.
        apart = np.append(-np.diff(d[:rank]) > _EQUAL * d[0], True) if rank else np.array([True])
        ends = np.flatnonzero(apart) + 1
        K = int(max(ends[ends <= max(self.n_components, ends[0])]))
        for block in blocks_of(apart[:K]):
            Vt[block] = canonical_axes(Vt[block].T, unit).T @ Vt[block]
        units = d[:K] / np.sqrt(len(X)) if rank else np.ones(K, dtype=np.float64)
        if not self.whiten:
            units = units[:1]
        self.components_ = Vt[:K] / units[:, None] / scales
        return self

    def transform(self, X: FloatArray) -> FloatArray:
        """Return the components and products of rows, (N, K + K (K + 1) / 2)."""
        Y = (X - self.mean_) @ self.components_.T
        return Polynomial(2).expand(Y)
