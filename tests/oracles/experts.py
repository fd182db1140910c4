"""Products of experts by their definition: dense Gaussian distributions and integrals on a grid."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal


def covariance(decay, loadings, noise, lengths):
    """Return the covariance of expanded rows, ordered by rows, entry by entry."""
    positions = [(s, t) for s, n in enumerate(lengths) for t in range(n)]
    n_outputs, n_factors = loadings.shape
    out = np.zeros((len(positions) * n_outputs, len(positions) * n_outputs))
    for i, (s, t) in enumerate(positions):
        for j, (other, u) in enumerate(positions):
            for d in range(n_outputs):
                for e in range(n_outputs):
                    value = 0.0
                    if s == other:
                        for k in range(n_factors):
                            value += loadings[d, k] * loadings[e, k] * decay[k] ** abs(t - u)
                    if i == j and d == e:
                        value += noise[d]
                    out[i * n_outputs + d, j * n_outputs + e] = value
    return out


def log_density(rows, decay, loadings, noise, offset, lengths):
    """Return the log density of expanded rows (..., N, E)."""
    flat = rows.reshape(*rows.shape[:-2], -1)
    mean = np.tile(offset, rows.shape[-2])
    return multivariate_normal.logpdf(flat, mean, covariance(decay, loadings, noise, lengths))


def latent_means(rows, decay, loadings, noise, offset):
    """Return means (T, K) of the factors given expanded rows (T, E) of one sequence."""
    n, (_, n_factors) = len(rows), loadings.shape
    total = covariance(decay, loadings, noise, [n])
    weighted_deviations = np.linalg.solve(total, (rows - offset).ravel()).reshape(n, -1)
    out = np.zeros((n, n_factors))
    for t in range(n):
        for k in range(n_factors):
            for u in range(n):
                out[t, k] += decay[k] ** abs(t - u) * loadings[:, k] @ weighted_deviations[u]
    return out


class Grid:
    """The density of two rows of one column on a grid, with its integral."""

    def __init__(self, expand, decay, loadings, noise, offset, reach=6.0, n=600):
        self.axis = np.linspace(-reach, reach, n)
        self.step = self.axis[1] - self.axis[0]
        self.points = np.stack(np.meshgrid(self.axis, self.axis, indexing="ij"), axis=-1)[..., None]
        self.logs = log_density(expand(self.points), decay, loadings, noise, offset, [2])
        self.log_integral = logsumexp(self.logs) + 2.0 * np.log(self.step)
        self.weights = np.exp(self.logs - logsumexp(self.logs))

    def mean(self, function):
        """Return the expectation of a function of the rows (n, n, 2, 1)."""
        return np.sum(self.weights * function(self.points))
