"""Shrinkage of the moments of a graph, and validation of labels and thresholds.

``B`` is the covariance of the samples and ``A`` the second moment of differences along the edges. The target
``T`` is the diagonal of ``A / 2``, or the identity times the mean of this diagonal. With an intensity ``s``
from 0 to 1 the shrunken moments are::

    B_s = (1 - s) B + s T            A_s = (1 - s) A + 2 s T

These are the moments of samples scaled by ``sqrt(1 - s)`` plus white noise of covariance ``s T``. Delta
values are shrunk towards 2, the delta value of white noise; outputs of small variance are shrunk most. On the
clustered graph ``A_s / 2`` is the shrunken within-class covariance of a regularized Fisher discriminant.
"""

import numbers
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from probsfa._typing import FloatArray
from probsfa._validation import check_option
from probsfa.graphs._rows import check_unmasked
from probsfa.graphs.training_graph import GraphMoments, TrainingGraph
from probsfa.linalg import (
    SlowDirections,
    canonical_directions,
    check_rank,
    default_rank_tol,
    slow_directions,
)

__all__ = [
    "TARGETS",
    "check_delta_threshold",
    "check_shrinkage",
    "labels_of_rows",
    "ledoit_wolf",
    "shrunk_moments",
    "shrunken_directions_by_intensity",
    "shrunken_slow_directions",
]

# ---- the delta value up to which a feature counts as slow


def check_delta_threshold(name: str, value: Any) -> None:
    """Raise a ValueError unless a threshold is a number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not float(value) >= 0:
        raise ValueError(f"{name} must be a number of at least 0; got {value!r}.")


# ---- labels of the rows of one array or of several sequences


def labels_of_rows(y: Any, lengths: Sequence[int]) -> Any:
    """Return the labels of all rows in one array; the graph validates their values.

    Parameters
    ----------
    y : array-like (N,) or (N, n_targets), list of such for every sequence, or None
        One label, or one row of targets, for every row. With several sequences, alternatively one label for
        each sequence.
    lengths : sequence of int
        Rows of every sequence.

    Returns
    -------
    ndarray (N,) or (N, n_targets), or None
        None without labels.

    Raises
    ------
    ValueError
        If there is not one label for every row, or one is masked.

    Examples
    --------
    >>> labels_of_rows([[0, 1], [1]], (2, 1)).tolist()
    [0, 1, 1]
    >>> labels_of_rows(["a", "b"], (2, 1)).tolist()
    ['a', 'a', 'b']
    """
    if y is None:
        return None
    if isinstance(y, list) and len(y) == len(lengths):
        pieces = [np.asarray(check_unmasked(piece, f"y[{i}]")) for i, piece in enumerate(y)]
        shapes = [piece.shape for piece in pieces]
        if [shape[:1] for shape in shapes] == [(n,) for n in lengths] and len({s[1:] for s in shapes}) == 1:
            return np.concatenate(pieces)
    labels = np.asarray(check_unmasked(y))
    n_rows = sum(lengths)
    if labels.ndim == 1 and 1 < len(lengths) == len(labels) != n_rows:
        return np.repeat(labels, lengths)
    if labels.ndim == 0 or len(labels) != n_rows:
        received = f"shape {labels.shape}" if labels.ndim else repr(y)
        raise ValueError(
            f"y must have one label per row of X, {n_rows}, or be a list of one array or label per sequence; "
            f"got {received}."
        )
    return labels


# ---- shrinkage of the moments of a graph, for few samples of many columns


TARGETS = ("diagonal", "identity")

# For uncorrelated columns the estimate is 1, at which the moments would not depend on the samples.
_MAX_SHRINKAGE = 0.99


def check_shrinkage(shrinkage: Any, target: Any) -> None:
    """Raise a ValueError unless `shrinkage` is None, "auto" or in [0, 1), and the target is valid."""
    check_option("shrinkage_target", target, TARGETS)
    if shrinkage is None or (isinstance(shrinkage, str) and shrinkage == "auto"):
        return
    is_number = isinstance(shrinkage, numbers.Real) and not isinstance(shrinkage, bool)
    if not is_number or not 0 <= float(shrinkage) < 1:
        raise ValueError(
            f'shrinkage must be None, "auto" or a number from 0 to below 1; got {shrinkage!r}. (At 1, the '
            "moments would not depend on the samples.)"
        )


def ledoit_wolf(graph: TrainingGraph, rows: FloatArray, moments: GraphMoments, target: str) -> float:
    """Return the shrinkage intensity of Ledoit & Wolf (2004) for residuals from the means of neighbours.

    Parameters
    ----------
    graph : TrainingGraph
        One vertex per row.
    rows : ndarray (N, D)
        The (expanded) samples.
    moments : GraphMoments
        Moments of the samples on the graph.
    target : {"diagonal", "identity"}
        As in :func:`shrunk_moments`.

    Returns
    -------
    float
        From 0 to 0.99.

    Notes
    -----
    Ledoit & Wolf (2004), Journal of Multivariate Analysis 88:365, lemmas 3.2 to 3.4: ``min(b, d) / d`` with
    ``d = |S - m I|^2`` and ``b = sum_n p_n^2 |e_n e_n' - S|^2``, where ``e_n`` are residuals and weights
    ``p_n`` replace 1/N. The residual of a sample is its difference from the mean of its neighbours, ``(L x)_n
    / d_n``, and its weight is its degree; on the clustered graph S is the covariance within classes. For the
    diagonal target, residuals are divided by their standard deviations.
    """
    variances = np.diagonal(moments.difference_moment) / 2
    varying = variances > moments.variance_floor
    has_edges = graph.degrees > 0
    if not varying.any():
        return 0.0
    residuals = graph.laplacian_matmul(rows[:, varying] - moments.mean[varying])[has_edges]
    residuals /= graph.degrees[has_edges, None]
    p = graph.degrees[has_edges] / graph.R
    std = np.sqrt(p @ residuals**2)
    if not std.all():
        residuals, std = residuals[:, std > 0], std[std > 0]
    if target == "diagonal":
        residuals /= std
    S = (residuals * p[:, None]).T @ residuals
    squared = float(np.sum(S**2))
    squared_lengths = np.einsum("nd,nd->n", residuals, residuals)
    error = float(p**2 @ (squared_lengths**2 - 2 * np.einsum("nd,nd->n", residuals @ S, residuals) + squared))
    distance = squared - float(np.trace(S)) ** 2 / max(len(S), 1)
    return _MAX_SHRINKAGE if distance <= 1e-12 * squared else min(error / distance, _MAX_SHRINKAGE)


def shrunk_moments(moments: GraphMoments, intensity: float, target: str) -> GraphMoments:
    """Return the moments shrunk towards the moments of white noise.

    Parameters
    ----------
    moments : GraphMoments
        Moments of the (expanded) samples.
    intensity : float
        ``s``; 0 returns the moments unchanged.
    target : {"diagonal", "identity"}
        ``T``: "diagonal" is half the mean squared difference of each column; the result then does not depend
        on units. "identity" is the mean of these values over columns, for columns with the same unit.
        Constant columns remain constant.
    """
    if intensity == 0:
        return moments
    variances = np.diagonal(moments.difference_moment) / 2
    varying = np.diagonal(moments.covariance) > moments.variance_floor
    if target == "identity" and varying.any():
        variances = np.full_like(variances, variances[varying].mean())
    T = np.diag(np.where(varying, variances, 0.0))
    return moments._replace(
        covariance=(1 - intensity) * moments.covariance + intensity * T,
        difference_moment=(1 - intensity) * moments.difference_moment + 2 * intensity * T,
    )


def shrunken_slow_directions(
    moments: GraphMoments,
    intensity: float,
    target: str,
    n_components: int | None,
    rank_tol: float | None,
    n_samples: int,
) -> SlowDirections:
    """Return the slow directions of shrunk moments, within the space in which the samples vary.

    Parameters
    ----------
    moments : GraphMoments
        Moments of the (expanded) samples.
    intensity, target
        As in :func:`shrunk_moments`.
    n_components, rank_tol
        As in :func:`probsfa.linalg.slow_directions`. With shrinkage and fewer samples than columns, the rank
        is that of the covariance before shrinkage.
    n_samples : int
        Number of samples.

    Notes
    -----
    Directions in which the samples do not vary contain only the noise of the shrinkage, and have a delta
    value of 2. They would precede fast features, although their outputs are zero on the training samples and
    arbitrary on others. If columns are divided by the standard deviation of the noise, these directions are
    orthogonal to the row space, so that the eigenproblem can be solved in the row space alone.
    """
    shrunk = shrunk_moments(moments, intensity, target)
    A, B, floor = shrunk.difference_moment, shrunk.covariance, moments.variance_floor
    varying = np.diagonal(moments.covariance) > floor
    noise = np.where(varying, np.diagonal(B) - (1 - intensity) * np.diagonal(moments.covariance), 1.0)
    is_noise = noise > 1e-12 * np.diagonal(B)  # the target is zero for a column without differences
    if intensity == 0 or n_samples > varying.sum() or not is_noise.all():
        return slow_directions(A, B, n_components, rank_tol, variance_floor=floor)
    noise_std = np.sqrt(noise)
    scaled_covariance = np.where(
        np.outer(varying, varying), moments.covariance / noise_std / noise_std[:, None], 0.0
    )
    eigenvalues, U = scipy.linalg.eigh(scaled_covariance)
    tol = default_rank_tol(len(U)) if rank_tol is None else rank_tol
    V = U[:, eigenvalues > tol * eigenvalues[-1]] / noise_std[:, None]
    rank = V.shape[1]
    check_rank(n_components, rank, len(B))
    deltas, rotation = scipy.linalg.eigh(_symmetric(V.T @ A @ V), _symmetric(V.T @ B @ V))
    K = rank if n_components is None else n_components
    scales = np.where(varying, np.sqrt(np.diagonal(B)), 0.0)
    return canonical_directions(A, B, deltas, V @ rotation, scales, K)._replace(rank=rank)


def _symmetric(S: FloatArray) -> FloatArray:
    return (S + S.T) / 2


def shrunken_directions_by_intensity(
    moments: GraphMoments, intensities: Sequence[float | str], n_components: int, n_columns: int
) -> Iterator[SlowDirections]:
    """Yield the slow directions at several intensities of shrinkage to the identity, from one decomposition.

    Parameters
    ----------
    moments : GraphMoments
        Moments of samples, or of their coordinates in an orthonormal basis of the row space.
    intensities : sequence of float
        Shrinkage intensities above 0.
    n_components : int
        Maximum number of directions.
    n_columns : int
        Number of nonconstant columns, over which the variance of the target is averaged.

    Notes
    -----
    The eigenvectors of the covariance do not depend on the intensity, so that one decomposition is
    sufficient.
    """
    varying = np.diagonal(moments.covariance) > moments.variance_floor
    A = moments.difference_moment[np.ix_(varying, varying)]
    B = moments.covariance[np.ix_(varying, varying)]
    variance = float(np.trace(A)) / 2 / max(n_columns, 1)
    eigenvalues, U = scipy.linalg.eigh(B)
    rotated = U.T @ A @ U
    rotated = (rotated + rotated.T) / 2
    K = min(n_components, len(B))
    identity = np.eye(len(B))
    for s in map(float, intensities):
        whitening = 1.0 / np.sqrt((1 - s) * np.maximum(eigenvalues, 0.0) + s * variance)
        whitened = whitening[:, None] * ((1 - s) * rotated + 2 * s * variance * identity) * whitening
        deltas, V = scipy.linalg.eigh(whitened, subset_by_index=(0, K - 1))
        A_s, B_s = (1 - s) * A + 2 * s * variance * identity, (1 - s) * B + s * variance * identity
        directions = (U * whitening) @ V
        solution = canonical_directions(A_s, B_s, deltas, directions, np.sqrt(np.diagonal(B_s)), K)
        weights = np.zeros((len(varying), K), dtype=np.float64)
        weights[varying] = solution.weights
        yield solution._replace(weights=weights)
