"""Likelihood comparison of AR(1) factors and smooth factors."""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.filtering import filter_all, one_step, standardized_errors
from probsfa.statespace.panel import make_panel
from probsfa.statespace.parameters import StateSpace, with_more_factors
from probsfa.statespace.processes.matern import Matern32

__all__ = ["find_smooth_factors"]

# Tried time scales of the smooth factor, relative to the time scale of the AR(1) factor. An AR(1) process
# that is fitted to a noisy smooth path has one to eight times the time scale of the path.
_RELATIVE_TIMESCALES = (1.0, 0.5, 0.25, 0.125)
# Minimum time scale, in units of time, at which smooth paths and AR(1) paths can be distinguished.
_MIN_TIMESCALE = 2.0
# Probability of a false alarm over all trials.
_FALSE_ALARM_RATE = 0.01
# Number of lags at which the autocorrelations of the prediction errors of both models are compared.
_N_LAGS = 10


def find_smooth_factors(params: StateSpace, timed: Sequences) -> NDArray[np.intp]:
    """Return the AR(1) factors for which a smooth factor has a much higher likelihood.

    All other parameters, including loadings, are fixed; a fit with smooth factors would have an even higher
    likelihood. Autocorrelated noise that is not in the model can also increase the likelihood of smooth
    factors. In this case the autocorrelation of the prediction errors does not decrease, and the result is
    empty.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model, not in state-space form.
    timed : Sequences
        Observations in the units of the parameters.

    Returns
    -------
    ndarray of int
        Indices of the AR(1) factors that smooth factors should replace.
    """
    no_factors = np.zeros(0, dtype=np.intp)
    with np.errstate(divide="ignore", invalid="ignore"):
        timescales = np.where(params.decay > 0.0, -1.0 / np.log(params.decay), 0.0)
    pairs = (
        (k, ratio * timescale) for k, timescale in enumerate(timescales) for ratio in _RELATIVE_TIMESCALES
    )
    trials = [(k, timescale) for k, timescale in pairs if timescale >= _MIN_TIMESCALE]
    if not trials:
        return no_factors
    panel = make_panel(timed)
    # If the model is correct, the likelihood ratio of another model exceeds 1 / p with a probability of at
    # most p (Markov's inequality). A Bonferroni correction divides p by the number of trials.
    p = _FALSE_ALARM_RATE / len(trials)
    minimum = log_likelihood(params.state_space, panel) + np.log(1.0 / p)
    best: dict[int, tuple[float, float]] = {}
    for k, timescale in trials:
        value = log_likelihood(_with_smooth_factors(params, {k: timescale}).state_space, panel)
        if value > minimum and (k not in best or value > best[k][0]):
            best[k] = value, timescale
    if not best:
        return no_factors
    smooth_model = _with_smooth_factors(params, {k: timescale for k, (_, timescale) in best.items()})
    excess_before, excess_after = (
        _excess_autocorrelation(model.state_space, timed) for model in (params, smooth_model)
    )
    # Standard deviation of the statistic if errors are white.
    statistic_std = np.sqrt(2.0 * _N_LAGS * params.n_features)
    return np.array(sorted(best)) if excess_after < 0.5 * excess_before + 2.0 * statistic_std else no_factors


def _with_smooth_factors(params: StateSpace, timescales: dict[int, float]) -> StateSpace:
    """Replace some AR(1) factors by smooth factors; `timescales` maps indices of factors to time scales."""
    factors = sorted(timescales)
    smooth = Matern32.of_times(np.array([timescales[k] for k in factors]))
    smooth_only = params.replace(decay=params.decay[:0], processes=(smooth,))
    smooth_model = smooth_only.with_nonzero_loadings(params.loadings[:, factors])
    remaining = params.replace(
        decay=np.delete(params.decay, factors), loadings=np.delete(params.loadings, factors, axis=1)
    )
    return with_more_factors(remaining, smooth_model)


def _excess_autocorrelation(states: StateSpace, timed: Sequences) -> float:
    """Return the Box-Pierce statistic of one-step prediction errors, less its expectation for white noise."""
    filtering, steps = filter_all(states, make_panel(timed))
    predictions = one_step(states, steps, filtering.means, filtering.covariances)
    errors: FloatArray = standardized_errors(timed.values, *predictions)
    correlations = autocorrelation(errors, timed.lengths, np.arange(1, _N_LAGS + 1))
    has_pairs = correlations.n_pairs > 0
    squares = np.where(has_pairs, correlations.n_pairs * np.nan_to_num(correlations.values) ** 2, 0.0)
    return float(np.sum(squares) - np.count_nonzero(has_pairs))
