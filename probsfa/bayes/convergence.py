"""Convergence of Markov chains: R-hat and effective sample sizes, with the definitions of ArviZ and Stan.

Vehtari, Gelman, Simpson, Carpenter & Buerkner (2021), "Rank-normalization, folding, and localization: an
improved R-hat for assessing convergence of MCMC", Bayesian Analysis 16:667, doi:10.1214/20-BA1221. The
diagnostics are implemented here because importing ArviZ takes longer than computing them.

The argument of each diagnostic is an array (C, N, E): N draws of E entries in each of C chains. The result is
an array (E,).
"""

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats

from probsfa._typing import FloatArray
from probsfa.bayes.draws import AnyDraws

__all__ = [
    "MAX_RHAT",
    "MIN_ESS",
    "bulk_ess",
    "convergence_diagnostics",
    "have_converged",
    "rank_normalized_rhat",
    "tail_ess",
    "worst_measures",
]

#: Largest R-hat and smallest effective sample size of draws that have converged (Vehtari et al. 2021).
MAX_RHAT, MIN_ESS = 1.01, 400.0
_TAIL_PROBABILITY = 0.05


def rank_normalized_rhat(draws: FloatArray) -> FloatArray:
    """Return rank-normalized split R-hat: the larger of the two values for draws and for folded draws.

    Folded draws are absolute deviations from the median; their R-hat detects chains of different widths.
    For a single chain, its two halves are compared.
    """
    halves = _split(draws)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_rank_normalized(halves)), _rhat(_rank_normalized(folded)))


def bulk_ess(draws: FloatArray) -> FloatArray:
    """Return the bulk effective sample size, computed from rank-normalized split chains."""
    return _ess(_rank_normalized(_split(draws)))


def tail_ess(draws: FloatArray) -> FloatArray:
    """Return the tail effective sample size: the smaller of the two values for 5 % and 95 % quantiles."""
    quantiles = np.quantile(draws, [_TAIL_PROBABILITY, 1.0 - _TAIL_PROBABILITY], axis=(0, 1))
    return np.minimum(*(_ess(_split((draws <= quantile).astype(np.float64))) for quantile in quantiles))


def convergence_diagnostics(
    draws: AnyDraws, degrees: FloatArray | None = None
) -> dict[str, dict[str, FloatArray]]:
    """Return R-hat, bulk and tail effective sample size of each entry of each parameter.

    Parameters
    ----------
    draws : Draws or StructuralDraws
        Draws of the parameters; empty arrays are ignored.
    degrees : ndarray (C, N), optional
        Draws of the degrees of freedom.

    Returns
    -------
    dict
        ``"rhat"``, ``"ess"`` and ``"ess_tail"``, each a dict from the name of a parameter to an array of its
        shape. NaN for constant entries, such as known noise, and for fewer than four draws.
    """
    measures = {"rhat": rank_normalized_rhat, "ess": bulk_ess, "ess_tail": tail_ess}
    out: dict[str, dict[str, FloatArray]] = {kind: {} for kind in measures}
    extra_variables = {} if degrees is None else {"degrees_of_freedom": degrees}
    for name, values in {**draws._asdict(), **extra_variables}.items():
        if not values.size:
            continue
        flat = values.reshape(*values.shape[:2], -1)
        is_varying = np.ptp(flat, axis=(0, 1)) > 1e-12 * np.max(np.abs(flat), axis=(0, 1), initial=1e-300)
        for kind, measure in measures.items():
            entries = np.full(flat.shape[-1], np.nan)
            if flat.shape[1] >= 4 and np.any(is_varying):
                entries[is_varying] = measure(flat[..., is_varying])
            out[kind][name] = entries.reshape(values.shape[2:])
    return out


def worst_measures(measured: dict[str, dict[str, FloatArray]]) -> tuple[float, float]:
    """Return the largest R-hat and the smallest effective sample size, bulk or tail, of all parameters."""
    sizes = [*measured["ess"].values(), *measured["ess_tail"].values()]
    rhat = max(float(np.nanmax(x, initial=1.0)) for x in measured["rhat"].values())
    return rhat, min(float(np.nanmin(x, initial=np.inf)) for x in sizes)


def have_converged(measured: dict[str, dict[str, FloatArray]]) -> bool:
    """Return whether R-hat is small enough and effective sample sizes are large enough for all parameters."""
    rhat, ess = worst_measures(measured)
    return rhat <= MAX_RHAT and ess >= MIN_ESS


def _split(draws: FloatArray) -> FloatArray:
    """Return the halves of chains as chains; the middle draw of an odd number is omitted."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _rank_normalized(draws: FloatArray) -> FloatArray:
    """Return normal scores of the ranks among all chains (Blom 1958)."""
    flat = draws.reshape(-1, draws.shape[-1])
    ranks = scipy.stats.rankdata(flat, axis=0)
    scores: FloatArray = scipy.special.ndtri((ranks - 0.375) / (len(flat) + 0.25))
    return scores.reshape(draws.shape)


def _rhat(draws: FloatArray) -> FloatArray:
    n = draws.shape[1]
    within_variance = np.mean(np.var(draws, axis=1, ddof=1), axis=0)
    between = n * np.var(np.mean(draws, axis=1), axis=0, ddof=1)
    rhat: FloatArray = np.sqrt((between / within_variance + n - 1.0) / n)
    return rhat


def _ess(draws: FloatArray) -> FloatArray:
    """Return the effective sample size of several chains by Geyer's initial monotone sequence."""
    chains, n, _ = draws.shape
    centred = draws - np.mean(draws, axis=1, keepdims=True)
    size = scipy.fft.next_fast_len(2 * n, real=True)
    power = np.abs(scipy.fft.rfft(centred, size, axis=1)) ** 2
    autocovariance = np.mean(scipy.fft.irfft(power, size, axis=1)[:, :n], axis=0) / n
    within_variance = autocovariance[0] * n / (n - 1.0)
    total = autocovariance[0] + np.var(np.mean(draws, axis=1), axis=0, ddof=1)
    constant = np.ptp(draws, axis=(0, 1)) < np.finfo(np.float64).resolution
    correlation = 1.0 - (within_variance - autocovariance) / np.where(constant, 1.0, total)
    correlation[0] = 1.0
    n_pairs = max(1, (n - 1) // 2)
    pairs = correlation[0 : 2 * n_pairs : 2] + correlation[1 : 2 * n_pairs : 2]
    # Summation ends at the first pair of autocorrelations whose total is zero or less. Of this pair, the
    # first autocorrelation is added if it is positive.
    positive = np.cumprod(pairs[:-1] > 0.0, axis=0, dtype=bool)
    last = np.sum(positive, axis=0)
    monotone_sum = np.sum(np.minimum.accumulate(pairs[:-1], axis=0), axis=0, where=positive)
    columns = np.arange(draws.shape[-1])
    next_correlation = correlation[2 * last, columns]
    next_correlation = np.where(
        (next_correlation > 0.0) | (pairs[last, columns] >= 0.0), next_correlation, 0.0
    )
    autocorrelation_time = np.maximum(2.0 * monotone_sum + next_correlation - 1.0, 1.0 / np.log10(chains * n))
    return np.where(constant, float(chains * n), chains * n / autocorrelation_time)
