"""Figure 3 of Escalante-B. & Wiskott (2013): ten inputs whose features are the slowest possible.

The example of the paper is designed so that the extracted features are the slowest theoretically possible;
its data are not given. Here ten columns are random mixtures of the four slowest signals of T rows,
cos(pi j (t - 1/2) / T), and of six columns of white noise. The slow features must be these
four signals, with their delta values T / (T - 1) (2 - 2 cos(pi j / T)), which are the smallest possible and
also those of the free responses of the temporal graph. The last lines demonstrate the overfitting that the
paper describes below its figure: noise in T - 1 dimensions has the same slow features in training, but on new
rows they are noise.

    python benchmarks/papers/slowest_features.py [--quick]
    python benchmarks/papers/slowest_features.py --picture docs/figures/slowest_features.png
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import SFA, graphs, metrics

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

N_SLOW, N_FAST = 4, 6


def inputs(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ten columns, and the four slowest signals that they contain."""
    steps = np.pi * (np.arange(n) + 0.5) / n
    slow = np.sqrt(2) * np.cos(np.outer(steps, np.arange(1, N_SLOW + 1)))
    fast = rng.standard_normal((n, N_FAST))
    return np.hstack([slow, fast]) @ rng.standard_normal((N_SLOW + N_FAST, N_SLOW + N_FAST)), slow


def main() -> int:
    """Print the table; return 1 if the features are not the slowest possible."""
    options = read_options(
        __doc__,
        quick=(False, "shorter series"),
        picture={"metavar": "PATH", "help": "draw four of the inputs and the four slowest outputs"},
    )
    n = 200 if options.quick else 1000
    rng = np.random.default_rng(0)

    X, slow = inputs(rng, n)
    model = SFA(N_SLOW).fit(X)
    y = model.transform(X)
    bound = n / (n - 1) * (2 - 2 * np.cos(np.pi * np.arange(1, N_SLOW + 1) / n))
    free = graphs.free_responses(graphs.temporal(n), N_SLOW).delta_values
    correlation = np.abs([np.corrcoef(y[:, j], slow[:, j])[0, 1] for j in range(N_SLOW)])
    ratio = model.delta_values_ / bound
    print(f"T = {n}, ten inputs, four slowest outputs")
    outputs = [f"output {j + 1}" for j in range(N_SLOW)]
    table = Table("", *outputs)
    table.add("correlation with the slowest possible signal", *(f"{c:.4f}" for c in correlation))
    table.add("delta value / smallest possible", *(f"{r:.4f}" for r in ratio))
    table.add("delta value of the free response / smallest possible", *(f"{r:.6f}" for r in free / bound))

    few = 40
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The 40 rows have rank")  # expected
        noise = SFA(N_SLOW).fit(rng.standard_normal((few, few - 1)))
    least = few / (few - 1) * (2 - 2 * np.cos(np.pi * np.arange(1, N_SLOW + 1) / few))
    new = metrics.delta_value(noise.transform(rng.standard_normal((5000, few - 1))))
    over = noise.delta_values_ / least
    print()
    table = Table(f"noise, {few} rows of {few - 1} columns", *outputs)
    table.add("delta value / smallest possible", *(f"{r:.4f}" for r in over))
    table.add("delta value on new rows (white noise: 2)", *(f"{d:.2f}" for d in new))

    holds = bool(
        np.all(correlation > 0.999)
        and np.all(np.abs(ratio - 1) < 0.01)
        and np.allclose(free, bound, rtol=1e-6)
        and np.all(np.abs(over - 1) < 1e-6)
        and np.all(np.abs(new - 2) < 0.2)
    )
    print("features are the slowest possible, those of noise only in training:", holds)
    if options.picture:
        draw(X, y, options.picture)
    return 0 if holds else 1


def draw(X: np.ndarray, y: np.ndarray, path: str) -> None:
    """Write the figure: inputs on the left, outputs on the right."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(4, 2, figsize=(9, 5), sharex=True, layout="constrained")
    for row, (left, right) in enumerate(axes):
        left.plot(X[:, row], lw=0.6)
        right.plot(y[:, row], color="tab:red")
        left.set_ylabel(f"input {row}")
        right.set_ylabel(f"output {row}")
    axes[-1, 0].set_xlabel("row")
    axes[-1, 1].set_xlabel("row")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    sys.exit(main())
