"""What of the parameters is held while the rest is learned, and within what range a period may move."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from probsfa._typing import BoolArray, FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.parameters import Parameters, canonical

__all__ = ["PERIOD_RANGE", "Limits", "canonical_where_free", "imposed"]

#: Factor by which a period may become longer or shorter than the one that it is asked to start from.
PERIOD_RANGE = 1.25
# Turns of a rhythm that are tried to meet loadings that are held, and what a distance of decays counts
# beside one of loadings in units of the standard deviations of the columns.
_TURNS, _WEIGHT_OF_DECAYS = 72, 0.1


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
    """

    decays: FloatArray
    loadings: FloatArray
    noise: FloatArray
    frequencies: FloatArray

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
        k, n = len(self.decays), self.frequencies.shape[1]
        pairs = self.loadings[:, k : k + 2 * n].reshape(len(self.loadings), n, 2)
        silent = np.all(pairs == 0.0, axis=2)
        return np.asarray(np.any(~np.isnan(pairs) & ~silent[:, :, None], axis=(0, 2)))

    @property
    def of_periods(self) -> "Limits":
        """The limits of the frequencies alone."""
        free = [np.full_like(part, np.nan) for part in self[:3]]
        return Limits(free[0], free[1], free[2], self.frequencies)


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
    latents = params.latents
    loadings, decay = params.loadings.copy(), params.decay
    before = np.sum(loadings**2, axis=1)
    first, last = latents.n_components, latents.n_components + 2 * latents.n_rhythms
    order = _assigned(loadings[:, :first], limits.loadings[:, :first], decay, limits.decays)
    decay = decay[order]
    loadings[:, :first] = _with_signs(loadings[:, :first][:, order], limits.loadings[:, :first])
    for j in range(latents.n_rhythms):
        pair = slice(first + 2 * j, first + 2 * j + 2)
        loadings[:, pair] = _turned(loadings[:, pair], limits.loadings[:, pair])
    values, held = loadings[:, last::2], limits.loadings[:, last::2]
    by_rate = _assigned(values, held)
    loadings[:, last::2] = _with_signs(values[:, by_rate], held)
    free = np.isnan(limits.loadings)
    loadings = np.where(free, loadings, limits.loadings)
    lost = np.maximum(before - np.sum(loadings**2, axis=1), 0.0)
    noise = params.noise_variance + lost
    return params.replace(
        decay=np.where(np.isnan(limits.decays), decay, limits.decays),
        loadings=loadings,
        noise_variance=np.where(np.isnan(limits.noise), noise, limits.noise),
        rhythm_frequency=np.clip(np.abs(params.rhythm_frequency), *limits.frequencies),
        smooth_rate=params.smooth_rate[by_rate],
    )


def _assigned(
    loadings: FloatArray,
    held: FloatArray,
    decay: FloatArray | None = None,
    held_decay: FloatArray | None = None,
) -> FloatArray:
    """Which latent comes to which place (K,), such that what is held is closest."""
    up, down = (
        np.nansum((sign * loadings[:, None, :] - held[:, :, None]) ** 2, axis=0) for sign in (1.0, -1.0)
    )
    cost = np.minimum(up, down)
    if decay is not None and held_decay is not None:
        apart = (np.arctanh(held_decay)[:, None] - np.arctanh(decay)) ** 2
        cost = cost + _WEIGHT_OF_DECAYS * np.where(np.isnan(apart), 0.0, apart)
    return np.asarray(linear_sum_assignment(cost)[1])


def _with_signs(loadings: FloatArray, held: FloatArray) -> FloatArray:
    """Loadings with the signs in which they are closest to those that are held."""
    along = np.nansum(loadings * held, axis=0)
    return loadings * np.where(along < 0.0, -1.0, 1.0)


def _turned(pair: FloatArray, held: FloatArray) -> FloatArray:
    """Loadings (D, 2) of a rhythm, turned to where they are closest to those that are held."""
    angles = 2.0 * np.pi * np.arange(_TURNS) / _TURNS
    vectors = (pair[:, 0] + 1j * pair[:, 1])[:, None] * np.exp(1j * angles)
    away = np.nansum((vectors.real - held[:, :1]) ** 2, axis=0)
    away += np.nansum((vectors.imag - held[:, 1:]) ** 2, axis=0)
    best = vectors[:, np.argmin(away)]
    return np.stack([best.real, best.imag], axis=1)


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
    k, n = params.n_components, len(params.rhythm_decay)
    loadings = params.loadings.copy()
    moved = np.any(limits.loadings != 0.0, axis=0, where=~np.isnan(limits.loadings))
    single = np.r_[np.arange(k), np.arange(k + 2 * n, params.n_states, 2)]
    free = single[~moved[single]]
    loadings[:, free] *= canonical_signs(loadings[:, free], scale)
    for j in np.flatnonzero(~limits.held_phases):
        pair = slice(k + 2 * int(j), k + 2 * int(j) + 2)
        alone = Parameters(
            params.decay[:0],
            loadings[:, pair],
            params.noise_variance,
            params.offset,
            rhythm_decay=params.rhythm_decay[j : j + 1],
            rhythm_frequency=params.rhythm_frequency[j : j + 1],
        )
        loadings[:, pair] = canonical(alone, scale).loadings
    scales = np.abs(params.memory_scale)
    return params.replace(loadings=loadings, **({"memory_scale": scales} if params.has_memory else {}))
