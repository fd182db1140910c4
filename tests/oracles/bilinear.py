"""The bilinear model by its definition: enumerated paths of the gates and dense Gaussian distributions."""

import itertools

import numpy as np


def paths(n_steps, n_chains=1):
    """Yield every path (T, M) of `n_chains` binary chains."""
    for bits in itertools.product((0, 1), repeat=n_steps * n_chains):
        yield np.array(bits, dtype=float).reshape(n_steps, n_chains)


def chain_log_probability(path, on, off):
    """Return the log probability of one path (T,) of a stationary chain (eqs. 25, 26)."""
    stationary = {1.0: on / (on + off), 0.0: off / (on + off)}
    step = {(0.0, 1.0): on, (0.0, 0.0): 1 - on, (1.0, 0.0): off, (1.0, 1.0): 1 - off}
    return np.log(stationary[path[0]]) + sum(np.log(step[a, b]) for a, b in itertools.pairwise(path))


def latent_covariance(decay, n_steps):
    """Return the covariance (T K, T K) of stationary AR(1) factors, ordered by times."""
    K = len(decay)
    C = np.zeros((n_steps * K, n_steps * K))
    for t in range(n_steps):
        for u in range(n_steps):
            for k in range(K):
                C[t * K + k, u * K + k] = decay[k] ** abs(t - u)
    return C


def observation_matrix(params, path):
    """Return the matrix (T D, T K) from all factors to all noise-free values at given gates (eq. 27)."""
    D, _, K = params.loadings.shape
    T = len(path)
    H = np.zeros((T * D, T * K))
    for t in range(T):
        for d in range(D):
            for k in range(K):
                H[t * D + d, t * K + k] = sum(
                    params.loadings[d, m, k] * path[t, m] for m in range(path.shape[1])
                )
    return H


def gaussian_log_density(x, covariance):
    """Return the log density of a Gaussian variable with mean zero."""
    return -0.5 * (
        len(x) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + x @ np.linalg.solve(covariance, x)
    )


def log_likelihood_at_gates(params, X, path):
    """Return log p(X | S) of the observed values."""
    H = observation_matrix(params, path)
    noise = np.tile(params.noise_variance, len(X))
    observed = ~np.isnan(X.ravel())
    covariance = H @ latent_covariance(params.decay, len(X)) @ H.T + np.diag(noise)
    return gaussian_log_density((X - params.offset).ravel()[observed], covariance[np.ix_(observed, observed)])


def log_likelihood(params, X):
    """Return log p(X), summed over all paths of all chains."""
    n_chains = len(params.switch_on)
    terms = [
        log_likelihood_at_gates(params, X, path)
        + sum(
            chain_log_probability(path[:, m], params.switch_on[m], params.switch_off[m])
            for m in range(n_chains)
        )
        for path in paths(len(X), n_chains)
    ]
    return float(np.logaddexp.reduce(terms))


def posterior_at_gates(params, X, path):
    """Return means (T, K) and covariance (T K, T K) of the factors at known gates."""
    H = observation_matrix(params, path)
    observed = ~np.isnan(X.ravel())
    weight = observed / np.tile(params.noise_variance, len(X))
    centred = np.where(observed, (X - params.offset).ravel(), 0.0)
    prior = np.linalg.inv(latent_covariance(params.decay, len(X)))
    covariance = np.linalg.inv(prior + H.T @ (weight[:, None] * H))
    return (covariance @ H.T @ (weight * centred)).reshape(len(X), -1), covariance


def coordinate_updates(params, X, gates):
    """Update q(Y) and then q of each chain; return moments of both, and the bound after these updates.

    Expectations over a chain are sums over all of its paths, weighted by their probabilities under q.
    """
    T, (_, M, K) = len(X), params.loadings.shape
    observed = ~np.isnan(X)
    x = np.where(observed, X - params.offset, 0.0)
    prior = latent_covariance(params.decay, T)
    G = params.loadings

    def row_second_moment(g):
        return np.array([[g[m] * g[n] if m != n else g[m] for n in range(M)] for m in range(M)])

    precision, information = np.linalg.inv(prior), np.zeros(T * K)
    for t in range(T):
        block = slice(t * K, (t + 1) * K)
        ss = row_second_moment(gates[t])
        for d in np.flatnonzero(observed[t]):
            precision[block, block] += np.einsum("mn,mk,nl->kl", ss, G[d], G[d]) / params.noise_variance[d]
            information[block] += gates[t] @ G[d] * x[t, d] / params.noise_variance[d]
    covariance = np.linalg.inv(precision)
    mean = covariance @ information

    def expected_log_density(t, s_first, s_second):
        """Return E[log p(x_t | y_t, s_t)] for expected gates and expected products of gates."""
        block = slice(t * K, (t + 1) * K)
        yy = covariance[block, block] + np.outer(mean[block], mean[block])
        total = 0.0
        for d in np.flatnonzero(observed[t]):
            squared_error = x[t, d] ** 2 - 2 * x[t, d] * float(s_first @ G[d] @ mean[block])
            squared_error += float(np.einsum("mn,mk,nl,kl->", s_second, G[d], G[d], yy))
            total -= 0.5 * (
                np.log(2 * np.pi * params.noise_variance[d]) + squared_error / params.noise_variance[d]
            )
        return total

    gates = gates.copy()
    divergence = 0.0
    for m in range(M):
        log_weights, all_paths = [], [path[:, 0] for path in paths(T)]
        for path in all_paths:
            value = chain_log_probability(path, params.switch_on[m], params.switch_off[m])
            for t in range(T):
                first = gates[t].copy()
                first[m] = path[t]
                second = row_second_moment(first)
                value += expected_log_density(t, first, second)
            log_weights.append(value)
        weights = np.exp(np.array(log_weights) - np.logaddexp.reduce(log_weights))
        gates[:, m] = sum(w * path for w, path in zip(weights, all_paths, strict=True))
        divergence += sum(
            w * (np.log(w) - chain_log_probability(path, params.switch_on[m], params.switch_off[m]))
            for w, path in zip(weights, all_paths, strict=True)
            if w > 0
        )
    bound = sum(expected_log_density(t, gates[t], row_second_moment(gates[t])) for t in range(T))
    divergence += 0.5 * (
        np.trace(np.linalg.solve(prior, covariance + np.outer(mean, mean)))
        - T * K
        + np.linalg.slogdet(prior)[1]
        - np.linalg.slogdet(covariance)[1]
    )
    return mean.reshape(T, K), covariance, gates, bound - divergence
