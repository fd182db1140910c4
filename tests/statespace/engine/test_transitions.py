"""Transitions of cycles and smooth processes against matrix exponentials, and their accuracy."""

import numpy as np
import pytest

from probsfa.statespace.engine.dynamics import transition_over, transition_table
from probsfa.statespace.parameters import StateSpace
from tests.oracles import block_processes as oracle
from tests.statespace.engine.block_models import KINDS, make_model
from tests.statespace.support import scaled_error


@pytest.mark.parametrize("kind", list(KINDS))
def test_transitions_are_matrix_exponentials(rng, kind):
    params = make_model(rng, kind)
    gaps = np.array([0.01, 1.0, 3.5])
    over, table = transition_over(params, gaps), transition_table(params, gaps)
    identity = np.eye(params.n_states)
    for i, gap in enumerate(gaps):
        one, wanted = over.at(i), oracle.transition(params, gap)
        np.testing.assert_allclose(one.move(identity), wanted, atol=1e-14)
        np.testing.assert_allclose(one.innovation_covariance(), oracle.innovation(params, gap), atol=1e-14)
        root_of_q = one.innovation_root().matrix()
        np.testing.assert_allclose(root_of_q.T @ root_of_q, one.innovation_covariance(), atol=1e-14)
        np.testing.assert_array_equal(root_of_q, np.triu(root_of_q))
        root = rng.standard_normal((params.n_states, params.n_states))
        square = root @ root.T
        for found, expected in (
            (one.move_back(root), wanted.T @ root),
            (one.move_covariance(square), wanted @ square @ wanted.T),
            (one.move_information_back(square), wanted.T @ square @ wanted),
        ):
            assert scaled_error(found, expected) < 1e-14
    start = table.at(len(gaps))
    np.testing.assert_array_equal(start.move(identity), 0.0 * identity)
    np.testing.assert_array_equal(start.innovation_covariance(), identity)


def test_innovations_of_slow_smooth_factors_are_accurate():
    """``1 - A A'`` has no significant digits: it is of the order of the cube of the step."""
    d = 1e-5
    params = StateSpace(np.zeros(0), np.zeros((1, 2)), np.ones(1), np.zeros(1), smooth_rate=np.array([d]))
    found = np.asarray(transition_over(params, np.ones(1)).at(0).innovation_covariance())
    # The innovation covariance 4 int_0^d exp(-2 s) (s, 1 - s)' (s, 1 - s) ds as a series in d.
    wanted = [[4 / 3 * d**3 - 2 * d**4, 2 * d**2 - 4 * d**3], [2 * d**2 - 4 * d**3, 4 * d - 8 * d**2]]
    np.testing.assert_allclose(found, wanted, rtol=1e-8)
