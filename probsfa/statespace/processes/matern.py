"""Smooth processes: stationary Gaussian processes with a Matern kernel, whose paths have derivatives.

Matern-3/2 has two states, the value and its derivative; Matern-5/2 three, with the second derivative
(Hartikainen & Sarkka 2010). Columns have loadings on the value only. States are scaled such that their
stationary covariance is the identity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import factorial

from probsfa._typing import FloatArray
from probsfa.statespace.processes.base import Process, Transitions
from probsfa.statespace.quantities import Quantity

__all__ = ["Matern32", "Matern52"]

# Range of rates: time scales from a small fraction of a step to 17,000 steps. Innovation variances are
# proportional to the cube of the rate; at much slower rates, rounding errors would dominate them.
MIN_RATE, MAX_RATE = 1e-4, 50.0
# Quadrature for the innovation covariance of Matern-5/2: number of nodes, and maximum upper limit of the
# integral. Above this limit the integrand is below rounding errors.
_N_NODES, _MAX_INTEGRATION_LIMIT = 24, 20.0
# Powers in the series of an incomplete gamma function for arguments below one. The first omitted term is at
# most 5e-17 times the first term.
_POWERS = np.arange(16.0)
_COEFFICIENTS = 1.0 / factorial(3.0 + _POWERS)


def _gammainc_3(x: Any) -> Any:
    """Return the incomplete gamma function ``1 - exp(-x) (1 + x + x^2 / 2)``, accurate for small ``x``.

    Arrays may be of NumPy or of JAX; JAX's own function has a slow derivative.
    """
    xp = x.__array_namespace__()
    small, large = xp.where(x < 1.0, x, 0.5), xp.where(x < 1.0, 1.0, x)
    series = small**3 * xp.exp(-small) * (small[..., None] ** _POWERS @ _COEFFICIENTS)
    return xp.where(x < 1.0, series, 1.0 - xp.exp(-large) * (1.0 + large + 0.5 * large**2))


@dataclass(frozen=True, eq=False, repr=False)
class Matern32(Process):
    """Processes with the kernel ``(1 + d) exp(-d)``, where ``d = rate * gap``.

    The second state is the derivative in units of its standard deviation::

        A(dt) = exp(-d) [[1 + d, d], [-d, 1 - d]]

    Attributes
    ----------
    rate : ndarray of shape (N,)
        ``sqrt(3) / timescale``, per time step.
    """

    rate: FloatArray

    option: ClassVar[str] = "smooth"
    times: ClassVar[str] = "time scales"
    variant: ClassVar[Mapping[str, Any]] = MappingProxyType({"smoothness": 1.5})
    quantities: ClassVar[tuple[Quantity, ...]] = (
        Quantity("smooth_timescales_", "smooth time scale", "time", ("smooth factor",), "log"),
    )
    label: ClassVar[str] = "smooth"
    n_states: ClassVar[int] = 2
    parts: ClassVar[tuple[str, ...]] = ("", "_velocity")
    longest_steps: ClassVar[tuple[float, ...]] = (1.0,)
    names: ClassVar[dict[str, str]] = {"rate": "smooth_rate"}
    #: Rate times time scale.
    unit: ClassVar[float] = np.sqrt(3.0)

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`.

        ``Q = 1 - A A'`` in forms without cancellation at small ``d``: ``1 - exp(-2 d) (1 + 2 d + 2 d^2)`` is
        an incomplete gamma function.
        """
        d = self.rate * gaps[:, None]
        xp = d.__array_namespace__()
        a = xp.exp(-d)
        cross = 2.0 * (a * d) ** 2
        velocity_variance = -xp.expm1(-2.0 * d) + 2.0 * a**2 * d * (1.0 - d)
        matrix = xp.stack([a * (1.0 + d), a * d, -a * d, a * (1.0 - d)], axis=2)
        innovation = xp.stack([_gammainc_3(2.0 * d), cross, cross, velocity_variance], axis=2)
        return matrix.reshape(*d.shape, 2, 2), innovation.reshape(*d.shape, 2, 2)

    def to_free(self) -> FloatArray:
        """Return the logarithms of the rates."""
        return np.log(np.clip(self.rate, MIN_RATE, MAX_RATE))[None]

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        return type(self)(np.clip(np.exp(free[0]), MIN_RATE, MAX_RATE))

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`.

        The mean squared difference of adjacent rows is the same: ``2 (1 - a)`` for the AR(1) factor, and
        about ``d^2`` for the smooth factor.
        """
        rate = np.clip(np.sqrt(2.0 * (1.0 - decay)), MIN_RATE, MAX_RATE)
        return [(cls(rate), np.ones_like(rate))]

    @property
    def order(self) -> FloatArray:
        """Slowest first."""
        return self.rate

    @classmethod
    def arbitrary(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.linspace(0.05, 0.5, count))

    @classmethod
    def of_times(cls, times: FloatArray, *, evenly_sampled: bool = True) -> Self:
        """See :class:`.Process`."""
        del evenly_sampled
        return cls(cls.unit / times)

    @property
    def timescales(self) -> FloatArray:
        """Time scales (N,), in time steps."""
        return self.unit / self.rate

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """See :class:`.Process`."""
        del loadings
        return (self.timescales * time_unit,)

    @property
    def peaks(self) -> tuple[FloatArray, FloatArray]:
        """See :class:`.Process`."""
        return np.zeros(len(self)), 1.0 - np.exp(-self.rate)

    def transition_derivatives(self, gaps: FloatArray) -> list[Transitions]:
        """See :class:`.Process`; in closed form.

        With the drift ``F`` and the second column ``a`` of ``A``, the derivative of ``A`` with respect to
        ``d`` is ``F A``, and the derivative of ``Q`` is ``4 a a'``.
        """
        d = (self.rate * gaps[:, None])[:, :, None, None]
        matrix, _ = self.transitions(gaps)
        drift = np.array([[0.0, 1.0], [-1.0, -2.0]])
        column = matrix[:, :, :, 1:]
        return [(d * (drift @ matrix), 4.0 * d * column * column.swapaxes(2, 3))]

    def spectra(self, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`.Process`; in closed form.

        The spectrum is the sum of ``(1 + d |h|) exp(-d |h| - i w h)`` over lags ``h``. With ``a = exp(-d)``,
        ``s = 1 - cos w`` and ``t = (1 - a)^2 + 2 a s`` it is
        ``((1 - a)^2 (1 - a^2 + 2 d a) + 4 a^2 s (sinh d - d cosh d)) / t^2``, which is accurate for small
        ``d``.
        """
        d = self.rate
        a, one_minus_a = np.exp(-d), -np.expm1(-d)
        s = 2.0 * np.sin(0.5 * omega[:, None]) ** 2
        at_zero = -np.expm1(-2.0 * d) + 2.0 * d * a
        series = -(d**3) * (1.0 / 3.0 + d**2 / 30.0 + d**4 / 840.0)
        hyperbolic = np.where(d < 0.1, series, np.sinh(d) - d * np.cosh(d))
        numerator = one_minus_a**2 * at_zero + 4.0 * a**2 * s * hyperbolic
        t = one_minus_a**2 + 2.0 * a * s
        numerator_derivative = (
            2.0 * a * one_minus_a * at_zero
            + one_minus_a**2 * (2.0 * a**2 + 2.0 * a - 2.0 * d * a)
            - 4.0 * a**2 * s * (2.0 * hyperbolic + d * np.sinh(d))
        )
        t_derivative = 2.0 * a * one_minus_a - 2.0 * a * s
        derivatives = d * (numerator_derivative / t**2 - 2.0 * numerator * t_derivative / t**3)
        return (numerator / t**2)[:, :, None], derivatives[:, :, None, None]


@cache
def _matern52() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return constants of the transition of Matern-5/2 processes.

    These are the matrix ``N = F + 1``, the coefficients of the driving white noise, and nodes and weights of
    Gauss-Legendre quadrature. ``F`` is the drift of the scaled states.
    """
    root = np.linalg.cholesky(np.array([[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]))
    drift = np.linalg.solve(root, np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]]) @ root)
    diffusion = np.sqrt(16.0 / 3.0) * np.linalg.solve(root, np.array([0.0, 0.0, 1.0]))
    return drift + np.eye(3), diffusion, *np.polynomial.legendre.leggauss(_N_NODES)


@dataclass(frozen=True, eq=False, repr=False)
class Matern52(Matern32):
    """Processes with the kernel ``(1 + d + d^2 / 3) exp(-d)``, where ``d = rate * gap``.

    Attributes
    ----------
    rate : ndarray of shape (N,)
        ``sqrt(5) / timescale``, per time step.
    """

    variant: ClassVar[Mapping[str, Any]] = MappingProxyType({"smoothness": 2.5})
    n_states: ClassVar[int] = 3
    parts: ClassVar[tuple[str, ...]] = ("", "_velocity", "_acceleration")
    names: ClassVar[dict[str, str]] = {"rate": "smoother_rate"}
    unit: ClassVar[float] = np.sqrt(5.0)

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`.

        With the drift ``F`` and ``N = F + 1``, for which ``N^3 = 0``, the transition is ``exp(F d) = exp(-d)
        (1 + N d + N^2 d^2 / 2)``. The innovation covariance is the integral over ``s`` from 0 to ``d`` of the
        outer products of ``exp(F s) g``, with the coefficients ``g`` of the driving noise. The quadrature has
        no cancellation.
        """
        nilpotent, diffusion, nodes, weights = _matern52()

        def transition(d: FloatArray) -> FloatArray:
            d = d[..., None, None]
            return xp.exp(-d) * (np.eye(3) + nilpotent * d + nilpotent @ nilpotent * (0.5 * d**2))

        d = self.rate * gaps[:, None]
        xp = d.__array_namespace__()
        half_limit = 0.5 * xp.minimum(d, _MAX_INTEGRATION_LIMIT)
        vectors = transition(half_limit[..., None] * (1.0 + nodes)) @ diffusion
        innovation = xp.einsum("un,q,unqi,unqj->unij", half_limit, weights, vectors, vectors)
        return transition(d), innovation

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`.

        The mean squared difference of adjacent rows is the same: ``2 (1 - a)`` for the AR(1) factor, and
        about ``d^2 / 3`` for the smooth factor.
        """
        rate = np.clip(np.sqrt(6.0 * (1.0 - decay)), MIN_RATE, MAX_RATE)
        return [(cls(rate), np.ones_like(rate))]

    def transition_derivatives(self, gaps: FloatArray) -> list[Transitions]:
        """See :class:`.Process`."""
        return Process.transition_derivatives(self, gaps)

    def spectra(self, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`.Process`."""
        return Process.spectra(self, omega)
