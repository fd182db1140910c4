"""Residual diagnostics: exact for each pattern of missing values; they detect misfit and only misfit."""

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from scipy.optimize import brentq
from scipy.signal import lfilter

import probsfa
from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace import advice as advice_module
from probsfa.statespace.advice import ModelProperties
from probsfa.statespace.diagnostics import diagnose
from probsfa.statespace.engine.posterior import observation_moments, simulate, smooth
from probsfa.statespace.learning import coordinates
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.prediction_errors import PredictionErrors, left_out_errors, left_out_rows
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters, uneven_times
from tests.tolerances import EXACT

N = 1500


def estimator_of(model):
    return ProbabilisticSFA.from_parameters(model.decay, model.loadings, model.noise, model.offset)


def small_case(rng, sampling="even"):
    model = oracle.random_model(rng, 4, 2)
    times = None if sampling == "even" else uneven_times(rng, [9, 6])
    data = mask_values(rng, oracle.simulate(rng, model, [9, 6], times), "scattered")
    return model, data, times


@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_predictions_of_the_filter_are_the_dense_conditional_of_each_row(rng, sampling):
    model, data, times = small_case(rng, sampling)
    rows = np.arange(15)[:, None] + np.zeros((1, 4), dtype=int)
    if times is None:
        results = estimator_of(model).filter(data)
    else:
        from probsfa.statespace.filtering import run_filter

        results = [
            run_filter(to_parameters(model), Sequences(x, (len(x),), t), None)
            for x, t in zip(data, times, strict=True)
        ]
    means, std = oracle.predict_hidden_values(model, data, lambda t, d: rows >= t, times)
    assert scaled_error(np.concatenate([r.predictions for r in results]), means) < EXACT
    assert scaled_error(np.concatenate([r.prediction_std for r in results]), std) < EXACT
    x = np.concatenate(data)
    np.testing.assert_allclose(np.concatenate([r.innovations for r in results]), (x - means) / std, atol=1e-9)


def test_a_resumed_filter_predicts_from_where_it_stopped(rng):
    model, (data, _), _ = small_case(rng)
    at_once, first = estimator_of(model).filter(data), estimator_of(model).filter(data[:4])
    second = estimator_of(model).filter(data[4:], first.state)
    np.testing.assert_allclose(second.predictions, at_once.predictions[4:], rtol=1e-11)
    np.testing.assert_allclose(second.prediction_std, at_once.prediction_std[4:], rtol=1e-11)


def test_innovations_are_those_of_statsmodels(rng):
    mq = pytest.importorskip("statsmodels.tsa.statespace.dynamic_factor_mq")
    model = oracle.random_model(rng, 4, 2)
    [data] = oracle.simulate(rng, model, [30])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = mq.DynamicFactorMQ(
            data - model.offset, factors=2, factor_orders=1, idiosyncratic_ar1=False, standardize=False
        )
        peer.ssm.tolerance = 0
        shocks = np.sqrt(1 - model.decay**2)
        peer.update(np.concatenate([model.loadings.ravel(), model.decay, shocks, model.noise]))
        peer.ssm.filter_univariate = False
        filtered = peer.ssm.filter()
    std = np.sqrt(np.diagonal(filtered.forecasts_error_cov, axis1=0, axis2=1))
    expected = filtered.forecasts_error.T / std
    np.testing.assert_allclose(estimator_of(model).filter(data).innovations, expected, rtol=1e-8, atol=1e-9)


def test_errors_of_left_out_values_and_rows_equal_the_dense_conditional(rng):
    model, data, _ = small_case(rng)
    params, x = to_parameters(model), np.concatenate(data)
    posterior = smooth(params, to_panel(data))
    moments = observation_moments(params, posterior.means, posterior.covariances)
    rows, value_index = np.arange(15)[:, None] + np.zeros((1, 4), dtype=int), np.arange(60).reshape(15, 4)
    means, std = oracle.predict_hidden_values(model, data, lambda t, d: value_index == value_index[t, d])
    errors = left_out_errors(x, *moments, params.noise_variance)
    np.testing.assert_allclose(errors, (x - means) / std, atol=1e-8)
    means, std = oracle.predict_hidden_values(model, data, lambda t, d: rows == t)
    errors = left_out_rows(params, x, posterior.means, posterior.covariances)
    np.testing.assert_allclose(errors, (x - means) / std, atol=1e-8)


def test_errors_of_rows_are_finite_or_nan_with_near_zero_noise(rng):
    model, data, _ = small_case(rng)
    params = to_parameters(model._replace(noise=np.full(4, 1e-13)))
    posterior = smooth(params, to_panel(data))
    errors = left_out_rows(params, np.concatenate(data), posterior.means, posterior.covariances)
    assert np.isnan(errors).all() or np.isfinite(errors[~np.isnan(errors)]).all()


# ------------------------------------------------------------------------- advice


def case(seed):
    """Return a model of three factors and six columns, a series of it, and the noise of its third column."""
    rng = np.random.default_rng(seed)
    model = ProbabilisticSFA.from_parameters(
        [0.98, 0.9, 0.6], rng.standard_normal((6, 3)), rng.uniform(0.9, 1.2, 6), rng.standard_normal(6)
    )
    X, factors = model.sample(N, random_state=rng)
    noise = X[:, 2] - model.mean_[2] - factors @ model.loadings_[2]
    return rng, model, X, noise, float(np.sqrt(model.noise_variance_[2]))


def hide(rng, X):
    return np.where(rng.random(X.shape) < 0.1, np.nan, X)


@pytest.fixture(scope="module")
def model_diagnostics():
    out = []
    for seed in range(12):
        rng, model, X, _, _ = case(seed)
        out.append(model.diagnose(hide(rng, X)))
    return out


def test_prediction_errors_in_data_of_the_model_are_white(model_diagnostics):
    p = np.concatenate([d.ljung_box for d in model_diagnostics])
    assert scipy.stats.kstest(p, "uniform").pvalue > 0.01


def test_intervals_have_nominal_coverage_for_data_of_the_model(model_diagnostics):
    for kind in ("one step", "cells", "rows", "blocks"):
        curves = np.mean([d.coverage[kind].mean(axis=1) for d in model_diagnostics], axis=0)
        np.testing.assert_allclose(curves, model_diagnostics[0].levels, atol=0.015)


def test_data_of_the_model_cause_no_advice(model_diagnostics):
    assert [d.advice for d in model_diagnostics] == [()] * len(model_diagnostics)
    assert "No misfit found" in str(model_diagnostics[0])


def add_cycle(rng, X, noise, s):
    X[:, 2] += s * np.sin(2.0 * np.pi * np.arange(N) / 24.0)


def add_ar1_noise(rng, X, noise, s):
    X[:, 2] += s * lfilter([np.sqrt(0.51)], [1.0, -0.7], rng.standard_normal(N)) - noise


def add_heavy_tails(rng, X, noise, s):
    X[:, 2] += s * rng.standard_t(3.0, N) / np.sqrt(3.0) - noise


def add_artefacts(rng, X, noise, s):
    X[[100, 900, 901], 2] += 30.0 * s


def change_variance(rng, X, noise, s):
    X[:, 2] += noise * np.where(np.arange(N) < N // 2, -0.5, 0.5)


@pytest.mark.parametrize(
    ("add_misfit", "message"),
    [
        (add_cycle, "olumn 2 has a cycle of 24 units of time that is not in the model: rhythms=[24]."),
        (add_ar1_noise, "The noise of column 2 is autocorrelated at lag 1 ("),
        (add_heavy_tails, "The noise of column 2 has heavy tails"),
        (add_artefacts, "rows 100, 900, 901)"),
        (change_variance, "The noise of column 2 changes over the series"),
    ],
)
def test_only_the_simulated_misfit_is_reported(add_misfit, message):
    advice = []
    for seed in (1, 2, 4):
        rng, model, X, noise, s = case(seed)
        add_misfit(rng, X, noise, s)
        advice.append(model.diagnose(hide(rng, X) if add_misfit is not add_artefacts else X).advice)
    right = [len(each) == 1 and message in each[0] for each in advice]
    assert np.mean(right) >= 0.8, advice


def simulate_smooth_paths(rng, n_smooth, missing=0.0):
    """Return four columns with smooth paths and two with AR(1) paths, and a model with AR(1) factors."""
    loadings = np.zeros((6, 1 + 2 * n_smooth))
    loadings[4:, 0] = [1.0, 0.7]
    loadings[:4, 1::2] = rng.uniform(0.5, 1.5, (4, n_smooth)) * rng.choice([-1.0, 1.0], (4, n_smooth))
    rates = np.array([0.1, 0.07])[:n_smooth]
    noise = np.array([0.002, 0.002, 0.002, 0.002, 0.1, 0.1])
    truth = StateSpace(np.array([0.9]), loadings, noise, np.zeros(6), smooth_rate=rates)
    X = simulate(truth, N, rng)[0]
    # AR(1) factors with the mean squared increments of the smooth factors.
    rough = ProbabilisticSFA.from_parameters(
        [0.9, *(1.0 - 0.5 * rates**2)], np.column_stack([loadings[:, :1], loadings[:, 1::2]]), noise, 0.0
    )
    return np.where(rng.random(X.shape) < missing, np.nan, X), rough


@pytest.mark.parametrize("n_smooth", [1, 2])
def test_smooth_paths_are_reported_with_the_number_of_smooth_factors(rng, n_smooth):
    X, rough = simulate_smooth_paths(rng, n_smooth, missing=0.05)
    found = rough.diagnose(X)
    [sentence] = [one for one in found.advice if "smooth" in one]
    assert sentence.startswith("The paths of columns ") and sentence.endswith(f"smooth={n_smooth}.")
    assert {"smooth": n_smooth} in [one.options for one in found.suggestions]
    assert all(repr(j) in sentence for j in range(4)) and "4" not in sentence.split(" are smooth")[0]


def test_paths_of_ar1_factors_are_not_reported_as_smooth(rng):
    """Errors are strongly autocorrelated, because the model lacks AR(1) noise and a cycle."""
    _, model, X, noise, s = case(4)
    X[:, 2] += 3.0 * s * lfilter([np.sqrt(0.0975)], [1.0, -0.95], rng.standard_normal(N)) - noise
    X[:, 5] += 3.0 * s * np.sin(2.0 * np.pi * np.arange(N) / 30.0)
    found = model.diagnose(X)
    assert found.autocorrelation[0, 2] > 0.3
    of_cycle, of_noise = found.suggestions
    assert of_cycle.options == {"rhythms": pytest.approx([30.0], abs=0.1)}
    assert of_noise.options == {"noise": "ar1"} and found.suggested == of_cycle.options
    assert of_cycle.gain > 0.0 and of_noise.gain > 0.0
    n_states = model.params_.n_states
    assert (of_cycle.n_states, of_noise.n_states) == (n_states + 2, n_states + X.shape[1])


@pytest.mark.parametrize("n_smooth", [1, 2])
def test_smooth_paths_under_noise_are_reported_by_the_likelihood(rng, n_smooth):
    """With white noise of variance 0.3, errors of single columns do not show that paths are smooth."""
    loadings = np.zeros((5, 2 * n_smooth))
    loadings[:, ::2] = rng.standard_normal((5, n_smooth))
    rates = np.sqrt(3.0) / np.array([30.0, 60.0])[:n_smooth]
    truth = StateSpace(np.zeros(0), loadings, np.full(5, 0.3), np.zeros(5), smooth_rate=rates)
    X = simulate(truth, 1000, rng)[0]
    found = ProbabilisticSFA(n_smooth).fit(X).diagnose(X)
    assert found.suggested == {"n_components": 0, "smooth": n_smooth}
    assert found.advice[0].endswith(f"smooth={n_smooth} with n_components=0.")
    assert not ProbabilisticSFA(0, smooth=n_smooth).fit(X).diagnose(X).advice


@pytest.mark.parametrize("decay", [0.999, 0.99])
def test_a_cycle_with_a_drifting_phase_is_reported_once(rng, decay):
    """Its spectral peak is broader than the resolution of the series, and contains several sinusoids."""
    truth = StateSpace(
        np.array([0.95]), rng.standard_normal((5, 3)), np.full(5, 0.25), np.zeros(5),
        rhythm_decay=np.array([decay]), rhythm_frequency=np.array([2.0 * np.pi / 24.0]),
    )  # fmt: skip
    X = simulate(truth, 1500, rng)[0]
    assert advice_module._PERIOD_RANGE == coordinates.PERIOD_RANGE
    [period] = ProbabilisticSFA(1).fit(X).diagnose(X).suggested["rhythms"]
    assert period == pytest.approx(24.0, rel=0.1)


@pytest.mark.parametrize(("p", "is_reported"), [(0.005, False), (0.0005, True)])
def test_the_significance_level_is_divided_among_types_of_misfit(rng, p, is_reported):
    """The autocorrelation of the errors is chosen to give this p-value in the Ljung-Box test."""
    n, lags = 100, 10
    white = rng.standard_normal(n)
    slow = lfilter([1.0], [1.0, -0.9], rng.standard_normal(n))

    def p_value(size):
        x = white + size * slow - np.mean(white + size * slow)
        r = [x[lag:] @ x[:-lag] / (x @ x) for lag in range(1, lags + 1)]
        statistic = n * (n + 2) * sum(value**2 / (n - lag) for lag, value in enumerate(r, start=1))
        return scipy.stats.chi2.sf(statistic, lags)

    series = white + brentq(lambda size: np.log(p_value(size) / p), 0.0, 1.0) * slow
    errors = series[:, None]
    one_step = PredictionErrors(errors, errors, {"one step": errors}, 24)
    advice = diagnose(one_step, Sequences(errors, (n,)), None, ModelProperties(1)).advice
    assert any("autocorrelated" in sentence for sentence in advice) is is_reported


def test_suggestions_include_the_cycles_of_the_model(rng):
    t, slow = np.arange(N), lfilter([0.3], [1.0, -0.95], rng.standard_normal(N))
    day, week = (np.sin(2.0 * np.pi * t / period)[:, None] for period in (24.0, 7.0))
    X = day * [1.0, 0.5, -1.0] + week * [-0.5, 1.0, 0.5] + slow[:, None] * [1.0, 0.5, -1.0]
    X += 0.3 * rng.standard_normal(X.shape)
    model = ProbabilisticSFA(1, rhythms=[24.0]).fit(X)
    assert model.diagnose(X).suggested["rhythms"] == pytest.approx([24.0, 7.0], rel=0.02)
    index = pd.date_range("2024-01-01", periods=N, freq="h")
    dated = ProbabilisticSFA(1, rhythms=["1D"]).fit(pd.DataFrame(X, index))
    assert dated.diagnose(pd.DataFrame(X, index)).suggested["rhythms"] == ["1D", "7h"]


def test_the_suggested_option_removes_the_misfit(rng):
    X, _ = simulate_smooth_paths(rng, 1)
    plain = ProbabilisticSFA(2).fit(X[:600])
    suggested = plain.diagnose(X[:600]).suggested
    assert suggested["smooth"] == 1
    better = ProbabilisticSFA(1, smooth=suggested["smooth"]).fit(X[:600])
    before, after = (np.abs(one.diagnose(X[600:]).autocorrelation[0, :4]) for one in (plain, better))
    assert before.min() > 0.3 and after.max() < 0.15
    assert not any("smooth" in one.options for one in better.diagnose(X[600:]).suggestions)


def test_cycles_of_the_calendar_are_found_with_dates(rng):
    _, model, X, _, s = case(1)
    index = pd.date_range("2024-01-01", periods=N, freq="h")
    model = ProbabilisticSFA.from_parameters(
        model.decay_, model.loadings_, model.noise_variance_, model.mean_,
        time_unit="1h", feature_names=list("abcdef"),
    )  # fmt: skip
    X[:, 2] += 1.2 * s * np.sin(2.0 * np.pi * np.arange(N) / 24.0)
    frame = pd.DataFrame(X, index=index, columns=list("abcdef"))
    found = model.diagnose(frame)
    assert found.advice == ("Column 'c' has a cycle of 1D that is not in the model: rhythms=['1D'].",)
    assert list(found.lags) == [*range(1, 11), 24, 168]
    pd.testing.assert_index_equal(found.innovations.index, index)
    assert list(found.predictions.columns) == list("abcdef")
    assert list(found.table.index) == list("abcdef")
    assert found.table.loc["c", "period p"] < 1e-3 and "'c'" in str(found)


def test_lists_give_lists_and_levels_are_validated(rng):
    _, model, X, _, _ = case(2)
    found = model.diagnose([X[:300], X[300:700]])
    assert [part.shape for part in found.innovations] == [(300, 6), (400, 6)]
    np.testing.assert_array_equal(np.isnan(found.covered(0.5)["rows"]), np.zeros(6, dtype=bool), strict=True)
    with pytest.raises(ValueError, match=r"level.*got 0\.93"):
        found.covered(0.93)


def test_short_series_and_empty_columns_cause_no_advice():
    _, model, X, _, _ = case(2)
    for rows in (X[:1], X[:5], X[:30]):
        assert model.diagnose(rows).advice == ()
    X = X[:200].copy()
    X[:, 4] = np.nan
    found = model.diagnose(X)
    assert np.isnan(found.ljung_box[4]) and found.n_cells[4] == 0 and "No misfit" in str(found)


def test_the_figure_has_four_axes_and_column_names():
    _, model, X, _, _ = case(2)
    found = model.diagnose(X[:400])
    axes = found.plot()
    assert [label.get_text() for label in axes[0].get_yticklabels()] == list("012345")
    assert axes[3].get_xlabel() == "coverage of 90 % intervals"
    axes[0].figure.savefig("/dev/null", format="png")
    with pytest.raises(ValueError, match="axes.*4"):
        found.plot(axes=axes[:2])


def test_without_noise_there_is_nothing_to_diagnose(rng):
    X = np.cumsum(rng.standard_normal((60, 3)), axis=0)
    with pytest.raises(ValueError, match="diagnose.*noise"):
        ProbabilisticSFA(1, noise=0.0).fit(X).diagnose(X)


def test_the_status_of_a_fit_warns_of_gross_misfit():
    rng = np.random.default_rng(0)
    walks = lfilter([1.0], [1.0, -0.97], rng.standard_normal((400, 4)), axis=0)
    status = ProbabilisticSFA(1, max_iter=30, tol=1.0).fit(walks).status_
    assert "One-step prediction errors are autocorrelated" in status and "diagnose(X)" in status
    _, model, X, _, _ = case(3)
    assert "correlated" not in ProbabilisticSFA(3).fit(X[:400]).status_


# ------------------------------------------------------------------ given parameters


def test_a_model_of_given_parameters_has_all_methods(rng, tmp_path):
    model = ProbabilisticSFA.from_parameters([0.5, 0.9], [[1.0, 2.0], [0.5, -1.0], [1.0, 0.2]], 0.3, 5.0)
    np.testing.assert_array_equal(model.decay_, [0.9, 0.5])
    np.testing.assert_array_equal(model.loadings_[:, 1], [1.0, 0.5, 1.0])
    X, _ = model.sample(40, random_state=0)
    X[5, 1] = np.nan
    posterior = oracle.joint_posterior(
        oracle.Model(model.decay_, model.loadings_, model.noise_variance_, model.mean_), [X]
    )
    np.testing.assert_allclose(model.transform(X), posterior.means, atol=1e-10)
    assert model.log_likelihood(X) == pytest.approx(posterior.log_likelihood)
    assert np.isnan(model.log_likelihood_) and model.converged_ and "from_parameters" in model.status_
    assert np.isfinite(model.bic(X)) and model.impute(X).shape == X.shape
    assert model.forecast(X, 2).means.shape == (2, 3) and model.sample_posterior(X, 2).shape == (2, 40, 2)
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.transform(X), model.transform(X))
    assert np.isnan(loaded.log_likelihood_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise_variance": 0.0}, "noise_variance"),
        ({"decay": [1.0]}, "decay"),
        ({"loadings": [[1.0, 2.0]]}, "loadings"),
        ({"time_unit": "-1h"}, "time_unit"),
        ({"feature_names": ["a"]}, "feature_names.*2"),
        ({"max_iter": 0}, "max_iter"),
    ],
)
def test_invalid_parameters_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        ProbabilisticSFA.from_parameters(
            **{"decay": [0.5], "loadings": [[1.0], [2.0]], "noise_variance": 0.1, **options}
        )
