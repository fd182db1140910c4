"""Rates of detected faults and of false alarms."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.monitors import MonitoringMethod

from probsfa.monitoring.limits import (
    empirical_limits,
    trailing_means,
)


def rates(
    method: MonitoringMethod, files: dict[int, np.ndarray], window: int, limits: np.ndarray
) -> dict[int, float]:
    """Return detection rates of faults, and false-alarm rates of normal rows (0) and before faults (-1)."""
    out, before = {}, []
    for n, rows in files.items():
        alarms = method.alarms(rows, window, limits)
        out[n] = float(np.mean(alarms if n == 0 else alarms[160:]))
        if n:
            before.append(np.mean(alarms[:160]))
    out[-1] = float(np.mean(before))
    return out


def at_equal_alarms(method: MonitoringMethod, normal: np.ndarray, window: int, alpha: float) -> np.ndarray:
    """Return limits that a given share of normal rows exceeds."""
    return empirical_limits(trailing_means(method.statistics(normal), window), alpha, joint=True)[0]


def read_skab(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return rows and labels of every experiment."""
    out = []
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".csv") and "anomaly-free" not in name:
                frame = pd.read_csv(archive.open(name), sep=";", index_col=0)
                out.append((frame.iloc[:, :8].to_numpy(float), frame["anomaly"].to_numpy() > 0))
    return out


def f1(counts: np.ndarray) -> Any:
    """Return F1 from numbers of true positives, false positives, false negatives and true negatives."""
    return 2 * counts[..., 0] / (2 * counts[..., 0] + counts[..., 1] + counts[..., 2])


def false_alarms(counts: np.ndarray) -> Any:
    """Return the false-alarm rate in per cent."""
    return 100 * counts[..., 1] / (counts[..., 1] + counts[..., 3])


def missed(counts: np.ndarray) -> Any:
    """Return the missed-alarm rate in per cent."""
    return 100 * counts[..., 2] / (counts[..., 0] + counts[..., 2])
