"""Comparisons without labels: changed pixels and clusters."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.stats
from common.landsat import change_score, read_bands, read_mask
from common.scores import Scores
from common.tables import Table
from common.tuned_peers import Rows
from sklearn.cluster import SpectralClustering as PeerClustering
from sklearn.covariance import EmpiricalCovariance, MinCovDet
from sklearn.datasets import (
    load_breast_cancer,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)
from sklearn.ensemble import IsolationForest
from sklearn.metrics import adjusted_rand_score, roc_auc_score
from sklearn.preprocessing import StandardScaler

from probsfa.sfa import (
    SpectralClustering,
)


def landsat(options: Any) -> None:
    """Compare methods that detect changed pixels."""
    folder = options.data / "landsat_taizhou"
    before, after = (read_bands(folder / name) for name in ("2000TM", "2003TM"))
    changed, unchanged = (read_mask(folder / name) for name in ("change.bmp", "unchanged.bmp"))
    marked = changed | unchanged
    scores = Scores("landsat: area under the ROC curve of changed pixels")

    def add(name: str, score: np.ndarray) -> None:
        scores.add(name, roc_auc_score(changed[marked], score[marked]))

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
    scores.show()


def moons(options: Any) -> None:
    """Compare methods that cluster two half-moons."""
    scores = Scores("half-moons: adjusted Rand index, mean of ten draws")
    for seed in range(10):
        X, y = make_moons(1000, noise=0.1, random_state=seed)
        for gamma in (10.0, 30.0):
            for side, model in (
                ("probsfa", SpectralClustering(2, affinity="rbf", gamma=gamma, random_state=0)),
                ("scikit-learn", PeerClustering(2, gamma=gamma, random_state=0)),
            ):
                scores.add(f"{side}, gamma {gamma:g}", adjusted_rand_score(y, model.fit_predict(X)))
        by_neighbors = SpectralClustering(2, affinity="rbf", gamma="neighbors", random_state=0)
        scores.add('probsfa, gamma="neighbors"', adjusted_rand_score(y, by_neighbors.fit_predict(X)))
        for n in (10, 15):
            for side, model in (
                ("probsfa", SpectralClustering(2, n_neighbors=n, random_state=0)),
                (
                    "scikit-learn",
                    PeerClustering(2, affinity="nearest_neighbors", n_neighbors=n, random_state=0),
                ),
            ):
                scores.add(f"{side}, {n} neighbours", adjusted_rand_score(y, model.fit_predict(X)))
    scores.show()


def clusters(options: Any) -> None:
    """Compare the affinities of spectral clustering on several data sets."""
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
    print("\nclusters: adjusted Rand index, mean of five draws of simulated sets\n")
    table = Table("", *affinities)
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
        table.add(name, *(f"{mean:.3f}" for mean in means))
