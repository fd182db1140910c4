"""Control charts by their definition: quadratic forms of dense Gaussian variables, and counted rows."""

import numpy as np

from tests.oracles import statespace


def causal_charts(model, x, which, times=None):
    """Return T2, S2 and residual of each row, with the degrees of freedom of each statistic.

    The statistics are quadratic forms of the values observed up to the row, from the joint Gaussian
    distribution of factors and values of a sequence. `which` are the factors of T2 and S2.
    """
    sequences, sequence_times = [x], None if times is None else [times]
    n, d = x.shape
    k = len(model.decay)
    P = statespace.latent_covariance(model, sequences, sequence_times)
    H = statespace.observation_matrix(model, n)
    S = H @ P @ H.T + np.diag(np.tile(model.noise, n))
    observed = ~np.isnan(x).ravel()
    e = np.where(observed, (x - model.offset).ravel(), 0.0)
    row = np.repeat(np.arange(n), d)

    def causal_map(t):
        """Return the matrix from all values to the filtered means of the factors at row t."""
        G = np.zeros((len(which), n * d))
        known = np.flatnonzero(observed & (row <= t))
        cross = P.reshape(n, k, -1)[t][which] @ H[known].T
        G[:, known] = np.linalg.solve(S[np.ix_(known, known)], cross.T).T
        return G

    out = {name: (np.full(n, np.nan), np.zeros(n, dtype=int)) for name in ("T2", "S2", "residual")}
    for t in range(n):
        current, past = np.flatnonzero(observed & (row == t)), np.flatnonzero(observed & (row < t))
        if current.size == 0:
            continue
        G = causal_map(t)
        forms = {"T2": G}
        if t:
            forms["S2"] = G - causal_map(t - 1)
        for name, F in forms.items():
            V = F @ S @ F.T
            out[name][0][t] = (F @ e) @ np.linalg.pinv(V, rcond=1e-9, hermitian=True) @ (F @ e)
            out[name][1][t] = np.linalg.matrix_rank(V, tol=1e-9, hermitian=True)
        gain = np.linalg.solve(S[np.ix_(past, past)], S[np.ix_(past, current)]).T
        V = S[np.ix_(current, current)] - gain @ S[np.ix_(past, current)]
        error = e[current] - gain @ e[past]
        out["residual"][0][t] = error @ np.linalg.solve(V, error)
        out["residual"][1][t] = current.size
    return out


def minimum_over_a_value(statistic, x, t, j):
    """Return the minimum of a quadratic statistic of row t over all numbers in place of value (t, j)."""

    def at(value):
        changed = x.copy()
        changed[t, j] = value
        return statistic(changed)

    low, middle, high = at(x[t, j] - 1.0), at(x[t, j]), at(x[t, j] + 1.0)
    slope, curvature = (high - low) / 2.0, high + low - 2.0 * middle
    return middle - slope**2 / (2.0 * curvature) if curvature > 0.0 else middle


def rates(values, limits):
    """Return the share of rows above each limit and the share above any limit, by a loop over rows."""
    single_counts = np.zeros(len(limits))
    joint_count = n_rows = 0
    for row in values:
        if all(np.isnan(v) for v in row):
            continue
        n_rows += 1
        above = [bool(v > limit) for v, limit in zip(row, limits, strict=True)]
        single_counts += above
        joint_count += any(above)
    return single_counts / n_rows, joint_count / n_rows
