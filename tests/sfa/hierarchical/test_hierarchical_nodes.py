"""Moments and eigenproblems of many nodes at once, compared with those of each node alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from probsfa.graphs import serial
from probsfa.graphs.moments import temporal_moments
from probsfa.graphs.training_graph import graph_moments
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


def _stream(Z, lengths, lag, block_ends):
    """Return the moments of nodes (M, N, E) from blocks of rows with the given ends; nodes in two groups."""
    M, N, E = Z.shape
    sequence_starts = np.repeat(np.cumsum([0, *lengths[:-1]]), lengths)
    has_difference = np.arange(N) - sequence_starts >= lag
    stream = NodeStream(M, E, lag)
    for a, b in zip([0, *block_ends], [*block_ends, N], strict=True):
        for nodes in (slice(0, 2), slice(2, M)):
            stream.update(nodes, Z[nodes, a:b].copy(), has_difference[a:b])
        stream.advance(has_difference[a:b])
    return stream.finish()


@pytest.mark.parametrize("lag", [1, 3])
@pytest.mark.parametrize("block_ends", [[], [1], [2, 3, 4, 20], [10, 30]])
@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_streamed_moments_equal_those_of_each_node(lag, block_ends, offset, rng):
    lengths = [17, 2, 21]
    Z = rng.standard_normal((3, 40, 4)) + offset
    found = _stream(Z, lengths, lag, block_ends)
    for i in range(3):
        expected = temporal_moments(Z[i], lengths=lengths, lag=lag)
        assert_allclose(found.mean[i], expected.mean, rtol=STREAM, atol=STREAM)
        assert_allclose(found.covariance[i], expected.covariance, rtol=STREAM, atol=STREAM)
        assert_allclose(found.change[i], expected.difference_moment, rtol=STREAM, atol=STREAM)
        assert_allclose(found.variance_floor[i], expected.variance_floor)


def test_without_a_lag_there_is_no_moment_of_differences(rng):
    stream = NodeStream(2, 3, None)
    Z = rng.standard_normal((2, 10, 3))
    stream.update(slice(0, 2), Z.copy(), np.ones(10, dtype=bool))
    stream.advance(np.ones(10, dtype=bool))
    found = stream.finish()
    assert found.change is None
    assert_allclose(found.covariance[1], np.cov(Z[1].T, ddof=0), rtol=EXACT)


def test_graph_moments_equal_those_of_each_node(rng):
    graph = serial(rng.standard_normal(30), 5)
    Z = rng.standard_normal((30, 3, 4)) + 1e3
    found = node_graph_moments(Z.copy(), graph)
    for i in range(3):
        expected = graph_moments(graph, Z[:, i])
        assert_allclose(found.mean[i], expected.mean, rtol=EXACT)
        assert_allclose(found.covariance[i], expected.covariance, rtol=EXACT, atol=EXACT)
        assert_allclose(found.change[i], expected.difference_moment, rtol=EXACT, atol=EXACT)


def test_pooled_moments_equal_those_of_nodes_as_sequences(rng):
    Z = rng.standard_normal((3, 20, 2)) + np.arange(3)[:, None, None] + 1e8
    pooled = pool_nodes(_stream(Z, [20], 1, [7]))
    expected = temporal_moments(Z.reshape(60, 2), lengths=[20, 20, 20])
    assert_allclose(pooled.mean[0], expected.mean, rtol=STREAM)
    assert_allclose(pooled.covariance[0], expected.covariance, rtol=EXACT)
    assert_allclose(pooled.change[0], expected.difference_moment, rtol=EXACT)


def _four_nodes(rng):
    """Return moments of four nodes: full rank, one constant column, a duplicate column, all constant."""
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


def test_slow_directions_equal_those_of_each_node_padded_with_zeros(rng):
    moments = _four_nodes(rng)
    found = solve_sfa(
        moments.change, moments.covariance, 4, rank_tol=None, variance_floor=moments.variance_floor
    )
    assert_array_equal(found.rank, [4, 3, 3, 0])
    for i in range(3):
        expected = slow_directions(
            moments.change[i], moments.covariance[i], variance_floor=moments.variance_floor[i]
        )
        r = expected.rank
        assert_allclose(found.values[i, :r], expected.delta_values, rtol=SPECTRAL)
        scale = np.abs(expected.weights).max(axis=1, keepdims=True) + (expected.scales[:, None] == 0)
        assert_allclose(found.weights[i, :, :r] / scale, expected.weights / scale, atol=SPECTRAL)
    assert np.isnan(found.values[1:3, 3]).all() and np.isnan(found.values[3]).all()
    assert_array_equal(found.weights[1:, :, 3], 0)
    assert_array_equal(found.weights[3], 0)


def test_principal_components_equal_those_of_each_node(rng):
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
