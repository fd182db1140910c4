"""Uncertainty of the level and the scale of latent factors: information by differences, and coverage."""

import numpy as np
import pytest

from probsfa import EmissionSFA
from probsfa._validation import Sequences
from probsfa.extensions.emissions.level_and_scale import level_and_scale_variances
from tests.extensions.emissions.support import draw, parameters


def dense_variances(a, times):
    """Of level and log scale, by the information of a dense Gaussian ``N(level, scale^2 a^|t - u|)``."""
    lag = np.abs(np.subtract.outer(times, times))

    def covariance(log_scale, decay):
        return np.exp(2.0 * log_scale) * decay**lag

    step, here = 1e-5, covariance(0.0, a)
    by = [
        (covariance(step, a) - covariance(-step, a)) / (2 * step),
        (covariance(0.0, a + step) - covariance(0.0, a - step)) / (2 * step),
    ]
    parts = [np.linalg.solve(here, each) for each in by]
    information = np.array([[0.5 * np.trace(p @ q) for q in parts] for p in parts])
    level = 1.0 / np.sum(np.linalg.inv(here))
    return level, np.linalg.inv(information)[0, 0]


def test_variances_are_those_of_the_dense_information():
    times = np.array([0.0, 1.0, 2.5, 3.0, 4.0, 7.0, 8.0, 9.0, 9.5, 11.0])
    X = np.zeros((10, 2))
    X[3] = np.nan  # a row without any value does not count
    found = level_and_scale_variances(np.array([0.8, 0.4]), Sequences(X, (10,), times))
    for k, a in enumerate((0.8, 0.4)):
        np.testing.assert_allclose(found[:, k], dense_variances(a, np.delete(times, 3)), rtol=1e-5)
    one = level_and_scale_variances(np.array([0.8]), Sequences(X[:3], (3,), None))
    two = level_and_scale_variances(np.array([0.8]), Sequences(np.zeros((6, 2)), (3, 3), None))
    np.testing.assert_allclose(two, one / 2.0)


def test_intervals_of_a_slow_factor_cover_it_about_as_often_as_they_should():
    """Of 20 series of 100 rows; without the uncertainty of level and scale they cover it in two thirds."""
    covered = []
    for seed in range(20):
        X, z = draw("poisson", parameters(5, (0.95,), seed=seed), 100, seed=seed)
        model = EmissionSFA(1, emission="poisson").fit(X)
        row = []
        for level_and_scale in (False, True):
            found = model.posterior(X, level_and_scale=level_and_scale)
            sign = np.sign(np.corrcoef(found.means[:, 0], z[:, 0])[0, 1])
            row.append(np.mean(np.abs(found.means[:, 0] - sign * z[:, 0]) < 1.645 * found.std[:, 0]))
        covered.append(row)
    before, after = np.mean(covered, axis=0)
    assert before < 0.75 and 0.8 < after < 0.97


def test_files_without_the_variances_are_refused_in_a_sentence():
    X, _ = draw("poisson", parameters(), 100)
    model = EmissionSFA(1, emission="poisson").fit(X)
    model._model = model._model._replace(level_and_scale=None)
    assert np.all(np.isfinite(model.posterior(X).std))
    with pytest.raises(ValueError, match="level_and_scale=True needs a model"):
        model.posterior(X, level_and_scale=True)
