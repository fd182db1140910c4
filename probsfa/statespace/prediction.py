"""Imputation and forecasts: from the posterior of the factors to that of observations."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from probsfa._like_input import like_rows
from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.leave_one_out import Comparison
from probsfa.statespace.parameters import Parameters


class CellDistribution(NamedTuple):
    """Distribution of cells that are Gaussian once they are mapped.

    Attributes
    ----------
    means, std : ndarray of shape (N, D)
        Of the mapped cells.
    inverse : callable
        The increasing map of cells (N, D) back to data units.
    """

    means: FloatArray
    std: FloatArray
    inverse: Callable[[FloatArray], FloatArray]

    def quantile(self, probability: float) -> FloatArray:
        """Quantiles (N, D) in data units."""
        return self.inverse(self.means + float(ndtri(check_probability(probability))) * self.std)


def check_probability(probability: Any) -> float:
    """Return the probability of a quantile, or raise a ValueError."""
    number = isinstance(probability, (int, float, np.integer, np.floating))
    if not number or isinstance(probability, bool) or not 0.0 < probability < 1.0:
        raise ValueError(f"quantile must be a probability above 0 and below 1; got {probability!r}.")
    return float(probability)


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecast of ``H`` steps after the last row.

    Attributes
    ----------
    means : ndarray or frame of shape (H, D)
        Means of the observations.
    std : ndarray or frame of shape (H, D)
        Standard deviations of the observations, noise included.
    latent_means : ndarray or frame of shape (H, K)
        Means of the factors.
    latent_std : ndarray or frame of shape (H, K)
        Standard deviations of the factors.
    """

    means: Any
    std: Any
    latent_means: Any
    latent_std: Any
    # The distribution of the observations where it is not Gaussian.
    _cells: CellDistribution | None = field(default=None, repr=False)

    def of_cells(self, cells: CellDistribution, means: Any, std: Any) -> Self:
        """The same of the latents, with observations of another distribution."""
        return replace(self, means=means, std=std, _cells=cells)

    def with_moments(self, means: Any, std: Any, latent_means: Any, latent_std: Any) -> Self:
        """The same distribution with its moments in another type, such as frames."""
        return replace(self, means=means, std=std, latent_means=latent_means, latent_std=latent_std)

    def quantile(self, probability: float) -> Any:
        """Return quantiles of the observations: limits of prediction intervals, or with 0.5 the median.

        Parameters
        ----------
        probability : float
            Above 0 and below 1.

        Returns
        -------
        ndarray or frame of shape (H, D)
        """
        if self._cells is None:
            return self.means + float(ndtri(check_probability(probability))) * self.std
        values = self._cells.quantile(probability)
        return like_rows(self.means, values, index=getattr(self.means, "index", None))


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
    params: Parameters, mean: FloatArray, covariance: FloatArray, steps: int | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The latents so many steps after a given Gaussian: means (H, K), covariances (H, K, K).

    Steps (H,) are units of time; a number stands for all from 1 to it.
    """
    ahead_by = np.arange(1.0, steps + 1.0) if isinstance(steps, int) else steps
    state: Any = covariance[:, :, None]
    ahead = transition_over(params, ahead_by).as_batch()
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
    latent_means, covariances = propagate(params, mean, covariance, steps)
    means, variances = observation_moments(params, latent_means, covariances)
    latent_std = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    return Forecast(means, np.sqrt(variances), latent_means, latent_std)


class Imputation(NamedTuple):
    """Values without holes.

    Attributes
    ----------
    values : ndarray of shape (N, D)
        Observed cells as they were, missing ones filled.
    std : ndarray of shape (N, D), or None
        Standard deviations of what would have been observed, zero where something was; None where nobody
        asked.
    beside_interpolation : Comparison, or None, default=None
        How the model and straight lines find observed cells again; None where nothing is missing.
    """

    values: FloatArray
    std: FloatArray | None
    beside_interpolation: Comparison | None = None


def fill(values: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Observed cells as they are with std 0, missing ones by their means and std."""
    missing = np.isnan(values)
    return np.where(missing, means, values), np.where(missing, np.sqrt(variances), 0.0)
