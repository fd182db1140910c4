"""Regularized sparse kernel SFA and selection of support vectors (Boehmer et al. 2011), by dense matrices."""

import numpy as np


def gaussian(X, Z, gamma):
    return np.array([[np.exp(-gamma * np.sum((x - z) ** 2)) for z in Z] for x in X])


def algorithm_1(K, K_bar, lengths, n_components, regularization, rank_tol=1e-12):
    """Return coefficients, offsets and delta values; K is (m, n) with one row per support vector."""
    m, n = K.shape
    H_m, H_n = np.eye(m) - np.ones((m, m)) / m, np.eye(n) - np.ones((n, n)) / n
    D = []
    start = 0
    for length in lengths:  # the matrix of differences, without those between sequences
        for t in range(start, start + length - 1):
            column = np.zeros(n)
            column[t], column[t + 1] = -1, 1
            D.append(column)
        start += length
    D = np.array(D).T
    K_hat, K_bar_hat = H_m @ K @ H_n, H_m @ K_bar @ H_m
    values, U = np.linalg.eigh(K_hat @ K_hat.T / n)
    retained = values > rank_tol * values[-1]
    white = U[:, retained] / np.sqrt(values[retained])
    B = K_hat @ D @ D.T @ K_hat.T / D.shape[1] + regularization * K_bar_hat
    _, R = np.linalg.eigh(white.T @ B @ white)
    A = H_m @ white @ R[:, :n_components]
    c = A.T @ K @ np.ones(n) / n
    y = A.T @ K - c[:, None]
    return A, c, np.mean((y @ D) ** 2, axis=1)


def errors(K, support):
    """Return the approximation errors e_t = K_tt - K_ti K_ii^-1 K_it of all rows."""
    support = list(support)
    if not support:
        return np.diag(K).copy()
    coefficients = np.linalg.solve(K[np.ix_(support, support)], K[support])
    return np.diag(K) - np.sum(K[support] * coefficients, axis=0)


def mp_mah(K, n_support):
    support = []
    for _ in range(n_support):
        e = errors(K, support)
        e[support] = -np.inf
        support.append(int(np.argmax(e)))
    return support


def online_mah(K, threshold):
    support = []
    for t in range(len(K)):
        if errors(K, support)[t] > threshold:
            support.append(t)
    return support


def mp_kpca(K, n_support):
    support = []
    for _ in range(n_support):
        sums = [np.inf if j in support else errors(K, [*support, j]).sum() for j in range(len(K))]
        support.append(int(np.argmin(sums)))
    return support
