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
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS

from probsfa import BayesianSFA
from probsfa.bayes import Priors
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options

T, D, K = 200, 5, 2


def invariants(timescale, loadings, noise, offset) -> np.ndarray:
    """What has no label and no sign, (chain, draw, P)."""
    product = np.einsum("cndk,cnek->cnde", loadings, loadings)
    rows, columns = np.tril_indices(product.shape[-1])
    parts = [np.sort(np.log(timescale), axis=-1), product[..., rows, columns], noise, offset]
    return np.concatenate(parts, axis=-1)


def report(name: str, draws: np.ndarray, seconds: float) -> float:
    """Print and return the smallest number of effective samples per second."""
    ess = effective_sample_size(draws)
    rhat = split_gelman_rubin(draws).max()
    rate = float(ess.min() / seconds)
    print(
        f"{name:<34} {draws.shape[0]} x {draws.shape[1]} draws, {seconds:7.1f} s, R-hat {rhat:.3f}, "
        f"ESS {ess.min():7.1f} (median {np.median(ess):.0f}), {rate:9.3f} per second",
        flush=True,
    )
    return rate


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


def pymc_extras(X: np.ndarray, n_draws: int) -> float | None:
    """The Kalman filter of pymc-extras in its own fastest mode."""
    try:
        import pymc as pm
        import pytensor.tensor as pt
        from pymc_extras.statespace.core import PyMCStateSpace
    except ImportError as error:
        print(f"pymc-extras: {error}")
        return None

    class Factorial(PyMCStateSpace):
        """Two independent AR(1) latents of unit variance."""

        def __init__(self):
            super().__init__(k_endog=D, k_states=K, k_posdef=K, filter_type="standard", verbose=False)

        def make_symbolic_graph(self):
            decay = self.make_and_register_variable("decay", shape=(K,))
            loadings = self.make_and_register_variable("loadings", shape=(D, K))
            noise = self.make_and_register_variable("noise", shape=(D,))
            offset = self.make_and_register_variable("offset", shape=(D,))
            self.ssm["transition"] = pt.diag(decay)
            self.ssm["selection"] = pt.eye(K)
            self.ssm["state_cov"] = pt.diag(1.0 - decay**2)
            self.ssm["design"] = loadings
            self.ssm["obs_cov"] = pt.diag(noise)
            self.ssm["obs_intercept"] = offset
            self.ssm["initial_state"] = pt.zeros(K)
            self.ssm["initial_state_cov"] = pt.eye(K)

        @property
        def param_names(self):
            return ["decay", "loadings", "noise", "offset"]

        @property
        def state_names(self):
            return [f"z{k}" for k in range(K)]

        @property
        def shock_names(self):
            return [f"e{k}" for k in range(K)]

        @property
        def observed_states(self):
            return [f"x{d}" for d in range(D)]

        @property
        def param_info(self):
            return {
                "decay": {"shape": (K,), "dims": None, "constraints": None},
                "loadings": {"shape": (D, K), "dims": None, "constraints": None},
                "noise": {"shape": (D,), "dims": None, "constraints": None},
                "offset": {"shape": (D,), "dims": None, "constraints": None},
            }

    rates = []
    for mode, sampler in (("JAX", "numpyro"), (None, "pymc")):
        try:
            space = Factorial()
            with pm.Model() as model:
                timescale = pm.LogNormal("timescale", 2.3, 1.5, shape=K)
                pm.Deterministic("decay", pt.exp(-1.0 / timescale))
                pm.Normal("loadings", 0.0, 1.0, shape=(D, K))
                std = pm.LogNormal("noise_std", -1.0, 1.0, shape=D)
                pm.Deterministic("noise", std**2)
                pm.Normal("offset", 0.0, 1.0, shape=D)
                space.build_statespace_graph(X, mode=mode)
            with model:
                began = time.perf_counter()
                trace = pm.sample(
                    draws=n_draws,
                    tune=n_draws,
                    chains=2,
                    cores=2,
                    nuts_sampler=sampler,
                    progressbar=False,
                    random_seed=0,
                    compute_convergence_checks=False,
                )
                seconds = time.perf_counter() - began
            post = trace.posterior
            draws = invariants(*(post[n].to_numpy() for n in ("timescale", "loadings", "noise", "offset")))
            rates.append(report(f"pymc-extras ({sampler}, whole run)", draws, seconds))
        except Exception as error:  # a peer's failure is a result too
            print(f"pymc-extras ({sampler}): {type(error).__name__}: {str(error)[:200]}", flush=True)
    return max(rates, default=None)


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
