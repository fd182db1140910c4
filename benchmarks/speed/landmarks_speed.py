"""Heat kernels of many points by landmarks: time, memory and errors.

A sphere sampled unevenly (density 1 + 0.8 z, eigenvalues of the Laplace-Beltrami operator 2, 2, 2, 6, 6 ...),
embedded by a diffusion map with landmarks; the worst eigenvalue is compared with the closed form. Spectral
clustering of half-moons and a Laplacian eigenmap of the sphere follow. Each fit runs in a process of its own,
which measures its processor time and its peak of memory, the libraries included. The last line compares
landmarks with all pairs for the largest number of points supported by both.

    python benchmarks/speed/landmarks_speed.py
    python benchmarks/speed/landmarks_speed.py --quick
"""

import argparse
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from probsfa import DiffusionMap, LaplacianEigenmaps, SpectralClustering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

TRUTH = np.repeat([2.0, 6.0], [3, 5])


def sphere(n: int) -> np.ndarray:
    """Return random points of a sphere, with a higher density near one pole."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((3 * n + 100, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points[rng.random(len(points)) < (1 + 0.8 * points[:, 2]) / 1.8][:n]


def one_fit(kind: str, n: int) -> None:
    """Fit one estimator, and print its time, memory and errors."""
    started = time.process_time()
    if kind == "diffusion":
        model = DiffusionMap(8).fit(sphere(n))
        said = f"worst eigenvalue off by {100 * np.abs(model.laplacian_eigenvalues_ / TRUTH - 1).max():.1f} %"
    elif kind == "eigenmap":
        model = LaplacianEigenmaps(8, affinity="rbf", gamma=20.0).fit(sphere(n))
        said = f"eigenvalues {model.eigenvalues_[0]:.5f} .. {model.eigenvalues_[-1]:.5f}"
    else:
        X, y = make_moons(n, noise=0.05, random_state=0)
        model = SpectralClustering(2, affinity="rbf", gamma=50.0, random_state=0).fit(X)
        said = f"adjusted Rand index {adjusted_rand_score(y, model.labels_):.3f}"
    seconds = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{kind:10s} {n:7d}   {seconds:6.1f} s of processor time   peak {peak:5.2f} GiB   {said}", flush=True
    )


def compare(n: int) -> None:
    """Print differences between landmarks and all pairs."""
    X = sphere(n)
    gamma = 20.0
    exact = LaplacianEigenmaps(8, affinity="rbf", gamma=gamma, n_landmarks=None).fit(X)
    for count in (250, 500, 1000):
        near = LaplacianEigenmaps(8, affinity="rbf", gamma=gamma, n_landmarks=count).fit(X)
        off = np.abs(near.eigenvalues_ / exact.eigenvalues_ - 1).max()
        degrees = np.abs(near.degrees_ / exact.degrees_ - 1).max()
        print(f"{count:5d} landmarks of {n} points: eigenvalues off by {off:.1e}, degrees by {degrees:.1e}")


def main() -> None:
    """Print the table."""
    options = read_options(
        __doc__,
        n=(50_000, "points"),
        quick=(False, "21,000 points"),
        one={"metavar": "KIND", "help": argparse.SUPPRESS},
    )
    n = 21_000 if options.quick else options.n
    if options.one:
        one_fit(options.one, n)
        return
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}", flush=True)
    for kind in ("diffusion", "eigenmap", "clusters"):
        subprocess.run([sys.executable, __file__, "--n", str(n), "--one", kind], check=True)
    compare(2_000 if options.quick else 4_000)


if __name__ == "__main__":
    main()
