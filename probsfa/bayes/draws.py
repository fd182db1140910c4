"""Posterior draws of the parameters, of all chains."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._timescales import timescales_from_decay
from probsfa._typing import FloatArray
from probsfa.statespace.parameters import Parameters


class Draws(NamedTuple):
    """Parameters of many draws.

    Leading axes are those of the draws, most often ``(chain, draw)``.

    Attributes
    ----------
    decay : ndarray (..., K)
        Correlation of each latent with itself one unit of time later.
    loadings : ndarray (..., D, K)
        Observation matrix.
    noise_variance : ndarray (..., D), or (..., S, D) for a hierarchical model of S sequences
        Variance of the observation noise.
    offset : ndarray (..., D)
        Mean of the observations.
    """

    decay: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray


def timescales(draws: Draws, time_unit: float = 1.0) -> FloatArray:
    """Time scales (..., K) of draws, in units of time of which `time_unit` is one step."""
    return timescales_from_decay(draws.decay, time_unit)


def in_data_units(draws: Draws, shift: FloatArray, scale: FloatArray) -> Draws:
    """Draws for ``shift + scale * x`` from those for ``x``."""
    return Draws(
        draws.decay,
        draws.loadings * scale[:, None],
        draws.noise_variance * scale**2,
        shift + scale * draws.offset,
    )


def posterior_mean(draws: Draws) -> Parameters:
    """Mean of draws (C, N, ...); of a hierarchical model's noise, also over its sequences."""
    decay, loadings, noise, offset = (np.mean(x, axis=(0, 1)) for x in draws)
    return Parameters(decay, loadings, noise if noise.ndim == 1 else np.mean(noise, axis=0), offset)


def thinned(draws: Draws, n_wanted: int) -> NDArray[np.intp]:
    """Which draws to use where all would be too many: evenly spread, the same in each chain."""
    chains, n = draws.decay.shape[:2]
    each = min(n, max(1, -(-n_wanted // chains)))
    return np.unique(np.linspace(0, n - 1, each).round().astype(np.intp))


def parameters_of_draw(draws: Draws, chain: int, draw: int, n_panels: int) -> list[Parameters]:
    """Parameters of each panel for one draw: they differ by their noise where the model is hierarchical."""
    decay, loadings, noise, offset = (x[chain, draw] for x in draws)
    if noise.ndim == 1:
        return [Parameters(decay, loadings, noise, offset)] * n_panels
    return [Parameters(decay, loadings, one, offset) for one in noise]


def parameters_of_draws(draws: Draws, n_panels: int, chosen: NDArray[np.intp]) -> Iterator[list[Parameters]]:
    """Parameters of each panel for chosen draws of each chain, chain after chain."""
    for chain in range(draws.decay.shape[0]):
        for draw in chosen:
            yield parameters_of_draw(draws, chain, draw, n_panels)
