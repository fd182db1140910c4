"""Numbers that are dates: 20130131, seconds since 1970, years beside months."""

import numpy as np
from numpy.typing import NDArray

from probsfa.cli.tables.dates import Reading, century, to_dates

__all__ = ["EPOCH_UNITS", "compact_dates", "epoch_dates", "epoch_unit", "from_parts"]

EPOCH_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3, "min": 6e7, "h": 3.6e9, "d": 8.64e10}

_DAY = np.timedelta64(86_400_000_000, "us")


def compact_dates(values: NDArray[np.float64], months: bool = False) -> Reading | None:
    """Read whole numbers such as 20130131, 2013013118 or 201301311830 as dates; None for any other numbers.

    Parameters
    ----------
    values : ndarray (T,)
        Without NaN.
    months : bool, default=False
        Whether numbers such as 201301 are dates, too.
    """
    if not len(values) or np.any(values % 1 != 0) or np.any(values < 0) or np.any(values >= 1e15):
        return None
    whole = values.astype(np.int64)
    sizes = {
        6: (100, ()),
        8: (10_000, ()),
        10: (10_000, (3600,)),
        12: (10_000, (3600, 60)),
        14: (10_000, (3600, 60, 1)),
    }
    digits = {len(str(int(end))) for end in (whole.min(), whole.max())}
    if len(digits) != 1 or (size := digits.pop()) not in sizes or (size == 6 and not months):
        return None
    micros = np.zeros(len(whole), dtype=np.int64)
    form = "YYYYMMDD"
    for seconds, most in reversed(list(zip(sizes[size][1], (24, 59, 59), strict=False))):
        part, whole = whole % 100, whole // 100
        if np.any(part > most):
            return None
        micros += part * seconds * 1_000_000
    form += {10: "HH", 12: "HHMM", 14: "HHMMSS"}.get(size, "")
    if size == 6:
        years, month, day, form = whole // 100, whole % 100, np.ones_like(whole), "YYYYMM"
    else:
        years, month, day = whole // 10_000, whole // 100 % 100, whole % 100
    if np.any((years < 1500) | (years > 2500)):
        return None
    stamps = to_dates(years, month, day)
    if np.isnat(stamps).any():
        return None
    return Reading(stamps + micros.astype("timedelta64[us]"), form, None, size > 8)


def epoch_unit(values: NDArray[np.float64]) -> str | None:
    """Return the unit in which numbers count from 1970 to a time from 1980 to 2100, or None."""
    low, high = 315_532_800.0, 4_102_444_800.0
    for unit, size in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", 1e9)):
        if len(values) and np.all((values >= low * size) & (values <= high * size)):
            return unit
    return None


def epoch_dates(values: NDArray[np.float64], unit: str) -> Reading:
    """Read numbers as times since 1970-01-01; not-a-time for those that are out of reach."""
    micros = values * EPOCH_UNITS[unit]
    known = np.abs(micros) < 9e18
    stamps = np.full(len(values), np.datetime64("NaT", "us"))
    stamps[known] = np.rint(micros[known]).astype(np.int64).view("datetime64[us]")
    return Reading(stamps, f"{unit} since 1970", None, True)


def from_parts(parts: dict[str, NDArray[np.float64]]) -> Reading | None:
    """Put dates together from columns of years, months, days and so on; None where they do not make dates.

    Parameters
    ----------
    parts : dict of str to ndarray (T,)
        Numbers by the name of the part. Without years, the dates are those of the year 2000.
    """
    whole = {name: values.astype(np.int64) for name, values in parts.items() if not np.isnan(values).any()}
    if not whole:
        return None
    ones = np.ones_like(next(iter(whole.values())))
    years = whole.get("year", 2000 * ones)
    years = np.where(years < 100, century(years), years)
    stamps = to_dates(years, whole.get("month", ones), whole.get("day", ones))
    if "dayofyear" in whole and "month" not in whole:
        if np.any((whole["dayofyear"] < 1) | (whole["dayofyear"] > 366)):
            return None
        stamps = stamps + (whole["dayofyear"] - 1) * _DAY
    for name, size in (("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)):
        if name in whole:
            stamps = stamps + (whole[name] * size).astype("timedelta64[us]")
    used = "-".join(name for name in ("year", "month", "day", "dayofyear") if name in whole)
    clock = [name for name in ("hour", "minute", "second") if name in whole]
    how = f"{used} {':'.join(clock)}".strip()
    return None if np.isnat(stamps).any() else Reading(stamps, how, None, bool(clock))
