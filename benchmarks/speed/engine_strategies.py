"""What each strategy of the engine is worth: the time of an evaluation, beside the best of all others.

One evaluation is what a fit asks for, sums of expected moments and log-likelihood. Every case is run by all
strategies that its data allow, in turns; "chosen" is what the plan takes of itself. The last table says for
each strategy in which case it gains most over the best of all others. The parallel scan is made for
accelerators, and is left out on CPUs: see engine_accelerator.py.

    python benchmarks/speed/engine_strategies.py [--repeats 7] [--budget 20]
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import jax
import numpy as np

from probsfa._validation import Sequences
from probsfa.statespace import use_strategy
from probsfa.statespace.engine.native.route import MOST_STATES, serves
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics, plan_for

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.side_by_side import alternate, duration, setting, table

# States, columns, rows, the part of the cells that is missing, and how many rhythms of two states there are.
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
#: What is asked of the engine, by name.
WAYS = {
    "recursions": {"strategy": "recursions"},
    "recursions, both ends": {"strategy": "recursions", "two_filter": True},
    "segmented": {"strategy": "segmented"},
    "native": {"strategy": "native"},
    "information form": {"strategy": "information_form"},
    "information form, both ends": {"strategy": "information_form", "two_filter": True},
    "covariance form": {"strategy": "covariance_form"},
    "covariance form, both ends": {"strategy": "covariance_form", "two_filter": True},
    "steady state": {"strategy": "steady_state"},
}
SAME = 1e-8


def case(n_states, n_features, n_rows, missing, n_rhythms):
    """Draw parameters and a panel; what the cells hold does not matter to the time."""
    rng = np.random.default_rng(0)
    params = Parameters(
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


def allowed(way, n_states, missing):
    """Whether a way is worth a try: compiling segments of many latents takes minutes."""
    if way == "segmented":
        return n_states <= 12
    if way == "native":
        return n_states <= MOST_STATES and serves()
    if way.startswith("information form"):
        return n_states <= 64
    return way != "steady state" or missing == 0.0


def evaluate(params, panel, asked):
    """One evaluation by what is asked for."""
    with use_strategy(**asked):
        return expected_statistics(params, panel)


def first(params, panel, name, asked):
    """The first evaluation by a way, which compiles it; None, and a line, where XLA cannot compile it."""
    try:
        return evaluate(params, panel, asked)
    except jax.errors.JaxRuntimeError as error:
        print(f"{name}: not compiled, {str(error).splitlines()[0]}")
        return None


def chosen(params, panel):
    """The way that the plan takes of itself."""
    with jax.enable_x64(True):
        plan = plan_for(params, panel)
    route = type(plan.route).__name__
    if plan.strategy is None:
        return {"SteadyState": "steady state", "NativeSegments": "native"}[route]
    return plan.strategy.name.replace("_", " ") + (", both ends" if route == "TwoFilter" else "")


def main():
    """Time all ways of all cases."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--budget", type=float, default=20.0, help="seconds after which a way runs no more")
    options = parser.parse_args()
    print(setting("jax", "jaxlib", "numpy"))
    rows, gains = [], {}
    for shape in CASES:
        n_states, n_features, n_rows, missing, n_rhythms = shape
        params, panel = case(*shape)
        ways = {name: asked for name, asked in WAYS.items() if allowed(name, n_states, missing)}
        sums = {name: first(params, panel, name, asked) for name, asked in ways.items()}
        sums = {name: value for name, value in sums.items() if value is not None}
        ways = {name: ways[name] for name in sums}
        for name, other in sums.items():
            gap = abs(other.log_likelihood / sums["recursions"].log_likelihood - 1.0)
            if not gap < SAME:
                raise SystemExit(f"{name} gives another log-likelihood in {shape}: {gap:.1e}")
        timings = alternate(
            {name: partial(evaluate, params, panel, asked) for name, asked in ways.items()},
            repeats=options.repeats,
            budget=options.budget,
        )
        medians = {name: timing.median for name, timing in timings.items()}
        label = f"K={n_states}, D={n_features}, T={n_rows:,}, {missing:.0%} missing"
        label += f", with {2 * n_rhythms} states of rhythms" if n_rhythms else ""
        rows.append(
            [label, *(duration(medians[n]) if n in medians else "" for n in WAYS), chosen(params, panel)]
        )
        print(f"{label}: " + ", ".join(f"{n} {duration(t)}" for n, t in medians.items()), flush=True)
        for name, seconds in medians.items():
            ratio = min(t for other, t in medians.items() if other != name) / seconds
            if ratio > gains.get(name, (0.0, ""))[0]:
                gains[name] = ratio, label
    print("\n" + table(["case", *WAYS, "chosen"], rows))
    print(
        "\n"
        + table(
            ["way", "most gained over the best other", "in"],
            [[name, f"{gains[name][0]:.2f}", gains[name][1]] for name in WAYS if name in gains],
        )
    )


if __name__ == "__main__":
    main()
