"""The dense joint Gaussian distribution of a state-space model in arithmetic with sixty digits.

No code is shared with the package. Each process is a Gaussian process, defined by the covariance of its
states at two times; values are loadings times states plus noise. States have unit variance at the start of
a sequence.
"""

from typing import NamedTuple

import mpmath as mp
import numpy as np

mp.mp.dps = 60


class Exact(NamedTuple):
    """Means (N, S) and covariances (N, S, S) of the states, and the log density of each row (N,).

    ``lag_one`` (N - 1, S, S) holds the covariances of each state with the state of the previous row.
    ``filtered_means`` and ``filtered_covariances`` are given the rows up to each row.
    """

    means: np.ndarray
    covariances: np.ndarray
    lag_one: np.ndarray
    filtered_means: np.ndarray
    filtered_covariances: np.ndarray
    row_log_likelihoods: np.ndarray


def ar1(decay):
    """Return the covariance function (1, 1) of an AR(1) process."""
    return lambda dt: [[mp.mpf(float(decay)) ** abs(dt)]]


def level(start):
    """Return the covariance function of a random walk of times since the start of its sequence."""
    return lambda t, s: [[1 + min(t, s) / mp.mpf(float(start))]]


def line(ratio):
    """Return the covariance function of a local linear trend from integrals: the level and its slope.

    The level is the sum of a random walk and the integral of the slope, a second random walk. Variances at
    the start are 1e12 (level) and 1e8 (slope) times those of the steps of the slope.
    """
    of_level, of_slope = mp.mpf(10) ** 6, mp.mpf(10) ** 4

    def with_integral(t, s):
        """Return the covariance of the integral of a random walk up to t with the random walk at s."""
        return s * t - s**2 / 2 if s < t else t**2 / 2

    def covariance(t, s):
        first, last = min(t, s), max(t, s)
        between = first**2 * (3 * last - first) / 6 + mp.mpf(float(ratio)) * first
        c = of_slope / of_level
        return [
            [1 + c**2 * t * s + between / of_level**2, c * t + with_integral(t, s) / (of_level * of_slope)],
            [c * s + with_integral(s, t) / (of_level * of_slope), 1 + first / of_slope**2],
        ]

    return covariance


def smoother(rate):
    """Return the covariance function of a Matern-5/2 process and derivatives, uncorrelated at one time."""
    third = mp.mpf(1) / 3
    root = mp.cholesky(mp.matrix([[1, 0, -third], [0, third, 0], [-third, 0, 1]]))
    inverse = np.array(mp.inverse(root).tolist(), dtype=object)

    def covariance(dt):
        d = mp.mpf(float(rate)) * dt
        a, e = abs(d), mp.exp(-abs(d))
        k = [
            (1 + a + d**2 * third) * e,
            -d * third * (1 + a) * e,
            -third * (1 + a - d**2) * e,
            d * third * (3 - a) * e,
            third * (3 - 5 * a + d**2) * e,
        ]
        raw = np.array([[(-1) ** j * k[i + j] for j in range(3)] for i in range(3)], dtype=object)
        return inverse @ raw @ inverse.T

    return covariance


def rhythm(decay, frequency):
    """Return the covariance of (cos, sin) at times t + dt and t: a rotation multiplied by a decay."""

    def covariance(dt):
        size, angle = mp.mpf(float(decay)) ** abs(dt), mp.mpf(float(frequency)) * dt
        c, s = size * mp.cos(angle), size * mp.sin(angle)
        return [[c, -s], [s, c]]

    return covariance


def smooth(rate):
    """Return the covariance function of a Matern-3/2 process and its derivative, scaled to unit variance."""

    def covariance(dt):
        d = mp.mpf(float(rate)) * dt
        e = mp.exp(-abs(d))
        return [[(1 + abs(d)) * e, d * e], [-d * e, (1 - abs(d)) * e]]

    return covariance


def processes(params):
    """Return covariance functions of all processes of a model with white noise, ordered as its states."""
    rhythms = zip(params.rhythm_decay, params.rhythm_frequency, strict=True)
    arrays = params.to_arrays()

    def stationary(kind):
        return lambda t, s: kind(t - s)

    return [
        *(stationary(ar1(decay)) for decay in params.decay),
        *map(level, arrays.get("level_start", ())),
        *(stationary(rhythm(*both)) for both in rhythms),
        *(stationary(smooth(rate)) for rate in params.smooth_rate),
        *map(line, arrays.get("line_ratio", ())),
        *(stationary(smoother(rate)) for rate in arrays.get("smoother_rate", ())),
    ]


def exact(x):
    """Convert an array of doubles to an array of numbers with sixty digits."""
    return np.array([mp.mpf(float(v)) for v in np.ravel(x)], dtype=object).reshape(np.shape(x))


def prior(params, times, sequence):
    """Return the covariance of all states (N, S, N, S), which is zero between sequences."""
    covariance_functions, exact_times = processes(params), exact(times)
    n, size = len(times), params.loadings.shape[1]
    covariance = np.full((n, size, n, size), mp.mpf(0))
    for i in range(n):
        start = exact_times[np.flatnonzero(np.equal(sequence, sequence[i]))[0]]
        for j in np.flatnonzero(np.equal(sequence, sequence[i])):
            first_state = 0
            for covariance_function in covariance_functions:
                block = np.array(
                    covariance_function(exact_times[i] - start, exact_times[j] - start), dtype=object
                )
                states = slice(first_state, first_state + len(block))
                covariance[i, states, j, states] = block
                first_state += len(block)
    return covariance


def posterior(params, values, times, sequence, prior=prior):
    """Return moments given values (N, D), NaN where missing, at times (N,) of sequences numbered (N,)."""
    row, column = np.nonzero(~np.isnan(values))
    prior_covariance, loadings = prior(params, times, sequence), exact(params.loadings)
    n, size, n_observed = len(times), params.loadings.shape[1], len(row)
    cross_covariances = [
        np.tensordot(loadings[d], prior_covariance[t], 1).ravel() for t, d in zip(row, column, strict=True)
    ]
    cross_covariances = np.array(cross_covariances, dtype=object).reshape(n_observed, n * size)
    joint = [
        [
            cross_covariances[i, t * size : (t + 1) * size] @ loadings[d]
            for t, d in zip(row, column, strict=True)
        ]
        for i in range(n_observed)
    ]
    joint = np.array(joint, dtype=object).reshape(n_observed, n_observed)
    joint[np.diag_indices(n_observed)] += exact(params.noise_variance)[column]
    deviations = exact(values[row, column]) - exact(params.offset)[column]
    # Cholesky elimination, one value at a time. With U' U the covariance of the values, rows become U,
    # U'^-1 cross_covariances and U'^-1 deviations.
    rows = np.hstack([joint, cross_covariances, deviations[:, None]])
    for i in range(n_observed):
        rows[i] = rows[i] / mp.sqrt(rows[i, i])
        rows[i + 1 :] = rows[i + 1 :] - rows[i, i + 1 : n_observed, None] * rows[i]
    whitened, whitened_deviations = rows[:, n_observed:-1].reshape(n_observed, n, size), rows[:, -1]
    terms = [
        -mp.log(2 * mp.pi) / 2 - mp.log(rows[i, i]) - whitened_deviations[i] ** 2 / 2
        for i in range(n_observed)
    ]

    def mean(t, known):
        return whitened[known, t].T @ whitened_deviations[known]

    def covariance(t, s, known):
        return prior_covariance[t, :, s] - whitened[known, t].T @ whitened[known, s]

    all_values, up_to_row = slice(None), [slice(np.searchsorted(row, t, "right")) for t in range(n)]
    blocks = (
        [mean(t, all_values) for t in range(n)],
        [covariance(t, t, all_values) for t in range(n)],
        [covariance(t + 1, t, all_values) for t in range(n - 1)],
        [mean(t, up_to_row[t]) for t in range(n)],
        [covariance(t, t, up_to_row[t]) for t in range(n)],
        [mp.fsum(terms[i] for i in np.flatnonzero(row == t)) for t in range(n)],
    )
    return Exact(*(np.array(block, dtype=float) for block in blocks))
