"""The optimizer on problems with known solutions: bounds, curvature, interrupts and stop reasons."""

import numpy as np
import pytest
from scipy.optimize import minimize

from probsfa.statespace.learning.fisher_metric import factorize
from probsfa.statespace.learning.quasi_newton import Box, Evaluation, _SecantPairs, maximize_objective
from tests.tolerances import OPTIM


class Dense:
    """Dense metric with the identity as damping matrix."""

    def __init__(self, matrix):
        self.matrix = matrix

    def solve(self, gradient, free, damping):
        step = np.zeros_like(gradient)
        damped = (self.matrix + damping * np.eye(len(gradient)))[np.ix_(free, free)]
        step[free] = factorize(damped)(gradient[free])
        return step


class Problem:
    """Objective from a function and its gradient, by default with the identity as metric."""

    def __init__(self, function, gradient, size, metric=None, limit=2000, interrupt_at=None):
        self.function, self.gradient, self.limit = function, gradient, limit
        self.matrix = np.eye(size) if metric is None else metric
        self.interrupt_at = interrupt_at
        self.evaluations = []

    @property
    def exhausted(self):
        return len(self.evaluations) >= self.limit

    def rounding(self, value):
        return 1e-14 * abs(value) + 1e-300

    def __call__(self, vector):
        if self.interrupt_at is not None and len(self.evaluations) == self.interrupt_at:
            raise KeyboardInterrupt
        value = self.function(vector)
        self.evaluations.append((value, vector.copy()))
        return Evaluation(value, self.gradient(vector))

    def metric(self, vector, evaluation):
        return Dense(self.matrix)


def quadratic(rng, n, condition=1e4):
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    A = (Q * np.geomspace(1.0, condition, n)) @ Q.T
    b = 10.0 * rng.standard_normal(n)
    return A, b, lambda x: float(b @ x - 0.5 * x @ A @ x), lambda x: b - A @ x


def free_box(n, longest=1e6):
    return Box(np.full(n, -np.inf), np.full(n, longest))


def rosenbrock(x):
    return -float(np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def rosenbrock_gradient(x):
    g = np.zeros_like(x)
    g[:-1] += 400 * x[:-1] * (x[1:] - x[:-1] ** 2) + 2 * (1 - x[:-1])
    g[1:] -= 200 * (x[1:] - x[:-1] ** 2)
    return g


def test_the_exact_metric_needs_one_step(rng):
    A, b, f, g = quadratic(rng, 8)
    problem = Problem(f, g, 8, metric=A)
    found = maximize_objective(problem, np.zeros(8), free_box(8), 1e-10)
    assert found.stop_reason == "converged" and len(problem.evaluations) <= 3
    np.testing.assert_allclose(found.vector, np.linalg.solve(A, b), rtol=1e-8)


def test_a_wrong_metric_is_corrected_by_secant_pairs(rng):
    A, b, f, g = quadratic(rng, 8)
    found = maximize_objective(Problem(f, g, 8, metric=np.diag(np.diag(A))), np.zeros(8), free_box(8), 1e-12)
    assert found.stop_reason in ("converged", "flat")
    assert found.history[-1] == pytest.approx(f(np.linalg.solve(A, b)), rel=1e-10)


@pytest.mark.parametrize("metric", ["right", "diagonal"])
def test_the_optimum_within_bounds_is_found(rng, metric):
    A, b, f, g = quadratic(rng, 6, condition=50.0)
    lower = np.where(np.arange(6) % 2 == 0, np.linalg.solve(A, b) + 1.0, -np.inf)
    problem = Problem(f, g, 6, metric=A if metric == "right" else np.diag(np.diag(A)))
    found = maximize_objective(problem, np.full(6, -5.0), Box(lower, np.full(6, 1e6)), 1e-12)
    assert found.stop_reason in ("converged", "flat")
    assert all(np.all(vector >= lower) for _, vector in problem.evaluations)
    best = minimize(
        lambda x: -f(x),
        np.maximum(np.zeros(6), lower),
        jac=lambda x: -g(x),
        method="L-BFGS-B",
        bounds=[(low if np.isfinite(low) else None, None) for low in lower],
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(found.vector, best.x, rtol=OPTIM, atol=OPTIM)


def test_a_bound_can_be_left_again(rng):
    """A coordinate that starts at its lower bound increases if the gradient is positive."""
    A, b, f, g = quadratic(rng, 4, condition=10.0)
    lower = np.linalg.solve(A, b) - 3.0
    found = maximize_objective(Problem(f, g, 4, metric=A), lower.copy(), Box(lower, np.full(4, 1e6)), 1e-12)
    np.testing.assert_allclose(found.vector, np.linalg.solve(A, b), rtol=1e-6)


@pytest.mark.parametrize("n", [2, 6])
def test_rosenbrocks_valley(n):
    start = np.full(n, -1.2)
    start[1::2] = 1.0
    problem = Problem(rosenbrock, rosenbrock_gradient, n)
    found = maximize_objective(problem, start, free_box(n), 1e-12)
    assert found.stop_reason in ("converged", "flat")
    np.testing.assert_allclose(found.vector, 1.0, atol=OPTIM)


def test_the_value_never_falls():
    problem = Problem(rosenbrock, rosenbrock_gradient, 4)
    found = maximize_objective(problem, np.array([-1.2, 1.0, -1.2, 1.0]), free_box(4), 1e-12)
    assert np.all(np.diff(found.history) >= 0.0)
    assert found.history[-1] == max(value for value, _ in problem.evaluations)
    assert rosenbrock(found.vector) == found.history[-1]


@pytest.mark.parametrize("longest", [0.05, 1.0])
def test_steps_are_no_longer_than_allowed(longest):
    problem = Problem(rosenbrock, rosenbrock_gradient, 2)
    maximize_objective(problem, np.array([-1.2, 1.0]), free_box(2, longest), 1e-12)
    accepted = [problem.evaluations[0]]
    for value, vector in problem.evaluations[1:]:
        assert np.max(np.abs(vector - accepted[-1][1])) <= longest * (1 + 1e-12)
        if value > accepted[-1][0]:
            accepted.append((value, vector))


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_the_limit_is_kept(limit):
    problem = Problem(rosenbrock, rosenbrock_gradient, 2, limit=limit)
    found = maximize_objective(problem, np.array([-1.2, 1.0]), free_box(2), 1e-12)
    assert found.stop_reason == "max_iter" and len(problem.evaluations) == limit
    assert found.history[-1] == rosenbrock(found.vector) == max(value for value, _ in problem.evaluations)


@pytest.mark.parametrize("interrupt_at", [1, 2, 9])
def test_an_interrupt_keeps_the_best(interrupt_at):
    problem = Problem(rosenbrock, rosenbrock_gradient, 2, interrupt_at=interrupt_at)
    found = maximize_objective(problem, np.array([-1.2, 1.0]), free_box(2), 1e-12)
    assert found.stop_reason == "interrupted"
    assert rosenbrock(found.vector) == found.history[-1] == max(value for value, _ in problem.evaluations)


def test_an_interrupt_before_the_first_evaluation_returns_the_start():
    problem = Problem(rosenbrock, rosenbrock_gradient, 2, interrupt_at=0)
    found = maximize_objective(problem, np.array([-1.2, 1.0]), free_box(2), 1e-12)
    assert found.stop_reason == "interrupted" and found.history == ()
    np.testing.assert_array_equal(found.vector, [-1.2, 1.0])


def test_the_optimum_is_recognised_at_once(rng):
    A, b, f, g = quadratic(rng, 4)
    problem = Problem(f, g, 4, metric=A)
    found = maximize_objective(problem, np.linalg.solve(A, b), free_box(4), 1e-6)
    assert found.stop_reason == "converged" and len(problem.evaluations) == 1


def test_gains_below_rounding_errors_stop_the_search(rng):
    """If the tolerance is below rounding errors, the optimizer stops with the reason "flat"."""
    A, b, f, g = quadratic(rng, 4)
    problem = Problem(lambda x: round(f(x), 3), g, 4, metric=10.0 * A)
    problem.rounding = lambda value: 1e-2
    found = maximize_objective(problem, np.zeros(4), free_box(4), 1e-20)
    assert found.stop_reason in ("flat", "converged") and len(problem.evaluations) < 200
    assert found.history[-1] == pytest.approx(f(np.linalg.solve(A, b)), abs=2e-2)


def test_a_wrong_gradient_ends_as_stalled(rng):
    A, b, f, g = quadratic(rng, 4)
    problem = Problem(f, lambda x: -g(x), 4, metric=A)
    found = maximize_objective(problem, np.zeros(4), free_box(4), 1e-8)
    assert found.stop_reason == "stalled" and len(problem.evaluations) < 200
    np.testing.assert_array_equal(found.vector, 0.0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_shorten_the_step(bad):
    """The objective is NaN beyond a boundary: the optimizer finds the maximum on the other side."""

    def value(x):
        return -float((x[0] - 1.0) ** 2) if x[0] < 2.0 else bad

    problem = Problem(value, lambda x: -2.0 * (x - 1.0), 1, metric=np.full((1, 1), 0.05))
    found = maximize_objective(problem, np.array([-3.0]), free_box(1), 1e-12)
    np.testing.assert_allclose(found.vector, 1.0, atol=1e-5)


def test_a_start_that_is_not_finite_stops_the_search():
    problem = Problem(lambda x: np.nan, lambda x: np.full(2, np.nan), 2)
    found = maximize_objective(problem, np.zeros(2), free_box(2), 1e-6)
    assert found.stop_reason == "stalled" and len(problem.evaluations) < 200


def test_the_optimum_is_found_with_a_singular_metric(rng):
    A, b, f, g = quadratic(rng, 4, condition=10.0)
    rank_one = np.outer(A[0], A[0])
    found = maximize_objective(Problem(f, g, 4, metric=rank_one), np.zeros(4), free_box(4, 10.0), 1e-10)
    np.testing.assert_allclose(found.vector, np.linalg.solve(A, b), rtol=1e-3, atol=1e-3)


def test_upper_bounds_and_fixed_coordinates_are_satisfied(rng):
    A, b, f, g = quadratic(rng, 6, condition=50.0)
    best = np.linalg.solve(A, b)
    upper = np.where(np.arange(6) % 2 == 0, best - 1.0, np.inf)
    lower = np.full(6, -np.inf)
    lower[5] = upper[5] = 0.3
    problem = Problem(f, g, 6, metric=A)
    end = maximize_objective(problem, np.full(6, -5.0), Box(lower, np.full(6, 1e6), upper), 1e-12)
    assert all(np.all(vector <= upper) and vector[5] == 0.3 for _, vector in problem.evaluations)
    wanted = minimize(
        lambda x: -f(x),
        np.minimum(np.zeros(6), upper),
        jac=lambda x: -g(x),
        method="L-BFGS-B",
        bounds=list(zip(lower, upper, strict=True)),
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    np.testing.assert_allclose(end.vector, wanted.x, rtol=OPTIM, atol=OPTIM)


def test_a_rejected_step_updates_the_curvature():
    """The metric is wrong by 1e4 in one direction; the secant pair of the rejected step corrects it."""
    A, b = np.diag([1.0, 2.0, 1e4]), np.array([1.0, 2.0, 50.0])
    problem = Problem(lambda x: float(b @ x - 0.5 * x @ A @ x), lambda x: b - A @ x, 3)
    end = maximize_objective(problem, np.zeros(3), free_box(3), 1e-8)
    best = 0.5 * float(b @ np.linalg.solve(A, b))
    assert problem.evaluations[1][0] < 0.0  # the first step is rejected
    # Without the pair the optimizer requires 13 evaluations.
    assert len(end.history) == len(problem.evaluations) - 1
    assert len(problem.evaluations) <= 7
    assert end.history[-1] == pytest.approx(best, abs=1e-8)


def test_a_coordinate_at_its_longest_step_does_not_shorten_the_others(rng):
    """The step of the other coordinates solves the linear system without the limited one."""
    A, b, f, g = quadratic(rng, 6, condition=10.0)
    best = np.linalg.solve(A, b)
    far = int(np.argmax(np.abs(best)))
    longest = np.full(6, 1e3)
    longest[far] = 1e-3 * abs(best[far])
    problem = Problem(f, g, 6, metric=A, limit=2)
    maximize_objective(problem, np.zeros(6), Box(np.full(6, -np.inf), longest), 1e-12)
    first, others = problem.evaluations[1][1], np.arange(6) != far
    limit = np.sign(best[far]) * longest[far]
    assert first[far] == pytest.approx(limit, rel=1e-6)
    wanted = np.linalg.solve(A[np.ix_(others, others)], b[others] - A[others, far] * limit)
    np.testing.assert_allclose(first[others], wanted, rtol=1e-6)


def test_damping_that_grows_by_large_factors_shortens_the_step():
    """Damping increases by large factors without effect; then the step is shortened."""

    class Leaping:
        def solve(self, gradient, free, damping):
            return gradient * (1e9 if damping > 5e-4 else 0.016 if damping > 0.0 else 0.02)

    # Gradients are NaN for negative values, so that secant pairs of rejected steps are not stored.
    def value(x):
        return float(np.sum(np.where(x > 0.0, -50.0 * x**2, -13.5 + 55.0 * np.minimum(x + 0.3, 0.0))))

    n = 6  # more coordinates than the optimizer limits to their longest steps
    problem = Problem(value, lambda x: np.where(x > 0.0, -100.0 * x, np.nan), n, limit=40)
    problem.metric = lambda vector, evaluation: Leaping()
    found = maximize_objective(problem, np.full(n, 0.5), free_box(n, longest=1.0), 1e-6)
    assert found.stop_reason != "stalled"
    assert found.history[-1] > -6.0


def test_cached_directions_equal_directions_without_cache(rng):
    """Directions equal those without cache, for any fixed coordinates."""
    n = 6
    metric, gradient = Dense(np.diag(rng.uniform(1.0, 3.0, n))), rng.standard_normal(n)
    rotation, _ = np.linalg.qr(rng.standard_normal((n, n)))
    all_but_one = np.arange(n) != 2

    def without_cache(pairs, free):
        stored = _SecantPairs()
        for step, gradient_decrease in pairs:
            stored.add(step, gradient_decrease)
        return stored.direction(gradient, metric, free, 0.1)

    stored, pairs = _SecantPairs(), []
    for free in (np.ones(n, dtype=bool), all_but_one, np.ones(n, dtype=bool)):
        step = rng.standard_normal(n)
        pairs.append((step, 2.0 * step))
        stored.add(*pairs[-1])
        np.testing.assert_array_equal(
            stored.direction(gradient, metric, free, 0.1), without_cache(pairs, free)
        )
        np.testing.assert_array_equal(
            stored.direction(gradient, metric, ~free | all_but_one, 0.1),
            without_cache(pairs, ~free | all_but_one),
        )
        pairs = [(rotation @ s, rotation @ y) for s, y in pairs]
        stored.transport(lambda change: rotation @ change)
        np.testing.assert_array_equal(
            stored.direction(gradient, metric, free, 0.1), without_cache(pairs, free)
        )
    stored.clear()
    np.testing.assert_array_equal(
        stored.direction(gradient, metric, all_but_one, 0.1), without_cache([], all_but_one)
    )
