"""The dense joint Gaussian of a state-space model in sixty digits, from covariances of its processes.

Shares no code with the package: each process is a stationary Gaussian process of unit variance, given by the
covariance of its states at two times, and values are loadings times states plus noise.
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 60


class Exact(NamedTuple):
    """Moments of the states, ``means`` (N, S) and ``covariances`` (N, S, S), and the log-likelihood."""

    means: np.ndarray
    covariances: np.ndarray
    log_likelihood: float


def ar1(decay):
    """Covariance (1, 1) over a time difference."""
    return lambda dt: [[mp.mpf(float(decay)) ** abs(dt)]]


def rhythm(decay, frequency):
    """Of (cos, sin) at time t + dt with those at t: a rotation that shrinks."""

    def covariance(dt):
        size, angle = mp.mpf(float(decay)) ** abs(dt), mp.mpf(float(frequency)) * dt
        c, s = size * mp.cos(angle), size * mp.sin(angle)
        return [[c, -s], [s, c]]

    return covariance


def smooth(rate):
    """Matern-3/2, the value and its derivative in units of the derivative's standard deviation."""

    def covariance(dt):
        d = mp.mpf(float(rate)) * dt
        e = mp.exp(-abs(d))
        return [[(1 + abs(d)) * e, d * e], [-d * e, (1 - abs(d)) * e]]

    return covariance


def processes(params):
    """Covariance functions of all processes of a model with white noise, in the order of its states."""
    rhythms = zip(params.rhythm_decay, params.rhythm_frequency, strict=True)
    return [
        *map(ar1, params.decay),
        *(rhythm(*both) for both in rhythms),
        *map(smooth, params.smooth_rate),
    ]


def prior(params, times, sequence):
    """Covariance of all states (N S, N S), row after row; zero between sequences."""
    kinds = processes(params)
    n, size = len(times), params.loadings.shape[1]
    whole = mp.zeros(n * size)
    for i in range(n):
        for j in range(n):
            if sequence[i] != sequence[j]:
                continue
            dt, at = mp.mpf(float(times[i])) - mp.mpf(float(times[j])), 0
            for kind in kinds:
                block = kind(dt)
                for a, row in enumerate(block):
                    for b, value in enumerate(row):
                        whole[i * size + at + a, j * size + at + b] = value
                at += len(block)
    return whole


def posterior(params, values, times, sequence):
    """Moments given all values (N, D), NaN where missing, at times (N,) of the sequences (N,)."""
    n, size = len(times), params.loadings.shape[1]
    seen = [(t, d) for t in range(n) for d in range(values.shape[1]) if not np.isnan(values[t, d])]
    whole = prior(params, times, sequence)
    loadings = mp.zeros(len(seen), n * size)
    for row, (t, d) in enumerate(seen):
        for k in range(size):
            loadings[row, t * size + k] = mp.mpf(float(params.loadings[d, k]))
    means, left, value = mp.zeros(n * size, 1), whole, mp.mpf(0)
    if seen:
        crossed = loadings * whole
        joint = crossed * loadings.T
        for row, (_, d) in enumerate(seen):
            joint[row, row] += mp.mpf(float(params.noise_variance[d]))
        error = mp.matrix([mp.mpf(float(values[s])) - mp.mpf(float(params.offset[s[1]])) for s in seen])
        root = mp.cholesky(joint)
        whitened = mp.zeros(len(seen), n * size + 1)
        for c in range(n * size + 1):  # forward substitution
            column = error if c == n * size else crossed[:, c]
            for i in range(len(seen)):
                total = column[i] - mp.fdot((root[i, j], whitened[j, c]) for j in range(i))
                whitened[i, c] = total / root[i, i]
        gains, last = whitened[:, : n * size], whitened[:, n * size]
        means, left = gains.T * last, whole - gains.T * gains
        value = -mp.fsum(mp.log(root[i, i]) for i in range(len(seen))) - mp.fdot(last, last) / 2
        value -= len(seen) * mp.log(2 * mp.pi) / 2
    states = [range(t * size, (t + 1) * size) for t in range(n)]
    blocks = [[[float(left[a, b]) for b in own] for a in own] for own in states]
    found = np.array([float(x) for x in means]).reshape(n, size)
    return Exact(found, np.array(blocks), float(value))
