"""Simulation from the model, and simulation smoother."""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import simulate_latents
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import draw_states


def simulate(params: Parameters, n_steps: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Draw a series from the model.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    n_steps : int
        Length of the series.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    observations : ndarray of shape (n_steps, D)
        The series.
    latents : ndarray of shape (n_steps, K)
        The factors.
    """
    latents = simulate_latents(params, n_steps, rng)
    noise = rng.standard_normal((n_steps, params.n_features)) * np.sqrt(params.noise_variance)
    return params.offset + latents @ params.loadings.T + noise, latents


def draw_latents(params: Parameters, panel: Panel, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Draw factors from their joint posterior given the observations (simulation smoother).

    Forward filtering, then sampling each state backwards given the next one
    (Fruehwirth-Schnatter 1994), for all draws at once.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    n_draws : int
        Number of draws.
    rng : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    ndarray of shape (n_draws, N, K)
    """
    # One row after the other, without the padding, so that draws do not depend on the padded length.
    normals = np.zeros((panel.values.shape[0], n_draws, params.n_states))
    normals[: panel.n_rows] = rng.standard_normal((panel.n_rows, n_draws, params.n_states))
    return draw_states(params, panel, normals)
