"""Trends: local level (random walk) and local linear trend.

Trends have no stationary variance. Their initialization is diffuse: the initial variance of their states is
very large relative to the variance of their steps. States are scaled to unit initial variance. The standard
deviation of steps in a column is therefore the loading of the column, divided by the square root of this
variance ratio.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from probsfa._typing import FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.processes.base import Process, Transitions
from probsfa.statespace.quantities import Quantity

__all__ = ["LocalLevel", "LocalLinearTrend"]

# Initial variances relative to variances of steps. The initial standard deviation of a local level is 1e5
# times the standard deviation of a step. Initial standard deviations of a local linear trend are 1e6 (level)
# and 1e4 (slope) times the standard deviation of a step of the slope. With much larger variances, filtered
# variances would have no significant digits.
_INITIAL_LEVEL_VARIANCE, _INITIAL_LINE_VARIANCE, _INITIAL_SLOPE_VARIANCE = 1e10, 1e12, 1e8
# Largest change per optimizer iteration of the standard deviation of a trend's steps in a column, in standard
# deviations of the column. After larger changes, fits often replaced a trend by a slow AR(1) factor.
_LONGEST_STEP = 3e-3
# Range of the variance of steps of a level, relative to the variance of steps of its slope.
_MIN_RATIO, _MAX_RATIO = 1e-6, 1e8

_STEPS = Quantity("trend_steps_", "std of steps", "data", ("column", "trend"))


@dataclass(frozen=True, eq=False, repr=False)
class LocalLevel(Process):
    """Random walks: ``z' = z + e`` with ``Var e = dt / start``.

    Attributes
    ----------
    start : ndarray of shape (N,)
        Initial variance, relative to the variance of a step over one unit of time; fixed.
    """

    start: FloatArray

    option: ClassVar[str] = "trend"
    named_value: ClassVar[str] = "level"
    quantities: ClassVar[tuple[Quantity, ...]] = (_STEPS,)
    #: Initial standard deviation of the state, relative to the standard deviation of a step.
    initial_std: ClassVar[float] = _INITIAL_LEVEL_VARIANCE**0.5
    longest_loading_step: ClassVar[float] = _LONGEST_STEP * initial_std
    label: ClassVar[str] = "level"
    n_states: ClassVar[int] = 1
    stationary: ClassVar[bool] = False
    names: ClassVar[dict[str, str]] = {"start": "level_start"}

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`."""
        steps = gaps[:, None] / self.start
        steps = steps[:, :, None, None]
        return steps.__array_namespace__().ones_like(steps), steps

    def to_free(self) -> FloatArray:
        """Return an empty array: there are no free parameters."""
        return np.zeros((0, len(self)))

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        del free
        return self

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`; the variance of the steps is the same."""
        trend = cls.arbitrary(len(decay))
        return [(trend, np.sqrt((1.0 - decay) * (1.0 + decay) * trend.start))]

    @property
    def order(self) -> FloatArray:
        """Return equal keys, which do not change the order."""
        return np.zeros(len(self))

    @classmethod
    def arbitrary(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.full(count, _INITIAL_LEVEL_VARIANCE))

    @classmethod
    def n_rotated(cls, count: int) -> int:
        """Return the number of angles of a rotation, because rotated random walks have the same dynamics."""
        return count * (count - 1) // 2

    def canonical(self, loadings: FloatArray, units: FloatArray) -> tuple[Self, FloatArray]:
        """Rotate the random walks to the principal axes of their loadings, largest first."""
        axes = np.linalg.svd(loadings[:, :, 0] / units[:, None], full_matrices=False)[2]
        rotated = loadings[:, :, 0] @ axes.T
        return self, (rotated * canonical_signs(rotated, units))[:, :, None]

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """See :class:`.Process`."""
        return (np.abs(loadings[:, :, 0]) / np.sqrt(self.start * time_unit),)


@dataclass(frozen=True, eq=False, repr=False)
class LocalLinearTrend(Process):
    """Local linear trends in continuous time: the slope is a random walk, and the level has its own steps.

    Level ``l`` and slope ``s`` move by ``dl = s dt + sqrt(ratio) dv`` and ``ds = dw``, with ``v`` and ``w``
    independent. With unit time steps this is the local linear trend of structural time series, with variance
    ``ratio - 1 / 6`` of the level and 1 of the slope (Harvey 1989, section 9.1).

    Attributes
    ----------
    ratio : ndarray of shape (N,)
        Variance of the additional steps of the level, divided by the variance of the steps of the slope, over
        one unit of time.
    """

    ratio: FloatArray

    option: ClassVar[str] = "trend"
    accepts_count: ClassVar[bool] = False
    named_value: ClassVar[str] = "linear"
    quantities: ClassVar[tuple[Quantity, ...]] = (
        _STEPS,
        Quantity("trend_slope_steps_", "std of steps of slope", "data", ("column", "trend")),
    )
    #: Initial standard deviation of the level, relative to the standard deviation of a step of the slope.
    initial_std: ClassVar[float] = _INITIAL_LINE_VARIANCE**0.5
    longest_loading_step: ClassVar[float] = _LONGEST_STEP * initial_std
    label: ClassVar[str] = "line"
    n_states: ClassVar[int] = 2
    parts: ClassVar[tuple[str, ...]] = ("", "_slope")
    stationary: ClassVar[bool] = False
    longest_steps: ClassVar[tuple[float, ...]] = (1.0,)
    names: ClassVar[dict[str, str]] = {"ratio": "line_ratio"}

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`."""
        xp = self.ratio.__array_namespace__()
        elapsed = gaps[:, None] * xp.ones_like(self.ratio)
        ones, zeros = xp.ones_like(elapsed), xp.zeros_like(elapsed)
        drift = elapsed * (_INITIAL_SLOPE_VARIANCE / _INITIAL_LINE_VARIANCE) ** 0.5
        level = (self.ratio * elapsed + elapsed**3 / 3.0) / _INITIAL_LINE_VARIANCE
        cross = 0.5 * elapsed**2 / (_INITIAL_LINE_VARIANCE * _INITIAL_SLOPE_VARIANCE) ** 0.5
        matrix = xp.stack([ones, drift, zeros, ones], axis=2)
        innovation = xp.stack([level, cross, cross, elapsed / _INITIAL_SLOPE_VARIANCE], axis=2)
        return matrix.reshape(*elapsed.shape, 2, 2), innovation.reshape(*elapsed.shape, 2, 2)

    def to_free(self) -> FloatArray:
        """Return the logarithms of the ratios."""
        return np.log(np.clip(self.ratio, _MIN_RATIO, _MAX_RATIO))[None]

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        return type(self)(np.clip(np.exp(free[0]), _MIN_RATIO, _MAX_RATIO))

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`.

        The first candidate is a smooth trend with the same variance of changes over a time scale. The second
        is a rough trend with the same variance of steps.
        """
        step, rate = np.sqrt((1.0 - decay) * (1.0 + decay)), np.clip(1.0 - decay, 1e-4, 1.0)
        initial_std = np.sqrt(_INITIAL_LINE_VARIANCE)
        smooth = cls(np.ones_like(decay)), np.sqrt(3.0) * step * rate * initial_std
        rough = cls(1.0 / rate), step * np.sqrt(rate) * initial_std
        return [smooth, rough]

    @property
    def order(self) -> FloatArray:
        """Smoothest first."""
        return self.ratio

    @classmethod
    def arbitrary(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.geomspace(1.0, 100.0, count))

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """See :class:`.Process`."""
        slopes = np.abs(loadings[:, :, 0]) / np.sqrt(_INITIAL_LINE_VARIANCE * time_unit**3)
        steps = np.abs(loadings[:, :, 0]) * np.sqrt(self.ratio / (_INITIAL_LINE_VARIANCE * time_unit))
        return steps, slopes
