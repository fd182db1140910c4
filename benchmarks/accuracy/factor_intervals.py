"""Coverage of intervals of factors after a fit, for each kind of process.

Series of 300 rows and six columns with standard normal loadings: one AR(1) factor (decay 0.95), two (0.97
and 0.8), a stochastic cycle of 24 rows, smooth factors with a time scale of 15 rows, and one AR(1) factor
with AR(1) noise, or with Student-t noise of 4 degrees of freedom. White noise has the standard deviation
0.5. A model of the same kind is fitted, and its factors are matched to the true ones by their correlations
(a cycle up to its phase). The table has the share of rows in which 90 % intervals contain the true factor,
and its standard error over series, for two methods: `posterior`, which treats the estimated parameters as
known, and `factor_interval`.

    python benchmarks/accuracy/factor_intervals.py [--series N] [--rows T]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment

from probsfa import ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import setting
from common.tables import Table

COLUMNS = 6
KINDS = {
    "one AR(1) factor": {"n_components": 1},
    "two AR(1) factors": {"n_components": 2},
    "cycle": {"n_components": 0, "rhythms": 1},
    "smooth, Matern-3/2": {"n_components": 0, "smooth": 1},
    "smooth, Matern-5/2": {"n_components": 0, "smooth": 1, "smoothness": 2.5},
    "AR(1) factor and AR(1) noise": {"n_components": 1, "noise": "ar1"},
    "AR(1) factor, Student-t noise": {"n_components": 1, "robust": True},
}


def drawn(rng, correlation):
    """Draw a path (T,) with a correlation matrix (T, T), by its Cholesky factor."""
    return np.linalg.cholesky(correlation + 1e-9 * np.eye(len(correlation))) @ rng.standard_normal(
        len(correlation)
    )


def simulated(kind, rng, n_rows):
    """Return factors (T, K) and observations (T, D)."""
    lags = np.abs(np.subtract.outer(np.arange(n_rows), np.arange(n_rows)))
    if kind.startswith("cycle"):
        phase = 2 * np.pi * np.arange(n_rows) / 24
        one, other = drawn(rng, 0.98**lags), drawn(rng, 0.98**lags)
        factors = np.column_stack(
            [one * np.cos(phase) - other * np.sin(phase), one * np.sin(phase) + other * np.cos(phase)]
        )
    elif kind.startswith("smooth"):
        x = np.sqrt(3 if "3/2" in kind else 5) / 15 * lags
        factors = drawn(rng, (1 + x + (0 if "3/2" in kind else x**2 / 3)) * np.exp(-x))[:, None]
    else:
        decays = (0.97, 0.8) if kind.startswith("two") else (0.95,)
        factors = np.column_stack([drawn(rng, a**lags) for a in decays])
    noise = 0.5 * rng.standard_normal((n_rows, COLUMNS))
    if "AR(1) noise" in kind:
        noise = 0.6 * noise + 0.7 * np.column_stack([drawn(rng, 0.6**lags) for _ in range(COLUMNS)])
    elif "Student-t" in kind:
        noise = 0.5 * rng.standard_t(4, size=noise.shape)
    return factors, factors @ rng.standard_normal((factors.shape[1], COLUMNS)) + noise


def coverages(kind, options, n_series, n_rows):
    """Return the shares of covered rows (n_series, 2), of `posterior` and of `factor_interval`."""
    found = []
    for seed in range(n_series):
        truth, x = simulated(kind, np.random.default_rng([seed, 7]), n_rows)
        model = ProbabilisticSFA(**options).fit(x)
        posterior, (lower, upper) = model.posterior(x), model.factor_interval(x)
        means, half = posterior.means[:, : truth.shape[1]], (upper - lower)[:, : truth.shape[1]] / 2
        if kind.startswith("cycle"):
            left, _, right = np.linalg.svd(truth.T @ means)
            truth = truth @ left @ right
        correlation = np.corrcoef(truth.T, means.T)[: truth.shape[1], truth.shape[1] :]
        _, order = linear_sum_assignment(-np.abs(correlation))
        signs = np.sign(correlation[np.arange(len(order)), order])
        errors = np.abs(means[:, order] * signs - truth)
        limits = 1.6449 * posterior.std[:, : truth.shape[1]]
        found.append([np.mean(errors <= limit[:, order]) for limit in (limits, half)])
    return np.array(found)


def main() -> None:
    """Print a row for each kind."""
    args = read_options(
        __doc__,
        series={"type": int, "default": 100, "metavar": "N", "help": "series of each kind (default: 100)"},
        rows={"type": int, "default": 300, "metavar": "T", "help": "rows of a series (default: 300)"},
    )
    warnings.simplefilter("ignore")
    print(setting("numpy", "scipy"), "\n")
    table = Table("model", "posterior", "factor_interval", "s")
    for kind, options in KINDS.items():
        began = time.process_time()
        found = coverages(kind, options, args.series, args.rows)
        errors = found.std(axis=0) / np.sqrt(len(found))
        shares = [
            f"{100 * m:.1f} +- {100 * e:.1f} %" for m, e in zip(found.mean(axis=0), errors, strict=True)
        ]
        table.add(kind, *shares, f"{time.process_time() - began:.1f}")


if __name__ == "__main__":
    main()
