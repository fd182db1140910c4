"""EM: the exact M-step, the cubic equation of decays, and a non-decreasing likelihood."""

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.em import fit_em, maximize, warm_up
from probsfa.statespace.learning.objective import STATUS_SENTENCES, CountedEStep, fit_quasi_newton
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.processes.ar1 import cubic_decay
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import (
    mask_values,
    scaled_error,
    to_model,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT

NO_FLOOR = np.full(5, 1e-300)


def case(
    rng, sampling="even", lengths=(5, 7), pattern="scattered", noise="diagonal", variance=0.3, shape=(5, 3)
):
    model = oracle.random_model(rng, *shape, variance)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, lengths)
    if noise == "isotropic":
        model = model._replace(noise=np.full(shape[0], variance))
    return model, mask_values(rng, oracle.simulate(rng, model, lengths, times), pattern), times


def m_step(model, data, times, kind, floor=NO_FLOOR):
    panel, params = to_panel(data, times), to_parameters(model)
    floor = floor[: params.n_features]
    return maximize(
        params,
        expected_statistics(params, panel),
        Noise(getattr(NoiseVariances, kind)(floor.size), floor),
        panel.gaps,
    )


@parametrize("noise", ["diagonal", "isotropic", "known"])
@parametrize("sampling", ["even", "uneven"], quick=["uneven"])
def test_m_step_is_the_numerical_optimum(rng, sampling, noise):
    model, data, times = case(rng, sampling, (4, 7), noise=noise, shape=(3, 2))
    found = to_model(m_step(model, data, times, noise))
    dense = oracle.joint_posterior(model, data, times)

    def value(vector):
        candidate = oracle.unpack(vector, found, noise, times is None)
        return oracle.expected_complete_log_likelihood(candidate, dense, data, times)

    best = oracle.best_next_model(model, dense, data, noise, times)
    at, wanted = (oracle.pack(m, noise, times is None) for m in (found, best))
    assert value(at) >= value(wanted) - 1e-9
    np.testing.assert_allclose(at, wanted, rtol=1e-5, atol=1e-5)
    assert np.max(np.abs(oracle.numerical_gradient(value, at))) < 1e-6


@parametrize("sampling", ["even", "uneven"], quick=["uneven"])
@parametrize("noise", ["diagonal", "isotropic", "known"])
@parametrize("variance", [1.0, 1e-4], quick=[1e-4])
def test_em_never_lowers_the_likelihood(rng, sampling, noise, variance):
    model, data, times = case(rng, sampling, noise=noise, variance=variance)
    start = model._replace(loadings=rng.standard_normal((5, 3)), decay=np.array([0.9, 0.6, 0.2]))
    values = [oracle.log_likelihood(start, data, times)]
    for _ in range(12):
        start = to_model(m_step(start, data, times, noise))
        values.append(oracle.log_likelihood(start, data, times))
    assert np.min(np.diff(values)) > -1e-8
    assert values[-1] > values[0] + 1.0


@parametrize("sampling", ["even", "uneven"], quick=["uneven"])
def test_noise_floor_holds_and_keeps_the_likelihood_rising(rng, sampling):
    model, data, times = case(rng, sampling)
    floor = np.array([0.5, 1e-6, 0.2, 1e-6, 0.1])
    start = model._replace(noise=np.maximum(model.noise, floor))
    values = [oracle.log_likelihood(start, data, times)]
    for _ in range(8):
        start = to_model(m_step(start, data, times, "diagonal", floor))
        assert np.all(start.noise >= floor)
        values.append(oracle.log_likelihood(start, data, times))
    assert np.min(np.diff(values)) > -1e-8


def test_isotropic_floor_keeps_the_noise_isotropic(rng):
    model, data, _ = case(rng, noise="isotropic")
    floor = np.array([5.0, 1e-6, 2.0, 1e-6, 1.0])
    found = m_step(model, data, None, "isotropic", floor)
    assert np.ptp(found.noise_variance) == 0.0
    assert np.all(found.noise_variance >= floor)


@pytest.mark.parametrize("cross", [-0.9, -0.3, 0.0, 0.5, 0.99, 1 - 1e-6])
def test_cubic_finds_the_best_decay(cross):
    """Compare the decay of one process with the maximum on a refined grid."""
    n, power = 40.0, 1.1
    found = cubic_decay(n, n * power, n * power * cross, n * power)
    grid = np.linspace(-1, 1, 4003)[1:-1]
    for _ in range(8):
        values = oracle.cubic_objective(grid, n, n * power, n * power * cross, n * power)
        at = int(np.argmax(values))
        step = grid[1] - grid[0]
        grid = np.clip(np.linspace(grid[at] - step, grid[at] + step, 401), -1 + 1e-15, 1 - 1e-15)
    assert found == pytest.approx(grid[at], abs=1e-8)


def test_m_step_of_one_row_keeps_the_decay(rng):
    model, data, _ = case(rng, lengths=(1, 1), pattern="none")
    found = m_step(model, data, None, "diagonal")
    np.testing.assert_array_equal(found.decay, model.decay)
    assert all(np.all(np.isfinite(part)) for part in found.to_arrays().values())


def test_em_stays_where_the_score_is_zero(rng):
    """At the maximum found by the quasi-Newton method, an M-step does not change the parameters."""
    model, data, _ = case(rng, lengths=(25,))
    noise, panel = Noise(NoiseVariances.diagonal(5), np.full(5, 0.05)), to_panel(data)
    optimum = fit_quasi_newton(
        CountedEStep(panel, 500),
        Coordinates(StateLayout(3), NoiseVariances.diagonal(5), True),
        to_parameters(model),
        noise,
        1e-9,
    )
    assert optimum.status == "converged"
    moved = to_model(m_step(to_model(optimum.params), data, None, "diagonal", noise.floor))
    gain = oracle.log_likelihood(moved, data) - oracle.log_likelihood(to_model(optimum.params), data)
    assert abs(gain) < 1e-8


def test_fit_em_reports_a_rising_history(rng):
    model, data, _ = case(rng, lengths=(25,))
    start = to_parameters(model._replace(loadings=rng.standard_normal((5, 3))))
    evaluate = CountedEStep(to_panel(data), 40)
    result = fit_em(evaluate, start, Noise(NoiseVariances.diagonal(5), np.full(5, 1e-3)), 1e-12)
    assert result.status == "max_iter" and result.n_evaluations == 40
    assert np.all(np.diff(result.history) >= 0.0) and len(result.history) == 40
    assert result.log_likelihood == result.history[-1]
    assert result.log_likelihood == pytest.approx(
        oracle.log_likelihood(to_model(result.params), data), rel=EXACT
    )


@parametrize("tol", [10.0, 0.5], quick=[0.5])
def test_fit_em_does_not_stop_after_one_step(rng, tol):
    """The remaining gain is predicted from the ratio of two gains, which one step does not provide."""
    model, data, _ = case(rng, lengths=(25,))
    start = to_parameters(model._replace(loadings=rng.standard_normal((5, 3))))
    result = fit_em(
        CountedEStep(to_panel(data), 3000), start, Noise(NoiseVariances.diagonal(5), np.full(5, 0.05)), tol
    )
    assert result.status == "converged" and len(result.history) >= 3
    # The predicted remaining gain of the last step is below the tolerance.
    gain, last = np.diff(result.history)[-2:]
    assert last / gain < 1.0 and last**2 / (gain - last) < tol


class Scripted:
    """E-step with given log-likelihoods; an interrupt is raised when there are no more."""

    limits = None

    def __init__(self, panel, values):
        self.panel, self.values, self.count = panel, list(values), 0

    @property
    def exhausted(self):
        return self.count >= len(self.values)

    def __call__(self, params):
        value = self.values[self.count]
        self.count += 1
        if value is None:
            raise KeyboardInterrupt
        return expected_statistics(params, self.panel)._replace(log_likelihood=value)


def test_a_fall_is_not_convergence(rng):
    """A decrease of the likelihood by more than rounding errors is not reported as convergence."""
    model, data, _ = case(rng)
    evaluate = Scripted(to_panel(data), [-50.0, -40.0, -45.0, -30.0])
    result = fit_em(
        evaluate, to_parameters(model), Noise(NoiseVariances.diagonal(NO_FLOOR.size), NO_FLOOR), 1e-9
    )
    assert result.log_likelihood == -40.0
    assert not STATUS_SENTENCES[result.status].startswith("Converged")


@pytest.mark.parametrize("values", [[-50.0, -40.0, -45.0], [-50.0, -40.0, np.nan]])
def test_first_steps_end_before_a_fall(rng, values):
    model, data, _ = case(rng)
    evaluate, noise = (
        Scripted(to_panel(data), values),
        Noise(NoiseVariances.diagonal(NO_FLOOR.size), NO_FLOOR),
    )
    start = to_parameters(model)
    stats = evaluate(start)
    params, reached = warm_up(evaluate, start, stats, noise, 2, 0.0)
    assert reached.log_likelihood == -40.0
    np.testing.assert_array_equal(
        params.loadings, maximize(start, stats, noise, evaluate.panel.gaps).loadings
    )


def test_interrupt_keeps_the_best(rng):
    model, data, _ = case(rng)
    evaluate = Scripted(to_panel(data), [-50.0, -40.0, None])
    result = fit_em(
        evaluate, to_parameters(model), Noise(NoiseVariances.diagonal(NO_FLOOR.size), NO_FLOOR), 1e-9
    )
    assert result.status == "interrupted"
    assert result.history == (-50.0, -40.0) and result.log_likelihood == -40.0
    wanted = to_model(m_step(model, data, None, "diagonal"))
    assert scaled_error(result.params.loadings, wanted.loadings) == 0.0


@parametrize("tol", [1.0, 0.01], quick=[0.01])
def test_em_stops_no_further_from_the_top_than_it_states(tol):
    """Compare with the log-likelihood after many more iterations."""
    rng = np.random.default_rng(5)
    model = oracle.Model(np.array([0.95, 0.6]), rng.standard_normal((5, 2)), np.full(5, 0.5), np.zeros(5))
    panel = to_panel(oracle.simulate(rng, model, [150]))
    start = to_parameters(model._replace(decay=np.array([0.5, 0.1]), loadings=0.3 * model.loadings))
    noise = Noise(NoiseVariances.diagonal(5), np.full(5, 1e-2))
    found = fit_em(CountedEStep(panel, 600), start, noise, tol)
    further = fit_em(CountedEStep(panel, 600), found.params, noise, 1e-9)
    assert found.status == "converged" and found.n_evaluations < further.n_evaluations
    assert further.log_likelihood - found.log_likelihood < 2.0 * tol
