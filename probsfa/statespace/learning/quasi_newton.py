"""Quasi-Newton optimizer with a metric and a damping matrix from the objective.

The algorithm is limited-memory BFGS. The metric approximates minus the second derivative, and its inverse
replaces the usual multiple of the identity in the two-loop recursion; the stored secant pairs correct the
metric. If the quadratic model is inaccurate, a multiple of the damping matrix is added to the metric
(Levenberg-Marquardt), which mainly shortens steps along directions with little information. A step that
lowers the objective is rejected, but its secant pair is stored, because it has information about the
curvature (as in Nocedal & Wright 2006, Numerical Optimization, section 6.2). Coordinates may have bounds. An
objective with a method ``move`` takes steps along curves; stored pairs are then transported along the curves.

If the steps of a few coordinates are longer than allowed, these coordinates are limited to their longest
steps, and the step of all other coordinates is optimal given these limits. To scale the complete step instead
would shorten the steps of all coordinates.
"""

from collections import deque
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np

from probsfa._typing import BoolArray, FloatArray

StopReason = Literal["converged", "flat", "max_iter", "stalled", "interrupted"]

# Number of secant pairs.
_N_STORED_PAIRS = 12
# Minimum gain of an accepted step, as a fraction of the gain of the linear model (Armijo condition).
_ARMIJO = 1e-4
# Minimum positive damping; minimum damping after a rejected step; and value up to which damping is set to
# zero instead of being divided by a factor.
_MIN_DAMPING, _INITIAL_DAMPING, _NEGLIGIBLE_DAMPING = 1e-9, 1e-4, 1e-6
# Above `_MAX_DAMPING`, a rejected step is shortened instead of damped more, down to `_MIN_STEP_FRACTION` of
# its length.
_MAX_DAMPING, _MIN_STEP_FRACTION = 1.0, 1e-6
# Factors of damping: of its increase after a rejected step; of its decrease after a step with three quarters
# of the predicted gain or more; and of its decrease after a step with more than the predicted gain.
_DAMPING_INCREASE, _DAMPING_DECREASE, _FAST_DAMPING_DECREASE = 10.0, 3.0, 10.0
# Minimum ratio of the losses of two successive rejected steps; above it, the increase of damping had little
# effect.
_MIN_LOSS_RATIO = 0.5
# If a step is longer than `_MAX_STEP_EXCESS` times the longest allowed step, damping is multiplied by
# `_DAMPING_RATIO` before the step is scaled.
_MAX_STEP_EXCESS, _DAMPING_RATIO = 4.0, 30.0
# Coordinates that are limited to their longest steps: their maximum number, and maximum number of iterations
# to select them.
_MAX_LIMITED, _LIMITING_ITERATIONS = 4, 3
# With damping, the fit converges only if the total gain of this number of steps is below the same number of
# tolerances.
_N_RECENT_STEPS = 3


class Evaluation(NamedTuple):
    """Value and gradient (P,) of the objective at a vector; ``detail`` is used to compute its metric."""

    value: float
    gradient: FloatArray
    detail: Any = None


class Curvature(Protocol):
    """Metric and damping matrix, both positive definite."""

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float) -> FloatArray:
        """Solve with the metric plus ``damping`` times the damping matrix; fixed coordinates are zero."""
        ...


class Objective(Protocol):
    """Function to maximize, in nats, with its gradient and metric.

    It may have a method ``move(vector, step)`` that returns the vector after the step and the transport along
    the step; the default is :func:`straight_step`.
    """

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
    """Transport of coordinate changes and gradients along a step (vector transport on a manifold)."""

    def __call__(self, change: FloatArray, /) -> FloatArray:
        """Transport a vector (P,) from the start of the step to its end."""
        ...

    def back(self, change: FloatArray, /) -> FloatArray:
        """Transport a vector (P,) from the end of the step to its start."""
        ...


class IdentityTransport:
    """Transport along a straight line, the identity."""

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
    """Bounds ``lower`` and ``upper`` (P,) and longest steps ``max_step`` (P,) of the coordinates.

    A coordinate whose ``lower`` and ``upper`` bounds are equal is fixed. Upper bounds are optional.
    """

    lower: FloatArray
    max_step: FloatArray
    upper: FloatArray | float = np.inf

    def clip(self, vector: FloatArray) -> FloatArray:
        """Return the vector clipped to the bounds."""
        return np.minimum(np.maximum(vector, self.lower), self.upper)

    def free(self, vector: FloatArray, gradient: FloatArray) -> BoolArray:
        """Return a mask (P,) of coordinates that are not fixed and can change in the gradient direction."""
        below = (vector <= self.lower) & (gradient < 0.0)
        above = (vector >= self.upper) & (gradient > 0.0)
        return ~(below | above | (self.lower == self.upper))


class Ascent(NamedTuple):
    """Result of the optimizer: best vector, values at the start and after each accepted step, stop reason."""

    vector: FloatArray
    history: tuple[float, ...]
    stop_reason: StopReason


class _Point(NamedTuple):
    """A vector and the objective there."""

    vector: FloatArray
    evaluation: Evaluation

    @property
    def value(self) -> float:
        return self.evaluation.value

    @property
    def gradient(self) -> FloatArray:
        return self.evaluation.gradient


class _SecantPairs:
    """The last secant pairs; each is a step and the decrease of the gradient along it."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[FloatArray, FloatArray]] = deque(maxlen=_N_STORED_PAIRS)
        self._cached: tuple[bytes, list[tuple[FloatArray, FloatArray, float]]] | None = None

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def clear(self) -> None:
        self.pairs.clear()
        self._cached = None

    def add(self, step: FloatArray, gradient_decrease: FloatArray) -> None:
        """Store a step and the decrease of the gradient along it."""
        self.pairs.append((step, gradient_decrease))
        self._cached = None

    def transport(self, transport: Transport) -> None:
        """Transport all pairs along a step."""
        for i, (step, gradient_decrease) in enumerate(self.pairs):
            self.pairs[i] = (transport(step), transport(gradient_decrease))
        self._cached = None

    def _on_free(self, free: BoolArray) -> list[tuple[FloatArray, FloatArray, float]]:
        """Return the pairs ``s``, ``y`` with positive curvature on the free coordinates, and ``s' y``.

        The result is cached, because several directions are computed for a step, with different damping or
        limited coordinates.
        """
        key = free.tobytes()
        if self._cached is None or self._cached[0] != key:
            pairs = self.pairs if free.all() else [(s * free, y * free) for s, y in self.pairs]
            products = [(s, y, float(s @ y)) for s, y in pairs]
            curved = [(s, y, sy) for s, y, sy in products if sy > 1e-10 * np.sqrt((s @ s) * (y @ y))]
            self._cached = key, curved
        return self._cached[1]

    def direction(
        self, gradient: FloatArray, metric: Curvature, free: BoolArray, damping: float
    ) -> FloatArray:
        """Compute the ascent direction on the free coordinates by two-loop recursion with the metric."""
        retained = self._on_free(free)
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
    pairs: _SecantPairs,
    point: _Point,
    free: BoolArray,
    metric: Curvature,
    damping: float,
    box: Box,
) -> tuple[FloatArray | None, float, float]:
    """Return a step within the longest steps, the factor by which it was shortened, and its damping.

    A step may be much too long in one direction with little information. Scaling alone would make it very
    short in all other directions. Damping is therefore increased before the step is scaled. The step is None
    if it is not finite.
    """
    while True:
        step = pairs.direction(point.gradient, metric, free, damping)
        if not np.all(np.isfinite(step)):
            return None, 1.0, damping
        step = _with_limited_coordinates(step, pairs, free, metric, damping, box)
        excess = max(1.0, float(np.max(np.abs(step) / box.max_step)))
        if excess <= _MAX_STEP_EXCESS or damping >= _MAX_DAMPING:
            return step / excess, excess, damping
        damping = max(_DAMPING_RATIO * damping, _MIN_DAMPING)


def _with_limited_coordinates(
    step: FloatArray, pairs: _SecantPairs, free: BoolArray, metric: Curvature, damping: float, box: Box
) -> FloatArray:
    """Return the optimal step of the quadratic model, with a few coordinates limited to their longest steps.

    With the inverse ``H`` of the matrix of the model and the gradient ``g``, the step is ``H (g - f)``, where
    ``f`` are the Lagrange multipliers of the limited coordinates. At most four coordinates
    are limited: if more steps are too long, the last step with at most four limited coordinates is returned,
    which may be too long in other coordinates.
    """
    limited: list[int] = []
    columns: list[FloatArray] = []
    limited_step = step
    for _ in range(_LIMITING_ITERATIONS):
        # The tolerance excludes coordinates that are already limited, up to rounding errors.
        too_long = np.flatnonzero(np.abs(limited_step) > (1.0 + 1e-6) * box.max_step)
        if too_long.size == 0 or too_long.size + len(limited) > _MAX_LIMITED:
            break
        for i in too_long.tolist():
            limited.append(i)
            columns.append(pairs.direction(np.eye(1, step.size, i)[0], metric, free, damping))
        inverse = np.array(columns).T
        limits = np.sign(step[limited]) * box.max_step[limited]
        try:
            solution = step - inverse @ np.linalg.solve(inverse[limited], step[limited] - limits)
        except np.linalg.LinAlgError:
            break
        if not np.all(np.isfinite(solution)):
            break
        limited_step = solution
    return limited_step


def maximize_objective(
    objective: Objective,
    start: FloatArray,
    box: Box,
    tol: float,
    start_evaluation: Evaluation | None = None,
) -> Ascent:
    """Maximize an objective until the predicted gain of a further step is less than ``tol``.

    Parameters
    ----------
    objective : Objective
        Value, gradient, metric and damping matrix.
    start : ndarray of shape (P,)
        Initial vector.
    box : Box
        Bounds and longest steps.
    tol : float
        Predicted gain of a further step at which the optimizer ends, in the units of the value.
    start_evaluation : Evaluation, optional
        The objective at ``start``, if it is already evaluated.

    Returns
    -------
    Ascent
        After a keyboard interrupt, with the best point so far.
    """
    pairs = _SecantPairs()
    move = getattr(objective, "move", straight_step)
    history: list[float] = []
    vector = box.clip(start)
    damping, used_damping, previous_rejected, rejected_gain, step_fraction = 0.0, 0.0, False, 0.0, 1.0
    try:
        point = _Point(vector, objective(vector) if start_evaluation is None else start_evaluation)
        if not (np.isfinite(point.value) and np.all(np.isfinite(point.gradient))):
            return Ascent(vector, (), "stalled")
        history.append(point.value)
        metric = objective.metric(point.vector, point.evaluation)
        while not objective.exhausted:
            free = box.free(point.vector, point.gradient)
            # Minimum damping: a small fraction of the damping of the previous step.
            min_damping = damping
            if used_damping > _MIN_DAMPING * _DAMPING_RATIO**2:
                min_damping = max(damping, used_damping / _DAMPING_RATIO**2)
            step, excess, used_damping = _bounded_step(pairs, point, free, metric, min_damping, box)
            if step is None:
                return Ascent(vector, tuple(history), "stalled")
            step *= step_fraction
            directional_derivative = float(point.gradient @ step)
            predicted_gain = 0.5 * directional_derivative
            if directional_derivative <= 0.0 and pairs:
                pairs.clear()
                continue
            if predicted_gain * excess < tol * step_fraction:
                if min_damping == 0.0 or _recent_gain(history) < _N_RECENT_STEPS * tol:
                    return Ascent(vector, tuple(history), "converged")
                # Damping reduces the predicted gain; a step without damping is tried before the end.
                if not previous_rejected:
                    damping = used_damping = 0.0
                    continue
            reached, transport = move(point.vector, step)
            candidate = box.clip(reached)
            evaluation = objective(candidate)
            gain = evaluation.value - point.value
            if np.isfinite(gain) and gain >= _ARMIJO * directional_derivative:
                accepted = _Point(candidate, evaluation)
                pairs.transport(transport)
                actual_step = box.clip(point.vector + step) - point.vector
                pairs.add(transport(actual_step), transport(point.gradient) - accepted.gradient)
                point, previous_rejected, shortened, step_fraction = accepted, False, step_fraction < 1.0, 1.0
                vector = point.vector
                history.append(point.value)
                metric = objective.metric(point.vector, point.evaluation)
                # The gain of a shortened step is always close to the predicted gain.
                if gain > 0.75 * predicted_gain and not shortened:
                    more_than_predicted = gain > predicted_gain
                    factor = _FAST_DAMPING_DECREASE if more_than_predicted else _DAMPING_DECREASE
                    damping = damping / factor if damping > _NEGLIGIBLE_DAMPING else 0.0
                elif gain < 0.25 * predicted_gain:
                    damping = max(4.0 * damping, _MIN_DAMPING)
            elif predicted_gain < objective.rounding(point.value):
                return Ascent(vector, tuple(history), "flat")
            elif step_fraction < _MIN_STEP_FRACTION:
                return Ascent(vector, tuple(history), "stalled")
            elif damping > _MAX_DAMPING:
                # Shorten the step to the maximum of the parabola through both values and the derivative.
                pairs.clear()
                curvature = directional_derivative - gain if np.isfinite(gain) else np.inf
                step_fraction *= min(max(0.5 * directional_derivative / curvature, 0.05), 0.5)
            else:
                # The quadratic model was inaccurate: store the secant pair and increase damping.
                _store_rejected(pairs, point, step, evaluation, transport, box)
                factor = _DAMPING_INCREASE
                if previous_rejected and not gain > _MIN_LOSS_RATIO * rejected_gain:
                    factor **= 2  # the last increase hardly changed the step
                previous_rejected, rejected_gain = True, gain
                damping = max(factor * damping, factor * used_damping, _INITIAL_DAMPING)
    except KeyboardInterrupt:
        return Ascent(vector, tuple(history), "interrupted")
    return Ascent(vector, tuple(history), "max_iter")


def _store_rejected(
    pairs: _SecantPairs,
    point: _Point,
    step: FloatArray,
    evaluation: Evaluation,
    transport: Transport,
    box: Box,
) -> None:
    """Store the secant pair of a rejected step if its curvature is positive and finite.

    The gradient at the end of the step is transported back to its start.
    """
    if not (np.isfinite(evaluation.value) and np.all(np.isfinite(evaluation.gradient))):
        return
    taken = box.clip(point.vector + step) - point.vector
    gradient_decrease = point.gradient - transport.back(evaluation.gradient)
    if taken @ gradient_decrease > 0.0:
        pairs.add(taken, gradient_decrease)


def _recent_gain(history: list[float]) -> float:
    """Return the total gain of the last three steps; infinite if there are fewer."""
    return history[-1] - history[-1 - _N_RECENT_STEPS] if len(history) > _N_RECENT_STEPS else np.inf
