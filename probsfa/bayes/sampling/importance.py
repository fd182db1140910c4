"""Importance weights whose largest are smoothed, and draws in proportion to them.

Pareto smoothed importance sampling: Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance
sampling", Journal of Machine Learning Research 25(72). The tail is fitted as by Zhang & Stephens (2009),
Technometrics 51:316.
"""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray

#: Tail index above which weights do not mend an approximation.
UNRELIABLE = 0.7
# Fewest weights of which a tail can be fitted.
_SHORTEST_TAIL = 5


def fit_tail(excesses: FloatArray) -> tuple[float, float]:
    """Shape and scale of a generalised Pareto distribution for positive numbers in ascending order.

    The shape is the mean of a quasi-posterior over a grid (Zhang & Stephens 2009, section 4), drawn towards
    one half as if by ten more numbers (Vehtari et al. 2024, appendix C).
    """
    n = len(excesses)
    n_points = 30 + int(np.sqrt(n))
    quartile = excesses[max(int(n / 4 + 0.5) - 1, 0)]
    spread = 1.0 - np.sqrt(n_points / (np.arange(1, n_points + 1) - 0.5))
    grid = 1.0 / excesses[-1] + spread / (3.0 * quartile)
    shapes = np.mean(np.log1p(-grid[:, None] * excesses), axis=1)
    fits = n * (np.log(-grid / shapes) - shapes - 1.0)
    posterior = np.exp(fits - np.max(fits))
    point = float(grid @ posterior / np.sum(posterior))
    shape = float(np.mean(np.log1p(-point * excesses)))
    scale = -shape / point
    return (n * shape + 5.0) / (n + 10.0), scale


def smoothed_weights(log_ratios: FloatArray) -> tuple[FloatArray, float]:
    """Weights (N,) that sum to one, and the tail index of the ratios.

    Parameters
    ----------
    log_ratios : ndarray (N,)
        Log of target over proposal density at draws of the proposal, up to a constant. What is not finite
        gets no weight.

    Returns
    -------
    weights : ndarray (N,)
    pareto_k : float
        Infinite where there are too few draws to tell.
    """
    usable = np.isfinite(log_ratios)
    if not np.any(usable):
        return np.full(len(log_ratios), 1.0 / len(log_ratios)), np.inf
    logs = np.where(usable, log_ratios, -np.inf) - np.max(log_ratios[usable])
    n = len(logs)
    n_tail = int(np.ceil(min(0.2 * n, 3.0 * np.sqrt(n))))
    order = np.argsort(logs, kind="stable")
    tail = order[n - n_tail :]
    pareto_k = np.inf
    if _SHORTEST_TAIL <= n_tail < n:
        border = np.exp(max(logs[order[n - n_tail - 1]], np.log(np.finfo(float).tiny)))
        excesses = np.exp(logs[tail]) - border
        if excesses[0] > 0.0 and excesses[-1] > excesses[0]:
            pareto_k, scale = fit_tail(excesses)
            levels = (np.arange(n_tail) + 0.5) / n_tail
            quantiles = scale * np.expm1(-pareto_k * np.log1p(-levels)) / pareto_k
            logs[tail] = np.minimum(np.log(border + quantiles), 0.0)
        else:
            pareto_k = -np.inf  # all alike: no tail
    weights = np.exp(logs)
    return weights / np.sum(weights), float(pareto_k)


def resample(weights: FloatArray, n_draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Indices (n_draws,), each as often as its weight asks, up to rounding (systematic resampling).

    In random order.
    """
    ends = np.cumsum(weights)
    picked = np.searchsorted(ends / ends[-1], (rng.random() + np.arange(n_draws)) / n_draws, side="right")
    return rng.permutation(np.minimum(picked, len(weights) - 1))
