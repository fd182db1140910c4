"""Several modes of a posterior: found, weighed, and each with one labelling."""

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from probsfa import BayesianSFA
from probsfa.datasets import make_slow_mixture


def test_a_factor_of_one_of_two_columns_has_two_modes_of_equal_shares():
    """A column and its time reversal: the posterior is unchanged if the columns are exchanged.

    One factor follows one column or the other. The shares are a half each, which a start in one of the modes
    cannot find.
    """
    X = make_slow_mixture(60, 1, decay=[0.9], noise_variance=0.1, random_state=1).data
    model = BayesianSFA(1, inference="svi", verbose=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # where k is near its limit
        model.fit(np.hstack([X, X[::-1]]))
    loadings = np.abs(model.draws_.loadings[0, :, :, 0])
    share = np.mean(loadings[:, 0] > loadings[:, 1])
    assert len(model.diagnostics_["mode_shares"]) == 2
    assert abs(share - 0.5) < 0.1
    np.testing.assert_allclose(model.diagnostics_["mode_shares"], 0.5, atol=0.1)
    assert abs(np.diff(model.diagnostics_["mode_bounds"])[0]) < 0.5
    assert "2 modes" in model.status_
