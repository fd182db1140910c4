"""Hamiltonian Monte Carlo of free values, and annealed importance sampling of integrals over them.

The mass matrix is the precision of a Gaussian reference, in which columns are independent AR(1) processes
with the variances and lag-one correlations of the data. A diagonal mass matrix would make moves of slow
trajectories much shorter than moves of single values. Annealed importance sampling runs in both directions
between a normalized density and the target density.

In the shapes below, ``F`` is the number of free values and ``c`` the number of chains.

References
----------
Duane, Kennedy, Pendleton & Roweth (1987), Hybrid Monte Carlo, Physics Letters B 195:216.
Neal (2001), Annealed importance sampling, Statistics and Computing 11:125.
Bennett (1976), Efficient estimation of free energy differences, Journal of Computational Physics 22:245.
Grosse, Ghahramani & Adams (2015), Sandwiching the marginal likelihood using bidirectional Monte Carlo,
arXiv:1511.02543.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import cho_solve_banded, cholesky_banded, solve_banded
from scipy.special import expit, logsumexp

from probsfa._typing import BoolArray, FloatArray
from probsfa.extensions.experts.potential import starts_of

__all__ = [
    "Base",
    "Columns",
    "LogIntegral",
    "Reference",
    "State",
    "Stepsize",
    "log_integral",
    "move",
    "reflect",
]

# Target acceptance probability.
_TARGET_ACCEPTANCE = 0.8
# Smallest and largest step size, in standard deviations of the reference.
_MIN_STEP_SIZE, _MAX_STEP_SIZE = 1e-6, 1.0
# Largest lag-one correlation of a column of the reference.
_MAX_DECAY = 0.995
# Number of bisection steps; they reduce an interval of hundreds of nats far below a thousandth of a nat.
_BISECTIONS = 50

#: Log density (c,) and its derivative (F, c) at values (F, c).
Density = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class Columns(NamedTuple):
    """Columns as independent AR(1) processes: means, variances and lag-one correlations, each (D,)."""

    mean: FloatArray
    variance: FloatArray
    decay: FloatArray

    @classmethod
    def of(cls, values: FloatArray, lengths: Sequence[int]) -> "Columns":
        """Estimate the processes from rows (N, D), NaN where missing; each column has an observation."""
        mean = np.nanmean(values, axis=0)
        deviations = values - mean
        variance = np.nanmean(deviations**2, axis=0)
        variance = np.where(variance > 0.0, variance, 1.0)
        later = np.flatnonzero(~starts_of(lengths))
        products = deviations[later] * deviations[later - 1]
        counts = np.sum(~np.isnan(products), axis=0)
        decay = np.nansum(products, axis=0) / (np.maximum(counts, 1) * variance)
        return cls(mean, variance, np.clip(decay, 0.0, _MAX_DECAY))


class Reference:
    """Gaussian reference of free values: independent AR(1) columns given fixed and noisy values.

    Parameters
    ----------
    columns : Columns
        The processes.
    lengths : sequence of int
        Length of each sequence.
    values : ndarray (N, D)
        Fixed values, and noisy observations of free values.
    free : ndarray of bool (N, D)
        Whether values are free.
    observation_precision : ndarray (N, D), optional
        Precisions of noisy observations of free values; zero for values that are not observed.

    Attributes
    ----------
    mean : ndarray (F, 1)
        Mean of the free values, in column-major order.
    """

    def __init__(
        self,
        columns: Columns,
        lengths: Sequence[int],
        values: FloatArray,
        free: BoolArray,
        observation_precision: FloatArray | None = None,
    ) -> None:
        starts = starts_of(lengths)
        ends = np.append(starts[1:], True)
        innovation = 1.0 - columns.decay**2
        diagonal = np.where(starts[:, None], 1.0, 1.0 / innovation)
        diagonal = (diagonal + np.where(ends[:, None], 0.0, columns.decay**2 / innovation)) / columns.variance
        # Entry t couples row t to row t - 1; it is zero at the first row of a sequence.
        off_diagonal = -np.where(starts[:, None], 0.0, columns.decay / innovation) / columns.variance
        fixed_values = np.where(free, 0.0, values - columns.mean)
        information = -diagonal * fixed_values
        information[1:] -= off_diagonal[1:] * fixed_values[:-1]
        information[:-1] -= off_diagonal[1:] * fixed_values[1:]
        if observation_precision is not None:
            diagonal = diagonal + observation_precision
            deviations = np.where(observation_precision > 0.0, values - columns.mean, 0.0)
            information = information + observation_precision * deviations
        positions = np.flatnonzero(free.T)
        self.n_free = len(positions)
        self._diagonal = diagonal.T.ravel()[positions, None]
        self._off_diagonal = off_diagonal.T.ravel()[positions, None]
        self._off_diagonal[1:][np.diff(positions) != 1] = 0.0
        if self.n_free:
            self._off_diagonal[0] = 0.0
            bands = np.stack([self._off_diagonal[:, 0], self._diagonal[:, 0]])
            self._root = cholesky_banded(bands, check_finite=False)
        else:
            self._root = np.ones((2, 0))
        centre = np.repeat(columns.mean, len(starts))[positions, None]
        self.mean = centre + self.solve(information.T.ravel()[positions, None])

    def solve(self, vectors: FloatArray) -> FloatArray:
        """Return the product of the covariance and vectors (F, c)."""
        if self.n_free == 0:
            return vectors
        return np.asarray(cho_solve_banded((self._root, False), vectors, check_finite=False))

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draw n vectors of deviations (F, n) from the mean."""
        normals = rng.standard_normal((self.n_free, n))
        if self.n_free == 0:
            return normals
        return np.asarray(solve_banded((0, 1), self._root, normals, check_finite=False))

    def free_values(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return n draws (F, n) from the reference."""
        return self.mean + self.draw(n, rng)

    def half_square(self, vectors: FloatArray) -> FloatArray:
        """Return ``v' P v / 2`` (c,) for vectors ``v`` (F, c) and the precision matrix ``P``."""
        products = self._off_diagonal[1:] * vectors[1:] * vectors[:-1]
        return np.sum(0.5 * self._diagonal * vectors**2, axis=0) + np.sum(products, axis=0)

    def __call__(self, free_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the normalized log density (c,) and its derivative (F, c) at values (F, c)."""
        deviations = free_values - self.mean
        gradient = -self._diagonal * deviations
        gradient[1:] -= self._off_diagonal[1:] * deviations[:-1]
        gradient[:-1] -= self._off_diagonal[1:] * deviations[1:]
        constant = float(np.sum(np.log(self._root[1]))) - 0.5 * self.n_free * np.log(2.0 * np.pi)
        return constant - self.half_square(deviations), gradient


class State(NamedTuple):
    """State of chains: values (F, c), their log density (c,) and its derivative (F, c)."""

    free_values: FloatArray
    log_density: FloatArray
    gradient: FloatArray

    @classmethod
    def at(cls, density: Density, free_values: FloatArray) -> "State":
        """Return the state of chains at values (F, c)."""
        return cls(free_values, *density(free_values))


class Stepsize:
    """Adaptive leapfrog step size.

    Parameters
    ----------
    size : float, default=0.3
        Initial size, in standard deviations of the reference.

    Attributes
    ----------
    size : float
        The current size.
    acceptance : float
        Mean acceptance probability of recent moves.
    """

    def __init__(self, size: float = 0.3) -> None:
        self.size, self.acceptance, self._count = size, _TARGET_ACCEPTANCE, 0

    def adapt(self, acceptance: float) -> None:
        """Change the size towards the target acceptance probability (Robbins-Monro)."""
        self._count += 1
        rate = max(self._count**-0.5, 0.05)
        self.size = float(
            np.clip(
                self.size * np.exp(rate * (acceptance - _TARGET_ACCEPTANCE)), _MIN_STEP_SIZE, _MAX_STEP_SIZE
            )
        )
        self.acceptance += max(1.0 / self._count, 0.02) * (acceptance - self.acceptance)


def move(
    density: Density, state: State, reference: Reference, step: float, n_leaps: int, rng: np.random.Generator
) -> tuple[State, float]:
    """Make one Hamiltonian move of each chain, with Metropolis acceptance.

    Parameters
    ----------
    density : callable
        Log density and its derivative.
    state : State
        Current state of the chains.
    reference : Reference
        Gaussian whose precision is the covariance of the momentum.
    step : float
        Maximum leapfrog step size; each chain draws a random size up to this.
    n_leaps : int
        Number of leapfrog steps.
    rng : Generator
        Random number generator.

    Returns
    -------
    state : State
        State after the move.
    acceptance : float
        Mean acceptance probability.
    """
    n_chains = state.free_values.shape[1]
    if reference.n_free == 0:
        return state, 1.0
    # One move in twelve has a step below a tenth of `step`. Only such moves are accepted in the tails, where
    # the density is steep.
    step_sizes = step * 100.0 ** -(rng.random(n_chains) ** 8)
    velocity = reference.draw(n_chains, rng)
    energy = state.log_density - reference.half_square(velocity)
    free_values, log_density, gradient = state
    velocity = velocity + 0.5 * step_sizes * reference.solve(gradient)
    for leap in range(n_leaps):
        free_values = free_values + step_sizes * velocity
        log_density, gradient = density(free_values)
        velocity = velocity + (0.5 if leap == n_leaps - 1 else 1.0) * step_sizes * reference.solve(gradient)
    with np.errstate(invalid="ignore", over="ignore"):
        log_acceptance = log_density - reference.half_square(velocity) - energy
    log_acceptance = np.where(np.isnan(log_acceptance), -np.inf, np.minimum(log_acceptance, 0.0))
    is_accepted = np.log(rng.random(n_chains)) < log_acceptance
    proposed = State(free_values, log_density, gradient)
    next_state = State(
        *(
            np.where(is_accepted, proposed_array, current)
            for proposed_array, current in zip(proposed, state, strict=True)
        )
    )
    return next_state, float(np.mean(np.exp(log_acceptance)))


def reflect(density: Density, state: State, reference: Reference, rng: np.random.Generator) -> State:
    """Reflect one value of each chain at the mean of the reference, with Metropolis acceptance.

    Expanded rows may hardly determine the sign of a value, as for ``(y, y**2)`` with a slow ``y**2``.
    Hamiltonian moves seldom cross the region of low density between the two signs; without reflections, a
    chain might never change the sign.

    Parameters
    ----------
    density : callable
        Log density and its derivative.
    state : State
        Current state of the chains.
    reference : Reference
        Gaussian reference; values are reflected at its mean.
    rng : Generator
        Random number generator.
    """
    if reference.n_free == 0:
        return state
    n_chains = state.free_values.shape[1]
    chains, selected = np.arange(n_chains), rng.integers(reference.n_free, size=n_chains)
    free_values = state.free_values.copy()
    free_values[selected, chains] = 2.0 * reference.mean[selected, 0] - free_values[selected, chains]
    proposed = State.at(density, free_values)
    with np.errstate(invalid="ignore"):
        log_acceptance = proposed.log_density - state.log_density
    is_accepted = np.log(rng.random(n_chains)) < log_acceptance  # False if the gain is NaN
    return State(
        *(
            np.where(is_accepted, proposed_array, current)
            for proposed_array, current in zip(proposed, state, strict=True)
        )
    )


class LogIntegral(NamedTuple):
    """Estimate of the logarithm of an integral over free values.

    Attributes
    ----------
    value : float
        The estimate, in nats.
    error : float
        Standard error, from the variance of the chains and the distance of the two bounds.
    lower, upper : float
        Stochastic bounds: the expectation of `lower` is below the logarithm of the integral, and the
        expectation of `upper` is above it if the chains have mixed at the target density.
    """

    value: float
    error: float
    lower: float
    upper: float

    @classmethod
    def of_log_ratios(cls, forward_sums: FloatArray, backward_sums: FloatArray) -> "LogIntegral":
        """Estimate from sums of log density ratios along n chains to the target density, and n chains back.

        Each step of a chain adds the change of the inverse temperature times the log ratio of the target and
        the base density. With the forward sums ``f`` (n,) and the backward sums ``b`` (n,), ``E exp(f)`` and
        ``1 / E exp(-b)`` both equal the integral. Bennett's acceptance ratio combines the two estimates with
        the smallest variance. It is the root ``c`` of ``sum_i s(f_i - c) = sum_i s(c - b_i)`` with the
        logistic function ``s``. Backward chain ``i`` starts at the end of forward chain ``i``; the jackknife
        therefore leaves out pairs of chains.
        """
        n = len(forward_sums)
        lower = float(logsumexp(forward_sums)) - np.log(n)
        upper = np.log(n) - float(logsumexp(-backward_sums))
        if not np.isfinite(lower):
            return cls(lower, np.inf, lower, upper)
        jackknife_weights = np.ones((n + 1, n))
        jackknife_weights[1:][np.diag_indices(n)] = 0.0
        low, high = (np.full(n + 1, end) for end in (min(lower, upper) - 50.0, max(lower, upper) + 50.0))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            excess = np.sum(
                jackknife_weights
                * (expit(forward_sums - middle[:, None]) - expit(middle[:, None] - backward_sums)),
                axis=1,
            )
            low, high = np.where(excess > 0.0, middle, low), np.where(excess > 0.0, high, middle)
        roots = 0.5 * (low + high)
        jackknife_std = np.sqrt((n - 1) * np.mean((roots[1:] - roots[1:].mean()) ** 2)) if n > 1 else np.inf
        # The standard deviation of a uniform variable between the bounds is their distance / sqrt(12).
        bound_std = max(upper - lower, 0.0) / np.sqrt(12.0)
        return cls(float(roots[0]), float(np.hypot(jackknife_std, bound_std)), lower, upper)


class Base(Protocol):
    """A normalized density of free values that can be sampled: the initial density of annealing."""

    def free_values(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return independent draws (F, n)."""

    def __call__(self, free_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the log density (c,) and its derivative (F, c) at values (F, c)."""


def log_integral(
    density: Density,
    reference: Reference,
    *,
    base: Base | None = None,
    n_chains: int,
    n_temperatures: int,
    n_leaps: int,
    rng: np.random.Generator,
) -> LogIntegral:
    """Estimate the logarithm of the integral of a density, by bidirectional annealed importance sampling.

    Chains move from the initial density to the target density; the estimate from this direction is too small
    on average. The chains then make half as many moves at the target density, and move back; the estimate
    from the second direction is too large on average. The difference of the two estimates measures the error
    of too few temperatures.

    Parameters
    ----------
    density : callable
        Log density and its derivative.
    reference : Reference
        Gaussian whose precision is the covariance of the momentum.
    base : Base, optional
        Initial density of annealing; the reference by default.
    n_chains : int
        Number of chains.
    n_temperatures : int
        Number of densities between the initial and the target density, with one move at each.
    n_leaps : int
        Leapfrog steps in a move.
    rng : Generator
        Random number generator.

    Returns
    -------
    LogIntegral
    """
    if reference.n_free == 0:
        value = float(density(np.zeros((0, 1)))[0][0])
        return LogIntegral(value, 0.0, value, value)
    base = reference if base is None else base
    free_values = base.free_values(n_chains, rng)
    # Intermediate densities are closest to each other at both ends, where they change most.
    ramp = np.linspace(-1.0, 1.0, n_temperatures + 1)
    inverse_temperatures = 0.5 + 0.25 * ramp * (3.0 - ramp**2)
    step, sizes = Stepsize(), np.zeros(n_temperatures + 1)
    forward_sums, backward_sums = np.zeros(n_chains), np.zeros(n_chains)
    for i in range(n_temperatures):
        path = _Path(density, base, inverse_temperatures[i + 1])
        log_ratio, state = path.evaluate(free_values)
        forward_sums += (inverse_temperatures[i + 1] - inverse_temperatures[i]) * log_ratio
        sizes[i + 1] = step.size
        state, acceptance = move(path, state, reference, step.size, n_leaps, rng)
        step.adapt(acceptance)
        free_values = state.free_values
    state = State.at(density, free_values)
    for _ in range(n_temperatures // 2):
        state, acceptance = move(density, state, reference, step.size, n_leaps, rng)
        step.adapt(acceptance)
        state = reflect(density, state, reference, rng)
    free_values = state.free_values
    for i in range(n_temperatures, 0, -1):
        path = _Path(density, base, inverse_temperatures[i - 1])
        log_ratio, state = path.evaluate(free_values)
        backward_sums += (inverse_temperatures[i] - inverse_temperatures[i - 1]) * log_ratio
        if i > 1:
            free_values = move(path, state, reference, sizes[i - 1], n_leaps, rng)[0].free_values
    return LogIntegral.of_log_ratios(forward_sums, backward_sums)


class _Path:
    """A density of the geometric path, ``target^b initial^(1 - b)`` with inverse temperature ``b``."""

    def __init__(self, density: Density, base: Density, inverse_temperature: float) -> None:
        self._density, self._base, self._inverse_temperature = density, base, inverse_temperature

    def evaluate(self, free_values: FloatArray) -> tuple[FloatArray, State]:
        """Return the log ratio (c,) of target and initial density, and the state of chains at the values."""
        target, target_gradient = self._density(free_values)
        initial, initial_gradient = self._base(free_values)
        b = self._inverse_temperature
        return target - initial, State(
            free_values,
            b * target + (1.0 - b) * initial,
            b * target_gradient + (1.0 - b) * initial_gradient,
        )

    def __call__(self, free_values: FloatArray) -> tuple[FloatArray, FloatArray]:
        _, state = self.evaluate(free_values)
        return state.log_density, state.gradient
