"""Non-Gaussian values by their definitions: densities of scipy.stats, quadrature, and dense matrices."""

import numpy as np
from scipy import integrate, optimize, stats


def distribution(name, eta, shape=()):
    """Return the distribution of a value given its predictor and the logarithms of its other parameters."""
    if name == "gaussian":
        return stats.norm(eta, np.exp(0.5 * shape[0]))
    if name in ("monotone", "quadratic"):
        return stats.norm(link(name, eta, shape[1:]), np.exp(0.5 * shape[0]))
    if name == "student_t":
        return stats.t(np.exp(shape[1]), eta, np.exp(0.5 * shape[0]))
    if name == "bernoulli":
        return stats.bernoulli(1.0 / (1.0 + np.exp(-eta)))
    if name == "poisson":
        return stats.poisson(np.exp(eta))
    size = np.exp(shape[0])
    return stats.nbinom(size, size / (size + np.exp(eta)))


def link(name, eta, parameters):
    """Return a link at predictors; the monotone link is the integral of its slope."""
    eta = np.asarray(eta, dtype=float)
    if name == "quadratic":
        constant, angle = parameters
        return constant + np.cos(angle) * eta + np.sin(angle) * (eta**2 - 1.0) / np.sqrt(2.0)
    slopes = np.exp(parameters[1:])
    nodes, weights = np.polynomial.legendre.leggauss(60)
    total = np.zeros_like(eta)
    for node, weight in zip(0.5 * (nodes + 1.0), 0.5 * weights, strict=True):
        slope = slopes[0]
        for j, knot in enumerate((-1.2, 0.0, 1.2)):
            slope = slope + (slopes[j + 1] - slopes[j]) / (1.0 + np.exp(-1.5 * (node * eta - knot)))
        total = total + weight * slope
    return parameters[0] + eta * total


def log_density(name, x, eta, shape=()):
    """Return the log density, or log probability, of a value given its predictor."""
    conditional = distribution(name, eta, shape)
    is_continuous = name in ("gaussian", "student_t", "monotone", "quadratic")
    return conditional.logpdf(x) if is_continuous else conditional.logpmf(x)


def over_gaussian(function, mean, variance):
    """Return the expectation of a function of a Gaussian variable."""
    std = np.sqrt(variance)

    def integrand(z):
        return function(mean + std * z) * stats.norm.pdf(z)

    return integrate.quad(integrand, -12.0, 12.0, epsabs=1e-13, epsrel=1e-12, limit=400)[0]


def student_bound(x, mean, variance, shape):
    """Return ``E(m, 0) + int_0^v min(dE/du, 0) du`` with the expected log density ``E(m, u)``."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(160)
    eta = mean + np.sqrt(np.linspace(0.0, variance, 101))[:, None] * nodes
    values = log_density("student_t", x, eta, shape) @ (weights / weights.sum())
    return values[0] + np.sum(np.minimum(np.diff(values), 0.0))


def prior_covariance(decay, n_steps):
    """Return the prior covariance (T K, T K) of the factors, ordered by rows."""
    lag = np.abs(np.subtract.outer(np.arange(n_steps), np.arange(n_steps)))
    k = len(decay)
    out = np.zeros((n_steps, k, n_steps, k))
    for j, a in enumerate(decay):
        out[:, j, :, j] = a**lag
    return out.reshape(n_steps * k, n_steps * k)


def log_likelihood(name, X, decay, loadings, offset, shape=(), n_nodes=25):
    """Return the log-likelihood of a few rows by Gauss-Hermite quadrature over all factors and rows."""
    n_steps, k = len(X), len(decay)
    nodes, weights = np.polynomial.hermite_e.hermegauss(n_nodes)
    weights = weights / weights.sum()
    size = n_steps * k
    grid = np.stack(np.meshgrid(*[nodes] * size, indexing="ij"), axis=-1).reshape(-1, size)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * size, indexing="ij"), axis=-1), axis=-1).ravel()
    factors = (grid @ np.linalg.cholesky(prior_covariance(decay, n_steps)).T).reshape(-1, n_steps, k)
    eta = offset + factors @ loadings.T
    observed = ~np.isnan(X)
    terms = log_density(name, np.where(observed, X, 0.0), eta, shape)
    logs = np.log(mass) + np.sum(np.where(observed, terms, 0.0), axis=(1, 2))
    top = logs.max()
    return float(top + np.log(np.sum(np.exp(logs - top))))


def best_gaussian(expected, decay, loadings, offset, n_steps):
    """Return the bound, mean and covariance of the Gaussian with the largest bound, by direct search.

    ``expected(m, v)`` is the sum of the expected log densities of all values under ``eta ~ N(m, v)``, with
    moments (T, D).
    """
    prior = prior_covariance(decay, n_steps)
    size = len(prior)
    inverse = np.linalg.inv(prior)
    log_det = np.linalg.slogdet(prior)[1]
    lower = np.tril_indices(size)
    # eta = offset + mapping z, ordered by rows
    mapping = np.kron(np.eye(n_steps), loadings)

    def unpack(vector):
        root = np.zeros((size, size))
        root[lower] = vector[size:]
        return vector[:size], root

    def loss(vector):
        mean, root = unpack(vector)
        covariance = root @ root.T
        eta_mean = (mapping @ mean).reshape(n_steps, -1) + offset
        eta_variance = np.einsum("ij,jk,ik->i", mapping, covariance, mapping).reshape(n_steps, -1)
        divergence = 0.5 * (np.trace(inverse @ covariance) + mean @ inverse @ mean - size + log_det) - np.sum(
            np.log(np.abs(np.diag(root)))
        )
        return divergence - expected(eta_mean, eta_variance)

    start = np.concatenate([np.zeros(size), np.eye(size)[lower]])
    best = optimize.minimize(loss, start, method="BFGS", options={"gtol": 1e-7})
    mean, root = unpack(best.x)
    return -best.fun, mean.reshape(n_steps, -1), root @ root.T


def sampled_factors(name, X, decay, loadings, offset, n_draws=8000):
    """Return means and standard deviations (T,) of one factor of Bernoulli or Poisson values, by NUTS."""
    import jax
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS

    root = np.linalg.cholesky(prior_covariance(decay, len(X)))
    observed = ~np.isnan(X)
    family = {
        "bernoulli": lambda eta: dist.Bernoulli(logits=eta),
        "poisson": lambda eta: dist.Poisson(jax.numpy.exp(eta)),
    }[name]

    def model():
        white = numpyro.sample("white", dist.Normal(np.zeros(len(X)), 1.0).to_event(1))
        latent = numpyro.deterministic("latent", root @ white)
        eta = offset + latent[:, None] * loadings[:, 0]
        terms = family(eta).log_prob(np.where(observed, X, 0.0))
        numpyro.factor("values", jax.numpy.sum(jax.numpy.where(observed, terms, 0.0)))

    with jax.enable_x64(True):
        sampler = MCMC(NUTS(model), num_warmup=1000, num_samples=n_draws, progress_bar=False)
        sampler.run(jax.random.key(0))
        draws = np.asarray(sampler.get_samples()["latent"])
    return draws.mean(axis=0), draws.std(axis=0)
