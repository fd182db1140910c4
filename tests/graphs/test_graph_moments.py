"""Graph moments do not depend on the size of blocks and panels, and are accurate for large values."""

import tracemalloc

import numpy as np
import pytest

from probsfa import graphs
from probsfa.graphs import _window, moments, training_graph
from probsfa.graphs._combined import SubsetGraph
from probsfa.graphs.training_graph import graph_moments
from tests.sampling import parametrize
from tests.tolerances import STREAM

KINDS = {
    "temporal": lambda y: graphs.temporal(len(y)),
    "mirrored window": lambda y: graphs.sliding_window(y, 32),
    "clustered": lambda y: graphs.clustered(np.floor(10 * y)),
    "serial": lambda y: graphs.serial(y, 20),
    "mixed": lambda y: graphs.mixed(y, 20),
    "transition": lambda y: graphs.transition(np.floor(10 * y)),
}
MORE_KINDS = KINDS | {
    "temporal pieces": lambda y: graphs.temporal(len(y), lag=3, lengths=[5, 40, 1, len(y) - 46]),
    "reordering": graphs.reordering,
    "square window": lambda y: graphs.sliding_window(y, 9, mirrored=False),
    "square window, wide": lambda y: graphs.sliding_window(y, len(y) - 1, mirrored=False),
    "mirrored window, wide": lambda y: graphs.sliding_window(y, len(y) - 1),
    "classes of one sample": lambda y: graphs.clustered(np.argsort(y)),
    "neighbours": lambda y: graphs.nearest_neighbors(y[:, None], 5),
    "repaired": lambda y: graphs.sliding_window(y, 5, mirrored=False).repaired(),
    "union": lambda y: graphs.union([graphs.temporal(len(y)), graphs.serial(y, 4)], [1.0, 0.3]),
    "union on some rows": lambda y: graphs.union(
        [
            SubsetGraph(graphs.reordering(y[:60]), np.arange(60)[::-1], len(y)),
            SubsetGraph(graphs.clustered(np.floor(3 * y[::2])), np.arange(0, len(y), 2), len(y)),
        ]
    ),
}


def expected_moment(graph, X):
    W = graph.to_sparse().toarray()
    return 2 / W.sum() * X.T @ (np.diag(W.sum(axis=1)) - W) @ X


@pytest.mark.parametrize("kind", MORE_KINDS)
@parametrize("size", [1, 7, 1000], quick=[7])
def test_results_do_not_depend_on_the_size_of_blocks(monkeypatch, rng, kind, size):
    X, y = rng.standard_normal((100, 7)), rng.random(100)
    for module in (moments, _window):
        monkeypatch.setattr(module, "block_rows", lambda n_features: size)
    graph = MORE_KINDS[kind](y)
    found = graph_moments(graph, X).difference_moment
    A = expected_moment(graph, X)
    np.testing.assert_allclose(found, A, atol=STREAM * np.abs(A).max())
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.parametrize("block_size", [1, 300, 2**30])
def test_results_do_not_depend_on_the_size_of_panels(monkeypatch, rng, block_size):
    X, y = rng.standard_normal((100, 7)), rng.random(100)
    graph = graphs.nearest_neighbors(y[:, None], 5)
    monkeypatch.setattr(training_graph, "_BLOCK_SIZE", block_size)
    A = expected_moment(graph, X)
    found = graph_moments(graph, X).difference_moment
    np.testing.assert_allclose(found, A, atol=STREAM * np.abs(A).max())


@parametrize("kind", KINDS, quick=2)
def test_temporary_memory_is_a_few_panels(monkeypatch, rng, kind):
    X, y = rng.standard_normal((50_000, 40)), rng.random(50_000)
    graph = KINDS[kind](y)
    monkeypatch.setattr(training_graph, "_BLOCK_SIZE", 2**18)  # 2 MiB, an eighth of X
    tracemalloc.start()
    graph_moments(graph, X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10 * 2**21 + X.nbytes / 8


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 1e300])
def test_only_proportions_of_weights_matter(rng, scale):
    X, W = rng.standard_normal((30, 3)), rng.random((30, 30))
    v = W.sum(axis=1) / 30
    expected = graph_moments(graphs.from_sparse(W, v), X).difference_moment
    for graph in (
        graphs.from_sparse(W * scale, v),
        graphs.from_sparse(W * scale, v).repaired(),
        graphs.from_sparse(W, v * scale),
        graphs.union([graphs.from_sparse(W, v)] * 2, [scale, scale / 2]),
    ):
        found = graph_moments(graph, X * 1e140).difference_moment / 1e140 / 1e140
        tol = 1e-10 if scale > 1e-300 else 1e-2  # denormal numbers have few digits
        np.testing.assert_allclose(found, expected, rtol=tol, atol=tol)


def test_weights_whose_sum_overflows_are_refused():
    for call in (
        lambda: graphs.from_sparse(np.full((20, 20), 1.5e308)),
        lambda: graphs.from_sparse(np.ones((20, 20)), np.full(20, 1.5e308)),
        lambda: graphs.union([graphs.temporal(20)], [1.5e308]),
    ):
        with pytest.raises(ValueError, match="weights.*overflow"):
            call()


def test_matrices_of_too_many_edges_are_refused_before_they_are_made():
    states = np.arange(100_000) % 3
    graph = graphs.transition(states)
    for large in (graph, graphs.reordering(states), graphs.exact_label(states)):
        with pytest.raises(
            MemoryError, match=r"e\+(09|10) edges, .* GiB as a sparse matrix. laplacian_matmul"
        ):
            large.to_sparse()
    assert graph.edge_weights[graph.groups[0], graph.groups[1]] == pytest.approx(3 / 2, rel=1e-4)


def test_weighted_mean_and_covariance_at_an_offset(rng):
    X, v = rng.standard_normal((500, 3)), rng.uniform(0, 2, 500)
    X = np.round(X * 2**20) / 2**20  # exact at the offset too
    graph = graphs.from_sparse(rng.random((500, 500)), v)
    near, far = graph_moments(graph, X), graph_moments(graph, X + 2**27)
    np.testing.assert_allclose(far.covariance, near.covariance, rtol=STREAM, atol=STREAM)
    np.testing.assert_allclose(far.difference_moment, near.difference_moment, rtol=STREAM, atol=STREAM)
    np.testing.assert_allclose(far.mean, near.mean + 2**27, rtol=1e-15)
    assert (far.variance_floor < 1e-12).all()
