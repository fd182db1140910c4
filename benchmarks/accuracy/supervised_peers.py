"""Prediction of labels by slow features and by tuned methods of scikit-learn.

All methods of a table have the same training rows. Their parameters are selected by cross-validation on these
rows, with the same folds for all methods, which are then tested once on other rows.

digits   random halves: 8 x 8 pixels, 1,797 images
writers  training on the first 900 digits, test on the others, which other people wrote
few      eight to twelve training digits of each class, eight draws
semeion  random halves: 16 x 16 binary pixels, 1,593 images
vowels   nine speakers, 270 training and 370 test utterances, as published; an utterance is assigned to the
         speaker with the largest sum of scores of its frames
tecator  fat in meat by its infrared spectrum, published split; with --folds five folds of all 215 samples
faces    the horizontal position of faces of new people, with cluttered and with plain backgrounds: see
         benchmarks/papers/faces_position.py; cross-validation holds out people
landsat  changed pixels between two images: no labels are learned, no parameter is tuned
moons    two half-moons, clusters without labels; 1,000 points, ten draws
clusters three affinities of SpectralClustering on other data sets, each with its default settings
labels   the default and two graphs of GraphSFARegressor on simulated data, 150 training and 250 test rows

    python benchmarks/accuracy/supervised_peers.py --data FOLDER
    python benchmarks/accuracy/supervised_peers.py --data FOLDER --parts tecator vowels
    python benchmarks/accuracy/supervised_peers.py --quick
"""

import platform
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.datasets import (
    load_digits,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import probsfa
from probsfa.sfa import (
    GraphSFAClassifier,
    GraphSFARegressor,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.face_peers import faces
from common.label_sets import simulated_labels
from common.options import read_options
from common.scores import Scores, rmse
from common.tables import Table
from common.tuned_peers import Rows, classifiers, regressions
from common.unlabelled_peers import clusters, landsat, moons
from common.utterances import vowels


def main() -> None:
    """Print the tables."""
    options = read_options(
        __doc__,
        data="all sets but digits and moons",
        parts={"nargs": "+", "choices": list(PARTS), "default": list(PARTS)},
        splits=(3, "halves of digits and semeion, draws of labels"),
        trials=(5, "draws of people, for faces"),
        folds=(False, "for tecator, five folds too"),
        quick=(False, "digits and moons, two splits"),
    )
    if options.quick:
        options.parts, options.splits = ["digits", "moons"], 2
    print(
        f"probsfa {probsfa.__version__}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scikit-learn {sklearn.__version__}, {platform.machine()}"
    )
    for part in options.parts:
        started = time.process_time()
        PARTS[part](options)
        print(f"({time.process_time() - started:.0f} s CPU)", flush=True)


def images(title: str, X: np.ndarray, y: np.ndarray, splits: list[Rows]) -> None:
    """Print the shares of correctly classified images."""
    scores = Scores(f"{title}: share right")
    for train, test in splits:
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for method, model in classifiers(X[train], folds).items():
            scores.add(method, model.fit(X[train], y[train]).score(X[test], y[test]))
    scores.show()


def halves(y: np.ndarray, n_splits: int) -> list[Rows]:
    """Return random halves with equal shares of each class."""
    return [
        tuple(train_test_split(np.arange(len(y)), train_size=0.5, stratify=y, random_state=seed))
        for seed in range(n_splits)
    ]


def digits(options: Any) -> None:
    """Compare methods on scikit-learn's handwritten digits."""
    X, y = load_digits(return_X_y=True)
    images(f"digits, {options.splits} halves at random", X, y, halves(y, options.splits))


def writers(options: Any) -> None:
    """Compare methods on digits of other writers."""
    X, y = load_digits(return_X_y=True)
    images("digits, the first 900 against the rest", X, y, [(np.arange(900), np.arange(900, len(y)))])


def few(options: Any) -> None:
    """Compare methods with few digits of each class."""
    X, y = load_digits(return_X_y=True)
    for n in (8, 9, 10, 12):
        scores = Scores(f"digits, {n} of each class, eight draws: share right")
        for seed in range(8):
            rng = np.random.default_rng(seed)
            members = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
            train, test = (np.concatenate([m[part] for m in members]) for part in (slice(n), slice(30, None)))
            for name, model in (
                ("probsfa, default", GraphSFAClassifier()),
                ("LDA, shrunk", LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")),
                ("LDA", LinearDiscriminantAnalysis()),
            ):
                scores.add(name, model.fit(X[train], y[train]).score(X[test], y[test]))
        scores.show()


def semeion(options: Any) -> None:
    """Compare methods on the digits of semeion."""
    data = np.load(options.data / "semeion_digits" / "semeion_digits.npz")
    X, y = np.unpackbits(data["packed"], axis=1).astype(float), data["y"]
    images(f"semeion, {options.splits} halves at random", X, y, halves(y, options.splits))


def tecator(options: Any) -> None:
    """Compare predictions of fat from spectra."""
    data = np.load(options.data / "tecator" / "tecator.npz")
    (X, y), (Z, truth) = (
        (data[f"{part}_X"].astype(float), data[f"{part}_fat"].astype(float)) for part in ("train", "test")
    )
    scores = Scores("tecator: root mean square error in percent of fat, the split of the set", smaller=True)
    regressions(scores, (X, y), (Z, truth))
    scores.show()
    if not options.folds:
        return
    scores = Scores("tecator: the same, five folds of all samples", smaller=True)
    X, y = np.vstack([X, Z]), np.concatenate([y, truth])
    for train, test in KFold(5, shuffle=True, random_state=1).split(X):
        regressions(scores, (X[train], y[train]), (X[test], y[test]))
    scores.show()


def labels(options: Any) -> None:
    """Compare graphs for numeric labels."""
    names = ["default", "sliding_window", "serial"]
    print(f"\nlabels: root mean square error in standard deviations of the label, draws: {options.splits}\n")
    table = Table("", *names)
    draws = [simulated_labels(seed) for seed in range(options.splits)]
    for title in draws[0]:
        errors = []
        for name in names:
            found = []
            for X, y in (draw[title] for draw in draws):
                graph = None if name == "default" else name
                model = GraphSFARegressor(graph=graph).fit(X[:150], y[:150])
                found.append(rmse(model.predict(X[150:]), y[150:]) / y[150:].std())
            errors.append(np.mean(found))
        table.add(title, *(f"{error:.4f}" for error in errors))


PARTS: dict[str, Callable[[Any], None]] = {
    "digits": digits,
    "writers": writers,
    "few": few,
    "semeion": semeion,
    "vowels": vowels,
    "tecator": tecator,
    "faces": faces,
    "landsat": landsat,
    "moons": moons,
    "clusters": clusters,
    "labels": labels,
}

if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    main()
