"""Held-out slowness: on graphs, along trajectories, and in searches over parameters."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probsfa import SFA, GraphSFA, HierarchicalSFA, Layer, graphs
from probsfa.metrics import delta_value, slowness
from probsfa.model_selection import TrajectorySplit
from tests.tolerances import EXACT


def labelled(rng, n=200):
    y = rng.uniform(0, 3, n)
    return np.column_stack([np.cos(y), np.sin(y), *rng.standard_normal((3, n))]), y


def held_out_delta(W, v, Y):
    """Return minus the mean of weighted squared differences over weighted variances, with loops."""
    deltas = []
    for output in Y.T:
        mean = v @ output / v.sum()
        variance = sum(v[n] * (output[n] - mean) ** 2 for n in range(len(v))) / v.sum()
        change = (
            sum(W[n, m] * (output[n] - output[m]) ** 2 for n in range(len(v)) for m in range(len(v)))
            / W.sum()
        )
        deltas.append(change / variance)
    return -np.mean(deltas)


@pytest.mark.parametrize("name", ["serial", "mixed", "sliding_window"])
def test_score_is_minus_delta_on_the_graph_of_the_held_out_rows(rng, name):
    X, y = labelled(rng)
    gsfa = GraphSFA(2, graph=name).fit(X[:120], y[:120])
    graph = graphs.reordering(y[120:])  # the reference graph of all graphs of numbers
    expected = held_out_delta(graph.to_sparse().toarray(), graph.node_weights, gsfa.transform(X[120:]))
    assert gsfa.score(X[120:], y[120:]) == pytest.approx(expected, rel=EXACT)
    assert slowness(gsfa, X[120:], y[120:]) == gsfa.score(X[120:], y[120:])
    hierarchy = HierarchicalSFA([Layer(2)], graph=name).fit(X[:120], y[:120])
    assert hierarchy.score(X[120:], y[120:]) == pytest.approx(expected, rel=1e-6)


def test_score_in_training_is_minus_the_delta_values(rng):
    X, y = labelled(rng)
    gsfa = GraphSFA(3, graph="reordering").fit(X, y)
    assert gsfa.score(X, y) == pytest.approx(-gsfa.delta_values_.mean(), rel=EXACT)


def test_slowness_uses_the_labels_of_graph_estimators(rng):
    """With the order of the rows as time, every output would look like noise."""
    X, y = labelled(rng)
    gsfa = GraphSFA(1, graph="serial").fit(X[:100], y[:100])
    assert slowness(gsfa, X[100:], y[100:]) > -0.2
    assert -delta_value(gsfa.transform(X[100:])).mean() < -1.5
    temporal = GraphSFA(1, graph="temporal").fit(X)
    assert slowness(temporal, X) == pytest.approx(temporal.score(X), rel=EXACT)


def test_score_on_a_graph_of_other_rows_is_refused(rng):
    X, y = labelled(rng)
    gsfa = GraphSFA(1, graph=graphs.serial(y)).fit(X)
    assert gsfa.score(X) == pytest.approx(-gsfa.delta_values_[0], rel=EXACT)
    with pytest.raises(ValueError, match="graph.*200.*50"):
        gsfa.score(X[:50])


def test_search_over_parameters_in_a_pipeline(rng):
    """Shrinkage is selected by held-out slowness, with the scaler in the pipeline."""
    X, y = labelled(rng, 60)
    X = np.column_stack([X, rng.standard_normal((60, 25))])
    pipeline = make_pipeline(StandardScaler(), GraphSFA(1, graph="serial"))
    grid = {"graphsfa__shrinkage": [None, 0.3], "graphsfa__graph": ["serial", "mixed"]}
    for scoring in (None, slowness):
        search = GridSearchCV(pipeline, grid, cv=3, scoring=scoring).fit(X, y)
        assert search.best_params_["graphsfa__shrinkage"] == 0.3
    sequences = HierarchicalSFA([Layer(1)]).fit(X)
    assert slowness(sequences, X) == pytest.approx(-delta_value(sequences.transform(X)).mean())


def test_segments_of_a_trajectory_are_separated_by_the_gap():
    X = np.zeros((103, 2))
    seen = []
    for train, test in TrajectorySplit(4, gap=7).split(X):
        assert (np.diff(train) == 1).all() and (np.diff(test) == 1).all()
        assert np.abs(train[:, None] - test[None]).min() == 8
        seen.extend(test)
    assert seen == list(range(103))


def test_whole_trajectories_are_held_out(rng):
    X = [rng.standard_normal((n, 2)).cumsum(axis=0) for n in (30, 40, 50, 60, 70)]
    folds = list(TrajectorySplit(2).split(X))
    assert [test.tolist() for _, test in folds] == [[0, 1], [2, 3, 4]]
    assert [train.tolist() for train, _ in folds] == [[2, 3, 4], [0, 1]]
    scores = cross_val_score(SFA(1), X, cv=TrajectorySplit(2), scoring=slowness)
    expected = [slowness(SFA(1).fit([X[i] for i in a]), [X[i] for i in b]) for a, b in folds]
    np.testing.assert_allclose(scores, expected)


def test_no_difference_across_a_missing_value(rng):
    """Two slow segments at different levels: rows that are not adjacent have no difference."""
    t = np.linspace(0, 20, 2000)
    X = np.column_stack([np.sin(t) + 30 * (t > 12), np.cos(3 * t)]) + 1e-3 * rng.standard_normal((2000, 2))
    scores = cross_val_score(SFA(1), X, cv=TrajectorySplit(5, gap=50), scoring=slowness)
    assert scores.min() > -0.01


def test_invalid_splits():
    with pytest.raises(ValueError, match=r"\bX\b.*3.*n_splits=5"):
        list(TrajectorySplit(5).split(np.zeros((3, 1))))
    with pytest.raises(ValueError, match="gap=50 leaves 0 of"):
        list(TrajectorySplit(2, gap=50).split(np.zeros((20, 1))))
    with pytest.raises(ValueError, match="gap.*got -1"):
        list(TrajectorySplit(2, gap=-1).split(np.zeros((20, 1))))
