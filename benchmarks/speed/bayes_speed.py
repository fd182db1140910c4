"""Effective samples per second of the marginal model, of a model that samples the latents, of pymc-extras.

T = 200, D = 5, K = 2, the same series, the same priors. The smallest effective sample size over what depends
on no labels and signs (noise, offset, C C', the sorted time scales), divided by seconds. For this package
these are a whole second fit (start, warm-up and draws; compiled programs are reused); for the latent model
its draws alone; for pymc-extras the whole run of the sampler that it is quickest with.

    python benchmarks/speed/bayes_speed.py [--latent-draws 200] [--only marginal|latent|pymc]
"""

import sys
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from probsfa import BayesianSFA
from probsfa.bayes import Priors
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.pymc_peer import D, K, T, invariants, pymc_extras, report


def marginal(X: np.ndarray, n_draws: int) -> float:
    """Fit twice, so that the second fit has compiled programs."""
    model = BayesianSFA(
        K,
        priors=Priors(),
        standardize=False,
        n_warmup=300,
        n_draws=n_draws,
        verbose=False,
        random_state=1,
    )
    model.fit(X)
    began = time.perf_counter()
    model.set_params(random_state=0).fit(X)
    seconds = time.perf_counter() - began
    d = model.draws_
    print("   ", model.status_)
    return report("BayesianSFA (whole fit)", invariants(-1.0 / np.log(d.decay), *d[1:4]), seconds)


def latent_model(X: jnp.ndarray) -> None:
    """The same model with its latents as parameters, row by row: what one writes first in NumPyro."""
    timescale = numpyro.sample("timescale", dist.LogNormal(2.3, 1.5).expand([K]).to_event(1))
    loadings = numpyro.sample("loadings", dist.Normal(0.0, 1.0).expand([D, K]).to_event(2))
    noise = numpyro.sample("noise_std", dist.LogNormal(-1.0, 1.0).expand([D]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0).expand([D]).to_event(1))
    shocks = numpyro.sample("shocks", dist.Normal(0.0, 1.0).expand([len(X), K]).to_event(2))
    decay = jnp.exp(-1.0 / timescale)

    def step(state, shock):
        state = decay * state + jnp.sqrt(1.0 - decay**2) * shock
        return state, state

    _, rest = jax.lax.scan(step, shocks[0], shocks[1:])
    latents = jnp.concatenate([shocks[:1], rest])
    numpyro.sample("x", dist.Normal(offset + latents @ loadings.T, noise), obs=X)


def latent(X: np.ndarray, n_draws: int) -> float:
    """A plain NumPyro model that samples the latents."""
    with jax.enable_x64(True):
        mcmc = MCMC(
            NUTS(latent_model),
            num_warmup=n_draws,
            num_samples=n_draws,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.warmup(jax.random.key(1), jnp.asarray(X))
        began = time.perf_counter()
        mcmc.run(jax.random.key(0), jnp.asarray(X))  # from the tuned state: its warm-up is not counted
        samples = {name: np.asarray(x) for name, x in mcmc.get_samples(group_by_chain=True).items()}
        seconds = time.perf_counter() - began
    draws = invariants(
        samples["timescale"], samples["loadings"], samples["noise_std"] ** 2, samples["offset"]
    )
    return report("NumPyro, latents sampled", draws, seconds)


def main() -> None:
    """Print effective samples per second and their ratios."""
    args = read_options(
        __doc__,
        draws=(1000, "draws of each of our chains"),
        latent_draws=(200, "draws, and warm-up, of the latent model"),
        pymc_draws=200,
        only={"choices": ("marginal", "latent", "pymc")},
    )
    warnings.simplefilter("ignore")
    X = make_slow_mixture(T, D, decay=[0.95, 0.7], noise_variance=0.3, random_state=0).data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rates = {}
    for name, run, n in (
        ("marginal", marginal, args.draws),
        ("latent", latent, args.latent_draws),
        ("pymc", pymc_extras, args.pymc_draws),
    ):
        if args.only in (None, name):
            rates[name] = run(X, n)
    for name in ("latent", "pymc"):
        if rates.get(name) and rates.get("marginal"):
            print(f"marginal over {name}: {rates['marginal'] / rates[name]:.0f} times as many per second")


if __name__ == "__main__":
    main()
