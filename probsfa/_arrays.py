"""One array-like at the border: checked cell by cell, with the place of the first bad cell in the message."""

import sys
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from probsfa._xarray import as_frame

__all__ = [
    "LARGEST",
    "SCAN_ROWS",
    "SMALLEST_SPREAD",
    "as_float_array",
    "check_array",
    "check_spread",
    "too_large",
]

SCAN_ROWS = 4096  # rows looked at together when searching for a bad cell, so that the search needs no memory
#: Sizes that data may have: sums of many squares of them are still normal numbers in double precision.
LARGEST, SMALLEST_SPREAD = 1e150, 1e-140

# For estimators without a model of missing values; others have an attribute of this name, in lower case.
_ADVICE_ON_MISSING = (
    'Leave incomplete rows out with SFA(missing="skip"), or fill them with ProbabilisticSFA.impute.'
)


def as_float_array(X: Any, name: str) -> NDArray[np.float64]:
    """Return numbers of any shape as a float64 array in which NaN is missing.

    For functions on plain arrays; estimators check more, through :func:`check_array`.

    Parameters
    ----------
    X : array-like
        Numbers. Cells under a masked array's mask, None and the NA of pandas are missing.
    name : str
        How to call the argument in error messages.

    Returns
    -------
    ndarray of float64
        In the shape of `X`. May be the caller's own array: do not write to it.

    Raises
    ------
    ValueError
        For text, dates, complex numbers and rows of unequal length, naming the argument.
    TypeError
        For cells that are no numbers at all, naming the argument.

    Examples
    --------
    >>> as_float_array(np.ma.array([1, 999], mask=[False, True]), "X")
    array([ 1., nan])
    """
    X = _fill_masked(X)
    _check_cells_of(X, name, "wanted numbers in the shape of an array.")
    try:
        if not hasattr(X, "isna") or np.asarray(X).dtype.kind in "biuf":
            return np.asarray(_without_na(X), dtype=np.float64)
        if hasattr(X, "columns"):
            columns = [_with_nan(X.iloc[:, j]) for j in range(X.shape[1])]
            return np.column_stack(columns) if columns else np.empty(X.shape)
        return _with_nan(X)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} must hold numbers: {error}") from None


def _with_nan(cells: Any) -> NDArray[np.float64]:
    """A series or an index of pandas as floats, its NA as NaN."""
    values: NDArray[np.float64] = cells.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def check_array(
    estimator: Any, X: Any, name: str, *, reset: bool, allow_nan: bool, min_rows: int
) -> NDArray[np.float64]:
    """Check one array-like and return it as a float64 array (N, D)."""
    values = _plain(estimator, X, reset, min_rows)
    if values is None:
        values = _converted(estimator, X, name, reset, min_rows)
    _check_finite(estimator, values, name, allow_nan)
    place = too_large(values)
    if place is not None:
        columns = getattr(estimator, "feature_names_in_", None)
        raise ValueError(
            f"{name} is too large in {_cell(place, columns)}: the square of {values[place]:.3g} is no number "
            f"in double precision, nor of anything beyond {LARGEST:g}. Give the column in larger units, "
            "or replace the value by NaN where it stands for a missing measurement."
        )
    return values


def _plain(estimator: Any, X: Any, reset: bool, min_rows: int) -> NDArray[np.float64] | None:
    """Return an array of floats that needs no conversion, None for any other.

    For small arrays, :func:`sklearn.utils.validation.validate_data` takes as long as a fit.
    """
    ready = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.flags.aligned
    if not ready or len(X) < max(min_rows, 1) or X.shape[1] == 0 or hasattr(estimator, "feature_names_in_"):
        return None
    if reset:
        estimator.n_features_in_ = X.shape[1]
    elif getattr(estimator, "n_features_in_", None) != X.shape[1]:
        return None
    array: NDArray[np.float64] = X
    return array


def _converted(estimator: Any, X: Any, name: str, reset: bool, min_rows: int) -> NDArray[np.float64]:
    """Return any array-like as floats, or raise an error that names the argument."""
    X = as_frame(_fill_masked(X))
    _check_kind(X, name)
    X = _without_na(X)
    try:
        values: NDArray[np.float64] = validate_data(
            estimator,
            X,
            reset=reset,
            dtype=np.float64,
            ensure_all_finite=False,  # done by the caller, so that the message names the cell
            ensure_min_samples=min_rows,
        )
    except ValueError as error:
        prefix = "" if name == "X" and str(error).startswith("X ") else f"{name}: "
        raise ValueError(f"{prefix}{error}") from None
    return values


def too_large(values: NDArray[np.float64]) -> tuple[int, int] | None:
    """Return the (row, column) of the first cell whose square overflows in sums, None without one."""
    for start in range(0, len(values), SCAN_ROWS):
        block = values[start : start + SCAN_ROWS]
        # NaN, which is a missing cell, loses against any number.
        if np.fmax.reduce(block, axis=None) > LARGEST or np.fmin.reduce(block, axis=None) < -LARGEST:
            bad = np.abs(block) > LARGEST
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(row), int(column)
    return None


def check_spread(estimator: Any, values: NDArray[np.float64], name: str) -> None:
    """Raise a ValueError for a column that varies, but by less than double precision has squares for.

    Taken for constant it would be left out in silence, and taken for what it is it gives NaN.
    """
    first = values[:SCAN_ROWS]
    # Most columns vary within a few rows; the others are looked at as a whole.
    open_columns = ~(np.fmax.reduce(first, axis=0) - np.fmin.reduce(first, axis=0) >= SMALLEST_SPREAD)
    for column in np.flatnonzero(open_columns).tolist():
        cells = values[:, column]
        spread = float(np.fmax.reduce(cells) - np.fmin.reduce(cells))
        if not 0.0 < spread < SMALLEST_SPREAD:
            continue
        names = getattr(estimator, "feature_names_in_", None)
        called = "" if names is None else f" ({str(names[column])!r})"
        raise ValueError(
            f"{name} varies by only {spread:.3g} in column {column}{called}: the square of that is no "
            "normal number in double precision. Give the column in smaller units, or leave it out."
        )


def _fill_masked(X: Any) -> Any:
    """Put NaN in the place of what a mask hides, in a masked array or in a list of masked rows."""
    if isinstance(X, (list, tuple)) and any(isinstance(row, np.ma.MaskedArray) for row in X):
        try:
            X = np.ma.array(X)  # NumPy's own conversion of a list forgets the masks
        except ValueError:
            return X  # rows of unequal length: refused with its own sentence
    if not isinstance(X, np.ma.MaskedArray):
        return X
    if X.dtype.kind in "biuf":
        return np.ma.filled(X.astype(np.float64), np.nan)
    return np.ma.filled(X, np.nan) if X.dtype.kind == "O" else X


def _without_na(X: Any) -> Any:
    """Return the same cells with NaN for the NA of pandas among objects, and sparse columns of frames dense.

    NumPy makes no number of NA, and scikit-learn takes a frame of sparse columns for a sparse matrix.
    """
    pandas = sys.modules.get("pandas")
    if pandas is None:  # nobody can have its NA
        return X
    if not isinstance(X, pandas.DataFrame):
        array = X if hasattr(X, "dtype") or hasattr(X, "columns") else np.asarray(X)
        return _objects_with_nan(array) if getattr(array, "dtype", None) == np.dtype(object) else X
    odd = [
        j
        for j, dtype in enumerate(X.dtypes)
        if isinstance(dtype, pandas.SparseDtype) or dtype == np.dtype(object)
    ]
    if odd:
        X = X.copy(deep=False)
    for j in odd:
        X.isetitem(j, _objects_with_nan(np.asarray(X.iloc[:, j])))
    return X


def _objects_with_nan(cells: NDArray[Any]) -> NDArray[Any]:
    """Return cells with NaN for those that are missing, where they are objects; others as they are."""
    if cells.dtype.kind != "O":
        return cells
    missing = sys.modules["pandas"].isna(cells)
    return np.where(missing, np.nan, cells)


def _check_kind(X: Any, name: str) -> None:
    """Raise for what would convert to numbers silently, or fail without saying where."""
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # a bunch, or a dictionary of columns
        keys = ", ".join(repr(key) for key in list(X)[:6])
        raise TypeError(
            f"{name} is a {type(X).__name__} with the keys {keys}; wanted one table of shape "
            f"(n_rows, n_features), such as {name}['data'], or pandas.DataFrame({name})."
        )
    array = _check_cells_of(
        X,
        name,
        "wanted an array (n_rows, n_features), or a list of 2-dimensional arrays for several sequences.",
    )
    if array is None:
        return
    if array.ndim == 2:
        return
    came = f"{name} is {array.ndim}-dimensional, shape {array.shape}; wanted shape (n_rows, n_features)."
    if array.ndim == 1:
        raise ValueError(
            f"{came} Reshape your data: X.reshape(-1, 1) if it is one variable over time, "
            "X.reshape(1, -1) if it is one row."
        )
    if array.ndim == 3:
        raise ValueError(
            f"{came} For several sequences give a list of 2-dimensional arrays: [np.asarray(x) for x in X]."
        )
    raise ValueError(came)


def _check_cells_of(X: Any, name: str, wanted: str) -> NDArray[Any] | None:
    """Check what kind of cells an array-like has; return it as an array, a frame or a sparse matrix as None.

    `wanted` says what to give instead of rows of unequal length.
    """
    _check_collected(X, name)
    if hasattr(X, "columns") and hasattr(X, "dtypes"):
        for j, column in enumerate(X.columns):
            cells = X.iloc[:, j] if hasattr(X, "iloc") else X[column]
            _check_cells(np.asarray(cells), f"column {column!r} of {name}")
        return None
    if hasattr(X, "toarray"):
        return None  # a sparse matrix: what converts it says it well
    try:
        array = np.asarray(X)
    except ValueError:
        raise ValueError(f"{name} has rows of unequal length; {wanted}") from None
    _check_cells(array, name)
    return array


def _check_collected(X: Any, name: str) -> None:
    """Raise for a query whose rows are not there yet, such as a LazyFrame of polars, alone or in a list."""
    if isinstance(X, (list, tuple)):
        for i, member in enumerate(X):
            if hasattr(member, "collect"):
                _check_collected(member, f"{name}[{i}]")
    elif hasattr(X, "collect") and not hasattr(X, "shape"):
        raise ValueError(
            f"{name} is a {type(X).__name__}, whose rows are not there until it is collected; "
            f"give {name}.collect()."
        )


def _check_cells(array: NDArray[Any], name: str) -> None:
    kind = array.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}; wanted real numbers.")
    if kind in "Mm":
        raise ValueError(f"{name} holds dates or durations ({array.dtype}); wanted numbers.")
    if kind not in "OUST":
        return
    for place in np.ndindex(array.shape):
        cell = array[place]
        # pandas' timestamps are dates; its missing time is one too, and the only one unequal to itself.
        if isinstance(cell, (str, bytes, date, timedelta)) and cell == cell:
            where = ", ".join(f"{word} {i}" for word, i in zip(("row", "column"), place, strict=False))
            what = "text" if isinstance(cell, (str, bytes)) else "a date or duration"
            raise ValueError(
                f"{name} holds {what} ({str(cell)!r}){where and f' in {where}'}; "
                "wanted numbers, NaN where missing."
            )


def _check_finite(estimator: Any, values: NDArray[np.float64], name: str, allow_nan: bool) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()  # one fast pass settles the usual case: a finite sum has finite terms
    if np.isfinite(total):
        return
    columns = getattr(estimator, "feature_names_in_", None)
    place = _first(np.isinf, values)
    if place is not None:
        sign = "-" if values[place] < 0 else ""
        raise ValueError(
            f"{name} contains infinity: {sign}inf in {_cell(place, columns)}. "
            "Replace infinite values, by NaN where they stand for a missing measurement."
        )
    if allow_nan:
        return
    place = _first(np.isnan, values)
    if place is not None:
        raise ValueError(
            f"{name} contains NaN: the first is in {_cell(place, columns)}. "
            f"{type(estimator).__name__} needs complete data here. "
            f"{getattr(estimator, '_advice_on_missing', _ADVICE_ON_MISSING)}"
        )


def _first(test: Callable[[NDArray[np.float64]], NDArray[np.bool_]], values: NDArray[np.float64]) -> Any:
    """Return the (row, column) of the first cell that passes the test, None without one."""
    for start in range(0, len(values), SCAN_ROWS):
        bad = test(values[start : start + SCAN_ROWS])
        if bad.any():
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            return start + int(row), int(column)
    return None


def _cell(place: tuple[int, int], names: Any) -> str:
    row, column = place
    return f"row {row}, column {column}" + ("" if names is None else f" ({str(names[column])!r})")
