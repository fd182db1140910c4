"""Data sets, hidden values, scores and published errors of TSI-Bench (Du et al. 2024, arXiv:2406.12747)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from probsfa.statespace.held_out_values import crps

#: Half the width of a 90 % interval, in standard deviations.
HALF_WIDTH = 1.6448536269514722


class Record(NamedTuple):
    """A data set and its protocol.

    ``options`` are those of the model if no search is affordable. ``hidden_share`` is the share of the
    training values that is hidden. With ``segment_rows``, the model is fitted to every fourth segment of that
    many rows first, then to all rows with `EVALUATIONS` more evaluations. ``kinds`` are the quantities of the
    columns.
    """

    values: np.ndarray
    train: slice
    test: slice
    window: int
    subsequence: int
    block: int
    options: dict[str, Any] | None = None
    hidden_share: float = 0.5
    segment_rows: int | None = None
    kinds: tuple[str, ...] | None = None


def ett(folder: Path) -> Record:
    """Return ETT_h1."""
    frame = pd.read_csv(folder / "etth1" / "ETTh1.csv", index_col=0, parse_dates=True)
    train, test = until(frame.index, "2017-09-01"), until(frame.index, "2018-02-01")
    return Record(frame.to_numpy(float), slice(train), slice(test, None), 48, 36, 6)


def beijing(folder: Path) -> Record:
    """Return twelve stations with eleven columns each."""
    archive = np.load(folder / "beijing_multisite" / "beijing_multisite.npz")
    times = pd.DatetimeIndex(archive["time"])
    train, test = until(times, "2015-07-01"), until(times, "2016-05-01")
    # Pollutants, ozone and rain are nonnegative and skewed; wind speed has lower errors untransformed.
    skewed = ("PM2.5", "PM10", "SO2", "NO2", "CO", "O3", "RAIN")
    transforms = {j: "sqrt" for j, name in enumerate(archive["names"]) if str(name).endswith(skewed)}
    options = {"n_components": 90, "solver": "em", "max_iter": 30, "transforms": transforms}
    parts = slice(train), slice(test, None)
    kinds = tuple(str(name).rpartition("_")[2] for name in archive["names"])
    values = archive["X"].astype(float)
    return Record(values, *parts, 24, 18, 6, options, hidden_share=0.1, segment_rows=240, kinds=kinds)


def italy(folder: Path) -> Record:
    """Return the UCI air-quality data."""
    frame = pd.read_csv(folder / "air_quality_uci" / "AirQualityUCI.csv.gz").iloc[:, 2:15]
    values = frame.astype(float).replace(-200.0, np.nan).to_numpy()
    n = len(values)
    return Record(values, slice(int(0.6 * n)), slice(int(0.8 * n), None), 12, 8, 4)


def italy_raw(folder: Path) -> Record:
    """Return the same data as PyPOTS reads them, with the code -200 as values."""
    record = italy(folder)
    return record._replace(values=np.where(np.isnan(record.values), -200.0, record.values))


RECORDS = {"ETT_h1": ett, "BeijingAir": beijing, "ItalyAir": italy, "ItalyAirRaw": italy_raw}
PATTERNS = (("point", "10%"), ("point", "50%"), ("point", "90%"), ("subsequence", "50%"), ("block", "50%"))
#: Names of the patterns in tables.
HEADS = [f"{pattern} {rate.rstrip('%')} %" for pattern, rate in PATTERNS]
#: Imputes windows; returns values, and standard deviations or None.
Filler = Callable[[list[np.ndarray]], tuple[list[np.ndarray], list[np.ndarray] | None]]


def until(index: pd.Index, date: str) -> int:
    """Return the number of rows before a date."""
    return int(np.searchsorted(index, np.datetime64(date)))


def hide(window: np.ndarray, pattern: str, rate: str, record: Record, rng: np.random.Generator) -> np.ndarray:
    """Return the hidden values of a window."""
    part = float(rate.rstrip("%")) / 100.0
    if pattern == "point":
        return rng.random(window.shape) < part
    hidden = np.zeros(window.shape, dtype=bool)
    n_rows, n_columns = window.shape
    if pattern == "subsequence":
        n = min(round(part * window.size / record.subsequence), n_columns)
        for column in rng.choice(n_columns, n, replace=False):
            first = rng.integers(0, n_rows - record.subsequence + 1)
            hidden[first : first + record.subsequence, column] = True
        return hidden
    while hidden.mean() < part:
        row = rng.integers(0, n_rows - record.block + 1)
        column = rng.integers(0, n_columns - record.block + 1)
        hidden[row : row + record.block, column : column + record.block] = True
    return hidden


def held_out_values(windows: list[np.ndarray], record: Record, seed: int) -> list[list[np.ndarray]]:
    """Return the hidden values of each window, pattern by pattern."""
    rng = np.random.default_rng([seed, 1])
    return [[hide(window, pattern, rate, record, rng) for window in windows] for pattern, rate in PATTERNS]


def score(
    fill: Filler, windows: list[np.ndarray], hidden: list[np.ndarray], scale: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return absolute and squared error, CRPS and coverage of hidden values (4,), and squares by column."""
    holed = [np.where(h, np.nan, w) for h, w in zip(hidden, windows, strict=True)]
    filled, spread = fill(holed)
    error = np.concatenate([((f - w) / scale)[h] for f, w, h in zip(filled, windows, hidden, strict=True)])
    there = ~np.isnan(error)
    error = error[there]
    row = np.array([np.mean(np.abs(error)), np.mean(error**2), np.nan, np.nan])
    if spread is not None:
        std = np.concatenate([(s / scale)[h] for s, h in zip(spread, hidden, strict=True)])[there]
        row[2:] = np.mean(crps(error, std)), np.mean(np.abs(error) <= HALF_WIDTH * std)
    columns = np.concatenate([np.nonzero(h)[1] for h in hidden])[there]
    return row, np.bincount(columns, error**2, len(scale))


def best_published(folder: Path, name: str) -> tuple[list[float], list[str], list[float]]:
    """Return the smallest published absolute error of each pattern, its method, and squared errors."""
    table = pd.read_csv(folder / "tsibench" / "published.csv")
    table = table[table.dataset == name]
    parts = [table[(table.pattern == pattern) & (table.rate == rate)] for pattern, rate in PATTERNS]
    best = [part.loc[part.mae.idxmin()] for part in parts]
    return [row.mae for row in best], [row.method for row in best], [part.mse.min() for part in parts]
