"""Sites of the processes other than AR(1) factors: which parameters are sampled, with which priors.

A new kind of :mod:`probsfa.statespace.processes` needs an entry of :data:`SITES` here, and its priors in
:class:`probsfa.bayes.Priors`.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

from probsfa._times import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa.bayes.priors import Priors
from probsfa.statespace.parameters import StateLayout
from probsfa.statespace.processes import KINDS, Process
from probsfa.statespace.processes.matern import Matern32, Matern52
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.processes.trend import LocalLevel, LocalLinearTrend

__all__ = ["SITES", "KindSites", "Kinds", "site_values"]

#: Standard deviation of the loadings of each state of a cycle; the variances of both states sum to one.
CYCLE_LOADING = 0.5**0.5
# Limits of the decays of a start: time scales from a fifth of a step to a hundred thousand steps.
MIN_DECAY, MAX_DECAY = float(np.exp(-5.0)), float(np.exp(-1e-5))


class Kinds(NamedTuple):
    """Processes of a model other than AR(1) factors.

    Attributes
    ----------
    others : StateLayout
        Number of processes of each kind, except AR(1) factors.
    ar_noise : bool
        Whether each column has AR(1) noise.
    """

    others: StateLayout
    ar_noise: bool = False


class KindSites(NamedTuple):
    """Sites of one kind of process, and conversions between their values and the parameters.

    Attributes
    ----------
    priors : mapping of str to str
        The keys are sites with one positive number for each process. The values are the fields of
        :class:`.Priors` with the priors of these numbers.
    loadings : str
        Site of the loadings (D, number of states with loadings).
    prior_of_loadings : callable
        Returns the prior of one loading from a :class:`.Priors`. The prior for cycles is normal, because only
        normal priors are independent of the phase.
    unit : float
        Loading of a state divided by the value of the site; one, except for trends. The site of a trend is
        the standard deviation of a step, but its loading is the standard deviation at the start of a series,
        which is many times as large.
    make : callable
        Returns the processes from the values of the sites, in the order of `priors`.
    values : callable
        The inverse of `make`: returns the values of the sites from the arrays of the processes.
    times : tuple of str
        Sites whose values are times.
    dimension : str
        Dimension of the sites in results for ArviZ.
    """

    priors: Mapping[str, str]
    loadings: str
    prior_of_loadings: Callable[[Priors], dist.Distribution]
    unit: float
    make: Callable[..., Process]
    values: Callable[..., tuple[Any, ...]]
    times: tuple[str, ...]
    dimension: str

    def loadings_of(self, kind: type[Process], site: Any) -> Any:
        """Return the loadings (D, N B) of N processes with B states from values (D, N S) of the site.

        Only S of the B states have loadings; the loadings of the others are zero.
        """
        d, observed = site.shape[0], len(kind.loaded_states)
        blocks = self.unit * site.reshape(d, -1, observed)
        zeros = jnp.zeros((d, blocks.shape[1], 1), blocks.dtype)
        states = [
            blocks[:, :, [kind.loaded_states.index(i)]] if i in kind.loaded_states else zeros
            for i in range(kind.n_states)
        ]
        return jnp.concatenate(states, axis=2).reshape(d, -1)

    def site_of(self, kind: type[Process], loadings: FloatArray) -> FloatArray:
        """Return values (..., D, N S) of the site from loadings (..., D, N B); see :meth:`loadings_of`."""
        blocks = loadings.reshape(*loadings.shape[:-1], -1, kind.n_states)[..., list(kind.loaded_states)]
        return blocks.reshape(*loadings.shape[:-1], -1) / self.unit


def _decay(timescale: Any) -> Any:
    return jnp.exp(-1.0 / timescale)


def _smooth(kind: type[Matern32]) -> KindSites:
    return KindSites(
        {"smooth_timescale": "smooth_timescale"},
        "smooth_loadings",
        lambda priors: dist.Normal(0.0, 1.0),  # noqa: ARG005
        1.0,
        lambda timescale: kind(kind.unit / timescale),
        lambda rate: (kind.unit / rate,),
        ("smooth_timescale",),
        "smooth",
    )


#: Sites of each kind.
SITES: dict[type[Process], KindSites] = {
    Rhythm: KindSites(
        {"period": "cycle_period", "cycle_timescale": "cycle_timescale"},
        "cycle_loadings",
        lambda priors: dist.Normal(0.0, CYCLE_LOADING),  # noqa: ARG005
        1.0,
        lambda period, timescale: Rhythm(_decay(timescale), 2.0 * jnp.pi / period),
        lambda decay, frequency: (
            2.0 * np.pi / np.abs(frequency),
            timescales_from_decay(np.clip(decay, MIN_DECAY, MAX_DECAY)),
        ),
        ("period", "cycle_timescale"),
        "cycle",
    ),
    Matern32: _smooth(Matern32),
    Matern52: _smooth(Matern52),
    LocalLevel: KindSites(
        {},
        "level_steps",
        lambda priors: priors.level_steps,
        LocalLevel.initial_std,
        lambda: LocalLevel.arbitrary(1),
        lambda start: (),
        (),
        "trend",
    ),
    LocalLinearTrend: KindSites(
        {"level_ratio": "level_ratio"},
        "slope_steps",
        lambda priors: priors.slope_steps,
        LocalLinearTrend.initial_std,
        LocalLinearTrend,
        lambda ratio: (ratio,),
        (),
        "trend",
    ),
}


def site_values(arrays: Mapping[str, Any], loadings: FloatArray, first_state: int) -> dict[str, Any]:
    """Return the values of the sites of all kinds, from arrays of parameters and loadings (..., D, S).

    `first_state` is the index of the first state of a process other than AR(1) factors.
    """
    values: dict[str, Any] = {}
    for kind in KINDS:
        kind_arrays = [arrays[name] for name in kind.names.values() if name in arrays]
        if not kind_arrays or not kind_arrays[0].shape[-1]:
            continue
        sites, end = SITES[kind], first_state + kind.n_states * kind_arrays[0].shape[-1]
        values |= dict(zip(sites.priors, sites.values(*kind_arrays), strict=True))
        values[sites.loadings] = sites.site_of(kind, loadings[..., first_state:end])
        first_state = end
    return values
