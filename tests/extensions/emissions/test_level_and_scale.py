"""Uncertainty of the level and the scale of latent factors: information by differences, and coverage."""

import numpy as np
import pytest

from probsfa import EmissionSFA
from probsfa._validation import Sequences
from probsfa.extensions.emissions.level_and_scale import (
    MAX_MIXTURE_VARIANCE,
    level_and_scale_variances,
    mixture_variances,
)
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


def dense_mixture(decays, times):
    """Of the entries (0, 1) and (1, 0) of the mixture, by the information of a dense Gaussian."""
    lag = np.abs(np.subtract.outer(times, times))

    def covariance(upper, lower):
        mixture = np.array([[1.0, upper], [lower, 1.0]])
        return sum(
            np.kron(a**lag, np.outer(column, column)) for a, column in zip(decays, mixture.T, strict=True)
        )

    step, here = 1e-5, covariance(0.0, 0.0)
    by = [
        (covariance(step, 0.0) - covariance(-step, 0.0)) / (2 * step),
        (covariance(0.0, step) - covariance(0.0, -step)) / (2 * step),
    ]
    parts = [np.linalg.solve(here, each) for each in by]
    return np.linalg.inv([[0.5 * np.trace(p @ q) for q in parts] for p in parts])


def test_variances_of_the_mixture_are_those_of_the_dense_information():
    times = np.cumsum(np.random.default_rng(0).choice([0.5, 1.0, 2.0], 60))
    sequences = Sequences(np.zeros((60, 2)), (60,), times)
    for decays in ([0.95, 0.3], [0.3, 0.95], [0.9, 0.5]):
        found, expected = mixture_variances(np.array(decays), sequences), dense_mixture(decays, times)
        np.testing.assert_allclose([found[0, 0, 1], found[0, 1, 0]], np.diagonal(expected), rtol=1e-6)
        np.testing.assert_allclose(found[1], expected[0, 1] * (1.0 - np.eye(2)), rtol=1e-6)


def test_factors_with_equal_decays_may_be_rotated_by_any_angle():
    sequences = Sequences(np.zeros((60, 2)), (60,), None)
    found = mixture_variances(np.array([0.8, 0.8, 0.1]), sequences)
    assert found[0, 0, 1] == pytest.approx(MAX_MIXTURE_VARIANCE) and found[1, 0, 1] == pytest.approx(
        -MAX_MIXTURE_VARIANCE
    )
    assert found[0, 0, 2] < 0.1 and found[0, 0, 0] == 0.0
    assert mixture_variances(np.zeros(0), sequences).shape == (2, 0, 0)


@pytest.mark.parametrize(("decays", "most_before", "least"), [((0.95,), 0.75, 0.8), ((0.95, 0.6), 0.8, 0.83)])
def test_intervals_of_slow_factors_cover_them_about_as_often_as_they_should(decays, most_before, least):
    """Of 20 series of 100 rows; at the fitted parameters alone they cover too little."""
    covered = []
    for seed in range(20):
        X, z = draw("poisson", parameters(5, decays, seed=seed), 100, seed=seed)
        model = EmissionSFA(len(decays), emission="poisson").fit(X)
        row = []
        for level_and_scale in (False, True):
            found = model.posterior(X, level_and_scale=level_and_scale)
            sign = np.sign(np.sum((found.means - found.means.mean(axis=0)) * z, axis=0))
            row.append(np.mean(np.abs(found.means - sign * z) < 1.645 * found.std))
        covered.append(row)
    before, after = np.mean(covered, axis=0)
    assert before < most_before and least < after < 0.97


def test_intervals_of_two_factors_include_their_mixture():
    """The covariances of all rows are the delta method's, as one product for each row."""
    X, _ = draw("gaussian", parameters(5, (0.95, 0.6)), 60)
    model = EmissionSFA(2, emission="gaussian").fit(X)
    plain, full = model.posterior(X, level_and_scale=False), model.posterior(X)
    sequences = Sequences(X, (60,), None)
    level, scale = level_and_scale_variances(model.decay_, sequences)
    variances, crossed = mixture_variances(model.decay_, sequences)
    # Covariances of the entries of the mixture, with the scales on its diagonal.
    entries = np.zeros((2, 2, 2, 2))
    for i in range(2):
        entries[i, i, i, i] = scale[i]
        entries[i, 1 - i, i, 1 - i], entries[i, 1 - i, 1 - i, i] = variances[i, 1 - i], crossed[i, 1 - i]
    for t, mean in enumerate(plain.means):
        added = np.diag(level) + np.einsum("j,ijkl,l->ik", mean, entries, mean)
        np.testing.assert_allclose(full.covariances[t] - plain.covariances[t], added, atol=1e-10)
    assert np.all(np.linalg.eigvalsh(full.covariances - plain.covariances) > -1e-12)


def test_files_of_earlier_versions_have_the_uncertainty_that_they_contain():
    X, _ = draw("poisson", parameters(), 100)
    model = EmissionSFA(1, emission="poisson").fit(X)
    whole = model._model.level_and_scale
    plain, full = model.posterior(X, level_and_scale=False), model.posterior(X)
    model._model = model._model._replace(level_and_scale=whole[:2])
    np.testing.assert_allclose(model.posterior(X).covariances, full.covariances)  # one factor: no mixture
    model._model = model._model._replace(level_and_scale=None)
    np.testing.assert_array_equal(model.posterior(X).covariances, plain.covariances)
