"""Effective samples per second of BayesianSFA, pymc-extras, dynamax with blackjax, and sampled factors.

All methods have the same series and priors: T = 200, D = 5, K = 2, or with ``--large`` T = 2,000, D = 20,
K = 6. They start at the posterior mean of BayesianSFA, except the model with sampled factors. Seconds are
processor time of whole runs, including compilation, warm-up and the starting point of BayesianSFA. The
effective sample size is the smallest over quantities that depend on neither labels nor signs: noise, offset,
C C' and the sorted time scales. pymc-extras uses numba and the sampler of PyMC; dynamax uses full noise
covariances, which are faster than diagonal ones, and NUTS of blackjax with a dense mass matrix. Both run two
chains with the filter whose gradient is faster, and few draws; with ``--large`` they draw only on request,
and the table has the time of their gradients.

    python benchmarks/speed/bayes_speed.py [--large] [--draws 1000] [--peer-draws 200]
"""

import sys
import time
import warnings
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS

from probsfa import BayesianSFA
from probsfa.bayes import FactorialAR1, Priors
from probsfa.bayes.convergence import bulk_ess, rank_normalized_rhat
from probsfa.datasets import make_slow_mixture

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # programs share benchmarks/common

from common.options import read_options
from common.sampler_peers import Run, dynamax_blackjax, milliseconds, pymc_extras, start_vector
from common.tables import Table

SMALL, LARGE = (200, 5, [0.95, 0.7]), (2000, 20, [0.98, 0.95, 0.9, 0.8, 0.65, 0.4])


def marginal(X: np.ndarray, k: int, warmup: int, draws: int) -> Run:
    """Sample with BayesianSFA in four chains, and measure the gradient of its likelihood."""
    began = time.process_time()
    model = BayesianSFA(
        k,
        priors=Priors(),
        standardize=False,
        n_warmup=warmup,
        n_draws=draws,
        verbose=False,
        random_state=0,
    ).fit(X)
    seconds = time.process_time() - began
    d = model.draws_
    found = dict(
        timescale=-1.0 / np.log(d.decay), loadings=d.loadings, noise=d.noise_variance, offset=d.offset
    )
    with jax.enable_x64(True):
        rows = jnp.asarray(X)
        slope = jax.jit(
            jax.value_and_grad(lambda parameters: FactorialAR1(*parameters, n_steps=len(X)).log_prob(rows))
        )
        point = tuple(jnp.asarray(part[0, -1]) for part in d[:4])
        gradient = milliseconds(lambda: jax.block_until_ready(slope(point)))
    return Run(found, gradient, float(model.sample_stats_["n_steps"].mean()), seconds)


def latent_model(X: jnp.ndarray, k: int) -> None:
    """The same model in NumPyro with factors as parameters, written row by row."""
    d = X.shape[1]
    timescale = numpyro.sample("timescale", dist.LogNormal(2.3, 1.5).expand([k]).to_event(1))
    loadings = numpyro.sample("loadings", dist.Normal(0.0, 1.0).expand([d, k]).to_event(2))
    noise = numpyro.sample("noise_std", dist.LogNormal(-1.0, 1.0).expand([d]).to_event(1))
    offset = numpyro.sample("offset", dist.Normal(0.0, 1.0).expand([d]).to_event(1))
    shocks = numpyro.sample("shocks", dist.Normal(0.0, 1.0).expand([len(X), k]).to_event(2))
    decay = jnp.exp(-1.0 / timescale)

    def step(state, shock):
        state = decay * state + jnp.sqrt(1.0 - decay**2) * shock
        return state, state

    _, rest = jax.lax.scan(step, shocks[0], shocks[1:])
    latents = jnp.concatenate([shocks[:1], rest])
    numpyro.sample("x", dist.Normal(offset + latents @ loadings.T, noise), obs=X)


def latent(X: np.ndarray, k: int, draws: int) -> Run:
    """Sample the factors and parameters of the NumPyro model."""
    with jax.enable_x64(True):
        mcmc = MCMC(
            NUTS(latent_model),
            num_warmup=draws,
            num_samples=draws,
            num_chains=2,
            chain_method="sequential",
            progress_bar=False,
        )
        began = time.process_time()
        mcmc.run(jax.random.key(0), jnp.asarray(X), k, extra_fields=("num_steps",))
        found = {name: np.asarray(x) for name, x in mcmc.get_samples(group_by_chain=True).items()}
        seconds = time.process_time() - began
        n_steps = float(np.mean(mcmc.get_extra_fields()["num_steps"]))
    return Run(found | {"noise": found["noise_std"] ** 2}, np.nan, n_steps, seconds)


def invariants(draws: dict[str, np.ndarray]) -> np.ndarray:
    """Return quantities (C, N, P) that depend on neither labels nor signs."""
    product = np.einsum("cndk,cnek->cnde", draws["loadings"], draws["loadings"])
    rows, columns = np.tril_indices(product.shape[-1])
    timescale = np.sort(np.log(draws["timescale"]), axis=-1)
    return np.concatenate([timescale, product[..., rows, columns], draws["noise"], draws["offset"]], axis=-1)


def main() -> None:
    """Print a row for each method."""
    args = read_options(
        __doc__,
        large=(False, "T = 2,000, D = 20, K = 6"),
        warmup=(300, "warm-up iterations"),
        draws=(1000, "draws of each of our four chains"),
        peer_draws=(0, "warm-up iterations and draws of each chain of the peers; 0: 200, or none if large"),
        only={"choices": ("marginal", "latent", "dynamax", "pymc"), "help": "one method beside ours"},
    )
    warnings.simplefilter("ignore")
    n_rows, d, decay = LARGE if args.large else SMALL
    k, n = len(decay), args.peer_draws or (0 if args.large else 200)
    X = make_slow_mixture(n_rows, d, decay=decay, noise_variance=0.3, random_state=0).data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    ours = marginal(X, k, args.warmup, args.draws)
    start = {name: np.mean(part, axis=(0, 1)) for name, part in ours.draws.items()}
    vector = start_vector(start)
    peers = {
        "pymc": {
            f"pymc-extras, {kind} filter": partial(pymc_extras, X, k, start, filter_type=kind)
            for kind in ("convergent", "standard")
        },
        "dynamax": {
            f"dynamax, {name} filter": partial(dynamax_blackjax, X, k, vector, parallel=name == "parallel")
            for name in ("sequential", "parallel")
        },
    }
    table = Table(
        "sampler", "gradient, ms", "draws", "steps of a draw", "CPU s", "R-hat", "smallest ESS", "ESS per s"
    )
    report(table, "BayesianSFA", ours)
    for name, variants in peers.items():
        gradients = {}
        for label, run in variants.items() if args.only in (None, name) else ():
            try:
                gradients[label] = run(warmup=0, draws=0)
            except Exception as error:  # failures of other packages are reported
                print(f"{label}: {type(error).__name__}: {str(error)[:200]}", flush=True)
        quickest = min(gradients, key=lambda label: gradients[label].gradient, default=None)
        for label, gradient in gradients.items():
            sampled = n and label == quickest
            report(table, label, variants[label](warmup=n, draws=n) if sampled else gradient)
    if n and args.only in (None, "latent"):
        report(table, "NumPyro, factors sampled", latent(X, k, n))


def report(table: Table, label: str, run: Run) -> None:
    """Print the row of a run."""
    gradient = "" if np.isnan(run.gradient) else f"{run.gradient:.3g}"
    if not run.draws:
        table.add(label, gradient)
        return
    draws = invariants(run.draws)
    ess = float(bulk_ess(draws).min())
    table.add(
        label,
        gradient,
        f"{draws.shape[0]} x {draws.shape[1]:,}",
        f"{run.n_steps:.1f}",
        f"{run.seconds:.1f}",
        f"{rank_normalized_rhat(draws).max():.3f}",
        f"{ess:,.0f}",
        f"{ess / run.seconds:.3g}",
    )


if __name__ == "__main__":
    main()
