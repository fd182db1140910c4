"""The eigenproblem of kernel SFA: kernel matrix, second moments, and solutions.

Boehmer et al. (2011), algorithm 1: centre and whiten (eqs. 9-11), then minimize slowness plus ``lambda``
times the norm in the whitened coordinates (eq. 12). Only the second step, a small eigenproblem, depends on
``lambda``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.graphs.moments import Moments
from probsfa.graphs.training_graph import GraphMoments
from probsfa.linalg import RankError, canonical_signs, whiten

__all__ = [
    "BorderDifferences",
    "KernelColumns",
    "KernelFunctions",
    "KernelProblem",
    "KernelSolution",
    "center_support",
    "check_kernel",
    "check_positive_semidefinite",
    "check_rank",
    "fold_border_differences",
    "fold_moments",
    "is_translation_invariant",
    "kernel_block",
    "kernel_moments",
    "make_problem",
    "merge_folds",
    "rows_at_a_time",
    "select_functions",
    "solve",
]

# ---- kernel values between training rows and kernel functions of support vectors, computed when needed


IntArray = NDArray[np.intp]
Metric = str | Callable[..., float]

_DIAGONAL_BLOCK = 32
# Values of a block, 16 MiB of float64: efficient in matrix products, and small compared with the moments.
_BLOCK_SIZE = 2**21
_BLOCK_ROWS = (256, 8192)
# Tolerances of asymmetry and of negative eigenvalues, relative to the largest value; rounding errors in
# single precision are ten times smaller.
_ASYMMETRY_TOL = _NEGATIVE_EIGENVALUE_TOL = 1e-6
# Loadings within this relative tolerance of the largest are ties in the sign rule. An antisymmetric output
# has such a tie: its loadings at the two ends of the series are equal except for the sign. Rounding errors
# are 1e-8 or more for nearly dependent kernel functions.
_SIGN_TIE_TOL = 1e-6
# Kernels for which a shift of all points does not change the outputs. The linear kernel is one of them,
# because coefficients of outputs sum to zero.
_TRANSLATION_INVARIANT = ("rbf", "laplacian", "linear")


@dataclass(frozen=True, eq=False)
class KernelColumns:
    """The kernel matrix of rows, computed in blocks when needed.

    Attributes
    ----------
    values : ndarray (n, D), or (n, n) where the metric is "precomputed"
        The rows, or all kernel values.
    metric : str or callable
        As in ``sklearn.metrics.pairwise.pairwise_kernels``.
    params : mapping
        Parameters of the kernel; a named kernel ignores parameters that it does not have.
    """

    values: FloatArray
    metric: Metric
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.values.shape[0])

    def block(self, rows: IntArray | slice, columns: IntArray) -> FloatArray:
        """Return ``k(x_i, x_j)`` for i in rows and j in columns."""
        if self.metric == "precomputed":
            return self.values[rows][:, columns]
        return kernel_block(self.values[rows], self.values[columns], self.metric, self.params)

    def diagonal(self) -> FloatArray:
        """Return ``k(x_i, x_i)`` for all rows, shape (n,)."""
        if self.metric == "precomputed":
            return np.array(np.diagonal(self.values))
        if callable(self.metric):
            values = [self.metric(x, x, **self.params) for x in self.values]
            return np.array(values, dtype=np.float64)
        parts = []
        for start in range(0, self.n_rows, _DIAGONAL_BLOCK):
            rows = self.values[start : start + _DIAGONAL_BLOCK]
            parts.append(np.diagonal(kernel_block(rows, rows, self.metric, self.params)))
        return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class KernelFunctions:
    """The kernel functions ``k(z_1, .), ..., k(z_m, .)`` of support vectors on training rows.

    Attributes
    ----------
    kernel : KernelColumns
        Kernel of all training rows.
    support : ndarray (m,) of int, or ndarray (m, D)
        Support vectors: indices of rows, or points.
    """

    kernel: KernelColumns
    support: NDArray[Any]

    @property
    def n_functions(self) -> int:
        """Number of support vectors, m."""
        return len(self.support)

    @property
    def n_rows(self) -> int:
        """Number of training rows, n."""
        return self.kernel.n_rows

    @property
    def are_rows(self) -> bool:
        """Whether the support vectors are training rows."""
        return self.support.ndim == 1

    def __call__(self, rows: IntArray | slice) -> FloatArray:
        """Return ``k(x_t, z_j)`` for some rows, (number of rows, m)."""
        if self.are_rows:
            return self.kernel.block(rows, self.support)
        return kernel_block(self.kernel.values[rows], self.support, self.kernel.metric, self.kernel.params)

    def gram(self) -> FloatArray:
        """Return ``k(z_i, z_j)``, (m, m)."""
        if self.are_rows:
            return self.kernel.block(self.support, self.support)
        return kernel_block(self.support, self.support.copy(), self.kernel.metric, self.kernel.params)


def kernel_block(X: FloatArray, Z: FloatArray, metric: Metric, params: Mapping[str, Any]) -> FloatArray:
    """Return the kernel between two sets of rows, (len(X), len(Z)).

    Raises
    ------
    ValueError
        If the kernel returns a value that is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        block: FloatArray = pairwise_kernels(X, Z, metric=metric, filter_params=True, **params)
    if not np.isfinite(block.sum()):
        raise ValueError(f"kernel={metric!r} returned values that are not finite on these rows. Rescale X.")
    return block


def check_kernel(metric: Any) -> None:
    """Raise a ValueError if the kernel is neither callable nor known to scikit-learn."""
    known = {*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}
    if not callable(metric) and not (isinstance(metric, str) and metric in known):
        raise ValueError(f"kernel must be callable or one of {', '.join(sorted(known))}; got {metric!r}.")


def is_translation_invariant(metric: Metric) -> bool:
    """Return whether the outputs of kernel SFA are translation invariant."""
    return isinstance(metric, str) and metric in _TRANSLATION_INVARIANT


def check_positive_semidefinite(gram: FloatArray, metric: Metric) -> None:
    """Raise a ValueError unless a kernel between support vectors is symmetric and positive semidefinite.

    Parameters
    ----------
    gram : ndarray (m, m)
        ``k(z_i, z_j)``.
    metric : str or callable
        The kernel, for the message.

    Notes
    -----
    Coefficients of kernel functions in outputs sum to zero, so that the kernel needs to be only conditionally
    positive semidefinite (as minus a squared distance is). The Cholesky factorization of the centred matrix
    plus a ridge succeeds if no eigenvalue is below minus the ridge. The ridge is the rounding error of
    eigenvalues in single precision.
    """
    named = "the precomputed kernel" if metric == "precomputed" else f"kernel={metric!r:.80}"
    scale = float(np.abs(gram).max())
    asymmetry = float(np.abs(gram - gram.T).max())
    if asymmetry > _ASYMMETRY_TOL * scale:
        i, j = np.unravel_index(int(np.argmax(np.abs(gram - gram.T))), gram.shape)
        raise ValueError(
            f"{named} is not symmetric: k(z, z') = {gram[i, j]:.6g} and k(z', z) = {gram[j, i]:.6g} for "
            f"support vectors {i} and {j}. A kernel of slow feature analysis is symmetric and positive "
            "semidefinite."
        )
    centred = (gram + gram.T) / 2
    centred = centred - centred.mean(axis=0)
    centred -= centred.mean(axis=1)[:, None]
    largest = float(np.abs(np.diagonal(centred)).max())
    m = len(centred)
    rounding = 4 * m * np.finfo(np.float64).eps * scale
    centred.flat[:: m + 1] += _NEGATIVE_EIGENVALUE_TOL * np.sqrt(m) * largest + rounding
    try:
        scipy.linalg.cholesky(centred, check_finite=False, overwrite_a=True)
    except scipy.linalg.LinAlgError:
        raise ValueError(
            f"{named} is not positive semidefinite on these rows: combinations of its functions have a "
            "negative squared norm, so that the penalty and the slowest output are not defined. Use "
            "another kernel or other kernel parameters."
        ) from None


def rows_at_a_time(n_columns: int) -> int:
    """Return the number of rows in a block of a kernel with `n_columns` columns."""
    minimum, maximum = _BLOCK_ROWS
    return int(np.clip(_BLOCK_SIZE // max(n_columns, 1), minimum, maximum))


# ---- second moments of kernel functions over long series, in O(m^2) memory
#
# With ``g(x) = [k(z_1, x), ..., k(z_m, x)]`` for support vectors ``z``, the algorithm of Boehmer et al.
# (2011) needs ``K K'`` and ``K D D' K'``: the scatter of ``g`` over the rows, and the scatter of its
# differences in time. Blocks of rows keep the memory at O(m^2) (their section 2.2). The sums are those of
# :class:`probsfa.graphs.moments.Moments`; BLAS adds them in place, because m is large.


_N_ORIGIN_ROWS = 128


def kernel_moments(functions: KernelFunctions, sequences: Sequences, *, lag: int = 1) -> Moments:
    """Return the moments of kernel functions and of their differences in time.

    Parameters
    ----------
    functions : KernelFunctions
        Functions on all rows.
    sequences : Sequences
        Sequence boundaries; no difference crosses them.
    lag : int, default=1
        Lag of the differences, in rows.

    Returns
    -------
    Moments
        Moments of the m kernel functions.

    Notes
    -----
    Values are relative to the mean over a few rows, because centring a wide, nearly constant kernel would
    otherwise lose digits.
    """
    (moments,) = fold_moments(functions, sequences, [slice(0, functions.n_rows)], lag=lag)
    return moments


def fold_moments(
    functions: KernelFunctions, sequences: Sequences, folds: list[slice], *, lag: int = 1
) -> list[Moments]:
    """Return the moments of consecutive folds of rows, without differences between folds.

    Parameters
    ----------
    functions : KernelFunctions
        Functions on all rows.
    sequences : Sequences
        Sequence boundaries; no difference crosses them.
    folds : list of slice
        The folds.
    lag : int, default=1
        Lag of the differences, in rows.

    Returns
    -------
    list of Moments
        Moments of m functions, for each fold.

    See Also
    --------
    fold_border_differences : Differences between folds.
    merge_folds : Moments of all rows.
    """
    origin = _origin(functions)
    position = _positions(sequences)
    return [_fold_moments(functions, fold, origin, position, lag) for fold in folds]


class BorderDifferences(NamedTuple):
    """Differences between rows of different folds.

    Attributes
    ----------
    values : ndarray (b, m)
        The differences.
    earlier, later : ndarray (b,) of int
        Folds of the two rows of a difference.
    """

    values: FloatArray
    earlier: IntArray
    later: IntArray


def fold_border_differences(
    functions: KernelFunctions, sequences: Sequences, folds: list[slice], *, lag: int = 1
) -> BorderDifferences:
    """Return the differences of kernel functions between folds, which :func:`fold_moments` omits.

    Parameters
    ----------
    functions : KernelFunctions
        Functions on all rows.
    sequences : Sequences
        Sequence boundaries.
    folds : list of slice
        Consecutive folds, which cover all rows.
    lag : int, default=1
        Lag of the differences, in rows.
    """
    fold = np.concatenate([np.full(f.stop - f.start, i) for i, f in enumerate(folds)])
    rows = np.arange(lag, functions.n_rows)
    rows = rows[(_positions(sequences)[rows] >= lag) & (fold[rows] != fold[rows - lag])]
    values = np.zeros((0, functions.n_functions), dtype=np.float64)
    if len(rows):
        values = functions(rows) - functions(rows - lag)
    return BorderDifferences(values, fold[rows - lag], fold[rows])


def merge_folds(
    parts: list[Moments], borders: BorderDifferences, without: int | None = None, functions: Any = None
) -> Moments:
    """Return the moments of all rows, or of all rows except one fold, from moments of folds.

    Parameters
    ----------
    parts : list of Moments
        Moments of every fold, from :func:`fold_moments`.
    borders : BorderDifferences
        Differences between folds.
    without : int, optional
        Index of a fold that is left out.
    functions : ndarray (m_f,) of int, optional
        Kernel functions to use; all by default.
    """
    selected = np.arange(len(parts[0].offset)) if functions is None else functions
    merged = Moments.empty(len(selected), parts[0].lag)
    for number, part in enumerate(parts):
        if number != without:
            merged = merged.merge(select_functions(part, selected))
    is_included = np.ones(len(borders.values), dtype=bool)
    if without is not None:
        is_included = (borders.earlier != without) & (borders.later != without)
    differences = borders.values[np.ix_(is_included, selected)]
    return replace(
        merged,
        n_differences=merged.n_differences + len(differences),
        difference_scatter=merged.difference_scatter + differences.T @ differences,
    )


def select_functions(moments: Moments, functions: IntArray) -> Moments:
    """Return the moments of some of the kernel functions."""
    square = np.ix_(functions, functions)
    return Moments(
        n_rows=moments.n_rows,
        origin=moments.origin[functions],
        offset=moments.offset[functions],
        scatter=moments.scatter[square],
        n_differences=moments.n_differences,
        difference_scatter=moments.difference_scatter[square],
        lag=moments.lag,
    )


def _origin(functions: KernelFunctions) -> FloatArray:
    n = functions.n_rows
    sample = np.unique(np.linspace(0, n - 1, min(n, _N_ORIGIN_ROWS)).astype(np.intp))
    origin: FloatArray = functions(sample).mean(axis=0)
    return origin


def _positions(sequences: Sequences) -> IntArray:
    """Return the number of rows before each row in its sequence."""
    return np.concatenate([np.arange(n) for n in sequences.lengths])


def _fold_moments(
    functions: KernelFunctions, fold: slice, origin: FloatArray, position: IntArray, lag: int
) -> Moments:
    """Return the moments of one fold of rows, computed in blocks."""
    m = functions.n_functions
    sums = np.zeros(m, dtype=np.float64)
    scatter, changes = (np.zeros((m, m), dtype=np.float64, order="F") for _ in range(2))
    last = np.zeros((0, m), dtype=np.float64)
    n_differences = 0
    step = rows_at_a_time(m)
    for start in range(fold.start, fold.stop, step):
        stop = min(start + step, fold.stop)
        block = functions(slice(start, stop))
        block -= origin
        sums += block.sum(axis=0)
        _add_scatter(scatter, block)
        extended = np.concatenate([last, block])
        difference = extended[lag:] - extended[:-lag]
        is_included = position[stop - len(difference) : stop] >= lag
        if not is_included.all():
            difference = difference[is_included]
        _add_scatter(changes, difference)
        n_differences += len(difference)
        last = extended[-lag:]
    n = fold.stop - fold.start
    offset = sums / n
    return Moments(
        n_rows=n,
        origin=origin,
        offset=offset,
        scatter=_mirrored(scatter) - n * np.outer(offset, offset),
        n_differences=n_differences,
        difference_scatter=_mirrored(changes),
        lag=lag,
    )


def center_support(A: FloatArray) -> FloatArray:
    """Return ``(1 - 11'/m) A (1 - 11'/m)``, which subtracts means over support vectors (eqs. 9-10)."""
    rows = A - A.mean(axis=0)
    centred: FloatArray = rows - rows.mean(axis=1)[:, None]
    return centred


def _add_scatter(upper: FloatArray, rows: FloatArray) -> None:
    """Add ``rows' rows`` to the upper triangle of a matrix in Fortran order, in place."""
    if len(rows):
        dsyrk(1.0, np.ascontiguousarray(rows).T, beta=1.0, c=upper, overwrite_c=1)


def _mirrored(upper: FloatArray) -> FloatArray:
    symmetric: FloatArray = np.triu(upper)
    symmetric += np.triu(upper, 1).T
    return symmetric


# ---- the eigenproblem of regularized sparse kernel SFA, whitened once and solved for each regularization


# The sample covariance of independent errors has eigenvalues of up to (1 + sqrt(m / n))^2 <= 4 times their
# variance.
_ROUNDING_FACTOR = 4.0


class KernelProblem(NamedTuple):
    """Slowness and norm in whitened coordinates of the centred kernel functions.

    Attributes
    ----------
    mean : ndarray (m,)
        Mean of every kernel function over the rows.
    basis : ndarray (m, r)
        ``(g(x) - mean) @ basis`` is white; every column sums to zero (eq. 14).
    slowness : ndarray (r, r)
        Second moment of the differences of the whitened coordinates.
    norm : ndarray (r, r)
        Inner products of the whitened coordinates in the reproducing kernel Hilbert space.
    loadings : ndarray (m, r)
        Covariances of kernel functions and whitened coordinates, which determine the signs.
    scales : ndarray (m,)
        Standard deviations of the kernel functions.
    n_rounded : int
        Number of directions above the rank tolerance that were discarded because rounding errors of the
        kernel values explain their variance.
    """

    mean: FloatArray
    basis: FloatArray
    slowness: FloatArray
    norm: FloatArray
    loadings: FloatArray
    scales: FloatArray
    n_rounded: int


class KernelSolution(NamedTuple):
    """Outputs for one regularization.

    Attributes
    ----------
    coefficients : ndarray (m, K)
        ``y(x) = (g(x) - mean) @ coefficients``.
    delta_values : ndarray (K,)
        Mean squared change over the training rows, at unit variance.
    norms : ndarray (K,)
        Squared norms in the reproducing kernel Hilbert space.
    """

    coefficients: FloatArray
    delta_values: FloatArray
    norms: FloatArray


def make_problem(
    moments: Moments | GraphMoments, gram: FloatArray, rank_tol: float | None = None
) -> KernelProblem:
    """Centre and whiten the kernel functions.

    Parameters
    ----------
    moments : Moments or GraphMoments
        Moments of the m kernel functions over the training rows.
    gram : ndarray (m, m)
        Kernel between the support vectors, ``Kbar``.
    rank_tol : float, optional
        As in :func:`probsfa.linalg.whiten`, for the eigenvalues of ``K K'``.

    Notes
    -----
    Rounding errors are relative to kernel values, not to their variation: if all values of a wide Gaussian
    kernel are within 1e-12 of one, four digits of the variation remain. Errors of variance ``s^2`` in every
    function cause errors of variance ``s^2 |w|^2`` in the whitened coordinate with coefficients ``w``.
    Coordinates in which this variance is near one consist of rounding errors, and are discarded.
    """
    covariance = moments.covariance
    floor = float(moments.variance_floor.max())
    white = whiten(center_support(covariance), rank_tol=rank_tol, variance_floor=floor)
    rounding = _ROUNDING_FACTOR * floor * np.sum(white.matrix**2, axis=0)
    retained = white.matrix[:, rounding < 1]
    basis = retained - retained.mean(axis=0)
    return KernelProblem(
        mean=moments.mean,
        basis=basis,
        slowness=basis.T @ (moments.difference_moment @ basis),
        norm=basis.T @ (gram @ basis),
        loadings=covariance @ basis,
        scales=np.sqrt(np.maximum(np.diagonal(covariance), 0.0)),
        n_rounded=white.rank - retained.shape[1],
    )


def solve(problem: KernelProblem, n_components: int, regularization: float = 0.0) -> KernelSolution:
    """Minimize slowness plus `regularization` times the norm.

    Parameters
    ----------
    problem : KernelProblem
        From :func:`make_problem`.
    n_components : int
        Number of outputs, in ascending order of the objective.
    regularization : float, default=0.0
        ``lambda``, at least 0.

    Raises
    ------
    RankError
        If the kernel functions span fewer dimensions.
    """
    check_rank(problem, n_components)
    rank = problem.basis.shape[1]
    objective = problem.slowness
    if regularization > 0:
        objective = objective + regularization * problem.norm
    last = None if n_components == rank else (0, n_components - 1)
    _, rotation = scipy.linalg.eigh((objective + objective.T) / 2, subset_by_index=last)
    signs = canonical_signs(problem.loadings @ rotation, problem.scales, tie_tol=_SIGN_TIE_TOL)
    rotation = rotation * signs
    return KernelSolution(
        coefficients=problem.basis @ rotation,
        delta_values=np.maximum(np.sum(rotation * (problem.slowness @ rotation), axis=0), 0.0),
        norms=np.sum(rotation * (problem.norm @ rotation), axis=0),
    )


def check_rank(problem: KernelProblem, n_components: int) -> None:
    """Raise a RankError if the kernel functions span fewer dimensions than `n_components`."""
    m, rank = problem.basis.shape
    if n_components > rank:
        remedy = "Use more support vectors, another kernel, or a lower rank_tol."
        if problem.n_rounded or not rank:
            hidden = f"{problem.n_rounded} more" if problem.n_rounded else "any other dimensions"
            remedy = f"Rounding of the kernel values hides {hidden}: rescale X, and subtract its mean."
        raise RankError(
            f"n_components={n_components} is more than the {rank} dimensions in which the kernel functions "
            f"of {m} support vectors vary over X. {remedy}"
        )
