"""Time and memory of a deep hierarchy on many large images, processed in chunks.

Escalante-B. & Wiskott (2013, section 1) train on 100,000 samples of 10,000 dimensions "in less than three
hours". Here: the network of their table 1 on 100 x 100 synthetic images (a bright spot that moves over a
slowly changing background, with noise in every pixel), generated chunk by chunk.

    python benchmarks/speed/hierarchy_speed.py --samples 100000 --jobs 2
    python benchmarks/speed/hierarchy_speed.py --quick
"""

import platform
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import probsfa
from probsfa.sfa.hierarchical import HierarchicalSFA, escalante_wiskott_layers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

CHUNK = 500


def spot_path(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return horizontal and vertical positions in [0.15, 0.85], sums of incommensurate waves of t."""
    x = 0.5 + 0.2 * np.sin(2 * np.pi * t / 997) + 0.15 * np.sin(2 * np.pi * t / 617 + 1)
    y = 0.5 + 0.2 * np.cos(2 * np.pi * t / 211) + 0.15 * np.sin(2 * np.pi * t / 137 + 2)
    return x, y


def images(n_samples: int, side: int, seed: int) -> Iterator[np.ndarray]:
    """Yield chunks (rows, side * side), identical for identical arguments."""
    pixel = (np.arange(side) + 0.5) / side
    shades = np.random.default_rng(seed).standard_normal((3, side * side))
    for start in range(0, n_samples, CHUNK):
        t = np.arange(start, min(start + CHUNK, n_samples), dtype=np.float64)
        x, y = spot_path(t)
        across = np.exp(-0.5 * ((pixel - x[:, None]) / 0.06) ** 2)
        down = np.exp(-0.5 * ((pixel - y[:, None]) / 0.06) ** 2)
        spots = (down[:, :, None] * across[:, None, :]).reshape(len(t), -1)
        light = np.sin(2 * np.pi * t[:, None] / np.array([53.0, 31.0, 17.0]))
        rng = np.random.default_rng([seed, start])
        noise = rng.standard_normal(spots.shape, dtype=np.float32)
        yield spots + 0.1 * (light @ shades) + 0.2 * noise


def main() -> None:
    """Print times and peak memory."""
    options = read_options(
        __doc__,
        samples=5000,
        side=(100, "pixels along each axis"),
        jobs=2,
        storage={"choices": ("memory", "recompute"), "default": "recompute"},
        quick=(False, "1,000 images of 32 x 32"),
        seed=0,
    )
    if options.quick:
        options.samples, options.side = 1000, 32
    n, side = options.samples, options.side

    passes = [0]

    def stream() -> Iterator[np.ndarray]:
        passes[0] += 1
        return images(n, side, options.seed)

    started = time.perf_counter()
    for _ in images(n, side, options.seed):
        pass
    making = time.perf_counter() - started

    hsfa = HierarchicalSFA(
        escalante_wiskott_layers((side, side)),
        input_shape=(side, side),
        storage=options.storage,
        n_jobs=options.jobs,
    )
    started = time.perf_counter()
    hsfa.fit(stream)
    training = time.perf_counter() - started
    fit_passes = passes[0]
    started = time.perf_counter()
    Y = hsfa.transform(stream)
    applying = time.perf_counter() - started

    x, _ = spot_path(np.arange(n, dtype=np.float64))
    design = np.column_stack([np.ones(n), Y[:, :10]])
    fitted = design @ np.linalg.lstsq(design, x, rcond=None)[0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"probsfa {probsfa.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{n:,} images of {side} x {side}; storage={options.storage}, n_jobs={options.jobs}")
    print(f"layers (nodes): {' '.join('x'.join(map(str, grid)) for grid in hsfa.grids_)}")
    print()
    table = Table("", "s")
    table.add("making the images once", f"{making:.1f}")
    table.add(f"training, with its {fit_passes} passes", f"{training:.1f}")
    table.add("transform", f"{applying:.1f}")
    print(f"\nlargest memory {peak:.2f} GiB")
    print(f"slowest delta values {np.array2string(hsfa.delta_values_[:4], precision=6)}")
    print(f"R2 of the horizontal place from ten outputs, on the training images: "
          f"{1 - np.var(x - fitted) / np.var(x):.4f}")  # fmt: skip


if __name__ == "__main__":
    main()
