"""Process monitoring: detected faults and false alarms on two public benchmarks, compared with PCA.

Tennessee Eastman (Downs & Vogel 1993, the files of Chiang, Russell & Braatz): 500 normal rows to learn
from, then 960 rows for each of 21 faults, which begin at row 160, and 960 normal ones. As is usual, the 33
columns that are measured every three minutes are watched (XMEAS 1 to 22 and XMV 1 to 11). Detection rate:
part of the 800 faulty rows with an alarm. False alarms: part of the 960 normal rows, and of the first 160
of the files of faults, with one. Faults 3, 9 and 15 are known to leave hardly a trace.

SKAB v0.9 (Katser & Kozitsin 2020): 34 experiments on a water circuit with eight sensors; the first 400 rows
of each are there to learn from, all are judged, and F1, false-alarm rate and missed-alarm rate are of all
rows of all experiments, as on its leaderboard.

All methods get the same: the same contiguous stretches of normal rows are left out to set limits by their
quantiles and tails, for all charts of a method together (`probsfa.monitoring.limits.control_limits`), and the
same windows over which statistics are averaged.
Numbers of components and latents are chosen by the likelihood of left-out normal rows; no fault has a say
in them. On SKAB the pair of window and alpha is chosen for each experiment by the F1 of all others, for
each method. PCA has T2 of its components and the squared error of reconstruction (SPE); dynamic PCA the
same for rows beside the two before them; Hotelling is T2 of all columns.

    python benchmarks/accuracy/monitoring.py --data FOLDER [--only tep|skab]
"""

import sys
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.decomposition import PCA

from probsfa import SFA, ProbabilisticSFA
from probsfa.monitoring import ProcessMonitor
from probsfa.monitoring.limits import (
    contiguous_folds,
    control_limits,
    empirical_limits,
    trailing_means,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting, table

FOLDS = 5
#: Statistics (T, S) of rows, learned from normal ones.
Statistics = Callable[[np.ndarray], np.ndarray]


def main() -> None:
    """Print the tables."""
    arguments = read_options(
        __doc__,
        data="tep and skab",
        only={"choices": ["tep", "skab"]},
    )
    print(setting("probsfa", "numpy", "scikit-learn", "jax"), "\n")
    if arguments.only != "skab":
        on_tennessee_eastman(arguments.data / "tep" / "tep.npz")
    if arguments.only != "tep":
        on_skab(arguments.data / "skab" / "skab_v0.9_data.zip")


# ------------------------------------------------------------------------------------------ methods


class Judge:
    """A method with its held-out statistics, from which limits for any window and alpha follow."""

    def __init__(self, held_out: list[np.ndarray], statistics: Statistics) -> None:
        self.held_out, self.statistics = held_out, statistics

    @classmethod
    def of_monitor(cls, model: Any, X: np.ndarray) -> "Judge":
        """What `ProcessMonitor` does, with the statistics before they are averaged."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            monitor = ProcessMonitor(model, n_folds=FOLDS).fit(X)
        sizes = [b - a for [(_, a, b)] in contiguous_folds((len(X),), FOLDS)]
        parts = np.split(monitor.held_out_.to_numpy(), np.cumsum(sizes)[:-1])
        return cls(parts, lambda rows: monitor.score_samples(rows).to_numpy())

    @classmethod
    def of_function(cls, learn: Callable[[np.ndarray], Statistics], X: np.ndarray) -> "Judge":
        """A method that learns statistics from rows."""
        parts = []
        for [(_, a, b)] in contiguous_folds((len(X),), FOLDS):
            parts.append(learn(np.concatenate([X[:a], X[b:]]))(X[a:b]))
        return cls(parts, learn(X))

    def limits(self, window: int, alpha: float) -> np.ndarray:
        """Limits of statistics averaged over a window."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few rows for rare alarms: the same for all methods
            return control_limits(
                np.concatenate([trailing_means(part, window) for part in self.held_out]), alpha, joint=True
            )

    def alarms(self, X: np.ndarray, window: int, limits: np.ndarray) -> np.ndarray:
        """Rows with a statistic above its limit."""
        return np.any(trailing_means(self.statistics(X), window) > limits, axis=1)


def pca(n_components: int, lags: int = 0) -> Callable[[np.ndarray], Statistics]:
    """T2 and SPE of principal components of standardised columns, with rows before them if asked for."""

    def learn(X: np.ndarray) -> Statistics:
        mean, std = X.mean(axis=0), X.std(axis=0)
        std = np.where(std > 0, std, 1.0)

        def delayed(rows: np.ndarray) -> np.ndarray:
            z = (rows - mean) / std
            return np.hstack([z[lags - j : len(z) - j] for j in range(lags + 1)])

        fitted = PCA(n_components).fit(delayed(X))

        def statistics(rows: np.ndarray) -> np.ndarray:
            z = delayed(rows)
            scores = fitted.transform(z)
            t2 = np.sum(scores**2 / fitted.explained_variance_, axis=1)
            charts = [t2]
            if n_components < z.shape[1]:
                charts.append(np.sum((z - fitted.inverse_transform(scores)) ** 2, axis=1))
            values = np.stack(charts, axis=1)
            return np.concatenate([np.full((lags, values.shape[1]), np.nan), values])

        return statistics

    return learn


def best_pca(X: np.ndarray, candidates: list[int]) -> int:
    """Number of components by the likelihood of left-out stretches under probabilistic PCA."""
    mean, std = X.mean(axis=0), X.std(axis=0)
    z = (X - mean) / np.where(std > 0, std, 1.0)
    folds = [fold[0][1:] for fold in contiguous_folds((len(z),), FOLDS)]
    scores = {
        k: np.mean([PCA(k).fit(np.concatenate([z[:a], z[b:]])).score(z[a:b]) for a, b in folds])
        for k in candidates
    }
    return max(scores, key=scores.__getitem__)


def best_latents(X: np.ndarray, candidates: list[int], **options: Any) -> int:
    """Number of latents by the likelihood of left-out stretches."""
    folds = [fold[0][1:] for fold in contiguous_folds((len(X),), FOLDS)]
    scores = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in candidates:
            fits = [
                ProbabilisticSFA(k, **options).fit([x for x in (X[:a], X[b:]) if len(x)]) for a, b in folds
            ]
            scores[k] = np.mean([fit.score(X[a:b]) for fit, (a, b) in zip(fits, folds, strict=True)])
            if scores[k] < max(scores.values()):
                break  # more latents are no better
    return max(scores, key=scores.__getitem__)


# ----------------------------------------------------------------------------------------------- TEP


def on_tennessee_eastman(path: Path, alpha: float = 0.01) -> None:
    """Detection rates by fault."""
    stored = np.load(path)
    watched = np.r_[0:22, 41:52]
    normal = stored["d00"][:, watched].astype(float)
    files = {n: stored[f"d{n:02}_te"][:, watched].astype(float) for n in range(22)}
    started = time.process_time()
    k = best_latents(normal, [2, 4, 6, 9, 12, 16])
    p = best_pca(normal, [2, 4, 6, 9, 12, 16, 20, 24])
    judges = {
        f"PCA, {p}": Judge.of_function(pca(p), normal),
        f"dynamic PCA, {3 * p}": Judge.of_function(pca(3 * p, lags=2), normal),
        "SFA": Judge.of_monitor(SFA(), normal),
        f"probabilistic SFA, {k}": Judge.of_monitor(ProbabilisticSFA(k), normal),
    }
    print(f"Tennessee Eastman: learned in {time.process_time() - started:.0f} s of processor time.\n")
    for window in (1, 10):
        columns = {
            name: rates(judge, files, window, judge.limits(window, alpha)) for name, judge in judges.items()
        }
        equal = {
            name: rates(judge, files, window, at_equal_alarms(judge, files[0], window, alpha))
            for name, judge in judges.items()
        }
        print(f"Detection rates in per cent, statistics averaged over {window} rows, alpha {alpha:g}:\n")
        rows: list[list[str]] = []
        for n in range(1, 22):
            rows.append([f"fault {n}", *(f"{100 * found[n]:.1f}" for found in columns.values())])
        easy = [n for n in range(1, 22) if n not in (3, 9, 15)]
        rows.append(
            ["mean", *(f"{100 * np.mean([f[n] for n in range(1, 22)]):.1f}" for f in columns.values())]
        )
        rows.append(
            [
                "mean without 3, 9, 15",
                *(f"{100 * np.mean([f[n] for n in easy]):.1f}" for f in columns.values()),
            ]
        )
        rows.append(["false alarms, 960 normal rows", *(f"{100 * f[0]:.1f}" for f in columns.values())])
        rows.append(["false alarms, before faults", *(f"{100 * f[-1]:.1f}" for f in columns.values())])
        rows.append(
            [
                "mean without 3, 9, 15 *",
                *(f"{100 * np.mean([f[n] for n in easy]):.1f}" for f in equal.values()),
            ]
        )
        print(table(["", *columns], rows))
        print(f"\n\\* with limits at which {100 * alpha:g} % of the 960 normal rows raise an alarm.\n")


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


# ---------------------------------------------------------------------------------------------- SKAB


def on_skab(path: Path, n_train: int = 400) -> None:
    """F1 over all experiments."""
    experiments = read_skab(path)
    settings = [(window, alpha) for window in (1, 5, 15, 30) for alpha in (0.005, 0.01, 0.05, 0.1)]
    methods: dict[str, Callable[[np.ndarray], Judge]] = {
        "Hotelling": lambda X: Judge.of_function(pca(X.shape[1]), X),
        "PCA": lambda X: Judge.of_function(pca(best_pca(X, list(range(1, 8)))), X),
        "dynamic PCA": lambda X: Judge.of_function(pca(3 * best_pca(X, list(range(1, 8))), lags=2), X),
        "SFA": lambda X: Judge.of_monitor(SFA(), X),
        "SFA, 4 features": lambda X: Judge.of_monitor(SFA(4), X),
        "probabilistic SFA, 3": lambda X: Judge.of_monitor(ProbabilisticSFA(3, max_iter=50), X),
    }
    rows = []
    for name, make in methods.items():
        started = time.process_time()
        counts = np.zeros((len(experiments), len(settings), 4))
        for i, (X, truth) in enumerate(experiments):
            varies = X[:n_train].std(axis=0) > 0
            judge = make(X[:n_train, varies])
            for j, (window, alpha) in enumerate(settings):
                alarms = judge.alarms(X[:, varies], window, judge.limits(window, alpha))
                counts[i, j] = [
                    np.sum(alarms & truth),
                    np.sum(alarms & ~truth),
                    np.sum(~alarms & truth),
                    np.sum(~alarms & ~truth),
                ]
        whole = counts.sum(axis=0)
        best = int(np.argmax(f1(whole)))
        # For each experiment the setting that is best on all the others.
        chosen = np.array([counts[i, int(np.argmax(f1(whole - counts[i])))] for i in range(len(counts))]).sum(
            axis=0
        )
        spent = time.process_time() - started
        plain = whole[settings.index((1, 0.01))]
        window, alpha = settings[best]
        rows.append(
            [
                name,
                f"{f1(chosen):.3f}",
                f"{false_alarms(chosen):.1f}",
                f"{missed(chosen):.1f}",
                f"{f1(whole[best]):.3f} ({window}, {alpha:g})",
                f"{f1(plain):.3f}",
                f"{spent:.0f}",
            ]
        )
        print(f"  {name}: done in {spent:.0f} s of processor time", flush=True)
    print(f"\nSKAB: {len(experiments)} experiments, {sum(len(t) for _, t in experiments):,} rows.\n")
    header = ["", "F1", "FAR, %", "MAR, %", "best F1 (window, alpha)", "F1 at (1, 0.01)", "processor s"]
    print(table(header, rows))


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


if __name__ == "__main__":
    main()
