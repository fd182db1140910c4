"""The role of each column: data, time, group, or left out."""

import argparse
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.table import Table
from probsfa.cli.tables.times import CALENDAR_FIELDS, TIME_OF_DAY_PATTERN, compact_dates, increases, is_date

__all__ = ["ColumnRoles", "make_column_roles"]

Role = Literal["data", "time", "group", "left out"]
RoleAndReason = tuple[Role, str]

# Names of columns of times; values that do not increase are an error.
_TIME_NAMES = frozenset({"time", "timestamp", "datetime", "date", "ts", "index", "epoch", "unixtime", "unix"})
# Names of numeric columns that are times only if values increase.
_ELAPSED_TIME_NAMES = frozenset(
    {*CALENDAR_FIELDS, "seconds", "minutes", "hours", "days", "years", "elapsed", "stamp"}
)
_CALENDAR_NAMES = frozenset({*CALENDAR_FIELDS, "dayofyear", "weekday", "week", "quarter"})
_IDENTIFIER_NAMES = frozenset({"id", "ids", "code", "station", "site", "no", "nr", "row", "record", "number"})
_TIME_PATTERN = TIME_OF_DAY_PATTERN + r"|\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}.*"


@dataclass(frozen=True)
class ColumnRoles:
    """The roles of all columns.

    Attributes
    ----------
    roles : list of (str, str)
        Role of each column of the file, and the reason for it.
    data : list of int
        Indices of the data columns, in the order of the model.
    time : list of int
        Indices of the columns of times.
    group : int or None
        Column with the names of independent sequences.
    values : ndarray (T, D)
        Numbers of the data columns, NaN where missing.
    """

    roles: list[RoleAndReason]
    data: list[int]
    time: list[int]
    group: int | None
    values: FloatArray


def make_column_roles(
    table: Table, args: argparse.Namespace, model_columns: Sequence[str] = ()
) -> ColumnRoles:
    """Determine the role of each column by the options, or by its values and name.

    Columns of a fitted model are data if the file has all of them and options do not name columns.
    """
    requested = _split_names(args.columns, table.names)
    if requested is None and model_columns and set(model_columns) <= set(table.names):
        requested = list(model_columns)
    time = _split_names(args.time, table.names)
    parsed = [table.numbers(j) for j in range(len(table.names))]
    option_roles = _roles_from_options(table, requested or [], time or [], args)
    undecided = [j for j in range(len(table.names)) if j not in option_roles]
    time_roles = {} if time is not None else _infer_time_roles(table, parsed, undecided, args)
    roles = [
        option_roles.get(j) or time_roles.get(j) or _infer_other_role(table, j, *parsed[j])
        for j in range(len(parsed))
    ]
    data = [j for j, (role, _) in enumerate(roles) if role == "data"]
    if requested is not None:
        data = [_column_index(table, name) for name in dict.fromkeys(requested)]
    if not data:
        reasons = "; ".join(
            f"{name or '(no name)'!r}: {role}, {reason}"
            for name, (role, reason) in zip(table.names[:8], roles, strict=False)
        )
        raise CommandError(
            f"{table.source}: no numeric column can be used as data ({reasons}). Name some with --columns."
        )
    for name, count in Counter(table.names[j] for j in data).items():
        if count > 1:  # models identify columns by their names
            raise CommandError(f"{table.source}: {count} columns have the name {name!r}; rename all but one.")
    _check_numbers(table, {j: parsed[j][1] for j in data})
    return ColumnRoles(
        roles,
        data,
        [_column_index(table, name) for name in time or ()]
        or [j for j, (role, _) in enumerate(roles) if role == "time"],
        next((j for j, (role, _) in enumerate(roles) if role == "group"), None),
        np.column_stack([parsed[j][0] for j in data]),
    )


def _split_names(given: Sequence[str] | None, existing_names: Sequence[str]) -> list[str] | None:
    """Split names at commas, unless a column name contains the comma."""
    if given is None:
        return None
    parts = (([text] if text and text in existing_names else text.split(",")) for text in given)
    return [name.strip() for names in parts for name in names if name.strip()]


def _roles_from_options(
    table: Table, data: list[str], time: list[str], args: argparse.Namespace
) -> dict[int, RoleAndReason]:
    """Return the roles of the columns that options name."""
    roles: dict[int, RoleAndReason] = {}
    options: tuple[tuple[Role, str, list[str]], ...] = (
        ("data", "--columns", data),
        ("time", "--time", time),
        ("group", "--group", [] if args.group is None else [args.group]),
        ("left out", "--exclude", _split_names(args.exclude, table.names) or []),
    )
    for role, option, names in options:
        for name in names:
            other = roles.setdefault(_column_index(table, name), (role, option))[1]
            if other != option:
                raise CommandError(
                    f"column {name!r} is named by both {other} and {option}; remove it from one of them."
                )
    return roles


def _column_index(table: Table, name: str) -> int:
    """Return the index of the only column with that name."""
    n = table.names.count(name)
    if n == 0:
        raise CommandError(
            f"{table.source}: there is no column {name!r}; there are {', '.join(table.names)}."
        )
    if n > 1:
        raise CommandError(f"{table.source}: {n} columns have the name {name!r}; rename all but one.")
    return table.names.index(name)


def _infer_time_roles(
    table: Table, parsed: list[tuple[FloatArray, BoolArray]], undecided: list[int], args: argparse.Namespace
) -> dict[int, RoleAndReason]:
    """Recognize columns of times: dates, parts of dates, or numbers in a column named like a time."""
    names = {j: re.sub(r"\s*[(\[].*", "", table.names[j]).lower() for j in undecided}
    numeric = [j for j in undecided if not parsed[j][1].any() and not np.isnan(parsed[j][0]).all()]
    with_time_name = [
        j
        for j in numeric
        if names[j] in _TIME_NAMES
        or table.names[j] == "t"
        or (j == 0 and names[j] in ("", "unnamed: 0"))
        or (names[j] in _ELAPSED_TIME_NAMES and increases(parsed[j][0]))
    ]
    dates, times_of_day = [], []
    for j in undecided:
        if j in numeric:
            reading = compact_dates(parsed[j][0][~np.isnan(parsed[j][0])])
            if reading is not None and (j in with_time_name or reading.format != "YYYYMM"):
                dates.append(j)
            continue
        texts = table.texts[j][~table.missing(j)]
        if len(texts) and is_date(texts, args):
            dates.append(j)
        elif texts.str.fullmatch(TIME_OF_DAY_PATTERN).sum() > 0.5 * len(table.rows):
            times_of_day.append(j)
    if len(dates) > 1:
        shown = ", ".join(repr(table.names[j]) for j in dates)
        raise CommandError(
            f"{table.source}: the columns {shown} contain dates; choose the time of the rows with --time."
        )
    parts = {names[j]: j for j in numeric if names[j] in CALENDAR_FIELDS}
    if dates:
        return {j: ("time", "dates" if j in dates else "times of the day") for j in dates + times_of_day[:1]}
    if {"year", "month"} <= set(parts):
        return {
            j: ("time", "parts of dates")
            for j in [parts[p] for p in CALENDAR_FIELDS if p in parts] + times_of_day[:1]
        }
    return {j: ("time", "named like a time") for j in with_time_name[:1]}


def _infer_other_role(table: Table, j: int, values: FloatArray, is_invalid: BoolArray) -> RoleAndReason:
    """Return the role of a column that is not a time."""
    name, texts = table.names[j], table.texts[j]
    observed = values[~np.isnan(values)]
    words = re.findall(r"[a-z]+\d*", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower()) or [""]
    if not name and not is_invalid.any() and not len(observed):
        return "left out", "empty"
    if is_invalid.any():
        if not len(observed) and texts[is_invalid].str.fullmatch(_TIME_PATTERN).mean() > 0.5:
            return "left out", "times; use them with --time"
        # Texts that begin with a letter, or have no digit, are not numbers.
        is_text = not len(observed) and texts[is_invalid].str.match(r"[^\W\d]|\D*$").all()
        return ("left out", "text") if is_text else ("data", "numbers and texts")
    is_integer = len(observed) > 0 and bool(np.all(observed % 1 == 0))
    if is_integer and "".join(words) in _CALENDAR_NAMES:
        return "left out", "part of the calendar; use it as data with --columns"
    is_row_counter = len(observed) == len(values) > 1 and bool(np.all(np.diff(values) == 1))
    if is_row_counter and j == 0:
        return "left out", "counts the rows; use it as data with --columns"
    if is_integer and words[-1] in _IDENTIFIER_NAMES:
        return (
            "left out",
            "an identifier; use it as data with --columns, or as names of sequences with --group",
        )
    if len(observed) > 2 and np.all(observed == observed[0]):
        return "data", "numbers, constant"
    if len(observed) > 2 and np.all((observed == 0.0) | (observed == 1.0)):
        return "data", "numbers, only zeros and ones (imputed values can lie between them)"
    return "data", "numbers"


def _check_numbers(table: Table, invalid_texts_by_column: dict[int, BoolArray]) -> None:
    """Raise an error with counts of all values that are neither numbers nor missing."""
    problems: list[str] = []
    tokens: list[str] = []
    for j, invalid_texts in invalid_texts_by_column.items():
        texts = table.texts[j][invalid_texts]
        counts = Counter(texts)
        listing = [
            f"{text[:40]!r} ({n}, first in row {table.rows[int((texts == text).idxmax())] + 1})"
            for text, n in counts.most_common(8)
        ]
        tokens += [text for text, _ in counts.most_common()]
        if counts:
            more = f" and {len(counts) - 8} more" if len(counts) > 8 else ""
            problems.append(f"column {table.names[j]!r}: {', '.join(listing)}{more}")
    if not problems:
        return
    more = f"; and {len(problems) - 5} more columns" if len(problems) > 5 else ""
    separator = ";" if table.decimal == "," else ","
    codes = separator.join(token for token in tokens[:8] if separator not in token and token.isprintable())
    option = shlex.quote(f"--missing-code={codes}")
    advice_on_codes = f" {option} if they stand for missing values;" if codes else ""
    is_single_column = len(table.names) == 1
    advice_on_delimiter = (
        f" If {table.delimiter!r} is not the delimiter, name it with --delimiter." if is_single_column else ""
    )
    raise CommandError(
        f"{table.source}: values that are not numbers: {'; '.join(problems[:5])}{more}. "
        f"Give{advice_on_codes} --decimal or --thousands if they are numbers written in another way; or "
        f"leave the column out with --exclude."
        f"{advice_on_delimiter}"
    )
