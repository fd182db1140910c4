"""Products of experts for nonlinear mixtures: slowness, recovery of the factor, and hidden values.

Mixtures: a slow AR(1) process ``s`` (decay 0.97) and a fast one ``f`` (decay 0.3), mixed into ``y = (s + f^2,
f)`` or ``(s + 0.5 f^2, f + 0.5 s f)``, with noise of a tenth of each column's variance; 400 training rows
and 400 test rows; three factors. "delta" is the mean squared difference of the slowest feature over the test
rows, in units of its variance, and "correlation" its correlation with ``s``. Quadratic SFA uses one row at a
time. The other methods also use adjacent rows, which decreases their delta values in any case; compare the
correlations.

Hidden values: a tenth of the values of the test rows; root mean square errors in standard deviations of the
columns, for means over draws, means of the linear model, and linear interpolation.

    python benchmarks/accuracy/experts.py [--seeds N]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import SFA, ProbabilisticSFA
from probsfa.expansions import Polynomial
from probsfa.extensions import ProductOfExpertsSFA

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

MIXTURES = {
    "s + f^2, f": lambda s, f: np.column_stack([s + f**2, f]),
    "s + f^2/2, f + s f/2": lambda s, f: np.column_stack([s + 0.5 * f**2, f + 0.5 * s * f]),
}
N = 400


def simulate(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (2 N, 2) and the slow process."""
    truth = ProbabilisticSFA.from_parameters([0.97, 0.3], np.eye(2), 1e-6)
    latents = truth.sample(2 * N, random_state=seed)[1]
    y = MIXTURES[name](*latents.T)
    rng = np.random.default_rng(seed)
    return y + np.sqrt(0.1) * y.std(axis=0) * rng.standard_normal(y.shape), latents[:, 0]


def slowness(feature: np.ndarray) -> float:
    """Return the delta value."""
    return float(np.mean(np.diff(feature) ** 2) / np.var(feature))


def interpolated(X: np.ndarray) -> np.ndarray:
    """Interpolate missing values linearly, column by column."""
    rows, out = np.arange(len(X)), X.copy()
    for j in range(X.shape[1]):
        is_observed = ~np.isnan(X[:, j])
        out[:, j] = np.interp(rows, rows[is_observed], X[is_observed, j])
    return out


def main() -> None:
    """Print the tables."""
    seeds = read_options(
        __doc__,
        seeds=10,
    ).seeds
    warnings.simplefilter("ignore")
    heads = "model", "delta", "at most that of SFA in", "correlation", "above SFA's in"
    table = Table(f"mixture, {seeds} seeds", *heads)
    errors: dict[tuple[str, str], list[float]] = {}
    for mixture in MIXTURES:
        rows: dict[str, list[tuple[float, float]]] = {}
        for seed in range(seeds):
            y, slow = simulate(mixture, seed)
            past, future = y[:N], y[N:]
            expand = Polynomial(2).fit(past).transform
            models = {
                "quadratic SFA": (SFA(1, expansion=Polynomial(2)).fit(past), future),
                "linear model of expanded rows": (ProbabilisticSFA(3).fit(expand(past)), expand(future)),
                "product of experts": (
                    ProductOfExpertsSFA(3, max_iter=100, random_state=seed).fit(past),
                    future,
                ),
            }
            for name, (model, given) in models.items():
                feature = model.transform(given)[:, 0]
                right = abs(np.corrcoef(feature, slow[N:])[0, 1])
                rows.setdefault(name, []).append((slowness(feature), float(right)))
            hidden = np.random.default_rng(seed).random(future.shape) < 0.1
            incomplete = np.where(hidden, np.nan, future)
            linear, experts = ProbabilisticSFA(2).fit(past), models["product of experts"][0]
            for name, filled in (
                ("linear interpolation", interpolated(incomplete)),
                ("linear model of rows", linear.impute(incomplete)),
                ("product of experts", experts.impute(incomplete)),
            ):
                error = ((filled - future) / future.std(axis=0))[hidden]
                errors.setdefault((mixture, name), []).append(float(np.sqrt(np.mean(error**2))))
        theirs = np.array(rows["quadratic SFA"])
        for name, values in rows.items():
            ours = np.array(values)
            delta, right = ours.mean(axis=0)
            wins = (
                f"{np.sum(ours[:, 0] <= theirs[:, 0])} of {seeds}",
                f"{np.sum(ours[:, 1] > theirs[:, 1])} of {seeds}",
            )
            table.add(mixture, name, f"{delta:.3f}", wins[0], f"{right:.3f}", wins[1])
    print()
    table = Table("mixture", "hidden values by", "error", "below interpolation in")
    for (mixture, name), values in errors.items():
        wins = np.sum(np.array(values) < np.array(errors[mixture, "linear interpolation"]))
        shown = "" if name == "linear interpolation" else f"{wins} of {seeds}"
        table.add(mixture, name, f"{np.mean(values):.3f}", shown)


if __name__ == "__main__":
    main()
