"""Weights without noise (Turner & Sahani 2007, eqs. 18-24): tests of their properties, and of edge terms.

Three tables, each with the claim of the paper:

* Known decays with different values: the directions are always those of slow feature analysis, and the larger
  decay belongs to the slower direction; lengths differ (eqs. 22-23). The paper claims this for different
  decays between 0 and 1; it holds for negative ones as well. Maxima are found by a general optimiser from
  random weights, without edge terms.
* Decays that approach zero, with innovation variances 1 - decay^2: the outputs become white (eq. 24).
* The distance between the maxima of the exact likelihood and of that without edge terms: T times the distance
  stays constant as T grows, so that the distance is proportional to 1/T (paper: edge terms vanish as T
  grows). The distance is the largest absolute entry of the exact weights times the inverse of the approximate
  weights, minus the identity, which measures rotation and scale; decays are learned.

    python benchmarks/papers/turner_sahani_weights.py [--quick]
"""

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from probsfa import SFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import (
    noise_free_log_likelihood,
    noise_free_maximum_likelihood,
)
from probsfa.statespace.innovations import make_innovation_parameters

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

HELD = [
    (0.9, 0.6, 0.3),
    (0.3, 0.2, 0.1),
    (0.1, 0.5, 0.8),
    (0.99, 0.98, 0.97),
    (-0.1, -0.5, -0.9),
    (0.5, -0.5, 0.0),
]
MIXTURES = {"short timescales": (0.9, 0.6, 0.1), "long timescales": (0.99, 0.9, 0.6)}


def series(n_steps: int, decay: tuple[float, ...], seed: int) -> np.ndarray:
    """Return a noise-free mixture of three factors in three columns."""
    data = make_slow_mixture(n_steps, 3, decay=decay, noise_variance=0.0, random_state=seed).data
    return np.asarray(data)


def best_weights(X: np.ndarray, decay: tuple[float, ...], n_starts: int) -> np.ndarray:
    """Maximize the likelihood without edge terms over the weights, with a general optimiser."""
    rng = np.random.default_rng(0)
    mean, units = X.mean(axis=0), X.std(axis=0)

    def negative(flat: np.ndarray) -> float:
        theta = make_innovation_parameters(decay, flat.reshape(3, 3) / units, None, 0.0, mean)
        return -noise_free_log_likelihood(X, theta).without_edges / len(X)

    ends = [minimize(negative, rng.standard_normal(9), options={"gtol": 1e-8}) for _ in range(n_starts)]
    return np.asarray(min(ends, key=lambda end: end.fun).x.reshape(3, 3) / units)


def held_decays(n_starts: int) -> bool:
    """Print the first table; return True if directions and order are those of slow feature analysis."""
    X = series(1_000, MIXTURES["short timescales"], 0)
    components = SFA().fit(X).components_
    table = Table("decays held", "largest angle to SFA (degrees)", "ranks by slowness", "variances")
    holds = True
    for decay in HELD:
        W = best_weights(X, decay, n_starts)
        # Rows in the space of the slow features, where directions of SFA are the axes.
        rotated = W @ np.linalg.inv(components)
        ranks = np.argmax(np.abs(rotated), axis=1)
        sizes = np.linalg.norm(rotated, axis=1)
        off_axis = np.sqrt(np.maximum(sizes**2 - np.max(np.abs(rotated), axis=1) ** 2, 0.0)) / sizes
        angle = float(np.degrees(np.arcsin(np.max(off_axis))))
        table.add(decay, f"{angle:.1e}", (ranks + 1).tolist(), np.round(sizes**2, 3))
        holds &= angle < 0.1 and np.array_equal(ranks, np.argsort(np.argsort(-np.array(decay))))
    print("the paper: always the directions of SFA, larger decays slower:", holds)
    return holds


def small_decays() -> bool:
    """Print the second table; return True if the distance from white outputs decreases with the decays."""
    X = series(1_000, MIXTURES["short timescales"], 0)
    centred = X - X.mean(axis=0)
    distances = []
    print()
    table = Table("largest decay", "distance of the covariance of the outputs from the identity")
    for size in (1e-1, 1e-2, 1e-3, 1e-4):
        y = centred @ noise_free_maximum_likelihood(X, size * np.array([1.0, 0.8, 0.6])).weights.T
        distances.append(float(np.max(np.abs(y.T @ y / len(y) - np.eye(3)))))
        table.add(f"{size:.0e}", f"{distances[-1]:.2e}")
    falls = bool(np.all(np.diff(np.log10(distances)) < -0.9))
    print("the paper: the identity in the limit; the distance falls with the decay:", falls)
    return falls


def edges(lengths: list[int], n_seeds: int) -> bool:
    """Print the third table; return True if T times the distances stays within a factor of 5."""
    holds = True
    for name, decay in MIXTURES.items():
        print(
            f"\n{name}, decays {decay}: T times the distance of the two maxima, medians of {n_seeds} series\n"
        )
        table = Table("T", "rotation and scale", "decays", "exact log-likelihood gained")
        found = []
        for n in lengths:
            rows = []
            for seed in range(n_seeds):
                X = series(n, decay, seed)
                closed, exact = (noise_free_maximum_likelihood(X, edge_terms=e) for e in (False, True))
                moved = np.max(np.abs(exact.weights @ np.linalg.inv(closed.weights) - np.eye(3)))
                gained = (
                    noise_free_log_likelihood(X, exact).exact - noise_free_log_likelihood(X, closed).exact
                )
                rows.append([n * moved, n * np.max(np.abs(exact.decay - closed.decay)), n * gained])
            found.append(np.median(rows, axis=0))
            table.add(f"{n:,}", *(f"{value:.2f}" for value in found[-1]))
        holds &= bool(np.all(np.ptp(np.log(found), axis=0) < np.log(5.0)))
    print(
        "the paper: edge effects vanish as T grows; T times the distance stays within a factor of 5:", holds
    )
    return holds


def main() -> int:
    """Print the tables; return 1 if a claim of the paper does not hold."""
    args = read_options(
        __doc__,
        quick=(False, "fewer starts, series and lengths"),
    )
    holds = [
        held_decays(2 if args.quick else 10),
        small_decays(),
        edges([1_000, 10_000] if args.quick else [300, 1_000, 10_000, 100_000], 5 if args.quick else 21),
    ]
    return 0 if all(holds) else 1


if __name__ == "__main__":
    sys.exit(main())
