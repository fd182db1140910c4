"""Slowness by number and selection of support vectors (Boehmer et al. 2011, figure 2a)."""

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from common.kernel_evaluation import evaluate, linear_slowness, prepare
from common.speech import Speech
from common.tables import Table

from probsfa.sfa.kernel.problem import (
    KernelColumns,
)
from probsfa.sfa.kernel.support import mp_kpca, mp_mah, online_mah, random_support


def chosen(speech: Speech, sigma: float, n_support: int) -> np.ndarray:
    """Select support vectors by matching pursuit for one kernel width; all widths use them."""
    return mp_mah(prepare(speech, 0.5 / sigma**2)[0], n_support)


def figure_2a(
    speech: Speech, sigma: float, sizes: list[int], trials: int, n_outputs: int, path: Path
) -> None:
    """Measure slowness on test words by number of support vectors, for four selections (lambda = 1e-7)."""
    kernel, sequences = prepare(speech, 0.5 / sigma**2)
    largest = max(sizes)
    started = time.perf_counter()
    pursuit = mp_mah(kernel, largest)
    times = {"mp_mah": time.perf_counter() - started}
    started = time.perf_counter()
    kpca = mp_kpca(kernel, largest)
    times["mp_kpca"] = time.perf_counter() - started

    def slowness(support: np.ndarray, count: int) -> float:
        return evaluate(speech, kernel, sequences, support, (1e-7,), [None], count)[0][0].test_slowness

    few = min(n_outputs, min(sizes) - 1)
    linear = linear_slowness(speech, {few, n_outputs})
    print(
        f"\nfigure 2a: n={kernel.n_rows}, sigma={sigma:g}, lambda=1e-7; mean test slowness; seconds {times}"
    )
    for count in sorted({few, n_outputs}):
        rows = []
        print(f"\n{count} outputs; linear SFA {linear[count][0]:.4f}\n")
        names = ("matching pursuit MAH", "online MAH (its size)", "matching pursuit KPCA")
        table = Table("support vectors", *names, f"random, mean (sd of {trials})")
        for m in (m for m in sizes if m > count):
            error = kernel.diagonal() - residual_fit(kernel, pursuit[:m])
            online = online_mah(kernel, max(float(error.max()), 1e-12))
            blind = [
                slowness(random_support(kernel.n_rows, m, np.random.RandomState(seed)), count)
                for seed in range(trials)
            ]
            row = (m, slowness(pursuit[:m], count), slowness(kpca[:m], count), len(online))
            rows.append((*row, slowness(online, count), float(np.mean(blind)), float(np.std(blind, ddof=1))))
            _, mah, by_kpca, size, by_online, mean, deviation = rows[-1]
            cells = (m, f"{mah:.3f}", f"{by_online:.3f} ({size})", f"{by_kpca:.3f}")
            table.add(*cells, f"{mean:.3f} ({deviation:.3f})")
        if count == few:
            picture_2a(np.array(rows), sigma, linear[few][0], few, path)


def picture_2a(table: np.ndarray, sigma: float, linear: float, count: int, path: Path) -> None:
    """Save the figure of one table of figure 2a."""
    figure, axis = plt.subplots(figsize=(7, 5))
    axis.errorbar(table[:, 0], table[:, 5], table[:, 6], fmt="s-", color="0.5", label="random", capsize=3)
    axis.plot(table[:, 0], table[:, 1], "o-", label="matching pursuit MAH")
    axis.plot(table[:, 3], table[:, 4], "x--", label="online MAH")
    axis.plot(table[:, 0], table[:, 2], "^-", label="matching pursuit kernel PCA")
    axis.set(
        xscale="log", xlabel="support vectors", ylabel="mean test slowness", title=f"$\\sigma$ = {sigma:g}"
    )
    axis.axhline(linear, color="k", linewidth=0.8, linestyle=":", label="linear SFA")
    axis.set_ylabel(f"mean test slowness of {count} outputs")
    axis.set_xticks(table[:, 0], [f"{m:g}" for m in table[:, 0]])
    axis.minorticks_off()
    axis.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def residual_fit(kernel: KernelColumns, support: np.ndarray) -> np.ndarray:
    """Return the share of every ``k(x, x)`` that the support vectors explain."""
    factor = np.linalg.cholesky(kernel.block(support, support) + 1e-13 * np.eye(len(support)))
    return np.sum(np.linalg.solve(factor, kernel.block(support, np.arange(kernel.n_rows))) ** 2, axis=0)
