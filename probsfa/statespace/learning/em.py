"""Expectation maximisation with the exact M-step.

The expected complete-data log-likelihood falls apart into the dynamics and the observations. The
observations are one regression of each feature on ``(z, 1)`` over the rows in which it is observed, of the
memories on its own alone. With the stationary variance held at one, the decay of a latent solves a cubic
(:mod:`.processes`).
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

# How often in a row EM must promise no more gain.
_PROMISES = 5


def maximize(
    params: Parameters,
    stats: Statistics,
    noise: Noise,
    gaps: FloatArray,
    loaded: BoolArray | None = None,
    limits: Limits | None = None,
) -> Parameters:
    """M-step: parameters that maximise the expected complete-data log-likelihood, and the prior of the noise.

    Parameters
    ----------
    params : Parameters
        Parameters at which ``stats`` were taken.
    stats : Statistics
        Expected statistics.
    noise : Noise
        What may happen to the noise variance.
    gaps : ndarray of shape (U,)
        Times between successive rows; ``[1.0]`` for even sampling.
    loaded : ndarray of bool of shape (D, n_seen), optional
        Which loadings are learned; the others are zero. All without.
    limits : Limits, optional
        What is held, and ranges of frequencies, of all states.

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
        # Of what is not learned the change is zero, by an equation of its own.
        apart = ~np.column_stack([loaded, np.ones(len(loaded), dtype=bool)])
        moments = np.where(apart[:, :, None] | apart[:, None, :], np.eye(apart.shape[1]), moments)
        crossed = np.where(apart, 0.0, crossed)
    # In units of the states, of which those of trends are orders of magnitude smaller than others.
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
    """Plain EM from ``start``.

    It stops when the gain still to come is below ``tol`` nats. That is not the gain of the last step: EM
    converges linearly, with a rate near one when the noise is small, so the rest of the geometric series is
    counted.

    Parameters
    ----------
    evaluate : CountedEStep
        Gives expected statistics, within a limit.
    start : Parameters
        Where to begin.
    noise : Noise
        What may happen to the noise variance.
    tol : float
        Gain to come at which to stop, in nats.
    stats : Statistics, optional
        The statistics at ``start``, where they are known.
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
            # The first steps end fast modes and say nothing of the slow ones: take the slowest of some, and
            # believe it when it is said repeatedly.
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
    """Take up to ``most`` steps of EM, as long as each gains more than ``worth`` nats.

    Far from the optimum, and with gaps in the data, the first steps of EM are hard to beat.

    Parameters
    ----------
    evaluate : CountedEStep
        Gives expected statistics, within a limit.
    params : Parameters
        Where to begin.
    stats : Statistics
        Expected statistics there.
    noise : Noise
        What may happen to the noise variance.
    most : int
        Most steps.
    worth : float
        Gain below which to stop, in nats.
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
