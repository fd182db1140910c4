"""Initial values for AR(1) noise of the columns.

The noise of each column is split: a fraction stays white, the rest becomes AR(1) noise. Whittle's likelihood
then estimates scale and decay cheaply; only the sign of the decay must be known before.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.parameters import Parameters

__all__ = ["signs_of_ar1_noise", "with_ar1_noise", "with_silent_ar1_noise", "with_weak_ar1_noise"]

# Initial fraction of the noise that is AR(1) noise: in the frequency domain, and for the exact likelihood.
_HALF, _TENTH = 0.5, 0.1
# Fraction of a column's variance that is much noise, and lag-one correlation of alternating noise.
_MUCH_NOISE, _ALTERNATING = 0.1, -0.2
# Initial decay.
_DECAY = 0.8


def with_ar1_noise(params: Parameters, share: float = _HALF, sign: FloatArray | float = 1.0) -> Parameters:
    """Return the model with a fraction of each column's noise as AR(1) noise, in the state space.

    Parameters
    ----------
    params : Parameters
        A model of white noise.
    share : float, default=0.5
        Fraction of the noise.
    sign : float or ndarray of shape (D,), default=1.0
        Sign of the decays of AR(1) noise.
    """
    return _with(params, share, sign).state_space


def signs_of_ar1_noise(params: Parameters, left: list[FloatArray]) -> FloatArray:
    """Return signs (D,) of the decays of AR(1) noise from the residuals of standardised sequences.

    They are negative only in columns with much noise: at low noise, residuals alternate as an artefact of
    smoothing.
    """
    lagged, power = (
        np.sum([np.sum(x[lag:] * x[: len(x) - lag], axis=0) for x in left], axis=0) for lag in (1, 0)
    )
    noisy = params.noise_variance > _MUCH_NOISE
    return np.where(noisy & (lagged < _ALTERNATING * power), -1.0, 1.0)


def with_weak_ar1_noise(params: Parameters) -> Parameters:
    """Return the model with a tenth of each column's noise as AR(1) noise."""
    return _with(params, _TENTH)


def with_silent_ar1_noise(params: Parameters) -> Parameters:
    """Return the same model with AR(1) noise of scale zero, in the state space."""
    return _with(params, 0.0).state_space


def _with(params: Parameters, share: float, sign: FloatArray | float = 1.0) -> Parameters:
    variance: FloatArray = params.noise_variance
    return params.replace(
        noise_variance=(1.0 - share) * variance,
        memory_decay=np.full(params.n_features, _DECAY) * sign,
        memory_scale=np.sqrt(share * variance),
    )
