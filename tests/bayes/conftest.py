"""Fits that several test modules use."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from probsfa import BayesianSFA
from probsfa.datasets import make_slow_mixture


@pytest.fixture(scope="session")
def frame():
    """Eighty rows of three named columns with missing values, and the complete rows."""
    series = make_slow_mixture(80, 3, decay=[0.95, 0.5], noise_variance=0.2, random_state=2)
    index = pd.date_range("2020-01-01", periods=80, freq="h", tz="Europe/Paris", name="when")
    complete = pd.DataFrame(5.0 + 100.0 * series.data, index=index, columns=["a", "b", "c"])
    missing = np.random.default_rng(0).random(complete.shape) < 0.15
    return complete.mask(missing), complete


@pytest.fixture(scope="session")
def sampled(frame):
    """A model fitted by NUTS."""
    model = BayesianSFA(1, n_warmup=100, n_draws=150, n_chains=4, verbose=False, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer effective draws than recommended
        return model.fit(frame[0])


@pytest.fixture(scope="session")
def guided(frame):
    """The same model fitted by SVI."""
    model = BayesianSFA(1, inference="svi", n_draws=500, verbose=False, random_state=0)
    return model.fit(frame[0])
