"""Intervals of latent factors: the expected information of a dense Gaussian, coverage, and files."""

import numpy as np
import pytest

from probsfa import EmissionSFA
from tests.extensions.emissions.support import draw, parameters
from tests.statespace.test_factor_uncertainty import dense_information

Z = 1.6448536269514722


def test_intervals_of_gaussian_columns_agree_with_the_dense_information():
    X, _ = draw("gaussian", parameters(3, (0.9,)), 120)
    model = EmissionSFA(1, emission="gaussian").fit(X)
    c, r = model.loadings_[:, 0], model.noise_variance_
    information = dense_information(model.decay_[0], c, r, len(X), np.ones(X.shape, dtype=bool))
    known = [0, 1, 2, 3, 7, 8, 9]  # without the noise variances
    row = (c / r) / np.sum(c**2 / r)
    directions = np.zeros((2, len(known)))
    directions[0, 1:4] = directions[1, 4:] = row
    expected = directions @ np.linalg.inv(information[np.ix_(known, known)]) @ directions.T
    covariance = model._model.level_and_scale
    assert covariance.shape == (1, 2, 2)
    # Whittle's formula neglects the ends of the series.
    np.testing.assert_allclose(np.diag(covariance[0]), np.diag(expected), rtol=0.15)
    mean, std = model.transform(X)[:, 0], model.posterior(X).std[:, 0]
    lower, upper = model.factor_interval(X, 0.9)
    added = mean**2 * covariance[0, 0, 0] + 2.0 * mean * covariance[0, 0, 1] + covariance[0, 1, 1]
    np.testing.assert_allclose((0.5 * (upper - lower)[:, 0] / Z) ** 2 - std**2, added, rtol=1e-6)
    np.testing.assert_allclose(0.5 * (lower + upper)[:, 0], mean, atol=1e-12)


@pytest.mark.parametrize(
    ("decays", "max_before", "min_after"), [((0.95,), 0.75, 0.8), ((0.95, 0.6), 0.8, 0.83)]
)
def test_intervals_of_slow_factors_have_nearly_nominal_coverage(decays, max_before, min_after):
    """In 20 series of 100 rows; intervals without parameter uncertainty have too little coverage."""
    covered = []
    for seed in range(20):
        X, z = draw("poisson", parameters(5, decays, seed=seed), 100, seed=seed)
        model = EmissionSFA(len(decays), emission="poisson").fit(X)
        posterior, (lower, upper) = model.posterior(X), model.factor_interval(X, 0.9)
        sign = np.sign(np.sum((posterior.means - posterior.means.mean(axis=0)) * z, axis=0))
        errors = np.abs(posterior.means - sign * z)
        covered.append([np.mean(errors < limit) for limit in (Z * posterior.std, 0.5 * (upper - lower))])
    before, after = np.mean(covered, axis=0)
    assert before < max_before and min_after < after < 0.97


def test_parameter_uncertainty_of_files_of_earlier_versions_is_used():
    X, _ = draw("gaussian", parameters(5, (0.95, 0.6)), 60)
    model = EmissionSFA(2, emission="gaussian").fit(X)
    posterior = model.posterior(X)
    level, scale = np.array([0.3, 0.1]), np.array([0.2, 0.05])
    mixture = np.array([[0.0, 0.15], [0.07, 0.0]])
    opposite = np.full((2, 2), -0.02)  # covariances of opposite entries, which do not affect variances
    for stored in (np.stack([level, scale]), np.concatenate([[level, scale], mixture, opposite])):
        model._model = model._model._replace(level_and_scale=stored)
        added = level + scale * posterior.means**2
        if len(stored) > 2:
            added += posterior.means**2 @ mixture.T
        lower, upper = model.factor_interval(X)
        np.testing.assert_allclose((0.5 * (upper - lower) / Z) ** 2, posterior.std**2 + added)
    model._model = model._model._replace(level_and_scale=None)
    lower, upper = model.factor_interval(X)
    np.testing.assert_allclose(upper - lower, 2.0 * Z * posterior.std)


def test_the_deprecated_argument_of_posterior_warns():
    X, _ = draw("poisson", parameters(), 60)
    model = EmissionSFA(1, emission="poisson", max_iter=20).fit(X)
    with pytest.warns(FutureWarning, match=r"level_and_scale.*no effect.*factor_interval"):
        posterior = model.posterior(X, level_and_scale=True)
    np.testing.assert_array_equal(posterior.covariances, model.posterior(X).covariances)
