"""How a data file was understood: in a few lines, in full, and for machines."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa.cli._report import align
from probsfa.cli.tables.clock import Clock
from probsfa.cli.tables.roles import Plan
from probsfa.cli.tables.table import Table

__all__ = ["plan_as_dict", "plan_as_lines", "plan_as_table"]

_MOST_NAMES = 20


def plan_as_lines(table: Table, plan: Plan, clock: Clock, n_missing: int) -> list[str]:
    """Say in a few lines how a file was understood.

    Parameters
    ----------
    table : Table
        The file.
    plan : Plan
        What its columns are for.
    clock : Clock
        When its rows were observed.
    n_missing : int
        Missing cells of the data columns.

    Returns
    -------
    list of str
    """
    lines = []
    if not table.named:
        lines.append(f"{table.source}: row 1 has no names and is read as data (--header yes: it has names)")
    n_rows, n_columns = len(table.rows), len(plan.data)
    share = 100.0 * n_missing / (n_rows * n_columns)
    lines.append(
        f"{table.source}: {_count(n_rows, 'row')} of {_count(n_columns, 'column')}, {share:.1f} % of the "
        f"cells missing; {clock.note}"
    )
    lines.append(f"data: {_some([table.names[j] for j in plan.data])}")
    lines.append(f"time: {_time(table, plan, clock)}")
    if plan.group is not None:
        lines.append(f"group: {table.names[plan.group]}; {_count(len(clock.sequences), 'sequence')}")
    reasons: dict[str, list[str]] = {}
    for column in plan.columns:
        if column.role == "left out":
            reasons.setdefault(column.why, []).append(column.name or "(no name)")
    if reasons:
        lines.append("left out: " + "; ".join(f"{_some(names)} ({why})" for why, names in reasons.items()))
    for column in plan.columns:
        if column.role == "data" and "," in column.why:
            lines.append(f"{column.name}: {column.why.partition(', ')[2]}")
    if table.n_blank:
        lines.append(
            f"{_count(table.n_blank, 'line')} at the end of the file with delimiters alone: kept, and not "
            "counted as rows"
        )
    if table.style.decimal == ",":
        lines.append("numbers are read with a decimal comma (--decimal . for a point)")
    return lines


def plan_as_table(table: Table, plan: Plan, clock: Clock, missing: Sequence[int]) -> str:
    """Write what each column is for, and why, as a table.

    Parameters
    ----------
    table, plan, clock
        As for `plan_as_lines`.
    missing : sequence of int
        Missing cells of each data column.
    """
    holes = dict(zip(plan.data, missing, strict=True))
    rows = [("column", "role", "missing", "why")]
    rows += [
        (column.name or "(no name)", column.role, str(holes.get(j, "")), column.why)
        for j, column in enumerate(plan.columns)
    ]
    widths = [max(len(row[j]) for row in rows) for j in range(3)]
    lines = [
        "  " + "  ".join([row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3]])
        for row in rows
    ]
    read = [
        ("rows", str(len(table.rows))),
        ("sequences", str(len(clock.sequences))),
        ("delimiter", repr(table.delimiter)),
        ("decimal mark", repr(table.style.decimal)),
        ("encoding", table.content.encoding),
        ("time", _time(table, plan, clock)),
    ]
    return "\n".join([*lines, "", align(read)])


def plan_as_dict(
    table: Table, plan: Plan, clock: Clock, missing: Sequence[int], warnings: Sequence[str]
) -> dict[str, Any]:
    """Give what JSON can hold of how a file was understood.

    Parameters
    ----------
    table, plan, clock, missing
        As for `plan_as_table`.
    warnings : sequence of str
        What looks wrong in the file.

    Returns
    -------
    dict
    """
    holes = dict(zip(plan.data, map(int, missing), strict=True))
    return {
        "file": table.source,
        "rows": len(table.rows),
        "blank_rows_at_the_end": table.n_blank,
        "header": table.named,
        "delimiter": table.delimiter,
        "decimal": table.style.decimal,
        "thousands": table.style.thousands or None,
        "encoding": table.content.encoding,
        "columns": [
            {"name": column.name, "role": column.role, "why": column.why, "missing": holes.get(j)}
            for j, column in enumerate(plan.columns)
        ],
        "time": {
            "columns": [table.names[j] for j in plan.time],
            "read_as": clock.how,
            "evenly_spaced": clock.times is None,
            "step": clock.step,
        },
        "sequences": [len(rows) for rows in clock.sequences],
        "in_order": all(bool(np.all(np.diff(rows) > 0)) for rows in clock.sequences),
        "missing_cells": int(np.sum(missing)),
        "warnings": list(warnings),
    }


def _time(table: Table, plan: Plan, clock: Clock) -> str:
    names = " and ".join(table.names[j] or "(no name)" for j in plan.time)
    if not plan.time:
        return "no column tells it (--time names one)"
    if clock.how is None:
        return f"{names}, not used (--even)"
    moved = any(bool(np.any(np.diff(rows) < 0)) for rows in clock.sequences)
    return f"{names}, read as {clock.how}{', sorted' if moved else ''}"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
