"""Labelled arrays of xarray, recognised without importing it."""

import sys
from typing import Any

__all__ = ["as_frame", "is_data_array", "labels_of_rows"]


def is_data_array(X: Any) -> bool:
    """Return whether `X` is a two-dimensional ``xarray.DataArray``: rows by columns."""
    xarray = sys.modules.get("xarray")  # without the import there is no DataArray
    return xarray is not None and isinstance(X, xarray.DataArray) and X.ndim == 2


def as_frame(X: Any) -> Any:
    """Return a two-dimensional DataArray as a DataFrame with the labels of its rows and columns.

    Raises
    ------
    ValueError
        If the second dimension alone has times, so that times would be read as columns.
    """
    if not is_data_array(X):
        return X
    rows, columns = (_has_times(X.indexes.get(dimension)) for dimension in X.dims)
    if columns and not rows:
        first, second = X.dims
        raise ValueError(
            f"The DataArray has the dimensions {X.dims}, and only the second has times. Rows are times: give "
            f"it as .transpose({second!r}, {first!r})."
        )
    return X.to_pandas()


def _has_times(index: Any) -> bool:
    """Whether an index of pandas or xarray, or None, has dates, periods or durations."""
    return type(index).__name__ in {"DatetimeIndex", "PeriodIndex", "TimedeltaIndex", "CFTimeIndex"}


def labels_of_rows(X: Any) -> Any:
    """Return the index of the first dimension of a DataArray, None if it has no coordinate."""
    return X.indexes.get(X.dims[0])
