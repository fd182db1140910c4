"""Batched moments and eigenproblems against the same, one node at a time."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probsfa.graphs import serial
from probsfa.graphs.moments import temporal_moments
from probsfa.graphs.training_graph import graph_moments as one_graph_moments
from probsfa.linalg import slow_directions
from probsfa.sfa.hierarchical.nodes import (
    NodeMoments,
    NodeStream,
    node_graph_moments,
    pool_nodes,
    solve_pca,
    solve_sfa,
)
from tests.tolerances import EXACT, SPECTRAL, STREAM


def _stream(Z, lengths, lag, cuts):
    """Moments of nodes (M, N, E) from blocks of rows that end at `cuts`, nodes in two groups."""
    M, N, E = Z.shape
    begins = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
    valid = np.arange(N) - begins >= lag
    stream = NodeStream(M, E, lag)
    for a, b in zip([0, *cuts], [*cuts, N], strict=True):
        for nodes in (slice(0, 2), slice(2, M)):
            stream.update(nodes, Z[nodes, a:b].copy(), valid[a:b])
        stream.advance(valid[a:b])
    return stream.finish()


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("cuts", [[], [1], [2, 3, 4, 20], [10, 30]])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_streamed_node_moments_are_those_of_each_node(lag, cuts, offset, rng):
    lengths = [17, 2, 21]
    Z = rng.standard_normal((3, 40, 4)) + offset
    found = _stream(Z, lengths, lag, cuts)
    for i in range(3):
        one = temporal_moments(Z[i], lengths=lengths, lag=lag)
        assert_allclose(found.mean[i], one.mean, rtol=STREAM, atol=STREAM)
        assert_allclose(found.covariance[i], one.covariance, rtol=STREAM, atol=STREAM)
        assert_allclose(found.change[i], one.difference_moment, rtol=STREAM, atol=STREAM)
        assert_allclose(found.variance_floor[i], one.variance_floor)


def test_moments_without_differences_have_none(rng):
    stream = NodeStream(2, 3, None)
    Z = rng.standard_normal((2, 10, 3))
    stream.update(slice(0, 2), Z.copy(), np.ones(10, dtype=bool))
    stream.advance(np.ones(10, dtype=bool))
    found = stream.finish()
    assert found.change is None
    assert_allclose(found.covariance[1], np.cov(Z[1].T, ddof=0), rtol=EXACT)


def test_graph_moments_are_those_of_each_node(rng):
    graph = serial(rng.standard_normal(30), 5)
    Z = rng.standard_normal((30, 3, 4)) + 1e3
    found = node_graph_moments(Z.copy(), graph)
    for i in range(3):
        one = one_graph_moments(graph, Z[:, i])
        assert_allclose(found.mean[i], one.mean, rtol=EXACT)
        assert_allclose(found.covariance[i], one.covariance, rtol=EXACT, atol=EXACT)
        assert_allclose(found.change[i], one.difference_moment, rtol=EXACT, atol=EXACT)


def test_pooled_moments_are_those_of_all_rows_as_sequences(rng):
    Z = rng.standard_normal((3, 20, 2)) + np.arange(3)[:, None, None] + 1e8
    pooled = pool_nodes(_stream(Z, [20], 1, [7]))
    one = temporal_moments(Z.reshape(60, 2), lengths=[20, 20, 20])
    assert_allclose(pooled.mean[0], one.mean, rtol=STREAM)
    assert_allclose(pooled.covariance[0], one.covariance, rtol=EXACT)
    assert_allclose(pooled.change[0], one.difference_moment, rtol=EXACT)


def _problems(rng):
    """Four nodes: of full rank, with a constant column, with a duplicated one, and constant altogether."""
    X = rng.standard_normal((4, 50, 4)).cumsum(axis=1) * np.array([1e-6, 1.0, 1.0, 1e6])
    X[1, :, 2] = 3.0
    X[2, :, 3] = X[2, :, 1]
    X[3] = 7.0
    return NodeMoments(
        np.zeros((4, 4)),
        X.mean(axis=1),
        np.stack([np.cov(x.T, ddof=0) for x in X]),
        np.stack([np.diff(x, axis=0).T @ np.diff(x, axis=0) / 49 for x in X]),
    )


def test_batched_slow_directions_are_those_of_each_node_padded_with_zeros(rng):
    m = _problems(rng)
    found = solve_sfa(m.change, m.covariance, 4, rank_tol=None, variance_floor=m.variance_floor)
    assert_array_equal(found.rank, [4, 3, 3, 0])
    for i in range(3):
        one = slow_directions(m.change[i], m.covariance[i], variance_floor=m.variance_floor[i])
        r = one.rank
        assert_allclose(found.values[i, :r], one.delta_values, rtol=SPECTRAL)
        scale = np.abs(one.weights).max(axis=1, keepdims=True) + (one.scales[:, None] == 0)
        assert_allclose(found.weights[i, :, :r] / scale, one.weights / scale, atol=SPECTRAL)
    assert np.isnan(found.values[1:3, 3]).all() and np.isnan(found.values[3]).all()
    assert_array_equal(found.weights[1:, :, 3], 0)
    assert_array_equal(found.weights[3], 0)


def test_batched_principal_components_are_those_of_each_node(rng):
    X = rng.standard_normal((3, 60, 5)) * np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    X[1, :, 4] = 2.0
    B = np.stack([np.cov(x.T, ddof=0) for x in X])
    found = solve_pca(B, 5, variance_floor=np.zeros((3, 5)))
    assert_array_equal(found.rank, [5, 4, 5])
    for i in range(3):
        U, s, Vt = np.linalg.svd(X[i] - X[i].mean(axis=0))
        r = found.rank[i]
        assert_allclose(found.values[i, :r], s[:r] ** 2 / 60, rtol=SPECTRAL)
        W = found.weights[i, :, :r]
        assert_allclose(W.T @ W, np.eye(r), atol=EXACT)
        assert_allclose(np.abs(np.sum(W.T * Vt[:r], axis=1)), 1, rtol=SPECTRAL)
    assert_array_equal(found.weights[1, :, 4], 0)
