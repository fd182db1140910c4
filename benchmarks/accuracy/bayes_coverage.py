"""Coverage of the intervals of hidden values: for data from the model, and for the bundled weather.

Data from the model: many series, each with different parameters; 20 % of the values are hidden. Weather:
every third hour, with single values (10 %) and blocks of 24 hours hidden; K = 8. Intervals are quantiles of
the mixture over posterior draws. Errors for the weather have heavier tails than a Gaussian: 50 % and 80 %
intervals are too wide if 90 % intervals have nominal coverage.

    python benchmarks/accuracy/bayes_coverage.py [--series 20] [--inference svi] [--only model|weather]
"""

import sys
import time
import warnings
from pathlib import Path

import numpy as np

from probsfa import BayesianSFA
from probsfa.datasets import hide_blocks, hide_values, load_nyc_weather, make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

LEVELS = (0.5, 0.8, 0.9)


def inside(model: BayesianSFA, X: np.ndarray, truth: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return a mask of the hidden values inside their intervals, (levels, hidden values)."""
    out = []
    for level in LEVELS:
        _, low, high = model.impute(X, interval=level)
        out.append((truth > low)[hidden] & (truth < high)[hidden])
    return np.array(out)


def line(name: str, covered: np.ndarray, seconds: float) -> list[object]:
    """Return a row of the table."""
    return [name, covered.shape[1], *(f"{100 * share:.1f} %" for share in covered.mean(1)), f"{seconds:.1f}"]


def from_the_model(table: Table, n_series: int, inference: str) -> None:
    """Add a row for series that are simulated from the model."""
    began, covered = time.perf_counter(), []
    for seed in range(n_series):
        rng = np.random.default_rng(seed)
        X = make_slow_mixture(
            150, 5, timescales=[rng.uniform(15, 40), rng.uniform(2, 6)], noise_variance=0.3, random_state=rng
        ).data
        hidden = rng.random(X.shape) < 0.2
        incomplete = np.where(hidden, np.nan, X)
        model = BayesianSFA(
            2, inference=inference, n_warmup=200, n_draws=200, verbose=False, random_state=seed
        ).fit(incomplete)
        covered.append(inside(model, incomplete, X, hidden))
    seconds = time.perf_counter() - began
    table.add(*line(f"data from the model ({inference})", np.concatenate(covered, axis=1), seconds))


def weather(table: Table, inference: str, step: int, n_components: int) -> None:
    """Add rows for the weather."""
    X = load_nyc_weather(drop_impossible=True).data.to_numpy()[::step]
    ways = {
        "weather, single values": hide_values(X, random_state=0),
        "weather, 24-hour blocks": hide_blocks(X, 24 // step, random_state=0),
    }
    for name, hidden in ways.items():
        began = time.perf_counter()
        incomplete = np.where(hidden, np.nan, X)
        model = BayesianSFA(
            n_components, inference=inference, n_predictive=40, verbose=False, random_state=0
        ).fit(incomplete)
        covered = inside(model, incomplete, X, hidden)
        table.add(*line(f"{name} ({inference})", covered, time.perf_counter() - began))


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        series=20,
        inference={"choices": ("nuts", "svi"), "default": "svi"},
        step=(3, "hours between the rows of the weather"),
        components=8,
        only={"choices": ("model", "weather")},
    )
    warnings.simplefilter("ignore")
    table = Table("", "values", *(f"{100 * level:.0f} %" for level in LEVELS), "s")
    if args.only in (None, "model"):
        from_the_model(table, args.series, args.inference)
    if args.only in (None, "weather"):
        weather(table, args.inference, args.step, args.components)


if __name__ == "__main__":
    main()
