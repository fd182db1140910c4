"""Slow feature analysis by the equations of its papers, in loops over NumPy arrays.

`sequences` is a list of arrays (T_i, D); rows with NaN are left out.
"""

import numpy as np


def moments(sequences, lag=1):
    """Return number of rows, mean, B with 1/T, number of pairs, and uncentred A with 1/(number of pairs)."""
    D = sequences[0].shape[1]
    rows = [x for X in sequences for x in X if not np.isnan(x).any()]
    mean = np.zeros(D)
    for x in rows:
        mean += x / len(rows)
    B = np.zeros((D, D))
    for x in rows:
        B += np.outer(x - mean, x - mean) / len(rows)
    pairs = []
    for X in sequences:
        for t in range(len(X) - lag):
            if not np.isnan(X[t]).any() and not np.isnan(X[t + lag]).any():
                pairs.append((X[t], X[t + lag]))
    A = np.zeros((D, D))
    for before, after in pairs:
        A += np.outer(after - before, after - before) / len(pairs)
    return len(rows), mean, B, len(pairs), A


def eigenproblem(A, B):
    """Return ascending delta values and directions with w' B w = 1 by the symmetric root of a regular B."""
    values, vectors = np.linalg.eigh(B)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    deltas, rotation = np.linalg.eigh(root @ A @ root)
    return deltas, root @ rotation


def slow_features(sequences, lag=1):
    """Return delta values, outputs and directions of linear SFA with arbitrary signs."""
    _, mean, B, _, A = moments(sequences, lag)
    deltas, W = eigenproblem(A, B)
    return deltas, [(X - mean) @ W for X in sequences], W


def delta_of_output(sequences, lag=1):
    """Return the mean squared difference over the variance of each output."""
    _, _, B, _, A = moments(sequences, lag)
    return np.diag(A) / np.diag(B)


def mdp_deltas(X):
    """Return delta values of MDP's SFANode: sum of dx dx' over T-2, covariance over T-1."""
    dX, C = np.diff(X, axis=0), X - X.mean(axis=0)
    return eigenproblem(dX.T @ dX / (len(X) - 2), C.T @ C / (len(X) - 1))[0]


def centred_deltas(X):
    """Return delta values of sklearn-sfa and tsdr: centred differences, ddof=1 in both covariances."""
    return eigenproblem(np.cov(np.diff(X, axis=0), rowvar=False), np.cov(X, rowvar=False))[0]


def reversible_tica(X):
    """Return descending eigenvalues of reversible TICA at lag 1, from all pairs in both directions."""
    before, after = X[:-1], X[1:]
    both = np.concatenate([before, after])
    mean = both.mean(axis=0)
    C0 = np.zeros((X.shape[1], X.shape[1]))
    C1 = np.zeros_like(C0)
    for x, y in zip(before - mean, after - mean, strict=True):
        C0 += np.outer(x, x) + np.outer(y, y)
        C1 += np.outer(x, y) + np.outer(y, x)
    values, vectors = np.linalg.eigh(C0)
    root = vectors @ np.diag(values**-0.5) @ vectors.T
    return np.sort(np.linalg.eigvalsh(root @ C1 @ root))[::-1]


def free_responses(T, n):
    """Return the slowest unit-variance outputs of length T, cos(pi j (t - 1/2) / T), and delta values."""
    t = np.arange(1, T + 1)
    Y = np.sqrt(2) * np.cos(np.pi * np.outer(t - 0.5, np.arange(1, n + 1)) / T)
    deltas = np.array([np.mean(np.diff(y) ** 2) / np.mean(y**2) for y in Y.T])
    return Y, deltas
