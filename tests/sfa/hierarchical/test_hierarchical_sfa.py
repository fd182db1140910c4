"""HierarchicalSFA: comparison with its definition in loops, special cases, and invariances."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from probsfa.expansions import Polynomial, Power
from probsfa.graphs import heat_kernel, serial
from probsfa.graphs.training_graph import graph_moments
from probsfa.linalg import slow_directions
from probsfa.sfa import SFA
from probsfa.sfa.graph import GraphSFA
from probsfa.sfa.hierarchical import HierarchicalSFA, Layer, cascade_layers, escalante_wiskott_layers
from tests.oracles import hierarchical as oracle
from tests.sampling import parametrize_with_checks
from tests.tolerances import EXACT, SPECTRAL


def _autoregressive_rows(rng, n_rows, n_columns):
    """Return mixed AR(1) processes with different decays, so that no two delta values are equal."""
    decay = np.linspace(0.1, 0.98, n_columns)
    X = rng.standard_normal((n_rows, n_columns))
    for t in range(1, n_rows):
        X[t] = decay * X[t - 1] + np.sqrt(1 - decay**2) * X[t]
    return X @ np.linalg.qr(rng.standard_normal((n_columns, n_columns)))[0]


@parametrize_with_checks(
    [
        HierarchicalSFA([Layer(1)]),
        HierarchicalSFA([Layer(1, field=1), Layer(1)], n_jobs=2, storage="recompute"),
        HierarchicalSFA([Layer(1, expansion=Power())], graph="nearest_neighbors"),
    ]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


POWER = (Power(), lambda x: [*x, *(abs(v) ** 0.8 for v in x)])
SQUARES = (
    Polynomial(2),
    lambda x: [*x, *(a * b for a, b in itertools.combinations_with_replacement(x, 2))],
)


@pytest.mark.filterwarnings("ignore:Output .* on held-out rows")
@pytest.mark.parametrize("expansion", [(None, list), POWER, SQUARES], ids=["linear", "power", "squares"])
@pytest.mark.parametrize("differences", ["sequences", "lag", "graph"])
def test_two_layers_with_overlapping_fields_equal_their_definition(expansion, differences, rng):
    transformer, expand_row = expansion
    N, H, W, C = 150, 3, 5, 2
    X = _autoregressive_rows(rng, N, H * W * C)
    y = rng.standard_normal(N)
    settings, fit_settings, vertices = {}, {}, [1.0] * N
    if differences == "graph":
        graph = serial(y, 20)
        settings["graph"] = graph
        weights = graph.to_sparse().toarray()
        edges = [(i, j, weights[i, j]) for i in range(N) for j in range(N) if weights[i, j]]
        vertices = list(graph.node_weights)
    else:
        lag = 2 if differences == "lag" else 1
        settings["lag"] = lag
        fit_settings["lengths"] = [60, 2, 88]
        edges = oracle.chain([60, 2, 88], lag)
    hsfa = HierarchicalSFA(
        [Layer(2, field=(2, 3), stride=(1, 2), expansion=transformer), Layer(3, expansion=transformer)],
        input_shape=(H, W),
        n_channels=C,
        **settings,
    ).fit(X, **fit_settings)

    first_outputs, delta_values = oracle.layer(
        X.reshape(N, H, W, C), (2, 3), (1, 2), 2, expand_row, edges, vertices
    )
    assert hsfa.grids_ == [(2, 2), (1, 1)]
    assert_allclose(hsfa.layer_delta_values_[0], delta_values.reshape(4, 2), rtol=SPECTRAL)
    assert_allclose(hsfa.transform_layer(X, 0), first_outputs.reshape(N, -1), atol=SPECTRAL)
    last_outputs, delta_values = oracle.layer(first_outputs, (2, 2), (1, 1), 3, expand_row, edges, vertices)
    assert_allclose(hsfa.delta_values_, delta_values[0, 0], rtol=SPECTRAL)
    assert_allclose(hsfa.transform(X), last_outputs.reshape(N, 3), atol=SPECTRAL)


@pytest.mark.filterwarnings("ignore:Output [0-9]* .* on held-out rows")
@pytest.mark.parametrize("expansion", [None, Polynomial(2)])
def test_one_node_with_all_inputs_equals_sfa(expansion, rng):
    X = [_autoregressive_rows(rng, 80, 4), _autoregressive_rows(rng, 50, 4)]
    one = HierarchicalSFA([Layer(3, expansion=expansion)], lag=2).fit(X)
    sfa = SFA(3, expansion=expansion, lag=2).fit(X)
    assert_allclose(one.delta_values_, sfa.delta_values_, rtol=SPECTRAL)
    for ours, theirs in zip(one.transform(X), sfa.transform(X), strict=True):
        assert_allclose(ours, theirs, atol=SPECTRAL)


@pytest.mark.parametrize("expansion", [None, Polynomial(2)])
def test_one_node_with_all_inputs_and_a_graph_equals_graph_sfa(expansion, rng):
    X, y = _autoregressive_rows(rng, 90, 4), rng.standard_normal(90)
    one = HierarchicalSFA([Layer(3, expansion=expansion)], graph="sliding_window").fit(X, y)
    direct = GraphSFA(3, graph="sliding_window", expansion=expansion).fit(X, y)
    assert_allclose(one.delta_values_, direct.delta_values_, rtol=SPECTRAL)
    assert_allclose(one.transform(X), direct.transform(X), atol=SPECTRAL)


def test_default_number_of_components_is_the_rank(rng):
    X = _autoregressive_rows(rng, 100, 4)
    X = np.column_stack([X, X[:, 0], np.ones(100)])
    assert HierarchicalSFA([Layer()]).fit(X).delta_values_.shape == (4,)


def test_cascade_equals_algorithm_1_of_sprekeler(rng):
    X = rng.uniform(-1, 1, (120, 2))
    graph = heat_kernel(X, 0.3)
    hsfa = HierarchicalSFA(cascade_layers(3, 3, expansion=Polynomial(2), clip=None), graph=graph).fit(X)
    signals = X
    for level in range(3):
        Z = Polynomial(2).fit_transform(signals)
        moments = graph_moments(graph, Z)
        found = slow_directions(moments.difference_moment, moments.covariance, 3)
        signals = (Z - moments.mean) @ found.weights
        assert_allclose(hsfa.layer_delta_values_[level][0], found.delta_values, rtol=SPECTRAL)
        assert_allclose(hsfa.transform_layer(X, level), signals, atol=SPECTRAL)


def _network(**settings):
    layers = [
        Layer(3, field=(2, 2), pca=3, expansion=Power(), clip="range"),
        Layer(2, field=(2, 1), stride=(1, 1), expansion=Polynomial(2), share_weights=True),
        Layer(2, clip=3.0),
    ]
    return HierarchicalSFA(layers, input_shape=(6, 4), **settings)


@pytest.mark.parametrize("storage", ["memory", "recompute"])
@pytest.mark.parametrize("chunk_size", [1, 7, 1000])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_do_not_depend_on_chunks_streams_and_threads(storage, chunk_size, n_jobs, rng):
    X = _autoregressive_rows(rng, 90, 24)
    lengths = [40, 50]
    whole = _network().fit(X, lengths=lengths)
    settings = {"storage": storage, "chunk_size": chunk_size, "n_jobs": n_jobs}
    chunked = _network(**settings).fit(X, lengths=lengths)
    streamed = _network(**settings).fit(lambda: iter([X[:33], X[33:34], X[34:]]), lengths=lengths)
    for other in (chunked, streamed):
        assert_allclose(other.delta_values_, whole.delta_values_, rtol=SPECTRAL)
        assert_allclose(other.transform(X), whole.transform(X), atol=SPECTRAL)
    assert_allclose(streamed.transform(lambda: [X[:50], X[50:]]), whole.transform(X), atol=SPECTRAL)


def test_a_stream_with_a_graph_equals_the_array(rng):
    X = _autoregressive_rows(rng, 60, 24)
    graph = serial(rng.standard_normal(60), 20)
    streamed = _network(graph=graph).fit(lambda: (X[i : i + 13] for i in range(0, 60, 13)))
    assert_allclose(streamed.transform(X), _network(graph=graph).fit(X).transform(X), atol=SPECTRAL)


def test_graphs_by_name_and_by_function_equal_the_graph(rng):
    X, y = _autoregressive_rows(rng, 60, 4), rng.standard_normal(60)
    layers = [Layer(2, field=2), Layer(1)]
    expected = HierarchicalSFA(layers, graph=serial(y)).fit(X).transform(X)
    by_name = HierarchicalSFA(layers, graph="serial")
    assert_allclose(by_name.fit(X, y).transform(X), expected, atol=EXACT)
    assert_allclose(by_name.fit([X[:20], X[20:]], [y[:20], y[20:]]).transform(X), expected, atol=EXACT)
    assert_allclose(by_name.fit(lambda: [X[:9], X[9:]], y).transform(X), expected, atol=SPECTRAL)
    by_function = HierarchicalSFA(layers, graph=lambda X, y: serial(y))
    assert_allclose(by_function.fit(X, y).transform(X), expected, atol=EXACT)
    in_time = HierarchicalSFA(layers, graph="temporal").fit(X)
    assert_allclose(in_time.transform(X), HierarchicalSFA(layers).fit(X).transform(X), atol=EXACT)


@pytest.mark.parametrize("on_graph", [False, True])
@pytest.mark.parametrize("expansion", [None, Polynomial(2), StandardScaler()])
@pytest.mark.filterwarnings("ignore:Output .* on held-out rows")
def test_shared_weights_equal_those_of_one_node_on_pooled_rows(on_graph, expansion, rng):
    X = _autoregressive_rows(rng, 70, 6)
    X[:, 3:] += 5.0
    pooled = np.concatenate([X[:, :3], X[:, 3:]])
    graph = serial(np.arange(70), 7) if on_graph else None
    shared = HierarchicalSFA([Layer(2, field=3, expansion=expansion, share_weights=True)], graph=graph).fit(X)
    assert shared.banks_[0].weights.shape[0] == 1
    if not on_graph:
        one = SFA(2, expansion=expansion).fit([X[:, :3], X[:, 3:]])
        expected, delta_values = one.transform(pooled), one.delta_values_
    else:
        Z = pooled if expansion is None else expansion.fit_transform(pooled)
        parts = [graph_moments(graph, Z[:70] - Z.mean(axis=0)), graph_moments(graph, Z[70:] - Z.mean(axis=0))]
        weights = np.tile(graph.node_weights, 2)
        mean = np.average(Z, axis=0, weights=weights)
        B = (Z - mean).T @ ((Z - mean) * weights[:, None]) / weights.sum()
        A = (parts[0].difference_moment + parts[1].difference_moment) / 2
        found = slow_directions(A, B, 2)
        expected, delta_values = (Z - mean) @ found.weights, found.delta_values
    assert_allclose(shared.layer_delta_values_[0][0], delta_values, rtol=SPECTRAL)
    Y = shared.transform(X)
    assert_allclose(np.concatenate([Y[:, :2], Y[:, 2:]]), expected, atol=SPECTRAL)


@pytest.mark.parametrize("on_graph", [False, True])
def test_expansions_are_fitted_in_every_node(on_graph, rng):
    X = _autoregressive_rows(rng, 80, 4)
    X[:, 2:] = 3 * X[:, 2:] + 1
    expansion = Polynomial(2, whiten=True)
    graph = serial(np.arange(80), 8) if on_graph else None
    both = HierarchicalSFA([Layer(2, field=2, expansion=expansion), Layer(2)], graph=graph).fit(X)
    for i in range(2):
        half = HierarchicalSFA([Layer(2, expansion=expansion)], graph=graph).fit(X[:, 2 * i : 2 * i + 2])
        assert_allclose(
            both.transform_layer(X, 0)[:, 2 * i : 2 * i + 2],
            half.transform(X[:, 2 * i : 2 * i + 2]),
            atol=SPECTRAL,
        )


def test_principal_components_before_an_expansion_equal_a_layer(rng):
    X = _autoregressive_rows(rng, 100, 8)
    inside = HierarchicalSFA([Layer(2, field=4, pca=3, expansion=Power()), Layer(2)]).fit(X)
    layers = [Layer(3, field=4, method="pca"), Layer(2, field=1, expansion=Power()), Layer(2)]
    as_layer = HierarchicalSFA(layers).fit(X)
    assert_allclose(inside.transform(X), as_layer.transform(X), atol=EXACT)
    assert len(inside.grids_) == 2 and len(as_layer.grids_) == 3


def test_principal_components_of_one_node_equal_pca(rng):
    X = rng.standard_normal((60, 5)) * np.arange(1, 6) + 10
    ours = HierarchicalSFA([Layer(3, method="pca")]).fit(X)
    theirs = PCA(3).fit(X)
    assert_allclose(ours.delta_values_, theirs.explained_variance_ * 59 / 60, rtol=SPECTRAL)
    assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=SPECTRAL)


def test_all_principal_components_preserve_norms(rng):
    X = _autoregressive_rows(rng, 60, 6)
    layers = [Layer(3, field=3, method="pca"), Layer(6, method="pca")]
    Y = HierarchicalSFA(layers).fit(X).transform(X)
    assert_allclose(np.linalg.norm(Y, axis=1), np.linalg.norm(X - X.mean(axis=0), axis=1), rtol=EXACT)


def test_principal_components_do_not_depend_on_the_graph(rng):
    X = _autoregressive_rows(rng, 60, 6)
    layers = [Layer(2, field=3, method="pca"), Layer(3, method="pca")]
    with_graph = HierarchicalSFA(layers, graph=serial(np.arange(60), 5)).fit(X)
    assert_allclose(with_graph.transform(X), HierarchicalSFA(layers).fit(X).transform(X), atol=EXACT)


def test_outputs_are_white_and_have_the_stored_delta_values(rng):
    X = _autoregressive_rows(rng, 300, 24)
    hsfa = _network().set_params(layers=_network().layers[:2] + [Layer(2)]).fit(X)
    Y = hsfa.transform(X)
    assert_allclose(Y.mean(axis=0), 0, atol=EXACT)
    assert_allclose(Y.T @ Y / len(Y), np.eye(2), atol=SPECTRAL)
    assert_allclose((np.diff(Y, axis=0) ** 2).mean(axis=0), hsfa.delta_values_, rtol=SPECTRAL)


def test_results_do_not_depend_on_units_and_offsets(rng):
    X = _autoregressive_rows(rng, 200, 6)
    layers = [Layer(2, field=3), Layer(2, expansion=Power())]
    plain = HierarchicalSFA(layers).fit(X)
    rescaled = X * np.array([1e-8, 1.0, 1e8, 1e-3, 1.0, 1e3])
    scaled = HierarchicalSFA(layers).fit(rescaled)
    assert_allclose(scaled.delta_values_, plain.delta_values_, rtol=SPECTRAL)
    assert_allclose(np.abs(scaled.transform(rescaled)), np.abs(plain.transform(X)), atol=SPECTRAL)
    shifted = HierarchicalSFA(layers).fit(X + 1e6)
    assert_allclose(shifted.delta_values_, plain.delta_values_, rtol=SPECTRAL)


def test_nodes_with_constant_inputs_have_outputs_of_zero(rng):
    X = _autoregressive_rows(rng, 100, 9)
    X[:, :3] = 4.0  # the inputs of the first node are constant, and those of the second have rank 2
    X[:, 5] = X[:, 4]
    hsfa = HierarchicalSFA([Layer(3, field=3, expansion=Power()), Layer(2)]).fit(X)
    first = hsfa.transform_layer(X, 0)
    assert_array_equal(first[:, :3], 0)
    assert_array_equal(hsfa.banks_[0].rank, [0, 4, 6])
    assert np.isnan(hsfa.layer_delta_values_[0][0]).all()
    without_constants = HierarchicalSFA([Layer(3, field=3, expansion=Power()), Layer(2)]).fit(X[:, 3:])
    assert_allclose(hsfa.transform(X), without_constants.transform(X[:, 3:]), atol=SPECTRAL)


def test_clipping_limits_new_outputs_and_preserves_training_outputs(rng):
    X = _autoregressive_rows(rng, 200, 2)
    unclipped = HierarchicalSFA(cascade_layers(2, 2, clip=None)).fit(X)
    clipped = HierarchicalSFA(cascade_layers(2, 2)).fit(X)
    Y = unclipped.transform(X)
    assert_allclose(clipped.transform(X), Y, atol=SPECTRAL)
    extrapolated = clipped.transform(5 * X)
    assert (extrapolated >= Y.min(axis=0) - SPECTRAL).all()
    assert (extrapolated <= Y.max(axis=0) + SPECTRAL).all()
    assert np.abs(unclipped.transform(5 * X)).max() > 100 * np.abs(Y).max()
    clipped_at_three = HierarchicalSFA(cascade_layers(2, 2, clip=3.0)).fit(X)
    assert np.abs(clipped_at_three.transform(5 * X)).max() == 3.0


def test_limits_are_equal_with_stored_and_recomputed_signals(rng):
    X = _autoregressive_rows(rng, 100, 4)
    stored = HierarchicalSFA(cascade_layers(3, 2)).fit(X)
    computed = HierarchicalSFA(cascade_layers(3, 2), storage="recompute").fit(X)
    assert_allclose(computed.transform(9 * X), stored.transform(9 * X), atol=SPECTRAL)


def test_network_equals_table_1_of_the_paper():
    layers = escalante_wiskott_layers((128, 128))
    nodes = ["32x32", "16x32", "16x16", "8x16", "8x8", "4x8", "4x4", "2x4", "2x2", "1x2", "1x1"]
    fan_in = [(4, 4), *[(2, 1), (1, 2)] * 5]
    outputs = [13, 20, 35, 60, 60, 60, 60, 60, 60, 60, 60]
    assert [layer.field for layer in layers] == fan_in
    assert [layer.n_components for layer in layers] == outputs
    assert [layer.pca for layer in layers] == [13] + [None] * 10
    assert all(layer.expansion.exponent == 0.8 and not layer.share_weights for layer in layers)
    grid = np.array([128, 128])
    for layer, shape in zip(layers, nodes, strict=True):
        grid = grid // layer.field
        assert "x".join(map(str, grid)) == shape

    pca = escalante_wiskott_layers((128, 128), method="pca")
    assert [layer.n_components for layer in pca] == [13, 20, 35, 60, 100] + [120] * 6
    assert all(layer.expansion is None and layer.method == "pca" and layer.pca is None for layer in pca)


@pytest.mark.parametrize("shape", [(100, 100), (8, 24), (4, 20), (12, 12)])
def test_networks_for_other_image_shapes_end_in_one_node(shape, rng):
    X = rng.standard_normal((300, shape[0] * shape[1])).cumsum(axis=0)
    layers = escalante_wiskott_layers(shape)
    small = [Layer(3, field=layer.field, stride=layer.stride) for layer in layers]
    assert HierarchicalSFA(small, input_shape=shape).fit(X).grids_[-1] == (1, 1)


def test_later_changes_of_parameters_do_not_affect_a_fitted_model(rng):
    X = _autoregressive_rows(rng, 60, 4)
    expansion = Power()
    hsfa = HierarchicalSFA([Layer(1, expansion=expansion)], n_channels=2).fit(X)
    before = hsfa.transform(X)
    expansion.exponent = 3.0
    hsfa.set_params(n_channels=1)
    assert_array_equal(hsfa.transform(X), before)


def test_outputs_of_several_top_nodes_are_concatenated(rng):
    X = _autoregressive_rows(rng, 60, 4)
    hsfa = HierarchicalSFA([Layer(1, field=2)]).set_output(transform="pandas").fit(X)
    assert hsfa.delta_values_.shape == (2, 1)
    assert list(hsfa.transform(X).columns) == ["hierarchicalsfa0", "hierarchicalsfa1"]
    assert [frame.shape for frame in hsfa.transform([X[:20], X[20:]])] == [(20, 2), (40, 2)]


@pytest.mark.parametrize("graph", [None, "temporal"])
def test_the_score_uses_differences_over_the_lag(rng, graph):
    X = rng.standard_normal((200, 4)).cumsum(axis=0)
    model = HierarchicalSFA([Layer(2, field=2), Layer(2)], graph=graph, lag=3).fit(X, lengths=[90, 110])
    y = model.transform(X)
    pieces = [y[:90], y[90:]]
    changes = np.concatenate([piece[3:] - piece[:-3] for piece in pieces])
    expected = -np.mean(np.mean(changes**2, axis=0) / np.var(y, axis=0))
    assert model.score(X, lengths=[90, 110]) == pytest.approx(expected, rel=EXACT)
    assert expected == pytest.approx(-np.mean(model.delta_values_), rel=SPECTRAL)
