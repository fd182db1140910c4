"""Rules for the width of a heat kernel ``exp(-gamma |x - x'|^2)``.

``"median"``
    ``gamma = 1 / (2 m)`` with ``m`` the median squared distance of two points (Garreau, Jitkrittum & Kanagawa
    2017, arXiv:1707.07269, eq. 2): as wide as the data; what separates two halves of it is seen, finer things
    are not.
``"kernel_sum"``
    The ``gamma`` at which the sum of the kernel over all pairs grows most with the width,
    ``d log S / d log(1 / gamma)`` (Coifman, Shkolnisky, Sigworth & Singer 2008, doi:10.1109/TIP.2008.2002305,
    section IV; Berry & Harlim 2016, doi:10.1016/j.acha.2015.01.001): narrow enough to see the surface on
    which the points lie, wide enough to reach neighbours. The largest growth is half the surface's dimension.
``"self_tuning"``
    A scale of its own for each point, ``exp(-|x - x'|^2 / (s s'))`` with ``s`` the distance to the seventh
    neighbour (Zelnik-Manor & Perona 2004, NIPS 17): for clusters of different density.
"""

import numbers
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from probsfa._typing import FloatArray

__all__ = ["GAMMA_RULES", "check_gamma", "choose_gamma", "local_scales"]

GAMMA_RULES = ("median", "kernel_sum", "self_tuning")

_MOST_ROWS = 2000  # rows that the rules look at; of more, that many drawn always the same way
_NEIGHBOR = 7  # of Zelnik-Manor & Perona
_STEPS_PER_OCTAVE = 4


def check_gamma(gamma: Any) -> None:
    """Raise a ValueError unless a `gamma` is a positive number, the name of a rule or None."""
    if gamma is None or (isinstance(gamma, str) and gamma in GAMMA_RULES):
        return
    if isinstance(gamma, bool) or not (isinstance(gamma, numbers.Real) and 0 < float(gamma) < np.inf):
        raise ValueError(
            f"gamma must be a positive number or None; got {gamma!r}. The rules "
            f"{', '.join(map(repr, GAMMA_RULES))} choose one."
        )


def choose_gamma(gamma: Any, points: FloatArray) -> float:
    """Return the ``gamma`` of a rule, the number itself, or ``1 / n_features`` for None.

    Parameters
    ----------
    gamma : float, {"median", "kernel_sum"} or None
        Checked.
    points : ndarray (n, D)
        Training points. Of more than 2,000, a subset of 2,000 tells.

    Returns
    -------
    float
        ``1 / n_features`` where all points are the same.
    """
    if gamma is None:
        return 1.0 / points.shape[1]
    if not isinstance(gamma, str):
        return float(gamma)
    if len(points) > _MOST_ROWS:
        points = points[np.sort(np.random.default_rng(0).choice(len(points), _MOST_ROWS, replace=False))]
    squared = euclidean_distances(points, squared=True)[np.triu_indices(len(points), 1)]
    if not (squared > 0).any():
        return 1.0 / points.shape[1]
    if gamma == "median":
        middle = float(np.median(squared))
        return 1.0 / (2.0 * (middle if middle > 0 else float(np.median(squared[squared > 0]))))
    return _kernel_sum_gamma(squared, len(points))


def local_scales(squared: FloatArray) -> FloatArray:
    """Return the distance to the seventh neighbour of every row.

    Parameters
    ----------
    squared : ndarray (N, n)
        Squared distances to the training points. The nearest is the point itself, or stands for it, so the
        scale of a new point is that of a training point where the two coincide.

    Returns
    -------
    ndarray (N,)
        Where seven neighbours are equal to a point, the distance to the nearest that is not.
    """
    place = min(_NEIGHBOR, squared.shape[1] - 1)
    found: FloatArray = np.partition(squared, place, axis=1)[:, place]
    for i in np.flatnonzero(found <= 0.0):
        different = squared[i][squared[i] > 0.0]
        found[i] = different.min() if len(different) else 1.0
    return np.sqrt(found)


def _kernel_sum_gamma(squared: FloatArray, n: int) -> float:
    """Return the gamma at which ``log sum exp(-gamma d^2)`` falls most with ``log gamma``."""
    positive = squared[squared > 0]
    lowest, highest = np.log2(positive.min()) - 2, np.log2(positive.max()) + 2
    logs = np.arange(lowest, highest, 1 / _STEPS_PER_OCTAVE)[::-1]  # of the squared width
    best, chosen = -1.0, 0.0
    for log_width in logs:
        gamma = 2.0**-log_width
        kernel = np.exp(-gamma * squared)
        total = n + 2.0 * kernel.sum()  # with every point and itself
        slope = 2.0 * gamma * float(squared @ kernel) / total  # the derivative, term by term
        if slope > best:
            best, chosen = slope, gamma
    return chosen
