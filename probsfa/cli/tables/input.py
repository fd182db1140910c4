"""Reading of the data file of a command, and reports of its interpretation."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli._report import align
from probsfa.cli._screen import Screen
from probsfa.cli.tables.content import read_content
from probsfa.cli.tables.outliers import check_codes, outlier_warnings
from probsfa.cli.tables.roles import ColumnRoles, make_column_roles
from probsfa.cli.tables.table import Table, make_table
from probsfa.cli.tables.times import Rows, RowTimes, read_row_times

__all__ = ["Input", "read_input"]

# Squares of larger numbers overflow.
_MAX_ABSOLUTE_VALUE = 1e150
_MAX_NAMES = 20


@dataclass(frozen=True)
class Input:
    """A data file after reading.

    Attributes
    ----------
    table, column_roles, row_times : Table, ColumnRoles, RowTimes
        The structure of the file, the roles of its columns, and the times of its rows.
    warnings : list of str
        Likely errors in the file.
    """

    table: Table
    column_roles: ColumnRoles
    row_times: RowTimes
    warnings: list[str]

    @property
    def values(self) -> FloatArray:
        """Numbers (T, D) of the data columns, rows in the order of the file, NaN where missing."""
        return self.column_roles.values

    @property
    def names(self) -> list[str]:
        """Names of the data columns."""
        return [self.table.names[j] for j in self.column_roles.data]

    @property
    def X(self) -> Any:
        """Data for an estimator: a DataFrame with named columns, or a list of DataFrames, in order of time.

        Dates are the index, so that a saved model has a unit of time.
        """
        stamps = self.row_times.stamps
        index = None if stamps is None or self.times is not None else pd.DatetimeIndex(stamps)
        return self._of_sequences(pd.DataFrame(self.values, columns=self.names, index=index, copy=False).iloc)

    @property
    def arrays(self) -> Any:
        """The data as an array, or a list of arrays."""
        return self._of_sequences(self.values)

    @property
    def times(self) -> Any:
        """Numeric times of the rows; None without times, and for dates, which are the index of `X`."""
        stamps = self.row_times.stamps
        return None if stamps is None or stamps.dtype.kind == "M" else self._of_sequences(stamps)

    @property
    def steps(self) -> Any:
        """Times of the rows of `arrays`, in units of the time step; None if rows are evenly spaced."""
        return self._of_sequences(self.row_times.times)

    @property
    def missing(self) -> list[int]:
        """Number of missing values of each data column."""
        return [int(n) for n in np.isnan(self.values).sum(axis=0)]

    def in_order_of_file(self, results: Any) -> FloatArray:
        """Return results of an estimator for `X` in the order of the rows of the file."""
        values = np.empty_like(self.values)
        parts = results if self.column_roles.group is not None else [results]
        for rows, result in zip(self._slices, parts, strict=True):
            values[rows] = np.asarray(result)
        return values

    def interpretation_as_lines(self) -> list[str]:
        """Describe the interpretation of the file in a few lines."""
        table, column_roles = self.table, self.column_roles
        n_rows, n_columns = self.values.shape
        lines = [
            f"{table.source}: {_count(n_rows, 'row')} of {_count(n_columns, 'column')}, "
            f"{100.0 * np.isnan(self.values).mean():.1f} % of the values missing; {self.row_times.note}",
            f"data: {_shortened_list(self.names)}",
            f"time: {self._time()}",
        ]
        if column_roles.group is not None:
            lines.append(
                f"group: {table.names[column_roles.group]}; "
                f"{_count(len(self.row_times.sequences), 'sequence')}"
            )
        reasons: dict[str, list[str]] = {}
        for name, (role, reason) in zip(table.names, column_roles.roles, strict=True):
            if role == "left out":
                reasons.setdefault(reason, []).append(name or "(no name)")
        if reasons:
            lines.append(
                "left out: " + "; ".join(f"{_shortened_list(n)} ({reason})" for reason, n in reasons.items())
            )
        remarks_by_column = [
            (table.names[j], column_roles.roles[j][1].partition(", ")[2]) for j in column_roles.data
        ]
        lines += [f"{name}: {remark}" for name, remark in remarks_by_column if remark]
        if not table.has_header:
            lines.append("row 1 is read as data; use --header yes if it has names")
        if table.n_blank:
            n_blank = _count(table.n_blank, "row")
            lines.append(f"{n_blank} without values at the end of the file: copied, not used")
        if table.decimal == ",":
            lines.append("numbers are read with a decimal comma; use --decimal . for a decimal point")
        return lines

    def interpretation_as_text(self) -> str:
        """Describe the role of each column with the reason, and the format of the text."""
        interpretation = self.interpretation_as_dict()
        rows = [("column", "role", "missing", "why")]
        for column in interpretation["columns"]:
            missing = "" if column["missing"] is None else str(column["missing"])
            rows.append((column["name"] or "(no name)", column["role"], missing, column["why"]))
        widths = [max(len(row[j]) for row in rows) for j in range(3)]
        lines = [
            f"  {n:{widths[0]}}  {r:{widths[1]}}  {m:>{widths[2]}}  {reason}" for n, r, m, reason in rows
        ]
        formats = [(key, str(interpretation[key])) for key in ("rows", "delimiter", "decimal", "encoding")]
        return "\n".join([*lines, "", align([*formats, ("time", self._time())])])

    def interpretation_as_dict(self) -> dict[str, Any]:
        """Return the interpretation of the file, and likely errors in it, in types of JSON."""
        table, counts = self.table, dict(zip(self.column_roles.data, self.missing, strict=True))
        return {
            "file": table.source,
            "rows": len(table.rows),
            "blank_rows_at_the_end": table.n_blank,
            "header": table.has_header,
            "delimiter": table.delimiter,
            "decimal": table.decimal,
            "thousands": table.thousands or None,
            "encoding": table.content.encoding,
            "columns": [
                {"name": name, "role": role, "why": reason, "missing": counts.get(j)}
                for j, (name, (role, reason)) in enumerate(
                    zip(table.names, self.column_roles.roles, strict=True)
                )
            ],
            "time": {
                "columns": [table.names[j] for j in self.column_roles.time],
                "read_as": self.row_times.time_format,
                "evenly_spaced": self.row_times.times is None,
                "step": self.row_times.step,
            },
            "sequences": [len(rows) for rows in self.row_times.sequences],
            "in_order": self._is_in_order(),
            "missing_cells": sum(self.missing),
            "warnings": self.warnings,
        }

    def _time(self) -> str:
        names = " and ".join(self.table.names[j] or "(no name)" for j in self.column_roles.time)
        if not self.column_roles.time:
            return "no column (set columns with --time)"
        if self.row_times.time_format is None:
            return f"{names}, not used (--even)"
        return f"{names}, read as {self.row_times.time_format}{'' if self._is_in_order() else ', sorted'}"

    def _is_in_order(self) -> bool:
        return all(bool(np.all(np.diff(rows) > 0)) for rows in self.row_times.sequences)

    def _of_sequences(self, values: Any) -> Any:
        """Return rows in order of time: one array, or with groups a list with one array for each group.

        Return None if `values` is None.
        """
        if values is None:
            return None
        parts = [values[rows] for rows in self._slices]
        return parts if self.column_roles.group is not None else parts[0]

    @cached_property
    def _slices(self) -> list[Any]:
        """Rows of each sequence in order of time; a slice for all rows, which avoids a copy."""
        all_rows = np.arange(len(self.values))
        return [slice(None) if np.array_equal(rows, all_rows) else rows for rows in self.row_times.sequences]


@np.errstate(over="ignore", invalid="ignore")  # differences of large numbers overflow
def read_input(args: argparse.Namespace, screen: Screen, columns: Sequence[str] = ()) -> Input:
    """Read the data file, and report its interpretation.

    Parameters
    ----------
    args : argparse.Namespace
        Options of the command.
    screen : Screen
        Output for notes and warnings.
    columns : sequence of str, default=()
        Data columns of a fitted model; used if the file has all of them and options do not name columns.

    Raises
    ------
    CommandError
        If the file cannot be read, a value is invalid, or a column has no values.
    """
    table = make_table(
        read_content(args.data),
        delimiter="\t" if args.delimiter in ("tab", "\\t") else args.delimiter,
        decimal=args.decimal,
        thousands=args.thousands or "",
        header=args.header,
        skip_rows=args.skip_rows,
        codes=args.missing_code,
    )
    column_roles = make_column_roles(table, args, columns)
    _check_values(table, column_roles)
    warnings = check_codes(table, column_roles, args.missing_code) + outlier_warnings(table, column_roles)
    series = Input(
        table,
        column_roles,
        read_row_times(table, column_roles.time, _sequences(table, column_roles.group), args),
        warnings,
    )
    for line in series.interpretation_as_lines():
        screen.note(line)
    for warning in series.warnings:
        screen.warn(warning)
    return series


def _sequences(table: Table, group: int | None) -> list[Rows]:
    """Return the rows of each independent sequence, in the order of the file."""
    if group is None:
        return [np.arange(len(table.rows))]
    labels = table.texts[group]
    empty = np.flatnonzero(labels == "")
    if len(empty):
        raise CommandError(f"{table.where(int(empty[0]), group)} is empty; every row requires a group.")
    rows = labels.groupby(labels, sort=False).indices
    return [np.asarray(rows[label]) for label in labels.unique()]


def _check_values(table: Table, column_roles: ColumnRoles) -> None:
    """Raise an error for columns without values, and for numbers that overflow."""
    for j, column in zip(column_roles.data, column_roles.values.T, strict=True):
        if np.isnan(column).all():
            raise CommandError(
                f"{table.source}: column {table.names[j]!r} has no values. Exclude it with --exclude."
            )
    too_large = np.argwhere(np.abs(column_roles.values) > _MAX_ABSOLUTE_VALUE)
    if len(too_large):
        row, i = map(int, too_large[0])
        raise CommandError(
            f"{table.where(row, column_roles.data[i])}: {column_roles.values[row, i]:g} overflows when it is "
            f"squared (limit {_MAX_ABSOLUTE_VALUE:g}). Rescale the column, or use --missing-code if the "
            "number stands for a missing value."
        )


def _shortened_list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown} and {len(names) - _MAX_NAMES} more"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
