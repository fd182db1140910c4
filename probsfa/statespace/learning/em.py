"""Expectation maximisation with the exact M-step.

The expected complete-data log-likelihood is the sum of a term of the dynamics and one of the observations.
The latter is a regression of each column on ``(z, 1)`` over the rows in which it is observed; of the AR(1)
noise processes, only the column's own is a regressor. With the stationary variance fixed at one, the decay of
an AR(1) process solves a cubic equation (:mod:`.processes`).
"""

from collections import deque

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.limits import Limits
from probsfa.statespace.learning.objective import CountedEStep, FitResult, Status, rounding
from probsfa.statespace.learning.processes import maximize_dynamics
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.parameters import Parameters

# Number of successive steps with an expected remaining gain below the tolerance.
_PROMISES = 5


def maximize(
    params: Parameters,
    stats: Statistics,
    noise: Noise,
    gaps: FloatArray,
    loaded: BoolArray | None = None,
    limits: Limits | None = None,
) -> Parameters:
    """M-step: maximise the expected complete-data log-likelihood plus the log prior of the noise.

    Parameters
    ----------
    params : Parameters
        Parameters at which ``stats`` were computed.
    stats : Statistics
        Expected statistics.
    noise : Noise
        Constraints and prior of the noise variances.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    loaded : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned; the others are zero. By default all are learned.
    limits : Limits, optional
        Fixed parameters and ranges of frequencies, of all states.

    Returns
    -------
    params : Parameters
    """
    if limits is not None and limits.hold:
        free = np.isnan(limits.loadings[:, params.latents.seen])
        loaded = free if loaded is None else loaded & free
    loadings, offset, variance = _maximize_observations(params, stats, noise, loaded)
    changed = maximize_dynamics(params, stats, gaps, limits).with_seen_loadings(loadings)
    return changed.replace(noise_variance=variance, offset=offset)


def _maximize_observations(
    params: Parameters, stats: Statistics, noise: Noise, loaded: BoolArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    # The statistics hold residuals, so the regression gives the change of (C, mu).
    moments, crossed = stats.latent_moments, stats.residual_moments
    latents = params.latents
    if latents.n_seen < latents.n_states:
        regressors = np.append(latents.seen, params.n_states)
        moments, crossed = moments[:, regressors[:, None], regressors], crossed[:, regressors]
    if loaded is not None and not loaded.all():
        # The change of a loading that is not learned is zero: a separate identity equation.
        apart = ~np.column_stack([loaded, np.ones(len(loaded), dtype=bool)])
        moments = np.where(apart[:, :, None] | apart[:, None, :], np.eye(apart.shape[1]), moments)
        crossed = np.where(apart, 0.0, crossed)
    # In units of the states: those of trends differ from others by orders of magnitude.
    size = np.sqrt(np.maximum(np.diagonal(moments, axis1=1, axis2=2), np.finfo(np.float64).tiny))
    scaled = moments / (size[:, :, None] * size[:, None, :])
    change = np.linalg.solve(scaled, (crossed / size)[:, :, None])[:, :, 0] / size
    power = stats.residual_power - np.einsum("di,di->d", change, crossed)
    variance = noise.maximized(params.noise_variance, stats.counts, power)
    return params.seen_loadings + change[:, :-1], params.offset + change[:, -1], variance


def fit_em(
    evaluate: CountedEStep,
    start: Parameters,
    noise: Noise,
    tol: float,
    stats: Statistics | None = None,
    loaded: BoolArray | None = None,
) -> FitResult:
    """Run plain EM from ``start``.

    It stops when the expected remaining gain is below ``tol`` nats. EM converges linearly, with a rate near
    one if the noise is small, so the remaining gain is the rest of a geometric series, not the last gain.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    start : Parameters
        Initial parameters.
    noise : Noise
        Constraints and prior of the noise variances.
    tol : float
        Expected remaining gain at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, if they are known.
    loaded : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned, as in :func:`maximize`.

    Returns
    -------
    FitResult
    """
    gaps = evaluate.panel.gaps
    params, history = start, []
    status: Status = "max_iter"
    gain, promising = np.inf, 0
    rates: deque[float] = deque([1.0], maxlen=_PROMISES)
    try:
        stats = evaluate(params) if stats is None else stats
        history.append(stats.log_likelihood)
        while not evaluate.exhausted:
            proposal = maximize(params, stats, noise, gaps, loaded, evaluate.limits)
            proposed = evaluate(proposal)
            previous_gain, gain = gain, proposed.log_likelihood - stats.log_likelihood
            noise_level = rounding(stats.log_likelihood, evaluate.panel.n_rows)
            if gain <= noise_level:
                status = "flat" if gain >= -noise_level else "stalled"
                break
            params, stats = proposal, proposed
            history.append(stats.log_likelihood)
            rates.append(gain / previous_gain if np.isfinite(previous_gain) else 1.0)
            # The first steps converge fast modes only: use the slowest recent rate, and require several
            # successive steps that meet the tolerance.
            rate = max(rates)
            promising = promising + 1 if rate < 1.0 and gain * rate / (1.0 - rate) < tol else 0
            if promising >= _PROMISES:
                status = "converged"
                break
    except KeyboardInterrupt:
        status = "interrupted"
    return FitResult(params, history[-1] if history else -np.inf, tuple(history), evaluate.count, status)


def warm_up(
    evaluate: CountedEStep,
    params: Parameters,
    stats: Statistics,
    noise: Noise,
    most: int,
    worth: float,
    loaded: BoolArray | None = None,
) -> tuple[Parameters, Statistics]:
    """Take up to ``most`` EM steps, as long as each gains more than ``worth`` nats.

    Far from the optimum, and with missing values, the first EM steps are efficient.

    Parameters
    ----------
    evaluate : CountedEStep
        Expected statistics, with a limited number of evaluations.
    params : Parameters
        Initial parameters.
    stats : Statistics
        Expected statistics at ``params``.
    noise : Noise
        Constraints and prior of the noise variances.
    most : int
        Maximum number of steps.
    worth : float
        Gain of a step below which to stop, in nats.
    loaded : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned, as in :func:`maximize`.

    Returns
    -------
    params : Parameters
        The best parameters of the steps taken.
    stats : Statistics
        Expected statistics at ``params``.
    """
    for _ in range(most):
        if evaluate.exhausted:
            break
        proposal = maximize(params, stats, noise, evaluate.panel.gaps, loaded, evaluate.limits)
        proposed = evaluate(proposal)
        gain = proposed.log_likelihood - stats.log_likelihood
        if not gain > 0.0:
            break
        params, stats = proposal, proposed
        if gain < worth:
            break
    return params, stats
