"""Trends: a level that moves as a random walk, and a line whose level and slope do.

They have no stationary variance. At the start of a sequence their states have a variance so large, beside
that of their steps, that nothing is known of them (a diffuse start); it is what loadings are in units of, and
a loading over the square root of it is the standard deviation of the steps.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from probsfa._typing import FloatArray
from probsfa.linalg import canonical_signs
from probsfa.statespace.processes.base import Process, Transitions

__all__ = ["LocalLevel", "LocalLinearTrend"]

# Variances at the start in units of those of steps: standard deviations of 1e5 steps of a level; of 1e6 and
# 1e4 steps of a slope, of the level and the slope of a line. Far larger ones would leave filtered variances
# without digits.
_START_OF_LEVEL, _START_OF_LINE, _START_OF_SLOPE = 1e10, 1e12, 1e8
# Range of the variance of a level's own steps, in units of that of its slope's.
_LEAST_RATIO, _MOST_RATIO = 1e-6, 1e8


@dataclass(frozen=True, eq=False, repr=False)
class LocalLevel(Process):
    """Random walks: ``z' = z + e`` with ``Var e = dt / start``.

    Attributes
    ----------
    start : ndarray of shape (N,)
        Variance at the start in units of that of a step over one unit of time; fixed.
    """

    start: FloatArray

    option: ClassVar[str] = "trend"
    attribute_names: ClassVar[tuple[str, ...]] = ("trend_steps_",)
    label: ClassVar[str] = "level"
    n_states: ClassVar[int] = 1
    stationary: ClassVar[bool] = False
    names: ClassVar[dict[str, str]] = {"start": "level_start"}

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`."""
        steps = gaps[:, None] / self.start
        return np.ones((*steps.shape, 1, 1)), steps[:, :, None, None]

    def to_free(self) -> FloatArray:
        """Nothing is free."""
        return np.zeros((0, len(self)))

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        del free
        return self

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`: steps of the same variance."""
        made = cls.silent(len(decay))
        return [(made, np.sqrt((1.0 - decay) * (1.0 + decay) * made.start))]

    @property
    def order(self) -> FloatArray:
        """As they are."""
        return np.zeros(len(self))

    @classmethod
    def silent(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.full(count, _START_OF_LEVEL))

    @classmethod
    def n_turned(cls, count: int) -> int:
        """Rotations of random walks, which are all alike."""
        return count * (count - 1) // 2

    def canonical(self, loadings: FloatArray, units: FloatArray) -> tuple[Self, FloatArray]:
        """Random walks, which may be mixed freely, along main axes of their loadings, the largest first."""
        axes = np.linalg.svd(loadings[:, :, 0] / units[:, None], full_matrices=False)[2]
        turned = loadings[:, :, 0] @ axes.T
        return self, (turned * canonical_signs(turned, units))[:, :, None]

    def attributes(self, loadings: FloatArray, time_unit: float) -> dict[str, FloatArray]:
        """See :class:`.Process`."""
        return {"trend_steps_": np.abs(loadings[:, :, 0]) / np.sqrt(self.start * time_unit)}


@dataclass(frozen=True, eq=False, repr=False)
class LocalLinearTrend(Process):
    """Lines whose slope is a random walk, and whose level has steps of its own, in continuous time.

    Level ``l`` and slope ``s`` move by ``dl = s dt + sqrt(ratio) dv`` and ``ds = dw``, with ``v`` and ``w``
    independent. Over unit gaps this is the local linear trend of structural time series with variances of the
    level ``ratio - 1 / 6`` and of the slope 1 (Harvey 1989, section 9.1).

    Attributes
    ----------
    ratio : ndarray of shape (N,)
        Variance of the level's own steps in units of that of the slope's, over one unit of time.
    """

    ratio: FloatArray

    option: ClassVar[str] = "trend"
    attribute_names: ClassVar[tuple[str, ...]] = ("trend_steps_", "trend_slope_steps_")
    label: ClassVar[str] = "line"
    n_states: ClassVar[int] = 2
    parts: ClassVar[tuple[str, ...]] = ("", "_slope")
    stationary: ClassVar[bool] = False
    longest_steps: ClassVar[tuple[float, ...]] = (1.0,)
    names: ClassVar[dict[str, str]] = {"ratio": "line_ratio"}

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`."""
        elapsed = gaps[:, None] * np.ones(len(self))
        matrix = np.zeros((*elapsed.shape, 2, 2))
        matrix[:, :, 0, 0] = matrix[:, :, 1, 1] = 1.0
        matrix[:, :, 0, 1] = elapsed * np.sqrt(_START_OF_SLOPE / _START_OF_LINE)
        innovation = np.empty_like(matrix)
        innovation[:, :, 0, 0] = (self.ratio * elapsed + elapsed**3 / 3.0) / _START_OF_LINE
        cross = 0.5 * elapsed**2 / np.sqrt(_START_OF_LINE * _START_OF_SLOPE)
        innovation[:, :, 0, 1] = innovation[:, :, 1, 0] = cross
        innovation[:, :, 1, 1] = elapsed / _START_OF_SLOPE
        return matrix, innovation

    def to_free(self) -> FloatArray:
        """Logarithms of the ratios."""
        return np.log(np.clip(self.ratio, _LEAST_RATIO, _MOST_RATIO))[None]

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        return type(self)(np.clip(np.exp(free[0]), _LEAST_RATIO, _MOST_RATIO))

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """See :class:`.Process`: smooth, with the same changes over a time scale; or with the same steps."""
        step, rate = np.sqrt((1.0 - decay) * (1.0 + decay)), np.clip(1.0 - decay, 1e-4, 1.0)
        start = np.sqrt(_START_OF_LINE)
        smooth = cls(np.ones_like(decay)), np.sqrt(3.0) * step * rate * start
        return [smooth, (cls(1.0 / rate), step * np.sqrt(rate) * start)]

    @property
    def order(self) -> FloatArray:
        """Smoothest first."""
        return self.ratio

    @classmethod
    def silent(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.geomspace(1.0, 100.0, count))

    def attributes(self, loadings: FloatArray, time_unit: float) -> dict[str, FloatArray]:
        """See :class:`.Process`."""
        slopes = np.abs(loadings[:, :, 0]) / np.sqrt(_START_OF_LINE * time_unit**3)
        steps = np.abs(loadings[:, :, 0]) * np.sqrt(self.ratio / (_START_OF_LINE * time_unit))
        return {"trend_steps_": steps, "trend_slope_steps_": slopes}
