"""Builders of graphs: functions with stored settings, as estimators of scikit-learn store parameters."""

import inspect
import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import Pipeline

from probsfa import graphs
from probsfa.graphs._named import NAMED
from probsfa.sfa import GraphSFA, GraphSFARegressor, HierarchicalSFA, Layer
from tests.tolerances import EXACT

N = 24
Y = np.repeat(np.arange(8), 3)
X = np.random.default_rng(0).standard_normal((N, 3)) + Y[:, None]
PARTIAL = np.where(np.arange(N) % 4, Y // 4, -1)

BUILDERS = [
    (graphs.Serial(5), lambda: graphs.serial(Y, 5)),
    (graphs.Serial(5, balanced=False), lambda: graphs.serial(Y, 5, balanced=False)),
    (graphs.Mixed(4), lambda: graphs.mixed(Y, 4)),
    (
        graphs.SlidingWindow(2, False, weights=[1, 2, 3]),
        lambda: graphs.sliding_window(Y, 2, False, weights=[1, 2, 3]),
    ),
    (graphs.Ring(8, 3), lambda: graphs.ring(Y, 8, 3)),
    (graphs.Reordering(), lambda: graphs.reordering(Y)),
    (graphs.Clustered("classes"), lambda: graphs.clustered(Y, "classes")),
    (
        graphs.ExactLabel(2, delta_values=[0.1, 1], nonnegative=True),
        lambda: graphs.exact_label(Y, degree=2, delta_values=[0.1, 1], nonnegative=True),
    ),
    (graphs.MultiLabel("mixed"), lambda: graphs.multi_label(Y, graph="mixed")),
    (
        graphs.SemiSupervised(missing=3, weight=0.5),
        lambda: graphs.semi_supervised(X, Y, missing=3, weight=0.5),
    ),
    (graphs.Temporal(2), lambda: graphs.temporal(N, 2)),
    (graphs.Transition(2), lambda: graphs.transition(Y, 2)),
    (
        graphs.NearestNeighbors(4, node_weights=None),
        lambda: graphs.nearest_neighbors(X, 4, node_weights=None),
    ),
    (graphs.HeatKernel(1.5), lambda: graphs.heat_kernel(X, 1.5)),
    (graphs.FromSparse(np.eye(N)[::-1]), lambda: graphs.from_sparse(np.eye(N)[::-1])),
    (
        graphs.Union([graphs.Temporal(), "clustered"], weights=[1, 3]),
        lambda: graphs.union([graphs.temporal(N), graphs.clustered(Y)], [1, 3]),
    ),
]
IDS = [type(builder).__name__ for builder, _ in BUILDERS]


@pytest.mark.parametrize(("builder", "function"), BUILDERS, ids=IDS)
def test_builders_build_what_the_functions_return(builder, function):
    expected = function()
    for same in (builder, clone(builder), pickle.loads(pickle.dumps(builder))):
        for built in (same.build(X, Y), same(X, Y)):
            np.testing.assert_allclose(
                built.to_sparse().toarray(), expected.to_sparse().toarray(), rtol=EXACT
            )
            np.testing.assert_allclose(built.node_weights, expected.node_weights, rtol=EXACT)


@pytest.mark.parametrize(("builder", "function"), BUILDERS, ids=IDS)
def test_builders_report_their_requirements(builder, function):
    if builder.needs_labels:
        with pytest.raises(ValueError, match="requires y"):
            builder.build(X)
    if not builder.needs_rows:
        builder.build(np.zeros((N, 0)), Y)
    pieces = builder.build(X, Y, lengths=[12, 12]).to_sparse()[:12, 12:]
    assert not builder.in_time or isinstance(builder, (graphs.Union, graphs.Transition)) or pieces.nnz == 0
    assert repr(builder).startswith(type(builder).__name__ + "(")


def test_every_graph_function_has_its_builder():
    functions = {
        name
        for name, value in vars(graphs).items()
        if inspect.isfunction(value) and not name.startswith("_") and name != "free_responses"
    }
    camel = {"".join(part.title() for part in name.split("_")) for name in functions}
    assert camel == {name for name in vars(graphs) if name[0].isupper()} - {
        "FreeResponses",
        "GraphMoments",
        "Moments",
        "TrainingGraph",
    }


def test_grid_search_over_graph_settings_in_a_pipeline(rng):
    y = rng.uniform(0, 1, 90)
    X = np.column_stack([np.cos(3 * y), np.sin(3 * y), y]) + 0.1 * rng.standard_normal((90, 3))
    steps = [("pca", PCA()), ("slow", GraphSFA(1, graph=graphs.Serial())), ("line", LinearRegression())]
    grid = {
        "slow__graph": [graphs.Serial(4), graphs.SlidingWindow(half_width=3), "reordering"],
    }
    search = GridSearchCV(Pipeline(steps), grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    search = GridSearchCV(Pipeline(steps), {"slow__graph__n_groups": [4, 20]}, cv=3, error_score="raise").fit(
        X, y
    )
    assert search.best_estimator_.get_params()["slow__graph__n_groups"] in (4, 20)
    fitted = search.best_estimator_["slow"].graph_
    assert len(fitted.sizes) == search.best_params_["slow__graph__n_groups"]
    regressor = (
        GraphSFARegressor(1, graph=graphs.Mixed(), expansion=None).set_params(graph__n_groups=7).fit(X, y)
    )
    options = {"shrinkage": regressor.gsfa_.shrinkage_, "shrinkage_target": regressor.gsfa_.shrinkage_target}
    by_graph = GraphSFA(1, graph=graphs.mixed(y, 7), **options).fit(X)
    np.testing.assert_allclose(regressor.gsfa_.delta_values_, by_graph.delta_values_, rtol=EXACT)


def test_estimators_accept_builders(rng):
    by_name = GraphSFA(2, graph="serial").fit(X, Y)
    by_builder = GraphSFA(2, graph=graphs.Serial()).fit(X, Y)
    np.testing.assert_array_equal(by_name.transform(X), by_builder.transform(X))
    with pytest.raises(ValueError, match=r"Serial\(\).*y"):
        GraphSFA(graph=graphs.Serial()).fit(X)
    assert clone(by_builder).graph is not by_builder.graph
    layers = [Layer(2)]
    hierarchy = HierarchicalSFA(layers, graph=graphs.Serial()).fit(X, Y)
    expected = HierarchicalSFA(layers, graph="serial").fit(X, Y)
    np.testing.assert_array_equal(hierarchy.transform(X), expected.transform(X))


def test_temporal_builder_has_no_edges_between_sequences(rng):
    X = rng.standard_normal((40, 3)).cumsum(axis=0)
    expected = GraphSFA(graph=graphs.temporal(40, 2, lengths=[15, 25])).fit(X)
    found = GraphSFA(graph=graphs.Temporal(2)).fit([X[:15], X[15:]])
    np.testing.assert_allclose(found.delta_values_, expected.delta_values_, rtol=EXACT)
    hierarchy = HierarchicalSFA([Layer(1)], graph=graphs.Temporal(2)).fit([X[:15], X[15:]])
    same = HierarchicalSFA([Layer(1)], graph=graphs.temporal(40, 2, lengths=[15, 25])).fit(X)
    np.testing.assert_allclose(hierarchy.delta_values_, same.delta_values_, rtol=EXACT)


# Several labels, and labels of a subset ---------------------------------------------------------------------


def test_multi_label_is_the_weighted_sum_of_the_graphs_of_its_columns(rng):
    Y = np.column_stack([rng.permutation(12), rng.integers(0, 3, 12)])
    one, two = graphs.sliding_window(Y[:, 0]), graphs.clustered(Y[:, 1])
    found = graphs.multi_label(Y, graph=["sliding_window", graphs.Clustered()], weights=[2, 0.5])
    expected = 2 * one.to_sparse() / one.R + 0.5 * two.to_sparse() / two.R
    np.testing.assert_allclose(found.to_sparse().toarray(), expected.toarray(), rtol=EXACT)
    np.testing.assert_allclose(
        found.node_weights, 2 * one.node_weights / one.Q + 0.5 * two.node_weights / two.Q, rtol=EXACT
    )
    assert found.is_consistent()
    frame = pd.DataFrame({"number": Y[:, 0], "class": np.array(["a", "b", "c"])[Y[:, 1]]})
    mixed = graphs.multi_label(frame, graph=["sliding_window", "clustered"], weights=[2, 0.5])
    np.testing.assert_allclose(mixed.to_sparse().toarray(), expected.toarray(), rtol=EXACT)


def test_multi_label_leaves_out_samples_without_a_label(rng):
    Y = np.column_stack([rng.permutation(12).astype(float), rng.permutation(12)])
    Y[[2, 7], 0] = np.nan
    labelled_rows = np.setdiff1d(np.arange(12), [2, 7])
    found = graphs.multi_label(Y, graph="reordering").to_sparse().toarray()
    one, two = graphs.reordering(Y[labelled_rows, 0]), graphs.reordering(Y[:, 1])
    expected = two.to_sparse().toarray() / two.R
    expected[np.ix_(labelled_rows, labelled_rows)] += one.to_sparse().toarray() / one.R
    np.testing.assert_allclose(found, expected, rtol=EXACT)


def test_multi_label_in_an_estimator(rng):
    Y = rng.standard_normal((200, 2))
    X = np.column_stack([Y, rng.standard_normal((200, 3))]) @ rng.standard_normal((5, 5))
    gsfa = GraphSFA(2, graph=graphs.MultiLabel(graphs.SlidingWindow())).fit(X, Y)
    for label in Y.T:
        fitted = LinearRegression().fit(gsfa.transform(X), label)
        assert fitted.score(gsfa.transform(X), label) > 0.95


def test_semi_supervised_is_the_sum_of_labels_on_some_and_neighbours_on_all(rng):
    X, y = rng.standard_normal((15, 2)), ["a", "b", None] * 5
    labelled = [i for i in range(15) if y[i]]
    one, two = graphs.clustered([y[i] for i in labelled]), graphs.nearest_neighbors(X, 3)
    expected = 0.7 * two.to_sparse().toarray() / two.R
    expected[np.ix_(labelled, labelled)] += one.to_sparse().toarray() / one.R
    found = graphs.semi_supervised(X, y, unlabelled=graphs.NearestNeighbors(3), weight=0.7)
    np.testing.assert_allclose(found.to_sparse().toarray(), expected, rtol=EXACT)
    assert found.is_consistent()
    missing_as = [
        (np.array(["a", "b", np.nan] * 5, dtype=object), None),
        (pd.array(["a", "b", pd.NA] * 5), None),
        (["a", "b", "none"] * 5, "none"),
        ([0, 1, -1] * 5, -1),
        ([0.0, 1.0, np.nan] * 5, None),
    ]
    for labels, missing in missing_as:
        same = graphs.semi_supervised(
            X, labels, unlabelled=graphs.NearestNeighbors(3), weight=0.7, missing=missing
        )
        np.testing.assert_allclose(same.to_sparse().toarray(), expected, rtol=EXACT)


def test_rows_without_a_label_increase_accuracy_if_labels_are_few():
    """Held-out accuracy of the nearest centroid on features of digits, with four labels of each class."""
    X, y = load_digits(return_X_y=True)
    X = PCA(30, random_state=0).fit_transform(X)
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:900], order[900:]
    labels = np.full(900, -1)
    for c in range(10):
        labels[np.flatnonzero(y[train] == c)[:4]] = c
    some = labels >= 0
    alone = GraphSFA(9, graph="clustered").fit(X[train][some], labels[some])
    both = GraphSFA(9, graph=graphs.SemiSupervised(missing=-1)).fit(X[train], labels)

    def accuracy(gsfa):
        centroids = NearestCentroid().fit(gsfa.transform(X[train][some]), labels[some])
        return centroids.score(gsfa.transform(X[test]), y[test])

    assert accuracy(both) > 0.75 > 0.65 > accuracy(alone)


@pytest.mark.exhaustive
def test_the_page_on_graphs_runs_as_printed():
    page = Path(__file__).parents[2] / "docs" / "graphs.md"
    examples = re.findall(
        r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )
    X, y = load_digits(return_X_y=True)
    rows, labels = PCA(20).fit_transform(X)[:300], y[:300]
    partial = np.where(np.arange(300) % 2, labels, -1)
    names = {"X": rows, "y": rows[:, 0], "sequences": [rows[:100], rows[100:]]}
    names["labels"] = [
        np.where(np.isin(np.arange(n), range(0, n, 3)), x[:, 0], np.nan)
        for n, x in zip((100, 200), names["sequences"], strict=True)
    ]
    names["batches"] = [(rows[::2], rows[::2, 0]), (rows[1::2], rows[1::2, 0])]
    names["weights"] = np.arange(300) % 3
    for example in examples:
        names["y"] = partial if "missing=-1" in example else rows[:, 0]
        exec(example, names)
    assert names["search"].set_params(cv=2).fit(rows, rows[:, 0]).best_score_ > 0.9
    assert names["responses"].values.shape == (300, 3)


@pytest.mark.parametrize(
    "graph",
    [graphs.Serial(4), graphs.MultiLabel(graphs.Mixed(4)), graphs.Union([graphs.Serial(4), "temporal"])],
)
def test_scores_do_not_depend_on_the_settings_of_the_graph(graph):
    """The number of groups changes delta values on the graph of the fit, but not the score."""
    fitted = GraphSFA(1, graph=graph).fit(X, Y[:, None] if isinstance(graph, graphs.MultiLabel) else Y)
    labels = Y[:, None] if isinstance(graph, graphs.MultiLabel) else Y
    before = fitted.score(X, labels)
    (name,) = [name for name in graph.get_params() if name.endswith("n_groups")] or [None]
    if name is None:
        fitted.set_params(graph=graphs.Union([graphs.Serial(8), "temporal"]))
    else:
        fitted.set_params(**{f"graph__{name}": 8})
    assert fitted.score(X, labels) == before


@pytest.mark.parametrize("name", NAMED)
def test_a_graph_by_name_is_its_builder_with_default_settings(name):
    """The same graph, and the same score."""
    one, other = (GraphSFA(1, graph=graph).fit(X, Y % 5) for graph in (name, NAMED[name]()))
    np.testing.assert_allclose(one.transform(X), other.transform(X), atol=EXACT)
    assert one.score(X, Y % 5) == pytest.approx(other.score(X, Y % 5), abs=EXACT)


def test_functions_in_a_union_are_scored_on_their_own_graph():
    def square(X, y):
        return graphs.clustered(y)

    found = graphs.Union(["serial", square]).reference()
    assert isinstance(found.graphs[0], graphs.Reordering) and found.graphs[1] is square
