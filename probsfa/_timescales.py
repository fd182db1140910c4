"""Conversion of decays to time scales."""

from typing import Any

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["timescales_from_decay"]


def timescales_from_decay(decay: Any, time_unit: float = 1.0) -> FloatArray:
    """Return the times in which correlations fall to 1/e, ``-time_unit / log(decay)``.

    Parameters
    ----------
    decay : ndarray of any shape
        Correlation over one unit of time, below one.
    time_unit : float, default=1.0
        Unit of time.

    Returns
    -------
    ndarray of the same shape
        NaN if the decay is not positive.

    Examples
    --------
    >>> timescales_from_decay([0.9, 0.99, -0.5]).round(2)
    array([ 9.49, 99.5 ,   nan])
    """
    positive = np.where(np.asarray(decay) > 0.0, decay, np.nan)
    return np.asarray(-time_unit / np.log(positive))
