"""Principal curves and components by their definitions, in loops."""

import math

import numpy as np


def gaussian_kernel(z, u, bandwidth):
    """Return exp(-|z - u|^2 / (2 h^2)) for every pair."""
    return np.array(
        [
            [math.exp(-sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) / (2 * bandwidth**2)) for q in u]
            for p in z
        ]
    )


def curve(z, landmarks, bandwidth, alpha):
    """Return f(z) = sum_j alpha_j K(l_j, z) with landmarks l_j."""
    return gaussian_kernel(z, landmarks, bandwidth) @ alpha


def objective(X, xi, landmarks, bandwidth, alpha, regularization):
    """Return the mean squared distance plus lambda / 2 sum_ij alpha_i alpha_j K(l_i, l_j) (section 3.1)."""
    distance = sum(
        float(np.sum((x - f) ** 2)) for x, f in zip(X, curve(xi, landmarks, bandwidth, alpha), strict=True)
    )
    gram = gaussian_kernel(landmarks, landmarks, bandwidth)
    norm = sum(
        gram[i, j] * float(alpha[i] @ alpha[j]) for i in range(len(landmarks)) for j in range(len(landmarks))
    )
    return distance / len(X) + 0.5 * regularization * norm


def coefficients(X, xi, landmarks, bandwidth, regularization):
    """Return alpha = (lambda n / 2 K_ll + K_zl' K_zl)^-1 K_zl' X for coordinates xi = z."""
    K = gaussian_kernel(xi, landmarks, bandwidth)
    gram = gaussian_kernel(landmarks, landmarks, bandwidth)
    return np.linalg.solve(0.5 * regularization * len(X) * gram + K.T @ K, K.T @ X)


def nearest_on_grid(X, landmarks, bandwidth, alpha, n=4_001):
    """Return the squared distance of each row from the nearest of many points of a curve."""
    points = curve(np.linspace(0, 1, n)[:, None], landmarks, bandwidth, alpha)
    return np.array([np.min(np.sum((points - x) ** 2, axis=1)) for x in X])


def principal_risk(X, m):
    """Return R(m), the mean squared distance from the best m-dimensional subspace, by eigenvectors."""
    centred = X - X.mean(axis=0)
    _, vectors = np.linalg.eigh(sum(np.outer(x, x) for x in centred) / len(X))
    basis = vectors[:, ::-1][:, :m]
    return sum(float(np.sum((x - basis @ (basis.T @ x)) ** 2)) for x in centred) / len(X)
