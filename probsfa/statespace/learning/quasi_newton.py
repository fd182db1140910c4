"""Quasi-Newton ascent in a metric, and with a damping matrix, that the problem supplies.

The metric is close to minus the second derivative. Its inverse stands in the middle of the limited-memory
BFGS recursion, in place of the usual multiple of the identity; the remembered pairs correct what the metric
leaves out. Where the quadratic model misleads, a multiple of the damping matrix is added to the metric, as
Levenberg and Marquardt do: directions of which the data say little are held back first. A step that lowers
the objective is never taken, but it is remembered as well: its secant pair tells of the curvature that the
step missed (as in Nocedal & Wright 2006, Numerical Optimization, section 6.2). Coordinates may have bounds,
and an objective may have its steps follow curves (``move``); what is remembered is then brought along.

A few coordinates whose steps are too long are held at their longest, and all others take the best step beside
that: scaling the whole step down for the sake of one would let the others creep.
"""

from collections import deque
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from probsfa._typing import BoolArray, FloatArray

Ending = Literal["converged", "flat", "max_iter", "stalled", "interrupted"]

_MEMORY = 12
_ARMIJO = 1e-4
_LEAST_DAMPING = 1e-9
# Damping after a step that was refused, at least, and damping that is as good as none.
_FIRST_DAMPING, _NO_DAMPING = 1e-4, 1e-6
# Damping beyond which it is the step's length that misleads; and the shortest part of a step.
_ENOUGH_DAMPING, _SHORTEST = 1.0, 1e-6
# Factors by which damping rises after a refused step, and falls after one that gained as promised, or more.
_MORE, _FEWER, _FAR_FEWER = 10.0, 3.0, 10.0
# Part of what a refused step lost that the next one loses, too, where damping has hardly changed it.
_ALIKE = 0.5
_MOST_EXCESS = 4.0
_SHORTENING = 30.0
# Coordinates that are held at their longest steps, at most, and rounds in which they are found.
_MOST_HELD, _HOLDING_ROUNDS = 4, 3
_RECENT_STEPS = 3


class Evaluation(NamedTuple):
    """What an objective knows at a vector: its value, gradient (P,) and anything its metric needs."""

    value: float
    gradient: FloatArray
    detail: Any = None


class Curvature(Protocol):
    """A positive definite metric and damping matrix."""

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float) -> FloatArray:
        """Solve with metric plus ``damping`` times damping matrix; what is not free stays zero."""
        ...


class Objective(Protocol):
    """What is maximised: a value in nats, its gradient, and a metric close to minus its second derivative."""

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        ...

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Value and gradient at ``vector``."""
        ...

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Curvature:
        """A metric near minus the second derivative, with a damping matrix."""
        ...

    def rounding(self, value: float) -> float:
        """Smallest change of the value that is more than rounding."""
        ...


class Transport(Protocol):
    """Brings changes of the coordinates, and slopes by them, along a step."""

    def __call__(self, change: FloatArray, /) -> FloatArray:
        """A vector (P,) where the step begins, as it is where the step ends."""
        ...

    def back(self, change: FloatArray, /) -> FloatArray:
        """A vector (P,) where the step ends, as it is where the step begins."""
        ...


class Still:
    """The transport along a straight line, on which nothing turns."""

    def __call__(self, change: FloatArray) -> FloatArray:
        """The same vector."""
        return change

    def back(self, change: FloatArray) -> FloatArray:
        """The same vector."""
        return change


def straight(vector: FloatArray, step: FloatArray) -> tuple[FloatArray, Transport]:
    """Take a step along a straight line."""
    return vector + step, Still()


class Box(NamedTuple):
    """Limits of the ascent: bounds (P,) and the ``longest`` step of each coordinate (P,).

    A coordinate whose ``lower`` and ``upper`` bounds are equal is held. Without upper bounds there are none.
    """

    lower: FloatArray
    longest: FloatArray
    upper: FloatArray | float = np.inf

    def within(self, vector: FloatArray) -> FloatArray:
        """The vector, moved to the nearest place within the bounds."""
        return np.minimum(np.maximum(vector, self.lower), self.upper)

    def free(self, vector: FloatArray, gradient: FloatArray) -> BoolArray:
        """Coordinates (P,) that are not at a bound beyond which the gradient points."""
        below = (vector <= self.lower) & (gradient < 0.0)
        above = (vector >= self.upper) & (gradient > 0.0)
        return ~(below | above | (self.lower == self.upper))


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
        self._kept: tuple[bytes, list[tuple[FloatArray, FloatArray, float]]] | None = None

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def clear(self) -> None:
        self.pairs.clear()
        self._kept = None

    def add(self, step: FloatArray, fall: FloatArray) -> None:
        """A step, and how much less the gradient is at its end."""
        self.pairs.append((step, fall))
        self._kept = None

    def turn(self, turn: Transport) -> None:
        """Bring all pairs to where a step has led."""
        for i, (step, fall) in enumerate(self.pairs):
            self.pairs[i] = (turn(step), turn(fall))
        self._kept = None

    def _among(self, free: BoolArray) -> list[tuple[FloatArray, FloatArray, float]]:
        """Return pairs on the free coordinates, with their products, where the objective curves along them.

        The result is cached: one step takes several directions, at other damping and with held coordinates.
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
        """Ascent direction: the two-loop recursion on the free coordinates, around the inverse metric."""
        kept = self._among(free)
        q = gradient * free
        alphas = []
        for s, y, sy in reversed(kept):
            alphas.append(float(s @ q) / sy)
            q = q - alphas[-1] * y
        q = metric.solve(q, free, damping)
        for (s, y, sy), alpha in zip(kept, reversed(alphas), strict=True):
            q = q + (alpha - float(y @ q) / sy) * s
        return q


def _bounded_step(
    memory: _Memory,
    point: _Point,
    free: BoolArray,
    metric: Curvature,
    damping: float,
    box: Box,
) -> tuple[FloatArray | None, float, float]:
    """Step within the box's limits, the factor by which it had to be shortened, and the damping it took.

    A step far beyond the limits in one badly determined direction would be short in all others once it is
    scaled down, so damping takes the first part of the shortening.
    """
    while True:
        step = memory.direction(point.gradient, metric, free, damping)
        if not np.all(np.isfinite(step)):
            return None, 1.0, damping
        step = _with_held(step, memory, free, metric, damping, box)
        excess = max(1.0, float(np.max(np.abs(step) / box.longest)))
        if excess <= _MOST_EXCESS or damping >= 1.0:
            return step / excess, excess, damping
        damping = max(_SHORTENING * damping, _LEAST_DAMPING)


def _with_held(
    step: FloatArray, memory: _Memory, free: BoolArray, metric: Curvature, damping: float, box: Box
) -> FloatArray:
    """Best step in the quadratic model with the few coordinates that are too long held at their longest.

    With the inverse ``H`` of the model's matrix the best step is ``H (g - f)``, where ``f`` are the forces on
    the held coordinates that bring them to where they are held.
    """
    held: list[int] = []
    columns: list[FloatArray] = []
    best = step
    for _ in range(_HOLDING_ROUNDS):
        # Those that are held are so up to rounding.
        over = np.flatnonzero(np.abs(best) > (1.0 + 1e-6) * box.longest)
        if over.size == 0 or over.size + len(held) > _MOST_HELD:
            break
        for i in over.tolist():
            held.append(i)
            columns.append(memory.direction(np.eye(1, step.size, i)[0], metric, free, damping))
        inverse = np.array(columns).T
        places = np.sign(step[held]) * box.longest[held]
        try:
            tried = step - inverse @ np.linalg.solve(inverse[held], step[held] - places)
        except np.linalg.LinAlgError:
            break
        if not np.all(np.isfinite(tried)):
            break
        best = tried
    return best


def ascend(
    objective: Objective,
    start: FloatArray,
    box: Box,
    tol: float,
    known: Evaluation | None = None,
) -> Ascent:
    """Ascend until a further step is expected to gain less than ``tol``.

    Parameters
    ----------
    objective : Objective
        Value, gradient, metric and damping matrix.
    start : ndarray of shape (P,)
        Where to begin.
    box : Box
        Bounds and longest steps.
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
    move = getattr(objective, "move", straight)
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
            # What the step before took is a guess of what it takes now.
            least = max(damping, used / _SHORTENING**2 if used > _LEAST_DAMPING * _SHORTENING**2 else 0.0)
            step, excess, used = _bounded_step(memory, point, free, metric, least, box)
            if step is None:
                return Ascent(vector, tuple(history), "stalled")
            step *= length
            slope = float(point.gradient @ step)
            expected = 0.5 * slope
            if slope <= 0.0 and memory:
                memory.clear()
                continue
            if expected * excess < tol * length:
                if least == 0.0 or _recent_gain(history) < _RECENT_STEPS * tol:
                    return Ascent(vector, tuple(history), "converged")
                # A damped step promises less than a free one: ask again before believing it.
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
                if gain > 0.75 * expected and not shortened:  # a short step always gains what it promises
                    damping = _less(damping, _FAR_FEWER if gain > expected else _FEWER)
                elif gain < 0.25 * expected:
                    damping = max(4.0 * damping, _LEAST_DAMPING)
            elif expected < objective.rounding(point.value):
                return Ascent(vector, tuple(history), "flat")
            elif length < _SHORTEST:
                return Ascent(vector, tuple(history), "stalled")
            elif damping > _ENOUGH_DAMPING:
                # It is the length that misleads: to the maximum of the parabola through what is known.
                memory.clear()
                curvature = slope - gain if np.isfinite(gain) else np.inf
                length *= min(max(0.5 * slope / curvature, 0.05), 0.5)
            else:
                # The quadratic model misled: remember what was missing in it, and damp.
                _remember_refused(memory, point, step, evaluation, turn, box)
                more = _MORE
                if misled and not gain > _ALIKE * refused:
                    more = _MORE**2  # the same step, nearly: this damping does not reach what misled
                misled, refused = True, gain
                damping = max(more * damping, more * used, _FIRST_DAMPING)
    except KeyboardInterrupt:
        return Ascent(vector, tuple(history), "interrupted")
    return Ascent(vector, tuple(history), "max_iter")


def _remember_refused(
    memory: _Memory, point: _Point, step: FloatArray, evaluation: Evaluation, turn: Transport, box: Box
) -> None:
    """Keep the pair of a step that was not taken, seen from where it began, if the objective curves along it.

    Pairs without such curvature tell nothing, and pairs of gradients that are no numbers would spoil all.
    """
    if not (np.isfinite(evaluation.value) and np.all(np.isfinite(evaluation.gradient))):
        return
    taken = box.within(point.vector + step) - point.vector
    fall = point.gradient - turn.back(evaluation.gradient)
    if taken @ fall > 0.0:
        memory.add(taken, fall)


def _recent_gain(history: list[float]) -> float:
    """Gain of the last three steps together."""
    return history[-1] - history[-1 - _RECENT_STEPS] if len(history) > _RECENT_STEPS else np.inf


def _less(damping: float, factor: float) -> float:
    return damping / factor if damping > _NO_DAMPING else 0.0
