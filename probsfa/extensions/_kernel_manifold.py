"""Regularized principal curves and surfaces.

A principal manifold is a function ``f`` from ``[0, 1]^k`` to the space of the rows. It minimizes the mean
squared distance of a row from the nearest point ``f(z)``, with a penalty on the norm of the function (Smola,
Mika, Schoelkopf & Williamson 2001). The function is a sum of Gaussian kernels ``K`` at landmarks ``l_j``,
``f(z) = sum_j alpha_j K(l_j, z)``. With the coordinates ``z_i`` of row ``x_i``, the objective is ::

    (1/n) sum_i |x_i - f(z_i)|^2 + (lambda/2) sum_ij alpha_i' alpha_j K(l_i, l_j)

It is minimized alternately over the coordinates ``z_i``, by projection of the rows onto the manifold, and
over ``alpha``, in closed form::

    alpha = ((lambda n / 2) K_ll + K_zl' K_zl)^-1 K_zl' X,      K_ll = K(l_i, l_j),  K_zl = K(z_i, l_j)

Neither step increases the objective.
"""

from dataclasses import dataclass

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["KernelManifold", "landmark_grid", "project", "solve_coefficients"]

# Eigenvalues of the landmark kernel below this fraction of the largest are discarded as rounding errors.
_MIN_EIGENVALUE = 1e-11
_MAX_ARRAY_SIZE = 2**22  # maximum number of elements of a temporary array


def landmark_grid(n_landmarks: int, n_coordinates: int) -> FloatArray:
    """Return a regular grid (M, k) of about `n_landmarks` points on ``[0, 1]^k``."""
    side = max(int(round(n_landmarks ** (1.0 / n_coordinates))), 2)
    axes = np.meshgrid(*[np.linspace(0.0, 1.0, side)] * n_coordinates, indexing="ij")
    return np.stack([axis.ravel() for axis in axes], axis=1)


@dataclass(frozen=True, eq=False)
class KernelManifold:
    """A function ``f(z) = sum_j alpha_j K(l_j, z)`` from ``[0, 1]^k`` to D columns.

    Attributes
    ----------
    landmarks : ndarray (M, k)
        The points ``l_j``.
    bandwidth : float
        Width ``h`` of the kernel ``exp(-|z - u|^2 / (2 h^2))``.
    coefficients : ndarray (M, D)
        ``alpha``.
    """

    landmarks: FloatArray
    bandwidth: float
    coefficients: FloatArray

    def kernel(self, coordinates: FloatArray) -> FloatArray:
        """Return the kernel (n, M) between coordinates (n, k) and landmarks."""
        squared = np.sum((coordinates[:, None, :] - self.landmarks) ** 2, axis=2)
        return np.asarray(np.exp(-0.5 * squared / self.bandwidth**2))

    def __call__(self, coordinates: FloatArray) -> FloatArray:
        """Return the points ``f(z)`` (n, D) at coordinates (n, k)."""
        return np.asarray(self.kernel(coordinates) @ self.coefficients)

    def derivatives(self, coordinates: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return points (n, D), first derivatives (n, k, D) and second derivatives (n, k, k, D)."""
        kernel = self.kernel(coordinates)
        scaled_differences = (coordinates[:, None, :] - self.landmarks) / self.bandwidth**2
        weighted_kernel = [kernel * scaled_differences[:, :, j] for j in range(scaled_differences.shape[2])]
        first = np.stack([-kernel_part @ self.coefficients for kernel_part in weighted_kernel], axis=1)
        second = np.stack(
            [
                np.stack(
                    [
                        (kernel_part * scaled_differences[:, :, j]) @ self.coefficients
                        for j in range(len(weighted_kernel))
                    ],
                    axis=1,
                )
                for kernel_part in weighted_kernel
            ],
            axis=1,
        )
        points = kernel @ self.coefficients
        identity_term = np.eye(coordinates.shape[1])[:, :, None] / self.bandwidth**2
        return points, first, second - identity_term * points[:, None, None, :]

    @property
    def squared_norm(self) -> float:
        """Return the squared norm of the function, ``sum_ij alpha_i' alpha_j K(l_i, l_j)``."""
        gram = self.kernel(self.landmarks)
        return float(np.sum(self.coefficients * (gram @ self.coefficients)))

    def objective(self, X: FloatArray, coordinates: FloatArray, regularization: float) -> float:
        """Return the penalized mean squared distance of rows (n, D) from the points at coordinates (n, k)."""
        distances = np.sum((X - self(coordinates)) ** 2, axis=1)
        return float(np.mean(distances)) + 0.5 * regularization * self.squared_norm


def solve_coefficients(
    X: FloatArray, coordinates: FloatArray, landmarks: FloatArray, bandwidth: float, regularization: float
) -> KernelManifold:
    """Return the manifold that minimizes the objective at fixed coordinates, in closed form.

    Parameters
    ----------
    X : ndarray (n, D)
        Rows.
    coordinates : ndarray (n, k)
        Coordinates of the rows on the manifold.
    landmarks : ndarray (M, k)
        Centres of the kernel.
    bandwidth, regularization : float
        Width of the kernel and weight of the penalty.

    Returns
    -------
    KernelManifold
    """
    manifold = KernelManifold(landmarks, bandwidth, np.zeros((len(landmarks), X.shape[1])))
    # The kernel matrix of close landmarks is numerically singular. In the basis of its whitened eigenvectors
    # the penalty is a sum of squares, and the least-squares problem is well conditioned.
    eigenvalues, vectors = np.linalg.eigh(manifold.kernel(landmarks))
    retained = eigenvalues > _MIN_EIGENVALUE * eigenvalues[-1]
    whitened = vectors[:, retained] / np.sqrt(eigenvalues[retained])
    features = manifold.kernel(coordinates) @ whitened
    # The penalty is added as rows of the least-squares problem, because normal equations would lose half of
    # the digits.
    penalty = np.sqrt(0.5 * regularization * len(X)) * np.eye(features.shape[1])
    targets = np.vstack([X, np.zeros((features.shape[1], X.shape[1]))])
    weights = np.linalg.lstsq(np.vstack([features, penalty]), targets, rcond=None)[0]
    return KernelManifold(landmarks, bandwidth, whitened @ weights)


def project(
    manifold: KernelManifold, X: FloatArray, coordinates: FloatArray | None = None, n_newton: int = 12
) -> FloatArray:
    """Project rows onto a manifold: return the coordinates of the point nearest to each row.

    The search starts at the nearest point of a fine grid. Newton steps that do not reduce the distance are
    rejected. The result may be a local minimum of the distance.

    Parameters
    ----------
    manifold : KernelManifold
        The curve or surface.
    X : ndarray (n, D)
        Rows.
    coordinates : ndarray (n, k), optional
        Additional starting coordinates; no row is farther from its result than from its starting point.
    n_newton : int, default=12
        Number of Newton steps.

    Returns
    -------
    ndarray (n, k)
    """
    n_coordinates = manifold.landmarks.shape[1]
    grid = landmark_grid(1001 if n_coordinates == 1 else 60**2, n_coordinates)
    points = manifold(grid)
    squared_norms = np.sum(points**2, axis=1)
    best = np.empty((len(X), n_coordinates))
    rows_per_part = max(_MAX_ARRAY_SIZE // max(len(grid), len(manifold.landmarks) * n_coordinates**2), 1)
    for start in range(0, len(X), rows_per_part):
        part = slice(start, start + rows_per_part)
        x = X[part]
        z = grid[np.argmin(squared_norms - 2.0 * x @ points.T, axis=1)]
        if coordinates is not None:
            initial = coordinates[part]
            is_closer = _squared_lengths(x - manifold(initial)) <= _squared_lengths(x - manifold(z))
            z = np.where(is_closer[:, None], initial, z)
        best[part] = _refine(manifold, x, z, n_newton)
    return best


def _squared_lengths(differences: FloatArray) -> FloatArray:
    return np.asarray(np.sum(differences**2, axis=1))


def _refine(manifold: KernelManifold, X: FloatArray, z: FloatArray, n_newton: int) -> FloatArray:
    """Refine coordinates by Newton steps in the unit cube, halved until they reduce the squared distance."""
    step_size = np.ones(len(X))
    for _ in range(n_newton):
        points, first, second = manifold.derivatives(z)
        residual = X - points
        gradient = -np.einsum("nkd,nd->nk", first, residual)
        curvature = np.einsum("nkd,nld->nkl", first, first) - np.einsum("nkld,nd->nkl", second, residual)
        eigenvalues, vectors = np.linalg.eigh(curvature)
        scale = np.maximum(np.abs(eigenvalues), 1e-12 * (1.0 + np.abs(eigenvalues).max(initial=0.0)))
        # Absolute eigenvalues give a descent direction also where the curvature is negative.
        rotated_gradient = np.einsum("nkj,nk->nj", vectors, gradient) / scale
        step = -np.einsum("nkj,nj->nk", vectors, rotated_gradient)
        proposal = np.clip(z + step_size[:, None] * step, 0.0, 1.0)
        is_closer = _squared_lengths(X - manifold(proposal)) < _squared_lengths(residual)
        z = np.where(is_closer[:, None], proposal, z)
        step_size = np.where(is_closer, np.minimum(2.0 * step_size, 1.0), 0.5 * step_size)
    return z
