"""Functions that select observed values to hide, in order to measure the error of imputation.

Both functions return a mask that is true where a value is to be hidden; missing values are never selected.
"""

import numbers

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array

__all__ = ["hide_blocks", "hide_values"]

Seed = int | np.random.Generator | None


def hide_values(X: ArrayLike, fraction: float = 0.1, *, random_state: Seed = None) -> NDArray[np.bool_]:
    """Hide single observed values, each with the same probability.

    Parameters
    ----------
    X : array-like (T, D)
        Series; NaN, None, masked values and the NA of pandas are missing.
    fraction : float, default=0.1
        Probability that an observed value is hidden, above 0 and below 1.
    random_state : int, numpy.random.Generator or None, default=None
        Seed, passed to :func:`numpy.random.default_rng`.

    Returns
    -------
    ndarray of bool (T, D)
        True where a value is to be hidden; `X` is not changed.

    Raises
    ------
    ValueError
        If `X` is not two-dimensional or not numeric, or `fraction` is out of range.

    See Also
    --------
    hide_blocks : Hide blocks of consecutive rows.
    probsfa.imputation.compare_methods : Compare imputation methods on hidden values.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.arange(20_000.0).reshape(10_000, 2)
    >>> hidden = hide_values(X, 0.2, random_state=0)
    >>> print(hidden.mean().round(2))
    0.2
    >>> X[hidden] = np.nan
    """
    observed = _observed(X)
    _check_fraction(fraction)
    return observed & (np.random.default_rng(random_state).random(observed.shape) < fraction)


def hide_blocks(
    X: ArrayLike, length: int = 24, fraction: float = 0.1, *, random_state: Seed = None
) -> NDArray[np.bool_]:
    """Hide blocks of consecutive rows, each in one column, until `fraction` of the values is hidden.

    Such blocks resemble temporary failures of a sensor. The first row and the column of each block are drawn
    uniformly; blocks may overlap.

    Parameters
    ----------
    X : array-like (T, D)
        Series; NaN, None, masked values and the NA of pandas are missing.
    length : int, default=24
        Number of rows of a block, at most T.
    fraction : float, default=0.1
        Share of the observed values to hide, above 0 and below 1; the last block may exceed this share.
    random_state : int, numpy.random.Generator or None, default=None
        Seed, passed to :func:`numpy.random.default_rng`.

    Returns
    -------
    ndarray of bool (T, D)
        True where a value is to be hidden; `X` is not changed.

    Raises
    ------
    ValueError
        If `X` is not two-dimensional or not numeric, `fraction` is out of range, or `length` is not from 1 to
        T.

    See Also
    --------
    hide_values : Hide single values.
    probsfa.imputation.compare_methods : Compare imputation methods on hidden values.

    Examples
    --------
    >>> import numpy as np
    >>> hidden = hide_blocks(np.zeros((1000, 3)), 24, 0.1, random_state=0)
    >>> int(hidden.sum()) >= 300
    True
    """
    observed = _observed(X)
    _check_fraction(fraction)
    n_rows, n_columns = observed.shape
    if not isinstance(length, numbers.Integral) or not 1 <= length <= n_rows:
        raise ValueError(f"length must be an integer from 1 to the {n_rows} rows of X, got {length!r}.")
    rng = np.random.default_rng(random_state)
    hidden = np.zeros_like(observed)
    requested = fraction * np.count_nonzero(observed)
    n_hidden = 0
    while n_hidden < requested:
        first = int(rng.integers(n_rows - length + 1))
        block = slice(first, first + length), int(rng.integers(n_columns))
        n_hidden += np.count_nonzero(observed[block] & ~hidden[block])
        hidden[block] |= observed[block]
    return hidden


def _observed(X: ArrayLike) -> NDArray[np.bool_]:
    """Return a mask of observed values, or raise a ValueError if a series is not two-dimensional."""
    values = as_float_array(X, "X")
    if values.ndim != 2:
        raise ValueError(f"X must have two dimensions (rows are time), got an array of shape {values.shape}.")
    return ~np.isnan(values)


def _check_fraction(fraction: float) -> None:
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"fraction must be above 0 and below 1, got {fraction!r}.")
