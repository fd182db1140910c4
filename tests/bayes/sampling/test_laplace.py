"""Coordinates in which the posterior is round: the maximum, and the curvature there by JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from probsfa.bayes import Priors
from probsfa.bayes.coordinates.target import Data, Target
from probsfa.bayes.model import as_series
from probsfa.bayes.sampling.laplace import Whitening, find_whitening
from probsfa.datasets import make_slow_mixture


def test_a_whitening_is_a_normal_law(rng):
    """Its evidence is the integral of the density that it stands for; its draws have that law's moments."""
    centre, factor = rng.standard_normal(3), rng.standard_normal((3, 3))
    potential, covariance = 1.7, factor @ factor.T
    whitening = Whitening(centre, factor, potential, 0)
    peak = multivariate_normal(centre, covariance).logpdf(centre)
    assert whitening.log_evidence == pytest.approx(-potential - peak, rel=1e-10)
    np.testing.assert_allclose(whitening.std, np.sqrt(np.diag(covariance)), rtol=1e-12)
    u = rng.standard_normal((4, 3))
    np.testing.assert_allclose(whitening.apply(u), [centre + factor @ each for each in u], rtol=1e-12)


def test_it_ends_where_the_density_is_highest_and_makes_it_round():
    X = make_slow_mixture(60, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    target = Target(1, 3, "diagonal", Priors())
    with jax.enable_x64(True):
        data = Data(as_series(X))
        found = find_whitening(target, data, np.full(target.size, 0.3))
        potential = jax.jit(lambda x: target.potential(x, data))
        centre = jnp.asarray(found.centre)
        assert float(potential(centre)) == pytest.approx(found.potential, rel=1e-9)
        slope = jax.jit(jax.grad(potential))(centre)
        curvature = jax.jit(jax.hessian(potential))(centre)
    # In units of a standard deviation: no slope, and the same curvature in all directions.
    assert np.max(np.abs(found.factor.T @ np.asarray(slope))) < 1e-3
    values = np.linalg.eigvalsh(found.factor.T @ np.asarray(curvature) @ found.factor)
    np.testing.assert_allclose(values, 1.0, atol=0.05)
