"""What of the parameters is held while the rest is learned, and within what range a period may move."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.parameters import Parameters, canonical
from probsfa.statespace.processes.base import Process, closest_order, closest_signs

__all__ = ["PERIOD_RANGE", "Limits", "canonical_where_free", "imposed"]

#: Factor by which a period may become longer or shorter than the one that it is asked to start from.
PERIOD_RANGE = 1.25
# What a distance of decays counts beside one of loadings in units of the standard deviations of the columns.
_WEIGHT_OF_DECAYS = 0.1


class Limits(NamedTuple):
    """Limits of parameters of the standardised data; NaN where a parameter is free.

    Attributes
    ----------
    decays : ndarray of shape (K,)
        Decays of AR(1) latents that are held.
    loadings : ndarray of shape (D, n_states)
        Loadings that are held; velocities of smooth latents, which none sees, are NaN.
    noise : ndarray of shape (D,)
        Variances of white noise that are held.
    frequencies : ndarray of shape (2, R)
        Lowest and highest frequency of each rhythm, in radians; equal where it is held. Infinite where there
        is no limit.
    rhythms : slice
        Which states are those of rhythms.
    """

    decays: FloatArray
    loadings: FloatArray
    noise: FloatArray
    frequencies: FloatArray
    rhythms: slice

    @property
    def hold(self) -> bool:
        """Whether anything is held."""
        return self.n_held > 0

    @property
    def held_frequencies(self) -> BoolArray:
        """Rhythms (R,) whose frequency is held."""
        return np.asarray(self.frequencies[0] == self.frequencies[1])

    @property
    def n_held(self) -> int:
        """Number of parameters that are held."""
        parts = (~np.isnan(part) for part in (self.decays, self.loadings, self.noise))
        return sum(int(np.count_nonzero(part)) for part in (*parts, self.held_frequencies))

    @property
    def held_phases(self) -> BoolArray:
        """Rhythms (R,) that no turn leaves as they are: loadings are held that are not both states' zeros."""
        n = self.frequencies.shape[1]
        pairs = self.loadings[:, self.rhythms].reshape(len(self.loadings), n, 2)
        silent = np.all(pairs == 0.0, axis=2)
        return np.asarray(np.any(~np.isnan(pairs) & ~silent[:, :, None], axis=(0, 2)))

    def within(self, process: Process) -> FloatArray | None:
        """Limits of the frequencies of a kind of process, where there are some."""
        return self.frequencies if process.sought else None

    @property
    def of_periods(self) -> "Limits":
        """The limits of the frequencies alone."""
        free = [np.full_like(part, np.nan) for part in self[:3]]
        return Limits(free[0], free[1], free[2], *self[3:])


def imposed(params: Parameters, limits: Limits) -> Parameters:
    """The parameters nearest to given ones that keep to limits.

    Latents of each kind take the places, signs and phases in which they are closest to what is held; what
    the loadings lose goes to the noise.

    Parameters
    ----------
    params : Parameters
        Parameters of the standardised data, without memories.
    limits : Limits
        What is held.

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
    """Parameters in the canonical form, as far as nothing that is held is moved.

    Where anything is held, latents stay in the places that they were given. The signs of latents, and the
    phases of rhythms, of which no loading but zeros are held are those of
    :func:`~probsfa.statespace.parameters.canonical`.

    Parameters
    ----------
    params : Parameters
        Parameters with any signs.
    scale : ndarray of shape (D,)
        Standard deviation of each feature.
    limits : Limits or None
        What is held, in any units.
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
