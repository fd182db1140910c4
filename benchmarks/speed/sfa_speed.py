"""Time of slow feature analysis, compared with other packages: T = 500,000, D = 64, all components.

Implementations: ``SFA().fit``; sklearn-sfa (its default, and ``svd_solver="auto"``, which with recent
versions of scikit-learn is an eigenproblem of the covariance and its fastest setting); deeptime's TICA at lag
1 without scaling; and the two necessary matrix products, ``X'X`` and ``dX'dX``, with `X` centred and `dX`
given.

Before the measurement, the delta values are compared. Other packages have other weights: sklearn-sfa
subtracts the mean difference and divides by a denominator that is one smaller; TICA gives the first and the
last row half weight, and its eigenvalues are ``1 - delta/2``. Both are computed from the moments of ``SFA``,
and must agree.

Memory is measured in separate processes: the peak of the process after the fit, minus the peak with only the
input.

    python benchmarks/speed/sfa_speed.py
    python benchmarks/speed/sfa_speed.py --quick
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from probsfa import SFA
from probsfa.linalg import slow_directions

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import alternate, peak_memory, require_close, setting
from common.tables import Table

SEED = 0


def walks(n_rows: int, n_features: int) -> np.ndarray:
    """Return mixed random walks with white noise, computed in place, so that they set the peak of memory."""
    rng = np.random.default_rng(SEED)
    X = np.empty((n_rows, n_features))
    rng.standard_normal(out=X)
    state = np.zeros(n_features)
    decay = np.linspace(0.999, 0.5, n_features)
    size = 10_000
    for start in range(0, n_rows, size):
        block = X[start : start + size]
        noise = 0.3 * rng.standard_normal(block.shape)
        for row in block:
            state *= decay
            state += row
            row[:] = state
        block += noise
    mixing = rng.standard_normal((n_features, n_features))
    for start in range(0, n_rows, size):
        X[start : start + size] = X[start : start + size] @ mixing
    return X


def fit_ours(X: np.ndarray) -> SFA:
    """Fit probsfa's SFA."""
    return SFA().fit(X)


def fit_sksfa(X: np.ndarray) -> Any:
    """Fit sklearn-sfa with its default settings."""
    from sksfa import SFA as Theirs

    return Theirs().fit(X)


def fit_sksfa_auto(X: np.ndarray) -> Any:
    """Fit sklearn-sfa with its fastest setting."""
    from sksfa import SFA as Theirs

    return Theirs(svd_solver="auto").fit(X)


def fit_tica(X: np.ndarray) -> Any:
    """Fit deeptime's TICA, and solve its eigenproblem."""
    from deeptime.decomposition import TICA

    model = TICA(lagtime=1, scaling=None, epsilon=1e-12).fit(X).fetch_model()
    return model.singular_values


FITS: dict[str, Callable[[np.ndarray], Any]] = {
    "probsfa SFA": fit_ours,
    "deeptime TICA": fit_tica,
    "sklearn-sfa": fit_sksfa,
    "sklearn-sfa, auto": fit_sksfa_auto,
}


def check(X: np.ndarray) -> list[tuple[str, float]]:
    """Return the largest relative differences in delta values, converted to the same definition."""
    moments = fit_ours(X).moments_
    n, n_differences = moments.n_rows, moments.n_differences
    drift = (X[-1] - X[0]) / n_differences
    A = (moments.difference_scatter - n_differences * np.outer(drift, drift)) / (n_differences - 1)
    theirs = slow_directions(A, moments.scatter / (n - 1)).delta_values

    # In TICA the weight of a row is the number of its pairs.
    ends = X[[0, -1]] - moments.mean
    shift = -0.5 * ends.sum(axis=0) / n_differences
    scatter = moments.scatter - 0.5 * ends.T @ ends
    B = scatter / n_differences - np.outer(shift, shift)
    reversible = slow_directions(moments.difference_moment, B).delta_values

    gaps = []
    for name, expected in (("sklearn-sfa", theirs), ("sklearn-sfa, auto", theirs)):
        deltas = np.sort(np.asarray(FITS[name](X).delta_values_))
        gaps.append((name, require_close(name, deltas / expected, np.ones_like(expected), atol=1e-6)))
    deltas = np.sort(2.0 * (1.0 - fit_tica(X)))
    gaps.append(
        ("deeptime TICA", require_close("TICA", deltas / reversible, np.ones_like(deltas), atol=1e-6))
    )
    return gaps


def extra_memory(name: str, n_rows: int, n_features: int) -> float:
    """Return the increase of peak memory by a fit, in MB, in a new process that contains the input."""
    arguments = [__file__, "--memory-of", name, "--rows", str(n_rows), "--features", str(n_features)]
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True)
    return float(done.stdout)


def print_memory(name: str, n_rows: int, n_features: int) -> None:
    """Fit once, and print the increase of peak memory in MB."""
    FITS[name](walks(1000, n_features))  # imports and buffers of the matrix library are excluded
    X = walks(n_rows, n_features)
    before = peak_memory()
    FITS[name](X)
    print(peak_memory() - before)


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        rows=500_000,
        features=64,
        repeats=7,
        quick=(False, "50,000 rows, 3 repeats"),
        memory_of={"choices": list(FITS), "help": argparse.SUPPRESS},
    )
    if options.memory_of:
        return print_memory(options.memory_of, options.rows, options.features)
    if options.quick:
        options.rows, options.repeats = 50_000, 3

    X = walks(options.rows, options.features)
    print(f"T = {options.rows:,}, D = {options.features}; input {X.nbytes / 1e6:.0f} MB.")
    print(setting("numpy", "scipy", "scikit-learn", "sklearn-sfa", "deeptime"))
    print("\nLargest relative difference of the delta values from ours under the same convention: ", end="")
    print("; ".join(f"{name} {gap:.1e}" for name, gap in check(X)) + ".\n")

    centred, differences = X - X.mean(axis=0), np.diff(X, axis=0)
    runs: dict[str, Callable[[], Any]] = {
        "the two products alone": lambda: (centred.T @ centred, differences.T @ differences)
    }
    runs |= {name: (lambda fit=fit: fit(X)) for name, fit in FITS.items()}
    times = alternate(runs, repeats=options.repeats)
    ours = times["probsfa SFA"].median
    rows = [
        (
            name,
            timing,
            f"{timing.median / ours:.2f}",
            f"{extra_memory(name, options.rows, options.features):.0f} MB" if name in FITS else "",
        )
        for name, timing in times.items()
    ]
    Table("", "median (shortest to longest)", "times ours", "memory beside the input", rows=rows)


if __name__ == "__main__":
    main()
