"""Spectral clustering: the definition of the notes, clusterers, and prediction for new points."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.cluster import AgglomerativeClustering
from sklearn.cluster import SpectralClustering as Peer
from sklearn.datasets import load_digits, load_wine, make_blobs, make_moons
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from probsfa.sfa.spectral.clustering import SpectralClustering, eigengap
from tests.oracles.eigenmaps import path, product
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL

ISOLATED = "scikit-learn gives samples without affinity to any training point: no cluster to predict"


def expected_failures(estimator):
    if estimator.affinity != "precomputed":
        return {}
    checks = ("estimator_sparse_array", "estimator_sparse_matrix")
    isolated = {f"check_{name}": ISOLATED for name in checks}
    return {**isolated, "check_clustering": "scikit-learn gives points here, not affinities"}


@parametrize_with_checks(
    [
        SpectralClustering(),
        SpectralClustering(affinity="rbf"),
        SpectralClustering(affinity="rbf", gamma="self_tuning", n_clusters="eigengap"),
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
def test_clusters_of_digits(random_state):
    X, y = load_digits(return_X_y=True)
    labels = SpectralClustering(10, random_state=random_state).fit_predict(X)
    assert normalized_mutual_info_score(y, labels) >= 0.85


def test_clusters_of_half_moons():
    X, y = make_moons(600, noise=0.05, random_state=0)
    assert adjusted_rand_score(y, SpectralClustering(2, random_state=0).fit_predict(X)) > 0.98


def test_connected_components_are_the_clusters():
    X, y = make_blobs([40, 25, 60], centers=[[0, 0], [50, 0], [0, 50]], random_state=0)
    found = SpectralClustering(3, random_state=0).fit(X)
    assert found.n_connected_components_ == 3
    assert adjusted_rand_score(y, found.labels_) == 1
    np.testing.assert_array_equal(found.eigenvalues_, 1)
    with pytest.warns(UserWarning, match="3.*n_clusters=2"):
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


def test_lists_give_lists():
    X, _ = make_moons(100, noise=0.05, random_state=0)
    parts = SpectralClustering(2, random_state=0).fit_predict([X[:30], X[30:]])
    assert [len(p) for p in parts] == [30, 70]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters"),
        ({"n_clusters": "gap"}, "n_clusters.*'eigengap'"),
        ({"affinity": "rbf", "gamma": "widest"}, "gamma.*'median'"),
        ({"n_clusters": 31}, "n_clusters=31.*30"),
        ({"n_components": 0}, "n_components"),
        ({"affinity": "linear"}, "affinity"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        SpectralClustering(**options).fit(np.arange(60.0).reshape(30, 2))


@pytest.mark.parametrize("gamma", [3e-4, 1e-3, 0.01])
def test_a_wide_heat_kernel_does_not_lose_eigenvectors(gamma):
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    found = SpectralClustering(3, affinity="rbf", gamma=gamma, random_state=0).fit(X)
    assert (found.eigenvalues_ > 0).all()
    assert adjusted_rand_score(y, found.labels_) > 0.85
    precomputed = SpectralClustering(3, affinity="precomputed", random_state=0).fit(
        rbf_kernel(X, gamma=gamma)
    )
    np.testing.assert_allclose(found.embedding_, precomputed.embedding_, atol=SPECTRAL)
    theirs = Peer(3, affinity="rbf", gamma=gamma, random_state=0).fit_predict(X)
    assert adjusted_rand_score(theirs, found.labels_) > 0.8


@pytest.mark.parametrize("n", [2, 4, 6, 7, 10])
def test_ten_points_or_fewer_are_no_complete_graph(rng, n):
    X = 0.1 * rng.standard_normal((n, 2))
    X[n // 2 :] += 5
    labels = SpectralClustering(2, random_state=0).fit_predict(X)
    assert adjusted_rand_score(labels, np.arange(n) >= n // 2) == 1


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_an_isolated_vertex_is_a_cluster_of_its_own(make):
    W = np.zeros((9, 9))
    W[:4, :4] = W[4:8, 4:8] = 1
    found = SpectralClustering(3, affinity="precomputed", random_state=0).fit(make(W))
    assert found.n_connected_components_ == 3
    np.testing.assert_allclose(found.eigenvalues_, 1, rtol=EXACT)
    assert adjusted_rand_score(found.labels_, [0] * 4 + [1] * 4 + [2]) == 1
    alone = SpectralClustering(4, affinity="precomputed", random_state=0).fit(make(np.zeros((4, 4))))
    assert len(set(alone.labels_)) == 4


def test_clusters_of_a_complete_bipartite_graph_are_its_sides(rng):
    W = np.kron([[0, 1], [1, 0]], np.ones((10, 10)))
    order = rng.permutation(20)
    found = SpectralClustering(2, affinity="precomputed", random_state=0).fit(W[np.ix_(order, order)])
    np.testing.assert_allclose(found.eigenvalues_, [1, -1], rtol=EXACT)
    assert adjusted_rand_score(found.labels_, order < 10) == 1


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_a_complete_graph_has_no_clusters_and_reports_it():
    with pytest.warns(UserWarning, match="only 1 positive .* first 3, .*n_clusters=3"):
        found = SpectralClustering(3, affinity="precomputed", random_state=0).fit(1 - np.eye(12))
    np.testing.assert_allclose(found.eigenvalues_, [1, -1 / 11, -1 / 11], rtol=SPECTRAL)


@pytest.mark.parametrize("options", [{}, {"affinity": "rbf", "gamma": 10.0}, {"affinity": "rbf"}])
@pytest.mark.parametrize(
    "clusterer", [None, AgglomerativeClustering(), GaussianMixture(covariance_type="spherical")]
)
def test_predict_returns_labels_of_training_points_and_of_close_clusters(options, clusterer):
    X, y = make_moons(400, noise=0.04, random_state=0)
    if options.get("affinity") == "rbf" and "gamma" not in options:
        options = {**options, "gamma": "self_tuning"}
    new, y_new = make_moons(100, noise=0.04, random_state=1)
    found = SpectralClustering(2, clusterer=clusterer, random_state=0, **options).fit(X)
    np.testing.assert_array_equal(found.predict(X), found.labels_)
    agreement = adjusted_rand_score(y_new, found.predict(new))
    assert agreement >= adjusted_rand_score(y, found.labels_) - 0.02
    parts = found.predict([new[:40], new[40:]])
    np.testing.assert_array_equal(np.concatenate(parts), found.predict(new))


def test_predict_from_precomputed_affinities(rng):
    X, _ = make_blobs(90, centers=3, random_state=0)
    W = rbf_kernel(X, gamma=0.5)
    found = SpectralClustering(3, affinity="precomputed", random_state=0).fit(W)
    np.testing.assert_array_equal(found.predict(W), found.labels_)
    np.testing.assert_allclose(found.affinity_matrix_, W, atol=EXACT)


def test_the_eigengap_chooses_the_number_of_clusters():
    assert eigengap([0, 0, 0.1, 0.9, 1.0]) == 3
    assert eigengap([1, 0.99, 0.5, 0.45]) == 2
    for n_clusters in (2, 3, 5):
        X, y = make_blobs(60 * n_clusters, centers=8 * np.eye(n_clusters), random_state=0)
        found = SpectralClustering("eigengap", affinity="rbf", gamma=0.1, random_state=0).fit(X)
        assert found.n_clusters_ == n_clusters
        assert found.embedding_.shape == (len(X), n_clusters) and len(found.spectrum_) == 21
        assert adjusted_rand_score(y, found.labels_) == 1
    separate = make_blobs(250, centers=100 * np.eye(25), random_state=0)[0]
    found = SpectralClustering("eigengap", random_state=0).fit(separate)
    assert found.n_clusters_ == 25 and len(set(found.labels_)) == 25


@pytest.mark.parametrize("values", [[1.0], [[1.0, 2.0]], [0.0, 2.0, 1.0], [0.0, np.nan]])
def test_eigengap_refuses_invalid_eigenvalues(values):
    with pytest.raises(ValueError, match="eigenvalues"):
        eigengap(values)


def test_parameters_can_be_searched_in_a_pipeline():
    X, y = make_moons(200, noise=0.04, random_state=0)
    pipeline = make_pipeline(StandardScaler(), SpectralClustering(2, affinity="rbf", random_state=0))
    grid = {"spectralclustering__gamma": [0.01, 30.0, "self_tuning"]}
    search = GridSearchCV(pipeline, grid, scoring="adjusted_rand_score", cv=3).fit(X, y)
    assert search.best_params_["spectralclustering__gamma"] != 0.01
    assert search.best_score_ > 0.95
