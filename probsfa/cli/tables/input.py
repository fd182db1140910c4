"""The data file that a command was given, read as its options say."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli._screen import Screen
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.clock import Clock, read_clock
from probsfa.cli.tables.missing import Missing, split_codes
from probsfa.cli.tables.report import plan_as_dict, plan_as_lines, plan_as_table
from probsfa.cli.tables.roles import Plan, make_plan, without_values
from probsfa.cli.tables.suspects import outliers, suspects
from probsfa.cli.tables.table import Table, read_table

__all__ = ["Input", "read_input"]


@dataclass(frozen=True)
class Input:
    """A data file, read.

    Attributes
    ----------
    table : Table
        Its text.
    plan : Plan
        What its columns are for.
    values : ndarray (T, D)
        Numbers of the data columns, in their own units and in the order of the file, NaN where missing.
    clock : Clock
        When the rows were observed.
    warnings : tuple of str
        What looks wrong in the file.
    """

    table: Table
    plan: Plan
    values: NDArray[np.float64]
    clock: Clock
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the data columns."""
        return [self.table.names[j] for j in self.plan.data]

    @property
    def X(self) -> Any:
        """What an estimator is given: a frame with named columns, or a list of them, in order of time.

        Dates are its index, so that a model that is saved knows its unit of time.
        """
        stamps = self.clock.stamps if self._is_dated else None
        frames = [
            pd.DataFrame(
                self.values[rows],
                columns=self.names,
                index=None if stamps is None else pd.DatetimeIndex(stamps[rows]),
                copy=False,
            )
            for rows in self._slices
        ]
        return frames if self.grouped else frames[0]

    @property
    def arrays(self) -> Any:
        """The same as arrays: one, or a list of them."""
        return self._of_sequences(self.values)

    @property
    def times(self) -> Any:
        """Times of `X` that are plain numbers, as they are in the file; dates are its index."""
        return None if self._is_dated else self._of_sequences(self.clock.stamps)

    @property
    def steps(self) -> Any:
        """Times of `arrays` in steps, None where rows are evenly spaced."""
        return self._of_sequences(self.clock.times)

    @property
    def grouped(self) -> bool:
        """Whether the rows are independent sequences."""
        return self.plan.group is not None

    @property
    def missing(self) -> list[int]:
        """Missing cells of each data column."""
        return [int(np.count_nonzero(np.isnan(column))) for column in self.values.T]

    def in_order_of_file(self, results: Any) -> NDArray[np.float64]:
        """Put what an estimator gives for `X` into the order of the file's rows."""
        if not self.grouped and isinstance(self._slices[0], slice):
            return np.asarray(results)
        values = np.empty_like(self.values)
        for rows, result in zip(self._slices, results if self.grouped else [results], strict=True):
            values[rows] = np.asarray(result)
        return values

    def plan_as_text(self) -> str:
        """Write what each column is for, and how the file was read."""
        return plan_as_table(self.table, self.plan, self.clock, self.missing)

    def plan_as_dict(self) -> dict[str, Any]:
        """Give what JSON can hold of how the file was read."""
        return plan_as_dict(self.table, self.plan, self.clock, self.missing, self.warnings)

    @property
    def _is_dated(self) -> bool:
        return self.clock.stamps is not None and self.clock.stamps.dtype.kind == "M"

    def _of_sequences(self, values: Any) -> Any:
        """Rows of an array in order of time: one array, a list of them, or None where there are none."""
        if values is None:
            return None
        parts = [values[rows] for rows in self._slices]
        return parts if self.grouped else parts[0]

    @cached_property
    def _slices(self) -> list[Any]:
        """Rows of each sequence, as slices where that saves a copy."""
        whole = np.arange(len(self.values))
        return [slice(None) if np.array_equal(rows, whole) else rows for rows in self.clock.sequences]


def read_input(args: argparse.Namespace, screen: Screen, columns: Sequence[str] | None = None) -> Input:
    """Read the data file, and say on the screen how it was understood.

    Parameters
    ----------
    args : argparse.Namespace
        The options on reading a file.
    screen : Screen
        Where notes and warnings are written.
    columns : sequence of str, optional
        Names of the data columns where the options do not say and the file has all of them, as a fitted model
        knows them.

    Returns
    -------
    Input

    Raises
    ------
    CommandError
        If the file cannot be read, a cell is bad, or a column has nothing observed.
    """
    delimiter = _delimiter(args.delimiter, args.decimal)
    _check_thousands(args.thousands, args.decimal)
    table = read_table(
        args.data,
        delimiter=delimiter,
        decimal=args.decimal,
        thousands=args.thousands or "",
        header=args.header,
        skip_rows=args.skip_rows,
    )
    missing = Missing(split_codes(args.missing_code, table.style.decimal))
    wanted = _names(args.columns, table.names)
    if wanted is None and columns is not None and set(columns) <= set(table.names):
        wanted = [str(name) for name in columns]
    choices = Choices(
        columns=wanted,
        exclude=_names(args.exclude, table.names) or [],
        time=_names(args.time, table.names),
        group=args.group,
        dayfirst=args.dayfirst,
        date_format=args.date_format,
        epoch=args.epoch,
        sort=args.sort,
        even=args.even,
    )
    with np.errstate(over="ignore", invalid="ignore"):  # numbers as huge as 1e308 have no differences
        plan = make_plan(table, missing, choices)
        clock = read_clock(table, plan, missing, choices)
    values = np.column_stack([plan.values[j] for j in plan.data])
    plan = without_values(plan)
    for j, column in zip(plan.data, values.T, strict=True):
        if np.isnan(column).all():
            raise CommandError(
                f"{table.source}: column {table.names[j]!r} has nothing observed; leave it out with "
                "--exclude."
            )
    series = Input(table, plan, values, clock, tuple(_warnings(table, plan, values)))
    for line in plan_as_lines(table, plan, clock, sum(series.missing)):
        screen.note(line)
    for warning in series.warnings:
        screen.warn(warning)
    return series


def _warnings(table: Table, plan: Plan, values: NDArray[np.float64]) -> list[str]:
    """Say what looks wrong: codes for missing, single cells far from all others."""
    codes = sorted({code for column in values.T for code in suspects(column)})
    columns_of: dict[float, list[str]] = {}
    counts: dict[float, int] = {}
    wild = []
    for j, column in zip(plan.data, values.T, strict=True):
        # A code of one column is one in all others, too, where it lies at their ends.
        ends = np.nanmin(column), np.nanmax(column)
        for code in (code for code in codes if code in ends):
            columns_of.setdefault(code, []).append(repr(table.names[j]))
            counts[code] = counts.get(code, 0) + int(np.count_nonzero(column == code))
        for row, distance in outliers(np.where(np.isin(column, codes), np.nan, column)):
            wild.append(
                f"{table.where(row, j)}: {table.text(row, j)} lies {distance:.3g} standard deviations beyond "
                "all other values of the column; if it is an error, leave the cell empty."
            )
    said = []
    for code, names in columns_of.items():
        times = "once" if counts[code] == 1 else f"{counts[code]} times"
        shown = f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {code:g}"
        said.append(
            f"{shown} {times}, far from all other values; if that stands for missing, "
            f"say --missing-code {code:g}"
        )
    return said + wild


def _names(given: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Names that were given, separated by commas, once or more often; a name may hold commas itself."""
    if given is None:
        return None
    split = (([text] if text and text in known else text.split(",")) for text in given)
    return [name.strip() for names in split for name in names if name.strip()]


def _delimiter(text: str | None, decimal: str | None) -> str | None:
    if text in ("tab", "\\t"):
        return "\t"
    if text is not None and (len(text) != 1 or text in '"\n\r'):
        raise CommandError(f"--delimiter must be one character or 'tab', got {text!r}.")
    if text is not None and text == decimal:
        raise CommandError(f"--delimiter and --decimal are both {text!r}.")
    return text


def _check_thousands(text: str | None, decimal: str | None) -> None:
    if text is None:
        return
    if len(text) != 1 or text.isalnum() or text in '+-"\n\r':
        raise CommandError(f"--thousands must be one character, such as ',' or ' ', got {text!r}.")
    if text == (decimal or "."):
        raise CommandError(f"--thousands and --decimal are both {text!r}; say the other one with --decimal.")
