"""Posterior of the factors without observation noise, for rows with missing values.

Without noise, the observed values of row ``t`` are linear equations ``A z_t = b`` of the factors. The rows of
``A`` are the loadings of the observed columns; ``b`` contains the observed values minus their means.
Solutions are ``z_t = p + N w``, with the minimum-norm solution ``p`` and an orthonormal basis ``N`` of the
null space of ``A``. A complete row determines its factors, so that the filter is needed only in incomplete
rows and in the rows after them. In each of these rows, the predicted distribution with mean ``m`` and
covariance ``P`` is conditioned on the equations. The mean and the covariance of ``w`` are then

    cov(w) = (N' P^-1 N)^-1,    E[w] = cov(w) N' P^-1 (m - p),

which avoids the difference of nearly equal covariances. The backward pass is the smoother of Rauch, Tung &
Striebel (1965). The result is the limit of the model with noise as the noise variance goes to zero.
"""

from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.engine.posterior import Posterior

__all__ = ["draw_given_observed", "smooth_given_observed"]

# Singular values of scaled loadings below this fraction of the largest one are rounding errors.
_RANK_TOL = 1e-9


class _Equations(NamedTuple):
    """Solutions of the equations of a row with some observed values.

    Attributes
    ----------
    observed : ndarray of bool of shape (D,)
        Which values are observed.
    solve : ndarray of shape (R, n)
        Matrix whose product with the ``n`` observed values, less their means, is the minimum-norm solution.
    null : ndarray of shape (R, R - m)
        Orthonormal basis of the null space of the equations, of rank ``m``.
    basis : ndarray of shape (R, m)
        Orthonormal basis of the row space.
    log_jacobian : float
        Sum of the logarithms of the nonzero singular values of the equations.
    """

    observed: BoolArray
    solve: FloatArray
    null: FloatArray
    basis: FloatArray
    log_jacobian: float


class _Filtered(NamedTuple):
    """Filtered moments of the factors (given a row and earlier rows), and predicted moments (without it)."""

    means: FloatArray
    covariances: FloatArray
    predicted_means: FloatArray
    predicted_covariances: FloatArray
    decays: FloatArray
    row_log_likelihoods: FloatArray


class _Conditioning:
    """The square model conditioned on rows with missing values."""

    def __init__(
        self, decay: FloatArray, components: FloatArray, loadings: FloatArray, mean: FloatArray
    ) -> None:
        self.decay, self.components, self.loadings, self.mean = decay, components, loadings, mean
        # Loadings are scaled so that the rank of the equations does not depend on the units of the columns.
        norms = np.sqrt(np.sum(loadings**2, axis=1))
        self._scale = np.where(norms > 0.0, norms, 1.0)
        self._equations: dict[bytes, _Equations] = {}

    def equations(self, observed: BoolArray) -> _Equations:
        """Return the solution for a pattern of observed values; cached, because patterns repeat."""
        key = observed.tobytes()
        if key not in self._equations:
            self._equations[key] = self._solve(observed)
        return self._equations[key]

    def _solve(self, observed: BoolArray) -> _Equations:
        n_factors = self.decay.size
        rows, scale = self.loadings[observed], self._scale[observed]
        if observed.all():
            log_jacobian = float(np.sum(np.log(np.linalg.svd(rows, compute_uv=False))))
            return _Equations(
                observed, self.components, np.zeros((n_factors, 0)), np.eye(n_factors), log_jacobian
            )
        left, singular, right = np.linalg.svd(rows / scale[:, None], full_matrices=True)
        rank = int(np.sum(singular > _RANK_TOL * max(float(singular.max(initial=0.0)), _RANK_TOL)))
        basis, null = right[:rank].T, right[rank:].T
        solve = (basis / singular[:rank]) @ left[:, :rank].T / scale
        values = np.linalg.svd(rows @ basis, compute_uv=False)
        return _Equations(observed, solve, null, basis, float(np.sum(np.log(values))))

    def filter(self, values: FloatArray, starts: BoolArray) -> _Filtered:
        """Filter all rows; the loop skips complete rows that follow a complete row."""
        n, rank = len(values), self.decay.size
        observed = np.asarray(~np.isnan(values))
        complete = np.asarray(observed.all(axis=1))
        means = np.zeros((n, rank))
        means[complete] = (values[complete] - self.mean) @ self.components.T
        covariances = np.zeros((n, rank, rank))
        decays = np.where(starts[:, None], 0.0, self.decay)
        innovations = (1.0 - decays) * (1.0 + decays)
        predicted_means = np.zeros((n, rank))
        predicted_means[1:] = decays[1:] * means[:-1]
        predicted = np.zeros((n, rank, rank))
        predicted[:, range(rank), range(rank)] = innovations
        equations_of_complete_row = self.equations(np.ones(values.shape[1], dtype=bool))
        errors = means - predicted_means
        log_densities = -0.5 * (np.log(2.0 * np.pi * innovations) + errors**2 / innovations).sum(axis=1)
        log_densities = log_densities - equations_of_complete_row.log_jacobian
        needs_loop = ~complete
        needs_loop[1:] |= ~complete[:-1]
        for t in np.flatnonzero(needs_loop).tolist():
            a = decays[t]
            if t > 0 and not complete[t - 1]:
                predicted_means[t] = a * means[t - 1]
                predicted[t] += a[:, None] * covariances[t - 1] * a
            row = self.equations(observed[t])
            b = (values[t] - self.mean)[row.observed]
            means[t], covariances[t], log_densities[t] = _condition(row, b, predicted_means[t], predicted[t])
        return _Filtered(means, covariances, predicted_means, predicted, decays, log_densities)


def _condition(
    row: _Equations, b: FloatArray, mean: FloatArray, covariance: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Condition a Gaussian on the equations of a row, with the right-hand side ``b``.

    Returns
    -------
    mean, covariance : ndarray of shape (R,) and (R, R)
        Moments of the factors.
    log_density : float
        Log density of the observed values.
    """
    solution = row.solve @ b
    basis, null = row.basis, row.null
    inverse = np.linalg.inv(covariance)
    covariance_of_w = np.linalg.inv(null.T @ inverse @ null)
    mean_of_w = covariance_of_w @ (null.T @ (inverse @ (mean - solution)))
    covariance_in_basis = basis.T @ covariance @ basis
    error = basis.T @ (solution - mean)
    log_density = -0.5 * (
        error.size * np.log(2.0 * np.pi)
        + np.linalg.slogdet(covariance_in_basis)[1]
        + error @ np.linalg.solve(covariance_in_basis, error)
    )
    conditional = null @ covariance_of_w @ null.T
    symmetric = 0.5 * (conditional + conditional.T)
    return solution + null @ mean_of_w, symmetric, float(log_density - row.log_jacobian)


def smooth_given_observed(
    decay: FloatArray, components: FloatArray, loadings: FloatArray, mean: FloatArray, sequences: Sequences
) -> Posterior:
    """Compute the distribution of the factors of the square model given all observed values.

    Parameters
    ----------
    decay : ndarray of shape (R,)
        Lag-one autocorrelations of the factors.
    components, loadings : ndarray of shape (R, D), (D, R)
        Weights of the columns in the factors, and loadings of the factors on the columns.
    mean : ndarray of shape (D,)
        Mean of the columns.
    sequences : Sequences
        Rows, evenly sampled, NaN where missing.

    Returns
    -------
    Posterior
    """
    model = _Conditioning(decay, components, loadings, mean)
    filtered = model.filter(sequences.values, sequences.starts)
    means, covariances = filtered.means.copy(), filtered.covariances.copy()
    lag_one = np.zeros((max(len(means) - 1, 0), *covariances.shape[1:]))
    for t, gain in _gains(filtered, sequences.starts):
        means[t] += gain @ (means[t + 1] - filtered.predicted_means[t + 1])
        change = gain @ (covariances[t + 1] - filtered.predicted_covariances[t + 1]) @ gain.T
        covariances[t] += 0.5 * (change + change.T)
        lag_one[t] = covariances[t + 1] @ gain.T
    return Posterior(means, covariances, lag_one, filtered.row_log_likelihoods)


def draw_given_observed(
    decay: FloatArray,
    components: FloatArray,
    loadings: FloatArray,
    mean: FloatArray,
    sequences: Sequences,
    n_draws: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Draw the factors (n_draws, N, R) given all observed values; see :func:`smooth_given_observed`."""
    model = _Conditioning(decay, components, loadings, mean)
    filtered = model.filter(sequences.values, sequences.starts)
    draws = np.repeat(filtered.means[None], n_draws, axis=0)
    gains = dict(_gains(filtered, sequences.starts))
    for t in np.flatnonzero(filtered.covariances.any(axis=(1, 2)))[::-1].tolist():
        covariance = filtered.covariances[t]
        if t in gains:
            gain = gains[t]
            covariance = covariance - gain @ filtered.predicted_covariances[t + 1] @ gain.T
            draws[:, t] += (draws[:, t + 1] - filtered.predicted_means[t + 1]) @ gain.T
        values, vectors = np.linalg.eigh(0.5 * (covariance + covariance.T))
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws[:, t] += rng.standard_normal((n_draws, len(values))) @ root.T
    return draws


def _gains(filtered: _Filtered, starts: BoolArray) -> list[tuple[int, FloatArray]]:
    """Return pairs of a row and its smoother gain, last row first.

    Only incomplete rows that are not the last row of their sequence have a gain.
    """
    gains = []
    for t in np.flatnonzero(filtered.covariances[:-1].any(axis=(1, 2)) & ~starts[1:])[::-1].tolist():
        cross_covariance = filtered.decays[t + 1][:, None] * filtered.covariances[t]
        gains.append((t, np.linalg.solve(filtered.predicted_covariances[t + 1], cross_covariance).T))
    return gains
