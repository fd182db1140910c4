"""What a distribution of cells must be able to say, given the linear predictor ``eta = mu + C z``.

A Gaussian site takes the place of the likelihood of a cell: its precision is ``-2 dE/dv`` and its information
``dE/dm + precision m`` for the expectation ``E`` of the log density under ``eta ~ N(m, v)``.
"""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy import special

from probsfa._typing import FloatArray
from probsfa.extensions.emissions.quadrature import N_NODES, over_nodes

__all__ = ["LEAST_NOISE", "WEAK_PRIOR", "Expectation", "Family", "weak_prior"]

#: Smallest relative variance of Gaussian and Student-t noise, and where the prior of its logarithm falls.
LEAST_NOISE, WEAK_PRIOR = 1e-9, 1e-4


class Expectation(NamedTuple):
    """Expected log density of cells under ``eta ~ N(m, v)``, each as the cells.

    Attributes
    ----------
    value : ndarray
        The expectation, or its bound, in nats.
    slope : ndarray
        Its derivative by ``m``.
    precision : ndarray
        Minus twice its derivative by ``v``.
    """

    value: FloatArray
    slope: FloatArray
    precision: FloatArray


class Family(ABC):
    """A distribution of cells (N, D) given their predictors; ``shape`` (P, D) are its other parameters.

    Attributes
    ----------
    name : str
        As users call it.
    n_nodes : int
        Nodes over which what is predicted is averaged.
    n_shapes : int
        ``P``, the number of parameters of each column besides those of its predictor.
    has_scale : bool
        Whether columns are in units of their own, which are standardised.
    has_link : bool
        Whether cells are about a learned function of the predictor, which then has no units of the data.
    counts : bool
        Whether cells are whole numbers, so that quantiles are.
    """

    name: ClassVar[str]
    n_nodes: ClassVar[int] = N_NODES
    n_shapes: ClassVar[int] = 0
    has_scale: ClassVar[bool] = False
    has_link: ClassVar[bool] = False
    counts: ClassVar[bool] = False

    @abstractmethod
    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """Expected log density less its `constant` under ``eta ~ N(mean, variance)``, with derivatives."""

    def constant(self, x: FloatArray) -> FloatArray:
        """What the log density of cells has that depends on neither predictor nor shape."""
        return np.zeros_like(x)

    def by_shape(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """Derivatives of the expectation by each of the shape parameters, as the cells."""
        return []

    @abstractmethod
    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """Log density, or log probability, of cells given their predictors."""

    @abstractmethod
    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Mean and variance of cells where ``eta ~ N(mean, variance)``."""

    @abstractmethod
    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """Probability of a cell to be at most ``x``, given its predictor."""

    @abstractmethod
    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Cells drawn given their predictors."""

    @abstractmethod
    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """The predictor at which a cell has such a mean."""

    @abstractmethod
    def first_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Precision and pseudo-value of sites before anything is known but the means of the columns."""

    def gaussian_scores(self, x: FloatArray, mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cells as a Gaussian model takes them best, and about how steep they are in the predictor (D,)."""
        return x, np.ones_like(mean)

    def first_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """Shape parameters (P, D) to start from; `noise` (D,) is the variance left by a Gaussian model."""
        return np.zeros((self.n_shapes, x.shape[1]))

    def least_shape(self) -> FloatArray:
        """Lower bounds (P,) of the shape parameters."""
        return np.zeros(self.n_shapes)

    def least_precision(self, shape: FloatArray) -> Any:
        """Least precision of a site: pseudo-values of less were numbers of no digits."""
        return 1e-9

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """Log density of the weak prior of the shape parameters up to a constant, and its gradient (P, D)."""
        return 0.0, np.zeros_like(shape)

    def log_predictive(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """Log density of cells where ``eta ~ N(mean, variance)``."""
        terms = [
            np.log(weight) + self.log_density(x, eta, shape)
            for weight, eta in over_nodes(mean, variance, self.n_nodes)
            if weight > 0.0
        ]
        return np.asarray(special.logsumexp(np.stack(terms), axis=0))

    def predictive_cdf(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> FloatArray:
        """Probability of a cell to be at most ``x`` where ``eta ~ N(mean, variance)``."""
        total = np.zeros(np.broadcast_shapes(np.shape(x), mean.shape))
        for weight, eta in over_nodes(mean, variance, self.n_nodes):
            total += weight * self.cdf(x, eta, shape)
        return total

    def quantile(self, p: float, mean: FloatArray, variance: FloatArray, shape: FloatArray) -> FloatArray:
        """Smallest value that a cell does not exceed with probability ``p`` or more.

        Found by bisection on the predictive distribution; of counts a whole number.
        """
        centre, spread = self.moments(mean, variance, shape)
        spread = np.sqrt(spread)
        if self.counts:
            low, high = np.full_like(centre, -1.0), np.ceil(centre + spread) + 1.0
        else:
            low, high = centre - spread, centre + spread
        # Doubling steps to either side until the quantile lies between.
        step = np.maximum(spread, 1.0 if self.counts else 0.0)
        for _ in range(60):
            short = self.predictive_cdf(high, mean, variance, shape) < p
            if not short.any():
                break
            high = np.where(short, high + np.ceil(step) if self.counts else high + step, high)
            step = 2.0 * step
        step = spread
        for _ in range(0 if self.counts else 60):
            beyond = self.predictive_cdf(low, mean, variance, shape) >= p
            if not beyond.any():
                break
            low, step = np.where(beyond, low - step, low), 2.0 * step
        for _ in range(200):
            if self.counts:
                middle = np.floor(0.5 * (low + high))
                done = high - low <= 1.0
            else:
                middle = 0.5 * (low + high)
                done = high - low <= 1e-10 * (spread + np.abs(centre))
            if done.all():
                break
            reached = self.predictive_cdf(middle, mean, variance, shape) >= p
            high = np.where(reached & ~done, middle, high)
            low = np.where(~reached & ~done, middle, low)
        return high


def weak_prior(log_value: FloatArray, border: float) -> tuple[float, FloatArray]:
    """Log density ``log(v / (v + border))`` of the logarithm of ``v``, and its derivative."""
    ratio = border * np.exp(-log_value)
    return -float(np.sum(np.log1p(ratio))), ratio / (1.0 + ratio)
