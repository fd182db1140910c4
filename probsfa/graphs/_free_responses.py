"""The slowest functions on a graph, independent of any inputs."""

from typing import NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs.training_graph import TrainingGraph

__all__ = ["FreeResponses", "free_responses"]

_MAX_DENSE_VERTICES = 600  # up to this number the dense eigenproblem is solved, above it a sparse one
# Maximum number of multiplications of a banded factorization; for more, Lanczos iteration is used.
_MAX_FACTOR_WORK = 1e9
_TOLERANCE = 1e-12  # of eigenvalues, relative to the largest
_RELATIVE_SHIFT = 1e-3  # relative to the mean of the diagonal; the Laplacian is singular without a shift


class FreeResponses(NamedTuple):
    """The slowest functions on a graph.

    Attributes
    ----------
    values : ndarray (N, K)
        Functions in columns, slowest first: centred, decorrelated and of unit variance under the node
        weights. In each function, the value of largest magnitude (the first of equal ones) is positive.
    delta_values : ndarray (K,)
        Weighted mean squared difference of each function over the edges, ascending.
    """

    values: FloatArray
    delta_values: FloatArray


def free_responses(graph: TrainingGraph, n_components: int = 5) -> FreeResponses:
    """Return the slowest functions on a training graph among all functions of its vertices.

    Free responses are the outputs of graph-based slow feature analysis for unrestricted inputs. Delta values
    of features of data are at least the delta values of the free responses. A label that the free responses
    do not determine cannot be learned with the graph.

    Parameters
    ----------
    graph : TrainingGraph
        Graph with positive node weights.
    n_components : int, default=5
        K, less than N.

    Returns
    -------
    FreeResponses
        ``values`` (N, K) and ``delta_values`` (K,). Functions of equal delta value are determined up to
        rotation. On a graph with C connected components, the first C - 1 functions are constant on each
        component and have delta value 0.

    Raises
    ------
    ValueError
        If `n_components` is not less than the number of vertices, or a node weight is zero.

    See Also
    --------
    exact_label : A graph with given free responses.
    probsfa.LaplacianEigenmaps : Slowest functions on a graph of similarities, also for new points.

    Notes
    -----
    Free responses solve ``L y = lambda V y`` with ``delta = 2 lambda Q / R``. On the temporal graph of N
    steps they are cosines (Wiskott 2003, Neural Computation 15:2147), ``sqrt(2) cos(pi j (t + 1/2) / N)``
    with ``delta = 2 (1 - cos(pi j / N)) N / (N - 1)``. If node weights are the degrees, they are Laplacian
    eigenmaps (Sprekeler 2011). For graphs of groups and of exact labels, the structure determines the
    solution. For other graphs with more than a few hundred vertices, the sparse matrix is used, which
    requires at least the memory of ``to_sparse()``.

    Examples
    --------
    >>> from probsfa.graphs import temporal
    >>> responses = free_responses(temporal(100), 2)
    >>> t = np.arange(100)
    >>> bool(np.allclose(abs(responses.values[:, 0]), abs(np.sqrt(2) * np.cos(np.pi * (t + 0.5) / 100))))
    True
    """
    k, n = check_count("n_components", n_components), graph.n_vertices
    if k >= n:
        raise ValueError(f"n_components must be less than the number of vertices, {n}; got {k}.")
    v = graph.node_weights
    if not (v > 0).all():
        raise ValueError(
            f"graph has {int((v <= 0).sum())} vertices with node weight 0; responses are not determined at "
            "these vertices. Use a graph without them."
        )
    root = np.sqrt(v / graph.Q)

    def whitened(Z: FloatArray) -> FloatArray:  # V^-1/2 L V^-1/2, scaled so that eigenvalues are delta values
        product = graph._laplacian_matmul(Z.reshape(n, -1) / root[:, None])
        return product / root[:, None] * (2.0 / graph.R)

    structured = graph._slowest(root, k + 1)
    if structured is not None:
        vectors = structured
    elif n <= _MAX_DENSE_VERTICES:
        vectors = scipy.linalg.eigh(_symmetric(whitened(np.eye(n))), subset_by_index=[0, k])[1]
    else:
        vectors = _slowest_vectors_of_sparse(graph, root, k + 1)
    vectors -= root[:, None] * (root @ vectors)  # removes the constant function
    basis = scipy.linalg.svd(vectors, full_matrices=False)[0][:, :k]
    basis -= root[:, None] * (root @ basis)
    deltas, rotation = scipy.linalg.eigh(_symmetric(basis.T @ whitened(basis)))
    values = (basis @ rotation) / root[:, None]
    largest = np.abs(values).max(axis=0)
    first = np.argmax(np.abs(values) > (1 - 1e-6) * largest, axis=0)
    values *= np.sign(values[first, np.arange(k)])
    return FreeResponses(values, np.maximum(deltas, 0.0))


def _symmetric(A: FloatArray) -> FloatArray:
    return (A + A.T) / 2


def _slowest_vectors_of_sparse(graph: TrainingGraph, root: FloatArray, count: int) -> FloatArray:
    """Return the eigenvectors of the smallest eigenvalues of ``V^-1/2 L V^-1/2``.

    Chain-like graphs, such as temporal graphs, have small factors, and eigenvalues close to zero and to each
    other; inverse iteration is used. Other graphs have large factors and separated eigenvalues; Lanczos
    iteration on the matrix is used, or inverse iteration if it does not converge.
    """
    n = graph.n_vertices
    edges = graph.to_sparse() * (2.0 / graph.R)
    L = scipy.sparse.diags_array(np.asarray(edges.sum(axis=1))) - edges
    scaled = (scipy.sparse.diags_array(1 / root) @ L @ scipy.sparse.diags_array(1 / root)).tocsr()
    start = np.random.default_rng(0).standard_normal(n)
    order = reverse_cuthill_mckee(scaled, symmetric_mode=True)
    banded = scaled[order][:, order].tocoo()
    bandwidth = int(np.abs(banded.coords[0] - banded.coords[1]).max(initial=1))
    if n * bandwidth**2 > _MAX_FACTOR_WORK:
        eigenvalue_bound = 2.0 * float(scaled.diagonal().max())  # upper bound of the eigenvalues
        reversed_matrix = scipy.sparse.eye_array(n) * eigenvalue_bound - scaled
        n_lanczos = min(n - 1, max(4 * count, 60))
        try:
            vectors: FloatArray = eigsh(
                reversed_matrix, k=count, which="LA", v0=start, ncv=n_lanczos, tol=_TOLERANCE, maxiter=300
            )[1]
            return vectors
        except ArpackError:
            pass
    shift = _RELATIVE_SHIFT * float(scaled.diagonal().mean()) / n
    factor = splu((scaled + shift * scipy.sparse.eye_array(n)).tocsc(), permc_spec="MMD_AT_PLUS_A")
    inverse = LinearOperator((n, n), matvec=factor.solve, dtype=np.float64)
    vectors = eigsh(inverse, k=count, which="LA", v0=start)[1]
    return vectors
