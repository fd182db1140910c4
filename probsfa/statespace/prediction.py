"""From the posterior of the latents to that of observations: imputation and forecasts."""

from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.parameters import Parameters


class Forecast(NamedTuple):
    """Distribution of the steps after the last row, ``H`` of them.

    Attributes
    ----------
    means : ndarray of shape (H, D)
        Means of the observations.
    std : ndarray of shape (H, D)
        Standard deviations of the observations, their noise included.
    latent_means : ndarray of shape (H, K)
        Means of the latents.
    latent_std : ndarray of shape (H, K)
        Standard deviations of the latents.
    """

    means: FloatArray
    std: FloatArray
    latent_means: FloatArray
    latent_std: FloatArray


def observation_moments(
    params: Parameters, means: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (T, D) of new observations, noise included, from those of the latents."""
    n_steps, k = means.shape
    outer = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(-1, k * k)
    explained = covariances.reshape(n_steps, k * k) @ outer.T
    return params.offset + means @ params.loadings.T, np.maximum(explained, 0.0) + params.noise_variance


def propagate(
    params: Parameters, mean: FloatArray, covariance: FloatArray, n_steps: int
) -> tuple[FloatArray, FloatArray]:
    """The latents 1 to ``n_steps`` steps after a given Gaussian: means (H, K), covariances (H, K, K)."""
    state: Any = covariance[:, :, None]
    ahead = transition_over(params, np.arange(1.0, n_steps + 1.0)).as_batch()
    covariances = np.asarray(ahead.predict_covariance(state))
    return np.asarray(ahead.move(mean[:, None])).T, np.moveaxis(covariances, -1, 0)


def forecast(params: Parameters, mean: FloatArray, covariance: FloatArray, n_steps: int) -> Forecast:
    """Forecast from the last latent state.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    mean : ndarray of shape (K,)
        Mean of the last state given all rows.
    covariance : ndarray of shape (K, K)
        Its covariance.
    n_steps : int
        Number of steps, ``H``.

    Returns
    -------
    Forecast
    """
    latent_means, covariances = propagate(params, mean, covariance, n_steps)
    means, variances = observation_moments(params, latent_means, covariances)
    latent_std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Forecast(means, np.sqrt(variances), latent_means, latent_std)


def fill(values: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Observed cells as they are with std 0, missing ones by their means and std."""
    missing = np.isnan(values)
    return np.where(missing, means, values), np.where(missing, np.sqrt(variances), 0.0)
