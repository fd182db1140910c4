"""Shrinkage of the moments of a graph, where there are few samples for so many columns.

With a target ``T``, diagonal, and an intensity ``s`` from 0 to 1 the shrunken moments are::

    B_s = (1 - s) B + s T            A_s = (1 - s) A + 2 s T

the moments of the samples, scaled by ``sqrt(1 - s)``, with independent noise of covariance ``s T`` added:
noise varies by ``T`` and differs by ``2 T`` between two samples. Every delta value is drawn towards 2, that
of noise, the more the less an output varies. On the clustered graph ``A_s / 2`` is the shrunken covariance
within classes of a regularised Fisher discriminant.
"""

import numbers
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import check_option
from probsfa.graphs._graph_moments import GraphMoments
from probsfa.graphs.moments import block_rows

__all__ = ["TARGETS", "check_shrinkage", "ledoit_wolf", "shrunk_moments"]

TARGETS = ("diagonal", "identity")


def check_shrinkage(shrinkage: Any, target: Any) -> None:
    """Raise a ValueError unless a `shrinkage` is None, "auto" or from 0 to 1, and the target is known."""
    check_option("shrinkage_target", target, TARGETS)
    if shrinkage is None or (isinstance(shrinkage, str) and shrinkage == "auto"):
        return
    number = isinstance(shrinkage, numbers.Real) and not isinstance(shrinkage, bool)
    if not number or not 0 <= float(shrinkage) <= 1:
        raise ValueError(f'shrinkage must be None, "auto" or a number from 0 to 1; got {shrinkage!r}.')


def ledoit_wolf(rows: FloatArray, weights: FloatArray, moments: GraphMoments, target: str) -> float:
    """Return the intensity of shrinkage that Ledoit & Wolf (2004) estimate, with weighted samples.

    Parameters
    ----------
    rows : ndarray (N, D)
        The (expanded) samples.
    weights : ndarray (N,)
        Weights of the nodes.
    moments : GraphMoments
        Of these samples.
    target : {"diagonal", "identity"}
        As in :func:`shrunk_moments`; for the first the columns are taken in units of their own spread.

    Returns
    -------
    float
        From 0 to 1.

    Notes
    -----
    Ledoit & Wolf (2004), Journal of Multivariate Analysis 88:365, lemma 3.1 to 3.4: ``min(b, d) / d`` with
    ``d = |S - m I|^2`` and ``b = sum_n p_n^2 |x_n x_n' - S|^2``, here with weights ``p`` in the place of 1/N.
    """
    variances = np.diagonal(moments.covariance)
    varying = variances > moments.variance_floor
    if not varying.any():
        return 0.0
    spread = np.sqrt(variances[varying])
    scale = spread if target == "diagonal" else np.full_like(spread, np.sqrt(np.mean(spread**2)))
    S = moments.covariance[np.ix_(varying, varying)] / scale / scale[:, None]
    p = weights / weights.sum()
    squared = float(np.sum(S**2))
    error = 0.0
    size = block_rows(len(variances))
    for start in range(0, len(rows), size):
        part = slice(start, start + size)
        Z = (rows[part] - moments.mean)[:, varying] / scale
        lengths = np.einsum("nd,nd->n", Z, Z)
        error += float(p[part] ** 2 @ (lengths**2 - 2 * np.einsum("nd,nd->n", Z @ S, Z) + squared))
    distance = squared - float(np.trace(S)) ** 2 / len(S)
    return 0.0 if distance <= 0 else min(error / distance, 1.0)


def shrunk_moments(moments: GraphMoments, intensity: float, target: str) -> GraphMoments:
    """Return the moments drawn towards those of independent noise.

    Parameters
    ----------
    moments : GraphMoments
        Of the (expanded) samples.
    intensity : float
        ``s``; 0 returns the moments as they are.
    target : {"diagonal", "identity"}
        ``T``: the variance of each column, which makes the units of the columns irrelevant, or the mean of
        all variances, for columns of one unit. Columns that are constant stay so.
    """
    if intensity == 0:
        return moments
    variances = np.diagonal(moments.covariance)
    varying = variances > moments.variance_floor
    if target == "identity" and varying.any():
        variances = np.where(varying, variances[varying].mean(), 0.0)
    T = np.diag(np.where(varying, variances, 0.0))
    return moments._replace(
        covariance=(1 - intensity) * moments.covariance + intensity * T,
        difference_moment=(1 - intensity) * moments.difference_moment + 2 * intensity * T,
    )
