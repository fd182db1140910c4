"""Methods of transitions equal products with their matrices, for one row, a batch and many rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa.statespace.engine.dynamics import (
    Gaussian,
    Moments,
    Transition,
    expected_terms,
    transition_over,
    transition_score,
    transition_table,
)
from probsfa.statespace.engine.likelihood import with_start
from probsfa.statespace.engine.moments import pack
from tests.statespace.support import model_of_decays
from tests.tolerances import EXACT

DECAY = np.array([0.9, -0.4, 0.0])


@pytest.fixture
def double_precision():
    with jax.enable_x64(True):
        yield


def matrices(transition):
    """Return ``A`` and ``Q`` of one transition as dense matrices."""
    identity = np.eye(len(transition.decay))
    return np.asarray(transition.move(identity)), np.asarray(transition.innovation_covariance())


def test_methods_are_products_with_the_matrices(rng):
    transition = Transition(DECAY)
    a, q = matrices(transition)
    np.testing.assert_array_equal(a, np.diag(DECAY))
    np.testing.assert_allclose(q, np.eye(3) - a @ a.T, rtol=EXACT)
    x, root = rng.standard_normal((3, 3)), rng.standard_normal((3, 3))
    covariance = root @ root.T
    for found, wanted in (
        (transition.move(x), a @ x),
        (transition.move(x[0]), a @ x[0]),
        (transition.move_back(x), a.T @ x),
        (transition.move_covariance(covariance), a @ covariance @ a.T),
        (transition.move_information_back(covariance), a.T @ covariance @ a),
        (transition.predict(Gaussian(x[0], covariance)).covariance, a @ covariance @ a.T + q),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("double_precision")
def test_a_batch_equals_its_members_computed_separately(rng):
    rows = Transition(rng.uniform(-0.9, 0.9, (4, 3)))
    batch, x, y = rows.as_batch(), rng.standard_normal((3, 2, 4)), rng.standard_normal((3, 3, 4))
    square = np.einsum("ijs,kjs->iks", x, x)
    for i in range(4):
        one = rows.at(i)
        for name, argument in (
            ("move", x),
            ("predict_covariance", square),
            ("move_covariance", square),
            ("lag_terms", square),
        ):
            found = np.asarray(getattr(batch, name)(argument))[..., i]
            wanted = getattr(one, name)(argument[..., i])
            np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=name)
        terms = batch.lag_terms_of_product(square, y)[..., i]
        wanted = one.lag_terms(square[..., i] @ y[..., i])
        np.testing.assert_allclose(terms, wanted, rtol=1e-12)


def test_transitions_over_two_gaps_compose():
    over = transition_over(model_of_decays([0.9, 0.3]), np.array([0.25, 0.75, 1.0]))
    steps = [matrices(over.at(i)) for i in range(3)]
    np.testing.assert_allclose(steps[1][0] @ steps[0][0], steps[2][0], rtol=1e-14)
    composed_innovation = steps[1][0] @ steps[0][1] @ steps[1][0].T + steps[1][1]
    np.testing.assert_allclose(composed_innovation, steps[2][1], rtol=1e-13, atol=1e-15)
    with pytest.raises(ValueError, match="factor 1"):
        transition_over(model_of_decays([0.5, -0.5]), np.array([1.0, 0.5]))


@pytest.mark.usefixtures("double_precision")
def test_transitions_of_rows_are_selected_replaced_and_shifted():
    params, gaps = model_of_decays([0.9, 0.3]), np.array([1.0, 2.0])
    table = transition_table(params, gaps)
    assert table.n_rows == 3
    rows = table.at(np.array([2, 0, 1]))
    wanted = [np.zeros((2, 2)), np.diag([0.9, 0.3]), np.diag([0.81, 0.09])]

    def assert_same(transitions, wanted):
        found = [matrices(transitions.at(i)) for i in range(transitions.n_rows)]
        for (a, q), matrix in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, matrix, rtol=1e-15)
            np.testing.assert_allclose(q, np.eye(2) - matrix @ matrix.T, rtol=1e-14)

    assert_same(rows, wanted)
    assert_same(rows.followed_by(table.at(0)), [*wanted[1:], wanted[1]])
    assert_same(rows.with_first(table.at(1)), [wanted[2], *wanted[1:]])
    assert_same(rows.start_unless(np.array([True, False, True])), [wanted[0], wanted[0], wanted[2]])
    np.testing.assert_array_equal(matrices(table.at(1).starting())[0], wanted[0])
    assert_same(with_start(transition_over(params, gaps).map(jnp.asarray)), [*wanted[1:], wanted[0]])


@pytest.mark.usefixtures("double_precision")
def test_terms_and_score_are_those_of_the_expected_log_density(rng):
    """Compare with the expected log density of a transition and its derivative, for any moments."""
    root = rng.standard_normal((6, 6))
    joint, mean = root @ root.T / 6.0, rng.standard_normal(6)
    first, second = slice(0, 3), slice(3, 6)
    parts = (first, second)

    def value(a):
        """Return the expected log density of the second state given the first, without constants."""
        q = np.eye(3) - a @ a.T
        residual = np.hstack([-a, np.eye(3)])
        scatter = residual @ (joint + np.outer(mean, mean)) @ residual.T
        return -0.5 * (np.linalg.slogdet(q)[1] + np.trace(np.linalg.solve(q, scatter)))

    steps = Transition(DECAY[:, None])
    current, following = (
        Moments(mean[part][:, None], steps.covariance_terms(pack(joint[part, part])[:, None]))
        for part in parts
    )
    lag_one = steps.lag_terms(joint[second, first][:, :, None])
    terms = expected_terms(steps, current, following, lag_one)
    score = transition_score(Transition(DECAY[None]), np.ones(1), terms[0].T, terms[1].T).decay[0]
    h = 1e-6
    for k in range(3):
        up, down = (value(np.diag(DECAY + s * h * np.eye(3)[k])) for s in (1, -1))
        assert score[k] == pytest.approx((up - down) / (2 * h), rel=1e-7, abs=1e-7)
    second_moment = joint[first, first] + np.outer(mean[first], mean[first])
    np.testing.assert_allclose(terms.previous_power[:, 0], np.diag(second_moment), rtol=1e-12)
