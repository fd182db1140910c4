"""The NumPyro model with stochastic cycles, smooth factors and AR(1) noise, its states integrated out.

It is the model of :class:`probsfa.statespace.Parameters`. AR(1) factors, cycles (damped oscillators of two
states), smooth factors (Matern-3/2 processes of two states) and the AR(1) noise of each column are blocks of
one linear Gaussian state-space model, whose likelihood is exact with missing values.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
from jax import Array

from probsfa.bayes.draws import StructuralDraws
from probsfa.bayes.model import OBSERVATIONS, NoiseModel, Series, sample_noise_variance
from probsfa.bayes.priors import Priors, expand_prior
from probsfa.bayes.tracing import kernel_hints_outside_loops
from probsfa.statespace.engine.dynamics import Group, Transition
from probsfa.statespace.engine.likelihood import block_log_likelihood
from probsfa.statespace.engine.settings import broadcasting

#: Standard deviation of the loadings of each state of a cycle: a cycle has two, with unit variance together.
CYCLE_LOADING = 0.5**0.5
# Number of terms in the series of the incomplete gamma function below one: the next is 1e-17 of the first.
_TERMS = 16


class Kinds(NamedTuple):
    """Processes of a model in addition to AR(1) factors.

    Attributes
    ----------
    n_cycles, n_smooth : int
        Numbers of stochastic cycles and of smooth factors.
    ar_noise : bool
        Whether each column has AR(1) noise.
    """

    n_cycles: int = 0
    n_smooth: int = 0
    ar_noise: bool = False


def structural_model(
    series: Series,
    n_components: int,
    kinds: Kinds,
    priors: Priors,
    noise: NoiseModel,
) -> StructuralDraws:
    """NumPyro model of a series with several kinds of processes.

    Sites: those of :func:`probsfa.bayes.factorial_ar1_model`; ``period``, ``cycle_timescale`` (R,) and
    ``cycle_loadings`` (D, 2 R) of cycles; ``smooth_timescale`` (M,) and ``smooth_loadings`` (D, M) of smooth
    factors; ``ar_noise_timescale`` and ``ar_noise_std`` (D,) of AR(1) noise.

    Parameters
    ----------
    series : Series
        Packed observations of one panel.
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
    d, r, m = series.values.shape[-1], kinds.n_cycles, kinds.n_smooth

    def positive(name: str, prior: Any, size: int) -> Any:
        if not size:
            return jnp.ones(0)
        return numpyro.sample(name, expand_prior(name, prior, (size,)))

    def normal(name: str, scale: float, size: int) -> Any:
        if not size:
            return jnp.zeros((d, 0))
        return numpyro.sample(name, dist.Normal(0.0, scale).expand((d, size)).to_event(2))

    timescale = positive("timescale", priors.timescale, n_components)
    loadings = numpyro.sample("loadings", priors.of_loadings(d, n_components))
    period = positive("period", priors.cycle_period, r)
    cycle_timescale = positive("cycle_timescale", priors.cycle_timescale, r)
    cycle_loadings = normal("cycle_loadings", CYCLE_LOADING, 2 * r)
    smooth_timescale = positive("smooth_timescale", priors.smooth_timescale, m)
    smooth_loadings = normal("smooth_loadings", 1.0, m)
    own = d if kinds.ar_noise else 0
    ar_timescale = positive("ar_noise_timescale", priors.ar_noise_timescale, own)
    ar_std = positive("ar_noise_std", priors.ar_noise_std, own)
    variance = sample_noise_variance(priors, noise)
    offset = numpyro.sample("offset", expand_prior("offset", priors.offset, (d,)))
    # The second state of a smooth factor has no loadings.
    seen = jnp.stack([smooth_loadings, jnp.zeros_like(smooth_loadings)], axis=-1).reshape(d, 2 * m)
    params = StructuralDraws(
        jnp.exp(-1.0 / timescale),
        jnp.concatenate([loadings, cycle_loadings, seen], axis=1),
        variance,
        offset,
        jnp.exp(-1.0 / cycle_timescale),
        2.0 * jnp.pi / period,
        jnp.sqrt(3.0) / smooth_timescale,
        jnp.exp(-1.0 / ar_timescale) if own else jnp.zeros(0),
        ar_std if own else jnp.zeros(0),
    )
    numpyro.factor(OBSERVATIONS, log_likelihood(params, series))
    return params


def log_likelihood(params: StructuralDraws, series: Series) -> Array:
    """Return the log-likelihood of a series (T, D), in nats, a differentiable function of the parameters."""
    k, n = params.decay.shape[-1], params.memory_decay.shape[-1]
    alone = jnp.concatenate([params.decay, params.memory_decay])
    loadings = jnp.concatenate(
        [params.loadings[:, :k], *([jnp.diag(params.memory_scale)] if n else []), params.loadings[:, k:]],
        axis=1,
    )
    over = _transitions(alone, params, jnp.asarray(series.gaps))
    mask = jnp.asarray(series.mask)
    values = jnp.where(mask, series.values, 0.0)
    with kernel_hints_outside_loops():
        return block_log_likelihood(
            over,
            loadings,
            params.noise_variance,
            params.offset,
            values,
            mask.astype(values.dtype),
            jnp.asarray(series.gap_index),
        )


@broadcasting()
def _transitions(alone: Array, params: StructuralDraws, gaps: Array) -> Transition:
    """Return transitions over gaps (U,); see :func:`probsfa.statespace.engine.dynamics.transition_over`."""
    elapsed = gaps[:, None]
    decays = alone**elapsed
    if not params.rhythm_decay.shape[-1] + params.smooth_rate.shape[-1]:
        return Transition(decays)
    size, angle = params.rhythm_decay**elapsed, params.rhythm_frequency * elapsed
    c, s = size * jnp.cos(angle), size * jnp.sin(angle)
    spread = -jnp.expm1(2.0 * elapsed * jnp.log(params.rhythm_decay))
    zero = jnp.zeros_like(spread)
    d = params.smooth_rate * elapsed
    a = jnp.exp(-d)
    cross = 2.0 * (a * d) ** 2
    velocity = -jnp.expm1(-2.0 * d) + 2.0 * a**2 * d * (1.0 - d)

    def blocks(cycles: tuple[Array, ...], smooth: tuple[Array, ...]) -> Array:
        """Return matrices (U, P, 2, 2) from their entries, row by row."""
        both = jnp.concatenate([jnp.stack(one, axis=-1) for one in (cycles, smooth)], axis=1)
        return both.reshape(*both.shape[:2], 2, 2)

    matrix = blocks((c, -s, s, c), (a * (1.0 + d), a * d, -a * d, a * (1.0 - d)))
    innovation = blocks((spread, zero, zero, spread), (_gammainc_3(2.0 * d), cross, cross, velocity))
    return Transition(decays, (Group(matrix, innovation),))


def _gammainc_3(x: Array) -> Array:
    """``1 - exp(-x) (1 + x + x^2 / 2)``, without cancellation for small ``x``."""
    small = jnp.where(x < 1.0, x, 0.5)
    total, term = jnp.zeros_like(x), small**3 / 6.0
    for i in range(_TERMS):
        total, term = total + term, term * small / (4.0 + i)
    large = jnp.where(x < 1.0, 1.0, x)
    return jnp.where(x < 1.0, total * jnp.exp(-small), 1.0 - jnp.exp(-large) * (1.0 + large + 0.5 * large**2))
