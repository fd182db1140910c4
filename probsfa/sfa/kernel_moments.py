"""Second moments of kernel functions over long series, in the memory of the moments alone.

With ``g(x) = [k(z_1, x), ..., k(z_m, x)]`` for support vectors ``z`` the algorithm of Boehmer et al. (2011)
needs ``K K'`` and ``K D D' K'``: the scatter of ``g`` over the rows and of its differences in time. Rows are
taken in blocks, so that no more than O(m^2) numbers are held however many rows there are (their section 2.2).
The sums are those of :class:`probsfa.graphs.moments.Moments`, added up in place by BLAS because m is large
here.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.graphs.moments import Moments
from probsfa.sfa.kernel_columns import KernelFunctions, rows_at_a_time

__all__ = [
    "BorderDifferences",
    "border_differences",
    "center_support",
    "fold_moments",
    "joined_moments",
    "kernel_moments",
    "of_functions",
]

IntArray = NDArray[np.intp]

_ORIGIN_ROWS = 128


def kernel_moments(functions: KernelFunctions, sequences: Sequences, *, lag: int = 1) -> Moments:
    """Return the moments of the kernel functions of a support and of their differences in time.

    Parameters
    ----------
    functions : KernelFunctions
        On all rows.
    sequences : Sequences
        Says where sequences begin; no difference is taken across.
    lag : int, default=1
        Rows from one member of a difference to the other.

    Returns
    -------
    Moments
        Of m features.

    Notes
    -----
    Values are taken relative to the mean over a few rows, so the mean that is subtracted in the end is
    small and takes no digits with it, even where a wide kernel is nearly constant.
    """
    (moments,) = fold_moments(functions, sequences, [slice(0, functions.n_rows)], lag=lag)
    return moments


def fold_moments(
    functions: KernelFunctions, sequences: Sequences, folds: list[slice], *, lag: int = 1
) -> list[Moments]:
    """Return the moments of consecutive stretches of rows, without the differences from one to the next.

    Parameters
    ----------
    functions : KernelFunctions
        On all rows.
    sequences : Sequences
        Says where sequences begin; no difference is taken across.
    folds : list of slice
        The stretches.
    lag : int, default=1
        Rows from one member of a difference to the other.

    Returns
    -------
    list of Moments
        One for each stretch, of m features.

    See Also
    --------
    border_differences : What lies between the stretches.
    joined_moments : Those of all rows.
    """
    origin = _origin(functions)
    position = _positions(sequences)
    return [_stretch_moments(functions, fold, origin, position, lag) for fold in folds]


class BorderDifferences(NamedTuple):
    """Differences from one stretch of rows to a later one.

    Attributes
    ----------
    values : ndarray (b, m)
        The differences.
    earlier, later : ndarray (b,) of int
        Stretches in which the two rows of a difference lie.
    """

    values: FloatArray
    earlier: IntArray
    later: IntArray


def border_differences(
    functions: KernelFunctions, sequences: Sequences, folds: list[slice], *, lag: int = 1
) -> BorderDifferences:
    """Return the differences of kernel functions that :func:`fold_moments` leaves out.

    Parameters
    ----------
    functions : KernelFunctions
        On all rows.
    sequences : Sequences
        Says where sequences begin.
    folds : list of slice
        Consecutive stretches, which cover all rows.
    lag : int, default=1
        Rows from one member of a difference to the other.
    """
    fold = np.concatenate([np.full(f.stop - f.start, i) for i, f in enumerate(folds)])
    rows = np.arange(lag, functions.n_rows)
    rows = rows[(_positions(sequences)[rows] >= lag) & (fold[rows] != fold[rows - lag])]
    values = np.zeros((0, functions.n_functions), dtype=np.float64)
    if len(rows):
        values = functions(rows) - functions(rows - lag)
    return BorderDifferences(values, fold[rows - lag], fold[rows])


def joined_moments(
    parts: list[Moments], borders: BorderDifferences, without: int | None = None, functions: Any = None
) -> Moments:
    """Return the moments of all rows, or of all but one stretch, from those of the stretches.

    Parameters
    ----------
    parts : list of Moments
        Of every stretch, as :func:`fold_moments` returns them.
    borders : BorderDifferences
        What lies between.
    without : int, optional
        A stretch to leave out.
    functions : ndarray (m_f,) of int, optional
        Which of the kernel functions to take; all by default.
    """
    chosen = np.arange(len(parts[0].offset)) if functions is None else functions
    whole = Moments.empty(len(chosen), parts[0].lag)
    for number, part in enumerate(parts):
        if number != without:
            whole = whole.merge(of_functions(part, chosen))
    inside = np.ones(len(borders.values), dtype=bool)
    if without is not None:
        inside = (borders.earlier != without) & (borders.later != without)
    differences = borders.values[np.ix_(inside, chosen)]
    return replace(
        whole,
        n_differences=whole.n_differences + len(differences),
        difference_scatter=whole.difference_scatter + differences.T @ differences,
    )


def of_functions(moments: Moments, functions: IntArray) -> Moments:
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
    few = np.unique(np.linspace(0, n - 1, min(n, _ORIGIN_ROWS)).astype(np.intp))
    origin: FloatArray = functions(few).mean(axis=0)
    return origin


def _positions(sequences: Sequences) -> IntArray:
    """Number of rows before each row in its sequence."""
    return np.concatenate([np.arange(n) for n in sequences.lengths])


def _stretch_moments(
    functions: KernelFunctions, stretch: slice, origin: FloatArray, position: IntArray, lag: int
) -> Moments:
    """Moments of one stretch of rows, a block at a time."""
    m = functions.n_functions
    total = np.zeros(m, dtype=np.float64)
    scatter, changes = (np.zeros((m, m), dtype=np.float64, order="F") for _ in range(2))
    last = np.zeros((0, m), dtype=np.float64)
    n_differences = 0
    step = rows_at_a_time(m)
    for start in range(stretch.start, stretch.stop, step):
        stop = min(start + step, stretch.stop)
        block = functions(slice(start, stop))
        block -= origin
        total += block.sum(axis=0)
        _add_scatter(scatter, block)
        joined = np.concatenate([last, block])
        difference = joined[lag:] - joined[:-lag]
        inside = position[stop - len(difference) : stop] >= lag
        if not inside.all():
            difference = difference[inside]
        _add_scatter(changes, difference)
        n_differences += len(difference)
        last = joined[-lag:]
    n = stretch.stop - stretch.start
    offset = total / n
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
    """Return ``(1 - 11'/m) A (1 - 11'/m)``: the support functions centred on each other (eqs. 9-10)."""
    rows = A - A.mean(axis=0)
    centred: FloatArray = rows - rows.mean(axis=1)[:, None]
    return centred


def _add_scatter(upper: FloatArray, rows: FloatArray) -> None:
    """Add ``rows' rows`` to the upper triangle of a matrix in Fortran order, in place."""
    if len(rows):
        dsyrk(1.0, np.ascontiguousarray(rows).T, beta=1.0, c=upper, overwrite_c=1)


def _mirrored(upper: FloatArray) -> FloatArray:
    full: FloatArray = np.triu(upper)
    full += np.triu(upper, 1).T
    return full
