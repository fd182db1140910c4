"""Fixed parameters, and ranges of the periods that are learned."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.parameters import Parameters, canonical
from probsfa.statespace.processes.base import Process, closest_order, closest_signs

__all__ = ["PERIOD_RANGE", "Limits", "canonical_where_free", "imposed"]

#: Largest factor by which a learned period may become longer or shorter than its initial value.
PERIOD_RANGE = 1.25
# Weight of squared distances of decays, relative to those of loadings in standard deviations of the columns.
_WEIGHT_OF_DECAYS = 0.1


class Limits(NamedTuple):
    """Limits of parameters of the standardised data; NaN where a parameter is free.

    Attributes
    ----------
    decays : ndarray of shape (K,)
        Fixed decays of AR(1) factors.
    loadings : ndarray of shape (D, n_states)
        Fixed loadings; NaN for velocities of smooth processes, which do not enter observations.
    noise : ndarray of shape (D,)
        Fixed variances of white noise.
    frequencies : ndarray of shape (2, R)
        Lowest and highest frequency of each stochastic cycle, in radians; equal if fixed, infinite without
        limit.
    rhythms : slice
        States of the stochastic cycles.
    """

    decays: FloatArray
    loadings: FloatArray
    noise: FloatArray
    frequencies: FloatArray
    rhythms: slice

    @property
    def hold(self) -> bool:
        """Whether any parameter is fixed."""
        return self.n_held > 0

    @property
    def held_frequencies(self) -> BoolArray:
        """Stochastic cycles (R,) whose frequency is fixed."""
        return np.asarray(self.frequencies[0] == self.frequencies[1])

    @property
    def n_held(self) -> int:
        """Number of fixed parameters."""
        parts = (~np.isnan(part) for part in (self.decays, self.loadings, self.noise))
        return sum(int(np.count_nonzero(part)) for part in (*parts, self.held_frequencies))

    @property
    def held_phases(self) -> BoolArray:
        """Cycles (R,) whose phase is determined: loadings are fixed, other than at zero for both states."""
        n = self.frequencies.shape[1]
        pairs = self.loadings[:, self.rhythms].reshape(len(self.loadings), n, 2)
        silent = np.all(pairs == 0.0, axis=2)
        return np.asarray(np.any(~np.isnan(pairs) & ~silent[:, :, None], axis=(0, 2)))

    def within(self, process: Process) -> FloatArray | None:
        """Return the limits of the frequencies of a kind of process, or None."""
        return self.frequencies if process.sought else None

    @property
    def of_periods(self) -> "Limits":
        """The limits of the frequencies alone."""
        free = [np.full_like(part, np.nan) for part in self[:3]]
        return Limits(free[0], free[1], free[2], *self[3:])


def imposed(params: Parameters, limits: Limits) -> Parameters:
    """Return the parameters closest to given ones that satisfy limits.

    The order, signs and phases of the latent processes of each kind are those closest to the fixed values.
    Explained variance that is lost by fixing loadings is added to the noise.

    Parameters
    ----------
    params : Parameters
        Parameters of the standardised data, without AR(1) noise.
    limits : Limits
        Fixed parameters and ranges of periods.

    Returns
    -------
    params : Parameters
    """
    before, k, d = np.sum(params.loadings**2, axis=1), params.n_components, params.n_features
    slow, held = params.loadings[:, :k], limits.loadings[:, :k]
    apart = (np.arctanh(limits.decays)[:, None] - np.arctanh(params.decay)) ** 2
    order = closest_order(slow, held, _WEIGHT_OF_DECAYS * np.where(np.isnan(apart), 0.0, apart))
    decay = params.decay[order]
    parts, processes = [slow[:, order] * closest_signs(slow[:, order], held)], []
    for one in params.processes:
        own = limits.loadings[:, params.latents.states[type(one)]].reshape(d, len(one), one.n_states)
        moved, loadings = one.closest(params.loadings_of(one), own, limits.within(one))
        processes.append(moved)
        parts.append(loadings.reshape(d, -1))
    loadings = np.hstack(parts)
    free = np.isnan(limits.loadings)
    loadings = np.where(free, loadings, limits.loadings)
    lost = np.maximum(before - np.sum(loadings**2, axis=1), 0.0)
    noise = params.noise_variance + lost
    return params.replace(
        decay=np.where(np.isnan(limits.decays), decay, limits.decays),
        loadings=loadings,
        noise_variance=np.where(np.isnan(limits.noise), noise, limits.noise),
        processes=tuple(processes),
    )


def canonical_where_free(params: Parameters, scale: FloatArray, limits: Limits | None) -> Parameters:
    """Return parameters in canonical form, as far as that changes no fixed parameter.

    If any parameter is fixed, latent processes keep their order. Signs, and phases of stochastic cycles, are
    those of :func:`~probsfa.statespace.parameters.canonical` for processes whose loadings are free or fixed
    at zero.

    Parameters
    ----------
    params : Parameters
        Parameters with any signs.
    scale : ndarray of shape (D,)
        Standard deviation of each column.
    limits : Limits or None
        Fixed parameters, in any units.
    """
    if limits is None or not limits.hold:
        return canonical(params, scale)
    k, loadings = params.n_components, params.loadings.copy()
    moved = np.any(limits.loadings != 0.0, axis=0, where=~np.isnan(limits.loadings))
    free = np.flatnonzero(~moved[:k])
    loadings[:, free] *= canonical_signs(loadings[:, free], scale)
    for one in params.processes:
        own = params.latents.states[type(one)]
        places = np.arange(own.start, own.stop).reshape(len(one), one.n_states)
        for j in np.flatnonzero(~np.any(moved[places], axis=1)):
            alone, turned = one.chosen([j]).canonical(loadings[:, places[[j]]], scale)
            del alone
            loadings[:, places[j]] = turned[:, 0]
    scales = np.abs(params.memory_scale)
    return params.replace(loadings=loadings, **({"memory_scale": scales} if params.has_memory else {}))
