"""Errors of models fitted to series with outliers."""

import time

import numpy as np
from scipy.optimize import linear_sum_assignment

from probsfa import ProbabilisticSFA

DECAY, NOISE = [0.98, 0.9, 0.6], 0.3


def latent_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """Return the root mean square error of factors after matching of order and signs."""
    k = wanted.shape[1]
    correlation = np.corrcoef(found.T, wanted.T)[:k, k:]
    rows, columns = linear_sum_assignment(-np.abs(correlation))
    signs = np.sign(correlation[rows, columns])
    return float(np.sqrt(np.mean((found[:, rows] * signs - wanted[:, columns]) ** 2)))


def fit(X: np.ndarray, k: int, robust: bool | str) -> tuple[ProbabilisticSFA, float]:
    """Return a fitted model, and the seconds of the fit."""
    start = time.perf_counter()
    model = ProbabilisticSFA(k, robust=robust).fit(X)
    return model, time.perf_counter() - start


def errors(model: ProbabilisticSFA, X: np.ndarray, series: object) -> tuple[float, float]:
    """Return errors of the signal, in standard deviations of the noise, and of the factors."""
    latents = model.transform(X)
    truth = series.offset + series.latents @ series.loadings.T
    signal = model.mean_ + latents @ model.loadings_.T
    return float(np.sqrt(np.mean((signal - truth) ** 2) / NOISE)), latent_error(latents, series.latents)
