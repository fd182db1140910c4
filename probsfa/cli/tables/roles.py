"""What the columns of a table are for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.dates import Reading, compact_dates, date_shape, epoch_unit, from_parts, read_dates
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.table import Table

__all__ = ["CALENDAR", "Choices", "Column", "Plan", "Role", "make_plan", "tokens", "without_values"]

Role = Literal["data", "time", "part of the time", "group", "left out"]

# Names of the parts of a calendar, as people write them.
CALENDAR = {
    "year": "year", "yr": "year", "yyyy": "year", "jahr": "year",
    "month": "month", "mon": "month", "monat": "month",
    "day": "day", "dayofmonth": "day", "tag": "day",
    "doy": "dayofyear", "dayofyear": "dayofyear", "yday": "dayofyear", "jday": "dayofyear",
    "hour": "hour", "hr": "hour", "stunde": "hour",
    "minute": "minute",
    "second": "second",
    "weekday": "weekday", "dayofweek": "weekday", "dow": "weekday", "week": "week",
    "quarter": "quarter",
}  # fmt: skip
_PARTS = ("year", "month", "day", "dayofyear", "hour", "minute", "second")
# The largest and smallest number of each part.
_RANGES = {
    "year": (0, 9999), "month": (1, 12), "day": (1, 31), "dayofyear": (1, 366), "hour": (0, 24),
    "minute": (0, 59), "second": (0, 60), "weekday": (0, 7), "week": (0, 53), "quarter": (1, 4),
}  # fmt: skip

_TIME_WORDS = frozenset(
    "time timestamp timestamps ts datetime date dates period epoch unix unixtime posix utc elapsed clock "
    "when zeit datum"
    .split()
)  # fmt: skip
_UNIT_WORDS = frozenset(
    "seconds secs millis milliseconds ms minutes mins hours hrs days weeks months years "
    "decyear julian jd mjd".split()
)
_INDEX_NAMES = frozenset(
    {"", "index", "id", "no", "no.", "nr", "row", "step", "t", "time", "unnamed: 0", "frame"}
)
_IDENTIFIERS = frozenset(
    "id ids uid uuid guid rowid rownum recordid station stationid site siteid wmo usaf wban fips zip "
    "zipcode postcode"
    .split()
)  # fmt: skip
_LAST_OF_IDENTIFIERS = frozenset({"id", "ids", "code", "key"})
_COUNTING = frozenset({"no", "nr", "num", "number", "index", "idx", "row", "record", "obs"})


@dataclass(frozen=True)
class Choices:
    """What the user says about the columns.

    Attributes
    ----------
    columns, exclude, time : list of str or None
        Names of the data columns, of columns to leave out, and of columns that tell the time.
    group : str or None
        Name of the column that tells independent sequences apart.
    dayfirst : bool or None
        Whether the day comes before the month in dates that end in the year.
    date_format, epoch : str or None
        The format of dates; the unit of numbers that count from 1970.
    sort, even : bool
        Whether to sort the rows by time; whether to take them as evenly spaced.
    """

    columns: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    time: Sequence[str] | None = None
    group: str | None = None
    dayfirst: bool | None = None
    date_format: str | None = None
    epoch: str | None = None
    sort: bool = False
    even: bool = False


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


@dataclass(frozen=True)
class _Contents:
    """What is in a column: numbers (with NaN where missing), or texts of some shape."""

    name: str
    values: NDArray[np.float64] | None
    n_missing: int
    shape: str | None = None
    bad: int | None = None
    is_text: bool = False

    @property
    def known(self) -> NDArray[np.float64]:
        values = np.zeros(0) if self.values is None else self.values
        return values[~np.isnan(values)]

    @property
    def part(self) -> str | None:
        """Which part of the calendar the column is, if its name and its numbers say so."""
        part = CALENDAR.get("".join(tokens(self.name)))
        known = self.known
        if part is None or not len(known) or np.any(known % 1 != 0):
            return None
        low, high = _RANGES[part]
        return part if known.min() >= low and known.max() <= high else None


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
    contents = [_contents(table, j, missing) for j in range(len(table.names))]
    roles = _chosen(table, choices)
    if choices.time is None:
        roles |= _time_roles(table, contents, {j for j in range(len(contents)) if j not in roles}, choices)
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


def tokens(name: str) -> list[str]:
    """Split the name of a column into words.

    Examples
    --------
    >>> tokens("Unix_Time"), tokens("stationId"), tokens("time (s)")
    (['unix', 'time'], ['station', 'id'], ['time', 's'])
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[^\W\d_A-Z]+|[A-Z]+(?![^\W\d_A-Z])|\d+", name)]


def _contents(table: Table, column: int, missing: Missing) -> _Contents:
    texts = table.texts(column)
    values, bad = table.style.numbers(texts, missing)
    name, n_missing = table.names[column], int(np.isnan(values).sum()) - len(bad)
    if not bad:
        return _Contents(name, values, n_missing)
    odd = [texts[i] for i in bad]
    shape = date_shape(odd) if 2 * len(bad) >= len(texts) - n_missing else None
    is_text = len(bad) == len(texts) - n_missing and all(_is_word(text) for text in odd)
    return _Contents(name, None, n_missing, shape, bad[0], is_text)


def _is_word(text: str) -> bool:
    """Whether a text cannot be meant as a number: it begins with a letter, or has no digit."""
    return text[0].isalpha() or not any(c.isdigit() for c in text)


def _chosen(table: Table, choices: Choices) -> dict[int, tuple[Role, str]]:
    """The roles that the user has given."""
    roles: dict[int, tuple[Role, str]] = {}
    data = [_column_named(table, name) for name in choices.columns or ()]
    out = [_column_named(table, name) for name in choices.exclude]
    for j in out:
        if j in data:
            raise CommandError(f"column {table.names[j]!r} is given to both --columns and --exclude.")
        roles[j] = "left out", "--exclude"
    for name in choices.time or ():
        j = _column_named(table, name)
        if j in out:
            raise CommandError(f"column {table.names[j]!r} is given to both --time and --exclude.")
        roles[j] = "time", "--time"
    if choices.group is not None:
        j = _column_named(table, choices.group)
        if j in data:
            raise CommandError(f"column {table.names[j]!r} is given to both --columns and --group.")
        roles[j] = "group", "--group"
    roles |= {j: ("data", "--columns") for j in data}
    return roles


def _other_role(column: _Contents, place: int) -> tuple[Role, str]:
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
    if _is_index(column, place):
        return "left out", "counts the rows; --columns takes it as data"
    if {"time", "timestamp", "ts", "t", "elapsed"} & {column.name.lower()} and _could_be_time(column):
        return "data", f"numbers, named {column.name!r} but not in order (--time {column.name} takes them so)"
    if _is_identifier(column):
        return "left out", "an identifier; --columns takes it as data, --group for sequences of their own"
    return "data", "numbers"


def _mark_degenerate(contents: list[_Contents], roles: dict[int, tuple[Role, str]]) -> None:
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


def _is_identifier(column: _Contents) -> bool:
    """Whether a column of numbers names things: its name says so, and its numbers are whole."""
    known, words = column.known, tokens(column.name)
    if not len(known) or np.any(known % 1 != 0) or not words:
        return False
    if "".join(words) in _IDENTIFIERS or (len(words) > 1 and words[-1] in _LAST_OF_IDENTIFIERS):
        return True
    counts = len(known) > 2 and (np.all(np.diff(known) == 1) or np.all(known == known[0]))
    return bool(words[-1] in _COUNTING and counts)


def _time_roles(
    table: Table, contents: list[_Contents], free: set[int], choices: Choices
) -> dict[int, tuple[Role, str]]:
    """Recognise the columns that tell the time, and those that do so once more."""
    texts = [j for j in sorted(free) if contents[j].shape == "date"]
    clocks = [j for j in sorted(free) if contents[j].shape == "clock"]
    for j in (j for j in sorted(free) if contents[j].shape == "either"):
        is_date = _says_date(contents[j].name)
        if is_date is None and (texts or choices.date_format):
            is_date = not texts
        if is_date is None:
            raise CommandError(
                f"{table.where(0, j)}: {table.text(0, j)!r} may be a date or a time of the day; say so with "
                "--date-format, such as %d.%m.%y or %H.%M.%S."
            )
        (texts if is_date else clocks).append(j)
    numbers = {j: contents[j].values for j in sorted(free) if contents[j].values is not None}
    compact = [j for j in numbers if _is_compact(contents[j], j)]
    dated = sorted(texts) or compact
    roles: dict[int, tuple[Role, str]] = {}
    if dated:
        main, has_clock = _main_dates(table, contents, dated, choices)
        roles[main] = "time", "dates" if has_clock else "dates without a time of the day"
        if not has_clock:
            roles |= _clock_beside(contents, clocks, free, table, main)
    else:
        named = [j for j in numbers if _is_named_time(contents[j], j)]
        parts = {part: j for j in numbers if (part := contents[j].part) in _PARTS}
        if len(named) == 1 or (named and not parts):
            best = min(named, key=lambda j: (not _TIME_WORDS & set(tokens(contents[j].name)), j))
            roles[best] = "time", "numbers under a name of time"
        elif roles_of_parts := _calendar(contents, parts, clocks):
            roles |= roles_of_parts
        elif len(clocks) == 1 or (clocks and not numbers):
            roles[clocks[0]] = "time", "times of the day"
        else:
            counting = [j for j in numbers if _is_index(contents[j], j)]
            if counting:
                roles[counting[0]] = "time", "counts the rows" if counting[0] == 0 else "an index"
    if not roles:
        return roles
    for j in sorted(free - set(roles)):
        if j in texts or j in clocks or j in compact or (j in numbers and _is_named_time(contents[j], j)):
            used = ", ".join(repr(table.names[k]) for k in roles if roles[k][0] != "left out")
            roles[j] = "left out", f"tells the time, too; {used} is used, --time chooses"
    return roles


def _says_date(name: str) -> bool | None:
    words = set(tokens(name))
    if words & {"date", "datum", "day", "dates", "tag"}:
        return True
    return False if words & {"time", "clock", "zeit", "hour", "uhrzeit"} else None


def _is_compact(column: _Contents, place: int) -> bool:
    """Whether numbers are dates such as 20130131, and their name or their order does not contradict."""
    named = bool(
        set(tokens(column.name)) & (_TIME_WORDS | {"day", "month", "ymd", "yearmonth", "yyyymm", "yyyymmdd"})
    )
    known = column.known
    if column.values is None or column.n_missing > 0.2 * len(column.values) or not len(known):
        return False
    reading = compact_dates(known, months=named)
    if reading is None:
        return False
    return named or place == 0 or bool(len(known) > 2 and np.all(np.diff(known) > 0))


def _main_dates(
    table: Table, contents: list[_Contents], dated: list[int], choices: Choices
) -> tuple[int, bool]:
    """Choose among columns of dates; returns the column and whether it has a time of the day."""
    readings = {j: _first_reading(table, contents[j], j, choices) for j in dated}
    goes_up = [j for j in dated if _increases(readings[j].stamps)]
    main = (goes_up or dated)[0]
    rivals = [
        j
        for j in (goes_up or dated)
        if j != main and not _same_steps(readings[j].stamps, readings[main].stamps)
    ]
    # A date and its time of the day may both be written with a date.
    if rivals and choices.group is None and not choices.even:
        names = ", ".join(repr(table.names[j]) for j in [main, *rivals])
        raise CommandError(
            f"{table.source}: {names} could each tell the time of a row; choose one with --time."
        )
    return main, readings[main].has_clock


def _first_reading(table: Table, column: _Contents, place: int, choices: Choices) -> Reading:
    if column.values is not None:
        reading = compact_dates(column.known, months=True)
        assert reading is not None
        return reading
    dayfirst = choices.dayfirst
    readings = read_dates(table.texts(place), dayfirst)
    return max(readings, key=lambda reading: _increases(reading.stamps))


def _increases(stamps: NDArray[Any]) -> bool:
    return bool(not np.isnat(stamps).any() and np.all(stamps[1:] > stamps[:-1]))


def _same_steps(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return np.array_equal(np.diff(a), np.diff(b), equal_nan=True)


def _clock_beside(
    contents: list[_Contents], clocks: list[int], free: set[int], table: Table, main: int
) -> dict[int, tuple[Role, str]]:
    """Columns that complete a date: a time of the day, or numbers of hours, minutes and seconds."""
    if clocks:
        return {clocks[0]: ("part of the time", "times of the day")}
    dates = table.texts(main)
    if len(set(dates)) == len(dates):
        return {}
    parts = {contents[j].part: j for j in sorted(free) if contents[j].n_missing == 0}
    found: dict[int, tuple[Role, str]] = {}
    for part in ("hour", "minute", "second"):
        if part not in parts:
            break
        found[parts[part]] = "part of the time", f"the {part}s of a date"
    return found


def _is_named_time(column: _Contents, place: int) -> bool:
    """Whether numbers tell the time by their name, and by their order or their size."""
    values, known = column.values, column.known
    words = set(tokens(column.name))
    if values is None or len(known) < 1 or column.n_missing > 0.2 * len(values):
        return False
    by_word = bool(words & _TIME_WORDS) or column.name in ("t",) or _is_decimal_year(column)
    by_unit = bool(words & _UNIT_WORDS) or _is_elapsed_part(column)
    first_unnamed = place == 0 and not column.name
    if by_word and epoch_unit(known) is not None:
        return True
    if first_unnamed and epoch_unit(known) is not None and _goes_up(known):
        return True
    if column.n_missing and len(known) < 4:
        return False
    if by_word and (_goes_up(known, strictly=False) or _is_shuffled_index(known)):
        return True
    return by_unit and len(known) > 1 and _goes_up(known)


def _could_be_time(column: _Contents) -> bool:
    """Whether numbers could be times of rows that are not in order: none comes twice, and none is missing."""
    known = column.known
    return column.n_missing == 0 and len(known) > 3 and len(np.unique(known)) == len(known)


def _is_elapsed_part(column: _Contents) -> bool:
    """Whether a column has the name of a part of the calendar and numbers beyond it: hours up to 100."""
    part = CALENDAR.get("".join(tokens(column.name)))
    return part in ("day", "hour", "minute", "second", "week") and column.known.max() > _RANGES[part][1]


def _is_decimal_year(column: _Contents) -> bool:
    known, words = column.known, set(tokens(column.name))
    if not words & {"year", "years", "yr", "decimal", "decyear", "date", "time", "jahr"}:
        return False
    return bool(len(known) and known.min() > 1500 and known.max() < 2500 and np.any(known % 1 != 0))


def _goes_up(known: NDArray[np.float64], *, strictly: bool = True) -> bool:
    steps = np.diff(known)
    return bool(
        np.all(steps > 0.0) if strictly else np.all(steps >= 0.0) and (not len(steps) or np.any(steps > 0))
    )


def _is_shuffled_index(known: NDArray[np.float64]) -> bool:
    """Whether numbers are evenly spaced once they are sorted."""
    if len(known) < 4:
        return False
    steps = np.diff(np.sort(known))
    return bool(steps[0] > 0 and np.ptp(steps) <= 1e-9 * steps[0])


def _is_index(column: _Contents, place: int) -> bool:
    """Whether a column numbers the rows: by its name, or in front."""
    if column.values is None or column.n_missing or not len(column.known):
        return False
    known = column.known
    named = column.name.lower() in _INDEX_NAMES
    if named and (_goes_up(known) or (place == 0 and np.all(known % 1 == 0) and _is_shuffled_index(known))):
        return True
    in_calendar = "".join(tokens(column.name)) in CALENDAR
    return place == 0 and len(known) > 1 and not in_calendar and bool(np.all(np.diff(known) == 1.0))


def _calendar(
    contents: list[_Contents], parts: dict[str, int], clocks: list[int]
) -> dict[int, tuple[Role, str]]:
    """Roles of columns that make dates together: years, months and so on, without gaps in between.

    Where there are no years, the rows must be in order: nothing else tells one year or day from the next.
    """
    chain = ["year"]
    chain += ["dayofyear"] if "month" not in parts and "dayofyear" in parts else ["month", "day"]
    chain += ["hour", "minute", "second"]
    used: dict[str, int] = {}
    for part in chain[next((i for i, part in enumerate(chain) if part in parts), 0) :]:
        if part not in parts:
            break
        used[part] = parts[part]
    values = {part: contents[j].values for part, j in used.items()}
    reading = from_parts({part: v for part, v in values.items() if v is not None})
    if reading is None:
        return {}
    roles: dict[int, tuple[Role, str]] = {
        j: ("time" if len(used) == 1 else "part of the time", f"{part}s of the date")
        for part, j in used.items()
    }
    tells_rows_apart = "year" in used and len(np.unique(reading.stamps)) == len(reading.stamps)
    if tells_rows_apart or _increases(reading.stamps):
        return roles
    if clocks and "day" in used and "hour" not in used:
        return {j: ("part of the time", why) for j, (_, why) in roles.items()} | {
            clocks[0]: ("part of the time", "times of the day")
        }
    return {}


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


def without_values(plan: Plan) -> Plan:
    """Return a plan without the numbers it has read, which can be large."""
    return replace(plan, values={})
