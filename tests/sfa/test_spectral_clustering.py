"""Spectral clustering as in the notes, and what any clusterer makes of it."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import AgglomerativeClustering
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import parametrize_with_checks

from probsfa.sfa.spectral_clustering import SpectralClustering
from tests.oracles.eigenmaps import path, product
from tests.tolerances import EXACT, SPECTRAL

ISOLATED = "scikit-learn gives a sample without edges, for which a normalised Laplacian is not defined"


def expected_failures(estimator):
    if estimator.affinity != "precomputed":
        return {}
    checks = ("estimator_sparse_tag", "estimator_sparse_array", "estimator_sparse_matrix", "fit2d_1feature")
    isolated = {f"check_{name}": ISOLATED for name in checks}
    return {**isolated, "check_clustering": "scikit-learn gives points here, not affinities"}


@parametrize_with_checks(
    [
        SpectralClustering(),
        SpectralClustering(affinity="rbf"),
        SpectralClustering(affinity="precomputed"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:The graph has:UserWarning", "ignore:Number of distinct clusters")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_features_are_those_of_the_notes(rng):
    W = np.triu(rng.random((30, 30)), 1)
    W += W.T + np.diag(rng.random(30))
    found = SpectralClustering(3, n_components=5, affinity="precomputed", random_state=0).fit(W)
    d = W.sum(axis=1)
    mu, v = np.linalg.eig(W / d[:, None])
    order = np.argsort(-mu.real)[:5]
    mu, v = mu.real[order], v.real[:, order]
    v = v / np.sqrt(np.sum(d[:, None] * v**2, axis=0))
    np.testing.assert_allclose(found.eigenvalues_, mu, atol=SPECTRAL)
    expected = v * np.sqrt(np.maximum(mu, 0))
    np.testing.assert_allclose(np.abs(found.embedding_), np.abs(expected), atol=SPECTRAL)
    np.testing.assert_allclose(found.embedding_[:, 0], d.sum() ** -0.5, rtol=EXACT)


@pytest.mark.parametrize("random_state", range(5))
def test_digits(random_state):
    X, y = load_digits(return_X_y=True)
    labels = SpectralClustering(10, random_state=random_state).fit_predict(X)
    assert normalized_mutual_info_score(y, labels) >= 0.85


def test_moons():
    X, y = make_moons(600, noise=0.05, random_state=0)
    assert adjusted_rand_score(y, SpectralClustering(2, random_state=0).fit_predict(X)) > 0.98


def test_connected_components_are_the_clusters():
    X, y = make_blobs([40, 25, 60], centers=[[0, 0], [50, 0], [0, 50]], random_state=0)
    found = SpectralClustering(3, random_state=0).fit(X)
    assert found.n_connected_components_ == 3
    assert adjusted_rand_score(y, found.labels_) == 1
    np.testing.assert_array_equal(found.eigenvalues_, 1)
    with pytest.warns(UserWarning, match="3 connected components, more than n_clusters=2"):
        SpectralClustering(2, random_state=0).fit(X)


@pytest.mark.parametrize(
    "clusterer", [AgglomerativeClustering(), GaussianMixture(covariance_type="spherical")]
)
def test_any_clusterer(clusterer):
    X, y = make_moons(300, noise=0.04, random_state=1)
    found = SpectralClustering(2, clusterer=clusterer, random_state=0).fit(X)
    assert adjusted_rand_score(y, found.labels_) > 0.98
    assert type(found.clusterer_) is type(clusterer) and found.clusterer_ is not clusterer


def test_sparse_affinity_and_one_cluster():
    W = sp.csr_array(product(path(20), path(3)))
    assert SpectralClustering(1, affinity="precomputed").fit(W).labels_.tolist() == [0] * 60
    halves = SpectralClustering(2, affinity="precomputed", random_state=0).fit(W).labels_
    assert adjusted_rand_score(halves, np.arange(60) < 30) == 1


def test_lists_come_back_as_lists():
    X, _ = make_moons(100, noise=0.05, random_state=0)
    parts = SpectralClustering(2, random_state=0).fit_predict([X[:30], X[30:]])
    assert [len(p) for p in parts] == [30, 70]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer"),
        ({"n_clusters": 31}, "n_clusters=31 is more than the 30 samples"),
        ({"n_components": 0}, "n_components must be an integer"),
        ({"affinity": "linear"}, "affinity must be one of"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        SpectralClustering(**options).fit(np.arange(60.0).reshape(30, 2))
