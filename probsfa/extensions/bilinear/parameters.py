"""Parameters of the bilinear model, their canonical order, and simulation."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.engine.dynamics import simulate_factors
from probsfa.statespace.parameters import StateSpace

__all__ = ["BilinearParameters", "canonical", "rescale", "simulate"]


class BilinearParameters(NamedTuple):
    """Parameters with ``K`` continuous factors, ``M`` binary chains and ``D`` columns.

    Attributes
    ----------
    decay : ndarray (K,)
        Lag-one autocorrelation of each continuous factor, inside (-1, 1).
    switch_on, switch_off : ndarray (M,)
        Probability that an inactive chain becomes active in the next row, and that an active chain becomes
        inactive.
    loadings : ndarray (D, M, K)
        ``g``: effect of each factor on each column while a chain is active.
    noise_variance : ndarray (D,)
        Observation noise variance.
    offset : ndarray (D,)
        Mean of the observations if all factors are zero.
    """

    decay: FloatArray
    switch_on: FloatArray
    switch_off: FloatArray
    loadings: FloatArray
    noise_variance: FloatArray
    offset: FloatArray

    @property
    def probability(self) -> FloatArray:
        """Stationary probability that each chain is active, (M,)."""
        return np.asarray(self.switch_on / (self.switch_on + self.switch_off))


def rescale(params: BilinearParameters, shift: FloatArray, scale: FloatArray) -> BilinearParameters:
    """Return the parameters of ``shift + scale * x`` from those of ``x``."""
    return params._replace(
        loadings=params.loadings * scale[:, None, None],
        noise_variance=params.noise_variance * scale**2,
        offset=shift + scale * params.offset,
    )


def canonical(params: BilinearParameters, scale: FloatArray) -> BilinearParameters:
    """Order factors by decay and chains by explained variance, and fix the signs of the factors.

    The likelihood does not change. In units of `scale` (D,), the loading of each factor that is largest in
    absolute value is positive.
    """
    order = np.argsort(-params.decay, kind="stable")
    scaled_loadings = params.loadings / scale[:, None, None]
    explained = params.probability * np.sum(scaled_loadings**2, axis=(0, 2))
    chains = np.argsort(-explained, kind="stable")
    loadings = params.loadings[:, chains][:, :, order]
    n_features, n_chains, n_components = loadings.shape
    stacked_loadings = loadings.reshape(n_features * n_chains, n_components)
    signs = canonical_signs(stacked_loadings, np.repeat(scale, n_chains))
    return params._replace(
        decay=params.decay[order],
        switch_on=params.switch_on[chains],
        switch_off=params.switch_off[chains],
        loadings=loadings * signs,
    )


def simulate(
    params: BilinearParameters, n_steps: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw a series: observations (T, D), continuous factors (T, K) and gates (T, M) of 0.0 and 1.0."""
    n_features, n_chains, n_components = params.loadings.shape
    # Loadings and noise are placeholders, because only the factors are drawn.
    ar1 = StateSpace(params.decay, np.zeros((1, n_components)), np.ones(1), np.zeros(1))
    factors = simulate_factors(ar1, n_steps, rng)
    uniform = rng.uniform(size=(n_steps, n_chains))
    gates = np.empty((n_steps, n_chains))
    gates[0] = uniform[0] < params.probability
    for t in range(1, n_steps):
        gates[t] = uniform[t] < np.where(gates[t - 1] == 1.0, 1.0 - params.switch_off, params.switch_on)
    means = np.einsum("dmk,tm,tk->td", params.loadings, gates, factors, optimize=True)
    noise = rng.standard_normal((n_steps, n_features)) * np.sqrt(params.noise_variance)
    return params.offset + means + noise, factors, gates
