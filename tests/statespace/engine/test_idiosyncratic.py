"""Integrated AR(1) noise: linear systems, draws and log-likelihood against the joint Gaussian."""

import numpy as np
import pytest

from probsfa.statespace.engine.idiosyncratic import ColumnNoise, FactorSystem, Steps
from probsfa.statespace.parameters import StateSpace
from tests.oracles import ar1_noise as oracle
from tests.statespace.support import mask_values, to_panel, uneven_times
from tests.tolerances import EXACT, mc_tolerance

LENGTHS = [30, 1, 14]


def make_params(rng, n_components=2, n_features=5):
    return StateSpace(
        np.array([0.9, 0.6, 0.3])[:n_components],
        rng.standard_normal((n_features, n_components)),
        rng.uniform(0.05, 0.5, n_features),
        rng.standard_normal(n_features),
        noise_decay=rng.uniform(0.3, 0.97, n_features),
        noise_scale=np.append(rng.uniform(0.5, 1.5, n_features - 1), 1e-3),
    )


def make_data(rng, params, *, even=True, pattern="scattered", lengths=LENGTHS):
    times = [np.arange(float(n)) for n in lengths] if even else uneven_times(rng, lengths)
    data = mask_values(rng, oracle.draw(rng, params, times), pattern)
    return data, times, to_panel(data, None if even else times)


def centred(params, panel):
    """Return observed values minus the offset, zero where missing."""
    n = panel.n_rows
    return np.ascontiguousarray(((panel.values[:n] - params.offset) * panel.mask[:n]).T)


def matrix_of(apply, shape):
    """Return the matrix of a linear map of factors (R, T, K)."""
    size = int(np.prod(shape))
    return apply(np.eye(size).reshape(size, *shape)).reshape(size, size)


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("n_components", [1, 3])
@pytest.mark.parametrize("pattern", ["none", "scattered"])
def test_solutions_are_moments_of_the_joint_gaussian(rng, even, n_components, pattern):
    params = make_params(rng, n_components)
    data, times, panel = make_data(rng, params, even=even, pattern=pattern)
    system, values = FactorSystem(params, Steps.of(panel)), centred(params, panel)
    mean, covariance = oracle.posterior_of_factors(params, data, times)
    solution = system.solve(system.information(values)[None], tol=1e-11)
    np.testing.assert_allclose(solution.values[0], mean, atol=10 * EXACT)
    size = mean.size
    precision = matrix_of(system.apply, mean.shape)
    np.testing.assert_allclose(np.linalg.inv(precision), covariance.reshape(size, size), atol=EXACT)
    value = system.log_likelihood(values, mean, np.linalg.slogdet(precision)[1])
    assert value == pytest.approx(oracle.log_likelihood(params, data, times), rel=EXACT)


def test_a_negative_decay_and_a_long_missing_block(rng):
    params = make_params(rng)
    params = params.replace(noise_decay=np.array([0.9, -0.6, 0.5, 0.8, 0.7]))
    times = [np.arange(40.0)]
    data = [np.array(oracle.draw(rng, params, times)[0])]
    data[0][5:30, 0] = np.nan
    data[0][rng.random((40, 5)) < 0.3] = np.nan
    panel = to_panel(data)
    system = FactorSystem(params, Steps.of(panel))
    mean, _ = oracle.posterior_of_factors(params, data, times)
    solution = system.solve(system.information(centred(params, panel))[None], tol=1e-11)
    np.testing.assert_allclose(solution.values[0], mean, atol=10 * EXACT)


def test_a_solution_as_start_requires_no_iterations(rng):
    params = make_params(rng)
    _, _, panel = make_data(rng, params)
    system = FactorSystem(params, Steps.of(panel))
    right = system.information(centred(params, panel))[None]
    first = system.solve(right, tol=1e-6)
    assert system.solve(right, first.values, tol=1e-5).n_iterations == 0 < first.n_iterations


@pytest.mark.parametrize("zero", ["white", "autocorrelated"])
def test_preconditioner_is_exact_for_one_kind_of_noise(rng, zero):
    params = make_params(rng)
    if zero == "white":
        params = params.replace(noise_variance=np.full(5, 1e-9), noise_scale=np.full(5, 1.0))
    else:
        params = params.replace(noise_scale=np.full(5, 1e-9))
    _, _, panel = make_data(rng, params, pattern="none")
    system = FactorSystem(params, Steps.of(panel))
    precision = matrix_of(system.apply, system.shape)
    product = matrix_of(system.precondition, system.shape) @ precision
    np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-5)
    value, _ = system.log_determinant(2)
    assert value == pytest.approx(np.linalg.slogdet(precision)[1], rel=1e-6)


def test_log_determinant_is_within_its_standard_error(rng):
    params = make_params(rng)
    _, _, panel = make_data(rng, params)
    system = FactorSystem(params, Steps.of(panel))
    wanted = np.linalg.slogdet(matrix_of(system.apply, system.shape))[1]
    value, error = system.log_determinant(400, tol=1e-6)
    assert abs(value - wanted) < 5.0 * error < 2.0


def test_noise_has_the_moments_of_a_scalar_smoother(rng):
    params = make_params(rng)
    data, _, panel = make_data(rng, params, lengths=[25])
    steps = Steps.of(panel)
    noise = ColumnNoise(params, steps)
    values = centred(params, panel)
    lag = np.abs(np.subtract.outer(np.arange(25), np.arange(25)))
    for d in range(5):
        observed = ~np.isnan(data[0][:, d])
        process = params.noise_decay[d] ** lag
        noise_covariance = params.noise_scale[d] ** 2 * process + params.noise_variance[d] * np.eye(25)
        inverse = np.linalg.inv(noise_covariance[np.ix_(observed, observed)])
        cross_covariance = params.noise_scale[d] * process[:, observed]
        posterior_covariance = process - cross_covariance @ inverse @ cross_covariance.T
        np.testing.assert_allclose(
            noise.solve(values)[d, observed], inverse @ values[d, observed], atol=EXACT
        )
        np.testing.assert_allclose(
            noise.smooth(values)[d], cross_covariance @ inverse @ values[d, observed], atol=EXACT
        )
        np.testing.assert_allclose(noise.moments[0][d], np.diag(posterior_covariance), atol=EXACT)
        np.testing.assert_allclose(noise.moments[1][d, 1:], np.diag(posterior_covariance, 1), atol=EXACT)
        determinant = np.linalg.slogdet(noise_covariance[np.ix_(observed, observed)])[1]
        assert noise.log_determinant[d] == pytest.approx(determinant, abs=EXACT)


def test_weights_divide_the_variance_of_white_noise(rng):
    params = make_params(rng)
    _, _, panel = make_data(rng, params)
    values = centred(params, panel)
    halved = params.replace(noise_variance=params.noise_variance / 2.0)
    mask = np.array(panel.mask[:])
    by_weights = FactorSystem(params, Steps.of(panel.weighted(2.0 * mask)))
    by_variance = FactorSystem(halved, Steps.of(panel))
    np.testing.assert_allclose(by_weights.information(values), by_variance.information(values), rtol=1e-12)
    right = by_weights.information(values)[None]
    np.testing.assert_allclose(by_weights.precondition(right), by_variance.precondition(right), rtol=1e-9)


def test_simulated_factors_minus_their_posterior_means_have_the_posterior_covariance(rng):
    params = make_params(rng)
    data, times, panel = make_data(rng, params, lengths=[12, 5])
    system = FactorSystem(params, Steps.of(panel))
    factors, _, values = system.simulate(rng, 20_000)
    deviations = factors - system.solve(system.information(values), tol=1e-6).values
    flat = deviations.reshape(len(deviations), -1)
    _, covariance = oracle.posterior_of_factors(params, data, times)
    np.testing.assert_allclose(
        flat.T @ flat / len(flat), covariance.reshape(flat.shape[1], -1), atol=mc_tolerance(2.0, len(flat))
    )
