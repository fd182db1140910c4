"""Second moments of samples on a training graph, through its Laplacian alone and in bounded memory."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._rows import check_rows
from probsfa.graphs.moments import block_rows, rounding_variance
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["GraphMoments", "GraphSums", "graph_moments"]


class GraphMoments(NamedTuple):
    """Mean and second moments of the samples of a training graph.

    Attributes
    ----------
    mean : ndarray (D,)
        ``xbar``, weighted with the node weights.
    covariance : ndarray (D, D)
        ``B = (1/Q) sum_n v_n (x(n) - xbar)(x(n) - xbar)'``.
    difference_moment : ndarray (D, D)
        ``A = (1/R) sum_nn' gamma_nn' (x(n') - x(n))(x(n') - x(n))'``.
    variance_floor : ndarray (D,)
        Variance that rounding alone can give a constant column at this mean.
    """

    mean: FloatArray
    covariance: FloatArray
    difference_moment: FloatArray
    variance_floor: FloatArray


class GraphSums(NamedTuple):
    """Moments of samples on a graph, and the sums of weights by which they merge.

    Attributes
    ----------
    moments : GraphMoments
        Of all samples so far.
    Q, R : float
        Sums of their node weights and of their edge weights.
    n_samples : int
        How many there are.
    """

    moments: GraphMoments
    Q: float
    R: float
    n_samples: int

    def merge(self, other: "GraphSums") -> "GraphSums":
        """Return the moments of both sets of samples on the union of their graphs, which it does not join."""
        Q, R = self.Q + other.Q, self.R + other.R
        q, r = other.Q / Q, other.R / R
        one, two = self.moments, other.moments
        gap = two.mean - one.mean
        mean = one.mean + q * gap
        covariance = (1 - q) * one.covariance + q * two.covariance + q * (1 - q) * np.outer(gap, gap)
        difference_moment = (1 - r) * one.difference_moment + r * two.difference_moment
        moments = GraphMoments(mean, covariance, difference_moment, rounding_variance(mean))
        return GraphSums(moments, Q, R, self.n_samples + other.n_samples)


def graph_moments(graph: TrainingGraph, X: ArrayLike) -> GraphMoments:
    """Return the moments A and B of graph-based slow feature analysis.

    Parameters
    ----------
    graph : TrainingGraph
        One vertex per row of `X`.
    X : array-like (N, D)
        Samples, complete.

    Returns
    -------
    GraphMoments
        In O(N D^2) for every graph whose Laplacian takes O(N D). `X` is not copied: temporal, window and
        group graphs take it row block by row block; through the Laplacian of others go a few columns at a
        time, so the memory beside it is a few times 64 MiB, or a few columns where N exceeds 8 million.

    Raises
    ------
    ValueError
        If `X` is no two-dimensional array of numbers, is incomplete, or the number of its rows is not the
        number of vertices.

    See Also
    --------
    temporal_moments : The same for neighbours in time, one pass over rows that may be incomplete.
    probsfa.distributed.graph_moments : The same on a Dask cluster.

    Notes
    -----
    Escalante-B. & Wiskott (2013), JMLR 14:3683, eqs. 12-14.

    Examples
    --------
    >>> from probsfa.graphs import temporal
    >>> graph_moments(temporal(3), [[0.0], [1.0], [5.0]])[:3]
    (array([2.]), array([[4.66666667]]), array([[8.5]]))
    """
    rows = check_rows(X, "X")
    if len(rows) != graph.n_vertices:
        raise ValueError(
            f"X must have one row for each of the {graph.n_vertices} vertices of the graph; got shape "
            f"{rows.shape}."
        )
    origin, offset, covariance = _weighted_covariance(rows, graph.node_weights / graph.Q)
    A = 2.0 * graph._relative_energy(CentredRows(rows, origin, offset))
    mean = origin + offset
    return GraphMoments(mean, covariance, (A + A.T) / 2, rounding_variance(mean))


def _weighted_covariance(rows: FloatArray, v: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return a sample as origin, the mean relative to it, and the covariance; `v` sums to 1."""
    # Two passes: without cancellation whatever the offset and whatever the weights.
    origin = rows[0].copy()
    offset = np.zeros_like(origin)
    size = block_rows(len(origin))
    for start in range(0, len(rows), size):
        offset += v[start : start + size] @ (rows[start : start + size] - origin)
    covariance = np.zeros((len(origin), len(origin)), dtype=np.float64)
    for start in range(0, len(rows), size):
        centred = rows[start : start + size] - origin
        centred -= offset
        centred *= np.sqrt(v[start : start + size])[:, None]
        covariance += centred.T @ centred
    return origin, offset, covariance
