"""Likelihood comparison that finds AR(1) factors for which a smooth factor would fit better."""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.filtering import filter_all, one_step, standardised_errors
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace, with_more_latents
from probsfa.statespace.processes.matern import Matern32

__all__ = ["better_as_smooth"]

# Time scales of the smooth factor that are tried, relative to that of the AR(1) factor. If an AR(1) process
# is fitted to a noisy smooth path, its time scale is one to eight times as long.
_RELATIVE_TIMESCALES = (1.0, 0.5, 0.25, 0.125)
# Lags at which the prediction errors of both models are compared.
_LAGS = 10


def better_as_smooth(params: StateSpace, timed: Sequences) -> NDArray[np.intp]:
    """Return AR(1) factors that a smooth factor can replace with a much higher likelihood.

    All other parameters, including loadings, are fixed; a fit with a smooth factor has a still higher
    likelihood. Autocorrelated noise that is not part of the model may also increase the likelihood of a
    smooth factor. In this case the autocorrelation of the prediction errors does not decrease, and the result
    is empty.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model, with AR(1) noise separate from the factors.
    timed : Sequences
        Observations in the units of the parameters.

    Returns
    -------
    ndarray of int
        Indices of these AR(1) factors.
    """
    no_factors = np.zeros(0, dtype=np.intp)
    with np.errstate(divide="ignore", invalid="ignore"):
        timescales = np.where(params.decay > 0.0, -1.0 / np.log(params.decay), 0.0)
    pairs = (
        (k, ratio * timescale) for k, timescale in enumerate(timescales) for ratio in _RELATIVE_TIMESCALES
    )
    # Shortest time scale, in units of time, at which paths of the two kinds can be distinguished.
    trials = [(k, timescale) for k, timescale in pairs if timescale >= 2.0]
    if not trials:
        return no_factors
    panel = make_panel(timed)
    # If the model is correct, the likelihood ratio of another model exceeds 1 / p with a probability of at
    # most p (Markov's inequality); p is therefore the false alarm rate.
    minimum = log_likelihood(params.state_space, panel) + np.log(len(trials) / 0.01)
    best: dict[int, tuple[float, float]] = {}
    for k, timescale in trials:
        value = log_likelihood(_with_smooth(params, {k: timescale}).state_space, panel)
        if value > minimum and (k not in best or value > best[k][0]):
            best[k] = value, timescale
    if not best:
        return no_factors
    smooth_model = _with_smooth(params, {k: timescale for k, (_, timescale) in best.items()})
    excess_before, excess_after = (
        _excess_autocorrelation(model.state_space, timed) for model in (params, smooth_model)
    )
    # Standard deviation of the statistic without autocorrelation.
    statistic_std = np.sqrt(2.0 * _LAGS * params.n_features)
    return np.array(sorted(best)) if excess_after < 0.5 * excess_before + 2.0 * statistic_std else no_factors


def _with_smooth(params: StateSpace, timescales: dict[int, float]) -> StateSpace:
    """Put smooth factors of some time scales in place of AR(1) factors, at the same loadings."""
    factors = sorted(timescales)
    smooth = Matern32.of_times(np.array([timescales[k] for k in factors]))
    smooth_only = params.replace(decay=params.decay[:0], processes=(smooth,))
    smooth_model = smooth_only.with_seen_loadings(params.loadings[:, factors])
    remaining = params.replace(
        decay=np.delete(params.decay, factors), loadings=np.delete(params.loadings, factors, axis=1)
    )
    return with_more_latents(remaining, smooth_model)


def _excess_autocorrelation(states: StateSpace, timed: Sequences) -> float:
    """Return the sum of squared autocorrelations of prediction errors, above that of white errors."""
    filtering, steps = filter_all(states, make_panel(timed))
    predictions = one_step(states, steps, filtering.means, filtering.covariances)
    errors: FloatArray = standardised_errors(timed.values, *predictions)
    correlation = autocorrelation(errors, timed.lengths, np.arange(1, _LAGS + 1))
    has_pairs = correlation.n_pairs > 0
    squares = np.where(has_pairs, correlation.n_pairs * np.nan_to_num(correlation.values) ** 2, 0.0)
    return float(np.sum(squares) - np.count_nonzero(has_pairs))
