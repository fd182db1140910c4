"""Fixtures of state-space tests, in which a float32 in compiled code is an error (strict dtype promotion)."""

import jax
import numpy as np
import pytest

from probsfa.statespace import ProbabilisticSFA
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        yield


@pytest.fixture(scope="session")
def series():
    """Model, data with missing values and the fitted estimator: 100 rows, five columns, two factors."""
    rng = np.random.default_rng(11)
    model = oracle.Model(
        np.array([0.97, 0.6]), rng.standard_normal((5, 2)), rng.uniform(0.1, 0.4, 5), rng.standard_normal(5)
    )
    data = mask_values(rng, oracle.simulate(rng, model, [100]), "scattered")[0]
    return model, data, ProbabilisticSFA(n_components=2).fit(data)
