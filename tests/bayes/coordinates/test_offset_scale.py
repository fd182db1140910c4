"""Coordinates of the offset: posterior precision and Jacobian determinant."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from probsfa.bayes.coordinates import offset_scale
from probsfa.bayes.coordinates.offset_scale import make_offset_scale

# Compiled programs; otherwise each operation would be compiled separately.
precision_root, scaled_offset = map(jax.jit, (offset_scale.precision_root, offset_scale.scaled_offset))


def dense_precision(decay, loadings, noise, n_steps, prior):
    """Return the precision of the offset: ``1' Sigma^-1 1`` of a complete series plus that of the prior."""
    d = len(noise)
    powers = [scipy.linalg.toeplitz(a ** np.arange(n_steps)) for a in decay]
    covariance = sum(np.kron(p, np.outer(c, c)) for p, c in zip(powers, loadings.T, strict=True))
    covariance = covariance + np.kron(np.eye(n_steps), np.diag(noise))
    ones = np.kron(np.ones((n_steps, 1)), np.eye(d))
    return ones.T @ np.linalg.solve(covariance, ones) + np.diag(prior)


@pytest.mark.parametrize("decay", [(0.3, 0.8), (0.0, 0.95)])
def test_precision_is_that_of_a_long_series(rng, decay):
    decay, loadings, noise = np.array(decay), rng.standard_normal((3, 2)), rng.uniform(0.2, 1.0, 3)
    n, prior = 400, np.full(3, 0.5)
    with jax.enable_x64(True):
        level = make_offset_scale(np.full(3, n), n, 1.0, prior, decay, loadings, noise)
        root = np.asarray(precision_root(level, decay, loadings, noise))
    expected = dense_precision(decay, loadings, noise, n, prior)
    ratios = scipy.linalg.eigvalsh(root @ root.T, expected)
    # The formula neglects the ends of the series, whose effect increases with the time scales.
    assert 0.85 < ratios.min() and ratios.max() < 1.05


def test_coordinates_at_the_reference_equal_the_offset(rng):
    parameters = np.array([0.9, 0.5]), rng.standard_normal((4, 2)), rng.uniform(0.2, 1.0, 4)
    at = rng.standard_normal(4)
    with jax.enable_x64(True):
        level = make_offset_scale(np.full(4, 50), 50.0, 1.0, np.ones(4), *parameters)
        offset, log_det = scaled_offset(level, jnp.asarray(at), *map(jnp.asarray, parameters))
    np.testing.assert_allclose(offset, at, atol=1e-12)
    assert abs(float(log_det)) < 1e-12


def test_log_determinant_is_that_of_the_jacobian(rng):
    parameters = np.array([0.9, 0.5]), rng.standard_normal((4, 2)), rng.uniform(0.2, 1.0, 4)
    others = np.array([0.99, 0.2]), rng.standard_normal((4, 2)), rng.uniform(0.2, 1.0, 4)
    with jax.enable_x64(True):
        level = make_offset_scale(np.full(4, 50), 50.0, 1.0, np.ones(4), *parameters)
        columns = [
            np.asarray(scaled_offset(level, jnp.asarray(e), *map(jnp.asarray, others))[0]) for e in np.eye(4)
        ]
        log_det = scaled_offset(level, jnp.zeros(4), *map(jnp.asarray, others))[1]
    assert abs(float(log_det) - np.linalg.slogdet(np.array(columns))[1]) < 1e-11


def test_very_slow_factors_and_empty_columns_stay_finite(rng):
    loadings = rng.standard_normal((3, 1))
    counts = np.array([10.0, 0.0, 10.0])
    with jax.enable_x64(True):
        level = make_offset_scale(counts, 10.0, 2.0, np.zeros(3), np.array([0.5]), loadings, np.ones(3))
        offset, log_det = scaled_offset(
            level, jnp.ones(3), jnp.asarray([1.0 - 1e-14]), jnp.asarray(loadings), jnp.full(3, 1e-8)
        )
    assert np.all(np.isfinite(offset)) and np.isfinite(log_det)
