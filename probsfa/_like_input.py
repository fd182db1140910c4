"""Conversion of results to the type of the input: DataFrames for DataFrames, lists for lists."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa._arrays import is_data_array
from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["like_array", "like_input", "like_rows", "select_rows"]

#: Names of the nullable numeric types of pandas; values are converted to "Float64".
_NULLABLE_TYPES = re.compile(r"boolean|U?Int\d+|Float\d+")


def like_input(
    X: Any,
    sequences: Sequences,
    values: FloatArray,
    *,
    columns: Sequence[Any] | None = None,
    sources: Sequence[int] | None = None,
) -> Any:
    """Convert values of all rows (N, C) to the type of the input.

    Parameters
    ----------
    X : array-like, DataFrame or Table, or list of them
        Input of the user: DataFrame of pandas or polars, Table of pyarrow, DataArray of xarray, or array.
    sequences : Sequences
        The validated input.
    values : ndarray of shape (N, C)
        A value for each row and column.
    columns : sequence, optional
        Names of the columns of `values`; by default they are those of `X`.
    sources : sequence of int, optional
        For the first ``len(sources)`` columns of `values`, the index of the corresponding column of `X`; by
        default all columns of `X` in order.

    Returns
    -------
    ndarray, DataFrame, Table or DataArray, or list of them
        DataFrames and tables have the columns of the input. DataFrames of pandas also have its index, and
        nullable floats for nullable numbers. A DataArray has its dimensions and coordinates. Other results
        are arrays.
    """
    if sequences.is_list:
        return [like_array(x, values[s], columns, sources) for x, s in zip(X, sequences.slices, strict=True)]
    return like_array(X, values, columns, sources)


def like_rows(X: Any, values: FloatArray, *, index: Any = None, columns: Any = None) -> Any:
    """Convert new rows (H, D), such as a forecast, to the type of one input.

    Parameters
    ----------
    X : array-like, DataFrame, Table or DataArray
        Input of the user.
    values : ndarray of shape (H, D)
        The rows.
    index : Index of pandas, optional
        Index of the rows if `X` is a DataFrame of pandas or a DataArray.
    columns : array-like of str, optional
        Names of the columns; those of `X` by default.

    Returns
    -------
    ndarray, DataFrame, Table or DataArray
    """
    if _is_pandas(X):
        frame = type(X)(values, index=index, columns=X.columns if columns is None else columns)
        return frame if columns is not None else _nullable_as_in(frame, X.dtypes)
    if is_data_array(X):
        rows, features = X.dims
        coordinates = {} if index is None else {rows: index}
        if columns is not None:
            return type(X)(
                values, dims=(rows, "component"), coords={**coordinates, "component": list(columns)}
            )
        if index is None and len(values) == len(X):
            return X.copy(data=values)
        coordinates |= {
            name: coordinate for name, coordinate in X.coords.items() if rows not in coordinate.dims
        }
        return type(X)(values, dims=X.dims, coords=coordinates, name=X.name, attrs=X.attrs)
    return like_array(X, values, columns, ())


def like_array(x: Any, values: FloatArray, columns: Any = None, sources: Sequence[int] | None = None) -> Any:
    """Convert values of one sequence to the type of the input; parameters as in :func:`like_input`."""
    if _is_pandas(x):
        names = x.columns if columns is None else columns
        # No other reference to the array exists, so that the frame need not copy it.
        frame = type(x)(values, index=x.index, columns=names, copy=False)
        return _nullable_as_in(frame, x.dtypes if sources is None else x.dtypes.iloc[list(sources)])
    if is_data_array(x):
        return _like_data_array(x, values, columns, sources)
    if hasattr(x, "schema") and hasattr(x, "with_columns"):  # polars
        return type(x)(values, schema=list(x.columns if columns is None else columns), orient="row")
    if hasattr(x, "column_names") and hasattr(type(x), "from_arrays"):  # pyarrow
        names = x.column_names if columns is None else list(columns)
        return type(x).from_arrays(list(values.T), names=names)
    return values


def select_rows(X: Any, rows: slice) -> Any:
    """Return some rows of an array, DataFrame or Table, in its type."""
    return X.iloc[rows] if _is_pandas(X) else X[rows]


def _is_pandas(x: Any) -> bool:
    # DataFrames are recognized by attributes, because importing their libraries is slow.
    return hasattr(x, "columns") and hasattr(x, "index") and hasattr(x, "iloc")


def _nullable_as_in(frame: Any, dtypes: Any) -> Any:
    """Convert the first columns of a DataFrame to nullable floats where `dtypes` are nullable."""
    for j, dtype in enumerate(dtypes):
        if isinstance(dtype, np.dtype):
            continue
        if hasattr(dtype, "pyarrow_dtype"):
            frame.isetitem(j, frame.iloc[:, j].astype("double[pyarrow]"))
        elif _NULLABLE_TYPES.fullmatch(dtype.name):
            frame.isetitem(j, frame.iloc[:, j].astype("Float64"))
    return frame


def _like_data_array(x: Any, values: FloatArray, columns: Any, sources: Sequence[int] | None) -> Any:
    if columns is None:
        return x.copy(data=values)
    rows, features = x.dims
    column_numbers = list(range(x.shape[1]) if sources is None else sources)
    if len(columns) == len(column_numbers):
        return x.isel({features: column_numbers}).copy(data=values)
    by_row = {name: coordinate for name, coordinate in x.coords.items() if features not in coordinate.dims}
    if not column_numbers:  # new columns, such as latent factors
        return type(x)(values, dims=(rows, "component"), coords={**by_row, "component": list(columns)})
    labels = x.indexes[features][column_numbers] if features in x.indexes else columns[: len(column_numbers)]
    by_row[features] = [*labels, *columns[len(column_numbers) :]]
    return type(x)(values, dims=x.dims, coords=by_row, name=x.name, attrs=x.attrs)
