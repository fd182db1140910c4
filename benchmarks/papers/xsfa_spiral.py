"""Nonlinear source separation: Sprekeler, Zito & Wiskott (2014), the spiral mixture.

Two autoregressive sources s1, s2 with values in [-1, 1] are mixed to ::

    x1 = (s2 + 3 s1 + 6) cos(1.5 pi s1)        x2 = (s2 + 3 s1 + 6) sin(1.5 pi s1)

(Harmeling et al. 2003). The angle is either the slower or the faster source. Correlations of extracted and
true sources are measured on test rows, for xSFA, for SFA on the same polynomials of degree 7, and for linear
SFA. The paper separates sounds; here the sources are processes of known time scales.

    python benchmarks/papers/xsfa_spiral.py
    python benchmarks/papers/xsfa_spiral.py --seeds 2 --rows 3000
"""

import sys
from pathlib import Path

import numpy as np

from probsfa.expansions import Polynomial
from probsfa.sfa import SFA, XSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

TIMESCALES = ((40, 15), (100, 40), (40, 25), (200, 20))


def source(rng: np.random.Generator, n: int, timescale: float) -> np.ndarray:
    """Return an AR(1) process, scaled to [-1, 1]."""
    decay, s = np.exp(-1 / timescale), np.zeros(n)
    for t, e in enumerate(rng.standard_normal(n - 1)):
        s[t + 1] = decay * s[t] + e
    return s / np.abs(s).max()


def spiral(s: np.ndarray) -> np.ndarray:
    """Mix two sources; the first is the angle."""
    radius, angle = s[:, 1] + 3 * s[:, 0] + 6, 1.5 * np.pi * s[:, 0]
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        seeds=20,
        rows=10_000,
    )
    print(f"{options.rows} rows to learn from and as many to test on, {options.seeds} seeds")
    print("correlation with the slower; the faster source: median (10 % quantile)\n")
    methods = "xSFA", "SFA, degree 7", "linear SFA"
    table = Table("time scales", "angle", *methods, "xSFA above 0.9 for both")
    for scales in TIMESCALES:
        for order, name in (([0, 1], "slower"), ([1, 0], "faster")):
            found: dict[str, list[np.ndarray]] = {method: [] for method in methods}
            for seed in range(options.seeds):
                rng = np.random.default_rng(seed)
                s = np.column_stack([source(rng, 2 * options.rows, scale) for scale in scales])
                X = spiral(s[:, order])
                X = (X - X[: options.rows].mean(axis=0)) / X[: options.rows].std(axis=0)
                models = {
                    "xSFA": XSFA(2),
                    "SFA, degree 7": SFA(2, expansion=Polynomial(7)),
                    "linear SFA": SFA(2),
                }
                for method, model in models.items():
                    y = model.fit(X[: options.rows]).transform(X[options.rows :])
                    correlations = np.corrcoef(s[options.rows :].T, y.T)[:2, 2:]
                    found[method].append(np.abs(np.diag(correlations)))
            cells = []
            for values in found.values():
                middle, low = np.quantile(values, [0.5, 0.1], axis=0)
                cells.append(f"{middle[0]:.2f} ({low[0]:.2f}); {middle[1]:.2f} ({low[1]:.2f})")
            both = sum(bool((values > 0.9).all()) for values in found["xSFA"])
            table.add(f"{scales[0]}, {scales[1]}", name, *cells, f"{both} of {options.seeds}")


if __name__ == "__main__":
    main()
