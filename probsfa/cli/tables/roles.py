"""Which columns of a table are data and which tell the time."""

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Missing, Table, plain_number

__all__ = ["CALENDAR", "Roles", "as_numbers", "assign_roles"]

CALENDAR = frozenset({"year", "month", "day", "hour", "minute", "second", "weekday"})
_INDEX_NAMES = frozenset({"", "index", "id", "no", "no.", "nr", "row", "step", "t", "time", "unnamed: 0"})
_TIME_WORDS = ("date", "time", "period")

_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([T ].*)?")
_TIME_OF_DAY = re.compile(r"\d{1,2}[:.]\d{2}([:.]\d{2}.*)?")


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for, by their numbers; a column in neither list is only kept.

    Attributes
    ----------
    data : list of int
        Columns that are modelled.
    time : list of int
        Columns that tell the time of a row.
    """

    data: list[int]
    time: list[int]


def assign_roles(
    table: Table, missing: Missing, columns: list[str] | None = None, time: list[str] | None = None
) -> Roles:
    """Decide which columns are data and which tell the time.

    Parameters
    ----------
    table : Table
        The file.
    missing : Missing
        What missing cells look like.
    missing : Missing
        Which texts mean that a cell is missing.
    columns : list of str or None, default=None
        Names of the data columns. Without them, every column that does not tell the time and is not blank.
    time : list of str or None, default=None
        Names of the columns that tell the time. Without them these are recognised: dates and times of the
        day; numbers under the name of an index that go up from row to row; a first column that counts the
        rows; whole numbers under the name of a part of the calendar.

    Returns
    -------
    Roles

    Raises
    ------
    CommandError
        If a name is unknown or stands for several columns, or no column is left.
    """
    if time is None:
        time_columns = [j for j in range(len(table.names)) if _tells_time(table, j, missing)]
    else:
        time_columns = [_column_named(table, name) for name in time]
    if columns is None:
        data = [j for j in range(len(table.names)) if j not in time_columns and not _is_blank(table, j)]
    else:
        data = [_column_named(table, name) for name in dict.fromkeys(columns)]
        time_columns = [j for j in time_columns if j not in data]
    if not data:
        raise CommandError(f"{table.path}: no column of numbers to work on; choose some with --columns.")
    return Roles(data, time_columns)


def as_numbers(texts: list[str], decimal: str = ".") -> NDArray[np.float64] | None:
    """Return the numbers of a column in which every cell is a finite number, None for any other column."""
    try:
        values = np.array([float(plain_number(text, decimal)) for text in texts])
    except ValueError:
        return None
    return values if np.all(np.isfinite(values)) else None


def _tells_time(table: Table, column: int, missing: Missing) -> bool:
    """Whether a column tells the time of its rows, by its name and what is in its cells."""
    name, texts = table.names[column].lower(), table.texts(column)
    values = as_numbers(texts, table.decimal)
    if values is not None:
        steps = np.diff(values)
        if name in CALENDAR:
            return bool(np.all(values == np.rint(values)))
        if any(word in name for word in _TIME_WORDS):
            return bool(np.all(steps >= 0.0))
        is_index = name in _INDEX_NAMES and np.all(steps > 0.0)
        return bool(is_index or (column == 0 and steps.size > 0 and np.all(steps == 1.0)))
    written = [text for text in texts if not missing.matches(text)]
    if not written or as_numbers(written, table.decimal) is not None:
        return False  # numbers with holes: data
    if any(word in name for word in _TIME_WORDS) or (name == "" and column == 0):
        return not any(
            missing.matches(text) or as_numbers([text], table.decimal) is not None for text in texts
        )
    return all(_DATE.fullmatch(text) or _TIME_OF_DAY.fullmatch(text) for text in written)


def _is_blank(table: Table, column: int) -> bool:
    """Whether a column has neither name nor content: commas at the end of rows make such columns."""
    return table.names[column] == "" and not any(table.texts(column))


def _column_named(table: Table, name: str) -> int:
    """Return the number of the one column of that name, or raise a CommandError."""
    places = [j for j, known in enumerate(table.names) if known == name]
    if not places:
        raise CommandError(f"{table.path}: there is no column {name!r}; there are {', '.join(table.names)}.")
    if len(places) > 1:
        raise CommandError(f"{table.path}: {len(places)} columns have the name {name!r}; rename all but one.")
    return places[0]
