"""Conversion of the times of rows (dates, durations, numbers, or an index) to float64.

Numbers are not converted. Dates (``datetime64``, a ``DatetimeIndex``, ``datetime`` objects) are converted to
seconds since 1970-01-01 UTC, durations to seconds. The order of dates is checked on their integers, before
the conversion. Seconds since 1970 in float64 have a resolution of about 0.2 microseconds; uneven dates whose
steps are below ten times this resolution raise an error.
"""

import re
import sys
import warnings
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import index_of_data_array, is_data_array
from probsfa._typing import FloatArray

__all__ = [
    "TimeAxis",
    "TimeIndex",
    "calendar_seconds",
    "describe_index",
    "duration_text",
    "has_times",
    "index_of",
    "read_time_index",
    "read_times",
    "seconds_of",
    "timescales_from_decay",
]

# ---------------------------------------------------------------------------------------------- given times

_DURATIONS = (
    (86_400.0, "d"),
    (3600.0, "h"),
    (60.0, "min"),
    (1.0, "s"),
    (1e-3, "ms"),
    (1e-6, "us"),
    (1e-9, "ns"),
)
# Minimum step of uneven dates, relative to the resolution of seconds in double precision.
_MIN_RESOLVED_STEPS = 10.0

_UNIT_NAMES = {
    **{name: seconds for seconds, name in _DURATIONS},
    **{"D": 86_400.0, "day": 86_400.0, "days": 86_400.0, "H": 3600.0, "hour": 3600.0, "hours": 3600.0},
    **{"W": 604_800.0, "week": 604_800.0, "weeks": 604_800.0, "m": 60.0, "minutes": 60.0, "seconds": 1.0},
    **{"Y": 31_556_952.0, "year": 31_556_952.0, "years": 31_556_952.0},
}


def seconds_of(duration: Any, name: str = "duration") -> float:
    """Return a duration in seconds.

    Parameters
    ----------
    duration : str, timedelta or timedelta64
        Duration. A text has a unit and usually a number, as in ``"24h"``, ``"1D"``, ``"7 days"``, ``"h"``. A
        year has 365.2425 days.
    name : str
        Name of the argument in error messages.

    Raises
    ------
    ValueError
        If a text is not a duration.

    Examples
    --------
    >>> seconds_of("24h"), seconds_of("1D"), seconds_of("0.5 min")
    (86400.0, 86400.0, 30.0)
    """
    if isinstance(duration, np.timedelta64):
        return float(duration / np.timedelta64(1, "ns")) * 1e-9
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    parts = re.fullmatch(r"\s*([0-9.eE+]*?)\s*([A-Za-z]+)\s*", str(duration))
    if parts is not None and parts[2] in _UNIT_NAMES:
        try:
            return (float(parts[1]) if parts[1] else 1.0) * _UNIT_NAMES[parts[2]]
        except ValueError:
            pass
    raise ValueError(f"{name} has {duration!r}, which is not a duration such as '24h', '1D' or '30min'.")


class TimeAxis(NamedTuple):
    """Unit and calendar of the times of rows.

    Attributes
    ----------
    kind : {"rows", "numbers", "dates", "unknown"}
        "rows" without times; "numbers" in an unknown unit; "dates" also for durations; "unknown" in files of
        earlier versions.
    calendar : {"day", "month", "business day"} or None
        Calendar of rows that are evenly spaced in the calendar but not in seconds, such as months. A time is
        then the number of calendar steps since 1970, multiplied by the mean duration of a step in seconds.
    from_index : bool
        Whether the times are from the index of a DataFrame.
    even : bool
        Whether rows are evenly spaced; also true for sequences of one row.
    unit : float
        Unit of dates and durations in seconds: the median time step in a fit, otherwise 1.
    """

    kind: str = "rows"
    calendar: str | None = None
    from_index: bool = False
    even: bool = True
    unit: float = 1.0

    def seconds(self, time_unit: float) -> float | None:
        """Convert `time_unit` from the unit of the times to seconds; return None if the unit is unknown."""
        return self.unit * time_unit if self.kind == "dates" else None


class TimeIndex(NamedTuple):
    """Times of all rows, from `times=` or from the index of DataFrames.

    Attributes
    ----------
    times : ndarray (N,)
        Times: numbers unchanged; dates and durations in units of ``axis.unit`` seconds.
    axis : TimeAxis
        Unit and calendar of the times.
    step : float or None
        Exact time between evenly spaced rows; None for other rows.
    median_step : float or None
        Median time between the rows of a sequence; None if no sequence has two rows.
    labels : tuple or None
        Dates, durations or periods of each sequence in the type of the input; None for numbers.
    """

    times: NDArray[np.float64]
    axis: TimeAxis
    step: float | None
    median_step: float | None
    labels: tuple[Any, ...] | None

    def in_steps(self) -> "TimeIndex":
        """Return dates and durations in units of their median step; numbers unchanged."""
        unit = self.median_step
        if self.axis.kind != "dates" or unit is None:
            return self
        step = None if self.step is None else 1.0
        return TimeIndex(self.times / unit, self.axis._replace(unit=unit), step, 1.0, self.labels)


def median_step(pieces: Sequence[NDArray[np.float64]]) -> float | None:
    """Return the median time between the rows of sequences; None if no sequence has two rows."""
    gaps = np.concatenate([np.diff(piece) for piece in pieces])
    return float(np.median(gaps)) if gaps.size else None


def read_times(
    times: Any,
    lengths: Sequence[int],
    *,
    as_list: bool,
    name: str = "times",
    even_steps_known: bool = False,
) -> TimeIndex:
    """Validate times of observation, and return them in order of the rows.

    Parameters
    ----------
    times : array-like (N,) or list of array-like
        Numbers, dates or durations, strictly increasing inside every sequence. With `as_list`, a list with
        one entry per sequence.
    lengths : sequence of int
        Number of rows of every sequence; their sum is N.
    as_list : bool
        Whether the data are a list of sequences, so that the times must also be a list.
    name : str
        Name of the argument in error messages.
    even_steps_known : bool, default=False
        Whether the caller computes the step of evenly spaced rows from the exact dates. Rounding errors of
        the times then have no effect.

    Returns
    -------
    TimeIndex
        ``times`` (N,) are numbers unchanged, dates as seconds since 1970-01-01 UTC, or durations in seconds.

    Raises
    ------
    ValueError
        If the length is wrong, a time is missing, infinite or of another type, or the times of a sequence do
        not increase or are closer than the resolution of seconds in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> dates = np.array(["1970-01-01T00", "1970-01-01T06"], dtype="datetime64[h]")
    >>> read_times(dates, [2], as_list=False).times
    array([    0., 21600.])
    """
    if not as_list:
        edges = np.cumsum([0, *lengths])
        ticks = _ticks(times, int(edges[-1]), name)
        rows = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        pieces = [ticks[sequence_rows] for sequence_rows in rows]
        sequence_names = [name if len(pieces) == 1 else f"{name} (sequence {i})" for i in range(len(pieces))]
    else:
        if not isinstance(times, list) or len(times) != len(lengths):
            received = f"a list of {len(times)}" if isinstance(times, list) else f"a {type(times).__name__}"
            raise ValueError(
                f"X is a list of {len(lengths)} sequences, so {name} must be a list of {len(lengths)} "
                f"arrays, one per sequence; got {received}."
            )
        sequence_names = [f"{name}[{i}]" for i in range(len(times))]
        pieces = [
            _ticks(t, n, sequence_name)
            for t, n, sequence_name in zip(times, lengths, sequence_names, strict=True)
        ]
        kinds = {_kind_of(p) for p in pieces}
        if len(kinds) > 1:
            raise ValueError(f"{name} mixes {' and '.join(sorted(kinds))}. Use one kind for all sequences.")
    checked = []
    for piece, sequence_name in zip(pieces, sequence_names, strict=True):
        _check_increasing(piece, sequence_name)
        seconds = _to_float(piece)
        _check_resolution(piece, seconds, sequence_name, even_steps_known)
        checked.append(seconds)
    kind = "numbers" if _kind_of(pieces[0]) == "numbers" else "dates"
    axis = TimeAxis(kind, even=_is_even(checked))
    times_of_sequences = None
    if kind == "dates":
        by_position = getattr(times, "iloc", times)
        times_of_sequences = (
            tuple(times) if as_list else tuple(by_position[sequence_rows] for sequence_rows in rows)
        )
    return TimeIndex(np.concatenate(checked), axis, None, median_step(checked), times_of_sequences)


def _is_even(pieces: list[NDArray[np.float64]]) -> bool:
    """Return whether all rows are evenly spaced, up to rounding."""
    gaps = np.concatenate([np.diff(piece) for piece in pieces])
    return gaps.size == 0 or bool(np.all(np.abs(gaps - gaps[0]) <= 1e-6 * gaps[0]))


def duration_text(seconds: float) -> str:
    """Return a time span as text, in the largest unit that it exceeds.

    Examples
    --------
    >>> duration_text(5400.0), duration_text(0.02)
    ('1.5 h', '20 ms')
    """
    size, unit = next((entry for entry in _DURATIONS if seconds >= entry[0] * (1.0 - 1e-9)), _DURATIONS[-1])
    return f"{seconds / size:.6g} {unit}"


def _ticks(times: Any, n_rows: int, name: str) -> NDArray[Any]:
    """Return the times as a one-dimensional array of int, float, datetime64 or timedelta64."""
    if isinstance(times, np.ma.MaskedArray) and np.ma.getmaskarray(times).any():
        row = int(np.argmax(np.ma.getmaskarray(times)))
        raise ValueError(
            f"{name} must be finite; row {row} is masked. Every row requires a time, also a row without "
            "observed values."
        )
    if isinstance(times, str):
        raise ValueError(f"{name} is the text {times!r}; expected {n_rows} times, such as X[{times!r}].")
    array = np.asarray(times)
    if array.ndim != 1 or array.shape[0] != n_rows:
        raise ValueError(f"{name} must have shape ({n_rows},), one for each row; got shape {array.shape}.")
    if array.dtype.kind == "O" and n_rows and isinstance(array[0], datetime):
        try:
            array = np.array([_without_zone(t) for t in array], dtype="datetime64[us]")
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"{name} mixes dates with other types. Use dates only.") from None
    if array.dtype.kind == "O" and n_rows and all(type(t) is date for t in array):
        array = np.array(array, dtype="datetime64[D]")
    if array.dtype.kind in "OUS":
        # NumPy would convert text such as "1.5" silently.
        text = next((t for t in array if isinstance(t, (str, bytes))), None)
        if text is not None:
            raise ValueError(
                f"{name} holds text ({str(text)!r}). Use numbers or dates, for example by "
                f"pandas.to_datetime({name})."
            )
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            periods = hasattr(array[0], "to_timestamp")
            advice = " Use the dates at which the periods start: times.to_timestamp()." if periods else ""
            raise ValueError(
                f"{name} must contain numbers or dates; got {type(array[0]).__name__}.{advice}"
            ) from None
    if array.dtype.kind not in "iufMm":
        raise ValueError(f"{name} must contain numbers or dates; got dtype {array.dtype}.")
    missing = np.isnat(array) if array.dtype.kind in "Mm" else ~np.isfinite(array)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} must be finite; row {row} is {array[row]}. Every row requires a time, also a row "
            "without observed values."
        )
    return array


def _without_zone(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _kind_of(ticks: NDArray[Any]) -> str:
    return {"M": "dates", "m": "durations"}.get(ticks.dtype.kind, "numbers")


def _to_float(ticks: NDArray[Any]) -> NDArray[np.float64]:
    if ticks.dtype.kind == "M":
        ticks = ticks - np.datetime64(0, "s")
    if ticks.dtype.kind == "m":
        return np.asarray(ticks / np.timedelta64(1, "s"), dtype=np.float64)
    return ticks.astype(np.float64)


def _check_resolution(
    ticks: NDArray[Any], seconds: NDArray[np.float64], name: str, even_steps_known: bool
) -> None:
    """Raise a ValueError if the steps between rows are too small for times in double precision."""
    steps = np.diff(ticks)
    kind = ticks.dtype.kind
    with np.errstate(invalid="ignore"):
        exact = kind == "f" or (kind in "iu" and bool(np.all(seconds.astype(ticks.dtype) == ticks)))
    if exact or steps.size == 0:
        _check_increasing(seconds, name)
        return
    resolution = float(np.spacing(np.abs(seconds).max()))
    min_step = float(steps.min() / np.timedelta64(1, "s")) if kind in "Mm" else float(steps.min())
    exact_steps = even_steps_known and bool(np.all(steps == steps[0]))
    if min_step >= (1.0 if exact_steps else _MIN_RESOLVED_STEPS) * resolution:
        return
    if kind in "iu":
        raise ValueError(
            f"{name} has rows that are {min_step:g} apart: times are numbers in double precision, whose "
            f"resolution at such large values is only {resolution:g}. Use times since the first row: "
            f"{name} - {name}[0]."
        )
    raise ValueError(
        f"{name} has rows that are {duration_text(min_step)} apart, but seconds since 1970 in double "
        f"precision resolve only {duration_text(resolution)}. Use durations since the first row, such as "
        "times = dates - dates[0]."
    )


def _check_increasing(ticks: NDArray[Any], name: str) -> None:
    """Raise a ValueError unless every time is later than the previous one."""
    not_increasing = ticks[1:] <= ticks[:-1]
    if not_increasing.any():
        row = int(np.argmax(not_increasing)) + 1
        problem = "repeats the time" if ticks[row] == ticks[row - 1] else "is earlier than the time"
        raise ValueError(
            f"{name} must increase strictly: row {row} ({ticks[row]}) {problem} of row {row - 1} "
            f"({ticks[row - 1]}). Sort the rows by time and merge or drop repeated times."
        )


# ----------------------------------------------------------------------------------------- index of a frame

# Times of rows, from `times=` or from the index of a frame: dates, durations, periods, or numbers.
#
# Rows are evenly spaced if all steps are equal in seconds (such as hours) or in a calendar (such as months,
# business days, or days in a time zone with daylight saving time). Otherwise they are unevenly spaced. An
# index of numbers or text is not used.

#: Mean seconds of one step of each calendar.
CALENDARS = {"day": 86_400.0, "month": 365.2425 / 12.0 * 86_400.0, "business day": 7.0 / 5.0 * 86_400.0}
_KINDS = {
    "datetime64": "dates",
    "datetime": "dates",
    "date": "dates",
    "period": "periods",
    "timedelta64": "durations",
    "timedelta": "durations",
}
#: Number of ticks in a second, for each time unit of pandas.
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DATE_PATTERN = re.compile(r"\s*\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ]\d{1,2}:\d{2}.*)?\s*$")


def index_of(X: Any) -> Any:
    """Return the index of a DataFrame or of the rows of a DataArray, None for everything else."""
    if is_data_array(X):
        return index_of_data_array(X)
    pandas = sys.modules.get("pandas")
    return X.index if pandas is not None and isinstance(X, pandas.DataFrame) else None


def has_times(index: Any) -> bool:
    """Return whether an index of pandas, or None, has dates, durations or periods."""
    return index is not None and index.nlevels == 1 and index.inferred_type in _KINDS


def read_time_index(
    X: Any,
    lengths: Sequence[int],
    *,
    as_list: bool,
    times: Any = None,
    axis: TimeAxis | None = None,
) -> TimeIndex | None:
    """Return the times of all rows.

    Parameters
    ----------
    X : object
        Data of the user: a DataFrame, or a list of DataFrames; other types have no index.
    lengths : sequence of int
        Rows of every sequence.
    as_list : bool
        Whether the data are a list of sequences.
    times : array-like or list of array-likes, optional
        Explicit times; they have priority over the index.
    axis : TimeAxis, optional
        Time axis of a fitted model, whose calendar converts dates to seconds. None in a fit; the unit is then
        the median step of the dates.

    Returns
    -------
    TimeIndex or None
        None if there are neither `times` nor an index of dates, durations or periods.

    Raises
    ------
    ValueError
        If times are missing, repeated or out of order, or only some sequences have times.

    Warns
    -----
    UserWarning
        If an index probably contains times in an unsupported form.

    Examples
    --------
    >>> import pandas as pd
    >>> months = pd.date_range("2024-01-01", periods=3, freq="MS")
    >>> read = read_time_index(pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=months), [3], as_list=False)
    >>> read.step, read.axis.unit / 86_400, read.axis.calendar
    (1.0, 30.436875, 'month')
    """
    calendar = None if axis is None else axis.calendar
    if times is None:
        infer = axis is None or axis.kind != "dates"
        index = _read_index(X, lengths, as_list=as_list, calendar=calendar, infer=infer)
    else:
        index = read_times(times, lengths, as_list=as_list)
        if calendar is not None and index.labels is not None:
            import pandas as pd  # the calendar came from an index of pandas

            indexes = [pd.Index(piece) for piece in index.labels]
            index = _read_dates(indexes, ["times"] * len(indexes), calendar=calendar)
    return index if index is None or axis is not None else index.in_steps()


def _read_index(
    X: Any, lengths: Sequence[int], *, as_list: bool, calendar: str | None, infer: bool
) -> TimeIndex | None:
    """Return the times of the index of DataFrames, in seconds.

    With `infer`, a calendar is used if all steps are equal in it.
    """
    indexes = [index_of(x) for x in (X if as_list else [X])]
    names = [f"X[{i}]" for i in range(len(indexes))] if as_list else ["X"]
    index_names = [
        f"{name}.indexes[{x.dims[0]!r}]" if is_data_array(x) else f"{name}.index"
        for name, x in zip(names, X if as_list else [X], strict=True)
    ]
    if not any(has_times(index) for index in indexes):
        for index, index_name in zip(indexes, index_names, strict=True):
            _warn_of_unused_index(index, index_name)
        return None
    without_times = next((i for i, index in enumerate(indexes) if not has_times(index)), None)
    if without_times is not None:
        first_with_times = next(i for i, index in enumerate(indexes) if has_times(index))
        raise ValueError(
            f"X[{first_with_times}] has an index of times and X[{without_times}] has no such index. Set one "
            "for all sequences, or pass times= with one array for each."
        )
    if not as_list:
        edges = np.cumsum([0, *lengths])
        indexes = [indexes[0][a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        if len(indexes) > 1:
            index_names = [f"{index_names[0]} (sequence {i})" for i in range(len(indexes))]
    return _read_dates(indexes, index_names, calendar=calendar, infer=infer, from_index=True)


def _read_dates(
    pieces: Sequence[Any],
    names: Sequence[str],
    *,
    calendar: str | None = None,
    infer: bool = False,
    from_index: bool = False,
) -> TimeIndex:
    """Return the times of an index for each sequence; `names` are names of the sequences in messages."""
    if infer:
        calendar = _calendar_of_periods(pieces)
    stamps = [_to_stamps(piece, name) for piece, name in zip(pieces, names, strict=True)]
    seconds = [_checked_seconds(piece, name) for piece, name in zip(stamps, names, strict=True)]
    counts = None if calendar is None else _calendar_steps(stamps, calendar)
    if counts is not None:
        assert calendar is not None
        unit = CALENDARS[calendar]
        step = _common_value([np.diff(count) * unit for count in counts])
        seconds = [count * unit for count in counts]
        axis = TimeAxis("dates", calendar, from_index, _is_evenly_spaced(step, counts))
        return _time_index(seconds, axis, step, pieces)
    step = _common_value([_clock_steps(piece) for piece in stamps])
    if step is None and infer:
        for calendar_name in CALENDARS:
            counts = _calendar_steps(stamps, calendar_name)
            if counts is not None and _common_value([np.diff(count) for count in counts]) is not None:
                return _read_dates(pieces, names, calendar=calendar_name, from_index=from_index)
    return _time_index(
        seconds, TimeAxis("dates", None, from_index, _is_evenly_spaced(step, seconds)), step, pieces
    )


def _time_index(
    seconds: list[NDArray[np.float64]], axis: TimeAxis, step: float | None, labels: Sequence[Any]
) -> TimeIndex:
    median = median_step(seconds) if step is None else step
    return TimeIndex(np.concatenate(seconds), axis, step, median, tuple(labels))


def calendar_seconds(stamps: Any, calendar: str | None) -> NDArray[np.float64]:
    """Return dates as seconds since 1970.

    With a calendar whose steps include all dates, seconds are the number of steps times their mean duration.
    """
    counts = None if calendar is None else _calendar_steps([stamps], calendar)
    if counts is not None:
        assert calendar is not None
        return np.asarray(counts[0] * CALENDARS[calendar], dtype=np.float64)
    stamps_without_zone = stamps.tz_convert(None) if getattr(stamps, "tz", None) is not None else stamps
    return read_times(stamps_without_zone.to_numpy(), [len(stamps)], as_list=False, name="fh").times


def _is_evenly_spaced(step: float | None, pieces: Sequence[NDArray[Any]]) -> bool:
    return step is not None or all(len(piece) < 2 for piece in pieces)


def _calendar_of_periods(pieces: Sequence[Any]) -> str | None:
    """Return the calendar of periods; None for periods of fixed duration and for other types."""
    calendars = set()
    for piece in pieces:
        base = re.sub(r"^\d+", "", getattr(piece, "freqstr", None) or "").partition("-")[0]
        is_periods = piece.inferred_type == "period"
        calendars.add({"M": "month", "Q": "month", "Y": "month", "A": "month", "B": "business day"}.get(base))
        if not is_periods:
            return None
    return calendars.pop() if len(calendars) == 1 else None


def _to_stamps(index: Any, name: str) -> Any:
    """Return an index of times as a DatetimeIndex or a TimedeltaIndex."""
    import pandas as pd

    kind = _KINDS[index.inferred_type]
    if kind == "periods":
        if not isinstance(index, pd.PeriodIndex):
            index = pd.PeriodIndex(index)
        return pd.DatetimeIndex([pd.NaT] * len(index)) if index.hasnans else index.to_timestamp(how="start")
    index_class = pd.DatetimeIndex if kind == "dates" else pd.TimedeltaIndex
    if isinstance(index, index_class):
        return index
    try:
        return index_class(index)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} mixes dates that cannot be compared: {error}. Convert them to one time zone."
        ) from None


def _checked_seconds(stamps: Any, name: str) -> NDArray[np.float64]:
    """Return the increasing times of one sequence in seconds."""
    stamps_without_zone = stamps.tz_convert(None) if getattr(stamps, "tz", None) is not None else stamps
    try:
        ticks = stamps_without_zone.to_numpy()
        return read_times(ticks, [len(stamps)], as_list=False, name=name, even_steps_known=True).times
    except ValueError as error:
        if not name.startswith("X"):
            raise
        of_array = ".indexes[" in name
        drop = "the dates: X.drop_vars(X.dims[0])" if of_array else "the index: X.reset_index(drop=True)"
        clocks = (
            " Where clocks are set back, tz_localize(zone, ambiguous='infer') distinguishes repeated hours."
            if "repeats" in str(error) and getattr(stamps, "tz", True) is None
            else ""
        )
        raise ValueError(
            f"{error}{clocks} To treat the rows as evenly spaced in their order, drop {drop}."
        ) from None


def _clock_steps(stamps: Any) -> NDArray[np.float64]:
    """Return the seconds between rows; equal numbers of ticks give exactly equal results."""
    return np.asarray(np.diff(stamps.asi8) / TICKS_PER_SECOND[stamps.unit], dtype=np.float64)


def _common_value(steps: Sequence[NDArray[Any]]) -> float | None:
    """Return the value that all entries of the arrays have in common; None if they differ or are empty."""
    joined = np.concatenate(steps)
    return float(joined[0]) if joined.size and bool(np.all(joined == joined[0])) else None


def _calendar_steps(pieces: Sequence[Any], calendar: str) -> list[NDArray[np.float64]] | None:
    """Return the numbers of calendar steps since 1970; None if a row is between two steps."""
    counts = []
    for stamps in pieces:
        if not hasattr(stamps, "tz"):
            return None
        if calendar == "day" and stamps.tz is None:
            return None
        local_times = stamps.tz_localize(None)
        if len(np.unique((local_times - local_times.normalize()).asi8)) > 1:
            return None
        count = _sequence_calendar_steps(local_times, calendar)
        if count is None or bool(np.any(np.diff(count) <= 0)):
            return None
        counts.append(count.astype(np.float64))
    return counts


def _sequence_calendar_steps(local_times: Any, calendar: str) -> NDArray[np.int64] | None:
    days = local_times.to_numpy().astype("datetime64[D]")
    if calendar == "day":
        return np.asarray(days.astype(np.int64))
    if calendar == "business day":
        weekdays = bool(np.all(np.is_busday(days)))
        return np.asarray(np.busday_count("1970-01-01", days)) if weekdays else None
    months = days.astype("datetime64[M]")
    next_months = (months + np.timedelta64(1, "M")).astype("datetime64[D]")
    first, last = months.astype("datetime64[D]"), next_months - np.timedelta64(1, "D")
    has_regular_day = (
        len(np.unique(local_times.day)) == 1,
        np.all(days == last),
        np.all(days == np.busday_offset(first, 0, roll="forward")),
        np.all(days == np.busday_offset(last, 0, roll="backward")),
    )
    return np.asarray(months.astype(np.int64)) if any(has_regular_day) else None


def _warn_of_unused_index(index: Any, name: str) -> None:
    """Warn of an index that probably contains times in an unsupported form."""
    if index is None or len(index) < 2:
        return
    reason = None
    if index.nlevels > 1:
        level = next((k for k in range(index.nlevels) if index.levels[k].inferred_type in _KINDS), None)
        if level is not None:
            other_level = 1 if level == 0 else 0
            reason = (
                "has several levels, one of them with times, and is not used. Use a list of frames, one "
                f"for each series, such as [x.droplevel({other_level}) for _, x in "
                f"X.groupby(level={other_level})], or "
                f"times={name}.get_level_values({level}) and lengths="
            )
    elif index.inferred_type == "string" and _DATE_PATTERN.match(str(index[0])):
        reason = (
            f"contains text such as {str(index[0])!r}, which is not used as times. Set X.index = "
            "pandas.to_datetime(X.index)"
        )
    elif index.inferred_type == "floating" or (index.inferred_type == "integer" and index.hasnans):
        values = index.to_numpy(dtype=np.float64, na_value=np.nan)
        finite = np.isfinite(values)
        steps = np.diff(values[finite])
        uneven = np.abs(steps - np.median(steps)) > 1e-6 * np.abs(np.median(steps)) if steps.size else steps
        if not finite.all():
            row = int(np.argmin(finite))
            reason = f"holds {values[row]} in row {row}. If its numbers are times, pass them as times="
        elif np.all(steps > 0.0) and np.any(uneven):
            reason = f"contains unevenly spaced numbers, which are not used as times. Pass times={name}"
    if reason is not None:
        warnings.warn(
            f"{name} {reason}; otherwise rows are treated as evenly spaced in their order.",
            UserWarning,
            stacklevel=2,
        )


# Conversion of decays to time scales.


def timescales_from_decay(decay: Any, time_unit: float = 1.0) -> FloatArray:
    """Return the times in which correlations fall to 1/e, ``-time_unit / log(decay)``.

    Parameters
    ----------
    decay : ndarray of any shape
        Correlation over one unit of time, below one.
    time_unit : float, default=1.0
        Unit of time.

    Returns
    -------
    ndarray of the same shape
        NaN if the decay is not positive.

    Examples
    --------
    >>> timescales_from_decay([0.9, 0.99, -0.5]).round(2)
    array([ 9.49, 99.5 ,   nan])
    """
    positive = np.where(np.asarray(decay) > 0.0, decay, np.nan)
    return np.asarray(-time_unit / np.log(positive))


def describe_index(axis: TimeAxis, time_unit: float) -> str:
    """Return a message about dates used as times and their unit, with a leading space; empty without dates.

    Parameters
    ----------
    axis : TimeAxis
        Type and unit of the times.
    time_unit : float
        Unit of time of the model: one median step, or one second in models of earlier versions.
    """
    if axis.kind != "dates":
        return ""
    seconds = axis.unit * time_unit
    length = duration_text(seconds)
    if axis.calendar == "business day":
        length = f"{seconds / CALENDARS['business day']:g} business day"
    elif axis.calendar == "month":
        months = round(seconds / CALENDARS["month"])
        length = {1: "1 month", 3: "1 quarter", 12: "1 year"}.get(months, f"{months} months")
    source = "The index of X is used as times" if axis.from_index else "Times are dates or durations"
    spacing = (
        f"evenly spaced, {length} apart" if axis.even else f"unevenly spaced, {length} apart at the median"
    )
    scales = "in such steps (time_unit_)" if time_unit == 1.0 else "in seconds"
    return f" {source}: rows are {spacing}, and time scales are {scales}."
