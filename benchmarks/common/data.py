"""Where programs look for data beyond the bundled sets, and the records that several of them judge on."""

import argparse
import os
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa.datasets import load_nyc_weather

# The folders that `records` reads.
RECORDS = "air_quality_uci, etth1, tep, occupancy_uci, beijing_multisite"


def add_data_option(parser: argparse.ArgumentParser, holds: str) -> None:
    """Give a parser the option ``--data``; ``holds`` names the folders that must lie in that one."""
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("PROBSFA_DATA", "data")),
        metavar="FOLDER",
        help=f"folder that holds {holds} (default: what PROBSFA_DATA says, else ./data)",
    )


def records(folder: Path):
    """Records by name, NaN where missing; those whose files are not there are None."""

    def when_there(path, read):
        return read(folder / path) if (folder / path).exists() else None

    def air(path):
        return pd.read_csv(path).iloc[:, 2:15].astype(float).replace(-200.0, np.nan).to_numpy()

    def numbers(path):
        return pd.read_csv(path).select_dtypes("number").to_numpy(float)

    def occupancy(path):
        columns = ["Temperature", "Humidity", "Light", "CO2", "HumidityRatio"]
        return pd.read_csv(path)[columns].to_numpy(float)

    def array(name, columns=slice(None)):
        return lambda path: np.load(path)[name][:, columns].astype(float)

    beijing = "beijing_multisite/beijing_multisite.npz"
    return {
        "weather": load_nyc_weather(drop_impossible=True).data.to_numpy(float),
        "air quality": when_there("air_quality_uci/AirQualityUCI.csv.gz", air),
        "ETT": when_there("etth1/ETTh1.csv", numbers),
        "TEP d00": when_there("tep/tep.npz", array("d00")),
        "TEP d00_te": when_there("tep/tep.npz", array("d00_te")),
        "occupancy": when_there("occupancy_uci/datatraining.txt.gz", occupancy),
        "Beijing, one station": when_there(beijing, array("X", slice(11))),
        "Beijing, all": when_there(beijing, array("X")),
    }
