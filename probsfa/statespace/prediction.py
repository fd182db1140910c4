"""From the posterior of the latents to that of observations: imputation and forecasts."""

from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.dynamics import Transition
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


def check_finite(sequences: Sequences, params: Parameters, *results: FloatArray | float) -> None:
    """Raise a ValueError where an answer is no number, naming the cell that is farthest from the model.

    Parameters
    ----------
    sequences : Sequences
        The data, in the units of the parameters.
    params : Parameters
        Parameters of the model.
    *results : ndarray or float
        What was inferred from the data.
    """
    # A finite sum has finite terms, and takes no memory.
    if all(np.isfinite(np.sum(result)) or np.isfinite(result).all() for result in results):
        return
    deviation = np.abs(sequences.values - params.offset)
    with np.errstate(all="ignore"):
        std = np.sqrt(np.sum(params.loadings**2, axis=1) + params.noise_variance)
        far = np.nan_to_num(deviation / std, nan=-1.0, posinf=np.finfo(np.float64).max)
    row, column = np.unravel_index(int(np.argmax(far)), far.shape)
    names = sequences.feature_names
    called = "" if names is None else f" ({names[column]!r})"
    raise ValueError(
        f"X cannot be inferred by this model in double precision: row {row}, column {column}{called} is "
        f"{sequences.values[row, column]:.3g}, {far[row, column]:.2g} standard deviations from the model's "
        "mean. Look at that value, or fit the model to data in these units."
    )


def observation_moments(
    params: Parameters, means: FloatArray, covariances: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (T, D) of new observations, noise included, from those of the latents."""
    n_steps, k = means.shape
    outer = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(-1, k * k)
    explained = covariances.reshape(n_steps, k * k) @ outer.T
    return params.offset + means @ params.loadings.T, np.maximum(explained, 0.0) + params.noise_variance


def propagate(
    decay: FloatArray, mean: FloatArray, covariance: FloatArray, n_steps: int
) -> tuple[FloatArray, FloatArray]:
    """The latents 1 to ``n_steps`` steps after a given Gaussian: means (H, K), covariances (H, K, K)."""
    powers: Any = decay ** np.arange(1, n_steps + 1)[:, None]
    state: Any = covariance[:, :, None]
    ahead = Transition(powers.T)  # a batch over the steps
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
    latent_means, covariances = propagate(params.decay, mean, covariance, n_steps)
    means, variances = observation_moments(params, latent_means, covariances)
    latent_std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Forecast(means, np.sqrt(variances), latent_means, latent_std)


def fill(values: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Observed cells as they are with std 0, missing ones by their means and std."""
    missing = np.isnan(values)
    return np.where(missing, means, values), np.where(missing, np.sqrt(variances), 0.0)
