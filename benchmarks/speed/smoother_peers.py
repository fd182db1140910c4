"""Time of the smoother with log-likelihood, compared with dynamax, statsmodels, cuthbert and pykalman.

All have the same model and parameters, in double precision, and return smoothed means, covariances and the
log-likelihood; ours also returns the lag-one covariances. Before the measurement, log-likelihoods and means
are compared with those of this package.

* dynamax: ``lgssm_smoother`` compiled, the noise given as a vector (Woodbury formula), and its parallel
  version. It does not support missing values; the time for complete data is given instead.
* statsmodels: ``KalmanSmoother`` with means and covariances only, in six settings (collapsed, univariate,
  both, other smoothing recursions), with one thread for its small products. The fastest counts.
* cuthbert: its square-root smoother, compiled, sequential and parallel.
* pykalman: ``smooth`` and ``loglikelihood``; it skips rows with missing values.

The second part is a table of our times over K, D and T, as multiples of the lower bound
(``common/floor.py``) and, if it finishes within the budget, of the time of the fastest other package. Entries
whose result alone exceeds the memory limit are omitted.

    python benchmarks/speed/smoother_peers.py
    python benchmarks/speed/smoother_peers.py --quick
    python benchmarks/speed/smoother_peers.py --table --components 1 5 --features 20 --rows 1000 10000
"""

import argparse
import gc
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.floor import Machine, posterior_floor
from common.options import read_options
from common.side_by_side import Timing, alternate, duration, setting, timed
from common.smoother_alone import SLOW_TO_COMPILE, require_same, time_alone
from common.smoothers import IMPLEMENTATIONS, OURS, Problem, Run, Unable, draw_problem
from common.tables import Table

MISSING = 0.2  # share of missing values
# Settings that were the fastest in some case of the first part; the table uses only these.
IN_THE_TABLE = ("dynamax", "statsmodels, collapsed", "statsmodels, univariate")


def compare(
    problem: Problem, complete: Problem, options: argparse.Namespace, left_out: Sequence[str]
) -> None:
    """Print the table of all packages on one problem."""
    runs: dict[str, Run] = {}
    notes: dict[str, str] = {}
    alone: dict[str, Timing] = {}
    expected = IMPLEMENTATIONS[OURS](problem)()
    expected_complete = expected if not problem.has_gaps else IMPLEMENTATIONS[OURS](complete)()
    for name, build in IMPLEMENTATIONS.items():
        if name in left_out:
            continue
        try:
            run = build(problem)
        except Unable as reason:
            notes[name] = str(reason)
            if name != "dynamax":
                continue
            run = build(complete)
        if name in SLOW_TO_COMPILE:
            asked = len(problem.X), 0.2 if problem.has_gaps else 0.0, options.repeats, options.budget
            timing, notes[name] = time_alone(name, *asked)
            if timing is not None:
                alone[name] = timing
            continue
        compilation, answer = timed(run)
        gaps = require_same(name, answer, expected_complete if name in notes else expected)
        differences = f"{gaps[0]:.0e}, {gaps[1]:.0e}"
        notes[name] = f"{differences}; {notes[name]}, so on complete data" if name in notes else differences
        if compilation > options.budget:
            notes[name] += f"; first run, compilation included, {duration(compilation)}"
        runs[name] = run
    times = alternate(runs, repeats=options.repeats, budget=options.budget, warm_up=False) | alone
    ours = times[OURS].median
    table = Table("", "median (shortest to longest)", "times ours", "differences from ours")
    for name, note in notes.items():
        timing = times.get(name)
        table.add(name, timing or "", f"{timing.median / ours:.1f}" if timing else "", note)


def cell(
    problem: Problem, machine: Machine, repeats: int, budget: float
) -> tuple[Timing, float, dict[str, Timing]]:
    """Return our time, its ratio to the lower bound, and times of packages that finish within the budget."""
    n_rows, n_features = problem.X.shape
    run = IMPLEMENTATIONS[OURS](problem)
    expected = run()
    runs = {OURS: run}
    for name in IN_THE_TABLE:
        try:
            peer = IMPLEMENTATIONS[name](problem)
        except Unable:
            continue
        # The time of a short segment predicts whether the whole series finishes within the budget.
        piece = min(n_rows, 200)
        short = IMPLEMENTATIONS[name](problem._replace(X=problem.X[:piece]))
        short()
        if timed(short)[0] * n_rows / piece > budget:
            continue
        require_same(name, peer(), expected)
        runs[name] = peer
    del expected
    times = alternate(runs, repeats=repeats, budget=budget, warm_up=False)
    ours = times.pop(OURS)
    floor = posterior_floor(machine, n_rows, n_features, problem.params.n_components, gaps=problem.has_gaps)
    return ours, ours.median / floor, times


def sweep(options: argparse.Namespace, machine: Machine) -> None:
    """Print the table over K, D and T."""
    table = Table("K, D, T", "ours", "times the floor", "best peer", "its time", "times ours")
    for K, D, T in itertools.product(options.components, options.features, options.rows):
        # Memory of our result in the engine and as returned, and of the data with their mask.
        if 8.0 * T * (4 * K**2 + 4 * D) > options.memory * 2**30:
            continue
        problem = draw_problem(T, D, K, MISSING)
        ours, ratio, peers = cell(problem, machine, options.repeats, options.budget)
        best = min(peers, key=lambda name: peers[name].median) if peers else None
        of_best = [best, peers[best], f"{peers[best].median / ours.median:.1f}"] if best else []
        table.add(f"{K}, {D}, {T:,}", ours, f"{ratio:.1f}", *of_best)
        gc.collect()


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        quick=(False, "T = 1,000, few table entries, nothing slow to compile"),
        table=(False, "the table alone"),
        no_table=(False, "the comparison alone"),
        repeats=7,
        budget=(20.0, "seconds for one contestant on one problem"),
        memory=(6.0, "GiB for one cell of the table"),
        components=[1, 2, 3, 5, 8, 12, 16, 32, 64, 128],
        features=[5, 20, 50, 200],
        rows=[100, 1_000, 10_000, 100_000, 1_000_000],
    )
    T, left_out = 10_000, ()
    if options.quick:
        T, left_out = 1_000, (*SLOW_TO_COMPILE, "cuthbert", "pykalman")
        options.repeats, options.budget = 3, 5.0
        options.components, options.features, options.rows = [2, 8], [20], [1_000, 10_000]

    machine = Machine.measured()
    print(setting("numpy", "jax", "dynamax", "statsmodels", "cuthbert", "pykalman"))
    rates = f"{machine.flops / 1e9:.0f} GFLOP/s, a copy at {machine.bytes / 1e9:.0f} GB/s"
    print(f"\nA matrix product runs at {rates}.")
    if not options.table:
        complete = draw_problem(T, 50, 5, 0.0)
        for missing in (0.0, MISSING):
            problem = draw_problem(T, 50, 5, missing)
            print(f"\nT = {T:,}, D = 50, K = 5, {missing:.0%} of the values missing:\n")
            compare(problem, complete, options, left_out)
            floor = posterior_floor(machine, T, 50, 5, gaps=missing > 0)
            print(f"\nThe floor is {duration(floor)}.")
    if not options.no_table:
        print(f"\nOurs over K, D and T, {MISSING:.0%} of the values missing:\n")
        sweep(options, machine)


if __name__ == "__main__":
    main()
