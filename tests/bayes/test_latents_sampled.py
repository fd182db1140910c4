"""The model with factors integrated out has the same posterior as a model that samples them."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

from probsfa.bayes import factorial_ar1_model
from probsfa.datasets import make_slow_mixture


def with_factors(X, mask):
    """The model by its definition, row by row, with sampled factors and the default priors."""
    timescale = numpyro.sample("timescale", dist.LogNormal(2.3, 1.5).expand([1]).to_event(1))
    loadings = numpyro.sample("loadings", dist.Normal(0.0, 1.0).expand([2, 1]).to_event(2))
    noise = numpyro.sample("noise_std", dist.LogNormal(-1.0, 1.0).expand([2]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0).expand([2]).to_event(1))
    a = jnp.exp(-1.0 / timescale)
    shocks = numpyro.sample("shocks", dist.Normal(0.0, 1.0).expand([len(X), 1]).to_event(2))
    rows = [shocks[0]]
    for t in range(1, len(X)):
        rows.append(a * rows[-1] + jnp.sqrt(1.0 - a**2) * shocks[t])
    signal = offset + jnp.stack(rows) @ loadings.T
    numpyro.sample("x", dist.Normal(signal, noise).mask(mask), obs=X)


def draws(model, *args):
    mcmc = MCMC(
        NUTS(model, target_accept_prob=0.95),
        num_warmup=500,
        num_samples=1500,
        num_chains=2,
        chain_method="vectorized",
        progress_bar=False,
    )
    mcmc.run(jax.random.key(0), *args)
    samples = {k: np.asarray(v) for k, v in mcmc.get_samples(group_by_chain=True).items()}
    c = samples["loadings"][..., 0]
    own = [np.log(samples["timescale"]), np.log(samples["noise_std"]), samples["offset"], np.abs(c)]
    return np.concatenate([*own, (c[..., :1] * c[..., 1:])], axis=-1)


@pytest.mark.exhaustive
def test_posteriors_agree():
    X = make_slow_mixture(10, 2, decay=[0.8], noise_variance=0.3, random_state=1).data
    mask = np.ones(X.shape, bool)
    mask[3, 0] = mask[7] = False
    with jax.enable_x64(True):
        marginal = draws(factorial_ar1_model, np.where(mask, X, np.nan), 1)
        latent = draws(with_factors, np.where(mask, X, 0.0), mask)
    for power in (1, 2):  # means, and mean squares
        one, other = marginal**power, latent**power
        error = sum(x.reshape(-1, x.shape[-1]).var(0) / effective_sample_size(x) for x in (one, other))
        gap = np.abs(one.mean((0, 1)) - other.mean((0, 1)))
        assert np.all(gap < 5.0 * np.sqrt(error))
