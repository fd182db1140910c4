"""The observation noise in learning: how many variances are free, and how small they may become."""

from typing import Literal, NamedTuple

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["HEYWOOD_FLOOR", "LEAST_KNOWN_NOISE", "LEAST_NOISE", "Noise", "NoiseKind", "is_heywood"]

#: One variance for each feature, one for all features, or none that is learned.
NoiseKind = Literal["diagonal", "isotropic", "fixed"]

#: Smallest noise variance that is allowed at all, as a fraction of a feature's variance.
LEAST_NOISE = 1e-9
#: Smallest known noise variance that is computed with, as such a fraction. A cell enters with the weight
#: 1 / noise: rounding alone changes a log-likelihood by half a nat at 1e-14, and is all of it at 1e-16.
LEAST_KNOWN_NOISE = 1e-12
#: What a Heywood case is held to, and the typical noise variance above which there can be one.
HEYWOOD_FLOOR = 1e-3
_HEYWOOD_LOW = 1e-4


class Noise(NamedTuple):
    """What learning may do to the noise variance.

    Attributes
    ----------
    kind : {"diagonal", "isotropic", "fixed"}
        One variance for each feature, one for all, or none that is learned.
    floor : ndarray of shape (D,)
        Smallest variance allowed.
    """

    kind: NoiseKind
    floor: FloatArray


def is_heywood(variance: FloatArray) -> bool:
    """Whether single features are left without noise while most are not.

    Parameters
    ----------
    variance : ndarray of shape (D,)
        Noise variances, as fractions of each feature's variance.

    Returns
    -------
    bool
    """
    return bool(variance.min() < _HEYWOOD_LOW and np.median(variance) > HEYWOOD_FLOOR)
