"""Exact label learning: the slowest functions of the graph are the labels, with given delta values."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.linear_model import LinearRegression

from probsfa import graphs
from probsfa.expansions import Polynomial
from probsfa.graphs.training_graph import graph_moments
from probsfa.sfa import GraphSFA
from tests.oracles import graphs as oracle
from tests.oracles import sfa as sfa_oracle
from tests.tolerances import EXACT, SPECTRAL


def dense_responses(graph):
    """All functions on a graph, slowest first, from its matrices: L y = lambda V y."""
    W, v = graph.to_sparse().toarray(), graph.node_weights
    p = v / v.sum()
    # This term makes the constant function, which is not a response, the fastest.
    constant = 5 * W.sum() * np.outer(p, p)
    values, functions = scipy.linalg.eigh(np.diag(W.sum(axis=1)) - W + constant, np.diag(p))
    return 2 * values[:-1] / W.sum(), functions[:, :-1]


def gram_schmidt(Y, v):
    """Labels centred, decorrelated one after the other, of unit variance under the weights."""
    p, done = v / v.sum(), []
    for y in Y.T:
        y = y - p @ y
        for other in done:
            y = y - other * np.sum(p * other * y)
        done.append(y / np.sqrt(p @ y**2))
    return np.column_stack(done)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("deltas", [[0.3], [0.0], [0.2, 0.9, 1.7], [0.5, 0.4]])
def test_first_free_responses_are_the_labels(rng, deltas, weighted):
    n, k = 25, len(deltas)
    Y, v = rng.standard_normal((n, k)) ** 3, rng.uniform(0.2, 2, n) if weighted else np.ones(n)
    graph = graphs.exact_label(Y, delta_values=deltas, node_weights=v if weighted else None)
    np.testing.assert_allclose(graph.node_weights, v)
    assert graph.is_consistent()
    found, functions = dense_responses(graph)
    np.testing.assert_allclose(found, [*sorted(deltas), *[2] * (n - 1 - k)], atol=EXACT)
    labels = gram_schmidt(Y, v)
    for delta, label in zip(deltas, labels.T, strict=True):
        same = functions[:, sorted(deltas).index(delta)]
        np.testing.assert_allclose(same * np.sign(same @ label), label, atol=SPECTRAL)
    np.testing.assert_allclose(graph.responses, labels, atol=EXACT)
    X = rng.standard_normal((n, 3))
    W = graph.to_sparse().toarray()
    np.testing.assert_allclose(graph.laplacian_matmul(X), np.diag(W.sum(axis=1)) @ X - W @ X, atol=EXACT)
    _, B, A = oracle.moments(W, v, X)
    moments = graph_moments(graph, X + 1e6)
    np.testing.assert_allclose(moments.difference_moment, A, rtol=1e-8)
    np.testing.assert_allclose(moments.covariance, B, rtol=1e-8)


def test_default_delta_values_are_evenly_spaced(rng):
    np.testing.assert_allclose(graphs.exact_label(rng.random((9, 3))).delta_values, [0.5, 1.0, 1.5])
    assert graphs.exact_label(rng.random(9)).delta_values == [1.0]


def test_responses_are_orthogonalized_powers_of_the_label(rng):
    y = rng.standard_normal(30)
    graph = graphs.exact_label(y, degree=4)
    np.testing.assert_allclose(
        graph.responses, gram_schmidt(y[:, None] ** [1, 2, 3, 4], np.ones(30)), atol=1e-8
    )
    # Functions of three distinct labels are linear combinations of a constant and two others.
    few = graphs.exact_label(np.arange(30) % 3, degree=9)
    assert few.responses.shape == (30, 2)


@pytest.mark.parametrize("n_labels", [1, 2, 4])
def test_non_negative_weights_keep_the_functions(rng, n_labels):
    Y = rng.standard_normal((40, n_labels)) ** 3
    free, kept = graphs.exact_label(Y), graphs.exact_label(Y, nonnegative=True)
    assert free.to_sparse().min() < 0
    assert kept.to_sparse().min() > -1e-12
    assert np.sort(kept.to_sparse().toarray(), axis=None)[0] < 1e-12  # and not larger than necessary
    np.testing.assert_array_equal(free.responses, kept.responses)
    np.testing.assert_allclose(np.ptp((2 - kept.delta_values) / (2 - free.delta_values)), 0, atol=EXACT)
    assert kept.is_consistent()


def test_chain_of_a_graph_with_non_negative_weights(seed):
    y = np.array([0.0, 0.0, 1.0, 3.0, 3.5, 4.0])
    graph = graphs.exact_label(y, nonnegative=True)
    chain = graph.sample_markov_chain(20_000, random_state=seed)
    steps = np.zeros((6, 6))
    np.add.at(steps, (chain[:-1], chain[1:]), 1)
    P = graph.to_sparse().toarray()
    error = steps / steps.sum(axis=1, keepdims=True) - P / P.sum(axis=1, keepdims=True)
    assert np.abs(error).max() < 6 * 0.5 / np.sqrt(20_000 / 6 / 2)
    with pytest.raises(ValueError, match="nonnegative=True"):
        graphs.exact_label([0.0, 0.0, 1.0, 9.0], delta_values=[0]).sample_markov_chain(5)


def test_one_label_makes_gsfa_linear_regression(rng):
    X = rng.standard_normal((80, 5))
    y = np.exp(X[:, 0]) + 0.5 * rng.standard_normal(80)
    gsfa = GraphSFA(1, graph=graphs.ExactLabel(delta_values=[0.4])).fit(X, y)
    regression = LinearRegression().fit(X, y)
    assert abs(np.corrcoef(gsfa.transform(X)[:, 0], regression.predict(X))[0, 1]) == pytest.approx(
        1, abs=EXACT
    )
    assert gsfa.delta_values_[0] == pytest.approx(2 * (1 - 0.8 * regression.score(X, y)), abs=EXACT)


def test_indicators_of_classes_make_the_clustered_graph(rng):
    y = rng.permutation(np.repeat([0, 1, 2, 3], [9, 5, 4, 6]))
    indicators = y[:, None] == [0, 1, 2]
    exact = graphs.exact_label(indicators.astype(float), delta_values=[0, 0, 0])
    np.testing.assert_allclose(
        exact.to_sparse().toarray(), graphs.clustered(y).to_sparse().toarray(), atol=EXACT
    )
    assert len(np.unique(exact.component_labels())) == 4


def test_one_feature_predicts_a_skewed_label_better_than_those_of_rank_graphs(rng):
    """RMSE of linear regression on one feature, against the best of the graphs of ranks."""
    t = rng.gamma(1.0, 1.0, 1000)
    X = np.column_stack([np.exp(-t), np.sin(t), np.sqrt(t), *rng.standard_normal((3, 1000))])
    X += 0.1 * rng.standard_normal(X.shape)

    def error(graph):
        features = GraphSFA(1, graph=graph, expansion=Polynomial(2)).fit(X[:500], t[:500]).transform(X)
        regression = LinearRegression().fit(features[:500], t[:500])
        return np.sqrt(np.mean((regression.predict(features[500:]) - t[500:]) ** 2))

    exact = error(graphs.ExactLabel())
    assert exact < 0.5 * min(error(graph) for graph in ("serial", "mixed", "sliding_window", "reordering"))


def test_features_by_definition(rng):
    X, Y = rng.standard_normal((30, 4)), rng.standard_normal((30, 2))
    graph = graphs.exact_label(Y, delta_values=[0.3, 0.8])
    _, B, A = oracle.moments(graph.to_sparse().toarray(), np.ones(30), X)
    deltas, _ = sfa_oracle.eigenproblem(A, B)
    np.testing.assert_allclose(GraphSFA(graph=graph).fit(X).delta_values_, deltas, rtol=SPECTRAL)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graphs.exact_label([1.0, 1.0, 1.0]), r"\by\b.*1.0"),
        (lambda: graphs.exact_label([[1, 2], [2, 4], [0, 0]]), "Label 1"),
        (lambda: graphs.exact_label([1, np.nan]), "1.*2.*missing"),
        (lambda: graphs.exact_label([1, 2, 4], delta_values=[2]), "1 numbers.*0.*2"),
        (lambda: graphs.exact_label([1, 2, 4], delta_values=[0.1, 0.2]), "1 numbers.*0.*2"),
        (lambda: graphs.exact_label([1, 2, 4], degree=0), "degree.*1"),
        (
            lambda: graphs.exact_label([1, 2, 4], node_weights="degree"),
            "node_weights",
        ),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
