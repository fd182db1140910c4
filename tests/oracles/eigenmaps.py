"""Laplacian eigenmaps, diffusion maps and graph-based SFA by their definitions, in loops over arrays."""

import numpy as np


def laplacian(W):
    """Return L of Theorem 1 in Ravikumar's notes from its form f' L f = 1/2 sum W_ij (f_i - f_j)^2."""
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
    """Return all eigenvalues of M^-1 L in ascending order, including the zero of the constant vector."""
    return np.sort(np.linalg.eigvals(laplacian(W) / mass[:, None]).real)


def ring(n):
    """Return the adjacency matrix of a cycle of n vertices."""
    W = np.zeros((n, n))
    for i in range(n):
        W[i, (i + 1) % n] = W[(i + 1) % n, i] = 1
    return W


def path(n):
    """Return the adjacency matrix of a path of n vertices."""
    W = np.zeros((n, n))
    for i in range(n - 1):
        W[i, i + 1] = W[i + 1, i] = 1
    return W


def product(V, W):
    """Return the adjacency matrix of the Cartesian product of two graphs."""
    return np.kron(V, np.eye(len(W))) + np.kron(np.eye(len(V)), W)


def gsfa(W, v, X, n_components):
    """Return delta values and outputs of GSFA (Escalante-B. & Wiskott, eqs. 12-14), by sums over pairs."""
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
    """Embed a new point that replaces the nearest training point in the eigenvalue equation.

    The equation of a graph without self-loops is (1 - lambda) d y = sum w y over the *other* points. The
    largest edge weight of the new point is treated as its self-loop. The degree excludes this weight, and the
    product w y is added to both sides.
    """
    nearest = int(np.argmax(weights))
    self_loop = weights[nearest]
    d = sum(w for j, w in enumerate(weights) if j != nearest)
    out = np.zeros(len(eigenvalues))
    for k, lam in enumerate(eigenvalues):
        if normalization == "random_walk":
            y, factor = embedding[:, k], (1 - lam) * d
        elif normalization == "symmetric":
            y, factor = embedding[:, k] / np.sqrt(degrees), (1 - lam) * d
        else:
            y, factor = embedding[:, k], d - lam
        out[k] = sum(w * y_j for w, y_j in zip(weights, y, strict=True)) / (self_loop + factor)
        if normalization == "symmetric":
            out[k] *= np.sqrt(d)
    return out


def diffusion_map(W, alpha, time):
    """Return transition matrix, stationary distribution, eigenvalues and coordinates of a diffusion map."""
    n = len(W)
    q = [sum(W[i]) for i in range(n)]
    K = np.array([[W[i, j] / (q[i] * q[j]) ** alpha for j in range(n)] for i in range(n)])
    P = np.array([K[i] / sum(K[i]) for i in range(n)])
    stationary = K.sum(axis=1) / K.sum()
    mu, psi = np.linalg.eig(P)
    order = np.argsort(-mu.real)[1:]
    mu, psi = mu.real[order], psi.real[:, order]
    psi = psi / np.sqrt(np.sum(stationary[:, None] * psi**2, axis=0))
    return P, stationary, mu, psi * mu**time
