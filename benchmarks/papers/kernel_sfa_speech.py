"""Regularised sparse kernel SFA on spoken words: Boehmer et al. (2011), figures 1 and 2 on other data.

Words are cut into overlapping windows as in the paper: 52 ms of sound, one window per millisecond, here 417
amplitudes at 8 kHz, in the paper 500 (every fifth amplitude at 48 kHz). Every word is one sequence. Slowness
is measured on test words, with every output divided by its standard deviation there. The small set has two
words with different vowels ("three" and "seven") by one speaker, four recordings each for training and for
the test. The large set has eight recordings of each of four speakers for training, and a fifth speaker for
the test. The fifth speaker is 8 times quieter than the others, and all vectors near the origin are similar
for a Gaussian kernel; therefore every recording is scaled to the same root mean square (``--loudness
as_recorded`` omits this).

* Figure 1a: all windows are support vectors; width of the Gaussian and regularisation vary. Two rank rules:
  eigenvalues of zero are removed (the paper's rule; here below 1e-15), and this package's rule.
* Figure 1b: the large set with support vectors selected by matching pursuit.
* Figure 2a: number of support vectors, for the four selections. m support vectors have m - 1 outputs;
  therefore means over 200 outputs exist only for large m, and means over 24 for all. Linear SFA with as many
  outputs is added for comparison.
* Figure 2c: two outputs on the large test set.

    python benchmarks/papers/kernel_sfa_speech.py PICTURES --data DATA
    python benchmarks/papers/kernel_sfa_speech.py PICTURES --quick
"""

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from probsfa.metrics import delta_value
from probsfa.sfa.kernel.problem import (
    KernelFunctions,
    kernel_block,
    kernel_moments,
    make_problem,
    solve,
)
from probsfa.sfa.kernel.support import mp_mah

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.kernel_evaluation import LAMBDAS, RULES, Trained, evaluate, linear_slowness, prepare
from common.options import read_options
from common.speech import WINDOW, Speech, load
from common.support_sizes import chosen, figure_2a
from common.tables import Table


def figure_1(
    speech: Speech, sigmas: np.ndarray, n_support: int | None, n_outputs: int, base: float, path: Path
) -> None:
    """Print slowness and variance by width of the kernel and by regularisation."""
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
        print("test slowness; largest |variance - 1| of a training output; deviation of the test outputs\n")
        names = [f"lambda {value:g}" for value in LAMBDAS]
        table = Table("sigma", *names, "outputs", "in training at 0")
        for sigma, row in zip(sigmas, grid, strict=True):
            cells = [
                f"{r.test_slowness:.3f}; {np.abs(r.variances - 1).max():.0e}; {r.test_deviation:.2f}"
                for r in row
            ]
            table.add(f"{sigma:g}", *cells, row[0].n_outputs, f"{row[0].train_slowness:.4f}")
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


def figure_2c(speech: Speech, sigma: float, n_support: int, path: Path) -> None:
    """Print and draw two outputs on the test words of the large set."""
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
    """Print the tables and save the figures."""
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
