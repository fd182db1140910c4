"""Which columns of a table tell the time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa.cli._errors import CommandError
from probsfa.cli.tables.choices import Choices
from probsfa.cli.tables.contents import CALENDAR, PARTS, RANGES, Contents, Role, tokens
from probsfa.cli.tables.dates import Reading, read_dates
from probsfa.cli.tables.numeric_dates import compact_dates, epoch_unit, from_parts
from probsfa.cli.tables.spacing import increases
from probsfa.cli.tables.table import Table

__all__ = ["could_be_time", "is_index", "time_roles"]

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


def time_roles(
    table: Table, contents: list[Contents], free: set[int], choices: Choices
) -> dict[int, tuple[Role, str]]:
    """Recognise the columns that tell the time, and those that do so once more.

    Parameters
    ----------
    table : Table
        The file.
    contents : list of Contents
        What is in each of its columns.
    free : set of int
        Columns whose role the user has not given.
    choices : Choices
        What the user says.

    Returns
    -------
    dict of int to (role, why)
        Roles of columns that tell the time; "left out" for those that tell it once more.

    Raises
    ------
    CommandError
        If two columns could tell the time, or a column may hold dates or times of the day.
    """
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
    named = [j for j in numbers if _is_named_time(contents[j], j)]
    dated = sorted(texts) or compact
    roles: dict[int, tuple[Role, str]] = {}
    if dated:
        roles = _dated_roles(table, contents, dated, clocks, free, choices)
        [main, *beside] = roles
        is_late = not beside and not increases(_first_reading(table, contents[main], main, choices).stamps)
        if is_late and choices.group is None and any(_goes_up(contents[j].known) for j in named):
            roles = {}  # dates of something else: when a part was made, say
    if not roles:
        parts = {part: j for j in numbers if (part := contents[j].part) in PARTS}
        if len(named) == 1 or (named and not parts):
            best = min(named, key=lambda j: (not _TIME_WORDS & set(tokens(contents[j].name)), j))
            roles[best] = "time", "numbers under a name of time"
        elif roles_of_parts := _calendar(contents, parts, clocks):
            roles |= roles_of_parts
        elif len(clocks) == 1 or (clocks and not numbers):
            roles[clocks[0]] = "time", "times of the day"
        else:
            counting = [j for j in numbers if is_index(contents[j], j)]
            if counting:
                roles[counting[0]] = "time", "counts the rows" if counting[0] == 0 else "an index"
    if not roles:
        return roles
    for j in sorted(free - set(roles)):
        if j in texts or j in clocks or j in compact or (j in numbers and _is_named_time(contents[j], j)):
            used = ", ".join(repr(table.names[k]) for k in roles if roles[k][0] != "left out")
            roles[j] = "left out", f"tells the time, too; {used} is used, --time chooses"
    return roles


def _dated_roles(
    table: Table,
    contents: list[Contents],
    dated: list[int],
    clocks: list[int],
    free: set[int],
    choices: Choices,
) -> dict[int, tuple[Role, str]]:
    """Roles of the column of dates that tells the time, and of those that complete it."""
    main, has_clock = _main_dates(table, contents, dated, choices)
    roles: dict[int, tuple[Role, str]] = {
        main: ("time", "dates" if has_clock else "dates without a time of the day")
    }
    return roles if has_clock else roles | _clock_beside(contents, clocks, free, table, main)


def could_be_time(column: Contents) -> bool:
    """Whether numbers could be times of rows that are not in order: none comes twice, and none is missing."""
    known = column.known
    return column.n_missing == 0 and len(known) > 3 and len(np.unique(known)) == len(known)


def is_index(column: Contents, place: int) -> bool:
    """Whether a column numbers the rows.

    Parameters
    ----------
    column : Contents
        What is in the column.
    place : int
        Its number. In front, any numbers that count by one do; elsewhere the name must say so, too.
    """
    if column.values is None or column.n_missing or not len(column.known):
        return False
    known = column.known
    named = column.name.lower() in _INDEX_NAMES
    if named and (_goes_up(known) or (place == 0 and np.all(known % 1 == 0) and _is_shuffled_index(known))):
        return True
    in_calendar = "".join(tokens(column.name)) in CALENDAR
    return place == 0 and len(known) > 1 and not in_calendar and bool(np.all(np.diff(known) == 1.0))


def _says_date(name: str) -> bool | None:
    words = set(tokens(name))
    if words & {"date", "datum", "day", "dates", "tag"}:
        return True
    return False if words & {"time", "clock", "zeit", "hour", "uhrzeit"} else None


def _is_compact(column: Contents, place: int) -> bool:
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
    table: Table, contents: list[Contents], dated: list[int], choices: Choices
) -> tuple[int, bool]:
    """Choose among columns of dates; returns the column and whether it has a time of the day."""
    readings = {j: _first_reading(table, contents[j], j, choices) for j in dated}
    goes_up = [j for j in dated if increases(readings[j].stamps)]
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


def _first_reading(table: Table, column: Contents, place: int, choices: Choices) -> Reading:
    if column.values is not None:
        reading = compact_dates(column.known, months=True)
        assert reading is not None
        return reading
    dayfirst = choices.dayfirst
    readings = read_dates(table.texts(place), dayfirst)
    return max(readings, key=lambda reading: increases(reading.stamps))


def _same_steps(a: NDArray[Any], b: NDArray[Any]) -> bool:
    return np.array_equal(np.diff(a), np.diff(b), equal_nan=True)


def _clock_beside(
    contents: list[Contents], clocks: list[int], free: set[int], table: Table, main: int
) -> dict[int, tuple[Role, str]]:
    """Columns that complete a date: a time of the day, or numbers of hours, minutes and seconds."""
    if clocks:
        return {clocks[0]: ("part of the time", "times of the day")}
    dates = table.texts(main)
    if len(set(dates)) == len(dates):
        return {}
    parts = {contents[j].part: j for j in sorted(free) if contents[j].n_missing == 0}
    roles: dict[int, tuple[Role, str]] = {}
    for part in ("hour", "minute", "second"):
        if part not in parts:
            break
        roles[parts[part]] = "part of the time", f"the {part}s of a date"
    return roles


def _is_named_time(column: Contents, place: int) -> bool:
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


def _is_elapsed_part(column: Contents) -> bool:
    """Whether a column has the name of a part of the calendar and numbers beyond it: hours up to 100."""
    part = CALENDAR.get("".join(tokens(column.name)))
    return part in ("day", "hour", "minute", "second", "week") and column.known.max() > RANGES[part][1]


def _is_decimal_year(column: Contents) -> bool:
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


def _calendar(
    contents: list[Contents], parts: dict[str, int], clocks: list[int]
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
    if tells_rows_apart or increases(reading.stamps):
        return roles
    if clocks and "day" in used and "hour" not in used:
        return {j: ("part of the time", why) for j, (_, why) in roles.items()} | {
            clocks[0]: ("part of the time", "times of the day")
        }
    return {}
