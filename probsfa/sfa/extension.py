"""Nystroem's extension of eigenvectors of a graph to new points.

A coordinate of the random walk satisfies ``(1 - lambda) d_i y_i = sum_j W_ij y_j``. A new point with edges
``w_j`` to the training points gets the value that satisfies the same equation (Bengio et al. 2004, NIPS 16).
Where ``W`` has no self-loops, the edge ``w_o`` to the nearest training point stands for the point's own and
is left out of its degree; ``w_o y`` on both sides of the equation then gives

    y(x) = sum_j w_j y_j / (w_o + (1 - lambda) (sum_j w_j - w_o)).

With the edges of a training point, ``w_o`` the weight of its edge to itself, that is the coordinate of that
point, and it is a continuous function of the weights.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.sfa.edges import NewEdges

__all__ = ["extend_random_walk", "extend_unnormalized"]

_ON_TOP = 1e-6  # of the weight 1 of a point with itself: a new point that close is the training point
_LEAST_ROOM = 1e-2
_LEAST_DECAY = 1e-8  # of 1 - lambda: below it, rounding decides


def extend_random_walk(
    edges: NewEdges, vectors: FloatArray, eigenvalues: FloatArray, weights: FloatArray | None = None
) -> tuple[FloatArray, FloatArray]:
    """Extend right eigenvectors of a random walk.

    Parameters
    ----------
    edges : NewEdges
        Of N new points to n training points.
    vectors : ndarray (n, K)
        ``y``.
    eigenvalues : ndarray (K,)
        ``lambda`` of the Laplacian, 1 less the eigenvalue of the walk.
    weights : ndarray (n,), optional
        Factors of the training points in the weights of all their edges.

    Returns
    -------
    ndarray (N, K)
        Coordinates of the new points.
    ndarray (N,)
        Their degrees, without their own edges.

    Raises
    ------
    ValueError
        If a point has no edge, or a coordinate has the eigenvalue 1 and nothing stands for the point itself.
    """
    if weights is None:
        total = np.asarray(edges.weights.sum(axis=1)).ravel()
        mean = np.asarray(edges.weights @ vectors)
    else:
        total = np.asarray(edges.weights @ weights).ravel()
        mean = np.asarray(edges.weights @ (weights[:, None] * vectors))
    if not (total > 0).all():
        raise ValueError(f"X[{int(np.argmin(total))}] has no affinity to any training point.")
    others = np.maximum(total - edges.own, 0.0)
    decay = 1.0 - eigenvalues
    if (edges.nearest >= 0).all() and edges.own.all():
        # Beyond lambda = 1 the nearest point stands for more of the new one: its weight is free, and grows
        # so that the denominator does not vanish.
        mean = mean + np.outer(others, np.maximum(-decay, 0.0)) * vectors[edges.nearest]
        decay = np.maximum(decay, 0.0)
    elif (np.abs(decay) < _LEAST_DECAY).any():
        raise ValueError(
            f"Component {int(np.argmin(np.abs(decay)))} has the eigenvalue 1 and cannot be extended to new "
            "points. Ask for fewer components."
        )
    return mean / (edges.own[:, None] + np.outer(others, decay)), others * edges.scale


def extend_unnormalized(edges: NewEdges, vectors: FloatArray, eigenvalues: FloatArray) -> FloatArray:
    """Extend eigenvectors of ``L = D - W``, in which self-loops cancel.

    Parameters
    ----------
    edges : NewEdges
        Of N new points to n training points.
    vectors : ndarray (n, K)
        ``y``.
    eigenvalues : ndarray (K,)
        ``lambda`` with ``L y = lambda y``.

    Returns
    -------
    ndarray (N, K)
        Coordinates of the new points.

    Raises
    ------
    ValueError
        If a point has no edge, or, away from the training points, a degree of at most an eigenvalue.
    """
    total = np.asarray(edges.weights.sum(axis=1)).ravel()
    if not (total > 0).all():
        raise ValueError(f"X[{int(np.argmin(total))}] has no affinity to any training point.")
    own = edges.own * edges.scale
    room = (total * edges.scale)[:, None] - eigenvalues
    # At a training point numerator and denominator vanish together: the coordinate is known there.
    known = (room <= _LEAST_ROOM) & (own >= 1.0 - _ON_TOP)[:, None] & (edges.nearest >= 0)[:, None]
    if ((room <= 0) & ~known).any():
        i, k = np.argwhere((room <= 0) & ~known)[0]
        raise ValueError(
            f"X[{i}] has the degree {total[i] * edges.scale[i]:g}, not more than eigenvalue {k}, "
            f"{eigenvalues[k]:g}, so the unnormalised embedding cannot be extended to it. Use "
            "normalization='random_walk'."
        )
    extended = np.asarray(edges.weights @ vectors) * edges.scale[:, None] / np.where(known, 1.0, room)
    return np.where(known, vectors[edges.nearest], extended)
