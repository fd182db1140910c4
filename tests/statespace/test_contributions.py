"""Contributions of factors to values."""

import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from tests.oracles import statespace as oracle
from tests.statespace.support import mask_values


@pytest.mark.parametrize("noise", [0.3, 0.0])
def test_contributions_add_up_to_the_smoothed_mean(rng, noise):
    model = oracle.random_model(rng, 3, 3)
    complete = oracle.simulate(rng, model, [60, 40])
    data = mask_values(rng, complete, "scattered")
    fitted = ProbabilisticSFA(3, noise=noise).fit(complete if noise == 0.0 else data)
    parts = fitted.contributions(data)
    assert [part.shape for part in parts] == [(60, 3, 3), (40, 3, 3)]
    filled = fitted.impute(data)
    for part, x, full in zip(parts, data, filled, strict=True):
        missing = np.isnan(x)
        np.testing.assert_allclose((part.sum(axis=2) + fitted.mean_)[missing], full[missing], rtol=1e-9)


def test_each_part_is_the_dense_mean_of_a_factor_times_its_loading(rng):
    model = oracle.random_model(rng, 3, 2)
    [data] = mask_values(rng, oracle.simulate(rng, model, [12]), "scattered")
    fitted = ProbabilisticSFA.from_parameters(*model)
    dense = oracle.joint_posterior(
        oracle.Model(fitted.decay_, fitted.loadings_, fitted.noise_variance_, fitted.mean_), [data]
    )
    parts = fitted.contributions(data)
    for t in range(12):
        for d in range(3):
            np.testing.assert_allclose(parts[t, d], fitted.loadings_[d] * dense.means[t], atol=1e-10)
