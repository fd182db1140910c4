"""Validation of the types and values of one array-like; messages name the first invalid value."""

import re
import sys
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ADVICE_ON_MISSING",
    "MAX_ABSOLUTE_VALUE",
    "MIN_SPREAD",
    "SCAN_ROWS",
    "as_float_array",
    "as_frame",
    "check_array",
    "check_spread",
    "first_overflow",
    "index_of_data_array",
    "is_data_array",
]

#: Number of rows searched at a time for invalid values, which limits temporary memory.
SCAN_ROWS = 4096
#: Larger absolute values are rejected, because sums of their squares overflow. Columns that vary by less than
#: MIN_SPREAD (but are not constant) are rejected, because the squares of their differences underflow.
MAX_ABSOLUTE_VALUE, MIN_SPREAD = 1e150, 1e-140

# Advice for estimators without a model of missing values. An estimator that supports them with other
# parameters or in other methods defines `_advice_on_missing` instead.
ADVICE_ON_MISSING = (
    'Omit incomplete rows with SFA(missing="skip"), or impute them with ProbabilisticSFA.impute.'
)
# Texts that begin like a date.
_DATE_PATTERN = re.compile(r"\s*\d+[-/.]\d+[-/.]\d+")


def as_float_array(X: Any, name: str) -> NDArray[np.float64]:
    """Return numbers of any shape as a float64 array, NaN where missing.

    For the arguments of functions. Estimators use :func:`check_array`, which also rejects infinite values and
    values whose squares overflow.

    Parameters
    ----------
    X : array-like
        Numbers. Masked values, None and the NA of pandas are missing.
    name : str
        Name of the argument in error messages.

    Returns
    -------
    ndarray of float64
        Values in the shape of `X`; possibly the array of the caller, which must not be changed.

    Raises
    ------
    ValueError
        For text, dates, complex numbers and rows of unequal length.
    TypeError
        For values that are not numbers.

    Examples
    --------
    >>> as_float_array(np.ma.array([1, 999], mask=[False, True]), "X")
    array([ 1., nan])
    """
    X = _fill_masked(X)
    _check_value_types(X, name, "use an array of numbers.")
    try:
        if not hasattr(X, "isna") or np.asarray(X).dtype.kind in "biuf":
            return np.asarray(_without_na(X), dtype=np.float64)
        if hasattr(X, "columns"):
            columns = [_with_nan(X.iloc[:, j]) for j in range(X.shape[1])]
            return np.column_stack(columns) if columns else np.empty(X.shape)
        return _with_nan(X)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must contain numbers: {error}") from None


def _with_nan(series: Any) -> NDArray[np.float64]:
    """Return a series or an index of pandas as floats, with NaN for NA."""
    values: NDArray[np.float64] = series.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def check_array(
    estimator: Any, X: Any, name: str, *, reset: bool, allow_nan: bool, min_rows: int
) -> NDArray[np.float64]:
    """Check one array-like and return it as a float64 array (N, D)."""
    values = _as_is(estimator, X, reset, min_rows)
    if values is None:
        values = _convert(estimator, X, name, reset, min_rows)
    _check_finite(estimator, values, name, allow_nan)
    position = first_overflow(values)
    if position is not None:
        columns = getattr(estimator, "feature_names_in_", None)
        raise ValueError(
            f"{name} has {values[position]:.3g} in {_describe_position(position, columns)}, which overflows "
            f"when squared (limit {MAX_ABSOLUTE_VALUE:g}). Rescale the column, or replace the value by NaN "
            "if it is missing."
        )
    return values


def _as_is(estimator: Any, X: Any, reset: bool, min_rows: int) -> NDArray[np.float64] | None:
    """Return an array of floats that requires no conversion; None for other input.

    This saves time: :func:`sklearn.utils.validation.validate_data` takes as long as a fit to a small array.
    """
    is_float64 = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.aligned
    if (
        not is_float64
        or len(X) < max(min_rows, 1)
        or X.shape[1] == 0
        or hasattr(estimator, "feature_names_in_")
    ):
        return None
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif getattr(estimator, "n_features_in_", None) != X.shape[1]:
        return None
    array: NDArray[np.float64] = X
    return array


def _convert(estimator: Any, X: Any, name: str, reset: bool, min_rows: int) -> NDArray[np.float64]:
    """Return any array-like as floats, or raise an error that names the argument."""
    # Imported here, because the command line reads tables without scikit-learn, whose import is slow.
    from sklearn.utils.validation import validate_data

    X = as_frame(_fill_masked(X))
    _check_dimensions(X, name)
    X = _without_na(X)
    try:
        values: NDArray[np.float64] = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,  # the caller checks this, with the value in the message
            ensure_min_samples=min_rows,
        )
    except ValueError as error:
        prefix = "" if name == "X" and str(error).startswith("X ") else f"{name}: "
        raise ValueError(f"{prefix}{error}") from None
    return values


def first_overflow(values: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return the (row, column) of the first value whose square overflows in sums, or None."""
    for start in range(0, len(values), SCAN_ROWS):
        block = values[start : start + SCAN_ROWS]
        # fmax and fmin ignore NaN.
        if (
            np.fmax.reduce(block, axis=None) > MAX_ABSOLUTE_VALUE
            or np.fmin.reduce(block, axis=None) < -MAX_ABSOLUTE_VALUE
        ):
            bad = np.abs(block) > MAX_ABSOLUTE_VALUE
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(row), int(column)
    return None


def check_spread(estimator: Any, values: NDArray[np.float64], name: str) -> None:
    """Raise a ValueError for a column with so little variation that squares underflow in double precision.

    Otherwise the column would be treated as constant, or results would be NaN.
    """
    first_rows = values[:SCAN_ROWS]
    # Most columns vary within a few rows; only other columns are searched completely.
    undecided_columns = ~(
        np.fmax.reduce(first_rows, axis=0) - np.fmin.reduce(first_rows, axis=0) >= MIN_SPREAD
    )
    for column in np.flatnonzero(undecided_columns).tolist():
        column_values = values[:, column]
        spread = float(np.fmax.reduce(column_values) - np.fmin.reduce(column_values))
        if not 0.0 < spread < MIN_SPREAD:
            continue
        names = getattr(estimator, "feature_names_in_", None)
        column_text = "" if names is None else f" ({str(names[column])!r})"
        raise ValueError(
            f"{name} varies by only {spread:.3g} in column {column}{column_text}, which underflows when "
            "squared. Rescale or remove the column."
        )


def _fill_masked(X: Any) -> Any:
    """Replace masked values by NaN, in a masked array or in a list of masked rows."""
    if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        try:
            X = np.ma.array(X)  # the conversion of a list by NumPy ignores masks
        except ValueError:
            return X  # rows of unequal length raise an error later
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.float64), np.nan)
    return np.ma.filled(X, np.nan) if X.dtype.kind == "O" else X


def _without_na(X: Any) -> Any:
    """Return the values with NaN for NA of pandas, and with dense columns for sparse columns of DataFrames.

    NumPy cannot convert NA, and scikit-learn treats a DataFrame of sparse columns as a sparse matrix.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:  # without pandas there is no NA
        return X
    if not isinstance(X, pandas.DataFrame):
        array = X if hasattr(X, "dtype") or hasattr(X, "columns") else np.asarray(X)
        return _objects_with_nan(array) if getattr(array, "dtype", None) == np.dtype(object) else X
    columns_to_convert = [
        j
        for j, dtype in enumerate(X.dtypes)
        if isinstance(dtype, pandas.SparseDtype) or dtype == np.dtype(object)
    ]
    if columns_to_convert:
        X = X.copy(deep=False)
    for j in columns_to_convert:
        X.isetitem(j, _objects_with_nan(np.asarray(X.iloc[:, j])))
    return X


def _objects_with_nan(values: NDArray[Any]) -> NDArray[Any]:
    """Return values of type object with NaN for missing values; other types unchanged."""
    if values.dtype.kind != "O":
        return values
    missing = sys.modules["pandas"].isna(values)
    return np.where(missing, np.nan, values)


def _check_dimensions(X: Any, name: str) -> None:
    """Raise an error if X is a mapping, is not two-dimensional, or has values that are not numbers."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a Bunch, or a dictionary of columns
        keys = ", ".join(repr(key) for key in list(X)[:6])
        raise TypeError(
            f"{name} is a {type(X).__name__} with the keys {keys}. Use a table of shape (n_rows, "
            f"n_features), such as {name}['data'] or pandas.DataFrame({name})."
        )
    array = _check_value_types(
        X,
        name,
        "use an array (n_rows, n_features), or a list of 2-dimensional arrays for several sequences.",
    )
    if array is None:
        return
    if array.ndim == 2:
        return
    shape_error = (
        f"{name} is {array.ndim}-dimensional, shape {array.shape}; expected shape (n_rows, n_features)."
    )
    if array.ndim == 1:
        if hasattr(X, "to_frame"):
            raise ValueError(f"{shape_error} One column over time is {name}.to_frame().")
        raise ValueError(
            f"{shape_error} Reshape your data: X.reshape(-1, 1) if it is one variable over time, "
            "X.reshape(1, -1) if it is one row."
        )
    if array.ndim == 3:
        raise ValueError(
            f"{shape_error} For several sequences use a list of 2-dimensional arrays: "
            "[np.asarray(x) for x in X]."
        )
    raise ValueError(shape_error)


def _check_value_types(X: Any, name: str, remedy: str) -> NDArray[Any] | None:
    """Validate the type of the values; return an array, or None for a DataFrame or a sparse matrix.

    `remedy` is the advice in the message about rows of unequal length.
    """
    _check_not_lazy(X, name)
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        for j, column in enumerate(X.columns):
            _check_values(np.asarray(X.iloc[:, j]), f"column {column!r} of {name}", column)
        return None
    if hasattr(X, "columns") and hasattr(X, "schema"):  # a table of polars or Arrow, which has no index
        for column in getattr(X, "column_names", X.columns):
            _check_values(np.asarray(X[column]), f"column {column!r} of {name}", column, has_index=False)
        return None
    if hasattr(X, "toarray"):
        return None  # a sparse matrix, which the conversion rejects
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} has rows of unequal length; {remedy}") from None
    _check_values(array, name)
    return array


def _check_not_lazy(X: Any, name: str) -> None:
    """Raise an error for a LazyFrame of polars, which must be collected; also in a list."""
    if isinstance(X, (list, tuple)):
        for i, member in enumerate(X):
            if hasattr(member, "collect"):
                _check_not_lazy(member, f"{name}[{i}]")
    elif hasattr(X, "collect") and not hasattr(X, "shape"):
        raise ValueError(f"{name} is a {type(X).__name__}, which is not collected. Use {name}.collect().")


def _check_values(array: NDArray[Any], name: str, column: Any = None, has_index: bool = True) -> None:
    """Raise an error for values that are not numbers; `column` is the label of a column of a table."""
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: {name} has dtype {array.dtype}; expected real numbers."
        )
    if kind in "Mm":
        raise ValueError(
            f"{name} contains dates or durations ({array.dtype}); expected numbers."
            f"{_advice_on_type(column, None, has_index)}"
        )
    if kind not in "OUST":
        return
    for position in np.ndindex(array.shape):
        value = array[position]
        # Timestamps of pandas are dates. NaT, the missing date, differs from itself.
        if isinstance(value, (str, bytes, date, timedelta)) and value == value:
            where = ", ".join(f"{word} {i}" for word, i in zip(("row", "column"), position, strict=False))
            text = isinstance(value, (str, bytes))
            remedy = _advice_on_type(column, value, has_index)
            raise ValueError(
                f"{name} contains {'text' if text else 'a date or duration'} "
                f"({str(value)!r}){where and f' in {where}'}; expected numbers, NaN where missing.{remedy}"
            )


def _advice_on_type(column: Any, value: Any, has_index: bool) -> str:
    """Return advice about a text or a date among the values; `column` is its column in a table, or None."""
    text = isinstance(value, (str, bytes))
    if column is None:
        return "" if text else " Pass times as the index of a pandas DataFrame, or as times=."
    if text and not _DATE_PATTERN.match(str(value)):
        if has_index:
            return f" Convert the column by pandas.to_numeric, or remove it: X.drop(columns=[{column!r}])."
        return f" Convert the column to numbers, or remove it: X.drop([{column!r}])."
    if not has_index:
        times = f"pandas.to_datetime(X[{column!r}])" if text else f"X[{column!r}]"
        return f" Pass times={times}, and X.drop([{column!r}]) as X."
    if text:
        return (
            f" Use the times as the index: X = X.set_index({column!r}); "
            "X.index = pandas.to_datetime(X.index)."
        )
    return f" Pass times as the index, X.set_index({column!r}), or as times=X[{column!r}]."


def _check_finite(estimator: Any, values: NDArray[np.float64], name: str, allow_nan: bool) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        sum_of_values = values.sum()  # one fast pass: the sum is finite only if all terms are
    if np.isfinite(sum_of_values):
        return
    columns = getattr(estimator, "feature_names_in_", None)
    position = _first(np.isinf, values)
    if position is not None:
        sign = "-" if values[position] < 0 else ""
        raise ValueError(
            f"{name} contains infinity: {sign}inf in {_describe_position(position, columns)}. "
            "Replace infinite values, by NaN if they are missing."
        )
    if allow_nan:
        return
    position = _first(np.isnan, values)
    if position is not None:
        advice = f"{type(estimator).__name__} does not support missing values. {ADVICE_ON_MISSING}"
        raise ValueError(
            f"{name} contains NaN: the first is in {_describe_position(position, columns)}. "
            f"{getattr(estimator, '_advice_on_missing', advice)}"
        )


def _first(test: Callable[[NDArray[np.float64]], NDArray[np.bool_]], values: NDArray[np.float64]) -> Any:
    """Return the (row, column) of the first value that passes the test, or None."""
    for start in range(0, len(values), SCAN_ROWS):
        bad = test(values[start : start + SCAN_ROWS])
        if bad.any():
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(row), int(column)
    return None


def _describe_position(position: tuple[int, int], names: Any) -> str:
    row, column = position
    return f"row {row}, column {column}" + ("" if names is None else f" ({str(names[column])!r})")


# ------------------------------------------------------------------------------------------ labelled arrays

# Labelled arrays of xarray, recognized without importing it.


def is_data_array(X: Any) -> bool:
    """Return whether `X` is a two-dimensional ``xarray.DataArray``: rows by columns."""
    xarray = sys.modules.get("xarray")  # if xarray is not imported, X is not a DataArray
    return xarray is not None and isinstance(X, xarray.DataArray) and X.ndim == 2


def as_frame(X: Any) -> Any:
    """Return a two-dimensional DataArray as a DataFrame with the labels of its rows and columns.

    Raises
    ------
    ValueError
        If only the second dimension has times, because times would then be columns.
    """
    if not is_data_array(X):
        return X
    rows, columns = (_has_times(X.indexes.get(dimension)) for dimension in X.dims)
    if columns and not rows:
        first, second = X.dims
        raise ValueError(
            f"The DataArray has the dimensions {X.dims}, and only the second has times. Rows must be times: "
            f"use .transpose({second!r}, {first!r})."
        )
    return X.to_pandas()


def _has_times(index: Any) -> bool:
    """Whether an index of pandas or xarray, or None, has dates, periods or durations."""
    return type(index).__name__ in {"DatetimeIndex", "PeriodIndex", "TimedeltaIndex", "CFTimeIndex"}


def index_of_data_array(X: Any) -> Any:
    """Return the index of the first dimension of a DataArray, None if it has no coordinate."""
    return X.indexes.get(X.dims[0])
