"""Maximum likelihood and slow feature analysis: angles between their directions for decreasing noise.

For each noise variance r and length T, ``ProbabilisticSFA(noise=r)`` is fitted to a square mixture (D = K =
3), and the rows of ``pinv(loadings)``, its recognition weights, are compared with the directions of ``SFA``.
The table has the largest angle between matched rows after whitening, in degrees. The angle decreases with r
to a limit that is proportional to 1/T, because of the edge terms of Turner & Sahani (2007), eq. 18. The limit
is the last row: the maximum of the exact likelihood at r = 0, with edge terms.

    python benchmarks/papers/zero_noise.py [--quick]
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import probsfa
from probsfa.datasets import make_slow_mixture
from probsfa.statespace import noise_free_maximum_likelihood

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

NOISES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 0.0)
DECAY = (0.99, 0.9, 0.6)


def fitted_weights(X: np.ndarray, noise: float) -> np.ndarray:
    """Return recognition weights of a fit, or of the exact maximum if there is no noise."""
    if noise == 0.0:
        return noise_free_maximum_likelihood(X, edge_terms=True).weights
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = probsfa.ProbabilisticSFA(X.shape[1], noise=noise, tol=1e-7, max_iter=500).fit(X)
    return np.asarray(np.linalg.pinv(model.loadings_))


def largest_angle(X: np.ndarray, noise: float) -> float:
    """Return the largest angle (degrees) between recognition weights and SFA directions, after whitening."""
    # In the coordinates in which the data are white, the directions of SFA are orthonormal.
    weights = fitted_weights(X, noise) @ probsfa.SFA().fit(X).loadings_
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    # sin of the angle to the nearest axis; arccos would lose half of the digits.
    off_axis = np.sqrt(np.sum(weights**2, axis=1) - np.max(weights**2, axis=1))
    return float(np.degrees(np.max(np.arcsin(np.clip(off_axis, 0.0, 1.0)))))


def main() -> None:
    """Print the table."""
    args = read_options(
        __doc__,
        quick=(False, "two lengths only"),
        seeds=(3, "number of series (the median is shown)"),
    )
    lengths = (1_000, 10_000) if args.quick else (1_000, 10_000, 100_000)
    print(f"largest angle in degrees, median of {args.seeds} series, D = K = 3, decay {DECAY}\n")
    table = Table("r", *(f"T={n}" for n in lengths))
    series = {
        (n, seed): make_slow_mixture(n, 3, decay=DECAY, noise_variance=0.0, random_state=seed).data
        for n in lengths
        for seed in range(args.seeds)
    }
    for noise in NOISES:
        row = [
            np.median([largest_angle(series[n, seed], noise) for seed in range(args.seeds)]) for n in lengths
        ]
        table.add(f"{noise:.0e}", *(f"{value:.3e}" for value in row))


if __name__ == "__main__":
    main()
