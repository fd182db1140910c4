"""The smallest eigenvalues of a graph Laplacian: ``L y = lambda M y`` with the smallest ``lambda``.

``W`` (n, n) are symmetric nonnegative edge weights, ``L = diag(W 1) - W`` is the graph Laplacian, and ``M =
diag(mass)`` is positive. Masses are the degrees for the random-walk Laplacian (Sprekeler 2011,
doi:10.1162/neco_a_00214, eq. 2.3), and ones for the unnormalized Laplacian. Three facts determine the
algorithms:

* The null space is known: a constant on every connected component. Components are solved one by one and their
  zero eigenvalues are set exactly, so that a disconnected graph has no additional cost.
* On a connected graph ``L`` without its last row and column is a regular M-matrix, which can be factorized
  without pivoting. Its inverse is the pseudo-inverse of ``L`` up to a constant. No shift is needed, and
  arbitrarily small eigenvalues are resolved.
* Elimination is cheap for long thin graphs (curves, surfaces) and infeasible for short wide ones (clouds in
  many dimensions), for which Lanczos iteration on ``W`` needs few steps. A breadth-first search distinguishes
  them; see :func:`choose_method`.
"""

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import LinearOperator, eigsh, splu

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray

__all__ = [
    "GraphSpectrum",
    "choose_method",
    "connected_parts",
    "graph_spectrum",
    "is_sparse",
]

# Up to this size, a full eigendecomposition takes milliseconds, and finds repeated eigenvalues.
_MAX_DENSE_ROWS = 300
_N_PROBE_STEPS = 5
_N_EXTRA_VECTORS = 3  # additional eigenvectors, because the last requested eigenvalues may be close together
_LANCZOS_TOL = 1e-13  # relative to the largest eigenvalue; machine precision takes a quarter more time
_N_EXTRA_BASIS = 14  # additional Lanczos vectors: with 14, curves and surfaces require the fewest solves
_PROBE_TOL = 1e-5  # of the residual; the error of the eigenvalue is about the square of the residual


class GraphSpectrum(NamedTuple):
    """The smallest eigenvalues of a graph Laplacian, without the eigenvalue of the constant.

    Attributes
    ----------
    eigenvalues : ndarray (K,)
        Eigenvalues in ascending order. The number of exact zeros is the number of connected components minus
        one.
    vectors : ndarray (n, K)
        ``y`` with ``y' M y = 1``, orthogonal to each other and to the constant under ``M``.
    n_connected : int
        Number of connected components.
    method : str
        Algorithm for the largest component: "dense", "elimination" or "lanczos".
    """

    eigenvalues: FloatArray
    vectors: FloatArray
    n_connected: int
    method: str


def graph_spectrum(W: Any, mass: FloatArray, n_components: int, *, method: str = "auto") -> GraphSpectrum:
    """Compute the smoothest functions on a graph.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Nonnegative symmetric edge weights; the diagonal is ignored.
    mass : ndarray (n,)
        Positive masses.
    n_components : int
        Number of functions, from 1 to n - 1.
    method : {"auto", "dense", "elimination", "lanczos"}, default="auto"
        Algorithm for large components; "auto" is :func:`choose_method`.

    Returns
    -------
    GraphSpectrum
        Eigenvalues and vectors of arbitrary sign.

    Examples
    --------
    The path of three vertices has the eigenvalues 1 and 3:

    >>> W = np.array([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> graph_spectrum(W, np.ones(3), 2).eigenvalues
    array([1., 3.])
    """
    W = _significant_edges(W)
    n_connected, labels = connected_parts(W)
    values, vectors = _component_contrasts(labels, mass, n_connected, n_components)
    used = "dense"
    n_missing = n_components - len(values)
    if n_missing > 0:
        parts = _by_component(labels, n_connected)
        solved: list[tuple[NDArray[np.intp], FloatArray, FloatArray]] = []
        for i, part in enumerate(parts):
            if len(part) == 1:
                continue
            part_weights = W if n_connected == 1 else W[part][:, part]
            eigenvalues, y, method_used = _solve_connected(
                part_weights, mass[part], min(n_missing, len(part) - 1), method
            )
            solved.append((part, eigenvalues, y))
            used = method_used if i == 0 else used
        part_values, part_vectors = _merge_spectra(solved, len(mass), n_missing)
        values, vectors = np.concatenate([values, part_values]), np.hstack([vectors, part_vectors])
    return GraphSpectrum(values, vectors, n_connected, used)


def connected_parts(W: Any) -> tuple[int, NDArray[np.int32]]:
    """Return the number of connected components, and the component of every vertex."""
    n = W.shape[0]
    # A graph is connected if its first vertex has an edge to every other one; this test saves a sparse copy.
    if not is_sparse(W) and (np.count_nonzero(W[0]) >= n - 1):
        return 1, np.zeros(n, dtype=np.int32)
    count, labels = connected_components(sp.csr_array(W), connection="strong")  # W is symmetric
    return int(count), labels


def choose_method(W: Any, n_components: int) -> str:
    """Choose the fastest algorithm for the spectrum of a connected graph.

    Breadth-first search from an end of the graph divides it into levels. The size ``w`` of the widest level
    approximates the largest separator of elimination, which costs about ``w^3`` operations. The number of
    products with ``W`` in Lanczos iteration is a small multiple of the number of levels. The factors below
    were fitted to timings on curves, surfaces, solids and clouds of 5,000 to 200,000 points.

    Parameters
    ----------
    W : sparse array or ndarray (n, n)
        Edge weights of a connected graph.
    n_components : int
        Number of eigenvectors.

    Returns
    -------
    {"dense", "elimination", "lanczos"}
    """
    n = W.shape[0]
    if n <= _MAX_DENSE_ROWS or 4 * n_components >= n:
        return "dense"
    if not is_sparse(W):
        return "elimination"
    n_levels, width = _levels(W)
    fill = 2.5 * W.nnz + 1.5 * width**2
    solves = 25 + 3 * n_components
    elimination = 1e-10 * width**3 + solves * 4e-9 * fill
    lanczos = (80 + 7 * n_levels) * (1 + n_components / 10) * (1.5e-9 * W.nnz + 2e-8 * n)
    return "elimination" if elimination <= lanczos else "lanczos"


def is_sparse(W: Any) -> bool:
    """Return whether W is a sparse matrix (not a type guard, because both kinds of matrix share code)."""
    return bool(sp.issparse(W))


def _significant_edges(W: Any) -> Any:
    """Return W without its diagonal and without edges too light to change a degree in double precision.

    Such edges would join components, and their eigenvalues would be smaller than rounding errors.
    """
    if is_sparse(W):
        W = _short_indices(sp.csr_array(W))
        degrees = np.asarray(W.sum(axis=1)).ravel()
        max_edges = int(np.diff(W.indptr).max(initial=1))
        minimum = max_edges * np.finfo(np.float64).eps * degrees.max(initial=0.0)
        if W.data.min(initial=np.inf) > minimum and not W.diagonal().any():
            return W
        W = W.tocoo()
        floor = max_edges * np.finfo(np.float64).eps * np.sqrt(degrees[W.row] * degrees[W.col])
        retained = (W.row != W.col) & (W.data > floor)
        return sp.csr_array((W.data[retained], (W.row[retained], W.col[retained])), shape=W.shape)
    W = np.array(W, dtype=np.float64)
    np.fill_diagonal(W, 0.0)
    root = np.sqrt(W.sum(axis=1))
    W[len(W) * np.finfo(np.float64).eps * np.outer(root, root) >= W] = 0.0
    return W


def _short_indices(W: sp.csr_array) -> sp.csr_array:
    """Return W with 32-bit indices if they suffice, because products are limited by memory bandwidth."""
    if W.indices.dtype == np.int32 or max(W.nnz, *W.shape) > np.iinfo(np.int32).max:
        return W
    return sp.csr_array((W.data, W.indices.astype(np.int32), W.indptr.astype(np.int32)), shape=W.shape)


def _by_component(labels: NDArray[np.int32], n_connected: int) -> list[NDArray[np.intp]]:
    """Return the vertices of every component, the largest component first."""
    sizes = np.bincount(labels, minlength=n_connected)
    parts = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    return [parts[i] for i in np.argsort(-sizes, kind="stable")]


def _component_contrasts(
    labels: NDArray[np.int32], mass: FloatArray, n_connected: int, n_components: int
) -> tuple[FloatArray, FloatArray]:
    """Return the null space of L without the constant: contrasts of each component with all smaller ones."""
    count = min(n_connected - 1, n_components)
    vectors = np.zeros((len(mass), count), dtype=np.float64)
    parts = _by_component(labels, n_connected) if count else []
    weights = np.array([mass[part].sum() for part in parts])
    for j in range(count):
        weight, remaining_weight = weights[j], weights[j + 1 :].sum()
        vectors[np.concatenate(parts[j + 1 :]), j] = -np.sqrt(
            weight / remaining_weight / (weight + remaining_weight)
        )
        vectors[parts[j], j] = np.sqrt(remaining_weight / weight / (weight + remaining_weight))
    return np.zeros(count, dtype=np.float64), vectors


def _merge_spectra(
    solved: list[tuple[NDArray[np.intp], FloatArray, FloatArray]], n: int, count: int
) -> tuple[FloatArray, FloatArray]:
    """Merge the spectra of the components."""
    spectra = [eigenvalues for _, eigenvalues, _ in solved]
    values = np.concatenate(spectra)
    component = np.concatenate([np.full(len(spectrum), i) for i, spectrum in enumerate(spectra)])
    column = np.concatenate([np.arange(len(spectrum)) for spectrum in spectra])
    selected = np.argsort(values, kind="stable")[:count]
    vectors = np.zeros((n, len(selected)), dtype=np.float64)
    for j, k in enumerate(selected):
        part, _, part_vectors = solved[component[k]]
        vectors[part, j] = part_vectors[:, column[k]]
    return values[selected], vectors


def _solve_connected(W: Any, mass: FloatArray, count: int, method: str) -> tuple[FloatArray, FloatArray, str]:
    """Return eigenvalues of a connected graph, vectors with ``y' M y = 1``, and the method used."""
    n = W.shape[0]
    used = choose_method(W, count) if method == "auto" or n <= _MAX_DENSE_ROWS else method
    degrees = np.asarray(W.sum(axis=1)).ravel()
    root = np.sqrt(mass)
    null = root / np.linalg.norm(root)
    if used == "dense" or count > n - 3:
        dense = W.toarray() if is_sparse(W) else W
        operator = (np.diag(degrees) - dense) / root / root[:, None]
        _, z = scipy.linalg.eigh(operator, subset_by_index=(0, count))
        z = _orthonormal(z - np.outer(null, null @ z), drop=1)
        return *_ritz(W, degrees, z, root), "dense"
    # Products with vectors are too small for several threads.
    with one_blas_thread() if is_sparse(W) else nullcontext():
        if used == "elimination":
            inverse = _grounded_inverse(W, degrees)
            z = _leading_vectors(lambda x: root * inverse(root * x), null, count, is_inverse=True)
        else:
            z = _smoothest_by_lanczos(W, degrees, root, count)
        return *_ritz(W, degrees, z, root), used


def _smoothest_by_lanczos(W: Any, degrees: FloatArray, root: FloatArray, count: int) -> FloatArray:
    """Return the eigenvectors of the smallest eigenvalues, without the constant, by products with W."""
    inner, outer = degrees / root**2, 1 / root
    top = 2 * float(np.max(inner))
    null = root / np.linalg.norm(root)
    return _leading_vectors(
        lambda x: (top - inner) * x + outer * (W @ (outer * x)), null, count, is_inverse=False
    )


def _grounded_inverse(W: Any, degrees: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the map from b, of sum zero, to a solution of ``L y = b`` on a connected graph.

    The last vertex is fixed at zero. The rest of L is an M-matrix and requires no pivoting, so that the
    ordering can be selected for sparsity alone. Of the orderings of SuperLU, minimum degree on ``A' + A`` had
    the least fill, a third to a half of the fill of the default.
    """
    solve: Callable[[FloatArray], FloatArray]
    if not is_sparse(W):
        factor = scipy.linalg.cho_factor(np.diag(degrees[:-1]) - W[:-1, :-1], overwrite_a=True)
        solve = functools.partial(scipy.linalg.cho_solve, factor)
    else:
        rows = sp.csr_array(sp.diags_array(degrees, format="csr") - W)[:-1, :-1]
        L = sp.csc_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)  # symmetric
        options = {"SymmetricMode": True}
        lu = splu(L, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, panel_size=1, options=options)
        # L is symmetric, and the solution with its transpose is a quarter faster.
        solve = functools.partial(lu.solve, trans="T")

    def inverse(b: FloatArray) -> FloatArray:
        return np.append(solve(b[:-1]), 0.0)

    return inverse


def _leading_vectors(
    product: Callable[[FloatArray], FloatArray], null: FloatArray, count: int, *, is_inverse: bool
) -> FloatArray:
    """Return the eigenvectors of the largest eigenvalues of a positive operator, orthogonal to `null`.

    Lanczos iteration with one vector may miss a second copy of a repeated eigenvalue. The search is therefore
    repeated in the complement of the vectors found until the complement has no larger eigenvalue. With
    `is_inverse` the leading eigenvalues of the operator are well separated.
    """
    basis, values = null[:, None], np.zeros(0, dtype=np.float64)
    n_requested = count if is_inverse else min(count + _N_EXTRA_VECTORS, len(null) - 3)
    while n_requested:
        new_values, new = _lanczos(product, basis, n_requested, is_inverse, tol=_LANCZOS_TOL)
        basis, values = np.hstack([basis, new]), np.concatenate([values, new_values])
        minimum = np.sort(values)[-count]
        n_requested = int(_largest_remaining_eigenvalue(product, basis, is_inverse) > minimum * (1 + 1e-8))
    order = np.argsort(-values, kind="stable")[:count]
    return _orthonormal(basis[:, 1:][:, order])


def _lanczos(
    product: Callable[[FloatArray], FloatArray],
    initial_vectors: FloatArray,
    count: int,
    is_inverse: bool,
    tol: float,
) -> tuple[FloatArray, FloatArray]:
    """Run Lanczos iteration in the orthogonal complement of `initial_vectors`."""
    n = len(initial_vectors)

    def deflated(x: FloatArray) -> FloatArray:
        x = x - initial_vectors @ (initial_vectors.T @ x)
        y = product(x)
        return y - initial_vectors @ (initial_vectors.T @ y)

    start = np.random.default_rng(0).standard_normal(n)
    basis = min(n, count + _N_EXTRA_BASIS if is_inverse else max(2 * count + 1, 50))
    operator = LinearOperator((n, n), matvec=deflated, dtype=np.float64)
    start -= initial_vectors @ (initial_vectors.T @ start)
    return eigsh(operator, k=count, which="LA", v0=start, ncv=basis, maxiter=100 * n, tol=tol)


def _largest_remaining_eigenvalue(
    product: Callable[[FloatArray], FloatArray], initial_vectors: FloatArray, is_inverse: bool
) -> float:
    """Estimate a lower bound of the largest eigenvalue in the complement of `initial_vectors`."""
    if initial_vectors.shape[1] >= len(initial_vectors) - 2:
        return 0.0
    if not is_inverse:  # eigenvalues are close together; only a converged search is then reliable
        return float(_lanczos(product, initial_vectors, 1, is_inverse, tol=_PROBE_TOL)[0][0])
    x = np.random.default_rng(1).standard_normal(len(initial_vectors))
    V, AV = initial_vectors[:, :0], initial_vectors[:, :0]
    for _ in range(_N_PROBE_STEPS):
        for basis in (initial_vectors, V, initial_vectors, V):
            x = x - basis @ (basis.T @ x)
        V = np.column_stack([V, x / np.linalg.norm(x)])
        x = product(V[:, -1])
        AV = np.column_stack([AV, x])
    H = V.T @ AV
    return float(scipy.linalg.eigvalsh((H + H.T) / 2)[-1])


def _ritz(W: Any, degrees: FloatArray, z: FloatArray, root: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Diagonalize L in the span of the vectors (Rayleigh-Ritz), which restores digits lost by an inverse."""
    y = z / root[:, None]
    energy = y.T @ (degrees[:, None] * y - W @ y)
    values, rotation = scipy.linalg.eigh((energy + energy.T) / 2)
    y = y @ rotation
    return np.maximum(values, 0.0), y


def _orthonormal(z: FloatArray, drop: int = 0) -> FloatArray:
    """Return the closest orthonormal basis to the columns, without the `drop` shortest directions."""
    u, s, vt = scipy.linalg.svd(z, full_matrices=False)
    return (u @ vt) if drop == 0 else u[:, : len(s) - drop]


def _levels(W: Any) -> tuple[int, int]:
    """Return the number of levels of a breadth-first search from a far vertex, and the largest level size."""
    source, n = 0, W.shape[0]
    for _ in range(2):  # the first search ends at an end of the graph, where the second search starts
        order, predecessors = breadth_first_order(W, source)
        position = np.empty(n, dtype=np.intp)
        position[order] = np.arange(n)
        # Parents are ascending, because vertices are found in the order of their parents.
        parents = position[predecessors[order[1:]]]
        level_starts = [0, 1]
        while level_starts[-1] < len(order):
            level_starts.append(1 + int(np.searchsorted(parents, level_starts[-1], side="left")))
        source = int(order[-1])
    return len(level_starts) - 1, int(np.diff(level_starts).max())
