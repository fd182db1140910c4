"""From the posterior of the latents to that of observations: imputation and forecasts."""

from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.leave_one_out import Comparison
from probsfa.statespace.panel import decay_over
from probsfa.statespace.parameters import Parameters


class Forecast(NamedTuple):
    """Distribution of the steps after the last row, ``H`` of them.

    Attributes
    ----------
    means : ndarray or frame of shape (H, D)
        Means of the observations.
    std : ndarray or frame of shape (H, D)
        Standard deviations of the observations, their noise included.
    latent_means : ndarray or frame of shape (H, K)
        Means of the latents.
    latent_std : ndarray or frame of shape (H, K)
        Standard deviations of the latents.
    """

    means: Any
    std: Any
    latent_means: Any
    latent_std: Any


def observation_moments(
    params: Parameters, means: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (T, D) of new observations, noise included, from those of the latents."""
    n_steps, k = means.shape
    outer = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(-1, k * k)
    explained = covariances.reshape(n_steps, k * k) @ outer.T
    return params.offset + means @ params.loadings.T, np.maximum(explained, 0.0) + params.noise_variance


def propagate(
    decay: FloatArray, mean: FloatArray, covariance: FloatArray, steps: int | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The latents so many steps after a given Gaussian: means (H, K), covariances (H, K, K).

    Steps (H,) are units of time; a number stands for all from 1 to it.
    """
    ahead_by: Any = np.arange(1, steps + 1) if isinstance(steps, int) else steps
    powers: Any = decay_over(decay, ahead_by)
    state: Any = covariance[:, :, None]
    ahead = Transition(powers.T)  # a batch over the steps
    covariances = np.asarray(ahead.predict_covariance(state))
    return np.asarray(ahead.move(mean[:, None])).T, np.moveaxis(covariances, -1, 0)


def forecast(
    params: Parameters, mean: FloatArray, covariance: FloatArray, steps: int | FloatArray
) -> Forecast:
    """Forecast from the last latent state.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    mean : ndarray of shape (K,)
        Mean of the last state given all rows.
    covariance : ndarray of shape (K, K)
        Its covariance.
    steps : int or ndarray of shape (H,)
        Units of time after it, positive; fractions of one where no decay is negative. A number stands for all
        from 1 to it.

    Returns
    -------
    Forecast

    Raises
    ------
    ValueError
        If a decay is negative and a step is not a whole number.
    """
    latent_means, covariances = propagate(params.decay, mean, covariance, steps)
    means, variances = observation_moments(params, latent_means, covariances)
    latent_std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Forecast(means, np.sqrt(variances), latent_means, latent_std)


class Imputation(NamedTuple):
    """Values without holes.

    Attributes
    ----------
    values : ndarray of shape (N, D)
        Observed cells as they were, missing ones filled.
    std : ndarray of shape (N, D)
        Standard deviations of what would have been observed, zero where something was.
    beside_interpolation : Comparison, or None, default=None
        How the model and straight lines find observed cells again; None where nothing is missing.
    """

    values: FloatArray
    std: FloatArray
    beside_interpolation: Comparison | None = None


def fill(values: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Observed cells as they are with std 0, missing ones by their means and std."""
    missing = np.isnan(values)
    return np.where(missing, means, values), np.where(missing, np.sqrt(variances), 0.0)
