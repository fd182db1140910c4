"""Results in the shape of the input: frames for frames, lists for lists."""

from typing import Any

from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["like_input", "like_rows"]


def like_input(X: Any, sequences: Sequences, values: FloatArray) -> Any:
    """Give values of all cells (N, D) the type of the input they belong to.

    Parameters
    ----------
    X : array-like, DataFrame or Table, or list of them
        What the caller gave. Frames are those of pandas and polars, tables those of pyarrow.
    sequences : Sequences
        The same, checked.
    values : ndarray of shape (N, D)
        A value for each cell.

    Returns
    -------
    ndarray, DataFrame or Table, or list of them
        Frames and tables have the columns of the input; those of pandas its index, too. All else gives
        arrays.
    """
    if sequences.is_list:
        return [_like_one(x, values[s]) for x, s in zip(X, sequences.slices, strict=True)]
    return _like_one(X, values)


def like_rows(X: Any, values: FloatArray, *, index: Any = None, columns: Any = None) -> Any:
    """Give other rows (H, D), such as a forecast, the type of one input.

    Parameters
    ----------
    X : array-like, DataFrame or Table
        What the caller gave.
    values : ndarray of shape (H, D)
        A row for each.
    index : Index of pandas, optional
        Index of the rows where `X` is a frame of pandas.
    columns : array-like of str, optional
        Names of the columns; those of `X` by default.

    Returns
    -------
    ndarray, DataFrame or Table
    """
    if hasattr(X, "columns") and hasattr(X, "index") and hasattr(X, "iloc"):
        return type(X)(values, index=index, columns=X.columns if columns is None else columns)
    if columns is not None and hasattr(X, "with_columns"):  # polars
        return type(X)(values, schema=list(columns), orient="row")
    if columns is not None and hasattr(type(X), "from_arrays"):  # pyarrow
        return type(X).from_arrays(list(values.T), names=list(columns))
    return _like_one(X, values)


def _like_one(x: Any, values: FloatArray) -> Any:
    # Frames are recognised by what is used of them, so that their libraries need not be loaded for arrays.
    if hasattr(x, "columns") and hasattr(x, "index") and hasattr(x, "iloc"):
        return type(x)(values, index=x.index, columns=x.columns, copy=False)  # nobody else holds them
    if hasattr(x, "columns") and hasattr(x, "schema") and hasattr(x, "with_columns"):  # polars
        return type(x)(values, schema=x.columns, orient="row")
    if hasattr(x, "column_names") and hasattr(x, "schema") and hasattr(type(x), "from_arrays"):  # pyarrow
        return type(x).from_arrays(list(values.T), names=x.column_names)
    return values
