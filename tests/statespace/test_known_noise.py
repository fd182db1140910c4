"""Known noise variances: one for all columns, one for each column, and near zero."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import probsfa
from probsfa import BayesianSFA, ProbabilisticSFA
from probsfa.datasets import hide_values, make_slow_mixture
from tests.oracles.statespace import Model, complete_entries
from tests.sampling import parametrize
from tests.tolerances import EXACT, OPTIM

KNOWN = [0.05, 0.2, 0.4]  # a list, as a user may give it


@pytest.fixture(scope="module")
def data():
    X = np.asarray(make_slow_mixture(80, 3, decay=[0.97, 0.6], noise_variance=KNOWN, random_state=1).data)
    return np.where(hide_values(X, 0.1, random_state=0), np.nan, X)


def test_the_same_noise_in_every_column_is_one_noise_for_all(data):
    one = ProbabilisticSFA(2, noise=0.3, tol=1e-8).fit(data)
    each = ProbabilisticSFA(2, noise=np.full(3, 0.3), tol=1e-8).fit(data)
    np.testing.assert_allclose(each.log_likelihood_, one.log_likelihood_, atol=OPTIM)
    np.testing.assert_allclose(each.noise_variance_, 0.3, rtol=1e-12)
    np.testing.assert_allclose(each.impute(data), one.impute(data), atol=1e-3)


def test_known_variances_are_kept_in_the_units_of_the_data(data):
    units = np.array([1e-6, 1.0, 1e5])
    usual = ProbabilisticSFA(2, noise=KNOWN).fit(data)
    known = np.array(KNOWN) * units**2
    fitted = ProbabilisticSFA(2, noise=known).fit(data * units)
    np.testing.assert_allclose(fitted.noise_variance_, known, rtol=1e-12)
    filled, std = fitted.impute(data * units, return_std=True)
    expected, expected_std = usual.impute(data, return_std=True)
    np.testing.assert_allclose(filled / units, expected, atol=1e-5)
    np.testing.assert_allclose(std / units, expected_std, atol=1e-5)


def test_imputation_with_known_noise_equals_the_joint_gaussian(data):
    fitted = ProbabilisticSFA(1, noise=KNOWN).fit(data)
    expected = complete_entries(Model(*fitted.params_.to_arrays().values()), [data])
    for one, other in zip(fitted.impute(data, return_std=True), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=EXACT)


def test_known_variances_have_no_standard_errors(data):
    errors = ProbabilisticSFA(1, noise=KNOWN).fit(data).standard_errors(data)
    assert np.isnan(errors.noise_variance).all() and np.isfinite(errors.loadings).all()


@pytest.mark.parametrize("given", [KNOWN, tuple(KNOWN), np.array(KNOWN), pd.Series(KNOWN)])
def test_known_variances_can_be_cloned_and_saved(data, given, tmp_path):
    model = ProbabilisticSFA(1, noise=given)
    assert model.get_params()["noise"] is given
    copied = clone(model).fit(data)
    copied.save(tmp_path / "model.npz")
    loaded = probsfa.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.noise, KNOWN)
    np.testing.assert_array_equal(loaded.transform(data), copied.transform(data))
    np.testing.assert_allclose(clone(loaded).fit(data).log_likelihood_, copied.log_likelihood_, rtol=1e-12)


@pytest.mark.parametrize("estimator", [ProbabilisticSFA, BayesianSFA])
@pytest.mark.parametrize(
    "noise,message",
    [
        ([0.1, 0.2], "noise.*2.*X.*3"),
        ([0.1, 0.0, 0.3], r"noise\[1\] is 0.0.*noise=0.0"),
        ([0.1, np.nan, 0.3], r"noise\[1\] is nan"),
        ([0.1, -1.0, 0.3], r"noise\[1\] is -1.0"),
        (np.full((1, 3), 0.3), "each column"),
        ([], "a variance for each column|one for each column"),
        (["a", "b", "c"], "a variance for each column|one for each column"),
    ],
)
def test_invalid_known_variances_are_named(data, estimator, noise, message):
    message = message.replace("a variance for each column", "(a variance|one) for each column")
    with pytest.raises(ValueError, match=message):
        estimator(1, noise=noise).fit(data)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_bayesian_fits_keep_known_variances(data):
    settings = {"inference": "svi", "n_steps_svi": 5, "verbose": False, "random_state": 0}
    model = BayesianSFA(1, noise=KNOWN, **settings).fit(data)
    np.testing.assert_allclose(model.noise_variance_, KNOWN, rtol=1e-12)
    assert np.isfinite(model.impute(data)).all()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize("noise", [1e-20, 1e-14, 1e-16, 1e-300])
@pytest.mark.parametrize("n_components", [1, 3, 5])
def test_noise_near_zero_is_raised_to_its_lower_bound(data, n_components, noise):
    model = ProbabilisticSFA(n_components, noise=noise, max_iter=30).fit(data)
    assert "below rounding errors" in model.status_
    scale = np.nanstd(data, axis=0)
    np.testing.assert_allclose(model.noise_variance_, 1e-12 * np.mean(scale**2), rtol=1e-9)
    assert np.isfinite(model.impute(data)).all()
    again = model.log_likelihood(data)
    np.testing.assert_allclose(model.log_likelihood_, again, rtol=1e-12, atol=0.01)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_of_several_variances_is_raised_to_a_fraction_of_its_column_variance(data):
    model = ProbabilisticSFA(1, noise=[0.3, 1e-20, 0.3], max_iter=30).fit(data)
    assert (
        "column 1 is below rounding errors. It is replaced by 1e-12 times the column variance"
        in model.status_
    )
    expected = [0.3, 1e-12 * np.nanvar(data[:, 1]), 0.3]
    np.testing.assert_allclose(model.noise_variance_, expected, rtol=1e-9)


def test_noise_above_its_lower_bound_is_unchanged(data):
    model = ProbabilisticSFA(1, noise=1e-10).fit(data)
    np.testing.assert_allclose(model.noise_variance_, 1e-10, rtol=1e-12)
    assert "rounding" not in model.status_
