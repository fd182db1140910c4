"""Texts that tell a time, read as dates in every order of day and month that makes sense."""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Reading", "by_format", "century", "date_shape", "read_clock_times", "read_dates", "to_dates"]

Stamps = NDArray[np.datetime64]

_TIME = (
    r"(?P<h>\d{1,2})(?:[:.](?P<mi>\d{2})(?:[:.](?P<s>\d{2})(?:[.,](?P<f>\d+))?)?)?\s*(?P<half>[AaPp]\.?[Mm]\.?)?"
    r"\s*(?P<zone>Z|UTC|GMT|[+-]\d{2}(?::?\d{2})?)?"
)

_BEHIND = rf"(?:(?:[Tt]|\s+|,\s*){_TIME})?"

_YEAR_FIRST = re.compile(
    rf"(?P<a>\d{{4}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?:(?P=mark)(?P<c>\d{{1,2}}))?{_BEHIND}"
)

_YEAR_LAST = re.compile(
    rf"(?P<a>\d{{1,2}})(?P<mark>[-/.])(?P<b>\d{{1,2}})(?P=mark)(?P<c>\d{{4}}|\d{{2}}){_BEHIND}"
)

_CLOCK = re.compile(_TIME)

_CLOCK_MARK = re.compile(r"\d{1,2}[:.]\d{2}|\d{1,2}\s*[AaPp]\.?[Mm]")

_QUARTER = re.compile(r"(\d{4})[- ]?[Qq]([1-4])")

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_WITH_MONTH_NAME = re.compile(
    r"(?i)(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s+)?"
    rf"(?:\d{{1,2}}(?:st|nd|rd|th)?[-\s./]*{_MONTH}[-\s./,]*\d{{2,4}}"  # 1 Jan 2020
    rf"|{_MONTH}[-\s./]*\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}"  # Jan 1, 2020
    rf"|{_MONTH}[-\s./,]*\d{{2,4}}"  # Jan 2020
    rf"|\d{{4}}[-\s./]*{_MONTH}(?:[-\s./]*\d{{1,2}})?)"  # 2020-Jan-01
    rf"{_BEHIND}"
)


@dataclass(frozen=True)
class Reading:
    """One way to read the texts of a column as times.

    Attributes
    ----------
    stamps : ndarray of datetime64[us] (T,)
        Not-a-time where a text cannot be read so.
    how : str
        What it is called, such as "day/month/year".
    dayfirst : bool or None
        Whether the day comes first; None where that is no question.
    has_clock : bool
        Whether a time of the day is read, too.
    """

    stamps: Stamps
    how: str
    dayfirst: bool | None = None
    has_clock: bool = False


def date_shape(texts: Sequence[str]) -> str | None:
    """Return what the texts of a column look like: "date", "clock" (times of the day), "either", or None.

    Texts such as "18.00.00" and "01.02.20" have the shape of both. Most of them decide, so that a single bad
    cell is found later.

    Examples
    --------
    >>> date_shape(["2020-01-31", "2020-02-31"]), date_shape(["18:00"]), date_shape(["1.5", "spring"])
    ('date', 'clock', None)
    """
    if not texts:
        return None
    n_dates = n_clocks = n_either = 0
    for text in texts:
        date, clock = _is_date(text), _is_clock(text)
        n_dates += date and not clock
        n_clocks += clock and not date
        n_either += clock and date
    most = max(n_dates, n_clocks, n_either)
    if n_dates + n_clocks + n_either < 0.5 * len(texts) or most == 0:
        return None
    if n_either == most:
        return "date" if n_dates else "clock" if n_clocks else "either"
    return "date" if n_dates == most else "clock"


def read_dates(texts: Sequence[str], dayfirst: bool | None = None) -> list[Reading]:
    """Return the ways to read texts as dates, those that leave the fewest texts unread.

    Parameters
    ----------
    texts : sequence of str
        Dates, with a time of the day or without.
    dayfirst : bool or None, default=None
        Whether the day comes before the month where the year comes last; both are tried where not given.

    Returns
    -------
    list of Reading
        One, or two that differ in the order of day and month.
    """
    fields = np.full((len(texts), 3), -1, dtype=np.int64)
    clocks = np.zeros(len(texts), dtype=np.int64)  # microseconds
    year_last = np.zeros(len(texts), dtype=bool)
    has_clock = False
    others = []
    for i, text in enumerate(texts):
        match = _YEAR_FIRST.fullmatch(text)
        if match is None:
            match = _YEAR_LAST.fullmatch(text)
            year_last[i] = match is not None
        if match is not None:
            clock = _microseconds(match)
            if clock is not None:
                fields[i] = int(match["a"]), int(match["b"]), _last_field(match["c"], bool(year_last[i]))
                clocks[i] = clock
                has_clock = has_clock or match["h"] is not None
        elif quarter := _QUARTER.fullmatch(text):
            fields[i] = int(quarter[1]), 3 * int(quarter[2]) - 2, 1
        else:
            others.append(i)
    orders = [True, False] if dayfirst is None else [dayfirst]
    readings = []
    for order in orders:
        days, months, years = fields[:, 2], fields[:, 1], fields[:, 0]
        first, second = (fields[:, 0], fields[:, 1]) if order else (fields[:, 1], fields[:, 0])
        days, months = np.where(year_last, first, days), np.where(year_last, second, months)
        years = np.where(year_last, fields[:, 2], years)
        stamps = to_dates(years, months, days) + clocks.astype("timedelta64[us]")
        name = "day/month/year" if order else "month/day/year"
        readings.append(
            Reading(
                stamps,
                name if year_last.any() else "year-month-day",
                order if year_last.any() else None,
                has_clock,
            )
        )
    if others:
        readings = [_with_names(texts, others, reading) for reading in readings]
    fewest = min(int(np.isnat(reading.stamps).sum()) for reading in readings)
    readings = [reading for reading in readings if np.isnat(reading.stamps).sum() == fewest]
    same = len(readings) == 2 and np.array_equal(readings[0].stamps, readings[1].stamps, equal_nan=True)
    return readings[:1] if same else readings


def read_clock_times(texts: Sequence[str]) -> NDArray[np.timedelta64]:
    """Read times of the day such as "18:00" or "18.00.00"; not-a-time where a text is none."""
    read = (_CLOCK.fullmatch(text) for text in texts)
    values = [None if match is None else _microseconds(match) for match in read]
    none = np.iinfo(np.int64).min  # what not-a-time is stored as
    return np.array([none if value is None else value for value in values], dtype=np.int64).view(
        "timedelta64[us]"
    )


def by_format(texts: Sequence[str], form: str) -> Reading:
    """Read texts as a format of `strftime` says.

    Parameters
    ----------
    texts : sequence of str
        Dates and times.
    form : str
        The format, such as "%d.%m.%y %H:%M".

    Returns
    -------
    Reading

    Raises
    ------
    ValueError
        If there is no such format.
    """
    import pandas as pd

    stamps = pd.to_datetime(pd.Series(list(texts), dtype=object), format=form, errors="coerce", utc=True)
    clock = any(part in form for part in ("%H", "%I", "%c", "%X", "%T", "%R", "%s"))
    return Reading(_naive(stamps), form, None, clock)


def to_dates(years: NDArray[np.int64], months: NDArray[np.int64], days: NDArray[np.int64]) -> Stamps:
    """Make dates of their parts.

    Parameters
    ----------
    years, months, days : ndarray of int (T,)
        Parts of each date.

    Returns
    -------
    ndarray of datetime64[us] (T,)
        Not-a-time where there is no such day.
    """
    valid = (years >= 1) & (years <= 9999) & (months >= 1) & (months <= 12) & (days >= 1) & (days <= 31)
    month_starts = (np.where(valid, years, 1970) - 1970) * 12 + np.where(valid, months, 1) - 1
    month = month_starts.astype("datetime64[M]")
    date = month.astype("datetime64[D]") + (np.where(valid, days, 1) - 1).astype("timedelta64[D]")
    valid &= date.astype("datetime64[M]") == month
    return np.where(valid, date.astype("datetime64[us]"), np.datetime64("NaT", "us"))


def century(years: NDArray[np.int64]) -> NDArray[np.int64]:
    """Years of two digits, as POSIX reads them: from 1969 to 2068."""
    return np.where(years < 69, years + 2000, years + 1900)


def _is_date(text: str) -> bool:
    """Whether a text looks like a date, possible or not."""
    match = _YEAR_LAST.fullmatch(text)
    if match is not None:  # "18.00.00" is none
        first, second = int(match["a"]), int(match["b"])
        return first > 0 and second > 0
    if _YEAR_FIRST.fullmatch(text) or _QUARTER.fullmatch(text):
        return True
    return bool(_WITH_MONTH_NAME.fullmatch(text))


def _is_clock(text: str) -> bool:
    """Whether a text is a time of the day; "31.01.20" is none."""
    match = _CLOCK.fullmatch(text) if _CLOCK_MARK.match(text) else None
    return match is not None and _microseconds(match) is not None


def _last_field(text: str | None, is_year: bool) -> int:
    """The third number of a date: a year, of two digits or four, or a day, the first where there is none."""
    if text is None:
        return 1
    value = int(text)
    return int(century(np.array([value]))[0]) if is_year and len(text) == 2 else value


def _microseconds(match: re.Match[str]) -> int | None:
    """The time of the day that was matched, brought to UTC; 0 where there is none, None if it is none."""
    if match["h"] is None:
        return 0
    hour, minute, second = int(match["h"]), int(match["mi"] or 0), int(match["s"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"][0] in "pP")
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and minute + second > 0):
        return None
    micros = ((hour * 60 + minute) * 60 + second) * 1_000_000
    if match["f"]:
        micros += int(match["f"][:6].ljust(6, "0"))
    zone = match["zone"]
    if zone and zone[0] in "+-":
        offset = 60 * int(zone[1:3]) + int(zone[3:].replace(":", "") or 0)
        micros -= int(math.copysign(offset, int(zone[0] + "1"))) * 60_000_000
    return micros


def _with_names(texts: Sequence[str], others: list[int], reading: Reading) -> Reading:
    """Read texts such as "1 Jan 2020", which have the month by its name."""
    import pandas as pd

    named = [i for i in others if _WITH_MONTH_NAME.fullmatch(texts[i])]
    if not named:
        return reading
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas on formats that it has to guess
        parse: Callable[..., pd.Series[pd.Timestamp]] = pd.to_datetime
        read = parse(
            pd.Series([texts[i] for i in named], dtype=object), format="mixed", errors="coerce", utc=True
        )
    stamps = reading.stamps.copy()
    stamps[named] = _naive(read)
    clock = reading.has_clock or any(":" in text for text in (texts[i] for i in named))
    how = "month by name" if len(named) == len(texts) else reading.how
    return Reading(stamps, how, None if len(named) == len(texts) else reading.dayfirst, clock)


def _naive(stamps: Any) -> Stamps:
    import pandas as pd

    index = pd.DatetimeIndex(stamps).tz_convert(None)
    return index.to_numpy().astype("datetime64[us]")
