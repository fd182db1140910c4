"""Starting points of larger models from fitted smaller ones, and of smaller models from larger ones.

New AR(1) factors are estimated from the residuals of the smaller model, by slow feature analysis and from
lagged covariances. Stochastic cycles start at the frequency at which the power most exceeds that of the
model; smooth factors and trends start like AR(1) factors. Full and smaller loadings are tried, because
residuals are mostly noise. The start with the highest likelihood is used.
"""

import numpy as np

from probsfa.statespace.engine.posterior import expected_statistics, smooth
from probsfa.statespace.learning.options import InitialProcesses
from probsfa.statespace.learning.starts import (
    DAMPING_TIMES,
    estimated_cycle,
    from_ar1_factors,
    interpolate,
    interpolate_to_grid,
    starts,
    strongest_frequency,
)
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, StateSpace, chosen_processes, with_more_latents

__all__ = ["enlarged", "reduced"]

_LOADING_MULTIPLIERS = (1.0, 0.3)


def enlarged(
    params: StateSpace,
    panel: Panel,
    latents: Latents,
    noise: Noise,
    initial_processes: InitialProcesses | None = None,
) -> StateSpace:
    """Return the model with additional latent processes, started from its residuals.

    Parameters
    ----------
    params : StateSpace
        The smaller model, of standardised data.
    panel : Panel
        Standardised observations.
    latents : Latents
        Numbers of processes of the larger model, no fewer of any kind than in `params`.
    noise : Noise
        Structure and lower bound of the noise variance.
    initial_processes : InitialProcesses, optional
        Known frequencies and rates.

    Returns
    -------
    larger : StateSpace
        The starting point with the highest likelihood.
    """
    more = latents.without(params.latents)
    left = panel.values[:] - params.offset
    n = panel.n_rows
    left[:n] -= smooth(params, panel).means @ params.state_space.loadings.T
    residual = panel._replace(values=left * panel.mask[:])
    like_ar1 = [Latents(0, {kind: count}) for kind, count in more.counts.items() if not kind.from_periodogram]
    for kind in (Latents(more.n_components), *like_ar1):
        if kind.n_states:
            params = _best(_with_latents(params, residual, kind, noise, initial_processes), panel)
    for j in range(more.n_from_periodogram):
        params = _with_cycle(
            params, panel, latents.n_from_periodogram - more.n_from_periodogram + j, noise, initial_processes
        )
    return params


def reduced(params: StateSpace, latents: Latents) -> StateSpace:
    """Return the model without the processes that explain least, adding half their variance to the noise.

    Parameters
    ----------
    params : StateSpace
        The larger model, of standardised data.
    latents : Latents
        Numbers of processes of the smaller model, no more of any kind than in `params`.
    """
    size = np.sum(params.loadings**2 / params.noise_variance[:, None], axis=0)
    slow = np.sort(np.argsort(-size[: params.n_components], kind="stable")[: latents.n_components])
    selected = {}
    for one in params.processes:
        own = size[params.latents.states[type(one)]].reshape(len(one), -1).sum(axis=1)
        selected[type(one)] = np.sort(np.argsort(-own, kind="stable")[: latents.counts.get(type(one), 0)])
    less = chosen_processes(params, selected)
    less = less.replace(
        decay=params.decay[slow],
        loadings=np.hstack([params.loadings[:, slow], less.loadings[:, params.n_components :]]),
    )
    lost = np.sum(params.stationary_loadings**2, axis=1) - np.sum(less.stationary_loadings**2, axis=1)
    return less.replace(noise_variance=params.noise_variance + 0.5 * np.maximum(lost, 0.0))


def _best(candidates: list[StateSpace], panel: Panel) -> StateSpace:
    """Return the parameters with the highest likelihood."""
    # The fit computes these statistics too, so that one program is compiled for both.
    values = [expected_statistics(params, panel).log_likelihood for params in candidates]
    return candidates[int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))]


def _joined(params: StateSpace, new: StateSpace, noise: Noise) -> list[StateSpace]:
    """Return models with new processes of several strengths; noise is reduced by what they explain."""
    out = []
    for strength in _LOADING_MULTIPLIERS:
        loadings = strength * new.loadings
        variance = params.noise_variance
        if noise.variances.separate:
            explained = np.minimum(np.sum(loadings**2, axis=1), 0.5 * variance)
            variance = np.maximum(variance - explained, noise.floor)
        both = with_more_latents(params, new.replace(loadings=loadings))
        out.append(both.replace(noise_variance=variance))
    return out


def _with_latents(
    params: StateSpace,
    residual: Panel,
    more: Latents,
    noise: Noise,
    initial_processes: InitialProcesses | None,
) -> list[StateSpace]:
    """Return models with more AR(1) factors, or more processes of another kind that start like these."""
    news = starts(
        interpolate(residual),
        np.zeros(params.n_features),
        Latents(more.n_components + more.n_other_processes),
    )
    if more.n_other_processes:
        known = {} if initial_processes is None else initial_processes.processes
        last = {
            kind: known[kind].select(np.arange(-n, 0)) for kind, n in more.counts.items() if kind in known
        }
        news = (
            each for new in news for each in from_ar1_factors(new, more, InitialProcesses(processes=last))
        )
    return [each for new in news for each in _joined(params, new, noise)]


def _with_cycle(
    params: StateSpace, panel: Panel, which: int, noise: Noise, initial_processes: InitialProcesses | None
) -> StateSpace:
    """Return the model with one more stochastic cycle, at a known frequency or that of most excess power."""
    grid = interpolate_to_grid(panel)
    centred = [rows - params.offset for rows in grid]
    if initial_processes is None or initial_processes.frequencies is None:
        frequency = strongest_frequency(params.state_space, centred)
    else:
        frequency = float(initial_processes.frequencies[which])
    alone = [estimated_cycle(params, frequency, centred, time) for time in DAMPING_TIMES]
    return _best([each for one in alone for each in _joined(params, one, noise)], panel)
