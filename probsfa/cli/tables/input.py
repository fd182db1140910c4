"""The data file that a command was given, read as its options say."""

import argparse
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli._screen import Screen
from probsfa.cli.tables.clock import Clock, read_clock
from probsfa.cli.tables.roles import Roles, assign_roles
from probsfa.cli.tables.suspects import suspects
from probsfa.cli.tables.table import Missing, Table, read_table

__all__ = ["Input", "read_input"]


@dataclass(frozen=True)
class Input:
    """A data file, read.

    Attributes
    ----------
    table : Table
        Its text.
    roles : Roles
        Which of its columns are data.
    values : ndarray (T, D)
        Numbers of the data columns, in their own units, NaN where missing.
    clock : Clock
        When the rows were observed.
    """

    table: Table
    roles: Roles
    values: NDArray[np.float64]
    clock: Clock

    @property
    def names(self) -> list[str]:
        """Names of the data columns."""
        return [self.table.names[j] for j in self.roles.data]

    @property
    def frame(self) -> pd.DataFrame:
        """The numbers under their names and at their dates, so that a model that is saved knows both."""
        stamps = self.clock.stamps
        dates = stamps if stamps is not None and stamps.dtype.kind == "M" else None
        return pd.DataFrame(self.values, columns=self.names, index=dates)

    @property
    def times(self) -> NDArray[np.generic] | None:
        """Times that are plain numbers, as they are in the file; dates are the index of the frame."""
        stamps = self.clock.stamps
        return None if stamps is None or stamps.dtype.kind == "M" else stamps


def read_input(args: argparse.Namespace, screen: Screen) -> Input:
    """Read the data file, and say on the screen how it was understood.

    Parameters
    ----------
    args : argparse.Namespace
        The options on reading a file.
    screen : Screen
        Where notes are written.

    Returns
    -------
    Input

    Raises
    ------
    CommandError
        If the file cannot be read, a cell is bad, or a column has nothing observed.
    """
    missing = Missing(args.missing_code)
    delimiter = _delimiter(args.delimiter, args.decimal)
    table = read_table(args.data, delimiter=delimiter, decimal=args.decimal, header=args.header)
    roles = assign_roles(table, missing, _names(args.columns), _names(args.time))
    values = np.column_stack([table.numbers(j, missing) for j in roles.data])
    empty = [table.names[j] for j, column in zip(roles.data, values.T, strict=True) if np.isnan(column).all()]
    if empty:
        raise CommandError(
            f"{table.path}: column {empty[0]!r} has nothing observed; choose the others with --columns."
        )
    series = Input(table, roles, values, read_clock(table, roles, even=args.even))
    _report(series, screen)
    return series


def _report(series: Input, screen: Screen) -> None:
    """Say how a file was understood, and what looks wrong in it."""
    table, data = series.table, series.roles.data
    if not table.named:
        screen.note(f"{table.path}: row 1 has no names and is read as data (--header yes: it has names)")
    screen.note(
        f"{table.path}: {len(series.values)} rows of {len(data)} columns, "
        f"{100.0 * np.isnan(series.values).mean():.1f} % of the cells missing; {series.clock.note}"
    )
    kept = [name or "(no name)" for j, name in enumerate(table.names) if j not in data]
    if kept:
        screen.note(f"columns only kept: {', '.join(kept)}")
    if table.decimal == ",":
        screen.note("numbers are read with a decimal comma (--decimal . for a point)")
    columns_of: dict[float, list[str]] = {}
    for name, column in zip(series.names, series.values.T, strict=True):
        for code in suspects(column):
            columns_of.setdefault(code, []).append(repr(name))
    for code, names in columns_of.items():
        screen.note(
            f"warning: {', '.join(names)} {'is' if len(names) == 1 else 'are'} {code:g} again and again, far "
            f"from all other values; if that stands for missing, say --missing-code {code:g}"
        )


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _delimiter(text: str | None, decimal: str | None) -> str | None:
    if text in ("tab", "\\t"):
        return "\t"
    if text is not None and (len(text) != 1 or text in '"\n\r'):
        raise CommandError(f"--delimiter must be one character or 'tab', got {text!r}.")
    if text is not None and text == decimal:
        raise CommandError(f"--delimiter and --decimal are both {text!r}.")
    return text
