"""Simulated data with numeric labels."""

import numpy as np
from common.tuned_peers import Rows
from sklearn.datasets import (
    make_friedman1,
    make_friedman2,
    make_friedman3,
)


def simulated_labels(seed: int) -> dict[str, Rows]:
    """Return rows and labels by name of the data set."""
    rng = np.random.default_rng(seed)
    n = 400

    def spectra(noise: float) -> Rows:
        x, shares = np.linspace(0, 1, 60), rng.dirichlet([1, 2, 3, 2], n)
        lines = [(0.2, 0.1), (0.4, 0.15), (0.65, 0.1), (0.85, 0.2)]
        curves = np.array([np.exp(-0.5 * ((x - centre) / width) ** 2) for centre, width in lines])
        lengths = np.exp(0.2 * rng.standard_normal((n, 1)))
        baseline = 0.1 * rng.standard_normal((n, 2)) @ np.array([np.ones(60), x])
        return lengths * (shares @ curves) + baseline + noise * rng.standard_normal((n, 60)), shares[:, 0]

    X, wide, small = rng.standard_normal((n, 8)), rng.standard_normal((n, 40)), 0.05 * rng.standard_normal(n)
    return {
        "spectra": spectra(1e-3),
        "spectra, more noise": spectra(2e-2),
        "linear": (X, X @ rng.standard_normal(8) + small),
        "linear, more noise": (X, X @ rng.standard_normal(8) + 2 * rng.standard_normal(n)),
        "products": (X, X[:, 0] * X[:, 1] + X[:, 2] + small),
        "skewed labels": (X, np.exp(X[:, 0] + 0.5 * X[:, 1]) + small),
        "rounded labels": (X, np.round(3 * X[:, 0] + X[:, 1] ** 2)),
        "forty columns": (wide, wide[:, 0] + wide[:, 1] ** 2 + rng.standard_normal(n)),
        "Friedman 1": make_friedman1(n, noise=0.5, random_state=seed),
        "Friedman 2": make_friedman2(n, noise=20, random_state=seed),
        "Friedman 3": make_friedman3(n, noise=0.05, random_state=seed),
    }
