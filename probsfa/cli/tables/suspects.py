"""Numbers that look like codes for missing."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["suspects"]


def suspects(values: NDArray[np.float64]) -> list[float]:
    """Return the numbers of a column that may stand for missing.

    Such codes are whole, repeated, and lie further below or above all other values than these lie apart:
    -200, -999 or 9999 among readings of 0 to 50.

    Parameters
    ----------
    values : ndarray (T,)
        The column, NaN where missing.

    Returns
    -------
    list of float
        At most two, the lowest and the highest number.

    Examples
    --------
    >>> suspects(np.array([1.0, -999.0, 2.0, 1.5, -999.0]))
    [-999.0]
    >>> suspects(np.array([0.0, 0.0, 1.0, 2.0]))
    []
    """
    known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(known) < 3:
        return []
    codes = []
    for end, beside, rest in ((0, 1, known[1:]), (-1, -2, known[:-1])):
        away = abs(known[end] - known[beside])
        if counts[end] >= 2 and abs(known[end]) >= 99 and known[end] % 1 == 0 and away > np.ptp(rest):
            codes.append(float(known[end]))
    return codes
