"""Checked sequences, packed for the engine.

All sequences lie one after the other on one time axis. What separates them, and what uneven sampling means,
is said by one array alone: the time since the row before. It is infinite on the first row of a sequence, so
that ``a ** inf = 0`` cuts the chain there and the stationary distribution starts it again; no sequence needs
code of its own.
"""

from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences


@runtime_checkable
class RowSource(Protocol):
    """Rows of float64 that are cut out by slices; NumPy arrays are row sources too."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""
        ...

    def __getitem__(self, rows: slice, /) -> FloatArray:
        """Rows of a slice, as an array."""
        ...


def resident_bytes(x: RowSource) -> int | None:
    """Bytes that the rows take in memory; None where they are read only when asked for."""
    return int(x.nbytes) if isinstance(x, np.ndarray) and not isinstance(x, np.memmap) else None


class Panel(NamedTuple):
    """Observations of ``N`` rows of all sequences, padded to ``T`` rows in which nothing is observed.

    Attributes
    ----------
    values : ndarray of shape (T, D), or RowSource
        Observations; zero where missing.
    mask : ndarray of shape (T, D), or RowSource
        1.0 where observed, 0.0 where missing.
    gap_index : ndarray of shape (T,)
        Which of ``gaps`` separates a row from the row before; ``len(gaps)`` on the first row of a sequence.
    gaps : ndarray of shape (U,)
        The different times between successive rows; ``[1.0]`` for even sampling.
    n_rows : int
        ``N``, the number of rows that are data.
    lengths : tuple of int
        Length of each sequence.
    complete : bool, default=False
        Whether all cells of all rows are known to be observed.
    """

    values: RowSource
    mask: RowSource
    gap_index: NDArray[np.int32]
    gaps: FloatArray
    n_rows: int
    lengths: tuple[int, ...]
    complete: bool = False

    @property
    def evenly_sampled(self) -> bool:
        """Whether every row follows the one before after one unit of time."""
        return bool(np.all(self.gaps == 1.0))

    @property
    def observed_fraction(self) -> FloatArray:
        """Fraction of the rows in which each feature is observed, shape (D,)."""
        return self.mask[: self.n_rows].mean(axis=0)

    @property
    def n_steps_observed(self) -> int:
        """Number of rows in which something is observed."""
        return int(np.count_nonzero(self.mask[:].any(axis=1)))


def padded_length(n_rows: int) -> int:
    """Smallest of a small set of lengths that holds ``n_rows``: eight to an octave, and multiples of 16.

    A compiled program serves one length, so lengths are rounded up to few different ones.
    """
    unit = max(16, 1 << max((n_rows - 1).bit_length() - 4, 0))
    return -(-n_rows // unit) * unit


def make_panel(sequences: Sequences, *, pad: bool = True) -> Panel:
    """Pack checked sequences for the engine.

    Parameters
    ----------
    sequences : Sequences
        Checked data, with NaN where missing.
    pad : bool, default=True
        Round the length up to one of few sizes, to reuse compiled programs.

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
    if sequences.times is None:
        gaps, inverse = np.ones(1), np.zeros(n_steps, dtype=np.int64)
    elif sequences.step is not None:
        gaps, inverse = whole_if_close(np.array([sequences.step])), np.zeros(n_steps, dtype=np.int64)
    else:
        elapsed = np.ones(n_steps)
        elapsed[1:n_rows] = whole_if_close(np.diff(sequences.times))
        within = ~starts
        gaps, inside = np.unique(elapsed[within], return_inverse=True)
        if gaps.size == 0:
            gaps = np.ones(1)
        inverse = np.zeros(n_steps, dtype=np.int64)
        inverse[within] = inside
    gap_index = np.where(starts, gaps.size, inverse).astype(np.int32)
    complete = bool(sequences.mask.all())
    return Panel(values, mask, gap_index, gaps, n_rows, sequences.lengths, complete)


def whole_if_close(elapsed: FloatArray) -> FloatArray:
    """Gaps that miss a whole number only by rounding as that number, so that an even grid of times is one."""
    whole = np.maximum(np.rint(elapsed), 1.0)
    return np.where(np.abs(elapsed - whole) <= 1e-6 * whole, whole, elapsed)


def step_decay(decay: FloatArray, panel: Panel) -> FloatArray:
    """Decay of each latent from the row before to each row, zero where a sequence starts: shape (T, K)."""
    table = decay_over(decay, panel.gaps)
    return np.vstack([table, np.zeros((1, decay.shape[0]))])[panel.gap_index]


def decay_over(decay: FloatArray, gaps: FloatArray) -> FloatArray:
    """Correlation of each latent over each of ``gaps``: shape (U, K).

    Over one step this is the decay itself, which may be negative; an Ornstein-Uhlenbeck process seen at
    uneven times has positive ones.

    Raises
    ------
    ValueError
        If a decay is negative and a gap is not a whole number of steps.
    """
    if np.any(decay < 0.0) and np.any(gaps != np.rint(gaps)):
        raise ValueError(
            "times are uneven, or fall between the steps of the model, and the decay of latent "
            f"{int(np.argmin(decay))} is negative ({decay.min():.4g}): a process that alternates from step "
            "to step has no value between steps. Fit the model with uneven times, or to rows as close as "
            "these, or give rows at whole steps."
        )
    if np.all(gaps == 1.0):
        return np.broadcast_to(decay, (gaps.shape[0], decay.shape[0]))
    return decay ** gaps[:, None]
