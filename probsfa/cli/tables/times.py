"""The times of the rows of a table, read in the one way that makes sense."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.contents import CALENDAR, tokens
from probsfa.cli.tables.dates import Reading, by_format, date_shape, read_clock_times, read_dates
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.numeric_dates import compact_dates, epoch_dates, epoch_unit, from_parts
from probsfa.cli.tables.roles import Plan
from probsfa.cli.tables.sequences import Rows
from probsfa.cli.tables.spacing import increases, is_regular
from probsfa.cli.tables.table import Table

__all__ = ["Times", "read_times"]

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
class Times:
    """Times of the rows as they were read.

    Attributes
    ----------
    values : ndarray (T,)
        Dates as datetime64, or plain numbers.
    how : str
        How they were read, such as "day/month/year".
    unit : str or None
        The unit of plain numbers, where the name of the column tells it.
    digits : int
        Digits behind the decimal mark of plain numbers.
    """

    values: NDArray[Any]
    how: str
    unit: str | None = None
    digits: int = 0

    @property
    def numbers(self) -> FloatArray:
        """Dates in seconds since the first, numbers as they are."""
        if self.values.dtype.kind == "M":
            return np.asarray((self.values - self.values[0]) / np.timedelta64(1, "s"), dtype=np.float64)
        return np.asarray(self.values, dtype=np.float64)


def read_times(
    table: Table, plan: Plan, missing: Missing, choices: Choices, sequences: tuple[Rows, ...]
) -> Times:
    """Read the columns that tell the time, in the one way that makes sense.

    Where dates may be read with the day or the month first, it is the way in which they go up, or, over five
    rows or more, in which they are evenly spaced.

    Parameters
    ----------
    table : Table
        The file.
    plan : Plan
        Which of its columns tell the time.
    missing : Missing
        What missing cells look like.
    choices : Choices
        What the user says of the times.
    sequences : tuple of ndarray of int
        Rows of each independent sequence.

    Returns
    -------
    Times

    Raises
    ------
    CommandError
        If a time cannot be read, or may be read in two ways that matter.
    """
    if choices.date_format is not None:
        texts = _joined(table, plan.time)
        try:
            reading = by_format(texts, choices.date_format)
        except ValueError as error:
            raise CommandError(f"--date-format {choices.date_format!r} is no format: {error}") from None
        times = Times(reading.stamps, reading.how)
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
        times = Times(reading.stamps, reading.how)
        _check_read(
            times, table.texts(numeric[0]), table, numeric[0], f"is out of reach of --epoch {choices.epoch}"
        )
        return times
    candidates = _candidates(table, plan, numeric, texts_of, choices)
    column = next(iter(texts_of), plan.time[0])
    return _choose(candidates, table, column, sequences, choices)


def _candidates(
    table: Table, plan: Plan, numeric: list[int], texts_of: dict[int, list[str]], choices: Choices
) -> list[Times]:
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
        _check_read(Times(bases[0].stamps, ""), texts, table, dates[0], "is not a time")
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
        _check_read(Times(offset, ""), texts_of[clocks[0]], table, clocks[0], "is not a time of the day")
    else:
        for part, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)):
            if part in parts:
                offset = offset + (parts[part] * size).astype("timedelta64[us]")
    return [Times(base.stamps + offset, base.how) for base in bases]


def _part(table: Table, column: int) -> str | None:
    return CALENDAR.get("".join(tokens(table.names[column])))


def _means_clock(name: str) -> bool:
    return bool(set(tokens(name)) & {"time", "clock", "zeit", "hour", "uhrzeit"})


def _clock_alone(texts: list[str], table: Table, column: int) -> list[Times]:
    """Times of the day without a date: those of one day."""
    offset = read_clock_times(texts)
    _check_read(Times(offset, ""), texts, table, column, "is not a time of the day")
    return [Times(np.datetime64("1970-01-01", "us") + offset, "times of the day")]


def _numeric_times(table: Table, plan: Plan, column: int) -> Times:
    """Times that are plain numbers: compact dates, seconds since 1970, or numbers in a unit of their own."""
    values = plan.values[column]
    words = tokens(table.names[column])
    compact = compact_dates(values, months=True)
    if compact is not None and plan.columns[column].why != "counts the rows":
        return Times(compact.stamps, compact.how)
    unit = epoch_unit(values)
    if unit is not None:
        reading = epoch_dates(values, unit)
        return Times(reading.stamps, reading.how)
    name = next((_UNIT_NAMES[word] for word in reversed(words) if word in _UNIT_NAMES), None)
    if name == "years" and len(values) and values.min() > 1500 and values.max() < 2500:
        return Times(
            values, "decimal years" if np.any(values % 1) else "years", "years", _digits(table, column)
        )
    return Times(values, "numbers" if name is None else f"numbers, in {name}", name, _digits(table, column))


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
    candidates: list[Times], table: Table, column: int, sequences: tuple[Rows, ...], choices: Choices
) -> Times:
    """Choose the way of reading dates that makes sense, or ask where two do and it matters."""
    first, *others = candidates
    if not others:
        return first
    second = others[0]
    if all(np.array_equal(np.diff(first.values[rows]), np.diff(second.values[rows])) for rows in sequences):
        return Times(first.values, f"{first.how} (or {second.how}: the spacing is the same)")
    if choices.sort:
        sequences = tuple(rows[np.argsort(first.values[rows], kind="stable")] for rows in sequences)
    up = [c for c in candidates if choices.sort or all(increases(c.values[rows]) for rows in sequences)]
    if len(up) == 1:
        return up[0]
    regular = [c for c in up if all(is_regular(c.values[rows]) for rows in sequences)]
    if len(regular) == 1 and not choices.sort and min(map(len, sequences)) >= _TELLING:
        return regular[0]
    row = int(np.argmax(first.values != second.values))
    raise CommandError(
        f"{table.where(row, column)}: {table.text(row, column)!r} may be {first.how} or "
        f"{second.how}, and nothing in the file tells; say --dayfirst, --no-dayfirst or --date-format."
    )


def _joined(table: Table, columns: Sequence[int]) -> list[str]:
    """Return the texts of several columns, such as date and time of the day, as one text a row."""
    return [" ".join(cells) for cells in zip(*(table.texts(j) for j in columns), strict=True)]


def _check_read(times: Times, texts: Sequence[str], table: Table, column: int, what: str) -> None:
    """Raise a CommandError that names the first cell that could not be read."""
    unread = np.isnat(times.values)
    if unread.any():
        first = int(np.argmax(unread))
        raise CommandError(f"{table.where(first, column)}: {texts[first]!r} {what}.")


def _blank(table: Table, column: int, row: int) -> CommandError:
    return CommandError(
        f"{table.where(row, column)}: the row has no time; write it in, remove the row, or take the rows "
        "as evenly spaced with --even."
    )
