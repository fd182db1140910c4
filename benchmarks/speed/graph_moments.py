"""Second moments on training graphs in linear time: CPU seconds by number of samples, and the slope.

A graph of N samples has up to N^2 edges (a clustered one with ten classes N^2 / 10), but its moments A and B
are computed through the Laplacian in O(N D^2). The slope is that of log seconds over log N by least squares.
It is 1 for linear time; slightly larger slopes are due to the cache, which contains 10,000 samples of 20
columns completely. For the smallest N the table also has the time of the same moments from the explicit
sparse matrix. The last row is the time of a centred copy of X and of one product X'X, which all methods
require.

    python benchmarks/speed/graph_moments.py
    python benchmarks/speed/graph_moments.py --quick
"""

import platform
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import scipy

import probsfa
from probsfa import graphs
from probsfa.graphs.training_graph import graph_moments

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.side_by_side import timed
from common.tables import Table

GRAPHS: dict[str, Callable[[np.ndarray], graphs.TrainingGraph]] = {
    "temporal": lambda y: graphs.temporal(len(y)),
    "reordering": graphs.reordering,
    "window, d=32": lambda y: graphs.sliding_window(y, 32),
    "window, d=1000": lambda y: graphs.sliding_window(y, 1000),
    "square window, d=32": lambda y: graphs.sliding_window(y, 32, mirrored=False),
    "clustered, 10": lambda y: graphs.clustered(np.floor(10 * y)),
    "clustered, 1000": lambda y: graphs.clustered(np.floor(1000 * y)),
    "serial, 50": lambda y: graphs.serial(y, 50),
    "mixed, 50": lambda y: graphs.mixed(y, 50),
    "transition, 10": lambda y: graphs.transition(np.floor(10 * y)),
}
MATRIX_EDGES = 2e7  # explicit matrices above this are not tried


def main() -> None:
    """Print the table."""
    arguments = read_options(
        __doc__,
        quick=(False, "up to 50,000 samples"),
        features=(20, "columns D"),
        repeats=(3, "runs, of which the fastest counts"),
    )
    sizes = [10_000, 20_000, 50_000] if arguments.quick else [10_000, 30_000, 100_000, 300_000, 1_000_000]
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((sizes[-1], arguments.features)), rng.random(sizes[-1])
    X[:, 0] += 3 * y

    print(
        f"probsfa {probsfa.__version__}, Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"scipy {scipy.__version__}, {platform.machine()}")
    print(f"D = {arguments.features}; CPU seconds for graph and moments, fastest of {arguments.repeats};")
    print("slope over all N, and over the last three\n")
    table = Table("graph", *(f"{n:,}" for n in sizes), "slope", "last", "by matrix")
    for name, build in GRAPHS.items():
        seconds = [
            fastest_of(lambda n=n, build=build: graph_moments(build(y[:n]), X[:n]), arguments.repeats)
            for n in sizes
        ]
        slope, last = slopes(sizes, seconds)
        by_matrix = matrix_seconds(build(y[: sizes[0]]), X[: sizes[0]])
        table.add(name, *(f"{s:.4f}" for s in seconds), f"{slope:.2f}", f"{last:.2f}", by_matrix)
    seconds = [fastest_of(lambda n=n: centred_product(X[:n]), arguments.repeats) for n in sizes]
    slope, last = slopes(sizes, seconds)
    table.add("(centred X)'X", *(f"{s:.4f}" for s in seconds), f"{slope:.2f}", f"{last:.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"\npeak memory {peak:.0f} MiB, of which the samples {X.nbytes / 2**20:.0f} MiB")


def fastest_of(run: Callable[[], object], repeats: int) -> float:
    """Return the shortest CPU time of several runs."""
    return min(timed(run, time.process_time)[0] for _ in range(repeats))


def slopes(sizes: list[int], seconds: list[float]) -> tuple[float, float]:
    """Return the slopes of log seconds over log N, for all sizes and for the last three."""
    x, y = np.log(sizes), np.log(seconds)
    return float(np.polyfit(x, y, 1)[0]), float(np.polyfit(x[-3:], y[-3:], 1)[0])


def centred_product(X: np.ndarray) -> np.ndarray:
    """Return the scatter matrix of X from a centred copy."""
    centred = X - X.mean(axis=0)
    return centred.T @ centred


def matrix_seconds(graph: graphs.TrainingGraph, X: np.ndarray) -> str:
    """Return the time of A from the explicit matrix, and the number of its edges."""
    probe = np.zeros(graph.n_vertices)
    probe[0] = 1.0
    edges = (
        np.count_nonzero(graph.laplacian_matmul(probe)) * graph.n_vertices
    )  # approximately: all vertices have the same degree
    if edges > MATRIX_EDGES:
        return f"({edges:.0e} edges)"
    started = time.process_time()
    W = graph.to_sparse()
    d = np.asarray(W.sum(axis=1))
    X.T @ (d[:, None] * X - W @ X)
    return f"{time.process_time() - started:.4f}"


if __name__ == "__main__":
    main()
