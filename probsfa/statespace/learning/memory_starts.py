"""Where learning starts with noise that has memory.

A model is given memories by splitting the noise of each column: part of it stays white, the rest has memory.
How much and for how long, Whittle's likelihood then finds at the price of some products; only whether it
alternates from row to row must be known before.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.parameters import Parameters

__all__ = ["signs_of_memory", "with_memories", "with_silent_memory", "with_weak_memory"]

# Part of the noise that a start takes to have memory: of a search in the frequency domain, and of a climb.
_HALF, _TENTH = 0.5, 0.1
# Part of a variance that is much noise, and the correlation from row to row of noise that alternates.
_MUCH_NOISE, _ALTERNATING = 0.1, -0.2
# Decay of a memory that nothing is known of.
_DECAY = 0.8


def with_memories(params: Parameters, share: float = _HALF, sign: FloatArray | float = 1.0) -> Parameters:
    """The model with that part of each column's noise as noise with memory, in the state space.

    Parameters
    ----------
    params : Parameters
        A model of white noise.
    share : float, default=0.5
        Part of the noise.
    sign : float or ndarray of shape (D,), default=1.0
        Sign of the memories' decays.
    """
    return _with(params, share, sign).state_space


def signs_of_memory(params: Parameters, left: list[FloatArray]) -> FloatArray:
    """Signs (D,) of the memories' decays, by what a model leaves of standardised sequences.

    Only where there is much noise: what is left beside little of it is what smoothing overdoes, and
    alternates whatever the noise does.
    """
    lagged, power = (
        np.sum([np.sum(x[lag:] * x[: len(x) - lag], axis=0) for x in left], axis=0) for lag in (1, 0)
    )
    noisy = params.noise_variance > _MUCH_NOISE
    return np.where(noisy & (lagged < _ALTERNATING * power), -1.0, 1.0)


def with_weak_memory(params: Parameters) -> Parameters:
    """The model with a small part of each column's noise as noise with memory."""
    return _with(params, _TENTH)


def with_silent_memory(params: Parameters) -> Parameters:
    """The same model with memories that no column sees, in the state space."""
    return _with(params, 0.0).state_space


def _with(params: Parameters, share: float, sign: FloatArray | float = 1.0) -> Parameters:
    variance: FloatArray = params.noise_variance
    return params.replace(
        noise_variance=(1.0 - share) * variance,
        memory_decay=np.full(params.n_features, _DECAY) * sign,
        memory_scale=np.sqrt(share * variance),
    )
