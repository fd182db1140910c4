"""Complete series by the steady state: the same numbers as by loops over all rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from probsfa.statespace import use_strategy
from probsfa.statespace.engine import steady_state
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.engine.steady_state import SteadyState
from probsfa.statespace.posterior import expected_statistics, log_likelihood, plan_for, smooth
from tests.oracles import statespace as oracle
from tests.sampling import sparsely
from tests.statespace.support import punch, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT, small_noise_tolerance


@pytest.fixture
def short_series():
    """Let the tests be small."""
    with use_strategy("steady_state"):
        yield


def is_chosen(model, data, times=None):
    """Whether the steady state is what serves, of itself."""
    with jax.enable_x64(True):
        return isinstance(plan_for(to_parameters(model), to_panel(data, times)).route, SteadyState)


def one_series(rng, n_rows=200, n_features=4, n_components=2, noise=0.3):
    model = oracle.random_model(rng, n_features, n_components, noise)
    model = model._replace(decay=np.array([0.9, -0.3, 0.5])[:n_components])
    return model, oracle.simulate(rng, model, [n_rows])


@sparsely("n_rows", [260, 320, 321], shown=[260])
@sparsely("n_components", [1, 3], shown=[3])
@sparsely("pad", [True, False])
@pytest.mark.usefixtures("short_series")
def test_posterior_is_that_of_the_dense_joint_distribution(rng, n_rows, n_components, pad):
    model, data = one_series(rng, n_rows, 5, n_components)
    params, panel = to_parameters(model), to_panel(data, pad=pad)
    means, covariances, lag_one, rows = smooth(params, panel)
    wanted = oracle.joint_posterior(model, data)
    assert scaled_error(means, wanted.means) < EXACT
    assert scaled_error(covariances, wanted.covariances) < EXACT
    assert scaled_error(lag_one, wanted.lag_one) < EXACT
    assert scaled_error(rows.sum(), oracle.log_likelihood(model, data)) < EXACT
    assert scaled_error(log_likelihood(params, panel), rows.sum()) < EXACT


@sparsely("noise", [1e-8, 1e-4, 1.0, 1e2])
@pytest.mark.usefixtures("short_series")
def test_any_noise(rng, noise):
    model, data = one_series(rng, 1200, 4, 2, noise)
    means, covariances, _, rows = smooth(to_parameters(model), to_panel(data))
    wanted = oracle.kalman_loop(model, data)
    same = small_noise_tolerance(noise)
    assert scaled_error(means, wanted.means) < same
    scale = min(noise, 1.0)
    assert scaled_error(covariances / scale, wanted.covariances / scale) < max(same, 1e-8)
    assert scaled_error(rows, wanted.row_log_likelihoods) < same


@sparsely("decay", [(0.0, 0.9), (-0.7, 0.7), (0.95, 0.5)])
@pytest.mark.usefixtures("short_series")
def test_any_decay_and_the_sums_for_learning(rng, decay):
    model, _ = one_series(rng)
    model = model._replace(decay=np.array(decay))
    data = oracle.simulate(rng, model, [400])
    panel = to_panel(data)
    found = expected_statistics(to_parameters(model), panel)
    wanted = oracle.expected_sums(model, data, panel.gaps)
    assert scaled_error(found.log_likelihood, oracle.log_likelihood(model, data)) < EXACT
    for name in Statistics._fields[1:]:
        assert scaled_error(getattr(found, name), wanted[name]) < 1e-9, name


def test_uneven_steps_gaps_several_and_short_series_are_left_to_others(rng, no_library):
    n = 2048
    model, data = one_series(rng, n)
    assert is_chosen(model, data)
    assert not is_chosen(model, punch(rng, data, "scattered"))
    assert not is_chosen(model, [data[0][:100], data[0][100:]])
    times = [np.cumsum(rng.choice([1.0, 2.0], n))]
    assert not is_chosen(model._replace(decay=np.abs(model.decay)), data, times)
    # One gap other than a unit of time is even as well.
    assert is_chosen(model, data, [2.0 * np.arange(n)])
    assert not is_chosen(model, [data[0][:-1]])


def test_a_latent_that_is_not_seen_is_left_to_others(rng, no_library):
    model, data = one_series(rng, 2048)
    hidden = model._replace(loadings=model.loadings * [1.0, 0.0], decay=np.array([0.5, 0.99999]))
    assert not is_chosen(hidden, data)


def test_the_past_is_forgotten_after_as_many_rows(rng):
    """Filters from no and from full knowledge of the state agree then, and did not long before."""
    decay, loadings = np.array([0.99, 0.4]), 0.3 * rng.standard_normal((3, 2))
    precision = loadings.T @ loadings
    transition = Transition(decay)
    n = steady_state.rows_until_steady(transition, precision, 2**20)

    def variance(start, n_rows):
        for _ in range(n_rows):
            predicted = decay[:, None] * start * decay + np.diag(1.0 - decay**2)
            start = np.linalg.inv(np.linalg.inv(predicted) + precision)
        return start

    known, unknown = (variance(start, n) for start in (np.zeros((2, 2)), np.eye(2)))
    np.testing.assert_allclose(known, unknown, rtol=1e-14, atol=1e-16)
    before = [variance(start, n // 8) for start in (np.zeros((2, 2)), np.eye(2))]
    assert np.max(np.abs(before[0] - before[1])) > 1e-10
    # The limit is the solution of the Riccati equation.
    solution = scipy.linalg.solve_discrete_are(np.diag(decay), loadings.T, np.diag(1.0 - decay**2), np.eye(3))
    np.testing.assert_allclose(known, np.linalg.inv(np.linalg.inv(solution) + precision), rtol=1e-9)
    assert steady_state.rows_until_steady(transition, precision, n // 2) is None


@sparsely("n_rows", [1, 2, 7, 16, 17, 300], shown=[17, 300])
@sparsely("n_block", [1, 4, 16], shown=[4])
def test_recursion_is_the_loop(rng, n_rows, n_block):
    if n_block == 1 and n_rows > 1:
        n_block = 2
    matrix = 0.4 * rng.standard_normal((3, 3))
    matrix /= max(1.0, 1.1 * np.max(np.abs(np.linalg.eigvals(matrix))))
    terms = rng.standard_normal((n_rows, 3))
    state, wanted = np.zeros(3), []
    for term in terms:
        state = matrix @ state + term
        wanted.append(state)
    with jax.enable_x64(True):
        found = steady_state.recursion(jnp.asarray(matrix), jnp.asarray(terms), n_block)
    np.testing.assert_allclose(found, wanted, atol=1e-12)
