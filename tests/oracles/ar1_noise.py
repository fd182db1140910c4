"""AR(1) noise by its definition, from the dense joint Gaussian distribution of all values.

The covariance of two values is the covariance of the factors, multiplied by the loadings. For two values of
one column, the covariance ``s^2 b ** |t - t'|`` of its AR(1) noise is added, and for a value with itself the
variance of the white noise.
"""

import numpy as np
from scipy.linalg import block_diag

from tests.oracles import block_processes as latents


def value_covariance(params, times):
    """Return the covariance (N D, N D) of all values of sequences at the given times, ordered by rows."""
    n_rows, d = sum(map(len, times)), len(params.offset)
    total = np.zeros((n_rows * d, n_rows * d))
    if params.loadings.shape[1]:
        matrix = np.kron(np.eye(n_rows), params.loadings)
        total += matrix @ latents.prior(params, times) @ matrix.T
    for j in range(d):
        noise_covariances = [
            params.noise_scale[j] ** 2 * params.noise_decay[j] ** np.abs(np.subtract.outer(t, t))
            for t in times
        ]
        rows = np.arange(n_rows) * d + j
        total[np.ix_(rows, rows)] += block_diag(*noise_covariances) + params.noise_variance[j] * np.eye(
            n_rows
        )
    return total


def log_likelihood(params, data, times):
    """Return the log density of the observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = ~np.isnan(x)
    spread = value_covariance(params, times)[np.ix_(observed, observed)]
    return -0.5 * (
        np.linalg.slogdet(2.0 * np.pi * spread)[1] + x[observed] @ np.linalg.solve(spread, x[observed])
    )


def posterior_of_latents(params, data, times):
    """Return mean (N, S) and covariance (N, S, N, S) of the factors' states, without AR(1) noise."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = ~np.isnan(x)
    n_rows, s = len(x) // len(params.offset), params.loadings.shape[1]
    prior = latents.prior(params, times)
    crossed = prior @ np.kron(np.eye(n_rows), params.loadings)[observed].T
    gain = np.linalg.solve(value_covariance(params, times)[np.ix_(observed, observed)], crossed.T).T
    mean, covariance = gain @ x[observed], prior - gain @ crossed.T
    return mean.reshape(n_rows, s), covariance.reshape(n_rows, s, n_rows, s)


def conditional_moments(params, data, times, wanted):
    """Return mean and covariance of the values with indices ``wanted`` given all other observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    observed = np.setdiff1d(np.flatnonzero(~np.isnan(x)), wanted)
    total = value_covariance(params, times)
    gain = np.linalg.solve(total[np.ix_(observed, observed)], total[np.ix_(observed, wanted)]).T
    mean = params.offset[np.asarray(wanted) % len(params.offset)] + gain @ x[observed]
    return mean, total[np.ix_(wanted, wanted)] - gain @ total[np.ix_(observed, wanted)]


def draw(rng, params, times):
    """Draw observations of sequences at the given times."""
    total = value_covariance(params, times)
    x = np.linalg.cholesky(total) @ rng.standard_normal(len(total))
    rows = x.reshape(-1, len(params.offset)) + params.offset
    return np.split(rows, np.cumsum([len(when) for when in times])[:-1])
