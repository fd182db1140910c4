"""Selection of support vectors: a few rows that approximate the kernel functions of all rows.

For rows ``x_t``, a kernel ``k`` and a subset ``i`` of the rows the approximation error of row t is
(Boehmer et al. 2011, doi:10.1007/978-3-642-23780-5_25, section 3)::

    e_t = min_a |k(., x_t) - sum_j a_j k(., x_ij)|^2 = K_tt - K_ti K_ii^-1 K_it

Four methods select the subset:

* matching-pursuit MAH (maximum affine hull): repeatedly add the row of largest error (eqs. 15-16). This is
  the Cholesky factorization of the kernel matrix with pivoting: ``e_t = K_tt - sum_j L_tj^2``.
* online MAH: add, in one pass, the rows whose error exceeds a threshold.
* matching pursuit for kernel PCA: add the row that reduces the sum of all errors most.
* random selection.

Except for online MAH, selections are nested: a smaller subset is the beginning of a larger one.
"""

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.sfa.kernel.problem import KernelColumns, rows_at_a_time

__all__ = ["mp_kpca", "mp_mah", "online_mah", "random_support"]

IntArray = NDArray[np.intp]

_N_CANDIDATES = 256  # rows whose errors are updated after each pivot; other rows after each block
_PIVOT_BLOCK = 64
_ONLINE_BLOCK = 256
# Multiple of the rounding error below which an error is treated as zero in kernel PCA: divisions by small
# pivots amplify rounding errors.
_KPCA_SLACK = 1e3


def mp_mah(kernel: KernelColumns, n_support: int, threshold: float = 0.0) -> IntArray:
    """Select by matching pursuit for the affine hull: add the row with the largest error (Algorithm 2).

    Parameters
    ----------
    kernel : KernelColumns
        Kernel of the rows; only its diagonal and the columns of the selected rows are computed.
    n_support : int
        Maximum number of rows.
    threshold : float, default=0.0
        Stop when no error exceeds this value, or when all errors are within rounding of zero.

    Returns
    -------
    ndarray (m,) of int
        Selected rows in the order of selection. Of rows with equal errors, the first is selected.

    Notes
    -----
    O(m^2 n) time and O(m n) memory. Errors never increase, so that earlier errors are upper bounds. Only the
    rows with the largest errors are updated after each pivot, until their largest error falls below the bound
    of another row. A matrix product then applies the block of pivots to all rows. The selection equals the
    selection with an update of all errors after each pivot.
    """
    n = kernel.n_rows
    errors = kernel.diagonal()
    floor = max(threshold, _rounding(errors))
    L = np.zeros((n, n_support), dtype=np.float64)
    pivots: list[int] = []
    while len(pivots) < n_support and errors.max() > floor:
        n_done = len(pivots)
        candidates, bound = _largest_errors(errors)
        selected, block = _pursue(kernel, L, candidates, errors, bound, floor, n_done)
        pivots += candidates[selected].tolist()
        columns = np.array(pivots[n_done:], dtype=np.intp)
        _apply_pivots(kernel, L, columns, block[selected], n_done)
        errors -= np.sum(L[:, n_done : len(pivots)] ** 2, axis=1)
        errors[pivots] = 0.0
    return np.array(pivots, dtype=np.intp)


def online_mah(kernel: KernelColumns, threshold: float, n_support: int | None = None) -> IntArray:
    """Select in one pass every row whose error exceeds a threshold (Csato & Opper 2002).

    Parameters
    ----------
    kernel : KernelColumns
        Kernel of the rows, in order of time.
    threshold : float
        Minimum error of a row that is added.
    n_support : int, optional
        Maximum number of rows.

    Returns
    -------
    ndarray (m,) of int
        Selected rows, ascending.

    Notes
    -----
    O(m^2 n) time and O(m^2) memory. Rows are processed in blocks. One triangular solve computes errors with
    respect to the rows that were selected before the block. These errors are updated after each selection
    within the block.
    """
    diagonal = kernel.diagonal()
    floor = max(threshold, _rounding(diagonal))
    limit = kernel.n_rows if n_support is None else n_support
    selected: list[int] = []
    factor = np.zeros((min(limit, _ONLINE_BLOCK),) * 2, dtype=np.float64)  # Cholesky factor of K_ii
    for start in range(0, kernel.n_rows, _ONLINE_BLOCK):
        rows = np.arange(start, min(start + _ONLINE_BLOCK, kernel.n_rows))
        size = len(selected)
        coefficients = (
            kernel.block(rows, np.array(selected, dtype=np.intp)) if size else np.zeros((len(rows), 0))
        )
        coefficients = (
            scipy.linalg.solve_triangular(factor[:size, :size], coefficients.T, lower=True)
            if size
            else coefficients.T
        )
        residual = kernel.block(rows, rows) - coefficients.T @ coefficients
        new_coefficients = np.zeros((0, len(rows)), dtype=np.float64)
        for t in range(len(rows)):
            if residual[t, t] <= floor or len(selected) == limit:
                continue
            column = residual[t] / np.sqrt(residual[t, t])
            factor = _enlarged(factor, len(selected) + 1, limit)
            factor[len(selected), : len(selected)] = np.concatenate(
                [coefficients[:, t], new_coefficients[:, t]]
            )
            factor[len(selected), len(selected)] = column[t]
            residual -= np.outer(column, column)
            new_coefficients = np.vstack([new_coefficients, column])
            selected.append(int(rows[t]))
    return np.array(selected, dtype=np.intp)


def mp_kpca(kernel: KernelColumns, n_support: int, threshold: float = 0.0) -> IntArray:
    """Select by matching pursuit for sparse kernel PCA: minimize the sum of errors (Smola & Schoelkopf 2000).

    Parameters
    ----------
    kernel : KernelColumns
        Kernel of the rows; all values are computed.
    n_support : int
        Maximum number of rows.
    threshold : float, default=0.0
        Stop when no error exceeds this.

    Returns
    -------
    ndarray (m,) of int
        Selected rows in the order of selection.

    Notes
    -----
    Adding row j lowers the sum of errors by ``|R_j|^2 / R_jj``, where ``R = K - L L'`` is the residual of the
    kernel matrix. A new column ``l`` of L changes these squared norms to ``|R_j - l_j l|^2 = |R_j|^2 - 2 l_j
    (R l)_j + l_j^2 |l|^2``. O(n^2 m) time, O(n^2) memory.
    """
    n = kernel.n_rows
    K = np.empty((n, n), dtype=np.float64)
    step = rows_at_a_time(n)
    for start in range(0, n, step):
        K[start : start + step] = kernel.block(slice(start, start + step), np.arange(n))
    errors = np.array(np.diagonal(K))
    squared_norms = np.einsum("ij,ij->j", K, K)
    min_error = _KPCA_SLACK * _rounding(errors)
    floor = max(threshold, min_error)
    L = np.zeros((n, n_support), dtype=np.float64, order="F")
    pivots: list[int] = []
    while len(pivots) < n_support and errors.max() > floor:
        j = len(pivots)
        gain = np.where(
            errors > min_error, squared_norms / np.where(errors > min_error, errors, 1.0), -np.inf
        )
        pivot = int(np.argmax(gain))
        column = (K[:, pivot] - L[:, :j] @ L[pivot, :j]) / np.sqrt(errors[pivot])
        residual = K @ column - L[:, :j] @ (L[:, :j].T @ column)
        squared_norms = np.maximum(squared_norms - 2 * column * residual + column**2 * (column @ column), 0.0)
        L[:, j] = column
        errors -= column**2
        pivots.append(pivot)
        errors[pivots] = 0.0
    return np.array(pivots, dtype=np.intp)


def random_support(n_rows: int, n_support: int, rng: np.random.RandomState) -> IntArray:
    """Select rows at random, each with the same probability, in random order."""
    return rng.permutation(n_rows)[:n_support]


def _rounding(diagonal: FloatArray) -> float:
    """Return an upper bound of the rounding error of an approximation error ``e_t``."""
    return float(len(diagonal) * np.finfo(np.float64).eps * max(diagonal.max(), 0.0))


def _largest_errors(errors: FloatArray) -> tuple[IntArray, float]:
    """Return the rows with the largest errors, in ascending order, and the largest error of other rows."""
    count = min(_N_CANDIDATES, len(errors))
    if count == len(errors):
        return np.arange(count), -np.inf
    order = np.argpartition(-errors, count)
    candidates, bound = order[:count], float(errors[order[count]])
    first = int(np.argmax(errors))  # the partition may omit the first of equal errors
    return np.union1d(candidates, [first]), bound


def _pursue(
    kernel: KernelColumns,
    L: FloatArray,
    candidates: IntArray,
    errors: FloatArray,
    bound: float,
    floor: float,
    n_done: int,
) -> tuple[IntArray, FloatArray]:
    """Select pivots among the candidates while a candidate has the largest error of all rows.

    Returns
    -------
    selected : ndarray (b,) of int
        Positions among the candidates.
    block : ndarray (c, b)
        The new columns of L at the candidates.
    """
    errors = errors[candidates]
    coefficients = L[candidates, :n_done]
    maximum = min(_PIVOT_BLOCK, L.shape[1] - n_done)
    block = np.zeros((len(candidates), maximum), dtype=np.float64)
    selected: list[int] = []
    while len(selected) < maximum:
        best = int(np.argmax(errors))
        if errors[best] <= floor or (selected and errors[best] <= bound):
            break
        b = len(selected)
        column = kernel.block(candidates, candidates[[best]])[:, 0]
        column = column - coefficients @ coefficients[best] - block[:, :b] @ block[best, :b]
        block[:, b] = column / np.sqrt(errors[best])
        block[best, b] = np.sqrt(errors[best])
        errors = errors - block[:, b] ** 2
        selected.append(best)
        errors[selected] = 0.0
    return np.array(selected, dtype=np.intp), block[:, : len(selected)]


def _apply_pivots(
    kernel: KernelColumns, L: FloatArray, columns: IntArray, triangle: FloatArray, n_done: int
) -> None:
    """Compute the columns of L for new pivots and all rows."""
    stop = n_done + len(columns)
    coefficients = L[columns, :n_done].T
    step = rows_at_a_time(len(columns))
    for start in range(0, kernel.n_rows, step):
        rows = slice(start, start + step)
        residual = kernel.block(rows, columns) - L[rows, :n_done] @ coefficients
        L[rows, n_done:stop] = scipy.linalg.solve_triangular(triangle, residual.T, lower=True).T
    L[columns, n_done:stop] = np.tril(triangle)


def _enlarged(factor: FloatArray, size: int, limit: int) -> FloatArray:
    """Return the matrix enlarged to at least `size` rows."""
    if size <= len(factor):
        return factor
    enlarged = np.zeros((min(max(2 * len(factor), size), limit),) * 2, dtype=np.float64)
    enlarged[: len(factor), : len(factor)] = factor
    return enlarged
