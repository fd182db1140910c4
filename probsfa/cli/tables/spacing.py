"""The distances of times."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["duration", "increases", "is_regular", "regular_step"]

_UNITS = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))


def regular_step(stamps: pd.DatetimeIndex) -> str | None:
    """Return the step of dates that are evenly spaced, by the clock or by the calendar.

    Parameters
    ----------
    stamps : DatetimeIndex (T,)
        Dates.

    Returns
    -------
    str or None
        Such as "1 h", "1 month" or "1 business day"; None where they are not evenly spaced.
    """
    same_hour = len(np.unique(stamps - stamps.normalize())) == 1
    same_day = len(set(stamps.day)) == 1 or bool(stamps.is_month_end.all())
    months = np.unique(np.diff(12 * stamps.year + stamps.month))
    if same_hour and same_day and len(months) == 1 and months[0] > 0:
        return {1: "1 month", 3: "1 quarter", 12: "1 year"}.get(int(months[0]), f"{months[0]} months")
    steps = np.unique(np.diff(stamps))
    if len(steps) == 1:
        return duration(steps[0] / np.timedelta64(1, "s"))
    if not same_hour:
        return None
    days = stamps.to_numpy().astype("datetime64[D]")
    if np.all(np.is_busday(days)) and np.all(np.busday_count(days[:-1], days[1:]) == 1):
        return "1 business day"
    return None


def is_regular(stamps: NDArray[Any]) -> bool:
    """Whether dates are evenly spaced, by the clock or by the calendar.

    Examples
    --------
    >>> is_regular(np.array(["2020-01-31", "2020-02-29", "2020-03-31"], dtype="datetime64[D]"))
    True
    """
    return len(stamps) < 2 or regular_step(pd.DatetimeIndex(stamps)) is not None


def increases(values: NDArray[Any]) -> bool:
    """Whether each of some numbers or dates comes after the one before; not-a-time comes after nothing."""
    return bool(np.all(values[1:] > values[:-1]))


def duration(seconds: float) -> str:
    """Write a time span in the largest unit that it fills, such as "1.5 h"."""
    size, unit = next((u for u in _UNITS if seconds >= u[0]), _UNITS[-1])
    return f"{seconds / size:g} {unit}"
