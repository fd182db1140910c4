"""Families: expected log densities, their derivatives, and predictive distributions."""

import numpy as np
import pytest
from scipy import stats

from probsfa.extensions.emissions.families import FAMILIES
from tests.oracles import emissions as oracle
from tests.sampling import parametrize

SHAPES = {
    "gaussian": [np.log(0.4)],
    "student_t": [np.log(0.3), np.log(4.0)],
    "bernoulli": [],
    "poisson": [],
    "negative_binomial": [np.log(2.5)],
    "monotone": [np.log(0.4), 0.2, -0.3, 0.3, 0.1, -0.4],
    "quadratic": [np.log(0.4), 0.2, 0.35],
}
VALUES = {
    "gaussian": [-1.3, 0.2, 2.0],
    "student_t": [-1.3, 0.2, 9.0],
    "bernoulli": [0.0, 1.0, 1.0],
    "poisson": [0.0, 1.0, 14.0],
    "negative_binomial": [0.0, 1.0, 14.0],
    "monotone": [-1.3, 0.2, 2.0],
    "quadratic": [-1.3, 0.2, 2.0],
}
MEANS, VARIANCES = np.array([[-1.0], [0.3], [1.5]]), np.array([[0.2], [1.0], [0.5]])
NAMES = list(FAMILIES)


def values_and_shape(name):
    return np.array(VALUES[name])[:, None], np.array(SHAPES[name])[:, None]


def total(name, x, mean, variance, shape):
    family = FAMILIES[name]
    return family.expectation(x, mean, variance, shape).value + family.constant(x)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "student_t"])
def test_expected_log_density_agrees_with_quadrature(name):
    x, shape = values_and_shape(name)
    expected = [
        oracle.over_gaussian(lambda eta, x=x[i, 0]: oracle.log_density(name, x, eta, SHAPES[name]), m, v)
        for i, (m, v) in enumerate(zip(MEANS[:, 0], VARIANCES[:, 0], strict=True))
    ]
    np.testing.assert_allclose(total(name, x, MEANS, VARIANCES, shape)[:, 0], expected, atol=1e-8)


@pytest.mark.parametrize("x", [0.4, 1.4, 2.0, 9.0])
def test_student_bound_is_exact_near_the_mean_and_lower_for_outliers(x):
    """Outliers are farther than ``sqrt(nu s) = 1.10`` from the mean, here 0."""
    shape = np.array(SHAPES["student_t"])
    for variance in (0.05, 0.5):
        value, mean = np.full((1, 1), x), np.zeros((1, 1))
        bound = total("student_t", value, mean, np.full((1, 1), variance), shape[:, None])[0, 0]
        nodes, weights = np.polynomial.hermite_e.hermegauss(160)
        logs = oracle.log_density("student_t", x, np.sqrt(variance) * nodes, shape)
        exact = logs @ weights / weights.sum()
        assert bound == pytest.approx(oracle.student_bound(x, 0.0, variance, shape), abs=1e-5)
        assert bound == pytest.approx(exact, abs=1e-6) if x < 1.0 else bound < exact - 1e-4


def test_derivatives_of_the_student_bound_are_continuous():
    x = np.linspace(-6.0, 6.0, 1001)[:, None]
    mean, shape, step = np.zeros_like(x), np.array(SHAPES["student_t"])[:, None], 1e-5
    for variance in (0.05, 0.3, 1.0):
        expectation = FAMILIES["student_t"].expectation(x, mean, np.full_like(x, variance), shape)
        assert np.all(expectation.precision >= 0.0) and np.any(expectation.precision == 0.0)
        values = [
            total("student_t", x, mean + by, np.full_like(x, variance + more), shape)
            for by, more in ((step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step))
        ]
        np.testing.assert_allclose(expectation.slope, (values[0] - values[1]) / (2.0 * step), atol=1e-7)
        np.testing.assert_allclose(expectation.precision, (values[3] - values[2]) / step, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_agree_with_finite_differences(name):
    x, shape = values_and_shape(name)
    family, step = FAMILIES[name], 1e-5
    expectation = family.expectation(x, MEANS, VARIANCES, shape)
    change_of_mean = total(name, x, MEANS + step, VARIANCES, shape) - total(
        name, x, MEANS - step, VARIANCES, shape
    )
    change_of_variance = total(name, x, MEANS, VARIANCES + step, shape) - total(
        name, x, MEANS, VARIANCES - step, shape
    )
    np.testing.assert_allclose(expectation.slope, change_of_mean / (2 * step), atol=1e-7)
    # By Price's theorem the precision is minus the expected second derivative.
    np.testing.assert_allclose(expectation.precision, -change_of_variance / step, atol=1e-6)
    for i, slope in enumerate(family.shape_gradient(x, MEANS, VARIANCES, shape)):
        offset = np.zeros_like(shape)
        offset[i] = step
        ahead, behind = (total(name, x, MEANS, VARIANCES, shape + sign * offset) for sign in (1, -1))
        np.testing.assert_allclose(slope, (ahead - behind) / (2 * step), atol=1e-7)
    value, slope = family.log_prior(shape)
    for i in range(len(shape)):
        offset = np.zeros_like(shape)
        offset[i] = step
        ahead = family.log_prior(shape + offset)[0] - family.log_prior(shape - offset)[0]
        assert slope[i, 0] == pytest.approx(ahead / (2 * step), abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_density_and_distribution_agree_with_scipy(name):
    x, shape = values_and_shape(name)
    family = FAMILIES[name]
    distribution = oracle.distribution(name, MEANS, SHAPES[name])
    np.testing.assert_allclose(
        family.log_density(x, MEANS, shape), oracle.log_density(name, x, MEANS, SHAPES[name]), rtol=1e-10
    )
    np.testing.assert_allclose(family.cdf(x, MEANS, shape), distribution.cdf(x), rtol=1e-10)


@parametrize("name", NAMES, quick=["poisson"])
def test_predicted_moments_and_quantiles_agree_with_the_mixture(name):
    """Moments by quadrature; a quantile is the smallest value that the mixture reaches."""
    _, shape = values_and_shape(name)
    family = FAMILIES[name]
    mean, variance = family.moments(MEANS, VARIANCES, shape)

    def mixed(i, what):
        return oracle.over_gaussian(
            lambda eta: what(oracle.distribution(name, eta, SHAPES[name])), MEANS[i, 0], VARIANCES[i, 0]
        )

    for i in range(len(MEANS)):
        first = mixed(i, lambda given: given.mean())
        second = mixed(i, lambda given: given.var() + given.mean() ** 2)
        assert mean[i, 0] == pytest.approx(first, rel=1e-7)
        assert variance[i, 0] == pytest.approx(second - first**2, rel=1e-6)
    for p in (0.05, 0.5, 0.95):
        quantile = family.quantile(p, MEANS, VARIANCES, shape)
        for i, value in enumerate(quantile[:, 0]):
            reached = mixed(i, lambda given, value=value: given.cdf(value))
            if family.is_integer:
                assert value == np.rint(value) and reached >= p - 1e-9
                assert mixed(i, lambda given, value=value: given.cdf(value - 1.0)) < p
            else:
                assert reached == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_draws_have_the_distribution(name, rng):
    _, shape = values_and_shape(name)
    eta = np.full((4000, 1), 0.4)
    drawn = FAMILIES[name].draw(eta, shape, rng)[:, 0]
    distribution = oracle.distribution(name, 0.4, SHAPES[name])
    # Randomized probability integral transforms are uniform for any distribution.
    ranks = distribution.cdf(drawn - 1.0) if FAMILIES[name].is_integer else distribution.cdf(drawn)
    if FAMILIES[name].is_integer:
        ranks = ranks + rng.random(4000) * (distribution.cdf(drawn) - ranks)
    assert stats.kstest(ranks, "uniform").pvalue > 1e-4


def test_quantiles_with_infinite_variance_are_found():
    shape = np.log([[1.0], [1.7]])
    quantile = FAMILIES["student_t"].quantile(0.99, np.zeros((1, 1)), np.full((1, 1), 1e-12), shape)
    assert quantile[0, 0] == pytest.approx(stats.t.ppf(0.99, 1.7), rel=1e-4)
