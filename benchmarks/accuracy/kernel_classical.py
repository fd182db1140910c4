"""Kernel SFA with default parameters on twelve classical problems: recovery of the source, and warnings.

Mixtures of slow and fast sources, angles in products, objects that rotate once, speech, and two series
without slow sources. The table has correlations of the known slow source with two outputs (for objects the
multiple correlation of sine or cosine of the pose, whichever is lower). Methods are `KernelSFA()`; the same
with the best of five penalties, selected by the source itself; and `SFA` with an expansion suitable for the
problem.

    python benchmarks/accuracy/kernel_classical.py
    python benchmarks/accuracy/kernel_classical.py --only textbook --data DATA
"""

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

from probsfa.sfa import SFA, KernelSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.slow_sources import problems
from common.tables import Table

PENALTIES = (0.0, 1e-6, 1e-4, 1e-3, 1e-2)


def correlation(outputs: Any, slow: np.ndarray) -> float:
    """Return the lowest multiple correlation of a source with the outputs."""
    Y = np.concatenate(outputs) if isinstance(outputs, list) else outputs
    Y = np.column_stack([np.ones(len(Y)), Y])
    S = slow.reshape(len(slow), -1)
    left = S - Y @ np.linalg.lstsq(Y, S, rcond=None)[0]
    return float(np.sqrt(np.clip(1 - left.var(axis=0) / S.var(axis=0), 0, 1)).min())


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        data="fsdd_subset",
        only={"default": "", "metavar": "TEXT", "help": "only problems whose name begins so"},
    )
    table = Table(
        "problem",
        *("rows", "default", "best penalty", "SFA", "lambda", "delta", "held out", "warns", "CPU s"),
    )
    for name, make in problems(options.data).items():
        if not name.startswith(options.only):
            continue
        problem = make()
        tested = problem.rows if problem.test is None else problem.test
        started = time.process_time()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = KernelSFA().fit(problem.rows)
        seconds = time.process_time() - started
        found = ["-"] * 3
        if problem.slow is not None:
            given = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                linear = (
                    make_pipeline(SFA(2))
                    if problem.expansion is None
                    else SFA(2, expansion=problem.expansion)
                )
                of_linear = correlation(linear.fit(problem.rows).transform(tested), problem.slow)
                for value in PENALTIES:
                    tuned = KernelSFA(regularization=value).fit(problem.rows)
                    given.append(correlation(tuned.transform(tested), problem.slow))
            default = correlation(model.transform(tested), problem.slow)
            found = [f"{value:.3f}" for value in (default, max(given), of_linear)]
        n = sum(map(len, problem.rows)) if isinstance(problem.rows, list) else len(problem.rows)
        train, held_out = (
            ", ".join(f"{value:.2g}" for value in values)
            for values in (model.delta_values_, model.held_out_delta_values_)
        )
        warns = "yes" if caught else "no"
        penalty = f"{model.regularization_:.0e}"
        table.add(name, n, *found, penalty, train, held_out, warns, f"{seconds:.1f}")


if __name__ == "__main__":
    main()
