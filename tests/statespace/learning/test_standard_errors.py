"""Standard errors: the inverse of the numerically differentiated likelihood, by the delta method."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace.processes import trend
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, to_model, uneven_times

SHAPE = (2, 1)


def fitted_case(sampling, noise):
    """Return a small fit with a tight tolerance, its model, data and times."""
    rng = np.random.default_rng(1)
    variance = np.full(2, 0.4) if noise != "diagonal" else np.array([0.3, 0.5])
    model = oracle.Model(np.array([0.85]), np.array([[1.0], [-0.7]]), variance, np.array([2.0, -1.0]))
    times = uneven_times(rng, [40]) if sampling == "uneven" else None
    data = mask_values(rng, oracle.simulate(rng, model, [40], times), "scattered")
    estimator = ProbabilisticSFA(1, noise=0.4 if noise == "known" else noise, tol=1e-9)
    estimator.fit(data[0], times=None if times is None else times[0])
    found = to_model(estimator.params_)
    units = None if times is None else [times[0] / estimator.time_unit_]
    return estimator, found, data, times, units


@parametrize("noise", ["diagonal", "isotropic", "known"])
@parametrize("sampling", ["even", "uneven"], quick=["uneven"])
def test_standard_errors_equal_the_numerical_ones(sampling, noise):
    estimator, model, data, times, units = fitted_case(sampling, noise)
    even = units is None

    def value(vector):
        return oracle.log_likelihood(oracle.unpack(vector, model, noise, even), data, units)

    at = oracle.pack(model, noise, even)
    assert np.max(np.abs(oracle.numerical_gradient(value, at))) < 1e-3, "the fit is a maximum"
    covariance = np.linalg.inv(-oracle.numerical_hessian(value, at))
    free = np.sqrt(np.diag(covariance))
    found = estimator.standard_errors(data[0], times=None if times is None else times[0])
    a, unit = model.decay, estimator.time_unit_
    derivative = 1 - a**2 if even else np.abs(a * np.log(a))
    np.testing.assert_allclose(found.decay, free[:1] * derivative, rtol=1e-3)
    np.testing.assert_allclose(
        found.timescales, unit * free[:1] * derivative / (a * np.log(a) ** 2), rtol=1e-3
    )
    np.testing.assert_allclose(found.loadings.ravel(), free[1:3], rtol=1e-3)
    np.testing.assert_allclose(found.offset, free[-2:], rtol=1e-3)
    if noise == "known":
        assert np.all(np.isnan(found.noise_variance))
    else:
        np.testing.assert_allclose(found.noise_variance, free[3:-2] * model.noise, rtol=1e-3)


def test_units_scale_the_errors(series):
    _, data, fitted = series
    scale = np.array([1e-6, 1.0, 1e3, 1.0, 1e6])
    one = fitted.standard_errors(data)
    other = ProbabilisticSFA(2).fit(data * scale).standard_errors(data * scale)
    np.testing.assert_allclose(other.decay, one.decay, rtol=1e-2)
    np.testing.assert_allclose(other.loadings, one.loadings * scale[:, None], rtol=2e-2)
    np.testing.assert_allclose(other.noise_variance, one.noise_variance * scale**2, rtol=2e-2)
    np.testing.assert_allclose(other.offset, one.offset * scale, rtol=2e-2)


def test_fewer_values_mean_larger_errors(series):
    """With ten copies of the series as sequences, standard errors are smaller by sqrt(10)."""
    _, data, fitted = series
    one = fitted.standard_errors(data)
    ten = fitted.standard_errors([data] * 10)
    for a, b in zip(one, ten, strict=True):
        np.testing.assert_allclose(a / b, np.sqrt(10), rtol=1e-3)


def test_a_variance_at_its_floor_has_no_error(series):
    _, data, _ = series
    fitted = ProbabilisticSFA(2, noise_floor=0.9).fit(data)
    assert "lower bound" in fitted.status_
    errors = fitted.standard_errors(data)
    at_floor = np.isclose(fitted.noise_variance_, 0.9 * np.nanvar(data, axis=0), rtol=1e-6)
    assert at_floor.any()
    np.testing.assert_array_equal(np.isnan(errors.noise_variance), at_floor)
    assert np.all(np.isfinite(errors.loadings))


def test_errors_of_unidentified_parameters_are_nan_and_reported(series):
    """With one factor too many, the likelihood is constant in one direction."""
    _, data, fitted = series
    fitted_to_little = ProbabilisticSFA(2).fit(data[:, :1])
    with pytest.warns(UserWarning, match="positive definite"):
        errors = fitted_to_little.standard_errors(np.where(np.arange(100)[:, None] == 50, 1.0, np.nan))
    assert np.isnan(errors.loadings).any()


@pytest.mark.exhaustive
def test_intervals_contain_the_true_values():
    """In 40 data sets, intervals of 1.96 standard errors contain the true values in about 95 % of cases."""
    model = oracle.Model(np.array([0.8]), np.array([[1.0], [0.8], [-0.6]]), np.full(3, 0.5), np.zeros(3))
    inside, total = 0, 0
    for i in range(40):
        data = oracle.simulate(np.random.default_rng(i), model, [110])[0]
        fitted = ProbabilisticSFA(1).fit(data)
        errors = fitted.standard_errors(data)
        sign = np.sign(fitted.loadings_[0, 0])
        for estimate, truth, error in (
            (fitted.decay_, model.decay, errors.decay),
            (fitted.loadings_ * sign, model.loadings, errors.loadings),
            (fitted.mean_, model.offset, errors.offset),
        ):
            inside += int(np.sum(np.abs(estimate - truth) < 1.96 * error))
            total += truth.size
    # Estimates from one data set are dependent: the number of independent ones is that of data sets.
    assert abs(inside / total - 0.95) < 6 * np.sqrt(0.95 * 0.05 / 40)


def test_one_variance_at_its_floor_has_no_error(series):
    _, data, _ = series
    fitted = ProbabilisticSFA(2, noise="isotropic", noise_floor=0.9).fit(data)
    errors = fitted.standard_errors(data)
    assert "lower bound" in fitted.status_
    assert np.isnan(errors.noise_variance).all() and np.isfinite(errors.offset).all()


def test_a_column_without_ar1_noise_has_no_errors_of_it():
    model = ProbabilisticSFA.from_parameters(
        [0.95], [[1.5], [-1.0], [1.0]], 0.3, noise_decay=[0.8, 0.7, 0.75], noise_scale=[0.9, 0.0, 0.8]
    )
    X = model.sample(300, random_state=0)[0]
    with pytest.warns(UserWarning, match=r"noise_decay\[1\], noise_scale\[1\] are NaN.*near zero"):
        errors = model.standard_errors(X)
    for found in (errors.noise_decay, errors.noise_scale):
        np.testing.assert_array_equal(np.isnan(found), [False, True, False])
    with pytest.warns(FutureWarning, match="StandardErrors.memory_scale is now noise_scale"):
        assert errors.memory_scale is errors.noise_scale
    with pytest.warns(FutureWarning, match="name='memory_decay' is now name='noise_decay'"):
        np.testing.assert_array_equal(errors.interval("memory_decay"), errors.interval("noise_decay"))
    assert np.isfinite(errors.loadings).all() and np.isfinite(errors.noise_variance).all()


def test_with_a_trend_they_are_those_of_a_dense_gaussian(rng, monkeypatch):
    """The offset of the column with the largest loading is fixed, because the trend contains it."""
    # With the default of 1e10 the dense covariance would have no significant digits.
    monkeypatch.setattr(trend, "_INITIAL_LEVEL_VARIANCE", 1e4)
    n, d = 60, 2
    X = np.cumsum(rng.standard_normal((n, 1)), axis=0) * [1.0, -0.6] + rng.standard_normal((n, d)) + 5.0
    model = ProbabilisticSFA(0, trend="level", noise="diagonal", noise_prior=None).fit(X)
    errors = model.standard_errors(X)
    steps = np.minimum.outer(np.arange(n), np.arange(n))

    def value(vector):
        loadings, variance, residuals = vector[:d], np.exp(vector[d : 2 * d]), X - model.mean_
        residuals = (residuals - [0.0, vector[-1]]).ravel()
        covariance = np.kron(1.0 + steps / 1e4, np.outer(loadings, loadings))
        covariance += np.kron(np.eye(n), np.diag(variance))
        return -0.5 * (np.linalg.slogdet(covariance)[1] + residuals @ np.linalg.solve(covariance, residuals))

    at = np.concatenate([model.loadings_[:, 0], np.log(model.noise_variance_), [0.0]])
    assert abs(at[0]) > abs(at[1])
    sizes = np.concatenate([np.abs(at[:d]), np.ones(d + 1)])
    hessian = oracle.numerical_hessian(lambda scaled: value(scaled * sizes), at / sizes)
    expected = np.sqrt(np.diag(np.linalg.inv(-hessian))) * sizes
    np.testing.assert_allclose(errors.loadings[:, 0], expected[:d], rtol=1e-4)
    np.testing.assert_allclose(errors.noise_variance, expected[d:-1] * model.noise_variance_, rtol=1e-4)
    assert np.isnan(errors.offset).all()
