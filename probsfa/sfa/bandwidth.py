"""Rules for the width of a heat kernel ``exp(-gamma |x - x'|^2)``.

``"median"``
    ``gamma = 1 / (2 m)`` with ``m`` the median squared distance of two points (Garreau, Jitkrittum & Kanagawa
    2017, arXiv:1707.07269, eq. 2): as wide as the data; what separates two halves of it is seen, finer things
    are not.
``"neighbors"``
    ``gamma = 1 / (2 m)`` with ``m`` the mean squared distance to the neighbour number ``3/4 sqrt(n)``: about
    the usual number of estimates of density by neighbours, ``sqrt(n)`` (Loftsgaarden & Quesenberry 1965,
    doi:10.1214/aoms/1177700079). The more points the narrower, so that the surface on which they lie is
    approached. The factor was chosen on circles and spheres of 500 to 2,000 points.
``"self_tuning"``
    A scale of its own for each point, ``exp(-|x - x'|^2 / (s s'))`` with ``s`` the distance to the seventh
    neighbour (Zelnik-Manor & Perona 2004, NIPS 17): for clusters of different density.
"""

import math
import numbers
from typing import Any

import numpy as np
from sklearn.metrics.pairwise import euclidean_distances

from probsfa.sfa.edges import nearest_points

__all__ = ["GAMMA_RULES", "check_gamma", "choose_gamma"]

GAMMA_RULES = ("median", "neighbors", "self_tuning")

_MOST_ROWS = 2000  # rows that the rules look at; of more, that many drawn always the same way


def check_gamma(gamma: Any) -> None:
    """Raise a ValueError unless a `gamma` is a positive number, the name of a rule or None."""
    if gamma is None or (isinstance(gamma, str) and gamma in GAMMA_RULES):
        return
    if isinstance(gamma, bool) or not (isinstance(gamma, numbers.Real) and 0 < float(gamma) < np.inf):
        raise ValueError(
            f"gamma must be a positive number or None; got {gamma!r}. The rules "
            f"{', '.join(map(repr, GAMMA_RULES))} choose one."
        )


def choose_gamma(gamma: Any, points: Any) -> float:
    """Return the ``gamma`` of a rule, the number itself, or ``1 / n_features`` for None.

    Parameters
    ----------
    gamma : float, {"median", "neighbors"} or None
        Checked.
    points : ndarray or sparse array (n, D)
        Training points. Of more than 2,000, the distances of 2,000 tell.

    Returns
    -------
    float
        ``1 / n_features`` where all points are the same.
    """
    if gamma is None:
        return 1.0 / points.shape[1]
    if not isinstance(gamma, str):
        return float(gamma)
    rows = points
    if points.shape[0] > _MOST_ROWS:
        rows = points[np.sort(np.random.default_rng(0).choice(points.shape[0], _MOST_ROWS, replace=False))]
    if gamma == "median":
        squared = euclidean_distances(rows, squared=True)[np.triu_indices(rows.shape[0], 1)]
        middle = float(np.median(squared))
    else:
        count = math.ceil(0.75 * math.sqrt(points.shape[0])) + 1
        distances, _ = nearest_points(points, rows, min(count, points.shape[0]))
        squared = distances[:, -1] ** 2  # the first is the point itself
        middle = float(np.mean(squared))
    if middle == 0.0:
        apart = squared[squared > 0.0]
        middle = float(np.median(apart)) if len(apart) else points.shape[1] / 2.0
    return 1.0 / (2.0 * middle)
