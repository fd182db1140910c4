"""Intervals of AR(1) factors in series of few time scales, on simulated AR(1) processes."""

import numpy as np
import pytest
import scipy.signal
import scipy.stats

from probsfa import ProbabilisticSFA
from probsfa.statespace.learning.short_series import ShortSeries

N_STEPS, N_SERIES = 300, 4000


def processes(rng, decay):
    """Stationary AR(1) processes of unit variance, (N_SERIES, N_STEPS)."""
    start = rng.standard_normal((N_SERIES, 1))
    noise = np.sqrt(1.0 - decay**2) * rng.standard_normal((N_SERIES, N_STEPS - 1))
    return scipy.signal.lfilter([1.0], [1.0, -decay], np.hstack([start, noise]), axis=1)


@pytest.fixture(scope="module", params=[4.0, 19.0])
def estimates(request):
    """Return the time scale, and estimated mean, variance and decay of every series."""
    x = processes(np.random.default_rng(0), np.exp(-1.0 / request.param))
    mean = x.mean(axis=1)
    centred = x - mean[:, None]
    variance = np.mean(centred**2, axis=1)
    decay = np.sum(centred[:, 1:] * centred[:, :-1], axis=1) / np.sum(centred[:, :-1] ** 2, axis=1)
    return request.param, mean, variance, decay


def short(decay):
    """Return corrections, and asymptotic standard errors of the time scales."""
    error = np.sqrt((1.0 - decay**2) / N_STEPS)
    return ShortSeries.of(decay, error, N_STEPS), error / (decay * np.log(decay) ** 2)


def coverage(limits, truth):
    return np.mean((limits[0] <= truth) & (truth <= limits[1]))


def test_corrections_are_the_mean_errors(estimates):
    timescale, _, variance, _ = estimates
    decay = np.exp(-1.0 / timescale)
    found, _ = short(np.array([decay]))
    bias = decay - np.mean(estimates[3])
    np.testing.assert_allclose(found.log_timescale_increase[0], bias / (-decay * np.log(decay)), rtol=0.15)
    np.testing.assert_allclose(found.loading_increase[0], 0.5 * (1.0 - np.mean(variance)), rtol=0.25)


def test_intervals_cover_time_scales(estimates):
    timescale, _, _, decay = estimates
    found, errors = short(decay)
    estimated = -1.0 / np.log(decay)
    assert abs(coverage(found.timescales(estimated, errors, 0.9), timescale) - 0.9) < 0.02
    factor = np.exp(1.645 * errors / estimated)
    assert coverage((estimated / factor, estimated * factor), timescale) < 0.885


def test_intervals_cover_means(estimates):
    timescale, mean, variance, decay = estimates
    found, _ = short(decay)
    error = np.sqrt(variance * found.variance_of_mean)
    limits = np.array(
        [
            ShortSeries(*(part[i : i + 1] for part in found)).offset(
                mean[i : i + 1], error[i : i + 1], np.sqrt(variance[i : i + 1, None]), 0.9
            )
            for i in range(1000)
        ]
    )[:, :, 0].T
    assert abs(coverage(limits, 0.0) - 0.9) < 0.03
    assert coverage(limits, 0.0) > np.mean(np.abs(mean[:1000]) < 1.645 * error[:1000])


def test_long_series_have_normal_intervals():
    decay, error = np.array([0.9]), np.array([1e-5])
    found = ShortSeries.of(decay, error, 1e9)
    z = scipy.stats.norm.ppf(0.95)
    lower, upper = found.timescales(np.array([9.5]), np.array([1e-3]), 0.9)
    np.testing.assert_allclose([lower[0], upper[0]], [9.5 - z * 1e-3, 9.5 + z * 1e-3], rtol=1e-6)
    ends = np.array(found.loadings(np.array([[2.0]]), np.array([[0.1]]), 0.9)).ravel()
    np.testing.assert_allclose(ends, [2.0 - z * 0.1, 2.0 + z * 0.1], rtol=1e-6)


def test_decays_that_are_not_estimated_have_no_correction():
    found = ShortSeries.of(np.array([0.9, -0.5]), np.array([np.nan, 0.1]), 50.0)
    np.testing.assert_array_equal(found.log_timescale_increase, 0.0)
    np.testing.assert_array_equal(found.loading_increase, 0.0)
    np.testing.assert_array_equal(found.degrees, np.inf)


def test_a_series_shorter_than_a_time_scale_has_no_upper_limit():
    found = ShortSeries.of(np.array([0.99]), np.array([0.02]), 50.0)
    lower, upper = found.timescales(np.array([99.5]), np.array([200.0]), 0.9)
    assert 0.0 < lower[0] < 99.5 and np.isinf(upper[0])


def test_intervals_use_the_total_time_of_all_sequences():
    truth = ProbabilisticSFA.from_parameters([0.95], [[1.0], [-0.8], [0.6]], 0.3)
    X = truth.sample(90, random_state=0)[0]
    model = ProbabilisticSFA(1).fit(X)
    errors = model.standard_errors(X)
    assert errors.n_steps == 90.0
    assert model.standard_errors([X[:40], X[40:]]).n_steps == 90.0
    assert model.standard_errors(X, times=2.0 * np.arange(90)).n_steps == 179.0
    in_minutes = (
        ProbabilisticSFA(1).fit(X, times=5.0 * np.arange(90)).standard_errors(X, times=5.0 * np.arange(90))
    )
    limits = np.array(in_minutes.interval("timescales", 0.9))
    assert in_minutes.time_unit == 5.0
    np.testing.assert_allclose(in_minutes.interval("decay", 0.9), np.exp(-5.0 / limits))
    lower, upper = errors.interval("timescales", 0.9)
    decays = errors.interval("decay", 0.9)
    np.testing.assert_allclose([decays.lower, decays.upper], np.exp(-1.0 / np.array([lower, upper])))
    z = scipy.stats.norm.ppf(0.95)
    assert np.all(np.ptp(errors.interval("offset", 0.9), axis=0) > 2.0 * z * errors.offset)
