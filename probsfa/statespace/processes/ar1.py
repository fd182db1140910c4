"""AR(1) processes of unit variance: ``z' = a z + sqrt(1 - a^2) e``, or ``a ** dt`` over a gap.

The states of AR(1) processes are first, and the engine has separate algorithms for them, because most models
have only AR(1) processes. This module contains the M-step, the spectrum, and the free coordinate of a decay:

- ``atanh a`` for evenly sampled rows, with ``a`` in (-1, 1)
- ``log(-log a)``, the logarithm of the rate, for unevenly sampled rows, with ``a`` in (0, 1)
"""

import numpy as np
from scipy.optimize import minimize_scalar

from probsfa._typing import FloatArray
from probsfa.statespace.quantities import Quantity

__all__ = [
    "MAX_DECAY",
    "MIN_DECAY",
    "OF_AR1",
    "atanh_derivative",
    "cubic_decay",
    "decay_derivative",
    "from_free",
    "maximized",
    "spectra",
    "to_free",
]

# Bounds of estimated decays. At the upper bound the time scale is 1e8 steps, and rounding errors of ``1 -
# a^2`` are small. The lower bound is for unevenly sampled rows.
MAX_DECAY = 1.0 - 1e-8
MIN_DECAY = 1e-10

#: Fitted attributes of AR(1) factors.
OF_AR1 = (
    Quantity("timescales_", "time scale", "time", ("factor",), "log"),
    Quantity("decay_", "decay", "", ("factor",), "decay"),
)

Sums = FloatArray | float


def to_free(decay: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the coordinates of decays."""
    if evenly_sampled:
        return np.arctanh(np.clip(decay, -MAX_DECAY, MAX_DECAY))
    return np.log(-np.log(np.clip(decay, MIN_DECAY, MAX_DECAY)))


def from_free(free: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the decays at coordinates."""
    if evenly_sampled:
        return np.clip(np.tanh(free), -MAX_DECAY, MAX_DECAY)
    return np.clip(np.exp(-np.exp(free)), MIN_DECAY, MAX_DECAY)


def decay_derivative(decay: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the derivative of the decay with respect to its coordinate."""
    if evenly_sampled:
        return (1.0 - decay) * (1.0 + decay)
    return decay * np.log(decay)


def atanh_derivative(decay: FloatArray, *, evenly_sampled: bool) -> FloatArray:
    """Return the derivative of ``atanh a`` with respect to the coordinate."""
    return decay_derivative(decay, evenly_sampled=evenly_sampled) / ((1.0 - decay) * (1.0 + decay))


def spectra(decay: FloatArray, omega: FloatArray, *, evenly_sampled: bool) -> tuple[FloatArray, FloatArray]:
    """Return spectra (W, K) at frequencies (W,), and derivatives with respect to the coordinates."""
    innovation = (1.0 - decay) * (1.0 + decay)
    # |1 - a exp(-iw)|^2 as a sum of positive terms, which is accurate for all a and w.
    half = 0.5 * omega[:, None]
    magnitude = np.abs(decay)
    transfer = (1.0 - magnitude) ** 2 + 4.0 * magnitude * np.where(
        decay >= 0.0, np.sin(half), np.cos(half)
    ) ** 2
    spectrum = innovation / transfer
    by_decay = -2.0 * decay - 2.0 * (decay - np.cos(omega[:, None])) * spectrum
    return spectrum, spectrum * by_decay * atanh_derivative(decay, evenly_sampled=evenly_sampled)


def maximized(
    decay: FloatArray,
    counts: FloatArray,
    previous: FloatArray,
    cross: FloatArray,
    current: FloatArray,
    gaps: FloatArray,
) -> FloatArray:
    """M-step: return the decays that maximize the expected log density of the transitions.

    Parameters
    ----------
    decay : ndarray of shape (K,)
        Initial decays.
    counts : ndarray of shape (U,)
        Number of transitions over each gap.
    previous, cross, current : ndarray of shape (U, K)
        Sums of ``E z^2``, ``E z' z`` and ``E z'^2`` over the transitions, from ``z`` to ``z'``.
    gaps : ndarray of shape (U,)
        Times between successive rows.
    """
    if gaps.shape[0] == 1 and gaps[0] == 1.0:
        n = float(counts[0])
        if n == 0.0:
            return decay
        processes = zip(previous[0], cross[0], current[0], strict=True)
        return np.array([cubic_decay(n, p, c, q) for p, c, q in processes])
    each = zip(decay, previous.T, cross.T, current.T, strict=True)
    return np.array([_uneven_decay(a, counts, p, c, q, gaps) for a, p, c, q in each])


def _expected_transition(a: FloatArray, n: Sums, previous: Sums, cross: Sums, current: Sums) -> FloatArray:
    """Return the expected log density of the transitions, without constants."""
    innovation = (1.0 - a) * (1.0 + a)
    return -0.5 * (n * np.log(innovation) + (current - 2.0 * a * cross + a**2 * previous) / innovation)


def cubic_decay(n: float, previous: float, cross: float, current: float) -> float:
    """Return the optimal decay of one process under unit stationary variance.

    The derivative of the expected log density is zero if ``n a^3 - cross a^2 + (previous + current - n) a -
    cross = 0``. The polynomial is ``E sum (z_t - z_t-1)^2`` at a = 1 and ``-E sum (z_t + z_t-1)^2`` at a =
    -1, so that there is always a root between -1 and 1.
    """
    roots = np.roots([n, -cross, previous + current - n, -cross])
    real_roots = roots[np.abs(roots.imag) <= 1e-7].real
    candidates = np.clip(
        np.append(real_roots[np.abs(real_roots) < 1.0], cross / max(previous, current)), -MAX_DECAY, MAX_DECAY
    )
    return float(candidates[np.argmax(_expected_transition(candidates, n, previous, cross, current))])


def _uneven_decay(
    a: float,
    transitions: FloatArray,
    previous: FloatArray,
    cross: FloatArray,
    current: FloatArray,
    gaps: FloatArray,
) -> float:
    """Return the optimal decay of one process at uneven times, by a search over its log rate."""

    def loss(log_rate: float) -> float:
        decay_over_gap = np.clip(np.exp(-np.exp(log_rate) * gaps), MIN_DECAY, MAX_DECAY)
        return -float(np.sum(_expected_transition(decay_over_gap, transitions, previous, cross, current)))

    start = float(np.log(-np.log(a)))
    minimum = minimize_scalar(loss, bracket=(start - 0.1, start + 0.1), options={"xtol": 1e-10})
    best = float(minimum.x) if loss(float(minimum.x)) <= loss(start) else start
    return float(np.clip(np.exp(-np.exp(best)), MIN_DECAY, MAX_DECAY))
