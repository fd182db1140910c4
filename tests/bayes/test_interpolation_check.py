"""Filling beside straight lines: the same comparison as of one set of parameters, and its warning."""

import numpy as np
import pytest

from probsfa import BayesianSFA, ProbabilisticSFA
from probsfa.bayes.predictive import interpolation_check


@pytest.fixture(scope="module")
def walks():
    """Walks with a gap, which straight lines fill better than one latent, of the shape of `frame`."""
    x = np.random.default_rng(0).standard_normal((80, 3)).cumsum(axis=0)
    x[50:60, 2] = np.nan
    return x


@pytest.fixture(scope="module")
def fitted(walks):
    model = BayesianSFA(1, inference="svi", n_draws=500, verbose=False, random_state=0)
    return model.fit(walks)


@pytest.mark.filterwarnings("ignore")
def test_it_is_the_comparison_of_the_maximum_where_draws_lie_close(walks, fitted):
    comparison = interpolation_check(fitted.fitted_, fitted.fitted_.sequences)
    single = ProbabilisticSFA(1, tol=1.0).fit(walks)
    wanted = single._model.impute(fitted.fitted_.sequences).interpolation_check
    assert comparison.interpolation == wanted.interpolation and comparison.n_values == wanted.n_values
    assert comparison.model == pytest.approx(wanted.model, rel=0.05)


def test_impute_warns_of_a_model_that_is_no_better_than_straight_lines(walks, fitted):
    with pytest.warns(UserWarning, match="interpolation"):
        fitted.impute(walks)


@pytest.mark.filterwarnings("error")
def test_nothing_is_compared_where_nothing_is_missing(walks, fitted):
    assert (
        interpolation_check(fitted.fitted_, fitted.fitted_.sequences.segments_as_sequences([slice(0, 40)]))
        is None
    )
    fitted.impute(walks[:40])
