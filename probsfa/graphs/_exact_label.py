"""Exact label learning: a graph whose slowest functions are the given labels."""

from typing import Any

import numpy as np
import scipy.sparse
from sklearn.utils import check_array

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._labels import check_complete
from probsfa.graphs._sparse import check_node_weights
from probsfa.graphs.training_graph import IntArray, TrainingGraph, check_number_of_edges

__all__ = ["SpectralGraph", "exact_label"]

_MIN_RESIDUAL_VARIANCE = 1e-10  # minimum share of the variance of a label that earlier labels do not explain
_MAX_PAIRS_IN_BLOCK = 2**22  # pairs of samples in one block, 32 MiB of float64


def exact_label(
    Y: Any,
    *,
    degree: int = 1,
    delta_values: Any = None,
    node_weights: Any = None,
    nonnegative: bool = False,
) -> "SpectralGraph":
    """Return the graph on which the slowest functions of the samples are the given labels.

    Other graphs of labels depend only on the order of the labels, and their slowest functions are cosines of
    the rank. The first free responses of this graph are the labels, centred, successively decorrelated and
    scaled to unit variance. Their delta values are parameters.

    Parameters
    ----------
    Y : array-like (N,) or (N, M)
        Numeric labels, the most important one first.
    degree : int, default=1
        With 2 or more, powers of the labels are added, except those that are linear functions of earlier
        ones. Nonlinear functions of the labels are then linear in the features.
    delta_values : array-like (K,), optional
        Delta values of the labels and then of the powers, from 0 (inclusive) to 2 (exclusive). By default ``2
        j / (K + 1)`` for function j. All other functions have delta value 2.
    node_weights : array-like (N,), optional
        Weight of every sample; by default 1.
    nonnegative : bool, default=False
        Whether to avoid negative edge weights. Then ``2 - delta`` of all responses is multiplied by the same
        factor, which does not change the features. Nonnegative weights are needed only for sampling a Markov
        chain.

    Returns
    -------
    TrainingGraph
        A consistent graph, with attributes ``delta_values`` (K,) and ``responses`` (N, K). A product with its
        Laplacian costs O(N K D).

    Raises
    ------
    ValueError
        If a label is missing, constant, or a linear function of the labels before it, or if `delta_values`
        are not valid.

    See Also
    --------
    multi_label : The sum of the graphs of several labels.
    free_responses : The slowest functions on any graph.

    Notes
    -----
    Exact label learning is due to Escalante-B. & Wiskott (2016), JMLR 17, "Theoretical analysis of the
    optimal free responses of graph-based SFA for the design of training graphs". With the node weights V,
    their sum Q and responses Y with ``Y' V Y = Q`` and ``1' V Y = 0``, the edge weights here are

        W = V (1 1' + Y diag(lambda) Y') V / Q,      lambda = 1 - delta / 2.

    Then ``W 1 = V 1``, so that the graph is consistent. The matrix ``V^-1/2 (V - W) V^-1/2`` has the
    eigenvectors ``V^1/2 1`` with eigenvalue 0 and ``V^1/2 y_j`` with eigenvalue ``delta_j / 2``; all other
    eigenvalues are 1. The second moment of differences of inputs is ``2 (B - sum_j lambda_j c_j c_j')`` with
    the covariances c_j of inputs and labels. For one label, the slowest feature is therefore the linear
    regression of the label on the inputs.

    Examples
    --------
    >>> from probsfa.graphs import free_responses
    >>> graph = exact_label([1.0, 2.0, 4.0, 9.0], delta_values=[0.5])
    >>> graph.responses[:, 0].round(3)
    array([-0.973, -0.649,  0.   ,  1.622])
    >>> graph.is_consistent(), free_responses(graph, 1).delta_values.round(6)
    (True, array([0.5]))
    """
    labels = check_array(
        as_float_array(check_complete(Y), "Y"), ensure_2d=False, dtype=np.float64, input_name="Y"
    )
    labels = labels.reshape(len(labels), -1) if labels.ndim == 1 else labels
    if labels.ndim != 2 or len(labels) < 2:
        raise ValueError(f"Y must have shape (n_samples, n_labels); got shape {np.shape(Y)}.")
    v = check_node_weights(node_weights, np.ones(len(labels), dtype=np.float64))
    if isinstance(node_weights, str):
        raise ValueError("node_weights must be an array or None, because node degrees depend on them.")
    responses = _decorrelated(labels, v / v.sum(), check_count("degree", degree))
    n_responses = responses.shape[1]
    if delta_values is None:
        deltas = 2.0 * np.arange(1, n_responses + 1) / (n_responses + 1)
    else:
        deltas = as_float_array(delta_values, "delta_values")
        if deltas.shape != (n_responses,) or not ((deltas >= 0) & (deltas < 2)).all():
            raise ValueError(
                f"delta_values must be {n_responses} numbers from 0 to below 2, one for each label and "
                f"power; got {delta_values!r:.80}."
            )
    weights = 1.0 - deltas / 2.0
    if nonnegative:
        weights = weights * min(1.0, -1.0 / least_similarity(responses, weights))
    return SpectralGraph(v, responses, weights)


def _decorrelated(labels: FloatArray, p: FloatArray, degree: int) -> FloatArray:
    """Return labels and their powers, centred, decorrelated in their order and of unit variance under `p`.

    Powers are computed as products with orthogonal polynomials, because higher powers of the labels are
    linearly dependent in double precision. A power that is a linear function of earlier columns is omitted;
    a label that is such a function raises an error.
    """
    basis = [np.ones(len(p), dtype=np.float64)]
    powers: list[FloatArray | None] = []
    centred = labels - p @ labels
    scales = np.sqrt(p @ centred**2)

    def normalized_residual(column: FloatArray) -> FloatArray | None:
        size = p @ column**2
        for _ in range(2):  # the second pass removes rounding errors of the first
            for basis_column in basis:
                column = column - basis_column * (p @ (basis_column * column))
        residual = p @ column**2
        if not residual > _MIN_RESIDUAL_VARIANCE * size:
            return None
        basis.append(column / np.sqrt(residual))
        return basis[-1]

    for j, scale in enumerate(scales):
        column = (
            normalized_residual(centred[:, j] / scale) if scale > 1e-14 * np.abs(labels[:, j]).max() else None
        )
        if column is None:
            raise ValueError(
                f"Label {j} is constant or a linear function of previous labels. Remove it."
                if len(scales) > 1
                else f"y has only one value, {labels[0, j]}; a graph of labels requires at least two."
            )
        powers.append(column)
    for _ in range(degree - 1):
        for j in range(len(scales)):
            last = powers[j]
            powers[j] = None if last is None else normalized_residual(last * centred[:, j] / scales[j])
    return np.column_stack(basis[1:])


def least_similarity(responses: FloatArray, weights: FloatArray) -> float:
    """Return the minimum of ``sum_j weights_j y_j(n) y_j(n')`` over all pairs of samples; it is negative."""
    if responses.shape[1] == 1:
        return float(weights[0] * responses.min() * responses.max())
    size = max(1, _MAX_PAIRS_IN_BLOCK // len(responses))
    weighted = (responses * weights).T
    return float(min((responses[i : i + size] @ weighted).min() for i in range(0, len(responses), size)))


class SpectralGraph(TrainingGraph):
    """A graph defined by its slowest functions: ``W = V (1 1' + Y diag(lambda) Y') V / Q``.

    Parameters
    ----------
    node_weights : ndarray (N,)
        Diagonal of V, nonnegative; also the degrees.
    responses : ndarray (N, K)
        Y, with zero mean, unit variance and no correlation under the node weights.
    weights : ndarray (K,)
        lambda, above 0 and at most 1.

    Attributes
    ----------
    responses, weights
        The parameters.
    delta_values : ndarray (K,)
        Delta values of the responses: ``2 (1 - lambda)``.
    """

    def __init__(self, node_weights: FloatArray, responses: FloatArray, weights: FloatArray) -> None:
        super().__init__(node_weights, node_weights)
        self.responses = responses
        self.weights = weights
        self.delta_values = 2.0 * (1.0 - weights)

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N) without zeros."""
        check_number_of_edges(float(self.n_vertices) ** 2, "responses and weights define the graph")
        similarity = 1.0 + (self.responses * self.weights) @ self.responses.T
        v = self.node_weights
        return scipy.sparse.csr_array(v[:, None] * similarity * (v / self.Q))

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, (N,), defined by responses with delta value 0."""
        constant_responses = self.responses[:, self.weights > 1 - 1e-12]
        return (
            np.unique(constant_responses.round(9), axis=0, return_inverse=True)[1].reshape(-1).astype(np.intp)
        )

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        p = self.node_weights / self.Q
        centred = X - p @ X
        centred -= (self.responses * self.weights) @ ((p[:, None] * self.responses).T @ centred)
        centred *= self.node_weights[:, None]
        return centred

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        slowest = np.argsort(-self.weights, kind="stable")
        exact_vectors = root[:, None] * np.column_stack([np.ones(len(root)), self.responses[:, slowest]])
        if count <= exact_vectors.shape[1]:
            return exact_vectors[:, :count]
        random_vectors = np.random.default_rng(0).standard_normal((len(root), count - exact_vectors.shape[1]))
        # All other functions have delta value 2, so that any of them are eigenvectors.
        return np.linalg.qr(np.column_stack([exact_vectors, random_vectors]))[0]
