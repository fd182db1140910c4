"""Quasi-Newton ascent in a metric, and with a brake, that the problem supplies.

The metric is close to minus the second derivative. Its inverse stands in the middle of the limited-memory
BFGS recursion, in place of the usual multiple of the identity; the remembered pairs correct what the metric
leaves out. Where the quadratic model misleads, a multiple of the brake is added to the metric, as Levenberg
and Marquardt do: directions of which the data say little are held back first. A step that lowers the
objective is never taken. Coordinates may have lower bounds.
"""

from collections import deque
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

FloatArray = NDArray[np.float64]
Ending = Literal["converged", "flat", "max_iter", "stalled", "interrupted"]

_MEMORY = 12
_ARMIJO = 1e-4
_LEAST_DAMPING = 1e-9
_MOST_DAMPING = 1e3
_MOST_EXCESS = 4.0


class Evaluation(NamedTuple):
    """What an objective knows at a vector: its value, gradient (P,) and anything its metric needs."""

    value: float
    gradient: FloatArray
    detail: Any = None


class Objective(Protocol):
    """What is maximised: a value in nats, its gradient, and a metric close to minus its second derivative."""

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        ...

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Value and gradient at ``vector``."""
        ...

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> tuple[FloatArray, FloatArray]:
        """Two positive semi-definite matrices (P, P): one near minus the second derivative, and the brake."""
        ...

    def rounding(self, value: float) -> float:
        """Smallest change of the value that is more than rounding."""
        ...


class Box(NamedTuple):
    """Limits of the ascent: ``lower`` bounds (P,) and the ``longest`` step of each coordinate (P,)."""

    lower: FloatArray
    longest: FloatArray


class Ascent(NamedTuple):
    """Where an ascent ended: the best vector, the values after each accepted step and why it ended."""

    vector: FloatArray
    history: tuple[float, ...]
    ending: Ending


class _Point(NamedTuple):
    vector: FloatArray
    known: Evaluation

    @property
    def value(self) -> float:
        return self.known.value

    @property
    def gradient(self) -> FloatArray:
        return self.known.gradient


class _Memory:
    """Pairs of a step and the fall of the gradient along it."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_MEMORY)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def clear(self) -> None:
        self.pairs.clear()

    def add(self, old: _Point, new: _Point) -> None:
        self.pairs.append((new.vector - old.vector, old.gradient - new.gradient))

    def direction(self, gradient: FloatArray, metric: FloatArray, free: NDArray[np.bool_]) -> FloatArray:
        """Ascent direction: the two-loop recursion on the free coordinates, around the inverse metric."""
        pairs = [(s[free], y[free]) for s, y in self.pairs]
        kept = [(s, y, float(s @ y)) for s, y in pairs if s @ y > 1e-10 * np.sqrt((s @ s) * (y @ y))]
        q = gradient[free].copy()
        alphas = []
        for s, y, sy in reversed(kept):
            alphas.append(float(s @ q) / sy)
            q -= alphas[-1] * y
        q = _solve(metric[np.ix_(free, free)], q)
        for (s, y, sy), alpha in zip(kept, reversed(alphas), strict=True):
            q += (alpha - float(y @ q) / sy) * s
        step = np.zeros_like(gradient)
        step[free] = q
        return step


def _solve(metric: FloatArray, gradient: FloatArray) -> FloatArray:
    """Solve with a positive semi-definite matrix, adding to its diagonal no more than factorising takes."""
    diagonal = np.diag(metric)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, max(1e-30 * float(diagonal.max()), np.finfo(np.float64).tiny)))
    scaled = metric * scale[:, None] * scale
    ridge = 1e-14
    while True:
        try:
            factor = cho_factor(scaled + ridge * np.eye(len(scale)), lower=True)
        except np.linalg.LinAlgError:
            ridge *= 10.0
        else:
            return np.asarray(scale * cho_solve(factor, scale * gradient))


def _bounded_step(
    memory: _Memory,
    point: _Point,
    free: NDArray[np.bool_],
    metric: FloatArray,
    brake: FloatArray,
    damping: float,
    box: Box,
) -> tuple[FloatArray | None, float]:
    """Step within the box's limits, and the factor by which it had to be shortened.

    A step far beyond the limits in one badly determined direction would be short in all others once it is
    scaled down, so the brake takes the first part of the shortening.
    """
    while True:
        braked = metric + damping * brake
        if not np.all(np.isfinite(braked)):
            return None, 1.0
        step = memory.direction(point.gradient, braked, free)
        excess = max(1.0, float(np.max(np.abs(step) / box.longest)))
        if excess <= _MOST_EXCESS or damping >= 1.0:
            return step / excess, excess
        damping = max(10.0 * damping, _LEAST_DAMPING)


def ascend(
    objective: Objective, start: FloatArray, box: Box, tol: float, known: Evaluation | None = None
) -> Ascent:
    """Ascend until a further step is expected to gain less than ``tol``.

    Parameters
    ----------
    objective : Objective
        Value, gradient, metric and brake.
    start : ndarray of shape (P,)
        Where to begin.
    box : Box
        Lower bounds and longest steps.
    tol : float
        Expected gain of a further step at which to stop, in the units of the value.
    known : Evaluation, optional
        The objective at ``start``, where it is known.

    Returns
    -------
    Ascent
        Also after an interrupt from the keyboard, with the best point so far.
    """
    memory = _Memory()
    history: list[float] = []
    vector = np.maximum(start, box.lower)
    damping, misled, length = 0.0, False, 1.0
    try:
        point = _Point(vector, objective(vector) if known is None else known)
        if not (np.isfinite(point.value) and np.all(np.isfinite(point.gradient))):
            return Ascent(vector, (), "stalled")
        history.append(point.value)
        metric, brake = objective.metric(point.vector, point.known)
        while not objective.exhausted:
            free = ~((point.vector <= box.lower) & (point.gradient < 0.0))
            step, excess = _bounded_step(memory, point, free, metric, brake, damping, box)
            if step is None:
                return Ascent(vector, tuple(history), "stalled")
            step *= length
            slope = float(point.gradient @ step)
            expected = 0.5 * slope
            if slope <= 0.0 and memory:
                memory.clear()
                continue
            if expected * excess < tol * length:
                if damping == 0.0 or misled:
                    return Ascent(vector, tuple(history), "converged")
                # A braked step promises less than a free one: ask again before believing it.
                damping = _less(damping)
                continue
            candidate = np.maximum(point.vector + step, box.lower)
            evaluation = objective(candidate)
            gain = evaluation.value - point.value
            if np.isfinite(gain) and gain >= _ARMIJO * slope:
                new = _Point(candidate, evaluation)
                memory.add(point, new)
                point, misled, length = new, False, 1.0
                vector = point.vector
                history.append(point.value)
                metric, brake = objective.metric(point.vector, point.known)
                if gain > 0.75 * expected:
                    damping = _less(damping)
                elif gain < 0.25 * expected:
                    damping = max(4.0 * damping, _LEAST_DAMPING)
            elif expected < objective.rounding(point.value):
                return Ascent(vector, tuple(history), "flat")
            elif damping > _MOST_DAMPING:
                return Ascent(vector, tuple(history), "stalled")
            elif length == 1.0:
                # Once, try the maximum of the parabola through both values and the slope.
                curvature = slope - gain if np.isfinite(gain) else np.inf
                length = min(max(0.5 * slope / curvature, 0.05), 0.5)
            else:
                # The quadratic model misled: forget the pairs and brake.
                memory.clear()
                misled, length = True, 1.0
                damping = max(10.0 * damping, _LEAST_DAMPING)
    except KeyboardInterrupt:
        return Ascent(vector, tuple(history), "interrupted")
    return Ascent(vector, tuple(history), "max_iter")


def _less(damping: float) -> float:
    return damping / 6.0 if damping > _LEAST_DAMPING else 0.0
