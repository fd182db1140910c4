"""Classification and regression by slow features, against the linear methods they contain.

Three data sets, one table each. Every row is a setting of GraphSFAClassifier or GraphSFARegressor; the row
"chosen" takes, for every training set, the setting that does best in cross-validation on that set alone.

digits   scikit-learn's handwritten digits, halves at random, 20 splits; and the first 900 against the rest.
vowels   nine speakers by their cepstra (japanese_vowels): 270 utterances train, 370 test. Samples are the
         frames of all utterances, joined by speaker; nothing is differenced in time, so not across utterances
         either. An utterance goes to the speaker with the largest sum of log probabilities over its frames.
clusters spectral clustering of all digits without their labels: normalised mutual information with them.
tecator  fat in meat by its infrared spectrum, 172 train, 43 test; root mean square error in percent of fat.

    python benchmarks/papers/classification.py --data FOLDER
    python benchmarks/papers/classification.py --quick
"""

import argparse
import platform
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import normalized_mutual_info_score
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probsfa
from probsfa.expansions import Polynomial, Power, RadialBasis
from probsfa.graphs import mixed, serial
from probsfa.sfa import GraphSFAClassifier, GraphSFARegressor, SpectralClustering

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.data import add_data_option


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add_data_option(parser, "japanese_vowels and tecator")
    parser.add_argument("--splits", type=int, default=20, help="splits of the digits")
    parser.add_argument("--quick", action="store_true", help="two splits")
    arguments = parser.parse_args()
    print(
        f"probsfa {probsfa.__version__}, Python {platform.python_version()}, numpy {np.__version__}, ", end=""
    )
    print(f"scikit-learn {sklearn.__version__}, {platform.machine()}")
    digits(2 if arguments.quick else arguments.splits)
    clusters()
    vowels(arguments.data / "japanese_vowels" / "japanese_vowels.npz")
    tecator(arguments.data / "tecator" / "tecator.npz")


def digits(n_splits: int) -> None:
    """Print the share of digits that are right."""
    X, y = load_digits(return_X_y=True)
    settings = {
        "linear": None,
        "0.8 power": make_pipeline(StandardScaler(with_std=False), Power(0.8)),
        "20 PCA, quadratic": make_pipeline(PCA(20, whiten=True), Polynomial(2)),
        "30 PCA, quadratic": make_pipeline(PCA(30), Polynomial(2)),
        "300 radial bases": RadialBasis(300, random_state=0),
    }
    splits = [
        train_test_split(np.arange(len(y)), train_size=0.5, stratify=y, random_state=seed)
        for seed in range(n_splits)
    ]
    splits.append((np.arange(900), np.arange(900, len(y))))
    print(
        f"\ndigits: accuracy, mean and lowest of {n_splits} random halves, and the first 900 against the rest"
    )
    report("LDA", [LinearDiscriminantAnalysis().fit(X[a], y[a]).score(X[b], y[b]) for a, b in splits])
    scores: dict[str, list[float]] = {name: [] for name in settings}
    chosen = []
    for train, test in splits:
        for name, expansion in settings.items():
            model = GraphSFAClassifier(expansion=expansion).fit(X[train], y[train])
            scores[name].append(model.score(X[test], y[test]))
        folds = StratifiedKFold(3, shuffle=True, random_state=0)
        search = GridSearchCV(GraphSFAClassifier(), {"expansion": list(settings.values())}, cv=folds)
        chosen.append(search.fit(X[train], y[train]).score(X[test], y[test]))
    for name, values in scores.items():
        report(f"GraphSFA, {name}", values)
    report("GraphSFA, chosen", chosen)


def clusters() -> None:
    """Print how well spectral clustering finds the digits."""
    X, y = load_digits(return_X_y=True)
    labellings = [SpectralClustering(10, random_state=seed).fit_predict(X) for seed in range(5)]
    nmi = [normalized_mutual_info_score(y, labels) for labels in labellings]
    print("\nclusters: normalised mutual information of five seeds, " + " ".join(f"{v:.4f}" for v in nmi))


def report(name: str, values: list[float]) -> None:
    """Print one line of the table of the digits; the last value is of the first 900."""
    halves = values[:-1]
    print(f"  {name:30} {np.mean(halves):.4f}  {np.min(halves):.4f}   {values[-1]:.4f}", flush=True)


def vowels(path: Path) -> None:
    """Print the share of utterances and of frames that are right."""
    data = np.load(path)
    settings = {
        "linear": None,
        "0.8 power": make_pipeline(StandardScaler(), Power(0.8)),
        "quadratic": make_pipeline(StandardScaler(), Polynomial(2)),
        "cubic": make_pipeline(StandardScaler(), Polynomial(3)),
    }
    train, test = (utterances(data, part) for part in ("train", "test"))
    print(
        "\nvowels: accuracy per utterance, per frame, and per utterance in 5-fold cross-validation on the 270"
    )
    folds = list(GroupKFold(5, shuffle=True, random_state=0).split(train[0], groups=np.arange(len(train[0]))))
    results = {}
    for name, expansion in settings.items():
        classifier = GraphSFAClassifier(expansion=expansion)
        inside = [right(classifier, pick(train, a), pick(train, b))[0] for a, b in folds]
        results[name] = (np.mean(inside), *right(classifier, train, test))
        print(
            f"  GraphSFA, {name:20} {results[name][1]:.4f}  {results[name][2]:.4f}   {results[name][0]:.4f}"
        )
    best = max(results, key=lambda name: results[name][0])
    print(f"  GraphSFA, {'chosen':20} {results[best][1]:.4f}  {results[best][2]:.4f}   ({best})", flush=True)


Utterances = tuple[list[np.ndarray], np.ndarray]


def utterances(data: Any, part: str) -> Utterances:
    """Return utterances (frames, 12) and their speakers."""
    borders = np.cumsum(data[f"{part}_len"])[:-1]
    return np.split(data[f"{part}_X"].astype(np.float64), borders), data[f"{part}_y"]


def pick(part: Utterances, chosen: np.ndarray) -> Utterances:
    """Return some of the utterances."""
    return [part[0][i] for i in chosen], part[1][chosen]


def right(classifier: GraphSFAClassifier, train: Utterances, test: Utterances) -> tuple[float, float]:
    """Return the shares of utterances and of frames that are right."""
    frames = [np.full(len(x), speaker) for x, speaker in zip(*train, strict=True)]
    fitted = clone(classifier).fit(train[0], frames)
    logs = fitted.predict_log_proba(test[0])
    speakers = fitted.classes_[np.argmax([log.sum(axis=0) for log in logs], axis=1)]
    each = np.concatenate([fitted.classes_[log.argmax(axis=1)] for log in logs])
    truth = np.repeat(test[1], [len(log) for log in logs])
    return float(np.mean(speakers == test[1])), float(np.mean(each == truth))


def tecator(path: Path) -> None:
    """Print errors of the percentage of fat."""
    data = np.load(path)
    X, y = data["train_X"].astype(np.float64), data["train_fat"].astype(np.float64)
    X_test, y_test = data["test_X"].astype(np.float64), data["test_fat"].astype(np.float64)
    print(
        "\ntecator: root mean square error on the 43 test samples, and in 5-fold cross-validation on the 172"
    )
    pls = PLSRegression(15).fit(X, y)
    print(f"  {'PLS, 15 components':40} {rmse(y_test, pls.predict(X_test).ravel()):.3f}")
    print(f"  {'mean of the training labels':40} {rmse(y_test, y.mean()):.3f}")
    graphs = {
        "reordering": "reordering",
        "sliding window": "sliding_window",
        "serial, 30": lambda X, y: serial(y, 30),
        "mixed, 30": lambda X, y: mixed(y, 30),
    }
    grid = {
        "expansion": [
            make_pipeline(PCA(n, whiten=True), *([Polynomial(2)] if quadratic else []))
            for n in (5, 8, 10, 15)
            for quadratic in (False, True)
            if n < 15 or not quadratic
        ],
        "n_components": [1, 2, 3],
        "n_labels": [15, 30],
    }
    errors = {}
    for name, graph in graphs.items():
        search = GridSearchCV(
            GraphSFARegressor(graph=graph), grid, cv=5, scoring="neg_root_mean_squared_error"
        ).fit(X, y)
        errors[name] = (-search.best_score_, rmse(y_test, search.predict(X_test)))
        best = search.best_params_
        steps = [str(step) for _, step in best["expansion"].steps]
        setting = f"{' + '.join(steps)}, {best['n_components']} features, {best['n_labels']} labels"
        print(f"  GraphSFA, {name:30} {errors[name][1]:.3f}   {errors[name][0]:.3f}   {setting}", flush=True)
    chosen = min(errors, key=lambda name: errors[name][0])
    print(f"  GraphSFA, {'chosen':30} {errors[chosen][1]:.3f}   {errors[chosen][0]:.3f}   ({chosen})")


def rmse(truth: np.ndarray, estimate: Any) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "The .* rows vary in")
    main()
