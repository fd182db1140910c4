"""Stochastic cycles and smooth factors: fitted attributes, all methods, files, times and dates."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm
from sklearn.gaussian_process.kernels import Matern

from probsfa import ProbabilisticSFA, load, select_n_components
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, to_vector
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import StateSpace, with_more_factors
from probsfa.statespace.processes.matern import Matern52
from tests.oracles import block_processes as oracle
from tests.oracles.statespace import numerical_hessian
from tests.statespace.support import to_panel

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

PERIOD, N_ROWS = 12.0, 160
FEW = {"max_iter": 12}


def truth():
    loadings = np.array(
        [
            [1.0, 2.0, 0.0, 1.5, 0.0],
            [0.5, 0.0, 1.0, -1.0, 0.0],
            [-0.7, 1.0, 1.0, 0.5, 0.0],
            [0.3, -1.0, 0.5, 1.0, 0.0],
            [0.9, 0.4, 1.2, 0.1, 0.0],
        ]
    )
    return StateSpace(
        np.array([0.8]),
        loadings,
        np.full(5, 0.3),
        np.arange(5.0),
        rhythm_decay=np.array([0.99]),
        rhythm_frequency=np.array([2.0 * np.pi / PERIOD]),
        smooth_rate=np.array([0.1]),
    )


@pytest.fixture(scope="module")
def series():
    x = oracle.draw(np.random.default_rng(3), truth(), [np.arange(float(N_ROWS))])[0]
    x[40:48, 1] = np.nan
    return x


@pytest.fixture(scope="module")
def fitted(series):
    return ProbabilisticSFA(1, rhythms=[PERIOD], smooth=1, **FEW).fit(series)


def test_parameters_of_stochastic_cycles_stay_when_others_are_replaced(fitted):
    params = fitted.params_
    assert params.decay.shape == (1,) and params.loadings.shape == (5, 5)
    assert params.replace(offset=np.zeros(5)).rhythm_decay is params.rhythm_decay
    assert "rhythm_frequency" in repr(fitted.params_)


def test_fitted_attributes_and_states_have_names(fitted, series):
    assert abs(fitted.rhythm_periods_[0] / PERIOD - 1.0) < 0.02
    assert fitted.rhythm_decay_.shape == fitted.smooth_timescales_.shape == (1,)
    assert fitted.rhythm_amplitudes_.shape == fitted.rhythm_phases_.shape == (5, 1)
    largest = np.argmax(fitted.rhythm_amplitudes_[:, 0] / np.nanstd(series, axis=0))
    assert fitted.rhythm_phases_[largest, 0] == 0.0
    names = ["probabilisticsfa0", "rhythm0_cos", "rhythm0_sin", "smooth0", "smooth0_velocity"]
    assert list(fitted.get_feature_names_out()) == names
    frame = fitted.set_output(transform="pandas").transform(series)
    assert list(frame.columns) == names
    fitted.set_output(transform="default")
    np.testing.assert_array_equal(fitted.loadings_[:, 4], 0.0)
    assert fitted._model.n_parameters == 1 + 2 + 1 + 5 * 4 - 1 + 5 + 5


def test_methods_are_those_of_the_joint_gaussian(fitted, series):
    params = fitted.params_
    extended = np.vstack([series, np.full((6, 5), np.nan)])
    value, mean, covariance = oracle.joint(params, [extended], [np.arange(float(len(extended)))])
    explained = np.array(
        [params.loadings @ covariance[t, :, t] @ params.loadings.T for t in range(len(extended))]
    )
    means = params.offset + mean @ params.loadings.T
    std = np.sqrt(np.diagonal(explained, axis1=1, axis2=2) + params.noise_variance)
    np.testing.assert_allclose(fitted.transform(series), mean[:N_ROWS], atol=1e-9)
    assert abs(fitted.log_likelihood(series) - value) < 1e-8
    assert abs(fitted.log_likelihood_ - value) < 1e-8
    filled, filled_std = fitted.impute(series, return_std=True)
    missing = np.isnan(series)
    np.testing.assert_allclose(filled[missing], means[:N_ROWS][missing], atol=1e-9)
    np.testing.assert_allclose(filled_std[missing], std[:N_ROWS][missing], atol=1e-9)
    forecast = fitted.forecast(series, 6)
    np.testing.assert_allclose(forecast.means, means[N_ROWS:], atol=1e-9)
    np.testing.assert_allclose(forecast.std, std[N_ROWS:], atol=1e-9)
    half = fitted.forecast(series, fh=[0.5, 3.0])
    np.testing.assert_allclose(half.means[1], means[N_ROWS + 2], atol=1e-9)
    posterior = fitted.posterior(series)
    np.testing.assert_allclose(posterior.lag_one_covariances[7], covariance[8, :, 7], atol=1e-9)
    draws = fitted.sample_posterior(series, 1000, random_state=0)
    expected = np.sqrt(np.diagonal(covariance[45, :, 45]))
    np.testing.assert_allclose(draws[:, 45].std(axis=0), expected, rtol=0.15)
    np.testing.assert_allclose(draws[:, 45].mean(axis=0), mean[45], atol=0.15)


def test_a_filter_is_resumed_from_its_state(fitted, series):
    first = fitted.filter(series[:70])
    rest = fitted.filter(series[70:], first.state)
    assert abs(first.log_likelihood + rest.log_likelihood - fitted.log_likelihood_) < 1e-8


def test_samples_have_the_covariances_of_the_model(fitted):
    x, factors = fitted.sample(20_000, random_state=0)
    assert x.shape == (20_000, 5) and factors.shape == (20_000, 5)
    for lag in (0, 1, 3):
        found = factors[lag:].T @ factors[: len(factors) - lag] / (len(factors) - lag)
        np.testing.assert_allclose(found, oracle.transition(fitted.params_, float(lag)), atol=0.25)


def test_saved_and_loaded_is_the_same_model(fitted, series, tmp_path):
    fitted.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params()["rhythms"] == [PERIOD] and again.smooth == 1
    np.testing.assert_array_equal(again.transform(series), fitted.transform(series))
    np.testing.assert_array_equal(again.rhythm_phases_, fitted.rhythm_phases_)


def test_a_stream_and_lists_give_the_same_fit(fitted, series):
    model = ProbabilisticSFA(0, rhythms=[PERIOD], max_iter=100, tol=1e-4)
    log_likelihood = model.fit(series).log_likelihood_
    assert abs(model.fit_stream(series).log_likelihood_ - log_likelihood) < 1e-2
    assert model.rhythm_periods_.shape == (1,) and not hasattr(model, "smooth_timescales_")
    parts = [series[:90], series[90:]]
    assert [z.shape for z in fitted.transform(parts)] == [(90, 5), (70, 5)]
    assert np.isfinite(model.fit(parts).log_likelihood_)


@pytest.mark.exhaustive
def test_dates_and_uneven_times_have_periods_in_their_units(series):
    hours = pd.date_range("2024-01-01", periods=N_ROWS, freq="2h")
    frame = pd.DataFrame(series, index=hours)
    dated = ProbabilisticSFA(1, rhythms=["1D"], tol=1e-3).fit(frame)
    rows = ProbabilisticSFA(1, rhythms=[PERIOD], tol=1e-3).fit(series)
    np.testing.assert_allclose(dated.rhythm_periods_, rows.rhythm_periods_, rtol=1e-3)
    assert dated.time_unit_seconds_ == 7200.0
    kept = np.sort(np.random.default_rng(0).choice(N_ROWS, 130, replace=False))
    uneven = ProbabilisticSFA(1, rhythms=["24h"], max_iter=40).fit(frame.iloc[kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit stops at max_iter
        error = uneven.standard_errors(frame.iloc[kept]).rhythm_periods[0]
    # Periods are in median time steps, which are two hours.
    assert uneven.time_unit_seconds_ == 7200.0
    assert error < 0.05 * PERIOD and abs(uneven.rhythm_periods_[0] - PERIOD) < 3.0 * error
    numbers = ProbabilisticSFA(1, rhythms=1, max_iter=40).fit(series[kept], times=2.0 * kept)
    assert abs(numbers.rhythm_periods_[0] - 2.0 * PERIOD) < 6.0 * error


@pytest.mark.exhaustive
def test_standard_errors_equal_the_numerical_ones(series):
    series = series[:100, [0, 3]]
    model = ProbabilisticSFA(0, rhythms=[PERIOD], smooth=1, max_iter=60, tol=1e-7).fit(series)
    errors = model.standard_errors(series)
    fitted_params, unit = model._model.fitted.standardized_params, model._model.fitted
    coordinates = Coordinates(fitted_params.state_layout, NoiseVariances.diagonal(2), True)
    panel = to_panel([(series - unit.shift) / unit.scale])
    at = to_vector(coordinates, fitted_params)
    free = np.ones(coordinates.size, dtype=bool)
    free[coordinates.slices[1]] = fitted_params.free_loadings.ravel()
    free = np.flatnonzero(free)

    def value(moved):
        vector = at.copy()
        vector[free] = moved
        return log_likelihood(from_vector(coordinates, vector, fitted_params), panel)

    covariance = np.linalg.inv(-numerical_hessian(value, at[free]))
    by_log_rate, by_frequency, by_smooth = np.sqrt(np.diag(covariance)[:3])
    rho, omega = fitted_params.rhythm_decay[0], fitted_params.rhythm_frequency[0]
    np.testing.assert_allclose(errors.rhythm_decays, -rho * np.log(rho) * by_log_rate, rtol=1e-2)
    np.testing.assert_allclose(errors.rhythm_periods, 2 * np.pi / omega**2 * by_frequency, rtol=1e-2)
    np.testing.assert_allclose(errors.smooth_timescales, model.smooth_timescales_ * by_smooth, rtol=1e-2)
    assert np.isnan(errors.loadings).sum() == 1 + 2  # the phase of one column, and the velocity in both
    for name, estimate in (
        ("rhythm_periods", model.rhythm_periods_),
        ("rhythm_decays", model.rhythm_decay_),
        ("smooth_timescales", model.smooth_timescales_),
    ):
        lower, upper = errors.interval(name)
        assert 0.0 < lower[0] < estimate[0] < upper[0]
    lower, upper = errors.interval("rhythm_periods")
    np.testing.assert_allclose(lower * upper, model.rhythm_periods_**2)


@pytest.mark.exhaustive
def test_the_number_of_other_factors_is_selected_jointly(series):
    chosen = select_n_components(series, [1, 2], rhythms=[PERIOD], max_iter=5)
    assert chosen.n_components in (1, 2) and chosen.best_estimator_.rhythms == [PERIOD]
    assert np.all(np.isfinite(chosen.table.score[-2:]))


def test_added_factors_are_sorted_by_kind():
    one = truth()
    both = with_more_factors(one, one.replace(decay=np.array([0.3]), loadings=10.0 * one.loadings))
    assert both.state_layout.numbers == (2, *(2 * count for count in one.state_layout.numbers[1:]))
    columns = [one.loadings[:, :1], one.loadings[:, 1:3], one.loadings[:, 3:]]
    expected = np.hstack([part for kind in columns for part in (kind, 10.0 * kind)])
    np.testing.assert_array_equal(both.loadings, expected)


def test_a_smooth_factor_is_a_gaussian_process_with_scikit_learns_matern_kernel():
    rng = np.random.default_rng(0)
    times, timescale = np.cumsum(rng.uniform(0.2, 2.0, 40)), 6.0
    params = StateSpace(
        np.zeros(0),
        np.array([[1.3, 0.0]]),
        np.array([0.2]),
        np.zeros(1),
        smooth_rate=np.array([np.sqrt(3.0) / timescale]),
    )
    x = rng.standard_normal((40, 1))
    kernel = 1.3**2 * Matern(timescale, nu=1.5)(times[:, None]) + 0.2 * np.eye(40)
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * kernel)[1] + x[:, 0] @ np.linalg.solve(kernel, x[:, 0]))
    assert abs(log_likelihood(params, to_panel([x], [times])) - expected) < 1e-10 * abs(expected)


def test_a_smoother_process_is_a_gaussian_process_with_scikit_learns_matern_kernel():
    rng = np.random.default_rng(0)
    times, timescale = np.cumsum(rng.uniform(0.2, 2.0, 40)), 6.0
    smooth = Matern52.of_times(np.array([timescale]))
    params = StateSpace(
        np.zeros(0), np.array([[1.3, 0.0, 0.0]]), np.array([0.2]), np.zeros(1), processes=(smooth,)
    )
    x = rng.standard_normal((40, 1))
    kernel = 1.3**2 * Matern(timescale, nu=2.5)(times[:, None]) + 0.2 * np.eye(40)
    expected = -0.5 * (np.linalg.slogdet(2 * np.pi * kernel)[1] + x[:, 0] @ np.linalg.solve(kernel, x[:, 0]))
    assert abs(log_likelihood(params, to_panel([x], [times])) - expected) < 1e-10 * abs(expected)


def test_the_state_space_form_of_the_oracle_is_the_kernel():
    rate = 0.4
    drift = rate * np.array([[0.0, 1.0], [-1.0, -2.0]])
    for gap in (0.3, 2.0):
        kernel = Matern(np.sqrt(3.0) / rate, nu=1.5)([[0.0]], [[gap]])[0, 0]
        assert abs(expm(gap * drift)[0, 0] - kernel) < 1e-12


def test_one_column_is_the_damped_cycle_of_statsmodels():
    statsmodels = pytest.importorskip("statsmodels.tsa.statespace.structural")
    rng = np.random.default_rng(1)
    rho, omega, amplitude, noise = 0.95, 0.5, 1.7, 0.4
    x = rng.standard_normal(200)
    x[50:60] = np.nan
    peer = statsmodels.UnobservedComponents(
        x, cycle=True, stochastic_cycle=True, damped_cycle=True, irregular=True, cycle_period_bounds=(2, 100)
    )
    peer.ssm.initialize_stationary()
    innovation_variance = amplitude**2 * (1.0 - rho**2)
    names = dict(zip(peer.param_names, range(4), strict=True))
    values = np.empty(4)
    for name, value in (
        ("sigma2.irregular", noise),
        ("sigma2.cycle", innovation_variance),
        ("frequency.cycle", omega),
        ("damping.cycle", rho),
    ):
        values[names[name]] = value
    peer.loglikelihood_burn = 0
    params = StateSpace(
        np.zeros(0),
        np.array([[amplitude, 0.0]]),
        np.array([noise]),
        np.zeros(1),
        rhythm_decay=np.array([rho]),
        rhythm_frequency=np.array([omega]),
    )
    found = log_likelihood(params, to_panel([x[:, None]]))
    assert abs(found - peer.loglike(values)) < 1e-8 * abs(found)
