"""The heat kernel of very many points, through landmarks among them (Nystroem's method).

With landmarks ``z_1 .. z_m`` the kernel matrix of all n points is replaced by ``F F'``, where
``F = K(X, Z) C^-T`` and ``C C' = K(Z, Z)`` (Williams & Seeger 2000, NIPS 13; for spectral clustering Fowlkes,
Belongie, Chung & Malik 2004, doi:10.1109/TPAMI.2004.1262185). ``F F'`` is the kernel matrix exactly in the
rows of landmarks, never above it on the diagonal, and close to it everywhere once the landmarks cover the
points. That costs n m numbers and n m^2 operations.

Landmarks are chosen as pivots of an incomplete Cholesky factorisation, in blocks: a pool of points is drawn
in proportion to what is still missing of their kernel with themselves (Chen, Epperly, Tropp & Webber 2022,
arXiv:2207.06503), and in the pool those of the largest rest are taken one after the other.
"""

import warnings
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from probsfa._typing import FloatArray
from probsfa.sfa.edges import NewEdges

__all__ = ["LandmarkEdges", "LowRankAffinity"]

_BLOCK = 64  # landmarks chosen together
_POOL = 4  # candidates for each of them
_REST = 1e-10  # of the kernel of a point with itself; less is not worth a landmark
_PROBES = 200  # points whose degree is measured against the kernel itself
_WORST_DEGREE = 0.01


class LowRankAffinity:
    """Edge weights ``F F'``, with or without their diagonal, which are never formed.

    Parameters
    ----------
    factor : ndarray (n, m)
        ``F``.
    loops : bool
        Whether self-loops, the diagonal, belong to it.
    """

    def __init__(self, factor: FloatArray, loops: bool) -> None:
        self.factor = factor
        self.loops = loops
        self.shape = (len(factor), len(factor))
        self._squares: FloatArray = np.einsum("ij,ij->i", factor, factor)

    def diagonal(self) -> FloatArray:
        """Return the self-loops, (n,)."""
        return self._squares if self.loops else np.zeros_like(self._squares)

    def sum(self, axis: int = 1) -> FloatArray:
        """Return the degrees, (n,)."""
        return self @ np.ones(self.shape[0])

    def __matmul__(self, vectors: FloatArray) -> FloatArray:
        """Return the product with one vector or several."""
        product: FloatArray = self.factor @ (self.factor.T @ vectors)
        if not self.loops:
            product -= (self._squares if vectors.ndim == 1 else self._squares[:, None]) * vectors
        return product

    def scaled(self, factors: FloatArray) -> "LowRankAffinity":
        """Return the weights times the factors of both ends of an edge."""
        return LowRankAffinity(self.factor * factors[:, None], self.loops)

    def toarray(self) -> FloatArray:
        """Return the weights, (n, n)."""
        dense: FloatArray = self.factor @ self.factor.T
        if not self.loops:
            np.fill_diagonal(dense, 0.0)
        return dense


class LowRankRows:
    """Weights ``G F'`` between new points and training points, which are never formed."""

    def __init__(self, rows: FloatArray, factor: FloatArray) -> None:
        self._rows = rows
        self._factor = factor
        self.shape = (len(rows), len(factor))

    def __matmul__(self, vectors: FloatArray) -> FloatArray:
        product: FloatArray = self._rows @ (self._factor.T @ vectors)
        return product

    def sum(self, axis: int = 1) -> FloatArray:
        """Return the sums of the rows."""
        return self @ np.ones(self.shape[1])


class LandmarkEdges:
    """A heat kernel of all pairs of points, through landmarks.

    Parameters
    ----------
    points : ndarray or sparse array (n, D)
        Training points.
    gamma : float
        Decay per squared distance.
    n_landmarks : int
        How many at most; fewer where they say all there is to say in double precision.

    Warns
    -----
    UserWarning
        If degrees are off by more than one in a hundred.
    """

    def __init__(self, points: Any, gamma: float, n_landmarks: int) -> None:
        self.gamma = gamma
        self.scales: FloatArray | None = None
        self.landmarks, factor, self._root = _incomplete_cholesky(points, gamma, n_landmarks)
        self._landmark_points = points[self.landmarks]
        self._factor = factor
        self._check_degrees(points)

    def training(self, loops: bool) -> LowRankAffinity:
        """Return the weights as a product of two factors."""
        return LowRankAffinity(self._factor, loops)

    def cells_per_row(self) -> int:
        """Return the number of landmarks."""
        return 2 * len(self.landmarks)

    def new(self, rows: Any) -> NewEdges:
        """Return the weights of new points; `own` is what landmarks make of a point's kernel with itself."""
        exponent = euclidean_distances(rows, self._landmark_points, squared=True) * self.gamma
        least = exponent.min(axis=1)
        kernel = np.exp(least[:, None] - exponent)
        G: FloatArray = scipy.linalg.solve_triangular(self._root, kernel.T, lower=True).T
        # What a point weighs with itself is a square and falls twice as fast with the distance.
        own = np.einsum("ij,ij->i", G, G) * np.exp(-least)
        nearest = np.full(rows.shape[0], -1, dtype=np.intp)
        return NewEdges(LowRankRows(G, self._factor), np.exp(-least), own, nearest)

    def _check_degrees(self, points: Any) -> None:
        """Compare the degrees of some points with those of the kernel itself."""
        n = points.shape[0]
        probes = np.sort(np.random.default_rng(1).choice(n, min(_PROBES, n), replace=False))
        exact = np.exp(-self.gamma * euclidean_distances(points[probes], points, squared=True)).sum(axis=1)
        ours = self._factor[probes] @ self._factor.sum(axis=0)
        worst = float(np.abs(ours / exact - 1).max())
        if worst > _WORST_DEGREE:
            warnings.warn(
                f"{len(self.landmarks)} landmarks are too few for this kernel: of {len(probes)} points, one "
                f"has a sum of edge weights that is off by {100 * worst:.0f} %. Raise n_landmarks, lower "
                "gamma, or use affinity='nearest_neighbors'.",
                stacklevel=7,
            )


def _incomplete_cholesky(
    points: Any, gamma: float, most: int
) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
    """Return landmarks (m,), the factor ``F`` (n, m), and ``C``, the Cholesky factor of their kernel."""
    n = points.shape[0]
    most = min(most, n)
    rng = np.random.default_rng(0)
    factor = np.zeros((n, most), dtype=np.float64)
    rest = np.ones(n)
    chosen: list[int] = []
    while len(chosen) < most and rest.max() > _REST:
        pool = np.unique(_drawn(rest, rng, _POOL * _BLOCK))
        m = len(chosen)
        within = _kernel(points[pool], points[pool], gamma) - factor[pool, :m] @ factor[pool, :m].T
        picked, root = _pivots(within, min(_BLOCK, most - m))
        block = pool[picked]
        columns = _kernel(points, points[block], gamma) - factor[:, :m] @ factor[block, :m].T
        columns = scipy.linalg.solve_triangular(root, columns.T, lower=True).T
        factor[:, m : m + len(block)] = columns
        rest = np.maximum(rest - np.einsum("ij,ij->i", columns, columns), 0.0)
        rest[block] = 0.0
        chosen.extend(block.tolist())
    landmarks = np.array(chosen, dtype=np.intp)
    factor = factor[:, : len(chosen)]
    if factor.base is not None and len(chosen) < most:
        factor = factor.copy()
    return landmarks, factor, np.tril(factor[landmarks])


def _drawn(rest: FloatArray, rng: np.random.Generator, count: int) -> NDArray[np.intp]:
    """Return points drawn in proportion to `rest`, and the one with the largest."""
    totals = np.cumsum(rest)
    places = np.searchsorted(totals, rng.random(count) * totals[-1], side="right")
    return np.append(np.minimum(places, len(rest) - 1), int(np.argmax(rest)))


def _pivots(kernel: FloatArray, most: int) -> tuple[list[int], FloatArray]:
    """Return the pivots of a kernel matrix, the largest rest first, and their Cholesky factor."""
    n = len(kernel)
    columns = np.zeros((n, most))
    rest = kernel.diagonal().copy()
    picked: list[int] = []
    for j in range(most):
        i = int(np.argmax(rest))
        if picked and rest[i] <= _REST:
            break
        columns[:, j] = (kernel[:, i] - columns[:, :j] @ columns[i, :j]) / np.sqrt(rest[i])
        rest = rest - columns[:, j] ** 2
        rest[i] = -np.inf
        picked.append(i)
    return picked, columns[picked, : len(picked)]


def _kernel(rows: Any, points: Any, gamma: float) -> FloatArray:
    kernel: FloatArray = euclidean_distances(rows, points, squared=True)
    kernel *= -gamma
    np.exp(kernel, kernel)
    return kernel
