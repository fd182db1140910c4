"""Generalized eigenproblems of slowness: numerical rank, whitening, and signs.

Slow feature analysis minimizes ``w' A w`` under ``w' B w = 1``: ``A`` (D, D) is a second moment of
differences, ``B`` (D, D) a covariance, both symmetric and positive semidefinite. ``B`` may be singular
(constant or duplicated columns, fewer rows than columns). The solution is sought in the range of ``B`` only:

1. scale the columns to unit variance, ``R = S^-1 B S^-1`` with ``S = diag(sqrt(B_ii))``;
2. keep the eigenvectors ``V`` of ``R`` with eigenvalues above ``rank_tol`` times the largest one;
3. whiten, ``W = S^-1 V Lambda^-1/2``, so that ``W' B W = 1``; and diagonalize ``W' A W``.

The rank of the correlation matrix is used, because it does not depend on the units of the columns.

Some training graphs have repeated delta values, such as 2 for every direction in which classes do not differ.
Eigenvectors with equal delta values are determined up to a rotation, which depends on rounding errors.
:func:`canonical_axes` makes the rotation unique, so that outputs do not depend on the order of the columns.
"""

import numbers
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from probsfa._typing import FloatArray

__all__ = [
    "RankError",
    "SlowDirections",
    "Whitening",
    "blocks_of",
    "canonical_axes",
    "canonical_directions",
    "canonical_signs",
    "check_rank",
    "check_rank_tol",
    "default_rank_tol",
    "slow_directions",
    "whiten",
]


_MAX_DENSE_DIRECTIONS = 32  # for fewer directions, computing all eigenvectors is as fast as computing a few
# A correlation matrix is whitened by its Cholesky factor if the ratio of its smallest to its largest
# eigenvalue is above this value. Relative rounding errors are then at most 1e-16 / 1e-6, so that delta values
# have ten correct digits.
_MIN_RELATIVE_EIGENVALUE = 1e-6
_TIE_TOL = 1e-8  # relative; smaller differences of correlations are rounding errors
# Relative rounding error of moments that are sums over up to 1e8 rows.
_ROUNDING_TOL = 1e4 * float(np.finfo(np.float64).eps)


class RankError(ValueError):
    """More components were requested than the numerical rank of the data."""


class Whitening(NamedTuple):
    """Whitening transform: decorrelated coordinates of unit variance.

    Attributes
    ----------
    matrix : ndarray (D, rank)
        ``W`` with ``W' B W = 1``; ``(x - mean) @ W`` is white.
    scales : ndarray (D,)
        Standard deviations of the columns, zero for constant columns.
    rank : int
        Numerical rank of the covariance.
    """

    matrix: FloatArray
    scales: FloatArray
    rank: int


class SlowDirections(NamedTuple):
    """The solution of ``A w = delta B w`` on the range of ``B``, slowest first.

    Attributes
    ----------
    delta_values : ndarray (K,)
        Generalized eigenvalues, ascending, never negative.
    weights : ndarray (D, K)
        Directions with ``w' B w = 1``; ``(x - mean) @ weights`` are the outputs.
    loadings : ndarray (D, K)
        ``B @ weights``, the covariance of inputs and outputs; ``mean + y @ loadings.T`` is the best linear
        reconstruction of the input, exact when K is the rank.
    rank : int
        Numerical rank of ``B``.
    scales : ndarray (D,)
        Standard deviations of the columns, zero for constant columns.
    """

    delta_values: FloatArray
    weights: FloatArray
    loadings: FloatArray
    rank: int
    scales: FloatArray


def default_rank_tol(n_features: int) -> float:
    """Return the default of `rank_tol`: 1e-12, or ten times the rounding error for D columns if larger.

    The value 1e-12 in variance is 1e-6 in standard deviation, relative to the leading direction. It exceeds
    the rounding error of a column duplicated in single precision (about 1e-14). Delta values of directions
    with smaller variances have no correct digits.
    """
    return max(1e-12, 10 * n_features * float(np.finfo(np.float64).eps))


def check_rank_tol(rank_tol: Any) -> None:
    """Raise a ValueError unless `rank_tol` is None or between 0 and 1."""
    if rank_tol is not None and not (isinstance(rank_tol, numbers.Real) and 0 < float(rank_tol) < 1):
        raise ValueError(f"rank_tol must be None or lie between 0 and 1; got {rank_tol!r}.")


def whiten(B: ArrayLike, *, rank_tol: float | None = None, variance_floor: ArrayLike = 0.0) -> Whitening:
    """Whiten with a covariance matrix that may be singular and badly scaled.

    Parameters
    ----------
    B : array-like (D, D)
        Covariance matrix, symmetric positive semidefinite.
    rank_tol : float, optional
        Eigenvalues of the correlation matrix up to this fraction of the largest are treated as zero. Default
        :func:`default_rank_tol`.
    variance_floor : array-like (D,) or float, default=0.0
        Columns with at most this variance are treated as constant (for example, rounding errors at a large
        offset).

    Returns
    -------
    Whitening
        ``matrix``, ``scales`` and ``rank``; the rank is 0 if every column is constant.

    See Also
    --------
    slow_directions : Whitening and solution of the eigenproblem.

    Examples
    --------
    >>> import numpy as np
    >>> B = np.diag([1e-16, 1.0, 1e16])
    >>> W = whiten(B)
    >>> W.rank, bool(np.allclose(W.matrix.T @ B @ W.matrix, np.eye(3)))
    (3, True)
    """
    B = np.asarray(B, dtype=np.float64)
    scales = _scales(B, variance_floor)
    varying = scales > 0
    if not varying.any():
        return Whitening(np.zeros((len(B), 0), dtype=np.float64), scales, 0)
    s = scales[varying]
    R = B[np.ix_(varying, varying)] / s / s[:, None]
    eigenvalues, vectors = np.linalg.eigh((R + R.T) / 2)
    tol = default_rank_tol(len(B)) if rank_tol is None else rank_tol
    retained = eigenvalues > tol * eigenvalues[-1]
    matrix = np.zeros((len(B), int(retained.sum())), dtype=np.float64)
    matrix[varying] = vectors[:, retained] / np.sqrt(eigenvalues[retained]) / s[:, None]
    return Whitening(matrix, scales, matrix.shape[1])


def _scales(B: FloatArray, variance_floor: ArrayLike) -> FloatArray:
    """Return the standard deviations of the columns, zero for constant columns."""
    variances = np.diagonal(B)
    return np.where(variances > np.maximum(variance_floor, 0.0), np.sqrt(np.maximum(variances, 0.0)), 0.0)


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
        Number of directions; the rank by default.
    rank_tol, variance_floor
        As in :func:`whiten`.

    Returns
    -------
    SlowDirections
        Slowest first, with signs by :func:`canonical_signs`.

    Raises
    ------
    RankError
        A ValueError: every column is constant, or `n_components` exceeds the rank.

    See Also
    --------
    whiten : The first step.
    canonical_signs : The final step.

    Notes
    -----
    Wiskott & Sejnowski (2002), Neural Computation 14:715, doi:10.1162/089976602317318938; as a generalized
    eigenproblem in Berkes & Wiskott (2005), Journal of Vision 5:579.

    Examples
    --------
    >>> import numpy as np
    >>> directions = slow_directions(np.diag([2.0, 0.1]), np.eye(2))
    >>> directions.delta_values, directions.rank
    (array([0.1, 2. ]), 2)
    """
    A, B = np.asarray(A, dtype=np.float64), np.asarray(B, dtype=np.float64)
    W, scales, rank = _whiten_by_cholesky(B, rank_tol, variance_floor)
    check_rank(n_components, rank, B.shape[0])
    K = rank if n_components is None else n_components
    whitened = W.T @ A @ W
    whitened = (whitened + whitened.T) / 2
    n_solved = min(K + 1, rank)  # one more shows whether the last block of equal delta values is complete
    partial = n_solved < rank and rank > _MAX_DENSE_DIRECTIONS
    if partial:
        deltas, rotation = scipy.linalg.eigh(whitened, subset_by_index=(0, n_solved - 1))
    if not partial or not _ends_of_blocks(A, deltas, W @ rotation, scales)[K - 1]:
        deltas, rotation = np.linalg.eigh(whitened)  # faster than scipy's solver for all eigenvectors
    directions = canonical_directions(A, B, deltas, W @ rotation, scales, K)
    return directions._replace(rank=rank)


def _whiten_by_cholesky(B: FloatArray, rank_tol: float | None, variance_floor: ArrayLike) -> Whitening:
    """Return a whitening by a Cholesky factor if the rank is certainly full, else :func:`whiten`.

    The factorization takes a tenth of the time of the eigenproblem. The reciprocal condition number in the
    1-norm is at most the ratio of the smallest and the largest eigenvalue; the estimate of LAPACK is rarely
    wrong by more than a factor of 3 (Higham 1987, SIAM Review 29:575).
    """
    tol = default_rank_tol(len(B)) if rank_tol is None else rank_tol
    scales = _scales(B, variance_floor)
    if scales.all() and len(B):
        R = B / scales / scales[:, None]
        factor, failed = scipy.linalg.lapack.dpotrf((R + R.T) / 2)
        if not failed:
            reciprocal, _ = scipy.linalg.lapack.dpocon(factor, np.abs(R).sum(axis=0).max())
            if reciprocal > max(_MIN_RELATIVE_EIGENVALUE, 10 * tol):
                inverse, _ = scipy.linalg.lapack.dtrtri(factor)
                return Whitening(inverse / scales[:, None], scales, len(B))
    return whiten(B, rank_tol=rank_tol, variance_floor=variance_floor)


def canonical_directions(
    A: FloatArray,
    B: FloatArray,
    deltas: FloatArray,
    weights: FloatArray,
    scales: FloatArray,
    n_components: int,
) -> SlowDirections:
    """Return the first solutions of a solver in a unique form.

    Delta values that differ only by rounding errors are replaced by their mean, and :func:`canonical_axes`
    rotates their directions. :func:`canonical_signs` determines the signs.

    Parameters
    ----------
    A, B : ndarray (D, D)
        The eigenproblem.
    deltas : ndarray (M,)
        Delta values in ascending order.
    weights : ndarray (D, M)
        Directions, ``w' B w = 1``.
    scales : ndarray (D,)
        Standard deviations of the inputs.
    n_components : int
        Number of solutions to return, up to M. `deltas` should contain all values that equal the last one
        returned.
    """
    ends = _ends_of_blocks(A, deltas, weights, scales)
    n_solved = n_components + int(np.argmax(ends[n_components - 1 :]))
    deltas, weights = deltas[:n_solved].copy(), weights[:, :n_solved]
    loadings = B @ weights
    for block in blocks_of(ends[:n_solved]):
        axes = canonical_axes(loadings[:, block], scales)
        weights[:, block], loadings[:, block] = weights[:, block] @ axes, loadings[:, block] @ axes
        deltas[block] = deltas[block].mean()
    deltas, weights, loadings = (a[..., :n_components] for a in (np.maximum(deltas, 0.0), weights, loadings))
    signs = canonical_signs(loadings, scales)
    return SlowDirections(deltas, weights * signs, loadings * signs, len(ends), scales)


def _ends_of_blocks(
    A: FloatArray, deltas: FloatArray, weights: FloatArray, scales: FloatArray
) -> NDArray[np.bool_]:
    """Return whether each delta value differs from the next by more than rounding errors; True for the last.

    Directions of small input variance have large weights, which amplify the rounding errors of the moments in
    their delta values.
    """
    varying = scales > 0
    largest_ratio = float(np.max(np.diagonal(A)[varying] / scales[varying] ** 2, initial=0.0))
    errors = _ROUNDING_TOL * largest_ratio * np.sum((scales[:, None] * weights) ** 2, axis=0)
    return np.append(np.diff(deltas) > errors[:-1] + errors[1:], True)


def blocks_of(ends: NDArray[np.bool_]) -> list[slice]:
    """Return the blocks of two or more equal values; `ends` is True for the last value of each block."""
    stops = np.flatnonzero(ends) + 1
    starts = np.append(0, stops[:-1])
    return [slice(i, j) for i, j in zip(starts.tolist(), stops.tolist(), strict=True) if j - i > 1]


def canonical_axes(loadings: ArrayLike, scales: ArrayLike) -> FloatArray:
    """Return a unique rotation of outputs of equal delta value.

    Parameters
    ----------
    loadings : array-like (D, m)
        Covariances of inputs and outputs.
    scales : array-like (D,)
        Standard deviations of the inputs.

    Returns
    -------
    ndarray (m, m)
        Rotation matrix, by which outputs, weights and loadings are multiplied from the right. The rotated
        outputs are the principal axes of their correlations with the inputs, in descending order. If several
        axes have equal singular values, as for decorrelated inputs, the first axis points to the input that
        these outputs reconstruct best. Each further axis is orthogonal to the previous axes, and points to
        the input that the outputs orthogonal to these axes reconstruct best.

    Examples
    --------
    >>> rotated = [[0.6, -0.8], [0.4, 0.3]]
    >>> axes = canonical_axes(rotated, [1.0, 1.0])
    >>> np.abs(rotated @ axes).round(12)
    array([[1. , 0. ],
           [0. , 0.5]])
    """
    loadings, scales = np.asarray(loadings, dtype=np.float64), np.asarray(scales, dtype=np.float64)
    varying = scales > 0
    correlations = loadings[varying] / scales[varying, None]
    _, sizes, Vt = np.linalg.svd(correlations)
    axes = Vt.T.copy()
    ends = np.append(-np.diff(sizes) > _TIE_TOL * sizes[0], True)
    for block in blocks_of(ends):
        axes[:, block] = axes[:, block] @ _axes_towards_inputs(correlations @ axes[:, block])
    return axes


def _axes_towards_inputs(correlations: FloatArray) -> FloatArray:
    """Return orthonormal axes (m, m), each towards the input with the largest remaining residual."""
    remaining = correlations.copy()
    axes = np.empty((remaining.shape[1], remaining.shape[1]), dtype=np.float64)
    for j in range(len(axes)):
        sizes = np.linalg.norm(remaining, axis=1)
        axis = remaining[np.argmax(sizes >= (1 - _TIE_TOL) * sizes.max())]
        axis = axis - axes[:, :j] @ (axes[:, :j].T @ axis)  # a second projection, to reduce rounding errors
        axes[:, j] = axis / np.linalg.norm(axis)
        remaining -= np.outer(remaining @ axes[:, j], axes[:, j])
    return axes


def canonical_signs(loadings: ArrayLike, scales: ArrayLike, *, tie_tol: float = _TIE_TOL) -> FloatArray:
    """Return signs such that each output correlates positively with its most correlated input.

    Parameters
    ----------
    loadings : array-like (D, K)
        Covariances of inputs and outputs, up to a factor for each output.
    scales : array-like (D,)
        Standard deviations of the inputs; inputs of scale zero are ignored.
    tie_tol : float, default=1e-8
        Correlations with a smaller relative difference are treated as equal; the value must exceed the
        rounding errors of the correlations.

    Returns
    -------
    ndarray (K,)
        +1 or -1; multiply outputs, weights and loadings by these signs. Of correlations that are equal within
        `tie_tol`, the first input is used, so that rounding errors have no effect.

    Examples
    --------
    >>> canonical_signs([[0.3, 2.0], [-0.5, 1.0]], [1.0, 4.0])
    array([1., 1.])
    >>> canonical_signs([[0.3, 2.0], [-0.5, 1.0]], [1.0, 1.0])
    array([-1.,  1.])
    """
    loadings = np.asarray(loadings, dtype=np.float64)
    scales = np.asarray(scales, dtype=np.float64)
    divisors = np.where(scales > 0, scales, 1.0)[:, None]
    correlations = np.where(scales[:, None] > 0, loadings / divisors, 0.0)
    magnitudes = np.abs(correlations)
    largest = np.argmax(magnitudes >= (1 - tie_tol) * magnitudes.max(axis=0, initial=0.0), axis=0)
    largest_correlations = correlations[largest, np.arange(correlations.shape[1])]
    return np.where(largest_correlations < 0, -1.0, 1.0)


def check_rank(n_components: int | None, rank: int, n_features: int) -> None:
    """Raise a RankError if the rank is 0 or below `n_components`."""
    if rank == 0:
        raise RankError("Every column of X is constant: the rank is 0. Use columns that vary.")
    if n_components is not None and n_components > rank:
        tolerance = ", or lower rank_tol if smaller variances are meaningful" if rank < n_features else ""
        raise RankError(
            f"n_components={n_components} exceeds the numerical rank {rank} of the {n_features} columns of "
            f"X. Use at most {rank}{tolerance}."
        )
