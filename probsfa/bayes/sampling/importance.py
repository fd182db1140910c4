"""Pareto-smoothed importance weights, computed by ArviZ, and resampling.

Pareto smoothed importance sampling: Vehtari, Simpson, Gelman, Yao & Gabry (2024), "Pareto smoothed importance
sampling", Journal of Machine Learning Research 25(72).
"""

import warnings

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray

#: Tail index above which importance weights are unreliable.
MAX_TAIL_INDEX = 0.7
# Minimum number of draws: the tail is at most a fifth of them, and its fit requires five draws.
_MIN_DRAWS = 25


def smoothed_weights(log_ratios: FloatArray) -> tuple[FloatArray, float]:
    """Return weights (N,) that sum to one, and the tail index of the ratios.

    Parameters
    ----------
    log_ratios : ndarray (N,)
        Log of target over proposal density at draws of the proposal, up to a constant. Weights of non-finite
        ratios are zero; if no ratio is finite, weights are equal.

    Returns
    -------
    weights : ndarray (N,)
    pareto_k : float
        Infinite for fewer than 25 finite ratios, minus infinity if all are equal.
    """
    usable = np.isfinite(log_ratios)
    count = int(np.sum(usable))
    if not count:
        return np.full(len(log_ratios), 1.0 / len(log_ratios)), np.inf
    log_weights, pareto_k = log_ratios[usable] - np.max(log_ratios[usable]), np.inf
    if count >= _MIN_DRAWS:
        equal = np.all(log_weights == 0.0)
        log_weights, pareto_k = (log_weights, -np.inf) if equal else _smoothed_by_arviz(log_weights)
    weights = np.zeros(len(log_ratios))
    weights[usable] = np.exp(log_weights)
    return weights / np.sum(weights), pareto_k


def _smoothed_by_arviz(log_ratios: FloatArray) -> tuple[FloatArray, float]:
    """Return smoothed logarithms of weights and the tail index, by ArviZ 0.x or 1.x."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of future changes at the import of ArviZ
        try:
            from arviz_stats.base import array_stats  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            import arviz

            smoothed, pareto_k = arviz.psislw(log_ratios)
        else:
            # The argument of this function is log-likelihoods, which are minus the log ratios.
            smoothed, pareto_k = array_stats.psislw(-log_ratios)
    return np.asarray(smoothed), float(pareto_k)


def resample(weights: FloatArray, n_draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Draw indices (n_draws,) with probabilities proportional to the weights, in random order.

    The method is systematic resampling.
    """
    ends = np.cumsum(weights)
    selected = np.searchsorted(ends / ends[-1], (rng.random() + np.arange(n_draws)) / n_draws, side="right")
    return rng.permutation(np.minimum(selected, len(weights) - 1))
