"""Series that are read from where they lie, block by block, and are never in memory as a whole.

The likelihood needs two sweeps over the rows: one forwards, which filters, and one backwards, which smooths
and sums. Both go chunk by chunk. What one chunk hands to the next is the law of one state, so the sums are
those of the whole series, exactly (:mod:`probsfa.statespace.posterior`). Here are the chunks' source, the
scan that finds the units of the columns, and the sample of rows on which starts are sought.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences
from probsfa.statespace.columns import Columns, column_sums, merge_columns
from probsfa.statespace.panel import Panel, make_panel

FloatArray = NDArray[np.float64]

#: Rows read at once while columns are scanned.
BLOCK_ROWS = 65_536
# Starts are sought on so many stretches, spread evenly, with so many cells in all.
_N_STRETCHES = 8
_START_CELLS = 2**22


class _Source:
    """Rows of ``X`` in units of the columns, cut out and converted when asked for."""

    #: Nothing of a source is to be kept in memory.
    nbytes = 2**63

    def __init__(self, X: Any, shift: FloatArray, scale: FloatArray, *, mask: bool) -> None:
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self._X, self._shift, self._scale, self._mask = X, shift, scale, mask

    def __getitem__(self, rows: slice) -> FloatArray:
        block = np.asarray(self._X[rows], dtype=np.float64)
        missing = np.isnan(block)
        if self._mask:
            return (~missing).astype(np.float64)
        return np.where(missing, 0.0, (block - self._shift) / self._scale)


def stream(X: Any, lengths: tuple[int, ...], shift: FloatArray, scale: FloatArray) -> Panel:
    """A panel whose values and mask are read from ``X`` chunk by chunk.

    Parameters
    ----------
    X : array-like of shape (T, D)
        Anything with a shape that gives rows for a slice: a memory map, a dataset of an HDF5 or Zarr file.
    lengths : tuple of int
        Length of each sequence.
    shift, scale : ndarray of shape (D,)
        Origin and unit of each column.

    Returns
    -------
    Panel
    """
    gap_index = np.zeros(X.shape[0], dtype=np.int32)
    gap_index[np.cumsum((0, *lengths[:-1]))] = 1
    values, mask = (_Source(X, shift, scale, mask=mask) for mask in (False, True))
    return Panel(values, mask, gap_index, np.ones(1), X.shape[0], lengths)  # type: ignore[arg-type]


def blocks(X: Any) -> Iterator[tuple[int, FloatArray]]:
    """Rows of ``X``, some thousand at a time, each block with the number of its first row."""
    for start in range(0, X.shape[0], BLOCK_ROWS):
        yield start, np.asarray(X[start : start + BLOCK_ROWS], dtype=np.float64)


def scan(X: Any) -> Columns:
    """Number, means and standard deviations of the observed cells of each column, in one pass.

    Raises
    ------
    ValueError
        If a value is infinite, or a column has nothing observed.
    """
    total: Columns | None = None
    for start, block in blocks(X):
        infinite = np.isinf(block)
        if infinite.any():
            row, column = np.argwhere(infinite)[0]
            raise ValueError(
                f"X has an infinite value in row {start + row}, column {column}; "
                "write NaN where a value is missing."
            )
        part = column_sums(Sequences(block, (len(block),)))
        total = part if total is None else merge_columns([total, part])
    assert total is not None
    if not total.counts.all():
        column = int(np.argmin(total.counts))
        raise ValueError(f"X has nothing observed in column {column}; remove the column.")
    return total


def sample(X: Any, lengths: tuple[int, ...], shift: FloatArray, scale: FloatArray) -> Panel:
    """Stretches of rows spread evenly over ``X``, as sequences of their own; all rows where they are few."""
    n_rows, n_features = int(X.shape[0]), int(X.shape[1])
    room = _START_CELLS // n_features
    ends = np.cumsum(lengths)
    if n_rows <= room:
        parts = [(int(end - n), int(end)) for end, n in zip(ends, lengths, strict=True)]
    else:
        size = max(room // _N_STRETCHES, 2)
        firsts = np.linspace(0, n_rows - size, _N_STRETCHES).astype(int)
        # A stretch ends where its sequence does.
        parts = []
        for first in firsts:
            end = int(ends[np.searchsorted(ends, first, side="right")])
            parts.append((int(first), min(int(first) + size, end)))
    values = [(np.asarray(X[i:j], dtype=np.float64) - shift) / scale for i, j in parts]
    return make_panel(Sequences(np.concatenate(values), tuple(len(part) for part in values)))
