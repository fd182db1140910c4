"""A sample weight of two is equal to two samples; moments of batches are those of the union."""

import numpy as np
import pytest

from probsfa import graphs
from probsfa.expansions import Polynomial
from probsfa.graphs._combined import SampleWeightedGraph, SubsetGraph
from probsfa.graphs.training_graph import graph_moments
from probsfa.linalg import slow_directions
from probsfa.sfa import SFA, GraphSFA
from tests.oracles import graphs as oracle
from tests.tolerances import EXACT, SPECTRAL, STREAM


def merged_copies(graph, rows, n):
    """Edge and node weights of samples from those of their copies."""
    member = (rows[:, None] == np.arange(n)).astype(float)
    return member.T @ graph.to_sparse().toarray() @ member, member.T @ graph.node_weights


@pytest.mark.parametrize(
    "builder",
    [graphs.clustered, graphs.serial, graphs.mixed, lambda y, **k: graphs.clustered(y, "classes", **k)],
)
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_a_weight_is_the_number_of_repetitions_of_a_sample(rng, builder, kind):
    n = 40
    y = rng.integers(0, 6, n) if kind == "classes" else np.round(rng.standard_normal(n) * 20)
    s = rng.integers(1, 4, n)
    rows = np.repeat(np.arange(n), s)
    W, v = merged_copies(builder(y[rows]), rows, n)
    found = builder(y, sample_weight=s)
    np.testing.assert_allclose(found.to_sparse().toarray(), W, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(found.node_weights, v, rtol=EXACT)
    assert found.is_consistent()
    X = rng.standard_normal((n, 3))
    for name in ("clustered", "serial", "mixed") if kind == "classes" else ("serial", "mixed"):
        with_weights = GraphSFA(2, graph=name).partial_fit(X, y, sample_weight=s)
        repeated = GraphSFA(2, graph=name).fit(X[rows], y[rows])
        np.testing.assert_allclose(with_weights.delta_values_, repeated.delta_values_, rtol=SPECTRAL)
        np.testing.assert_allclose(with_weights.transform(X), repeated.transform(X), atol=SPECTRAL)


def test_any_graph_with_sample_weights_is_its_definition(rng):
    n = 12
    X, s = rng.standard_normal((n, 2)), np.append(rng.uniform(0.2, 3, n - 2), [0, 0])
    for base in (
        graphs.from_sparse(rng.random((n, n)), rng.random(n)),
        graphs.temporal(n),
        graphs.serial(np.arange(n), 4),
        graphs.sliding_window(rng.permutation(n), 3),
    ):
        graph = SampleWeightedGraph(base, s)
        W = base.to_sparse().toarray() * s * s[:, None]
        np.testing.assert_allclose(graph.to_sparse().toarray(), W, atol=EXACT)
        np.testing.assert_allclose(graph.degrees, W.sum(axis=1), atol=EXACT)
        np.testing.assert_allclose(graph.node_weights, s * base.node_weights)
        np.testing.assert_allclose(graph.laplacian_matmul(X), np.diag(W.sum(axis=1)) @ X - W @ X, atol=EXACT)
        _, B, A = oracle.moments(W, s * base.node_weights, X)
        moments = GraphSFA(graph=base).partial_fit(X, sample_weight=s).moments_
        np.testing.assert_allclose(moments.covariance, B, rtol=1e-9)
        np.testing.assert_allclose(moments.difference_moment, A, rtol=1e-9, atol=1e-12)
        chain = graph.repaired().sample_markov_chain(200, 0, teleport=0.0)
        assert chain.max() < n - 2


@pytest.mark.parametrize(
    "graph", ["clustered", "serial", "nearest_neighbors", "sliding_window", graphs.SlidingWindow(2)]
)
def test_samples_of_weight_zero_are_ignored(rng, graph):
    X, y = rng.standard_normal((60, 3)), rng.integers(0, 6, 60)
    s = (rng.random(60) < 0.7).astype(float)
    found = GraphSFA(graph=graph).partial_fit(X, y, sample_weight=s)
    without = GraphSFA(graph=graph).fit(X[s > 0], y[s > 0])
    np.testing.assert_allclose(found.delta_values_, without.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(found.transform(X), without.transform(X), atol=SPECTRAL)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), r"10.*\(9,\)"),
        (np.ones((10, 1)), r"got shape \(10, 1\)"),
        (-np.ones(10), "finite"),
        (np.zeros(10), "zero"),
    ],
)
def test_wrong_weights_are_named(rng, weights, message):
    with pytest.raises(ValueError, match=message):
        GraphSFA(graph="temporal").partial_fit(rng.standard_normal((10, 2)), sample_weight=weights)
    with pytest.raises(ValueError, match="zero.*class"):
        graphs.clustered([0, 0, 1, 1], sample_weight=[1, 1, 0, 0])


# Batches ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["clustered", "serial", "mixed", "sliding_window", "nearest_neighbors"])
def test_partial_fit_is_the_fit_on_the_union_of_the_graphs_of_the_batches(rng, graph):
    X, y = rng.standard_normal((150, 4)) + 1e5, rng.integers(0, 5, 150)
    batches = [slice(0, 40), slice(40, 100), slice(100, 150)]
    gsfa, members = GraphSFA(graph=graph, expansion=Polynomial(2)), []
    for batch in batches:
        gsfa.partial_fit(X[batch], y[batch])
        members.append(gsfa.graph_)
    rows = [np.arange(batch.start, batch.stop) for batch in batches]
    parts = zip(members, rows, strict=True)
    union = graphs.union([SubsetGraph(graph, rows_of_graph, 150) for graph, rows_of_graph in parts])
    expected = graph_moments(union, gsfa.expansion_.transform(X))  # fitted to the first batch
    scale = np.sqrt(np.outer(*[np.diag(expected.covariance)] * 2))
    assert (np.abs(gsfa.moments_.covariance - expected.covariance) <= 1e-9 * scale).all()
    assert (np.abs(gsfa.moments_.difference_moment - expected.difference_moment) <= 1e-9 * scale).all()
    np.testing.assert_allclose(gsfa.moments_.mean, expected.mean, rtol=STREAM, atol=STREAM)
    deltas = slow_directions(expected.difference_moment, expected.covariance).delta_values
    np.testing.assert_allclose(gsfa.delta_values_[:3], deltas[:3], rtol=1e-8)


def test_partial_fit_of_sequences_in_time_is_sfa(rng):
    X = rng.standard_normal((100, 3)).cumsum(axis=0)
    gsfa = GraphSFA(graph="temporal")
    for piece in (X[:30], X[30:60], X[60:]):
        gsfa.partial_fit(piece)
    sfa = SFA().fit(X, lengths=[30, 30, 40])
    np.testing.assert_allclose(gsfa.delta_values_, sfa.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.transform(X), sfa.transform(X), atol=SPECTRAL)


def test_partial_fit_continues_a_fit_and_waits_for_the_rank(rng):
    X, y = rng.standard_normal((80, 5)), np.tile([0, 1], 40)
    on = GraphSFA(graph="clustered").fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    begun = GraphSFA(graph="clustered").partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    np.testing.assert_array_equal(on.delta_values_, begun.delta_values_)
    flat = X.copy()
    flat[:40, 1:] = 0
    waiting = GraphSFA(3, graph="clustered").partial_fit(flat[:40], y[:40])
    assert not waiting.__sklearn_is_fitted__()
    assert waiting.partial_fit(flat[40:], y[40:]).transform(X).shape == (80, 3)
    with pytest.raises(ValueError, match="4.*GraphSFA.*5"):
        on.partial_fit(X[:, 1:], y)


def test_small_batches_warn_of_the_rows_so_far_only(rng):
    X, y = rng.standard_normal((60, 8)), np.tile([0, 1], 30)
    with pytest.warns(UserWarning, match="6.*rank 5"):
        gsfa = GraphSFA(graph="clustered").partial_fit(X[:6], y[:6])
    gsfa.partial_fit(X[6:12], y[6:12])  # an error if it warned
