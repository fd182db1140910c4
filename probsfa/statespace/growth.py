"""Initial parameters of larger models from fitted smaller ones, and of smaller models from larger ones.

New AR(1) factors are estimated from the residuals of the smaller model, by slow feature analysis and from
lagged covariances. Smooth factors and trends are converted from AR(1) factors. A new stochastic cycle has the
frequency at which the periodogram most exceeds the spectrum of the model. Loadings that are estimated from
residuals may be too large, because residuals are mostly noise. Each candidate is therefore tried with full
and with reduced loadings, and the candidate with the highest likelihood is used.
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
from probsfa.statespace.parameters import StateLayout, StateSpace, select_processes, with_more_factors

__all__ = ["enlarged", "reduced"]

# Numbers by which estimated loadings of new processes are multiplied.
_LOADING_MULTIPLIERS = (1.0, 0.3)


def enlarged(
    params: StateSpace,
    panel: Panel,
    state_layout: StateLayout,
    noise: Noise,
    initial_processes: InitialProcesses | None = None,
) -> StateSpace:
    """Return parameters with additional latent processes, which are estimated from residuals.

    Parameters
    ----------
    params : StateSpace
        Parameters of the smaller model, for standardized data.
    panel : Panel
        Standardized observations.
    state_layout : StateLayout
        Numbers of processes of the larger model, no fewer of any kind than in `params`.
    noise : Noise
        Structure and lower bound of the noise variance.
    initial_processes : InitialProcesses, optional
        Known frequencies and rates.

    Returns
    -------
    larger : StateSpace
        Initial parameters of the larger model: of several candidates, those with the highest likelihood.
    """
    added = state_layout.without(params.state_layout)
    residuals = panel.values[:] - params.offset
    n = panel.n_rows
    residuals[:n] -= smooth(params, panel).means @ params.state_space.loadings.T
    residual_panel = panel._replace(values=residuals * panel.mask[:])
    groups = [StateLayout(added.n_components)]
    groups += [StateLayout(0, {kind: n}) for kind, n in added.counts.items() if not kind.from_periodogram]
    for group in groups:
        if group.n_states:
            params = _best(_with_factors(params, residual_panel, group, noise, initial_processes), panel)
    for index in range(params.state_layout.n_from_periodogram, state_layout.n_from_periodogram):
        params = _with_cycle(params, panel, index, noise, initial_processes)
    return params


def reduced(params: StateSpace, state_layout: StateLayout) -> StateSpace:
    """Return parameters without the processes with the smallest signal-to-noise ratios.

    Half of the variance that these processes explain is added to the noise variance.

    Parameters
    ----------
    params : StateSpace
        Parameters of the larger model, for standardized data.
    state_layout : StateLayout
        Numbers of processes of the smaller model, no more of any kind than in `params`.
    """
    signal_to_noise = np.sum(params.loadings**2 / params.noise_variance[:, None], axis=0)
    factors = np.sort(
        np.argsort(-signal_to_noise[: params.n_components], kind="stable")[: state_layout.n_components]
    )
    selected = {}
    for one in params.processes:
        by_process = signal_to_noise[params.state_layout.states[type(one)]].reshape(len(one), -1).sum(axis=1)
        n_selected = state_layout.counts.get(type(one), 0)
        selected[type(one)] = np.sort(np.argsort(-by_process, kind="stable")[:n_selected])
    smaller = select_processes(params, selected)
    smaller = smaller.replace(
        decay=params.decay[factors],
        loadings=np.hstack([params.loadings[:, factors], smaller.loadings[:, params.n_components :]]),
    )
    removed_variance = np.sum(params.stationary_loadings**2, axis=1)
    removed_variance -= np.sum(smaller.stationary_loadings**2, axis=1)
    return smaller.replace(noise_variance=params.noise_variance + 0.5 * np.maximum(removed_variance, 0.0))


def _best(candidates: list[StateSpace], panel: Panel) -> StateSpace:
    """Return the parameters with the highest likelihood."""
    # `log_likelihood` would be a second program to compile; the fit needs these statistics in any case.
    values = [expected_statistics(params, panel).log_likelihood for params in candidates]
    return candidates[int(np.argmax(np.where(np.isfinite(values), values, -np.inf)))]


def _with_scaled_loadings(params: StateSpace, new: StateSpace, noise: Noise) -> list[StateSpace]:
    """Return models with new processes, for several multiples of their loadings.

    If each column has its own noise variance, this is reduced by the variance that the new processes explain,
    at most by half.
    """
    models = []
    for multiplier in _LOADING_MULTIPLIERS:
        loadings = multiplier * new.loadings
        variance = params.noise_variance
        if noise.variances.separate:
            explained = np.minimum(np.sum(loadings**2, axis=1), 0.5 * variance)
            variance = np.maximum(variance - explained, noise.floor)
        joined = with_more_factors(params, new.replace(loadings=loadings))
        models.append(joined.replace(noise_variance=variance))
    return models


def _with_factors(
    params: StateSpace,
    residual_panel: Panel,
    added: StateLayout,
    noise: Noise,
    initial_processes: InitialProcesses | None,
) -> list[StateSpace]:
    """Return models with additional AR(1) factors, or with processes converted from AR(1) factors."""
    new_processes = starts(
        interpolate(residual_panel),
        np.zeros(params.n_features),
        StateLayout(added.n_components + added.n_other_processes),
    )
    if added.n_other_processes:
        known = {} if initial_processes is None else initial_processes.processes
        # Known parameters of the processes of the smaller model come first, those of the new processes last.
        known_of_new = InitialProcesses(
            processes={
                kind: known[kind].select(np.arange(-n, 0))
                for kind, n in added.counts.items()
                if kind in known
            }
        )
        new_processes = (
            each for factors in new_processes for each in from_ar1_factors(factors, added, known_of_new)
        )
    return [each for new in new_processes for each in _with_scaled_loadings(params, new, noise)]


def _with_cycle(
    params: StateSpace, panel: Panel, index: int, noise: Noise, initial_processes: InitialProcesses | None
) -> StateSpace:
    """Return the model with an additional stochastic cycle.

    The frequency is a known frequency, or the frequency with the largest excess power.
    """
    centred = [rows - params.offset for rows in interpolate_to_grid(panel)]
    if initial_processes is None or initial_processes.frequencies is None:
        frequency = strongest_frequency(params.state_space, centred)
    else:
        frequency = float(initial_processes.frequencies[index])
    cycles = [estimated_cycle(params, frequency, centred, time) for time in DAMPING_TIMES]
    return _best([each for cycle in cycles for each in _with_scaled_loadings(params, cycle, noise)], panel)
