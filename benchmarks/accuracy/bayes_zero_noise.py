"""The posterior of the Bayesian model for decreasing known noise: it concentrates on slow feature analysis.

A model of two factors in two columns is fitted with decreasing known noise. The rows of the inverse loadings
are the recognition weights. The table shows the posterior mean and standard deviation of the largest angle
between these weights and the directions of SFA, in whitened coordinates, and the differences between
posterior means of time scales and those of SFA, in posterior standard deviations. The angle decreases with
the noise, to a limit that depends on the length of the series.

    python benchmarks/accuracy/bayes_zero_noise.py [--quick]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

DECAY = (0.98, 0.7)


def angles(loadings: np.ndarray, sfa: probsfa.SFA) -> np.ndarray:
    """Return the largest angle (degrees) of each draw between recognition weights and SFA, (N,)."""
    weights = np.linalg.inv(loadings) @ sfa.loadings_
    weights /= np.linalg.norm(weights, axis=2, keepdims=True)
    off_axis = np.sqrt(np.maximum(np.sum(weights**2, axis=2) - np.max(weights**2, axis=2), 0.0))
    return np.degrees(np.arcsin(np.clip(off_axis, 0.0, 1.0))).max(axis=1)


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        quick=(False, "one length only"),
    )
    warnings.simplefilter("ignore")
    table = Table("T", "noise", "angle", "its sd", "time scales off, sd")
    for n_steps in (112,) if args.quick else (112, 1000):
        X = make_slow_mixture(n_steps, 2, decay=DECAY, noise_variance=0.0, random_state=0).data
        sfa = probsfa.SFA().fit(X)
        for noise in (1e-1, 1e-2, 1e-4, 1e-6, 1e-8):
            model = probsfa.BayesianSFA(
                2, noise=noise, n_warmup=200, n_draws=200, verbose=False, random_state=0
            ).fit(X)
            degrees = angles(model.draws_.loadings.reshape(-1, 2, 2), sfa)
            logs = np.log(-1.0 / np.log(model.draws_.decay)).reshape(-1, 2)
            off = np.abs(logs.mean(axis=0) - np.log(sfa.timescales_)) / logs.std(axis=0)
            figures = degrees.mean(), degrees.std(), off.max()
            table.add(n_steps, f"{noise:.0e}", *(f"{figure:.2f}" for figure in figures))


if __name__ == "__main__":
    main()
