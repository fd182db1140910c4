"""The posterior with AR(1) noise integrated out is that of the model with a state for each column."""

import subprocess
import sys

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace import models
from probsfa.statespace.idiosyncratic_posterior import IdiosyncraticPosterior
from probsfa.statespace.learning import maximum_likelihood
from probsfa.statespace.learning.budget import integrates_ar1_noise
from probsfa.statespace.parameters import StateSpace
from tests.oracles import ar1_noise as oracle
from tests.statespace.support import mask_values, to_panel, uneven_times

# Relative tolerance of variances, whose part due to the factors is estimated from draws.
_DRAW_TOL = 0.25


def make_params(rng, n_features=5):
    return StateSpace(
        np.array([0.9, 0.6]),
        rng.standard_normal((n_features, 2)),
        rng.uniform(0.05, 0.5, n_features),
        rng.standard_normal(n_features),
        noise_decay=rng.uniform(0.3, 0.97, n_features),
        noise_scale=rng.uniform(0.5, 1.5, n_features),
    )


def make_data(rng, params, lengths, *, even=True):
    times = [np.arange(float(n)) for n in lengths] if even else uneven_times(rng, lengths)
    data = mask_values(rng, oracle.draw(rng, params, times), "scattered")
    return data, times, to_panel(data, None if even else times)


@pytest.mark.parametrize("even", [True, False])
def test_moments_of_values_are_those_of_the_joint_gaussian(rng, even):
    params = make_params(rng)
    data, times, panel = make_data(rng, params, [20, 9], even=even)
    found = IdiosyncraticPosterior(params, panel)
    missing = np.flatnonzero(np.isnan(np.concatenate(data).ravel()))
    mean, covariance = oracle.conditional_moments(params, data, times, missing)
    np.testing.assert_allclose(found.value_means.ravel()[missing], mean, atol=1e-3)
    variances = (found.value_variances() + params.noise_variance).ravel()[missing]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=2.0 * _DRAW_TOL)
    assert np.mean(variances / np.diag(covariance)) == pytest.approx(1.0, abs=0.1)


def test_without_factors_all_moments_are_exact(rng):
    params = make_params(rng)
    params = params.replace(decay=np.zeros(0), loadings=np.zeros((5, 0)))
    data, times, panel = make_data(rng, params, [20, 9])
    found = IdiosyncraticPosterior(params, panel)
    missing = np.flatnonzero(np.isnan(np.concatenate(data).ravel()))
    mean, covariance = oracle.conditional_moments(params, data, times, missing)
    np.testing.assert_allclose(found.value_means.ravel()[missing], mean, rtol=1e-9)
    variances = (found.value_variances() + params.noise_variance).ravel()[missing]
    np.testing.assert_allclose(variances, np.diag(covariance), rtol=1e-9)
    expected = oracle.log_likelihood(params, data, times)
    assert found.log_likelihood() == pytest.approx(expected, rel=1e-12)
    assert found.posterior().means.shape == (29, 0)


def test_values_left_out_are_those_of_the_joint_gaussian(rng):
    params = make_params(rng)
    data, times, panel = make_data(rng, params, [25])
    means, variances = IdiosyncraticPosterior(params, panel).leave_one_out_moments()
    observed = ~np.isnan(data[0])
    np.testing.assert_array_equal(np.isnan(means), ~observed)
    rows = np.flatnonzero(observed.ravel())[::7]
    expected = [oracle.conditional_moments(params, data, times, [row]) for row in rows]
    std = np.sqrt([float(covariance[0, 0]) for _, covariance in expected])
    errors = (means.ravel()[rows] - [float(mean[0]) for mean, _ in expected]) / std
    assert np.sqrt(np.mean(errors**2)) < _DRAW_TOL
    ratio = variances.ravel()[rows] / std**2
    assert np.median(ratio) == pytest.approx(1.0, abs=0.1)


def test_moments_and_draws_of_factors(rng):
    params = make_params(rng)
    data, times, panel = make_data(rng, params, [20])
    found = IdiosyncraticPosterior(params, panel)
    mean, covariance = oracle.posterior_of_factors(params, data, times)
    posterior = found.posterior()
    np.testing.assert_allclose(posterior.means, mean, atol=1e-3)
    expected = np.array([covariance[t, :, t] for t in range(20)])
    lagged = np.array([covariance[t + 1, :, t] for t in range(19)])
    assert np.abs(posterior.covariances - expected).mean() < 0.2 * np.abs(expected).mean()
    assert np.abs(posterior.lag_one_covariances - lagged).mean() < 0.3 * np.abs(lagged).mean()
    assert posterior.log_likelihood == pytest.approx(oracle.log_likelihood(params, data, times), abs=2.0)
    drawn = found.draw_factors(400, rng)
    assert drawn.shape == (400, 20, 2)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.3)
    np.testing.assert_allclose(drawn.var(axis=0).mean(), np.trace(expected.mean(axis=0)) / 2.0, rtol=0.1)


def test_draws_of_values_have_their_joint_covariance(rng):
    params = make_params(rng)
    data, times, panel = make_data(rng, params, [15])
    missing = np.flatnonzero(np.isnan(data[0].ravel()))
    mean, covariance = oracle.conditional_moments(params, data, times, missing)
    drawn = IdiosyncraticPosterior(params, panel).draw_values(3000, rng).reshape(3000, -1)[:, missing]
    white = np.diag(params.noise_variance[missing % 5])
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.15)
    np.testing.assert_allclose(np.cov(drawn.T) + white, covariance, atol=0.2)


def test_forecast_is_that_of_missing_rows(rng):
    params = make_params(rng)
    data, _, _ = make_data(rng, params, [18])
    longer = [np.vstack([data[0], np.full((4, 5), np.nan)])]
    steps = np.array([1.0, 2.0, 4.0])
    found = IdiosyncraticPosterior(params, to_panel(data))
    means, variances, factor_means, factor_variances = found.forecast(17, steps)
    indices = np.ravel_multi_index(np.ix_([18, 19, 21], range(5)), (22, 5)).ravel()
    mean, covariance = oracle.conditional_moments(params, longer, [np.arange(22.0)], indices)
    np.testing.assert_allclose(means.ravel(), mean, atol=1e-3)
    np.testing.assert_allclose((variances + params.noise_variance).ravel(), np.diag(covariance), rtol=0.15)
    of_factors, covariance = oracle.posterior_of_factors(params, longer, [np.arange(22.0)])
    np.testing.assert_allclose(factor_means, of_factors[[18, 19, 21]], atol=1e-3)
    np.testing.assert_allclose(
        factor_variances[:, 0], [covariance[t, 0, t, 0] for t in (18, 19, 21)], rtol=0.15
    )


def series(rng, n_rows=400, n_features=10):
    """Columns that share two factors and have AR(1) noise, and the same with missing values."""
    params = make_params(rng, n_features)
    complete = oracle.draw(rng, params, [np.arange(float(n_rows))])[0]
    return complete, np.where(rng.random(complete.shape) < 0.1, np.nan, complete)


def integrate(monkeypatch):
    """Integrate AR(1) noise out at any size."""
    for module in (models, maximum_likelihood):
        monkeypatch.setattr(module, "integrates_ar1_noise", lambda *sizes: True)


def test_methods_equal_those_of_the_model_with_states(rng, monkeypatch):
    complete, x = series(rng)
    model = ProbabilisticSFA(n_components=2, noise="ar1", tol=5.0).fit(x)

    def results():
        drawn = model.sample_posterior(x, 20, of="values", random_state=0)
        forecast = model.forecast(x, 3)
        filled, std = model.impute(x, return_std=True)
        return {
            "factors": model.transform(x),
            "filled": filled,
            "contributions": model.contributions(x),
            "forecast": forecast.means,
            "factor forecast": forecast.latent_means,
            "draws": drawn.mean(axis=0)[~np.isnan(x)],
        }, {
            "std": std[np.isnan(x)],
            "forecast std": forecast.std,
            "factor std": model.posterior(x).std,
            "outliers": model.outlier_scores(x)[~np.isnan(x)],
        }

    exact, exact_spread = results()
    value = model.log_likelihood(x)
    integrate(monkeypatch)
    integrated, drawn = results()
    for name, expected in exact.items():
        np.testing.assert_allclose(integrated[name], expected, atol=5e-3, err_msg=name)
    for name, expected in exact_spread.items():
        assert np.mean(drawn[name]) == pytest.approx(np.mean(expected), rel=0.05), name
        assert np.sqrt(np.mean((drawn[name] - expected) ** 2)) < 0.2 * np.sqrt(np.mean(expected**2)), name
    assert model.log_likelihood(x) == pytest.approx(value, abs=10.0)


def test_a_fit_is_as_good_as_that_with_states(rng, monkeypatch):
    complete, x = series(rng)
    missing = np.isnan(x)

    def error():
        filled, std = ProbabilisticSFA(n_components=2, noise="ar1").fit(x).impute(x, return_std=True)
        standardized = (filled - complete)[missing] / std[missing]
        scaled = (filled - complete) / complete.std(axis=0)
        return np.sqrt(np.mean(scaled[missing] ** 2)), np.mean(np.abs(standardized) < 1.645)

    exact, _ = error()
    integrate(monkeypatch)
    integrated, coverage = error()
    assert integrated < 1.02 * exact
    assert 0.85 < coverage < 0.96


@pytest.mark.parametrize("robust", [True, "row"])
def test_weights_are_those_of_the_model_with_states(rng, monkeypatch, robust):
    _, x = series(rng, 150, 8)
    x[::29] += 4.0 * rng.standard_normal(x[::29].shape)
    model = ProbabilisticSFA(n_components=2, noise="ar1", robust=robust, tol=5.0).fit(x)

    def results():
        drawn = model.sample_posterior(x, 20, of="values", random_state=0)
        filled, std = model.impute(x, return_std=True)
        posterior = model.posterior(x)
        return {
            "factors": posterior.means,
            "filled": filled,
            "contributions": model.contributions(x),
            "forecast": model.forecast(x, 3).means,
        }, {
            "std": std[np.isnan(x)],
            "outliers": model.outlier_scores(x)[~np.isnan(x)],
            "drawn std": drawn.std(axis=0)[np.isnan(x)],
            "log-likelihood": posterior.row_log_likelihoods.sum(),
        }

    exact, exact_spread = results()
    value = model.log_likelihood(x)
    integrate(monkeypatch)
    integrated, estimated = results()
    for name, expected in exact.items():
        np.testing.assert_allclose(integrated[name], expected, atol=0.1, err_msg=name)
        assert np.sqrt(np.mean((integrated[name] - expected) ** 2)) < 0.01, name
    for name, expected in exact_spread.items():
        assert np.mean(estimated[name]) == pytest.approx(np.mean(expected), rel=0.05), name
    assert model.log_likelihood(x) == pytest.approx(value, abs=10.0)


@pytest.mark.parametrize("robust", [True, "row"])
def test_a_robust_fit_is_as_good_as_that_with_states(rng, monkeypatch, robust):
    complete, x = series(rng, 150, 8)
    missing = np.isnan(x)
    x[::29] += 4.0 * rng.standard_normal(x[::29].shape)

    def fitted():
        model = ProbabilisticSFA(n_components=2, noise="ar1", robust=robust).fit(x)
        filled, std = model.impute(x, return_std=True)
        scaled = (filled - complete) / complete.std(axis=0)
        coverage = np.mean(np.abs(filled - complete)[missing] < 1.645 * std[missing])
        return model, np.sqrt(np.mean(scaled[missing] ** 2)), coverage

    model, exact, exact_coverage = fitted()
    integrate(monkeypatch)
    estimated, integrated, coverage = fitted()
    assert "estimate" in estimated.status_ and "estimate" not in model.status_
    assert integrated < 1.02 * exact
    assert coverage == pytest.approx(exact_coverage, abs=0.03) and coverage > 0.85
    assert np.log(estimated.degrees_of_freedom_ / model.degrees_of_freedom_) == pytest.approx(0.0, abs=0.25)
    assert estimated.log_likelihood_ > model.log_likelihood_ - 15.0


def test_status_and_history_of_a_fit(rng, monkeypatch):
    _, x = series(rng, 150, 6)
    x[:, 5] = 3.0
    integrate(monkeypatch)
    model = ProbabilisticSFA(n_components=1, noise="ar1").fit([x[:100], x[100:]])
    assert "log-likelihood is an estimate" in model.status_
    assert np.all(np.diff(model.history_) >= 0.0)
    assert model.history_[-1] == pytest.approx(model.log_likelihood_)
    assert model.noise_scale_[5] == 0.0
    np.testing.assert_array_equal(model.impute([x])[0][:, 5], 3.0)
    again = ProbabilisticSFA(n_components=1, noise="ar1", init=model).fit([x[:100], x[100:]])
    assert again.log_likelihood_ > model.log_likelihood_ - 2.0


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_options_that_require_states_are_fitted_with_states(rng, monkeypatch):
    _, x = series(rng, 120, 5)
    integrate(monkeypatch)
    for options in ({"rhythms": 1}, {"fixed": {"decays": [0.9, np.nan]}}):
        model = ProbabilisticSFA(n_components=2, noise="ar1", max_iter=5, tol=50.0, **options).fit(x)
        assert "estimate" not in model.status_


def test_sizes_of_which_noise_is_integrated_out():
    assert not integrates_ar1_noise(1_000, 4, 40)
    assert integrates_ar1_noise(1_000, 16, 50)
    assert integrates_ar1_noise(3_000, 4, 90)
    assert integrates_ar1_noise(10, 4, 300)
    # States are cheaper than a system of very many factors and few columns.
    assert not integrates_ar1_noise(1_000_000, 30, 2)


def test_a_wide_fit_loads_no_jax():
    program = (
        "import sys, numpy as np, probsfa\n"
        "x = np.random.default_rng(0).standard_normal((60, 170)).cumsum(axis=0)\n"
        "x[5:9, :20] = np.nan\n"
        "model = probsfa.ProbabilisticSFA(n_components=1, noise='ar1').fit(x)\n"
        "probsfa.ProbabilisticSFA(n_components=0, noise='ar1').fit(x).impute(x, return_std=True)\n"
        "model.impute(x, return_std=True), model.transform(x), model.score(x), model.forecast(x, 2)\n"
        "assert 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True)
