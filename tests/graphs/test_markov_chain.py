"""Markov chains on training graphs: transition probabilities, and equality of SFA of the chain and GSFA."""

import numpy as np
import pytest
import scipy.linalg

from probsfa import graphs
from probsfa.graphs._combined import SubsetGraph
from probsfa.graphs.moments import temporal_moments
from probsfa.graphs.training_graph import graph_moments
from probsfa.linalg import slow_directions, whiten
from tests.tolerances import EXACT, mc_tolerance

Y = np.array([0.1, 2.2, 1.0, 0.4, 1.9, 0.8, 1.3, 0.2, 1.6])
CONNECTED = {
    "mirrored window": graphs.sliding_window(Y, 2),
    "square window": graphs.sliding_window(Y, 2, mirrored=False).repaired(),
    "serial": graphs.serial(Y, 4),
    "mixed": graphs.mixed(Y, 3),
    "temporal": graphs.temporal(9).repaired(),
    "reordering": graphs.reordering(Y).repaired(),
    "neighbours": graphs.nearest_neighbors(Y[:, None], 4),
    "transition": graphs.transition([0, 1, 1, 2, 0, 1, 2, 2, 0]).repaired(),
    "union on some rows": graphs.union(
        [graphs.temporal(9), SubsetGraph(graphs.clustered([0, 1, 0, 1]), np.array([8, 1, 3, 6]), 9)]
    ).repaired(),
    "union": graphs.union([graphs.temporal(9), graphs.clustered(Y > 1)]).repaired(),
}


@pytest.mark.parametrize("name", CONNECTED)
def test_transition_frequencies_equal_the_probabilities(name, seed):
    graph = CONNECTED[name]
    chain = graph.sample_markov_chain(40_000, random_state=seed)
    assert chain.shape == (40_000,)
    visits = np.bincount(chain[:-1], minlength=9)
    steps = np.zeros((9, 9))
    np.add.at(steps, (chain[:-1], chain[1:]), 1)
    for n, row in enumerate(graph.to_sparse().toarray()):
        # the steps from one vertex are independent draws, and on a connected graph there are no jumps
        for target, p in enumerate(row / row.sum()):
            error = abs(steps[n, target] / visits[n] - p)
            assert error <= mc_tolerance(p * (1 - p), visits[n]) + EXACT


def test_a_chain_on_a_subset_visits_only_its_rows(seed):
    rows = np.array([7, 2, 4, 1])
    chain = SubsetGraph(graphs.serial([1, 2, 3, 4], 4), rows, 9).sample_markov_chain(500, seed, teleport=0.0)
    assert set(chain) == set(rows)
    assert {(int(a), int(b)) for a, b in zip(chain[:-1], chain[1:], strict=True)} == {
        (7, 2), (2, 7), (2, 4), (4, 2), (4, 1), (1, 4)
    }  # fmt: skip


@pytest.mark.parametrize("name", ["mirrored window", "mixed", "neighbours", "clustered", "clustered classes"])
def test_sfa_of_the_chain_approaches_gsfa(name, seed):
    rng = np.random.default_rng(seed)
    y = np.sort(rng.uniform(0, 3, 30))
    graph = {
        "mirrored window": lambda: graphs.sliding_window(y, 4),
        "mixed": lambda: graphs.mixed(y, 5),
        "neighbours": lambda: graphs.nearest_neighbors(y[:, None], 6),
        "clustered": lambda: graphs.clustered(np.floor(y)),
        "clustered classes": lambda: graphs.clustered(np.floor(y), weighting="classes"),
    }[name]()
    step = np.floor(y)[:, None] == [0, 1]
    slow = step if "clustered" in name else np.cos(np.pi / 3 * y[:, None] * [1, 2])
    X = np.hstack([slow + 0.1 * rng.standard_normal((30, 2)), rng.standard_normal((30, 2))])
    X = X @ rng.standard_normal((4, 4))
    exact = graph_moments(graph, X)
    expected = slow_directions(exact.difference_moment, exact.covariance, 2)
    W = whiten(exact.covariance).matrix

    def errors(n, chain_seed):
        sampled = temporal_moments(X[graph.sample_markov_chain(n, random_state=chain_seed)])
        found = slow_directions(sampled.difference_moment, sampled.covariance, 2)
        angle = scipy.linalg.subspace_angles(X @ found.weights, X @ expected.weights).max()
        moments = [
            W.T @ (sampled.difference_moment - exact.difference_moment) @ W,
            W.T @ (sampled.covariance - exact.covariance) @ W,
        ]
        return angle, np.linalg.norm(moments)

    short = np.mean([errors(1_000, seed + i) for i in range(8)], axis=0)
    long = np.mean([errors(100_000, seed + i) for i in range(4)], axis=0)
    # errors fall like n^-1/2, the shares of disconnected components like n^-1/4: to 0.1 and 0.32 here
    assert long[1] < 0.6 * short[1]
    assert long[0] < 0.1


def test_teleporting_increases_delta_values_and_does_not_change_features(seed):
    y = np.repeat([0, 1, 2], 10)
    X = np.random.default_rng(seed).standard_normal((30, 2)) + y[:, None]
    graph, n, teleport = graphs.clustered(y), 200_000, 0.2
    exact = graph_moments(graph, X)
    chain = graph.sample_markov_chain(n, random_state=seed, teleport=teleport)
    sampled = temporal_moments(X[chain]).difference_moment
    expected = (1 - teleport) * exact.difference_moment + 2 * teleport * exact.covariance
    assert np.abs(sampled - expected).max() < mc_tolerance(10 * np.abs(expected).max() ** 2, n)


def test_chains_visit_all_components_unless_teleport_is_zero():
    chain = graphs.clustered([0, 0, 1, 1, 2, 2]).sample_markov_chain(10_000, random_state=0)
    assert set(chain.tolist()) == set(range(6))
    inside = graphs.clustered([0, 0, 1, 1, 2, 2]).sample_markov_chain(500, random_state=0, teleport=0.0)
    assert len(set(inside.tolist())) == 2


def test_the_first_vertex_is_drawn_by_node_weight():
    graph, n = graphs.clustered([0, 0, 0, 1], weighting="classes"), 4_000
    firsts = np.array([graph.sample_markov_chain(1, random_state=i)[0] for i in range(n)])
    assert abs(np.mean(firsts == 3) - 0.5) <= mc_tolerance(0.25, n)


def test_chains_repeat_and_have_any_length():
    graph = graphs.mixed(Y, 3)
    first, second = (graph.sample_markov_chain(50, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert graph.sample_markov_chain(1, random_state=0).shape == (1,)


def test_errors():
    with pytest.raises(ValueError, match=r"graph.repaired\(\)"):
        graphs.temporal(9).sample_markov_chain(10)
    with pytest.raises(ValueError, match="n_steps.*got 0"):
        graphs.mixed(Y, 3).sample_markov_chain(0)
    with pytest.raises(ValueError, match="teleport.*got 2"):
        graphs.mixed(Y, 3).sample_markov_chain(5, teleport=2)


def test_jumps_between_components_become_rare_in_long_chains():
    graph = graphs.clustered(np.arange(10) % 2)
    for n in (2_500, 40_000):
        chain = graph.sample_markov_chain(n, random_state=0)
        jumps = np.mean(chain[1:] % 2 != chain[:-1] % 2) * 2  # half of the jumps stay in their class
        assert abs(jumps - n**-0.5) < mc_tolerance(2 * n**-0.5, n)
