"""Columns that are constant in the fit: likelihoods exclude them; a warning reports if they vary later."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.datasets import make_slow_mixture

OPTIONS = [{}, {"noise": "ar1"}, {"robust": True}]


@pytest.fixture(scope="module")
def X():
    """Rows of columns that vary."""
    return make_slow_mixture(120, 4, decay=[0.97, 0.6], noise_variance=0.3, random_state=0).data


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_likelihood_and_bic_are_those_without_the_column(X, options):
    """The same fit, the same log-likelihood and the same criterion."""
    with_it = np.column_stack([X, np.full(len(X), 7.0)])
    alone, both = ProbabilisticSFA(2, **options).fit(X), ProbabilisticSFA(2, **options).fit(with_it)
    assert both.log_likelihood_ == pytest.approx(alone.log_likelihood_, abs=0.1)
    assert both.score(with_it) == pytest.approx(both.log_likelihood_ / len(X), rel=1e-9)
    assert both.bic(with_it) == pytest.approx(alone.bic(X), abs=0.2)
    assert both.posterior(with_it).log_likelihood == pytest.approx(both.log_likelihood_, rel=1e-9)
    if "robust" not in options:  # the filter of a robust model has another bound than its fit
        log_likelihood = both.filter(with_it).row_log_likelihoods.sum()
        assert log_likelihood == pytest.approx(both.log_likelihood_, rel=1e-9)


def test_a_column_that_varies_later_is_reported_and_left_out(X):
    """The score does not change, although the variance of the column was not estimated."""
    both = np.column_stack([X, np.full(len(X), 7.0)])
    model = ProbabilisticSFA(2).fit(both)
    changed = both.copy()
    changed[50, 4] = 8.0
    with pytest.warns(UserWarning, match="column 4"):
        score = model.score(changed)
    assert score == pytest.approx(model.score(both), rel=1e-9)


@pytest.mark.parametrize("options", [*OPTIONS, {"n_components": None}], ids=str)
def test_one_value_has_no_standard_deviation(X, options):
    """A column observed once is predicted by its value, with an infinite standard deviation."""
    once = np.column_stack([X, np.full(len(X), np.nan)])
    once[3, 4] = 7.0
    model = ProbabilisticSFA(**{"n_components": 2, **options}).fit(once)
    filled, std = model.impute(once, return_std=True)
    assert np.all(filled[:, 4] == 7.0) and std[3, 4] == 0.0 and np.all(np.isinf(np.delete(std[:, 4], 3)))
    assert np.isinf(model.forecast(once, 2).std[:, 4]).all()
    assert np.all(model.impute(once, quantile=0.5)[:, 4] == 7.0)
    low, high = model.impute(once, quantile=[0.05, 0.95])
    assert low[0, 4] == -np.inf and high[0, 4] == np.inf
