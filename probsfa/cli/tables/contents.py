"""What is in the columns of a table."""

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from probsfa.cli.tables.dates import date_shape
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.table import Table

__all__ = ["CALENDAR", "PARTS", "RANGES", "Contents", "Role", "read_contents", "tokens"]

Role = Literal["data", "time", "part of the time", "group", "left out"]

# Names of the parts of a calendar, as people write them.
CALENDAR = {
    "year": "year", "yr": "year", "yyyy": "year", "jahr": "year",
    "month": "month", "mon": "month", "monat": "month",
    "day": "day", "dayofmonth": "day", "tag": "day",
    "doy": "dayofyear", "dayofyear": "dayofyear", "yday": "dayofyear", "jday": "dayofyear",
    "hour": "hour", "hr": "hour", "stunde": "hour",
    "minute": "minute",
    "second": "second",
    "weekday": "weekday", "dayofweek": "weekday", "dow": "weekday", "week": "week",
    "quarter": "quarter",
}  # fmt: skip

PARTS = ("year", "month", "day", "dayofyear", "hour", "minute", "second")

# The largest and smallest number of each part.
RANGES = {
    "year": (0, 9999), "month": (1, 12), "day": (1, 31), "dayofyear": (1, 366), "hour": (0, 24),
    "minute": (0, 59), "second": (0, 60), "weekday": (0, 7), "week": (0, 53), "quarter": (1, 4),
}  # fmt: skip


@dataclass(frozen=True)
class Contents:
    """What is in a column: numbers, or texts of some shape.

    Attributes
    ----------
    name : str
        The name of the column.
    values : ndarray (T,) or None
        Its numbers, NaN where missing; None where a cell is neither.
    n_missing : int
        Missing cells.
    shape : str or None
        What texts look like, see `date_shape`.
    bad : int or None
        The first row whose cell is neither a number nor missing.
    is_text : bool
        Whether no cell can be meant as a number.
    """

    name: str
    values: NDArray[np.float64] | None
    n_missing: int
    shape: str | None = None
    bad: int | None = None
    is_text: bool = False

    @property
    def known(self) -> NDArray[np.float64]:
        """The numbers that are not missing."""
        values = np.zeros(0) if self.values is None else self.values
        return values[~np.isnan(values)]

    @property
    def part(self) -> str | None:
        """Which part of the calendar the column is, if its name and its numbers say so."""
        part = CALENDAR.get("".join(tokens(self.name)))
        known = self.known
        if part is None or not len(known) or np.any(known % 1 != 0):
            return None
        low, high = RANGES[part]
        return part if known.min() >= low and known.max() <= high else None


def read_contents(table: Table, column: int, missing: Missing) -> Contents:
    """Read a column.

    Parameters
    ----------
    table : Table
        The file.
    column : int
        Which of its columns.
    missing : Missing
        What missing cells look like.

    Returns
    -------
    Contents
    """
    values, bad = table.read_numbers(column, missing)
    name, n_missing = table.names[column], int(np.isnan(values).sum()) - len(bad)
    if not bad:
        return Contents(name, values, n_missing)
    texts = table.texts(column)
    odd = [texts[i] for i in bad]
    shape = date_shape(odd) if 2 * len(bad) >= len(texts) - n_missing else None
    is_text = len(bad) == len(texts) - n_missing and all(_is_word(text) for text in odd)
    return Contents(name, None, n_missing, shape, bad[0], is_text)


def _is_word(text: str) -> bool:
    """Whether a text cannot be meant as a number: it begins with a letter, or has no digit."""
    return text[0].isalpha() or not any(c.isdigit() for c in text)


def tokens(name: str) -> list[str]:
    """Split the name of a column into words.

    Examples
    --------
    >>> tokens("Unix_Time"), tokens("stationId"), tokens("time (s)")
    (['unix', 'time'], ['station', 'id'], ['time', 's'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|\d+", name)]
