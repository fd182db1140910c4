"""The factorial AR(1) model by its definition: a dense joint Gaussian distribution, and textbook recursions.

A model has four arrays: decays a (K,), loadings C (D, K), noise variances r (D,) and offsets mu (D,). Data
are a list of sequences, each (T, D) with NaN where missing, and optionally a list of their times. Factors
are stacked by rows: factor k of row t has the index t * K + k.
"""

from decimal import Decimal, localcontext
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import multivariate_normal


class Model(NamedTuple):
    decay: np.ndarray
    loadings: np.ndarray
    noise: np.ndarray
    offset: np.ndarray


class Dense(NamedTuple):
    """Posterior ``means`` (N, K) and covariance ``full`` (N, K, N, K) of factors, and log-likelihood."""

    means: np.ndarray
    full: np.ndarray
    log_likelihood: float

    @property
    def covariances(self):
        return np.array([self.full[t, :, t, :] for t in range(len(self.means))])

    @property
    def lag_one(self):
        """Covariance of row t + 1 with row t, shape (N - 1, K, K)."""
        return np.array([self.full[t + 1, :, t, :] for t in range(len(self.means) - 1)])


def random_model(rng, n_features, n_components, noise=0.3):
    """Return a model with well separated decays, one of them negative if there are three or more."""
    decay = np.array([0.97, 0.8, -0.4, 0.5, 0.1])[:n_components]
    noise_variance = noise * rng.uniform(0.5, 1.5, n_features)
    loadings, offset = rng.standard_normal((n_features, n_components)), rng.standard_normal(n_features)
    return Model(decay, loadings, noise_variance, offset)


def simulate(rng, model, lengths, times=None):
    """Draw complete sequences of the model, row by row."""
    out = []
    for i, n in enumerate(lengths):
        z = rng.standard_normal(len(model.decay))
        rows = []
        for t in range(n):
            if t:
                a = model.decay ** (1.0 if times is None else times[i][t] - times[i][t - 1])
                z = a * z + np.sqrt(1 - a**2) * rng.standard_normal(len(z))
            noise = np.sqrt(model.noise) * rng.standard_normal(len(model.noise))
            rows.append(model.offset + model.loadings @ z + noise)
        out.append(np.array(rows))
    return out


def row_times(sequences, times=None):
    """Return sequence number and time of every row."""
    sequence_numbers = np.concatenate([np.full(len(x), i) for i, x in enumerate(sequences)])
    all_times = np.concatenate(
        [np.arange(len(x), dtype=float) if times is None else times[i] for i, x in enumerate(sequences)]
    )
    return sequence_numbers, all_times


def latent_covariance(model, sequences, times=None):
    """Return the prior covariance (N * K, N * K): a ** |t - s| within sequence and factor, otherwise zero."""
    sequence_numbers, all_times = row_times(sequences, times)
    n, k = len(sequence_numbers), len(model.decay)
    P = np.zeros((n, k, n, k))
    for s in range(n):
        for t in range(n):
            if sequence_numbers[s] == sequence_numbers[t]:
                for j in range(k):
                    P[s, j, t, j] = model.decay[j] ** abs(all_times[s] - all_times[t])
    return P.reshape(n * k, n * k)


def observation_matrix(model, n_rows):
    """Return the matrix (N * D, N * K) from all factors to all noise-free values."""
    d, k = model.loadings.shape
    H = np.zeros((n_rows, d, n_rows, k))
    for t in range(n_rows):
        H[t, :, t, :] = model.loadings
    return H.reshape(n_rows * d, n_rows * k)


def joint_posterior(model, sequences, times=None):
    """Return the posterior of the factors given the observed values, from the joint Gaussian."""
    x = np.concatenate(sequences)
    n, k = len(x), len(model.decay)
    observed = ~np.isnan(x).ravel()
    P = latent_covariance(model, sequences, times)
    H = observation_matrix(model, n)[observed]
    R = np.diag(np.tile(model.noise, n)[observed])
    e = (x - model.offset).ravel()[observed]
    S = H @ P @ H.T + R
    gain = np.linalg.solve(S, H @ P).T
    _, log_det = np.linalg.slogdet(S)
    log_likelihood = -0.5 * (len(e) * np.log(2 * np.pi) + log_det + e @ np.linalg.solve(S, e))
    full = P - gain @ H @ P
    return Dense((gain @ e).reshape(n, k), full.reshape(n, k, n, k), float(log_likelihood))


def log_likelihood(model, sequences, times=None):
    return joint_posterior(model, sequences, times).log_likelihood


def innovation_log_likelihood(decay, innovation_variance, weights, offset, sequences, first_variance=None):
    """Return the log-likelihood of a noise-free model with any innovation variances.

    Turner & Sahani (2007), eqs. 6-9: each sequence is one Gaussian vector. Factors are sums of innovations,
    ``(I - shifted decays) y = e``, and values are ``weights^-1 y``, row by row.
    """
    first = innovation_variance / (1 - decay**2) if first_variance is None else first_variance
    total = 0.0
    for x in sequences:
        n, k = x.shape
        differences = np.eye(n * k) - np.kron(np.eye(n, k=-1), np.diag(decay))
        input_covariance = np.diag(np.concatenate([first, np.tile(innovation_variance, n - 1)]))
        H = np.kron(np.eye(n), np.linalg.inv(weights)) @ np.linalg.inv(differences)
        total += multivariate_normal.logpdf(x.ravel(), np.tile(offset, n), H @ input_covariance @ H.T)
    return float(total)


def exact_posterior(model, sequences, digits=70):
    """Return `joint_posterior` of evenly sampled sequences in decimal arithmetic, for small noise."""
    x = np.concatenate(sequences)
    sequence_numbers, all_times = row_times(sequences)
    n, k = len(x), len(model.decay)
    with localcontext() as context:
        context.prec = digits
        a = [Decimal(float(v)) for v in model.decay]
        P = np.full((n * k, n * k), Decimal(0))
        for s in range(n):
            for t in range(n):
                if sequence_numbers[s] == sequence_numbers[t]:
                    for j in range(k):
                        gap = int(abs(all_times[s] - all_times[t]))
                        P[s * k + j, t * k + j] = a[j] ** gap if gap else Decimal(1)
        exact = np.vectorize(lambda v: Decimal(float(v)), otypes=[object])
        observed = ~np.isnan(x).ravel()
        H = exact(observation_matrix(model, n)[observed])
        e = (exact(np.nan_to_num(x)) - exact(model.offset)).ravel()[observed]
        S = H @ P @ H.T + np.diag(exact(np.tile(model.noise, n)[observed]))
        solved, log_det = _decimal_solve(S, np.column_stack([H @ P, e]))
        means = (H @ P).T @ solved[:, -1]
        full = P - (H @ P).T @ solved[:, :-1]
        two_pi = Decimal("6.283185307179586476925286766559005768394338798750211641949889")
        log_likelihood = -(len(e) * two_pi.ln() + log_det + e @ solved[:, -1]) / 2
        return Dense(
            means.astype(float).reshape(n, k), full.astype(float).reshape(n, k, n, k), float(log_likelihood)
        )


def _decimal_solve(S, right):
    """Solve a positive definite system by Gaussian elimination; return solution and log determinant."""
    S, right = S.copy(), right.copy()
    n, log_det = len(S), Decimal(0)
    for i in range(n):
        log_det += S[i, i].ln()
        for j in range(i + 1, n):
            factor = S[j, i] / S[i, i]
            S[j, i:] = S[j, i:] - factor * S[i, i:]
            right[j] = right[j] - factor * right[i]
    for i in reversed(range(n)):
        right[i] = (right[i] - S[i, i + 1 :] @ right[i + 1 :]) / S[i, i] if i + 1 < n else right[i] / S[i, i]
    return right, log_det


class Loop(NamedTuple):
    filtered_means: np.ndarray
    filtered_covariances: np.ndarray
    row_log_likelihoods: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def kalman_loop(model, sequences, times=None):
    """Kalman filter with D-by-D innovation covariances and Joseph updates, Rauch-Tung-Striebel smoother."""
    pieces = [_one_loop(model, x, None if times is None else times[i]) for i, x in enumerate(sequences)]
    return Loop(*(np.concatenate(parts) for parts in zip(*pieces, strict=True)))


def _one_loop(model, x, times):
    n, k = len(x), len(model.decay)
    mean, cov = np.zeros(k), np.eye(k)
    predicted, filtered, logs, steps = [], [], [], []
    for t in range(n):
        if t:
            A = np.diag(model.decay ** (1.0 if times is None else times[t] - times[t - 1]))
            steps.append(A)
            mean, cov = A @ mean, A @ cov @ A.T + np.eye(k) - A @ A.T
        predicted.append((mean, cov))
        observed = ~np.isnan(x[t])
        C, R = model.loadings[observed], np.diag(model.noise[observed])
        e = (x[t] - model.offset)[observed] - C @ mean
        S = C @ cov @ C.T + R
        gain = cov @ C.T @ np.linalg.inv(S)
        shrinkage = np.eye(k) - gain @ C
        deviance_term = np.linalg.slogdet(S)[1] + e @ np.linalg.solve(S, e)
        logs.append(-0.5 * (observed.sum() * np.log(2 * np.pi) + deviance_term))
        mean, cov = mean + gain @ e, shrinkage @ cov @ shrinkage.T + gain @ R @ gain.T
        filtered.append((mean, cov))
    smoothed = [filtered[-1]]
    for t in reversed(range(n - 1)):
        m, V = filtered[t]
        m_next, V_next = predicted[t + 1]
        J = V @ steps[t].T @ np.linalg.inv(V_next)
        ms, Vs = smoothed[0]
        smoothed.insert(0, (m + J @ (ms - m_next), V + J @ (Vs - V_next) @ J.T))
    return (
        np.array([m for m, _ in filtered]),
        np.array([V for _, V in filtered]),
        np.array(logs),
        np.array([m for m, _ in smoothed]),
        np.array([V for _, V in smoothed]),
    )


def complete_entries(model, sequences, times=None):
    """Return mean and standard deviation of every value given the observed values.

    Observed values are returned unchanged with standard deviation zero. The moments follow from the
    covariance of the values; the posterior of the factors is not used.
    """
    x = np.concatenate(sequences)
    n = len(x)
    H = observation_matrix(model, n)
    S = H @ latent_covariance(model, sequences, times) @ H.T + np.diag(np.tile(model.noise, n))
    flat = x.ravel()
    observed = ~np.isnan(flat)
    mu = np.tile(model.offset, n)
    gain = np.linalg.solve(S[np.ix_(observed, observed)], S[np.ix_(observed, ~observed)]).T
    mean, std = flat.copy(), np.zeros_like(flat)
    mean[~observed] = mu[~observed] + gain @ (flat - mu)[observed]
    std[~observed] = np.sqrt(np.diag(S[np.ix_(~observed, ~observed)] - gain @ S[np.ix_(observed, ~observed)]))
    return mean.reshape(x.shape), std.reshape(x.shape)


def forecast(model, sequence, n_steps):
    """Return means and standard deviations of factors and observations in rows appended to a sequence."""
    empty = np.full((n_steps, sequence.shape[1]), np.nan)
    extended = [np.vstack([sequence, empty])]
    posterior = joint_posterior(model, extended)
    means, stds = complete_entries(model, extended)
    latent_std = np.sqrt(np.diagonal(posterior.covariances, axis1=1, axis2=2))
    return posterior.means[-n_steps:], latent_std[-n_steps:], means[-n_steps:], stds[-n_steps:]


def expected_sums(model, sequences, gaps, times=None):
    """Return the sums of expected moments of the M-step by name, from the dense posterior of the factors."""
    dense, x = joint_posterior(model, sequences, times), np.concatenate(sequences)
    sequence_numbers, all_times = row_times(sequences, times)
    d, k = model.loadings.shape
    counts, power = np.zeros(d), np.zeros(d)
    moments, latent = np.zeros((d, k + 1)), np.zeros((d, k + 1, k + 1))
    total_moments = np.zeros((k + 1, k + 1))
    transitions, innovation = np.zeros(len(gaps)), np.zeros((len(gaps), k))
    cross, previous = np.zeros((len(gaps), k)), np.zeros((len(gaps), k))
    for t in range(len(x)):
        m, V = dense.means[t], dense.full[t, :, t, :]
        second = np.block([[V + np.outer(m, m), m[:, None]], [m, np.ones(1)]])
        total_moments += second * (not np.isnan(x[t]).all())
        for j in np.flatnonzero(~np.isnan(x[t])):
            e = x[t, j] - model.offset[j] - model.loadings[j] @ m
            counts[j] += 1
            power[j] += e**2 + model.loadings[j] @ V @ model.loadings[j]
            moments[j] += np.append(e * m - V @ model.loadings[j], e)
            latent[j] += second
        if t and sequence_numbers[t] == sequence_numbers[t - 1]:
            u = int(np.argmin(np.abs(gaps - (all_times[t] - all_times[t - 1]))))
            transitions[u] += 1
            for i in range(k):
                a = model.decay[i] ** gaps[u]
                previous_mean, previous_variance, lag_covariance = (
                    dense.means[t - 1, i],
                    dense.full[t - 1, i, t - 1, i],
                    dense.full[t, i, t - 1, i],
                )
                innovation[u, i] += (
                    (m[i] - a * previous_mean) ** 2
                    + V[i, i]
                    - 2 * a * lag_covariance
                    + a**2 * previous_variance
                )
                cross[u, i] += (
                    (m[i] - a * previous_mean) * previous_mean + lag_covariance - a * previous_variance
                )
                previous[u, i] += previous_mean**2 + previous_variance
    return {
        "counts": counts,
        "residual_power": power,
        "residual_moments": moments,
        "latent_moments": latent,
        "total_moments": total_moments,
        "transitions": transitions,
        "innovation_power": innovation,
        "innovation_moments": cross,
        "previous_power": previous,
    }


def expected_complete_log_likelihood(model, dense, sequences, times=None):
    """Return E[log p(x, z | model)] under a given distribution of z, term by term."""
    x = np.concatenate(sequences)
    sequence_numbers, all_times = row_times(sequences, times)
    total = 0.0
    for t in range(len(x)):
        m, V = dense.means[t], dense.full[t, :, t, :]
        for j, a in enumerate(model.decay):
            if t and sequence_numbers[t] == sequence_numbers[t - 1]:
                a = a ** (all_times[t] - all_times[t - 1])
                previous_mean, previous_variance = dense.means[t - 1, j], dense.full[t - 1, j, t - 1, j]
                power = (
                    (m[j] - a * previous_mean) ** 2
                    + V[j, j]
                    - 2 * a * dense.full[t, j, t - 1, j]
                    + a**2 * previous_variance
                )
                total -= 0.5 * (np.log(2 * np.pi * (1 - a**2)) + power / (1 - a**2))
            else:
                total -= 0.5 * (np.log(2 * np.pi) + m[j] ** 2 + V[j, j])
        for d in range(x.shape[1]):
            if not np.isnan(x[t, d]):
                c = model.loadings[d]
                power = (x[t, d] - model.offset[d] - c @ m) ** 2 + c @ V @ c
                total -= 0.5 * (np.log(2 * np.pi * model.noise[d]) + power / model.noise[d])
    return total


def pack(model, kind, even=True):
    """Return free coordinates: atanh a (or log(-log a)), C row by row, log r (all, one or none), mu."""
    free = np.arctanh(model.decay) if even else np.log(-np.log(model.decay))
    log_noise = np.log(model.noise)
    noise = {"diagonal": log_noise, "isotropic": log_noise[:1], "known": log_noise[:0]}[kind]
    return np.concatenate([free, model.loadings.ravel(), noise, model.offset])


def unpack(vector, like, kind, even=True):
    d, k = like.loadings.shape
    n_noise = {"diagonal": d, "isotropic": 1, "known": 0}[kind]
    free, C, log_noise, mu = np.split(vector, np.cumsum([k, d * k, n_noise]))
    noise = like.noise if kind == "known" else np.broadcast_to(np.exp(log_noise), (d,))
    return Model(np.tanh(free) if even else np.exp(-np.exp(free)), C.reshape(d, k), noise, mu)


def numerical_gradient(function, at, step=1e-3):
    """Return sixth-order central differences, with one step for all coordinates or one for each."""
    steps = np.broadcast_to(step, at.shape)
    out = np.zeros_like(at)
    for i in range(len(at)):
        e = np.zeros_like(at)
        e[i] = steps[i]
        values = [function(at + j * e) for j in (-3, -2, -1, 1, 2, 3)]
        out[i] = np.dot([-1, 9, -45, 45, -9, 1], values) / (60 * steps[i])
    return out


def numerical_score(model, sequences, kind, times=None):
    even = times is None
    return numerical_gradient(
        lambda v: log_likelihood(unpack(v, model, kind, even), sequences, times), pack(model, kind, even)
    )


def numerical_hessian(function, at, step=1e-3):
    """Return second derivatives by fourth-order differences of numerical gradients."""
    n = len(at)
    H = np.zeros((n, n))
    for i in range(n):
        e = np.zeros(n)
        e[i] = step
        g = [numerical_gradient(function, at + j * e, step) for j in (-2, -1, 1, 2)]
        H[i] = (g[0] - 8 * g[1] + 8 * g[2] - g[3]) / (12 * step)
    return 0.5 * (H + H.T)


def best_next_model(model, dense, sequences, kind, times=None):
    """Return the M-step: the model that maximizes the expected complete-data log-likelihood numerically."""
    even = times is None

    def loss(vector):
        return -expected_complete_log_likelihood(unpack(vector, model, kind, even), dense, sequences, times)

    start = pack(model, kind, even)
    for _ in range(3):
        gradient = partial(numerical_gradient, loss)
        optimum = minimize(loss, start, jac=gradient, method="BFGS", options={"gtol": 1e-9})
        start = optimum.x
    return unpack(optimum.x, model, kind, even)


def spectral_density(model, omega):
    """Return the spectrum of the observations from geometric series of the factors' autocovariances."""
    phase = np.exp(-1j * omega)
    f = np.array([(1 / (1 - a * phase) + 1 / (1 - a * np.conj(phase)) - 1).real for a in model.decay])
    return (model.loadings * f) @ model.loadings.T + np.diag(model.noise)


def whittle_information(model, n_frequencies=4000, step=1e-5):
    """Return (1/2) mean over (0, pi) of tr(S^-1 d_i S S^-1 d_j S) by differences; offsets: S(0)^-1."""
    at = pack(model, "diagonal")
    d = len(model.offset)
    n = len(at) - d
    total = np.zeros((n, n))
    for omega in (np.arange(n_frequencies) + 0.5) * np.pi / n_frequencies:
        inverse = np.linalg.inv(spectral_density(model, omega))
        slopes = []
        for i in range(n):
            e = np.zeros_like(at)
            e[i] = step
            forward, backward = (
                spectral_density(unpack(at + s * e, model, "diagonal"), omega) for s in (1, -1)
            )
            slopes.append(inverse @ (forward - backward) / (2 * step))
        flat = np.array(slopes)
        total += 0.5 * np.einsum("iab,jba->ij", flat, flat)
    info = np.zeros((n + d, n + d))
    info[:n, :n] = total / n_frequencies
    info[n:, n:] = np.linalg.inv(spectral_density(model, 0.0))
    return info


def whittle_log_likelihood(model, sequence):
    """Return -1/2 sum of log|S| + tr(S^-1 I) over nonzero Fourier frequencies, with the periodogram I."""
    n = len(sequence)
    total = 0.0
    for j in range(1, n):
        omega = 2 * np.pi * j / n
        transform = sum(sequence[t] * np.exp(-1j * omega * t) for t in range(n)) / np.sqrt(n)
        S = spectral_density(model, omega)
        total -= 0.5 * (np.linalg.slogdet(S)[1] + (transform.conj() @ np.linalg.solve(S, transform)).real)
    return total


def cubic_objective(a, n, previous, cross, current):
    """Return the expected log density of n transitions of one factor with unit variance."""
    return -0.5 * (n * np.log(1 - a**2) + (current - 2 * a * cross + a**2 * previous) / (1 - a**2))


def exact_log_likelihood(model, sequence, digits=60):
    """Return the log-likelihood in decimal arithmetic by scalar updates, which are fast for long series."""
    exact = np.vectorize(lambda v: Decimal(float(v)), otypes=[object])
    k = len(model.decay)
    with localcontext() as context:
        context.prec = digits
        a, C, r, mu = (exact(part) for part in model)
        mean, P = np.full(k, Decimal(0)), np.diag(np.full(k, Decimal(1)))
        total = Decimal(0)
        two_pi = Decimal("6.283185307179586476925286766559005768394338798750211641949889")
        for t, row in enumerate(sequence):
            if t:
                mean, P = a * mean, a[:, None] * P * a + np.diag(1 - a * a)
            for d in np.flatnonzero(~np.isnan(row)):
                gain = P @ C[d]
                variance = C[d] @ gain + r[d]
                e = Decimal(float(row[d])) - mu[d] - C[d] @ mean
                total -= ((two_pi * variance).ln() + e * e / variance) / 2
                mean, P = mean + gain * (e / variance), P - np.outer(gain, gain) / variance
    return float(total)


def predict_hidden_values(model, sequences, hidden, times=None):
    """Return means and standard deviations (N, D) of each value given the values that are not hidden for it.

    ``hidden(t, d)`` returns a mask (N, D) of the values that are hidden when value (t, d) is predicted,
    including (t, d) itself.
    """
    x = np.concatenate(sequences)
    boundaries = np.cumsum([len(s) for s in sequences])[:-1]
    means, std = np.full(x.shape, np.nan), np.full(x.shape, np.nan)
    for t in range(len(x)):
        for d in range(x.shape[1]):
            rest = np.where(hidden(t, d), np.nan, x)
            completed, completed_std = complete_entries(model, np.split(rest, boundaries), times)
            means[t, d], std[t, d] = completed[t, d], completed_std[t, d]
    return means, std
