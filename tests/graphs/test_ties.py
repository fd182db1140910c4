"""Equal labels: graphs are means over all orders of the samples, and rare labels have no larger weight."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probsfa import graphs
from probsfa.graphs._labels import label_groups
from probsfa.graphs.training_graph import graph_moments
from probsfa.sfa import GraphSFA
from tests.oracles import graphs as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT, STREAM, mc_tolerance

# At most 4! 3! orders; labels occur once, twice and many times.
TIED = {
    "one pair": [3, 1, 2, 2, 5, 4],
    "pairs": [0, 1, 0, 1, 2, 2],
    "many below": [0, 0, 0, 0, 1, 2, 3],
    "many above": [9, 3, 9, 2, 9, 1, 9],
    "many between": [5, 1, 5, 2, 5, 8, 5, 9],
    "many of two": [1, 2, 1, 2, 1, 2, 2],
}
BUILDERS = {
    "reordering": graphs.reordering,
    "sliding_window": graphs.sliding_window,
    "square window": lambda y: graphs.sliding_window(y, 2, mirrored=False),
    "weighted window": lambda y: graphs.sliding_window(y, weights=[0.5, 1, 0, 2]),
    "serial": lambda y: graphs.serial(y, 4),
    "mixed": lambda y: graphs.mixed(y, 4),
}


@pytest.mark.parametrize("name", TIED)
def test_reordering_of_equal_labels_is_the_mean_over_their_orders(name):
    y = TIED[name]
    np.testing.assert_allclose(
        graphs.reordering(y).to_sparse().toarray(), oracle.reordering(y), rtol=EXACT, atol=EXACT
    )


@pytest.mark.parametrize("shape", [None, "any"])
@pytest.mark.parametrize("mirrored", [True, False])
@parametrize("d", [1, 2, 4, 5], quick=[2, 5])
@pytest.mark.parametrize("name", TIED)
def test_window_over_equal_labels_is_the_mean_over_their_orders(rng, name, d, mirrored, shape):
    y = TIED[name]
    weights = None if shape is None else rng.random(d + 1)
    W = oracle.sliding_window(y, d, mirrored, None if shape is None else weights / weights.max())
    graph = graphs.sliding_window(y, d, mirrored, weights=weights)
    np.testing.assert_allclose(graph.to_sparse().toarray(), W, rtol=EXACT, atol=EXACT)
    X = rng.standard_normal((len(y), 3))
    np.testing.assert_allclose(graph.laplacian_matmul(X), np.diag(W.sum(axis=1)) @ X - W @ X, atol=EXACT)
    assert graph.is_consistent() == mirrored or np.ptp(W.sum(axis=1)) < EXACT


@settings(deadline=None, max_examples=20)
@pytest.mark.parametrize("kind", BUILDERS)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(10, 60))
def test_weights_do_not_depend_on_the_order_of_the_rows(kind, seed, n):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.round(3 * rng.standard_normal(n - 4)), [20, 21, 22, 23]])
    order = rng.permutation(n)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* samples have more than")
        warnings.filterwarnings("ignore", "The serial graph of . groups")
        graph, shuffled = BUILDERS[kind](y), BUILDERS[kind](y[order])
    W, S = graph.to_sparse().toarray(), shuffled.to_sparse().toarray()
    np.testing.assert_allclose(S, W[np.ix_(order, order)], rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(shuffled.node_weights, graph.node_weights[order], rtol=EXACT)
    np.testing.assert_allclose(shuffled.degrees, graph.degrees[order], rtol=EXACT)
    X = rng.standard_normal((n, 2))
    product = graph.laplacian_matmul(X)[order]
    np.testing.assert_allclose(
        shuffled.laplacian_matmul(X[order]), product, atol=STREAM * max(1, W.max()) * n * 10
    )


@pytest.mark.parametrize("graph", ["serial", "mixed", "sliding_window", "reordering"])
def test_features_of_tied_labels_do_not_depend_on_the_order_of_the_rows(rng, graph):
    """A label with most of its mass at one value, in rows that another column has sorted."""
    X = rng.standard_normal((400, 3))
    X = X[np.argsort(X[:, 1])]
    y = np.maximum(X[:, 0] - 0.5, 0)
    order = rng.permutation(400)
    feature = GraphSFA(1, graph=graph).fit(X, y).transform(X)[:, 0]
    shuffled = GraphSFA(1, graph=graph).fit(X[order], y[order]).transform(X)[:, 0]
    np.testing.assert_allclose(feature, shuffled, atol=1e-8)
    assert abs(np.corrcoef(feature, X[:, 0])[0, 1]) > 0.9


def test_walks_on_tied_windows_have_their_probabilities(seed):
    y = np.array([1, 2, 2, 2, 3, 3, 4, 5, 6])
    for graph in (graphs.sliding_window(y, 2), graphs.reordering(y).repaired()):
        chain = graph.sample_markov_chain(40_000, random_state=seed)
        visits = np.bincount(chain[:-1], minlength=9)
        steps = np.zeros((9, 9))
        np.add.at(steps, (chain[:-1], chain[1:]), 1)
        P = graph.to_sparse().toarray()
        P /= P.sum(axis=1, keepdims=True)
        for n, row in enumerate(P):
            for target, p in enumerate(row):
                assert abs(steps[n, target] / visits[n] - p) <= mc_tolerance(p * (1 - p), visits[n]) + EXACT


def test_energy_of_tied_windows_in_blocks(monkeypatch, rng):
    from probsfa.graphs import _window, moments

    y, X = np.round(2 * rng.standard_normal(100)), rng.standard_normal((100, 3))
    for module in (moments, _window):
        monkeypatch.setattr(module, "block_rows", lambda n_features: 7)
    for graph in (graphs.reordering(y), graphs.sliding_window(y, 5), graphs.sliding_window(y, 40)):
        _, _, A = oracle.moments(graph.to_sparse().toarray(), graph.node_weights, X)
        np.testing.assert_allclose(graph_moments(graph, X).difference_moment, A, rtol=STREAM * 100)


# Groups -------------------------------------------------------------------------------------------------


@given(
    y=st.lists(st.integers(0, 30), min_size=2, max_size=200).filter(lambda y: len(set(y)) > 1),
    n_groups=st.integers(2, 60),
    balanced=st.booleans(),
)
def test_equal_labels_share_a_group_and_groups_keep_the_order(y, n_groups, balanced):
    y = np.array(y)
    groups = label_groups(y, n_groups, balanced=balanced)
    order = np.argsort(y, kind="stable")
    steps = np.diff(groups[order])
    assert ((steps == 0) | (steps == 1)).all()
    assert (steps[np.diff(y[order]) == 0] == 0).all()
    assert 2 <= groups.max() + 1 <= n_groups and groups.min() == 0
    if balanced and groups.max() > 1:
        assert np.bincount(groups).min() >= len(y) / (2 * n_groups)


def test_groups_of_different_labels_differ_by_one_at_most(rng):
    for n, n_groups in [(10, 3), (100, 7), (57, 57), (50, 49)]:
        y = rng.permutation(n)
        groups = label_groups(y, n_groups)
        assert (np.diff(groups[np.argsort(y)]) >= 0).all()
        assert np.ptp(np.bincount(groups)) <= 1 and groups.max() == n_groups - 1


@pytest.mark.filterwarnings("ignore:The serial graph of 3 groups")
@pytest.mark.parametrize("builder", [graphs.serial, graphs.mixed])
@pytest.mark.parametrize("seed", range(5))
def test_graphs_of_negated_labels_are_the_same(builder, seed):
    """If boundaries of groups were rounded towards smaller labels, -y and y would have different groups."""
    rng = np.random.default_rng(seed)
    n, n_groups = int(rng.integers(10, 90)), int(rng.integers(4, 9))
    for y in (rng.standard_normal(n), rng.poisson(3, n).astype(float), np.arange(2.0 * n)):
        mirrored = builder(-y, n_groups)
        np.testing.assert_array_equal(
            mirrored.to_sparse().toarray(), builder(y, n_groups).to_sparse().toarray()
        )
        np.testing.assert_array_equal(mirrored.node_weights, builder(y, n_groups).node_weights)


def test_a_small_group_is_merged_with_the_smaller_adjacent_group():
    y = np.repeat([0.0, 1.0, 2.0, 3.0], [30, 20, 2, 25])
    np.testing.assert_array_equal(label_groups(y, 4), np.repeat([0, 1, 2], [30, 22, 25]))


def test_rare_labels_are_merged_and_weigh_no_more_than_ten_times_the_mean(rng):
    y = np.concatenate([rng.poisson(2, 500), [12, 13, 17]])
    for builder in (graphs.serial, graphs.mixed):
        graph = builder(y)
        assert graph.node_weights.max() < 10 * graph.node_weights.mean()
        with pytest.warns(UserWarning, match="10 times"):
            alone = builder(y, balanced=False)
        assert alone.node_weights.max() > 40 * alone.node_weights.mean()


@pytest.mark.parametrize("graph", ["serial", "mixed"])
def test_rare_labels_cost_little_on_new_data(graph):
    """Held-out correlation with the rate of counts; a label that occurs once is not a group."""
    scores = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        rate = rng.standard_normal(2000)
        y = rng.poisson(np.exp(0.5 + 0.6 * rate))
        X = np.column_stack([rate + 0.3 * rng.standard_normal(2000), rng.standard_normal((2000, 20))])
        feature = GraphSFA(1, graph=graph).fit(X[:500], y[:500]).transform(X[500:])[:, 0]
        scores.append(abs(np.corrcoef(feature, rate[500:])[0, 1]))
    assert np.mean(scores) > 0.89


def test_a_rare_class_that_weighs_much_is_reported():
    y = [0] * 60 + [1]
    with pytest.warns(UserWarning, match="1 of 61"):
        graphs.clustered(y, weighting="classes")
    assert graphs.clustered(y).node_weights.max() == 1
