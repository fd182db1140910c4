"""Gaussian noise added to a nonlinear function of the predictor: ``x ~ N(Phi(eta), r)``, ``eta = mu + C z``.

Turner & Sahani (2007, section 5.2, eq. 28) use a nonlinear link ``Phi`` from the latent factors to the
observations; it is the inverse of the link of generalized linear models. Here each column has its own link, a
function of its own predictor. The parameters of the links are estimated with the other parameters:

========= =============================================================================================
monotone  ``c + s_0 eta + sum_j (s_j - s_{j-1}) (U_j(eta) - U_j(0))``, increasing, with slopes from ``s_0``
          on the left to ``s_J`` on the right; softplus units ``U_j(eta) = log(1 + exp(b (eta - k_j))) / b``
          with fixed sharpness ``b`` and knots ``k_j``
quadratic ``c + cos(q) eta + sin(q) (eta^2 - 1) / sqrt(2)``; any quadratic function has this form after a
          change of the scale of ``eta``
========= =============================================================================================

Both links start as the identity. Expectations over the scalar ``eta`` of a value are Gauss-Hermite sums,
which are exact for a quadratic link. The second derivative of the expected log density may be positive. The
site of that value then has the minimum precision, and the bound is maximized under this constraint.
"""

from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy import special

from probsfa._typing import FloatArray
from probsfa.extensions.emissions.family import MIN_NOISE, WEAK_PRIOR, Expectation, Family, weak_prior
from probsfa.extensions.emissions.quadrature import over_nodes

__all__ = ["LINKS", "Linked", "Monotone", "Quadratic"]

# Minimum precision of the site of a value, relative to the precision of the noise.
_MIN_PRECISION = 1e-3
# Quadrature nodes of expected log densities; few suffice, because the integrands are nearly polynomials.
_N_NODES = 24


class Linked(Family):
    """Gaussian noise added to a function of the predictor; `shape` is ``log r`` and parameters of ``Phi``."""

    n_nodes = 120  # many, because distribution functions are steep if the noise is small
    has_scale = True

    @abstractmethod
    def function(self, eta: FloatArray, link: FloatArray) -> FloatArray:
        """Return ``Phi`` at predictors (N, D), with parameters (P - 1, D)."""

    @abstractmethod
    def derivatives(self, eta: FloatArray, link: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return ``Phi`` and its first and second derivative with respect to the predictor."""

    @abstractmethod
    def link_gradient(self, eta: FloatArray, link: FloatArray) -> list[FloatArray]:
        """Return derivatives of ``Phi`` with respect to each of its parameters."""

    @abstractmethod
    def link_prior(self, link: FloatArray) -> tuple[float, FloatArray]:
        """Return the log prior density of link parameters, up to a constant, and its gradient (P - 1, D)."""

    def expectation(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> Expectation:
        """See :class:`Family`; the precision may be negative, and the caller applies `min_precision`."""
        precision = np.exp(-shape[0])
        square, slope, curvature = (np.zeros_like(mean) for _ in range(3))
        for weight, eta in over_nodes(mean, variance, _N_NODES):
            phi, first, second_derivative = self.derivatives(eta, shape[1:])
            residual = x - phi
            square += weight * residual**2
            slope += weight * residual * first
            curvature += weight * (first**2 - residual * second_derivative)
        value = -0.5 * (np.log(2.0 * np.pi) + shape[0] + precision * square)
        return Expectation(value, precision * slope, precision * curvature)

    def shape_gradient(
        self, x: FloatArray, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> list[FloatArray]:
        """See :class:`Family`."""
        precision = np.exp(-shape[0])
        square = np.zeros_like(mean)
        slopes = [np.zeros_like(mean) for _ in shape[1:]]
        for weight, eta in over_nodes(mean, variance, _N_NODES):
            residual = x - self.function(eta, shape[1:])
            square += weight * residual**2
            for slope, part in zip(slopes, self.link_gradient(eta, shape[1:]), strict=True):
                slope += weight * residual * part
        return [0.5 * (precision * square - 1.0), *(precision * slope for slope in slopes)]

    def log_density(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        deviations = x - self.function(eta, shape[1:])
        return -0.5 * (np.log(2.0 * np.pi) + shape[0] + np.exp(-shape[0]) * deviations**2)

    def moments(
        self, mean: FloatArray, variance: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`."""
        first, second_moment = np.zeros_like(mean), np.zeros_like(mean)
        for weight, eta in over_nodes(mean, variance, self.n_nodes):
            value = self.function(eta, shape[1:])
            first += weight * value
            second_moment += weight * value**2
        return first, np.maximum(second_moment - first**2, 0.0) + np.exp(shape[0])

    def cdf(self, x: FloatArray, eta: FloatArray, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return np.asarray(special.ndtr((x - self.function(eta, shape[1:])) * np.exp(-0.5 * shape[0])))

    def draw(self, eta: FloatArray, shape: FloatArray, rng: np.random.Generator) -> FloatArray:
        """See :class:`Family`."""
        noise = np.exp(0.5 * shape[0]) * rng.standard_normal(eta.shape)
        return np.asarray(self.function(eta, shape[1:]) + noise)

    def predictor_of(self, mean: FloatArray) -> FloatArray:
        """See :class:`Family`; for the initial link, the identity, the predictor equals the mean."""
        return mean

    def initial_sites(
        self, x: FloatArray, mean: FloatArray, shape: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """See :class:`Family`; the sites for the identity link, with noise variance increased by one."""
        return np.broadcast_to(np.exp(-shape[0]) / (1.0 + np.exp(-shape[0])), x.shape), x

    def initial_shape(self, x: FloatArray, mask: FloatArray, noise: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        shape = np.zeros((self.n_shapes, x.shape[1]))
        shape[0] = np.log(np.maximum(noise, 10.0 * MIN_NOISE))
        return shape

    def min_shape(self) -> FloatArray:
        """See :class:`Family`."""
        return np.append(np.log(MIN_NOISE), np.full(self.n_shapes - 1, -np.inf))

    def min_precision(self, shape: FloatArray) -> FloatArray:
        """See :class:`Family`."""
        return _MIN_PRECISION * np.exp(-shape[0])

    def log_prior(self, shape: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Family`; the weak noise prior and the prior of the function."""
        value, slope = weak_prior(shape[0], WEAK_PRIOR)
        link_log_prior, slopes = self.link_prior(shape[1:])
        return value + link_log_prior, np.concatenate([slope[None], slopes])


class Quadratic(Linked):
    """A quadratic function: ``c + cos(q) eta + sin(q) (eta^2 - 1) / sqrt(2)``; parameters ``c, q``."""

    name = "quadratic"
    n_shapes = 3

    def function(self, eta: FloatArray, link: FloatArray) -> FloatArray:
        """See :class:`Linked`."""
        constant, angle = link
        return constant + np.cos(angle) * eta + np.sin(angle) / np.sqrt(2.0) * (eta**2 - 1.0)

    def derivatives(self, eta: FloatArray, link: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """See :class:`Linked`."""
        linear, square = np.cos(link[1]), np.sin(link[1]) / np.sqrt(2.0)
        curvature = np.broadcast_to(2.0 * square, eta.shape)
        return self.function(eta, link), linear + 2.0 * square * eta, curvature

    def link_gradient(self, eta: FloatArray, link: FloatArray) -> list[FloatArray]:
        """See :class:`Linked`."""
        angle_derivative = -np.sin(link[1]) * eta + np.cos(link[1]) / np.sqrt(2.0) * (eta**2 - 1.0)
        return [np.ones_like(eta), angle_derivative]

    def link_prior(self, link: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Linked`; ``c ~ N(0, 1)``, in standard deviations of the column."""
        return -0.5 * float(np.sum(link[0] ** 2)), np.stack([-link[0], np.zeros_like(link[1])])


class Monotone(Linked):
    """An increasing function; parameters are ``c`` and the logarithms of its slopes from left to right."""

    name = "monotone"
    #: Predictors at which the slope changes.
    KNOTS: ClassVar[tuple[float, ...]] = (-1.2, 0.0, 1.2)
    _SHARPNESS = 1.5
    n_shapes = 3 + len(KNOTS)

    def _softplus_units(self, eta: FloatArray) -> list[tuple[FloatArray, FloatArray]]:
        """Return ``U_j(eta) - U_j(0)`` of each softplus unit, and its derivative with respect to ``eta``."""
        units = []
        for knot in self.KNOTS:
            scaled_distance = self._SHARPNESS * (eta - knot)
            value_at_zero = np.logaddexp(0.0, -self._SHARPNESS * knot)
            units.append(
                (
                    (np.logaddexp(0.0, scaled_distance) - value_at_zero) / self._SHARPNESS,
                    special.expit(scaled_distance),
                )
            )
        return units

    def function(self, eta: FloatArray, link: FloatArray) -> FloatArray:
        """See :class:`Linked`."""
        slopes = np.exp(link[1:])
        phi = link[0] + slopes[0] * eta
        for slope_change, (value, _) in zip(np.diff(slopes, axis=0), self._softplus_units(eta), strict=True):
            phi = phi + slope_change * value
        return phi

    def derivatives(self, eta: FloatArray, link: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """See :class:`Linked`."""
        slopes = np.exp(link[1:])
        phi, first, second = link[0] + slopes[0] * eta, slopes[0] + 0.0 * eta, np.zeros_like(eta)
        for slope_change, (value, unit_slope) in zip(
            np.diff(slopes, axis=0), self._softplus_units(eta), strict=True
        ):
            phi = phi + slope_change * value
            first = first + slope_change * unit_slope
            second = second + slope_change * self._SHARPNESS * unit_slope * (1.0 - unit_slope)
        return phi, first, second

    def link_gradient(self, eta: FloatArray, link: FloatArray) -> list[FloatArray]:
        """See :class:`Linked`."""
        slopes = np.exp(link[1:])
        values = [eta, *(value for value, _ in self._softplus_units(eta)), np.zeros_like(eta)]
        # Phi = c + sum_j slope_j (unit_j - unit_j+1), where the first unit is eta and the last is zero.
        parts = [lower - upper for lower, upper in zip(values[:-1], values[1:], strict=True)]
        return [np.ones_like(eta), *(slope * part for slope, part in zip(slopes, parts, strict=True))]

    def link_prior(self, link: FloatArray) -> tuple[float, FloatArray]:
        """See :class:`Linked`; each parameter is ``N(0, 1)``, because the data may not determine it."""
        return -0.5 * float(np.sum(link**2)), -link


#: All links by their names.
LINKS: dict[str, Linked] = {family.name: family for family in (Monotone(), Quadratic())}
