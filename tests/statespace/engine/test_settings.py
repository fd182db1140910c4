"""The engine applies its own settings of JAX in each thread, and restores those of the user."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from probsfa import ProbabilisticSFA
from probsfa.statespace.engine import settings
from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from tests.sampling import parametrize


def fit_without_warnings(model, X, **options):
    """Fit a model and ignore warnings, such as that of convergence."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X, **options)


def results(X, times):
    fitted = fit_without_warnings(ProbabilisticSFA(2, max_iter=3), X)
    filled, std = fitted.impute(X, return_std=True)
    return [
        fitted.log_likelihood_,
        fitted.transform(X),
        *fitted.posterior(X),
        filled,
        std,
        fitted.filter(X).means,
        fitted.forecast(X, 2).means,
        fitted.sample_posterior(X, random_state=0),
        fitted.transform(X, times=times),
    ]


@pytest.mark.filterwarnings("ignore:Observed values left out one at a time")
def test_fits_work_if_the_user_forbids_rank_promotion(rng):
    X = np.cumsum(rng.standard_normal((40, 3)), axis=0)
    X[5, 1] = np.nan
    times = np.cumsum(rng.uniform(0.5, 1.5, 40))
    wanted = results(X, times)
    with jax.numpy_rank_promotion("raise"):
        found = results(X, times)
        with pytest.raises(ValueError, match="rank_promotion"):
            jnp.ones((2, 3)) + jnp.ones(3)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def second_derivative(function):
    return jax.jacrev(jax.grad(function))


@parametrize("derivative", [second_derivative, jax.grad, lambda f: f])  # the first contains the others
def test_derivatives_work_if_the_user_forbids_rank_promotion(rng, derivative):
    with jax.enable_x64(True):
        values = jnp.asarray(rng.standard_normal((12, 3)))
        rest = jnp.ones((3, 2)), jnp.ones(3), jnp.zeros(3), values, jnp.ones_like(values)
        index = (jnp.arange(12) == 0).astype(int)

        def model_of_decays(decay):
            return marginal_log_likelihood(decay, *rest, index)

        at = jnp.array([0.9, 0.5])
        wanted = jax.jit(derivative(model_of_decays))(at)
        with jax.numpy_rank_promotion("raise"):
            found = jax.jit(derivative(model_of_decays))(at)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("error", [AssertionError(), RuntimeError("no visible device")])
def test_a_platform_that_jax_cannot_use_is_named(monkeypatch, error):
    def fail():
        raise error

    monkeypatch.setattr(jax, "default_backend", fail)
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    settings._check_platform.cache_clear()
    try:
        with pytest.raises(RuntimeError, match="JAX_PLATFORMS='cuda'.*Unset JAX_PLATFORMS"):
            with settings.engine_settings():
                pass
    finally:
        settings._check_platform.cache_clear()
