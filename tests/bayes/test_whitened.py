"""The model in whitened coordinates has the density of the plain model, and is close to standard normal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import handlers
from numpyro.infer.util import log_density

from probsfa.bayes import factorial_ar1_model, whitened_model
from probsfa.datasets import make_slow_mixture


def test_its_density_is_that_of_the_plain_model_by_change_of_variables(rng):
    X = make_slow_mixture(200, 3, decay=[0.97, 0.5], noise_variance=0.1, random_state=0).data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    X[rng.random(X.shape) < 0.1] = np.nan
    model = whitened_model(X, 2)

    def values(u):
        """Values of all sites of the plain model, side by side."""
        fixed = handlers.substitute(model, data={"u": u})
        sites = handlers.trace(handlers.seed(fixed, jax.random.key(0))).get_trace()
        decay, loadings, variance, offset = (
            sites[name]["value"] for name in ("decay", "loadings", "noise_variance", "offset")
        )
        return jnp.concatenate([-1.0 / jnp.log(decay), loadings.ravel(), jnp.sqrt(variance), offset])

    def log_density_of_plain(u):
        parts = np.split(np.asarray(values(u)), np.cumsum([2, 6, 3]))
        sites = dict(zip(("timescale", "loadings", "noise_std", "offset"), parts, strict=True))
        sites["loadings"] = sites["loadings"].reshape(3, 2)
        jacobian = np.asarray(jax.jacrev(values)(u))
        return log_density(factorial_ar1_model, (X, 2), {}, sites)[0] + np.linalg.slogdet(jacobian)[1]

    with jax.enable_x64(True):
        points = [jnp.zeros(14), *jnp.asarray(0.7 * rng.standard_normal((2, 14)))]
        found = np.array([log_density(model, (), {}, {"u": u})[0] for u in points])
        wanted = np.array([log_density_of_plain(u) for u in points])
    np.testing.assert_allclose(found - found[0], wanted - wanted[0], atol=1e-5)
    # Close to standard normal.
    np.testing.assert_allclose(found - found[0], [-0.5 * u @ u for u in points], atol=3.0)


def test_several_series_are_refused(rng):
    with pytest.raises(ValueError, match="one series"):
        whitened_model(rng.standard_normal((2, 30, 3)))
