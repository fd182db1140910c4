"""Regularised sparse kernel SFA on spoken words: Boehmer et al. (2011), figures 1 and 2 in kind.

Words are cut into overlapping windows as in the paper (52 ms of sound, one window per millisecond; there 500
of every fifth amplitude at 48 kHz, here 417 amplitudes at 8 kHz), every word is one sequence, and slowness is
measured on words not used for training, with every output divided by its own standard deviation there. Two
words with different vowels ("three" and "seven") by one speaker, four recordings each for training and for
testing, are the small set; four speakers with eight recordings each and a fifth for testing the large set.
The fifth speaks 8 times more quietly than the others, and a Gaussian kernel is no judge of what lies near its
origin, so every recording is brought to the same root mean square first (``--loudness as_recorded``
leaves them as they are).

* Figure 1a: all windows are support vectors; width of the Gaussian and regularisation vary. Twice: with
  eigenvalues removed only where they are zero (the paper's rule; here 1e-15), and with this package's rule.
* Figure 1b: the large set with a support chosen by matching pursuit.
* Figure 2a: support size, for the four ways to choose it. A support of m vectors has m - 1 outputs, so the
  mean over 200 is there for the large ones only, and over 24 for all; linear SFA over as many stands beside.
* Figure 2c: two outputs on the large test set.

    python benchmarks/papers/kernel_sfa_speech.py PICTURES --data DATA
    python benchmarks/papers/kernel_sfa_speech.py PICTURES --quick
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from probsfa._validation import Sequences
from probsfa.metrics import delta_value
from probsfa.sfa import SFA
from probsfa.sfa.kernel.problem import (
    KernelColumns,
    KernelFunctions,
    kernel_block,
    kernel_moments,
    make_problem,
    solve,
)
from probsfa.sfa.kernel.support import mp_kpca, mp_mah, online_mah, random_support

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.speech import WINDOW, Speech, load

LAMBDAS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1)
RULES = {"zeros only (1e-15)": 1e-15, "default": None}


class Trained(NamedTuple):
    """What one regularisation gives, over all outputs."""

    test_slowness: float
    train_slowness: float
    variances: np.ndarray  # of the training outputs
    test_deviation: float  # of the test outputs, root mean square; those of training have one
    n_outputs: int


def prepare(speech: Speech, gamma: float) -> tuple[KernelColumns, Sequences]:
    """Return the kernel of the training windows, and where words begin."""
    rows = np.concatenate(speech.train)
    sequences = Sequences(rows, tuple(len(x) for x in speech.train))
    return KernelColumns(rows, "rbf", {"gamma": gamma}), sequences


def evaluate(
    speech: Speech,
    kernel: KernelColumns,
    sequences: Sequences,
    support: np.ndarray,
    lambdas: tuple[float, ...],
    rules: Iterable[float | None],
    n_outputs: int,
) -> list[list[Trained]]:
    """Train with every rank rule and regularisation, and measure on the test words."""
    functions = KernelFunctions(kernel, support)
    moments, among = kernel_moments(functions, sequences), functions.gram()
    Z, lengths = kernel.values[support], [len(x) for x in speech.test]
    test = kernel_block(np.concatenate(speech.test), Z, kernel.metric, kernel.params)
    train = kernel.block(slice(None), support)
    results = []
    for rank_tol in rules:
        problem = make_problem(moments, among, rank_tol)
        count = min(n_outputs, problem.basis.shape[1])
        row = []
        for value in lambdas:
            A = solve(problem, count, value).coefficients
            y, y_train = (test - problem.mean) @ A, (train - problem.mean) @ A
            slowness = np.mean(delta_value(y, lengths=lengths))
            own = np.mean(delta_value(y_train, lengths=sequences.lengths))
            deviation = float(np.sqrt(y.var(axis=0).mean()))
            row.append(Trained(float(slowness), float(own), y_train.var(axis=0), deviation, count))
        results.append(row)
    return results


def linear_slowness(speech: Speech, counts: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Return mean test slowness and deviation of the first outputs of linear SFA, by their number."""
    y = np.concatenate(SFA(max(counts)).fit(speech.train).transform(speech.test))
    deltas = delta_value(y, lengths=[len(x) for x in speech.test])
    return {n: (float(np.mean(deltas[:n])), float(np.sqrt(y[:, :n].var(axis=0).mean()))) for n in counts}


def figure_1(
    speech: Speech, sigmas: np.ndarray, n_support: int | None, n_outputs: int, base: float, path: Path
) -> None:
    """Slowness and variance over the width of the kernel and the regularisation."""
    figure, axes = plt.subplots(2, len(RULES), figsize=(11, 7), sharex=True, sharey="row")
    n = sum(len(x) for x in speech.train)
    support = np.arange(n) if n_support is None else chosen(speech, base, n_support)
    grids: list[list[list[Trained]]] = []
    for sigma in sigmas:
        started = time.perf_counter()
        kernel, sequences = prepare(speech, 0.5 / sigma**2)
        grids.append(evaluate(speech, kernel, sequences, support, LAMBDAS, RULES.values(), n_outputs))
        print(f"{path.stem}: sigma {sigma:g} took {time.perf_counter() - started:.0f} s", flush=True)
    for column, (rule, grid) in enumerate(zip(RULES, zip(*grids, strict=True), strict=True)):
        print(f"\n{path.stem}, rank rule: {rule}; n={n}, m={len(support)}, up to {n_outputs} outputs")
        print("test slowness; largest |variance - 1| of a training output; deviation of the test outputs")
        names = [f"lambda {value:g}" for value in LAMBDAS]
        print(table_row("sigma", *names, "outputs", "in training at 0"))
        print(table_row(*["---"] * (len(LAMBDAS) + 3)))
        for sigma, row in zip(sigmas, grid, strict=True):
            cells = [
                f"{r.test_slowness:.3f}; {np.abs(r.variances - 1).max():.0e}; {r.test_deviation:.2f}"
                for r in row
            ]
            print(
                table_row(f"{sigma:g}", *cells, row[0].n_outputs, f"{row[0].train_slowness:.4f}"), flush=True
            )
        for j, value in enumerate(LAMBDAS):
            color = plt.get_cmap("viridis")(j / len(LAMBDAS))
            label = f"$\\lambda$ = {value:g}"
            axes[0, column].plot(sigmas, [r[j].test_slowness for r in grid], "o-", color=color, label=label)
            violation = [np.abs(r[j].variances - 1).max() for r in grid]
            axes[1, column].plot(sigmas, violation, "o-", color=color, label=label)
        axes[0, column].set(title=f"eigenvalues removed: {rule}", xscale="log", ylabel="mean test slowness")
        axes[1, column].set(xscale="log", yscale="log", xlabel="kernel width $\\sigma$")
        axes[1, column].set(ylabel="largest |variance - 1| in training")
    axes[0, 0].legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def table_row(*cells: Any) -> str:
    """Return a row of a table in Markdown."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def chosen(speech: Speech, sigma: float, n_support: int) -> np.ndarray:
    """Support vectors by matching pursuit for one width, used for all, as in the paper."""
    return mp_mah(prepare(speech, 0.5 / sigma**2)[0], n_support)


def figure_2a(
    speech: Speech, sigma: float, sizes: list[int], trials: int, n_outputs: int, path: Path
) -> None:
    """Test slowness over support size for the four selections (lambda = 1e-7)."""
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
        print(f"\n{count} outputs; linear SFA {linear[count][0]:.4f}")
        names = ("matching pursuit MAH", "online MAH (its size)", "matching pursuit KPCA")
        print(table_row("support vectors", *names, f"random, mean (sd of {trials})"))
        print(table_row(*["---"] * 5))
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
            print(table_row(*cells, f"{mean:.3f} ({deviation:.3f})"), flush=True)
        if count == few:
            picture_2a(np.array(rows), sigma, linear[few][0], few, path)


def picture_2a(table: np.ndarray, sigma: float, linear: float, count: int, path: Path) -> None:
    """Save the picture of one table of figure 2a."""
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
    """Return how much of every ``k(x, x)`` the support explains."""
    factor = np.linalg.cholesky(kernel.block(support, support) + 1e-13 * np.eye(len(support)))
    return np.sum(np.linalg.solve(factor, kernel.block(support, np.arange(kernel.n_rows))) ** 2, axis=0)


def figure_2c(speech: Speech, sigma: float, n_support: int, path: Path) -> None:
    """Two outputs on the test words of the large set."""
    kernel, sequences = prepare(speech, 0.5 / sigma**2)
    support = mp_mah(kernel, n_support)
    functions = KernelFunctions(kernel, support)
    problem = make_problem(kernel_moments(functions, sequences), functions.gram())
    solution = solve(problem, 2)
    figure, axes = plt.subplots(2, 1, figsize=(11, 4), sharex=True)
    ends = np.cumsum([len(x) for x in speech.test])
    Z = kernel.values[support]
    block = kernel_block(np.concatenate(speech.test), Z, kernel.metric, kernel.params)
    y = (block - problem.mean) @ solution.coefficients
    slow = ", ".join(f"{d:.4f}" for d in delta_value(y, lengths=[len(x) for x in speech.test]))
    print(
        f"\nfigure 2c: sigma={sigma:g}, test slowness of two outputs {slow}, "
        f"deviations {y.std(axis=0).round(3)}"
    )
    for axis, output in zip(axes, y.T, strict=True):
        axis.plot(output, linewidth=0.8)
        axis.vlines(ends[:-1], *axis.get_ylim(), color="0.7", linewidth=0.6)
        axis.axvline(ends[len(ends) // 2 - 1], color="k")
    axes[0].set_title(
        f'test speaker: eight times "three", eight times "seven"; sigma = {sigma:g}, lambda = 0'
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Print the tables and save the pictures."""
    widths = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    options = read_options(
        __doc__,
        data="fsdd_subset",
        pictures={"type": Path, "help": "folder for the pictures", "positional": True},
        stride=(1, "keep every so many-th window of the small set"),
        large_stride=1,
        large_support=2500,
        outputs=200,
        trials=10,
        sigma=(2.0, "width for choosing supports and figure 2"),
        sigmas={"type": float, "nargs": "+", "default": widths, "help": "widths of figures 1"},
        loudness={"choices": ["leveled", "as_recorded"], "default": "leveled"},
        parts={"nargs": "+", "default": ["1a", "1b", "2a", "2c"]},
        quick=(False, "a tenth of the windows, three random trials"),
    )
    if options.quick:
        options.stride, options.large_stride, options.large_support = 8, 24, 150
        options.outputs, options.trials = 20, 3
    options.pictures.mkdir(parents=True, exist_ok=True)
    level = options.loudness == "leveled"
    small = load(options.data, False, options.stride, level)
    n = sum(len(x) for x in small.train)
    linear, _ = linear_slowness(small, [options.outputs])[options.outputs]
    print(f"small set: {n} windows of {WINDOW}; linear SFA, {options.outputs} outputs: {linear:.4f}")
    sigmas = np.array(options.sigmas)
    folder = options.pictures
    if "1a" in options.parts:
        figure_1(small, sigmas, None, options.outputs, options.sigma, folder / "figure_1a.png")
    if "2a" in options.parts:
        sizes = [s for s in (25, 50, 100, 200, 400, 800, 1600) if s <= n // 2]
        figure_2a(small, options.sigma, sizes, options.trials, options.outputs, folder / "figure_2a.png")
    if {"1b", "2c"} & set(options.parts):
        large = load(options.data, True, options.large_stride, level)
        mean, deviation = linear_slowness(large, [options.outputs])[options.outputs]
        print(f"large set: {sum(len(x) for x in large.train)} windows; linear SFA, {options.outputs} "
              f"outputs: {mean:.4f}, deviation of the test outputs {deviation:.2f}")  # fmt: skip
        if "1b" in options.parts:
            m = options.large_support
            figure_1(large, sigmas, m, options.outputs, options.sigma, folder / "figure_1b.png")
        if "2c" in options.parts:
            figure_2c(large, 10 * options.sigma, options.large_support, folder / "figure_2c.png")


if __name__ == "__main__":
    main()
