"""Errors of HierarchicalSFA for invalid input, and the formats of its input."""

import numpy as np
import pytest

from probsfa.expansions import Polynomial
from probsfa.graphs import serial
from probsfa.linalg import RankError
from probsfa.sfa.hierarchical import HierarchicalSFA, Layer, cascade_layers, escalante_wiskott_layers


@pytest.fixture
def X(rng):
    return rng.standard_normal((30, 6)).cumsum(axis=0)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([], "layers"),
        (Layer(1), "layers"),
        (["sfa"], r"layers\[0\].*'sfa'"),
        ([Layer(1, method="ica")], r"layers\[0\].method.*'sfa', 'igsfa', 'pca'.*'ica'"),
        ([Layer(0)], r"layers\[0\].n_components.*1"),
        ([Layer(1, pca=7)], r"layers\[0\].pca.*7.*6"),
        ([Layer(1, clip="std")], r"layers\[0\].clip must be"),
        ([Layer(1, clip=-1.0)], r"layers\[0\].clip must be"),
        ([Layer(1, expansion=abs)], r"layers\[0\].expansion"),
        ([Layer(1, field=4)], r"layers\[0\].*4.*4.*2.*6"),
        ([Layer(None, field=2), Layer(1)], r"layers\[0\].n_components is None"),
        ([Layer(7)], r"layers\[0\].n_components.*7.*6"),
        ([Layer(1, field=2), Layer(4)], r"layers\[1\].n_components.*4.*3"),
    ],
)
def test_invalid_layers_are_refused(layers, message, X):
    with pytest.raises(ValueError, match=message):
        HierarchicalSFA(layers).fit(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"input_shape": (2, 2)}, r"input_shape=\(2, 2\).*n_channels=1.*6"),
        ({"input_shape": (1, 2, 3)}, "input_shape"),
        ({"n_channels": 4}, "n_channels=4.*6"),
        ({"n_channels": 0}, "n_channels.*1"),
        ({"lag": 0}, "lag.*1"),
        ({"storage": "disk"}, "storage"),
        ({"chunk_size": 0}, "chunk_size.*1"),
        ({"rank_tol": 2.0}, "rank_tol.*0.*1"),
    ],
)
def test_invalid_parameters_are_refused(settings, message, X):
    with pytest.raises(ValueError, match=message):
        HierarchicalSFA([Layer(1)], **settings).fit(X)


def test_the_position_of_a_missing_value_is_in_the_error(X):
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="row 3, column 2"):
        HierarchicalSFA([Layer(1)]).fit(X)
    with pytest.raises(ValueError, match="1.*X.*NaN.*row 1, column 2"):
        HierarchicalSFA([Layer(1)]).fit(lambda: [X[:2], X[2:]])


def test_the_error_of_too_many_components_contains_the_rank(X):
    X[:, 3:] = X[:, :3]
    with pytest.raises(RankError, match=r"layers\[1\].n_components=3 .* numerical rank 2"):
        HierarchicalSFA([Layer(2, field=3), Layer(3)]).fit(X)
    with pytest.raises(RankError, match="constant"):
        HierarchicalSFA([Layer(1, field=2), Layer(1)]).fit(np.ones((9, 6)))


def test_sequences_of_at_most_lag_rows_are_refused(X):
    with pytest.raises(ValueError, match=r"rows 5.*\(lag=5\)"):
        HierarchicalSFA([Layer(1)], lag=5).fit([X[:5], X[5:8]])


def test_the_error_of_an_overflow_contains_the_expansion(X):
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(ValueError, match="Polynomial"),
    ):
        HierarchicalSFA([Layer(1, expansion=Polynomial(3))]).fit(X * 1e140)


def test_different_numbers_of_expanded_columns_are_refused(X):
    angle = np.linspace(0, 7, 30)
    circle = np.column_stack([np.cos(angle), np.sin(angle), X[:, :2]])  # on a circle x^2 + y^2 is constant
    layers = [Layer(1, field=2, expansion=Polynomial(2, whiten=True)), Layer(1)]
    with pytest.raises(ValueError, match=r"layers\[0\].expansion.*4.*5"):
        HierarchicalSFA(layers).fit(circle)


def test_a_graph_with_another_number_of_vertices_is_refused(X):
    with pytest.raises(ValueError, match="29 vertices"):
        HierarchicalSFA([Layer(1)], graph=serial(np.arange(29), 4)).fit(X)


def test_invalid_streams_are_refused(X):
    hsfa = HierarchicalSFA([Layer(1, field=3), Layer(1)])
    with pytest.raises(ValueError, match="no array"):
        hsfa.fit(lambda: [])
    with pytest.raises(ValueError, match="X.*iterable"):
        hsfa.fit(lambda: None)
    with pytest.raises(ValueError, match="X.*iterator"):
        hsfa.fit(iter([X]))
    with pytest.raises(ValueError, match="lengths sum to 31"):
        hsfa.fit(lambda: [X], lengths=[31])
    with pytest.raises(ValueError, match=r"lengths.*got \[15\.0, 15\.0\]"):
        hsfa.fit(lambda: [X], lengths=[15.0, 15.0])
    once = iter([X[:10], X[10:20], X[20:]])
    with pytest.raises(ValueError, match="same rows"):
        hsfa.fit(lambda: once)
    with pytest.raises(ValueError, match="chunk.*features"):
        hsfa.fit(lambda: [X, X[:, :5]])


def test_invalid_labels_are_refused(X):
    hsfa = HierarchicalSFA([Layer(1)], graph="serial")
    with pytest.raises(ValueError, match="requires y"):
        hsfa.fit(X)
    with pytest.raises(ValueError, match="X, 30"):
        hsfa.fit(X, np.arange(29.0))
    with pytest.raises(ValueError, match="requires y"):
        hsfa.fit(lambda: [X])
    with pytest.raises(ValueError, match="29 vertices"):
        hsfa.fit(lambda: [X], np.arange(29.0))
    with pytest.raises(ValueError, match="graph='nearest_neighbors'.*stream"):
        hsfa.set_params(graph="nearest_neighbors").fit(lambda: [X])
    with pytest.raises(ValueError, match="graph.*got 'circle'"):
        hsfa.set_params(graph="circle").fit(X)


def test_fewer_rows_than_columns_of_a_node_cause_a_warning(X):
    with pytest.warns(UserWarning, match=r"6.*rank 5.*layers\[1\]"):
        HierarchicalSFA([Layer(2, field=2), Layer(1, expansion=Polynomial(2))]).fit(X[:6])


def test_negative_layer_indices_count_from_the_top(X):
    hsfa = HierarchicalSFA([Layer(1, field=3), Layer(1)]).fit(X)
    assert (hsfa.transform_layer(X, -2) == hsfa.transform_layer(X, 0)).all()
    with pytest.raises(ValueError, match="layer.*-2.*1.*2"):
        hsfa.transform_layer(X, 2)


def test_invalid_parameters_of_networks_are_refused():
    with pytest.raises(ValueError, match="multiples of 4"):
        escalante_wiskott_layers((30, 32))
    with pytest.raises(ValueError, match="method.*got 'ica'"):
        escalante_wiskott_layers(method="ica")
    with pytest.raises(ValueError, match="expansion is for slow"):
        escalante_wiskott_layers(method="pca", expansion=Polynomial(2))
    with pytest.raises(ValueError, match="n_levels.*got 0"):
        cascade_layers(0)


@pytest.mark.parametrize("channels", [1, 3])
def test_images_equal_flattened_rows_with_an_input_shape(rng, channels):
    rows = np.cumsum(rng.standard_normal((60, 6 * 4 * channels)), axis=0)
    images = rows.reshape(60, 6, 4, channels) if channels > 1 else rows.reshape(60, 6, 4)
    layers = [Layer(2, field=(2, 2)), Layer(2)]
    from_rows = HierarchicalSFA(layers, input_shape=(6, 4), n_channels=channels).fit(rows)
    from_images = HierarchicalSFA(layers).fit(images)
    assert from_images.grids_[0] == (3, 2)
    np.testing.assert_array_equal(from_rows.transform(rows), from_images.transform(images))
    np.testing.assert_array_equal(from_rows.transform(images), from_images.transform(rows))
    assert from_images.score(images) == from_rows.score(rows)
    pieces = HierarchicalSFA(layers).fit([images[:30], images[30:]]).transform([images[:30], images[30:]])
    assert [piece.shape for piece in pieces] == [(30, 2), (30, 2)]
    with pytest.raises(ValueError, match="not match"):
        HierarchicalSFA(layers, input_shape=(4, 6)).fit(images)
    with pytest.raises(ValueError, match=r"\(6, 4"):
        from_images.transform(images.swapaxes(1, 2))


def test_one_label_per_sequence_applies_to_all_its_rows(rng):
    X = [rng.standard_normal((n, 4)) + 3 * (n % 2) for n in (5, 6, 7, 8)]
    y = ["a", "b", "a", "b"]
    rows = [np.full(len(x), c) for x, c in zip(X, y, strict=True)]
    layers = [Layer(1, field=2), Layer(1)]
    from_sequences, from_row_labels = (
        HierarchicalSFA(layers, graph="clustered").fit(X, labels) for labels in (y, rows)
    )
    np.testing.assert_array_equal(from_sequences.delta_values_, from_row_labels.delta_values_)
