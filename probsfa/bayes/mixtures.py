"""Prediction with uncertain parameters: mixtures of exact predictions over posterior draws.

Given the parameters, all distributions are normal. The distribution of a factor or of a missing value is
therefore a mixture of normal distributions, one for each draw of the parameters, and factors need not be
sampled. The moments of the mixture follow from the law of total variance, its quantiles from its distribution
function.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.bayes.conditional import PanelGivenDraw
from probsfa.statespace.engine.posterior import Posterior, observation_moments, smooth
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace


class RunningMean:
    """A running mean of arrays."""

    def __init__(self) -> None:
        self.count = 0
        self.value: FloatArray = np.zeros(())

    def add(self, x: FloatArray) -> None:
        """Add an array."""
        self.count += 1
        self.value = self.value + (x - self.value) / self.count


class MixtureMoments:
    """Mean and variance of a mixture of distributions, updated without cancellation (Welford)."""

    def __init__(self) -> None:
        self._mean, self._within = RunningMean(), RunningMean()
        self._between: FloatArray = np.zeros(())

    def add(self, mean: FloatArray, variance: FloatArray) -> None:
        """Add a distribution with this mean and variance."""
        deviation = mean - self._mean.value
        self._mean.add(mean)
        self._within.add(variance)
        self._between = self._between + deviation * (mean - self._mean.value)

    @property
    def mean(self) -> FloatArray:
        """Mean of the mixture."""
        return self._mean.value

    @property
    def variance(self) -> FloatArray:
        """Variance of the mixture: mean of the variances of its components, plus variance of their means."""
        return self._within.value + self._between / self._mean.count


def mixture_posteriors(draws: Iterable[Sequence[PanelGivenDraw]]) -> list[Posterior]:
    """Return the distribution of the factors for uncertain parameters.

    Parameters
    ----------
    draws : iterable of sequences of PanelGivenDraw
        For each draw, the same panels.

    Returns
    -------
    list of Posterior
        One for each panel. ``row_log_likelihoods`` are the log predictive densities of rows given all earlier
        rows, including rows of earlier panels. They weight each draw by its likelihood of the earlier rows.
    """
    mixtures: list[_PosteriorMixture] = []
    for draw in draws:
        mixtures = mixtures or [_PosteriorMixture() for _ in draw]
        so_far = 0.0
        for mixture, given in zip(mixtures, draw, strict=True):
            so_far = mixture.add(smooth(given.params, given.panel), so_far)
    return [mixture.result() for mixture in mixtures]


def mixture_posterior(draws: Iterable[tuple[StateSpace, Panel]]) -> Posterior:
    """Return the distribution of the factors of one panel; each draw has its own weights of the values.

    The log densities of rows in the result are NaN.
    """
    mixture = _PosteriorMixture()
    for params, panel in draws:
        posterior = smooth(params, panel)
        mixture.add(
            posterior._replace(row_log_likelihoods=np.full_like(posterior.row_log_likelihoods, np.nan))
        )
    return mixture.result()


class _PosteriorMixture:
    """Total mean and covariances of the factors over the draws added so far."""

    def __init__(self) -> None:
        self._mean, self._within, self._lag_one = RunningMean(), RunningMean(), RunningMean()
        self._between: FloatArray = np.zeros(())
        self._between_lags: FloatArray = np.zeros(())
        self._rows: list[FloatArray] = []
        self._so_far: list[float] = []

    def add(self, posterior: Posterior, so_far: float = 0.0) -> float:
        """Add the posterior given a draw; return the log density of all rows so far.

        `so_far` is the log density of the rows of earlier panels, given the draw.
        """
        deviations_before = posterior.means - self._mean.value
        self._mean.add(posterior.means)
        deviations_after = posterior.means - self._mean.value
        self._within.add(posterior.covariances)
        self._lag_one.add(posterior.lag_one_covariances)
        self._between = self._between + deviations_before[:, :, None] * deviations_after[:, None, :]
        self._between_lags = (
            self._between_lags + deviations_before[1:, :, None] * deviations_after[:-1, None, :]
        )
        self._rows.append(so_far + np.cumsum(posterior.row_log_likelihoods))
        self._so_far.append(so_far)
        return float(self._rows[-1][-1])

    def result(self) -> Posterior:
        n = self._mean.count
        total = scipy.special.logsumexp(self._rows, axis=0)
        start = float(scipy.special.logsumexp(self._so_far))
        return Posterior(
            self._mean.value,
            self._within.value + self._between / n,
            self._lag_one.value + self._between_lags / n,
            np.diff(total, prepend=start),
        )


class ValueMixture(NamedTuple):
    """Distribution of selected values: a mixture of one normal distribution for each draw.

    Attributes
    ----------
    mean, std : ndarray (N,)
        Mean and standard deviation of each value.
    means, stds : ndarray (M, N)
        Mean and standard deviation for each of the M draws.
    """

    mean: FloatArray
    std: FloatArray
    means: FloatArray
    stds: FloatArray

    def quantile(self, probability: float) -> FloatArray:
        """Return a quantile of the mixture of each value."""
        return mixture_quantile(self.means, self.stds, probability)


def make_value_mixture(means: FloatArray, stds: FloatArray) -> ValueMixture:
    """Return the mixture of M normal distributions of values from their means and stds (M, ...)."""
    moments = MixtureMoments()
    for mean, std in zip(means, stds, strict=True):
        moments.add(mean, std**2)
    return ValueMixture(moments.mean, np.sqrt(moments.variance), means, stds)


def value_mixtures(
    draws: Iterable[Sequence[PanelGivenDraw]], chosen: Sequence[NDArray[np.bool_]]
) -> list[ValueMixture]:
    """Return the distribution of selected observations of each panel, including noise.

    Parameters
    ----------
    draws : iterable of sequences of PanelGivenDraw
        For each draw, the same panels.
    chosen : sequence of bool ndarray (N, D)
        Masks of the selected values.

    Returns
    -------
    list of ValueMixture
    """
    means: list[list[FloatArray]] = [[] for _ in chosen]
    stds: list[list[FloatArray]] = [[] for _ in chosen]
    for draw in draws:
        for i, (params, panel, effects) in enumerate(draw):
            posterior = smooth(params, panel)
            mean, variance = observation_moments(params, posterior.means, posterior.covariances)
            means[i].append((mean + effects)[chosen[i]])
            stds[i].append(np.sqrt(variance[chosen[i]]))
    return [make_value_mixture(np.array(m), np.array(s)) for m, s in zip(means, stds, strict=True)]


def mixture_quantile(means: FloatArray, stds: FloatArray, probability: float) -> FloatArray:
    """Return a quantile of mixtures of normal distributions, by bisection.

    Parameters
    ----------
    means, stds : ndarray (M, ...)
        Components of the mixture, of equal weight.
    probability : float
        Between 0 and 1.

    Returns
    -------
    ndarray (...)

    Examples
    --------
    >>> import numpy as np
    >>> round(float(mixture_quantile(np.array([0.0, 0.0]), np.array([1.0, 1.0]), 0.975)), 4)
    1.96
    """
    standard_quantile = scipy.special.ndtri(probability)
    ends = means + standard_quantile * stds
    # The quantile of a mixture lies between the smallest and the largest quantile of its components.
    low, high = ends.min(axis=0), ends.max(axis=0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        is_too_low = np.mean(scipy.special.ndtr((middle - means) / stds), axis=0) < probability
        low, high = np.where(is_too_low, middle, low), np.where(is_too_low, high, middle)
        if np.all(high - low <= 1e-10 * np.max(stds, axis=0)):
            break
    return 0.5 * (low + high)
