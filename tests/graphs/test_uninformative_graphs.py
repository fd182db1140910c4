"""Graphs without information cause an error or a warning: isolated vertices, one class, missing labels."""

import warnings

import numpy as np
import pandas as pd
import pytest

from probsfa import graphs
from probsfa.sfa import GraphSFA


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 3))


def test_a_graph_of_isolated_vertices_is_refused(X):
    loops = graphs.from_sparse(np.eye(30))
    for graph in (loops, lambda X, y: loops, graphs.FromSparse(np.eye(30))):
        with pytest.raises(ValueError, match="no edge"):
            GraphSFA(graph=graph).fit(X)


def test_one_sample_a_class_is_refused(X):
    with pytest.raises(ValueError, match="no edge.*class"):
        GraphSFA(graph="clustered").fit(X, np.arange(30))
    with pytest.raises(ValueError, match="no edge"):
        GraphSFA(graph="clustered").fit(X, [f"name {i}" for i in range(30)])


def test_most_samples_alone_in_their_class_are_reported(X):
    y = np.append(np.arange(25), [0, 0, 1, 1, 2])
    with pytest.warns(UserWarning, match="22 of 30"):
        GraphSFA(graph="clustered").fit(X, y)
    isolated = graphs.from_sparse(np.kron(np.diag([1, 0, 0, 0, 0]), np.ones((6, 6))))
    with pytest.warns(UserWarning, match="24 of 30"):
        GraphSFA(graph=isolated).fit(X)
    # With degrees as weights, samples without edges have weight zero.
    by_degree = graphs.from_sparse(isolated.to_sparse(), "degree")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The .* rows have rank")
        GraphSFA(graph=by_degree).fit(X)


@pytest.mark.parametrize("graph", ["clustered", "serial", "mixed", "sliding_window", "reordering"])
def test_one_class_is_refused(X, graph):
    with pytest.raises(ValueError, match="y has o"):
        GraphSFA(graph=graph).fit(X, np.zeros(30, dtype=int))


def test_numbers_used_as_classes_are_reported(X, rng):
    y = np.round(rng.standard_normal(30), 1)
    y[:2] = y[2]
    with pytest.warns(UserWarning, match="30 samples.*class"):
        graphs.clustered(y)
    graphs.clustered(np.round(y))  # few values: classes


def test_serial_graphs_of_too_few_groups_are_reported(rng):
    """The delta value of the label itself, by the definition: no less than the 2 of noise."""
    for n_groups in (2, 3):
        y = np.repeat(np.arange(n_groups), 5)
        with pytest.warns(UserWarning, match=f"graph.*{n_groups}"):
            graph = graphs.serial(y)
        W, v = graph.to_sparse().toarray(), graph.node_weights
        label = y - np.average(y, weights=v)
        change = np.sum(W * (label[:, None] - label) ** 2) / W.sum()
        assert change / np.average(label**2, weights=v) >= 2 - 1e-12
    assert graphs.free_responses(graphs.serial(np.arange(20), 4), 1).delta_values[0] < 1 + 1e-9


@pytest.mark.parametrize("graph", ["clustered", "serial", "mixed", "sliding_window", "reordering"])
@pytest.mark.parametrize(
    "absent", [np.nan, None, pd.NA, pd.NaT], ids=["NaN", "None", "pandas.NA", "pandas.NaT"]
)
def test_missing_labels_raise_an_error_with_remedies(X, graph, absent):
    y = pd.Series([*range(5)] * 6, dtype=object)
    y[7] = absent
    message = r"1.*30.*missing.*y\[7\].*SemiSupervised"
    for labels in (y, y.to_numpy()):
        with pytest.raises(ValueError, match=message):
            GraphSFA(graph=graph).fit(X, labels)


def test_nullable_columns_of_pandas_are_labels(X):
    y = pd.Series([*range(5)] * 6, dtype="Int64")
    found = GraphSFA(graph="clustered").fit(X, y).delta_values_
    np.testing.assert_array_equal(found, GraphSFA(graph="clustered").fit(X, y.to_numpy(int)).delta_values_)
    y[3] = pd.NA
    with pytest.raises(ValueError, match=r"1.*30.*missing.*y\[3\]"):
        GraphSFA(graph="serial").fit(X, y)


def test_minus_one_among_class_numbers_is_reported(X):
    y = np.array([0, 1, 2, -1, -1] * 6)
    with pytest.warns(UserWarning, match="-1.*0.*missing=-1"):
        GraphSFA(graph="clustered").fit(X, y)
    GraphSFA(graph="clustered").fit(X, np.where(y == 0, -1, 1))  # the two classes -1 and 1


def test_too_few_labels_for_a_semi_supervised_graph_are_reported(X):
    y = np.full(30, np.nan)
    y[3] = 1
    with pytest.raises(ValueError, match=r"\by\b.*1.*missing"):
        GraphSFA(graph=graphs.SemiSupervised("serial")).fit(X, y)
    with pytest.raises(ValueError, match="unlabelled.*got 'serial'"):
        GraphSFA(graph=graphs.SemiSupervised(unlabelled="serial")).fit(X, np.arange(30) // 3)
    with pytest.raises(ValueError, match="weight.*0"):
        GraphSFA(graph=graphs.SemiSupervised(weight=0)).fit(X, np.arange(30) // 3)
