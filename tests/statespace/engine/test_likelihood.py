"""The likelihood as a function for JAX: its value, gradient and curvature."""

import jax
import jax.numpy as jnp
import numpy as np

from probsfa.statespace.engine.likelihood import marginal_log_likelihood
from probsfa.statespace.engine.posterior import log_likelihood
from tests.oracles import statespace as oracle
from tests.sampling import parametrize
from tests.statespace.support import mask_values, scaled_error, to_panel, to_parameters
from tests.tolerances import EXACT


def _parts(params):
    return params.decay, params.loadings, params.noise_variance, params.offset


def _arrays(rng, n_steps, pattern="scattered"):
    model = oracle.random_model(rng, 4, 2)
    panel = to_panel(mask_values(rng, oracle.simulate(rng, model, [n_steps]), pattern))
    params = to_parameters(model)
    return _parts(params), (panel.values, panel.mask, panel.gap_index)


@parametrize("n_steps", [40, 400])
def test_likelihood_for_jax_is_the_likelihood(rng, n_steps):
    model = oracle.random_model(rng, 4, 2)
    data = mask_values(rng, oracle.simulate(rng, model, [n_steps]), "scattered")
    params, panel = to_parameters(model), to_panel(data)
    with jax.enable_x64(True):
        data = (panel.values, panel.mask, jnp.asarray(panel.gap_index))
        found = marginal_log_likelihood(*_parts(params), *data)
    assert scaled_error(float(found), log_likelihood(params, panel)) < EXACT


@parametrize("n_steps", [40, 400])
def test_gradient_of_the_likelihood_is_that_of_finite_differences(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        data = tuple(map(jnp.asarray, data))
        params = tuple(map(jnp.asarray, params))
        value = jax.jit(lambda *p: marginal_log_likelihood(*p, *data))
        gradient = jax.jit(jax.grad(value, argnums=(0, 1, 2, 3)))(*params)
        for k, part in enumerate(params):
            direction = jnp.asarray(rng.standard_normal(part.shape))
            step = 1e-6
            value_after_step = value(*(p + step * direction if i == k else p for i, p in enumerate(params)))
            value_before_step = value(*(p - step * direction if i == k else p for i, p in enumerate(params)))
            slope = float(jnp.sum(gradient[k] * direction))
            assert abs(float(value_after_step - value_before_step) / (2 * step) - slope) < 1e-5 * max(
                1.0, abs(slope)
            )


def test_gradient_with_respect_to_missing_values_is_zero(rng):
    params, (values, mask, index) = _arrays(rng, 40)
    filled = np.where(mask > 0.0, values, rng.standard_normal(values.shape))
    with jax.enable_x64(True):
        value_and_gradient = jax.jit(jax.value_and_grad(marginal_log_likelihood, argnums=4))
        found = [value_and_gradient(*map(jnp.asarray, (*params, x, mask, index))) for x in (values, filled)]
    (value, gradient), (value_of_filled, _) = jax.tree.map(np.asarray, found)
    assert scaled_error(value, value_of_filled) < EXACT  # the likelihood does not depend on these values
    np.testing.assert_array_equal(gradient != 0.0, mask > 0.0)


@parametrize("n_steps", [24, 256])
def test_gradient_is_differentiable_again(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        params, data = tuple(map(jnp.asarray, params)), tuple(map(jnp.asarray, data))

        def value(decay):
            return marginal_log_likelihood(decay, *params[1:], *data)

        hessian = jax.jit(jax.hessian(value))(params[0])
        gradient = jax.jit(jax.grad(value))
        step = 1e-5
        for k in range(2):
            shift = jnp.zeros(2).at[k].set(step)
            slope = (gradient(params[0] + shift) - gradient(params[0] - shift)) / (2 * step)
            np.testing.assert_allclose(
                hessian[k], slope, rtol=1e-4, atol=1e-4 * float(jnp.abs(hessian).max())
            )


@parametrize("n_steps", [40, 400])
def test_several_parameter_sets_at_once(rng, n_steps):
    params, data = _arrays(rng, n_steps)
    with jax.enable_x64(True):
        params, data = tuple(map(jnp.asarray, params)), tuple(map(jnp.asarray, data))
        value_and_gradient = jax.jit(
            jax.value_and_grad(lambda *p: marginal_log_likelihood(*p, *data), argnums=(0, 1, 2, 3))
        )
        sets = tuple(jnp.stack([p * (1.0 - 0.1 * i) for i in range(4)]) for p in params)
        values, gradients = jax.jit(jax.vmap(value_and_gradient))(*sets)
        for i in range(4):
            value, gradient = value_and_gradient(*(p[i] for p in sets))
            assert scaled_error(float(values[i]), float(value)) < EXACT
            for found, wanted in zip(gradients, gradient, strict=True):
                assert scaled_error(np.asarray(found[i]), np.asarray(wanted)) < EXACT
