"""The dense joint Gaussian of a state-space model in sixty digits, from covariances of its processes.

Shares no code with the package: each process is a stationary Gaussian process of unit variance, given by the
covariance of its states at two times, and values are loadings times states plus noise.
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 60


class Exact(NamedTuple):
    """Means (N, S) and covariances (N, S, S) of the states, and the log density of each row (N,).

    ``lag_one`` (N - 1, S, S) holds the covariances of each state with the state one row before.
    ``filtered_means`` and ``filtered_covariances`` condition on the rows up to each one alone.
    """

    means: np.ndarray
    covariances: np.ndarray
    lag_one: np.ndarray
    filtered_means: np.ndarray
    filtered_covariances: np.ndarray
    row_log_likelihoods: np.ndarray


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


def exact(x):
    """Return an array of doubles as an array of sixty digits."""
    return np.array([mp.mpf(float(v)) for v in np.ravel(x)], dtype=object).reshape(np.shape(x))


def prior(params, times, sequence):
    """Covariance of all states (N, S, N, S); zero between sequences."""
    kinds, when = processes(params), exact(times)
    n, size = len(times), params.loadings.shape[1]
    whole = np.full((n, size, n, size), mp.mpf(0))
    for i in range(n):
        for j in np.flatnonzero(np.equal(sequence, sequence[i])):
            at = 0
            for kind in kinds:
                block = np.array(kind(when[i] - when[j]), dtype=object)
                own = slice(at, at + len(block))
                whole[i, own, j, own] = block
                at += len(block)
    return whole


def posterior(params, values, times, sequence, prior=prior):
    """Moments given all values (N, D), NaN where missing, at times (N,) of the sequences (N,)."""
    row, column = np.nonzero(~np.isnan(values))
    whole, loadings = prior(params, times, sequence), exact(params.loadings)
    n, size, n_seen = len(times), params.loadings.shape[1], len(row)
    crossed = [np.tensordot(loadings[d], whole[t], 1).ravel() for t, d in zip(row, column, strict=True)]
    crossed = np.array(crossed, dtype=object).reshape(n_seen, n * size)
    joint = [
        [crossed[i, t * size : (t + 1) * size] @ loadings[d] for t, d in zip(row, column, strict=True)]
        for i in range(n_seen)
    ]
    joint = np.array(joint, dtype=object).reshape(n_seen, n_seen)
    joint[np.diag_indices(n_seen)] += exact(params.noise_variance)[column]
    error = exact(values[row, column]) - exact(params.offset)[column]
    # Cholesky's elimination of the values, one after the other: with the root U, U' U the covariance of the
    # values, rows become U, U'^-1 crossed and U'^-1 error.
    rows = np.hstack([joint, crossed, error[:, None]])
    for i in range(n_seen):
        rows[i] = rows[i] / mp.sqrt(rows[i, i])
        rows[i + 1 :] = rows[i + 1 :] - rows[i, i + 1 : n_seen, None] * rows[i]
    whitened, last = rows[:, n_seen:-1].reshape(n_seen, n, size), rows[:, -1]
    terms = [-mp.log(2 * mp.pi) / 2 - mp.log(rows[i, i]) - last[i] ** 2 / 2 for i in range(n_seen)]

    def mean(t, known):
        return whitened[known, t].T @ last[known]

    def covariance(t, s, known):
        return whole[t, :, s] - whitened[known, t].T @ whitened[known, s]

    everything, sofar = slice(None), [slice(np.searchsorted(row, t, "right")) for t in range(n)]
    blocks = (
        [mean(t, everything) for t in range(n)],
        [covariance(t, t, everything) for t in range(n)],
        [covariance(t + 1, t, everything) for t in range(n - 1)],
        [mean(t, sofar[t]) for t in range(n)],
        [covariance(t, t, sofar[t]) for t in range(n)],
        [mp.fsum(terms[i] for i in np.flatnonzero(row == t)) for t in range(n)],
    )
    return Exact(*(np.array(block, dtype=float) for block in blocks))
