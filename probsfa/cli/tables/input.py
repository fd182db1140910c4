"""The data file of a command, read with its options."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._screen import Screen
from probsfa.cli.tables.content import read_content
from probsfa.cli.tables.outliers import codes_of, outliers
from probsfa.cli.tables.report import plan_as_dict, plan_as_lines, plan_as_table
from probsfa.cli.tables.roles import Plan, make_plan
from probsfa.cli.tables.table import Table, Texts, make_table, split_codes
from probsfa.cli.tables.times import Clock, Rows, read_clock

__all__ = ["Input", "read_input"]

# Squares of larger numbers overflow.
_LARGEST = 1e150
# A likely code for missing values in a larger share of the rows is an error; a rarer one is a warning.
_RARE = 0.01


@dataclass(frozen=True)
class Input:
    """A data file after reading.

    Attributes
    ----------
    table : Table
        The structure of the file.
    plan : Plan
        The roles of its columns.
    values : ndarray (T, D)
        Numbers of the data columns in the order of the file, NaN where missing.
    clock : Clock
        Times of the rows.
    warnings : tuple of str
        Likely errors in the file.
    """

    table: Table
    plan: Plan
    values: FloatArray
    clock: Clock
    warnings: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the data columns."""
        return [self.table.names[j] for j in self.plan.data]

    @property
    def X(self) -> Any:
        """The data of an estimator: a frame with named columns, or a list of them, in order of time.

        Dates are its index, so that a model that is saved knows its unit of time.
        """
        stamps = self.clock.stamps if self.is_dated else None
        frames = [
            pd.DataFrame(
                self.values[rows],
                columns=self.names,
                index=None if stamps is None else pd.DatetimeIndex(stamps[rows]),
                copy=False,
            )
            for rows in self._slices
        ]
        return frames if self.plan.group is not None else frames[0]

    @property
    def arrays(self) -> Any:
        """The same as arrays: one, or a list of them."""
        return self._of_sequences(self.values)

    @property
    def times(self) -> Any:
        """Times of `X` that are plain numbers; dates are its index."""
        return None if self.is_dated else self._of_sequences(self.clock.stamps)

    @property
    def steps(self) -> Any:
        """Times of `arrays` in steps, None if rows are evenly spaced."""
        return self._of_sequences(self.clock.times)

    @property
    def is_dated(self) -> bool:
        """Whether times are dates."""
        return self.clock.stamps is not None and self.clock.stamps.dtype.kind == "M"

    @property
    def missing(self) -> list[int]:
        """Number of missing values of each data column."""
        return [int(n) for n in np.isnan(self.values).sum(axis=0)]

    def in_order_of_file(self, results: Any) -> FloatArray:
        """Put results of an estimator for `X` into the order of the file's rows."""
        values = np.empty_like(self.values)
        parts = results if self.plan.group is not None else [results]
        for rows, result in zip(self._slices, parts, strict=True):
            values[rows] = np.asarray(result)
        return values

    def plan_as_text(self) -> str:
        """Describe the role of each column, and how the file was read."""
        return plan_as_table(self.table, self.plan, self.clock, self.missing)

    def plan_as_dict(self) -> dict[str, Any]:
        """Return how the file was read in a form for JSON."""
        return plan_as_dict(self.table, self.plan, self.clock, self.missing, self.warnings)

    def _of_sequences(self, values: Any) -> Any:
        """Rows of an array in order of time: one array, a list of them, or None if there are none."""
        if values is None:
            return None
        parts = [values[rows] for rows in self._slices]
        return parts if self.plan.group is not None else parts[0]

    @cached_property
    def _slices(self) -> list[Any]:
        """Return the rows of each sequence, as slices if that avoids a copy."""
        whole = np.arange(len(self.values))
        return [slice(None) if np.array_equal(rows, whole) else rows for rows in self.clock.sequences]


@np.errstate(over="ignore", invalid="ignore")  # differences of numbers such as 1e308 overflow
def read_input(args: argparse.Namespace, screen: Screen, columns: Sequence[str] = ()) -> Input:
    """Read the data file, and report on the screen how it was read.

    Parameters
    ----------
    args : argparse.Namespace
        Options of the command.
    screen : Screen
        Where notes and warnings are written.
    columns : sequence of str, default=()
        Data columns of a fitted model, used if the file has all of them and no option names others.

    Raises
    ------
    CommandError
        If the file cannot be read, a value is bad, or a column has no values.
    """
    table, texts = make_table(
        read_content(args.data),
        delimiter="\t" if args.delimiter in ("tab", "\\t") else args.delimiter,
        decimal=args.decimal,
        thousands=args.thousands or "",
        header=args.header,
        skip_rows=args.skip_rows,
        codes=args.missing_code,
    )
    plan = make_plan(table, texts, args, columns)
    values = np.column_stack([plan.columns[j].values for j in plan.data])
    _check_values(table, plan, values)
    warnings = _missing_codes(table, plan, values, args) + _outliers(table, texts, plan, values)
    groups = [j for j, column in enumerate(plan.columns) if column.role in ("left out", "data")]
    clock = read_clock(table, texts, plan.time, _sequences(table, texts, plan.group), args, groups)
    series = Input(table, plan, values, clock, tuple(warnings))
    for line in plan_as_lines(table, plan, clock, sum(series.missing)):
        screen.note(line)
    for warning in series.warnings:
        screen.warn(warning)
    return series


def _sequences(table: Table, texts: Texts, group: int | None) -> tuple[Rows, ...]:
    """Return the rows of each independent sequence, in the order of the file."""
    if group is None:
        return (np.arange(len(table.rows)),)
    labels = texts[group]
    empty = np.flatnonzero(labels == "")
    if len(empty):
        raise CommandError(f"{table.where(int(empty[0]), group)} is empty; every row needs a group.")
    rows = labels.groupby(labels, sort=False).indices
    return tuple(np.asarray(rows[label]) for label in labels.unique())


def _check_values(table: Table, plan: Plan, values: FloatArray) -> None:
    """Raise an error for columns without values, and for numbers that overflow."""
    for j, column in zip(plan.data, values.T, strict=True):
        if np.isnan(column).all():
            raise CommandError(
                f"{table.source}: column {table.names[j]!r} has no values. Leave it out with --exclude."
            )
    too_large = np.argwhere(np.abs(values) > _LARGEST)
    if len(too_large):
        row, i = map(int, too_large[0])
        raise CommandError(
            f"{table.where(row, plan.data[i])}: {values[row, i]:g} overflows when it is squared (limit "
            f"{_LARGEST:g}). Rescale the column, or give --missing-code if the number means missing."
        )


def _missing_codes(table: Table, plan: Plan, values: FloatArray, args: argparse.Namespace) -> list[str]:
    """Raise an error for frequent likely codes for missing; return warnings of rare ones."""
    found: dict[float, list[tuple[str, int]]] = {}
    for j, column in zip(plan.data, values.T, strict=True):
        for code in codes_of(column):
            found.setdefault(code, []).append((repr(table.names[j]), int(np.count_nonzero(column == code))))
    declared = any(text.strip() == "" for text in args.missing_code)  # --missing-code ''
    frequent = {c: cs for c, cs in found.items() if any(n > _RARE * len(values) for _, n in cs)}
    if frequent and not declared:
        shown = "; ".join(
            f"{code:g} in " + ", ".join(f"{name} ({_rows(n)})" for name, n in columns[:20])
            for code, columns in frequent.items()
        )
        given = split_codes(args.missing_code, table.decimal)
        mark = ";" if table.decimal == "," else ","
        codes = mark.join([*given, *(f"{code:g}".replace(".", table.decimal) for code in frequent)])
        raise CommandError(
            f"{table.source}: likely codes for missing: {shown}. Give --missing-code={codes} if they mean "
            "missing, or --missing-code='' if they are values."
        )
    return [
        f"{code:g} in {', '.join(f'{name} ({_rows(n)})' for name, n in columns)} is far from all other "
        f"values; if it means missing, give --missing-code={code:g}"
        for code, columns in found.items()
        if not declared
    ]


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n} rows"


def _outliers(table: Table, texts: Texts, plan: Plan, values: FloatArray) -> list[str]:
    """Return warnings of single values far beyond all others."""
    return [
        f"{table.where(row, j)}: {texts[j][row]} lies {distance:.3g} standard deviations beyond all other "
        "values of the column; if it is an error, leave the value empty."
        for j, column in zip(plan.data, values.T, strict=True)
        for row, distance in outliers(np.where(np.isin(column, codes_of(column)), np.nan, column))
    ]
