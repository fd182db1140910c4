"""Parameters of the bilinear model: what they are, their canonical order, and draws from the model."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.engine.dynamics import simulate_latents
from probsfa.statespace.parameters import Parameters

__all__ = ["BilinearParameters", "canonical", "rescale", "simulate"]


class BilinearParameters(NamedTuple):
    """Parameters with ``K`` continuous latents, ``M`` binary chains and ``D`` features.

    Attributes
    ----------
    decay : ndarray (K,)
        Correlation of each continuous latent with itself one row later, inside (-1, 1).
    switch_on, switch_off : ndarray (M,)
        Probability that a chain that is off turns on in the next row, and that one that is on turns off.
    loadings : ndarray (D, M, K)
        ``g``: how a latent shows in each feature while a chain is on.
    noise_variance : ndarray (D,)
        Observation noise variance.
    offset : ndarray (D,)
        Mean of the observations without latents.
    """

    decay: FloatArray
    switch_on: FloatArray
    switch_off: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray

    @property
    def probability(self) -> FloatArray:
        """Stationary probability that each chain is on, (M,)."""
        return np.asarray(self.switch_on / (self.switch_on + self.switch_off))


def rescale(params: BilinearParameters, shift: FloatArray, scale: FloatArray) -> BilinearParameters:
    """Parameters of ``shift + scale * x`` from those of ``x``."""
    return params._replace(
        loadings=params.loadings * scale[:, None, None],
        noise_variance=params.noise_variance * scale**2,
        offset=shift + scale * params.offset,
    )


def canonical(params: BilinearParameters, scale: FloatArray) -> BilinearParameters:
    """Order latents slowest first and chains by how much they explain; fix the signs of latents.

    None of these changes the likelihood. The sign of a latent is the one for which its largest loading, in
    units of `scale` (D,), is positive over all chains.
    """
    order = np.argsort(-params.decay, kind="stable")
    in_units = params.loadings / scale[:, None, None]
    explained = params.probability * np.sum(in_units**2, axis=(0, 2))
    chains = np.argsort(-explained, kind="stable")
    loadings = params.loadings[:, chains][:, :, order]
    n_features, n_chains, n_components = loadings.shape
    flat = loadings.reshape(n_features * n_chains, n_components)
    signs = canonical_signs(flat, np.repeat(scale, n_chains))
    return params._replace(
        decay=params.decay[order],
        switch_on=params.switch_on[chains],
        switch_off=params.switch_off[chains],
        loadings=loadings * signs,
    )


def simulate(
    params: BilinearParameters, n_steps: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw a series: observations (T, D), continuous latents (T, K) and gates (T, M) of 0.0 and 1.0."""
    n_features, n_chains, n_components = params.loadings.shape
    # Only the decays matter to the latents.
    ar1 = Parameters(params.decay, np.zeros((1, n_components)), np.ones(1), np.zeros(1))
    latents = simulate_latents(ar1, n_steps, rng)
    uniform = rng.uniform(size=(n_steps, n_chains))
    gates = np.empty((n_steps, n_chains))
    gates[0] = uniform[0] < params.probability
    for t in range(1, n_steps):
        gates[t] = uniform[t] < np.where(gates[t - 1] == 1.0, 1.0 - params.switch_off, params.switch_on)
    means = np.einsum("dmk,tm,tk->td", params.loadings, gates, latents, optimize=True)
    noise = rng.standard_normal((n_steps, n_features)) * np.sqrt(params.noise_variance)
    return params.offset + means + noise, latents, gates
