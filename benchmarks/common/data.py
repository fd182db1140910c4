"""Folders of data that are not bundled, and the series that several benchmarks use."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from probsfa.datasets import load_nowcast, load_nyc_weather

# The folders that `records` reads.
RECORDS = "air_quality_uci, etth1, tep, occupancy_uci, beijing_multisite"
# Further folders, which `uncurated` reads.
UNCURATED = f"{RECORDS}, imputation_panel, solar_thermal, exchange_rate, skab, co2_mauna_loa"


def records(folder: Path):
    """Return prepared series by name, NaN where missing; None if the file does not exist."""

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


def uncurated(folder: Path):
    """Return real series by name without preparation: with outliers, faults, constants and codes.

    Series whose files do not exist are omitted.
    """
    series = {f"{name}": X for name, X in records(folder).items() if X is not None and name != "weather"}
    series["weather, with an impossible wind"] = load_nyc_weather().data.to_numpy(float)
    series["nowcast panel"] = load_nowcast().july.to_numpy(float)
    for path in sorted((folder / "imputation_panel").glob("*.txt.gz")):
        series[path.name.split(".")[0]] = np.loadtxt(path)
    if (path := folder / "exchange_rate" / "exchange_rate.txt.gz").exists():
        series["exchange rates"] = np.loadtxt(path, delimiter=",")
    if (path := folder / "solar_thermal" / "solar_thermal.csv.gz").exists():
        plant = pd.read_csv(path, index_col=0).to_numpy(float)
        series["solar plant, codes left in"] = plant
    if (path := folder / "co2_mauna_loa" / "co2.csv").exists():
        series["CO2, one column"] = pd.read_csv(path)[["co2"]].to_numpy(float)
    if (path := folder / "tep" / "tep.npz").exists():
        for fault in ("d04_te", "d13_te"):
            series[f"TEP {fault}, with its fault"] = np.load(path)[fault].astype(float)
    if (path := folder / "skab" / "skab_v0.9_data.zip").exists():
        with zipfile.ZipFile(path) as files:
            for name in ("valve1/0", "other/9"):
                text = io.BytesIO(files.read(f"data/{name}.csv"))
                table = pd.read_csv(text, sep=";", index_col=0)
                series[f"SKAB {name}, with its fault"] = table.iloc[:, :8].to_numpy(float)
    return series
