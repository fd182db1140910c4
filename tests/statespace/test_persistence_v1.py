"""Files of version 1 of the format are read, and their models have the same results as before."""

from pathlib import Path

import numpy as np
import pytest

import probsfa
from probsfa.statespace.learning.options import FitOptions

DATA = Path(__file__).parent / "data"


@pytest.fixture(scope="module")
def expected():
    with np.load(DATA / "saved_v1_expected.npz") as file:
        return dict(file)


@pytest.mark.parametrize("kind", ["", "noise_free_"])
def test_a_model_saved_by_the_first_version_has_the_same_results(expected, kind):
    model = probsfa.load(DATA / ("saved_v1_noise_free.npz" if kind else "saved_v1.npz"))
    X = expected["complete" if kind else "X"]
    forecast = model.forecast(X, 3)
    results = {
        "means": model.transform(X),
        "log_likelihood": model.log_likelihood(X),
        "forecast": forecast.means,
        "forecast_std": forecast.std,
        "filled": model.impute(X),
        "bic": model.bic(X),
        "sample": model.sample(4, random_state=0)[0],
    }
    for name, result in results.items():
        np.testing.assert_allclose(result, expected[kind + name], rtol=1e-9, atol=1e-9, err_msg=name)
    assert model.log_likelihood_ == pytest.approx(expected[kind + "log_likelihood"], rel=1e-9)
    assert model.converged_ and model.n_features_in_ == 3


def test_standard_errors_of_a_model_saved_by_the_first_version(expected):
    model = probsfa.load(DATA / "saved_v1.npz")
    found = model.standard_errors(expected["X"]).decay
    np.testing.assert_allclose(found, expected["standard_errors_decay"], rtol=1e-6)


def test_a_fit_reaches_the_likelihood_saved_by_the_first_version(expected):
    saved = probsfa.load(DATA / "saved_v1.npz")
    again = probsfa.ProbabilisticSFA(**saved.get_params()).fit(expected["X"])
    # The optimizer has changed since version 1, the likelihood has not: differences are below the tolerance.
    n_parameters = 2 + again.loadings_.size + 2 * again.mean_.size
    assert abs(again.log_likelihood_ - saved.log_likelihood_) < FitOptions(2).tolerance(n_parameters)
    assert again.converged_
    np.testing.assert_allclose(again.decay_, saved.decay_, atol=2e-3)
    np.testing.assert_allclose(again.loadings_, saved.loadings_, atol=1e-2)
