"""Reports of how a data file was read: a few lines, a table, and JSON."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from probsfa.cli._report import align
from probsfa.cli.tables.roles import Plan
from probsfa.cli.tables.table import Table
from probsfa.cli.tables.times import Clock

__all__ = ["plan_as_dict", "plan_as_lines", "plan_as_table"]

_MOST_NAMES = 20


def plan_as_lines(table: Table, plan: Plan, clock: Clock, n_missing: int) -> list[str]:
    """Report in a few lines how a file was read, with the number of missing values of its data columns."""
    n_rows, n_columns = len(table.rows), len(plan.data)
    lines = [
        f"{table.source}: {_count(n_rows, 'row')} of {_count(n_columns, 'column')}, "
        f"{100.0 * n_missing / (n_rows * n_columns):.1f} % of the values missing; {clock.note}",
        f"data: {_some([table.names[j] for j in plan.data])}",
        f"time: {_time(table, plan, clock)}",
    ]
    if plan.group is not None:
        lines.append(f"group: {table.names[plan.group]}; {_count(len(clock.sequences), 'sequence')}")
    reasons: dict[str, list[str]] = {}
    for column in plan.columns:
        if column.role == "left out":
            reasons.setdefault(column.why, []).append(column.name or "(no name)")
    if reasons:
        lines.append("left out: " + "; ".join(f"{_some(names)} ({why})" for why, names in reasons.items()))
    remarks = [(plan.columns[j].name, plan.columns[j].why.partition(", ")[2]) for j in plan.data]
    lines += [f"{name}: {remark}" for name, remark in remarks if remark]
    if not table.named:
        lines.append("row 1 has no names and is read as data (--header yes: it has names)")
    if table.n_blank:
        lines.append(
            f"{_count(table.n_blank, 'row')} without values at the end of the file: kept and not used"
        )
    if table.decimal == ",":
        lines.append("numbers are read with a decimal comma (--decimal . for a point)")
    return lines


def plan_as_table(table: Table, plan: Plan, clock: Clock, missing: Sequence[int]) -> str:
    """Report the role of each column and the reason as a table, with the missing values of data columns."""
    counts = dict(zip(plan.data, missing, strict=True))
    rows = [("column", "role", "missing", "why")]
    rows += [
        (c.name or "(no name)", c.role, str(counts.get(j, "")), c.why) for j, c in enumerate(plan.columns)
    ]
    widths = [max(len(row[j]) for row in rows) for j in range(3)]
    lines = [
        f"  {n.ljust(widths[0])}  {r.ljust(widths[1])}  {m.rjust(widths[2])}  {w}" for n, r, m, w in rows
    ]
    read = [
        ("rows", str(len(table.rows))),
        ("sequences", str(len(clock.sequences))),
        ("delimiter", repr(table.delimiter)),
        ("decimal mark", repr(table.decimal)),
        ("encoding", table.content.encoding),
        ("time", _time(table, plan, clock)),
    ]
    return "\n".join([*lines, "", align(read)])


def plan_as_dict(
    table: Table, plan: Plan, clock: Clock, missing: Sequence[int], warnings: Sequence[str]
) -> dict[str, Any]:
    """Return how a file was read, and likely errors in it, in a form for JSON."""
    counts = dict(zip(plan.data, missing, strict=True))
    return {
        "file": table.source,
        "rows": len(table.rows),
        "blank_rows_at_the_end": table.n_blank,
        "header": table.named,
        "delimiter": table.delimiter,
        "decimal": table.decimal,
        "thousands": table.thousands or None,
        "encoding": table.content.encoding,
        "columns": [
            {"name": c.name, "role": c.role, "why": c.why, "missing": counts.get(j)}
            for j, c in enumerate(plan.columns)
        ],
        "time": {
            "columns": [table.names[j] for j in plan.time],
            "read_as": clock.how,
            "evenly_spaced": clock.times is None,
            "step": clock.step,
        },
        "sequences": [len(rows) for rows in clock.sequences],
        "in_order": _in_order(clock),
        "missing_cells": int(np.sum(missing)),
        "warnings": list(warnings),
    }


def _time(table: Table, plan: Plan, clock: Clock) -> str:
    names = " and ".join(table.names[j] or "(no name)" for j in plan.time)
    if not plan.time:
        return "no column (--time names some)"
    if clock.how is None:
        return f"{names}, not used (--even)"
    return f"{names}, read as {clock.how}{'' if _in_order(clock) else ', sorted'}"


def _in_order(clock: Clock) -> bool:
    return all(bool(np.all(np.diff(rows) > 0)) for rows in clock.sequences)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def _count(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
