"""Time of the smoother with log-likelihood, compared with dynamax, statsmodels, cuthbert and pykalman.

All solve the same model at the same parameters, in double precision, and return smoothed means, covariances
and the log-likelihood; ours returns the lag-one covariances as well. Before timing, log-likelihoods and means
are compared with those of this package.

* dynamax: ``lgssm_smoother`` compiled, the noise given as a vector (its Woodbury path), and its parallel
  version. It does not support missing values; the time for complete data is given instead.
* statsmodels: ``KalmanSmoother`` asked for means and covariances only, in six settings (collapsed,
  univariate, both, other smoothing recursions), one thread for its small products. The fastest counts.
* cuthbert: its square-root smoother, compiled, in sequence and in parallel.
* pykalman: ``smooth`` and ``loglikelihood``; it leaves out rows with missing values.

The second part is a table over K, D and T of ours, in multiples of the floor (see
``common/floor.py``) and, where it finishes within the budget, of the best peer. Cells whose answer alone
exceeds the memory limit are left out.

    python benchmarks/speed/smoother_peers.py
    python benchmarks/speed/smoother_peers.py --quick
    python benchmarks/speed/smoother_peers.py --table --components 1 5 --features 20 --rows 1000 10000
"""

import argparse
import gc
import itertools
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.floor import Machine, posterior_floor
from common.options import read_options
from common.side_by_side import Timing, alternate, duration, setting, table, timed
from common.smoothers import CONTESTANTS, OURS, Answer, Problem, Run, Unable, draw_problem

# Associative scans over matrices of D by D: minutes to compile, and on a CPU they may never return.
SLOW_TO_COMPILE = ("dynamax, parallel", "cuthbert, parallel")
# The settings that were the fastest somewhere in the first part; the table tries no others.
IN_THE_TABLE = ("dynamax", "statsmodels, collapsed", "statsmodels, univariate")
PATIENCE = 60.0  # seconds for those to return
LOG_LIKELIHOOD, MEANS = 1e-8, 1e-5  # largest relative and absolute differences that count as the same numbers


def require_same(name: str, answer: Answer, expected: Answer) -> tuple[float, float]:
    """Return how far two answers are apart, and raise where it is too far."""
    value = abs(answer[0] - expected[0]) / abs(expected[0])
    means = float(np.abs(answer[1] - expected[1]).max())
    if not (value <= LOG_LIKELIHOOD and means <= MEANS):
        raise AssertionError(f"{name} does not return the same numbers: {value:.1e}, {means:.1e}")
    return value, means


def try_alone(name: str, problem: Problem, repeats: int, budget: float) -> tuple[Timing, str] | None:
    """Time a contestant in a process that can be ended; None where it does not return."""
    missing = "0.2" if problem.has_gaps else "0.0"
    given = {"--try": name, "--rows": len(problem.X), "--missing": missing}
    given |= {"--repeats": repeats, "--budget": budget}
    command = [sys.executable, __file__, *(str(word) for pair in given.items() for word in pair)]
    try:
        done = subprocess.run(command, timeout=PATIENCE, capture_output=True, check=True, text=True)
    except subprocess.TimeoutExpired:
        return None
    *times, note = json.loads(done.stdout)
    return Timing(*times), note


def print_alone(name: str, problem: Problem, repeats: int, budget: float) -> None:
    """Check and time one contestant, for :func:`try_alone`."""
    run = CONTESTANTS[name](problem)
    compilation, answer = timed(run)
    gaps = require_same(name, answer, CONTESTANTS[OURS](problem)())
    timing = alternate({name: run}, repeats=repeats, budget=budget, warm_up=False)[name]
    note = f"{gaps[0]:.0e}, {gaps[1]:.0e}; alone in a process, first run {duration(compilation)}"
    print(json.dumps([*timing, note]))


def compare(problem: Problem, complete: Problem, repeats: int, budget: float, left_out: Sequence[str]) -> str:
    """Return the table of all contestants on one problem."""
    runs: dict[str, Run] = {}
    notes: dict[str, str] = {}
    alone: dict[str, Timing] = {}
    expected = CONTESTANTS[OURS](problem)()
    expected_complete = expected if not problem.has_gaps else CONTESTANTS[OURS](complete)()
    for name, build in CONTESTANTS.items():
        if name in left_out:
            continue
        try:
            runs[name] = build(problem)
        except Unable as reason:
            notes[name] = str(reason)
            if not name.startswith("dynamax"):
                continue
            if name in SLOW_TO_COMPILE:
                continue
            runs[name] = build(complete)
        if name in SLOW_TO_COMPILE:
            del runs[name]
            notes[name] = f"did not return within {PATIENCE:.0f} s, compilation included"
            if answered := try_alone(name, problem, repeats, budget):
                alone[name], notes[name] = answered
            continue
        compilation, answer = timed(runs[name])
        gaps = require_same(name, answer, expected_complete if name in notes else expected)
        differences = f"{gaps[0]:.0e}, {gaps[1]:.0e}"
        notes[name] = f"{differences}; {notes[name]}, so on complete data" if name in notes else differences
        if compilation > budget:
            notes[name] += f"; first run, compilation included, {duration(compilation)}"
    times = alternate(runs, repeats=repeats, budget=budget, warm_up=False) | alone
    ours = times[OURS].median
    rows = [
        (name, times[name], f"{times[name].median / ours:.1f}", notes[name])
        if name in times
        else (name, "", "", notes[name])
        for name in CONTESTANTS
        if name in times or name in notes
    ]
    return table(("", "median (shortest to longest)", "times ours", "differences from ours"), rows)


def cell(
    problem: Problem, machine: Machine, repeats: int, budget: float
) -> tuple[Timing, float, dict[str, Timing]]:
    """Return our time, its multiple of the floor, and times of the peers that finish within the budget."""
    n_rows, n_features = problem.X.shape
    run = CONTESTANTS[OURS](problem)
    expected = run()
    runs = {OURS: run}
    for name in IN_THE_TABLE:
        try:
            peer = CONTESTANTS[name](problem)
        except Unable:
            continue
        # A short piece of the series tells whether the whole will finish.
        piece = min(n_rows, 200)
        short = CONTESTANTS[name](problem._replace(X=problem.X[:piece]))
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


def sweep(options: argparse.Namespace, machine: Machine) -> str:
    """Return the table over K, D and T."""
    rows = []
    for K, D, T in itertools.product(options.components, options.features, options.rows):
        # Our answer, once as it leaves the engine and once as it is handed out, and the data with their mask.
        if 8.0 * T * (4 * K**2 + 4 * D) > options.memory * 2**30:
            continue
        ours, ratio, peers = cell(
            draw_problem(T, D, K, options.missing), machine, options.repeats, options.budget
        )
        best = min(peers, key=lambda name: peers[name].median) if peers else ""
        rows.append(
            (
                f"{K}, {D}, {T:,}",
                ours,
                f"{ratio:.1f}",
                best,
                str(peers[best]) if best else "",
                f"{peers[best].median / ours.median:.1f}" if best else "",
            )
        )
        print(*rows[-1], sep="  ", file=sys.stderr, flush=True)  # the table comes at the end
        gc.collect()
    header = ("K, D, T", "ours", "times the floor", "best peer", "its time", "times ours")
    return table(header, rows)


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        quick=(False, "T = 1,000, few cells, nothing slow to compile"),
        table=(False, "the table alone"),
        no_table=(False, "the comparison alone"),
        repeats=7,
        budget=(20.0, "seconds for one contestant on one problem"),
        memory=(6.0, "GiB for one cell of the table"),
        missing=(0.2, "share of missing cells in the table"),
        components=[1, 2, 3, 5, 8, 12, 16, 32, 64, 128],
        features=[5, 20, 50, 200],
        rows=[100, 1_000, 10_000, 100_000, 1_000_000],
        **{"try": {"dest": "tried", "choices": list(CONTESTANTS), "help": argparse.SUPPRESS}},
    )
    if options.tried:
        problem = draw_problem(options.rows[0], 50, 5, options.missing)
        return print_alone(options.tried, problem, options.repeats, options.budget)
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
        for missing in (0.0, 0.2):
            problem = draw_problem(T, 50, 5, missing)
            print(f"\nT = {T:,}, D = 50, K = 5, {missing:.0%} of the cells missing:\n")
            print(compare(problem, complete, options.repeats, options.budget, left_out), flush=True)
            floor = posterior_floor(machine, T, 50, 5, gaps=missing > 0)
            print(f"\nThe floor is {duration(floor)}.")
    if not options.no_table:
        print(f"\nOurs over K, D and T, {options.missing:.0%} of the cells missing:\n")
        print(sweep(options, machine))


if __name__ == "__main__":
    main()
