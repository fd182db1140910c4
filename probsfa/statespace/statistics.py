"""Expected statistics of the latents: what learning needs to know of a posterior.

They are sums over rows, so those of several parts of the data add up. Residuals are taken at the parameters
the posterior was computed with: as differences of raw second moments they would drown in rounding when the
noise is small (``r / var(x)`` below 1e-8), as sums of residuals they do not.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa.statespace.engine import Smoothed

FloatArray = NDArray[np.float64]


class Statistics(NamedTuple):
    """Sums of expected moments at given parameters; ``y = (z, 1)`` and ``e = x - C z - mu``.

    Attributes
    ----------
    log_likelihood : float
        Log-likelihood at the parameters, in nats.
    counts : ndarray of shape (D,)
        Observed entries of each feature.
    residual_power : ndarray of shape (D,)
        Sum of ``E[e^2]`` over observed entries.
    residual_moments : ndarray of shape (D, K + 1)
        Sum of ``E[e y']``.
    latent_moments : ndarray of shape (D, K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which each feature is observed.
    total_moments : ndarray of shape (K + 1, K + 1)
        Sum of ``E[y y']`` over the rows in which anything is observed.
    transitions : ndarray of shape (U,)
        Number of transitions over each of the panel's ``gaps``.
    innovation_power : ndarray of shape (U, K)
        Sum of ``E[(z_t - a z_t-1)^2]`` over those transitions.
    innovation_moments : ndarray of shape (U, K)
        Sum of ``E[(z_t - a z_t-1) z_t-1]``.
    previous_power : ndarray of shape (U, K)
        Sum of ``E[z_t-1^2]``.
    """

    log_likelihood: float
    counts: FloatArray
    residual_power: FloatArray
    residual_moments: FloatArray
    latent_moments: FloatArray
    total_moments: FloatArray
    transitions: FloatArray
    innovation_power: FloatArray
    innovation_moments: FloatArray
    previous_power: FloatArray


def observation_statistics(
    values: Array, mask: Array, loadings: Array, offset: Array, smoothed: Smoothed
) -> tuple[Array, Array, Array, Array, Array]:
    """Sums that concern the observations: counts, residual power and moments, latent and total moments."""
    means, covariances = smoothed.means, smoothed.covariances
    n_steps, n_components = means.shape
    # The last column stands for the rows in which anything is observed.
    weights = jnp.concatenate([mask, jnp.any(mask > 0.0, axis=1, keepdims=True).astype(mask.dtype)], axis=1)
    spread = (weights.T @ covariances.reshape(n_steps, -1)).reshape(-1, n_components, n_components)
    outer = (means[:, :, None] * means[:, None, :]).reshape(n_steps, -1)
    second = spread + (weights.T @ outer).reshape(-1, n_components, n_components)
    first = weights.T @ means
    counts = jnp.sum(weights, axis=0)
    latent = jnp.concatenate(
        [
            jnp.concatenate([second, first[:, :, None]], axis=2),
            jnp.concatenate([first[:, None, :], counts[:, None, None]], axis=2),
        ],
        axis=1,
    )
    residuals = mask * (values - offset - means @ loadings.T)
    loaded = jnp.einsum("dij,dj->di", spread[:-1], loadings)
    power = jnp.sum(residuals**2, axis=0) + jnp.einsum("di,di->d", loaded, loadings)
    moments = jnp.concatenate([residuals.T @ means - loaded, jnp.sum(residuals, axis=0)[:, None]], axis=1)
    return counts[:-1], power, moments, latent[:-1], latent[-1]


def transition_statistics(
    decays: Array, gap_index: Array, n_gaps: int, smoothed: Smoothed
) -> tuple[Array, Array, Array, Array]:
    """Sums that concern the dynamics, one row for each different gap between successive rows."""
    decays = decays[1:]
    variances = jnp.diagonal(smoothed.covariances, axis1=1, axis2=2)
    lag_one = jnp.diagonal(smoothed.lag_one, axis1=1, axis2=2)[1:]
    previous, means = smoothed.means[:-1], smoothed.means[1:]
    innovations = means - decays * previous
    moments = innovations * previous + lag_one - decays * variances[:-1]
    power = innovations**2 + variances[1:] - decays * (2.0 * lag_one - decays * variances[:-1])
    # Rows that start a sequence carry the index n_gaps, which is cut off.
    columns = (jnp.ones_like(decays[:, :1]), power, moments, previous**2 + variances[:-1])
    sums = [
        jnp.zeros((n_gaps + 1, column.shape[1]), column.dtype).at[gap_index[1:]].add(column)[:n_gaps]
        for column in columns
    ]
    return sums[0][:, 0], sums[1], sums[2], sums[3]
