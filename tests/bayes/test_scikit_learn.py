"""scikit-learn's checks of estimators, except two that do not apply to time series."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from probsfa import BayesianSFA

# The quick tests run these checks on ProbabilisticSFA, which has the same input validation.
pytestmark = pytest.mark.exhaustive

EXPECTED = {
    "check_methods_subset_invariance": "rows are a time series: results of a part differ",
    "check_methods_sample_order_invariance": "rows are a time series: results depend on their order",
    "check_do_not_raise_errors_in_init_or_set_params": "unsupported arguments raise errors",
}
# These checks test input validation only, with several shapes that must be compiled.
INPUT_VALIDATION = ("check_dtype_object", "check_positive_only_tag_during_fit")

# The checks do not depend on the numbers of steps and draws.
FEW = {"inference": "svi", "n_steps_svi": 3, "n_draws": 5, "n_chains": 2, "n_predictive": 3}


@parametrize_with_checks(
    [BayesianSFA(n_components=1, verbose=False, random_state=0, **FEW)],
    expected_failed_checks=lambda estimator: EXPECTED,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few draws
def test_scikit_learn_contract(estimator, check):
    if check.func.__name__ in INPUT_VALIDATION:
        pytest.skip("input validation is that of ProbabilisticSFA, on which all checks are run")
    check(estimator)
