"""Rhythms and smooth latents beside AR(1) ones: every strategy gives what the joint Gaussian says."""

import numpy as np
import pytest

from probsfa.statespace import use_strategy
from probsfa.statespace.engine.dynamics import transition_over, transition_table
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics, filter_rows, log_likelihood, smooth
from tests.oracles import latents_of_two_states as oracle
from tests.sampling import sparsely
from tests.statespace.engine.two_state_models import (
    KINDS,
    assert_is_the_joint_gaussian,
    make_data,
    make_model,
)
from tests.statespace.support import scaled_error
from tests.tolerances import EXACT


@pytest.mark.parametrize("kind", list(KINDS))
def test_transitions_are_matrix_exponentials(rng, kind):
    params = make_model(rng, kind)
    gaps = np.array([0.01, 1.0, 3.5])
    over, table = transition_over(params, gaps), transition_table(params, gaps)
    identity = np.eye(params.n_states)
    for i, gap in enumerate(gaps):
        one, wanted = over.at(i), oracle.transition(params, gap)
        np.testing.assert_allclose(one.move(identity), wanted, atol=1e-14)
        np.testing.assert_allclose(one.innovation_covariance(), identity - wanted @ wanted.T, atol=1e-14)
        np.testing.assert_allclose(one.reversed().move(identity), wanted.T, atol=1e-14)
        back = identity - wanted.T @ wanted
        np.testing.assert_allclose(one.reversed().innovation_covariance(), back, atol=1e-14)
        np.testing.assert_allclose(table.reversed().at(i).innovation_covariance(), back, atol=1e-14)
        inverse = np.linalg.inv(np.asarray(one.innovation_covariance()))
        root = rng.standard_normal((params.n_states, params.n_states))
        square = root @ root.T
        for found, expected in (
            (one.move_back(root), wanted.T @ root),
            (one.move_rows(root), root @ wanted.T),
            (one.move_rows_back(root), root @ wanted),
            (one.innovate(root), np.linalg.inv(inverse) @ root),
            (one.move_covariance(square), wanted @ square @ wanted.T),
            (one.move_information_back(square), wanted.T @ square @ wanted),
            (one.information(root), wanted.T @ inverse @ wanted @ root),
            (one.information_rows(root), root @ wanted.T @ inverse @ wanted),
            (one.gain(square), square @ wanted.T @ inverse),
            (one.gain_transposed(square), inverse @ wanted @ square),
        ):
            assert scaled_error(found, expected) < 1e-8  # of the inverse of a small Q
    start = table.at(len(gaps))
    np.testing.assert_array_equal(start.move(identity), 0.0 * identity)
    np.testing.assert_array_equal(start.innovation_covariance(), identity)


def test_innovations_of_slow_smooth_latents_keep_their_digits():
    """``1 - A A'`` itself would have lost them all: it is of the order of the cube of the step."""
    d = 1e-5
    params = Parameters(np.zeros(0), np.zeros((1, 2)), np.ones(1), np.zeros(1), smooth_rate=np.array([d]))
    found = np.asarray(transition_over(params, np.ones(1)).at(0).innovation_covariance())
    # The innovation's covariance, 4 int_0^d exp(-2 s) (s, 1 - s)' (s, 1 - s) ds, as a series in d.
    wanted = [[4 / 3 * d**3 - 2 * d**4, 2 * d**2 - 4 * d**3], [2 * d**2 - 4 * d**3, 4 * d - 8 * d**2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-8)


ASKED = {
    "recursions": {"strategy": "recursions"},
    "chunks": {"strategy": "recursions", "chunk_rows": 16},
    "two_filter": {"strategy": "recursions", "two_filter": True, "chunk_rows": 16},
    "segmented": {"strategy": "segmented", "n_segments": 8},
    "information_form": {"strategy": "information_form", "n_segments": 4},
    "parallel_scan": {"strategy": "parallel_scan", "n_segments": 8},
    "covariance_form": {"strategy": "covariance_form"},
    "segmented, both ends": {
        "strategy": "segmented",
        "n_segments": 8,
        "two_filter": True,
        "chunk_rows": 32,
    },
}


# Each strategy compiles each kind of model anew at even times and at uneven ones: it is given each kind once,
# and both samplings; each kind is given to four strategies at even times and to four at uneven ones.
CASES = [(asked, kind, (i + j) % 2 == 1) for j, asked in enumerate(ASKED) for i, kind in enumerate(KINDS)]


@sparsely(("asked", "kind", "even"), CASES, shown=[case for case in CASES if case[1] == "both"])
def test_every_strategy_gives_the_joint_gaussian(rng, asked, kind, even):
    params = make_model(rng, kind)
    data, times, panel = make_data(rng, params, even=even)
    with use_strategy(**ASKED[asked]):
        assert_is_the_joint_gaussian(params, data, times, panel)


@pytest.mark.parametrize("kind", list(KINDS))
def test_steady_state_gives_what_the_recursions_give(rng, kind):
    params = make_model(rng, kind)
    _, _, panel = make_data(rng, params, even=True, holes="none", lengths=[300])
    given = []
    for strategy in ("recursions", "steady_state"):
        with use_strategy(strategy):
            parts = smooth(params, panel), expected_statistics(params, panel)
            given.append([log_likelihood(params, panel), *parts[0], *parts[1]])
    for one, other in zip(*given, strict=True):
        assert scaled_error(one, other) < 1e-9


@pytest.mark.parametrize("kind", list(KINDS))
def test_filtering_is_the_joint_gaussian_of_the_rows_so_far(rng, kind):
    params = make_model(rng, kind)
    data, times, panel = make_data(rng, params, even=False, lengths=[20])
    steps = transition_table(params, panel.gaps).at(panel.gap_index)
    n = params.n_states
    found = filter_rows(params, panel, steps, np.zeros(n), np.eye(n))
    for t in (0, 7, 19):
        value, mean, covariance = oracle.joint(params, [data[0][: t + 1]], [times[0][: t + 1]])
        assert scaled_error(found.means[t], mean[-1]) < EXACT
        assert scaled_error(found.covariances[t], covariance[-1, :, -1]) < EXACT
        assert abs(found.log_likelihoods[: t + 1].sum() - value) < EXACT * abs(value)
