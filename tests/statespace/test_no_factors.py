"""Models without shared factors: independent white noise, and AR(1) noise of each column alone."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t, norm, t

import probsfa
from probsfa import ProbabilisticSFA
from probsfa._validation import Sequences
from probsfa.statespace.engine import stateless
from probsfa.statespace.engine.posterior import leave_one_out_distributions
from probsfa.statespace.panel import make_panel


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    values = 3.0 + np.array([1.0, 2.0, 0.5]) * rng.standard_normal((200, 3))
    values[rng.random(values.shape) < 0.1] = np.nan
    return values


def test_white_noise_is_fitted_by_means_and_variances(X):
    model = ProbabilisticSFA(0, noise="diagonal").fit(X)
    columns = [column[~np.isnan(column)] for column in X.T]
    expected = sum(norm(c.mean(), c.std()).logpdf(c).sum() for c in columns)
    assert model.log_likelihood_ == pytest.approx(expected, abs=1e-6)
    np.testing.assert_allclose(model.mean_, [c.mean() for c in columns], atol=1e-4)
    np.testing.assert_allclose(model.noise_variance_, [c.var() for c in columns], rtol=1e-3)
    filled, std = model.impute(X, return_std=True)
    hidden = np.isnan(X)
    np.testing.assert_allclose(filled[hidden], np.broadcast_to(model.mean_, X.shape)[hidden])
    np.testing.assert_allclose(std[hidden] ** 2, np.broadcast_to(model.noise_variance_, X.shape)[hidden])


def test_a_value_left_out_has_the_mean_and_the_variance_of_its_column(X):
    model = ProbabilisticSFA(0, noise="diagonal").fit(X)
    means, variances = leave_one_out_distributions(model.params_, make_panel(Sequences(X, (200,))))
    observed = ~np.isnan(X)
    np.testing.assert_allclose(means[observed], np.broadcast_to(model.params_.offset, X.shape)[observed])
    np.testing.assert_allclose(
        variances[observed], np.broadcast_to(model.params_.noise_variance, X.shape)[observed]
    )


def test_ar1_noise_alone_has_the_likelihood_of_independent_columns(X):
    rng = np.random.default_rng(1)
    walk = np.zeros(200)
    for i in range(1, 200):
        walk[i] = 0.9 * walk[i - 1] + rng.standard_normal()
    data = np.column_stack([X[:, 0], walk + 0.3 * rng.standard_normal(200)])
    model = ProbabilisticSFA(0, noise="ar1").fit(data)
    lags = np.abs(np.subtract.outer(np.arange(200), np.arange(200)))
    expected = 0.0
    for d, column in enumerate(data.T):
        observed = ~np.isnan(column)
        covariance = model.noise_scale_[d] ** 2 * model.noise_decay_[d] ** lags
        covariance += model.noise_variance_[d] * np.eye(200)
        density = multivariate_normal(
            np.full(observed.sum(), model.mean_[d]), covariance[np.ix_(observed, observed)]
        )
        expected += density.logpdf(column[observed])
    assert model.log_likelihood_ == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("noise", ["diagonal", "isotropic", "ar1"])
def test_every_method_supports_zero_factors(X, noise, tmp_path):
    model = ProbabilisticSFA(0, noise=noise).fit(X)
    assert model.transform(X).shape == (200, 0)
    found = model.posterior(X)
    assert found.means.shape == (200, 0) and found.row_log_likelihoods.shape == (200,)
    assert model.forecast(X, 3).means.shape == (3, 3)
    assert model.filter(X).means.shape == (200, 0)
    assert model.sample(5, random_state=0)[0].shape == (5, 3)
    assert model.sample_posterior(X, 2).shape == (2, 200, 0)
    assert np.isfinite(model.standard_errors(X).noise_variance).all()
    assert model.diagnose(X) is not None
    assert "noise" in str(model.summary())
    path = tmp_path / "model.npz"
    model.save(path)
    assert probsfa.load(path).log_likelihood(X) == pytest.approx(model.log_likelihood_, abs=1e-9)


def test_a_stream_is_fitted_like_an_array(X):
    in_memory = ProbabilisticSFA(0, noise="diagonal").fit(X)
    streamed = ProbabilisticSFA(0, noise="diagonal").fit_stream(X)
    assert streamed.log_likelihood_ == pytest.approx(in_memory.log_likelihood_, abs=1e-6)


@pytest.mark.parametrize("robust", ["cell", "row"])
def test_student_t_noise_alone_has_its_density(robust):
    """Without factors, the posterior of the weights is exact, and the lower bound is the log-likelihood."""
    rng = np.random.default_rng(2)
    X = rng.standard_t(4, (200, 3))
    X[rng.random(X.shape) < 0.1] = np.nan
    model = ProbabilisticSFA(0, noise="diagonal", robust=robust).fit(X)
    degrees, scale = model.degrees_of_freedom_, model.noise_variance_
    expected = np.zeros(200)
    for row, values in enumerate(X):
        observed = ~np.isnan(values)
        if robust == "cell":
            z = (values[observed] - model.mean_[observed]) / np.sqrt(scale[observed])
            expected[row] = np.sum(t.logpdf(z, degrees) - 0.5 * np.log(scale[observed]))
        elif observed.any():
            shape = np.diag(scale[observed])
            expected[row] = multivariate_t.logpdf(values[observed], model.mean_[observed], shape, df=degrees)
    np.testing.assert_allclose(model.filter(X).row_log_likelihoods, expected, atol=1e-9)
    np.testing.assert_allclose(model.log_likelihood_, expected.sum(), atol=1e-8)
    assert degrees < 20.0


def test_rows_in_several_parts_have_the_density_of_all(X, monkeypatch):
    monkeypatch.setattr(stateless, "cache_sized_parts", lambda n: (slice(i, i + 7) for i in range(0, n, 7)))
    model = ProbabilisticSFA(0, noise="diagonal", noise_prior=None).fit(X)
    expected = np.nansum(norm.logpdf(X, model.mean_, np.sqrt(model.noise_variance_)), axis=1)
    np.testing.assert_allclose(model.posterior(X).row_log_likelihoods, expected, rtol=1e-10)
    np.testing.assert_allclose(model.mean_, np.nanmean(X, axis=0), rtol=1e-10)
    np.testing.assert_allclose(model.noise_variance_, np.nanvar(X, axis=0), rtol=1e-10)
