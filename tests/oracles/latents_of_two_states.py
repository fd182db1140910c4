"""Rhythms and smooth latents by their definitions: their covariances are matrix exponentials.

The covariance of the states at times ``s >= t`` is ``exp(F (s - t))``, ``F`` being the drift of the process;
all else is the joint Gaussian of states and observations, written out.
"""

import numpy as np
from scipy.linalg import block_diag, expm


def drifts(params):
    """Drift of each latent, in the order of the states."""
    return [
        *(np.array([[np.log(a)]]) for a in params.decay),
        *(
            np.array([[np.log(r), -w], [w, np.log(r)]])
            for r, w in zip(params.rhythm_decay, params.rhythm_frequency, strict=True)
        ),
        # f'' + 2 rate f' + rate^2 f = noise, with f' in units of its deviation, which is the rate.
        *(rate * np.array([[0.0, 1.0], [-1.0, -2.0]]) for rate in params.smooth_rate),
    ]


def transition(params, gap):
    """``A`` over a gap."""
    return block_diag(*(expm(gap * drift) for drift in drifts(params)))


def prior(params, times):
    """Covariance of the states at the times of one or several sequences: (N S, N S)."""
    sequences = []
    for when in times:
        gaps = np.subtract.outer(when, when)
        distinct, which = np.unique(np.abs(gaps), return_inverse=True)
        later = expm(distinct[:, None, None] * block_diag(*drifts(params)))[which.reshape(gaps.shape)]
        earlier = later.transpose(1, 0, 3, 2)
        blocks = np.where(gaps[:, :, None, None] >= 0.0, later, earlier)
        sequences.append(blocks.transpose(0, 2, 1, 3).reshape(later.shape[0] * later.shape[2], -1))
    return block_diag(*sequences)


def joint(params, data, times):
    """Log-likelihood of rows with holes, and mean (N, S) and covariance (N, S, N, S) of the states."""
    x = np.concatenate(data)
    n_rows, n = len(x), params.loadings.shape[1]
    states = prior(params, times)
    seen = ~np.isnan(x.ravel())
    matrix = np.kron(np.eye(n_rows), params.loadings)[seen]
    spread = matrix @ states @ matrix.T + np.diag(np.tile(params.noise_variance, n_rows)[seen])
    y = (x - params.offset).ravel()[seen]
    value = -0.5 * (np.linalg.slogdet(2.0 * np.pi * spread)[1] + y @ np.linalg.solve(spread, y))
    crossed = states @ matrix.T
    mean = crossed @ np.linalg.solve(spread, y)
    covariance = states - crossed @ np.linalg.solve(spread, crossed.T)
    return value, mean.reshape(n_rows, n), covariance.reshape(n_rows, n, n_rows, n)


def draw(rng, params, times):
    """Observations of sequences at those times."""
    states = prior(params, times)
    n_rows = sum(map(len, times))
    z = np.linalg.cholesky(states + 1e-12 * np.eye(len(states))) @ rng.standard_normal(len(states))
    noise = rng.standard_normal((n_rows, len(params.offset))) * np.sqrt(params.noise_variance)
    x = z.reshape(n_rows, -1) @ params.loadings.T + params.offset + noise
    return np.split(x, np.cumsum([len(when) for when in times])[:-1])


def transition_moments(params, mean, covariance, times, gaps, gap_index):
    """Sums over the transitions of each gap: ``E e e'``, ``E e z'`` and ``E z z'``, all (U, S, S)."""
    n, first = mean.shape[1], 0
    power, moments, previous = (np.zeros((len(gaps), n, n)) for _ in range(3))
    for when in times:
        for t in range(first + 1, first + len(when)):
            gap = gap_index[t]
            both = np.concatenate([mean[t - 1], mean[t]])
            rows = [t - 1, t]
            second = np.block([[covariance[i, :, j, :] for j in rows] for i in rows]) + np.outer(both, both)
            innovation = np.hstack([-transition(params, gaps[gap]), np.eye(n)])
            power[gap] += innovation @ second @ innovation.T
            moments[gap] += (innovation @ second)[:, :n]
            previous[gap] += second[:n, :n]
        first += len(when)
    return power, moments, previous
