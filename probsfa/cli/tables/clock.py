"""When the rows of a table were observed."""

import re
import warnings
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.roles import CALENDAR, Roles, as_numbers
from probsfa.cli.tables.table import Table

__all__ = ["Clock", "read_clock"]


_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


@dataclass(frozen=True)
class Clock:
    """When the rows were observed.

    Attributes
    ----------
    times : ndarray (T,) or None
        Time of each row, in steps; None where the rows are evenly spaced, or are taken so.
    stamps : ndarray (T,) or None
        The times as they were read, numbers or datetime64, for pictures.
    step : str or None
        How long a step is, such as ``"1 h"``; None where that is not known.
    note : str
        What to tell the user.
    """

    times: FloatArray | None
    stamps: NDArray[np.generic] | None
    step: str | None
    note: str


def read_clock(table: Table, roles: Roles, *, even: bool = False) -> Clock:
    """Read the times of the rows.

    Columns with dates and times are read together. A step is the time between rows where that is always the
    same, as calendars count (months are), and else the median.

    Parameters
    ----------
    table : Table
        The file.
    roles : Roles
        Which of its columns tell the time.
    even : bool, default=False
        Take the rows as evenly spaced, whatever these columns say.

    Returns
    -------
    Clock

    Raises
    ------
    CommandError
        If a time cannot be read, or does not come after the one before.
    """
    columns = [j for j in roles.time if table.names[j].lower() not in CALENDAR]
    if even or not columns:
        return Clock(None, None, None, "rows are taken as evenly spaced")
    numbers = {}
    for column in columns:
        values = as_numbers(table.texts(column), table.decimal)
        if values is not None and not _are_compact_dates(values):
            numbers[column] = values
    dates = [j for j in columns if j not in numbers]
    if not dates:
        _check_increasing(numbers[columns[0]], table, columns[0])
        return _numeric_clock(numbers[columns[0]])
    stamps = _read_dates(_joined(table, dates))
    if stamps.isna().all():
        return Clock(None, None, None, "the times could not be read: rows are taken as evenly spaced")
    if stamps.isna().any():
        first = int(np.argmax(stamps.isna()))
        raise CommandError(f"{table.where(first, dates[0])}: {table.texts(dates[0])[first]!r} is not a time.")
    seconds = (stamps - stamps[0]).total_seconds().to_numpy(dtype=np.float64)
    _check_increasing(seconds, table, dates[0])
    return _dated_clock(stamps, seconds)


def _numeric_clock(values: FloatArray) -> Clock:
    """Make a clock of times that are plain numbers; their unit is not known."""
    steps = np.diff(values)
    if steps.size == 0 or np.ptp(steps) <= 1e-9 * abs(steps[0]):
        return Clock(None, values, None, "rows are evenly spaced")
    step = float(np.median(steps))
    return Clock(
        (values - values[0]) / step, values, None, f"rows are unevenly spaced, the median step is {step:g}"
    )


def _dated_clock(stamps: pd.DatetimeIndex, seconds: FloatArray) -> Clock:
    """Make a clock of dates; `seconds` are the same since the first of them."""
    when = stamps.to_numpy()
    if len(when) < 2:
        return Clock(None, when, None, "rows are evenly spaced")
    regular = _regular_step(stamps)
    if regular is not None:
        return Clock(None, when, regular, f"rows are evenly spaced, {regular} apart")
    step = float(np.median(np.diff(seconds)))
    note = f"rows are unevenly spaced, the median step is {_duration(step)}"
    return Clock(seconds / step, when, _duration(step), note)


def _regular_step(stamps: pd.DatetimeIndex) -> str | None:
    """Return the step of dates that are evenly spaced, by the clock or by the calendar; None for others."""
    same_hour = len(np.unique(stamps - stamps.normalize())) == 1
    same_day = len(set(stamps.day)) == 1 or bool(stamps.is_month_end.all())
    months = np.unique(np.diff(12 * stamps.year + stamps.month))
    if same_hour and same_day and len(months) == 1 and months[0] > 0:
        return {1: "1 month", 3: "1 quarter", 12: "1 year"}.get(int(months[0]), f"{months[0]} months")
    steps = np.unique(np.diff(stamps))
    if len(steps) == 1:
        return _duration(steps[0] / np.timedelta64(1, "s"))
    if not same_hour:
        return None
    days = stamps.to_numpy().astype("datetime64[D]")
    if np.all(np.is_busday(days)) and np.all(np.busday_count(days[:-1], days[1:]) == 1):
        return "1 business day"
    return None


def _read_dates(texts: pd.Series) -> pd.DatetimeIndex:
    """Read dates with the year, the month or the day first, whichever makes the most sense of them all."""
    readings = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas on formats that it has to guess
        for how in ({"format": "ISO8601"}, {}, {"dayfirst": True}):
            stamps = pd.to_datetime(texts, errors="coerce", utc=True, **how)
            readings.append(pd.DatetimeIndex(stamps).tz_convert(None))
    return max(readings, key=_plausibility)


def _plausibility(stamps: pd.DatetimeIndex) -> tuple[float, bool, bool]:
    """What tells the right reading of dates from others: few are left unread, they go up, and evenly."""
    unread = float(np.sum(stamps.isna()))
    goes_up = unread == 0.0 and stamps.is_monotonic_increasing and stamps.is_unique
    return -unread, goes_up, goes_up and _regular_step(stamps) is not None


def _joined(table: Table, columns: list[int]) -> pd.Series:
    """Return the texts of several columns, such as date and time of the day, as one text a row."""
    parts = [[_in_common_form(text) for text in table.texts(j)] for j in columns]
    return pd.Series([" ".join(cells) for cells in zip(*parts, strict=True)])


def _in_common_form(text: str) -> str:
    """Write "18.00.00" as "18:00:00" and "2013Q2" as the first day of the quarter, which pandas reads."""
    if re.fullmatch(r"\d{1,2}\.\d{2}\.\d{2}", text):
        return text.replace(".", ":")
    quarter = re.fullmatch(r"(\d{4})[- ]?[Qq]([1-4])", text)
    return f"{quarter[1]}-{3 * int(quarter[2]) - 2:02d}-01" if quarter else text


def _are_compact_dates(values: FloatArray) -> bool:
    """Whether numbers are dates such as 20130131."""
    if not np.all((values > 1500_01_01) & (values < 2500_01_01) & (values % 1 == 0)):
        return False
    months, days = values // 100 % 100, values % 100
    return bool(np.all((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)))


def _check_increasing(values: FloatArray, table: Table, column: int) -> None:
    """Raise a CommandError that names the first row whose time does not come after the one before."""
    late = np.flatnonzero(np.diff(values) <= 0.0)
    if late.size:
        row = int(late[0]) + 1
        raise CommandError(
            f"{table.where(row, column)}: {table.texts(column)[row]!r} does not come after the row before; "
            "sort the rows, or take them as evenly spaced with --even."
        )


def _duration(seconds: float) -> str:
    """Write a time span in the largest unit that it fills, such as "1.5 h"."""
    size, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / size:g} {unit}"
