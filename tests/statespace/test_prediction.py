"""Forecasts and imputations equal conditional distributions of the joint Gaussian of all values."""

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import observation_moments, smooth
from probsfa.statespace.prediction import fill, forecast, propagate
from tests.oracles import statespace as oracle
from tests.statespace.support import (
    mask_values,
    model_of_decays,
    scaled_error,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT


@pytest.mark.parametrize(
    "pattern", ["scattered", "empty rows", "one column", "first and last rows", "everything"]
)
@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_imputation_is_the_conditional_distribution_of_missing_values(rng, pattern, sampling):
    model = oracle.random_model(rng, 5, 3)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, (5, 7))
    data = mask_values(rng, oracle.simulate(rng, model, (5, 7), times), pattern)
    params = to_parameters(model)
    posterior = smooth(params, to_panel(data, times))
    values = np.concatenate(data)
    found, std = fill(values, *observation_moments(params, posterior.means, posterior.covariances))
    expected, wanted_std = oracle.complete_entries(model, data, times)
    assert scaled_error(found, expected) < EXACT
    assert scaled_error(std, wanted_std) < EXACT
    observed = ~np.isnan(values)
    np.testing.assert_array_equal(found[observed], values[observed])
    assert np.all(std[observed] == 0.0) and np.all(
        std[~observed] >= np.sqrt(model.noise[np.nonzero(~observed)[1]]) * (1 - 1e-12)
    )


@pytest.mark.parametrize("pattern", ["none", "scattered", "first and last rows"])
def test_forecasts_are_the_conditional_distribution_of_empty_rows(rng, pattern):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [12]), pattern)
    params = to_parameters(model)
    last = smooth(params, to_panel(data))
    found = forecast(params, last.means[-1], last.covariances[-1], 6)
    latent_means, latent_std, means, std = oracle.forecast(model, data[0], 6)
    assert scaled_error(found.latent_means, latent_means) < EXACT
    assert scaled_error(found.latent_std, latent_std) < EXACT
    assert scaled_error(found.means, means) < EXACT
    assert scaled_error(found.std, std) < EXACT
    assert not isinstance(found, tuple)
    with pytest.raises(FrozenInstanceError):
        found.means = means


def test_long_forecasts_have_the_stationary_distribution(rng):
    model = oracle.random_model(rng, 5, 3)._replace(decay=np.array([0.9, 0.5, -0.4]))
    found = forecast(to_parameters(model), np.full(3, 5.0), 0.1 * np.eye(3), 500)
    np.testing.assert_allclose(found.latent_means[-1], 0.0, atol=1e-12)
    np.testing.assert_allclose(found.latent_std[-1], 1.0, rtol=1e-12)
    np.testing.assert_allclose(found.means[-1], model.offset, rtol=1e-10)
    expected = np.sqrt(np.sum(model.loadings**2, axis=1) + model.noise)
    np.testing.assert_allclose(found.std[-1], expected, rtol=1e-10)


def test_states_can_be_propagated_in_two_steps(rng):
    params, mean = model_of_decays([0.9, -0.5]), rng.standard_normal(2)
    root = rng.standard_normal((2, 2))
    covariance = 0.1 * root @ root.T
    means, covariances = propagate(params, mean, covariance, 5)
    further = propagate(params, means[1], covariances[1], 3)
    np.testing.assert_allclose(further[0], means[2:], rtol=1e-13)
    np.testing.assert_allclose(further[1], covariances[2:], rtol=1e-13, atol=1e-15)
