"""Time of the algorithms of the engine on an accelerator: row by row, in segments, and by a parallel scan.

One evaluation computes sums of expected moments and the log-likelihood, as in a fit, for 20 columns with a
fifth of the values missing. First the results of all algorithms are compared with those of the recursions on
the CPU. Then times are measured for increasing numbers of rows and factors. An algorithm whose first run
takes more than ``--budget`` seconds is not run on more rows.

    python benchmarks/speed/engine_accelerator.py [--rows 10000 100000 1000000] [--latents 1 3 5 8 16]
        [--chunk-rows N] [--budget 30]

``--rows 2000 10000 --latents 1 3`` is sufficient for a test without an accelerator. ``--chunk-rows`` is the
number of rows that are processed at once, which can be tuned to the accelerator.
"""

import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace.engine.sweep import Sweep
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import Timing, duration, setting, timed
from common.tables import Table

N_FEATURES = 20
NAMES = ["recursions", "segmented", "scan"]
SAME = 1e-10


def strategies(n_components):
    """Return the algorithms that support this number of factors on this platform."""
    return [name for name in NAMES if name != "segmented" or n_components <= 8]


def problem(n_rows, n_components):
    """Draw parameters and a panel; the time does not depend on the values."""
    rng = np.random.default_rng(0)
    params = StateSpace(
        np.linspace(0.98, 0.5, n_components),
        rng.standard_normal((N_FEATURES, n_components)) / np.sqrt(n_components),
        rng.uniform(0.2, 1.0, N_FEATURES),
        np.zeros(N_FEATURES),
    )
    X = rng.standard_normal((n_rows, N_FEATURES))
    X[rng.random(X.shape) < 0.2] = np.nan
    return params, make_panel(Sequences(X, (n_rows,)))


def check(latents, n_rows, options):
    """Compare every algorithm with the recursions on the CPU: largest relative difference."""
    print(f"\nAgainst the recursions on the CPU, {n_rows:,} rows:", flush=True)
    for n_components in latents:
        with jax.default_device(jax.devices("cpu")[0]):
            wanted = Sweep("recursions").expected_statistics(*problem(n_rows, n_components))
        for strategy in strategies(n_components):
            algorithm = Sweep(strategy, chunk_rows=options.chunk_rows)
            sums = algorithm.expected_statistics(*problem(n_rows, n_components))
            worst = max(
                float(np.max(np.abs(one - other)) / max(1.0, np.max(np.abs(other))))
                for one, other in zip(sums, wanted, strict=True)
            )
            print(f"  K = {n_components}, {strategy}: {worst:.1e}", flush=True)
            if not worst < SAME:
                raise SystemExit("that is not the same answer")


def growth(latents, rows, options):
    """Return the time of an evaluation, and that of the first one, which includes compilation."""
    print()
    heads = "one evaluation", "ns a row", "the first, with compilation"
    table = Table("latents", "rows", "strategy", *heads)
    for n_components in latents:
        wanted = strategies(n_components)
        for n_rows in rows:
            params, panel = problem(n_rows, n_components)
            for strategy in list(wanted):
                evaluate = Sweep(strategy, chunk_rows=options.chunk_rows).expected_statistics
                evaluation = partial(evaluate, params, panel)
                first = timed(evaluation)[0]
                n = 7 if first < options.budget / 7 else 1
                seconds = [timed(evaluation)[0] for _ in range(n)]
                timing = Timing.of(seconds)
                of_row = f"{timing.median / n_rows * 1e9:,.0f}"
                table.add(n_components, f"{n_rows:,}", strategy, timing, of_row, duration(first))
                if first > options.budget:
                    wanted.remove(strategy)


def main():
    """Validate the results, then measure times."""
    options = read_options(
        __doc__,
        rows=[10_000, 100_000, 1_000_000],
        latents=[1, 3, 5, 8, 16],
        chunk_rows={"type": int},
        budget=30.0,
    )
    print(setting("jax", "jaxlib", "numpy"))
    print(f"Platform: {jax.default_backend()}, {', '.join(device.device_kind for device in jax.devices())}")
    if jax.default_backend() == "cpu":
        print("No accelerator: the parallel scan is forced on the CPU, for which it is not made.")
    check(options.latents, 1536, options)
    growth(options.latents, sorted(options.rows), options)


if __name__ == "__main__":
    main()
