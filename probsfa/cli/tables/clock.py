"""When the rows of a table were observed, and in which order."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.roles import Plan
from probsfa.cli.tables.sequences import Rows, sequences_of
from probsfa.cli.tables.spacing import duration, increases, regular_step
from probsfa.cli.tables.table import Table
from probsfa.cli.tables.times import Times, read_times

__all__ = ["Clock", "read_clock"]


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
    times = read_times(table, plan, missing, choices, sequences)
    sequences = tuple(_in_order(times, rows, table, plan, choices) for rows in sequences)
    if times.values.dtype.kind == "M":
        return _dated_clock(times, sequences)
    return _numeric_clock(times, sequences)


def _in_order(times: Times, rows: Rows, table: Table, plan: Plan, choices: Choices) -> Rows:
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
            "of them, or take the rows as evenly spaced with --even."
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
        if all(increases(values[rows]) for rows in sequences_of(table, j)):
            return f"; if {column.name!r} tells independent sequences apart, say --group {column.name!r}"
    return None


def _increases_but_for_ties(values: NDArray[Any]) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _numeric_clock(times: Times, sequences: tuple[Rows, ...]) -> Clock:
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


def _is_rounded(times: Times, values: FloatArray, sequences: tuple[Rows, ...]) -> bool:
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


def _dated_clock(times: Times, sequences: tuple[Rows, ...]) -> Clock:
    """Make a clock of dates."""
    stamps, how = times.values, times.how
    long = [rows for rows in sequences if len(rows) > 1]
    if not long:
        return Clock(None, stamps, None, "rows are evenly spaced", how, sequences)
    regular = {regular_step(pd.DatetimeIndex(stamps[rows])) for rows in long}
    if len(regular) == 1 and None not in regular:
        [step] = regular
        return Clock(None, stamps, step, f"rows are evenly spaced, {step} apart", how, sequences)
    seconds = _relative(times.numbers, sequences)
    size = float(np.median(np.concatenate([np.diff(seconds[rows]) for rows in long])))
    shown = duration(size)
    note = f"rows are unevenly spaced, the median step is {shown}"
    return Clock(seconds / size, stamps, shown, note, how, sequences)


def _relative(values: FloatArray, sequences: tuple[Rows, ...]) -> FloatArray:
    """Times since the earliest of them all."""
    return values - min(values[rows[0]] for rows in sequences)
