"""AR(1) noise by its definition, from the dense joint Gaussian distribution of all values.

The covariance of two values is that of the factors, multiplied by the loadings; two values of one column
also share the covariance ``s^2 b ** |t - t'|`` of its AR(1) noise, and every value has white noise.
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
        own = [
            params.noise_scale[j] ** 2 * params.noise_decay[j] ** np.abs(np.subtract.outer(t, t))
            for t in times
        ]
        rows = np.arange(n_rows) * d + j
        total[np.ix_(rows, rows)] += block_diag(*own) + params.noise_variance[j] * np.eye(n_rows)
    return total


def log_likelihood(params, data, times):
    """Return the log density of the observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    seen = ~np.isnan(x)
    spread = value_covariance(params, times)[np.ix_(seen, seen)]
    return -0.5 * (np.linalg.slogdet(2.0 * np.pi * spread)[1] + x[seen] @ np.linalg.solve(spread, x[seen]))


def posterior_of_latents(params, data, times):
    """Return mean (N, S) and covariance (N, S, N, S) of the factors' states, without AR(1) noise."""
    x = (np.concatenate(data) - params.offset).ravel()
    seen = ~np.isnan(x)
    n_rows, s = len(x) // len(params.offset), params.loadings.shape[1]
    prior = latents.prior(params, times)
    crossed = prior @ np.kron(np.eye(n_rows), params.loadings)[seen].T
    gain = np.linalg.solve(value_covariance(params, times)[np.ix_(seen, seen)], crossed.T).T
    mean, covariance = gain @ x[seen], prior - gain @ crossed.T
    return mean.reshape(n_rows, s), covariance.reshape(n_rows, s, n_rows, s)


def given(params, data, times, wanted):
    """Return mean and covariance of the values numbered ``wanted`` given all other observed values."""
    x = (np.concatenate(data) - params.offset).ravel()
    seen = np.setdiff1d(np.flatnonzero(~np.isnan(x)), wanted)
    total = value_covariance(params, times)
    gain = np.linalg.solve(total[np.ix_(seen, seen)], total[np.ix_(seen, wanted)]).T
    mean = params.offset[np.asarray(wanted) % len(params.offset)] + gain @ x[seen]
    return mean, total[np.ix_(wanted, wanted)] - gain @ total[np.ix_(seen, wanted)]


def draw(rng, params, times):
    """Draw observations of sequences at the given times."""
    total = value_covariance(params, times)
    x = np.linalg.cholesky(total) @ rng.standard_normal(len(total))
    rows = x.reshape(-1, len(params.offset)) + params.offset
    return np.split(rows, np.cumsum([len(when) for when in times])[:-1])
