"""AR(1) noise by its definition, from the dense joint Gaussian distribution of all values.

The covariance of two values is the covariance of the factors, multiplied by the loadings. For two values of
one column, the covariance ``s^2 b ** |t - t'|`` of its AR(1) noise is added, and for a value with itself the
variance of the white noise.
"""

import numpy as np
from scipy.linalg import block_diag

from tests.oracles import block_processes as factors


def value_covariance(params, times):
    """Return the covariance (N D, N D) of all values of sequences at the given times, ordered by rows."""
    n_rows, d = sum(map(len, times)), len(params.offset)
    covariance = np.zeros((n_rows * d, n_rows * d))
    if params.loadings.shape[1]:
        matrix = np.kron(np.eye(n_rows), params.loadings)
        covariance += matrix @ factors.prior(params, times) @ matrix.T
    for j in range(d):
        noise_covariances = [
            params.noise_scale[j] ** 2 * params.noise_decay[j] ** np.abs(np.subtract.outer(t, t))
            for t in times
        ]
        rows = np.arange(n_rows) * d + j
        covariance[np.ix_(rows, rows)] += block_diag(*noise_covariances) + params.noise_variance[j] * np.eye(
            n_rows
        )
    return covariance


def log_likelihood(params, data, times):
    """Return the log density of the observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = ~np.isnan(x)
    covariance = value_covariance(params, times)[np.ix_(observed, observed)]
    return -0.5 * (
        np.linalg.slogdet(2.0 * np.pi * covariance)[1]
        + x[observed] @ np.linalg.solve(covariance, x[observed])
    )


def posterior_of_factors(params, data, times):
    """Return mean (N, S) and covariance (N, S, N, S) of the factors' states, without AR(1) noise."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = ~np.isnan(x)
    n_rows, s = len(x) // len(params.offset), params.loadings.shape[1]
    prior = factors.prior(params, times)
    cross_covariance = prior @ np.kron(np.eye(n_rows), params.loadings)[observed].T
    gain = np.linalg.solve(value_covariance(params, times)[np.ix_(observed, observed)], cross_covariance.T).T
    mean, covariance = gain @ x[observed], prior - gain @ cross_covariance.T
    return mean.reshape(n_rows, s), covariance.reshape(n_rows, s, n_rows, s)


def conditional_moments(params, data, times, indices):
    """Return moments of the values with the given indices, conditional on all other observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = np.setdiff1d(np.flatnonzero(~np.isnan(x)), indices)
    covariance = value_covariance(params, times)
    gain = np.linalg.solve(covariance[np.ix_(observed, observed)], covariance[np.ix_(observed, indices)]).T
    mean = params.offset[np.asarray(indices) % len(params.offset)] + gain @ x[observed]
    return mean, covariance[np.ix_(indices, indices)] - gain @ covariance[np.ix_(observed, indices)]


def draw(rng, params, times):
    """Draw observations of sequences at the given times."""
    covariance = value_covariance(params, times)
    x = np.linalg.cholesky(covariance) @ rng.standard_normal(len(covariance))
    rows = x.reshape(-1, len(params.offset)) + params.offset
    return np.split(rows, np.cumsum([len(t) for t in times])[:-1])
