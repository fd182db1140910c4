"""Labels from slow features beside the best of scikit-learn, each tuned as carefully.

Every method of a table sees the same training rows. What it leaves open is chosen by cross-validation on
these alone, with the same folds for all, and it is then judged once on rows that took no part.

digits   halves at random: 8 x 8 pixels, 1,797 images
writers  the first 900 digits against the rest, which other people wrote
few      eight to twelve digits of each class to learn from, eight draws
semeion  halves at random: 16 x 16 binary pixels, 1,593 images
vowels   nine speakers, 270 utterances to learn from and 370 to judge, as the set is split; an utterance
goes to the
         speaker with the largest sum of scores of its frames
tecator  fat in meat by its infrared spectrum, as the set is split; with --folds five folds of all 215 samples
faces    the horizontal position of faces of people never seen, with cluttered backgrounds and plain ones: see
         benchmarks/papers/faces_position.py; cross-validation holds out people
landsat  which pixels changed between two images: no labels are learned from, nothing is tuned
moons    two half-moons, clusters without labels; 1,000 points, ten draws
clusters three affinities of SpectralClustering on other sets, each with its default settings
labels   the default and two graphs of GraphSFARegressor on simulated sets, 150 rows to learn from and 250 to
         judge

    python benchmarks/accuracy/supervised_peers.py --data FOLDER
    python benchmarks/accuracy/supervised_peers.py --data FOLDER --parts tecator vowels
    python benchmarks/accuracy/supervised_peers.py --quick
"""

import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import sklearn
from sklearn.base import clone
from sklearn.cluster import SpectralClustering as PeerClustering
from sklearn.covariance import EmpiricalCovariance, MinCovDet
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_moons,
)
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.ensemble import IsolationForest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression, RidgeCV
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, StratifiedKFold, train_test_split
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, SVR

import probsfa
from probsfa import graphs
from probsfa.expansions import Polynomial
from probsfa.sfa import (
    GraphSFAClassifier,
    GraphSFARegressor,
    HierarchicalSFA,
    SpectralClustering,
    escalante_wiskott_layers,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from accuracy.change_detection import change_score, read_bands, read_mask
from common.options import read_options
from papers.faces_position import SIDE, load_faces, people_apart

PENALTIES = np.logspace(-6, 3, 19)
Rows = tuple[np.ndarray, np.ndarray]


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


class Table:
    """Figures of methods, one for each split."""

    def __init__(self, title: str, *, smaller: bool = False) -> None:
        self.title = title
        self.smaller = smaller  # root mean square errors; otherwise shares
        self.rows: dict[str, list[float]] = {}
        self.losses: dict[str, np.ndarray] = {}

    def add(self, name: str, value: float, losses: np.ndarray | None = None) -> None:
        """Add the figure of one more split; `losses` are squared errors, or wrong predictions, of cases."""
        self.rows.setdefault(name, []).append(float(value))
        if losses is not None:
            self.losses[name] = np.asarray(losses, dtype=float).ravel()
        print(f"  {name}: {value:.4f}", file=sys.stderr, flush=True)

    def show(self, note: str = "") -> None:
        """Print the means, the best first, and what lies between the best of either side, split by split."""
        print(f"\n{self.title}")
        order = sorted(self.rows, key=lambda name: np.mean(self.rows[name]) * (1 if self.smaller else -1))
        for name in order:
            values = self.rows[name]
            spread = f"  ({min(values):.4f} to {max(values):.4f})" if len(values) > 1 else ""
            print(f"  {name:46} {np.mean(values):.4f}{spread}")
        ours = next(name for name in order if name.startswith("probsfa"))
        peer = next(name for name in order if not name.startswith("probsfa"))
        gap = np.array(self.rows[ours]) - np.array(self.rows[peer])
        error = f" +- {gap.std(ddof=1) / np.sqrt(len(gap)):.4f}" if len(gap) > 1 else ""
        default = "probsfa, default"
        if len(gap) == 1 and {default, peer} <= set(self.losses):
            paired = self.losses[default] - self.losses[peer]
            unit = 0.5 / self.rows[peer][0] if self.smaller else 1.0  # of a root mean square
            difference, spread = self.rows[default][0] - self.rows[peer][0], unit * paired.std(ddof=1)
            print(
                f"  default less best of the others: {difference:+.4f} +- {spread / len(paired) ** 0.5:.4f}"
            )
        print(f"  best of ours less best of the others: {gap.mean():+.4f}{error}{note}")


def classifiers(X: np.ndarray, folds: Any) -> dict[str, Any]:
    """Return classifiers of images with what they leave open tuned on `folds`; ours tunes itself."""
    unit = 1 / X.var(axis=0).sum()
    grids: dict[str, tuple[Any, dict[str, Any]]] = {
        "SVC": (SVC(), {"C": [1, 10, 100], "gamma": [0.5 * unit, unit, 2 * unit]}),
        "k nearest neighbours": (KNeighborsClassifier(), {"n_neighbors": [1, 3, 5, 9]}),
        "PCA, k nearest neighbours": (
            make_pipeline(PCA(random_state=0), KNeighborsClassifier()),
            {"pca__n_components": [20, 40], "kneighborsclassifier__n_neighbors": [1, 3, 5]},
        ),
        "PCA, QDA": (
            make_pipeline(PCA(random_state=0), QuadraticDiscriminantAnalysis()),
            {
                "pca__n_components": [15, 25, 40],
                "quadraticdiscriminantanalysis__reg_param": [0.001, 0.01, 0.1, 0.3],
            },
        ),
        "LDA, shrunk": (
            LinearDiscriminantAnalysis(solver="eigen"),
            {"shrinkage": ["auto", 0.01, 0.1, 0.3]},
        ),
        "PCA, products, LDA shrunk": (
            make_pipeline(
                PCA(40, random_state=0), PolynomialFeatures(2), LinearDiscriminantAnalysis(solver="eigen")
            ),
            {"lineardiscriminantanalysis__shrinkage": [0.1, 0.3]},
        ),
    }
    ours: dict[str, Any] = {
        "probsfa, default": GraphSFAClassifier(),
        'probsfa, preset="images"': GraphSFAClassifier(preset="images"),
    }
    return {**ours, **{name: GridSearchCV(*grid, cv=folds) for name, grid in grids.items()}}


def images(title: str, X: np.ndarray, y: np.ndarray, splits: list[Rows]) -> None:
    """Print the shares of images that are right."""
    table = Table(f"{title}: share right")
    for train, test in splits:
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for method, model in classifiers(X[train], folds).items():
            table.add(method, model.fit(X[train], y[train]).score(X[test], y[test]))
    table.show()


def halves(y: np.ndarray, n_splits: int) -> list[Rows]:
    """Return halves at random, with as much of every class."""
    return [
        tuple(train_test_split(np.arange(len(y)), train_size=0.5, stratify=y, random_state=seed))
        for seed in range(n_splits)
    ]


def digits(options: Any) -> None:
    """Scikit-learn's handwritten digits."""
    X, y = load_digits(return_X_y=True)
    images(f"digits, {options.splits} halves at random", X, y, halves(y, options.splits))


def writers(options: Any) -> None:
    """The same digits by others."""
    X, y = load_digits(return_X_y=True)
    images("digits, the first 900 against the rest", X, y, [(np.arange(900), np.arange(900, len(y)))])


def few(options: Any) -> None:
    """Few digits of each class."""
    X, y = load_digits(return_X_y=True)
    for n in (8, 9, 10, 12):
        table = Table(f"digits, {n} of each class, eight draws: share right")
        for seed in range(8):
            rng = np.random.default_rng(seed)
            members = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
            train, test = (np.concatenate([m[part] for m in members]) for part in (slice(n), slice(30, None)))
            for name, model in (
                ("probsfa, default", GraphSFAClassifier()),
                ("LDA, shrunk", LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto")),
                ("LDA", LinearDiscriminantAnalysis()),
            ):
                table.add(name, model.fit(X[train], y[train]).score(X[test], y[test]))
        table.show()


def semeion(options: Any) -> None:
    """The digits of semeion."""
    data = np.load(options.data / "semeion_digits" / "semeion_digits.npz")
    X, y = np.unpackbits(data["packed"], axis=1).astype(float), data["y"]
    images(f"semeion, {options.splits} halves at random", X, y, halves(y, options.splits))


def vowels(options: Any) -> None:
    """Speakers by their vowels."""
    data = np.load(options.data / "japanese_vowels" / "japanese_vowels.npz")
    (X, y), (Z, truth) = (
        (
            np.split(data[f"{part}_X"].astype(float), np.cumsum(data[f"{part}_len"])[:-1]),
            data[f"{part}_y"],
        )
        for part in ("train", "test")
    )
    products = make_pipeline(StandardScaler(), Polynomial(2))
    scaled = StandardScaler()
    methods: dict[str, Iterable[Any]] = {
        "probsfa, default": [GraphSFAClassifier()],
        "probsfa": [
            *(GraphSFAClassifier(n, expansion=e) for n in (None, "auto") for e in (None, products)),
            *(GraphSFAClassifier(12, expansion=None, shrinkage=0.1, classifier=SVC(C=C)) for C in (1, 10)),
        ],
        "QDA": [QuadraticDiscriminantAnalysis(reg_param=r) for r in (0.0, 0.01, 0.03, 0.1, 0.3)],
        "LDA, shrunk": [LinearDiscriminantAnalysis(solver="eigen", shrinkage=s) for s in ("auto", 0.0, 0.1)],
        "k nearest neighbours": [make_pipeline(scaled, KNeighborsClassifier(k)) for k in (3, 5, 9, 17, 33)],
        "SVC": [make_pipeline(scaled, SVC(C=C, gamma=g / 12)) for C in (1, 10) for g in (0.3, 1.0)],
    }
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y))
    table = Table("vowels: share of the 370 utterances that is right")
    for name, candidates in methods.items():
        scores = [
            tuple(np.mean([spoken(m, pick(X, a), y[a], pick(X, b), y[b]) for a, b in folds], axis=0))
            for m in candidates
        ]
        print(f"  {name}: {scores}", file=sys.stderr)
        best = max(range(len(scores)), key=lambda i: scores[i])  # frames decide where utterances are equal
        right = spoken_utterances(list(candidates)[best], X, y, Z, truth)[0]
        table.add(name, right.mean(), ~right)
    table.show()


def pick(X: list[np.ndarray], chosen: np.ndarray) -> list[np.ndarray]:
    """Return some of the utterances."""
    return [X[i] for i in chosen]


def spoken(
    model: Any, X: list[np.ndarray], y: np.ndarray, Z: list[np.ndarray], truth: np.ndarray
) -> tuple[float, float]:
    """Return the shares of utterances, and of frames, that go to the right speaker."""
    utterances, each = spoken_utterances(model, X, y, Z, truth)
    return float(np.mean(utterances)), float(np.mean(each))


def spoken_utterances(
    model: Any, X: list[np.ndarray], y: np.ndarray, Z: list[np.ndarray], truth: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which utterances, and which frames, go to the right speaker."""
    frames, lengths = np.concatenate(Z), [len(z) for z in Z]
    if isinstance(model, GraphSFAClassifier):
        fitted = clone(model).fit(X, y)
    else:
        fitted = clone(model).fit(np.concatenate(X), np.repeat(y, [len(x) for x in X]))
    if hasattr(fitted, "predict_proba"):
        scores = np.log(np.maximum(fitted.predict_proba(frames), 1e-9))
    else:
        scores = fitted.decision_function(frames)
    sums = np.add.reduceat(scores, np.cumsum([0, *lengths])[:-1], axis=0)
    each = fitted.classes_[scores.argmax(axis=1)] == np.repeat(truth, lengths)
    return fitted.classes_[sums.argmax(axis=1)] == truth, each


def tecator(options: Any) -> None:
    """Fat by spectra."""
    data = np.load(options.data / "tecator" / "tecator.npz")
    (X, y), (Z, truth) = (
        (data[f"{part}_X"].astype(float), data[f"{part}_fat"].astype(float)) for part in ("train", "test")
    )
    table = Table("tecator: root mean square error in percent of fat, the split of the set", smaller=True)
    regressions(table, (X, y), (Z, truth))
    table.show()
    if not options.folds:
        return
    table = Table("tecator: the same, five folds of all samples", smaller=True)
    X, y = np.vstack([X, Z]), np.concatenate([y, truth])
    for train, test in KFold(5, shuffle=True, random_state=1).split(X):
        regressions(table, (X[train], y[train]), (X[test], y[test]))
    table.show()


def regressions(table: Table, train: Rows, test: Rows) -> None:
    """Add the errors of all methods on one split, each tuned on the training rows."""
    folds = KFold(5, shuffle=True, random_state=0)
    counts = [6, 8, 10, 12]
    white = PCA(whiten=True, random_state=0)
    gaussian = ConstantKernel(10.0) * RBF(5.0, (0.1, 1e4)) + WhiteKernel(0.01, (1e-7, 10))
    grids: dict[str, tuple[Any, dict[str, Any]]] = {
        "probsfa, default": (GraphSFARegressor(), {}),
        "PLS": (PLSRegression(), {"n_components": [5, 8, 10, 12, 15, 20]}),
        "ridge": (make_pipeline(StandardScaler(), RidgeCV(PENALTIES)), {}),
        "PCA, products, least squares": (
            make_pipeline(white, PolynomialFeatures(2), LinearRegression()),
            {"pca__n_components": counts},
        ),
        "PCA, products, ridge": (
            make_pipeline(white, PolynomialFeatures(2), StandardScaler(), RidgeCV(PENALTIES)),
            {"pca__n_components": counts},
        ),
        "PCA, kernel ridge": (
            make_pipeline(white, KernelRidge(kernel="rbf")),
            {
                "pca__n_components": [8, 12],
                "kernelridge__alpha": [1e-6, 1e-4, 1e-2],
                "kernelridge__gamma": [1e-4, 1e-3, 1e-2],
            },
        ),
        "PCA, SVR": (
            make_pipeline(white, SVR(epsilon=0.1)),
            {"pca__n_components": [8, 12], "svr__C": [1e2, 1e3], "svr__gamma": [1e-3, 1e-2]},
        ),
        "PCA, Gaussian process": (
            make_pipeline(white, GaussianProcessRegressor(gaussian, normalize_y=True)),
            {"pca__n_components": [8, 12]},
        ),
        "probsfa": (
            GraphSFARegressor(),
            {
                "graph": ["mixed", "reordering"],
                "expansion": [make_pipeline(PCA(n, whiten=True), Polynomial(2)) for n in counts],
            },
        ),
    }
    for name, grid in grids.items():
        search = GridSearchCV(*grid, cv=folds, scoring="neg_mean_squared_error").fit(*train)
        predicted = search.predict(test[0]).ravel()
        table.add(name, rmse(predicted, test[1]), (predicted - test[1]) ** 2)


def faces(options: Any) -> None:
    """Where the face is, with clutter and without."""
    pictures = load_faces(options.data)
    for clutter, words in ((1.0, "cluttered backgrounds"), (0.0, "plain backgrounds")):
        ending = f"in pixels, people never seen, {options.trials} draws"
        table = Table(f"faces, {words}: root mean square error {ending}", smaller=True)
        typical = Table(f"faces, {words}: median of the absolute errors {ending}", smaller=True)

        def add(name: str, predicted: np.ndarray, truth: np.ndarray) -> None:
            table.add(name, rmse(predicted, truth))  # noqa: B023 - used inside this round only
            typical.add(name, float(np.median(np.abs(predicted - truth))))  # noqa: B023

        for trial in range(options.trials):
            train, teach, test = people_apart(pictures, trial, 3000, clutter)
            for name, method in (("HGSFA", "sfa"), ("HiGSFA", "igsfa"), ("hierarchical PCA", "pca")):
                layers = escalante_wiskott_layers((SIDE, SIDE), method=method)
                model = HierarchicalSFA(layers, input_shape=(SIDE, SIDE), graph=graphs.mixed(train.x, 50))
                model.fit(train.pixels)
                Y = model.transform(teach.pixels)
                ours = "" if method == "pca" else "probsfa, "
                named = [Y[teach.person == p] for p in np.unique(teach.person)]
                labels = [teach.x[teach.person == p] for p in np.unique(teach.person)]
                step = GraphSFARegressor(graph="mixed").fit(named, labels)
                outside = model.transform(test.pixels)
                add(f"{ours}{name}, chosen step", step.predict(outside).ravel(), test.x)
                if method != "pca":
                    for n in (1, 10):
                        ridge = RidgeCV(PENALTIES).fit(Y[:, :n], teach.x)
                        add(f"{ours}{name}, ridge on {n} of 60", ridge.predict(outside[:, :n]), test.x)
            X = np.vstack([train.pixels, teach.pixels])
            x, person = np.concatenate([train.x, teach.x]), np.concatenate([train.person, teach.person])
            folds = list(GroupKFold(3).split(X, groups=person))
            Z = PCA(100, random_state=0).fit(X)
            inside, outside = Z.transform(X), Z.transform(test.pixels)
            unit = 1 / inside.var(axis=0).sum()
            for name, model, grid in (
                (
                    "PCA, ridge",
                    make_pipeline(PCA(), RidgeCV(PENALTIES)),
                    {"pca__n_components": [30, 60, 100]},
                ),
                ("PCA, SVR", SVR(epsilon=0.5), {"C": [10, 100], "gamma": [unit, 4 * unit]}),
                ("PCA, k nearest neighbours", KNeighborsRegressor(), {"n_neighbors": [3, 5, 9, 17]}),
            ):
                search = GridSearchCV(model, grid, cv=folds, scoring="neg_mean_squared_error").fit(inside, x)
                add(name, search.predict(outside), test.x)
            add("mean of the labels", np.full(len(test.x), x.mean()), test.x)
        table.show()
        typical.show()


def landsat(options: Any) -> None:
    """Which pixels changed."""
    folder = options.data / "landsat_taizhou"
    before, after = (read_bands(folder / name) for name in ("2000TM", "2003TM"))
    changed, unchanged = (read_mask(folder / name) for name in ("change.bmp", "unchanged.bmp"))
    marked = changed | unchanged
    table = Table("landsat: area under the ROC curve of changed pixels")

    def add(name: str, score: np.ndarray) -> None:
        table.add(name, roc_auc_score(changed[marked], score[marked]))

    weights = np.ones(len(before))
    for step in range(21):
        score, _ = change_score(before, after, weights)
        if step == 0:
            add("probsfa, slow features of pairs", score)
        weights = scipy.stats.chi2.sf(score, before.shape[1])
    add("probsfa, reweighted (20 rounds)", score)
    scaled = [StandardScaler().fit_transform(image) for image in (before, after)]
    for name, difference in (("raw", after - before), ("standardised", scaled[1] - scaled[0])):
        add(f"length of the difference, {name}", np.linalg.norm(difference, axis=1))
        add(f"Mahalanobis distance, {name}", EmpiricalCovariance().fit(difference).mahalanobis(difference))
    some = np.random.RandomState(0).permutation(len(before))[:20_000]
    difference = scaled[1] - scaled[0]
    add(
        "robust covariance (MinCovDet)",
        MinCovDet(random_state=0).fit(difference[some]).mahalanobis(difference),
    )
    add("isolation forest", -IsolationForest(random_state=0).fit(difference).score_samples(difference))
    table.show()


def moons(options: Any) -> None:
    """Two half-moons without labels."""
    table = Table("half-moons: adjusted Rand index, mean of ten draws")
    for seed in range(10):
        X, y = make_moons(1000, noise=0.1, random_state=seed)
        for gamma in (10.0, 30.0):
            for side, model in (
                ("probsfa", SpectralClustering(2, affinity="rbf", gamma=gamma, random_state=0)),
                ("scikit-learn", PeerClustering(2, gamma=gamma, random_state=0)),
            ):
                table.add(f"{side}, gamma {gamma:g}", adjusted_rand_score(y, model.fit_predict(X)))
        by_neighbors = SpectralClustering(2, affinity="rbf", gamma="neighbors", random_state=0)
        table.add('probsfa, gamma="neighbors"', adjusted_rand_score(y, by_neighbors.fit_predict(X)))
        for n in (10, 15):
            for side, model in (
                ("probsfa", SpectralClustering(2, n_neighbors=n, random_state=0)),
                (
                    "scikit-learn",
                    PeerClustering(2, affinity="nearest_neighbors", n_neighbors=n, random_state=0),
                ),
            ):
                table.add(f"{side}, {n} neighbours", adjusted_rand_score(y, model.fit_predict(X)))
    table.show()


def clusters(options: Any) -> None:
    """Which affinity finds which clusters."""
    simulated: dict[str, Callable[[int], Rows]] = {
        "circles": lambda seed: make_circles(800, noise=0.07, factor=0.5, random_state=seed),
        "blobs": lambda seed: make_blobs(600, centers=4, random_state=seed),
        "half-moons": lambda seed: make_moons(600, noise=0.05, random_state=seed),
        "half-moons, more noise": lambda seed: make_moons(1000, noise=0.1, random_state=seed),
    }
    sets = {name: [make(seed) for seed in range(5)] for name, make in simulated.items()}
    for load in (load_iris, load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        sets[load.__name__.removeprefix("load_")] = [(StandardScaler().fit_transform(X), y)]
    affinities: dict[str, dict[str, Any]] = {
        "nearest_neighbors, the default": {},
        'rbf, gamma="neighbors"': {"affinity": "rbf", "gamma": "neighbors"},
        'rbf, gamma="self_tuning"': {"affinity": "rbf", "gamma": "self_tuning"},
    }
    print("\nclusters: adjusted Rand index, mean of five draws of simulated sets")
    print(f"  {'':26}" + "  ".join(affinities))
    for name, draws in sets.items():
        means = [
            np.mean(
                [
                    adjusted_rand_score(
                        y, SpectralClustering(len(set(y)), random_state=0, **settings).fit_predict(X)
                    )
                    for X, y in draws
                ]
            )
            for settings in affinities.values()
        ]
        columns = zip(affinities, means, strict=True)
        print(f"  {name:26}" + "  ".join(f"{mean:<{len(title)}.3f}" for title, mean in columns), flush=True)


def simulated_labels(seed: int) -> dict[str, Rows]:
    """Return rows and labels by the name of the set."""
    rng = np.random.default_rng(seed)
    n = 400

    def spectra(noise: float) -> Rows:
        x, shares = np.linspace(0, 1, 60), rng.dirichlet([1, 2, 3, 2], n)
        lines = [(0.2, 0.1), (0.4, 0.15), (0.65, 0.1), (0.85, 0.2)]
        curves = np.array([np.exp(-0.5 * ((x - centre) / width) ** 2) for centre, width in lines])
        lengths = np.exp(0.2 * rng.standard_normal((n, 1)))
        baseline = 0.1 * rng.standard_normal((n, 2)) @ np.array([np.ones(60), x])
        return lengths * (shares @ curves) + baseline + noise * rng.standard_normal((n, 60)), shares[:, 0]

    X, wide, small = rng.standard_normal((n, 8)), rng.standard_normal((n, 40)), 0.05 * rng.standard_normal(n)
    return {
        "spectra": spectra(1e-3),
        "spectra, more noise": spectra(2e-2),
        "linear": (X, X @ rng.standard_normal(8) + small),
        "linear, more noise": (X, X @ rng.standard_normal(8) + 2 * rng.standard_normal(n)),
        "products": (X, X[:, 0] * X[:, 1] + X[:, 2] + small),
        "skewed labels": (X, np.exp(X[:, 0] + 0.5 * X[:, 1]) + small),
        "rounded labels": (X, np.round(3 * X[:, 0] + X[:, 1] ** 2)),
        "forty columns": (wide, wide[:, 0] + wide[:, 1] ** 2 + rng.standard_normal(n)),
        "Friedman 1": make_friedman1(n, noise=0.5, random_state=seed),
        "Friedman 2": make_friedman2(n, noise=20, random_state=seed),
        "Friedman 3": make_friedman3(n, noise=0.05, random_state=seed),
    }


def labels(options: Any) -> None:
    """Which graph suits labels that are numbers."""
    names = ["default", "sliding_window", "serial"]
    print(f"\nlabels: root mean square error in standard deviations of the label, draws: {options.splits}")
    print(f"  {'':22}" + "  ".join(f"{name:14}" for name in names))
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
        print(f"  {title:22}" + "  ".join(f"{error:<14.4f}" for error in errors), flush=True)


def rmse(estimate: np.ndarray, truth: np.ndarray) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((estimate - truth) ** 2)))


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
