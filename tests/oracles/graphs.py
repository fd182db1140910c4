"""Training graphs by loops over pairs of samples, one edge weight at a time."""

import itertools

import numpy as np


def edge_weights(weight, n):
    """Return the matrix of weight(i, j) for samples numbered from 0."""
    return np.array([[float(weight(i, j)) for j in range(n)] for i in range(n)])


def moments(W, v, X):
    """Return weighted mean, B and A by the double sums of Escalante-B. & Wiskott, eqs. 12-14."""
    n, d = X.shape
    Q = sum(v[i] for i in range(n))
    R = sum(W[i, j] for i in range(n) for j in range(n))
    mean = sum(v[i] * X[i] for i in range(n)) / Q
    B, A = np.zeros((d, d)), np.zeros((d, d))
    for i in range(n):
        B += v[i] * np.outer(X[i] - mean, X[i] - mean) / Q
        for j in range(n):
            A += W[i, j] * np.outer(X[j] - X[i], X[j] - X[i]) / R
    return mean, B, A


def temporal(lengths, lag):
    sequence = [s for s, length in enumerate(lengths) for _ in range(length)]
    return edge_weights(lambda i, j: abs(i - j) == lag and sequence[i] == sequence[j], len(sequence))


def orders(y):
    """Yield each order of the samples that sorts their labels, as the ranks of the samples, from 1."""
    labels = sorted(set(y))
    blocks = [[i for i in range(len(y)) if y[i] == label] for label in labels]
    for pieces in itertools.product(*(itertools.permutations(block) for block in blocks)):
        sample_ranks = [0] * len(y)
        for p, i in enumerate(itertools.chain(*pieces)):
            sample_ranks[i] = p + 1
        yield sample_ranks


def ranks(y):
    """Return the rank of each sample by its label, from 1; equal labels keep the order of the samples."""
    return next(orders(y))


def mean_over_orders(weight, y):
    """Return the matrix of weight(n, m) for ranks n and m, averaged over all orders of equal labels."""
    matrices = [edge_weights(lambda i, j, p=p: weight(p[i], p[j]), len(y)) for p in orders(y)]
    return sum(matrices) / len(matrices)


def reordering(y):
    return mean_over_orders(lambda n, m: abs(n - m) == 1, y)


def sliding_window(y, d, mirrored, shape=None):
    """Return the sliding-window graph of section 5.2, with mirrored conditions at both ends."""
    N, shape = len(y), [1] * (d + 1) if shape is None else shape

    def weight(n, m):
        lags = [abs(n - m)]
        if mirrored:  # a window beyond an end is mirrored at the end
            lags += [n + m - 1, (N + 1 - n) + (N + 1 - m) - 1]
        return sum(shape[lag] for lag in lags if lag <= d)

    return mean_over_orders(weight, y)


def clustered(y, weighting):
    """Return edge and node weights of the clustered graph (section 4.1 and footnote 2)."""
    sizes = [sum(other == c for other in y) for c in y]
    power = {"samples": 1, "classes": 2}[weighting]
    W = edge_weights(lambda i, j: (y[i] == y[j]) / sizes[i] ** power, len(y))
    return W, np.array([float(size) ** (1 - power) for size in sizes])


def serial(groups):
    """Return the serial graph of section 5.3 for groups of equal size, numbered from 0."""
    W = edge_weights(lambda i, j: abs(int(groups[i]) - int(groups[j])) == 1, len(groups))
    return W, np.array([1.0 if g in (0, max(groups)) else 2.0 for g in groups])


def mixed(groups):
    """Return the mixed graph of section 5.4 for groups of equal size, numbered from 0."""
    ends = (0, max(groups))

    def weight(i, j):
        distance = abs(int(groups[i]) - int(groups[j]))
        return 2 if distance == 0 and groups[i] in ends else distance <= 1

    return edge_weights(weight, len(groups)), np.ones(len(groups))


def nearest_neighbors(X, k):
    """Add 1/2 to the weight of a pair for each sample that has the other among its k nearest neighbours."""
    n = len(X)
    nearest = []
    for i in range(n):
        others = sorted((j for j in range(n) if j != i), key=lambda j: np.sum((X[i] - X[j]) ** 2))
        nearest.append(set(others[:k]))
    return edge_weights(lambda i, j: 0.5 * ((j in nearest[i]) + (i in nearest[j])), n)


def heat_kernel(X, width):
    return edge_weights(
        lambda i, j: 0.0 if i == j else np.exp(-np.sum((X[i] - X[j]) ** 2) / (2 * width**2)), len(X)
    )


def transition(states, lag=1):
    """Return transition probabilities (Sprekeler, eq. 4.3) from counted frequencies."""
    n = len(states)
    steps = [(states[t], states[t + lag]) for t in range(n - lag)]

    def p(s):
        return sum(state == s for state in states) / n

    def p2(s, r):
        return sum((a, b) == (s, r) or (b, a) == (s, r) for a, b in steps) / len(steps) / (1 if s == r else 2)

    return edge_weights(lambda i, j: p2(states[i], states[j]) / (p(states[i]) * p(states[j])), n)
