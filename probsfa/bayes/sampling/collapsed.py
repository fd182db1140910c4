r"""Hamiltonian Monte Carlo step for the parameters given the weights of values, with factors integrated out.

Given the weights of Student-t noise the model is Gaussian, and the factors are integrated out exactly. The
remaining density has few arguments; its exact gradient takes one run of the Kalman smoother (Fisher's
identity). Its coordinates ``q`` are

    log tau                 of the time scales, a = exp(-1 / tau)
    C sqrt(1 - a^2)         loadings in units of the innovations
    mu                      the offset
    log r                   the squared scales that are learned

The mass matrix is at first the curvature of the density, computed early in the warm-up, and later adapted to
the draws. A few leapfrog steps therefore cross the posterior (Duane, Kennedy, Pendleton & Roweth 1987; Neal
2011).

The engine and the model have different normalizing constants of the noise. For a value with weight ``w``, the
model has the normal density with variance ``r / w``; the engine raises the density with variance ``r`` to the
power ``w``. The difference is corrected here.

References
----------
Duane, S., Kennedy, A. D., Pendleton, B. J. & Roweth, D. (1987). Hybrid Monte Carlo. Physics Letters B 195,
216-222.
Neal, R. M. (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo, chapter 5.
https://doi.org/10.1201/b10905-6
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from sklearn.covariance import ledoit_wolf

from probsfa._typing import FloatArray
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.learning.coordinates import Coordinates, score
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateLayout, StateSpace

__all__ = ["CollapsedDensity", "HamiltonianStep", "curvature_factor"]

# Limits of the time scales, outside which decays round to zero or one in double precision.
_MIN_LOG_TIMESCALE, _MAX_LOG_TIMESCALE = np.log(0.05), np.log(1e7)
# Step of finite differences of the gradient, and lower bound of the curvature in a direction. The bound is
# similar to the curvature of a log prior.
_DIFFERENCE_STEP, _MIN_CURVATURE = 1e-4, 0.1
# Minimum and maximum number of steps of a trajectory, and target acceptance probability.
_MIN_STEPS, _MAX_STEPS, _TARGET_ACCEPTANCE = 3, 6, 0.8
# Number of warm-up draws before the first adaptation of the mass matrix. The number doubles for each further
# adaptation.
_N_DRAWS_BEFORE_ADAPTATION = 40

#: Log density of a prior and its derivative, entry by entry.
LogPrior = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


class CollapsedDensity(NamedTuple):
    """Log density of the parameters given the weights of the values, with factors integrated out.

    Attributes
    ----------
    panel : Panel
        Standardized observations.
    noise : NoiseVariances
        Which columns share a squared scale, and which scales are known.
    log_timescale : callable
        Log prior of the logarithms of the time scales (K,), and its derivative.
    log_scale : callable
        Log prior of the logarithms of the learned squared scales, and its derivative.
    loadings_mean, loadings_variance : ndarray of shape (D, K)
        Parameters of the normal prior of the loadings.
    offset_mean, offset_variance : ndarray of shape (D,)
        Parameters of the normal prior of the offset.
    """

    panel: Panel
    noise: NoiseVariances
    log_timescale: LogPrior
    log_scale: LogPrior
    loadings_mean: FloatArray
    loadings_variance: FloatArray
    offset_mean: FloatArray
    offset_variance: FloatArray

    @staticmethod
    def is_within_limits(log_timescale: FloatArray) -> bool:
        """Return whether time scales (K,) with these logarithms are within the limits."""
        return bool(np.all((log_timescale > _MIN_LOG_TIMESCALE) & (log_timescale < _MAX_LOG_TIMESCALE)))

    def to_vector(self, params: StateSpace) -> FloatArray:
        """Return the coordinates (P,) of parameters whose time scales are within the limits."""
        log_timescale = np.log(-1.0 / np.log(params.decay))
        scaled = params.loadings * np.sqrt(-np.expm1(2.0 * np.log(params.decay)))
        log_scale = np.log(self.noise.group_values(params.noise_variance))
        return np.concatenate([log_timescale, scaled.ravel(), params.offset, log_scale])

    def to_parameters(self, vector: FloatArray, scale: FloatArray) -> StateSpace:
        """Return the parameters at coordinates; known squared scales are those of `scale` (D,)."""
        d, k = self.loadings_mean.shape
        timescale = np.exp(vector[:k])
        loadings = vector[k : k + d * k].reshape(d, k) / np.sqrt(-np.expm1(-2.0 / timescale))
        offset = vector[k + d * k : k + d * k + d].copy()
        scale = self.noise.column_values(np.exp(vector[k + d * k + d :]), scale)
        return StateSpace(np.exp(-1.0 / timescale), loadings, scale, offset)

    def __call__(
        self, vector: FloatArray, weights: FloatArray, scale: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return the log density, up to a function of the weights, and its gradient at coordinates (P,)."""
        d, k = self.loadings_mean.shape
        log_timescale, log_scale = vector[:k], vector[k + d * k + d :]
        rejected = -np.inf, np.zeros_like(vector)
        if not self.is_within_limits(log_timescale):
            return rejected
        if not np.all(np.abs(log_scale) < 100.0):
            return rejected
        params, panel = self.to_parameters(vector, scale), self.panel
        stats = expected_statistics(params, panel.weighted(weights))
        if not np.isfinite(stats.log_likelihood):
            return rejected
        # In the normalizing constant for variance r / w, log r counts once for each value, for any weight.
        n = panel.n_rows
        n_observed = np.asarray(panel.mask[:n]).sum(axis=0)
        excess_weights = weights[:n].sum(axis=0) - n_observed
        coordinates = Coordinates(StateLayout(k), self.noise, False)
        gradient = score(coordinates, params, panel.gaps, stats._replace(counts=n_observed))
        by_rate, by_loadings, by_log_scale, by_offset = (gradient[part] for part in coordinates.slices)
        by_loadings = by_loadings.reshape(d, k)
        value = stats.log_likelihood + 0.5 * float(excess_weights @ np.log(params.noise_variance))

        loadings_deviation = params.loadings - self.loadings_mean
        offset_deviation = params.offset - self.offset_mean
        prior, by_timescale = self.log_timescale(log_timescale)
        value += float(np.sum(prior))
        value -= 0.5 * float(np.sum(loadings_deviation**2 / self.loadings_variance))
        value -= 0.5 * float(np.sum(offset_deviation**2 / self.offset_variance))
        by_loadings = by_loadings - loadings_deviation / self.loadings_variance
        by_offset = by_offset - offset_deviation / self.offset_variance

        # With s^2 = 1 - a^2 the loadings are C = L / s, where L are the coordinates, and
        # d log s / d log tau = -a^2 / (tau s^2).
        rate = np.exp(-log_timescale)
        innovation = -np.expm1(-2.0 * rate)
        scale_derivative = rate * np.exp(-2.0 * rate) / innovation
        value -= 0.5 * d * float(np.sum(np.log(innovation)))
        by_timescale = (
            by_timescale - by_rate + scale_derivative * (np.sum(by_loadings * params.loadings, axis=0) + d)
        )
        by_scaled = by_loadings / np.sqrt(innovation)

        prior, by_log_scale_prior = self.log_scale(log_scale)
        value += float(np.sum(prior))
        parts = by_timescale, by_scaled.ravel(), by_offset, by_log_scale + by_log_scale_prior
        return value, np.concatenate(parts)


def curvature_factor(
    density: Callable[[FloatArray], tuple[float, FloatArray]], centre: FloatArray
) -> FloatArray:
    """Return the square root of the inverse curvature of a log density, by differences of its gradient.

    Parameters
    ----------
    density : callable
        Log density and its gradient.
    centre : ndarray of shape (P,)
        Point near a maximum.

    Returns
    -------
    ndarray of shape (P, P)
        Symmetric.
    """
    steps = _DIFFERENCE_STEP * np.eye(len(centre))
    rows = [
        (density(centre - step)[1] - density(centre + step)[1]) / (2.0 * _DIFFERENCE_STEP) for step in steps
    ]
    hessian = np.nan_to_num(np.array(rows))
    values, vectors = np.linalg.eigh(0.5 * (hessian + hessian.T))
    return np.asarray((vectors / np.sqrt(np.maximum(np.abs(values), _MIN_CURVATURE))) @ vectors.T)


class HamiltonianStep:
    """Hamiltonian Monte Carlo step with adaptation of the leapfrog step size and of the mass matrix.

    Parameters
    ----------
    factor : ndarray of shape (P, P)
        Square root of the approximate posterior covariance, which is the inverse mass matrix.

    Attributes
    ----------
    factor : ndarray of shape (P, P)
        The current square root of the inverse mass matrix.
    log_step : float
        Logarithm of the leapfrog step size.
    n_steps, n_accepted : int
        Numbers of leapfrog steps and of accepted trajectories.
    """

    def __init__(self, factor: FloatArray) -> None:
        self.factor = factor
        self.log_step = float(np.log(len(factor) ** -0.25))
        self.n_steps = self.n_accepted = 0
        self._n_step_adaptations = 0
        self._n_unit_adaptations = 0
        self._positions: list[FloatArray] = []

    def __call__(
        self,
        density: Callable[[FloatArray], tuple[float, FloatArray]],
        vector: FloatArray,
        rng: np.random.Generator,
        *,
        adapt: bool = False,
    ) -> FloatArray:
        """Draw a new vector (P,).

        Parameters
        ----------
        density : callable
            Log density and its gradient, up to a constant.
        vector : ndarray of shape (P,)
            The current vector.
        rng : Generator
            Random number generator.
        adapt : bool, default=False
            Whether to adapt step size and mass matrix; True in the warm-up only.
        """
        momentum = rng.standard_normal(len(vector))
        # Random lengths, so that trajectories do not return periodically to their starts.
        step = np.exp(self.log_step) * rng.uniform(0.8, 1.2)
        n_steps = int(rng.integers(_MIN_STEPS, _MAX_STEPS + 1))
        value, gradient = density(vector)
        initial_energy = value - 0.5 * float(momentum @ momentum)
        position, final_value = vector, value
        with np.errstate(over="ignore", invalid="ignore"):  # steps that are too long may diverge
            for _ in range(n_steps):
                momentum = momentum + 0.5 * step * (self.factor.T @ gradient)
                position = position + step * (self.factor @ momentum)
                final_value, gradient = density(position)
                self.n_steps += 1
                if not np.isfinite(final_value):
                    break
                momentum = momentum + 0.5 * step * (self.factor.T @ gradient)
            gain = final_value - 0.5 * float(momentum @ momentum) - initial_energy
        acceptance = float(np.exp(min(gain, 0.0))) if np.isfinite(gain) else 0.0
        if rng.random() < acceptance:
            self.n_accepted += 1
            vector = position
        if adapt:
            self._adapt(vector, acceptance)
        return vector

    def _adapt(self, vector: FloatArray, acceptance: float) -> None:
        """Adapt the step size and, when enough draws are collected, the mass matrix to their covariance."""
        self._n_step_adaptations += 1
        self.log_step += (acceptance - _TARGET_ACCEPTANCE) / self._n_step_adaptations**0.6
        self._positions.append(vector)
        if len(self._positions) < _N_DRAWS_BEFORE_ADAPTATION * 2**self._n_unit_adaptations:
            return
        positions = np.array(self._positions)
        whitened = np.linalg.solve(self.factor, (positions - positions.mean(axis=0)).T).T
        self.factor = self.factor @ np.linalg.cholesky(ledoit_wolf(whitened)[0])
        self._positions, self._n_step_adaptations, self._n_unit_adaptations = (
            [],
            1,
            self._n_unit_adaptations + 1,
        )
