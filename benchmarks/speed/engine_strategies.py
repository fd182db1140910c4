"""Time of an evaluation by each algorithm of the engine.

One evaluation computes the sums of expected moments and the log-likelihood, as in a fit. Every case is run by
all algorithms that support its data, alternately. The parallel scan is made for accelerators, and is left out
on CPUs: see engine_accelerator.py.

    python benchmarks/speed/engine_strategies.py [--repeats 7] [--budget 20]
"""

import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.core.algorithm import supports
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import alternate, duration, setting
from common.tables import Table

# States, columns, rows, share of missing values, and number of cycles of two states.
CASES = [
    (3, 20, 1_000, 0.2, 0),
    (3, 20, 10_000, 0.2, 0),
    (3, 20, 10_000, 0.0, 0),
    (5, 50, 10_000, 0.2, 0),
    (5, 50, 10_000, 0.0, 0),
    (8, 20, 10_000, 0.2, 0),
    (12, 20, 10_000, 0.2, 0),
    (12, 20, 10_000, 0.0, 0),
    (18, 18, 8_700, 0.1, 0),
    (6, 18, 8_700, 0.1, 1),
    (12, 18, 8_700, 0.1, 3),
    (24, 18, 8_700, 0.1, 3),
    (32, 5, 5_000, 0.2, 0),
    (64, 5, 2_000, 0.2, 0),
    (90, 132, 2_000, 0.1, 0),
]
#: Arguments of :func:`use_strategy`, by the name of the algorithm.
ALGORITHMS = {name: {"strategy": name} for name in ("core", "recursions", "segmented")}
SAME = 1e-8


def case(n_states, n_features, n_rows, missing, n_rhythms):
    """Draw parameters and a panel; the time does not depend on the values."""
    rng = np.random.default_rng(0)
    params = StateSpace(
        np.linspace(0.98, 0.5, n_states - 2 * n_rhythms),
        rng.standard_normal((n_features, n_states)) / np.sqrt(n_states),
        rng.uniform(0.2, 1.0, n_features),
        np.zeros(n_features),
        rhythm_decay=np.full(n_rhythms, 0.98),
        rhythm_frequency=2.0 * np.pi / 24.0 * (1.0 + np.arange(n_rhythms)),
    )
    X = rng.standard_normal((n_rows, n_features))
    X[rng.random(X.shape) < missing] = np.nan
    return params, make_panel(Sequences(X, (n_rows,)))


def allowed(name, params):
    """Whether an algorithm is measured: compilation of segments of many states takes minutes."""
    if name == "segmented":
        return params.n_states <= 12
    return name != "core" or supports(params)


def evaluate(params, panel, asked):
    """Run one evaluation by an algorithm."""
    with use_strategy(**asked):
        return expected_statistics(params, panel)


def first(params, panel, name, asked):
    """Run the first evaluation, which compiles a program; return None if XLA cannot compile it."""
    try:
        return evaluate(params, panel, asked)
    except jax.errors.JaxRuntimeError as error:
        print(f"{name}: not compiled, {str(error).splitlines()[0]}", file=sys.stderr)
        return None


def main():
    """Measure all algorithms on all cases."""
    options = read_options(
        __doc__,
        repeats=7,
        budget=(20.0, "seconds after which an algorithm is not run again"),
    )
    print(setting("jax", "jaxlib", "numpy"))
    print()
    table = Table("case", *ALGORITHMS)
    for shape in CASES:
        n_states, n_features, n_rows, missing, n_rhythms = shape
        params, panel = case(*shape)
        algorithms = {name: asked for name, asked in ALGORITHMS.items() if allowed(name, params)}
        sums = {name: first(params, panel, name, asked) for name, asked in algorithms.items()}
        sums = {name: value for name, value in sums.items() if value is not None}
        algorithms = {name: algorithms[name] for name in sums}
        for name, other in sums.items():
            gap = abs(other.log_likelihood / sums["recursions"].log_likelihood - 1.0)
            if not gap < SAME:
                raise SystemExit(f"{name} gives another log-likelihood in {shape}: {gap:.1e}")
        timings = alternate(
            {name: partial(evaluate, params, panel, asked) for name, asked in algorithms.items()},
            repeats=options.repeats,
            budget=options.budget,
        )
        medians = {name: timing.median for name, timing in timings.items()}
        label = f"K={n_states}, D={n_features}, T={n_rows:,}, {missing:.0%} missing"
        label += f", with {2 * n_rhythms} states of rhythms" if n_rhythms else ""
        table.add(label, *(duration(medians[n]) if n in medians else "" for n in ALGORITHMS))


if __name__ == "__main__":
    main()
