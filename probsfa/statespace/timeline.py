"""Conversion of the times of data to those of a fitted model, and times of forecasts.

Times of a model are in its unit `time_unit_`. For dates or durations the unit is a number of seconds, and
data may be sampled at another rate: ``decay ** (dt / unit)``. Times in seconds cannot be compared with plain
numbers or rows without times.
"""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._times import (
    CALENDARS,
    TICKS_PER_SECOND,
    TimeAxis,
    calendar_seconds,
    duration_text,
    has_times,
    index_of,
)
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count
from probsfa.statespace.panel import whole_if_close

__all__ = [
    "Horizon",
    "check_evenly_spaced",
    "followed_by_empty_rows",
    "in_model_time",
    "make_horizon",
    "refuse_uneven",
]


def refuse_uneven(sequences: Sequences) -> Sequences:
    """Return rows without their times, which must be even in the zero-noise limit.

    Raises
    ------
    ValueError
        If the times of an index are not even.
    """
    if not sequences.axis.from_index:
        return sequences
    if not sequences.axis.even:
        raise ValueError(
            "noise=0.0 requires evenly spaced rows, and the index of X is unevenly spaced. Resample the "
            "rows, or drop the index to treat them as evenly spaced: X.reset_index(drop=True)."
        )
    return replace(sequences, times=None)


def in_model_time(sequences: Sequences, axis: TimeAxis, time_unit: float) -> Sequences:
    """Match the times of data with those that a model was fitted with.

    Parameters
    ----------
    sequences : Sequences
        Validated data, with dates converted by the calendar of `axis`.
    axis : TimeAxis
        Type and unit of the model's times.
    time_unit : float
        Unit of time of the model.

    Returns
    -------
    Sequences
        Data with times in the unit of the fit, or without times if rows are one unit apart.

    Raises
    ------
    ValueError
        If the times of data and model are not comparable.

    Warns
    -----
    UserWarning
        If rows have no times and those of the fit were unevenly spaced.
    """
    kind = sequences.axis.kind
    if axis.kind == "numbers" and sequences.axis.from_index and sequences.axis.even:
        # The unit is not known, but the rows are evenly spaced, as rows without times are.
        kind, sequences = "rows", replace(sequences, times=None)
    if kind == "rows":
        if not axis.even:
            seconds = axis.seconds(time_unit)
            unit = f"{time_unit:g}" if seconds is None else duration_text(seconds)
            warnings.warn(
                "The model was fitted with uneven times and X has no times: its rows are treated as one "
                f"time_unit_ apart, {unit}. Pass times= as in fit, or a frame with a time index.",
                UserWarning,
                stacklevel=4,
            )
        return sequences
    if axis.kind == kind:
        return sequences if axis.unit == 1.0 else sequences.retimed(axis.unit)
    if axis.kind == "rows":
        return sequences if kind == "numbers" else _as_rows(sequences)
    if axis.kind == "unknown":
        return _in_unknown_units(sequences, time_unit)
    if axis.kind == "dates":
        raise ValueError(
            "The model was fitted with dates or durations, so that one unit of its time is "
            f"{duration_text(axis.unit * time_unit)}, and the times of X are plain numbers. Pass dates, or "
            "durations such as times=pandas.to_timedelta(times, unit='h')."
        )
    source = "the index of X has uneven" if sequences.axis.from_index else "times are"
    raise ValueError(
        f"The model was fitted with times that are plain numbers, and {source} dates or durations. Pass "
        "times= as numbers in the unit of the fit, for example (dates - start) / pandas.Timedelta('1h') if "
        "it was an hour."
    )


def _as_rows(sequences: Sequences) -> Sequences:
    """Return dated rows without times, for a model that was fitted to rows without times."""
    if sequences.axis.even:
        step = sequences.step
        if step is None and max(sequences.lengths) > 1:
            step = sequences.time_unit
        return replace(sequences, times=None, step=step)
    source = "the index of X is" if sequences.axis.from_index else "times are"
    raise ValueError(
        f"The model was fitted to rows without times, so that one unit of its time is a row, and {source} "
        "unevenly spaced in seconds. Fit the model with times, too; or pass times= in rows of the fit, for "
        "example (dates - dates[0]) / pandas.Timedelta('1h') if they were an hour apart."
    )


def _in_unknown_units(sequences: Sequences, time_unit: float) -> Sequences:
    """Return data for a model from an earlier version, whose unit of time is not known."""
    if not sequences.axis.from_index:
        return sequences
    if sequences.axis.even and time_unit in (1.0, sequences.step):
        return replace(sequences, times=None)
    raise ValueError(
        f"The model was saved by an earlier version without its unit of time (time_unit_={time_unit:g}), "
        "and X has an index of times. Pass times= as in fit, or fit the model again."
    )


def check_evenly_spaced(sequences: Sequences, time_unit: float) -> None:
    """Raise a ValueError unless rows are one unit apart, as the zero-noise limit requires."""
    steps = np.ones(1)
    if sequences.times is not None:
        timed = sequences.retimed(time_unit)
        assert timed.times is not None
        differences = np.concatenate([np.diff(timed.times[rows]) for rows in timed.slices])
        steps = whole_if_close(differences if timed.step is None else np.array([timed.step]))
    if np.any(steps != 1.0):
        raise ValueError(
            "noise=0.0 requires evenly spaced rows: the rows of X must be one step of the fit apart, "
            f"time_unit_={time_unit:g}. Resample them."
        )


class Horizon(NamedTuple):
    """Forecast horizon of one sequence.

    Attributes
    ----------
    steps : ndarray (H,)
        Increasing times after the last row, in units of the model's time.
    index : object
        Index of the forecasts of a pandas DataFrame; None for other types.
    """

    steps: FloatArray
    index: Any


def make_horizon(
    X: Any,
    sequences: Sequences,
    axis: TimeAxis,
    time_unit: float,
    *,
    n_steps: int | None,
    fh: Any,
) -> list[Horizon]:
    """Return the forecast horizon of each sequence.

    Parameters
    ----------
    X : object
        Data of the user; results have the same type.
    sequences : Sequences
        The same data, in the time of the model.
    axis, time_unit
        As in :func:`in_model_time`.
    n_steps : int or None
        Number of steps, each of one unit.
    fh : array-like (H,) or None
        Steps ahead, durations ahead, or dates.

    Raises
    ------
    ValueError
        If not exactly one of `n_steps` and `fh` is given, or `fh` is not valid; see the message.
    """
    if (n_steps is None) == (fh is None):
        raise ValueError(
            "n_steps and fh cannot both be set or both be None. Pass a number of steps, or "
            "the steps or times to forecast."
        )
    if axis.kind == "dates":
        seconds, calendar = axis.unit * time_unit, axis.calendar
    else:  # one row of these data, if their index defines the length of a step
        seconds, calendar = sequences.step or np.nan, sequences.axis.calendar
    if n_steps is not None:
        given: Any = np.arange(1, check_count("n_steps", n_steps) + 1)
    else:
        given = _read_fh(fh)
    out = []
    for i in range(len(sequences.lengths)):
        index = None if sequences.labels is None else _as_index(sequences.labels[i])
        steps = _steps(given, index, seconds, calendar)
        frame = index_of(X[i] if sequences.is_list else X)
        by_rows = sequences.step is not None and (sequences.times is None or sequences.step == time_unit)
        ahead = None
        if frame is not None:
            ahead = _continued(given, index, frame, steps, by_rows, seconds, calendar)
        out.append(Horizon(steps, ahead))
    return out


def followed_by_empty_rows(
    sequences: Sequences, n_steps: int, unit: float, ahead: Sequence[FloatArray] | None = None
) -> Sequences:
    """Append rows without observations to each sequence, one unit of time apart.

    `ahead` contains their covariates (n_steps, P) for each sequence, if there are any.
    """
    if n_steps == 0:
        return sequences
    empty = np.full((n_steps, sequences.n_features), np.nan)
    values = np.concatenate([part for s in sequences.slices for part in (sequences.values[s], empty)])
    times = None
    if sequences.times is not None:
        later = unit * np.arange(1, n_steps + 1)
        pieces = [sequences.times[s] for s in sequences.slices]
        times = np.concatenate([part for piece in pieces for part in (piece, piece[-1] + later)])
    step = sequences.step if sequences.step == unit else None
    lengths = tuple(n + n_steps for n in sequences.lengths)
    exog = None
    if sequences.exog is not None and ahead is not None:
        rows = [sequences.exog[s] for s in sequences.slices]
        exog = np.concatenate([part for pair in zip(rows, ahead, strict=True) for part in pair])
    return replace(sequences, values=values, times=times, lengths=lengths, step=step, exog=exog)


def _read_fh(fh: Any) -> Any:
    """Return a horizon as a one-dimensional, increasing array of numbers or index of times."""
    import pandas as pd

    array = np.atleast_1d(np.asarray(fh)) if not isinstance(fh, pd.Index) else fh
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"fh must be one-dimensional with one value or more; got shape {array.shape}.")
    if isinstance(array, np.ndarray) and array.dtype.kind in "iuf":
        if not np.all(np.isfinite(array)) or array[0] <= 0 or np.any(np.diff(array) <= 0):
            raise ValueError(f"fh must contain increasing numbers of steps ahead, all positive; got {fh!r}.")
        return array
    index = pd.Index(array)
    if index.inferred_type == "integer" or index.inferred_type == "floating":
        return _read_fh(index.to_numpy())
    if not has_times(index):
        raise ValueError(
            f"fh must contain numbers of steps, durations or dates; got {index.inferred_type}. Convert text "
            "to dates by pandas.to_datetime."
        )
    if index.inferred_type == "date":
        index = pd.DatetimeIndex(index)
    index = (
        index
        if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex))
        else index.infer_objects()
    )
    if index.hasnans or not (index.is_monotonic_increasing and index.is_unique):
        raise ValueError("fh must contain increasing times without missing ones.")
    return index


def _as_index(labels: Any) -> Any:
    """Return dates, durations or periods of a sequence as a pandas index."""
    import pandas as pd

    return pd.Index(labels)


def _steps(given: Any, index: Any, seconds: float, calendar: str | None) -> FloatArray:
    """Return the number of steps from the last row to each time of the horizon."""
    import pandas as pd

    if isinstance(given, np.ndarray):
        return np.asarray(given, dtype=np.float64)
    if not np.isfinite(seconds):
        raise ValueError(
            "fh contains times, but the duration of a step is unknown, because the model was not fitted "
            "with dates or durations. Pass fh as numbers of steps ahead."
        )
    if isinstance(given, pd.TimedeltaIndex):
        ahead = given.to_numpy() / np.timedelta64(1, "s")
    else:
        if index is None or index.inferred_type.startswith("timedelta"):
            raise ValueError(
                "fh contains dates, and the rows of X have no dates. Pass numbers of steps, or durations."
            )
        stamps = _timestamps(given)
        last = _timestamps(index[-1:])
        if (stamps.tz is None) != (last.tz is None):
            raise ValueError(
                "fh and the rows of X must both have a time zone, or neither; "
                f"fh has {stamps.tz}, the rows {last.tz}."
            )
        together = last.append(stamps.tz_convert(last.tz) if last.tz is not None else stamps)
        if together[1] <= together[0]:
            raise ValueError(f"fh must be after the last row, {index[-1]}; it starts at {given[0]}.")
        counts = calendar_seconds(together, calendar)
        ahead = counts[1:] - counts[0]
    if ahead[0] <= 0.0:
        raise ValueError(f"fh must be after the last row; it starts {given[0]} ahead.")
    return whole_if_close(np.asarray(ahead, dtype=np.float64) / seconds)


def _timestamps(index: Any) -> Any:
    """Return dates or periods as a DatetimeIndex."""
    import pandas as pd

    return index.to_timestamp(how="start") if isinstance(index, pd.PeriodIndex) else pd.DatetimeIndex(index)


def _continued(
    given: Any,
    index: Any,
    frame: Any,
    steps: FloatArray,
    by_rows: bool,
    seconds: float,
    calendar: str | None,
) -> Any:
    """Return the index of forecasts: that of the DataFrame, continued if possible.

    `by_rows`: whether the rows of the DataFrame are one step of the model apart.
    """
    import pandas as pd

    if isinstance(given, (pd.DatetimeIndex, pd.PeriodIndex)):
        return given.rename(frame.name)
    if index is not None and np.isfinite(seconds):
        ahead = _dates_ahead(given, index, steps, by_rows, seconds, calendar)
        if ahead is not None:
            return ahead.rename(frame.name)
    full = bool(np.all(steps == np.rint(steps)))
    counts = steps.astype(np.int64) if full else steps
    if (
        not has_times(frame)
        and frame.nlevels == 1
        and pd.api.types.is_numeric_dtype(frame.dtype)
        and len(frame) > 1
    ):
        numbers = frame.to_numpy()
        if not np.any(np.diff(numbers) != numbers[1] - numbers[0]):
            step = numbers[1] - numbers[0]
            if isinstance(frame, pd.RangeIndex) and full and np.all(np.diff(counts) == 1):
                first = int(frame[-1] + step * counts[0])
                return pd.RangeIndex(first, first + int(step) * len(counts), int(step), name=frame.name)
            return pd.Index(numbers[-1] + step * counts, name=frame.name)
    return pd.Index(counts, name="steps ahead")


def _dates_ahead(
    given: Any, index: Any, steps: FloatArray, by_rows: bool, seconds: float, calendar: str | None
) -> Any:
    """Return dates, durations or periods some steps after the last; None without such an index."""
    import pandas as pd

    full = bool(np.all(steps == np.rint(steps)))
    last = index[-1]
    if isinstance(index, pd.PeriodIndex):
        if len(index) < 2:
            index = index.append(index + 1)  # the next period defines the length of a step
        counted = calendar_seconds(_timestamps(index), calendar)
        ordinals = index.asi8
        ahead = steps * seconds * (ordinals[-1] - ordinals[0]) / (counted[-1] - counted[0])
        span: Any = index.freq  # periods are advanced by multiples of their span
        ahead = whole_if_close(ahead / span.n)
        if np.any(ahead != np.rint(ahead)):
            return None
        return pd.PeriodIndex([last + int(n) for n in ahead])
    if isinstance(given, pd.TimedeltaIndex):
        return last + given
    if not isinstance(index, pd.TimedeltaIndex):
        index = pd.DatetimeIndex(index)
        last = index[-1]
    if full and by_rows and index.freq is not None:
        make = pd.timedelta_range if isinstance(index, pd.TimedeltaIndex) else pd.date_range
        ahead = make(last, periods=int(steps[-1]) + 1, freq=index.freq)[1:]
        return ahead if len(ahead) == len(steps) else ahead[steps.astype(np.int64) - 1]
    if full and calendar is not None and isinstance(index, pd.DatetimeIndex):
        counts = np.rint(steps * seconds / CALENDARS[calendar]).astype(int)
        offset = _calendar_offset(index, calendar)
        return pd.DatetimeIndex([last + int(n) * offset for n in counts])
    try:
        exact = (last + _spans(steps * seconds, "ns")).as_unit("ns")
    except (OverflowError, pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta):
        unit = "s" if index.unit == "ns" else index.unit  # nanoseconds do not cover distant years
        return last.as_unit(unit) + _spans(steps * seconds, unit)
    coarse = exact.as_unit(index.unit)
    return coarse if bool(np.all(coarse == exact)) else exact


def _spans(seconds: FloatArray, unit: str) -> Any:
    """Return durations, rounded to a unit of pandas; raise an OverflowError if they are out of range."""
    import pandas as pd

    counts = np.rint(seconds * TICKS_PER_SECOND[unit])
    if np.max(np.abs(counts), initial=0.0) >= 2.0**63:
        raise OverflowError(f"{np.max(seconds):g} seconds in units of {unit}")
    return pd.TimedeltaIndex(counts.astype(np.int64).astype(f"timedelta64[{unit}]"))


def _calendar_offset(index: Any, calendar: str) -> Any:
    """Return the pandas offset of one calendar step of the dates, such as a day or a month end."""
    from pandas import offsets

    if calendar == "day":
        return offsets.DateOffset(days=1)
    if calendar == "business day":
        return offsets.BusinessDay()
    for each in (offsets.MonthEnd(), offsets.BMonthEnd(), offsets.BMonthBegin()):
        if len(set(index.day)) > 1 and all(each.is_on_offset(stamp) for stamp in index):
            return each
    return offsets.DateOffset(months=1)
