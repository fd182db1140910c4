"""Validated sequences as arrays for the engine.

All sequences are concatenated. Each row has a time step since the previous row. The step of the first row of
a sequence is infinite, so that its state has the stationary distribution.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences

__all__ = [
    "Panel",
    "ReadRows",
    "RowSource",
    "Units",
    "empty_aligned",
    "lazy_panel",
    "make_panel",
    "pack_rows",
    "padded_length",
    "read_lock",
    "resident_bytes",
    "round_if_close",
    "time_steps",
]

# Number of rows that are converted at a time: a few hundred kilobytes for dozens of columns.
_PART_ROWS = 1024
# Alignment in bytes that JAX requires to use an array without a copy.
_ALIGNMENT = 64
# Relative difference from an integer up to which a time step is rounded.
_ROUNDING_TOL = 1e-6

#: Lock for reading rows, because a row source may not support concurrent reads.
read_lock = threading.Lock()

#: Function that returns the rows of a slice, NaN where missing. Its caller must not modify them.
ReadRows = Callable[[slice], Any]


@runtime_checkable
class RowSource(Protocol):
    """Rows of float64 that can be sliced; NumPy arrays are row sources."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""
        ...

    def __getitem__(self, rows: slice, /) -> FloatArray:
        """Return the rows of a slice as an array."""
        ...


def resident_bytes(x: RowSource) -> int | None:
    """Return the size of the rows in bytes; None if they are read from a file on demand."""
    return int(x.nbytes) if isinstance(x, np.ndarray) and not isinstance(x, np.memmap) else None


class Panel(NamedTuple):
    """Observations of the ``N`` rows of all sequences, padded with missing values to ``T`` rows.

    Attributes
    ----------
    values : ndarray of shape (T, D), or RowSource
        Observations; zero where missing.
    mask : ndarray of shape (T, D), or RowSource
        1.0 where observed, 0.0 where missing.
    gap_index : ndarray of shape (T,)
        Index in ``gaps`` of the time step before each row; ``len(gaps)`` in the first row of a sequence and
        in rows of the padding.
    gaps : ndarray of shape (U,)
        Distinct time steps between successive rows; ``[1.0]`` for even sampling.
    n_rows : int
        ``N``, the number of rows without padding.
    lengths : tuple of int
        Length of each sequence.
    complete : bool, default=False
        Whether all values are observed, with weight one.
    weights : ndarray of shape (T, D), or RowSource, optional
        Weights of observed values, by which noise variances are divided (``r / w``); zero where missing. The
        default is the mask.
    """

    values: RowSource
    mask: RowSource
    gap_index: NDArray[np.int32]
    gaps: FloatArray
    n_rows: int
    lengths: tuple[int, ...]
    complete: bool = False
    weights: RowSource | None = None

    @property
    def value_weights(self) -> RowSource:
        """Weights of the values; zero where missing."""
        return self.mask if self.weights is None else self.weights

    @property
    def evenly_sampled(self) -> bool:
        """Whether all rows are one unit of time apart."""
        return bool(np.all(self.gaps == 1.0))

    @property
    def n_steps(self) -> float:
        """Total time of all sequences; the first row of each counts as one unit of time."""
        return float(np.sum(np.append(self.gaps, 1.0)[self.gap_index[: self.n_rows]]))

    def weighted(self, weights: FloatArray) -> "Panel":
        """Return the same observations with other weights (T, D), zero where missing.

        The array becomes read-only, because the engine may cache it.
        """
        weights.setflags(write=False)
        return self._replace(weights=weights, complete=False)


def padded_length(n_rows: int) -> int:
    """Round a length up to a multiple of 16; above 256, to one of eight lengths up to the next power of two.

    JAX compiles a program for each length; rounding limits the number of programs.
    """
    unit = max(16, 1 << max((n_rows - 1).bit_length() - 4, 0))
    return -(-n_rows // unit) * unit


def make_panel(sequences: Sequences, *, pad: bool = True) -> Panel:
    """Make a panel from validated sequences.

    Parameters
    ----------
    sequences : Sequences
        Validated data, NaN where missing.
    pad : bool, default=True
        Whether to round the length up, so that compiled programs are reused (:func:`padded_length`).

    Returns
    -------
    Panel
    """
    n_rows = sequences.n_rows
    n_steps = padded_length(n_rows) if pad else n_rows
    mask = np.zeros((n_steps, sequences.n_features))
    mask[:n_rows] = sequences.mask
    values = np.zeros_like(mask)
    np.copyto(values[:n_rows], sequences.values, where=sequences.mask)

    starts = np.ones(n_steps, dtype=bool)
    starts[:n_rows] = sequences.starts
    gap_index, gaps = time_steps(starts, sequences.times, sequences.step)
    complete = bool(sequences.mask.all())
    return Panel(values, mask, gap_index, gaps, n_rows, sequences.lengths, complete)


def cache_sized_parts(n_rows: int) -> Iterator[slice]:
    """Yield slices of rows whose values fit into the processor's cache.

    Examples
    --------
    >>> list(cache_sized_parts(1500))
    [slice(0, 1024, None), slice(1024, 2048, None)]
    """
    return (slice(start, start + _PART_ROWS) for start in range(0, n_rows, _PART_ROWS))


class Units(NamedTuple):
    """Shift and scale (D,) that standardize the columns."""

    shift: FloatArray
    scale: FloatArray


class _BlockReader:
    """Reads blocks of values and mask.

    The last block is cached, because the mask of a block is usually read just after its values.
    """

    def __init__(self, read: ReadRows, units: Units | None, pack: "PackRows") -> None:
        self._read, self._units, self._pack = read, units, pack
        self._last: tuple[slice, FloatArray, FloatArray] | None = None

    def __call__(self, rows: slice) -> tuple[FloatArray, FloatArray]:
        last = self._last  # a local reference, because other threads may replace the attribute
        if last is None or last[0] != rows:
            block = self._read(rows)
            if not isinstance(block, np.ndarray):
                block = as_float_array(block, "X")
            self._last = last = rows, *self._pack(block, self._units)
        return last[1:]


def empty_aligned(block: FloatArray) -> FloatArray:
    """Return an uninitialized array of the same shape, aligned such that JAX does not copy it."""
    size = 8 * block.size
    buffer = np.empty(size + _ALIGNMENT, np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + size].view(np.float64).reshape(block.shape)


def pack_rows(block: FloatArray, units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Return standardized values of a block, zero where missing, and its mask."""
    values, mask = empty_aligned(block), empty_aligned(block)
    for part in cache_sized_parts(len(block)):
        rows, target = as_float_array(block[part], "X"), values[part]
        missing = np.isnan(rows)
        if units is None:
            target[:] = rows
        else:
            np.subtract(rows, units.shift, out=target)
            target /= units.scale
        np.putmask(target, missing, 0.0)
        np.logical_not(missing, out=mask[part])
    return values, mask


#: Function that returns values and mask of a block of rows.
PackRows = Callable[[FloatArray, Units | None], tuple[FloatArray, FloatArray]]


class _ValueRows:
    """Row source of the observed values, zero where missing."""

    def __init__(self, read: _BlockReader, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._read = read

    def __getitem__(self, rows: slice) -> FloatArray:
        return self._read(rows)[0]


class _MaskRows:
    """Row source of the mask: 1.0 where observed, 0.0 where missing."""

    def __init__(self, read: _BlockReader, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._read = read

    def __getitem__(self, rows: slice) -> FloatArray:
        return self._read(rows)[1]


def lazy_panel(
    read: ReadRows,
    n_features: int,
    lengths: tuple[int, ...],
    times: FloatArray | None = None,
    step: float | None = None,
    units: Units | None = None,
    pack: PackRows = pack_rows,
) -> Panel:
    """Make a panel that reads blocks of rows on demand.

    Parameters
    ----------
    read : callable
        Function that returns the rows of a slice, NaN where missing.
    n_features : int
        Number of columns.
    lengths : tuple of int
        Length of each sequence.
    times : ndarray of shape (T,), optional
        Times of the rows, in the time unit of the model; evenly spaced by default.
    step : float, optional
        Time between all successive rows, if it is constant.
    units : Units, optional
        Shift and scale of the columns; by default values are not standardized.
    pack : callable, default=pack_rows
        Function that returns values and mask of a block of rows.

    Returns
    -------
    Panel
    """
    n_rows = sum(lengths)
    starts = np.zeros(n_rows, dtype=bool)
    starts[np.cumsum((0, *lengths[:-1]))] = True
    gap_index, gaps = time_steps(starts, times, step)
    shape, reader = (n_rows, n_features), _BlockReader(read, units, pack)
    return Panel(_ValueRows(reader, shape), _MaskRows(reader, shape), gap_index, gaps, n_rows, lengths)


def time_steps(
    starts: BoolArray, times: FloatArray | None, step: float | None = None
) -> tuple[NDArray[np.int32], FloatArray]:
    """Return the index of the time step before each row, and the distinct time steps.

    Parameters
    ----------
    starts : ndarray of bool (T,)
        True in the first row of each sequence, and in the rows of the padding.
    times : ndarray (N,) or None
        Times of the N rows of data; None for even sampling.
    step : float, optional
        Time between all successive rows, if it is constant.

    Returns
    -------
    gap_index : ndarray (T,)
    gaps : ndarray (U,)
        See :class:`Panel`.
    """
    inverse = np.zeros(starts.size, dtype=np.int64)
    if times is None:
        gaps = np.ones(1)
    elif step is not None:
        gaps = round_if_close(np.array([step]))
    else:
        elapsed = np.ones(starts.size)
        elapsed[1 : times.size] = round_if_close(np.diff(times))
        has_step = ~starts
        gaps, inverse[has_step] = np.unique(elapsed[has_step], return_inverse=True)
        if gaps.size == 0:
            gaps = np.ones(1)
    return np.where(starts, gaps.size, inverse).astype(np.int32), gaps


def round_if_close(elapsed: FloatArray) -> FloatArray:
    """Round time steps that differ from a positive integer only by rounding errors."""
    rounded = np.maximum(np.rint(elapsed), 1.0)
    return np.where(np.abs(elapsed - rounded) <= _ROUNDING_TOL * rounded, rounded, elapsed)
