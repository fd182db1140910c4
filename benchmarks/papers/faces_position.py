"""Position of faces: regression by hierarchies of graph-based slow feature analysis, on small images.

Escalante-B. & Wiskott (2013, section 6.2, table 2) estimate the horizontal position of faces in images of
128 x 128 pixels. Here faces of the Olivetti set (40 people, 10 pictures each) are pasted with soft edges at
random positions and sizes on smooth random backgrounds of 64 x 64 pixels. The centre is displaced by at most
22.5 pixels horizontally and 10 vertically, and the smallest faces are half the size of the largest. 20 people
are for the hierarchy, 12 for the supervised step, and 8 for the test, without overlap.

The hierarchy is that of table 1, for 64 x 64 pixels, with all training graphs and supervised steps of table
2. The number of features of a step (and C and gamma of the SVM) is selected on four of the twelve people in
the first trial. The table has root mean square errors in pixels for new people, averaged over trials.

    python benchmarks/papers/faces_position.py --data FOLDER --jobs 2
    python benchmarks/papers/faces_position.py --quick
"""

import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import probsfa
from probsfa.graphs import mixed, reordering, serial, sliding_window
from probsfa.sfa import HierarchicalSFA, escalante_wiskott_layers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.faces import SIDE, Images, load_faces, people_apart, rmse
from common.options import read_options
from common.readouts import N_CLASSES, linear, nearest_centroid, soft_gaussian, support_vectors
from common.tables import Table

GRAPHS: dict[str, Callable[[np.ndarray], Any] | None] = {
    "reordering (SFA)": reordering,
    "MSW32 (GSFA)": lambda x: sliding_window(x, 32),
    "MSW64 (GSFA)": lambda x: sliding_window(x, 64),
    "serial (GSFA)": lambda x: serial(x, N_CLASSES),
    "mixed (GSFA)": lambda x: mixed(x, N_CLASSES),
    "HPCA": None,
}
FEW = {False: (2, 3, 4, 5, 6, 8, 10, 14), True: (5, 10, 20, 30, 40, 54, 80, 120)}  # features, by HPCA or not
SOME = {False: (5, 10, 18), True: (20, 50)}
ALL = {False: (60,), True: (120,)}


def reduce(name: str, train: Images, others: list[Images], jobs: int) -> list[np.ndarray]:
    """Fit a hierarchy as in the paper, and return its features of other images."""
    build = GRAPHS[name]
    model = HierarchicalSFA(
        escalante_wiskott_layers((SIDE, SIDE), method="pca" if build is None else "sfa"),
        input_shape=(SIDE, SIDE),
        graph=None if build is None else build(train.x),
        n_jobs=jobs,
    ).fit(train.pixels)
    return [model.transform(images.pixels) for images in others]


SVMS = {f"C={C:g}, gamma={g:g}/n": support_vectors(C, g) for C in (1.0, 10.0) for g in (0.3, 1.0)}
STEPS = {
    "NCC": ({"": nearest_centroid}, FEW),
    "Soft GC": ({"": soft_gaussian}, FEW),
    "SVM": (SVMS, SOME),
    "LR": ({"": linear}, ALL),
}


def choose(step: str, name: str, Y: np.ndarray, images: Images) -> tuple[str, int]:
    """Return the settings of a supervised step with the smallest error for the last four people."""
    methods, counts = STEPS[step]
    last = np.isin(images.person, np.unique(images.person)[-4:])
    errors = {}
    most = (~last).sum() // N_CLASSES - 1 if step == "Soft GC" else Y.shape[1]  # a covariance needs more rows
    for setting, method in methods.items():
        for n in (n for n in counts[name == "HPCA"] if n <= most):
            predicted = method(Y[~last, :n], images.x[~last], Y[last, :n])
            errors[setting, n] = rmse(predicted, images.x[last])
    return min(errors, key=lambda key: errors[key])


def main() -> int:
    """Print the table; return 1 if graph-based training is not better than the other methods."""
    options = read_options(
        __doc__,
        data="olivetti_faces",
        train=(6000, "images that train the hierarchy"),
        clutter=(1.0, "factor on the contrast of backgrounds"),
        trials=5,
        jobs=1,
        quick=(False, "one trial of 3,000 training images"),
    )
    if options.quick:
        options.train, options.trials = 3000, 1
    faces = load_faces(options.data)

    errors_of: dict[tuple[str, str], list[float]] = {}
    settings: dict[tuple[str, str], tuple[str, int]] = {}
    chance, started = [], time.perf_counter()
    for trial in range(options.trials):
        train, teach, test = people_apart(faces, trial, options.train, options.clutter)
        chance.append(rmse(np.full(len(test.x), teach.x.mean()), test.x))
        for name in GRAPHS:
            Y, Z = reduce(name, train, [teach, test], options.jobs)
            for step, (methods, _) in STEPS.items():
                key = name, step
                if trial == 0:
                    settings[key] = choose(step, name, Y, teach)
                setting, n = settings[key]
                predicted = methods[setting](Y[:, :n], teach.x, Z[:, :n])
                errors_of.setdefault(key, []).append(rmse(predicted, test.x))
        lines = " ".join(f"{name[:6]} {errors_of[name, 'LR'][-1]:.2f}" for name in GRAPHS)
        elapsed = time.perf_counter() - started
        print(f"trial {trial}, {elapsed:.0f} s, linear regression: {lines}", file=sys.stderr, flush=True)

    mean = {key: float(np.mean(errors)) for key, errors in errors_of.items()}
    print(f"probsfa {probsfa.__version__}, numpy {np.__version__}, Python {platform.python_version()}")
    print(f"{options.train} + {options.train // 2} images to train, {options.train // 4} to test, "
          f"{options.trials} trials; {time.perf_counter() - started:.0f} s")  # fmt: skip
    print(f"RMSE of the horizontal position in pixels (features used); chance {np.mean(chance):.2f}; "
          f"background clutter x {options.clutter:g}")  # fmt: skip
    table = Table("", *STEPS)
    for name in GRAPHS:
        table.add(name, *(f"{mean[name, step]:.2f} ({settings[name, step][1]})" for step in STEPS))
    print("\nSVM: " + "; ".join(f"{name}: {settings[name, 'SVM'][0]}" for name in GRAPHS))
    return compare_graphs(errors_of)


def compare_graphs(errors_of: dict[tuple[str, str], list[float]]) -> int:
    """Print the gain of graph-based training in the same trial, by step; return 1 if there is none."""
    holds = True
    print("smaller RMSE in the same trial, mean over trials (standard error):\n")
    graphs = [name for name in GRAPHS if "GSFA" in name]
    table = Table("", *graphs, "than HPCA", "reordering than HPCA")
    for step in STEPS:
        errors = {name: np.array(errors_of[name, step]) for name in GRAPHS}
        plain, pca = errors["reordering (SFA)"], errors["HPCA"]
        gains = {name: 1 - errors[name] / plain for name in graphs}
        cells = [f"{gain.mean():.0%} ({_error(gain):.0%})" for gain in gains.values()]
        over = np.concatenate([1 - errors[name] / pca for name in gains])
        span = f"{over.min():.0%} to {over.max():.0%}"
        table.add(step, *cells, span, f"{(1 - plain / pca).mean():.0%}")
        holds &= min(gain.mean() for gain in gains.values()) > 0 and over.min() > 0
    print(f"\nevery training graph beats reordering and HPCA with every supervised step: {holds}")
    return 0 if holds else 1


def _error(gain: np.ndarray) -> float:
    return float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan")


if __name__ == "__main__":
    sys.exit(main())
