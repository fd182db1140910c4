"""The factorial AR(1) model with Student-t noise by its definition: dense Gaussians and integrals."""

import numpy as np
from scipy.integrate import quad
from scipy.special import digamma, gammaln
from scipy.stats import norm, t

from tests.oracles import statespace as oracle


def weighted_posterior(model, x, weights):
    """Return the posterior of the factors of one sequence (T, D) with noise variances ``r / w``."""
    n, k = len(x), len(model.decay)
    observed = ~np.isnan(x).ravel()
    P = oracle.latent_covariance(model, [x])
    H = oracle.observation_matrix(model, n)[observed]
    R = np.diag((model.noise / weights).ravel()[observed])
    e = (x - model.offset).ravel()[observed]
    S = H @ P @ H.T + R
    gain = np.linalg.solve(S, H @ P).T
    value = -0.5 * (len(e) * np.log(2 * np.pi) + np.linalg.slogdet(S)[1] + e @ np.linalg.solve(S, e))
    full = P - gain @ H @ P
    return oracle.Dense((gain @ e).reshape(n, k), full.reshape(n, k, n, k), float(value))


def weight_groups(observed, by_row):
    """Return groups of observed values that have one common weight, as lists of (row, column)."""
    entries = [list(zip([t] * row.sum(), np.flatnonzero(row), strict=True)) for t, row in enumerate(observed)]
    return [row for row in entries if row] if by_row else [[entry] for row in entries for entry in row]


def best_gammas(model, x, posterior, nu, by_row):
    """Return shape and rate of ``q(w)`` for each group of values, given ``q(z)``."""
    out = []
    for entries in weight_groups(~np.isnan(x), by_row):
        s = 0.0
        for row, d in entries:
            c = model.loadings[d]
            error = x[row, d] - model.offset[d] - c @ posterior.means[row]
            s += (error**2 + c @ posterior.full[row, :, row, :] @ c) / model.noise[d]
        out.append((entries, 0.5 * (nu + len(entries)), 0.5 * (nu + s)))
    return out


def bound(model, x, posterior, gammas, nu):
    """Return ``E[log p(x, z, w) - log q(z) - log q(w)]`` term by term, for Gaussian q(z) and Gamma q(w)."""
    n, k = posterior.means.shape
    P = oracle.latent_covariance(model, [x])
    S = posterior.full.reshape(n * k, n * k)
    m = posterior.means.ravel()
    prior = -0.5 * (n * k * np.log(2 * np.pi) + np.linalg.slogdet(P)[1])
    prior -= 0.5 * (np.trace(np.linalg.solve(P, S)) + m @ np.linalg.solve(P, m))
    entropy = 0.5 * (n * k * (1 + np.log(2 * np.pi)) + np.linalg.slogdet(S)[1])
    total = prior + entropy
    for entries, a, b in gammas:
        mean, log_mean = a / b, digamma(a) - np.log(b)
        for row, d in entries:
            c, r = model.loadings[d], model.noise[d]
            error = x[row, d] - model.offset[d] - c @ posterior.means[row]
            power = error**2 + c @ posterior.full[row, :, row, :] @ c
            total += 0.5 * (log_mean - np.log(2 * np.pi * r) - mean * power / r)
        total += 0.5 * nu * np.log(0.5 * nu) - gammaln(0.5 * nu) + (0.5 * nu - 1) * log_mean - 0.5 * nu * mean
        total -= a * np.log(b) - gammaln(a) + (a - 1) * log_mean - b * mean
    return float(total)


def log_likelihood(model, x, nu, by_row, n_nodes=400, reach=7.0):
    """Return the log-likelihood of one factor and two rows by the trapezoidal rule over both states."""
    grid = np.linspace(-reach, reach, n_nodes)
    first, second = np.meshgrid(grid, grid, indexing="ij")
    a = model.decay[0]
    total = norm.logpdf(first) + norm.logpdf(second, a * first, np.sqrt(1 - a**2))
    for row, z in zip(x, (first, second), strict=True):
        errors = [(row[d] - model.offset[d] - model.loadings[d, 0] * z) for d in range(len(row))]
        if by_row:
            n = len(row)
            s = sum(e**2 / r for e, r in zip(errors, model.noise, strict=True))
            total = total + gammaln(0.5 * (nu + n)) - gammaln(0.5 * nu) - 0.5 * n * np.log(np.pi * nu)
            total = total - 0.5 * np.sum(np.log(model.noise)) - 0.5 * (nu + n) * np.log1p(s / nu)
        else:
            for e, r in zip(errors, model.noise, strict=True):
                total = total + t.logpdf(e, nu, scale=np.sqrt(r))
    step = grid[1] - grid[0]
    return float(np.log(np.sum(np.exp(total))) + 2 * np.log(step))


def distribution(error, explained, scale, nu):
    """Return the distribution function, at an error, of the sum of a normal and a Student-t variable."""
    std = np.sqrt(explained)

    def integrand(z):
        return norm.pdf(z) * t.cdf((error - std * z) / np.sqrt(scale), nu)

    return quad(integrand, -12, 12, epsabs=1e-14, epsrel=1e-12, limit=400)[0]


def density(error, explained, scale, nu):
    """Return the density, at an error, of the sum of a normal and a Student-t variable."""
    std = np.sqrt(explained)

    def integrand(z):
        return norm.pdf(z) * t.pdf((error - std * z) / np.sqrt(scale), nu) / np.sqrt(scale)

    t_mode = np.clip(error / std, -38, 38)
    return quad(integrand, -40, 40, points=[0.0, t_mode], epsabs=1e-300, epsrel=1e-11, limit=800)[0]
