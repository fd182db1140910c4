"""Factors with any innovation variance (Turner & Sahani 2007, eqs. 6-8) and with unit variance."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace import (
    StateSpace,
    make_parameters,
    noise_free_log_likelihood,
)
from probsfa.statespace.innovations import innovation_parameters, make_innovation_parameters
from tests.oracles import statespace as oracle
from tests.statespace.support import scaled_error
from tests.tolerances import EXACT, mc_tolerance


def random_parameters(rng, size=3, noise_variance=0.0):
    """Return parameters with decays of both signs, unequal variances and a full matrix of weights."""
    return make_innovation_parameters(
        np.array([0.9, -0.4, 0.6, 0.1])[:size],
        rng.standard_normal((size, size)),
        rng.uniform(0.2, 5.0, size),
        noise_variance,
        rng.standard_normal(size),
    )


def test_autocovariance_is_that_of_the_recursion(rng):
    """Eqs. 6-8: y_1 has the variance sigma_1^2, and y_t = lambda y_t-1 + sigma e_t."""
    theta = random_parameters(rng)
    n = 12
    for k in range(3):
        recursion = np.eye(n) - theta.decay[k] * np.eye(n, k=-1)
        variances = np.full(n, theta.innovation_variance[k])
        variances[0] = theta.innovation_variance[k] / (1 - theta.decay[k] ** 2)
        inverse = np.linalg.inv(recursion)
        covariance = inverse @ np.diag(variances) @ inverse.T
        lags = np.subtract.outer(np.arange(n), np.arange(n))
        assert scaled_error(theta.autocovariance(lags.ravel())[:, k].reshape(n, n), covariance) < EXACT
    assert np.array_equal(theta.autocovariance([0])[0], theta.stationary_variance)


def test_autocovariance_is_the_limit_for_any_initial_variance(rng):
    """From any initial variance, the covariance converges to eq. 7."""
    theta = random_parameters(rng)
    variance = np.array([100.0, 0.0, 3.0])
    for _ in range(400):
        variance = theta.decay**2 * variance + theta.innovation_variance
    assert scaled_error(variance, theta.stationary_variance) < EXACT


def test_autocovariance_is_that_of_a_long_draw(rng):
    theta = make_innovation_parameters([0.8, -0.3], np.eye(2), [2.0, 0.5])
    n = 200_000
    y = np.zeros((n, 2))
    y[0] = rng.standard_normal(2) * np.sqrt(theta.stationary_variance)
    noise = rng.standard_normal((n, 2)) * np.sqrt(theta.innovation_variance)
    for t in range(1, n):
        y[t] = theta.decay * y[t - 1] + noise[t]
    inflation = (1 + theta.decay**2) / (1 - theta.decay**2)
    for lag in (0, 1, 3):
        sampled = np.mean(y[lag:] * y[: n - lag], axis=0)
        for k in range(2):
            variance = 2 * theta.stationary_variance[k] ** 2 * inflation[k]
            assert abs(sampled[k] - theta.autocovariance([lag])[0, k]) < mc_tolerance(variance, n)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_both_forms_are_one_distribution_of_the_data(rng, size, noise):
    """The dense covariance of all values, computed from innovation variances and from unit variances."""
    theta = random_parameters(rng, size, noise)
    params = theta.unit_variance()
    model = oracle.Model(*params.to_arrays().values())
    x = oracle.simulate(rng, model, [6, 3])
    unit = oracle.log_likelihood(model, x)
    n = 6
    recursion = np.eye(n * size) - np.kron(np.eye(n, k=-1), np.diag(theta.decay))
    first = theta.innovation_variance / (1 - theta.decay**2)
    innovation_covariance = np.diag(np.concatenate([first, np.tile(theta.innovation_variance, n - 1)]))
    H = np.kron(np.eye(n), np.linalg.inv(theta.weights)) @ np.linalg.inv(recursion)
    ours = H @ innovation_covariance @ H.T + noise * np.eye(n * size)
    M = oracle.observation_matrix(model, n)
    P = oracle.latent_covariance(model, [x[0]])
    assert scaled_error(ours, M @ P @ M.T + np.diag(np.tile(params.noise_variance, n))) < EXACT
    if noise == 0.0:
        assert oracle.innovation_log_likelihood(*theta[:3], theta.offset, x) == pytest.approx(unit, rel=EXACT)


@pytest.mark.parametrize("scale", [None, 1.0, [0.01, 4.0, 7.0]])
def test_conversions_are_inverse_to_each_other(rng, scale):
    params = make_parameters([0.95, 0.3, -0.5], rng.standard_normal((3, 3)), [0.1, 0.2, 0.3], 2.0)
    theta = innovation_parameters(params, scale)
    for name, value in theta.unit_variance().to_arrays().items():
        assert scaled_error(value, getattr(params, name)) < EXACT
    expected = 1 - params.decay**2 if scale is None else np.broadcast_to(scale, 3)
    assert scaled_error(theta.innovation_variance, expected) < EXACT
    again = innovation_parameters(theta.unit_variance(), theta.innovation_variance)
    assert scaled_error(again.weights, theta.weights) < EXACT


def test_the_scale_of_a_factor_is_free(rng):
    """A factor and its weights, multiplied by one number, describe the same data (section 4 of the paper)."""
    theta = random_parameters(rng)
    x = oracle.simulate(rng, oracle.Model(*theta.unit_variance().to_arrays().values()), [20])[0]
    factor = np.array([2.0, 0.1, 30.0])
    other = theta._replace(
        innovation_variance=factor**2 * theta.innovation_variance, weights=factor[:, None] * theta.weights
    )
    one, two = (noise_free_log_likelihood(x, t) for t in (theta, other))
    assert two.exact == pytest.approx(one.exact, rel=EXACT)
    assert two.without_edges == pytest.approx(one.without_edges, rel=EXACT)


def test_fitted_model_in_the_form_of_the_paper(rng):
    """The factors of a noise-free fit are W (x - mean), with the recognition weights W."""
    theta = random_parameters(rng)
    x = oracle.simulate(rng, oracle.Model(*theta.unit_variance().to_arrays().values()), [80])[0]
    fitted = ProbabilisticSFA(3, noise=0.0).fit(x)
    form = innovation_parameters(fitted.params_)
    assert scaled_error((x - form.offset) @ form.weights.T, fitted.transform(x)) < 1e-9
    assert noise_free_log_likelihood(x, form).exact == pytest.approx(fitted.log_likelihood_, rel=EXACT)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"decay": [0.5, 1.0]}, r"inside \(-1, 1\), got 1.0"),
        ({"decay": [0.5, np.nan]}, r"\(-1, 1\)"),
        ({"decay": [[0.5, 0.2]]}, "one-dimensional"),
        ({"decay": []}, "not empty"),
        ({"weights": np.eye(3)}, r"shape \(2, 2\)"),
        ({"weights": [[1.0, np.inf], [0.0, 1.0]]}, "weights"),
        ({"weights": [[1.0, 2.0], [2.0, 4.0]]}, "singular"),
        ({"weights": np.zeros((2, 2))}, "singular"),
        ({"innovation_variance": [1.0, 0.0]}, "innovation_variance.*0.0"),
        ({"innovation_variance": [1.0, 1.0, 1.0]}, "innovation_variance"),
        ({"noise_variance": -0.1}, "noise_variance"),
        ({"offset": [np.nan, 0.0]}, "offset"),
    ],
)
def test_invalid_innovation_parameters_are_refused(change, match):
    good = {"decay": [0.5, 0.2], "weights": np.eye(2)}
    with pytest.raises(ValueError, match=match):
        make_innovation_parameters(**{**good, **change})


def test_units_of_columns_do_not_affect_the_rank():
    weights = np.diag([1e-9, 1.0]) @ np.array([[1.0, 0.2], [0.3, 1.0]]) @ np.diag([1.0, 1e10])
    theta = make_innovation_parameters([0.5, 0.2], weights)
    assert (
        scaled_error(innovation_parameters(theta.unit_variance()).weights / weights, np.ones((2, 2))) < 1e-9
    )


def test_more_features_than_factors_have_no_recognition_weights():
    params = make_parameters([0.5], np.ones((2, 1)), 0.1)
    with pytest.raises(ValueError, match="1 factors.*2 columns"):
        innovation_parameters(params)


def test_lags_are_whole_numbers():
    theta = make_innovation_parameters([0.5], [[1.0]])
    with pytest.raises(ValueError, match=r"lags.*got float64 of shape \(1,\)"):
        theta.autocovariance([0.5])
    assert isinstance(theta.unit_variance(), StateSpace)
