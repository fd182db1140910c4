"""Graphs of samples in order, of time or of labels: temporal, reordering, sliding window, ring."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_lengths, check_positive
from probsfa.graphs._combined import PermutedGraph
from probsfa.graphs._labels import check_labels, sort_labels
from probsfa.graphs._window import TiedWindowGraph, WindowGraph
from probsfa.graphs.moments import CentredRows
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["TemporalGraph", "WindowGraph", "reordering", "ring", "sliding_window", "temporal"]


def temporal(n: int, lag: int = 1, lengths: Any = None) -> "TemporalGraph":
    """Return the graph of one or several time series, for which GSFA equals SFA.

    All node weights are 1, and edges (t, t + lag) inside each sequence have weight 1 (figure 4b of
    Escalante-B. & Wiskott 2013). A and B are then the moments of :class:`probsfa.SFA`.

    Parameters
    ----------
    n : int
        Number of samples of all sequences together.
    lag : int, default=1
        Time steps between the vertices of an edge.
    lengths : array-like of int, optional
        Samples of every sequence, summing to `n`. There are no edges between sequences. Sequences of `lag`
        samples or fewer contribute only to B.

    Raises
    ------
    ValueError
        If every sequence is too short for an edge.

    See Also
    --------
    temporal_moments : The moments on this graph, computed without building it.
    reordering : Graph in the order of the labels.

    Examples
    --------
    >>> graph = temporal(5, lengths=[3, 2])
    >>> graph.laplacian_matmul([0.0, 1.0, 4.0, 9.0, 7.0])
    array([-1., -2.,  3.,  2., -2.])
    """
    n, lag = check_count("n", n), check_count("lag", lag)
    sizes = check_lengths(lengths, n)
    if max(sizes) <= lag:
        raise ValueError(
            f"No sequence has two samples {lag} apart (lag={lag}); the longest has {max(sizes)}. Use longer "
            "sequences or a smaller lag."
        )
    sequence_index = np.repeat(np.arange(len(sizes)), sizes)
    return TemporalGraph(sequence_index[lag:] == sequence_index[:-lag], lag)


class TemporalGraph(TrainingGraph):
    """Edges of weight 1 from sample t to sample t + lag.

    Parameters
    ----------
    has_edge : ndarray (N - lag,), bool
        Whether samples t and t + lag are in one sequence.
    lag : int
        Lag of the edges, in rows.
    """

    def __init__(self, has_edge: NDArray[np.bool_], lag: int) -> None:
        n = len(has_edge) + lag
        degrees = np.zeros(n, dtype=np.float64)
        degrees[:-lag] += has_edge
        degrees[lag:] += has_edge
        super().__init__(np.ones(n, dtype=np.float64), degrees)
        self.has_edge = has_edge
        self.lag = lag

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        upper = scipy.sparse.diags_array(
            self.has_edge.astype(np.float64), offsets=self.lag, shape=(self.n_vertices, self.n_vertices)
        ).tocsr()
        upper.eliminate_zeros()
        return upper + upper.T

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        # Differences are summed, because ``degree * x`` minus the sum of adjacent values loses digits of slow
        # signals.
        change = X[self.lag :] - X[: -self.lag]
        change[~self.has_edge] = 0.0
        product = np.zeros_like(X)
        product[self.lag :] += change
        product[: -self.lag] -= change
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        total = np.zeros((X.n_features, X.n_features), dtype=np.float64)
        for block in X.blocks(len(self.has_edge)):
            change = X.take(slice(block.start + self.lag, block.stop + self.lag)) - X.take(block)
            change[~self.has_edge[block]] = 0.0
            total += change.T @ change
        return total


# ---- sample reordering: the samples sorted by label, treated as a time series


def reordering(y: Any) -> PermutedGraph:
    """Return the graph with an edge from every sample to the next in the order of the labels.

    Graph-based SFA on this graph is SFA of the sorted samples (section 5.1 of Escalante-B. & Wiskott 2013).
    Edge weights of samples with equal labels are means over all orders of these samples, so that the graph
    does not depend on the order of the rows.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels, at least two different ones.

    Returns
    -------
    TrainingGraph
        A product with its Laplacian costs O(N D).

    Raises
    ------
    ValueError
        If labels are missing or all the same.

    See Also
    --------
    sliding_window : Several adjacent samples in the order of the labels.
    temporal : Graph in the order of time.

    Notes
    -----
    If m samples have the same label, each pair of them has edge weight ``2 / m``. The edges from one of these
    samples to all samples of the next label have a total weight of ``1 / m``.

    Examples
    --------
    >>> reordering([0.3, 0.1, 0.2]).to_sparse().toarray()
    array([[0., 0., 1.],
           [0., 0., 1.],
           [1., 1., 0.]])
    >>> reordering([0, 0, 1]).to_sparse().toarray()
    array([[0. , 1. , 0.5],
           [1. , 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    order, sizes = sort_labels(y)
    if len(sizes) == len(order):
        return PermutedGraph(temporal(len(order)), order)
    neighbours = WindowGraph(len(order), 1, ends="open", weights=np.array([0.0, 1.0]))
    return PermutedGraph(TiedWindowGraph(neighbours, sizes), order)


# ---- sliding windows: edges between samples close to each other in the order of the labels


#: Weights of a window by the distance of two samples in rank.
WindowWeights = ArrayLike | Callable[[FloatArray], ArrayLike]


def sliding_window(
    y: Any,
    half_width: int | None = None,
    mirrored: bool = True,
    *,
    weights: WindowWeights | None = None,
) -> PermutedGraph:
    """Return the sliding window graph of the samples sorted by label.

    All node weights are 1. Samples are numbered from 1 to N in the order of the labels, and d is the
    half-width. Edge weights of the square window are 1 for ``|n - n'| <= d``. The mirrored window is
    reflected at the ends: edge weights are 2 for ``n + n' <= d + 1`` and for ``n + n' >= 2 N + 1 - d``. All
    degrees are then ``2 d + 1``, and the graph is consistent.

    Edge weights of samples with equal labels are means over all orders of these samples, so that the graph
    does not depend on the order of the rows.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels, at least two different ones.
    half_width : int, optional
        d, from 1 to N - 1. By default ``len(weights) - 1`` for an array of `weights`, otherwise N // 10, at
        most 32 (the smaller window of section 6.2 of the reference).
    mirrored : bool, default=True
        Whether windows are reflected at the ends.
    weights : array-like (d + 1,) or callable, optional
        Shape of the window: entry ``l`` is the weight of two samples ``l`` apart in the order of the labels,
        in both directions. A callable receives the distances ``0, 1, ..., d`` as an array. Weights are
        nonnegative, and at least one after the first is positive. By default all are 1.

    Returns
    -------
    TrainingGraph
        A product with its Laplacian costs O(N D) for the square window, and O(N log(d) D) for other weights.

    Raises
    ------
    ValueError
        If labels are missing or all the same, or `half_width` or `weights` are not valid.

    See Also
    --------
    reordering : Only the next sample in the order of the labels.
    serial, mixed : Groups of samples instead of a window.

    Notes
    -----
    Escalante-B. & Wiskott (2013, JMLR 14:3683). Section 5.2 of the reference has the condition ``n + n' >= 2
    N - 1`` for the upper end, which is the condition above for d = 2 (its figure 7). A window includes its
    own sample; these self-loops affect only R, and are omitted with ``weights[0] = 0``.

    For equal labels, the mean of ``P L P'`` over all permutations P of samples with equal labels is computed.
    It is ``M L M + diag(c) (1 - M)``, where M averages over samples with equal labels; see
    :class:`~probsfa.graphs._window.TiedWindowGraph`. The cost is one product with the Laplacian of the
    window.

    Examples
    --------
    >>> sliding_window([1, 2, 3, 4, 5], half_width=2).to_sparse().toarray().astype(int)
    array([[2, 2, 1, 0, 0],
           [2, 1, 1, 1, 0],
           [1, 1, 1, 1, 1],
           [0, 1, 1, 1, 2],
           [0, 0, 1, 2, 2]])

    Two samples of the same label:

    >>> sliding_window([1, 2, 2, 3], half_width=1, mirrored=False).to_sparse().toarray()
    array([[1. , 0.5, 0.5, 0. ],
           [0.5, 1. , 1. , 0.5],
           [0.5, 1. , 1. , 0.5],
           [0. , 0.5, 0.5, 1. ]])

    Weights that decrease with the distance in rank:

    >>> graph = sliding_window([1, 2, 3, 4, 5], 2, weights=lambda lag: 1 / (1 + lag))
    >>> graph.is_consistent()
    True
    """
    order, sizes = sort_labels(y)
    n = len(order)
    d, shape = check_window(n, half_width, weights)
    window = WindowGraph(n, d, ends="mirrored" if mirrored else "open", weights=shape)
    return PermutedGraph(window if len(sizes) == n else TiedWindowGraph(window, sizes), order)


def default_half_width(n: int) -> int:
    """Return the default half-width of a window over n samples."""
    return min(32, max(1, n // 10))


def check_window(
    n: int, half_width: int | None, weights: WindowWeights | None, maximum: int | None = None
) -> tuple[int, FloatArray | None]:
    """Return the half-width, at most `maximum`, and the weights of lags from 0; None if all are 1."""
    weight_array = None if weights is None or callable(weights) else as_float_array(weights, "weights")
    if half_width is not None:
        d = check_count("half_width", half_width)
    elif weight_array is not None and weight_array.ndim == 1 and len(weight_array) > 1:
        d = len(weight_array) - 1
    else:
        d = default_half_width(n)
    maximum = n - 1 if maximum is None else maximum
    if d > maximum:
        raise ValueError(f"half_width must be at most {maximum} for {n} samples; got {d}.")
    if weights is None:
        return d, None
    if weight_array is None:
        weight_array = as_float_array(weights(np.arange(d + 1, dtype=np.float64)), "weights")  # type: ignore[operator]
    if weight_array.shape != (d + 1,):
        raise ValueError(
            f"weights must be {d + 1} numbers, one for each distance in rank from 0 to half_width={d}; got "
            f"shape {weight_array.shape}."
        )
    if not np.isfinite(weight_array).all() or (weight_array < 0).any() or not (weight_array[1:] > 0).any():
        raise ValueError(
            "weights must be finite and not negative, with at least one positive weight after the first: the "
            "first is the weight of self-loops."
        )
    return d, weight_array / weight_array.max()


# ---- ring: a periodic window over samples in the order of an angle


def ring(
    y: Any,
    period: float | None = None,
    half_width: int | None = None,
    *,
    weights: WindowWeights | None = None,
) -> PermutedGraph:
    """Return the window graph of samples around a circle.

    The samples are sorted by their position on the circle. Each sample has edges of weight 1 to the next
    `half_width` samples on either side. All node weights are 1 and all degrees are ``2 half_width + 1``, so
    that the graph is consistent. The free responses are sine and cosine of the angle, then of twice the
    angle, and so on.

    Parameters
    ----------
    y : array-like (N,)
        Angles, or other periodic positions.
    period : float, optional
        The period: 360 for degrees, 24 for hours of the day. With the default, ``2 * pi``, positions must lie
        within two periods.
    half_width : int, optional
        Half-width, from 1 to (N - 1) // 2. Default N // 10, at most 32.
    weights : array-like (half_width + 1,) or callable, optional
        Shape of the window, as in :func:`sliding_window`.

    Raises
    ------
    ValueError
        If y has values that are not finite, are all equal, or span more than two default periods; or if the
        period is not positive or the window is too wide.

    See Also
    --------
    sliding_window : Graph of labels on a line.
    probsfa.sfa.GraphSFARegressor : Regression, also of angles with ``period=``.

    Notes
    -----
    This is the periodic form of the window of Escalante-B. & Wiskott (2013, section 5.2). Edge weights of
    equal positions are averaged over all orders, as in :func:`sliding_window`.

    Examples
    --------
    >>> ring([0.0, 1.0, 2.0, 3.0, 4.0], period=5.0, half_width=1).to_sparse().toarray().astype(int)
    array([[1, 1, 0, 0, 1],
           [1, 1, 1, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 1, 1, 1],
           [1, 0, 0, 1, 1]])
    """
    labels = check_labels(y)
    if period is None:
        period = 2 * np.pi
        if np.ptp(labels) > 2 * period:
            raise ValueError(
                f"y has values from {labels.min():g} to {labels.max():g}, which cannot be angles in radians. "
                f"Pass the period: ring(y, period=360) for degrees, Ring(period=360) for an estimator."
            )
    period = check_positive("period", period)
    n = len(labels)
    if n < 3:
        raise ValueError(f"y has {n} positions; a ring requires at least three samples.")
    positions = np.mod(labels, period)
    positions[positions >= period] = 0.0  # small negative positions are rounded to the period
    if np.all(positions == positions[0]):
        raise ValueError(
            f"y has only one position, {positions[0]}, on the circle; a ring requires at least two."
        )
    d, shape = check_window(n, half_width, weights, maximum=(n - 1) // 2)
    order, sizes = sort_labels(positions)
    window = WindowGraph(n, d, ends="ring", weights=shape)
    return PermutedGraph(window if len(sizes) == n else TiedWindowGraph(window, sizes), order)
