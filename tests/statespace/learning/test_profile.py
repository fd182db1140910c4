"""Intervals of time scales: on the logarithmic scale, and by a profile of the dense likelihood."""

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.learning import standard_errors
from probsfa.statespace.learning.coordinates import Coordinates, to_vector
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.processes.ar1 import MAX_DECAY
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, to_model, to_panel, to_parameters, uneven_times


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(4)
    model = oracle.Model(
        np.array([0.9]), np.array([[1.0], [-0.7]]), np.array([0.3, 0.5]), np.array([2.0, -1.0])
    )
    data = mask_values(rng, oracle.simulate(rng, model, [40]), "scattered")[0]
    return data, ProbabilisticSFA(1, tol=1e-8).fit(data)


def dense_profile(template, data, decay, times=None):
    """Return the maximum of the dense log-likelihood at a fixed decay."""

    def negative_log_likelihood(rest):
        vector = np.concatenate([[free], rest])
        return -oracle.log_likelihood(
            oracle.unpack(vector, template, "diagonal", times is None), [data], times
        )

    model = template._replace(decay=np.array([decay]))
    free, *rest = oracle.pack(model, "diagonal", times is None)
    end = scipy.optimize.minimize(negative_log_likelihood, rest, method="BFGS", options={"gtol": 1e-4})
    return -end.fun


@parametrize("level", [0.9, 0.5])
def test_limits_are_those_of_the_dense_profile_likelihood(small, level):
    data, model = small
    profile = model.profile_timescale(data, level=level)
    maximum = oracle.log_likelihood(to_model(model.params_), [data])
    decrease = 0.5 * scipy.stats.chi2(1).ppf(level)
    for end in (profile.lower, profile.upper):
        best = dense_profile(to_model(model.params_), data, np.exp(-1.0 / end))
        np.testing.assert_allclose(maximum - best, decrease, rtol=0.01)
    assert profile.upper - profile.timescale > profile.timescale - profile.lower
    assert profile.log_likelihoods.max() == pytest.approx(0.0, abs=1e-4)
    assert (np.diff(profile.timescales) > 0).all()


def test_the_unit_of_time_is_that_of_the_times(rng):
    model = oracle.Model(np.array([0.9]), np.array([[1.0], [-0.7]]), np.array([0.3, 0.5]), np.zeros(2))
    times = uneven_times(rng, [40])
    data = oracle.simulate(rng, model, [40], times)[0]
    hours, seconds = (
        ProbabilisticSFA(1, tol=1e-8).fit(data, times=times[0] * unit) for unit in (1.0, 3600.0)
    )
    one, other = (
        hours.profile_timescale(data, times=times[0]),
        seconds.profile_timescale(data, times=times[0] * 3600),
    )
    np.testing.assert_allclose(other.lower, one.lower * 3600, rtol=1e-2)
    errors = [
        model.standard_errors(data, times=times[0] * u) for model, u in ((hours, 1.0), (seconds, 3600.0))
    ]
    one, other = (np.array(e.interval("timescales")) for e in errors)
    np.testing.assert_allclose(other, one * 3600, rtol=1e-2)


def test_a_series_that_may_be_a_drift_has_hardly_an_upper_end():
    X = np.linspace(-1, 1, 40)[:, None] * [1.0, -2.0] + 0.1 * np.random.default_rng(0).standard_normal(
        (40, 2)
    )
    profile = ProbabilisticSFA(1).fit(X).profile_timescale(X, level=0.99)
    assert 20.0 < profile.lower < 100.0 and profile.upper > 1e4


def test_each_factor_has_its_own_profile():
    X = make_slow_mixture(300, 4, decay=[0.98, 0.6], noise_variance=0.2, random_state=0).data
    model = ProbabilisticSFA(2).fit(X)
    slow, fast = (model.profile_timescale(X, k) for k in (0, 1))
    assert fast.upper < slow.timescale and slow.lower > fast.timescale
    for k in (2, -1, 0.5):
        with pytest.raises(ValueError, match="component"):
            model.profile_timescale(X, k)


def test_intervals_of_noise_variances_are_factors(small):
    data, model = small
    errors = model.standard_errors(data)
    z = scipy.stats.norm.ppf(0.95)
    lower, upper = errors.interval("noise_variance", level=0.9)
    np.testing.assert_allclose(lower * upper, model.noise_variance_**2)
    np.testing.assert_allclose(
        np.log(upper / model.noise_variance_), z * errors.noise_variance / model.noise_variance_
    )


def test_intervals_of_other_parameters_are_wider_in_short_series(small):
    """Compare with a normal quantile; :mod:`.test_short_series` tests the coverage."""
    data, model = small
    errors = model.standard_errors(data)
    z = scipy.stats.norm.ppf(0.95)
    for name in ("loadings", "offset"):
        lower, upper = errors.interval(name, level=0.9)
        assert np.all(upper - lower > 2 * z * getattr(errors, name))
    lower, upper = errors.interval("decay")
    of_timescales = errors.interval("timescales")
    np.testing.assert_allclose(-1 / np.log(lower), of_timescales.lower)
    assert 0 < lower[0] < model.decay_[0] < upper[0] <= 1
    assert (upper[0] == 1) == (of_timescales.upper[0] == np.inf)


def test_a_negative_decay_has_an_interval_and_no_time_scale():
    alternating = oracle.Model(np.array([-0.6]), np.ones((3, 1)), np.full(3, 0.1), np.zeros(3))
    X = oracle.simulate(np.random.default_rng(0), alternating, [60])[0]
    model = ProbabilisticSFA(1).fit(X)
    errors = model.standard_errors(X)
    lower, upper = errors.interval("decay")
    assert -1 < lower[0] < model.decay_[0] < upper[0] < 1
    assert np.isnan(errors.interval("timescales").lower).all()
    with pytest.raises(ValueError, match="time scale"):
        model.profile_timescale(X)


def test_invalid_requests_for_intervals_are_refused(small):
    data, model = small
    errors = model.standard_errors(data)
    for level in (0.0, 1.0, 95, "0.9", None):
        with pytest.raises(ValueError, match="level must.*got"):
            errors.interval("timescales", level=level)
        with pytest.raises(ValueError, match="level must.*got"):
            model.profile_timescale(data, level=level)
    with pytest.raises(ValueError, match="name.*got 'time scales'"):
        errors.interval("time scales")
    with pytest.raises(ValueError, match="observation noise"):
        ProbabilisticSFA(1, noise=0.0).fit(np.nan_to_num(data)).profile_timescale(np.nan_to_num(data))


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:The observed information")
def test_intervals_have_nominal_coverage():
    """In series of ten time scales for profiles, and of forty for intervals of factors."""
    truth, n = -1 / np.log(0.9), 100
    inside = {"symmetric": 0, "factors": 0, "profile": 0}
    for seed in range(n):
        short, longer = (
            make_slow_mixture(n_rows, 3, decay=[0.9], noise_variance=0.3, random_state=seed).data
            for n_rows in (100, 400)
        )
        profile = ProbabilisticSFA(1).fit(short).profile_timescale(short, level=0.9)
        inside["profile"] += profile.lower <= truth <= profile.upper
        model = ProbabilisticSFA(1).fit(longer)
        errors = model.standard_errors(longer)
        lower, upper = errors.interval("timescales", level=0.9)
        inside["factors"] += lower[0] <= truth <= upper[0]
        inside["symmetric"] += abs(model.timescales_[0] - truth) <= 1.645 * errors.timescales[0]
    # A tolerance of six standard errors of 100 intervals would be too large.
    for name in ("factors", "profile"):
        assert abs(inside[name] / n - 0.9) < 3 * np.sqrt(0.09 / n), inside
    assert inside["symmetric"] < inside["factors"]


def test_a_decay_at_the_end_of_its_range_is_an_infinite_time_scale():
    decays = standard_errors._MIN_DECAY, np.exp(-0.5), MAX_DECAY
    ends = [standard_errors._timescale(decay, 2.0) for decay in decays]
    assert ends == pytest.approx([0.0, 4.0, np.inf])


def test_the_gradient_includes_the_prior_of_the_noise(rng):
    variances = NoiseVariances.diagonal(2)
    model = oracle.Model(np.array([0.8]), np.array([[1.0], [-0.7]]), np.array([0.3, 0.5]), np.zeros(2))
    profile = object.__new__(standard_errors._Profile)
    profile.coordinates, profile.params = Coordinates(StateLayout(1), variances, True), to_parameters(model)
    profile.panel = to_panel(oracle.simulate(rng, model, [12]))
    profile.noise, profile.n_evaluations = Noise(variances, np.full(2, 1e-6), 3.0), 0
    at = to_vector(profile.coordinates, profile.params)
    steps = 1e-5 * np.eye(len(at))
    gradient = [(profile.log_likelihood(at + h)[0] - profile.log_likelihood(at - h)[0]) / 2e-5 for h in steps]
    np.testing.assert_allclose(profile.log_likelihood(at)[1], gradient, rtol=1e-6, atol=1e-6)
