"""Principal component analysis with a number of components for a given share of the variance."""

import numbers

import numpy as np

from probsfa._frames import lists_in_lists_out
from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.extensions._reconstruction import Reconstruction
from probsfa.linalg import canonical_signs

__all__ = ["PCA"]


@lists_in_lists_out
class PCA(Reconstruction):
    """Principal component analysis with a number of components selected by explained variance.

    The k-th principal subspace minimizes the risk ``R(k) = E |X - T_k(X)|^2`` over all k-dimensional
    subspaces; the minimum is the sum of all eigenvalues of the covariance except the k largest.

    Parameters
    ----------
    n_components : int, optional
        Number of components. By default the smallest number ``m`` with ``R(m) / R(0) <= alpha``.
    alpha : float, default=0.05
        Maximum share of the total variance that is not explained, between 0 and 1, if `n_components` is None.

    Attributes
    ----------
    n_components_ : int
        Number of components.
    components_ : ndarray (K, D)
        Orthonormal directions, that of the largest variance first.
    eigenvalues_ : ndarray (D,)
        Eigenvalues of the covariance, with ``1/N``, descending.
    risk_ : ndarray (D + 1,)
        ``R(0), ..., R(D)``, the mean squared reconstruction error for each number of components.
    mean_ : ndarray (D,)
        Mean of the training rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    LinearAutoencoder : The same subspace by an iterative fit of encoder and decoder.
    PrincipalCurve : Curves instead of straight lines.
    probsfa.SFA : Directions that change slowly, instead of those of large variance.

    References
    ----------
    Ravikumar, P. Representation Learning, lecture notes of 10716: Advanced Machine Learning, section 3,
    theorem 7.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.extensions import PCA
    >>> X = np.random.default_rng(0).standard_normal((500, 3)) * [3.0, 1.0, 0.1]
    >>> pca = PCA(alpha=0.01).fit(X)
    >>> pca.n_components_, bool(np.isclose(-pca.score(X), pca.risk_[2]))
    (2, True)
    """

    mean_: FloatArray
    components_: FloatArray

    def __init__(self, n_components: int | None = None, *, alpha: float = 0.05) -> None:
        self.n_components = n_components
        self.alpha = alpha

    def _check_parameters(self) -> None:
        if self.n_components is not None:
            check_count("n_components", self.n_components)
        if not isinstance(self.alpha, numbers.Real) or not 0.0 <= float(self.alpha) < 1.0:
            raise ValueError(f"alpha must be a number from 0 to below 1; got {self.alpha!r}.")

    def _learn(self, values: FloatArray, mean: FloatArray) -> None:
        """Compute the directions of largest variance."""
        n_rows, n_features = values.shape
        if self.n_components is not None and self.n_components > n_features:
            raise ValueError(f"n_components={self.n_components} is more than the {n_features} columns of X.")
        self.mean_ = mean
        centred = values - self.mean_
        _, singular, directions = np.linalg.svd(centred, full_matrices=n_rows < n_features)
        self.eigenvalues_ = np.zeros(n_features)
        self.eigenvalues_[: len(singular)] = singular**2 / n_rows
        # Sum from the smallest, to reduce rounding errors of small risks.
        self.risk_ = np.append(np.cumsum(self.eigenvalues_[::-1])[::-1], 0.0)
        if self.n_components is None:
            enough = self.risk_ <= float(self.alpha) * self.risk_[0] + 1e-14 * self.risk_[0]
            self.n_components_ = max(int(np.argmax(enough)), 1)
        else:
            self.n_components_ = self.n_components
        components = directions[: self.n_components_]
        self.components_ = components * canonical_signs(components.T, np.ones(n_features))[:, None]

    def _outputs(self, values: FloatArray) -> FloatArray:
        return np.asarray((values - self.mean_) @ self.components_.T)

    def _inputs(self, codes: FloatArray) -> FloatArray:
        return np.asarray(self.mean_ + codes @ self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
