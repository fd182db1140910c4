"""Overfitting: a hierarchy and direct slow feature analysis (Escalante-B. & Wiskott 2013, figure 1 right).

Data without structure: 25 independent normal samples of 24 dimensions, reduced to 3 outputs. Direct linear
slow feature analysis has 24 directions for 25 samples, and finds the slowest possible outputs; their standard
deviation is large on new data. The hierarchy is linear, too, and has the 7 nodes of the paper with 6 inputs
and 3 outputs each: four nodes over 6 dimensions, two over two of those each, one on top. The paper reports
test standard deviations of 6.5 (direct) and 1.18 (hierarchy) for a training standard deviation of 1.

    python benchmarks/papers/overfitting.py
"""

import platform
import sys
import warnings
from pathlib import Path

import numpy as np

import probsfa
from probsfa.sfa import SFA, HierarchicalSFA, Layer

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

N_SAMPLES, N_DIMENSIONS, N_OUTPUTS = 25, 24, 3
LAYERS = [Layer(3, field=6), Layer(3, field=2), Layer(3, field=2)]


def spread(model: SFA | HierarchicalSFA, train: np.ndarray, test: np.ndarray) -> tuple[float, float, float]:
    """Return root mean squares of the outputs on training and test data, and the smallest delta value."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The 25 rows have rank")  # expected
        model.fit(train)
    sizes = [float(np.sqrt(np.mean(model.transform(X) ** 2))) for X in (train, test)]
    return sizes[0], sizes[1], float(model.delta_values_[0])


def main() -> int:
    """Print the table; return 1 if the hierarchy does not generalise several times better."""
    options = read_options(
        __doc__,
        trials=200,
        test_samples=1000,
        quick=(False, "20 trials"),
    )
    trials = 20 if options.quick else options.trials

    spreads = {"direct": [], "hierarchy": []}
    for seed in range(trials):
        rng = np.random.default_rng(seed)
        train = rng.standard_normal((N_SAMPLES, N_DIMENSIONS))
        test = rng.standard_normal((options.test_samples, N_DIMENSIONS))
        spreads["direct"].append(spread(SFA(N_OUTPUTS), train, test))
        spreads["hierarchy"].append(spread(HierarchicalSFA(LAYERS), train, test))

    print(f"probsfa {probsfa.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{trials} trials of {N_SAMPLES} samples, {N_DIMENSIONS} dimensions to {N_OUTPUTS}; standard "
          f"deviation of the outputs\n(test: {options.test_samples} new samples)\n")  # fmt: skip
    slowest = "slowest delta in training (white noise: 2)"
    table = Table("", "training", "test: median", "10 %", "90 %", slowest)
    medians = {}
    for name, results in spreads.items():
        train_size, test_size, delta = np.array(results).T
        low, medians[name], high = np.quantile(test_size, [0.1, 0.5, 0.9])
        quantiles = [f"{value:.2f}" for value in (medians[name], low, high)]
        table.add(name, f"{train_size.mean():.3f}", *quantiles, f"{np.median(delta):.4f}")
    ratio = medians["direct"] / medians["hierarchy"]
    print(f"\ndirect over hierarchy: {ratio:.1f}; several times (at least 3): {ratio >= 3}")
    return 0 if ratio >= 3 else 1


if __name__ == "__main__":
    sys.exit(main())
