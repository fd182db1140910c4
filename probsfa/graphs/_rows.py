"""Validation of samples passed to functions of graphs and moments."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import MAX_ABSOLUTE_VALUE, SCAN_ROWS, as_float_array, first_overflow

__all__ = ["check_rows", "check_unmasked", "exact_shift"]


def check_rows(X: Any, name: str, *, allow_nan: bool = False) -> NDArray[np.float64]:
    """Return samples as a float64 array (N, D) in which NaN is missing.

    Parameters
    ----------
    X : array-like (N, D)
        Samples; masked values and the NA of pandas are missing.
    name : str
        Name of the argument in error messages.
    allow_nan : bool, default=False
        Whether missing values are allowed.

    Returns
    -------
    ndarray (N, D)
        The samples; possibly the array of the caller, which must not be changed.

    Raises
    ------
    ValueError
        If `X` is not a two-dimensional array of numbers, or has infinite values, or missing values that are
        not allowed. The message names the row.
    """
    rows = as_float_array(X, name)
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (n_rows, n_features); got shape {rows.shape}.")
    with np.errstate(over="ignore", invalid="ignore"):
        sum_of_values = rows.sum()  # the sum is finite only if all terms are
    position = first_overflow(rows) if rows.size else None
    if position is not None and np.isfinite(rows[position]):
        raise ValueError(
            f"{name} is too large in row {position[0]}, column {position[1]}: the square of "
            f"{rows[position]:.3g} overflows in double precision (limit {MAX_ABSOLUTE_VALUE:g}). "
            "Use larger units."
        )
    if np.isfinite(sum_of_values):
        return rows
    for start in range(0, len(rows), SCAN_ROWS):
        block = rows[start : start + SCAN_ROWS]
        bad = np.isinf(block) if allow_nan else ~np.isfinite(block)
        if bad.any():
            row, column = np.unravel_index(int(np.argmax(bad)), bad.shape)
            name_of_value = "infinity" if np.isinf(block[row, column]) else "a missing value"
            raise ValueError(
                f"{name} contains {name_of_value} in row {start + row}, column {column}; expected "
                f"{'finite numbers, NaN where missing' if allow_nan else 'complete rows'}."
            )
    return rows


def check_unmasked(labels: Any, name: str = "y") -> Any:
    """Return labels unchanged, or raise a ValueError if one is masked.

    Conversion of a masked array to an array would ignore the mask.
    """
    is_masked = (
        np.ma.getmaskarray(labels) if isinstance(labels, np.ma.MaskedArray) else np.zeros(0, dtype=bool)
    )
    if is_masked.any():
        position = int(np.argmax(is_masked.reshape(len(is_masked), -1).any(axis=1)))
        raise ValueError(f"{name}[{position}] is masked; every sample requires a label.")
    return labels


def exact_shift(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return an offset of each column that can be subtracted without rounding; zero if the mean is small.

    The offset is the mean, rounded to a multiple of a power of two that exceeds the deviations from the mean.
    Subtraction is then exact, so that equal distances remain equal.
    """
    mean = values.mean(axis=0)
    max_deviation = np.abs(values - mean).max(axis=0)
    varies = max_deviation > np.finfo(np.float64).eps * np.abs(mean)
    unit = np.exp2(np.ceil(np.log2(np.where(varies, max_deviation, 1.0))))
    return np.where(varies, np.round(mean / unit) * unit, mean)
