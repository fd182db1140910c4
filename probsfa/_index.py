"""Times of rows, from `times=` or from the index of a frame: dates, durations, periods, or numbers.

Rows are evenly spaced if all steps are equal, either in seconds (hours) or in steps of a calendar (months,
business days, days of a time zone with daylight saving time). Other indexes are unevenly spaced times. An
index of plain numbers or of text is not used.
"""

import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._times import TimeAxis, TimeIndex, check_times, median_step, read_times
from probsfa._xarray import is_data_array, labels_of_rows

__all__ = ["calendar_seconds", "index_of", "read_time_index", "tells_times"]

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
#: Ticks of the clock of an index of pandas, by its unit.
TICKS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_LOOKS_LIKE_A_DATE = re.compile(r"\s*\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([T ]\d{1,2}:\d{2}.*)?\s*$")


def index_of(X: Any) -> Any:
    """Return the index of a frame of pandas or of the rows of a DataArray, None for everything else."""
    if is_data_array(X):
        return labels_of_rows(X)
    pandas = sys.modules.get("pandas")
    return X.index if pandas is not None and isinstance(X, pandas.DataFrame) else None


def tells_times(index: Any) -> bool:
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
        Argument of the caller: a frame of pandas, or with `as_list` a list of them; other types have no
        index.
    lengths : sequence of int
        Rows of every sequence.
    as_list : bool
        Whether the data came as a list of sequences.
    times : array-like or list of array-likes, optional
        Explicit times; they have priority over the index.
    axis : TimeAxis, optional
        Time axis of a fitted model: dates are converted to seconds by its calendar. None in a fit, where the
        unit is the median step of the dates.

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
        If an index seems to contain times in an unsupported form.

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
        found = _read_index(X, lengths, as_list=as_list, calendar=calendar, infer=infer)
    else:
        found = read_times(times, lengths, as_list=as_list)
        if calendar is not None and found.labels is not None:
            import pandas as pd  # the calendar came from an index of pandas

            indexes = [pd.Index(piece) for piece in found.labels]
            found = _read_dates(indexes, ["times"] * len(indexes), calendar=calendar)
    return found if found is None or axis is not None else found.in_steps()


def _read_index(
    X: Any, lengths: Sequence[int], *, as_list: bool, calendar: str | None, infer: bool
) -> TimeIndex | None:
    """Return the times of the index of frames, in seconds.

    With `infer`, a calendar in which all steps are equal is used, if there is one.
    """
    indexes = [index_of(x) for x in (X if as_list else [X])]
    names = [f"X[{i}]" for i in range(len(indexes))] if as_list else ["X"]
    labels = [
        f"{name}.indexes[{x.dims[0]!r}]" if is_data_array(x) else f"{name}.index"
        for name, x in zip(names, X if as_list else [X], strict=True)
    ]
    if not any(tells_times(index) for index in indexes):
        for index, label in zip(indexes, labels, strict=True):
            _warn_of_unread(index, label)
        return None
    silent = next((i for i, index in enumerate(indexes) if not tells_times(index)), None)
    if silent is not None:
        told = next(i for i, index in enumerate(indexes) if tells_times(index))
        raise ValueError(
            f"X[{told}] has an index of times and X[{silent}] has none; give all sequences an index of "
            "times, or times= with one array for each."
        )
    if not as_list:
        edges = np.cumsum([0, *lengths])
        indexes = [indexes[0][a:b] for a, b in zip(edges[:-1], edges[1:], strict=True)]
        if len(indexes) > 1:
            labels = [f"{labels[0]} (sequence {i})" for i in range(len(indexes))]
    return _read_dates(indexes, labels, calendar=calendar, infer=infer, from_index=True)


def _read_dates(
    pieces: Sequence[Any],
    labels: Sequence[str],
    *,
    calendar: str | None = None,
    infer: bool = False,
    from_index: bool = False,
) -> TimeIndex:
    """Return the times of an index for each sequence; `labels` are names in messages."""
    if infer:
        calendar = _calendar_of_periods(pieces)
    stamps = [_stamps(piece, label) for piece, label in zip(pieces, labels, strict=True)]
    seconds = [_checked_seconds(piece, label) for piece, label in zip(stamps, labels, strict=True)]
    counted = None if calendar is None else _counts(stamps, calendar)
    if counted is not None:
        assert calendar is not None
        unit = CALENDARS[calendar]
        step = _common([np.diff(count) * unit for count in counted])
        seconds = [count * unit for count in counted]
        axis = TimeAxis("dates", calendar, from_index, _even(step, counted))
        return _time_index(seconds, axis, step, pieces)
    step = _common([_clock_steps(piece) for piece in stamps])
    if step is None and infer:
        for each in CALENDARS:
            counted = _counts(stamps, each)
            if counted is not None and _common([np.diff(count) for count in counted]) is not None:
                return _read_dates(pieces, labels, calendar=each, from_index=from_index)
    return _time_index(seconds, TimeAxis("dates", None, from_index, _even(step, seconds)), step, pieces)


def _time_index(
    seconds: list[NDArray[np.float64]], axis: TimeAxis, step: float | None, labels: Sequence[Any]
) -> TimeIndex:
    median = median_step(seconds) if step is None else step
    return TimeIndex(np.concatenate(seconds), axis, step, median, tuple(labels))


def calendar_seconds(stamps: Any, calendar: str | None) -> NDArray[np.float64]:
    """Return dates as seconds, by a calendar if one is set and all dates are on its steps."""
    counted = None if calendar is None else _counts([stamps], calendar)
    if counted is not None:
        assert calendar is not None
        return np.asarray(counted[0] * CALENDARS[calendar], dtype=np.float64)
    naive = stamps.tz_convert(None) if getattr(stamps, "tz", None) is not None else stamps
    return check_times(naive.to_numpy(), [len(stamps)], as_list=False, name="fh")


def _even(step: float | None, pieces: Sequence[NDArray[Any]]) -> bool:
    return step is not None or all(len(piece) < 2 for piece in pieces)


def _calendar_of_periods(pieces: Sequence[Any]) -> str | None:
    """Return the calendar of periods, None for units of the clock and for other types."""
    found = set()
    for piece in pieces:
        base = re.sub(r"^\d+", "", getattr(piece, "freqstr", None) or "").partition("-")[0]
        is_periods = piece.inferred_type == "period"
        found.add({"M": "month", "Q": "month", "Y": "month", "A": "month", "B": "business day"}.get(base))
        if not is_periods:
            return None
    return found.pop() if len(found) == 1 else None


def _stamps(index: Any, label: str) -> Any:
    """Return an index of times as a DatetimeIndex or a TimedeltaIndex."""
    import pandas as pd

    kind = _KINDS[index.inferred_type]
    if kind == "periods":
        if not isinstance(index, pd.PeriodIndex):
            index = pd.PeriodIndex(index)
        return pd.DatetimeIndex([pd.NaT] * len(index)) if index.hasnans else index.to_timestamp(how="start")
    wanted = pd.DatetimeIndex if kind == "dates" else pd.TimedeltaIndex
    if isinstance(index, wanted):
        return index
    try:
        return wanted(index)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{label} mixes dates that cannot be compared: {error}. Give one time zone."
        ) from None


def _checked_seconds(stamps: Any, label: str) -> NDArray[np.float64]:
    """Return the seconds of one sequence, increasing."""
    naive = stamps.tz_convert(None) if getattr(stamps, "tz", None) is not None else stamps
    try:
        ticks = naive.to_numpy()
        return check_times(ticks, [len(stamps)], as_list=False, name=label, even_steps_known=True)
    except ValueError as error:
        if not label.startswith("X"):
            raise
        of_array = ".indexes[" in label
        drop = "the dates: X.drop_vars(X.dims[0])" if of_array else "the index: X.reset_index(drop=True)"
        clocks = (
            " Where clocks are set back, tz_localize(zone, ambiguous='infer') tells the repeated hours apart."
            if "repeats" in str(error) and getattr(stamps, "tz", True) is None
            else ""
        )
        raise ValueError(
            f"{error}{clocks} To take the rows as evenly spaced in the order that they have, drop {drop}."
        ) from None


def _clock_steps(stamps: Any) -> NDArray[np.float64]:
    """Return the seconds between rows, exactly equal if the ticks of the clock are equal."""
    return np.asarray(np.diff(stamps.asi8) / TICKS_PER_SECOND[stamps.unit], dtype=np.float64)


def _common(steps: Sequence[NDArray[Any]]) -> float | None:
    """Return the common value of all arrays; None if values differ or there is no value."""
    joined = np.concatenate(steps)
    return float(joined[0]) if joined.size and bool(np.all(joined == joined[0])) else None


def _counts(pieces: Sequence[Any], calendar: str) -> list[NDArray[np.float64]] | None:
    """Return the number of steps of a calendar since 1970; None if rows are not on such steps."""
    counted = []
    for stamps in pieces:
        if not hasattr(stamps, "tz"):
            return None
        if calendar == "day" and stamps.tz is None:
            return None
        wall = stamps.tz_localize(None)
        if len(np.unique((wall - wall.normalize()).asi8)) > 1:
            return None
        count = _count(wall, calendar)
        if count is None or bool(np.any(np.diff(count) <= 0)):
            return None
        counted.append(count.astype(np.float64))
    return counted


def _count(wall: Any, calendar: str) -> NDArray[np.int64] | None:
    days = wall.to_numpy().astype("datetime64[D]")
    if calendar == "day":
        return np.asarray(days.astype(np.int64))
    if calendar == "business day":
        weekdays = bool(np.all(np.is_busday(days)))
        return np.asarray(np.busday_count("1970-01-01", days)) if weekdays else None
    months = days.astype("datetime64[M]")
    after = (months + np.timedelta64(1, "M")).astype("datetime64[D]")
    first, last = months.astype("datetime64[D]"), after - np.timedelta64(1, "D")
    on_the_same_day = (
        len(np.unique(wall.day)) == 1,
        np.all(days == last),
        np.all(days == np.busday_offset(first, 0, roll="forward")),
        np.all(days == np.busday_offset(last, 0, roll="backward")),
    )
    return np.asarray(months.astype(np.int64)) if any(on_the_same_day) else None


def _warn_of_unread(index: Any, label: str) -> None:
    """Warn of an index that seems to contain times in an unsupported form."""
    if index is None or len(index) < 2:
        return
    why = None
    if index.nlevels > 1:
        level = next((k for k in range(index.nlevels) if index.levels[k].inferred_type in _KINDS), None)
        if level is not None:
            other = 1 if level == 0 else 0
            why = (
                "has several levels, one of them of times; they are not read. Give a list of frames, one for "
                f"each series, such as [x.droplevel({other}) for _, x in X.groupby(level={other})], or "
                f"times={label}.get_level_values({level}) and lengths="
            )
    elif index.inferred_type == "string" and _LOOKS_LIKE_A_DATE.match(str(index[0])):
        why = (
            f"holds text such as {str(index[0])!r}, which is not read as times. Set X.index = "
            "pandas.to_datetime(X.index)"
        )
    elif index.inferred_type == "floating" or (index.inferred_type == "integer" and index.hasnans):
        values = index.to_numpy(dtype=np.float64, na_value=np.nan)
        finite = np.isfinite(values)
        steps = np.diff(values[finite])
        uneven = np.abs(steps - np.median(steps)) > 1e-6 * np.abs(np.median(steps)) if steps.size else steps
        if not finite.all():
            row = int(np.argmin(finite))
            why = f"holds {values[row]} in row {row}. Where its numbers are times, give all of them by times="
        elif np.all(steps > 0.0) and np.any(uneven):
            why = f"holds numbers that are unevenly spaced, which are not read as times. Give times={label}"
    if why is not None:
        warnings.warn(
            f"{label} {why}; as it is, rows are taken as evenly spaced in their order.",
            UserWarning,
            stacklevel=2,
        )
