"""The NumPyro model with cycles, smooth factors, trends and AR(1) noise; states are integrated out.

It is the model of :class:`probsfa.statespace.StateSpace`. AR(1) factors, the processes of
:mod:`probsfa.statespace.processes` and the AR(1) noise of each column are blocks of one linear Gaussian
state-space model, whose likelihood is exact with missing values.
"""

from typing import Any

import jax.numpy as jnp
import numpyro
from jax import Array

from probsfa.bayes.draws import StructuralDraws
from probsfa.bayes.kinds import SITES, Kinds
from probsfa.bayes.model import OBSERVATIONS, NoiseModel, Series, sample_effects, sample_noise_variance
from probsfa.bayes.priors import Priors, expand_prior
from probsfa.bayes.tracing import kernel_hints_outside_loops
from probsfa.statespace.engine.dynamics import Transition, block_transitions
from probsfa.statespace.engine.likelihood import block_log_likelihood
from probsfa.statespace.engine.settings import broadcasting


def structural_model(
    series: Series, n_components: int, kinds: Kinds, priors: Priors, noise: NoiseModel
) -> StructuralDraws:
    """NumPyro model of a series with several kinds of processes.

    Sites: those of :func:`probsfa.bayes.factorial_ar1_model`; those of the processes
    (:data:`probsfa.bayes.kinds.SITES`); ``ar_noise_timescale`` and ``ar_noise_std`` (D,) of AR(1) noise.

    Parameters
    ----------
    series : Series
        The observations.
    n_components : int
        Number of AR(1) factors, ``K``.
    kinds : Kinds
        The other processes.
    priors : Priors
        Priors of all sites.
    noise : NoiseModel
        White noise.

    Returns
    -------
    StructuralDraws
        The parameters.
    """
    d = series.values.shape[-1]

    def positive(name: str, prior: Any, size: int) -> Any:
        if not size:
            return jnp.ones(0)
        return numpyro.sample(name, expand_prior(name, prior, (size,)))

    timescale = positive("timescale", priors.timescale, n_components)
    loadings = [numpyro.sample("loadings", priors.of_loadings(d, n_components))]
    arrays: dict[str, Any] = {}
    diffuse: Any = 0.0
    for kind, count in kinds.others.counts.items():
        sites = SITES[kind]
        process = sites.make(
            *(positive(site, getattr(priors, field), count) for site, field in sites.priors.items())
        )
        arrays |= process.arrays()
        shape = (d, count * len(kind.loaded_states))
        prior = expand_prior(sites.loadings, sites.prior_of_loadings(priors), shape)
        value = numpyro.sample(sites.loadings, prior)
        loadings.append(sites.loadings_of(kind, value))
        if not kind.stationary:
            diffuse += 0.5 * kind.n_states * jnp.sum(jnp.log(jnp.sum(value**2, axis=0)))
    if kinds.ar_noise:
        arrays["noise_decay"] = jnp.exp(-1.0 / positive("ar_noise_timescale", priors.ar_noise_timescale, d))
        arrays["noise_scale"] = positive("ar_noise_std", priors.ar_noise_std, d)
    variance = sample_noise_variance(priors, noise)
    offset = numpyro.sample("offset", expand_prior("offset", priors.offset, (d,)))
    if series.exog is not None:
        series = series._replace(values=series.values - sample_effects(priors, series))
    decay = jnp.exp(-1.0 / timescale)
    params = StructuralDraws(decay, jnp.concatenate(loadings, axis=1), variance, offset, **arrays)
    # The initial level of a trend has a normal prior whose width is proportional to the size of the steps.
    # Its density near the data is inversely proportional to this size, which would favour small steps.
    # `diffuse` cancels the dependence: the prior is flat in units of the data.
    numpyro.factor(OBSERVATIONS, log_likelihood(params, series) + diffuse)
    return params


def log_likelihood(params: StructuralDraws, series: Series) -> Array:
    """Return the log-likelihood of a series (T, D) in nats, differentiable in the parameters."""
    k, n = params.decay.shape[-1], params.noise_decay.shape[-1]
    scalar_decays = jnp.concatenate([params.decay, params.noise_decay])
    loadings = jnp.concatenate(
        [params.loadings[:, :k], *([jnp.diag(params.noise_scale)] if n else []), params.loadings[:, k:]],
        axis=1,
    )
    transitions = _transitions(scalar_decays, params, jnp.asarray(series.gaps))
    mask = jnp.asarray(series.mask)
    values = jnp.where(mask, series.values, 0.0)
    with kernel_hints_outside_loops():
        return block_log_likelihood(
            transitions,
            loadings,
            params.noise_variance,
            params.offset,
            values,
            mask.astype(values.dtype),
            jnp.asarray(series.gap_index),
        )


@broadcasting()
def _transitions(scalar_decays: Array, params: StructuralDraws, gaps: Array) -> Transition:
    """Return the transitions over each of the gaps (U,)."""
    processes = [
        kind(**dict(zip(kind.names, params.of_kind(kind), strict=True)))
        for kind in params.other_processes.counts
    ]
    return Transition(scalar_decays ** gaps[:, None], block_transitions(processes, gaps))
