"""The eigenproblems of many nodes at once: the rules of :mod:`probsfa.linalg`, over a leading node axis.

Nodes may differ in rank. Directions outside a node's range get zero weights and come last, so that all nodes
of a layer have outputs of one shape; a dead output stays zero and the next layer's rank rule leaves it out.
"""

from typing import NamedTuple

import numpy as np

from probsfa.expansions._base import FloatArray
from probsfa.linalg import canonical_directions, canonical_signs, default_rank_tol

__all__ = ["NodeSolution", "solve_igsfa", "solve_pca", "solve_sfa"]


class NodeSolution(NamedTuple):
    """Directions of M nodes.

    Attributes
    ----------
    values : ndarray (M, K)
        Delta values ascending, or variances descending; NaN, or 0, beyond the rank.
    weights : ndarray (M, E, K)
        Zero beyond the rank.
    rank : ndarray (M,) of int
        Numerical rank of each node's covariance.
    """

    values: FloatArray
    weights: FloatArray
    rank: np.ndarray


def solve_sfa(
    A: FloatArray, B: FloatArray, n_components: int, *, rank_tol: float | None, variance_floor: FloatArray
) -> NodeSolution:
    """Solve ``A w = delta B w`` on the range of B, for every node.

    Parameters
    ----------
    A, B : ndarray (M, E, E)
        Second moments of differences, and covariances.
    n_components : int
        Outputs K of every node, at most E.
    rank_tol : float or None
        As in :func:`probsfa.linalg.slow_directions`.
    variance_floor : ndarray (M, E)
        Columns whose variance does not exceed this count as constant.

    Returns
    -------
    NodeSolution
        What :func:`probsfa.linalg.slow_directions` returns node by node, padded to K columns.
    """
    n_features = B.shape[-1]
    tol = default_rank_tol(n_features) if rank_tol is None else rank_tol
    scales = _scales(B, variance_floor)
    inverse = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
    R = _symmetric(B * inverse[:, :, None] * inverse[:, None, :])
    eigenvalues, vectors = np.linalg.eigh(R)
    kept = eigenvalues > tol * eigenvalues[:, -1:]
    root = np.sqrt(eigenvalues, out=np.ones_like(eigenvalues), where=kept)
    W = inverse[:, :, None] * vectors * (kept / root)[:, None, :]
    inner = _symmetric(W.mT @ A @ W)
    # Dropped directions have zero rows in `inner`; a diagonal above every eigenvalue sorts them to the end.
    above = 2 * np.trace(inner, axis1=1, axis2=2) + 1
    diagonal = np.arange(n_features)
    inner[:, diagonal, diagonal] += np.where(kept, 0.0, above[:, None])
    deltas, rotation = np.linalg.eigh(inner)
    rank = kept.sum(axis=1)
    alive = np.arange(n_components) < rank[:, None]
    values = np.full(alive.shape, np.nan, dtype=np.float64)
    weights = np.zeros((*W.shape[:2], n_components), dtype=np.float64)
    for m, (r, K) in enumerate(zip(rank.tolist(), alive.sum(axis=1).tolist(), strict=True)):
        if K:
            found = W[m] @ rotation[m, :, :r]
            node = canonical_directions(A[m], B[m], deltas[m, :r], found, scales[m], K)
            values[m, :K], weights[m, :, :K] = node.delta_values, node.weights
    return NodeSolution(values, weights, rank)


def solve_pca(B: FloatArray, n_components: int, *, variance_floor: FloatArray) -> NodeSolution:
    """Return the leading orthonormal eigenvectors of the covariance of every node, largest variance first."""
    n_features = B.shape[-1]
    scales = _scales(B, variance_floor)
    varying = scales > 0
    B = np.where(varying[:, :, None] & varying[:, None, :], B, 0.0)
    eigenvalues, vectors = np.linalg.eigh(_symmetric(B))
    eigenvalues, vectors = eigenvalues[:, ::-1], vectors[:, :, ::-1]
    rank = (eigenvalues > default_rank_tol(n_features) * eigenvalues[:, :1]).sum(axis=1)
    alive = np.arange(n_components) < rank[:, None]
    weights = np.where(alive[:, None, :], vectors[:, :, :n_components], 0.0)
    values = np.where(alive, eigenvalues[:, :n_components], 0.0)
    return NodeSolution(values, weights * _signs(B @ weights, scales)[:, None, :], rank)


def solve_igsfa(
    A: FloatArray,
    B: FloatArray,
    n_components: int,
    n_inputs: int,
    delta_threshold: float,
    *,
    rank_tol: float | None,
    variance_floor: FloatArray,
) -> NodeSolution:
    """Return slow directions below a delta value and principal components of what they leave of the inputs.

    Parameters
    ----------
    A, B : ndarray (M, E, E)
        Second moments of differences, and covariances, of expanded inputs whose first columns are the inputs.
    n_components : int
        Outputs K of every node.
    n_inputs : int
        How many of the columns are the inputs.
    delta_threshold : float
        Slow features count below it.
    rank_tol, variance_floor
        As in :func:`solve_sfa`.

    Returns
    -------
    NodeSolution
        Slow directions first, with the mean variance of the inputs of the node; all outputs are uncorrelated.
        Values are the delta values of all outputs.
    """
    slow = solve_sfa(A, B, n_components, rank_tol=rank_tol, variance_floor=variance_floor)
    weights = np.zeros_like(slow.weights)
    rank = np.zeros_like(slow.rank)
    for m in range(len(B)):
        J = int(np.sum(slow.values[m] < delta_threshold))
        S = slow.weights[m, :, :J]
        M = B[m, :n_inputs] @ S  # regression of the inputs on outputs of unit variance
        left = B[m, :n_inputs, :n_inputs] - M @ M.T
        floor = np.maximum(
            variance_floor[m, :n_inputs], default_rank_tol(n_inputs) * np.diag(B[m])[:n_inputs]
        )
        rest = solve_pca(left[None], min(n_components - J, n_inputs), variance_floor=floor[None])
        kept = int(rest.rank[0]) if J < n_components else 0
        kept = min(kept, n_components - J)
        V = rest.weights[0][:, :kept]
        weights[m, :, :J] = S * np.sqrt(np.trace(B[m, :n_inputs, :n_inputs]) / n_inputs)
        weights[m, :n_inputs, J : J + kept] = V
        weights[m, :, J : J + kept] -= S @ (M.T @ V)
        rank[m] = J + (int(rest.rank[0]) if J < n_components else 0)
    variances = np.einsum("mek,mek->mk", weights, B @ weights)
    changes = np.einsum("mek,mek->mk", weights, A @ weights)
    values = np.divide(changes, variances, out=np.full_like(changes, np.nan), where=variances > 0)
    return NodeSolution(values, weights, rank)


def _scales(B: FloatArray, variance_floor: FloatArray) -> FloatArray:
    variances = np.diagonal(B, axis1=1, axis2=2)
    return np.where(variances > np.maximum(variance_floor, 0.0), np.sqrt(np.maximum(variances, 0.0)), 0.0)


def _signs(loadings: FloatArray, scales: FloatArray) -> FloatArray:
    return np.stack([canonical_signs(C, s) for C, s in zip(loadings, scales, strict=True)])


def _symmetric(S: FloatArray) -> FloatArray:
    return (S + S.mT) / 2
