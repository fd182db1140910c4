"""The ring graph: its definition, its sine and cosine, equal angles, and the order of rows."""

from itertools import permutations

import numpy as np
import pytest

from probsfa import graphs
from probsfa.graphs.training_graph import graph_moments
from probsfa.sfa import GraphSFA
from tests.tolerances import EXACT, SPECTRAL


def window(n, d):
    """Weight 1 to the d next on either side, around the circle."""
    W = np.zeros((n, n))
    for i in range(n):
        for k in range(-d, d + 1):
            W[i, (i + k) % n] += 1
    return W


def test_equals_its_definition(rng):
    y = rng.uniform(-10, 10, 40)
    graph = graphs.ring(y, period=3.0, half_width=4)
    order = np.argsort(y % 3.0)
    W = graph.to_sparse().toarray()
    np.testing.assert_array_equal(W[np.ix_(order, order)], window(40, 4))
    X = rng.standard_normal((40, 3))
    np.testing.assert_allclose(graph.laplacian_matmul(X), np.diag(W.sum(1)) @ X - W @ X, atol=EXACT)
    assert graph.is_consistent()


def test_equal_angles_get_the_mean_over_all_their_orders(rng):
    y = np.array([0.0, 1, 1, 1, 2, 3, 3, 4, 5, 360, 361])
    graph = graphs.ring(y, period=360, half_width=2)
    ties = np.array([0, 2, 2, 2, 4, 5, 5, 7, 8, 0, 2])
    order = np.argsort(y % 360, kind="stable")
    W = window(11, 2)
    groups = ties[order]
    orders = [
        [*zero, *three_of_one, *two, *three, *rest]
        for zero in permutations(np.flatnonzero(groups == 0))
        for three_of_one in permutations(np.flatnonzero(groups == 2))
        for two in [np.flatnonzero(groups == 4)]
        for three in permutations(np.flatnonzero(groups == 5))
        for rest in [np.flatnonzero(groups > 5)]
    ]
    mean = np.mean([W[np.ix_(each, each)] for each in orders], axis=0)
    expected = np.empty_like(mean)
    expected[np.ix_(order, order)] = mean
    np.testing.assert_allclose(graph.to_sparse().toarray(), expected, atol=EXACT)
    X = rng.standard_normal((11, 2))
    laplacian = np.diag(expected.sum(1)) - expected
    np.testing.assert_allclose(graph.laplacian_matmul(X), laplacian @ X, atol=EXACT)
    np.testing.assert_allclose(
        graph_moments(graph, X).difference_moment, 2 / expected.sum() * X.T @ laplacian @ X, atol=EXACT
    )


def test_does_not_depend_on_the_order_of_rows(rng):
    y = rng.integers(0, 12, 200).astype(float)
    X = rng.standard_normal((200, 3))
    shuffled = rng.permutation(200)
    first = graph_moments(graphs.ring(y, period=12), X)
    second = graph_moments(graphs.ring(y[shuffled], period=12), X[shuffled])
    np.testing.assert_allclose(first.difference_moment, second.difference_moment, atol=EXACT)


def test_slow_features_are_sine_and_cosine(rng):
    angle = rng.uniform(0, 2 * np.pi, 500)
    X = np.column_stack([np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)])
    gsfa = GraphSFA(2, graph="ring").fit(X @ rng.standard_normal((4, 4)), angle)
    design = np.column_stack([np.ones(500), np.cos(angle), np.sin(angle)])
    Y = GraphSFA(2, graph="ring").fit(X, angle).transform(X)
    residual = Y - design @ np.linalg.lstsq(design, Y, rcond=None)[0]
    assert residual.std() < 0.1
    assert gsfa.delta_values_[1] < 2 * gsfa.delta_values_[0]


@pytest.mark.parametrize("angles", [[0.0, 1, 2, 3, 4, 5], [0.0, 0, 0, 1, 2, 3, 4]])
def test_markov_chain_visits_all_samples_equally_often(angles, rng):
    graph = graphs.ring(angles, period=6.0, half_width=1)
    n = len(angles)
    chain = graph.sample_markov_chain(20_000, random_state=0)
    np.testing.assert_allclose(np.bincount(chain, minlength=n) / 20_000, 1 / n, atol=0.02)
    assert len(np.unique(graph.component_labels())) == 1


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="three samples"):
        graphs.ring([0.0, 1.0])
    with pytest.raises(ValueError, match="half_width.*got 3"):
        graphs.ring(np.arange(5.0), half_width=3)
    with pytest.raises(ValueError, match="one position"):
        graphs.ring([0.0, 6.0, 12.0], period=3.0)
    with pytest.raises(ValueError, match="period.*got -1"):
        graphs.ring(np.arange(5.0), period=-1)


def test_spectrum_of_the_circulant(rng):
    """Delta values of the eigenvectors of a circulant matrix have a closed form."""
    n, d = 30, 3
    angles = np.arange(n) * 2 * np.pi / n
    X = np.column_stack([np.cos(angles), np.sin(angles), np.cos(2 * angles)])
    gsfa = GraphSFA(graph=graphs.ring(angles, half_width=d)).fit(X)
    steps = np.arange(-d, d + 1)
    expected = [2 * (1 - np.cos(2 * np.pi * k / n * steps).mean()) for k in (1, 1, 2)]
    np.testing.assert_allclose(gsfa.delta_values_, expected, rtol=SPECTRAL)
