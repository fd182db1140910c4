"""Stochastic cycles (damped oscillators).

The two states are the real and the imaginary part of a complex AR(1) process::

    A(dt) = rho ** dt [[cos w dt, -sin w dt], [sin w dt, cos w dt]]

The likelihood does not change if the two states are rotated. In the canonical form, the phase of a cycle is
zero in the column with the largest amplitude.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.optimize import minimize

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.processes.ar1 import MAX_DECAY, MIN_DECAY, cubic_decay
from probsfa.statespace.processes.base import BlockMoments, Process, Transitions
from probsfa.statespace.quantities import Quantity

__all__ = ["Rhythm"]

# Number of evenly spaced phases of which `closest` selects one.
_N_PHASES = 72


@dataclass(frozen=True, eq=False, repr=False)
class Rhythm(Process):
    """Stochastic cycles.

    Attributes
    ----------
    decay : ndarray of shape (N,)
        Damping in one time step, ``rho`` inside (0, 1).
    frequency : ndarray of shape (N,)
        ``w`` in radians per time step, positive in the canonical form.
    """

    decay: FloatArray
    frequency: FloatArray

    option: ClassVar[str] = "rhythms"
    times: ClassVar[str] = "periods"
    from_periodogram: ClassVar[bool] = True
    quantities: ClassVar[tuple[Quantity, ...]] = (
        Quantity("rhythm_periods_", "period", "time", ("cycle",), "log"),
        Quantity("rhythm_decay_", "decay of cycle", "", ("cycle",), "decay", "rhythm_decays"),
        Quantity("rhythm_amplitudes_"),
        Quantity("rhythm_phases_"),
    )
    label: ClassVar[str] = "rhythm"
    n_states: ClassVar[int] = 2
    parts: ClassVar[tuple[str, ...]] = ("_cos", "_sin")
    loaded_states: ClassVar[tuple[int, ...]] = (0, 1)
    longest_steps: ClassVar[tuple[float, ...]] = (1.0, 0.05)
    names: ClassVar[dict[str, str]] = {"decay": "rhythm_decay", "frequency": "rhythm_frequency"}

    def transitions(self, gaps: FloatArray) -> Transitions:
        """See :class:`.Process`: a rotation with damping."""
        elapsed = gaps[:, None]
        modulus, angle = self.decay**elapsed, self.frequency * elapsed
        xp = modulus.__array_namespace__()
        c, s, zero = modulus * xp.cos(angle), modulus * xp.sin(angle), xp.zeros_like(modulus)
        innovation_variance = -xp.expm1(2.0 * elapsed * xp.log(self.decay))
        both = (
            xp.stack([c, -s, s, c], axis=2),
            xp.stack([innovation_variance, zero, zero, innovation_variance], axis=2),
        )
        return both[0].reshape(*modulus.shape, 2, 2), both[1].reshape(*modulus.shape, 2, 2)

    def to_free(self) -> FloatArray:
        """Return ``log(-log rho)`` and ``w``; a negative ``w`` changes the sign of the second state."""
        return np.array([np.log(-np.log(np.clip(self.decay, MIN_DECAY, MAX_DECAY))), self.frequency])

    def at(self, free: FloatArray) -> Self:
        """See :class:`.Process`."""
        return type(self)(np.clip(np.exp(-np.exp(free[0])), MIN_DECAY, MAX_DECAY), free[1])

    def evenly_sampled(self) -> Self:
        """See :class:`.Process`: frequencies are replaced by their aliases in (-pi, pi]."""
        return type(self)(self.decay, np.pi - np.mod(np.pi - self.frequency, 2.0 * np.pi))

    @classmethod
    def like_ar1(cls, decay: FloatArray) -> list[tuple[Self, FloatArray]]:
        """Raise an error: cycles start from peaks of the periodogram (:func:`.starts.estimated_cycle`)."""
        raise NotImplementedError

    @classmethod
    def of_times(cls, times: FloatArray, *, evenly_sampled: bool) -> Self:
        """See :class:`.Process`."""
        if evenly_sampled and np.any(times <= 2.0):
            raise ValueError(
                f"rhythms has a period of {times.min():g} rows: periods must be longer than two rows."
            )
        return cls(np.full(len(times), 0.9), 2.0 * np.pi / times)

    @property
    def order(self) -> FloatArray:
        """Longest period first."""
        return np.abs(self.frequency)

    @classmethod
    def arbitrary(cls, count: int) -> Self:
        """See :class:`.Process`."""
        return cls(np.full(count, 0.9), np.linspace(0.1, 1.0, count))

    @staticmethod
    def vectors(loadings: FloatArray) -> Any:
        """Return loadings (D, N, 2) as complex numbers (D, N).

        The modulus is the standard deviation of the cycle in a column, and the angle is its phase.
        """
        return loadings[..., 0] + 1j * loadings[..., 1]

    @classmethod
    def n_rotated(cls, count: int) -> int:
        """Return `count`: the second loading of each cycle is zero in the column of phase zero."""
        return count

    def free_loadings(self, loadings: FloatArray) -> BoolArray:
        """See :class:`.Process`."""
        free = np.ones(loadings.shape, dtype=bool)
        fixed = np.argmin(np.abs(loadings[:, :, 1]) - np.abs(loadings[:, :, 0]), axis=0)
        free[fixed, np.arange(len(self)), 1] = False
        return free

    def canonical(self, loadings: FloatArray, units: FloatArray) -> tuple[Self, FloatArray]:
        """See :class:`.Process`; the phase is zero in the column with the largest amplitude."""
        order = np.argsort(self.order, kind="stable")
        ordered = self.select(order)
        # A negative frequency is equivalent to a positive frequency and a negated second state.
        signs = np.where(ordered.frequency < 0.0, -1.0, 1.0)
        pairs = loadings[:, order]
        vectors = pairs[..., 0] + 1j * (pairs[..., 1] * signs)
        largest = np.argmax(np.abs(vectors) / units[:, None], axis=0)
        cycles = np.arange(vectors.shape[1])
        at_largest = vectors[largest, cycles]
        amplitude = np.abs(at_largest)
        positive = np.where(amplitude > 0.0, amplitude, 1.0)
        vectors = vectors * np.where(amplitude > 0.0, at_largest.conj() / positive, 1.0)
        vectors[largest, cycles] = amplitude  # real: the other loading must be exactly zero
        rotated = type(self)(ordered.decay, np.abs(ordered.frequency))
        return rotated, np.stack([vectors.real, vectors.imag], axis=2)

    def closest(
        self, loadings: FloatArray, fixed: FloatArray, bounds: FloatArray | None = None
    ) -> tuple[Self, FloatArray]:
        """See :class:`.Process`; cycles keep their order and are rotated by the best of 72 phases."""
        phases = 2.0 * np.pi * np.arange(_N_PHASES) / _N_PHASES
        vectors = self.vectors(loadings)[:, :, None] * np.exp(1j * phases)
        squared_distances = np.nansum((vectors.real - fixed[:, :, :1]) ** 2, axis=0)
        squared_distances += np.nansum((vectors.imag - fixed[:, :, 1:]) ** 2, axis=0)
        closest_phase = np.argmin(squared_distances, axis=1)[None, :, None]
        closest = np.take_along_axis(vectors, closest_phase, axis=2)[:, :, 0]
        frequency = np.abs(self.frequency)
        if bounds is not None:
            frequency = np.clip(frequency, *bounds)
        return type(self)(self.decay, frequency), np.stack([closest.real, closest.imag], axis=2)

    def transition_derivatives(self, gaps: FloatArray) -> list[Transitions]:
        """See :class:`.Process`; in closed form."""
        matrix, _ = self.transitions(gaps)
        elapsed = gaps[:, None, None, None]
        rate = elapsed * np.log(self.decay)[:, None, None]
        rotated = np.array([[0.0, -1.0], [1.0, 0.0]]) @ matrix
        by_rate = rate * matrix, -2.0 * rate * np.exp(2.0 * rate) * np.eye(2)
        return [by_rate, (elapsed * rotated, np.zeros_like(matrix))]

    def maximized(self, data: list[BlockMoments], gaps: FloatArray, bounds: FloatArray | None = None) -> Self:
        """See :class:`.Process`.

        With even sampling, the M-step has a closed form. The frequency is the angle of the cross moment ``E
        z' conj(z)`` of successive complex states ``z`` and ``z'``. The decay is estimated as for an AR(1)
        process, with the modulus as cross moment. If the frequency is at a bound, the projection of the cross
        moment on this angle replaces the modulus.
        """
        if bounds is None:
            bounds = np.repeat([[-np.inf], [np.inf]], len(self), axis=1)
        estimates = [
            _maximized(float(rho), float(omega), moments, gaps, (float(bound[0]), float(bound[1])))
            for rho, omega, moments, bound in zip(self.decay, self.frequency, data, bounds.T, strict=True)
        ]
        decay, frequency = np.array(estimates).reshape(-1, 2).T
        return type(self)(decay, frequency)

    @property
    def peaks(self) -> tuple[FloatArray, FloatArray]:
        """See :class:`.Process`."""
        return np.abs(self.frequency), 1.0 - self.decay

    def spectra(self, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See :class:`.Process`; in closed form.

        The spectrum of each state is the mean of the spectrum of the complex process and its mirror image.
        The cross spectrum of the two states, which is imaginary, is neglected.
        """
        decay, shape = self.decay, (len(omega), len(self))
        values, by_rate, by_frequency = (np.zeros(shape) for _ in range(3))
        for sign in (1.0, -1.0):
            detuning = omega[:, None] - sign * self.frequency
            transfer = (1.0 - decay) ** 2 + 4.0 * decay * np.sin(0.5 * detuning) ** 2
            spectrum = (1.0 - decay) * (1.0 + decay) / transfer
            derivative = (-2.0 * decay - 2.0 * (decay - np.cos(detuning)) * spectrum) / transfer
            values += 0.5 * spectrum
            by_rate += 0.5 * decay * np.log(decay) * derivative
            by_frequency += sign * spectrum * decay * np.sin(detuning) / transfer
        derivatives = np.stack([by_rate, by_frequency], axis=2)
        return np.repeat(values[:, :, None], 2, axis=2), np.repeat(derivatives[:, :, None], 2, axis=2)

    def curvature(self, gradient: FloatArray) -> FloatArray:
        """See :class:`.Process`."""
        of_decay = np.maximum((-1.0 - np.log(self.decay)) * gradient[0], 0.0)
        return np.array([of_decay, np.zeros_like(of_decay)])

    @property
    def periods(self) -> FloatArray:
        """Periods (N,), in time steps."""
        return 2.0 * np.pi / np.abs(self.frequency)

    def attributes(self, loadings: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """See :class:`.Process`."""
        vectors = self.vectors(loadings)
        return self.periods * time_unit, self.decay, np.sqrt(2.0) * np.abs(vectors), np.angle(vectors)

    def standard_errors(self, covariances: FloatArray, time_unit: float) -> tuple[FloatArray, ...]:
        """See :class:`.Process`; in closed form, because numerical differences are inaccurate."""
        log_rate_error, frequency_error = np.sqrt(covariances[0, 0]), np.sqrt(covariances[1, 1])
        period_error = 2.0 * np.pi * time_unit / self.frequency**2 * frequency_error
        return period_error, np.abs(self.decay * np.log(self.decay)) * log_rate_error


def _maximized(
    decay: float, frequency: float, data: BlockMoments, gaps: FloatArray, bounds: tuple[float, float]
) -> tuple[float, float]:
    """Return decay and frequency of one cycle that maximize the expected log density of its transitions."""
    if data.counts.sum() == 0.0:
        return decay, frequency
    if gaps.shape[0] == 1 and gaps[0] == 1.0:
        matrix, moments = data.matrix[0], data.moments[0]
        moments_of_next = moments + matrix @ data.previous[0]
        current = data.power[0] + moments @ matrix.T + matrix @ moments_of_next.T
        real, imaginary = (
            moments_of_next[0, 0] + moments_of_next[1, 1],
            moments_of_next[1, 0] - moments_of_next[0, 1],
        )
        angle, cross = float(np.arctan2(imaginary, real)), float(np.hypot(real, imaginary))
        if not bounds[0] <= angle <= bounds[1]:
            angle = max(bounds, key=lambda bound: float(real * np.cos(bound) + imaginary * np.sin(bound)))
            cross = float(real * np.cos(angle) + imaginary * np.sin(angle))
        new_decay = cubic_decay(
            2.0 * float(data.counts[0]), float(np.trace(data.previous[0])), cross, float(np.trace(current))
        )
        return max(new_decay, MIN_DECAY), angle

    def cycle_at(free: FloatArray) -> Rhythm:
        return Rhythm(np.clip(np.exp(-np.exp(free[:1])), MIN_DECAY, MAX_DECAY), np.clip(free[1:], *bounds))

    def loss(free: FloatArray) -> float:
        return -data.expected(*(x[:, 0] for x in cycle_at(free).transitions(gaps)))

    start = np.array([np.log(-np.log(decay)), frequency])
    simplex = start + np.array([[0.0, 0.0], [0.05, 0.0], [0.0, 0.05 * abs(frequency) + 1e-4]])
    options: Any = {"xatol": 1e-9, "fatol": 1e-9, "initial_simplex": simplex}
    minimum = minimize(loss, start, method="Nelder-Mead", options=options)
    best = cycle_at(minimum.x if minimum.fun <= loss(start) else start)
    return float(best.decay[0]), float(best.frequency[0])
