"""Where is the face? Regression by hierarchies of graph-based slow feature analysis, in miniature.

Escalante-B. & Wiskott (2013, section 6.2, table 2) estimate the horizontal position of faces in images of
128 x 128 pixels. Here faces of the Olivetti set (40 people, 10 pictures each) are pasted with soft borders at
random positions and sizes on smooth random backgrounds of 64 x 64 pixels: the centre is off by at most 22.5
pixels across and 10 down, and the smallest faces are half the size of the largest. People are split: 20 train
the hierarchy, 12 the supervised step, 8 test; nobody is in two of these sets.

The hierarchy is that of table 1, for 64 x 64 pixels; every training graph and every supervised step of
table 2 is tried. How many features a step gets (and C and gamma of the SVM) is chosen on four of the twelve
people in the first trial. The table gives root mean square errors in pixels on people never seen, averaged
over trials.

    python benchmarks/papers/faces_position.py --data FOLDER --jobs 2
    python benchmarks/papers/faces_position.py --quick
"""

import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.ndimage import gaussian_filter, map_coordinates
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import probsfa
from probsfa.graphs import mixed, reordering, serial, sliding_window
from probsfa.sfa import HierarchicalSFA, escalante_wiskott_layers

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

SIDE, ACROSS, DOWN = 64, 22.5, 10.0
FACE_SIDES = (20.0, 40.0)  # pixels from edge to edge of the Olivetti picture after scaling
N_CLASSES = 50

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


class Images(NamedTuple):
    """Pictures and where their faces are."""

    pixels: np.ndarray  # (N, 64 * 64)
    x: np.ndarray  # (N,) pixels right of the middle
    person: np.ndarray  # (N,)


def paste(
    faces: np.ndarray, people: np.ndarray, n: int, rng: np.random.Generator, clutter: float = 1.0
) -> Images:
    """Draw n images of these people from `faces` (40, 10, 64, 64) in [0, 1]."""
    person = people[rng.integers(len(people), size=n)]
    picture = rng.integers(faces.shape[1], size=n)
    x, y = rng.uniform(-ACROSS, ACROSS, n), rng.uniform(-DOWN, DOWN, n)
    side = rng.uniform(*FACE_SIDES, n)
    grid = np.arange(SIDE) - (SIDE - 1) / 2
    out = np.empty((n, SIDE, SIDE))
    for i in range(n):
        v, u = (grid - y[i]) / side[i], (grid - x[i]) / side[i]  # -1/2 to 1/2 inside the face
        places = np.meshgrid(v * SIDE + (SIDE - 1) / 2, u * SIDE + (SIDE - 1) / 2, indexing="ij")
        face = map_coordinates(faces[person[i], picture[i]], places, order=1, mode="nearest")
        inside = 1 / (1 + np.exp(np.clip((np.hypot(v[:, None] / 0.48, u / 0.38) - 1) * 12, -30, 30)))
        back = gaussian_filter(rng.standard_normal((SIDE, SIDE)), rng.uniform(1.5, 6.0), mode="wrap")
        back = rng.uniform(0.2, 0.8) + clutter * rng.uniform(0.05, 0.25) * back / back.std()
        out[i] = inside * face + (1 - inside) * back
    return Images(out.reshape(n, -1), x, person)


def people_apart(
    faces: np.ndarray, trial: int, n_train: int, clutter: float
) -> tuple[Images, Images, Images]:
    """Draw images that train a network, the step behind it, and that test both; nobody is in two of them."""
    rng = np.random.default_rng(trial)
    people = rng.permutation(40)
    train = paste(faces, people[:20], n_train, rng, clutter)
    teach = paste(faces, people[20:32], n_train // 2, rng, clutter)
    test = paste(faces, people[32:], n_train // 4, rng, clutter)
    return train, teach, test


def load_faces(folder: Path) -> np.ndarray:
    """Return faces (people, pictures, 64, 64) in [0, 1], a little blurred: they will be scaled down."""
    faces = np.load(folder / "olivetti_faces" / "olivetti.npz")["faces"].reshape(40, 10, SIDE, SIDE)
    return gaussian_filter(faces / 255.0, (0, 0, 0.8, 0.8))


def reduce(name: str, train: Images, others: list[Images], jobs: int) -> list[np.ndarray]:
    """Train a hierarchy of the paper's kind; return its features of other images."""
    build = GRAPHS[name]
    model = HierarchicalSFA(
        escalante_wiskott_layers((SIDE, SIDE), method="pca" if build is None else "sfa"),
        input_shape=(SIDE, SIDE),
        graph=None if build is None else build(train.x),
        n_jobs=jobs,
    ).fit(train.pixels)
    return [model.transform(images.pixels) for images in others]


class Classes(NamedTuple):
    """Labels cut into equally large classes."""

    of: np.ndarray
    centers: np.ndarray

    @classmethod
    def cut(cls, x: np.ndarray) -> "Classes":
        """Cut N labels into 50 classes of N / 50."""
        of = np.empty(len(x), dtype=int)
        of[np.argsort(x)] = np.arange(len(x)) * N_CLASSES // len(x)
        return cls(of, np.array([x[of == k].mean() for k in range(N_CLASSES)]))


def nearest_centroid(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Label of the class with the nearest mean."""
    classes = Classes.cut(x)
    return classes.centers[NearestCentroid().fit(Y, classes.of).predict(Z)]


def soft_gaussian(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Soft labels of a Gaussian classifier, equation 36."""
    classes = Classes.cut(x)
    model = QuadraticDiscriminantAnalysis(reg_param=1e-3).fit(Y, classes.of)
    return model.predict_proba(Z) @ classes.centers


def support_vectors(C: float, width: float) -> Callable[..., np.ndarray]:
    """Label of the class that a one-versus-one SVM with a Gaussian kernel predicts."""

    def predict(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
        classes = Classes.cut(x)
        model = make_pipeline(StandardScaler(), SVC(C=C, gamma=width / Y.shape[1])).fit(Y, classes.of)
        return classes.centers[model.predict(Z)]

    return predict


def linear(Y: np.ndarray, x: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Linear regression."""
    return LinearRegression().fit(Y, x).predict(Z)


SVMS = {f"C={C:g}, gamma={g:g}/n": support_vectors(C, g) for C in (1.0, 10.0) for g in (0.3, 1.0)}
STEPS = {
    "NCC": ({"": nearest_centroid}, FEW),
    "Soft GC": ({"": soft_gaussian}, FEW),
    "SVM": (SVMS, SOME),
    "LR": ({"": linear}, ALL),
}


def rmse(predicted: np.ndarray, x: np.ndarray) -> float:
    """Root mean square error."""
    return float(np.sqrt(np.mean((predicted - x) ** 2)))


def choose(step: str, name: str, Y: np.ndarray, images: Images) -> tuple[str, int]:
    """Return the settings of a supervised step that do best on the last four people of its training set."""
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
    """Print the table; return 1 where graph-based training does not beat the rest."""
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
    print(f"{'':18s}" + "".join(f"{step:>16s}" for step in STEPS))
    for name in GRAPHS:
        cells = (f"{mean[name, step]:9.2f} ({settings[name, step][1]:3d})" for step in STEPS)
        print(f"{name:18s}" + "".join(f"{cell:>16s}" for cell in cells))
    print("SVM: " + "; ".join(f"{name}: {settings[name, 'SVM'][0]}" for name in GRAPHS))
    return judge(errors_of)


def judge(errors_of: dict[tuple[str, str], list[float]]) -> int:
    """Say how much graph-based training gains in the same trial, by step; return 1 where it does not."""
    holds = True
    print("smaller RMSE in the same trial, mean over trials (standard error):")
    for step in STEPS:
        errors = {name: np.array(errors_of[name, step]) for name in GRAPHS}
        plain, pca = errors["reordering (SFA)"], errors["HPCA"]
        gains = {name: 1 - errors[name] / plain for name in GRAPHS if "GSFA" in name}
        cells = "  ".join(
            f"{name[:6].strip()} {gain.mean():4.0%} ({_error(gain):.0%})" for name, gain in gains.items()
        )
        over = np.concatenate([1 - errors[name] / pca for name in gains])
        print(f"{step:8s} than reordering: {cells}; than HPCA: {over.min():.0%} to {over.max():.0%}, "
              f"reordering {(1 - plain / pca).mean():.0%}")  # fmt: skip
        holds &= min(gain.mean() for gain in gains.values()) > 0 and over.min() > 0
    print(f"every training graph beats reordering and HPCA with every supervised step: {holds}")
    return 0 if holds else 1


def _error(gain: np.ndarray) -> float:
    return float(gain.std(ddof=1) / np.sqrt(len(gain))) if len(gain) > 1 else float("nan")


if __name__ == "__main__":
    sys.exit(main())
