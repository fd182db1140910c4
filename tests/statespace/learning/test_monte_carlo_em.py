"""Monte Carlo EM with AR(1) noise integrated out."""

import numpy as np
import pytest

from probsfa.statespace.engine.idiosyncratic import ColumnNoise
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.learning import em as learning
from probsfa.statespace.learning.em import EMIteration, fit_monte_carlo_em, with_ar1_noise
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateSpace
from tests.oracles import ar1_noise as oracle
from tests.statespace.support import mask_values, to_panel, uneven_times


def make_params(rng, n_components=1, n_features=4):
    return StateSpace(
        np.array([0.95, 0.7])[:n_components],
        0.7 * rng.standard_normal((n_features, n_components)),
        rng.uniform(0.05, 0.2, n_features),
        np.zeros(n_features),
        noise_decay=rng.uniform(0.5, 0.95, n_features),
        noise_scale=rng.uniform(0.4, 0.8, n_features),
    )


def make_panel(rng, params, lengths, *, even=True):
    times = [np.arange(float(n)) for n in lengths] if even else uneven_times(rng, lengths)
    return to_panel(mask_values(rng, oracle.draw(rng, params, times), "scattered"), None if even else times)


def make_noise(n_features, prior=1e-4):
    return Noise(NoiseVariances.diagonal(n_features), np.full(n_features, 1e-6), prior)


@pytest.mark.parametrize("even", [True, False])
def test_score_of_the_noise_is_the_derivative_of_the_expected_density(rng, even):
    params = make_params(rng)
    iteration = EMIteration(make_panel(rng, params, [30, 12], even=even), params, make_noise(4, 0.05), 3)
    iteration.expect()
    residuals = -iteration._observed * iteration.system.effects(iteration._factors)
    residuals[0] += iteration.centred()

    def density(params):
        return iteration._expected_density(params, ColumnNoise(params, iteration.steps), residuals)

    score = iteration._noise_score(params, ColumnNoise(params, iteration.steps), residuals)
    for i in range(3):
        step = np.zeros((4, 3))
        step[:, i] = 1e-5
        plus, minus = (density(learning._noise_after_step(params, x, iteration.noise)) for x in (step, -step))
        np.testing.assert_allclose((plus - minus) / 2e-5, score[:, i], rtol=1e-5, atol=1e-5)


def test_information_of_the_noise_is_that_of_a_long_series(rng):
    params = make_params(rng)
    n = 600
    lag = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))

    def covariance(params, d):
        process = params.noise_decay[d] ** lag
        return params.noise_scale[d] ** 2 * process + params.noise_variance[d] * np.eye(n)

    found, noise = learning._noise_information(params), make_noise(4)
    for d in range(4):
        inverse, derivatives = np.linalg.inv(covariance(params, d)), []
        for step in np.eye(3) * 1e-5:
            plus, minus = (
                learning._noise_after_step(params, np.tile(x, (4, 1)), noise) for x in (step, -step)
            )
            derivatives.append(inverse @ (covariance(plus, d) - covariance(minus, d)) / 2e-5)
        wanted = [[0.5 * np.sum(left * right.T) / n for left in derivatives] for right in derivatives]
        np.testing.assert_allclose(found[d], wanted, rtol=0.1, atol=0.01)


def test_regression_is_generalized_least_squares(rng, monkeypatch):
    monkeypatch.setattr(learning, "_N_REGRESSION_ITERATIONS", 12)
    params = make_params(rng, 2)
    iteration = EMIteration(make_panel(rng, params, [40]), params, make_noise(4), 2)
    iteration.expect()
    gain = iteration._regress()
    lag = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    total = 0.0
    for d in range(4):
        observed = iteration._observed[d] > 0.0
        noise_covariance = params.noise_scale[d] ** 2 * params.noise_decay[d] ** lag
        noise_covariance += params.noise_variance[d] * np.eye(40)
        inverse = np.linalg.inv(noise_covariance[np.ix_(observed, observed)])
        mean = np.column_stack([iteration.means, np.ones(40)])[observed]
        draws = [np.column_stack([x, np.zeros(40)])[observed] for x in iteration.deviations]
        normal = mean.T @ inverse @ mean + sum(x.T @ inverse @ x for x in draws) / 2.0
        right = mean.T @ inverse @ iteration._values[d, observed]
        best = np.linalg.solve(normal, right)
        now = np.append(params.loadings[d], params.offset[d])
        total += 0.5 * (best - now) @ normal @ (best - now)
        np.testing.assert_allclose(
            np.append(iteration.params.loadings[d], iteration.params.offset[d]), best, atol=1e-6
        )
    assert gain == pytest.approx(total, rel=1e-6)


def test_log_likelihood_rises_by_the_gain_or_more(rng):
    truth = make_params(rng)
    panel = make_panel(rng, truth, [80])
    start = with_ar1_noise(StateSpace(np.array([0.5]), np.full((4, 1), 0.3), np.full(4, 0.5), np.zeros(4)))
    iteration = EMIteration(panel, start, make_noise(4, 0.0), 500)
    iteration.expect()
    before = log_likelihood(iteration.params, panel)
    for _ in range(6):
        gain = iteration.maximize()
        iteration.expect()
        after = log_likelihood(iteration.params, panel)
        assert gain >= 0.0
        assert after - before > gain - 0.05  # the error of 500 draws
        before = after


def test_fit_reaches_the_maximum_of_the_exact_likelihood(rng):
    truth = make_params(rng, 2, 10)
    panel = make_panel(rng, truth, [300])
    white = StateSpace(
        np.array([0.9, 0.5]), 0.5 * rng.standard_normal((10, 2)), np.full(10, 0.5), np.zeros(10)
    )
    result = fit_monte_carlo_em(panel, white, make_noise(10), max_iter=150, tol=0.1)
    assert result.converged
    assert np.all(np.diff(result.history) >= 0.0)
    assert result.history[-1] == result.log_likelihood
    exact = log_likelihood(result.params, panel)
    # On average the log-likelihood of the true parameters is lower by half the number of parameters.
    assert exact > log_likelihood(truth, panel) + 10.0
    assert abs(exact - result.log_likelihood) < 10.0


def test_variances_stay_at_their_floor(rng):
    panel = make_panel(rng, make_params(rng).replace(noise_variance=np.full(4, 1e-9)), [100])
    noise = Noise(NoiseVariances.diagonal(4), np.full(4, 0.01))
    result = fit_monte_carlo_em(panel, make_params(rng), noise, max_iter=15, tol=0.1)
    assert np.all(result.params.noise_variance >= 0.01)


def test_an_interrupt_returns_the_best_estimate(rng, monkeypatch):
    panel = make_panel(rng, make_params(rng), [60])
    maximize, counted = EMIteration.maximize, []

    def interrupted(self):
        counted.append(1)
        if len(counted) == 3:
            raise KeyboardInterrupt
        return maximize(self)

    monkeypatch.setattr(EMIteration, "maximize", interrupted)
    result = fit_monte_carlo_em(panel, make_params(rng), make_noise(4), max_iter=50, tol=0.0)
    assert result.status == "interrupted"
    assert np.isfinite(result.log_likelihood)
    assert len(result.history) == 3


def test_a_start_with_ar1_noise_is_the_fit_of_no_iteration(rng):
    params = make_params(rng)
    result = fit_monte_carlo_em(make_panel(rng, params, [40]), params, make_noise(4), max_iter=0, tol=0.1)
    assert result.status == "max_iter" and len(result.history) == 1
    for name in ("decay", "loadings", "noise_variance", "noise_decay", "noise_scale"):
        np.testing.assert_array_equal(getattr(result.params, name), getattr(params, name))
