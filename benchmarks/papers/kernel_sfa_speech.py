"""Regularised sparse kernel SFA on spoken words: Boehmer et al. (2011), figures 1 and 2 in kind.

Words are cut into overlapping windows as in the paper (52 ms of sound, one window per millisecond; there 500
of every fifth amplitude at 48 kHz, here 417 amplitudes at 8 kHz), every word is one sequence, and slowness is
measured on words not used for training, with every output divided by its own standard deviation there. Two
words with different vowels ("three" and "seven") by one speaker, four recordings each for training and for
testing, are the small set; four speakers with eight recordings each and a fifth for testing the large set.

* Figure 1a: all windows are support vectors; width of the Gaussian and regularisation vary. Twice: with
  eigenvalues removed only where they are zero (the paper's rule; here 1e-15), and with this package's rule.
* Figure 1b: the large set with a support chosen by matching pursuit.
* Figure 2a: support size, for the four ways to choose it.
* Figure 2c: two outputs on the large test set.

    python benchmarks/papers/kernel_sfa_speech.py PICTURES --data DATA
    python benchmarks/papers/kernel_sfa_speech.py PICTURES --quick
"""

import argparse
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
from probsfa.sfa.kernel_columns import KernelColumns, kernel_block
from probsfa.sfa.kernel_moments import kernel_moments
from probsfa.sfa.kernel_problem import pose, solve
from probsfa.sfa.support import mp_kpca, mp_mah, online_mah, random_support

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import add_data_option

RATE, WINDOW, STEP = 8000, 417, 8
WORDS = (3, 7)
LAMBDAS = (0.0, 1e-9, 1e-7, 1e-5, 1e-3, 1e-1)
RULES = {"zeros only (1e-15)": 1e-15, "default": None}


class Speech(NamedTuple):
    """Windows of the training and test words."""

    train: list[np.ndarray]
    test: list[np.ndarray]


class Trained(NamedTuple):
    """What one regularisation gives, over all outputs."""

    test_slowness: float
    train_slowness: float
    variances: np.ndarray  # of the training outputs
    n_outputs: int


def load(folder: Path, large: bool, stride: int) -> Speech:
    """Read the words and cut them into windows, keeping every `stride`-th."""
    stored = np.load(folder / "fsdd_subset" / "fsdd_subset.npz")
    signal, offset, digit = stored["signal"], stored["offset"], stored["digit"]
    speaker, index = stored["speaker"], stored["index"]
    names = sorted(set(speaker.tolist()))
    if large:
        train_set, test_set = (names[:4], range(8)), (names[4:5], range(8))
    else:
        train_set, test_set = (names[:1], range(4)), (names[:1], range(4, 8))

    def words(chosen: tuple[Any, range]) -> list[np.ndarray]:
        pieces = []
        for name in chosen[0]:
            for word in WORDS:
                for take in chosen[1]:
                    (at,) = np.flatnonzero((speaker == name) & (digit == word) & (index == take))
                    pieces.append(windows(signal[offset[at] : offset[at + 1]] / 32768, stride))
        return [w for w in pieces if len(w) > 1]

    train, test = words(train_set), words(test_set)
    peak = max(np.abs(x).max() for x in train)
    return Speech([x / peak for x in train], [x / peak for x in test])


def windows(amplitudes: np.ndarray, stride: int) -> np.ndarray:
    """Cut one word into overlapping windows (rows)."""
    starts = np.arange(0, len(amplitudes) - WINDOW + 1, STEP * stride)
    return amplitudes[starts[:, None] + np.arange(WINDOW)]


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
    moments, among = kernel_moments(kernel, support, sequences), kernel.block(support, support)
    Z, lengths = kernel.values[support], [len(x) for x in speech.test]
    test = kernel_block(np.concatenate(speech.test), Z, kernel.metric, kernel.params)
    train = kernel.block(slice(None), support)
    results = []
    for rank_tol in rules:
        problem = pose(moments, among, rank_tol)
        count = min(n_outputs, problem.basis.shape[1])
        row = []
        for value in lambdas:
            A = solve(problem, count, value).coefficients
            y, y_train = (test - problem.mean) @ A, (train - problem.mean) @ A
            slowness = np.mean(delta_value(y, lengths=lengths))
            own = np.mean(delta_value(y_train, lengths=sequences.lengths))
            row.append(Trained(float(slowness), float(own), y_train.var(axis=0), count))
        results.append(row)
    return results


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
        print("test slowness (largest |variance - 1| of a training output), outputs, training slowness at 0")
        print("   sigma " + "".join(f"  lambda={value:<10g}" for value in LAMBDAS))
        for sigma, row in zip(sigmas, grid, strict=True):
            cells = "".join(f"  {r.test_slowness:7.4f} ({np.abs(r.variances - 1).max():7.1e})" for r in row)
            print(f"{sigma:8.2f} {cells}  {row[0].n_outputs:4d}  {row[0].train_slowness:.5f}", flush=True)
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

    def slowness(support: np.ndarray) -> float:
        count = min(n_outputs, max(1, min(sizes) - 1))
        return evaluate(speech, kernel, sequences, support, (1e-7,), [None], count)[0][0].test_slowness

    rows = []
    print(f"\nfigure 2a: n={kernel.n_rows}, sigma={sigma:g}, lambda=1e-7; seconds {times}")
    print("    m     mp_mah    mp_kpca   online_mah (its m)      random: mean    sd")
    for m in sizes:
        error = kernel.diagonal() - residual_fit(kernel, pursuit[:m])
        online = online_mah(kernel, max(float(error.max()), 1e-12))
        blind = [
            slowness(random_support(kernel.n_rows, m, np.random.RandomState(seed))) for seed in range(trials)
        ]
        row = (m, slowness(pursuit[:m]), slowness(kpca[:m]), len(online), slowness(online))
        rows.append((*row, float(np.mean(blind)), float(np.std(blind, ddof=1))))
        print("{:5d}   {:8.4f}   {:8.4f}     {a[4]:8.4f} ({a[3]:4d})       {a[5]:8.4f}  {a[6]:.4f}".format(
            *row[:3], a=rows[-1]), flush=True)  # fmt: skip
    table = np.array(rows)
    figure, axis = plt.subplots(figsize=(7, 5))
    axis.errorbar(table[:, 0], table[:, 5], table[:, 6], fmt="s-", color="0.5", label="random", capsize=3)
    axis.plot(table[:, 0], table[:, 1], "o-", label="matching pursuit MAH")
    axis.plot(table[:, 3], table[:, 4], "x--", label="online MAH")
    axis.plot(table[:, 0], table[:, 2], "^-", label="matching pursuit kernel PCA")
    axis.set(
        xscale="log", xlabel="support vectors", ylabel="mean test slowness", title=f"$\\sigma$ = {sigma:g}"
    )
    axis.set_xticks(sizes, [str(m) for m in sizes])
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
    problem = pose(kernel_moments(kernel, support, sequences), kernel.block(support, support))
    solution = solve(problem, 2)
    figure, axes = plt.subplots(2, 1, figsize=(11, 4), sharex=True)
    ends = np.cumsum([len(x) for x in speech.test])
    Z = kernel.values[support]
    block = kernel_block(np.concatenate(speech.test), Z, kernel.metric, kernel.params)
    y = (block - problem.mean) @ solution.coefficients
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
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pictures", type=Path, help="folder for the pictures")
    add_data_option(parser, "fsdd_subset")
    parser.add_argument("--stride", type=int, default=1, help="keep every so many-th window of the small set")
    parser.add_argument("--large-stride", type=int, default=1)
    parser.add_argument("--large-support", type=int, default=2500)
    parser.add_argument("--outputs", type=int, default=200)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--sigma", type=float, default=2.0, help="width for choosing supports and figure 2")
    widths = [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    parser.add_argument("--sigmas", type=float, nargs="+", default=widths, help="widths of figures 1")
    parser.add_argument("--parts", nargs="+", default=["1a", "1b", "2a", "2c"])
    parser.add_argument("--quick", action="store_true", help="a tenth of the windows, three random trials")
    options = parser.parse_args()
    if options.quick:
        options.stride, options.large_stride, options.large_support = 8, 24, 150
        options.outputs, options.trials = 20, 3
    options.pictures.mkdir(parents=True, exist_ok=True)
    small = load(options.data, False, options.stride)
    n = sum(len(x) for x in small.train)
    linear = SFA().fit(small.train)
    deltas = delta_value(linear.transform(small.test))
    print(f"small set: {n} windows of {WINDOW}; linear SFA, test slowness: slowest {deltas[0]:.4f}, ", end="")
    print(f"mean of the first {options.outputs} {np.mean(deltas[: options.outputs]):.4f}")
    sigmas = np.array(options.sigmas)
    folder = options.pictures
    if "1a" in options.parts:
        figure_1(small, sigmas, None, options.outputs, options.sigma, folder / "figure_1a.png")
    if "2a" in options.parts:
        sizes = [s for s in (25, 50, 100, 200, 400, 800, 1600) if s <= n // 2]
        figure_2a(small, options.sigma, sizes, options.trials, options.outputs, folder / "figure_2a.png")
    if {"1b", "2c"} & set(options.parts):
        large = load(options.data, True, options.large_stride)
        if "1b" in options.parts:
            m = options.large_support
            figure_1(large, sigmas, m, options.outputs, options.sigma, folder / "figure_1b.png")
        if "2c" in options.parts:
            figure_2c(large, 10 * options.sigma, options.large_support, folder / "figure_2c.png")


if __name__ == "__main__":
    main()
