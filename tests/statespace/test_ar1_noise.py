"""Results of models with AR(1) noise are those of the joint Gaussian density of all values."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import probsfa
from probsfa import ProbabilisticSFA
from probsfa.statespace import make_parameters
from probsfa.statespace.engine.posterior import log_likelihood, observation_moments
from probsfa.statespace.innovations import innovation_parameters
from probsfa.statespace.leave_one_out import leave_one_out_moments
from probsfa.statespace.parameters import canonical, rescale
from tests.oracles import ar1_noise as oracle
from tests.statespace.engine.test_ar1_noise_states import make_data, make_model
from tests.statespace.support import scaled_error

EXACT = 1e-9
N_ROWS, N_COLUMNS = 30, 2


@pytest.fixture(scope="module")
def case():
    """A model, its parameters, rows with missing values, and their times for the oracle."""
    rng = np.random.default_rng(5)
    params = make_model(rng, 2).replace(noise_scale=np.array([0.9, 0.6]))
    params = canonical(params, np.ones(N_COLUMNS))
    data, times, _ = make_data(rng, params, even=True, lengths=[N_ROWS])
    return ProbabilisticSFA.from_parameters(**params.to_arrays()), params, data, times


def flat(rows, column):
    """Return the flat indices of values."""
    return np.asarray(rows) * N_COLUMNS + column


def test_attributes_describe_the_noise(case):
    model, params, _, _ = case
    assert model.noise == "ar1" and model.loadings_.shape == (2, 2)
    np.testing.assert_array_equal(model.noise_decay_, params.noise_decay)
    np.testing.assert_allclose(model.noise_timescales_, -1.0 / np.log(params.noise_decay))
    np.testing.assert_array_equal(model.noise_scale_, params.noise_scale)
    with pytest.warns(FutureWarning, match="memory_scale_ is now noise_scale_"):
        np.testing.assert_array_equal(model.memory_scale_, model.noise_scale_)
    variance = np.diag(oracle.value_covariance(params, [np.zeros(1)]))
    np.testing.assert_allclose(model.noise_share_, params.noise_scale**2 / variance)
    arrays = params.to_arrays()
    old_names = {f"memory_{name}": arrays.pop(f"noise_{name}") for name in ("decay", "scale")}
    with pytest.warns(FutureWarning, match=r"memory_(\w+) is now noise_\1;.*version 2.0"):
        same = ProbabilisticSFA.from_parameters(**arrays, **old_names)
    np.testing.assert_array_equal(same.noise_decay_, model.noise_decay_)
    white = ProbabilisticSFA.from_parameters([0.9], [[1.0]], 0.1)
    assert not hasattr(white, "noise_decay_") and not white.params_.has_ar1_noise


def test_factors_exclude_the_ar1_noise(case):
    model, params, data, times = case
    mean, covariance = oracle.posterior_of_factors(params, data, times)
    posterior = model.posterior(data[0])
    assert scaled_error(model.transform(data[0]), mean) < EXACT
    assert scaled_error(posterior.covariances, [covariance[t, :, t] for t in range(N_ROWS)]) < EXACT
    assert model.get_feature_names_out().shape == (2,)
    draws = model.sample_posterior(data[0], 3, random_state=0)
    assert draws.shape == (3, N_ROWS, 2)


def test_imputation_uses_the_ar1_noise(case):
    model, params, data, times = case
    filled, std = model.impute(data[0], return_std=True)
    missing = np.flatnonzero(np.isnan(data[0]).ravel())
    mean, covariance = oracle.conditional_moments(params, data, times, missing)
    assert scaled_error(filled.ravel()[missing], mean) < EXACT
    assert scaled_error(std.ravel()[missing] ** 2, np.diag(covariance)) < EXACT


def test_contributions_include_the_ar1_noise(case):
    model, params, data, _ = case
    parts = model.contributions(data[0])
    assert parts.shape == (N_ROWS, N_COLUMNS, 3)
    np.testing.assert_allclose(parts[:, :, :2], model.transform(data[0])[:, None] * params.loadings)
    missing = np.isnan(data[0])
    np.testing.assert_allclose((parts.sum(axis=2) + model.mean_)[missing], model.impute(data[0])[missing])


def test_forecasts_include_the_ar1_noise(case):
    model, params, data, times = case
    forecast = model.forecast(data[0], 4)
    longer = [np.vstack([data[0], np.full((4, 2), np.nan)])]
    future = N_ROWS * N_COLUMNS + np.arange(8)
    mean, covariance = oracle.conditional_moments(params, longer, [np.arange(N_ROWS + 4.0)], future)
    assert scaled_error(np.asarray(forecast.means).ravel(), mean) < EXACT
    assert scaled_error(np.asarray(forecast.std).ravel() ** 2, np.diag(covariance)) < EXACT
    assert np.asarray(forecast.latent_means).shape == (4, 2)


def test_one_step_predictions_include_the_ar1_noise(case):
    model, params, data, times = case
    result = model.filter(data[0])
    for t in (1, 13, 29):
        mean, covariance = oracle.conditional_moments(
            params, [np.vstack([data[0][:t], np.full((1, 2), np.nan)])], [times[0][: t + 1]], flat(t, [0, 1])
        )
        assert scaled_error(result.predictions[t], mean) < EXACT
        assert scaled_error(result.prediction_std[t] ** 2, np.diag(covariance)) < EXACT
    factors, _ = oracle.posterior_of_factors(params, [data[0][:14]], [times[0][:14]])
    assert scaled_error(result.means[13], factors[13]) < EXACT
    assert result.means.shape == (N_ROWS, 2) and result.std.shape == (N_ROWS, 2)
    assert result.log_likelihood == pytest.approx(oracle.log_likelihood(params, data, times), rel=EXACT)
    first = model.filter(data[0][:11])
    second = model.filter(data[0][11:], first.state)
    assert scaled_error(second.means, result.means[11:]) < EXACT
    assert scaled_error(second.predictions, result.predictions[11:]) < EXACT


def test_leave_one_out_moments_equal_the_joint_gaussian(case):
    model, params, data, times = case
    posterior = model._model._posterior(model._check(data[0], None, None))
    moments = observation_moments(params.state_space, posterior.means, posterior.covariances)
    mean, variance = leave_one_out_moments(data[0], *moments, params.noise_variance)
    for t, d in [(4, 0), (17, 1)]:
        if not np.isnan(data[0][t, d]):
            conditional_mean, covariance = oracle.conditional_moments(params, data, times, [flat(t, d)])
            assert mean[t, d] == pytest.approx(conditional_mean[0], rel=1e-7)
            assert variance[t, d] == pytest.approx(covariance[0, 0], rel=1e-7)


def test_news_of_new_values(case):
    model, _, data, _ = case
    x = data[0].copy()
    x[-1] = [np.nan, 0.7]
    news = model.news(x[:-2], x, target=(N_ROWS - 1, 0))
    before = model.forecast(x[:-2], 2).means[1, 0]
    assert news.before == pytest.approx(before, rel=1e-9)
    assert news.impacts.sum() == pytest.approx(news.after - news.before, abs=1e-9)
    assert news.after == pytest.approx(model.impute(x)[-1, 0], rel=1e-9)


def test_draws_of_values_have_the_moments_of_the_joint_gaussian(case):
    model, params, data, times = case
    missing = np.flatnonzero(np.isnan(data[0]).ravel())[:6]
    draws = model.sample_posterior(data[0], 4000, of="values", random_state=0)
    mean, covariance = oracle.conditional_moments(
        params, data, times, np.flatnonzero(np.isnan(data[0]).ravel())
    )
    drawn = draws.reshape(4000, -1)[:, missing]
    std = np.sqrt(np.diag(covariance)[:6])
    assert np.all(np.abs(drawn.mean(axis=0) - mean[:6]) < 5.0 * std / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(drawn.T), covariance[:6, :6], atol=0.15 * std.max() ** 2)


def test_samples_have_the_covariances_of_the_model(case):
    model, params, _, _ = case
    x, factors = model.sample(60_000, random_state=1)
    assert factors.shape == (60_000, 2)
    expected = oracle.value_covariance(params, [np.arange(2.0)])
    both = np.hstack([x[:-1], x[1:]])
    np.testing.assert_allclose(np.cov(both.T), expected, atol=0.06 * expected.max())


def test_diagnose_suggests_ar1_noise_only_if_the_model_lacks_it(case):
    model, params, _, _ = case
    x, _ = model.sample(800, random_state=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        right = model.diagnose(x)
    wrong = ProbabilisticSFA.from_parameters(
        params.decay, params.loadings, params.noise_variance + params.noise_scale**2
    )
    diagnostics = wrong.diagnose(x - params.offset)
    assert not any("autocorrelated" in sentence for sentence in right.advice)
    assert any("autocorrelated" in sentence and "noise='ar1'" in sentence for sentence in diagnostics.advice)
    assert np.abs(right.autocorrelation[0]).max() < 0.12 < np.abs(diagnostics.autocorrelation[0]).max()


def test_files_contain_the_ar1_noise(case, tmp_path):
    model, params, data, _ = case
    model.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    for one, other in zip(loaded.params_.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(loaded.impute(data[0]), model.impute(data[0]))
    assert loaded.noise == "ar1"


def test_streams_have_the_same_fit_as_arrays():
    model = ProbabilisticSFA.from_parameters([0.95], [[1.0], [0.7]], 0.2, noise_decay=0.5, noise_scale=0.7)
    x, _ = model.sample(200, random_state=0)
    options = {"noise": "ar1", "tol": 0.5, "max_iter": 30}
    one, other = ProbabilisticSFA(1, **options).fit(x), ProbabilisticSFA(1, **options).fit_stream(x)
    assert other.log_likelihood_ == pytest.approx(one.log_likelihood_, abs=0.05)
    errors = one.standard_errors(x)
    assert errors.noise_decay.shape == (2,) and errors.loadings.shape == (2, 1) and errors.decay.shape == (1,)
    for name in ("noise_decay", "noise_scale"):
        lower, upper = errors.interval(name)
        estimate = getattr(one.params_, name)
        assert np.all(lower < estimate) and np.all(estimate < upper)
    assert one.bic(x) == pytest.approx(-2 * one.log_likelihood_ + 11 * np.log(200), rel=1e-6)


def test_constant_columns_stay_constant():
    model = ProbabilisticSFA.from_parameters([0.95], [[1.0], [0.7]], 0.2, noise_decay=0.5, noise_scale=0.7)
    x = np.column_stack([model.sample(100, random_state=0)[0], np.full(100, 3.0)])
    x[10:20] = np.nan
    filled, std = ProbabilisticSFA(1, noise="ar1", tol=1.0).fit(x).impute(x, return_std=True)
    np.testing.assert_array_equal(filled[10:20, 2], 3.0)
    np.testing.assert_array_equal(std[10:20, 2], 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise_decay": 0.5}, "together"),
        ({"noise_decay": 1.0, "noise_scale": 1.0}, "noise_decay"),
        ({"noise_decay": 0.5, "noise_scale": -1.0}, "noise_scale"),
        ({"noise_decay": [0.5, 0.5], "noise_scale": 1.0}, "noise_decay"),
    ],
)
def test_invalid_ar1_noise_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_parameters([0.9], [[1.0]], 0.1, **arguments)


def test_options_and_parameters_must_agree():
    with pytest.raises(ValueError, match="noise='ar1', noise_decay and noise_scale"):
        ProbabilisticSFA.from_parameters([0.9], [[1.0]], 0.1, noise="ar1")
    with pytest.raises(ValueError, match="noise.*got 'ar2'"):
        ProbabilisticSFA(1, noise="ar2").fit(np.random.default_rng(0).standard_normal((20, 2)))


def test_innovation_parameters_require_white_noise():
    params = make_parameters([0.9], [[1.0]], 0.1, noise_decay=0.5, noise_scale=1.0)
    with pytest.raises(ValueError, match="params has AR"):
        innovation_parameters(params)


def test_broken_files_with_ar1_noise_are_refused(case, tmp_path):
    model = case[0]
    broken = ProbabilisticSFA.from_parameters(**model.params_.to_arrays())
    for name, value, message in [
        ("noise_decay", np.array([0.5, 1.5]), "noise_decay"),
        ("noise_scale", np.array([0.5, -0.5]), "noise_scale"),
        ("noise_scale", np.array([0.5]), "arrays"),
    ]:
        params = model.params_.replace(**{name: value})
        broken._set_fitted_attributes(type(model._model)(replace(model._model.fitted, params=params)))
        broken.save(tmp_path / "broken.npz")
        with pytest.raises(ValueError, match=message):
            probsfa.load(tmp_path / "broken.npz")


def test_the_state_space_form_can_be_inverted(rng):
    params = make_model(rng, 2, rhythm=True)
    back = params.state_space.without_ar1_noise_states()
    for one, other in zip(back.to_arrays().values(), params.to_arrays().values(), strict=True):
        np.testing.assert_array_equal(one, other)
    scaled = rescale(params, np.ones(2), np.array([2.0, 3.0]))
    np.testing.assert_allclose(scaled.noise_scale, params.noise_scale * [2.0, 3.0])
    np.testing.assert_array_equal(params.shared_states, [0, 1, 4, 5])
    white = params.replace(noise_decay=np.zeros(0), noise_scale=np.zeros(0))
    assert white.state_space is white


# ------------------------------------------------------------------------------------------- statsmodels


def statespace_peer(params, x):
    """Return the model as an MLEModel of statsmodels."""
    mlemodel = pytest.importorskip("statsmodels.tsa.statespace.mlemodel", reason="of the test extra")
    decay = np.append(params.decay, params.noise_decay)
    peer = mlemodel.MLEModel(x - params.offset, k_states=len(decay), k_posdef=len(decay))
    peer["design"] = np.hstack([params.loadings, np.diag(params.noise_scale)])
    peer["obs_cov"] = np.diag(params.noise_variance)
    peer["transition"], peer["selection"] = np.diag(decay), np.eye(len(decay))
    peer["state_cov"] = np.diag(1.0 - decay**2)
    peer.ssm.initialize_stationary()
    peer.ssm.tolerance = 0
    return peer


def test_log_likelihood_equals_statsmodels(rng):
    params = make_model(rng, 2, n_features=3)
    data, _, panel = make_data(rng, params, even=True, lengths=[40])
    peer = statespace_peer(params, data[0])
    assert log_likelihood(params, panel) == pytest.approx(peer.ssm.loglike(), rel=1e-8)


def test_log_likelihood_tends_to_that_of_a_dynamic_factor_with_autoregressive_errors(rng):
    """Errors of DynamicFactor of statsmodels are AR(1) processes without white noise."""
    factors = pytest.importorskip("statsmodels.tsa.statespace.dynamic_factor", reason="of the test extra")
    params = make_model(rng, 1, n_features=3).replace(
        noise_variance=np.full(3, 1e-9), noise_scale=np.array([0.9, 0.6, 1.2]), offset=np.zeros(3)
    )
    data, _, panel = make_data(rng, params, even=True, pattern="none", lengths=[40])
    peer = factors.DynamicFactor(
        data[0], k_factors=1, factor_order=1, error_order=1, error_cov_type="diagonal"
    )
    peer.ssm.tolerance = 0
    # Innovations of factors have unit variance in DynamicFactor.
    unit = np.sqrt(1.0 - params.decay**2)
    errors = params.noise_scale**2 * (1.0 - params.noise_decay**2)
    vector = np.concatenate([(params.loadings * unit).ravel(), errors, params.decay, params.noise_decay])
    assert log_likelihood(params, panel) == pytest.approx(peer.loglike(vector), rel=1e-6)
