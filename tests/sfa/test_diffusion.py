"""Diffusion maps: the definition, diffusion distances, known spectra under uneven sampling, new points."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from probsfa import graphs
from probsfa.sfa import DiffusionMap, LaplacianEigenmaps
from tests.oracles.eigenmaps import diffusion_map, heat_kernel, ring
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL


def expected_failures(estimator):
    if estimator.affinity != "precomputed":
        return {}
    isolated = "scikit-learn gives a sample without edges, for which no step of a walk is defined"
    checks = ("estimator_sparse_tag", "estimator_sparse_array", "estimator_sparse_matrix", "fit2d_1feature")
    return {f"check_{name}": isolated for name in checks}


@parametrize_with_checks(
    [
        DiffusionMap(),
        DiffusionMap(affinity="nearest_neighbors", alpha=0.5, time=2),
        DiffusionMap(1, affinity="precomputed"),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:The graph has:UserWarning")
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def uneven_circle(n, strength=0.8):
    """Points on a circle, the quantiles of a density proportional to ``1 + strength cos(angle)``."""
    grid = np.linspace(0, 2 * np.pi, 100_001)
    share = (grid + strength * np.sin(grid)) / (2 * np.pi)
    angle = np.interp((np.arange(n) + 0.5) / n, share, grid)
    return np.column_stack([np.cos(angle), np.sin(angle)])


def uneven_sphere(n, strength=0.8):
    """Points on a sphere along a golden spiral, dense at one pole: density ``1 + strength z``."""
    grid = np.linspace(-1, 1, 100_001)
    share = (grid + 1 + strength * (grid**2 - 1) / 2) / 2
    z = np.interp((np.arange(n) + 0.5) / n, share, grid)
    angle = np.pi * (3 - 5**0.5) * np.arange(n)
    return np.column_stack([np.sqrt(1 - z**2) * np.cos(angle), np.sqrt(1 - z**2) * np.sin(angle), z])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("alpha", "time"), [(0, 1), (0.5, 2), (1, 0), (1, 3)])
def test_eigenvalues_and_coordinates_by_definition(rng, make, alpha, time):
    X = rng.standard_normal((20, 2))
    W = heat_kernel(X, X, 0.4)
    found = DiffusionMap(5, alpha=alpha, time=time, affinity="precomputed").fit(make(W))
    _, stationary, mu, coordinates = diffusion_map(W, alpha, time)
    np.testing.assert_allclose(found.eigenvalues_, mu[:5], rtol=SPECTRAL)
    np.testing.assert_allclose(found.stationary_distribution_, stationary, rtol=EXACT)
    np.testing.assert_allclose(np.abs(found.embedding_), np.abs(coordinates[:, :5]), atol=SPECTRAL)
    kernel = DiffusionMap(5, alpha=alpha, time=time, gamma=0.4).fit(X)
    np.testing.assert_allclose(kernel.embedding_, found.embedding_, atol=SPECTRAL)


@pytest.mark.parametrize("time", [1, 4])
def test_distances_are_those_of_diffusion(rng, time):
    X = rng.standard_normal((15, 2))
    found = DiffusionMap(14, alpha=0.5, time=time, gamma=1.5).fit(X)
    P, stationary, _, _ = diffusion_map(heat_kernel(X, X, 1.5), 0.5, 1)
    ends = np.linalg.matrix_power(P, time)
    for i, j in ((0, 1), (3, 9), (14, 2)):
        expected = np.sum((ends[i] - ends[j]) ** 2 / stationary)
        squared = np.sum((found.embedding_[i] - found.embedding_[j]) ** 2)
        np.testing.assert_allclose(squared, expected, rtol=SPECTRAL)


def test_without_alpha_it_is_an_eigenmap(rng):
    W = np.triu(rng.random((30, 30)), 1)
    W += W.T
    found = DiffusionMap(3, alpha=0, time=0, affinity="precomputed").fit(W)
    eigenmap = LaplacianEigenmaps(3, affinity="precomputed").fit(W)
    np.testing.assert_allclose(found.eigenvalues_, 1 - eigenmap.eigenvalues_, rtol=SPECTRAL)
    np.testing.assert_allclose(found.embedding_, eigenmap.embedding_ * W.sum() ** 0.5, atol=SPECTRAL)


@pytest.mark.parametrize(("alpha", "gamma"), [("uniform", "neighbors"), ("uniform", 30.0), (1, 50.0)])
def test_spectrum_of_an_unevenly_sampled_circle(alpha, gamma):
    X = uneven_circle(800)
    found = DiffusionMap(6, alpha=alpha, gamma=gamma).fit(X)
    np.testing.assert_allclose(found.laplacian_eigenvalues_, [1, 1, 4, 4, 9, 9], rtol=0.05)
    eigenmap = LaplacianEigenmaps(2, affinity="rbf", gamma=30.0).fit(X)
    assert eigenmap.eigenvalues_[1] / eigenmap.eigenvalues_[0] > 1.5  # the density affects eigenvalues
    turned = found.embedding_[:, :2] / found.eigenvalues_[:2]
    radius = np.hypot(*turned.T)
    np.testing.assert_allclose(radius, 2**0.5, rtol=0.05)


@pytest.mark.parametrize("seed", range(3))
def test_spectrum_of_a_circle_of_random_points(seed):
    rng = np.random.default_rng(seed)
    angle = rng.choice(2 * np.pi * np.arange(10_000) / 10_000, 10_000)
    angle = angle[rng.random(10_000) < (1 + 0.8 * np.cos(angle)) / 1.8][:600]
    found = DiffusionMap(4).fit(np.column_stack([np.cos(angle), np.sin(angle)]))
    np.testing.assert_allclose(found.laplacian_eigenvalues_, [1, 1, 4, 4], rtol=0.05)


def test_the_uniform_weights_are_their_definition(rng):
    X = rng.standard_normal((25, 2))
    W = heat_kernel(X, X, 0.5)
    found = DiffusionMap(3, gamma=0.5).fit(X)
    f = np.ones(25)
    for _ in range(10):
        f = np.array([f[i] / sum(W[i, j] * f[j] for j in range(25)) for i in range(25)])
    _, stationary, mu, coordinates = diffusion_map(W * np.outer(f, f), 0, 1)
    np.testing.assert_allclose(found.eigenvalues_, mu[:3], rtol=SPECTRAL)
    np.testing.assert_allclose(found.stationary_distribution_, stationary, rtol=SPECTRAL)
    np.testing.assert_allclose(np.abs(found.embedding_), np.abs(coordinates[:, :3]), atol=SPECTRAL)


def test_spectrum_of_an_unevenly_sampled_sphere():
    X = uneven_sphere(1500)
    found = DiffusionMap(8).fit(X)
    np.testing.assert_allclose(found.laplacian_eigenvalues_, [2] * 3 + [6] * 5, rtol=0.05)
    eigenmap = LaplacianEigenmaps(3, affinity="rbf", gamma=found.gamma_).fit(X)
    assert eigenmap.eigenvalues_[2] / eigenmap.eigenvalues_[0] > 1.3


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"alpha": 0.3, "time": 0},
        {"gamma": "self_tuning", "time": 3},
        {"affinity": "nearest_neighbors"},
    ],
)
def test_transform_is_continuous_at_training_points(rng, options):
    X = make_moons(150, noise=0.2, random_state=0)[0]
    found = DiffusionMap(3, **{"gamma": 5.0, **options}).fit(X)
    std = found.embedding_.std(axis=0)
    np.testing.assert_allclose(found.transform(X) / std, found.embedding_ / std, atol=SPECTRAL)
    shifted = found.transform(X + 1e-9 * rng.choice([-1, 1], X.shape))
    np.testing.assert_allclose(shifted / std, found.embedding_ / std, atol=1e-5)


def test_new_points_by_definition(rng):
    X, new = rng.standard_normal((20, 2)), rng.standard_normal((3, 2))
    found = DiffusionMap(2, alpha=0.7, time=2, gamma=0.5).fit(X)
    q = heat_kernel(X, X, 0.5).sum(axis=1)
    psi = found.embedding_ / found.eigenvalues_**2
    for x, y in zip(new, found.transform(new), strict=True):
        w = np.array([np.exp(-0.5 * np.sum((x - z) ** 2)) for z in X])
        p = w / (w.sum() * q) ** 0.7
        np.testing.assert_allclose(y, found.eigenvalues_ * (p / p.sum() @ psi), rtol=SPECTRAL)


def test_a_training_graph_is_an_affinity(rng):
    X = rng.standard_normal((40, 3))
    graph = graphs.nearest_neighbors(X, 12)
    from_graph = DiffusionMap(2, affinity=graph).fit(X)
    precomputed = DiffusionMap(2, affinity="precomputed").fit(graph)
    np.testing.assert_allclose(from_graph.embedding_, precomputed.embedding_, atol=EXACT)
    with pytest.raises(ValueError, match="new points"):
        from_graph.transform(X)
    with pytest.raises(ValueError, match="graph.*40.*X.*39"):
        clone(from_graph).fit(X[1:])


def test_the_width_narrows_with_the_number_of_points():
    widths = [DiffusionMap(1).fit(uneven_circle(n)).gamma_ for n in (100, 400, 1600)]
    # the distance to neighbour sqrt(n) falls like n^-1/2 on a curve, and the curve is bent
    np.testing.assert_allclose(np.array(widths[1:]) / widths[:-1], 4, rtol=0.2)


def test_a_search_over_parameters_in_a_pipeline():
    X, y = make_moons(120, noise=0.1, random_state=0)
    pipeline = make_pipeline(DiffusionMap(2), KNeighborsClassifier(3))
    grid = {"diffusionmap__gamma": [0.01, 5.0, "neighbors"], "diffusionmap__alpha": [0.0, "uniform"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.9


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 1.5}, "alpha.*0.*1.*1.5"),
        ({"alpha": "all"}, "alpha.*0.*1.*'uniform'.*'all'"),
        ({"time": -1}, "time.*0.*-1"),
        ({"time": np.inf}, "time"),
        ({"n_components": 0}, "n_components must be"),
        ({"gamma": "wide"}, "gamma"),
    ],
)
def test_errors_name_the_argument(options, message):
    with pytest.raises(ValueError, match=message):
        DiffusionMap(**options).fit(np.arange(40.0).reshape(20, 2))


def test_an_eigenvalue_of_zero_needs_a_step_of_the_walk():
    W = np.zeros((8, 8))
    W[:4, 4:] = W[4:, :4] = 1  # complete bipartite: 1, -1 and zeros
    found = DiffusionMap(2, time=0.5, affinity="precomputed").fit(W)
    with pytest.raises(ValueError, match="eigenvalue 0"):
        found.transform(W)
    with pytest.raises(ValueError, match=r"X\[0\]"):
        DiffusionMap(2, affinity="precomputed").fit(ring(6)).transform(np.zeros((1, 6)))
