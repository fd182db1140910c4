"""Time of Laplacian eigenmaps, compared with scikit-learn's SpectralEmbedding, and on larger graphs.

Both build the graph of 10 neighbours (including the point itself) and embed it; times are those of ``fit``,
and of the eigenproblem alone for a given graph. scikit-learn returns no eigenvalues, so they are computed
from its embedding; the difference is relative to the largest of them. Point sets: a surface (swiss roll), a
solid (cube), clusters (8 Gaussians in 8 dimensions), a cloud (Gaussian in 10 dimensions). The cloud is
omitted for scikit-learn, because its factorisation fills n^2 / 2 numbers.

    python benchmarks/speed/eigenmaps_speed.py
    python benchmarks/speed/eigenmaps_speed.py --quick
"""

import platform
import resource
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.datasets import make_blobs, make_swiss_roll
from sklearn.manifold import SpectralEmbedding, spectral_embedding

from probsfa.sfa import LaplacianEigenmaps

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

N_NEIGHBORS = 10


def points(kind: str, n: int) -> np.ndarray:
    """Return one of the point sets, identical for identical arguments."""
    rng = np.random.default_rng(0)
    if kind == "surface":
        return make_swiss_roll(n, noise=0.05, random_state=0)[0]
    if kind == "solid":
        return rng.random((n, 3))
    if kind == "clusters":
        return make_blobs(n, n_features=8, centers=8, cluster_std=3.0, random_state=0)[0]
    return rng.standard_normal((n, 10))


def timed(run: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Return the shortest time of several runs, and the last result."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        result = run()
        best = min(best, time.perf_counter() - started)
    return best, result


def rayleigh(W: Any, y: np.ndarray) -> np.ndarray:
    """Return Rayleigh quotients of the random-walk Laplacian for the columns of y."""
    d = np.asarray(W.sum(axis=1)).ravel() - W.diagonal()
    energy = np.sum(y * (d[:, None] * y - W @ y + W.diagonal()[:, None] * y), axis=0)
    return energy / np.sum(d[:, None] * y**2, axis=0)


def compare(kind: str, n: int, n_components: int, repeats: int) -> list[object]:
    """Return a row of the comparison."""
    X = points(kind, n)
    ours = LaplacianEigenmaps(n_components, n_neighbors=N_NEIGHBORS)
    theirs = SpectralEmbedding(n_components, n_neighbors=N_NEIGHBORS, affinity="nearest_neighbors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of disconnected graphs, the same for both
        own, ours = timed(lambda: ours.fit(X), repeats)
        other, theirs = timed(lambda: theirs.fit(X), repeats)
        W = theirs.affinity_matrix_
        ready = LaplacianEigenmaps(n_components, affinity="precomputed")
        own_solve, _ = timed(lambda: ready.fit(ours.affinity_matrix_), repeats)
        other_solve, _ = timed(
            lambda: spectral_embedding(W, n_components=n_components, random_state=0), repeats
        )
    expected = rayleigh(W, theirs.embedding_)
    gap = np.abs(ours.eigenvalues_ - expected).max() / expected.max()
    cells = [[f"{a:.3f}", f"{b:.3f}", f"{b / a:.1f}x"] for a, b in ((own, other), (own_solve, other_solve))]
    return [kind, n, n_components, ours.solver_, *cells[0], *cells[1], f"{gap:.1e}"]


def alone(kind: str, n: int, n_components: int) -> list[object]:
    """Return a row: time, memory and residual of one large embedding."""
    X = points(kind, n)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seconds, model = timed(lambda: LaplacianEigenmaps(n_components, n_neighbors=N_NEIGHBORS).fit(X), 1)
    y, W, d = model.embedding_, model.affinity_matrix_, model.degrees_
    residual = (d[:, None] * y - W @ y) - d[:, None] * y * model.eigenvalues_
    worst = np.linalg.norm(residual / np.sqrt(d)[:, None], axis=0).max()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    first, last = (f"{model.eigenvalues_[j]:.4e}" for j in (0, -1))
    figures = f"{seconds:.2f}", first, last, f"{worst:.1e}", f"{peak:.1f}"
    return [kind, n, n_components, model.solver_, *figures]


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        n=(20_000, "points of the comparison"),
        large=(200_000, "points of the graphs solved alone"),
        components=[2, 10],
        repeats=3,
        quick=(False, "2,000 and 10,000 points"),
    )
    if options.quick:
        options.n, options.large, options.repeats = 2_000, 10_000, 1
    print(f"{platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}, ", end="")
    print(f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}")
    print(f"seconds, best of {options.repeats}:\n")
    sizes = "points", "n", "K", "solver"
    table = Table(*sizes, "fit", "scikit-learn", "ratio", "solve", "scikit-learn", "ratio", "gap")
    for kind in ("surface", "solid", "clusters"):
        for n_components in options.components:
            table.add(*compare(kind, options.n, n_components, options.repeats))
    print()
    table = Table(*sizes, "s", "first eigenvalue", "last", "residual", "peak, GiB")
    for kind in ("surface", "solid", "clusters", "cloud"):
        table.add(*alone(kind, options.large, options.components[0]))


if __name__ == "__main__":
    main()
