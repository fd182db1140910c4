"""Numbers that look like codes for missing, and cells far beyond all others."""

import numpy as np
from numpy.typing import NDArray

__all__ = ["outliers", "suspects"]

# Written where nothing was observed, by habit: all nines, and the most that types of numbers hold.
_HABITS = frozenset(
    sign * value
    for value in (
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
    for sign in (1.0, -1.0)
) | {
    -200.0,
    -888.0,
    -8888.0,
    -777.0,
    -7777.0,
    -32768.0,
    32767.0,
    65535.0,
    -1e20,
    1e20,
    1e30,
    -1e30,
    1e36,
    -1e34,
}
# Standard deviations of all other cells, beyond them, from which a single cell is named.
FAR = 10.0
_FEWEST = 10


def suspects(values: NDArray[np.float64]) -> list[float]:
    """Return the numbers of a column that may stand for missing.

    Such codes lie further below or above all other values than these lie apart, and are whole and repeated:
    -200 among readings of 0 to 50. Numbers that are such codes by habit, as -999 and -99.9 are, count when
    they appear once, and from half of that distance on.

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
    >>> suspects(np.array([20.5, -99.9, 21.0, -4.0]))
    [-99.9]
    >>> suspects(np.array([0.0, 0.0, 1.0, 2.0]))
    []
    """
    known, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    if len(known) < 3 or np.abs(known[[0, -1]]).max() > 1e300:  # no code, and no differences
        return []
    codes = []
    for end, beside, rest in ((0, 1, known[1:]), (-1, -2, known[:-1])):
        away, spread = abs(known[end] - known[beside]), np.ptp(rest)
        by_habit = known[end] in _HABITS and away > 0.5 * spread
        repeated = counts[end] >= 2 and abs(known[end]) >= 99 and known[end] % 1 == 0 and away > spread
        if by_habit or repeated:
            codes.append(float(known[end]))
    return codes


def outliers(values: NDArray[np.float64]) -> list[tuple[int, float]]:
    """Return single cells that lie far beyond all others of a column.

    Parameters
    ----------
    values : ndarray (T,)
        The column, NaN where missing.

    Returns
    -------
    list of (row, distance)
        At most two, the lowest and the highest cell, each with its distance from the nearest other one in
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
        cell = order[end]
        rest = np.delete(known, cell)
        with np.errstate(over="ignore"):  # cells such as 1e300
            scale = float(np.max(np.abs(rest)))
            spread = scale * float(np.std(rest / scale)) if scale > 0.0 else 0.0
            away = abs(known[cell] - known[order[beside]])
            if spread > 0.0 and away > FAR * spread:
                far.append((int(rows[cell]), float(away / spread)))
    return far
