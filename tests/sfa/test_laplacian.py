"""The spectrum of graph Laplacians, by every method, against dense definitions and closed forms."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import block_diag
from sklearn.neighbors import kneighbors_graph

from probsfa.sfa.spectral import laplacian
from probsfa.sfa.spectral.laplacian import choose_method, graph_spectrum
from tests.oracles.eigenmaps import eigenvalues, path, product, ring
from tests.tolerances import EXACT, SPECTRAL

METHODS = ["dense", "elimination", "lanczos"]


@pytest.fixture(autouse=True)
def no_shortcut(monkeypatch):
    """Use the sparse methods also for small graphs, which the oracle requires."""
    monkeypatch.setattr(laplacian, "_MAX_DENSE_ROWS", 5)


def random_graph(rng, n, density=0.2):
    """A ring with random chords: connected, with weights over several orders of magnitude."""
    W = np.triu(rng.random((n, n)) < density, 1) * 10.0 ** rng.uniform(-2, 2, (n, n))
    return W + W.T + ring(n)


def check(found, W, mass, tolerance=EXACT):
    """Residuals, orthonormality and orthogonality to the constant."""
    y, values = found.vectors, found.eigenvalues
    L = np.diag(W.sum(axis=1)) - W
    scale = (W.sum(axis=1) / mass).max()
    np.testing.assert_allclose(
        L @ y / np.sqrt(mass)[:, None],
        np.sqrt(mass)[:, None] * y * values,
        atol=tolerance * scale,
    )
    np.testing.assert_allclose(y.T @ (mass[:, None] * y), np.eye(len(values)), atol=EXACT)
    np.testing.assert_allclose(mass @ y, 0, atol=EXACT * np.sqrt(mass.sum()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["degree", "ones", "random"])
def test_methods_agree_with_the_definition(rng, method, make, kind):
    W = random_graph(rng, 30)
    mass = {"degree": W.sum(axis=1), "ones": np.ones(30), "random": rng.uniform(0.1, 10, 30)}[kind]
    found = graph_spectrum(make(W), mass, 6, method=method)
    np.testing.assert_allclose(found.eigenvalues, eigenvalues(W, mass)[1:7], rtol=SPECTRAL)
    check(found, W, mass, SPECTRAL)
    assert found.n_connected == 1 and found.method == method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_components", [1, 2, 3, 4, 5, 8, 13])
def test_repeated_eigenvalues_are_found_with_their_multiplicity(method, n_components):
    n = 24  # the torus repeats most of its eigenvalues four or eight times
    W = product(ring(n), ring(n))
    waves = 2 - 2 * np.cos(2 * np.pi * np.arange(n) / n)
    expected = np.sort((waves[:, None] + waves).ravel())[1 : n_components + 1]
    found = graph_spectrum(sp.csr_array(W), np.ones(n * n), n_components, method=method)
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=SPECTRAL)
    check(found, W, np.ones(n * n), SPECTRAL)


@pytest.mark.parametrize("method", METHODS)
def test_strip_closed_form(method):
    length, width = 40, 9
    a = 2 - 2 * np.cos(np.pi * np.arange(length) / length)
    b = 2 - 2 * np.cos(np.pi * np.arange(width) / width)
    expected = np.sort((a[:, None] + b).ravel())[1:13]
    W = sp.csr_array(product(path(length), path(width)))
    found = graph_spectrum(W, np.ones(length * width), 12, method=method)
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=SPECTRAL)


@pytest.mark.parametrize("n_components", [29, 28, 20])
def test_all_components_of_a_small_graph(rng, n_components):
    W = random_graph(rng, 30)
    found = graph_spectrum(sp.csr_array(W), W.sum(axis=1), n_components)
    expected = eigenvalues(W, W.sum(axis=1))[1 : n_components + 1]
    np.testing.assert_allclose(found.eigenvalues, expected, rtol=SPECTRAL)
    check(found, W, W.sum(axis=1))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_components", [1, 2, 3, 6])
def test_components_are_separated_exactly(rng, method, n_components):
    blocks = [random_graph(rng, n) for n in (9, 14, 7)]
    order = rng.permutation(31)  # the last vertex has no edge at all
    W = np.zeros((31, 31))
    W[:30, :30] = block_diag(*blocks)
    W = W[np.ix_(order, order)]
    mass = rng.uniform(0.5, 2, 31)
    found = graph_spectrum(sp.csr_array(W), mass, n_components, method=method)
    assert found.n_connected == 4
    assert (found.eigenvalues[:3] == 0).all() and (found.eigenvalues[3:] > 1e-3).all()
    np.testing.assert_allclose(
        found.eigenvalues, np.maximum(eigenvalues(W, mass)[1 : n_components + 1], 0), atol=1e-9
    )
    check(found, W, mass, SPECTRAL)


def test_edges_below_the_rounding_error_do_not_connect_components():
    W = np.kron(np.eye(2), np.ones((5, 5)))
    W[4, 5] = W[5, 4] = 1e-18
    assert graph_spectrum(W, W.sum(axis=1), 2).n_connected == 2
    assert graph_spectrum(sp.csr_array(W), W.sum(axis=1), 2).n_connected == 2
    W[4, 5] = W[5, 4] = 1e-12
    found = graph_spectrum(sp.csr_array(W), np.ones(10), 2, method="elimination")
    assert found.n_connected == 1
    # one weak edge between halves of five: the contrast has the energy 4w/10 to first order
    np.testing.assert_allclose(found.eigenvalues[0], 0.4e-12, rtol=1e-2)
    np.testing.assert_allclose(found.eigenvalues[1], 5, rtol=SPECTRAL)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("method", METHODS)
def test_weakly_connected_clusters(rng, make, method):
    bridge = 1e-11
    blocks = [random_graph(rng, 20, 0.5) for _ in range(2)]
    W = block_diag(*blocks)
    W[19, 20] = W[20, 19] = bridge
    mass = np.ones(40)
    found = graph_spectrum(make(W), mass, 4, method=method)
    assert found.n_connected == 1
    # to first order in the bridge: its energy on the contrast of the two clouds, 4 w / n
    np.testing.assert_allclose(found.eigenvalues[0], 4 * bridge / 40, rtol=0.05)
    within = np.sort(np.concatenate([eigenvalues(block, np.ones(20))[1:] for block in blocks]))
    np.testing.assert_allclose(found.eigenvalues[1:], within[:3], rtol=SPECTRAL)


def test_the_diagonal_does_not_matter(rng):
    W = random_graph(rng, 12)
    mass = np.ones(12)
    loops = W + np.diag(rng.random(12) * 5)
    np.testing.assert_allclose(
        graph_spectrum(loops, mass, 4).eigenvalues, graph_spectrum(W, mass, 4).eigenvalues, rtol=EXACT
    )


def test_the_automatic_method_depends_on_the_shape_of_the_graph(rng):
    long = kneighbors_graph(np.arange(4000.0)[:, None], 8)
    cloud = kneighbors_graph(rng.standard_normal((4000, 12)), 8)
    assert choose_method(sp.csr_array(long + long.T), 3) == "elimination"
    assert choose_method(sp.csr_array(cloud + cloud.T), 3) == "lanczos"
    assert choose_method(np.ones((400, 400)), 3) == "elimination"
    assert choose_method(np.ones((400, 400)), 150) == "dense"


@pytest.mark.parametrize("method", METHODS)
def test_64_bit_indices_give_the_same_eigenvalues(rng, method):
    short = sp.csr_array(random_graph(rng, 40))
    wide = sp.csr_array((short.data, short.indices.astype(np.int64), short.indptr.astype(np.int64)))
    found, same = (graph_spectrum(W, np.ones(40), 3, method=method) for W in (short, wide))
    np.testing.assert_array_equal(found.eigenvalues, same.eigenvalues)
    assert wide.indices.dtype == np.int64  # the input is not changed
