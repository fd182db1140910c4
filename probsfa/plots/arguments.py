"""Validation of the arguments of plots."""

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "check_axes",
    "check_feature",
    "check_level",
    "check_same_length",
    "half_widths",
    "matrix",
    "missing_and_adjacent",
    "row_times",
    "vector",
]


def check_feature(feature: Any, n_features: int) -> int:
    """Return the index of a column; raise a ValueError with the valid range."""
    is_valid = isinstance(feature, numbers.Integral) and not isinstance(feature, bool)
    if not is_valid or not 0 <= feature < n_features:
        feature_text = repr(feature) if np.isscalar(feature) else f"{type(feature).__name__}"
        raise ValueError(f"feature must be an integer from 0 to {n_features - 1}; got {feature_text:.80}.")
    return int(feature)


def matrix(values: ArrayLike, name: str) -> FloatArray:
    """Return a two-dimensional array with at least one value; raise a ValueError for other values."""
    array = as_float_array(values, name)
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"{name} must have two dimensions (rows are time), got shape {array.shape}.")
    return array


def vector(values: ArrayLike, name: str) -> FloatArray:
    """Return a one-dimensional array with at least one value; raise a ValueError for other values."""
    array = as_float_array(values, name)
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must have one dimension, got shape {array.shape}.")
    return array


def check_same_length(n_rows: int, **arrays: FloatArray) -> None:
    """Raise a ValueError for an array with another number of rows."""
    for name, array in arrays.items():
        if len(array) != n_rows:
            raise ValueError(f"{name} must have {n_rows} values, as many as observed; got {len(array)}.")


def check_axes(axes: "Sequence[Axes] | NDArray[Any]", n: int, purpose: str) -> "list[Axes]":
    """Return the axes as a list; raise a ValueError if there are not n axes."""
    listing = list(axes)
    if len(listing) != n:
        raise ValueError(f"axes must have {n} elements, {purpose}; got {len(listing)}.")
    return listing


def check_level(level: float) -> float:
    """Return the probability of an interval; raise a ValueError if it is out of range."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be above 0 and below 1, got {level!r}.")
    return level


def half_widths(std: ArrayLike, shape: tuple[int, ...], level: float) -> FloatArray:
    """Return half-widths of central normal intervals with probability `level`."""
    from scipy.special import ndtri

    check_level(level)
    array = as_float_array(std, "std")
    if array.shape != shape or np.any(array < 0.0):
        raise ValueError(f"std must have shape {shape} and no negative value, got shape {array.shape}.")
    return array * float(ndtri(0.5 + level / 2.0))


def row_times(times: Any, n_rows: int) -> NDArray[Any]:
    """Return the positions of rows on the time axis: numbers, dates in UTC, or row numbers."""
    if times is None:
        return np.arange(n_rows)
    if getattr(times, "tz", None) is not None:
        times = times.tz_convert(None)
    time_values = np.asarray(times)
    if time_values.shape != (n_rows,):
        raise ValueError(f"times must have shape ({n_rows},), one for each row, got {time_values.shape}.")
    return time_values


def missing_and_adjacent(missing: BoolArray) -> BoolArray:
    """Return a mask (T,) of missing values and of adjacent rows, at which lines of imputed values end."""
    return missing | np.r_[missing[1:], False] | np.r_[False, missing[:-1]]
