"""Models in the coordinates of the sampler have the density of the original model."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.infer import MCMC, NUTS
from numpyro.infer.util import log_density

from probsfa.bayes import FactorialAR1Reparam, Priors, factorial_ar1_model
from probsfa.bayes.reparam import COORDINATES
from probsfa.datasets import make_slow_mixture
from tests.sampling import parametrize


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def X():
    """Forty rows of two columns with missing values."""
    values = np.array(make_slow_mixture(40, 2, decay=[0.9], noise_variance=0.3, random_state=0).data)
    values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    return values


def difference_of_densities(coordinates, model, X, extra, rng, **options):
    """Return the log density in the coordinates minus that of the model and the log |det| of the Jacobian."""
    u = rng.standard_normal(len(coordinates._laplace.centre))
    reparametrized = coordinates.reparam(model)

    def values(u):
        run = numpyro.handlers.substitute(reparametrized, {COORDINATES: u, **extra})
        trace = numpyro.handlers.trace(run).get_trace(X, **options)
        return {name: trace[name]["value"] for name in coordinates._target.sites}

    def vector(u):
        return jnp.concatenate([x.ravel() for x in values(u).values()])

    @jax.jit
    def difference(u):
        density = log_density(reparametrized, (X,), options, {COORDINATES: u, **extra})[0]
        density_of_model = log_density(model, (X,), options, {**values(u), **extra})[0]
        return density - density_of_model - jnp.linalg.slogdet(jax.jacfwd(vector)(u))[1]

    return float(difference(u))


@parametrize(
    "options",
    [
        {},
        {"noise": "isotropic"},
        {"noise": np.array([0.3, 0.2])},
        {"priors": Priors(noise_variance=dist.InverseGamma(2.0, 0.5))},
        {"priors": Priors(noise_std=dist.HalfNormal(1.0), offset=dist.Uniform(-3.0, 3.0))},
        {"priors": Priors(loadings=dist.HalfNormal(1.0)), "n_components": 1},
    ],
)
def test_density_is_that_of_the_model_times_the_jacobian_determinant(X, rng, options):
    coordinates = FactorialAR1Reparam(X, **options)
    difference = difference_of_densities(coordinates, factorial_ar1_model, X, {}, rng, **options)
    assert abs(difference) < 1e-8


def extended_model(X):
    """Priors other than those of the coordinates, which distinguish the factors, and a further site."""
    priors = Priors(timescale=dist.LogNormal(jnp.array([3.0, 1.0]), 0.5), loadings=dist.StudentT(3.0))
    factorial_ar1_model(X, 2, priors)
    slope = numpyro.sample("slope", dist.Normal(0.0, 1.0))
    numpyro.sample("measured", dist.Normal(slope, 0.1), obs=2.0)


def test_extended_models_keep_their_own_priors_and_sites(X, rng):
    coordinates = FactorialAR1Reparam(X)
    assert abs(difference_of_densities(coordinates, extended_model, X, {"slope": 0.7}, rng)) < 1e-8


def test_hierarchical_models(X, rng):
    both = np.stack([X, X[::-1]])
    coordinates = FactorialAR1Reparam(both, 1)
    difference = difference_of_densities(coordinates, factorial_ar1_model, both, {}, rng, n_components=1)
    assert abs(difference) < 1e-8


def run(model, X, **options):
    return numpyro.handlers.seed(model, 0)(X, **options)


def test_models_with_other_sites_are_errors(X):
    coordinates = FactorialAR1Reparam(X, 1)
    model = coordinates.reparam(factorial_ar1_model)
    with pytest.raises(ValueError, match="shape"):
        run(model, X, n_components=2)
    with pytest.raises(ValueError, match="lacks the sites noise_std"):
        run(model, X, n_components=1, noise=np.ones(2))
    fixed = numpyro.handlers.condition(factorial_ar1_model, {"offset": np.zeros(2)})
    with pytest.raises(ValueError, match="offset is observed"):
        run(coordinates.reparam(fixed), X, n_components=1)
    assert run(model, X, n_components=1).shape == X.shape  # also after errors


def test_single_precision_is_an_error(X):
    model = FactorialAR1Reparam(X, 1).reparam(factorial_ar1_model)
    with jax.enable_x64(False), pytest.raises(ValueError, match="double precision"):
        run(model, X, n_components=1)


@pytest.mark.exhaustive
def test_plain_nuts_has_the_same_posterior(X):
    coordinates = FactorialAR1Reparam(X, 1, Priors(loadings=dist.HalfNormal(1.0)))

    def model(X):
        factorial_ar1_model(X, 1, Priors(loadings=dist.HalfNormal(1.0)))

    draws = []
    for one in (model, coordinates.reparam(model)):
        mcmc = MCMC(NUTS(one), num_warmup=500, num_samples=4000, progress_bar=False)
        mcmc.run(jax.random.key(1), X)
        draws.append(mcmc.get_samples())
    for name in ("timescale", "loadings", "noise_std", "offset"):
        first, second = (np.asarray(x[name]) if name == "offset" else np.log(x[name]) for x in draws)
        for quantile in (0.1, 0.5, 0.9):
            below = np.mean(second < np.quantile(first, quantile, axis=0), axis=0)
            np.testing.assert_allclose(below, quantile, atol=0.05)
