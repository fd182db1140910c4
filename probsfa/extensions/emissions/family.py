"""Interface of a distribution of observed values, given the linear predictor ``eta = mu + C z``.

A Gaussian site replaces the likelihood of a value. The expectation of the log density under ``eta ~ N(m, v)``
is called ``E``. The precision of the site is ``-2 dE/dv`` and its information ``dE/dm + precision m``.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from probsfa._typing import FloatArray
from probsfa.extensions.emissions.quadrature import N_NODES, over_nodes

__all__ = ["MIN_NOISE", "WEAK_PRIOR", "Expectation", "Family", "weak_prior"]

#: Minimum variance of Gaussian noise, and minimum squared scale of Student-t noise, in standardized units.
MIN_NOISE = 1e-9
#: Scale of the prior of the noise variance, or of the squared scale of Student-t noise.
WEAK_PRIOR = 1e-4


class Expectation(NamedTuple):
    """Expected log density of values under ``eta ~ N(m, v)``; arrays have the shape of the values.

    Attributes
    ----------
    value : ndarray
        The expectation, or its lower bound, in nats.
    slope : ndarray
        Derivative of `value` with respect to ``m``.
    precision : ndarray
        Minus twice the derivative of `value` with respect to ``v``.
    """

    value: FloatArray
    slope: FloatArray
    precision: FloatArray


class Family(ABC):
    """A distribution of values (N, D) given their predictors; ``shape`` (P, D) are its other parameters.

    Attributes
    ----------
    name : str
        Name in the parameter ``emission`` or ``link``.
    n_nodes : int
        Number of quadrature nodes for predictions.
    n_shapes : int
        ``P``, the number of parameters of each column besides those of its predictor.
    has_scale : bool
        Whether columns have units and are standardized.
    is_integer : bool
        Whether values are integers, so that quantiles are also integers.
    """

    name: ClassVar[str]
    n_nodes: ClassVar[int] = N_NODES
    n_shapes: ClassVar[int] = 0
    has_scale: ClassVar[bool] = False
    is_integer: ClassVar[bool] = False

    @abstractmethod
    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """Return the expected log density without `constant` under ``eta ~ N(mean, variance)``."""

    def constant(self, x: FloatArray) -> FloatArray:
        """Return the terms of the log density that depend on neither predictor nor shape."""
        return np.zeros_like(x)

    def shape_gradient(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """Return derivatives of the expectation with respect to each shape parameter, as arrays (N, D)."""
        return []

    @abstractmethod
    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """Return the log density, or log probability, of values given their predictors."""

    @abstractmethod
    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of values for ``eta ~ N(mean, variance)``."""

    @abstractmethod
    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """Return the probability of a value of at most ``x``, given its predictor."""

    @abstractmethod
    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw values given their predictors."""

    @abstractmethod
    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """Return the predictor at which the mean of a value is ``mean``."""

    @abstractmethod
    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return initial precisions and pseudo-observations of sites; `mean` (D,) are column means."""

    def gaussian_scores(self, x: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Transform values for a Gaussian model.

        Return the transformed values (N, D) and the approximate derivatives (D,) of their means with respect
        to the predictor.
        """
        return x, np.ones_like(mean)

    def initial_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """Return initial shape parameters (P, D); `noise` (D,) is the noise variance of a Gaussian model."""
        return np.zeros((self.n_shapes, x.shape[1]))

    def min_shape(self) -> FloatArray:
        """Return lower bounds (P,) of the shape parameters."""
        return np.zeros(self.n_shapes)

    def min_precision(self, shape: FloatArray) -> Any:
        """Return the minimum precision of a site, which limits the size of its pseudo-observation."""
        return 1e-9

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """Return the weak log prior of the shape parameters, up to a constant, and its gradient (P, D)."""
        return 0.0, np.zeros_like(shape)

    def log_predictive(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """Return the log density of values for ``eta ~ N(mean, variance)``."""
        terms = [
            np.log(weight) + self.log_density(x, eta, shape)
            for weight, eta in over_nodes(mean, variance, self.n_nodes)
            if weight > 0.0
        ]
        return np.asarray(special.logsumexp(np.stack(terms), axis=0))

    def predictive_cdf(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """Return the probability of a value of at most ``x`` for ``eta ~ N(mean, variance)``."""
        probability = np.zeros(np.broadcast_shapes(np.shape(x), mean.shape))
        for weight, eta in over_nodes(mean, variance, self.n_nodes):
            probability += weight * self.cdf(x, eta, shape)
        return probability

    def quantile(self, p: float, mean: FloatArray, variance: FloatArray, shape: FloatArray) -> FloatArray:
        """Return the smallest value whose predictive cumulative probability is ``p`` or more.

        The predictive distribution is inverted by bisection; quantiles of counts are integers.
        """
        centre, predictive_variance = self.moments(mean, variance, shape)
        std = np.sqrt(predictive_variance)
        if self.is_integer:
            low, high = np.full_like(centre, -1.0), np.ceil(centre + std) + 1.0
        else:
            low, high = centre - std, centre + std
        # Double the step on each side until the interval contains the quantile.
        step = np.maximum(std, 1.0 if self.is_integer else 0.0)
        for _ in range(60):
            is_too_low = self.predictive_cdf(high, mean, variance, shape) < p
            if not is_too_low.any():
                break
            high = np.where(is_too_low, high + np.ceil(step) if self.is_integer else high + step, high)
            step = 2.0 * step
        step = std
        for _ in range(0 if self.is_integer else 60):
            is_too_high = self.predictive_cdf(low, mean, variance, shape) >= p
            if not is_too_high.any():
                break
            low, step = np.where(is_too_high, low - step, low), 2.0 * step
        for _ in range(200):
            if self.is_integer:
                middle = np.floor(0.5 * (low + high))
                has_converged = high - low <= 1.0
            else:
                middle = 0.5 * (low + high)
                has_converged = high - low <= 1e-10 * (std + np.abs(centre))
            if has_converged.all():
                break
            is_above = self.predictive_cdf(middle, mean, variance, shape) >= p
            high = np.where(is_above & ~has_converged, middle, high)
            low = np.where(~is_above & ~has_converged, middle, low)
        return high


def weak_prior(log_value: FloatArray, scale: float) -> tuple[float, FloatArray]:
    """Return the log density ``log(v / (v + scale))`` of ``log v``, and its derivative."""
    ratio = scale * np.exp(-log_value)
    return -float(np.sum(np.log1p(ratio))), ratio / (1.0 + ratio)
