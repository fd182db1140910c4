"""Polynomials of the inputs, with optional whitening."""

import math

import numpy as np
from sklearn import config_context
from sklearn.preprocessing import PolynomialFeatures

from probsfa._validation import check_count, check_memory, readable_count
from probsfa.expansions._base import Expansion, FloatArray
from probsfa.linalg import check_rank_tol, whiten

__all__ = ["Polynomial"]


class Polynomial(Expansion):
    """All monomials of the inputs up to a degree, without the constant.

    Parameters
    ----------
    degree : int, default=2
        Highest total degree.
    whiten : bool, default=False
        Whether to whiten the monomials, without the directions in which the training data do not vary
        (Sprekeler 2011, figure 1, by a singular value decomposition). The columns are then decorrelated, with
        zero mean and unit variance on the training data.
    rank_tol : float or None, default=None
        With `whiten`, directions of the standardized monomials with at most this fraction of the largest
        variance are discarded. The default is :func:`probsfa.linalg.default_rank_tol`.

    Attributes
    ----------
    mean_ : ndarray (E,)
        Mean of the monomials; with `whiten` only.
    whitening_ : ndarray (E, rank)
        Whitening matrix; with `whiten` only.

    See Also
    --------
    Power : An expansion with twice the number of columns, for inputs with outliers.
    Clip : Clipping of the inputs.

    Notes
    -----
    There are ``C(D + degree, degree) - 1`` monomials: 34 for four inputs and degree 3. Monomials are
    unbounded, so that an outlier of an input becomes a much larger outlier of the outputs; see :class:`Clip`.

    References
    ----------
    Sprekeler, H. (2011). On the relation of slow feature analysis and Laplacian eigenmaps. Neural Computation
    23, 3287-3302. https://doi.org/10.1162/NECO_a_00214

    Examples
    --------
    >>> print(Polynomial(2).fit_transform([[2.0, 3.0]]))
    [[2. 3. 4. 6. 9.]]
    >>> Polynomial(2).fit([[2.0, 3.0]]).get_feature_names_out().tolist()
    ['x0', 'x1', 'x0^2', 'x0 x1', 'x1^2']
    """

    def __init__(self, degree: int = 2, *, whiten: bool = False, rank_tol: float | None = None) -> None:
        self.degree = degree
        self.whiten = whiten
        self.rank_tol = rank_tol

    @property
    def stateless(self) -> bool:
        """True unless the monomials are whitened."""
        return not self.whiten

    def n_outputs(self, n_features: int) -> float | None:
        """Return the number of monomials, ``C(n_features + degree, degree) - 1``."""
        return number_of_monomials(n_features, check_count("degree", self.degree))

    def expand(self, values: FloatArray) -> FloatArray:
        """Expand the last axis: (..., D) to (..., E), or to (..., rank) when whitening."""
        out = monomials(values, check_count("degree", self.degree))
        if self.whiten:
            out = (out - self.mean_) @ self.whitening_
        return out

    def _learn(self, values: FloatArray) -> None:
        degree = check_count("degree", self.degree)
        check_rank_tol(self.rank_tol)
        if not self.whiten:
            return
        if len(values) < 2:
            raise ValueError("whiten=True requires at least 2 rows; got n_samples = 1.")
        n_monomials = number_of_monomials(values.shape[1], degree)
        _check_size(values.shape[1], degree, n_monomials)  # memory of the covariance
        Z = monomials(values, degree)
        self.mean_ = Z.mean(axis=0)
        Z -= self.mean_
        self.whitening_ = whiten(Z.T @ Z / len(Z), rank_tol=self.rank_tol).matrix
        if self.whitening_.shape[1] == 0:
            raise ValueError("Every column of X is constant: the rank is 0. Remove constant columns.")

    def _names_out(self, names: list[str]) -> list[str]:
        if self.whiten:
            return [f"polynomial{j}" for j in range(self.whitening_.shape[1])]
        powers = PolynomialFeatures(self.degree, include_bias=False).fit(np.zeros((1, len(names))))
        return list(powers.get_feature_names_out(names))


def number_of_monomials(n_inputs: int, degree: int) -> float:
    """Return the number of monomials of degree 1 to `degree`, ``C(n_inputs + degree, degree) - 1``.

    It is exact below 1e15, and infinite above 1e300.

    Examples
    --------
    >>> number_of_monomials(4, 3)
    34.0
    """
    logarithm = math.lgamma(n_inputs + degree + 1) - math.lgamma(n_inputs + 1) - math.lgamma(degree + 1)
    if logarithm < 15 * math.log(10):
        return float(math.comb(n_inputs + degree, degree) - 1)  # exact, but slow for large numbers
    return math.exp(logarithm) if logarithm < 300 * math.log(10) else math.inf


def _check_size(n_inputs: int, degree: int, n_rows: float) -> None:
    """Raise a ValueError if the monomials of `n_rows` rows do not fit into memory."""
    n_monomials = number_of_monomials(n_inputs, degree)
    check_memory(
        8.0 * n_rows * n_monomials,
        f"degree={degree} gives {readable_count(n_monomials)} monomials of {n_inputs:,} columns, which need "
        "{size}",
        "Use a lower degree, fewer columns, or KernelSFA.",
    )


def monomials(values: FloatArray, degree: int) -> FloatArray:
    """Return all monomials of degree 1 to `degree` of the last axis, by degree, then in lexical order.

    Raises
    ------
    ValueError
        If they do not fit into memory.
    """
    *leading, n_inputs = values.shape
    _check_size(n_inputs, degree, math.prod(leading))
    if values.size == 0:  # scikit-learn rejects empty arrays
        return np.empty((*leading, math.comb(n_inputs + degree, degree) - 1), dtype=np.float64)
    # Values are already validated, and validation is slow for small blocks.
    with config_context(assume_finite=True, skip_parameter_validation=True, transform_output="default"):
        powers = PolynomialFeatures(degree, include_bias=False)
        out: FloatArray = powers.fit_transform(values.reshape(-1, n_inputs))
    return out.reshape(*leading, -1)
