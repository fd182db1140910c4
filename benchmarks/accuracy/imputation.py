"""Filling hidden cells of real records: five masks each, every method of ``probsfa compare``.

Weather: the bundled record without its one impossible wind; 10 % of the observed cells are hidden, one by
one or in blocks of 24 hours. Air: the UCI air-quality record (gaps are coded -200), 24-hour blocks in all
channels but NMHC, which is missing for 90 % of the time. Errors are in units of each channel's standard
deviation; K = 18 for the weather, 12 for the air, defaults otherwise.

    python benchmarks/accuracy/imputation.py [--quick] [--data FOLDER]
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA, metrics
from probsfa.datasets import hide_blocks, hide_cells, load_nyc_weather
from probsfa.imputation import Filled, default_methods

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import add_data_option


def svd_fill(X: np.ndarray, rank: int = 5, rounds: int = 50) -> np.ndarray:
    """Fill by repeated truncated singular value decompositions of the standardised record."""
    mean, scale = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    Z = (X - mean) / scale
    hole = np.isnan(Z)
    Z[hole] = 0.0
    for _ in range(rounds):
        u, s, v = np.linalg.svd(Z, full_matrices=False)
        Z[hole] = ((u[:, :rank] * s[:rank]) @ v[:rank])[hole]
    return mean + scale * Z


class TruncatedSVD:
    """Repeated truncated singular value decompositions, as a method."""

    name = "rank-5 SVD"

    def fill(self, X: np.ndarray, *, times: np.ndarray | None = None) -> Filled:
        """Fill the holes of a series."""
        return Filled(svd_fill(X))


def compare(name: str, X: np.ndarray, n_components: int, hide, seeds: range) -> None:
    """Print errors for each mask and their means."""
    methods = [*default_methods(ProbabilisticSFA(n_components)), TruncatedSVD()]
    sd = np.nanstd(X, axis=0)
    heading = "".join(f"{f'mask {s}':>15}" for s in seeds) + f"{'mean':>15}  covers  seconds"
    print(f"\n{name}\n{'':22}{heading}")
    for method in methods:
        scores, covered, seconds = [], [], []
        for seed in seeds:
            hidden = hide(X, seed)
            began = time.perf_counter()
            filled = method.fill(np.where(hidden, np.nan, X))
            seconds.append(time.perf_counter() - began)
            against = {"mask": hidden, "scale": sd}
            scores.append([error(X, filled.values, **against) for error in (metrics.rmse, metrics.mae)])
            if filled.std is not None:
                covered.append(metrics.coverage(X, filled.values, filled.std, 0.9, mask=hidden))
        cells = "".join(f"{a:>8.3f} {b:.3f} " for a, b in [*scores, tuple(np.mean(scores, axis=0))])
        interval = f"{100 * np.mean(covered):>6.1f} %" if covered else f"{'-':>8}"
        print(f"{method.name:<22}{cells} {interval} {np.median(seconds):>8.1f}", flush=True)


def in_channels(hide, chosen: np.ndarray):
    """The same way of hiding, in some channels only."""

    def hide_there(X: np.ndarray, seed: int) -> np.ndarray:
        hidden = np.zeros(X.shape, dtype=bool)
        hidden[:, chosen] = hide(X[:, chosen], random_state=seed)
        return hidden

    return hide_there


def main() -> None:
    """Print the tables (RMSE and MAE for each mask)."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one mask")
    add_data_option(parser, "air_quality_uci")
    parser.add_argument("--only", choices=("cells", "blocks", "air"))
    args = parser.parse_args()
    seeds = range(1 if args.quick else 5)
    warnings.simplefilter("ignore")
    weather = load_nyc_weather(drop_impossible=True).data.to_numpy()
    everything = np.arange(weather.shape[1])
    if args.only in (None, "cells"):
        compare("weather, single cells", weather, 18, in_channels(hide_cells, everything), seeds)
    if args.only in (None, "blocks"):
        compare("weather, 24-hour blocks", weather, 18, in_channels(hide_blocks, everything), seeds)
    source = args.data / "air_quality_uci" / "AirQualityUCI.csv.gz"
    if not source.exists():
        print(f"\nair: {source} is not there")
    elif args.only in (None, "air"):
        air = pd.read_csv(source).iloc[:, 2:].astype(float).replace(-200.0, np.nan).to_numpy()
        chosen = np.flatnonzero(np.isnan(air).mean(axis=0) < 0.5)
        compare("air, 24-hour blocks", air, 12, in_channels(hide_blocks, chosen), seeds)


if __name__ == "__main__":
    main()
