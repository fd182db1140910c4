"""The role of each column: data, time, group, or left out."""

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from probsfa._typing import BoolArray, FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Table, Texts, as_numbers
from probsfa.cli.tables.times import CLOCK, PARTS, compact_dates, increases, is_date

__all__ = ["Column", "Plan", "make_plan", "split_names"]

Role = Literal["data", "time", "group", "left out"]

# Numbers of a column, NaN where missing or not numeric, and which of its texts are not valid.
Numbers = tuple[FloatArray, BoolArray]

# Names of time columns, whose rows must be in order; and names of numeric columns that are times if they
# increase.
_TIMES = frozenset({"time", "timestamp", "datetime", "date", "ts", "index", "epoch", "unixtime", "unix"})
_RISING = frozenset({*PARTS, "seconds", "minutes", "hours", "days", "years", "elapsed", "stamp"})
_CALENDAR = frozenset({*PARTS, "dayofyear", "weekday", "week", "quarter"})
_IDENTIFIERS = frozenset({"id", "ids", "code", "station", "site"})
_TIME = CLOCK + r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*"
_COUNTS = frozenset({"no", "nr", "row", "record", "number"})


@dataclass(frozen=True)
class Column:
    """The role of a column, and the reason.

    Attributes
    ----------
    name : str
        Its name.
    role : {"data", "time", "group", "left out"}
        Its role.
    why : str
        The reason.
    values : ndarray (T,)
        Its numbers, NaN where missing or not numeric.
    bad : ndarray of bool (T,)
        Which values are neither numbers nor missing.
    """

    name: str
    role: Role
    why: str
    values: FloatArray
    bad: BoolArray


@dataclass(frozen=True)
class Plan:
    """The roles of all columns.

    Attributes
    ----------
    columns : tuple of Column
        One for each column of the file.
    data, time : tuple of int
        Data columns in the order of the model, and columns of times.
    group : int or None
        Column with the names of independent sequences.
    """

    columns: tuple[Column, ...]
    data: tuple[int, ...]
    time: tuple[int, ...]
    group: int | None


def make_plan(
    table: Table, texts: Texts, args: argparse.Namespace, model_columns: Sequence[str] = ()
) -> Plan:
    """Determine the role of each column by the options, or by its values and name.

    Columns of a fitted model are data if the file has all of them and no option names others.
    """
    asked = split_names(args.columns, table.names)
    if asked is None and model_columns and set(model_columns) <= set(table.names):
        asked = list(model_columns)
    time = split_names(args.time, table.names)
    read = [table.numbers(texts[j]) for j in range(len(table.names))]
    roles = _asked_roles(table, asked or (), time or (), args)
    free = [j for j in range(len(table.names)) if j not in roles]
    if time is None:
        roles |= _times(table, texts, read, free, args)
    for j in free:
        if j not in roles:
            roles[j] = _other_role(table, texts, j, *read[j])
    columns = tuple(Column(name, *roles[j], *read[j]) for j, name in enumerate(table.names))
    data = [j for j, c in enumerate(columns) if c.role == "data"]
    if asked is not None:
        data = [_place(table, name) for name in dict.fromkeys(asked)]
    if not data:
        reasons = "; ".join(f"{c.name or '(no name)'!r}: {c.role}, {c.why}" for c in columns[:8])
        raise CommandError(
            f"{table.source}: no column of numbers is data ({reasons}). Name some with --columns."
        )
    _check_names(table, data)
    _check_numbers(table, texts, [(j, columns[j]) for j in data])
    group = next((j for j, c in enumerate(columns) if c.role == "group"), None)
    order = [_place(table, name) for name in time or ()] or [
        j for j, c in enumerate(columns) if c.role == "time"
    ]
    return Plan(columns, tuple(data), tuple(order), group)


def split_names(given: Sequence[str] | None, known: Sequence[str]) -> list[str] | None:
    """Split names at commas, unless a column has the whole name."""
    if given is None:
        return None
    split = (([text] if text and text in known else text.split(",")) for text in given)
    return [name.strip() for names in split for name in names if name.strip()]


def _asked_roles(
    table: Table, data: Sequence[str], time: Sequence[str], args: argparse.Namespace
) -> dict[int, tuple[Role, str]]:
    """Return the roles given by options."""
    roles: dict[int, tuple[Role, str]] = {}
    excluded = split_names(args.exclude, table.names) or []
    groups = () if args.group is None else (args.group,)
    asked: tuple[tuple[Role, str, Sequence[str]], ...] = (
        ("data", "--columns", data),
        ("time", "--time", time),
        ("group", "--group", groups),
        ("left out", "--exclude", excluded),
    )
    for role, option, names in asked:
        for name in names:
            j = _place(table, name)
            other = roles.get(j, (role, option))[1]
            if other != option:
                raise CommandError(f"column {name!r} is given to both {other} and {option}.")
            roles[j] = role, option
    return roles


def _times(
    table: Table, texts: Texts, read: list[Numbers], free: list[int], args: argparse.Namespace
) -> dict[int, tuple[Role, str]]:
    """Recognise the columns of times: one of dates, parts of dates, or numbers with a name of time."""
    names = {j: re.sub(r"\s*[(\[].*", "", table.names[j]).lower() for j in free}
    numeric = [j for j in free if not read[j][1].any() and not np.isnan(read[j][0]).all()]
    rising = [j for j in numeric if increases(read[j][0])]
    named = [
        j
        for j in numeric
        if names[j] in _TIMES or table.names[j] == "t" or (j in rising and names[j] in _RISING)
    ]
    named += [j for j in numeric if j == 0 and names[j] in ("", "unnamed: 0")]
    dates = [j for j in free if j not in numeric and _has_dates(table, texts[j], args)]
    dates += [j for j in numeric if _has_compact_dates(read[j][0], months=j in named)]
    clocks = [j for j in free if j not in numeric + dates and texts[j].str.fullmatch(CLOCK).mean() > 0.5]
    parts = {names[j]: j for j in numeric if names[j] in PARTS}
    if len(dates) > 1:
        shown = ", ".join(repr(table.names[j]) for j in dates)
        raise CommandError(f"{table.source}: {shown} have dates; choose the time of the rows with --time.")
    if dates:
        return {j: ("time", "dates" if j in dates else "times of the day") for j in dates + clocks[:1]}
    if {"year", "month"} <= set(parts):
        return {j: ("time", "parts of dates") for j in [parts[p] for p in PARTS if p in parts] + clocks[:1]}
    return {j: ("time", "name of a time") for j in named[:1] or clocks[:1]}


def _has_compact_dates(values: FloatArray, *, months: bool) -> bool:
    """Return whether all numbers of a column are dates such as 20130131, or also 201301."""
    reading = compact_dates(values[~np.isnan(values)])
    return reading is not None and (months or len(reading.how) > 6)


def _has_dates(table: Table, texts: pd.Series, args: argparse.Namespace) -> bool:
    """Return whether most texts of a column are dates."""
    present = texts[~table.missing(texts)]
    if not present.str.contains(r"\d").mean() > 0.5:
        return False
    return is_date(present, args.date_format, args.dayfirst)


def _other_role(table: Table, texts: Texts, j: int, values: FloatArray, bad: BoolArray) -> tuple[Role, str]:
    """Return the role of a column that is not a time."""
    name = table.names[j]
    known = values[~np.isnan(values)]
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    if not name and not bad.any() and not len(known):
        return "left out", "empty"
    if bad.any():
        if not len(known) and texts[j][bad].str.fullmatch(_TIME).mean() > 0.5:
            return "left out", "times; --time uses them"
        # A text that begins with a letter, or has no digit, is not a number.
        is_text = not len(known) and texts[j][bad].str.match(r"[^\W\d]|\D*$").all()
        return ("left out", "text") if is_text else ("data", "numbers and texts")
    whole = len(known) > 0 and bool(np.all(known % 1 == 0))
    if whole and "".join(words) in _CALENDAR:
        return "left out", "part of the calendar; --columns makes it data"
    counts = len(known) == len(values) > 1 and bool(np.all(np.diff(values) == 1))
    if counts and (j == 0 or (words and words[-1] in _COUNTS)):
        return "left out", "counts the rows; --columns makes it data"
    if whole and words and words[-1] in _IDENTIFIERS:
        return "left out", "an identifier; --columns makes it data, --group makes sequences of it"
    if len(known) > 2 and np.all(known == known[0]):
        return "data", "numbers, constant"
    if len(known) > 2 and np.all((known == 0.0) | (known == 1.0)):
        return "data", "numbers, only zeros and ones (filled values lie between them)"
    return "data", "numbers"


def _place(table: Table, name: str) -> int:
    """Return the number of the one column of that name."""
    places = [j for j, known in enumerate(table.names) if known == name]
    if not places:
        raise CommandError(
            f"{table.source}: there is no column {name!r}; there are {', '.join(table.names)}."
        )
    if len(places) > 1:
        raise CommandError(
            f"{table.source}: {len(places)} columns have the name {name!r}; rename all but one."
        )
    return places[0]


def _check_names(table: Table, data: list[int]) -> None:
    """Raise an error for two data columns of one name, because models identify columns by name."""
    for j in data:
        same = [k for k in data if table.names[k] == table.names[j]]
        if len(same) > 1:
            raise CommandError(
                f"{table.source}: columns {same[0] + 1} and {same[1] + 1} both have the name "
                f"{table.names[j]!r}; rename one of them."
            )


def _check_numbers(table: Table, texts: Texts, columns: list[tuple[int, Column]]) -> None:
    """Raise an error with all values that are neither numbers nor missing, with counts."""
    found, all_tokens = [], []
    for j, column in columns:
        if not column.bad.any():
            continue
        rows = np.flatnonzero(column.bad).tolist()
        tokens = texts[j].iloc[rows].tolist()
        counts = Counter(tokens)
        firsts = dict(zip(reversed(tokens), reversed(rows), strict=True))
        listed = [
            f"{token[:40]!r} ({n}, first in row {table.number(firsts[token])})"
            for token, n in counts.most_common(8)
        ]
        more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
        found.append(f"column {column.name!r}: {', '.join(listed)}{more}")
        all_tokens += [token for token, _ in counts.most_common()]
    if found:
        more = f"; and {len(found) - 5} more columns" if len(found) > 5 else ""
        raise CommandError(
            f"{table.source}: values that are not numbers: {'; '.join(found[:5])}{more}. "
            f"{_advice(table, all_tokens)}"
        )


def _advice(table: Table, tokens: list[str]) -> str:
    """Return the option that is likely to help with texts that are not numbers."""
    texts = pd.Series(tokens, dtype=str)
    if len(table.names) == 1 and any(d in token for token in tokens for d in ",;\t|"):
        return f"If {table.delimiter!r} is not the delimiter, name it with --delimiter."
    ways = [  # of writing numbers
        options
        for options, decimal, thousands in (
            ("--decimal ,", ",", ""),
            ("--thousands ,", ".", ","),
            ("--thousands ' '", ".", " "),
            ("--decimal , --thousands .", ",", "."),
        )
        if np.isfinite(as_numbers(texts, decimal, thousands)).all()
    ]
    if ways:
        return f"They may be numbers written in another way: give {' or '.join(ways[:2])}."
    mark = ";" if table.decimal == "," else ","
    codes = mark.join(token for token in tokens[:8] if mark not in token and token.isprintable())
    given = (
        f"Give {shlex.quote(f'--missing-code={codes}')} if they mean missing, or leave" if codes else "Leave"
    )
    return f"{given} the column out with --exclude."
