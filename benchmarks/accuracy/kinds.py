"""Smooth processes and trends, compared with AR(1) factors, for smooth motion and for counters.

Smooth motion: 12 columns that mix three sums of filtered noise (widths 12, 18 and 25 rows), which belong to
none of the models, with noise of standard deviation 0.02; blocks of 30 rows are hidden in each column and 20
rows in all. Counters: the four counters of a solar plant, every third row of the first 4,500 (15 minutes
apart), with 10 % of the values hidden, or six blocks of 24 rows in each column. Errors are root mean squares
of hidden values in standard deviations of columns; coverage is that of 90 % intervals; seconds are processor
seconds of fit and imputation. Means over seeds.

    python benchmarks/accuracy/kinds.py [--seeds N] [--data FOLDER]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.interpolate import PchipInterpolator
from scipy.ndimage import gaussian_filter1d

from probsfa import ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

SMOOTH = {
    "3 AR(1) factors": {"n_components": 3},
    "3 smooth processes": {"n_components": 0, "smooth": 3},
    "the same, smoothness=2.5": {"n_components": 0, "smooth": 3, "smoothness": 2.5},
}
TREND = {
    "3 AR(1) factors": {"n_components": 3},
    "the same, AR(1) noise": {"n_components": 3, "noise": "ar1"},
    "2 factors, trend='linear'": {"n_components": 2, "trend": "linear"},
    "the same, trend and AR(1) noise": {"n_components": 2, "trend": "linear", "noise": "ar1"},
}
COUNTERS = ["seconds_1", "seconds_2", "seconds_3", "heat"]


def motion(rng):
    """Return columns that mix smooth paths, and a mask of hidden values."""
    paths = np.stack([gaussian_filter1d(rng.standard_normal(600), width)[100:-100] for width in (12, 18, 25)])
    x = (paths / paths.std(axis=1, keepdims=True)).T @ rng.standard_normal((3, 12))
    x += 0.02 * rng.standard_normal(x.shape)
    hidden = np.zeros(x.shape, dtype=bool)
    for column, start in enumerate(rng.integers(20, 340, 12)):
        hidden[start : start + 30, column] = True
    hidden[(start := rng.integers(50, 320)) : start + 20] = True
    return x, hidden


def hide(rng, x, blocks):
    """Return a mask of hidden values: single values or blocks."""
    if not blocks:
        return rng.random(x.shape) < 0.1
    hidden = np.zeros(x.shape, dtype=bool)
    for column in range(x.shape[1]):
        for start in rng.choice(len(x) - 24, 6, replace=False):
            hidden[start : start + 24, column] = True
    return hidden


def interpolated(incomplete, kind):
    """Impute by linear or monotone cubic interpolation."""
    rows, out = np.arange(len(incomplete)), incomplete.copy()
    for column in out.T:
        there = ~np.isnan(column)
        path = PchipInterpolator(rows[there], column[there])(rows) if kind == "pchip" else None
        column[:] = np.interp(rows, rows[there], column[there]) if path is None else path
    return out


def run(x, hidden, models):
    """Return error, coverage and seconds of each method, in the order of the table."""
    hidden = hidden & ~np.isnan(x) & (np.nanstd(x, axis=0) > 0.0)
    incomplete, scale = np.where(hidden, np.nan, x), np.nanstd(x, axis=0)

    def error(filled):
        return float(np.sqrt(np.mean((((filled - x) / scale)[hidden]) ** 2)))

    rows = [(error(interpolated(incomplete, kind)), np.nan, np.nan) for kind in ("linear", "pchip")]
    for options in models.values():
        began = time.process_time()
        model = ProbabilisticSFA(**{"noise": "diagonal", **options}).fit(incomplete)
        filled, std = model.impute(incomplete, return_std=True)
        covered = np.mean(np.abs(filled - x)[hidden] < 1.645 * std[hidden])
        rows.append((error(filled), covered, time.process_time() - began))
    return np.array(rows)


def main() -> None:
    """Print a table for each kind of data."""
    args = read_options(
        __doc__,
        data="solar_thermal",
        seeds=5,
    )
    warnings.simplefilter("ignore")
    print(setting("numpy", "scipy"))
    tasks = {"smooth motion": (motion, SMOOTH)}
    path = args.data / "solar_thermal" / "solar_thermal.csv.gz"
    if not path.exists():
        print("The record of the solar plant was not found: see --data.")
    else:
        counters = pd.read_csv(path)[COUNTERS].to_numpy(dtype=np.float64)[:4500:3]
        tasks["counters, values"] = (lambda rng: (counters, hide(rng, counters, False)), TREND)
        tasks["counters, 24-row blocks"] = (lambda rng: (counters, hide(rng, counters, True)), TREND)
    for name, (make, models) in tasks.items():
        found = [run(*make(np.random.default_rng(seed)), models) for seed in range(args.seeds)]
        print(f"\n{name}\n")
        methods = ["linear", "pchip", *models]
        lines = [
            [method, f"{error:.4f}", *(["", ""] if np.isnan(s) else [f"{covered:.0%}", f"{s:.1f}"])]
            for method, (error, covered, s) in zip(methods, np.mean(found, axis=0), strict=True)
        ]
        Table("method", "error", "coverage", "seconds", rows=lines)


if __name__ == "__main__":
    main()
