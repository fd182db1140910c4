"""Times of the rows: reading by pandas, validation of their order, and detection of even spacing."""

import argparse
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.tseries.api import guess_datetime_format

from probsfa._times import CALENDARS, duration_text, read_time_index
from probsfa._typing import BoolArray, FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Table

__all__ = [
    "CALENDAR_FIELDS",
    "TIME_OF_DAY_PATTERN",
    "Reading",
    "RowTimes",
    "compact_dates",
    "increases",
    "is_date",
    "read_row_times",
]

Rows = NDArray[np.intp]

# Names of columns that are parts of dates.
CALENDAR_FIELDS = ("year", "month", "day", "hour", "minute", "second")
# Texts such as 10:30, 10.30.15 and 10:30 PM.
TIME_OF_DAY_PATTERN = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:\.\d+)?)?(?:\s*[AaPp][Mm])?"
_QUARTER_PATTERN = re.compile(r"^(\d{4})[- ]?[Qq]([1-4])$")
# 31.1.20 and 31-Jan-20
_SHORT_YEAR_PATTERN = re.compile(r"^(\d\d?([-/. ])(?:\d\d?|[A-Za-z]{3,9})\2)(?=\d\d(?!\d))")
# Minimum number of rows for which even spacing determines the order of day and month.
_MIN_ROWS_FOR_DAY_ORDER = 5
_COMPACT_FORMATS = {6: "%Y%m", 8: "%Y%m%d", 10: "%Y%m%d%H", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}


class Reading(NamedTuple):
    """Times (datetime64 with NaT, or numbers), and their format, such as "%d/%m/%Y"."""

    values: NDArray[Any]
    format: str

    @property
    def is_unread(self) -> BoolArray:
        """Mask of rows without a time."""
        return np.asarray(pd.isna(self.values))


@dataclass(frozen=True)
class RowTimes:
    """Times of the rows.

    Attributes
    ----------
    times : ndarray (T,) or None
        Time of each row, in units of the step; None if the rows are, or are treated as, evenly spaced.
    stamps : ndarray (T,) or None
        Times as read: numbers or datetime64.
    step : str or None
        Duration of a step, such as "1 h"; None if not known.
    note : str
        Note for the user.
    time_format : str or None
        Format of the times, such as "%d/%m/%Y"; None if not known.
    sequences : sequence of ndarray of int
        Rows of each independent sequence, in order of time.
    """

    times: FloatArray | None
    stamps: NDArray[Any] | None
    step: str | None
    note: str
    time_format: str | None
    sequences: Sequence[Rows]


def read_dates(texts: pd.Series, dayfirst: bool | None = None) -> list[Reading]:
    """Read texts as dates; return the interpretations that leave the fewest texts unread.

    The format is ISO 8601, or is inferred by pandas from the first text. Times with a time zone are converted
    to UTC. If `dayfirst` is None, there may be two interpretations with different orders of day and month.
    """
    # pandas reads "10:30" as a time of today, "now" as the time of the call, and "3 May" as a day of year 1.
    texts = texts.where(texts.str.contains(r"\d") & ~texts.str.match(r"\d\d?:"), "")
    texts = texts.str.replace(
        _QUARTER_PATTERN, lambda quarter: f"{quarter[1]}-{3 * int(quarter[2]) - 2:02d}", regex=True
    )
    iso = _to_datetimes(texts, format="ISO8601")
    if np.isnat(iso).mean() <= 0.5:
        return [Reading(iso, "year-month-day")]
    first = next((text for text in texts if text), "")
    orders = (True, False) if dayfirst is None else (dayfirst,)
    date_formats = dict.fromkeys(_infer_format(first, order) for order in orders)
    readings = [
        Reading(_to_datetimes(texts, format=date_format), date_format) for date_format in date_formats
    ]
    minimum = min(reading.is_unread.sum() for reading in readings)
    return [reading for reading in readings if reading.is_unread.sum() == minimum]


def _infer_format(text: str, dayfirst: bool) -> str:
    """Infer the format of a date with pandas, also for years of two digits and times such as 10:30 PM."""
    text_with_full_year = re.sub(_SHORT_YEAR_PATTERN, r"\g<1>20", text)
    date = re.sub(r" ?[AaPp][Mm]$", "", text_with_full_year)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pandas warns that 31/1/2020 begins with the day
        date_format = guess_datetime_format(date, dayfirst=dayfirst) if date else None
    if date_format is None or re.match("%Y.%d", date_format):
        return "%b %Y" if re.match(r"[A-Za-z]{3}\b", text) else "%B %Y"
    date_format = date_format.replace("%Y", "%y") if text_with_full_year != text else date_format
    return (
        date_format.replace("%H", "%I") + text_with_full_year[len(date) : -2] + "%p"
        if date != text_with_full_year
        else date_format
    )


def _to_datetimes(texts: pd.Series, **options: Any) -> NDArray[np.datetime64]:
    """Return dates in UTC, without a zone; NaT for any other text."""
    stamps = pd.to_datetime(texts, errors="coerce", utc=True, **options).dt.tz_localize(None)
    return np.asarray(stamps.where(stamps.dt.year >= 1000), dtype="datetime64[us]")


def compact_dates(values: FloatArray) -> Reading | None:
    """Read integers such as 20130131 or 201301311830 as dates; None if they are not dates."""
    if not len(values) or not np.all((values >= 150_000) & (values < 1e15) & (values % 1 == 0)):
        return None
    digits = len(str(int(values[0])))
    if digits not in _COMPACT_FORMATS:
        return None
    stamps = _to_datetimes(pd.Series(values).astype("int64").astype(str), format=_COMPACT_FORMATS[digits])
    years = stamps.astype("datetime64[Y]").astype(int) + 1970
    # Numbers of ten digits may also be seconds since 1970; they are dates only if all years are from 1900 on.
    if np.isnat(stamps).any() or not np.all((years >= (1900 if digits == 10 else 1500)) & (years <= 2500)):
        return None
    return Reading(stamps, "YYYYMMDDHHMMSS"[:digits])


def is_date(texts: pd.Series, args: argparse.Namespace) -> bool:
    """Return whether most texts of a column are dates."""
    return bool(_read_texts(texts, args)[0].is_unread.mean() < 0.5)


def increases(values: NDArray[Any]) -> bool:
    """Return whether numbers or dates increase strictly; False with NaT."""
    return bool(np.all(values[1:] > values[:-1]))


def read_row_times(
    table: Table, columns: Sequence[int], sequences: Sequence[Rows], args: argparse.Namespace
) -> RowTimes:
    """Read the times of the rows from their columns.

    A step is the time between adjacent rows, in seconds or calendar units, if it is constant; otherwise it is
    the median time. Times that cannot be read, are ambiguous, or do not increase raise a CommandError.
    """
    if args.even or not columns:
        if args.sort:
            raise CommandError(f"{table.source}: --sort requires times; name their columns with --time.")
        return RowTimes(None, None, None, "rows are treated as evenly spaced", None, sequences)
    reading = _read(table, columns, sequences, args)
    ordered = [_sort_by_time(table, columns, reading, rows, args) for rows in sequences]
    return _make_row_times(table, reading, ordered)


def _read(
    table: Table, columns: Sequence[int], sequences: Sequence[Rows], args: argparse.Namespace
) -> Reading:
    """Read the times of the rows from one or several columns."""
    for j in columns:
        missing_rows = np.flatnonzero(table.missing(j))
        if len(missing_rows):
            raise CommandError(
                f"{table.where(int(missing_rows[0]), j)}: the row has no time. Fill it in, remove the row, "
                "or treat the rows as evenly spaced with --even."
            )
    numbers, is_invalid = table.numbers(columns[0])
    if args.date_format is None and len(columns) == 1 and not is_invalid.any():
        if args.epoch is None:
            return compact_dates(numbers) or Reading(numbers, "numbers")
        unit = {"min": "m", "d": "D"}.get(args.epoch, args.epoch)
        readings = [Reading(_to_datetimes(pd.Series(numbers), unit=unit), f"{args.epoch} since 1970")]
    elif args.epoch is not None:
        raise CommandError("--epoch requires one column of numbers; name it with --time.")
    else:
        readings = _read_texts(_join_time_columns(table, columns, args), args)
    _check_read(table, columns, readings[0], args)
    return _select_day_order(table, columns[0], readings, sequences, args)


def _read_texts(texts: pd.Series, args: argparse.Namespace) -> list[Reading]:
    """Return the interpretations of texts as dates, by --date-format if it is given."""
    if args.date_format is None:
        return read_dates(texts, args.dayfirst)
    try:
        return [Reading(_to_datetimes(texts, format=args.date_format), args.date_format)]
    except ValueError as error:
        raise CommandError(f"--date-format {args.date_format!r} is not a format: {error}.") from None


def _join_time_columns(table: Table, columns: Sequence[int], args: argparse.Namespace) -> pd.Series:
    """Join columns such as date and time of the day, or year, month and day, to one text for each row."""
    separators = {"month": "-", "day": "-", "minute": ":", "second": ":"}
    texts_by_row = pd.Series("", index=table.texts.index, dtype=str)
    for position, j in enumerate(columns):
        texts, separator = table.texts[j], " "
        if args.date_format is None:
            separator = separators.get(table.names[j].lower(), " ")
            texts = texts.str.replace(r"\.0*$", "", regex=True).str.replace(r"^(\d)$", r"0\1", regex=True)
            if position > 0:
                texts = texts.str.replace(".", ":", n=2, regex=False)  # 18.00.00
        texts_by_row = texts_by_row + separator * (position > 0) + texts
    return texts_by_row


def _check_read(table: Table, columns: Sequence[int], reading: Reading, args: argparse.Namespace) -> None:
    """Raise a CommandError with all texts that could not be read as times."""
    if not reading.is_unread.any():
        return
    counts = Counter(table.texts[list(columns)][reading.is_unread].agg(" ".join, axis=1))
    shown = ", ".join(f"{text[:40]!r}" + f" ({n} rows)" * (n > 1) for text, n in counts.most_common(5))
    more = f" and {len(counts) - 5} more" if len(counts) > 5 else ""
    problem = "not read as times" if args.date_format is None else f"not of the format {args.date_format!r}"
    raise CommandError(
        f"{table.where(int(np.argmax(reading.is_unread)), columns[0])}: {problem}: {shown}{more}. Set the "
        "format "
        "of all times with --date-format, name another column with --time, or treat the rows as evenly "
        "spaced with --even."
    )


def _select_day_order(
    table: Table,
    column: int,
    readings: list[Reading],
    sequences: Sequence[Rows],
    args: argparse.Namespace,
) -> Reading:
    """Select the order of day and month with which times increase.

    If times increase with both orders, select the order with which they are evenly spaced.
    """
    if len(readings) > 1 and not args.sort:
        in_order = [r for r in readings if all(increases(r.values[rows]) for rows in sequences)]
        readings = in_order or readings
        if len(in_order) > 1 and min(map(len, sequences)) >= _MIN_ROWS_FOR_DAY_ORDER:
            evenly_spaced = [r for r in in_order if _make_row_times(table, r, sequences).times is None]
            readings = evenly_spaced if len(evenly_spaced) == 1 else readings
    if len(readings) == 1:
        return readings[0]
    row = int(np.argmax(readings[0].values != readings[1].values))
    raise CommandError(
        f"{table.where(row, column)}: {table.texts[column][row]!r} may be {readings[0].format} or "
        f"{readings[1].format}. Choose with --dayfirst, --no-dayfirst or --date-format."
    )


def _sort_by_time(
    table: Table, columns: Sequence[int], reading: Reading, rows: Rows, args: argparse.Namespace
) -> Rows:
    """Return the rows of a sequence in order of time; raise an error for times that do not increase."""
    values = reading.values
    if args.sort:
        rows = rows[np.argsort(values[rows], kind="stable")]
    not_increasing = np.flatnonzero(~(values[rows[1:]] > values[rows[:-1]]))
    if not not_increasing.size:
        return rows
    row, previous_row = int(rows[not_increasing[0] + 1]), int(rows[not_increasing[0]])
    time_text = f"{table.where(row, columns[0])}: {' '.join(table.texts[j][row] for j in columns)!r}"
    group = "" if args.group is not None else " name a column of independent sequences with --group,"
    if np.any(values[rows[1:]] < values[rows[:-1]]):
        raise CommandError(
            f"{time_text} is not later than the previous row. Sort the rows with --sort,{group} or treat "
            "the rows as evenly spaced with --even."
        )
    raise CommandError(
        f"{time_text} is also the time of row {table.rows[previous_row] + 1}. Remove one of them, name all "
        f"columns that contain the time with --time,{group} or treat the rows as evenly spaced with --even."
    )


def _make_row_times(table: Table, reading: Reading, sequences: Sequence[Rows]) -> RowTimes:
    """Convert times to units of the time step; the rows of each sequence are in order of time."""
    pieces = [reading.values[rows] for rows in sequences]
    lengths = [len(piece) for piece in pieces]
    dated = reading.values.dtype.kind == "M"
    frames = [pd.DataFrame(index=pd.DatetimeIndex(piece)) for piece in pieces] if dated else None
    try:
        index = read_time_index(frames, lengths, as_list=True, times=None if dated else pieces)
    except ValueError as error:
        raise CommandError(
            f"{table.source}: the times cannot be used ({error}); name other columns with --time."
        ) from None
    assert index is not None
    axis, step, size = index.axis, None, index.median_step or 1.0
    if axis.kind == "dates" and index.median_step is not None:
        n = round(axis.unit / CALENDARS[axis.calendar]) if axis.calendar else 0
        step = f"{n} {axis.calendar}{'s' * (n > 1)}" if n else duration_text(axis.unit)
    if axis.even:
        note = "rows are evenly spaced" + (f", {step} apart" if step else "")
        return RowTimes(None, reading.values, step, note, reading.format, sequences)
    times = np.empty(len(reading.values))
    times[np.concatenate(sequences)] = (index.times - index.times.min()) / size
    if not np.all(np.isfinite(times)):
        raise CommandError(f"{table.source}: the times are too far apart; name other columns with --time.")
    note = f"rows are unevenly spaced, the median step is {step or f'{size:g}'}"
    return RowTimes(times, reading.values, step, note, reading.format, sequences)
