"""Imputation without noise: the posterior of the square model given the observed values of all rows."""

import numpy as np
import pytest

import probsfa
from probsfa import ProbabilisticSFA
from probsfa.datasets import hide_values
from probsfa.statespace.learning.maximum_likelihood import MaximumLikelihood
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.tolerances import EXACT


def fitted_mixture(rng, n_features=3, n_rows=30, n_components=2):
    decay = np.array([0.97, 0.8, 0.3, -0.4])[:n_features]
    loadings = rng.standard_normal((n_features, n_features))
    truth = oracle.Model(decay, loadings, np.zeros(n_features), rng.standard_normal(n_features))
    X = oracle.simulate(rng, truth, [n_rows])[0]
    return X, ProbabilisticSFA(n_components, noise=0.0).fit(X)


def square(model):
    """Return the square model as a model of the oracle."""
    fitted = model._model.square
    return oracle.Model(fitted.decay, fitted.loadings, np.zeros(len(fitted.mean)), fitted.mean)


def with_missing(X, rng, pattern):
    X = X.copy()
    if pattern == "scattered":
        X[hide_values(X, 0.3, random_state=rng)] = np.nan
    elif pattern == "rows":
        X[5:9], X[0], X[-2:] = np.nan, np.nan, np.nan
    elif pattern == "column":
        X[4:20, 1] = np.nan
    elif pattern == "all but one value":
        value = X[3, 1]
        X[:] = np.nan
        X[3, 1] = value
    return X


@parametrize("n_features", [3, 1, 4])
@pytest.mark.parametrize("pattern", ["scattered", "rows", "column", "all but one value"])
def test_imputation_equals_the_joint_distribution_of_the_values(rng, pattern, n_features):
    X, model = fitted_mixture(rng, n_features, n_components=min(2, n_features))
    if n_features == 1 and pattern in ("column", "all but one value"):
        pattern = "rows"
    incomplete = with_missing(X, rng, pattern)
    expected, expected_std = oracle.complete_entries(square(model), [incomplete])
    filled, std = model.impute(incomplete, return_std=True)
    np.testing.assert_allclose(filled, expected, atol=1e-8)
    np.testing.assert_allclose(std, expected_std, atol=1e-7)
    np.testing.assert_array_equal(filled[~np.isnan(incomplete)], incomplete[~np.isnan(incomplete)])


def test_factors_and_log_likelihood_are_those_of_the_joint_distribution(rng):
    X, model = fitted_mixture(rng)
    incomplete = [with_missing(X[:12], rng, "scattered"), with_missing(X[12:], rng, "rows")]
    limit = square(model)._replace(noise=np.full(3, 1e-20))  # the oracle has decimal numbers
    expected = oracle.exact_posterior(limit, incomplete)
    posterior = model._model._posterior(model._check(incomplete, None, None))
    np.testing.assert_allclose(posterior.means, expected.means, atol=1e-7)
    np.testing.assert_allclose(posterior.covariances, expected.covariances, atol=1e-7)
    inside = np.delete(np.arange(29), 11)
    np.testing.assert_allclose(posterior.lag_one_covariances[inside], expected.lag_one[inside], atol=1e-7)
    assert model.log_likelihood(incomplete) == pytest.approx(expected.log_likelihood, abs=1e-6)


@parametrize("noise", [1e-9, 1e-7])
def test_imputation_with_little_noise_converges_to_the_limit(rng, noise):
    X, model = fitted_mixture(rng)
    incomplete = with_missing(X, rng, "scattered")
    params = model._model.square.parameters(3).replace(noise_variance=np.full(3, noise))
    fitted = MaximumLikelihood(
        params, np.zeros(3), np.ones(3), 1.0, 0.0, np.zeros(1), 0, True, "", FitOptions(3, noise=noise)
    )
    filled = LinearGaussianModel(fitted).impute(model._check(incomplete, None, None))
    limit, limit_std = model.impute(incomplete, return_std=True)
    np.testing.assert_allclose(filled.values, limit, atol=100 * np.sqrt(noise))
    np.testing.assert_allclose(filled.std, limit_std, atol=100 * np.sqrt(noise))


def test_a_value_that_others_determine_has_no_uncertainty(rng):
    """With three columns and two factors, two values of a row determine the third."""
    X, _ = fitted_mixture(rng, 2)
    X = np.column_stack([X, X @ [1.0, -2.0]])
    model = ProbabilisticSFA(2, noise=0.0).fit(X)
    incomplete = X.copy()
    incomplete[4, 0] = incomplete[9, 2] = np.nan
    incomplete[15, 0:2] = np.nan
    filled, std = model.impute(incomplete, return_std=True)
    np.testing.assert_allclose(filled[[4, 9]], X[[4, 9]], atol=1e-8)
    np.testing.assert_allclose(std[[4, 9]], 0.0, atol=1e-7)
    assert (std[15, :2] > 1e-3).all()
    np.testing.assert_allclose(filled[15] @ [1.0, -2.0, -1.0], 0.0, atol=1e-8)


def test_units_of_the_columns_do_not_matter(rng):
    X, model = fitted_mixture(rng)
    units = np.array([1e-8, 1.0, 1e8])
    incomplete = with_missing(X, rng, "scattered")
    scaled = ProbabilisticSFA(2, noise=0.0).fit(X * units)
    for one, other in zip(
        model.impute(incomplete, return_std=True),
        scaled.impute(incomplete * units, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(other / units, one, atol=1e-6)


def test_complete_rows_determine_their_factors(rng):
    X, model = fitted_mixture(rng)
    incomplete = with_missing(X, rng, "column")
    np.testing.assert_allclose(model.posterior(incomplete).means[20:], model.transform(X)[20:], atol=EXACT)
    with pytest.raises(ValueError, match=r"NaN.*row 4.*noise=0.0.*complete rows.*impute"):
        model.transform(incomplete)  # factors of slow feature analysis require complete rows
    np.testing.assert_array_equal(model.posterior(incomplete).covariances[20:], 0.0)
    assert (model.posterior(incomplete).std[5:15] > 0).all()


def test_draws_have_the_moments_of_the_posterior(rng):
    X, model = fitted_mixture(rng)
    incomplete = with_missing(X, rng, "rows")
    drawn = model.sample_posterior(incomplete, 4000, random_state=0)
    posterior = model.posterior(incomplete)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.means, atol=0.1)
    np.testing.assert_allclose(drawn.std(axis=0), posterior.std, atol=0.1)
    step = drawn - drawn.mean(axis=0)
    lag_one = np.mean(step[:, 6, :, None] * step[:, 5, None, :], axis=0)
    np.testing.assert_allclose(lag_one, posterior.lag_one_covariances[5], atol=0.1)


def test_forecasts_after_an_empty_row_continue_those_before_it(rng):
    X, model = fitted_mixture(rng)
    incomplete = X.copy()
    incomplete[-1] = np.nan
    forecast = model.forecast(X[:-1], 4)
    later = model.forecast(incomplete, 3)
    np.testing.assert_allclose(later.means, forecast.means[1:], atol=1e-9)
    np.testing.assert_allclose(later.std, forecast.std[1:], atol=1e-9)


def test_training_rows_must_be_complete_and_a_saved_limit_imputes(rng, tmp_path):
    X, model = fitted_mixture(rng)
    incomplete = with_missing(X, rng, "scattered")
    with pytest.raises(ValueError, match="X.*NaN"):
        ProbabilisticSFA(2, noise=0.0).fit(incomplete)
    model.save(tmp_path / "limit.npz")
    np.testing.assert_array_equal(
        probsfa.load(tmp_path / "limit.npz").impute(incomplete), model.impute(incomplete)
    )


def test_a_drift_is_imputed_in_the_presence_of_others(rng):
    X = np.column_stack([np.arange(60.0), fitted_mixture(rng, 2, 60)[0]])
    model = ProbabilisticSFA(2, noise=0.0).fit(X)
    filled, std = model.impute(with_missing(X, rng, "scattered"), return_std=True)
    assert np.isfinite(filled).all() and np.isfinite(std).all()
