"""Make the bundled file of two vintages from the source tables.

    python -m probsfa.datasets._build_nowcast FOLDER nowcast.npz

FOLDER contains ``2016-06-29.csv`` and ``2016-07-29.csv`` as published by the Federal Reserve Bank of New
York. Published numbers are stored without loss, as integers: multiples of the last decimal of the series.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsfa.datasets._nowcast import MISSING, SERIES, VINTAGES

_MAX_DECIMALS = 6


def build(folder: Path, target: Path) -> None:
    """Read the two tables of `folder` and write the bundled file to `target`.

    Raises
    ------
    ValueError
        If the series of a table differ, or a number has too many decimals.
    """
    tables = {name: _read(folder / f"{vintage}.csv") for name, vintage in VINTAGES.items()}
    decimals = np.zeros(len(SERIES), dtype=np.int8)
    for table in tables.values():
        decimals = np.maximum(decimals, [_decimals(column) for _, column in table.items()])
    arrays: dict[str, Any] = {
        name: _whole_numbers(table.to_numpy(float), decimals) for name, table in tables.items()
    }
    np.savez_compressed(target, decimals=decimals, **arrays)


def _read(path: Path) -> pd.DataFrame:
    """Read a published table with values as text."""
    table = pd.read_csv(path, index_col=0, dtype=str)
    if list(table.columns) != list(SERIES):
        raise ValueError(f"{path} does not have the expected series in their order.")
    return table


def _decimals(column: "pd.Series[str]") -> int:
    """Return the maximum number of decimals in a column."""
    digits = column.dropna().str.partition(".")[2].str.len()
    maximum = int(digits.max())
    if maximum > _MAX_DECIMALS:
        raise ValueError(f"{column.name}: {maximum} decimals are more than {_MAX_DECIMALS}.")
    return maximum


def _whole_numbers(values: np.ndarray, decimals: np.ndarray) -> np.ndarray:
    missing = np.isnan(values)
    rounded = np.rint(np.where(missing, 0.0, values) * 10.0**decimals)
    if np.any((rounded / 10.0**decimals != values) & ~missing):
        raise ValueError("a number is not an integer multiple of the last decimal of its series.")
    return np.where(missing, MISSING, rounded).astype(np.int64)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(f"usage: python -m {__spec__.name} FOLDER TARGET.npz")
    build(Path(sys.argv[1]), Path(sys.argv[2]))
