"""Dozens of states, 20 % of the values missing: processor time, compared with a lower bound and statsmodels.

Each case is one posterior with all moments. Times are processor times, the minimum of several alternating
runs, so that other load of the machine has little effect. The lower bound is that of ``common/floor.py`` at
the rate of a matrix product on one core. "First" is the first posterior.

    python benchmarks/speed/engine_dozens.py [--components 12 24] [--features 20] [--rows 10000] [--repeats 5]
"""

import itertools
import sys
import time
from pathlib import Path

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._validation import Sequences
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.posterior import smooth
from probsfa.statespace.panel import make_panel

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.floor import Machine, posterior_floor
from common.options import read_options
from common.side_by_side import duration, setting
from common.smoothers import IMPLEMENTATIONS, Unable, draw_problem
from common.tables import Table

SAME = 1e-10
SHORTEST = 0.05  # seconds over which runs are averaged
LONGEST_PEER = 5.0  # seconds after which the other package is not run again


def processor_seconds(run):
    """Return the processor time of a run, and its result."""
    started = time.process_time()
    answer = run()
    return time.process_time() - started, answer


def seconds_of_several(run):
    """Return processor and wall-clock time of a run, as means over enough runs to include all threads."""
    seconds, answer = processor_seconds(run)
    del answer
    n_runs = 1 + int(SHORTEST / max(seconds, 1e-4))
    began, started = time.perf_counter(), time.process_time()
    for _ in range(n_runs):
        run()
    return (time.process_time() - started) / n_runs, (time.perf_counter() - began) / n_runs


def product_rate():
    """Return operations per second of a matrix product on one core."""
    left, right = np.random.default_rng(0).standard_normal((2, 800, 800))
    with one_blas_thread():
        return 2.0 * 800**3 / min(processor_seconds(lambda: left @ right)[0] for _ in range(9))


def largest_difference(found, wanted):
    """Return the largest difference of all arrays, relative to the largest entry of each array or to one."""
    return max(
        float(np.max(np.abs(np.asarray(x) - np.asarray(y))) / max(np.max(np.abs(y)), 1.0))
        for x, y in zip(found, wanted, strict=True)
    )


def best_setting(problem):
    """Return the name of the fastest setting of statsmodels on the first rows."""
    start = problem._replace(X=problem.X[:500])
    seconds = {}
    for name in (name for name in IMPLEMENTATIONS if name.startswith("statsmodels")):
        try:
            run = IMPLEMENTATIONS[name](start)
        except Unable:
            continue
        run()
        seconds[name] = min(processor_seconds(run)[0] for _ in range(2))
    return min(seconds, key=seconds.get)


def against_peers(n_components, n_features, n_rows, repeats, machine):
    """Return a row of the table."""
    problem = draw_problem(n_rows, n_features, n_components, 0.2)
    panel = make_panel(Sequences(problem.X, (n_rows,)))
    began = time.perf_counter()
    in_processor, answer = processor_seconds(lambda: smooth(problem.params, panel))
    first = time.perf_counter() - began
    with use_strategy("recursions"):
        wanted = smooth(problem.params, panel)
    gap = largest_difference(answer, wanted)
    if not gap < SAME:
        raise SystemExit(f"the answers differ by {gap:.1e}")
    del answer, wanted
    name = best_setting(problem)
    peer = IMPLEMENTATIONS[name](problem)
    ours, theirs = [], []
    peer()
    for i in range(repeats):
        ours.append(seconds_of_several(lambda: smooth(problem.params, panel)))
        if i == 0 or sum(seconds for _, seconds in theirs) < LONGEST_PEER:
            began = time.perf_counter()
            theirs.append((processor_seconds(peer)[0], time.perf_counter() - began))
    our_best, their_best = (np.min(seconds, axis=0) for seconds in (ours, theirs))
    floor = posterior_floor(machine, n_rows, n_features, n_components, gaps=True)
    return [
        f"{n_components}, {n_features}, {n_rows:,}",
        duration(our_best[0]),
        f"{our_best[0] / floor:.1f}",
        name.partition(", ")[2] or "as it comes",
        duration(their_best[0]),
        f"{their_best[0] / our_best[0]:.1f}",
        f"{their_best[1] / our_best[1]:.1f}",
        f"{duration(first)}, {duration(in_processor)}",
        f"{gap:.0e}",
    ]


HEADER = [
    "K, D, T",
    "ours",
    "times the floor",
    "statsmodels",
    "its time",
    "times ours",
    "of the clock",
    "first, of the clock and of the processor",
    "largest difference",
]


def main():
    """Time all cases."""
    options = read_options(
        __doc__,
        repeats=5,
        components=[9, 12, 16, 18, 24, 32, 48],
        features=[5, 20, 50],
        rows=[1_000, 10_000],
    )
    print(setting("jax", "jaxlib", "numpy", "statsmodels"))
    rate = product_rate()
    print(f"\nA matrix product runs at {rate / 1e9:.0f} GFLOP/s of a core.\n")
    table = Table(*HEADER)
    machine = Machine(rate, Machine.measured().bytes)
    for sizes in itertools.product(options.components, options.features, options.rows):
        table.add(*against_peers(*sizes, options.repeats, machine))


if __name__ == "__main__":
    main()
