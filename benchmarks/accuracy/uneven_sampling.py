"""Spectra of an unevenly sampled circle and sphere: errors of eigenmaps and diffusion maps.

Random points of density 1 + 0.8 cos(angle to one point), which varies by a factor of nine. The
Laplace-Beltrami operator has the eigenvalues 1, 1, 4, 4 on the circle, and three times 2 and five times 6 on
the sphere. The table has the largest relative error of these eigenvalues, as the mean and the largest of five
draws. Eigenvalues of an eigenmap are determined up to a factor, which is set by the mean of the first two
(three). All methods have the same kernel, gamma="neighbors".

    python benchmarks/accuracy/uneven_sampling.py
    python benchmarks/accuracy/uneven_sampling.py --quick
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from probsfa import DiffusionMap, LaplacianEigenmaps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

STRENGTH = 0.8
TRUTH = {"circle": np.array([1.0, 1.0, 4.0, 4.0]), "sphere": np.repeat([2.0, 6.0], [3, 5])}


def points(shape: str, n: int, seed: int) -> np.ndarray:
    """Return random points of a circle or a sphere, by rejection."""
    rng = np.random.default_rng(seed)
    if shape == "circle":
        angle = rng.random(40 * n) * 2 * np.pi
        candidates = np.column_stack([np.cos(angle), np.sin(angle)])
        height = candidates[:, 0]
    else:
        candidates = rng.standard_normal((40 * n, 3))
        candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
        height = candidates[:, 2]
    return candidates[rng.random(40 * n) < (1 + STRENGTH * height) / (1 + STRENGTH)][:n]


def errors(shape: str, n: int, seed: int) -> list[float]:
    """Return the largest error of an eigenvalue for eigenmap, alpha=1 and alpha="uniform"."""
    X, truth = points(shape, n, seed), TRUTH[shape]
    count = len(truth)
    eigenmap = LaplacianEigenmaps(count, affinity="rbf", gamma="neighbors").fit(X).eigenvalues_
    first = truth == truth[0]
    spectra = [
        eigenmap / eigenmap[first].mean() * truth[0],
        DiffusionMap(count, alpha=1.0).fit(X).laplacian_eigenvalues_,
        DiffusionMap(count).fit(X).laplacian_eigenvalues_,
    ]
    return [float(np.abs(spectrum / truth - 1).max()) for spectrum in spectra]


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        quick=(False, "500 points, two draws"),
    )
    sizes, draws = ((500,), 2) if options.quick else ((500, 1000, 2000), 5)
    warnings.simplefilter("ignore")  # the graphs of eigenmaps may be disconnected
    print("errors: mean and largest\n")
    table = Table("shape", "points", "eigenmap", "alpha=1", "uniform")
    for n in sizes:
        for shape in TRUTH:
            found = 100 * np.array([errors(shape, n, seed) for seed in range(draws)])
            mean, most = found.mean(axis=0), found.max(axis=0)
            table.add(shape, n, *(f"{a:.1f} %, {b:.1f} %" for a, b in zip(mean, most, strict=True)))


if __name__ == "__main__":
    main()
