"""Exact label learning: claims of Escalante-B. & Wiskott (2016, JMLR 17, 157), on other data.

The abstract of the paper claims the following: the slowest feature is the normalised label itself, without a
supervised step; additional labels in the graph make it more accurate; and if the number of features is
limited, compact features of classes classify better than those of the graph of Fisher's discriminants. The
images of faces and traffic signs of the paper could not be obtained.

label     one feature, scaled to the mean and standard deviation of the training labels, compared with graphs
          that use only ranks: progress of diabetes from four columns, and Friedman's third function, ten
          draws each
beside    age from 40 simulated columns, two of which depend on a product of age and sex: linear features that
          represent age and its powers, or age and sex; least squares on their products
compact   digits, ten classes: four features that represent the class in binary, or fewer than nine of the
          clustered graph; a linear classifier; ten random halves

    python benchmarks/papers/exact_labels.py
"""

import platform
import sys
from pathlib import Path

import numpy as np
import sklearn
from sklearn.datasets import load_diabetes, load_digits, make_friedman3
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import probsfa
from probsfa import GraphSFA, graphs
from probsfa.expansions import Polynomial

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.tables import Table

DRAWS = 10


def main() -> None:
    """Print the three tables."""
    read_options(__doc__)
    print(f"probsfa {probsfa.__version__}, Python {platform.python_version()}, sklearn {sklearn.__version__}")
    label()
    beside()
    compact()


def show(title: str, rows: dict[str, list[float]]) -> None:
    """Print means and standard errors over the draws."""
    print(f"\n{title}\n")
    table = Table("", "mean and standard error")
    for name, values in rows.items():
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        table.add(name, f"{np.mean(values):.3f} +- {error:.3f}")


def rescaled(feature: np.ndarray, train_feature: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return a feature, scaled to mean, standard deviation and sign of the training labels."""
    sign = 1.0 if np.corrcoef(train_feature, y)[0, 1] >= 0 else -1.0
    return y.mean() + sign * y.std() * feature


def relative(predicted: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean square error in standard deviations of the labels."""
    return float(np.sqrt(np.mean((predicted - y) ** 2)) / y.std())


def label() -> None:
    """Print errors of one feature as an estimate of the label."""
    for title, draw in (
        ("label: blood sugar and pressure of diabetes patients to their progress", diabetes),
        ("label: Friedman's third function", friedman),
    ):
        rows: dict[str, list[float]] = {}
        for seed in range(DRAWS):
            X, y, Z, z = draw(seed)
            for name, graph in (
                ("exact_label", graphs.ExactLabel()),
                ("serial", graphs.Serial(n_groups=10)),
                ("mixed", graphs.Mixed(n_groups=10)),
                ("sliding_window", graphs.SlidingWindow()),
            ):
                model = GraphSFA(1, graph=graph, expansion=Polynomial(2), shrinkage=0.01).fit(X, y)
                train, test = model.transform(X)[:, 0], model.transform(Z)[:, 0]
                rows.setdefault(f"{name}, the feature itself", []).append(
                    relative(rescaled(test, train, y), z)
                )
                line = LinearRegression().fit(train[:, None], y)
                rows.setdefault(f"{name}, a line through it", []).append(
                    relative(line.predict(test[:, None]), z)
                )
        show(f"{title}: error in standard deviations, new rows, {DRAWS} draws", rows)


def beside() -> None:
    """Print errors with additional labels in the graph."""
    rows: dict[str, list[float]] = {}
    for seed in range(DRAWS):
        rng = np.random.default_rng(seed)
        sex, age = rng.integers(0, 2, 2000), rng.uniform(16, 65, 2000)
        informative = np.column_stack([age / 20 * (0.5 + sex), sex + 0.3 * rng.standard_normal(2000)])
        rest = rng.standard_normal((2000, 38))
        X = np.column_stack([informative, rest]) @ np.linalg.qr(rng.standard_normal((40, 40)))[0]
        half = slice(1000), slice(1000, 2000)
        for name, graph, labels in (
            ("age", graphs.ExactLabel(), age),
            ("age, its square and cube", graphs.ExactLabel(degree=3), age),
            ("age and sex", graphs.ExactLabel(), np.column_stack([age, sex])),
        ):
            model = GraphSFA(graph=graph).set_params(n_components=3 if "cube" in name else np.ndim(labels))
            F = model.fit(X[half[0]], labels[half[0]]).transform(X)
            step = make_pipeline(Polynomial(3), LinearRegression()).fit(F[half[0]], age[half[0]])
            rows.setdefault(f"{name} coded, products of the features", []).append(
                relative(step.predict(F[half[1]]), age[half[1]])
            )
        line = LinearRegression().fit(X[half[0]], age[half[0]])
        rows.setdefault("linear regression on all columns", []).append(
            relative(line.predict(X[half[1]]), age[half[1]])
        )
    show(f"beside: error of age in standard deviations, new rows, {DRAWS} draws", rows)


def compact() -> None:
    """Print accuracies of classifiers with few features."""
    X, y = load_digits(return_X_y=True)
    bits = (y[:, None] >> np.arange(4)) & 1
    rows: dict[str, list[float]] = {}
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[: len(y) // 2], order[len(y) // 2 :]

        def share(name: str, model: GraphSFA, labels: np.ndarray) -> None:
            model.fit(X[train], labels[train])  # noqa: B023 - called in this round only
            F, G = (model.transform(X[some]) for some in (train, test))  # noqa: B023
            step = LinearDiscriminantAnalysis().fit(F, y[train])  # noqa: B023
            rows.setdefault(name, []).append(step.score(G, y[test]))  # noqa: B023

        expansion = make_pipeline(StandardScaler(), PCA(20, whiten=True), Polynomial(2))
        share(
            "4 features, exact_label of the bits",
            GraphSFA(4, graph=graphs.ExactLabel(), expansion=expansion, shrinkage=0.1),
            bits,
        )
        for n in (2, 3, 4, 5, 6, 9):
            share(
                f"{n} features, clustered",
                GraphSFA(n, graph="clustered", expansion=expansion, shrinkage=0.1),
                y,
            )
    show(f"compact: digits, share right on the other half, {DRAWS} halves", rows)


def diabetes(seed: int) -> tuple[np.ndarray, ...]:
    """Return training rows and labels, and test rows and labels."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:300], order[300:]
    return X[train][:, [0, 2, 3, 8]], y[train], X[test][:, [0, 2, 3, 8]], y[test]


def friedman(seed: int) -> tuple[np.ndarray, ...]:
    """Return training rows and labels, and test rows and labels."""
    X, y = make_friedman3(1000, noise=0.05, random_state=seed)
    return X[:500], y[:500], X[500:], y[500:]


if __name__ == "__main__":
    main()
