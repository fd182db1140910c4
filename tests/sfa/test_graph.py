"""GraphSFA: its definition, special cases, invariances, and types of input and output."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures

from probsfa import graphs
from probsfa.graphs._combined import SubsetGraph
from probsfa.sfa import SFA, GraphSFA
from tests.oracles import graphs as oracle
from tests.oracles import sfa as sfa_oracle
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL

NAMES = ["temporal", "nearest_neighbors", "clustered", "serial", "mixed", "sliding_window", "reordering"]


@parametrize_with_checks(
    [GraphSFA(graph=name) for name in NAMES]
    + [GraphSFA(1, graph="clustered", expansion=FunctionTransformer(np.arcsinh))]
)
@pytest.mark.filterwarnings(
    "ignore:The .* rows have rank:UserWarning",
    "ignore:The serial graph of . groups:UserWarning",
    "ignore:.*SCIPY_ARRAY_API",
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def labelled(rng, n=60, d=4):
    """Return samples that depend on a number from 0 to 3, with a different noise level in each direction."""
    y = rng.uniform(0, 3, n)
    signals = np.column_stack([np.cos((k + 1) * y) for k in range(d)])
    X = signals + np.linspace(0.1, 1.0, d) * rng.standard_normal((n, d))
    mixing = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.linspace(0.5, 2.0, d)
    return X @ mixing + rng.standard_normal(d), y


def random_weights(rng, n):
    """Return symmetric, sparse edge weights, and node weights that are not proportional to their row sums."""
    W = scipy.sparse.random_array((n, n), density=0.3, rng=rng, dtype=np.float64)
    return W + W.T, rng.uniform(0.1, 2.0, n)


def up_to_sign(Y, Z, tol=SPECTRAL):
    signs = np.sign(np.sum(Y * Z, axis=0))
    np.testing.assert_allclose(Y, Z * signs, atol=tol * np.abs(Z).max())


# Definition ---------------------------------------------------------------------------------------------


def test_equals_the_definition_on_a_random_inconsistent_graph(rng):
    X, _ = labelled(rng)
    W, v = random_weights(rng, 60)
    mean, B, A = oracle.moments(W.toarray(), v, X)
    deltas, directions = sfa_oracle.eigenproblem(A, B)
    gsfa = GraphSFA(graph=graphs.from_sparse(W, v)).fit(X)
    np.testing.assert_allclose(gsfa.delta_values_, deltas, rtol=SPECTRAL)
    up_to_sign(gsfa.transform(X), (X - mean) @ directions)


def test_inconsistent_graph_as_matrix_and_as_structure(rng):
    """Dense, sparse and structured forms of a graph give the same result (in MDP they did not)."""
    X, y = labelled(rng)
    structure = graphs.union([graphs.temporal(60, lengths=[20, 40]), graphs.clustered(np.round(y))], [1, 0.2])
    assert not structure.is_consistent()
    W, v = structure.to_sparse(), structure.node_weights
    expected = GraphSFA(graph=structure).fit(X)
    for matrix in (W.toarray(), W, scipy.sparse.csc_matrix(W), scipy.sparse.dok_array(W)):
        found = GraphSFA(graph=graphs.from_sparse(matrix, v)).fit(X)
        np.testing.assert_allclose(found.delta_values_, expected.delta_values_, rtol=SPECTRAL)
        np.testing.assert_allclose(found.transform(X), expected.transform(X), atol=SPECTRAL)


def test_constraints_hold_under_the_node_weights(rng):
    X, _ = labelled(rng)
    W, v = random_weights(rng, 60)
    gsfa = GraphSFA(graph=graphs.from_sparse(W, v)).fit(X)
    Y, p = gsfa.transform(X), v / v.sum()
    np.testing.assert_allclose(p @ Y, 0.0, atol=EXACT)
    np.testing.assert_allclose((p[:, None] * Y).T @ Y, np.eye(4), atol=EXACT)
    L = gsfa.graph_.laplacian_matmul(Y)
    np.testing.assert_allclose(2 * Y.T @ L / gsfa.graph_.R, np.diag(gsfa.delta_values_), atol=EXACT * 10)
    np.testing.assert_allclose(gsfa.loadings_, (p[:, None] * (X - gsfa.mean_)).T @ Y, atol=EXACT * 10)
    np.testing.assert_allclose(gsfa.inverse_transform(Y), X, atol=SPECTRAL)


# Special cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[60], [25, 1, 34]])
def test_temporal_graph_is_sfa(rng, lengths):
    X = rng.standard_normal((60, 4)).cumsum(axis=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "1 of 3 sequences")
        sfa = SFA().fit(X, lengths=lengths)
    for gsfa in (
        GraphSFA(graph="temporal").fit(X, lengths=lengths),
        GraphSFA(graph="temporal").fit(np.split(X, np.cumsum(lengths)[:-1])),
        GraphSFA(graph=graphs.temporal(60, lengths=lengths)).fit(X),
        GraphSFA(graph=lambda X, y: graphs.temporal(len(X), lengths=lengths)).fit(X),
    ):
        np.testing.assert_allclose(gsfa.delta_values_, sfa.delta_values_, rtol=SPECTRAL)
        np.testing.assert_allclose(gsfa.transform(X), sfa.transform(X), atol=SPECTRAL)
        np.testing.assert_allclose(gsfa.timescales_, sfa.timescales_, rtol=SPECTRAL)
        assert gsfa.rank_ == sfa.rank_


def test_regular_graph_with_half_loops_at_the_ends_is_sfa(rng):
    """Section 7.1: W_nn' = (delta of the ends + delta of neighbours) / 2, all degrees 1."""
    X = rng.standard_normal((50, 3)).cumsum(axis=0)
    half_weights = np.full(49, 0.5)
    W = scipy.sparse.diags_array([half_weights, half_weights], offsets=[1, -1]).tolil()
    W[0, 0] = W[49, 49] = 0.5
    regular = graphs.from_sparse(W, "degree")
    assert regular.is_consistent() and regular.Q == 50
    gsfa, sfa = GraphSFA(graph=regular).fit(X), SFA().fit(X)
    # the same sum of squares over T instead of T - 1
    np.testing.assert_allclose(gsfa.delta_values_, sfa.delta_values_ * 49 / 50, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.transform(X), sfa.transform(X), atol=SPECTRAL)


def test_reordering_is_sfa_of_the_sorted_samples(rng):
    X, y = labelled(rng)
    gsfa, sfa = GraphSFA(graph="reordering").fit(X, y), SFA().fit(X[np.argsort(y)])
    np.testing.assert_allclose(gsfa.delta_values_, sfa.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.transform(X), sfa.transform(X), atol=SPECTRAL)


@pytest.mark.parametrize("solver", ["svd", "eigen"])
def test_clustered_graph_is_fishers_discriminant(rng, solver):
    X, y = labelled(rng, n=120, d=5)
    classes = np.floor(y * 4 / 3).astype(int)
    gsfa = GraphSFA(3, graph="clustered").fit(X, classes)
    lda = LinearDiscriminantAnalysis(solver=solver).fit(X, classes)
    angles = scipy.linalg.subspace_angles(gsfa.components_.T, lda.scalings_[:, :3])
    assert angles.max() < SPECTRAL
    up_to_sign(gsfa.transform(X) / gsfa.transform(X).std(axis=0), _standardized(lda.transform(X)[:, :3]))
    # delta is twice the share of the variance that lies within classes
    Y = gsfa.transform(X)
    within = np.mean([(Y[i] - Y[classes == classes[i]].mean(axis=0)) ** 2 for i in range(120)], axis=0)
    np.testing.assert_allclose(gsfa.delta_values_, 2 * within, rtol=SPECTRAL)


def _standardized(Y):
    return (Y - Y.mean(axis=0)) / Y.std(axis=0)


def test_equally_important_classes_are_the_discriminant_of_balanced_samples(rng):
    """Footnote 2: weighting by classes is equivalent to repeating the samples of small classes."""
    X, y = labelled(rng, n=90, d=4)
    classes = np.repeat([0, 1, 2], [50, 30, 10])
    weighted = GraphSFA(2, graph=graphs.clustered(classes, weighting="classes")).fit(X)
    repeated_rows = np.repeat(np.arange(90), np.repeat([3, 5, 15], [50, 30, 10]))
    balanced = GraphSFA(2, graph="clustered").fit(X[repeated_rows], classes[repeated_rows])
    np.testing.assert_allclose(weighted.delta_values_, balanced.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(weighted.transform(X), balanced.transform(X), atol=SPECTRAL)


def test_similarity_and_degrees_give_locality_preserving_projections(rng):
    """He & Niyogi's pencil X'LX a = lambda X'DX a, with the constant solution discarded (section 7.1)."""
    X, _ = labelled(rng)
    graph = graphs.nearest_neighbors(X, 8)
    W = graph.to_sparse().toarray()
    D = np.diag(W.sum(axis=1))
    one = np.column_stack([np.ones(60), X])
    values, vectors = scipy.linalg.eigh(one.T @ (D - W) @ one, one.T @ D @ one)
    assert abs(values[0]) < EXACT
    gsfa = GraphSFA(graph=graph).fit(X)
    np.testing.assert_allclose(gsfa.delta_values_, 2 * values[1:], rtol=SPECTRAL)
    # Q^-1/2 y is normalized as y'Dy = 1
    up_to_sign(gsfa.transform(X) / graph.Q**0.5, one @ vectors[:, 1:])
    by_name = GraphSFA(graph="nearest_neighbors").fit(X)
    np.testing.assert_allclose(by_name.delta_values_[0], _lpp_delta(X, 10), rtol=SPECTRAL)


def _lpp_delta(X, k):
    W = oracle.nearest_neighbors(X, k)
    mean, B, A = oracle.moments(W, W.sum(axis=1), X)
    return sfa_oracle.eigenproblem(A, B)[0][0]


def test_any_graph_as_locality_preserving_projection(rng):
    """The other direction of section 7.1: W with self-loops that make every degree v_n / Q."""
    X, y = labelled(rng)
    graph = graphs.from_sparse(*random_weights(rng, 60))
    gamma, v = graph.to_sparse().toarray(), graph.node_weights
    W = gamma / graph.R  # the objective counts every pair twice, so half of the paper's 2 gamma / R
    np.fill_diagonal(W, 0)
    np.fill_diagonal(W, v / graph.Q - W.sum(axis=1))
    L, D = np.diag(W.sum(axis=1)) - W, np.diag(W.sum(axis=1))
    centred = X - v @ X / graph.Q
    values = scipy.linalg.eigh(centred.T @ L @ centred, centred.T @ D @ centred, eigvals_only=True)
    np.testing.assert_allclose(GraphSFA(graph=graph).fit(X).delta_values_, 2 * values, rtol=SPECTRAL)


def test_one_hot_features_give_laplacian_eigenmaps(rng):
    X, _ = labelled(rng, n=40)
    graph = graphs.nearest_neighbors(X, 6)
    W = graph.to_sparse().toarray()
    D = np.diag(W.sum(axis=1))
    values, vectors = scipy.linalg.eigh(D - W, D)
    with pytest.warns(UserWarning, match="40.*rank 39"):
        gsfa = GraphSFA(3, graph=graph).fit(np.eye(40))
    np.testing.assert_allclose(gsfa.delta_values_, 2 * values[1:4], rtol=SPECTRAL)
    up_to_sign(gsfa.transform(np.eye(40)) / graph.Q**0.5, vectors[:, 1:4])


def test_transition_graph_is_sfa_of_indicators(rng):
    states = np.zeros(500, dtype=int)
    for t in range(1, 500):
        states[t] = (states[t - 1] + rng.choice([-1, 0, 1], p=[0.2, 0.5, 0.3])) % 6
    indicators = np.eye(6)[states]
    gsfa, sfa = GraphSFA(graph=graphs.transition(states)).fit(indicators), SFA().fit(indicators)
    assert gsfa.rank_ == sfa.rank_ == 5
    np.testing.assert_allclose(gsfa.delta_values_, sfa.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.transform(indicators), sfa.transform(indicators), atol=SPECTRAL)


# Invariances --------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=15)
@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1.0, 1e-8, 1e8]))
def test_affine_maps_do_not_affect_results(name, seed, scale):
    rng = np.random.default_rng(seed)
    X, y = labelled(rng)
    y = np.round(y) if name == "clustered" else y
    graph = graphs.nearest_neighbors(X, 5) if name == "nearest_neighbors" else name  # depends on distances
    M = np.linalg.qr(rng.standard_normal((4, 4)))[0] * np.array([1.0, 2.0, 0.5, 1.0]) * scale
    one, two = GraphSFA(graph=graph).fit(X, y), GraphSFA(graph=graph).fit(X @ M + 1e3 * scale, y)
    np.testing.assert_allclose(two.delta_values_, one.delta_values_, rtol=SPECTRAL)
    up_to_sign(two.transform(X @ M + 1e3 * scale), one.transform(X), 1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_scales_offsets_and_deficient_rank(rng, name):
    X, y = labelled(rng)
    y = np.round(y) if name == "clustered" else y
    graph = graphs.nearest_neighbors(X, 5) if name == "nearest_neighbors" else name
    expected = GraphSFA(graph=graph).fit(X, y)
    scales = np.array([1e-8, 1.0, 1e8, 1e3])
    X2 = np.column_stack([X * scales, X[:, 0], np.full(60, 7.0)]) + [0, 1e3, 0, 0, 0, 0]
    found = GraphSFA(graph=graph).fit(X2, y)
    assert found.rank_ == 4
    np.testing.assert_allclose(found.delta_values_, expected.delta_values_, rtol=SPECTRAL)
    up_to_sign(found.transform(X2), expected.transform(X))
    with pytest.raises(ValueError, match="n_components=5 .* rank 4"):
        GraphSFA(5, graph=graph).fit(X2, y)


def test_samples_in_another_order_give_the_same_features(rng):
    X, y = labelled(rng)
    order = rng.permutation(60)
    for name in ("clustered", "serial", "mixed", "sliding_window", "reordering", "nearest_neighbors"):
        labels = np.round(y) if name == "clustered" else y
        one = GraphSFA(graph=name).fit(X, labels)
        two = GraphSFA(graph=name).fit(X[order], labels[order])
        np.testing.assert_allclose(two.delta_values_, one.delta_values_, rtol=SPECTRAL)
        np.testing.assert_allclose(two.transform(X), one.transform(X), atol=SPECTRAL)


# Input and output -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", ["clustered", "serial", "mixed", graphs.ExactLabel(degree=2)])
def test_columns_in_another_order_give_the_same_features(rng, graph):
    """Most outputs for classes and exact labels have delta value 2, because they do not depend on labels."""
    X = rng.standard_normal((60, 9)) @ rng.standard_normal((9, 9))
    y = np.arange(60) % 3 if graph == "clustered" else X[:, 0] + rng.standard_normal(60)
    first = GraphSFA(graph=graph).fit(X, y)
    assert graph in ("serial", "mixed") or np.sum(np.diff(first.delta_values_) == 0) > 2
    columns = rng.permutation(9)
    for Z in (X[:, columns], np.asfortranarray(X[:, columns])):
        np.testing.assert_allclose(GraphSFA(graph=graph).fit_transform(Z, y), first.transform(X), atol=1e-8)


def test_scores_of_different_settings_can_be_compared(rng):
    """On the graph of the fit, delta values decrease with the number of groups."""
    y = rng.standard_normal(200)
    X = np.column_stack([y + 0.1 * rng.standard_normal(200), rng.standard_normal((200, 3))])
    order = np.argsort(y[100:])
    for graph in (graphs.Serial(4), graphs.Mixed(30), graphs.SlidingWindow(5), "serial"):
        gsfa = GraphSFA(1, graph=graph).fit(X[:100], y[:100])
        output = gsfa.transform(X[100:])[order, 0]
        expected = -np.mean(np.diff(output) ** 2) / np.var(output)
        assert gsfa.score(X[100:], y[100:]) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="constant"):
        gsfa.score(np.ones((10, 4)), np.arange(10))


def test_expansion_is_sfa_of_the_expanded_samples(rng):
    X, y = labelled(rng)
    quadratic = PolynomialFeatures(2, include_bias=False)
    inside = GraphSFA(3, graph="mixed", expansion=quadratic).fit(X, y)
    outside = make_pipeline(clone(quadratic), GraphSFA(3, graph="mixed")).fit(X, y)
    np.testing.assert_allclose(inside.transform(X), outside.transform(X), atol=EXACT)
    assert inside.expansion_ is not quadratic and inside.mean_.shape == (14,)
    with pytest.raises(ValueError, match="PolynomialFeatures has none"):
        inside.inverse_transform(np.zeros((2, 3)))


def test_lists_frames_and_labels(rng):
    X, y = labelled(rng)
    expected = GraphSFA(2, graph="serial").fit(X, y)
    pieces, labels = np.split(X, [10, 35]), np.split(y, [10, 35])
    for given_labels in (y, labels, y.tolist()):
        found = GraphSFA(2, graph="serial").fit(pieces, given_labels)
        np.testing.assert_array_equal(found.components_, expected.components_)
        assert [len(piece) for piece in found.transform(pieces)] == [10, 25, 25]
    frame = pd.DataFrame(X, columns=list("abcd"))
    found = GraphSFA(2, graph="serial").set_output(transform="pandas").fit(frame, pd.Series(y))
    outputs = found.transform(frame)
    assert list(outputs.columns) == ["graphsfa0", "graphsfa1"]
    np.testing.assert_allclose(outputs.to_numpy(), expected.transform(X), atol=SPECTRAL)


def test_pickle_and_clone(rng):
    X, y = labelled(rng)
    graph = graphs.mixed(y, 6)
    gsfa = GraphSFA(2, graph=graph).fit(X)
    copy = pickle.loads(pickle.dumps(gsfa))
    np.testing.assert_array_equal(copy.transform(X), gsfa.transform(X))
    np.testing.assert_array_equal(clone(gsfa).fit(X).transform(X), gsfa.transform(X))


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({"graph": "cluster"}, None, "graph.*TrainingGraph.*'clustered'.*'cluster'"),
        ({"graph": 3}, None, "got 3"),
        ({"graph": lambda X, y: np.eye(5)}, None, "TrainingGraph"),
        ({"graph": "serial"}, None, "requires y"),
        ({"graph": "serial"}, [1, 2, 3], r"\by\b.*X, 5.*.3"),
        ({"graph": graphs.temporal(4)}, None, "graph.*4.*X.*5"),
        ({"graph": "temporal", "n_components": 0}, None, "n_components.*1"),
        ({"graph": "temporal", "rank_tol": 2.0}, None, "rank_tol.*0.*1"),
    ],
)
def test_errors_name_the_argument(options, y, message):
    X = np.random.default_rng(0).standard_normal((5, 2))
    with pytest.raises(ValueError, match=message):
        GraphSFA(**options).fit(X, y)


def test_missing_values_are_named():
    X = np.random.default_rng(0).standard_normal((5, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="row 3, column 1"):
        GraphSFA(graph="temporal").fit(X)


def test_partial_fit_requires_shrinkage_as_a_number(rng):
    X, y = rng.standard_normal((60, 3)), np.repeat([0, 1, 2], 20)
    gsfa = GraphSFA(2, graph="clustered", shrinkage=0.3).partial_fit(X, y)
    whole = GraphSFA(2, graph="clustered", shrinkage=0.3).fit(X, y)
    np.testing.assert_allclose(gsfa.delta_values_, whole.delta_values_, rtol=EXACT)
    with pytest.raises(AttributeError, match="partial_fit") as raised:
        GraphSFA(2, graph="clustered", shrinkage="auto").partial_fit(X, y)
    assert 'shrinkage="auto" requires all rows' in str(raised.value.__cause__)


@pytest.mark.parametrize("shrinkage", [None, 0.2])
def test_batches_are_the_union_of_their_graphs(rng, shrinkage):
    batches = [
        rng.standard_normal((n, 3)) * scale + mean for n, scale, mean in [(40, 1, 0), (25, 3, 5), (9, 1, -2)]
    ]
    labels = [rng.integers(0, 3, len(X)) for X in batches]
    gsfa = GraphSFA(2, graph="clustered", shrinkage=shrinkage)
    for X, y in zip(batches, labels, strict=True):
        gsfa.partial_fit(X, y)
    ends = np.cumsum([0, *map(len, batches)])
    rows = [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    parts = zip(labels, rows, strict=True)
    union = graphs.union([SubsetGraph(graphs.clustered(y), rows_of_batch, 74) for y, rows_of_batch in parts])
    whole = GraphSFA(2, graph=union, shrinkage=shrinkage).fit(np.concatenate(batches))
    np.testing.assert_allclose(gsfa.moments_.mean, whole.moments_.mean, rtol=EXACT)
    np.testing.assert_allclose(gsfa.moments_.covariance, whole.moments_.covariance, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gsfa.delta_values_, whole.delta_values_, rtol=SPECTRAL)
    np.testing.assert_allclose(gsfa.transform(batches[1]), whole.transform(batches[1]), atol=SPECTRAL)
