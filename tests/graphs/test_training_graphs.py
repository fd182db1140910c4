"""Training graphs: definitions, products by structure and by matrix, and consistency."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from probsfa import graphs
from probsfa.graphs._combined import SubsetGraph
from probsfa.graphs.moments import temporal_moments
from probsfa.graphs.training_graph import graph_moments
from tests.oracles import graphs as oracle
from tests.tolerances import EXACT, STREAM

# Few samples have few groups; other tests check the warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:The serial graph of . groups:UserWarning")


def classes(y):
    """Return classes from numbers, at least two."""
    labels = np.round(y)
    labels[:2], labels[-2:] = 8, 9
    return labels


CONSISTENT = {
    "mirrored window": lambda y, rng: graphs.sliding_window(y, half_width=int(rng.integers(1, len(y)))),
    "clustered by samples": lambda y, rng: graphs.clustered(classes(y)),
    "clustered by classes": lambda y, rng: graphs.clustered(classes(y), weighting="classes"),
    "serial": lambda y, rng: graphs.serial(y, n_groups=int(rng.integers(4, len(y) + 1))),
    "mirrored window, ties": lambda y, rng: graphs.sliding_window(
        np.append(np.round(y[1:]), 9), half_width=int(rng.integers(1, len(y)))
    ),
    "weighted window": lambda y, rng: graphs.sliding_window(y, weights=rng.random(int(rng.integers(2, 6)))),
    "wide weighted window, ties": lambda y, rng: graphs.sliding_window(
        np.append(np.round(2 * y[1:]), 9), len(y) - 1, weights=lambda lag: np.exp(-lag / 3)
    ),
    "serial on discrete labels": lambda y, rng: graphs.serial(np.append(np.round(y[1:]), 9), n_groups=len(y)),
    "mixed": lambda y, rng: graphs.mixed(y, n_groups=int(rng.integers(2, len(y) + 1))),
    "heat kernel": lambda y, rng: graphs.heat_kernel(y[:, None], bandwidth=0.3),
    "neighbours": lambda y, rng: graphs.nearest_neighbors(y[:, None], int(rng.integers(1, len(y)))),
    "matrix by degree": lambda y, rng: graphs.from_sparse(random_weights(rng, len(y)), "degree"),
    "repaired": lambda y, rng: graphs.from_sparse(random_weights(rng, len(y))).repaired(),
    "repaired window": lambda y, rng: graphs.sliding_window(y, 2, mirrored=False).repaired(),
    "repaired series": lambda y, rng: graphs.temporal(len(y), lag=2).repaired(),
}
INCONSISTENT = {
    "temporal": lambda y, rng: graphs.temporal(len(y)),
    "temporal pieces": lambda y, rng: graphs.temporal(
        len(y), lag=int(rng.integers(1, 3)), lengths=[3, len(y) - 4, 1]
    ),
    "reordering": lambda y, rng: graphs.reordering(y),
    "square window": lambda y, rng: graphs.sliding_window(
        y, int(rng.integers(1, len(y) - 1)), mirrored=False
    ),
    "reordering, ties": lambda y, rng: graphs.reordering(np.append(np.round(y[1:]), 9)),
    "square window, ties": lambda y, rng: graphs.sliding_window(
        np.append(np.round(y[1:]), 9), int(rng.integers(1, len(y) - 1)), mirrored=False
    ),
    "weighted square window, ties": lambda y, rng: graphs.sliding_window(
        np.append(np.round(y[1:]), 9), mirrored=False, weights=[0, 0, 1]
    ),
    "transition": lambda y, rng: graphs.transition(
        np.append(np.round(y[1:]), 9), lag=int(rng.integers(1, 4))
    ),
    "matrix": lambda y, rng: graphs.from_sparse(random_weights(rng, len(y)), rng.random(len(y))),
    "union": lambda y, rng: graphs.union([graphs.temporal(len(y)), graphs.clustered(classes(y))], [1, 0.3]),
    "union on some rows": lambda y, rng: graphs.union(
        [
            graphs.temporal(len(y)),
            SubsetGraph(graphs.serial(y[::2], 2), rng.permutation(len(y))[: len(y[::2])], len(y)),
        ]
    ),
}
KINDS = CONSISTENT | INCONSISTENT


def random_weights(rng, n):
    W = scipy.sparse.random_array((n, n), density=0.5, rng=rng, dtype=np.float64)
    return W + W.T + scipy.sparse.diags_array(np.full(n, 0.1))


def build(kind, seed, n):
    rng = np.random.default_rng(seed)
    return KINDS[kind](rng.uniform(-1.5, 1.5, n), rng)


def assert_moments(found, expected, rtol):
    """Check that entries agree relative to their bound by the Cauchy-Schwarz inequality."""
    scale = np.sqrt(np.diag(expected))
    assert (np.abs(found - expected) <= rtol * np.outer(scale, scale) + 1e-300).all()


# Definitions --------------------------------------------------------------------------------------------


def assert_graph(graph, W, v):
    np.testing.assert_allclose(graph.to_sparse().toarray(), W, rtol=EXACT, atol=EXACT)
    np.testing.assert_allclose(graph.node_weights, v, rtol=EXACT)


@pytest.mark.parametrize("lag", [1, 2, 4])
@pytest.mark.parametrize("lengths", [[9], [5, 1, 3], [2, 7]])
def test_temporal_is_its_definition(lengths, lag):
    if max(lengths) <= lag:
        with pytest.raises(ValueError, match=f"{lag}.*{max(lengths)}"):
            graphs.temporal(9, lag, lengths)
    else:
        assert_graph(graphs.temporal(9, lag, lengths), oracle.temporal(lengths, lag), np.ones(9))


def test_reordering_is_its_definition(rng):
    y = rng.permutation(12)
    assert_graph(graphs.reordering(y), oracle.reordering(y), np.ones(12))


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 11])
def test_sliding_window_is_its_definition(rng, d, mirrored):
    y = rng.permutation(12)
    W = oracle.sliding_window(y, d, mirrored)
    assert_graph(graphs.sliding_window(y, d, mirrored), W, np.ones(12))


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("shape", [[0, 1], [1, 0.5], [2, 1, 3], [0, 0, 1], [1, 1, 0.5, 0, 0.25, 0.1]])
def test_weighted_window_is_its_definition(rng, shape, mirrored):
    y, d = rng.permutation(9), len(shape) - 1
    W = oracle.sliding_window(y, d, mirrored, [weight / max(shape) for weight in shape])
    assert_graph(graphs.sliding_window(y, mirrored=mirrored, weights=shape), W, np.ones(9))
    by_function = graphs.sliding_window(y, d, mirrored, weights=lambda lag: np.take(shape, lag.astype(int)))
    assert_graph(by_function, W, np.ones(9))


def test_mirrored_window_of_half_width_two_has_the_printed_weights():
    """At d = 2 the condition printed in section 5.2, n + n' >= 2 N - 1, is the mirror of the lower one."""
    N, d = 7, 2
    W = graphs.sliding_window(np.arange(N), d).to_sparse().toarray()
    for n in range(1, N + 1):
        for m in range(1, N + 1):
            printed = 2 if n + m <= d + 1 or n + m >= 2 * N - 1 else int(abs(n - m) <= d)
            assert W[n - 1, m - 1] == printed


@pytest.mark.parametrize("weighting", ["samples", "classes"])
def test_clustered_is_its_definition(rng, weighting):
    y = rng.choice(["a", "b", "c"], 14, p=[0.6, 0.3, 0.1])
    assert_graph(graphs.clustered(y, weighting), *oracle.clustered(y, weighting))


@pytest.mark.parametrize("n_groups", [2, 3, 4, 12])
@pytest.mark.parametrize("kind", ["serial", "mixed"])
def test_serial_and_mixed_are_their_definition_for_equal_groups(rng, kind, n_groups):
    y = rng.standard_normal(12)
    groups = (np.array(oracle.ranks(y)) - 1) // (12 // n_groups)
    assert_graph(getattr(graphs, kind)(y, n_groups), *getattr(oracle, kind)(groups))


def test_neighbours_and_heat_kernel_are_their_definition(rng):
    X = rng.standard_normal((15, 2))
    for graph, W in [
        (graphs.nearest_neighbors(X, 4), oracle.nearest_neighbors(X, 4)),
        (graphs.heat_kernel(X, 0.5), oracle.heat_kernel(X, 0.5)),
    ]:
        assert_graph(graph, W, W.sum(axis=1))


@pytest.mark.parametrize("lag", [1, 3])
def test_transition_is_its_definition(rng, lag):
    states = rng.choice(list("abc"), 20)
    assert_graph(graphs.transition(states, lag), oracle.transition(states, lag), np.ones(20))


def test_there_are_no_transitions_between_sequences():
    joined = graphs.transition([0, 0, 1, 1]).to_sparse().toarray()
    cut = graphs.transition([0, 0, 1, 1], lengths=[2, 2]).to_sparse().toarray()
    assert joined[0, 2] > 0 and cut[0, 2] == 0


# Properties of all kinds ---------------------------------------------------------------------------------


@settings(deadline=None, max_examples=10)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(6, 40), offset=st.sampled_from([0.0, 1e8]))
def test_structured_equals_sparse(kind, seed, n, offset):
    graph = build(kind, seed, n)
    X = np.random.default_rng(seed).standard_normal((n, 3)) + offset
    W = graph.to_sparse().toarray()
    np.testing.assert_allclose(graph.degrees, W.sum(axis=1), rtol=STREAM, atol=STREAM * W.max())
    assert graph.Q == pytest.approx(graph.node_weights.sum(), rel=STREAM)
    assert graph.R == pytest.approx(W.sum(), rel=STREAM)
    L = np.diag(W.sum(axis=1)) - W
    Y = X - offset  # exact, so that both have the same numbers
    np.testing.assert_allclose(graph.laplacian_matmul(Y), L @ Y, atol=STREAM * np.abs(L).max() * 5 * n)
    mean, B, A = oracle.moments(W, graph.node_weights, Y)
    found = graph_moments(graph, X)
    np.testing.assert_allclose(found.mean, mean + offset, rtol=STREAM, atol=STREAM)
    assert_moments(found.covariance, B, STREAM)
    assert_moments(found.difference_moment, A, STREAM)


@settings(deadline=None, max_examples=10)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(6, 40))
def test_laplacian_is_symmetric_and_maps_constants_to_zero(kind, seed, n):
    graph = build(kind, seed, n)
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, n))
    size = STREAM * graph.degrees.max() * n
    assert x @ graph.laplacian_matmul(y) == pytest.approx(y @ graph.laplacian_matmul(x), abs=size)
    np.testing.assert_allclose(graph.laplacian_matmul(np.full(n, 3.0)), 0.0, atol=size)
    assert x @ graph.laplacian_matmul(x) >= -size


@settings(deadline=None, max_examples=10)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1), n=st.integers(6, 40))
def test_consistency_and_components(kind, seed, n):
    graph = build(kind, seed, n)
    W, v = graph.to_sparse().toarray(), graph.node_weights
    literal = np.allclose(W.sum(axis=1) / W.sum(), v / v.sum(), rtol=0, atol=1e-9)
    assert graph.is_consistent() == literal
    assert literal or kind in INCONSISTENT
    n_components, labels = connected_components(W > 0, directed=False)
    found = graph.component_labels()
    assert len(set(found)) == n_components == found.max() + 1
    assert len(set(zip(labels.tolist(), found.tolist(), strict=True))) == n_components

    repaired = graph.repaired()
    W, v = repaired.to_sparse().toarray(), repaired.node_weights
    np.testing.assert_allclose([v.sum(), W.sum()], 1.0, rtol=EXACT)  # restrictions 19 and 22
    np.testing.assert_allclose(W.sum(axis=1), v, rtol=EXACT)  # 20
    np.testing.assert_allclose(W.sum(axis=0), v, rtol=EXACT)  # 21
    np.testing.assert_allclose(W * graph.R, graph.to_sparse().toarray(), rtol=EXACT)


def test_consistency_of_the_graphs_of_the_paper():
    y = np.arange(12.0)
    assert not graphs.temporal(12).is_consistent()
    assert not graphs.sliding_window(y, 3, mirrored=False).is_consistent()
    assert graphs.sliding_window(y, 3).is_consistent()
    assert graphs.serial(y, 5).is_consistent() and graphs.mixed(y, 5).is_consistent()


@pytest.mark.parametrize("kind", KINDS)
def test_vectors_matrices_and_wrong_sizes(kind):
    graph = build(kind, 0, 12)
    x = np.arange(12)
    by_vector = graph.laplacian_matmul(x)
    assert by_vector.shape == (12,) and by_vector.dtype == np.float64
    np.testing.assert_array_equal(by_vector, graph.laplacian_matmul(x[:, None])[:, 0])
    for wrong in (x[1:], x.reshape(3, 4), x.reshape(12, 1, 1), 3.0):
        with pytest.raises(ValueError, match="12 vertices"):
            graph.laplacian_matmul(wrong)
    with pytest.raises(ValueError, match="12 vertices"):
        graph_moments(graph, np.ones((11, 2)))
    with pytest.raises(ValueError, match="read-only"):
        graph.node_weights[0] = 5


# Properties of single kinds ----------------------------------------------------------------------------


def test_temporal_moments_are_those_of_sfa(rng):
    X = rng.standard_normal((60, 4)).cumsum(axis=0) + 1e8
    for lag, lengths in [(1, [60]), (3, [20, 2, 38])]:
        found = graph_moments(graphs.temporal(60, lag, lengths), X)
        expected = temporal_moments(X, lengths=lengths, lag=lag)
        assert_moments(found.covariance, expected.covariance, STREAM)
        assert_moments(found.difference_moment, expected.difference_moment, STREAM)


def test_transition_moments_are_those_of_sfa_on_functions_of_the_state(rng):
    states = rng.integers(0, 5, 80)
    X = rng.standard_normal((5, 3))[states]
    found = graph_moments(graphs.transition(states, lag=2, lengths=[30, 50]), X)
    expected = temporal_moments(X, lengths=[30, 50], lag=2)
    assert_moments(found.covariance, expected.covariance, STREAM)
    assert_moments(found.difference_moment, expected.difference_moment, STREAM)


def test_deviations_within_distant_groups_are_accurate(rng):
    y, centres = np.repeat([0, 1, 2], 20), np.array([-1.0, 0.0, 1.0])
    X = centres[y][:, None] + 2.0**-30 * rng.integers(-8, 9, (60, 2))  # exact: 53 bits hold both
    inside = 2.0**30 * (X - centres[y][:, None])
    _, _, A = oracle.moments(*oracle.clustered(y, "samples"), inside)
    found = graph_moments(graphs.clustered(y), X).difference_moment
    assert_moments(2.0**60 * found, A, EXACT * 1e3)


def test_union_of_data_sets_is_the_direct_sum(rng):
    one, two = graphs.clustered([0, 1, 1, 0]), graphs.temporal(3)
    both = graphs.union([SubsetGraph(one, np.arange(4), 7), SubsetGraph(two, np.arange(4, 7), 7)])
    W = scipy.sparse.block_diag([one.to_sparse(), two.to_sparse()]).toarray()
    assert_graph(both, W, np.concatenate([one.node_weights, two.node_weights]))
    np.testing.assert_array_equal(both.component_labels(), [0, 1, 1, 0, 2, 2, 2])
    X, Z = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    expected = np.vstack([one.laplacian_matmul(X), two.laplacian_matmul(Z)])
    np.testing.assert_allclose(both.laplacian_matmul(np.vstack([X, Z])), expected, rtol=EXACT)


def test_union_on_some_rows_is_its_definition():
    rows = np.array([5, 0, 2])
    both = graphs.union([graphs.temporal(6), SubsetGraph(graphs.clustered(["a", "b", "a"]), rows, 6)])
    W = graphs.temporal(6).to_sparse().toarray()
    W[np.ix_(rows, rows)] += [[0.5, 0, 0.5], [0, 1, 0], [0.5, 0, 0.5]]
    assert_graph(both, W, [2, 1, 2, 1, 1, 2])


def test_rows_outside_the_graph_are_components_of_weight_zero():
    alone = SubsetGraph(graphs.temporal(2), np.array([3, 1]), 5)
    np.testing.assert_array_equal(alone.node_weights, [0, 1, 0, 1, 0])
    assert len(np.unique(alone.component_labels())) == 4


def test_union_refuses_graphs_of_different_samples():
    with pytest.raises(ValueError, match=r"\[6, 3\].*semi_supervised"):
        graphs.union([graphs.temporal(6), graphs.clustered(["a", "b", "a"])])


def test_union_adds_and_checks(rng):
    one, two = graphs.temporal(8), graphs.clustered([0, 0, 0, 0, 1, 1, 1, 1])
    both = graphs.union([one, two], weights=[2.0, 0.5])
    np.testing.assert_allclose(
        both.to_sparse().toarray(), 2 * one.to_sparse().toarray() + 0.5 * two.to_sparse().toarray()
    )
    np.testing.assert_allclose(both.node_weights, 2 * one.node_weights + 0.5 * two.node_weights)
    with pytest.raises(ValueError, match=r"\[8, 9\]"):
        graphs.union([one, graphs.temporal(9)])
    with pytest.raises(ValueError, match="training graph"):
        graphs.union([])
    with pytest.raises(ValueError, match="2 positive numbers"):
        graphs.union([one, two], weights=[1.0, -1.0])


def test_directed_weights_count_as_their_mean(rng):
    W, X = rng.random((9, 9)), rng.standard_normal((9, 2))
    found = graph_moments(graphs.from_sparse(W), X)
    _, B, A = oracle.moments(W, np.ones(9), X)
    assert_moments(found.difference_moment, A, STREAM)
    assert_moments(found.covariance, B, STREAM)


@pytest.mark.parametrize("convert", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_any_kind_of_matrix(rng, convert):
    W = rng.random((6, 6))
    np.testing.assert_allclose(graphs.from_sparse(convert(W)).to_sparse().toarray(), (W + W.T) / 2)


def test_few_distinct_labels_are_groups():
    y = [3, 1, 1, 1, 2, 1]
    W = graphs.serial(y, n_groups=4).to_sparse().toarray()
    assert (W[0] > 0).tolist() == [False, False, False, False, True, False]
    assert graphs.serial(y, n_groups=4).is_consistent()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: graphs.serial([1.0, 1.0], 2), r"\by\b.*1.0"),
        (lambda: graphs.serial([1.0, np.nan], 2), "y contains NaN"),
        (lambda: graphs.serial([1.0, 2.0], 1), "n_groups.*2.*1"),
        (lambda: graphs.reordering([1.0]), "y has 1 label"),
        (lambda: graphs.sliding_window([1, 2, 3], 3), "half_width.*2.*3.*3"),
        (lambda: graphs.clustered([0.0, np.nan]), r"\by\b.*NaN.*NA: 1.*2"),
        (lambda: graphs.clustered([0, 1], "sample"), "weighting.*'samples', 'classes'"),
        (lambda: graphs.from_sparse(np.ones((2, 3))), r"\bW\b.*\(2, 3\)"),
        (lambda: graphs.from_sparse([[0, -1], [-1, 0]]), r"\bW\b.*-1.0"),
        (lambda: graphs.from_sparse([[0, np.inf], [1, 0]]), "W contains NaN or infinity"),
        (lambda: graphs.from_sparse(np.zeros((2, 2))), "no edges"),
        (lambda: graphs.from_sparse(np.ones((2, 2)), [0, 0]), "node_weights"),
        (lambda: graphs.from_sparse(np.ones((2, 2)), [1, -1]), "node_weights"),
        (lambda: graphs.from_sparse(np.ones((2, 2)), "degrees"), "node_weights.*2"),
        (lambda: graphs.heat_kernel(np.eye(3), 0.0), "bandwidth.*0.0"),
        (lambda: graphs.nearest_neighbors(np.eye(3), 3), "n_neighbors.*3.*3"),
        (lambda: graphs.transition([0, 1], lag=2), "2 apart"),
        (lambda: graphs.temporal(3, lengths=[2, 2]), "lengths.*3"),
        (lambda: graphs.temporal(0), r"\bn\b.*1.*0"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
