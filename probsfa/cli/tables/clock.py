"""When the rows of a table were observed, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.dates import (
    Reading,
    by_format,
    compact_dates,
    date_shape,
    epoch_dates,
    epoch_unit,
    from_parts,
    read_clock_times,
    read_dates,
)
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.roles import CALENDAR, Choices, Plan, tokens
from probsfa.cli.tables.table import Table

__all__ = ["Clock", "read_clock", "sequences_of"]

Rows = NDArray[np.intp]

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_UNIT_NAMES = {
    word: unit
    for unit, words in {
        "ms": "ms millis milliseconds",
        "s": "s sec secs second seconds",
        "min": "min mins minute minutes",
        "h": "h hr hrs hour hours",
        "d": "d day days jd mjd julian",
        "weeks": "week weeks",
        "months": "months",
        "years": "year years decyear yr",
    }.items()
    for word in words.split()
}
# Rows of dates from which an even spacing is no chance.
_TELLING = 5


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
    how : str or None
        How the times were read, such as "day/month/year"; None where there are none.
    sequences : tuple of ndarray of int
        Numbers of the rows of each independent sequence, in order of time.
    """

    times: FloatArray | None
    stamps: NDArray[Any] | None
    step: str | None
    note: str
    how: str | None = None
    sequences: tuple[Rows, ...] = ()


@dataclass(frozen=True)
class _Times:
    """Times of the rows as they were read: dates, or plain numbers with the name of their unit."""

    values: NDArray[Any]
    how: str
    unit: str | None = None
    digits: int = 0

    @property
    def unread(self) -> NDArray[np.bool_]:
        return np.isnat(self.values) if self.values.dtype.kind == "M" else np.isnan(self.values.astype(float))

    @property
    def numbers(self) -> FloatArray:
        """Dates in seconds since the first, numbers as they are."""
        if self.values.dtype.kind == "M":
            return np.asarray((self.values - self.values[0]) / np.timedelta64(1, "s"), dtype=np.float64)
        return np.asarray(self.values, dtype=np.float64)


def read_clock(
    table: Table, plan: Plan, missing: Missing | None = None, choices: Choices | None = None
) -> Clock:
    """Read the times of the rows.

    Columns with dates and times of the day are read together. A step is the time between rows where that is
    always the same, as calendars count (months are), and else the median.

    Parameters
    ----------
    table : Table
        The file.
    plan : Plan
        Which of its columns tell the time, and which tells sequences apart.
    missing : Missing, optional
        What missing cells look like.
    choices : Choices, optional
        What the user says of the times.

    Returns
    -------
    Clock

    Raises
    ------
    CommandError
        If a time cannot be read, may be read in two ways, or does not come after the one before.
    """
    missing, choices = missing or Missing(), choices or Choices()
    sequences = sequences_of(table, plan.group)
    if choices.even or not plan.time:
        if choices.sort:
            raise CommandError(f"{table.source}: --sort needs times; no column tells the time. See --time.")
        return Clock(None, None, None, "rows are taken as evenly spaced", None, sequences)
    times = _read(table, plan, missing, choices, sequences)
    sequences = tuple(_in_order(times, rows, table, plan, choices) for rows in sequences)
    if times.values.dtype.kind == "M":
        return _dated_clock(times, sequences)
    return _numeric_clock(times, sequences)


def sequences_of(table: Table, group: int | None) -> tuple[Rows, ...]:
    """Return the numbers of the rows of each sequence, in the order of the file.

    Parameters
    ----------
    table : Table
        The file.
    group : int or None
        Number of the column that tells sequences apart; None for a single one.
    """
    if group is None:
        return (np.arange(len(table.rows)),)
    labels = table.texts(group)
    if "" in labels:
        raise CommandError(f"{table.where(labels.index(''), group)}: is empty; every row needs a group.")
    members: dict[str, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    return tuple(np.array(rows) for rows in members.values())


def _read(
    table: Table, plan: Plan, missing: Missing, choices: Choices, sequences: tuple[Rows, ...]
) -> _Times:
    """Read the columns that tell the time, in the one way that makes sense."""
    if choices.date_format is not None:
        texts = _joined(table, plan.time)
        try:
            reading = by_format(texts, choices.date_format)
        except ValueError as error:
            raise CommandError(f"--date-format {choices.date_format!r} is no format: {error}") from None
        times = _Times(reading.stamps, reading.how)
        _check_read(times, texts, table, plan.time[0], f"does not have the form {choices.date_format!r}")
        return times
    for j in plan.time:
        if j in plan.values and np.isnan(plan.values[j]).any():
            raise _blank(table, j, int(np.argmax(np.isnan(plan.values[j]))))
    numeric = [j for j in plan.time if j in plan.values]
    texts_of = {j: table.texts(j) for j in plan.time if j not in numeric}
    for j, texts in texts_of.items():
        blank = next((i for i, text in enumerate(texts) if missing.matches(text)), None)
        if blank is not None:
            raise _blank(table, j, blank)
    if choices.epoch is not None:
        if len(plan.time) != 1 or not numeric:
            raise CommandError(
                "--epoch needs one column of numbers that tells the time; choose it with --time."
            )
        reading = epoch_dates(plan.values[numeric[0]], choices.epoch)
        times = _Times(reading.stamps, reading.how)
        _check_read(
            times, table.texts(numeric[0]), table, numeric[0], f"is out of reach of --epoch {choices.epoch}"
        )
        return times
    candidates = _candidates(table, plan, numeric, texts_of, choices)
    column = next(iter(texts_of), plan.time[0])
    return _choose(candidates, table, column, sequences, choices)


def _candidates(
    table: Table, plan: Plan, numeric: list[int], texts_of: dict[int, list[str]], choices: Choices
) -> list[_Times]:
    """The ways to read the columns together; those that leave cells unread are refused."""
    shapes = {j: date_shape(texts) for j, texts in texts_of.items()}
    clocks = [j for j in texts_of if shapes[j] == "clock"]
    dates = [j for j in texts_of if j not in clocks]
    if len(dates) > 1 and any(shapes[j] == "either" for j in dates):
        clocks += [j for j in dates if shapes[j] == "either"]
        dates = [j for j in dates if j not in clocks]
    parts = {part: plan.values[j] for j in numeric if (part := _part(table, j)) is not None}
    if len(dates) > 1 or (len(clocks) > 1):
        names = ", ".join(repr(table.names[j]) for j in (dates if len(dates) > 1 else clocks))
        raise CommandError(f"{table.source}: {names} each tell the time; choose one with --time.")
    bases: list[Reading] = []
    if dates:
        texts = texts_of[dates[0]]
        bases = read_dates(texts, choices.dayfirst)
        if shapes[dates[0]] == "either" and len(plan.time) == 1 and _means_clock(table.names[dates[0]]):
            return _clock_alone(texts, table, dates[0])
        if shapes[dates[0]] is None and len(texts):
            bad = int(np.argmax(np.isnat(bases[0].stamps)))
            raise CommandError(
                f"{table.where(bad, dates[0])}: {texts[bad]!r} is not a time; say --date-format, another "
                "column with --time, or take the rows as evenly spaced with --even."
            )
        _check_read(_Times(bases[0].stamps, ""), texts, table, dates[0], "is not a time")
    elif clocks and not numeric:
        return _clock_alone(texts_of[clocks[0]], table, clocks[0])
    elif len(numeric) == 1 and not clocks:
        return [_numeric_times(table, plan, numeric[0])]
    else:
        compact = next((r for j in numeric if (r := compact_dates(plan.values[j], months=True))), None)
        together = compact or from_parts(parts)
        if together is None:
            names = ", ".join(repr(table.names[j]) for j in plan.time)
            raise CommandError(
                f"{table.source}: {names} make no dates together; choose other columns with --time."
            )
        bases = [together]
        if compact is None:
            parts = {}
    offset = np.zeros(len(table.rows), dtype="timedelta64[us]")
    if clocks:
        offset = read_clock_times(texts_of[clocks[0]])
        _check_read(_Times(offset, ""), texts_of[clocks[0]], table, clocks[0], "is not a time of the day")
    else:
        for part, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)):
            if part in parts:
                offset = offset + (parts[part] * size).astype("timedelta64[us]")
    return [_Times(base.stamps + offset, base.how) for base in bases]


def _part(table: Table, column: int) -> str | None:
    return CALENDAR.get("".join(tokens(table.names[column])))


def _means_clock(name: str) -> bool:
    return bool(set(tokens(name)) & {"time", "clock", "zeit", "hour", "uhrzeit"})


def _clock_alone(texts: list[str], table: Table, column: int) -> list[_Times]:
    """Times of the day without a date: those of one day."""
    offset = read_clock_times(texts)
    _check_read(_Times(offset, ""), texts, table, column, "is not a time of the day")
    return [_Times(np.datetime64("1970-01-01", "us") + offset, "times of the day")]


def _numeric_times(table: Table, plan: Plan, column: int) -> _Times:
    """Times that are plain numbers: compact dates, seconds since 1970, or numbers in a unit of their own."""
    values = plan.values[column]
    words = tokens(table.names[column])
    compact = compact_dates(values, months=True)
    if compact is not None and plan.columns[column].why != "counts the rows":
        return _Times(compact.stamps, compact.how)
    unit = epoch_unit(values)
    if unit is not None:
        reading = epoch_dates(values, unit)
        return _Times(reading.stamps, reading.how)
    name = next((_UNIT_NAMES[word] for word in reversed(words) if word in _UNIT_NAMES), None)
    if name == "years" and len(values) and values.min() > 1500 and values.max() < 2500:
        return _Times(
            values, "decimal years" if np.any(values % 1) else "years", "years", _digits(table, column)
        )
    return _Times(values, "numbers" if name is None else f"numbers, in {name}", name, _digits(table, column))


def _digits(table: Table, column: int) -> int:
    """Most digits behind the decimal mark that numbers of a column are written with."""
    texts = table.texts(column)
    if any("e" in text or "E" in text for text in texts):
        return 0
    return max(
        (len(text.rpartition(table.style.decimal)[2]) for text in texts if table.style.decimal in text),
        default=0,
    )


def _choose(
    candidates: list[_Times], table: Table, column: int, sequences: tuple[Rows, ...], choices: Choices
) -> _Times:
    """Choose the way of reading dates that makes sense, or ask where two do and it matters."""
    first, *others = candidates
    if not others:
        return first
    second = others[0]
    if all(np.array_equal(np.diff(first.values[rows]), np.diff(second.values[rows])) for rows in sequences):
        return _Times(first.values, f"{first.how} (or {second.how}: the spacing is the same)")
    if choices.sort:
        sequences = tuple(rows[np.argsort(first.values[rows], kind="stable")] for rows in sequences)
    up = [c for c in candidates if choices.sort or all(_increases(c.values[rows]) for rows in sequences)]
    if len(up) == 1:
        return up[0]
    regular = [c for c in up if all(_is_regular(c.values[rows]) for rows in sequences)]
    if len(regular) == 1 and not choices.sort and min(map(len, sequences)) >= _TELLING:
        return regular[0]
    row = int(np.argmax(first.values != second.values))
    raise CommandError(
        f"{table.where(row, column)}: {table.text(row, column)!r} may be {first.how} or "
        f"{second.how}, and nothing in the file tells; say --dayfirst, --no-dayfirst or --date-format."
    )


def _in_order(times: _Times, rows: Rows, table: Table, plan: Plan, choices: Choices) -> Rows:
    """Return the rows of a sequence in order of time; the first that is late is an error."""
    values = times.values
    if choices.sort:
        rows = rows[np.argsort(values[rows], kind="stable")]
    late = np.flatnonzero(~(values[rows[1:]] > values[rows[:-1]]))
    if not late.size:
        return rows
    row, before = int(rows[late[0] + 1]), int(rows[late[0]])
    column = plan.time[0]
    said = " ".join(table.text(row, j) for j in plan.time)
    where = table.where(row, column)
    again = values[row] == values[before]
    hint = _grouping(table, plan, values) if plan.group is None else None
    what = f"{said!r} does not come after the row before"
    if choices.sort:
        raise CommandError(
            f"{where}: {said!r} is the time of row {table.rows[before] + 1}, too{hint or ''}; remove one "
            "of them, or "
            "take the rows as evenly spaced with --even."
        )
    if hint:
        raise CommandError(f"{where}: {what}{hint}, or take the rows as evenly spaced with --even.")
    mend = (
        "remove one of them"
        if again and _increases_but_for_ties(values[rows])
        else "sort the rows with --sort"
    )
    raise CommandError(f"{where}: {what}; {mend}, or take the rows as evenly spaced with --even.")


def _grouping(table: Table, plan: Plan, values: NDArray[Any]) -> str | None:
    """Name a column that tells sequences apart in each of which the times go up, if there is one."""
    for j, column in enumerate(plan.columns):
        if column.role not in ("left out", "data") or column.why == "empty":
            continue
        labels = table.texts(j)
        n_labels = len(set(labels))
        if "" in labels or not 1 < n_labels <= max(2, len(labels) // 2):
            continue
        if all(_increases(values[rows]) for rows in sequences_of(table, j)):
            return f"; if {column.name!r} tells independent sequences apart, say --group {column.name!r}"
    return None


def _numeric_clock(times: _Times, sequences: tuple[Rows, ...]) -> Clock:
    """Make a clock of times that are plain numbers."""
    values = times.numbers
    steps = [np.diff(values[rows]) for rows in sequences if len(rows) > 1]
    pooled = np.concatenate(steps) if steps else np.zeros(0)
    unit = f" {times.unit}" if times.unit else ""
    if not pooled.size or np.ptp(pooled) <= 1e-9 * abs(pooled[0]) or _is_rounded(times, values, sequences):
        step = None if not pooled.size or times.unit is None else f"{np.median(pooled):g}{unit}"
        note = "rows are evenly spaced" + (f", {step} apart" if step else "")
        return Clock(None, values, step, note, times.how, sequences)
    step_size = float(np.median(pooled))
    shown = f"{step_size:g}{unit}"
    note = f"rows are unevenly spaced, the median step is {shown}"
    scaled = _relative(values, sequences) / step_size
    if not np.all(np.isfinite(scaled)):
        raise CommandError(
            f"times from {np.min(values):g} to {np.max(values):g} are too far apart; see --time."
        )
    return Clock(scaled, values, shown if unit else None, note, times.how, sequences)


def _is_rounded(times: _Times, values: FloatArray, sequences: tuple[Rows, ...]) -> bool:
    """Whether numbers are evenly spaced but for the digits that they are written with."""
    unit = 10.0**-times.digits
    slopes = []
    for rows in (rows for rows in sequences if len(rows) > 1):
        line = np.linspace(values[rows[0]], values[rows[-1]], len(rows))
        slopes.append((values[rows[-1]] - values[rows[0]]) / (len(rows) - 1))
        if (
            times.digits < 1
            or unit > 0.05 * abs(slopes[-1])
            or np.max(np.abs(values[rows] - line)) > 1.01 * unit
        ):
            return False
    return bool(slopes) and max(slopes) - min(slopes) <= unit


def _dated_clock(times: _Times, sequences: tuple[Rows, ...]) -> Clock:
    """Make a clock of dates."""
    stamps, how = times.values, times.how
    long = [rows for rows in sequences if len(rows) > 1]
    if not long:
        return Clock(None, stamps, None, "rows are evenly spaced", how, sequences)
    regular = {_regular_step(pd.DatetimeIndex(stamps[rows])) for rows in long}
    if len(regular) == 1 and None not in regular:
        [step] = regular
        return Clock(None, stamps, step, f"rows are evenly spaced, {step} apart", how, sequences)
    seconds = _relative(times.numbers, sequences)
    size = float(np.median(np.concatenate([np.diff(seconds[rows]) for rows in long])))
    shown = _duration(size)
    note = f"rows are unevenly spaced, the median step is {shown}"
    return Clock(seconds / size, stamps, shown, note, how, sequences)


def _relative(values: FloatArray, sequences: tuple[Rows, ...]) -> FloatArray:
    """Times since the earliest of them all."""
    return values - min(values[rows[0]] for rows in sequences)


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


def _is_regular(stamps: NDArray[Any]) -> bool:
    return len(stamps) < 2 or _regular_step(pd.DatetimeIndex(stamps)) is not None


def _increases(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] > values[:-1]))


def _increases_but_for_ties(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _joined(table: Table, columns: Sequence[int]) -> list[str]:
    """Return the texts of several columns, such as date and time of the day, as one text a row."""
    return [" ".join(cells) for cells in zip(*(table.texts(j) for j in columns), strict=True)]


def _check_read(times: _Times, texts: Sequence[str], table: Table, column: int, what: str) -> None:
    """Raise a CommandError that names the first cell that could not be read."""
    unread = np.isnat(times.values)
    if unread.any():
        first = int(np.argmax(unread))
        raise CommandError(f"{table.where(first, column)}: {texts[first]!r} {what}.")


def _blank(table: Table, column: int, row: int) -> CommandError:
    return CommandError(
        f"{table.where(row, column)}: the row has no time; write it in, remove the row, or take the rows "
        "as evenly "
        "spaced with --even."
    )


def _duration(seconds: float) -> str:
    """Write a time span in the largest unit that it fills, such as "1.5 h"."""
    size, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / size:g} {unit}"
