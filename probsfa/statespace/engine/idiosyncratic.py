"""Inference with AR(1) noise of many columns, without a state for each column.

In the model ``x_td = mu_d + C_d z_t + s_d b_td + n_td``, the AR(1) noise ``b_d`` of each column is integrated
out. Let ``R_d`` be the correlation matrix of ``b_d`` over the rows in which the column is observed, ``r_d``
the variance of white noise, and ``Q`` the prior covariance of the factors. The noise of a column has the
covariance ``S_d = s_d^2 R_d + r_d I``, and the posterior precision of the ``T K`` factor values is

    L = Q^-1 + sum_d C_d C_d' (x) S_d^-1,

where ``(x)`` is the Kronecker product.

A product with ``S_d^-1`` requires a scalar smoother: the solution of a tridiagonal system for ``b_d``. Linear
systems with the matrix ``L`` are solved by conjugate gradients. The preconditioner has the form of ``L``, but
the noise of each column is approximated by a Markov chain with the same variances, and the same covariances
between adjacent observations (Vecchia 1988). The precision of this chain, which is tridiagonal, replaces
``S_d^-1``. The approximation is exact if a column has no white noise or no AR(1) noise. The preconditioner is
banded with ``2 K - 1`` subdiagonals. An iteration costs ``O(T K (K + D))``; a smoother with ``K + D`` states
would cost ``O(T (K + D)^3)``.

Posterior means and draws are exact up to the tolerance. For a draw, factors and observations are simulated
from the model, and the posterior mean given the difference of data and simulated observations is added to the
simulated factors (Papandreou & Yuille 2010). ``log det L`` in the log-likelihood is estimated by stochastic
Lanczos quadrature (Ubaru, Chen & Saad 2017) from the coefficients of the conjugate gradient iterations.

References
----------
Vecchia, A. V. (1988). Estimation and model identification for continuous spatial processes. Journal of the
Royal Statistical Society B 50, 297-312.
Papandreou, G. & Yuille, A. L. (2010). Gaussian sampling by local perturbations. NeurIPS 23.
Ubaru, S., Chen, J. & Saad, Y. (2017). Fast estimation of tr(f(A)) via stochastic Lanczos quadrature. SIAM
Journal on Matrix Analysis and Applications 38, 1075-1099.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal, lapack

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateSpace

__all__ = ["ColumnNoise", "FactorSystem", "Steps"]


# Maximum distance, in rows, between observations that are correlated in the preconditioner.
_MAX_LINK_ROWS = 8
# Maximum number of conjugate gradient iterations; usually far fewer are required.
_MAX_ITERATIONS = 500


@dataclass(frozen=True)
class Steps:
    """Observed values and time steps of a panel, columns first.

    Attributes
    ----------
    weights : ndarray of shape (D, T)
        Weights of the values, zero where missing; variances of white noise are divided by the weights.
    elapsed : ndarray of shape (T,)
        Time since the previous row; infinite for the first row of a sequence.
    """

    weights: FloatArray
    elapsed: FloatArray

    @classmethod
    def of(cls, panel: Panel) -> "Steps":
        """Return the steps of a panel, without its padding."""
        n = panel.n_rows
        elapsed = np.append(panel.gaps, np.inf)[panel.gap_index[:n]]
        return cls(np.ascontiguousarray(panel.value_weights[:n].T), elapsed)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.elapsed.size

    @cached_property
    def has_previous(self) -> BoolArray:
        """Mask (T,) of rows with a previous row in their sequence."""
        return np.isfinite(self.elapsed)

    def decays(self, decay: FloatArray) -> FloatArray:
        """Return decays (M, T) of AR(1) processes over each step, zero for the first row of a sequence."""
        elapsed = np.where(self.has_previous, self.elapsed, 1.0)
        return np.where(self.has_previous, _power(decay[:, None], elapsed), 0.0)

    @cached_property
    def links(self) -> "_Links":
        """Links between adjacent observations of each column."""
        rows = np.arange(self.n_rows)
        sequence_start = np.maximum.accumulate(np.where(self.has_previous, 0, rows))
        sequence_end = np.minimum.accumulate(
            np.where(np.append(self.has_previous[1:], False), self.n_rows, rows)[::-1]
        )[::-1]
        observed = self.weights > 0.0
        last = np.maximum.accumulate(np.where(observed, rows, -1), axis=1)
        last = np.concatenate([np.full((len(observed), 1), -1), last[:, :-1]], axis=1)
        following = np.minimum.accumulate(np.where(observed, rows, self.n_rows)[:, ::-1], axis=1)[:, ::-1]
        linked = (last >= sequence_start) & (following <= sequence_end) & (following - last <= _MAX_LINK_ROWS)
        last, following = np.where(linked, last, 0), np.where(linked, following, 0)
        times = np.cumsum(np.where(self.has_previous, self.elapsed, 0.0))
        return _Links(linked, last, following, np.where(linked, times[following] - times[last], 1.0))


class _Links(NamedTuple):
    """Links (D, T) of each row of a column with the previous row, in the preconditioner.

    In the preconditioner, two adjacent observations of a column in one sequence are correlated if they are at
    most eight rows apart. All rows after the first and up to the second of these observations are then linked
    with their previous rows.

    Attributes
    ----------
    linked : ndarray of shape (D, T)
        Whether the row is linked with the previous row.
    last, following : ndarray of shape (D, T)
        Rows of the two observations, ``last < row <= following``; zero if not linked.
    elapsed : ndarray of shape (D, T)
        Time between the two observations; one if not linked.
    """

    linked: BoolArray
    last: NDArray[np.intp]
    following: NDArray[np.intp]
    elapsed: FloatArray


def _power(decay: FloatArray, elapsed: FloatArray) -> FloatArray:
    """Return powers of decays; exponents of negative decays must be integers."""
    sign = np.where((decay < 0.0) & (np.rint(elapsed) % 2.0 == 1.0), -1.0, 1.0)
    return np.asarray(sign * np.abs(decay) ** elapsed)


def _ar1_precision(decays: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the tridiagonal precision of unit-variance AR(1) processes with decays (M, T) over each step.

    Returns its diagonal, and the off-diagonal entries of each row with the previous row, both (M, T).
    """
    diagonal = 1.0 / (1.0 - decays**2)
    off_diagonal = -decays * diagonal
    diagonal[:, :-1] -= decays[:, 1:] * off_diagonal[:, 1:]
    return diagonal, off_diagonal


class ColumnNoise:
    """AR(1) and white noise of each column: its inverse covariance, smoother and log-determinant.

    Parameters
    ----------
    params : StateSpace
        Parameters of the model with AR(1) noise.
    steps : Steps
        Observed values and time steps.
    """

    def __init__(self, params: StateSpace, steps: Steps) -> None:
        self.steps, self.decay = steps, params.noise_decay[:, None]
        self.scale, self.variance = params.noise_scale[:, None], params.noise_variance[:, None]
        self.decays = steps.decays(params.noise_decay)
        diagonal, off_diagonal = _ar1_precision(self.decays)
        diagonal += self.scale**2 * steps.weights / self.variance
        self._diagonal, self._off_diagonal = diagonal, off_diagonal
        # All columns are one tridiagonal system. The entry of the first row of a column with the last row of
        # the previous column is zero.
        self._pivots, self._factors, _ = lapack.dpttrf(diagonal.ravel(), off_diagonal.ravel()[1:])

    @cached_property
    def log_determinant(self) -> FloatArray:
        """Log-determinants (D,) of the covariances of the observed noise of each column."""
        weights = self.steps.weights
        observed = weights > 0.0
        noise = np.where(observed, np.log(self.variance / np.where(observed, weights, 1.0)), 0.0)
        noise += np.log(self._pivots.reshape(weights.shape)) + np.log1p(-(self.decays**2))
        return np.asarray(noise.sum(axis=1))

    def smooth(self, values: FloatArray) -> FloatArray:
        """Return posterior means (..., D, T) of the unit-variance AR(1) processes.

        ``values`` (..., D, T) are observed values minus the contributions of the factors.
        """
        weights = self.steps.weights
        right = np.ascontiguousarray(values * (weights * (self.scale / self.variance)))
        solved, _ = lapack.dpttrs(
            self._pivots, self._factors, right.reshape(-1, weights.size).T, overwrite_b=1
        )
        return np.asarray(solved.T).reshape(values.shape)

    def solve(self, values: FloatArray) -> FloatArray:
        """Return the product of the inverse covariance and values (..., D, T), zero where missing."""
        residuals = self.smooth(values)
        residuals *= -self.scale
        residuals += values
        residuals *= self.steps.weights / self.variance
        return residuals

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Posterior variances and lag-one covariances (D, T) of the AR(1) processes given the factors.

        The lag-one covariance of a row is its covariance with the previous row.
        """
        shape = self.steps.weights.shape
        backward_pivots, _, _ = lapack.dpttrf(self._diagonal.ravel()[::-1], self._off_diagonal.ravel()[:0:-1])
        backward, forward = backward_pivots[::-1].reshape(shape), self._pivots.reshape(shape)
        lag_one_covariances = np.zeros(shape)
        # The diagonal of the marginal precision of two adjacent rows consists of two pivots: one after
        # forward elimination of all earlier rows, the other after backward elimination of all later rows.
        first, second, off_diagonal = forward[:, :-1], backward[:, 1:], self._off_diagonal[:, 1:]
        lag_one_covariances[:, 1:] = -off_diagonal / (first * second - off_diagonal**2)
        return 1.0 / (forward + backward - self._diagonal), lag_one_covariances

    def markov_precision(self) -> tuple[FloatArray, FloatArray]:
        """Approximate the inverse covariance of the noise by tridiagonal matrices.

        Each observation is conditioned only on the previous observation, which is exact if white or AR(1)
        noise is zero. If two adjacent observations are several rows apart, their quadratic term is replaced
        by a sum of terms of adjacent rows. The minimum of this sum over the values of the rows in between is
        the original term.

        Returns
        -------
        diagonal, off_diagonal : ndarray of shape (D, T)
            Diagonals, and off-diagonal entries of each row with the previous row.
        """
        weights, (linked, last, following, elapsed) = self.steps.weights, self.steps.links
        ar1_variance = self.scale**2
        observed = weights > 0.0
        variance = ar1_variance + self.variance / np.where(observed, weights, 1.0)
        rows_apart = following - last
        covariance = ar1_variance * _power(self.decay, elapsed)
        linked = linked & ((covariance > 0.0) | (rows_apart == 1))
        slope = covariance / np.take_along_axis(variance, last, axis=1)
        conditional_variance = np.take_along_axis(variance, following, axis=1) - covariance * slope
        n_steps = np.where(linked, rows_apart, 1)
        slope_of_step = np.sign(slope) * np.abs(slope) ** (1.0 / n_steps)
        weight = np.where(linked, n_steps / conditional_variance, 0.0)
        weight *= slope_of_step ** (2 * np.where(linked, following - np.arange(self.steps.n_rows), 0))
        diagonal = weight + np.where(observed & ~linked, 1.0 / variance, 0.0)
        diagonal[:, :-1] += (slope_of_step**2 * weight)[:, 1:]
        return diagonal, -slope_of_step * weight


class Solution(NamedTuple):
    """Solutions of linear systems whose matrix is the posterior precision of the factors.

    Attributes
    ----------
    values : ndarray of shape (R, T, K)
        The solutions.
    n_iterations : int
        Number of conjugate gradient iterations.
    diagonals, off_diagonals : ndarray of shape (n_iterations, R)
        Tridiagonal matrices of the equivalent Lanczos processes; NaN in iterations after convergence.
    """

    values: FloatArray
    n_iterations: int
    diagonals: FloatArray
    off_diagonals: FloatArray


class FactorSystem:
    """The posterior precision of the factors, with AR(1) noise of columns integrated out.

    Parameters
    ----------
    params : StateSpace
        Parameters of a model with AR(1) factors and AR(1) noise of columns.
    steps : Steps
        Observed values and time steps.
    """

    def __init__(self, params: StateSpace, steps: Steps) -> None:
        self.params, self.steps = params, steps
        self.noise = ColumnNoise(params, steps)
        self.decays = steps.decays(params.decay)
        diagonal, off_diagonal = _ar1_precision(self.decays)
        self._diagonal = np.ascontiguousarray(diagonal.T)
        self._off_diagonal = np.ascontiguousarray(off_diagonal.T)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of factors."""
        return self.steps.n_rows, self.params.n_components

    def effects(self, factors: FloatArray) -> FloatArray:
        """Return the contributions (..., D, T) of factors (..., T, K) to the values."""
        return np.asarray(self.params.loadings @ factors.swapaxes(-1, -2))

    def information(self, values: FloatArray) -> FloatArray:
        """Return the right-hand side (..., T, K) of the linear system for the posterior means.

        ``values`` (..., D, T) are observed values minus the offset, zero where missing.
        """
        return np.asarray(self.noise.solve(values).swapaxes(-1, -2) @ self.params.loadings)

    def apply(self, factors: FloatArray) -> FloatArray:
        """Return the product of the posterior precision and factors (R, T, K)."""
        return self.information(self.effects(factors)) + self._apply_prior(factors)

    def _apply_prior(self, factors: FloatArray) -> FloatArray:
        """Return the product of the prior precision and factors (..., T, K)."""
        product = self._diagonal * factors
        product[..., 1:, :] += self._off_diagonal[1:] * factors[..., :-1, :]
        product[..., :-1, :] += self._off_diagonal[1:] * factors[..., 1:, :]
        return product

    @cached_property
    def _root(self) -> FloatArray:
        """Banded Cholesky factor of the preconditioner."""
        n, k = self.shape
        diagonal, off_diagonal = self.noise.markov_precision()
        outer_products = (self.params.loadings[:, :, None] * self.params.loadings[:, None, :]).reshape(
            -1, k * k
        )
        same_row, adjacent_rows = ((x.T @ outer_products).reshape(n, k, k) for x in (diagonal, off_diagonal))
        entries = np.arange(k)
        same_row[:, entries, entries] += self._diagonal
        adjacent_rows[:, entries, entries] += self._off_diagonal
        band = np.zeros((n, k, 2 * k))
        for j in range(k):
            band[:, j, : k - j] = same_row[:, j:, j]
            band[:-1, j, k - j : 2 * k - j] = adjacent_rows[1:, :, j]
        root, info = lapack.dpbtrf(band.reshape(n * k, 2 * k).T, lower=1, overwrite_ab=1)
        if info:
            raise np.linalg.LinAlgError("the preconditioner is not positive definite in double precision.")
        return np.asarray(root)

    def precondition(self, right: FloatArray) -> FloatArray:
        """Multiply right-hand sides (R, T, K) by the inverse of the preconditioner."""
        flat = right.reshape(len(right), -1).copy()
        solved, _ = lapack.dpbtrs(self._root, flat.T, lower=1, overwrite_b=1)
        return np.asarray(solved.T).reshape(right.shape)

    def solve(self, right: FloatArray, start: FloatArray | None = None, *, tol: float = 1e-3) -> Solution:
        """Solve linear systems with the posterior precision by preconditioned conjugate gradients.

        Parameters
        ----------
        right : ndarray of shape (R, T, K)
            Right-hand sides.
        start : ndarray of shape (R, T, K), optional
            Initial solutions; zero by default.
        tol : float, default=1e-3
            Iterations end at this estimated root mean square error, in posterior standard deviations of the
            factors.

        Returns
        -------
        Solution
        """
        n, k = self.shape
        if k == 0:
            return Solution(right, 0, *np.zeros((2, 0, len(right))))
        values = np.zeros_like(right) if start is None else start.copy()
        residual = right.copy() if start is None else right - self.apply(values)
        direction = np.zeros_like(right)
        previous_norm, previous_step = np.ones(len(right)), np.ones(len(right))
        ratio = np.zeros(len(right))
        diagonals: list[FloatArray] = []
        off_diagonals: list[FloatArray] = []
        for _ in range(_MAX_ITERATIONS):
            preconditioned = self.precondition(residual)
            norm = np.einsum("rtk,rtk->r", residual, preconditioned)
            # `norm` approximates the squared error in units of posterior variances, summed over all factors.
            active = norm > tol**2 * n * k
            if not active.any():
                break
            ratio = np.where(active & bool(diagonals), norm / previous_norm, 0.0)
            direction *= ratio[:, None, None]
            direction += preconditioned
            product = self.apply(direction)
            step = np.where(active, norm / np.einsum("rtk,rtk->r", direction, product), 0.0)
            values += step[:, None, None] * direction
            residual -= step[:, None, None] * product
            with np.errstate(divide="ignore", invalid="ignore"):
                added = ratio / previous_step if diagonals else 0.0
                diagonals.append(np.where(active, 1.0 / step + added, np.nan))
                off_diagonals.append(np.where(active, np.sqrt(ratio) / previous_step, np.nan))
            previous_norm, previous_step = norm, np.where(active, step, 1.0)
        shape = (len(diagonals), len(right))
        return Solution(
            values, len(diagonals), np.reshape(diagonals, shape), np.reshape(off_diagonals, shape)
        )

    def log_determinant(self, n_probes: int = 8, *, tol: float = 1e-2) -> tuple[float, float]:
        """Estimate the log-determinant of the posterior precision by stochastic Lanczos quadrature.

        Parameters
        ----------
        n_probes : int, default=8
            Number of random sign vectors, which are the same in each call.
        tol : float, default=1e-2
            The Lanczos process ends at this norm of the residual, relative to the norm of the first residual.

        Returns
        -------
        value, standard_error : float
            The estimate, and its Monte Carlo standard error. The log-determinant of the preconditioner is
            exact; only the difference from it is estimated.
        """
        n, k = self.shape
        if k == 0:
            return 0.0, 0.0
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n_probes, n * k))
        root, right = self._root, np.zeros_like(signs)
        for i in range(len(root)):
            right[:, i:] += root[i, : n * k - i] * signs[:, : n * k - i]
        solution = self.solve(right.reshape(n_probes, n, k), tol=tol)
        terms = np.zeros(n_probes)
        for j in range(n_probes):
            count = int(np.isfinite(solution.diagonals[:, j]).sum())
            if count:
                eigenvalues, vectors = eigh_tridiagonal(
                    solution.diagonals[:count, j], solution.off_diagonals[1:count, j]
                )
                terms[j] = n * k * float(vectors[0] ** 2 @ np.log(eigenvalues))
        preconditioner_log_det = 2.0 * float(np.sum(np.log(root[0])))
        error = float(np.std(terms, ddof=1) / np.sqrt(n_probes)) if n_probes > 1 else np.nan
        return preconditioner_log_det + float(np.mean(terms)), error

    def simulate(self, rng: np.random.Generator, n_draws: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draw from the model, without the offset.

        Parameters
        ----------
        rng : Generator
            Source of randomness.
        n_draws : int
            Number of draws.

        Returns
        -------
        factors : ndarray of shape (n_draws, T, K)
        processes : ndarray of shape (n_draws, D, T)
            AR(1) processes of unit variance, of the columns.
        values : ndarray of shape (n_draws, D, T)
            Observed values, zero where missing.
        """
        n, k = self.shape
        weights = self.steps.weights
        factors = np.empty((n_draws, k, n))
        processes, values = np.empty((2, n_draws, *weights.shape))
        std = np.sqrt(self.noise.variance / np.where(weights > 0.0, weights, np.inf))
        for i in range(n_draws):
            factors[i] = _simulate_ar1(self.decays, rng.standard_normal((k, n)))
            processes[i] = _simulate_ar1(self.noise.decays, rng.standard_normal(weights.shape))
            values[i] = rng.standard_normal(weights.shape) * std
        swapped = factors.swapaxes(1, 2)
        values += np.where(weights > 0.0, self.effects(swapped) + self.noise.scale * processes, 0.0)
        return np.ascontiguousarray(swapped), processes, values

    def log_likelihood(self, values: FloatArray, means: FloatArray, log_determinant: float) -> float:
        """Return the log-likelihood in nats.

        Parameters
        ----------
        values : ndarray of shape (D, T)
            Values without the offset, zero where missing.
        means : ndarray of shape (T, K)
            Posterior means of the factors.
        log_determinant : float
            Log-determinant of the posterior precision, see :meth:`log_determinant`.
        """
        log_det = self.noise.log_determinant.sum() + np.log1p(-(self.decays**2)).sum() + log_determinant
        count = np.count_nonzero(self.steps.weights)
        return -0.5 * float(self.quadratic_form(values, means) + log_det + count * np.log(2.0 * np.pi))

    def quadratic_form(self, values: FloatArray, means: FloatArray) -> float:
        """Return ``x' V^-1 x`` for values ``x`` (D, T) without the offset, where ``V`` is their covariance.

        The result is the minimum of ``(x - C z)' S^-1 (x - C z) + z' Q^-1 z`` over the factors ``z`` (T, K).
        The minimum is at the posterior means. Errors of ``means`` therefore have an effect of second order
        only.
        """
        residuals = values - self.effects(means)
        residual_term = np.vdot(self.noise.solve(residuals), residuals)
        return float(residual_term + np.vdot(self._apply_prior(means), means))


def _simulate_ar1(decays: FloatArray, normals: FloatArray) -> FloatArray:
    """Compute unit-variance AR(1) processes (M, T) from standard normal variables and decays over each step.

    A decay of zero is the start of a sequence.
    """
    right = np.sqrt(1.0 - decays**2) * normals
    band = np.ones((2, decays.size))
    band[1, :-1] = -decays.ravel()[1:]
    solved, _ = lapack.dtbtrs(band, right.reshape(-1, 1), uplo="L", diag="U")
    return np.asarray(solved).reshape(decays.shape)
