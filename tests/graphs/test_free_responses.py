"""Free responses: the slowest functions on a graph, against closed forms and dense eigenproblems."""

import numpy as np
import pytest
import scipy.linalg

from probsfa import graphs
from probsfa.graphs import _free_responses
from tests.sampling import parametrize
from tests.tolerances import EXACT, SPECTRAL

Y = np.random.default_rng(0).standard_normal(60)
KINDS = {
    "temporal": graphs.temporal(60),
    "temporal pieces": graphs.temporal(60, lengths=[20, 25, 15]),
    "reordering": graphs.reordering(np.round(2 * Y)),
    "window": graphs.sliding_window(Y, 4),
    "square window": graphs.sliding_window(Y, 7, mirrored=False),
    "serial": graphs.serial(Y, 6),
    "serial of different sizes": graphs.serial(np.round(2 * Y)),
    "mixed": graphs.mixed(Y, 6),
    "clustered": graphs.clustered(np.round(Y)),
    "clustered by classes": graphs.clustered(np.digitize(Y, [-1, 0, 1]), "classes"),
    "transition": graphs.transition(np.round(Y)),
    "neighbours": graphs.nearest_neighbors(np.column_stack([Y, Y**2]), 5),
    "exact": graphs.exact_label(np.column_stack([Y, Y**2]), delta_values=[0.7, 0.2]),
    "union": graphs.union([graphs.temporal(60), graphs.serial(Y, 6)]),
}


@pytest.mark.parametrize("n", [50, 1500])
def test_free_responses_of_the_temporal_graph_are_cosines(n):
    found = graphs.free_responses(graphs.temporal(n), 4)
    t, j = np.arange(n)[:, None], np.arange(1, 5)
    cosines = np.sqrt(2) * np.cos(np.pi * j * (t + 0.5) / n)
    np.testing.assert_allclose(found.delta_values, 2 * (1 - np.cos(np.pi * j / n)) * n / (n - 1), rtol=1e-6)
    np.testing.assert_allclose(
        found.values * np.sign(np.sum(found.values * cosines, axis=0)), cosines, atol=1e-6
    )


@pytest.mark.parametrize("sparse", ["dense", "inverse", "Lanczos"])
@pytest.mark.parametrize("kind", KINDS)
@parametrize("k", [1, 4, 30], quick=[4, 30])
def test_free_responses_are_the_generalized_eigenvectors(monkeypatch, kind, k, sparse):
    graph = KINDS[kind]
    if sparse != "dense":
        monkeypatch.setattr(_free_responses, "_MAX_DENSE_VERTICES", 0)
        work = {"inverse": np.inf, "Lanczos": 0}[sparse]
        monkeypatch.setattr(_free_responses, "_MAX_FACTOR_WORK", work)
    W, v = graph.to_sparse().toarray(), graph.node_weights / graph.Q
    L = np.diag(W.sum(axis=1)) - W
    expected = 2 * scipy.linalg.eigh(L, np.diag(v), eigvals_only=True)[1 : k + 1] / W.sum()
    found = graphs.free_responses(graph, k)
    np.testing.assert_allclose(found.delta_values, np.maximum(expected, 0), rtol=SPECTRAL, atol=SPECTRAL)
    U = found.values
    np.testing.assert_allclose(v @ U, 0, atol=EXACT)
    np.testing.assert_allclose(U.T @ (v[:, None] * U), np.eye(k), atol=EXACT)
    residual = 2 * L @ U / W.sum() - v[:, None] * U * found.delta_values
    np.testing.assert_allclose(residual, 0, atol=SPECTRAL * v.max())


def test_free_responses_of_groups_are_computed_from_the_groups():
    y = np.random.default_rng(1).uniform(size=200_000)
    found = graphs.free_responses(graphs.serial(y, 50), 3)
    np.testing.assert_allclose(found.delta_values, 2 * (1 - np.cos(np.pi * np.arange(1, 4) / 49)), rtol=1e-9)
    exact = graphs.free_responses(graphs.exact_label(y), 1)
    label = (y - y.mean()) / y.std()
    assert abs(np.mean(exact.values[:, 0] * label)) == pytest.approx(1, abs=EXACT)


def test_free_responses_bound_the_delta_values_of_features(rng):
    from probsfa.sfa import GraphSFA

    graph = graphs.mixed(Y, 6)
    features = GraphSFA(3, graph=graph).fit(rng.standard_normal((60, 8)))
    assert (features.delta_values_ >= graphs.free_responses(graph, 3).delta_values).all()


def test_errors():
    with pytest.raises(ValueError, match="vertices, 3; got 3"):
        graphs.free_responses(graphs.temporal(3), 3)
    with pytest.raises(ValueError, match="1 vertices"):
        graphs.free_responses(graphs.from_sparse(np.ones((3, 3)), [1, 0, 1]), 1)
