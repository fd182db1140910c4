"""Training graphs: node weights of samples and edge weights of pairs of samples.

A training graph (Escalante-B. & Wiskott 2013, JMLR 14:3683, section 3) has N vertices, one per row of the
data, with node weights ``v_n >= 0`` and symmetric edge weights ``gamma_nn' >= 0``. With

    Q = sum_n v_n                       R = sum_nn' gamma_nn'
    d_n = sum_n' gamma_nn'              L = diag(d) - gamma

the moments of graph-based slow feature analysis are (eqs. 12-14)

    xbar = (1/Q) sum_n v_n x(n)
    B    = (1/Q) sum_n v_n (x(n) - xbar)(x(n) - xbar)'
    A    = (1/R) sum_nn' gamma_nn' (x(n') - x(n))(x(n') - x(n))' = (2/R) X' L X

so that only the product ``L X`` is required. The graphs of this package compute it in O(N D), although most
of them have about N^2 edges. A self-loop ``gamma_nn`` adds to ``d_n`` and ``R`` only.

The weights are *consistent* if ``d_n / R = v_n / Q`` for every vertex (restrictions 20 and 21 of the paper;
restrictions 19 and 22 are ``Q = R = 1``). Then ``gamma_nn' / d_n`` are the transition probabilities of a
Markov chain whose stationary distribution is proportional to the node weights. SFA of that chain equals SFA
on the graph (section 3.5).
"""

import itertools
from abc import ABC, abstractmethod
from bisect import bisect_right
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._rows import check_rows
from probsfa.graphs.moments import CentredRows, block_rows, rounding_variance

__all__ = [
    "GraphMoments",
    "GraphSums",
    "ReweightedGraph",
    "SparseWalk",
    "TrainingGraph",
    "check_number_of_edges",
    "graph_moments",
]

IntArray = NDArray[np.intp]

_MAX_EDGES = 2**28  # in to_sparse: 4 GiB with indices, and as much during construction
_BLOCK_SIZE = 2**23  # values multiplied by the Laplacian at a time, 64 MiB of float64


class TrainingGraph(ABC):
    """Interface of all training graphs; vertices are the rows of the data, in order.

    Concrete graphs are immutable. They define the product with the Laplacian, from which moments follow.

    Parameters
    ----------
    node_weights : array-like (N,)
        ``v``: nonnegative weight of every sample.
    degrees : array-like (N,)
        ``d``: sum of the weights of the edges at every vertex, self-loops included.

    Attributes
    ----------
    node_weights, degrees : ndarray (N,)
        The parameters, read-only.
    Q, R : float
        Sums of node weights and of degrees.
    """

    def __init__(self, node_weights: ArrayLike, degrees: ArrayLike) -> None:
        self.node_weights = _read_only(node_weights)
        self.degrees = _read_only(degrees)
        with np.errstate(over="ignore", invalid="ignore"):
            self.Q = float(self.node_weights.sum())
            self.R = float(self.degrees.sum())
        if not (np.isfinite(self.Q) and np.isfinite(self.R)):
            raise ValueError(
                "The sum of the weights of this graph overflows in double precision. Divide them by the "
                "largest: only their proportions matter."
            )
        if not self.Q > 0:
            raise ValueError("node_weights are all zero; at least one must be positive.")
        if not self.R > 0:
            raise ValueError("This graph has no edges; at least one is required.")

    @abstractmethod
    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights ``gamma`` as a sparse matrix (N, N).

        For tests and figures; a clustered graph has about N^2 entries.

        Raises
        ------
        MemoryError
            If there are more than 2^28 edges.
        """

    @abstractmethod
    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, numbered from 0, shape (N,)."""

    @abstractmethod
    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        """Return ``L X`` for X of shape (N, D), as a new array."""

    def _energy(self, X: CentredRows) -> FloatArray:
        """Return ``X' L X``, (D, D), symmetric up to rounding.

        A few columns at a time are multiplied by the Laplacian. Graphs that can process blocks of rows
        override this method, so that temporary arrays fit the cache.
        """
        n, n_features = len(X), X.n_features
        energy = np.zeros((n_features, n_features), dtype=np.float64)
        n_panels = min(n_features, -(-n * n_features // _BLOCK_SIZE))
        boundaries = np.linspace(0, n_features, n_panels + 1).astype(int).tolist()
        for first, stop in itertools.pairwise(boundaries):
            panel = slice(first, stop)
            product = self._laplacian_matmul(X.take(slice(None), panel))
            for block in X.blocks():
                energy[:, panel] += X.take(block).T @ product[block]
        return energy

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        """Return ``X' L X / R``, which depends only on the proportions of the edge weights.

        Graphs that consist of other graphs, or whose weights are given by the user, override this method.
        """
        return self._energy(X) / self.R

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        """Return orthonormal eigenvectors (N, count) of the smallest eigenvalues of ``V^-1/2 L V^-1/2``.

        `root` is ``sqrt(v / Q)``. None if the structure of the graph does not determine the slowest
        functions.
        """
        return None

    @property
    def n_vertices(self) -> int:
        """Number of vertices, N."""
        return len(self.node_weights)

    def laplacian_matmul(self, X: ArrayLike) -> FloatArray:
        """Return ``L X = diag(d) X - gamma X``.

        Parameters
        ----------
        X : array-like (N, D) or (N,)
            One row per vertex.

        Returns
        -------
        ndarray
            The shape of `X`.

        Raises
        ------
        ValueError
            If the number of rows is not the number of vertices.
        """
        values = as_float_array(X, "X")
        if values.ndim not in (1, 2) or len(values) != self.n_vertices:
            raise ValueError(
                f"X must have one row for each of the {self.n_vertices} vertices of the graph; got an array "
                f"of shape {values.shape}."
            )
        return self._laplacian_matmul(values.reshape(len(values), -1)).reshape(values.shape)

    def is_consistent(self, tol: float = 1e-9) -> bool:
        """Return whether ``d_n / R = v_n / Q`` for every vertex, within `tol` of the largest weight."""
        d, v = self.degrees / self.R, self.node_weights / self.Q
        return bool(np.abs(d - v).max() <= tol * max(d.max(), v.max()))

    def repaired(self) -> "TrainingGraph":
        """Return the graph with the node weights that make it consistent, and with ``Q = R = 1``.

        The edges do not change; node weights become proportional to degrees, ``v_n = d_n / R``.

        Returns
        -------
        TrainingGraph
            The consistent graph, which fulfils restrictions 19-22 of Escalante-B. & Wiskott (2013).
        """
        return ReweightedGraph(self, self.degrees / self.R, scale=1.0 / self.R)

    def sample_markov_chain(
        self, n_steps: int, random_state: Any = None, *, teleport: float | None = None
    ) -> IntArray:
        """Draw a sequence of samples; SFA of a long sequence gives the features of GSFA on this graph.

        The chain starts in the distribution ``v / Q``. The probability of a step from n to n' is ``(1 -
        teleport) gamma_nn' / d_n + teleport v_n' / Q`` (eqs. 23-24). Teleporting adds ``2 teleport B`` to the
        moment of differences. Delta values increase by about ``2 teleport``, and features do not change.

        Parameters
        ----------
        n_steps : int
            Length of the chain.
        random_state : int, RandomState or None, default=None
            As in scikit-learn.
        teleport : float, optional
            Probability of a jump to a random sample (epsilon in the paper), from 0 to 1. By default 0 if the
            graph is connected, otherwise ``n_steps ** -0.5``: it converges to zero for long chains, and the
            number of visits to each component still increases.

        Returns
        -------
        ndarray (n_steps,)
            Vertices in the order of the visits; ``X[chain]`` is the sequence.

        Raises
        ------
        ValueError
            If the graph is not consistent, or has negative edge weights, so that it has no Markov chain.
        MemoryError
            As from :meth:`to_sparse`.
        """
        n_steps = check_count("n_steps", n_steps)
        if teleport is not None and not 0 <= teleport <= 1:
            raise ValueError(f"teleport must lie between 0 and 1; got {teleport!r}.")
        if not self.is_consistent():
            raise ValueError(
                "This graph has no Markov chain: the stationary distribution of a random walk on its edges "
                "is proportional to node degrees, which differ from its node weights. Use graph.repaired()."
            )
        if teleport is None:
            teleport = 0.0 if self.component_labels().max() == 0 else n_steps**-0.5
        rng = check_random_state(random_state)
        jumps = rng.random_sample(n_steps) < teleport
        jumps[0] = True
        starts_of_walks = np.flatnonzero(jumps)
        starts = rng.choice(self.n_vertices, size=len(starts_of_walks), p=self.node_weights / self.Q)
        lengths = np.diff(np.append(starts_of_walks, n_steps))
        walk = SparseWalk(self.to_sparse())
        return np.concatenate([walk(int(s), int(n), rng) for s, n in zip(starts, lengths, strict=True)])


class ReweightedGraph(TrainingGraph):
    """The edges of another graph times a factor, with other node weights.

    Parameters
    ----------
    base : TrainingGraph
        Graph with the edges.
    node_weights : array-like (N,)
        Not negative.
    scale : float, default=1.0
        Positive factor on all edge weights.
    """

    def __init__(self, base: TrainingGraph, node_weights: ArrayLike, *, scale: float = 1.0) -> None:
        super().__init__(node_weights, base.degrees * scale)
        self.base = base
        self.scale = scale

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        return self.base.to_sparse() * self.scale

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return self.base.component_labels()

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = self.base._laplacian_matmul(X)
        product *= self.scale
        return product

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        return self.base._relative_energy(X)


def check_number_of_edges(n_edges: float, alternative: str) -> None:
    """Raise a MemoryError if a matrix of edges would be too large.

    Parameters
    ----------
    n_edges : float
        Number of edges.
    alternative : str
        Clause of the message about a representation of the edges that needs less memory.
    """
    if n_edges > _MAX_EDGES:
        raise MemoryError(
            f"This graph has {n_edges:.3g} edges, {16 * n_edges / 2**30:.3g} GiB as a sparse matrix. "
            f"laplacian_matmul and graph_moments do not require the matrix, and {alternative}."
        )


def _read_only(values: ArrayLike) -> FloatArray:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array


# ---- a random walk on an explicit graph


# Negative weights are treated as rounding errors up to this share of the largest weight.
_MAX_NEGATIVE_SHARE = 1e-9


class SparseWalk:
    """Random walks on the edges of a sparse matrix.

    Parameters
    ----------
    weights : sparse array (N, N)
        Non-negative; the walk moves from n to n' with probability ``weights[n, n'] / weights[n].sum()``.
    """

    def __init__(self, weights: scipy.sparse.csr_array) -> None:
        rows = weights.tocsr()
        if rows.data.min(initial=0.0) < -_MAX_NEGATIVE_SHARE * rows.data.max(initial=0.0):
            raise ValueError(
                "This graph has negative edge weights, which cannot be transition probabilities. For "
                "exact_label use nonnegative=True."
            )
        # Bisection is ten times faster on Python lists than on small arrays.
        self._row_starts = rows.indptr.tolist()
        self._targets = rows.indices.tolist()
        self._sums = np.concatenate([[0.0], np.cumsum(np.maximum(rows.data, 0.0))]).tolist()

    def __call__(self, start: int, n_steps: int, rng: np.random.RandomState) -> NDArray[np.intp]:
        """Return `n_steps` vertices of a walk from `start`; it stays at a vertex without edges."""
        row_starts, targets, sums = self._row_starts, self._targets, self._sums
        path, current = np.empty(n_steps, dtype=np.intp), start
        for step, u in enumerate(rng.random_sample(n_steps).tolist()):
            path[step] = current
            first, stop = row_starts[current], row_starts[current + 1]
            if first < stop:
                target_sum = sums[first] + u * (sums[stop] - sums[first])
                edge = bisect_right(sums, target_sum, first + 1, stop + 1) - 1
                current = targets[min(edge, stop - 1)]
        return path


# ---- second moments of samples on a training graph, by its Laplacian, in bounded memory


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
        Largest variance that rounding errors give to a constant column with this mean.
    """

    mean: FloatArray
    covariance: FloatArray
    difference_moment: FloatArray
    variance_floor: FloatArray


class GraphSums(NamedTuple):
    """Moments of samples on a graph, with the sums of weights for merging.

    Attributes
    ----------
    moments : GraphMoments
        Moments of all samples so far.
    Q, R : float
        Sums of their node weights and of their edge weights.
    n_samples : int
        Number of samples.
    """

    moments: GraphMoments
    Q: float
    R: float
    n_samples: int

    def merge(self, other: "GraphSums") -> "GraphSums":
        """Return the moments of both sets of samples on the disjoint union of their graphs."""
        Q, R = self.Q + other.Q, self.R + other.R
        q, r = other.Q / Q, other.R / R
        first, second = self.moments, other.moments
        mean_difference = second.mean - first.mean
        mean = first.mean + q * mean_difference
        covariance = (
            (1 - q) * first.covariance
            + q * second.covariance
            + q * (1 - q) * np.outer(mean_difference, mean_difference)
        )
        difference_moment = (1 - r) * first.difference_moment + r * second.difference_moment
        moments = GraphMoments(mean, covariance, difference_moment, rounding_variance(mean))
        return GraphSums(moments, Q, R, self.n_samples + other.n_samples)


def graph_moments(graph: TrainingGraph, X: ArrayLike) -> GraphMoments:
    """Return the moments of graph-based SFA: covariance B and second moment A of differences.

    Parameters
    ----------
    graph : TrainingGraph
        One vertex per row of `X`.
    X : array-like (N, D)
        Samples, complete.

    Returns
    -------
    GraphMoments
        The moments. Time is O(N D^2) if the product with the Laplacian is O(N D). `X` is not copied:
        temporal, window and group graphs process blocks of rows, others a few columns at a time. Additional
        memory is a few times 64 MiB, or that of a few columns if N exceeds 8 million.

    Raises
    ------
    ValueError
        If `X` is not a two-dimensional array of numbers, has missing values, or the number of its rows is not
        the number of vertices.

    See Also
    --------
    probsfa.graphs.moments.temporal_moments : Moments for neighbours in time, of rows that may be incomplete.
    probsfa.distributed.fit : Estimators of data on a Dask cluster.

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
    # Two passes avoid cancellation for any offset and weights.
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
