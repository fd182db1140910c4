"""The heat kernel through landmarks: against the kernel of all pairs, and for very many points."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.metrics import adjusted_rand_score

from probsfa.sfa import DiffusionMap, LaplacianEigenmaps, SpectralClustering
from probsfa.sfa.spectral import affinity
from probsfa.sfa.spectral.affinity import LandmarkEdges, LowRankAffinity
from tests.oracles.eigenmaps import heat_kernel
from tests.tolerances import EXACT, SPECTRAL


def moons(n):
    return make_moons(n, noise=0.1, random_state=0)


@pytest.mark.parametrize("loops", [True, False])
def test_products_are_those_of_the_matrix(rng, loops):
    factor = rng.random((12, 4))
    dense = factor @ factor.T
    if not loops:
        np.fill_diagonal(dense, 0)
    W = LowRankAffinity(factor, loops)
    vectors = rng.standard_normal((12, 3))
    np.testing.assert_allclose(W.toarray(), dense, atol=EXACT)
    np.testing.assert_allclose(W @ vectors, dense @ vectors, atol=EXACT)
    np.testing.assert_allclose(W @ vectors[:, 0], dense @ vectors[:, 0], atol=EXACT)
    np.testing.assert_allclose(W.sum(axis=1), dense.sum(axis=1), atol=EXACT)
    np.testing.assert_allclose(W.diagonal(), np.diag(dense), atol=EXACT)
    scale = rng.random(12)
    np.testing.assert_allclose(W.scaled(scale).toarray(), dense * np.outer(scale, scale), atol=EXACT)


@pytest.mark.filterwarnings("ignore:.* landmarks are too few")
def test_the_kernel_is_exact_in_the_rows_of_landmarks_and_never_too_large_on_the_diagonal():
    X = moons(80)[0]
    W = heat_kernel(X, X, 5.0)
    edges = LandmarkEdges(X, 5.0, 20)
    assert len(set(edges.landmarks)) == 20
    near = edges.training(True).toarray()
    np.testing.assert_allclose(near[edges.landmarks], W[edges.landmarks], atol=EXACT)
    # The Schur complement of the landmarks is positive semi-definite: Nystroem's approximation by definition.
    Z = W[np.ix_(edges.landmarks, edges.landmarks)]
    expected = W[:, edges.landmarks] @ np.linalg.solve(Z, W[edges.landmarks])
    np.testing.assert_allclose(near, expected, atol=SPECTRAL)
    assert (np.diag(near) <= 1 + EXACT).all()
    new = X[:5] + 0.05
    to_landmarks = heat_kernel(new, X[edges.landmarks], 5.0)
    joined = edges.new(new)
    rows = (joined.weights @ np.eye(80)) * joined.scale[:, None]
    np.testing.assert_allclose(rows, to_landmarks @ np.linalg.solve(Z, W[edges.landmarks]), atol=SPECTRAL)


@pytest.mark.parametrize("normalization", ["random_walk", "symmetric", "unnormalized"])
def test_enough_landmarks_are_as_good_as_all_pairs(normalization):
    X = moons(300)[0]
    options = {"affinity": "rbf", "gamma": 2.0, "normalization": normalization}
    exact = LaplacianEigenmaps(3, **options).fit(X)
    near = LaplacianEigenmaps(3, n_landmarks=150, **options).fit(X)
    np.testing.assert_allclose(near.eigenvalues_, exact.eigenvalues_, rtol=1e-6)
    size = np.abs(exact.embedding_).max()
    np.testing.assert_allclose(near.embedding_, exact.embedding_, atol=1e-5 * size)
    np.testing.assert_allclose(near.transform(X), near.embedding_, atol=SPECTRAL * size)
    moved = near.transform(X + 1e-9)
    np.testing.assert_allclose(moved, near.embedding_, atol=1e-6 * size)
    new = moons(40)[0] + 0.02
    np.testing.assert_allclose(near.transform(new), exact.transform(new), atol=0.02 * size)


def test_clusters_and_diffusion_maps_through_landmarks():
    X, y = make_moons(400, noise=0.05, random_state=0)
    found = SpectralClustering(2, affinity="rbf", gamma=30.0, n_landmarks=300, random_state=0).fit(X)
    assert adjusted_rand_score(y, found.labels_) == 1
    np.testing.assert_array_equal(found.predict(X), found.labels_)
    exact, near = (DiffusionMap(3, gamma=3.0, n_landmarks=m).fit(X) for m in (None, 200))
    np.testing.assert_allclose(near.eigenvalues_, exact.eigenvalues_, rtol=1e-6)


def test_too_few_landmarks_are_reported():
    with pytest.warns(UserWarning, match="22 landmarks.*5 %"):
        LandmarkEdges(make_moons(200, noise=0.05, random_state=0)[0], 5.0, 22)
    with pytest.warns(UserWarning, match="5.*n_landmarks"):
        LandmarkEdges(moons(200)[0], 5.0, 5)
    with (
        pytest.warns(UserWarning, match="landmarks"),
        pytest.raises(ValueError, match="3.*X"),
    ):
        LaplacianEigenmaps(1, affinity="rbf", gamma=1e6, n_landmarks=3).fit(moons(50)[0])


def test_very_many_points_take_landmarks_by_themselves(monkeypatch):
    X = moons(200)[0]
    assert isinstance(LaplacianEigenmaps(affinity="rbf").fit(X).affinity_matrix_, np.ndarray)
    monkeypatch.setattr(affinity, "_MAX_PAIRWISE_POINTS", 199)
    assert isinstance(LaplacianEigenmaps(affinity="rbf").fit(X).affinity_matrix_, LowRankAffinity)
    everything = LaplacianEigenmaps(affinity="rbf", n_landmarks=None).fit(X)
    assert isinstance(everything.affinity_matrix_, np.ndarray)


def test_equal_points_need_no_landmark_each():
    X = np.repeat(moons(10)[0], 20, axis=0)
    edges = LandmarkEdges(X, 1.0, 200)
    assert len(edges.landmarks) <= 10
    np.testing.assert_allclose(edges.training(True).toarray(), heat_kernel(X, X, 1.0), atol=1e-8)


@pytest.mark.exhaustive
def test_fifty_thousand_points_in_two_gigabytes():
    program = (
        "import pathlib, re, numpy as np; from probsfa import SpectralClustering\n"
        "from sklearn.datasets import make_moons\n"
        "X, y = make_moons(50_000, noise=0.05, random_state=0)\n"
        "labels = SpectralClustering(2, affinity='rbf', gamma=50.0, random_state=0).fit_predict(X)\n"
        "assert max((labels == y).mean(), (labels != y).mean()) > 0.99\n"
        # Of this program alone: `getrusage` would count the process that started it, too.
        "status = pathlib.Path('/proc/self/status')\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', status.read_text()) if status.exists() else None\n"
        "assert peak is None or int(peak[1]) < 2 * 2**20"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_an_array_of_numbers_of_landmarks_is_named(rng):
    with pytest.raises(ValueError, match=r"n_landmarks.*got array\(\[3, 4\]\)"):
        LaplacianEigenmaps(1, affinity="rbf", n_landmarks=np.array([3, 4])).fit(rng.standard_normal((20, 2)))
