"""Kernel SFA against the time of its matrix products and eigenproblems alone.

The size is that of the large set of Boehmer et al. (2011): n = 25,448 rows of d = 500 columns, m = 2,500
support vectors. The products are those required by any implementation, on given arrays:

* the kernel's inner products X Z' (n d m);
* the scatters K K' and K D D' K' (n m^2 each, symmetric);
* with a selection, the Cholesky columns of matching pursuit (n m^2 / 2 inner products, as one product);
* whitening and rotation: the eigenproblem of K K', two congruences, the eigenproblem of the objective.

Everything else (exponentials, centring, differences, choosing pivots, checks) is what the ratio measures.

    python benchmarks/speed/kernel_sfa_speed.py
    python benchmarks/speed/kernel_sfa_speed.py --quick
"""

import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_info

import probsfa
from probsfa.sfa import KernelSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table


def timed(run: Callable[[], Any]) -> np.ndarray:
    """Return wall-clock and processor seconds of one run."""
    started = np.array([time.perf_counter(), time.process_time()])
    run()
    return np.array([time.perf_counter(), time.process_time()]) - started


def series(n: int, d: int) -> np.ndarray:
    """Return windows of a slowly changing sound; adjacent rows are similar."""
    rng = np.random.default_rng(0)
    t = np.arange(n + d, dtype=np.float64)
    pitch = 0.06 + 0.03 * np.sin(2 * np.pi * t / 4111) + 0.02 * np.sin(2 * np.pi * t / 1777)
    sound = np.sin(np.cumsum(pitch)) * (1.2 + np.sin(2 * np.pi * t / 977)) + 0.1 * rng.standard_normal(n + d)
    return np.lib.stride_tricks.sliding_window_view(sound, d)[:n] / np.sqrt(d) * 4


def products(X: np.ndarray, m: int, n_components: int, selection: bool) -> dict[str, np.ndarray]:
    """Return the seconds of the matrix products and eigenproblems alone."""
    Z, rng = X[:m], np.random.default_rng(1)
    K = X @ Z.T
    first = timed(lambda: X @ Z.T)
    out = np.zeros((m, m), order="F")

    def scatter() -> None:
        step = max(256, 2**21 // m)
        for start in range(0, len(K), step):
            dsyrk(1.0, K[start : start + step].T, beta=1.0, c=out, overwrite_c=1)

    seconds = {"X Z'": first, "K K', K D D' K'": 2 * timed(scatter)}
    if selection:
        half = rng.standard_normal((m // 2, m))
        seconds["X Z' again"] = first
        seconds["pivoted Cholesky"] = timed(lambda: K[:, : m // 2] @ half)
    B = K.T @ K
    B /= np.abs(B).max()
    B.flat[:: m + 1] += 1.0
    seconds["eigenproblem of K K'"] = timed(lambda: scipy.linalg.eigh(B))
    W = rng.standard_normal((m, m))
    seconds["congruences"] = 2 * timed(lambda: W.T @ (B @ W))
    seconds["eigenproblem of slowness"] = timed(
        lambda: scipy.linalg.eigh(B, subset_by_index=(0, n_components - 1))
    )
    return seconds


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        n=25_448,
        m=2_500,
        d=500,
        components=200,
        sigma=2.0,
        quick=(False, "4,000 rows, 400 support vectors, 100 columns"),
    )
    if options.quick:
        options.n, options.m, options.d, options.components = 4_000, 400, 100, 20
    X = np.ascontiguousarray(series(options.n, options.d))
    threads = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
    print(
        f"probsfa {probsfa.__version__}, numpy {np.__version__}, Python {platform.python_version()}, ", end=""
    )
    print(f"{platform.machine()}, BLAS threads {threads}")
    print(
        f"n={options.n}, m={options.m}, d={options.d}, {options.components} outputs, sigma={options.sigma:g}"
    )
    for selection in ("random", "mp_mah"):
        model = KernelSFA(
            options.components,
            gamma=0.5 / options.sigma**2,
            n_support=options.m,
            selection=selection,
            random_state=0,
            regularization=1e-7,
        )
        seconds = timed(lambda model=model: model.fit(X))
        bare = products(X, options.m, options.components, selection == "mp_mah")
        total = sum(bare.values())
        print()
        table = Table(f"selection={selection!r}, rank {model.rank_}; seconds", "clock", "processors")
        for name, part in {"fit": seconds, "bare operations": total, **bare}.items():
            table.add(name, *(f"{value:.2f}" for value in part))
        table.add("ratio", f"{seconds[0] / total[0]:.2f}", f"{seconds[1] / total[1]:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"\npeak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
