"""Timing of smoothers in separate processes, with a time limit; validation of their results.

python benchmarks/common/smoother_alone.py NAME ROWS MISSING REPEATS BUDGET
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # this module is also run as a program

from common.side_by_side import Timing, alternate, duration, timed
from common.smoothers import IMPLEMENTATIONS, OURS, Answer, draw_problem

# Associative scans over D-by-D matrices take minutes to compile, and may not finish on a CPU.
SLOW_TO_COMPILE = ("dynamax, parallel", "cuthbert, parallel")
PATIENCE = 60.0  # seconds for those to return
LOG_LIKELIHOOD, MEANS = 1e-8, 1e-5  # relative and absolute tolerances of the comparison


def require_same(name: str, answer: Answer, expected: Answer) -> tuple[float, float]:
    """Return the differences of two results, and raise an error if they are too large."""
    value = abs(answer[0] - expected[0]) / abs(expected[0])
    means = float(np.abs(answer[1] - expected[1]).max())
    if not (value <= LOG_LIKELIHOOD and means <= MEANS):
        raise AssertionError(f"{name} does not return the same numbers: {value:.1e}, {means:.1e}")
    return value, means


def time_alone(name: str, *arguments: float) -> tuple[Timing | None, str]:
    """Measure an implementation in a separate process; return None after the time limit, and a note."""
    command = [sys.executable, __file__, name, *map(str, arguments)]
    try:
        done = subprocess.run(command, timeout=PATIENCE, capture_output=True, check=True, text=True)
    except subprocess.TimeoutExpired:
        return None, f"did not return within {PATIENCE:.0f} s, compilation included"
    *times, note = json.loads(done.stdout)
    return Timing(*times), note


def main() -> None:
    """Validate and measure one implementation, for `time_alone`."""
    name, rows, missing, repeats, budget = sys.argv[1:]
    problem = draw_problem(int(rows), 50, 5, float(missing))
    run = IMPLEMENTATIONS[name](problem)
    compilation, answer = timed(run)
    gaps = require_same(name, answer, IMPLEMENTATIONS[OURS](problem)())
    times = alternate({name: run}, repeats=int(repeats), budget=float(budget), warm_up=False)[name]
    note = f"{gaps[0]:.0e}, {gaps[1]:.0e}; alone in a process, first run {duration(compilation)}"
    print(json.dumps([*times, note]))


if __name__ == "__main__":
    main()
