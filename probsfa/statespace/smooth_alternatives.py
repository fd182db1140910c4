"""AR(1) latent factors that a smooth latent factor would replace: a comparison of likelihoods."""

import numpy as np
from numpy.typing import NDArray

from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import log_likelihood

__all__ = ["better_as_smooth"]

# Time scales of the smooth factor that are tried, as parts of that of the AR(1) factor. An AR(1) fit to a
# smooth path under noise has a time scale one to eight times as long.
_PARTS = (1.0, 0.5, 0.25, 0.125)
# Shortest time scale, in units of time, at which the two kinds of path differ between adjacent rows.
_SHORTEST = 2.0
# The likelihood ratio of another model exceeds 1 / p with a probability of at most p where the model is right
# (Ville's inequality), so that this is the rate of false alarms.
_FALSE_ALARMS = 0.01


def better_as_smooth(params: Parameters, panel: Panel) -> NDArray[np.intp]:
    """Return the AR(1) factors in whose place a smooth factor makes the data much more probable.

    The loadings and all other parameters are held, so that a fit with a smooth factor gains still more.

    Parameters
    ----------
    params : Parameters
        Of the model, with its latent factors apart from the AR(1) noise.
    panel : Panel
        Observations in the units of the parameters.

    Returns
    -------
    ndarray of int
        Which of the AR(1) factors.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        timescales = np.where(params.decay > 0.0, -1.0 / np.log(params.decay), 0.0)
    pairs = ((k, part * timescale) for k, timescale in enumerate(timescales) for part in _PARTS)
    trials = [(k, timescale) for k, timescale in pairs if timescale >= _SHORTEST]
    if not trials:
        return np.zeros(0, dtype=np.intp)
    least = log_likelihood(params.state_space, panel) + np.log(len(trials) / _FALSE_ALARMS)
    better = {
        k
        for k, timescale in trials
        if log_likelihood(_with_smooth(params, k, timescale).state_space, panel) > least
    }
    return np.array(sorted(better), dtype=np.intp)


def _with_smooth(params: Parameters, k: int, timescale: float) -> Parameters:
    """Put a smooth factor of that time scale in place of AR(1) factor `k`, at the same loadings."""
    column = params.loadings[:, k]
    pair = np.column_stack([column, np.zeros_like(column)])
    return params._replace(
        decay=np.delete(params.decay, k),
        loadings=np.hstack([np.delete(params.loadings, k, axis=1), pair]),
        smooth_rate=np.append(params.smooth_rate, np.sqrt(3.0) / timescale),
    )
