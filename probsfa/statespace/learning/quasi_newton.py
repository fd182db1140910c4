"""Quasi-Newton optimizer with a metric and a damping matrix from the objective.

The metric approximates minus the second derivative. Its inverse replaces the usual multiple of the identity
in the middle of the limited-memory BFGS recursion; the stored secant pairs correct the metric. Where the
quadratic model is inaccurate, a multiple of the damping matrix is added to the metric (Levenberg-Marquardt),
which first shortens steps along directions with little information. A step that lowers the objective is
rejected, but its secant pair is stored: it contains the curvature that the model missed (as in Nocedal &
Wright 2006, Numerical Optimization, section 6.2). Coordinates may have bounds. The steps of an objective may
follow curves (``move``); stored pairs are then transported along them.

If the steps of a few coordinates are too long, these coordinates are limited to their longest step, and the
step of all others is optimal given that. Scaling the whole step would slow down all other coordinates.
"""

from collections import deque
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from probsfa._typing import BoolArray, FloatArray

StopReason = Literal["converged", "flat", "max_iter", "stalled", "interrupted"]

_N_STORED_PAIRS = 12
_ARMIJO = 1e-4
_MIN_DAMPING = 1e-9
# Smallest damping after a rejected step, and damping that is set to zero when it decreases.
_INITIAL_DAMPING, _NEGLIGIBLE_DAMPING = 1e-4, 1e-6
# Damping above which the step is shortened instead, and the minimum fraction of a step.
_MAX_DAMPING, _MIN_STEP_FRACTION = 1.0, 1e-6
# Factors by which damping increases after a rejected step, and decreases after a step with the expected gain
# or more.
_DAMPING_INCREASE, _DAMPING_DECREASE, _FAST_DAMPING_DECREASE = 10.0, 3.0, 10.0
# If a rejected step loses more than this fraction of the loss of the previous one, damping had little effect.
_MIN_LOSS_RATIO = 0.5
_MAX_STEP_EXCESS = 4.0
_DAMPING_RATIO = 30.0
# Maximum number of coordinates that are limited to their longest steps, and of rounds in which they are
# found.
_MAX_LIMITED, _LIMITING_ITERATIONS = 4, 3
_N_RECENT_STEPS = 3


class Evaluation(NamedTuple):
    """Value and gradient (P,) of the objective at a vector, and data for its metric."""

    value: float
    gradient: FloatArray
    detail: Any = None


class Curvature(Protocol):
    """A positive definite metric and damping matrix."""

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float) -> FloatArray:
        """Solve with metric plus ``damping`` times damping matrix; fixed coordinates are zero."""
        ...


class Objective(Protocol):
    """Function to maximise, in nats, with its gradient and a metric close to minus its second derivative."""

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        ...

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return value and gradient at ``vector``."""
        ...

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Curvature:
        """Return a metric close to minus the second derivative, with a damping matrix."""
        ...

    def rounding(self, value: float) -> float:
        """Return the smallest change of the value that exceeds rounding errors."""
        ...


class Transport(Protocol):
    """Transport of coordinate changes and gradients along a step."""

    def __call__(self, change: FloatArray, /) -> FloatArray:
        """Transport a vector (P,) from the start of the step to its end."""
        ...

    def back(self, change: FloatArray, /) -> FloatArray:
        """Transport a vector (P,) from the end of the step to its start."""
        ...


class IdentityTransport:
    """Identity transport, along a straight line."""

    def __call__(self, change: FloatArray) -> FloatArray:
        """Return the same vector."""
        return change

    def back(self, change: FloatArray) -> FloatArray:
        """Return the same vector."""
        return change


def straight_step(vector: FloatArray, step: FloatArray) -> tuple[FloatArray, Transport]:
    """Take a step along a straight line."""
    return vector + step, IdentityTransport()


class Box(NamedTuple):
    """Bounds (P,) and the ``longest`` step of each coordinate (P,).

    A coordinate whose ``lower`` and ``upper`` bounds are equal is fixed. Upper bounds are optional.
    """

    lower: FloatArray
    longest: FloatArray
    upper: FloatArray | float = np.inf

    def within(self, vector: FloatArray) -> FloatArray:
        """Return the vector clipped to the bounds."""
        return np.minimum(np.maximum(vector, self.lower), self.upper)

    def free(self, vector: FloatArray, gradient: FloatArray) -> BoolArray:
        """Return which coordinates (P,) are neither fixed nor at a bound that the gradient points to."""
        below = (vector <= self.lower) & (gradient < 0.0)
        above = (vector >= self.upper) & (gradient > 0.0)
        return ~(below | above | (self.lower == self.upper))


class Ascent(NamedTuple):
    """Result of the optimizer: the best vector, the values after each accepted step and why it ended."""

    vector: FloatArray
    history: tuple[float, ...]
    ending: StopReason


class _Point(NamedTuple):
    vector: FloatArray
    known: Evaluation

    @property
    def value(self) -> float:
        return self.known.value

    @property
    def gradient(self) -> FloatArray:
        return self.known.gradient


class _SecantPairs:
    """Secant pairs: a step and the decrease of the gradient along it."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_N_STORED_PAIRS)
        self._kept: tuple[bytes, list[tuple[FloatArray, FloatArray, float]]] | None = None

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def clear(self) -> None:
        self.pairs.clear()
        self._kept = None

    def add(self, step: FloatArray, fall: FloatArray) -> None:
        """Store a step and the decrease of the gradient along it."""
        self.pairs.append((step, fall))
        self._kept = None

    def turn(self, turn: Transport) -> None:
        """Transport all pairs along a step."""
        for i, (step, fall) in enumerate(self.pairs):
            self.pairs[i] = (turn(step), turn(fall))
        self._kept = None

    def _among(self, free: BoolArray) -> list[tuple[FloatArray, FloatArray, float]]:
        """Return pairs with positive curvature on the free coordinates, with their products.

        The result is cached: one step computes several directions, with other damping or limited coordinates.
        """
        key = free.tobytes()
        if self._kept is None or self._kept[0] != key:
            pairs = self.pairs if free.all() else [(s * free, y * free) for s, y in self.pairs]
            products = [(s, y, float(s @ y)) for s, y in pairs]
            curved = [(s, y, sy) for s, y, sy in products if sy > 1e-10 * np.sqrt((s @ s) * (y @ y))]
            self._kept = key, curved
        return self._kept[1]

    def direction(
        self, gradient: FloatArray, metric: Curvature, free: BoolArray, damping: float
    ) -> FloatArray:
        """Return the ascent direction: two-loop recursion on the free coordinates with the inverse metric."""
        retained = self._among(free)
        q = gradient * free
        alphas = []
        for s, y, sy in reversed(retained):
            alphas.append(float(s @ q) / sy)
            q = q - alphas[-1] * y
        q = metric.solve(q, free, damping)
        for (s, y, sy), alpha in zip(retained, reversed(alphas), strict=True):
            q = q + (alpha - float(y @ q) / sy) * s
        return q


def _bounded_step(
    memory: _SecantPairs,
    point: _Point,
    free: BoolArray,
    metric: Curvature,
    damping: float,
    box: Box,
) -> tuple[FloatArray | None, float, float]:
    """Return a step within the longest steps, the factor by which it was shortened, and its damping.

    If a step is far too long in one badly determined direction, scaling would make it short in all others.
    Damping is therefore increased before the step is scaled.
    """
    while True:
        step = memory.direction(point.gradient, metric, free, damping)
        if not np.all(np.isfinite(step)):
            return None, 1.0, damping
        step = _with_limited_coordinates(step, memory, free, metric, damping, box)
        excess = max(1.0, float(np.max(np.abs(step) / box.longest)))
        if excess <= _MAX_STEP_EXCESS or damping >= 1.0:
            return step / excess, excess, damping
        damping = max(_DAMPING_RATIO * damping, _MIN_DAMPING)


def _with_limited_coordinates(
    step: FloatArray, memory: _SecantPairs, free: BoolArray, metric: Curvature, damping: float, box: Box
) -> FloatArray:
    """Return the best step of the quadratic model, with a few coordinates limited to their longest steps.

    With the inverse ``H`` of the model's matrix the best step is ``H (g - f)``, where ``f`` are the Lagrange
    multipliers of the limited coordinates.
    """
    held: list[int] = []
    columns: list[FloatArray] = []
    best = step
    for _ in range(_LIMITING_ITERATIONS):
        # Limited coordinates are at their longest steps up to rounding.
        over = np.flatnonzero(np.abs(best) > (1.0 + 1e-6) * box.longest)
        if over.size == 0 or over.size + len(held) > _MAX_LIMITED:
            break
        for i in over.tolist():
            held.append(i)
            columns.append(memory.direction(np.eye(1, step.size, i)[0], metric, free, damping))
        inverse = np.array(columns).T
        positions = np.sign(step[held]) * box.longest[held]
        try:
            candidates = step - inverse @ np.linalg.solve(inverse[held], step[held] - positions)
        except np.linalg.LinAlgError:
            break
        if not np.all(np.isfinite(candidates)):
            break
        best = candidates
    return best


def maximize_objective(
    objective: Objective,
    start: FloatArray,
    box: Box,
    tol: float,
    known: Evaluation | None = None,
) -> Ascent:
    """Maximise until a further step is expected to gain less than ``tol``.

    Parameters
    ----------
    objective : Objective
        Value, gradient, metric and damping matrix.
    start : ndarray of shape (P,)
        Initial vector.
    box : Box
        Bounds and longest steps.
    tol : float
        Expected gain of a further step at which to stop, in the units of the value.
    known : Evaluation, optional
        The objective at ``start``, if it is known.

    Returns
    -------
    Ascent
        After a keyboard interrupt, with the best point so far.
    """
    memory = _SecantPairs()
    move = getattr(objective, "move", straight_step)
    history: list[float] = []
    vector = box.within(start)
    damping, used, misled, refused, length = 0.0, 0.0, False, 0.0, 1.0
    try:
        point = _Point(vector, objective(vector) if known is None else known)
        if not (np.isfinite(point.value) and np.all(np.isfinite(point.gradient))):
            return Ascent(vector, (), "stalled")
        history.append(point.value)
        metric = objective.metric(point.vector, point.known)
        while not objective.exhausted:
            free = box.free(point.vector, point.gradient)
            # First guess: a fraction of the damping that the previous step required.
            minimum = max(
                damping, used / _DAMPING_RATIO**2 if used > _MIN_DAMPING * _DAMPING_RATIO**2 else 0.0
            )
            step, excess, used = _bounded_step(memory, point, free, metric, minimum, box)
            if step is None:
                return Ascent(vector, tuple(history), "stalled")
            step *= length
            slope = float(point.gradient @ step)
            expected = 0.5 * slope
            if slope <= 0.0 and memory:
                memory.clear()
                continue
            if expected * excess < tol * length:
                if minimum == 0.0 or _recent_gain(history) < _N_RECENT_STEPS * tol:
                    return Ascent(vector, tuple(history), "converged")
                # A damped step has a smaller expected gain: try without damping before stopping.
                if not misled:
                    damping = used = 0.0
                    continue
            reached, turn = move(point.vector, step)
            candidate = box.within(reached)
            evaluation = objective(candidate)
            gain = evaluation.value - point.value
            if np.isfinite(gain) and gain >= _ARMIJO * slope:
                new = _Point(candidate, evaluation)
                memory.turn(turn)
                taken = box.within(point.vector + step) - point.vector
                memory.add(turn(taken), turn(point.gradient) - new.gradient)
                point, misled, shortened, length = new, False, length < 1.0, 1.0
                vector = point.vector
                history.append(point.value)
                metric = objective.metric(point.vector, point.known)
                if gain > 0.75 * expected and not shortened:  # short steps always have the expected gain
                    damping = _less(damping, _FAST_DAMPING_DECREASE if gain > expected else _DAMPING_DECREASE)
                elif gain < 0.25 * expected:
                    damping = max(4.0 * damping, _MIN_DAMPING)
            elif expected < objective.rounding(point.value):
                return Ascent(vector, tuple(history), "flat")
            elif length < _MIN_STEP_FRACTION:
                return Ascent(vector, tuple(history), "stalled")
            elif damping > _MAX_DAMPING:
                # The step is too long: go to the maximum of the parabola through both values and the slope.
                memory.clear()
                curvature = slope - gain if np.isfinite(gain) else np.inf
                length *= min(max(0.5 * slope / curvature, 0.05), 0.5)
            else:
                # The quadratic model was inaccurate: store the secant pair and increase damping.
                _store_rejected(memory, point, step, evaluation, turn, box)
                more = _DAMPING_INCREASE
                if misled and not gain > _MIN_LOSS_RATIO * refused:
                    more = (
                        _DAMPING_INCREASE**2
                    )  # nearly the same step: this damping is too small to change it
                misled, refused = True, gain
                damping = max(more * damping, more * used, _INITIAL_DAMPING)
    except KeyboardInterrupt:
        return Ascent(vector, tuple(history), "interrupted")
    return Ascent(vector, tuple(history), "max_iter")


def _store_rejected(
    memory: _SecantPairs, point: _Point, step: FloatArray, evaluation: Evaluation, turn: Transport, box: Box
) -> None:
    """Store the secant pair of a rejected step, at its start, if its curvature is positive and finite."""
    if not (np.isfinite(evaluation.value) and np.all(np.isfinite(evaluation.gradient))):
        return
    taken = box.within(point.vector + step) - point.vector
    fall = point.gradient - turn.back(evaluation.gradient)
    if taken @ fall > 0.0:
        memory.add(taken, fall)


def _recent_gain(history: list[float]) -> float:
    """Return the total gain of the last three steps."""
    return history[-1] - history[-1 - _N_RECENT_STEPS] if len(history) > _N_RECENT_STEPS else np.inf


def _less(damping: float, factor: float) -> float:
    return damping / factor if damping > _NEGLIGIBLE_DAMPING else 0.0
