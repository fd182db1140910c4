"""Process monitoring: detected faults and false alarms on two public benchmarks, compared with PCA.

Tennessee Eastman (Downs & Vogel 1993, the files of Chiang, Russell & Braatz): 500 normal rows for the fit,
then 960 rows for each of 21 faults, which begin at row 160, and 960 normal ones. As usual, the 33 columns
that are measured every three minutes are monitored (XMEAS 1 to 22 and XMV 1 to 11). Detection rate: share of
the 800 faulty rows with an alarm. False alarms: share of the 960 normal rows, and of the first 160 rows of
the files with faults. Faults 3, 9 and 15 are known to have hardly any effect.

SKAB v0.9 (Katser & Kozitsin 2020): 34 experiments on a water circuit with eight sensors. Models are fitted to
the first 400 rows of each experiment. F1, false-alarm rate and missed-alarm rate are computed over all rows
of all experiments, as on the leaderboard of SKAB.

All methods have the same held-out segments of normal rows, from which limits are computed for all charts of a
method together, by quantiles and tails (`probsfa.monitoring.limits.control_limits`). All methods average
statistics over the same windows. Numbers of components and factors are selected by the likelihood of held-out
normal rows, without the faults. On SKAB the window and alpha of an experiment are selected for each method by
the F1 of all other experiments. PCA has T2 of its components and the squared error of reconstruction (SPE);
dynamic PCA uses rows together with the two previous ones; Hotelling is T2 of all columns.

    python benchmarks/accuracy/monitoring.py --data FOLDER [--only tep|skab]
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from probsfa import SFA, ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.detection import at_equal_alarms, f1, false_alarms, missed, rates, read_skab
from common.monitors import MonitoringMethod, best_factors, best_pca, pca
from common.options import read_options
from common.side_by_side import setting
from common.tables import Table


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


# ----------------------------------------------------------------------------------------------- TEP


def on_tennessee_eastman(path: Path, alpha: float = 0.01) -> None:
    """Print detection rates by fault."""
    stored = np.load(path)
    watched = np.r_[0:22, 41:52]
    normal = stored["d00"][:, watched].astype(float)
    files = {n: stored[f"d{n:02}_te"][:, watched].astype(float) for n in range(22)}
    started = time.process_time()
    k = best_factors(normal, [2, 4, 6, 9, 12, 16])
    p = best_pca(normal, [2, 4, 6, 9, 12, 16, 20, 24])
    methods = {
        f"PCA, {p}": MonitoringMethod.of_function(pca(p), normal),
        f"dynamic PCA, {3 * p}": MonitoringMethod.of_function(pca(3 * p, lags=2), normal),
        "SFA": MonitoringMethod.of_monitor(SFA(), normal),
        f"probabilistic SFA, {k}": MonitoringMethod.of_monitor(ProbabilisticSFA(k), normal),
    }
    print(f"Tennessee Eastman: learned in {time.process_time() - started:.0f} s of processor time.\n")
    for window in (1, 10):
        columns = {
            name: rates(method, files, window, method.limits(window, alpha))
            for name, method in methods.items()
        }
        equal = {
            name: rates(method, files, window, at_equal_alarms(method, files[0], window, alpha))
            for name, method in methods.items()
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
        Table("", *columns, rows=rows)
        print(f"\n\\* with limits at which {100 * alpha:g} % of the 960 normal rows raise an alarm.\n")


# ---------------------------------------------------------------------------------------------- SKAB


def on_skab(path: Path, n_train: int = 400) -> None:
    """Print F1 over all experiments."""
    experiments = read_skab(path)
    settings = [(window, alpha) for window in (1, 5, 15, 30) for alpha in (0.005, 0.01, 0.05, 0.1)]
    methods: dict[str, Callable[[np.ndarray], MonitoringMethod]] = {
        "Hotelling": lambda X: MonitoringMethod.of_function(pca(X.shape[1]), X),
        "PCA": lambda X: MonitoringMethod.of_function(pca(best_pca(X, list(range(1, 8)))), X),
        "dynamic PCA": lambda X: MonitoringMethod.of_function(
            pca(3 * best_pca(X, list(range(1, 8))), lags=2), X
        ),
        "SFA": lambda X: MonitoringMethod.of_monitor(SFA(), X),
        "SFA, 4 features": lambda X: MonitoringMethod.of_monitor(SFA(4), X),
        "probabilistic SFA, 3": lambda X: MonitoringMethod.of_monitor(ProbabilisticSFA(3, max_iter=50), X),
    }
    rows = []
    for name, make in methods.items():
        started = time.process_time()
        counts = np.zeros((len(experiments), len(settings), 4))
        for i, (X, truth) in enumerate(experiments):
            varies = X[:n_train].std(axis=0) > 0
            method = make(X[:n_train, varies])
            for j, (window, alpha) in enumerate(settings):
                alarms = method.alarms(X[:, varies], window, method.limits(window, alpha))
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
    Table(*header, rows=rows)


if __name__ == "__main__":
    main()
