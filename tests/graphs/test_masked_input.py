"""Functions of graphs with masked arrays, text and dates: masked values are missing."""

import numpy as np
import pytest

from probsfa import SFA, GraphSFA, HierarchicalSFA
from probsfa._times import read_times
from probsfa.expansions import RadialBasis
from probsfa.graphs import (
    clustered,
    from_sparse,
    heat_kernel,
    mixed,
    nearest_neighbors,
    reordering,
    serial,
    sliding_window,
    temporal,
    transition,
)
from probsfa.graphs.moments import MomentStream, temporal_moments
from probsfa.graphs.training_graph import graph_moments
from probsfa.sfa import GraphSFAClassifier, Layer

FILL = -9999.0


@pytest.fixture
def incomplete(rng):
    """Rows with NaN, and the same rows as a masked array with a fill value."""
    X = np.cumsum(rng.standard_normal((80, 3)), axis=0)
    missing = rng.random(X.shape) < 0.1
    missing[5, 1] = True
    return np.where(missing, np.nan, X), np.ma.masked_array(np.where(missing, FILL, X), mask=missing)


def test_temporal_moments_ignore_masked_values(incomplete):
    with_nan, masked = incomplete
    expected = temporal_moments(with_nan, lengths=[30, 50], skip_incomplete=True)
    moments = temporal_moments(masked, lengths=[30, 50], skip_incomplete=True)
    for name in ("n_rows", "mean", "covariance", "n_differences", "difference_moment"):
        np.testing.assert_array_equal(getattr(moments, name), getattr(expected, name))


def test_a_stream_of_moments_ignores_masked_values(incomplete):
    with_nan, masked = incomplete
    stream = MomentStream.start(3).extend(masked[:40], skip_incomplete=True)
    stream = stream.extend(masked[40:], new_sequence=False, skip_incomplete=True)
    expected = temporal_moments(with_nan, skip_incomplete=True)
    assert stream.moments.n_differences == expected.n_differences
    np.testing.assert_allclose(stream.moments.difference_moment, expected.difference_moment, rtol=1e-12)


@pytest.mark.parametrize(
    "function",
    [
        temporal_moments,
        lambda X: graph_moments(temporal(len(X)), X),
        lambda X: heat_kernel(X, 1.0),
        lambda X: nearest_neighbors(X, 3),
    ],
    ids=["temporal_moments", "graph_moments", "heat_kernel", "nearest_neighbors"],
)
def test_missing_values_are_refused_where_rows_must_be_complete(function, incomplete):
    for X in incomplete:
        row, column = np.argwhere(np.isnan(incomplete[0]))[0]
        with pytest.raises(ValueError, match=f"missing.*row {row}, column {column}"):
            function(X)
    with pytest.raises(ValueError, match="infinity.*row 1, column 0"):
        function([[0.0, 1.0], [np.inf, 2.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="text"):
        function([["0", "1"], ["2", "3"], ["4", "4"]])
    with pytest.raises(ValueError, match="dates"):
        function(np.array([["2020-01-01"], ["2020-01-02"]], dtype="datetime64[D]"))
    with pytest.raises(ValueError, match="[Cc]omplex"):
        function(np.ones((3, 2)) * 1j)
    with pytest.raises(ValueError, match=r"\(n_rows, n_features\).*\(3,\)"):
        function([0.0, 1.0, 2.0])


def test_infinite_values_are_refused_with_missing_values_present():
    X = np.array([[np.nan, 1.0], [2.0, -np.inf], [1.0, 1.0]])
    with pytest.raises(ValueError, match="infinity.*row 1, column 1"):
        temporal_moments(X, skip_incomplete=True)


def test_temporal_moments_check_lag_and_lengths():
    X = np.arange(10.0)[:, None]
    with pytest.raises(ValueError, match="lengths must sum to"):
        temporal_moments(X, lengths=[4, 5])
    with pytest.raises(ValueError, match="lag.*got 0"):
        temporal_moments(X, lag=0)


def test_large_finite_rows_are_not_reported_as_infinity():
    X = np.array([[1e308], [1e308], [1.5e308]])
    with pytest.raises(ValueError, match="row 0, column 0"):
        temporal_moments(X)
    assert np.isfinite(temporal_moments(X * 1e-159).covariance).all()


def test_laplacian_matmul_of_masked_samples_is_missing_at_their_neighbours(incomplete):
    with_nan, masked = incomplete
    graph = temporal(80)
    np.testing.assert_array_equal(graph.laplacian_matmul(masked), graph.laplacian_matmul(with_nan))


LABELS = np.ma.masked_array(np.arange(40) % 5, mask=np.arange(40) == 7)


@pytest.mark.parametrize("graph", [clustered, transition, serial, mixed, reordering, sliding_window])
@pytest.mark.parametrize("dtype", [int, float])
def test_masked_labels_are_refused(graph, dtype):
    with pytest.raises(ValueError, match=r"y\[7\] is masked"):
        graph(LABELS.astype(dtype))
    graph(np.ma.masked_array(LABELS.data.astype(dtype)))  # no label is masked


@pytest.mark.parametrize(
    "estimator",
    [
        GraphSFA(2, graph="clustered"),
        GraphSFA(2, graph="serial"),
        GraphSFAClassifier(),
        HierarchicalSFA([Layer(2)], graph="clustered"),
    ],
)
def test_estimators_refuse_masked_labels(estimator, rng):
    X = rng.standard_normal((40, 3))
    with pytest.raises(ValueError, match=r"y\[7\] is masked"):
        estimator.fit(X, LABELS)
    with pytest.raises(ValueError, match=r"y\[0\]\[7\] is masked"):
        estimator.fit([X[:20], X[20:]], [LABELS[:20], LABELS[20:]])


def test_masked_weights_are_refused():
    with pytest.raises(ValueError, match="W contains NaN"):
        from_sparse(np.ma.masked_equal([[0.0, 5.0], [5.0, 1.0]], 1.0))
    with pytest.raises(ValueError, match="node_weights must be finite"):
        from_sparse([[0.0, 5.0], [5.0, 0.0]], node_weights=np.ma.masked_array([1.0, 999.0], mask=[0, 1]))


def test_edge_weights_below_zero_are_refused():
    with pytest.raises(ValueError, match="weights.*-2.0"):
        from_sparse([[0.0, -2.0], [-2.0, 1.0]])


def test_masked_outputs_are_missing_after_inverse_transform(rng):
    X = np.cumsum(rng.standard_normal((50, 3)), axis=0)
    sfa = SFA().fit(X)
    Y = np.ma.masked_array(sfa.transform(X))
    Y[4] = np.ma.masked
    inputs = sfa.inverse_transform(Y)
    assert np.isnan(inputs[4]).all()
    np.testing.assert_allclose(np.delete(inputs, 4, axis=0), np.delete(X, 4, axis=0), rtol=1e-9)


def test_masked_centers_are_refused(rng):
    centers = np.ma.masked_array(rng.standard_normal((3, 2)), mask=[[0, 0], [0, 1], [0, 0]])
    with pytest.raises(ValueError, match=r"centers.*got shape \(3, 2\)"):
        RadialBasis(centers=centers).fit(rng.standard_normal((9, 2)))


def test_masked_times_are_refused():
    times = np.ma.masked_array([0.0, 1.0, 2.0, 3.0], mask=[0, 0, 1, 0])
    with pytest.raises(ValueError, match="times.*row 2"):
        read_times(times, [4], as_list=False)
