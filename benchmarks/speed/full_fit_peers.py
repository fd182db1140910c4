"""Time of a complete fit, compared with statsmodels and dynamax: D = 20, T = 5,000, K = 3 by default.

The time of another package ends when its parameters reach our maximum minus 1e-4 nats per step, in the
log-likelihood of the same model: for statsmodels ``mod.loglike(params)``, for dynamax the value that its EM
reports. If a package does not reach it, because the likelihood stops increasing or the budget is exceeded,
the table has the remaining difference.

* Ours is ``ProbabilisticSFA(K).fit(X)`` from the array: starting points, optimization, attributes, to its own
  tolerance.
* statsmodels (DynamicFactorMQ) maximises the same likelihood. It has no mean, so that it receives the series
  minus the mean of our fit, and can reach the same maximum. EM with ``em_initialization=False`` (otherwise
  its likelihood is that of another model) starts from its principal components: with its default filter, and
  with the collapsed filter, its fastest.
* dynamax fits full matrices F, Q and R: 200 parameters more, with which its likelihood exceeds our maximum in
  any case. It therefore runs twice, from the starting point of statsmodels: restricted to our model (its
  smoother with the noise as a vector, its EM, and an M-step with diagonal matrices), and unrestricted, to its
  own best value minus 1e-4 nats per step. It does not support missing values.

Seconds are processor seconds of all threads, so that other load of the machine has little effect. Our fits
are measured before and after the others. Compilation is not counted (everything runs once before), and, for
statsmodels, neither is the evaluation that determines the end. The budget of a package is ``--budget``
seconds, or the time of ``--fits`` of our fits if that is longer.

    python benchmarks/speed/full_fit_peers.py
    python benchmarks/speed/full_fit_peers.py --quick
    python benchmarks/speed/full_fit_peers.py --components 12 --rows 2000 --fits 40
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from probsfa import ProbabilisticSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.full_fits import (
    PER_STEP,
    PeerFit,
    by_dynamax,
    by_statsmodels,
)
from common.options import read_options
from common.side_by_side import Timing, duration, setting, timed
from common.smoothers import draw_problem
from common.tables import Table


def compare(missing: float, options: argparse.Namespace) -> None:
    """Print the table of all packages on one series."""
    K = options.components
    X = draw_problem(options.rows, 20, K, missing).X
    n = len(X)

    def fit() -> ProbabilisticSFA:
        return ProbabilisticSFA(K).fit(X)

    first, model = timed(fit, time.process_time)
    fits = [timed(fit, time.process_time)[0] for _ in range(options.repeats)]
    budget = max(options.budget, options.fits * min(fits))
    optimum = model.log_likelihood_
    target = optimum - PER_STEP * n
    centred = X - model.mean_
    peers: dict[str, Callable[[], PeerFit]] = {
        "statsmodels": lambda: by_statsmodels(centred, K, target, budget, collapsed=False),
        "statsmodels, collapsed": lambda: by_statsmodels(centred, K, target, budget, collapsed=True),
    }
    if missing == 0.0:
        peers["dynamax, held to our model"] = lambda: by_dynamax(centred, K, target, budget, restricted=True)
        peers["dynamax, its larger model"] = lambda: by_dynamax(centred, K, np.inf, budget, restricted=False)
    courses = {name: run() for name, run in peers.items()}
    ours = Timing.of([*fits, *(timed(fit, time.process_time)[0] for _ in range(options.repeats))])
    rows = [("probsfa", str(ours), "1.0", f"{model.n_evaluations_} posteriors", f"{optimum / n:.5f}")]
    for name, course in courses.items():
        arrived = course.best >= target
        short = "" if arrived else f", short by {(optimum - course.best) / n:.1e}"
        rows.append(
            (
                name,
                duration(course.seconds) + ("" if arrived else ", did not arrive"),
                ("" if arrived else "more than ") + f"{course.seconds / ours.median:.1f}",
                f"{course.n_iterations} iterations",
                f"{course.best / n:.5f}{short}",
            )
        )
    header = ("", "median (shortest to longest)", "times ours", "effort", "log-likelihood per step")
    Table(*header, rows=rows)
    print(f"\nOur first fit in the process, compilation included, took {duration(first)}.")


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        rows=5_000,
        components=3,
        repeats=7,
        budget=(120.0, "seconds for one peer on one series"),
        fits=(0.0, "the same in fits of ours"),
        quick=(False, "1,000 rows, 3 repeats, 10 s a peer"),
    )
    if options.quick:
        options.rows, options.repeats, options.budget = 1_000, 3, 10.0
    print(setting("numpy", "jax", "dynamax", "statsmodels"))
    for missing in (0.0, 0.2):
        print(f"\nT = {options.rows:,}, D = 20, K = {options.components}, {missing:.0%} of values missing:\n")
        compare(missing, options)


if __name__ == "__main__":
    main()
