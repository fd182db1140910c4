"""The Bayesian information criterion, in all comparisons of models."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA, select_model
from probsfa.datasets import make_slow_mixture
from probsfa.statespace.fitted_model import bayesian_criterion


def test_the_criterion_is_its_definition():
    assert bayesian_criterion(-100.0, 7, 50) == pytest.approx(200.0 + 7 * np.log(50.0), rel=1e-14)
    # A log-likelihood of half of the rows is extrapolated to all rows.
    assert bayesian_criterion(-50.0, 7, 50, share=0.5) == bayesian_criterion(-100.0, 7, 50)


@pytest.fixture(scope="module")
def data():
    return make_slow_mixture(120, 3, decay=[0.95], noise_variance=0.3, random_state=0).data


def test_all_comparisons_have_the_same_numbers_of_parameters_and_rows(data):
    """The parameters of each model, and the rows with an observed value, also if values are held out."""
    n = np.log(120.0)
    chosen = select_model(data, [{"n_components": 1}, {"n_components": 2}])
    for k in (1, 2):
        model = ProbabilisticSFA(k).fit(data)
        size = k + 3 * k + 3 + 3
        assert model.bic(data) == pytest.approx(size * n - 2.0 * model.log_likelihood_, rel=1e-9)
        rows = chosen.table[chosen.table.n_components == k]
        log_likelihoods = -0.5 * (rows.bic.to_numpy() - size * n)
        # Fits of the search to all values end before they converge.
        assert np.all(model.log_likelihood_ + 0.01 > log_likelihoods)
        assert np.all(log_likelihoods > 1.01 * model.log_likelihood_)


def test_bounds_of_robust_models_are_not_compared_with_likelihoods(data):
    """Scores of held-out values alone select robust noise; without outliers they are about equal."""
    candidates = [{"n_components": 1}, {"n_components": 1, "robust": True}]
    selection = select_model(data, candidates)
    assert selection.options == {"n_components": 1}
    # With the seed of the held-out values, the outliers would be held out.
    with_outliers = data + np.where(np.random.default_rng(1).random(data.shape) < 0.05, 20.0, 0.0)
    again = select_model(with_outliers, candidates)
    assert again.options == candidates[1]
    score = again.table[again.table["round"] == 1].set_index("model").score
    assert score["1 factor, robust=True"] < 0.99 * score["1 factor"]
