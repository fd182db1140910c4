"""Laplace's approximation of a normal density is that density."""

import numpy as np
import pytest

from probsfa.bayes.sampling.laplace import approximate_by_laplace
from tests.bayes.sampling.gaussian import GaussianTarget


def test_laplaces_approximation_of_a_normal_posterior_is_exact(rng):
    target = GaussianTarget(4, log_evidence=-12.5)
    start = target.mean() + 5.0 * rng.standard_normal(4)
    laplace = approximate_by_laplace(target, target.data(), start)
    std = np.sqrt(np.diag(target.covariance()))
    np.testing.assert_allclose((laplace.centre - target.mean()) / std, 0.0, atol=1e-3)
    got = laplace.factor @ laplace.factor.T
    np.testing.assert_allclose(got / np.outer(std, std), target.covariance() / np.outer(std, std), atol=1e-4)
    np.testing.assert_allclose(laplace.std, std, rtol=1e-4)
    assert abs(laplace.log_evidence + 12.5) < 1e-3
    u = rng.standard_normal((3, 4))
    np.testing.assert_allclose(laplace.apply(u)[1], laplace.centre + laplace.factor @ u[1])


def test_a_start_without_density_is_an_error():
    target = GaussianTarget(3)
    with pytest.raises(FloatingPointError, match="supports"):
        approximate_by_laplace(target, target.data(), np.full(3, np.nan))
