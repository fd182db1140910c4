"""Simulated counts, and scores of their predictions."""

import numpy as np
from scipy.stats import norm

from probsfa import EmissionSFA, ProbabilisticSFA
from probsfa.extensions.emissions.families import FAMILIES
from probsfa.extensions.emissions.prediction import log_predictive, shapes_by_column
from probsfa.extensions.emissions.sites import predictor_moments
from probsfa.metrics import align_components
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.parameters import StateSpace

LEAST = 1e-12  # probabilities are clipped to this before the logarithm


def simulate(family: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a complete series, the mask of hidden values, and the factors."""
    rng = np.random.default_rng(seed)
    T, D, decay = 1000, 10, np.array([0.97, 0.85])
    offset = np.zeros(D) if family == "bernoulli" else rng.uniform(-0.5, 0.5, D)
    size = 1.2 if family == "bernoulli" else 0.6
    params = StateSpace(decay, size * rng.standard_normal((D, 2)), np.ones(D), offset)
    latents = simulate_factors(params, T, rng)
    shape = np.full((FAMILIES[family].n_shapes, D), np.log(2.0))
    X = FAMILIES[family].draw(params.offset + latents @ params.loadings.T, shape, rng)
    return X, rng.random(X.shape) < 0.1, latents


def recovery(estimated: np.ndarray, latents: np.ndarray) -> float:
    """Return the mean correlation of true and estimated factors, after matching of order and signs."""
    return float(align_components(estimated, latents).correlations.mean())


def gaussian_scores(
    model: ProbabilisticSFA, X: np.ndarray, hidden: np.ndarray, transform, *, binary: bool
) -> tuple[float, float]:
    """Return log score and coverage of hidden values for a Gaussian model of transformed columns."""
    given = transform(np.where(hidden, np.nan, X))
    mean, std = model.impute(given, return_std=True)
    mean, std, x = mean[hidden], std[hidden], X[hidden]
    above = np.where(x >= 1.0, np.inf, transform(x + 0.5)) if binary else transform(x + 0.5)
    below = np.where(x <= 0.0, -np.inf, transform(x - 0.5))
    high, low = norm.cdf((above - mean) / std), norm.cdf((below - mean) / std)
    rank = low + np.random.default_rng(0).random(len(x)) * (high - low)
    return float(np.mean(np.log(np.maximum(high - low, LEAST)))), float(
        np.mean((rank > 0.05) & (rank < 0.95))
    )


def emission_scores(model: EmissionSFA, X: np.ndarray, hidden: np.ndarray) -> tuple[float, float, float]:
    """Return the log score of hidden values, and coverage by randomized ranks and by integer intervals."""
    given = np.where(hidden, np.nan, X)
    inner, posterior = model._model, model.posterior(given)
    of_factors = posterior.means, posterior.covariances
    truth = np.where(hidden, X, np.nan)
    score = log_predictive(inner.params, inner.columns, inner.shapes, *of_factors, truth)
    mean, variance = predictor_moments(inner.params, *of_factors)
    shapes = shapes_by_column(inner.columns, inner.shapes)
    high, low = np.empty_like(X), np.empty_like(X)
    for j, column in enumerate(inner.columns):
        family, parts = FAMILIES[column.family], (mean[:, j], variance[:, j], shapes[j])
        high[:, j] = family.predictive_cdf(X[:, j], *parts)
        low[:, j] = family.predictive_cdf(X[:, j] - 1.0, *parts)
    rank = low + np.random.default_rng(0).random(X.shape) * (high - low)
    _, lower, upper = model.impute(given, interval=0.9)
    inside = (X >= lower) & (X <= upper)
    covered = np.mean((rank[hidden] > 0.05) & (rank[hidden] < 0.95))
    return float(np.mean(score[hidden])), float(covered), float(np.mean(inside[hidden]))
