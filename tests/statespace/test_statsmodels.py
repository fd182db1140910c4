"""The log-likelihood equals that of DynamicFactorMQ of statsmodels at equivalent parameters."""

import warnings

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import log_likelihood
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, to_panel, to_parameters

REASON = "statsmodels, of the test extra, is not installed"
dynamic_factor_mq = pytest.importorskip("statsmodels.tsa.statespace.dynamic_factor_mq", reason=REASON)


@parametrize("pattern", ["none", "scattered", "empty rows"], quick=["scattered"])
@parametrize("noise", [0.3, 1e-3], quick=[1e-3])
def test_log_likelihood_equals_statsmodels(rng, pattern, noise):
    """Parameters of statsmodels: loadings, decays, innovation scales sqrt(1 - a^2), noise variances."""
    model = oracle.random_model(rng, 5, 3, noise)
    data = mask_values(rng, oracle.simulate(rng, model, [25]), pattern)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = dynamic_factor_mq.DynamicFactorMQ(
            data[0] - model.offset, factors=3, factor_orders=1, idiosyncratic_ar1=False, standardize=False
        )
        peer.ssm.tolerance = 0  # no switch to a steady state
        innovations = np.sqrt(1 - model.decay**2)
        expected = peer.loglike(
            np.concatenate([model.loadings.ravel(), model.decay, innovations, model.noise])
        )
    assert log_likelihood(to_parameters(model), to_panel(data)) == pytest.approx(expected, rel=1e-9)
