"""Free coordinates of the parameters, in which optimizers take their steps.

dynamics         atanh a            (evenly sampled: a in (-1, 1))
                 log(-log a)        (unevenly sampled: a in (0, 1), the logarithm of the rate)
                 and those of stochastic cycles and smooth processes (:mod:`.processes`)
loadings         C, of the states that enter observations; of AR(1) noise only the scale in its own column
noise variance   log r              (one for each group of columns that share it)
offset           mu

If columns have AR(1) noise, parameters in this package are those of the state space
(:attr:`.Parameters.state_space`): the noise processes are the last AR(1) processes, and their loadings on
other columns are zero.
"""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning import processes
from probsfa.statespace.learning.limits import Limits
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.parameters import Latents, Parameters
from probsfa.statespace.processes.rhythm import Rhythm


class Coordinates(NamedTuple):
    """Layout of the parameters as one vector.

    Attributes
    ----------
    latents : Latents
        Numbers of latent processes of each kind; AR(1) noise counts as AR(1) processes.
    variances : NoiseVariances
        Which columns share a noise variance, and which variances are known.
    evenly_sampled : bool
        Whether rows are evenly sampled, which determines the coordinates of the dynamics.
    n_ar1_noise : int, default=0
        Number of AR(1) processes, at the end, that are noise of the columns: ``D`` or zero.
    limits : Limits or None, default=None
        Fixed parameters and ranges of periods; without AR(1) noise, whose parameters are never fixed.
    """

    latents: Latents
    variances: NoiseVariances
    evenly_sampled: bool
    n_ar1_noise: int = 0
    limits: Limits | None = None

    @property
    def n_features(self) -> int:
        """Number of columns, ``D``."""
        return self.variances.n_features

    @property
    def holds(self) -> bool:
        """Whether any parameter is fixed."""
        return self.limits is not None and self.limits.hold

    @property
    def with_white_noise(self) -> "Coordinates":
        """The layout of the same latent processes with white noise."""
        alone = self.latents.with_components(self.latents.n_components - self.n_ar1_noise)
        return self._replace(latents=alone, n_ar1_noise=0)

    @property
    def with_ar1_noise(self) -> "Coordinates":
        """The layout of the same latent processes with AR(1) noise of each column."""
        more = self.latents.with_components(self.latents.n_components + self.n_features)
        return self._replace(latents=more, n_ar1_noise=self.n_features)

    @property
    def memories(self) -> slice:
        """Which of the states are AR(1) noise."""
        return slice(self.latents.n_components - self.n_ar1_noise, self.latents.n_components)

    @property
    def loaded(self) -> BoolArray:
        """Which loadings (D, n_states) of the states that enter observations have coordinates."""
        loaded = np.ones((self.n_features, self.n_states), dtype=bool)
        if self.n_ar1_noise:
            loaded[:, self.memories] = np.eye(self.n_features, dtype=bool)
        return loaded

    @property
    def n_loadings(self) -> int:
        """Number of loadings that have coordinates."""
        return self.n_features * (self.n_states - self.n_ar1_noise) + self.n_ar1_noise

    @property
    def n_states(self) -> int:
        """Number of states that enter observations, whose loadings have coordinates."""
        return self.latents.n_seen

    @property
    def n_noise(self) -> int:
        """Number of noise coordinates."""
        return self.variances.n_free

    @property
    def size(self) -> int:
        """Number of coordinates, ``P``."""
        return self.latents.n_dynamics + self.n_loadings + self.n_noise + self.n_features

    @property
    def n_free(self) -> int:
        """Number of free parameters that change the likelihood."""
        alone = self.with_white_noise.latents.n_free(self.n_features)
        n = alone + 2 * self.n_ar1_noise + self.n_noise + self.n_features
        if self.limits is not None:  # fixed loadings determine phases, which are then not free
            n += int(np.count_nonzero(self.limits.held_phases)) - self.limits.n_held
        return n

    @property
    def limits_of_states(self) -> Limits | None:
        """The limits of all states, including AR(1) noise."""
        if self.limits is None or not self.n_ar1_noise:
            return self.limits
        decays, loadings, noise, frequencies, rhythms = self.limits
        k, free = len(decays), np.full(self.n_ar1_noise, np.nan)
        between = np.full((self.n_features, self.n_ar1_noise), np.nan)
        whole = np.hstack([loadings[:, :k], between, loadings[:, k:]])
        moved = slice(rhythms.start + self.n_ar1_noise, rhythms.stop + self.n_ar1_noise)
        return Limits(np.append(decays, free), whole, noise, frequencies, moved)

    @property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """Lowest and highest value of each coordinate (P,), equal if it is fixed."""
        lower, upper = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        limits = self.limits_of_states
        if limits is None:
            return lower, upper
        _, loadings, noise, _ = self.slices
        values = np.full(self.size, np.nan)
        decays = limits.decays
        values[: len(decays)] = np.arctanh(decays) if self.evenly_sampled else np.log(-np.log(decays))
        # A start may have fewer stochastic cycles: they are detected one after the other.
        if Rhythm in self.latents.counts:
            n, end = self.latents.counts[Rhythm], self.latents.coordinates[Rhythm].stop
            lower[end - n : end], upper[end - n : end] = limits.frequencies[:, :n]
        if limits.hold and limits.loadings.shape[1] == self.latents.n_states:
            values[loadings] = limits.loadings[:, self.latents.seen][self.loaded]
            values[noise] = np.log(self.variances.of_groups(limits.noise))
        held = ~np.isnan(values)
        lower[held] = upper[held] = values[held]
        return lower, upper

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Slices of dynamics, loadings, noise and offset in the vector."""
        # Plain integers: a fit reads this some thousand times, and np.cumsum of four took 7 % of its time.
        first = self.latents.n_dynamics
        second = first + self.n_loadings
        third = second + self.n_noise
        fourth = third + self.n_features
        return slice(0, first), slice(first, second), slice(second, third), slice(third, fourth)


def to_vector(layout: Coordinates, params: Parameters) -> FloatArray:
    """Return the coordinates of parameters, shape (P,)."""
    return np.concatenate(
        [
            processes.to_free(params, evenly_sampled=layout.evenly_sampled),
            params.seen_loadings[layout.loaded],
            np.log(layout.variances.of_groups(params.noise_variance)),
            params.offset,
        ]
    )


def from_vector(layout: Coordinates, vector: FloatArray, template: Parameters) -> Parameters:
    """Return the parameters at given coordinates; others, as known variances, are from ``template``."""
    dynamics, loadings, noise, offset = (vector[part] for part in layout.slices)
    variance = layout.variances.of_columns(np.exp(noise), template.noise_variance)
    moved = processes.from_free(template, dynamics, evenly_sampled=layout.evenly_sampled)
    seen = np.zeros((layout.n_features, layout.n_states))
    seen[layout.loaded] = loadings
    return moved.with_seen_loadings(seen).replace(noise_variance=variance, offset=offset)


def score(layout: Coordinates, params: Parameters, gaps: FloatArray, stats: Statistics) -> FloatArray:
    """Return the gradient of the log-likelihood by the coordinates, shape (P,).

    By Fisher's identity it is the gradient of the expected complete-data log-likelihood, hence a function
    of the expected statistics at the same parameters (Olsson, Petersen & Lehn-Schioler 2007).
    """
    r = params.noise_variance
    by_latent = stats.residual_moments / r[:, None]
    by_noise = 0.5 * (stats.residual_power / r - stats.counts)
    by_dynamics = processes.score(params, gaps, stats, evenly_sampled=layout.evenly_sampled)
    return pack_gradient(layout, by_dynamics, by_latent[:, layout.latents.seen], by_noise, by_latent[:, -1])


def pack_gradient(
    layout: Coordinates,
    by_dynamics: FloatArray,
    by_loadings: FloatArray,
    by_log_noise: FloatArray,
    by_offset: FloatArray,
) -> FloatArray:
    """Concatenate gradients by the dynamics' coordinates, ``C``, ``log r`` and ``mu`` to one vector (P,)."""
    by_variances = layout.variances.totals(by_log_noise)
    return np.concatenate([by_dynamics, by_loadings[layout.loaded], by_variances, by_offset])
