"""Times of the rows: read by pandas, in order, and whether they are evenly spaced."""

import argparse
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Table, Texts

__all__ = [
    "CLOCK",
    "PARTS",
    "Clock",
    "Reading",
    "Rows",
    "compact_dates",
    "increases",
    "read_clock",
    "read_dates",
    "read_texts",
]

Rows = NDArray[np.intp]

# Columns of these names make dates together; and times of the day.
PARTS = ("year", "month", "day", "hour", "minute", "second")
CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:\.\d+)?)?(?:\s*[AaPp][Mm])?"

_YEAR_LAST = r"^(\d{1,2})([-/.])(\d{1,2})\2(\d{4}|\d{2})(?!\d)"
_ORDERS = {True: (r"\4-\3-\1", "day/month/year"), False: (r"\4-\1-\3", "month/day/year")}
_MONTH = r"(?i)(?<![a-z])(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)"
_QUARTER = r"^(\d{4})[- ]?[Qq]([1-4])$"
_COMPACT = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
# Minimum number of rows from which regular spacing determines the order of day and month.
_MANY = 5
# Times are evenly spaced if they deviate from a line by at most this share of a step (rounding).
_JITTER = 0.01


@dataclass(frozen=True)
class Reading:
    """One interpretation of texts as times.

    Attributes
    ----------
    values : ndarray (T,)
        datetime64, NaT where a text cannot be read; or numbers.
    how : str
        Its name, such as "day/month/year".
    """

    values: NDArray[Any]
    how: str

    @property
    def dated(self) -> bool:
        """Whether the times are dates."""
        return self.values.dtype.kind == "M"

    @property
    def unread(self) -> NDArray[np.bool_]:
        """Which rows have no time."""
        return np.asarray(pd.isna(self.values))


@dataclass(frozen=True)
class Clock:
    """Times of the rows.

    Attributes
    ----------
    times : ndarray (T,) or None
        Time of each row in steps; None if the rows are evenly spaced or treated so.
    stamps : ndarray (T,) or None
        The times as they were read, numbers or datetime64.
    step : str or None
        Duration of a step, such as ``"1 h"``; None if it is not known.
    note : str
        What to report to the user.
    how : str or None
        How the times were read; None if there are none.
    sequences : tuple of ndarray of int
        Rows of each independent sequence, in order of time.
    """

    times: FloatArray | None
    stamps: NDArray[Any] | None
    step: str | None
    note: str
    how: str | None = None
    sequences: tuple[Rows, ...] = ()


def read_dates(texts: pd.Series, dayfirst: bool | None = None) -> list[Reading]:
    """Return the interpretations of texts as dates with the fewest failures; times with a zone are in UTC.

    There is one interpretation, or two that differ in the order of day and month, if `dayfirst` is None.
    """
    quarters = texts.str.extract(_QUARTER)
    if quarters[1].notna().any():
        months = (3 * pd.to_numeric(quarters[1], errors="coerce").fillna(1) - 2).astype(int).astype(str)
        texts = texts.where(quarters[1].isna(), quarters[0].fillna("") + "-" + months.str.zfill(2))
    if texts.str.extract(_YEAR_LAST)[0].isna().all():
        words = texts.str.contains(r"[A-Za-z]{3}").any()
        return [Reading(_parsed(texts), "month by name" if words else "year-month-day")]
    readings = []
    for order in _ORDERS if dayfirst is None else [dayfirst]:
        parts, how = _ORDERS[order]
        dated = texts.str.replace(_YEAR_LAST, parts, regex=True)
        # Years of two digits are those from 1969 to 2068, as in POSIX.
        dated = dated.str.replace(r"^(\d\d)(?=-)", _with_century, regex=True)
        readings.append(Reading(_parsed(dated), how))
    fewest = min(int(reading.unread.sum()) for reading in readings)
    readings = [reading for reading in readings if reading.unread.sum() == fewest]
    same = len(readings) == 2 and np.array_equal(readings[0].values, readings[1].values, equal_nan=True)
    return readings[:1] if same else readings


def compact_dates(values: FloatArray) -> Reading | None:
    """Read integers such as 20130131 or 201301311830 as dates; None if they are not dates."""
    if not len(values) or not np.all((values >= 150_000) & (values < 1e15)) or np.any(values % 1 != 0):
        return None
    digits = len(str(int(values[0])))
    if digits not in _COMPACT:
        return None
    texts = pd.Series(values).astype("int64").astype(str)
    stamps = pd.to_datetime(texts, format=_COMPACT[digits], errors="coerce")
    first_year = (
        1900 if digits == 10 else 1500
    )  # seconds since 1970 have ten digits, too: 19 in front from 2030 on
    if stamps.isna().any() or not stamps.dt.year.between(first_year, 2500).all():
        return None
    return Reading(_naive(stamps), "YYYYMMDDHHMMSS"[:digits])


def is_date(texts: pd.Series, form: str | None = None, dayfirst: bool | None = None) -> bool:
    """Whether most texts of a column are dates."""
    return bool(min(reading.unread.mean() for reading in read_texts(texts, form, dayfirst)) < 0.5)


def increases(values: NDArray[Any]) -> bool:
    """Return whether numbers or dates increase strictly; False with NaT."""
    return bool(np.all(values[1:] > values[:-1]))


def read_clock(
    table: Table,
    texts: Texts,
    columns: Sequence[int],
    sequences: tuple[Rows, ...],
    args: argparse.Namespace,
    groups: Sequence[int] = (),
) -> Clock:
    """Read the times of the rows from their columns; `groups` may have the names of independent sequences.

    A step is the time between rows if it is always the same, by the clock or the calendar, else the median.
    A CommandError is raised for times that cannot be read, are ambiguous, or are out of order.
    """
    if args.even or not columns:
        if args.sort:
            raise CommandError(f"{table.source}: --sort needs times; name their columns with --time.")
        return Clock(None, None, None, "rows are used as evenly spaced", None, sequences)
    reading = _read_times(table, texts, columns, sequences, args)
    sequences = tuple(_in_order(table, texts, columns, reading, rows, args, groups) for rows in sequences)
    return _make_clock(reading, sequences, table.source)


def _read_times(
    table: Table, texts: Texts, columns: Sequence[int], sequences: tuple[Rows, ...], args: argparse.Namespace
) -> Reading:
    """Read the columns of times together."""
    for j in columns:
        empty = np.flatnonzero(table.missing(texts[j]))
        if len(empty):
            raise CommandError(
                f"{table.where(int(empty[0]), j)}: the row has no time. Fill it in, remove the row, or use "
                "the rows as evenly spaced with --even."
            )
    numbers, bad = table.numbers(texts[columns[0]])
    if args.date_format is None and len(columns) == 1 and not bad.any():
        if args.epoch is not None:
            unit = {"min": "m", "d": "D"}.get(args.epoch, args.epoch)
            stamps = pd.to_datetime(pd.Series(numbers), unit=unit, errors="coerce")
            readings = [Reading(_naive(stamps), f"{args.epoch} since 1970")]
        else:
            readings = [compact_dates(numbers) or Reading(numbers, "numbers")]
    elif args.epoch is not None:
        raise CommandError("--epoch needs one column of numbers; name it with --time.")
    else:
        joined = _joined(table, texts, columns, as_they_are=args.date_format is not None)
        readings = read_texts(joined, args.date_format, args.dayfirst)
    _check_read(table, texts, columns, readings[0], args)
    return _choose(table, texts, columns[0], readings, sequences, args)


def _joined(table: Table, texts: Texts, columns: Sequence[int], *, as_they_are: bool) -> pd.Series:
    """Join columns such as date and time of the day, or year, month, day and hour, to one text a row."""
    if as_they_are:
        return _with(" ", [texts[j] for j in columns])
    named = {table.names[j].lower(): j for j in columns}
    parts = {
        part: named[part]
        for part in PARTS
        if part in named and not table.numbers(texts[named[part]])[1].any()
    }
    padded = {p: texts[j].str.replace(r"\.0*$", "", regex=True).str.zfill(2) for p, j in parts.items()}
    clock = [padded[part] for part in PARTS[3:] if part in padded]
    others = [texts[j] for j in columns if j not in parts.values()]
    only_clock = len(others) == 1 and not padded and others[0].str.fullmatch(CLOCK).all()
    if (only_clock and not is_date(others[0])) or (not others and len(clock) == len(padded)):
        others.insert(0, pd.Series("1970-01-01", index=texts.index))
    if "year" in padded:
        others.insert(0, _with("-", [padded[part] for part in PARTS[:3] if part in padded]))
    if not others:
        names = ", ".join(repr(table.names[j]) for j in columns)
        raise CommandError(
            f"{table.source}: {names} have no years; name a column of years or dates with --time."
        )
    if others[0].str.fullmatch(r"\d{8}").all():  # 20130131, beside hours
        others[0] = others[0].str.replace(r"(\d{4})(\d\d)(\d\d)", r"\1-\2-\3", regex=True)
    if len(others) > 1 and others[-1].str.fullmatch(CLOCK).all():  # 18.00.00
        others[-1] = others[-1].str.replace(".", ":", n=2, regex=False)
    if clock:
        others.append(_with(":", clock))
    return _with(" ", others)


def _with(mark: str, columns: Sequence[pd.Series]) -> pd.Series:
    """Join columns of texts with a mark in between."""
    joined = columns[0]
    for column in columns[1:]:
        joined = joined + mark + column
    return joined


def read_texts(texts: pd.Series, form: str | None, dayfirst: bool | None) -> list[Reading]:
    """Return the interpretations of texts as dates: by a known format, else as `read_dates`."""
    if form is None:
        return read_dates(texts, dayfirst)
    try:
        return [Reading(_naive(pd.to_datetime(texts, format=form, errors="coerce", utc=True)), form)]
    except ValueError as error:
        raise CommandError(f"--date-format {form!r} is no format: {error}.") from None


def _parsed(texts: pd.Series) -> NDArray[np.datetime64]:
    """Parse dates that begin with the year, or have the name of the month; NaT for any other text."""
    iso = texts.where(texts.str.match(r"\d{4}[-/.]"), "")
    stamps = _naive(pd.to_datetime(iso, format="ISO8601", errors="coerce", utc=True))
    # 10 PM, UTC, hours of one digit; months by their names, which determine the order of day and month.
    words = texts.str.contains(_MONTH)
    others = np.isnat(stamps) & np.asarray(texts.str.match(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}[T ]") | words)
    if others.any():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # pandas warns that it parses each text separately
            read = pd.to_datetime(texts[others], format="mixed", errors="coerce", utc=True)
        stamps[others] = _naive(read.where(read.dt.year >= 1000))  # "3 May" has no year
    return stamps


def _naive(stamps: pd.Series) -> NDArray[np.datetime64]:
    """Return times as datetime64 in UTC, without a zone."""
    stamps = stamps if stamps.dt.tz is None else stamps.dt.tz_convert(None)
    return stamps.to_numpy().astype("datetime64[us]")


def _with_century(year: Any) -> str:
    return ("20" if int(year[1]) < 69 else "19") + str(year[1])


def _check_read(
    table: Table, texts: Texts, columns: Sequence[int], reading: Reading, args: argparse.Namespace
) -> None:
    """Raise a CommandError with all texts that could not be read as times."""
    if not reading.unread.any():
        return
    first = int(np.argmax(reading.unread))
    counts = Counter(_with(" ", [texts[j][reading.unread] for j in columns]))
    most = counts.most_common(5)
    shown = ", ".join(f"{text[:40]!r}" + (f" ({n} rows)" if n > 1 else "") for text, n in most)
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    what = "not read as times" if args.date_format is None else f"not of the form {args.date_format!r}"
    raise CommandError(
        f"{table.where(first, columns[0])}: {what}: {shown}{more}. Give the form of all "
        "times "
        "with --date-format, name another column with --time, or use the rows as evenly spaced with --even."
    )


def _choose(
    table: Table,
    texts: Texts,
    column: int,
    readings: list[Reading],
    sequences: tuple[Rows, ...],
    args: argparse.Namespace,
) -> Reading:
    """Choose between day and month first: by the order of the rows, or by an even spacing of many rows."""
    if len(readings) == 1:
        return readings[0]
    first, second = readings
    if all(np.array_equal(np.diff(first.values[rows]), np.diff(second.values[rows])) for rows in sequences):
        return Reading(first.values, f"{first.how} (or {second.how}: the spacing is the same)")
    if not args.sort:
        ordered = [r for r in readings if all(increases(r.values[rows]) for rows in sequences)]
        even = [r for r in ordered if all(_regular_step(r.values[rows]) is not None for rows in sequences)]
        if len(ordered) == 1:
            return ordered[0]
        if len(even) == 1 and min(map(len, sequences)) >= _MANY:
            return even[0]
    row = int(np.argmax(first.values != second.values))
    raise CommandError(
        f"{table.where(row, column)}: {texts[column][row]!r} may be {first.how} or {second.how}. Choose with "
        "--dayfirst, --no-dayfirst or --date-format."
    )


def _in_order(
    table: Table,
    texts: Texts,
    columns: Sequence[int],
    reading: Reading,
    rows: Rows,
    args: argparse.Namespace,
    groups: Sequence[int],
) -> Rows:
    """Return the rows of a sequence in order of time; raise an error for times out of order or equal."""
    values = reading.values
    if args.sort:
        rows = rows[np.argsort(values[rows], kind="stable")]
    late = np.flatnonzero(~(values[rows[1:]] > values[rows[:-1]]))
    if not late.size:
        return rows
    row, before = int(rows[late[0] + 1]), int(rows[late[0]])
    found = f"{table.where(row, columns[0])}: {' '.join(texts[j][row] for j in columns)!r}"
    by_group = next(
        (
            f" If {table.names[j]!r} has the names of independent sequences, give --group {table.names[j]!r};"
            for j in groups
            if args.group is None and _separates(texts[j], values)
        ),
        "",
    )
    remedy = " Remove one of them, name all columns of the time of a row with --time,"
    if args.sort or (not by_group and np.all(values[rows[1:]] >= values[rows[:-1]])):
        raise CommandError(
            f"{found} is the time of row {table.number(before)}, too.{by_group or remedy} "
            "or use the rows as evenly spaced with --even."
        )
    raise CommandError(
        f"{found} does not come after the row before.{by_group or ' Sort the rows with --sort,'} or use "
        "the rows as evenly spaced with --even."
    )


def _separates(labels: pd.Series, values: NDArray[Any]) -> bool:
    """Return whether the times increase within the rows of each label."""
    groups = labels.groupby(labels).indices
    several = "" not in groups and 1 < len(groups) <= max(2, len(labels) // 2)
    return several and all(increases(values[rows]) for rows in groups.values())


def _make_clock(reading: Reading, sequences: tuple[Rows, ...], source: str) -> Clock:
    """Make a clock of times in order."""
    stamps, how, step = reading.values, reading.how, None
    long = [rows for rows in sequences if len(rows) > 1]
    if reading.dated:
        steps = {_regular_step(stamps[rows]) for rows in long}
        step = steps.pop() if len(steps) == 1 else None
        origin = min(stamps[rows[0]] for rows in sequences)
        values = np.asarray((stamps - origin) / np.timedelta64(1, "s"), dtype=np.float64)
    else:
        values = stamps - min(stamps[rows[0]] for rows in sequences)
    pooled = np.concatenate([np.diff(values[rows]) for rows in long]) if long else np.ones(1)
    size = float(np.median(pooled))
    shown = (step or _duration(size)) if reading.dated and long else None
    if step is not None or all(_is_straight(values[rows], size) for rows in long):
        note = "rows are evenly spaced" + (f", {shown} apart" if shown else "")
        return Clock(None, stamps, shown, note, how, sequences)
    if not np.all(np.isfinite(values / size)):
        raise CommandError(f"{source}: the times are too far apart; see --time.")
    note = f"rows are unevenly spaced, the median step is {shown or f'{size:g}'}"
    return Clock(values / size, stamps, shown, note, how, sequences)


def _is_straight(values: FloatArray, step: float) -> bool:
    """Return whether times are those of evenly spaced rows with this step, up to rounding."""
    line = np.linspace(values[0], values[-1], len(values))
    return bool(
        np.max(np.abs(values - line)) <= _JITTER * step and abs(line[1] - line[0] - step) <= _JITTER * step
    )


def _regular_step(values: NDArray[Any]) -> str | None:
    """Return the step of dates that are evenly spaced by the clock or by the calendar, else None."""
    if len(values) < 2:
        return "1 step"
    stamps = pd.DatetimeIndex(values)
    same_hour = len(np.unique(stamps - stamps.normalize())) == 1
    same_day = len(set(stamps.day)) == 1 or bool(stamps.is_month_end.all())
    months = np.unique(np.diff(12 * stamps.year + stamps.month))
    if same_hour and same_day and len(months) == 1 and months[0] > 0:
        return {1: "1 month", 3: "1 quarter", 12: "1 year"}.get(int(months[0]), f"{months[0]} months")
    steps = np.unique(np.diff(values))
    if len(steps) == 1:
        return _duration(steps[0] / np.timedelta64(1, "s"))
    days = values.astype("datetime64[D]")
    weekdays = same_hour and np.all(np.is_busday(days)) and np.all(np.busday_count(days[:-1], days[1:]) == 1)
    return "1 business day" if weekdays else None


def _duration(seconds: float) -> str:
    """Return a time span as text, in the largest unit of which it has at least one, such as "1.5 h"."""
    size, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / size:g} {unit}"
