"""Validation of observation times: dates, durations or numbers are converted to float64.

Plain numbers keep their own unit. Dates (``datetime64``, a ``DatetimeIndex``, ``datetime`` objects) become
seconds since 1970-01-01 UTC, durations become seconds. The order is checked on the integers behind the
dates, before the conversion: a float64 count of seconds since 1970 resolves about 0.2 microseconds, and
uneven dates with distances below a multiple of this resolution raise an error.
"""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["TimeAxis", "TimeIndex", "check_times", "duration_text", "read_times", "seconds_of"]

_DURATIONS = (
    (86_400.0, "d"),
    (3600.0, "h"),
    (60.0, "min"),
    (1.0, "s"),
    (1e-3, "ms"),
    (1e-6, "us"),
    (1e-9, "ns"),
)
# Minimum distance of uneven dates, as a multiple of the resolution of seconds in double precision.
_FEWEST_RESOLVED = 10.0

_NAMED = {
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
        A text is a number and a unit, as in ``"24h"``, ``"1D"``, ``"7 days"``; without a number it is one
        unit. A year has 365.2425 days.
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
    if parts is not None and parts[2] in _NAMED:
        try:
            return (float(parts[1]) if parts[1] else 1.0) * _NAMED[parts[2]]
        except ValueError:
            pass
    raise ValueError(f"{name} has {duration!r}, which is no duration such as '24h', '1D' or '30min'.")


class TimeAxis(NamedTuple):
    """Unit and calendar of the times of rows, as far as known.

    Attributes
    ----------
    kind : {"rows", "numbers", "dates", "unknown"}
        Rows without times; plain numbers, in an unknown unit; dates or durations; or "unknown" in files of
        earlier versions.
    calendar : {"day", "month", "business day"} or None
        Calendar of evenly spaced rows whose distances in seconds differ, such as months. Times are the number
        of its steps since 1970, multiplied by their mean duration in seconds.
    from_index : bool
        Whether the times are from the index of a frame.
    even : bool
        Whether all rows are one step apart.
    unit : float
        Seconds of one unit of dates or durations: the step or the median step in a fit, and 1 in methods of a
        fitted model.
    """

    kind: str = "rows"
    calendar: str | None = None
    from_index: bool = False
    even: bool = True
    unit: float = 1.0

    def seconds(self, time_unit: float) -> float | None:
        """Return `time_unit` units of the times in seconds; None if the unit is not known."""
        return self.unit * time_unit if self.kind == "dates" else None


class TimeIndex(NamedTuple):
    """Times of all rows, from `times=` or from the index of frames.

    Attributes
    ----------
    times : ndarray (N,)
        Numbers as given; dates and durations in units of ``axis.unit`` seconds.
    axis : TimeAxis
        What the times are counted in.
    step : float or None
        Time between rows, if it is exactly known and constant.
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
        """Return dates and durations in units of their median step, the unit of time of a fit.

        Numbers are unchanged.
        """
        unit = self.median_step
        if self.axis.kind != "dates" or unit is None:
            return self
        step = None if self.step is None else 1.0
        return TimeIndex(self.times / unit, self.axis._replace(unit=unit), step, 1.0, self.labels)


def median_step(pieces: Sequence[NDArray[np.float64]]) -> float | None:
    """Return the median time between the rows of sequences; None if no sequence has two rows."""
    gaps = np.concatenate([np.diff(piece) for piece in pieces])
    return float(np.median(gaps)) if gaps.size else None


def check_times(
    times: Any,
    lengths: Sequence[int],
    *,
    as_list: bool,
    name: str = "times",
    even_steps_known: bool = False,
) -> NDArray[np.float64]:
    """Validate times of observation and return them as one float64 array.

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
        Whether the caller computes the step of evenly spaced rows from the dates themselves, so that rounding
        of the times has no effect as long as they increase.

    Returns
    -------
    ndarray (N,)
        Numbers unchanged; dates in seconds since 1970-01-01 UTC; durations in seconds.

    Raises
    ------
    ValueError
        If the length is wrong, a time is missing, infinite or of another type, or the times of a sequence do
        not increase or are closer than the resolution of seconds in double precision.

    Examples
    --------
    >>> import numpy as np
    >>> dates = np.array(["1970-01-01T00", "1970-01-01T06"], dtype="datetime64[h]")
    >>> check_times(dates, [2], as_list=False)
    array([    0., 21600.])
    """
    return read_times(times, lengths, as_list=as_list, name=name, even_steps_known=even_steps_known).times


def read_times(
    times: Any,
    lengths: Sequence[int],
    *,
    as_list: bool,
    name: str = "times",
    even_steps_known: bool = False,
) -> TimeIndex:
    """Return times validated as in :func:`check_times`; dates and durations are in seconds."""
    if not as_list:
        edges = np.cumsum([0, *lengths])
        ticks = _ticks(times, int(edges[-1]), name)
        rows = [slice(a, b) for a, b in zip(edges[:-1], edges[1:], strict=True)]
        pieces = [ticks[each] for each in rows]
        labels = [name if len(pieces) == 1 else f"{name} (sequence {i})" for i in range(len(pieces))]
    else:
        if not isinstance(times, list) or len(times) != len(lengths):
            came = f"a list of {len(times)}" if isinstance(times, list) else f"a {type(times).__name__}"
            raise ValueError(
                f"X is a list of {len(lengths)} sequences, so {name} must be a list of {len(lengths)} "
                f"arrays, one per sequence; got {came}."
            )
        labels = [f"{name}[{i}]" for i in range(len(times))]
        pieces = [_ticks(t, n, label) for t, n, label in zip(times, lengths, labels, strict=True)]
        kinds = {_unit(p) for p in pieces}
        if len(kinds) > 1:
            raise ValueError(f"{name} mixes {' and '.join(sorted(kinds))}; give all sequences the same kind.")
    checked = []
    for piece, label in zip(pieces, labels, strict=True):
        _check_increasing(piece, label)
        seconds = _to_float(piece)
        _check_told_apart(piece, seconds, label, even_steps_known)
        checked.append(seconds)
    kind = "numbers" if _unit(pieces[0]) == "numbers" else "dates"
    axis = TimeAxis(kind, even=_is_even(checked))
    given = None
    if kind == "dates":
        by_position = getattr(times, "iloc", times)
        given = tuple(times) if as_list else tuple(by_position[each] for each in rows)
    return TimeIndex(np.concatenate(checked), axis, None, median_step(checked), given)


def _is_even(pieces: list[NDArray[np.float64]]) -> bool:
    """Return whether all rows are evenly spaced, up to rounding."""
    gaps = np.concatenate([np.diff(piece) for piece in pieces])
    return gaps.size == 0 or bool(np.all(np.abs(gaps - gaps[0]) <= 1e-6 * gaps[0]))


def duration_text(seconds: float) -> str:
    """Return a time span as text, in the largest unit of which it has at least one.

    Examples
    --------
    >>> duration_text(5400.0), duration_text(0.02)
    ('1.5 h', '20 ms')
    """
    size, unit = next((each for each in _DURATIONS if seconds >= each[0] * (1.0 - 1e-9)), _DURATIONS[-1])
    return f"{seconds / size:.6g} {unit}"


def _ticks(times: Any, n_rows: int, name: str) -> NDArray[Any]:
    """Return the times as a one-dimensional array of int, float, datetime64 or timedelta64."""
    if isinstance(times, np.ma.MaskedArray) and np.ma.getmaskarray(times).any():
        row = int(np.argmax(np.ma.getmaskarray(times)))
        raise ValueError(
            f"{name} must be finite; row {row} is masked. Every row needs a time, even an empty one."
        )
    array = np.asarray(times)
    if array.ndim != 1 or array.shape[0] != n_rows:
        raise ValueError(f"{name} must have shape ({n_rows},), one for each row; got shape {array.shape}.")
    if array.dtype.kind == "O" and n_rows and isinstance(array[0], datetime):
        try:
            array = np.array([_naive_utc(t) for t in array], dtype="datetime64[us]")
        except (AttributeError, TypeError, ValueError):
            raise ValueError(f"{name} mixes dates with something else; give dates only.") from None
    if array.dtype.kind == "O" and n_rows and all(type(t) is date for t in array):
        array = np.array(array, dtype="datetime64[D]")
    if array.dtype.kind in "OUS":
        # Text such as "1.5" would be converted silently, and text such as "2024-01-01" is ambiguous.
        text = next((t for t in array if isinstance(t, (str, bytes))), None)
        if text is not None:
            raise ValueError(
                f"{name} holds text ({str(text)!r}); give numbers or dates, for example by "
                f"pandas.to_datetime({name})."
            )
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            periods = hasattr(array[0], "to_timestamp")
            asked = " Give the dates at which the periods start: times.to_timestamp()." if periods else ""
            raise ValueError(
                f"{name} must hold numbers or dates; got {type(array[0]).__name__}.{asked}"
            ) from None
    if array.dtype.kind not in "iufMm":
        raise ValueError(f"{name} must hold numbers or dates; got dtype {array.dtype}.")
    missing = np.isnat(array) if array.dtype.kind in "Mm" else ~np.isfinite(array)
    if missing.any():
        row = int(np.argmax(missing))
        raise ValueError(
            f"{name} must be finite; row {row} is {array[row]}. Every row needs a time, even an empty one."
        )
    return array


def _naive_utc(time: datetime) -> datetime:
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _unit(ticks: NDArray[Any]) -> str:
    return {"M": "dates", "m": "durations"}.get(ticks.dtype.kind, "numbers")


def _to_float(ticks: NDArray[Any]) -> NDArray[np.float64]:
    if ticks.dtype.kind == "M":
        ticks = ticks - np.datetime64(0, "s")
    if ticks.dtype.kind == "m":
        return np.asarray(ticks / np.timedelta64(1, "s"), dtype=np.float64)
    return ticks.astype(np.float64)


def _check_told_apart(
    ticks: NDArray[Any], seconds: NDArray[np.float64], name: str, even_steps_known: bool
) -> None:
    """Raise a ValueError if times in double precision do not resolve the distances between rows."""
    gaps = np.diff(ticks)
    kind = ticks.dtype.kind
    with np.errstate(invalid="ignore"):
        exact = kind == "f" or (kind in "iu" and bool(np.all(seconds.astype(ticks.dtype) == ticks)))
    if exact or gaps.size == 0:
        _check_increasing(seconds, name)
        return
    resolved = float(np.spacing(np.abs(seconds).max()))
    nearest = float(gaps.min() / np.timedelta64(1, "s")) if kind in "Mm" else float(gaps.min())
    known = even_steps_known and bool(np.all(gaps == gaps[0]))
    if nearest >= (1.0 if known else _FEWEST_RESOLVED) * resolved:
        return
    if kind in "iu":
        raise ValueError(
            f"{name} has rows that are {nearest:g} apart: times are numbers in double precision, which so "
            f"far from zero are resolved to {resolved:g} only. Give times since the first row: "
            f"{name} - {name}[0]."
        )
    raise ValueError(
        f"{name} has rows that are {duration_text(nearest)} apart: times are seconds in double precision, "
        f"which so far from zero are resolved to {duration_text(resolved)} only. Give durations since the "
        "first row, such as times = dates - dates[0]."
    )


def _check_increasing(ticks: NDArray[Any], name: str) -> None:
    """Raise a ValueError unless every time is later than the previous one."""
    late = ticks[1:] <= ticks[:-1]
    if late.any():
        row = int(np.argmax(late)) + 1
        what = "repeats the time" if ticks[row] == ticks[row - 1] else "is earlier than the time"
        raise ValueError(
            f"{name} must increase strictly: row {row} ({ticks[row]}) {what} of row {row - 1} "
            f"({ticks[row - 1]}). Sort the rows by time and merge or drop repeated times."
        )
