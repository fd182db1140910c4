"""Symmetric eigenproblems of slowness: a rank rule that no choice of units can fool, whitening, signs.

Slow feature analysis minimises ``w' A w`` under ``w' B w = 1``: ``A`` (D, D) is a second moment of
differences, ``B`` (D, D) a covariance, both symmetric and positive semidefinite. ``B`` may be singular
(constant or duplicated columns, fewer rows than columns). The solution is sought in the range of ``B`` only:

1. scale the columns to unit variance, ``R = S^-1 B S^-1`` with ``S = diag(sqrt(B_ii))``;
2. keep the eigenvectors ``V`` of ``R`` with eigenvalues above ``rank_tol`` times the largest one;
3. whiten, ``W = S^-1 V Lambda^-1/2``, so that ``W' B W = 1``; and diagonalise ``W' A W``.

The rank is that of the correlation matrix, so units of 1e-8 in one column and 1e8 in another change nothing.
"""

import numbers
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike

from probsfa._typing import FloatArray

__all__ = [
    "RankError",
    "SlowDirections",
    "Whitening",
    "canonical_signs",
    "check_rank_tol",
    "default_rank_tol",
    "slow_directions",
    "whiten",
]


_TIE = 1e-8  # relative; correlations closer than this count as equal, whatever the rounding


class RankError(ValueError):
    """More components were asked for than there are directions in which the data vary."""


class Whitening(NamedTuple):
    """A map onto decorrelated coordinates of unit variance.

    Attributes
    ----------
    matrix : ndarray (D, rank)
        ``W`` with ``W' B W = 1``; ``(x - mean) @ W`` is white.
    scales : ndarray (D,)
        Standard deviations of the columns, zero for those that count as constant.
    rank : int
        Number of directions in which the data vary.
    """

    matrix: FloatArray
    scales: FloatArray
    rank: int


class SlowDirections(NamedTuple):
    """The solution of ``A w = delta B w`` on the range of ``B``, slowest first.

    Attributes
    ----------
    delta_values : ndarray (K,)
        Generalised eigenvalues, ascending, never negative.
    weights : ndarray (D, K)
        Directions with ``w' B w = 1``; ``(x - mean) @ weights`` are the outputs.
    loadings : ndarray (D, K)
        ``B @ weights``, the covariance of inputs and outputs; ``mean + y @ loadings.T`` is the best linear
        reconstruction of the input, exact when K is the rank.
    rank : int
        Numerical rank of ``B``.
    scales : ndarray (D,)
        Standard deviations of the columns, zero for those that count as constant.
    """

    delta_values: FloatArray
    weights: FloatArray
    loadings: FloatArray
    rank: int
    scales: FloatArray


def default_rank_tol(n_features: int) -> float:
    """Return the default of `rank_tol`: 1e-12, or ten times the rounding of a D-by-D eigenproblem.

    1e-12 in variance is 1e-6 in standard deviation, relative to the leading direction. It lies above what
    rounding leaves of a column duplicated in single precision (about 1e-14), and below any direction whose
    delta value still has correct digits after division by its variance.
    """
    return max(1e-12, 10 * n_features * float(np.finfo(np.float64).eps))


def check_rank_tol(rank_tol: Any) -> None:
    """Raise a ValueError unless a `rank_tol` is None or lies between 0 and 1."""
    if rank_tol is not None and not (isinstance(rank_tol, numbers.Real) and 0 < float(rank_tol) < 1):
        raise ValueError(f"rank_tol must be None or lie between 0 and 1; got {rank_tol!r}.")


def whiten(B: ArrayLike, *, rank_tol: float | None = None, variance_floor: ArrayLike = 0.0) -> Whitening:
    """Whiten with a covariance matrix that may be singular and badly scaled.

    Parameters
    ----------
    B : array-like (D, D)
        Covariance matrix, symmetric positive semidefinite.
    rank_tol : float, optional
        Eigenvalues of the correlation matrix up to this fraction of the largest count as zero. Default
        :func:`default_rank_tol`.
    variance_floor : array-like (D,) or float, default=0.0
        Columns whose variance does not exceed this count as constant (for example what rounding leaves of
        the variance at a large offset).

    Returns
    -------
    Whitening
        ``matrix``, ``scales`` and ``rank``; the rank is 0 where every column is constant.

    See Also
    --------
    slow_directions : Whitens, and solves for slowness.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.diag([1e-16, 1.0, 1e16])
    >>> W = whiten(B)
    >>> W.rank, bool(np.allclose(W.matrix.T @ B @ W.matrix, np.eye(3)))
    (3, True)
    """
    B = np.asarray(B, dtype=np.float64)
    n_features = B.shape[0]
    tol = default_rank_tol(n_features) if rank_tol is None else rank_tol
    variances = np.diagonal(B)
    varying = variances > np.maximum(variance_floor, 0.0)
    scales = np.where(varying, np.sqrt(np.maximum(variances, 0.0)), 0.0)
    if not varying.any():
        return Whitening(np.zeros((n_features, 0), dtype=np.float64), scales, 0)
    s = scales[varying]
    R = B[np.ix_(varying, varying)] / s / s[:, None]
    eigenvalues, vectors = scipy.linalg.eigh((R + R.T) / 2)
    kept = eigenvalues > tol * eigenvalues[-1]
    matrix = np.zeros((n_features, int(kept.sum())), dtype=np.float64)
    matrix[varying] = vectors[:, kept] / np.sqrt(eigenvalues[kept]) / s[:, None]
    return Whitening(matrix, scales, matrix.shape[1])


def slow_directions(
    A: ArrayLike,
    B: ArrayLike,
    n_components: int | None = None,
    rank_tol: float | None = None,
    *,
    variance_floor: ArrayLike = 0.0,
) -> SlowDirections:
    """Solve ``A w = delta B w`` for the directions of smallest delta.

    Parameters
    ----------
    A : array-like (D, D)
        Second moment of differences, symmetric positive semidefinite.
    B : array-like (D, D)
        Covariance matrix, symmetric positive semidefinite.
    n_components : int, optional
        How many directions; all within the rank by default.
    rank_tol, variance_floor
        As in :func:`whiten`.

    Returns
    -------
    SlowDirections
        Slowest first, with signs by :func:`canonical_signs`.

    Raises
    ------
    RankError
        A ValueError; if every column is constant, or more components are asked for than the rank allows.

    See Also
    --------
    whiten : Its first step.
    canonical_signs : Its last step.

    Notes
    -----
    Wiskott & Sejnowski (2002), Neural Computation 14:715, doi:10.1162/089976602317318938; as a generalised
    eigenproblem in Berkes & Wiskott (2005), Journal of Vision 5:579.

    Examples
    --------
    >>> import numpy as np
    >>> directions = slow_directions(np.diag([2.0, 0.1]), np.eye(2))
    >>> directions.delta_values, directions.rank
    (array([0.1, 2. ]), 2)
    """
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    W, scales, rank = whiten(B, rank_tol=rank_tol, variance_floor=variance_floor)
    _check_rank(n_components, rank, B.shape[0])
    K = rank if n_components is None else n_components
    inner = W.T @ A @ W
    deltas, rotation = scipy.linalg.eigh(
        (inner + inner.T) / 2, subset_by_index=None if K == rank else (0, K - 1)
    )
    weights = W @ rotation
    loadings = B @ weights
    signs = canonical_signs(loadings, scales)
    return SlowDirections(np.maximum(deltas, 0.0), weights * signs, loadings * signs, rank, scales)


def canonical_signs(loadings: ArrayLike, scales: ArrayLike) -> FloatArray:
    """Return the signs that make every output agree with the input it is most correlated with.

    Parameters
    ----------
    loadings : array-like (D, K)
        Covariances of inputs and outputs (or anything proportional to them, output by output).
    scales : array-like (D,)
        Standard deviations of the inputs; an input of scale zero has no say.

    Returns
    -------
    ndarray (K,)
        +1 or -1; multiply outputs, weights and loadings by it. Among correlations that are equal within 1e-8
        the first input decides, so that rounding does not.

    Examples
    --------
    >>> canonical_signs([[0.3, 2.0], [-0.5, 1.0]], [1.0, 4.0])
    array([1., 1.])
    >>> canonical_signs([[0.3, 2.0], [-0.5, 1.0]], [1.0, 1.0])
    array([-1.,  1.])
    """
    loadings = np.asarray(loadings, dtype=np.float64)
    scales = np.asarray(scales, dtype=np.float64)
    safe = np.where(scales > 0, scales, 1.0)[:, None]
    correlations = np.where(scales[:, None] > 0, loadings / safe, 0.0)
    size = np.abs(correlations)
    deciding = np.argmax(size >= (1 - _TIE) * size.max(axis=0, initial=0.0), axis=0)
    chosen = correlations[deciding, np.arange(correlations.shape[1])]
    return np.where(chosen < 0, -1.0, 1.0)


def _check_rank(n_components: int | None, rank: int, n_features: int) -> None:
    if rank == 0:
        raise RankError("Every column of X is constant, so there is nothing slow to find: the rank is 0.")
    if n_components is not None and n_components > rank:
        tolerance = ", or lower rank_tol if the smallest directions are real" if rank < n_features else ""
        raise RankError(
            f"n_components={n_components} is more than the data hold: their {n_features} columns have the "
            f"numerical rank {rank}. Ask for at most {rank}{tolerance}."
        )
