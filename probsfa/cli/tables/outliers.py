"""Numbers that are likely codes for missing, and single values far beyond all others."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["codes_of", "outliers"]

# Customary codes for missing: nines, some round numbers, and limits of number types.
_NINES = (
    99.0,
    999.0,
    9999.0,
    99999.0,
    999999.0,
    99.9,
    999.9,
    9999.9,
    99.99,
    999.99,
    9999.99,
    99.999,
    999.999,
)
_OTHERS = (-200.0, -777.0, -7777.0, -888.0, -8888.0, -32768.0, 32767.0, 65535.0)
_HUGE = (1e20, 1e30, 1e34, 1e36)
_CUSTOMARY = np.array(
    sorted({sign * code for code in (*_NINES, *_HUGE) for sign in (1.0, -1.0)} | set(_OTHERS))
)
# Standard deviations of all other values beyond which a single value is reported; minimum number of values.
_FAR, _FEWEST = 10.0, 10


def codes_of(values: NDArray[np.float64]) -> list[float]:
    """Return the customary codes for missing that a column has and that are unlikely values.

    Such a code lies beyond all other values, by more than half of their range; or it is negative and no other
    value is.

    Parameters
    ----------
    values : ndarray (T,)
        The column, NaN where missing.

    Examples
    --------
    >>> codes_of(np.array([1.0, -999.0, 2.0, 1.5, -999.0]))
    [-999.0]
    >>> codes_of(np.array([999.0, 1000.0, 1010.0, 1020.0]))
    []
    """
    known = np.unique(values[~np.isnan(values)])
    customary = np.isin(known, _CUSTOMARY)
    rest = known[~customary]
    if len(rest) < 2:
        return []
    low, high = rest[0], rest[-1]
    with np.errstate(over="ignore"):
        half = 0.5 * (high - low)
    return [
        float(code)
        for code in known[customary]
        if code < low - half or code > high + half or code < 0.0 <= low
    ]


def outliers(values: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return single values that lie far beyond all others of a column.

    Parameters
    ----------
    values : ndarray (T,)
        The column, NaN where missing.

    Returns
    -------
    list of (row, distance)
        At most two, the lowest and the highest value, each with its distance from the nearest other one in
        standard deviations of all others; ten or more.

    Examples
    --------
    >>> outliers(np.array([*range(20), 1048.0]))[0][0]
    20
    """
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) <= _FEWEST:
        return []
    known = values[rows]
    order = np.argsort(known, kind="stable")
    far = []
    for end, beside in ((0, 1), (-1, -2)):
        extreme = order[end]
        rest = np.delete(known, extreme)
        scale = float(np.max(np.abs(rest)))
        spread = scale * float(np.std(rest / scale)) if scale > 0.0 else 0.0
        away = abs(known[extreme] - known[order[beside]])
        if spread > 0.0 and away > _FAR * spread:
            far.append((int(rows[extreme]), float(away / spread)))
    return far
