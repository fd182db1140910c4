"""Filter of non-Gaussian values: exact cases, continuation, and residuals of correct models."""

import numpy as np
import pytest
from scipy import stats

from probsfa import EmissionSFA, ProbabilisticSFA
from probsfa.extensions.emissions.filtering import filter_observations
from probsfa.extensions.emissions.sites import engine_params, infer
from probsfa.statespace.engine.dynamics import transition_table
from tests.extensions.emissions.support import draw, observations_of, parameters, shape_of


def test_filter_of_gaussian_columns_agrees_with_probabilistic_sfa():
    linear = ProbabilisticSFA.from_parameters([0.95, 0.6], [[1, 0.5], [0.5, -1], [2, 0]], 0.3)
    X = 50.0 + 3.0 * linear.sample(80, random_state=0)[0]
    X[30:40, 0] = np.nan
    X[50] = np.nan
    model = EmissionSFA(2, emission="gaussian").fit(X)
    same = ProbabilisticSFA.from_parameters(
        model.decay_, model.loadings_, model.noise_variance_, model.mean_
    ).filter(X)
    ours = model.filter(X)
    np.testing.assert_allclose(ours.means, same.means, atol=1e-8)
    np.testing.assert_allclose(ours.covariances, same.covariances, atol=1e-8)
    np.testing.assert_allclose(ours.row_bounds, same.row_log_likelihoods, atol=1e-8)
    np.testing.assert_allclose(ours.predictions, same.predictions, atol=1e-7)
    np.testing.assert_allclose(ours.prediction_std, same.prediction_std, rtol=1e-8)
    np.testing.assert_allclose(ours.residuals, same.innovations, atol=1e-7)


@pytest.mark.parametrize("name", ["poisson", "bernoulli", "student_t", "quadratic"])
def test_filter_of_one_row_agrees_with_inference(name):
    params, shape = parameters(4), (shape_of(name, 4),)
    X, _ = draw(name, params, 1)
    X[0, 1] = np.nan
    packed = observations_of(name, X)
    steps = transition_table(params, packed.panel.gaps).at(packed.panel.gap_index)
    filtering, predicted_means, predicted_covariances = filter_observations(
        engine_params(params), packed, shape, steps, np.zeros(2), np.eye(2)
    )
    expected, _ = infer(params, packed, shape, tol=1e-13)
    np.testing.assert_allclose(filtering.means, expected.means, atol=1e-5)
    np.testing.assert_allclose(filtering.covariances, expected.covariances, atol=1e-5)
    assert filtering.log_likelihoods[0] == pytest.approx(expected.bound, abs=1e-8)
    np.testing.assert_allclose(predicted_means, 0.0, atol=1e-12)
    np.testing.assert_allclose(predicted_covariances[0], np.eye(2), atol=1e-12)


@pytest.fixture(scope="module")
def counts():
    loadings = np.array([[0.8], [-0.6], [0.7], [0.5]])
    X, factors = draw("negative_binomial", parameters(4, (0.95,)).replace(loadings=loadings), 400)
    X[100:110] = np.nan
    return X, factors, EmissionSFA(1, emission="negative_binomial").fit(X)


def test_filter_can_be_continued(counts):
    X, _, model = counts
    expected = model.filter(X)
    first = model.filter(X[:150])
    continued = model.filter(X[150:], first.state)
    np.testing.assert_allclose(np.concatenate([first.means, continued.means]), expected.means, atol=1e-10)
    np.testing.assert_allclose(continued.row_bounds, expected.row_bounds[150:], atol=1e-10)
    several = model.filter([X[:150], X[150:]])
    np.testing.assert_allclose(several[1].means, model.filter(X[150:]).means, atol=1e-10)
    with pytest.raises(ValueError, match="state continues one sequence"):
        model.filter([X[:150], X[150:]], first.state)


def test_filter_uses_no_later_rows_and_ends_near_the_posterior(counts):
    X, _, model = counts
    result = model.filter(X)
    changed = X.copy()
    changed[200:] = 0.0
    np.testing.assert_array_equal(model.filter(changed).means[:200], result.means[:200])
    posterior = model.posterior(X)
    last = np.abs(result.means[-1] - posterior.means[-1]) / posterior.std[-1]
    assert last[0] < 0.2
    assert abs(result.row_bounds.sum() - model.lower_bound(X)) < 0.02 * len(X)
    assert np.all(result.covariances[:, 0, 0] > posterior.covariances[:, 0, 0] - 0.02)
    assert np.all(result.row_bounds[100:110] == 0.0) and np.all(np.isnan(result.residuals[100:110]))


def test_residuals_of_a_correct_model_are_standard_normal(counts):
    X, _, model = counts
    residuals = model.filter(X).residuals
    for column in residuals.T:
        column = column[~np.isnan(column)]
        assert stats.kstest(column, "norm").pvalue > 1e-3
        assert abs(np.corrcoef(column[1:], column[:-1])[0, 1]) < 4 / np.sqrt(len(column))
    # The counts vary more than Poisson counts, so that residuals of the Poisson model are too large.
    wrong = EmissionSFA(1, emission="poisson").fit(X).filter(X).residuals
    assert np.nanstd(wrong) > 1.06 > np.nanstd(residuals) > 0.9
