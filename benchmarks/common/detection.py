"""Rates of detected faults and of false alarms."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common.monitors import Judge

from probsfa.monitoring.limits import (
    empirical_limits,
    trailing_means,
)


def rates(judge: Judge, files: dict[int, np.ndarray], window: int, limits: np.ndarray) -> dict[int, float]:
    """Detection rate of each fault; false-alarm rate of normal rows (0), and before faults (-1)."""
    out, before = {}, []
    for n, rows in files.items():
        alarms = judge.alarms(rows, window, limits)
        out[n] = float(np.mean(alarms if n == 0 else alarms[160:]))
        if n:
            before.append(np.mean(alarms[:160]))
    out[-1] = float(np.mean(before))
    return out


def at_equal_alarms(judge: Judge, normal: np.ndarray, window: int, alpha: float) -> np.ndarray:
    """Limits at which a part of normal rows raises an alarm."""
    return empirical_limits(trailing_means(judge.statistics(normal), window), alpha, joint=True)[0]


def read_skab(path: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and labels of every experiment."""
    out = []
    with zipfile.ZipFile(path) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".csv") and "anomaly-free" not in name:
                frame = pd.read_csv(archive.open(name), sep=";", index_col=0)
                out.append((frame.iloc[:, :8].to_numpy(float), frame["anomaly"].to_numpy() > 0))
    return out


def f1(counts: np.ndarray) -> Any:
    """F1 of true positives, false positives, false negatives, true negatives."""
    return 2 * counts[..., 0] / (2 * counts[..., 0] + counts[..., 1] + counts[..., 2])


def false_alarms(counts: np.ndarray) -> Any:
    """False-alarm rate in per cent."""
    return 100 * counts[..., 1] / (counts[..., 1] + counts[..., 3])


def missed(counts: np.ndarray) -> Any:
    """Missed-alarm rate in per cent."""
    return 100 * counts[..., 2] / (counts[..., 0] + counts[..., 2])
