"""Imputation compared with linear interpolation, and its warning."""

import numpy as np
import pytest

from probsfa import BayesianSFA, ProbabilisticSFA
from probsfa.bayes.predictive import interpolation_check


@pytest.fixture(scope="module")
def walks():
    """Random walks with a missing block, which linear interpolation imputes better than one factor."""
    x = np.random.default_rng(0).standard_normal((80, 3)).cumsum(axis=0)
    x[50:60, 2] = np.nan
    return x


@pytest.fixture(scope="module")
def fitted(walks):
    model = BayesianSFA(1, inference="svi", n_draws=500, verbose=False, random_state=0)
    return model.fit(walks)


@pytest.mark.filterwarnings("ignore")
def test_the_comparison_is_close_to_that_of_maximum_likelihood(walks, fitted):
    comparison = interpolation_check(fitted.fitted_, fitted.fitted_.sequences)
    single = ProbabilisticSFA(1, tol=1.0).fit(walks)
    wanted = single._model.impute(fitted.fitted_.sequences).interpolation_check
    assert comparison.interpolation == wanted.interpolation and comparison.n_values == wanted.n_values
    assert comparison.model == pytest.approx(wanted.model, rel=0.05)


def test_impute_warns_if_the_model_is_no_better_than_interpolation(walks, fitted):
    with pytest.warns(UserWarning, match="interpolation"):
        fitted.impute(walks)


@pytest.mark.filterwarnings("error")
def test_without_missing_values_nothing_is_compared(walks, fitted):
    assert (
        interpolation_check(fitted.fitted_, fitted.fitted_.sequences.segments_as_sequences([slice(0, 40)]))
        is None
    )
    fitted.impute(walks[:40])
