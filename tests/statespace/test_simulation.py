"""Simulation of the model, and of its factors given observations."""

import numpy as np
import pytest

from probsfa.statespace.engine.posterior import draw_factors, draw_states, simulate, simulate_factors, smooth
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import (
    mask_values,
    model_of_decays,
    scaled_error,
    to_panel,
    to_parameters,
    uneven_times,
)
from tests.tolerances import EXACT, mc_tolerance


@parametrize("pattern", ["none", "scattered", "empty rows", "everything"], quick=["scattered"])
@pytest.mark.parametrize("sampling", ["even", "uneven"])
def test_draws_have_the_posterior_distribution(rng, pattern, sampling):
    """A draw is an affine function of standard normals, which is evaluated at zero and at unit vectors.

    The result at zero is the mean. Differences from it are a square root of the covariance of all rows.
    """
    model = oracle.random_model(rng, 5, 3)
    times = None
    if sampling == "uneven":
        model = model._replace(decay=np.abs(model.decay))
        times = uneven_times(rng, (5, 7))
    data = mask_values(rng, oracle.simulate(rng, model, (5, 7), times), pattern)
    panel = to_panel(data, times)
    normals = np.zeros((len(panel.values), 37, 3))
    for i in range(36):
        normals[i // 3, i + 1, i % 3] = 1.0
    draws = draw_states(to_parameters(model), panel, normals)
    assert draws.shape == (37, 12, 3)
    dense = oracle.joint_posterior(model, data, times)
    assert scaled_error(draws[0], dense.means) < EXACT
    root = (draws[1:] - draws[0]).reshape(36, 36).T
    assert scaled_error(root @ root.T, dense.full.reshape(36, 36)) < EXACT


def test_moments_of_many_draws_are_those_of_the_posterior(rng):
    """Means and variances of 4000 draws agree within six standard errors."""
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [12]), "scattered")
    n = 4000
    draws = draw_factors(to_parameters(model), to_panel(data), n, rng)
    expected = smooth(to_parameters(model), to_panel(data))
    variances = np.diagonal(expected.covariances, axis1=1, axis2=2)
    worst = np.abs(draws.mean(axis=0) - expected.means) / np.sqrt(variances)
    assert worst.max() < mc_tolerance(1.0, n)
    # A squared standard normal has the variance 2.
    squares = ((draws - expected.means) ** 2).mean(axis=0) / variances
    assert np.abs(squares - 1.0).max() < mc_tolerance(2.0, n)


def test_draws_are_reproducible_and_independent_of_padding(rng):
    model = oracle.random_model(rng, 5, 3)
    data = mask_values(rng, oracle.simulate(rng, model, [25]), "scattered")
    params = to_parameters(model)
    one = draw_factors(params, to_panel(data), 3, np.random.default_rng(7))
    again = draw_factors(params, to_panel(data), 3, np.random.default_rng(7))
    bare = draw_factors(params, to_panel(data, pad=False), 3, np.random.default_rng(7))
    np.testing.assert_array_equal(one, again)
    np.testing.assert_allclose(one, bare, rtol=1e-12, atol=1e-13)


def test_draws_with_small_noise_reproduce_the_observations(rng):
    """With noise variances of 1e-10 and more columns than factors, draws reproduce the observations."""
    model = oracle.random_model(rng, 5, 3, 1e-10)
    data = oracle.simulate(rng, model, [12])
    draws = draw_factors(to_parameters(model), to_panel(data), 20, rng)
    residuals = data[0] - model.offset - draws @ model.loadings.T
    assert np.abs(residuals).max() < 6 * 3 * np.sqrt(model.noise.max())


@pytest.mark.parametrize("decay", [[0.99, 0.5], [-0.8, 0.0]])
def test_factors_are_stationary_with_unit_variance(rng, decay):
    """Means of products over independent series; a product at correlation c has the variance 1 + c^2."""
    decay, n = np.array(decay), 4000
    drawn = np.array([simulate_factors(model_of_decays(decay), 4, rng) for _ in range(n)])
    assert drawn.shape == (n, 4, 2)
    for s in range(4):
        for t in range(4):
            product = (drawn[:, s] * drawn[:, t]).mean(axis=0)
            expected = decay ** abs(s - t)
            assert np.all(np.abs(product - expected) < [mc_tolerance(1 + c**2, n) for c in expected])
    cross = (drawn[:, :, 0] * drawn[:, :, 1]).mean(axis=0)
    assert np.abs(cross).max() < mc_tolerance(1.0, n)


def test_simulated_observations_have_the_models_covariance(rng):
    model = oracle.random_model(rng, 3, 2)
    params, n = to_parameters(model), 4000
    x = np.array([simulate(params, 2, rng)[0] for _ in range(n)]) - model.offset
    H = oracle.observation_matrix(model, 2)
    expected = H @ oracle.latent_covariance(model, [np.zeros((2, 3))]) @ H.T + np.diag(
        np.tile(model.noise, 2)
    )
    flat = x.reshape(n, 6)
    std = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2)
    assert np.max(np.abs(flat.T @ flat / n - expected) / std) < mc_tolerance(1.0, n)


def test_simulation_returns_its_factors(rng):
    model = oracle.random_model(rng, 5, 3, 1e-12)
    x, z = simulate(to_parameters(model), 12, rng)
    np.testing.assert_allclose(x, model.offset + z @ model.loadings.T, atol=1e-5)
