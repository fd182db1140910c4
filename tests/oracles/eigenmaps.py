"""Eigenmaps and kernel SFA by their definitions: dense, with loops, in NumPy and nothing else."""

import numpy as np


def laplacian(W):
    """L of Theorem 1 in Ravikumar's notes, from the quadratic form: f' L f = 1/2 sum W_ij (f_i - f_j)^2."""
    n = len(W)
    L = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            edge = np.zeros(n)
            edge[i] += 1
            edge[j] -= 1
            L += 0.5 * W[i, j] * np.outer(edge, edge)
    return L


def eigenvalues(W, mass):
    """All eigenvalues of M^-1 L, ascending, the zero of the constant included."""
    return np.sort(np.linalg.eigvals(laplacian(W) / mass[:, None]).real)


def ring(n):
    """Adjacency of n vertices in a circle."""
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[(i + 1) % n, i] = 1
    return W


def path(n):
    """Adjacency of n vertices in a row."""
    W = np.zeros((n, n))
    for i in range(n - 1):
        W[i, i + 1] = W[i + 1, i] = 1
    return W


def product(V, W):
    """Adjacency of the Cartesian product of two graphs."""
    return np.kron(V, np.eye(len(W))) + np.kron(np.eye(len(V)), W)


def gsfa(W, v, X, n_components):
    """Delta values and outputs of generalised SFA (Escalante-B. & Wiskott, eqs. 12-14), pair by pair."""
    n, d = X.shape
    mean = sum(v[i] * X[i] for i in range(n)) / sum(v)
    B = sum(v[i] * np.outer(X[i] - mean, X[i] - mean) for i in range(n)) / sum(v)
    A = np.zeros((d, d))
    for i in range(n):
        for j in range(n):
            A += W[i, j] * np.outer(X[j] - X[i], X[j] - X[i]) / W.sum()
    deltas, w = np.linalg.eig(np.linalg.solve(B, A))
    order = np.argsort(deltas.real)[:n_components]
    w = w[:, order].real
    return deltas[order].real, (X - mean) @ (w / np.sqrt(np.sum(w * (B @ w), axis=0)))


def heat_kernel(X, Y, gamma):
    return np.array([[np.exp(-gamma * sum((x - y) ** 2)) for y in Y] for x in X])


def nystroem(weights, embedding, eigenvalues, normalization, degrees):
    """Value at a new point that satisfies the eigenvalue equation with its edges to the old points."""
    d = sum(weights)
    out = np.zeros(len(eigenvalues))
    for k, lam in enumerate(eigenvalues):
        for w, y, d_i in zip(weights, embedding[:, k], degrees, strict=True):
            if normalization == "random_walk":
                out[k] += w / d * y / (1 - lam)
            elif normalization == "symmetric":
                out[k] += w / np.sqrt(d * d_i) * y / (1 - lam)
            else:
                out[k] += w * y / (d - lam)
    return out
