"""Learned links: factors from nonlinear functions of linear mixtures, compared with quadratic SFA.

``x = Phi(C z)`` with two AR(1) factors (decays 0.97 and 0.8), six columns, loadings of about 0.7, and noise
of a tenth of each column's variance; 300 training rows and 300 test rows. "monotone" is ``tanh(1.5 eta)``,
"quadratic" is ``eta + eta^2 / 2``. "delta" is the mean squared difference of the slowest feature over the
test rows in units of its variance. "correlation" is the mean correlation of estimated and true factors, after
alignment. Features of SFA depend on one row; models also use adjacent rows, so that the correlation is more
informative than the delta value.

    python benchmarks/accuracy/links.py [--seeds N] [--only NAME]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import SFA, EmissionSFA, ProbabilisticSFA
from probsfa.expansions import Polynomial
from probsfa.metrics import align_components

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

FUNCTIONS = {
    "monotone": lambda eta: np.tanh(1.5 * eta),
    "quadratic": lambda eta: eta + 0.5 * eta**2,
}
N, D, DECAY = 300, 6, (0.97, 0.8)


def simulate(name: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows (2 N, D) and the factors."""
    rng = np.random.default_rng(seed)
    loadings = 0.7 * rng.standard_normal((D, 2))
    latents = ProbabilisticSFA.from_parameters(DECAY, np.eye(2), 1e-6).sample(2 * N, random_state=seed)[1]
    signal = FUNCTIONS[name](latents @ loadings.T)
    return signal + np.sqrt(0.1) * signal.std(axis=0) * rng.standard_normal(signal.shape), latents


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        seeds=20,
        only={"choices": tuple(FUNCTIONS), "help": "one of the functions"},
    )
    seeds = options.seeds
    warnings.simplefilter("ignore")
    heads = "model", "delta", "below SFA's in", "correlation", "above SFA's in"
    table = Table(f"function, {seeds} seeds", *heads)
    for name in FUNCTIONS if options.only is None else (options.only,):
        rows: dict[str, list[tuple[float, float]]] = {}
        for seed in range(seeds):
            X, latents = simulate(name, seed)
            past, future = X[:N], X[N:]
            for model_name, model in (
                ("quadratic SFA", SFA(2, expansion=Polynomial(2))),
                ("linear SFA", SFA(2)),
                ("ProbabilisticSFA", ProbabilisticSFA(2)),
                (f"EmissionSFA, link {name}", EmissionSFA(2, link=name, max_iter=60)),
            ):
                features = model.fit(past).transform(future)
                right = align_components(features, latents[N:]).correlations.mean()
                delta = np.mean(np.diff(features[:, 0]) ** 2) / np.var(features[:, 0])
                rows.setdefault(model_name, []).append((float(delta), float(right)))
        theirs = np.array(rows["quadratic SFA"])
        for model_name, values in rows.items():
            ours = np.array(values)
            delta, right = ours.mean(axis=0)
            below, above = np.sum(ours[:, 0] < theirs[:, 0]), np.sum(ours[:, 1] > theirs[:, 1])
            wins = [f"{count} of {seeds}" for count in (below, above)]
            if model_name == "quadratic SFA":
                wins = ["", ""]
            table.add(name, model_name, f"{delta:.4f}", wins[0], f"{right:.3f}", wins[1])


if __name__ == "__main__":
    main()
