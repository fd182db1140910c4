"""Imputations and forecasts: distributions of observations, computed from the posterior of the factors."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from scipy.special import ndtri

from probsfa._like_input import like_rows
from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.engine.posterior import observation_moments
from probsfa.statespace.leave_one_out import InterpolationComparison
from probsfa.statespace.parameters import StateSpace


class TransformedGaussian(NamedTuple):
    """Distribution of values that are Gaussian after a transform.

    Attributes
    ----------
    means, std : ndarray of shape (N, D)
        Means and standard deviations of the transformed values.
    inverse : callable
        Increasing inverse transform of values (N, D) to data units.
    """

    means: FloatArray
    std: FloatArray
    inverse: Callable[[FloatArray], FloatArray]

    def quantile(self, probability: float) -> FloatArray:
        """Return quantiles (N, D) in data units."""
        return self.inverse(self.means + float(ndtri(check_probability(probability))) * self.std)


class ImputedDistribution(NamedTuple):
    """Distribution of rows with observed and imputed values.

    Attributes
    ----------
    values : ndarray of shape (N, D)
        Observed values, NaN where missing.
    distribution : HasQuantiles
        Predictive distributions of all entries (N, D), whether observed or missing.
    """

    values: FloatArray
    distribution: Any

    def quantile(self, probability: float) -> FloatArray:
        """Return quantiles of missing values, and observed values unchanged."""
        return np.where(np.isnan(self.values), self.distribution.quantile(probability), self.values)


class HasQuantiles(Protocol):
    """A distribution of several values."""

    def quantile(self, probability: float) -> FloatArray:
        """Return quantiles in data units."""
        ...


def check_probability(probability: Any, name: str = "quantile") -> float:
    """Return the probability of a quantile or of an interval, or raise a ValueError."""
    number = isinstance(probability, (int, float, np.integer, np.floating))
    if not number or isinstance(probability, bool) or not 0.0 < probability < 1.0:
        raise ValueError(f"{name} must be a probability above 0 and below 1; got {probability!r}.")
    return float(probability)


def limits(means: Any, std: Any, probability: float) -> Any:
    """Return quantiles of normal distributions; standard deviations may be infinite."""
    z = float(ndtri(probability))
    return means + z * std if z else means


def interval_probabilities(interval: Any) -> tuple[float, float]:
    """Return the probabilities of the quantiles that are the limits of a central interval."""
    probability = check_probability(interval, "interval")
    return 0.5 - probability / 2.0, 0.5 + probability / 2.0


@dataclass(frozen=True, eq=False)
class Forecast:
    """Forecast of ``H`` steps after the last row.

    Attributes
    ----------
    means : ndarray or DataFrame of shape (H, D)
        Means of the observations.
    std : ndarray or DataFrame of shape (H, D)
        Standard deviations of the observations, noise included.
    latent_means : ndarray or DataFrame of shape (H, K)
        Means of the factors.
    latent_std : ndarray or DataFrame of shape (H, K)
        Standard deviations of the factors.
    lower, upper : ndarray or DataFrame of shape (H, D)
        Limits of central prediction intervals of the observations, with the probability `interval` of the
        call.
    """

    means: Any
    std: Any
    latent_means: Any
    latent_std: Any
    lower: Any = None
    upper: Any = None
    # The distribution of the observations, if it is not Gaussian.
    _distribution: HasQuantiles | None = field(default=None, repr=False)

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the arrays, in the order of the attributes."""
        return iter((self.means, self.std, self.latent_means, self.latent_std, self.lower, self.upper))

    def with_distribution(self, distribution: HasQuantiles, means: Any, std: Any) -> Self:
        """Return a copy with other means, standard deviations and quantiles of the observations."""
        return replace(self, means=means, std=std, _distribution=distribution)

    def quantile(self, probability: float) -> Any:
        """Return quantiles of the predictive distribution of each observation.

        Parameters
        ----------
        probability : float
            Above 0 and below 1. The quantile 0.5 is the median.

        Returns
        -------
        ndarray or DataFrame of shape (H, D)
        """
        if self._distribution is None:
            return limits(self.means, self.std, check_probability(probability))
        values = self._distribution.quantile(check_probability(probability))
        return like_rows(self.means, values, index=getattr(self.means, "index", None))

    def with_interval(self, interval: float) -> Self:
        """Return the forecast with limits of central prediction intervals of this probability."""
        lower, upper = (self.quantile(p) for p in interval_probabilities(interval))
        return replace(self, lower=lower, upper=upper)

    def like(self, x: Any, index: Any, factor_names: Any) -> Self:
        """Return the forecast with arrays of the type of `x`.

        DataFrames have the index `index`. Columns are those of `x`, or `factor_names`.
        """
        factor_arrays = ("latent_means", "latent_std")
        arrays = {name: getattr(self, name) for name in ("means", "std", *factor_arrays, "lower", "upper")}
        changes = {
            name: like_rows(x, values, index=index, columns=factor_names if name in factor_arrays else None)
            for name, values in arrays.items()
            if values is not None
        }
        return replace(self, **changes)


def propagate(
    params: StateSpace, mean: FloatArray, covariance: FloatArray, steps: int | FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means (H, K) and covariances (H, K, K) of later states, given the moments of the current state.

    ``steps`` are times (H,) after the current state, in the time unit of `params`; an integer ``n`` means
    ``1, ..., n``.
    """
    elapsed = np.arange(1.0, steps + 1.0) if isinstance(steps, int) else steps
    state: Any = covariance[:, :, None]
    transition = transition_over(params, elapsed).as_batch()
    covariances = np.asarray(transition.predict_covariance(state))
    return np.asarray(transition.move(mean[:, None])).T, np.moveaxis(covariances, -1, 0)


def forecast(
    params: StateSpace, mean: FloatArray, covariance: FloatArray, steps: int | FloatArray
) -> Forecast:
    """Forecast observations and states from the last state.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model.
    mean : ndarray of shape (K,)
        Mean of the last state given all rows.
    covariance : ndarray of shape (K, K)
        Covariance of the last state given all rows.
    steps : int or ndarray of shape (H,)
        Times after the last state, positive, in the time unit of `params`. If a decay is negative, times must
        be whole numbers. An integer ``n`` means ``1, ..., n``.

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
    """Imputed values.

    Attributes
    ----------
    values : ndarray of shape (N, D)
        Observed values unchanged, missing values imputed.
    std : ndarray of shape (N, D), or None
        Standard deviations of predicted observations, zero for observed values; None if not computed.
    interpolation_check : InterpolationComparison, or None, default=None
        Leave-one-out errors of the model and of linear interpolation; None if no value is missing.
    distribution : HasQuantiles, or None, default=None
        Distribution of all values (N, D), if it is not Gaussian.
    """

    values: FloatArray
    std: FloatArray | None
    interpolation_check: InterpolationComparison | None = None
    distribution: HasQuantiles | None = None

    def quantile(self, probability: float) -> FloatArray:
        """Return observed values, and quantiles in place of missing values."""
        if self.distribution is not None:
            return self.distribution.quantile(probability)
        assert self.std is not None
        return limits(self.values, self.std, probability)


def fill(values: FloatArray, means: FloatArray, variances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return observed values with standard deviation 0, and missing values imputed by their means."""
    missing = np.isnan(values)
    return np.where(missing, means, values), np.where(missing, np.sqrt(variances), 0.0)
