"""What the columns of a table are for."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.contents import Contents, Role, read_contents, tokens
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.table import Table
from probsfa.cli.tables.time_columns import could_be_time, is_index, time_roles

__all__ = ["Column", "Plan", "make_plan", "without_values"]

_IDENTIFIERS = frozenset(
    "id ids uid uuid guid rowid rownum recordid station stationid site siteid wmo usaf wban fips zip "
    "zipcode postcode"
    .split()
)  # fmt: skip

_LAST_OF_IDENTIFIERS = frozenset({"id", "ids", "code", "key"})

_COUNTING = frozenset({"no", "nr", "num", "number", "index", "idx", "row", "record", "obs"})


@dataclass(frozen=True)
class Column:
    """What a column is for, and why.

    Attributes
    ----------
    name : str
        Its name.
    role : {"data", "time", "part of the time", "group", "left out"}
        What it is for.
    why : str
        What tells so.
    """

    name: str
    role: Role
    why: str


@dataclass(frozen=True)
class Plan:
    """What the columns of a table are for.

    Attributes
    ----------
    columns : tuple of Column
        One for each column of the table.
    data : list of int
        Numbers of the columns that are modelled, in the order in which they are.
    time : list of int
        Numbers of the columns that tell the time.
    group : int or None
        Number of the column that tells independent sequences apart.
    values : dict of int to ndarray (T,)
        Numbers of the columns that are numbers, NaN where missing.
    """

    columns: tuple[Column, ...]
    data: list[int]
    time: list[int]
    group: int | None = None
    values: dict[int, NDArray[np.float64]] = field(default_factory=dict, repr=False)


def make_plan(table: Table, missing: Missing, choices: Choices | None = None) -> Plan:
    """Decide what the columns of a table are for.

    What the user says comes first. Else these are recognised: dates and times of the day, by what is in their
    cells; numbers under a name of time that go up from row to row; parts of the calendar; a first column that
    counts the rows. Identifiers, text and columns without content are left out.

    Parameters
    ----------
    table : Table
        The file.
    missing : Missing
        What missing cells look like.
    choices : Choices, optional
        What the user says.

    Returns
    -------
    Plan

    Raises
    ------
    CommandError
        If a name is unknown or stands for several columns, choices contradict each other, two columns could
        tell the time, or no column is left.
    """
    choices = choices or Choices()
    contents = [read_contents(table, j, missing) for j in range(len(table.names))]
    roles = _chosen(table, choices)
    if choices.time is None:
        roles |= time_roles(table, contents, {j for j in range(len(contents)) if j not in roles}, choices)
    for j, column in enumerate(contents):
        if j not in roles:
            roles[j] = _other_role(column, j)
    _mark_degenerate(contents, roles)
    columns = tuple(Column(name, *roles[j]) for j, name in enumerate(table.names))
    if choices.columns is None:
        data = [j for j, column in enumerate(columns) if column.role == "data"]
    else:
        data = [_column_named(table, name) for name in dict.fromkeys(choices.columns)]
    if not data:
        reasons = "; ".join(f"{c.name or '(no name)'!r}: {c.role}, {c.why}" for c in columns[:8])
        raise CommandError(
            f"{table.source}: no column of numbers to work on; choose some with --columns ({reasons})."
        )
    plan = Plan(
        columns,
        data,
        [j for j, column in enumerate(columns) if column.role in ("time", "part of the time")],
        next((j for j, column in enumerate(columns) if column.role == "group"), None),
        {
            j: c.values
            for j, c in enumerate(contents)
            if c.values is not None and columns[j].role != "left out"
        },
    )
    for j in data:
        bad = contents[j].bad
        if bad is not None:
            raise table.not_a_number(bad, j)
    _check_names(table, data)
    return plan


def without_values(plan: Plan) -> Plan:
    """Return a plan without the numbers it has read, which can be large."""
    return replace(plan, values={})


def _chosen(table: Table, choices: Choices) -> dict[int, tuple[Role, str]]:
    """The roles that the user has given."""
    roles: dict[int, tuple[Role, str]] = {}
    asked: tuple[tuple[Role, str, Sequence[str]], ...] = (
        ("data", "--columns", choices.columns or ()),
        ("time", "--time", choices.time or ()),
        ("group", "--group", () if choices.group is None else (choices.group,)),
        ("left out", "--exclude", choices.exclude),
    )
    for role, option, names in asked:
        for name in names:
            j = _column_named(table, name)
            other = roles.get(j, (role, option))[1]
            if other != option:
                raise CommandError(f"column {table.names[j]!r} is given to both {other} and {option}.")
            roles[j] = role, option
    return roles


def _other_role(column: Contents, place: int) -> tuple[Role, str]:
    """The role of a column that does not tell the time."""
    if not column.name and column.values is not None and not len(column.known):
        return "left out", "empty"
    if column.shape is not None:
        return "left out", "dates or times; --time takes them"
    if column.is_text:
        return "left out", "text"
    if column.values is None:
        return "data", "numbers, but for some cells"
    if column.part is not None:
        return "left out", "part of the calendar; --columns takes it as data"
    if is_index(column, place):
        return "left out", "counts the rows; --columns takes it as data"
    if {"time", "timestamp", "ts", "t", "elapsed"} & {column.name.lower()} and could_be_time(column):
        return "data", f"numbers, named {column.name!r} but not in order (--time {column.name} takes them so)"
    if _is_identifier(column):
        return "left out", "an identifier; --columns takes it as data, --group for sequences of their own"
    return "data", "numbers"


def _mark_degenerate(contents: list[Contents], roles: dict[int, tuple[Role, str]]) -> None:
    """Say of data columns that they are constant, or the same as another one: they tell a model nothing."""
    seen: dict[bytes, str] = {}
    for j, column in enumerate(contents):
        role, why = roles[j]
        if role != "data" or column.values is None or len(column.known) < 3:
            continue
        if np.all(column.known == column.known[0]):
            roles[j] = role, f"{why}, constant"
        same = seen.setdefault(column.values.tobytes(), column.name)
        if same != column.name:
            roles[j] = role, f"{why}, the same as in {same!r}"


def _is_identifier(column: Contents) -> bool:
    """Whether a column of numbers names things: its name says so, and its numbers are whole."""
    known, words = column.known, tokens(column.name)
    if not len(known) or np.any(known % 1 != 0) or not words:
        return False
    if "".join(words) in _IDENTIFIERS or (len(words) > 1 and words[-1] in _LAST_OF_IDENTIFIERS):
        return True
    counts = len(known) > 2 and (np.all(np.diff(known) == 1) or np.all(known == known[0]))
    return bool(words[-1] in _COUNTING and counts)


def _column_named(table: Table, name: str) -> int:
    """Return the number of the one column of that name, or raise a CommandError."""
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
    """Refuse two data columns of one name: a model knows its columns by their names."""
    seen: dict[str, int] = {}
    for j in data:
        name = table.names[j]
        if name in seen:
            raise CommandError(
                f"{table.source}: columns {seen[name] + 1} and {j + 1} both have the name {name!r}; rename "
                "one of them."
            )
        seen[name] = j
