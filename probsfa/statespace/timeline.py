"""Conversion of the times of data to the unit of time of a fitted model, and times of forecasts.

A model has the unit of time `time_unit_`. If it was fitted with dates or durations, the unit is a number of
seconds. Later data may have another sampling rate, because the decay over ``dt`` seconds is ``decay ** (dt /
unit)``. Times in seconds cannot be converted to plain numbers, or to rows without times.
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
from probsfa.statespace.panel import round_if_close

__all__ = [
    "Horizon",
    "append_empty_rows",
    "check_evenly_spaced",
    "make_horizon",
    "require_even_times",
    "to_model_time",
]


def require_even_times(sequences: Sequences) -> Sequences:
    """Return rows without the times of an index; the zero-noise limit requires evenly spaced times.

    Raises
    ------
    ValueError
        If the times of the index are not evenly spaced.
    """
    if not sequences.axis.from_index:
        return sequences
    if not sequences.axis.even:
        raise ValueError(
            "noise=0.0 requires evenly spaced rows, and the index of X is unevenly spaced. Resample the "
            "rows, or drop the index to treat them as evenly spaced: X.reset_index(drop=True)."
        )
    return replace(sequences, times=None)


def to_model_time(sequences: Sequences, axis: TimeAxis, time_unit: float) -> Sequences:
    """Convert the times of data to those of a fitted model.

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
        Data with times in the unit of the training data; without times if rows are treated as one unit apart.

    Raises
    ------
    ValueError
        If the times of data and model are not comparable.

    Warns
    -----
    UserWarning
        If rows have no times, and the training data were unevenly spaced.
    """
    kind, problem = sequences.axis.kind, "X has no times"
    if axis.kind == "numbers" and sequences.axis.from_index and sequences.axis.even:
        # The unit of a numeric index is not known. Evenly spaced rows are therefore used without times.
        kind, sequences = "rows", replace(sequences, times=None)
        problem = "The evenly spaced index of X is not used"
    if kind == "rows":
        if not axis.even:
            seconds = axis.seconds(time_unit)
            unit = f"{time_unit:g}" if seconds is None else duration_text(seconds)
            index = "" if axis.kind == "numbers" else ", or a DataFrame with a time index"
            warnings.warn(
                f"{problem}, but the model was fitted with unevenly spaced times. Rows are assumed to be one "
                f"time_unit_ ({unit}) apart. Pass times= as in fit{index}.",
                UserWarning,
                stacklevel=4,
            )
        return sequences
    if axis.kind == kind:
        return sequences if axis.unit == 1.0 else sequences.with_time_unit(axis.unit)
    if axis.kind == "rows":
        return sequences if kind == "numbers" else _without_dates(sequences)
    if axis.kind == "unknown":
        return _in_unknown_unit(sequences, time_unit)
    if axis.kind == "dates":
        raise ValueError(
            "The times of X are plain numbers, but the model was fitted with dates or durations (its unit of "
            f"time is {duration_text(axis.unit * time_unit)}). Pass dates, or durations such as "
            "times=pandas.to_timedelta(times, unit='h')."
        )
    source = "The index of X has unevenly spaced" if sequences.axis.from_index else "The times of X are"
    raise ValueError(
        f"{source} dates or durations, but the model was fitted with times that are plain numbers. Pass "
        "times= as numbers in the unit of the fit; if this unit was an hour, pass "
        "times=(dates - start) / pandas.Timedelta('1h')."
    )


def _without_dates(sequences: Sequences) -> Sequences:
    """Remove the times of evenly spaced rows, for a model that was fitted to rows without times.

    Raises
    ------
    ValueError
        If rows are unevenly spaced.
    """
    if sequences.axis.even:
        step = sequences.step
        if step is None and max(sequences.lengths) > 1:
            step = sequences.time_unit
        return replace(sequences, times=None, step=step)
    source = "The index of X is" if sequences.axis.from_index else "The times of X are"
    raise ValueError(
        f"{source} unevenly spaced, but the model was fitted to rows without times (its unit of time is one "
        "row). Fit the model with times, too, or pass times= in units of one training row; if training rows "
        "were an hour apart, pass times=(dates - dates[0]) / pandas.Timedelta('1h')."
    )


def _in_unknown_unit(sequences: Sequences, time_unit: float) -> Sequences:
    """Return data for a model that was saved by an earlier version, without its unit of time."""
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
        timed = sequences.with_time_unit(time_unit)
        assert timed.times is not None
        differences = np.concatenate([np.diff(timed.times[rows]) for rows in timed.slices])
        steps = round_if_close(differences if timed.step is None else np.array([timed.step]))
    if np.any(steps != 1.0):
        raise ValueError(
            f"noise=0.0 requires evenly spaced rows, one time_unit_ ({time_unit:g}) apart. Resample X."
        )


class Horizon(NamedTuple):
    """Forecast horizon of one sequence.

    Attributes
    ----------
    steps : ndarray (H,)
        Increasing times after the last row, in the time unit of the model.
    index : object
        Index of the forecasts if the data are a pandas DataFrame, otherwise None.
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
        Data of the user.
    sequences : Sequences
        The same data, in the time unit of the model.
    axis : TimeAxis
        Type and unit of the model's times.
    time_unit : float
        Unit of time of the model.
    n_steps : int or None
        Number of steps, each of one time unit.
    fh : array-like (H,) or None
        Steps or durations after the last row, or dates.

    Raises
    ------
    ValueError
        If both or neither of `n_steps` and `fh` are given, or `fh` is not valid.
    """
    if (n_steps is None) == (fh is None):
        raise ValueError(
            "n_steps or fh must be set, and not both. Pass a number of steps (n_steps), or the steps or "
            "times to forecast (fh)."
        )
    if axis.kind == "dates":
        seconds, calendar = axis.unit * time_unit, axis.calendar
    else:  # a step is one row; its duration is known if X has a time index
        seconds, calendar = sequences.step or np.nan, sequences.axis.calendar
    if n_steps is not None:
        horizon: Any = np.arange(1, check_count("n_steps", n_steps) + 1)
    else:
        horizon = _parse_horizon(fh)
    horizons = []
    for i in range(len(sequences.lengths)):
        labels = None if sequences.labels is None else _as_index(sequences.labels[i])
        steps = _steps(horizon, labels, seconds, calendar)
        frame_index = index_of(X[i] if sequences.is_list else X)
        step_is_row = sequences.step is not None and (sequences.times is None or sequences.step == time_unit)
        index = None
        if frame_index is not None:
            index = _forecast_index(horizon, labels, frame_index, steps, step_is_row, seconds, calendar)
        horizons.append(Horizon(steps, index))
    return horizons


def append_empty_rows(
    sequences: Sequences, n_steps: int, unit: float, future_exog: Sequence[FloatArray] | None = None
) -> Sequences:
    """Append rows without observations to each sequence, one unit of time apart.

    If the model has covariates, `future_exog` contains the covariates (n_steps, P) of the new rows of each
    sequence.
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
    if sequences.exog is not None and future_exog is not None:
        rows = [sequences.exog[s] for s in sequences.slices]
        exog = np.concatenate([part for pair in zip(rows, future_exog, strict=True) for part in pair])
    return replace(sequences, values=values, times=times, lengths=lengths, step=step, exog=exog)


def _parse_horizon(fh: Any) -> Any:
    """Validate a horizon; return an increasing array of numbers of steps, or an increasing index of times."""
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
        return _parse_horizon(index.to_numpy())
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
        raise ValueError("fh must contain increasing times, none of them missing.")
    return index


def _as_index(labels: Any) -> Any:
    """Return dates, durations or periods of a sequence as a pandas index."""
    import pandas as pd

    return pd.Index(labels)


def _steps(horizon: Any, labels: Any, seconds: float, calendar: str | None) -> FloatArray:
    """Return the number of steps from the last row to each time of the horizon.

    Parameters
    ----------
    horizon : ndarray or Index (H,)
        Numbers of steps, durations, or dates.
    labels : Index or None
        Dates, durations or periods of the rows.
    seconds : float
        Duration of a step; NaN if it is not known.
    calendar : str or None
        Kind of calendar step, such as a month, if dates are counted in such steps.
    """
    import pandas as pd

    if isinstance(horizon, np.ndarray):
        return np.asarray(horizon, dtype=np.float64)
    if not np.isfinite(seconds):
        raise ValueError(
            "fh contains times, but the duration of a step is unknown, because the model was not fitted "
            "with dates or durations. Pass fh as numbers of steps ahead."
        )
    if isinstance(horizon, pd.TimedeltaIndex):
        elapsed = horizon.to_numpy() / np.timedelta64(1, "s")
    else:
        if labels is None or labels.inferred_type.startswith("timedelta"):
            raise ValueError(
                "fh contains dates, but the rows of X have no dates. Pass numbers of steps, or durations."
            )
        dates = _timestamps(horizon)
        last = _timestamps(labels[-1:])
        if (dates.tz is None) != (last.tz is None):
            raise ValueError(
                "fh and the rows of X must both have a time zone, or both have none; "
                f"fh has {dates.tz}, the rows {last.tz}."
            )
        last_and_dates = last.append(dates.tz_convert(last.tz) if last.tz is not None else dates)
        if last_and_dates[1] <= last_and_dates[0]:
            raise ValueError(f"fh must be after the last row, {labels[-1]}; it starts at {horizon[0]}.")
        counts = calendar_seconds(last_and_dates, calendar)
        elapsed = counts[1:] - counts[0]
    if elapsed[0] <= 0.0:
        raise ValueError(f"fh must contain positive durations; the first is {horizon[0]}.")
    return round_if_close(np.asarray(elapsed, dtype=np.float64) / seconds)


def _timestamps(index: Any) -> Any:
    """Return dates or periods as a DatetimeIndex."""
    import pandas as pd

    return index.to_timestamp(how="start") if isinstance(index, pd.PeriodIndex) else pd.DatetimeIndex(index)


def _forecast_index(
    horizon: Any,
    labels: Any,
    frame_index: Any,
    steps: FloatArray,
    step_is_row: bool,
    seconds: float,
    calendar: str | None,
) -> Any:
    """Return the index of the forecasts, which continues the index of the DataFrame if possible.

    Parameters
    ----------
    horizon, labels, seconds, calendar
        As in :func:`_steps`.
    frame_index : Index
        Index of the DataFrame.
    steps : ndarray of shape (H,)
        Result of :func:`_steps`.
    step_is_row : bool
        Whether the rows of the DataFrame are one step of the model apart.
    """
    import pandas as pd

    if isinstance(horizon, (pd.DatetimeIndex, pd.PeriodIndex)):
        return horizon.rename(frame_index.name)
    if labels is not None and np.isfinite(seconds):
        future_labels = _future_labels(horizon, labels, steps, step_is_row, seconds, calendar)
        if future_labels is not None:
            return future_labels.rename(frame_index.name)
    is_whole = bool(np.all(steps == np.rint(steps)))
    counts = steps.astype(np.int64) if is_whole else steps
    if (
        not has_times(frame_index)
        and frame_index.nlevels == 1
        and pd.api.types.is_numeric_dtype(frame_index.dtype)
        and len(frame_index) > 1
    ):
        numbers = frame_index.to_numpy()
        step = numbers[1] - numbers[0]
        if not np.any(np.diff(numbers) != step):
            if isinstance(frame_index, pd.RangeIndex) and is_whole and np.all(np.diff(counts) == 1):
                first = int(frame_index[-1] + step * counts[0])
                stop = first + int(step) * len(counts)
                return pd.RangeIndex(first, stop, int(step), name=frame_index.name)
            return pd.Index(numbers[-1] + step * counts, name=frame_index.name)
    return pd.Index(counts, name="steps ahead")


def _future_labels(
    horizon: Any, labels: Any, steps: FloatArray, step_is_row: bool, seconds: float, calendar: str | None
) -> Any:
    """Return dates, durations or periods after the last of `labels`; None if a period would be fractional.

    Parameters are those of :func:`_forecast_index`.
    """
    import pandas as pd

    is_whole = bool(np.all(steps == np.rint(steps)))
    last = labels[-1]
    if isinstance(labels, pd.PeriodIndex):
        if len(labels) < 2:
            labels = labels.append(labels + 1)  # the duration of a period is computed from two periods
        seconds_of_labels = calendar_seconds(_timestamps(labels), calendar)
        ordinals = labels.asi8
        seconds_per_ordinal = (seconds_of_labels[-1] - seconds_of_labels[0]) / (ordinals[-1] - ordinals[0])
        frequency: Any = labels.freq  # adding an integer n to a period adds n times the frequency
        n_periods = round_if_close(steps * seconds / seconds_per_ordinal / frequency.n)
        if np.any(n_periods != np.rint(n_periods)):
            return None
        return pd.PeriodIndex([last + int(n) for n in n_periods])
    if isinstance(horizon, pd.TimedeltaIndex):
        return last + horizon
    if not isinstance(labels, pd.TimedeltaIndex):
        labels = pd.DatetimeIndex(labels)
        last = labels[-1]
    if is_whole and step_is_row and labels.freq is not None:
        make_range = pd.timedelta_range if isinstance(labels, pd.TimedeltaIndex) else pd.date_range
        following = make_range(last, periods=int(steps[-1]) + 1, freq=labels.freq)[1:]
        return following if len(following) == len(steps) else following[steps.astype(np.int64) - 1]
    if is_whole and calendar is not None and isinstance(labels, pd.DatetimeIndex):
        counts = np.rint(steps * seconds / CALENDARS[calendar]).astype(int)
        offset = _calendar_offset(labels, calendar)
        return pd.DatetimeIndex([last + int(n) * offset for n in counts])
    try:
        exact = (last + _durations(steps * seconds, "ns")).as_unit("ns")
    except (OverflowError, pd.errors.OutOfBoundsDatetime, pd.errors.OutOfBoundsTimedelta):
        unit = (
            "s" if labels.unit == "ns" else labels.unit
        )  # distant years are out of the range of nanoseconds
        return last.as_unit(unit) + _durations(steps * seconds, unit)
    in_unit_of_labels = exact.as_unit(labels.unit)
    return in_unit_of_labels if bool(np.all(in_unit_of_labels == exact)) else exact


def _durations(seconds: FloatArray, unit: str) -> Any:
    """Return durations, rounded to a unit of pandas.

    Raises
    ------
    OverflowError
        If the durations are out of range.
    """
    import pandas as pd

    counts = np.rint(seconds * TICKS_PER_SECOND[unit])
    if np.max(np.abs(counts), initial=0.0) >= 2.0**63:
        raise OverflowError(f"{np.max(seconds):g} seconds in units of {unit}")
    return pd.TimedeltaIndex(counts.astype(np.int64).astype(f"timedelta64[{unit}]"))


def _calendar_offset(index: Any, calendar: str) -> Any:
    """Return one calendar step of the dates as a pandas offset, such as a day or a month end."""
    from pandas import offsets

    if calendar == "day":
        return offsets.DateOffset(days=1)
    if calendar == "business day":
        return offsets.BusinessDay()
    for each in (offsets.MonthEnd(), offsets.BMonthEnd(), offsets.BMonthBegin()):
        if len(set(index.day)) > 1 and all(each.is_on_offset(stamp) for stamp in index):
            return each
    return offsets.DateOffset(months=1)
