"""Second moments of kernel functions over long series, in the memory of the moments alone.

With ``g(x) = [k(z_1, x), ..., k(z_m, x)]`` for support vectors ``z`` the algorithm of Boehmer et al. (2011)
needs ``K K'`` and ``K D D' K'``: the scatter of ``g`` over the rows and of its differences in time. Rows are
taken in blocks, so that no more than O(m^2) numbers are held however many rows there are (their section 2.2).
The sums are those of :class:`probsfa.graphs.moments.Moments`, added up in place by BLAS because m is large
here.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.graphs.moments import Moments
from probsfa.sfa.kernel_columns import KernelColumns, rows_at_a_time

__all__ = ["center_support", "kernel_moments"]

IntArray = NDArray[np.intp]

_ORIGIN_ROWS = 128


def kernel_moments(kernel: KernelColumns, support: IntArray, sequences: Sequences) -> Moments:
    """Return the moments of the kernel functions of the support and of their differences in time.

    Parameters
    ----------
    kernel : KernelColumns
        Kernel of all rows.
    support : ndarray (m,) of int
        Rows that are support vectors.
    sequences : Sequences
        Says where sequences begin; no difference is taken across.

    Returns
    -------
    Moments
        Of m features, at lag 1.

    Notes
    -----
    Values are taken relative to the mean over a few rows, so the mean that is subtracted in the end is
    small and takes no digits with it, even where a wide kernel is nearly constant.
    """
    n, m = kernel.n_rows, len(support)
    few = np.unique(np.linspace(0, n - 1, min(n, _ORIGIN_ROWS)).astype(np.intp))
    origin = kernel.block(few, support).mean(axis=0)
    total = np.zeros(m, dtype=np.float64)
    scatter, changes = (np.zeros((m, m), dtype=np.float64, order="F") for _ in range(2))
    last = np.zeros((0, m), dtype=np.float64)
    n_differences = 0
    step = rows_at_a_time(m)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = kernel.block(slice(start, stop), support)
        block -= origin
        total += block.sum(axis=0)
        _add_scatter(scatter, block)
        joined = np.concatenate([last, block])
        difference = joined[1:] - joined[:-1]
        inside = ~sequences.starts[stop - len(difference) : stop]
        if not inside.all():
            difference = difference[inside]
        _add_scatter(changes, difference)
        n_differences += len(difference)
        last = block[-1:]
    offset = total / n
    return Moments(
        n_rows=n,
        origin=origin,
        offset=offset,
        scatter=_mirrored(scatter) - n * np.outer(offset, offset),
        n_differences=n_differences,
        difference_scatter=_mirrored(changes),
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
