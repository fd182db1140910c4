"""BayesianSFA keeps scikit-learn's contract, as far as a model of time series can."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from probsfa import BayesianSFA

# The quick set runs these checks on ProbabilisticSFA, by the same border.
pytestmark = pytest.mark.exhaustive

EXPECTED = {
    "check_methods_subset_invariance": "rows are a time series: a part of it is inferred from less",
    "check_methods_sample_order_invariance": "rows are a time series: their order is what is modelled",
}
# They look at how data are read, once for each shape that has to be compiled.
OF_THE_BORDER = ("check_dtype_object", "check_positive_only_tag_during_fit")

# What the contract asks does not depend on how many steps and draws there are.
FEW = {"inference": "svi", "n_steps_svi": 3, "n_draws": 5, "n_chains": 2, "n_predictive": 3}


@parametrize_with_checks(
    [BayesianSFA(n_components=1, verbose=False, random_state=0, **FEW)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_scikit_learn_contract(estimator, check):
    if check.func.__name__ in OF_THE_BORDER:
        pytest.skip("data are read as by ProbabilisticSFA, of which all checks are run")
    check(estimator)
