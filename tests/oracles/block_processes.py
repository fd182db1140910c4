"""Processes of factors by matrix exponentials of their differential equations ``dz = F z dt + dw``.

Moments follow from the dense joint Gaussian distribution of states and observations.
"""

import numpy as np
from scipy.linalg import block_diag, expm


def drifts(params):
    """Return the drift matrix ``F`` of each process, in the order of the states."""
    arrays = params.to_arrays()
    return [
        *(np.array([[np.log(a)]]) for a in params.decay),
        *(np.zeros((1, 1)) for _ in arrays.get("level_start", ())),
        *(
            np.array([[np.log(r), -w], [w, np.log(r)]])
            for r, w in zip(params.rhythm_decay, params.rhythm_frequency, strict=True)
        ),
        # f'' + 2 rate f' + rate^2 f = noise; f' is divided by its standard deviation, the rate.
        *(rate * np.array([[0.0, 1.0], [-1.0, -2.0]]) for rate in params.smooth_rate),
        # Level and slope are divided by their standard deviations at the start, 1e6 and 1e4 (slope steps).
        *(np.array([[0.0, 1e-2], [0.0, 0.0]]) for _ in arrays.get("line_ratio", ())),
        *(rate * WHITEN @ MATERN_52 @ np.linalg.inv(WHITEN) for rate in arrays.get("smoother_rate", ())),
    ]


MATERN_52 = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [-1.0, -3.0, -3.0]])
# Transforms a process and its derivatives to uncorrelated states with unit variance.
WHITEN = np.linalg.inv(np.linalg.cholesky([[1.0, 0.0, -1 / 3], [0.0, 1 / 3, 0.0], [-1 / 3, 0.0, 1.0]]))


def diffusions(params):
    """Return the covariance of ``dw`` per unit of time of each process, in the order of the states."""
    arrays = params.to_arrays()
    return [
        *(np.array([[-2.0 * np.log(a)]]) for a in params.decay),
        *(np.array([[1.0 / start]]) for start in arrays.get("level_start", ())),
        *(-2.0 * np.log(r) * np.eye(2) for r in params.rhythm_decay),
        *(rate * np.diag([0.0, 4.0]) for rate in params.smooth_rate),
        *(np.diag([ratio * 1e-12, 1e-8]) for ratio in arrays.get("line_ratio", ())),
        *(
            rate * 16.0 / 3.0 * np.outer(WHITEN[:, 2], WHITEN[:, 2])
            for rate in arrays.get("smoother_rate", ())
        ),
    ]


def innovation(params, gap):
    """Return the innovation covariance ``Q`` over a gap from a matrix exponential (Van Loan 1978)."""
    covariances = []
    for drift, diffusion in zip(drifts(params), diffusions(params), strict=True):
        n = len(drift)
        exponential = expm(gap * np.block([[-drift, diffusion], [np.zeros((n, n)), drift.T]]))
        covariances.append(exponential[n:, n:].T @ exponential[:n, n:])
    return block_diag(*covariances)


def transition(params, gap):
    """Return the transition matrix ``A`` over a gap."""
    return block_diag(*(expm(gap * drift) for drift in drifts(params)))


def prior(params, times):
    """Return the covariance (N S, N S) of the states at the times of one or several sequences."""
    covariances = []
    for sequence_times in times:
        size = sum(map(len, drifts(params)))
        blocks = np.zeros((len(sequence_times), size, len(sequence_times), size))
        blocks[0, :, 0] = np.eye(size)
        for t in range(1, len(sequence_times)):
            move = transition(params, sequence_times[t] - sequence_times[t - 1])
            blocks[t, :, :t] = np.einsum("ij,jsk->isk", move, blocks[t - 1, :, :t])
            blocks[:t, :, t] = blocks[t, :, :t].transpose(1, 2, 0)
            blocks[t, :, t] = move @ blocks[t - 1, :, t - 1] @ move.T + innovation(
                params, sequence_times[t] - sequence_times[t - 1]
            )
        covariances.append(blocks.reshape(len(sequence_times) * size, -1))
    return block_diag(*covariances)


def joint(params, data, times):
    """Return log-likelihood of incomplete rows and mean (N, S) and covariance (N, S, N, S) of the states."""
    x = np.concatenate(data)
    n_rows, n = len(x), params.loadings.shape[1]
    states = prior(params, times)
    observed = ~np.isnan(x.ravel())
    matrix = np.kron(np.eye(n_rows), params.loadings)[observed]
    covariance_of_values = matrix @ states @ matrix.T + np.diag(
        np.tile(params.noise_variance, n_rows)[observed]
    )
    y = (x - params.offset).ravel()[observed]
    value = -0.5 * (
        np.linalg.slogdet(2.0 * np.pi * covariance_of_values)[1]
        + y @ np.linalg.solve(covariance_of_values, y)
    )
    cross_covariance = states @ matrix.T
    mean = cross_covariance @ np.linalg.solve(covariance_of_values, y)
    covariance = states - cross_covariance @ np.linalg.solve(covariance_of_values, cross_covariance.T)
    return value, mean.reshape(n_rows, n), covariance.reshape(n_rows, n, n_rows, n)


def draw(rng, params, times):
    """Draw observations of sequences at the given times."""
    states = prior(params, times)
    n_rows = sum(map(len, times))
    variances, directions = np.linalg.eigh(states)
    z = directions @ (np.sqrt(np.maximum(variances, 0.0)) * rng.standard_normal(len(states)))
    noise = rng.standard_normal((n_rows, len(params.offset))) * np.sqrt(params.noise_variance)
    x = z.reshape(n_rows, -1) @ params.loadings.T + params.offset + noise
    return np.split(x, np.cumsum([len(t) for t in times])[:-1])


def transition_moments(params, mean, covariance, times, gaps, gap_index):
    """Return sums of ``E e e'``, ``E e z'``, ``E z z'`` over transitions of each gap, all (U, S, S)."""
    n, first = mean.shape[1], 0
    power, moments, previous = (np.zeros((len(gaps), n, n)) for _ in range(3))
    for sequence_times in times:
        for t in range(first + 1, first + len(sequence_times)):
            gap = gap_index[t]
            two_states = np.concatenate([mean[t - 1], mean[t]])
            rows = [t - 1, t]
            second = np.block([[covariance[i, :, j, :] for j in rows] for i in rows]) + np.outer(
                two_states, two_states
            )
            innovation = np.hstack([-transition(params, gaps[gap]), np.eye(n)])
            power[gap] += innovation @ second @ innovation.T
            moments[gap] += (innovation @ second)[:, :n]
            previous[gap] += second[:n, :n]
        first += len(sequence_times)
    return power, moments, previous
