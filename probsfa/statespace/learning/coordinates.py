"""Free coordinates of the parameters, in which learning takes its steps.

decay            atanh a            (evenly sampled: a in (-1, 1))
                 log(-log a)        (unevenly sampled: a in (0, 1), the logarithm of the rate)
loadings         C
noise variance   log r              (one for each feature, one for all, or none when it is fixed)
offset           mu
"""

from typing import Literal, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import transition_over, transition_score
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.parameters import Latents, Parameters

# Closest that a learned decay may come to one. 1 - a^2 must stay well above rounding, and a time scale of 1e8
# steps is a constant for any series there is.
SLOWEST_DECAY = 1.0 - 1e-8
FASTEST_DECAY = 1e-10


class Coordinates(NamedTuple):
    """How parameters are laid out as one vector.

    Attributes
    ----------
    n_features : int
        ``D``.
    latents : Latents
        Which latents there are.
    noise : {"diagonal", "isotropic", "fixed"}
        How many noise coordinates there are: ``D``, one or none.
    evenly_sampled : bool
        Which coordinate the decay has.
    """

    n_features: int
    latents: Latents
    noise: Literal["diagonal", "isotropic", "fixed"]
    evenly_sampled: bool

    @property
    def n_states(self) -> int:
        """Dimension of the state, the columns of the loadings."""
        return self.latents.n_states

    @property
    def n_noise(self) -> int:
        """Number of noise coordinates."""
        return {"diagonal": self.n_features, "isotropic": 1, "fixed": 0}[self.noise]

    @property
    def size(self) -> int:
        """Number of coordinates, ``P``."""
        return self.latents.n_dynamics + self.n_states * self.n_features + self.n_noise + self.n_features

    @property
    def n_free(self) -> int:
        """Number of free parameters, on which the likelihood depends."""
        return self.latents.n_free(self.n_features) + self.n_noise + self.n_features

    @property
    def slices(self) -> tuple[slice, slice, slice, slice]:
        """Where dynamics, loadings, noise and offset lie in the vector."""
        sizes = [self.latents.n_dynamics, self.n_states * self.n_features, self.n_noise, self.n_features]
        ends = np.cumsum([0, *sizes])
        dynamics, loadings, noise, offset = (
            slice(int(i), int(j)) for i, j in zip(ends[:-1], ends[1:], strict=True)
        )
        return dynamics, loadings, noise, offset


def to_vector(layout: Coordinates, params: Parameters) -> FloatArray:
    """Coordinates of parameters, shape (P,)."""
    log_noise = np.log(params.noise_variance)
    noise = {"diagonal": log_noise, "isotropic": log_noise[:1], "fixed": log_noise[:0]}[layout.noise]
    return np.concatenate(
        [_decay_to_free(layout, params.decay), params.loadings.ravel(), noise, params.offset]
    )


def from_vector(layout: Coordinates, vector: FloatArray, template: Parameters) -> Parameters:
    """Parameters at given coordinates; what has none, as a fixed noise variance, is as in ``template``."""
    dynamics, loadings, noise, offset = (vector[part] for part in layout.slices)
    variance = template.noise_variance
    if layout.noise != "fixed":
        variance = np.broadcast_to(np.exp(noise), (layout.n_features,))
    return template._replace(
        decay=_decay_from_free(layout, dynamics),
        loadings=loadings.reshape(layout.n_features, layout.n_states),
        noise_variance=variance,
        offset=offset,
    )


def _decay_to_free(layout: Coordinates, decay: FloatArray) -> FloatArray:
    if layout.evenly_sampled:
        return np.arctanh(np.clip(decay, -SLOWEST_DECAY, SLOWEST_DECAY))
    return np.log(-np.log(np.clip(decay, FASTEST_DECAY, SLOWEST_DECAY)))


def _decay_from_free(layout: Coordinates, free: FloatArray) -> FloatArray:
    if layout.evenly_sampled:
        return np.clip(np.tanh(free), -SLOWEST_DECAY, SLOWEST_DECAY)
    return np.clip(np.exp(-np.exp(free)), FASTEST_DECAY, SLOWEST_DECAY)


def decay_slope(layout: Coordinates, decay: FloatArray) -> FloatArray:
    """Derivative of the decay by its free coordinate."""
    if layout.evenly_sampled:
        return (1.0 - decay) * (1.0 + decay)
    return decay * np.log(decay)


def score(layout: Coordinates, params: Parameters, gaps: FloatArray, stats: Statistics) -> FloatArray:
    """Gradient of the log-likelihood by the coordinates, shape (P,).

    By Fisher's identity it is the gradient of the expected complete-data log-likelihood, hence a function
    of the expected statistics at the same parameters (Olsson, Petersen & Lehn-Schioler 2007).
    """
    over = transition_over(params, gaps)
    by_step: FloatArray = transition_score(  # type: ignore[assignment]
        over, stats.transitions, stats.innovation_power, stats.innovation_moments
    ).decay
    if layout.evenly_sampled:
        by_decay = by_step[0] * over.innovation_variance[0]
    else:
        # d a^g = a^g g log(a) d log(-log a)
        by_decay = np.sum(by_step * over.decay * gaps[:, None] * np.log(params.decay), axis=0)
    r = params.noise_variance
    by_latent = stats.residual_moments / r[:, None]
    by_noise = 0.5 * (stats.residual_power / r - stats.counts)
    return _concatenate(layout, by_decay, by_latent[:, :-1], by_noise, by_latent[:, -1])


def pack_gradient(
    layout: Coordinates,
    params: Parameters,
    by_atanh_decay: FloatArray,
    by_loadings: FloatArray,
    by_log_noise: FloatArray,
    by_offset: FloatArray,
) -> FloatArray:
    """Gradient (P,) by the layout's coordinates from those by ``atanh a``, ``C``, ``log r`` and ``mu``."""
    by_decay = by_atanh_decay * decay_ratio(layout, params.decay)
    return _concatenate(layout, by_decay, by_loadings, by_log_noise, by_offset)


def _concatenate(
    layout: Coordinates, decay: FloatArray, loadings: FloatArray, log_noise: FloatArray, offset: FloatArray
) -> FloatArray:
    noise = {"diagonal": log_noise, "isotropic": log_noise.sum(keepdims=True), "fixed": log_noise[:0]}
    return np.concatenate([decay, loadings.ravel(), noise[layout.noise], offset])


def decay_ratio(layout: Coordinates, decay: FloatArray) -> FloatArray:
    """Derivative of ``atanh a`` by the layout's own coordinate of the decay."""
    return decay_slope(layout, decay) / ((1.0 - decay) * (1.0 + decay))
