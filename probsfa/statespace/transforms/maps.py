"""Transforms of one column: forward, inverse, and moments after back-transformation."""

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import boxcox, expit, inv_boxcox

from probsfa._typing import BoolArray, FloatArray

# Range of powers of BoxCox and YeoJohnson for which moments are finite and an inverse exists.
MIN_POWER, MAX_POWER = 0.0, 2.0
# Range of the numerical integration of moments, in standard deviations on each side of the mean.
_INTEGRATION_RANGE = 9.0
# Number of nodes on each side of the kink.
_N_NODES = 64
# Number of values that are processed together.
_BLOCK_SIZE = 4096


class Transform(ABC):
    """An increasing transform of the values of one column, with its inverse."""

    #: Whether the inverse can grow exponentially.
    grows_exponentially: ClassVar[bool] = True
    #: Point at which the inverse is not smooth, in transformed units.
    kink: float = 0.0

    @property
    @abstractmethod
    def as_list(self) -> list[Any]:
        """Name of the kind and its numbers, for files."""

    @abstractmethod
    def forward(self, x: FloatArray) -> FloatArray:
        """Return ``T(x)``, NaN for NaN."""

    @abstractmethod
    def inverse(self, y: FloatArray) -> FloatArray:
        """Return ``x`` for ``y``, and the lower bound of ``x`` for ``y`` below the range of ``T``."""

    @abstractmethod
    def log_slope(self, x: FloatArray) -> FloatArray:
        """Return ``log T'(x)``, NaN for NaN."""

    @abstractmethod
    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return a mask of values outside the domain."""

    @property
    def domain(self) -> str:
        """Description of the domain, such as "above 0"."""
        return "any number"

    @property
    def n_free(self) -> int:
        """Number of estimated parameters."""
        return 0

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of ``x`` for Gaussian ``y``, value by value.

        Parameters
        ----------
        means, std : ndarray of shape (M,)
            Moments of ``y``.

        Returns
        -------
        means, std : ndarray of shape (M,)
            Moments of ``x``, computed by Gauss-Legendre quadrature on both sides of ``kink``.
        """
        out = np.empty_like(means), np.empty_like(means)
        nodes, weights = _legendre()
        for start in range(0, len(means), _BLOCK_SIZE):
            part = slice(start, start + _BLOCK_SIZE)
            m, s = means[part, None], std[part, None]
            reach = _INTEGRATION_RANGE + (2.0 * s if self.grows_exponentially else 0.0 * s)
            with np.errstate(divide="ignore", invalid="ignore"):
                middle = np.where(s > 0.0, (self.kink - m) / np.where(s > 0.0, s, 1.0), 0.0)
            middle = np.clip(middle, -reach, reach)
            mass = first_moment = second_moment = 0.0
            with np.errstate(over="ignore"):
                centre = self.inverse(m)
            for low, high in ((-reach, middle), (middle, reach)):
                z = low + 0.5 * (high - low) * (nodes + 1.0)
                density = 0.5 * (high - low) * weights * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
                with np.errstate(over="ignore"):
                    deviation = self.inverse(m + s * z) - centre
                    mass = mass + density.sum(axis=1)
                    first_moment = first_moment + (density * deviation).sum(axis=1)
                    second_moment = second_moment + (density * deviation**2).sum(axis=1)
            shift = first_moment / mass
            out[0][part] = centre[:, 0] + shift
            out[1][part] = np.sqrt(np.maximum(second_moment / mass - shift**2, 0.0))
        return out


@functools.cache
def _legendre() -> tuple[FloatArray, FloatArray]:
    return np.polynomial.legendre.leggauss(_N_NODES)


@dataclass(frozen=True)
class Log(Transform):
    """``log x``, for positive values."""

    @property
    def as_list(self) -> list[Any]:
        """The name alone."""
        return ["log"]

    @property
    def domain(self) -> str:
        """Description of the domain."""
        return "above 0 (for values of 0 use 'sqrt', 'log1p' or the bounds (0, None))"

    def forward(self, x: FloatArray) -> FloatArray:
        """``log x``."""
        return np.log(x)

    def inverse(self, y: FloatArray) -> FloatArray:
        """``exp y``."""
        return np.exp(y)

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log x``."""
        return -np.log(x)

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return which values are zero or below."""
        return np.asarray(x <= 0.0)

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of ``x`` if ``log x`` is normal with `means` and `std`."""
        with np.errstate(over="ignore"):
            mean = np.exp(means + 0.5 * std**2)
            return mean, mean * np.sqrt(np.expm1(std**2))


@dataclass(frozen=True)
class Log1p(Transform):
    """``log(1 + x)``, for nonnegative values; the inverse is at least zero."""

    @property
    def as_list(self) -> list[Any]:
        """The name alone."""
        return ["log1p"]

    @property
    def domain(self) -> str:
        """Description of the domain."""
        return "0 or above"

    def forward(self, x: FloatArray) -> FloatArray:
        """``log(1 + x)``."""
        return np.log1p(x)

    def inverse(self, y: FloatArray) -> FloatArray:
        """``exp(y) - 1``; zero for negative ``y``."""
        return np.expm1(np.maximum(y, 0.0))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log(1 + x)``."""
        return -np.log1p(x)

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return which values are below zero."""
        return np.asarray(x < 0.0)


@dataclass(frozen=True)
class Sqrt(Transform):
    """``sqrt x``, for nonnegative values; the inverse is at least zero.

    Attributes
    ----------
    margin : float
        Smaller values are replaced by the margin.
    """

    margin: float
    grows_exponentially: ClassVar[bool] = False

    @property
    def as_list(self) -> list[Any]:
        """The name and the margin."""
        return ["sqrt", self.margin]

    @property
    def domain(self) -> str:
        """Description of the domain."""
        return "0 or above"

    def forward(self, x: FloatArray) -> FloatArray:
        """``sqrt x``."""
        return np.sqrt(np.maximum(x, self.margin))

    def inverse(self, y: FloatArray) -> FloatArray:
        """``y^2``; zero for negative ``y``."""
        return np.maximum(y, 0.0) ** 2

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``-log(2 sqrt x)``."""
        return -np.log(2.0) - 0.5 * np.log(np.maximum(x, self.margin))

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return which values are below zero."""
        return np.asarray(x < 0.0)


@dataclass(frozen=True)
class BoxCox(Transform):
    """``(x^p - 1) / p``, for positive values; the inverse is at least zero.

    Attributes
    ----------
    power : float
        ``p``, from 0, which is the logarithm, to 2.
    """

    power: float

    @property
    def kink(self) -> float:  # type: ignore[override]
        """The lower end of the range."""
        return -1.0 / self.power if self.power > 0.0 else 0.0

    @property
    def as_list(self) -> list[Any]:
        """The name and the power."""
        return ["box-cox", self.power]

    @property
    def domain(self) -> str:
        """Description of the domain."""
        return "above 0 (for values of 0 use 'sqrt' or 'log1p')"

    @property
    def n_free(self) -> int:
        """One, the power."""
        return 1

    def forward(self, x: FloatArray) -> FloatArray:
        """``(x^p - 1) / p``."""
        return np.asarray(boxcox(x, self.power))

    def inverse(self, y: FloatArray) -> FloatArray:
        """``(1 + p y)^(1 / p)``, and zero below the range."""
        lowest = -1.0 / self.power if self.power > 0.0 else -np.inf
        return np.asarray(inv_boxcox(np.maximum(y, lowest), self.power))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``(p - 1) log x``."""
        return (self.power - 1.0) * np.log(x)

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return which values are zero or below."""
        return np.asarray(x <= 0.0)


@dataclass(frozen=True)
class YeoJohnson(Transform):
    """Box-Cox transform of ``1 + x`` above zero, and minus that of ``1 - x`` with the power ``2 - p`` below.

    Attributes
    ----------
    power : float
        ``p``, from 0 to 2; 1 is the identity.
    """

    power: float

    @property
    def as_list(self) -> list[Any]:
        """The name and the power."""
        return ["yeo-johnson", self.power]

    @property
    def n_free(self) -> int:
        """One, the power."""
        return 1

    def forward(self, x: FloatArray) -> FloatArray:
        """Return the Box-Cox transforms of both sides of zero."""
        return np.where(
            x >= 0.0,
            boxcox(1.0 + np.maximum(x, 0.0), self.power),
            np.where(np.isnan(x), np.nan, -boxcox(1.0 - np.minimum(x, 0.0), 2.0 - self.power)),
        )

    def inverse(self, y: FloatArray) -> FloatArray:
        """Return the inverse of both sides of zero."""
        above = inv_boxcox(np.maximum(y, 0.0), self.power) - 1.0
        below = 1.0 - inv_boxcox(np.maximum(-y, 0.0), 2.0 - self.power)
        return np.where(y >= 0.0, above, np.where(np.isnan(y), np.nan, below))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """``(p - 1) sign(x) log(1 + |x|)``."""
        return (self.power - 1.0) * np.sign(x) * np.log1p(np.abs(x))

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return False for all values."""
        return np.zeros(x.shape, dtype=bool)


@dataclass(frozen=True)
class Bounds(Transform):
    """The logit between two bounds, or the logarithm of the distance from one bound.

    Attributes
    ----------
    lower, upper : float or None
        The bounds, one of which may be None.
    margin : float
        Values closer to a bound are moved to this distance.
    """

    lower: float | None
    upper: float | None
    margin: float

    @property
    def as_list(self) -> list[Any]:
        """The bounds and the margin."""
        return ["bounds", self.lower, self.upper, self.margin]

    @property
    def domain(self) -> str:
        """Description of the domain."""
        if self.upper is None:
            return f"{self.lower:g} or above"
        return f"{self.upper:g} or below" if self.lower is None else f"from {self.lower:g} to {self.upper:g}"

    def _distances(self, x: FloatArray) -> tuple[FloatArray | float, FloatArray | float]:
        """Return distances from the lower and the upper bound; 1 for a missing bound."""
        below = 1.0 if self.lower is None else np.maximum(x - self.lower, self.margin)
        above = 1.0 if self.upper is None else np.maximum(self.upper - x, self.margin)
        if self.lower is not None and self.upper is not None:
            maximum = self.upper - self.lower - self.margin
            below, above = np.minimum(below, maximum), np.minimum(above, maximum)
        return below, above

    def forward(self, x: FloatArray) -> FloatArray:
        """Return the logarithm of the ratio of the distances."""
        below, above = self._distances(x)
        return np.asarray(np.log(below) - np.log(above))

    def inverse(self, y: FloatArray) -> FloatArray:
        """Return the value between the bounds."""
        if self.lower is None:
            assert self.upper is not None
            return np.asarray(self.upper - np.exp(-y))
        if self.upper is None:
            return np.asarray(self.lower + np.exp(y))
        width = self.upper - self.lower
        return np.where(y < 0.0, self.lower + width * expit(y), self.upper - width * expit(-y))

    def log_slope(self, x: FloatArray) -> FloatArray:
        """Return the logarithm of the sum of the reciprocal distances from the bounds."""
        below, above = self._distances(x)
        if self.lower is None:
            return np.asarray(-np.log(above))
        if self.upper is None:
            return np.asarray(-np.log(below))
        return np.asarray(np.log(self.upper - self.lower) - np.log(below) - np.log(above))

    def is_outside(self, x: FloatArray) -> BoolArray:
        """Return a mask of values beyond a bound."""
        low = False if self.lower is None else x < self.lower
        high = False if self.upper is None else x > self.upper
        return np.asarray(np.broadcast_to(low | high, x.shape))

    def moments(self, means: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return moments of ``x``; with one bound, moments of the log-normal distribution."""
        if self.lower is not None and self.upper is not None:
            return super().moments(means, std)
        sign = -1.0 if self.lower is None else 1.0
        mean, std_of_x = Log().moments(sign * means, std)
        bound = self.upper if self.lower is None else self.lower
        assert bound is not None
        return bound + sign * mean, std_of_x
