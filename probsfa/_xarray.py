"""Labelled arrays of xarray, recognised without importing it."""

import sys
from typing import Any

__all__ = ["as_frame", "is_data_array", "labels_of_rows"]


def is_data_array(X: Any) -> bool:
    """Return whether `X` is a two-dimensional ``xarray.DataArray``: rows by columns."""
    xarray = sys.modules.get("xarray")  # without the import there is no DataArray
    return xarray is not None and isinstance(X, xarray.DataArray) and X.ndim == 2


def as_frame(X: Any) -> Any:
    """Return a two-dimensional DataArray as a DataFrame with the labels of its rows and columns."""
    return X.to_pandas() if is_data_array(X) else X


def labels_of_rows(X: Any) -> Any:
    """Return the index of the first dimension of a DataArray, None if it has no coordinate."""
    return X.indexes.get(X.dims[0])
