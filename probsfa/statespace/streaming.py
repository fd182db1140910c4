"""Out-of-core data: series that are read from a file in blocks of rows, because they exceed the memory.

The likelihood requires a forward pass over the rows (filter) and a backward pass (smoother). Both passes
process blocks of rows (:mod:`probsfa.statespace.engine.sweep`). Each block starts at the distribution of the
state at the end of the previous block, so that the likelihood is exact. This module reads the blocks,
validates the rows, computes the moments of the columns in one pass, and selects the rows for initial
parameters.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from probsfa._arrays import as_float_array, check_array
from probsfa._times import TimeAxis, read_time_index
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_lengths
from probsfa.statespace.columns import ColumnMoments, column_moments, merge_columns
from probsfa.statespace.engine.core.kernels import pack
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.budget import Size, max_components
from probsfa.statespace.learning.maximum_likelihood import Observations, check_lengths_for_timescales
from probsfa.statespace.panel import Panel, Units, lazy_panel, make_panel

__all__ = ["InBlocks", "check_source", "sample", "scan", "stream"]

#: Number of rows that are validated at a time.
BLOCK_ROWS = 65_536
# Number of segments from which initial parameters are computed, and maximum number of values in them.
_N_SEGMENTS = 8
_MAX_START_VALUES = 2**22


class InBlocks:
    """Training data for :mod:`.maximum_likelihood` that are read in blocks of rows.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Estimator whose `n_features_in_` and `feature_names_in_` are set.
    X : array-like of shape (T, D)
        Any object with a shape that supports slices of rows.
    lengths : array-like of int, optional
        Lengths of consecutive sequences.
    times : array-like of shape (T,), optional
        Times of the rows, strictly increasing in each sequence.

    Raises
    ------
    ValueError
        If `X` does not support slices, has an infinite value, or has a column without observations.
    """

    def __init__(self, estimator: Any, X: Any, lengths: Any = None, times: Any = None) -> None:
        check_source(X)
        self.X = X
        self.lengths = check_lengths(lengths, int(X.shape[0]))
        check_lengths_for_timescales(self.lengths)
        timed = read_time_index(X, self.lengths, as_list=False, times=times)
        self.axis = TimeAxis() if timed is None else timed.axis
        self.time_unit, self.times = 1.0, None
        if timed is not None and timed.step is None:
            self.time_unit = 1.0 if timed.median_step is None else timed.median_step
            self.times = timed.times / self.time_unit
        self.columns = scan(estimator, X)
        names = getattr(estimator, "feature_names_in_", None)
        self.feature_names = None if names is None else tuple(str(name) for name in names)

    def default_size(self, *, ar1_noise: bool = False) -> Size:
        """Return the default number of factors; all rows are used."""
        n_rows = int(self.X.shape[0])
        return Size(max_components(n_rows, self.columns.counts, ~self.columns.constant, ar1_noise=ar1_noise))

    def standardized(
        self, shift: FloatArray, scale: FloatArray, segments: list[slice] | None = None
    ) -> Observations:
        """Return segments of the standardized observations, and a function for statistics of all rows."""
        panel = stream(self.X, self.lengths, shift, scale, self.times)
        return Observations(
            sample(self.X, self.lengths, shift, scale, self.times),
            self.columns.counts,
            lambda params: expected_statistics(params, panel, for_steps=True),
        )


def check_source(X: Any) -> None:
    """Raise a ValueError unless rows can be selected by slices."""
    shape = getattr(X, "shape", None)
    if shape is None and hasattr(X, "collect"):
        raise ValueError(
            f"X is a {type(X).__name__}, which cannot be sliced by rows. Pass X.collect() to fit, or write X "
            "to a file that can be sliced, such as HDF5, Zarr or numpy.memmap."
        )
    if shape is None or len(shape) != 2 or shape[0] < 2:
        raise ValueError(
            f"X must be two-dimensional, have at least two rows and support slices; got {type(X).__name__} "
            f"of shape {shape}. For data in memory use fit."
        )


def _slice_rows(X: Any, rows: slice) -> Any:
    """Return the rows of a slice, in the type of `X`; rows of a DataFrame by position."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _standardized(X: Any, rows: slice, shift: FloatArray, scale: FloatArray) -> FloatArray:
    """Return validated rows of a slice in units of the model, NaN where missing."""
    return (as_float_array(_slice_rows(X, rows), "X") - shift) / scale


def stream(
    X: Any,
    lengths: tuple[int, ...],
    shift: FloatArray,
    scale: FloatArray,
    times: FloatArray | None = None,
) -> Panel:
    """Make a panel whose values and mask are read from ``X`` in blocks of rows.

    Parameters
    ----------
    X : array-like of shape (T, D)
        Any object with a shape that supports slices of rows, such as a memory map.
    lengths : tuple of int
        Length of each sequence.
    shift, scale : ndarray of shape (D,)
        Shift and scale that standardize the columns.
    times : ndarray of shape (T,), optional
        Times of the rows, in the time unit of the model; evenly spaced by default.

    Returns
    -------
    Panel
    """
    read = partial(_slice_rows, X)
    return lazy_panel(read, int(X.shape[1]), lengths, times, units=Units(shift, scale), pack=pack)


def _checked_blocks(estimator: Any, X: Any) -> Iterator[FloatArray]:
    """Yield validated blocks of rows of ``X``."""
    for start in range(0, X.shape[0], BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, int(X.shape[0]))
        name = "X" if stop - start == X.shape[0] else f"X[{start}:{stop}]"
        block = _slice_rows(X, slice(start, stop))
        yield check_array(estimator, block, name, reset=start == 0, allow_nan=True, min_rows=1)


def scan(estimator: Any, X: Any) -> ColumnMoments:
    """Validate all rows and compute the moments of each column in one pass.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Estimator whose `n_features_in_` and `feature_names_in_` are set.
    X : array-like of shape (T, D)
        Any object with a shape that supports slices of rows.

    Returns
    -------
    ColumnMoments

    Raises
    ------
    ValueError
        If a value is infinite or not a number, or a column has no observations.
    """
    total: ColumnMoments | None = None
    for block in _checked_blocks(estimator, X):
        part = column_moments(Sequences(block, (len(block),)))
        total = part if total is None else merge_columns([total, part])
    assert total is not None
    if not total.counts.all():
        column = int(np.argmin(total.counts))
        names = getattr(estimator, "feature_names_in_", None)
        name = "" if names is None else f" ({str(names[column])!r})"
        raise ValueError(f"X has no observed value in column {column}{name}. Remove the column.")
    return total


def sample(
    X: Any,
    lengths: tuple[int, ...],
    shift: FloatArray,
    scale: FloatArray,
    times: FloatArray | None = None,
) -> Panel:
    """Return segments at regular intervals of ``X``, as sequences; all rows if there are few.

    Parameters are those of :func:`stream`.
    """
    n_rows, n_features = int(X.shape[0]), int(X.shape[1])
    max_rows = _MAX_START_VALUES // n_features
    ends = np.cumsum(lengths)
    if n_rows <= max_rows:
        segments = [slice(int(end - n), int(end)) for end, n in zip(ends, lengths, strict=True)]
    else:
        size = max(max_rows // _N_SEGMENTS, 2)
        segments = []
        for start in np.linspace(0, n_rows - size, _N_SEGMENTS).astype(int):
            end_of_sequence = int(ends[np.searchsorted(ends, start, side="right")])
            segments.append(slice(int(start), min(int(start) + size, end_of_sequence)))
    values = [_standardized(X, rows, shift, scale) for rows in segments]
    times_of_rows = None if times is None else np.concatenate([times[rows] for rows in segments])
    return make_panel(Sequences(np.concatenate(values), tuple(map(len, values)), times_of_rows))
