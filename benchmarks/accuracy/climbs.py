"""Where fits of 12 to 18 latents spend their evaluations: steps, gains, and how the likelihood curves.

The bundled weather with 18 latents and the UCI air-quality record with 12, a tenth of the cells hidden one by
one. First every ascent of the exact likelihood within ``ProbabilisticSFA(K).fit(X)``: its evaluations, those
that were steps, and what it gained. Then what a fit of so many evaluations (``max_iter``) reaches: nats below
a fit of many more, of the posterior density that is climbed, and the error of the hidden cells beside that
fit's. Last the spectrum of minus the exact second derivative in the metric of the climb, which is all ones
where the metric is right, at the start of the first ascent, half-way and at the end: extreme values and
quantiles by Lanczos' method (Ritz values of ``--products`` products, each a difference of two scores along an
arc, from one random start; quantiles are of the values, each weighted by its part in the start).

    python benchmarks/accuracy/climbs.py [--quick] [--products 30] [--longest 1000] [--data FOLDER]
"""

import argparse
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_cells, load_nyc_weather
from probsfa.statespace.learning import fit as fitting
from probsfa.statespace.learning import objective as objectives
from probsfa.statespace.learning.quasi_newton import Ascent, ascend

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import add_data_option
from common.side_by_side import table

EVALUATIONS = (5, 10, 15, 20, 30, 40, 60)
# Half the length of the steps at whose ends the score is compared: in the metric, and as a part of the
# longest that a climb takes in a coordinate.
STEP = 1e-3


def records(folder: Path) -> dict[str, tuple[np.ndarray | None, int]]:
    """Records by name, NaN where missing, None where a file is not there; and numbers of latents."""
    air, path = None, folder / "air_quality_uci" / "AirQualityUCI.csv.gz"
    if path.exists():
        air = pd.read_csv(path).iloc[:, 2:15].astype(float).replace(-200.0, np.nan).to_numpy()
    return {
        "weather": (load_nyc_weather(drop_impossible=True).data.to_numpy(float), 18),
        "air quality": (air, 12),
    }


class Watched:
    """The exact objective, which remembers what was asked of it."""

    def __init__(self, objective: objectives.ExactObjective) -> None:
        self.objective = objective
        self.vectors: list[np.ndarray] = []
        self.values: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.objective, name)

    def __call__(self, vector: np.ndarray) -> Any:
        """Evaluate."""
        evaluation = self.objective(vector)
        self.vectors.append(vector)
        self.values.append(evaluation.value)
        return evaluation


def watched_fit(model: ProbabilisticSFA, X: np.ndarray) -> list[tuple[Watched, Ascent]]:
    """Fit, and give the ascents of the exact likelihood and what was asked in each."""
    ascents: list[tuple[Watched, Ascent]] = []

    def watch(objective: Any, start: np.ndarray, *how: Any, **more: Any) -> Ascent:
        if not isinstance(objective, objectives.ExactObjective):
            return ascend(objective, start, *how, **more)
        watched = Watched(objective)
        watched.vectors.append(start)
        ascents.append((watched, ascend(watched, start, *how, **more)))
        return ascents[-1][1]

    try:
        objectives.ascend = fitting.ascend = watch
        model.fit(X)
    finally:
        objectives.ascend = fitting.ascend = ascend
    return ascents


def spectrum(objective: Any, vector: np.ndarray, n_products: int) -> tuple[np.ndarray, np.ndarray]:
    """Ritz values of minus the second derivative in the metric, and their weights in a random start.

    The score is compared at both ends of short steps, as the climb takes them: along the arcs on which
    latents turn, and turned back to where the steps begin. Away from a maximum such differences need not be
    symmetric; what is given is then of their symmetric part.
    """
    here = objective(vector)
    metric, free = objective.metric(vector, here), np.ones(len(vector), dtype=bool)
    longest = objectives.make_box(objective.layout, objective.evaluate.noise).longest

    def product(direction: np.ndarray) -> np.ndarray:
        length = min(STEP, STEP * float(np.min(longest / np.maximum(np.abs(direction), 1e-300))))
        slopes = []
        for sign in (-1.0, 1.0):
            reached, turn = objective.move(vector, sign * length * direction)
            slopes.append(turn.back(objective(reached).gradient))
        return (slopes[0] - slopes[1]) / (2.0 * length)

    dual = np.random.default_rng(0).standard_normal(len(vector))
    directions: list[np.ndarray] = []  # orthonormal in the metric
    slopes: list[np.ndarray] = []  # the metric times these
    products: list[np.ndarray] = []
    for _ in range(min(n_products, len(vector))):
        primal = metric.solve(dual, free, 0.0)
        before = np.sqrt(max(float(primal @ dual), 0.0))
        for _ in range(2):  # once leaves rounding of what is taken off
            parts = [float(primal @ one) for one in slopes]
            for part, direction, slope in zip(parts, directions, slopes, strict=True):
                primal, dual = primal - part * direction, dual - part * slope
        size = np.sqrt(max(float(primal @ dual), 0.0))
        if not size > 1e-3 * before:  # all that the start can reach
            break
        directions.append(primal / size)
        slopes.append(dual / size)
        products.append(product(directions[-1]))
        dual = products[-1]
    projected = np.array(directions) @ np.array(products).T
    values, vectors = np.linalg.eigh(0.5 * (projected + projected.T))
    return values, vectors[0] ** 2


def quantiles(values: np.ndarray, weights: np.ndarray) -> list[str]:
    """Smallest, quantiles, and largest."""
    inner = np.interp((0.1, 0.5, 0.9), np.cumsum(weights) - 0.5 * weights, values)
    return [f"{value:.3g}" for value in (values[0], *inner, values[-1])]


def show(name: str, X: np.ndarray, k: int, args: argparse.Namespace) -> None:
    """Print the tables of a record."""
    hidden = hide_cells(X, 0.1, random_state=0)
    seen, scale = np.where(hidden, np.nan, X), np.nanstd(X, axis=0)

    def error(model: ProbabilisticSFA) -> float:
        return float(np.sqrt(np.mean(((model.impute(seen) - X) / scale)[hidden] ** 2)))

    def density(model: ProbabilisticSFA) -> float:
        units = np.nanstd(seen, axis=0) ** 2
        noise = model._options().learned_noise(np.sqrt(units))
        return model.log_likelihood_ + noise.log_prior(model.noise_variance_ / units)

    model = ProbabilisticSFA(k)
    ascents = watched_fit(model, seen)
    print(f"\n{name}, K = {k}: {model.n_evaluations_} evaluations; {model.status_}\n")
    rows = []
    for watched, ascent in ascents:
        steps = len(ascent.history) - 1
        gain = ascent.history[-1] - ascent.history[0]
        rows.append([str(len(watched.values)), str(steps), f"{gain:.2f}", ascent.ending])
    print(table(["evaluations", "steps", "gain (nats)", "ended"], rows))

    longest = ProbabilisticSFA(k, max_iter=args.longest, tol=1e-4).fit(seen)
    best = max(density(longest), density(model))
    rows = []
    for n in EVALUATIONS:
        short = ProbabilisticSFA(k, max_iter=n).fit(seen)
        rows.append(
            [str(n), f"{best - density(short):.2f}", f"{100 * (error(short) / error(longest) - 1):+.2f} %"]
        )
    rows.append([str(model.n_evaluations_), f"{best - density(model):.2f}",
                 f"{100 * (error(model) / error(longest) - 1):+.2f} %"])  # fmt: skip
    print(f"\nbeside {longest.n_evaluations_} evaluations:\n")
    print(table(["evaluations", "nats below", "error of hidden cells"], rows))

    watched, ascent = max(ascents, key=lambda one: len(one[0].values))
    rows = []
    for when, vector in (
        ("start", watched.vectors[0]),
        ("half-way", watched.vectors[len(watched.vectors) // 2]),
        ("end", ascent.vector),
    ):
        values, weights = spectrum(watched.objective, vector, args.products)
        rows.append([when, *quantiles(values, weights)])
    print("\ncurvature in the metric:\n")
    print(table(["", "least", "10 %", "median", "90 %", "most"], rows))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the first 1,000 rows, 10 products")
    parser.add_argument("--products", type=int, default=30, help="products of each spectrum")
    parser.add_argument("--longest", type=int, default=1000, help="evaluations of the fit to compare with")
    add_data_option(parser, "air_quality_uci")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.quick:
        args.products, args.longest = min(args.products, 10), min(args.longest, 100)
    for name, (X, k) in records(args.data).items():
        if X is None:
            print(f"{name}: its file is not in {args.data}")
            continue
        show(name, X[:1000] if args.quick else X, k, args)


if __name__ == "__main__":
    main()
