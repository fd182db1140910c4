"""Inference with AR(1) noise of many columns, without a state for each column.

In the model ``x_td = mu_d + C_d z_t + s_d b_td + n_td`` the AR(1) noise ``b_d`` of a column is integrated
out. The noise of a column then has the covariance ``S_d = s_d^2 R_d + r_d I`` over the rows in which the
column is observed, and the posterior precision of the ``T K`` factor values is

    L = Q^-1 + sum_d C_d C_d' (x) S_d^-1,

``Q`` the prior covariance of the factors. ``S_d^-1 y`` is one scalar smoother: a tridiagonal system in
``b_d``. Systems in ``L`` are solved by conjugate gradients. The preconditioner has the same form, with
``S_d^-1`` replaced by the precision of the Markov chain that has the covariances of ``s_d b_d + n_d``
between adjacent observations (Vecchia 1988): it is exact where a column has no white noise or no AR(1)
noise, and banded with ``2 K - 1`` subdiagonals. An iteration costs ``O(T K (K + D))``, where ``K + D``
states would cost ``O(T (K + D)^3)``.

Means are exact up to the tolerance. Draws from the posterior are exact likewise: simulate from the model,
and solve for the difference to the data (Papandreou & Yuille 2010). ``log det L`` in the log-likelihood is
estimated by stochastic Lanczos quadrature (Ubaru, Chen & Saad 2017), for which conjugate gradients give the
coefficients.

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


# Maximum distance in rows of adjacent observations that are linked in the preconditioner.
_MAX_LINK_ROWS = 8
# Maximum number of conjugate gradient iterations, far more than with a useful preconditioner.
_MAX_ITERATIONS = 500


@dataclass(frozen=True)
class Steps:
    """Observed values and time steps of a panel, columns first.

    Attributes
    ----------
    weights : ndarray of shape (D, T)
        Weights of the values, zero where missing: the variance of white noise is divided by them.
    elapsed : ndarray of shape (T,)
        Time since the row before; infinite on the first row of a sequence.
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
    def inside(self) -> BoolArray:
        """Rows (T,) that follow another row of their sequence."""
        return np.isfinite(self.elapsed)

    def decays(self, decay: FloatArray) -> FloatArray:
        """Return decays (M, T) of AR(1) processes over each step, zero on the first row of a sequence."""
        elapsed = np.where(self.inside, self.elapsed, 1.0)
        return np.where(self.inside, _power(decay[:, None], elapsed), 0.0)

    @cached_property
    def links(self) -> "_Links":
        """Pairs of adjacent observations of each column."""
        rows = np.arange(self.n_rows)
        first = np.maximum.accumulate(np.where(self.inside, 0, rows))
        end = np.minimum.accumulate(np.where(np.append(self.inside[1:], False), self.n_rows, rows)[::-1])[
            ::-1
        ]
        observed = self.weights > 0.0
        last = np.maximum.accumulate(np.where(observed, rows, -1), axis=1)
        last = np.concatenate([np.full((len(observed), 1), -1), last[:, :-1]], axis=1)
        following = np.minimum.accumulate(np.where(observed, rows, self.n_rows)[:, ::-1], axis=1)[:, ::-1]
        linked = (last >= first) & (following <= end) & (following - last <= _MAX_LINK_ROWS)
        last, following = np.where(linked, last, 0), np.where(linked, following, 0)
        clock = np.cumsum(np.where(self.inside, self.elapsed, 0.0))
        return _Links(linked, last, following, np.where(linked, clock[following] - clock[last], 1.0))


class _Links(NamedTuple):
    """Rows (D, T) linked with the row before, and the two observations around each link."""

    linked: BoolArray
    last: NDArray[np.intp]
    following: NDArray[np.intp]
    elapsed: FloatArray


def _power(decay: FloatArray, elapsed: FloatArray) -> FloatArray:
    """Return powers of decays; negative decays require whole exponents."""
    sign = np.where((decay < 0.0) & (np.rint(elapsed) % 2.0 == 1.0), -1.0, 1.0)
    return np.asarray(sign * np.abs(decay) ** elapsed)


def _chain_precision(decays: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the precision of AR(1) processes (M, T): its diagonal, and entries with the row before."""
    diagonal = 1.0 / (1.0 - decays**2)
    before = -decays * diagonal
    diagonal[:, :-1] -= decays[:, 1:] * before[:, 1:]
    return diagonal, before


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
        self.steps, self.decay = steps, params.memory_decay[:, None]
        self.scale, self.variance = params.memory_scale[:, None], params.noise_variance[:, None]
        self.decays = steps.decays(params.memory_decay)
        diagonal, before = _chain_precision(self.decays)
        diagonal += self.scale**2 * steps.weights / self.variance
        self._diagonal, self._before = diagonal, before
        # One tridiagonal system: the last row of a column is not connected with the first of the next.
        self._pivots, self._factors, _ = lapack.dpttrf(diagonal.ravel(), before.ravel()[1:])

    @cached_property
    def log_determinant(self) -> FloatArray:
        """Logarithm of the determinant of the covariance (D,) of the observed values."""
        weights = self.steps.weights
        observed = weights > 0.0
        noise = np.where(observed, np.log(self.variance / np.where(observed, weights, 1.0)), 0.0)
        noise += np.log(self._pivots.reshape(weights.shape)) + np.log1p(-(self.decays**2))
        return np.asarray(noise.sum(axis=1))

    def smooth(self, values: FloatArray) -> FloatArray:
        """Return means (..., D, T) of the unit-variance AR(1) processes given values without the factors."""
        weights = self.steps.weights
        right = np.ascontiguousarray(values * (weights * (self.scale / self.variance)))
        solved, _ = lapack.dpttrs(
            self._pivots, self._factors, right.reshape(-1, weights.size).T, overwrite_b=1
        )
        return np.asarray(solved.T).reshape(values.shape)

    def solve(self, values: FloatArray) -> FloatArray:
        """Return the inverse covariance times values (..., D, T), zero where they are missing."""
        left = self.smooth(values)
        left *= -self.scale
        left += values
        left *= self.steps.weights / self.variance
        return left

    @cached_property
    def moments(self) -> tuple[FloatArray, FloatArray]:
        """Variances, and covariances with the row before (D, T), of the AR(1) processes given the factors."""
        shape = self.steps.weights.shape
        backward, _, _ = lapack.dpttrf(self._diagonal.ravel()[::-1], self._before.ravel()[:0:-1])
        later, earlier = backward[::-1].reshape(shape), self._pivots.reshape(shape)
        lagged = np.zeros(shape)
        # The marginal precision of two adjacent rows; each pivot includes all rows on its side.
        left, right, off = earlier[:, :-1], later[:, 1:], self._before[:, 1:]
        lagged[:, 1:] = -off / (left * right - off**2)
        return 1.0 / (earlier + later - self._diagonal), lagged

    def markov_precision(self) -> tuple[FloatArray, FloatArray]:
        """Approximate the inverse covariance by tridiagonal matrices: diagonals, entries with the row before.

        Each observation is conditioned only on the one before, which is exact if either kind of noise is
        zero. The term of two observations several rows apart is spread over the rows between them, such
        that its minimum over the values of these rows is the original term.
        """
        weights, (linked, last, following, elapsed) = self.steps.weights, self.steps.links
        own = self.scale**2
        observed = weights > 0.0
        total = own + self.variance / np.where(observed, weights, 1.0)
        rows_apart = following - last
        covariance = own * _power(self.decay, elapsed)
        linked = linked & ((covariance > 0.0) | (rows_apart == 1))
        slope = covariance / np.take_along_axis(total, last, axis=1)
        rest = np.take_along_axis(total, following, axis=1) - covariance * slope
        differences = np.where(linked, rows_apart, 1)
        step = np.sign(slope) * np.abs(slope) ** (1.0 / differences)
        weight = np.where(linked, differences / rest, 0.0)
        weight *= step ** (2 * np.where(linked, following - np.arange(self.steps.n_rows), 0))
        diagonal = weight + np.where(observed & ~linked, 1.0 / total, 0.0)
        diagonal[:, :-1] += (step**2 * weight)[:, 1:]
        return diagonal, -step * weight


class Solution(NamedTuple):
    """Solutions of linear systems in the posterior precision of the factors.

    Attributes
    ----------
    values : ndarray of shape (R, T, K)
        The solutions.
    n_iterations : int
        Iterations of conjugate gradients.
    diagonals, off_diagonals : ndarray of shape (n_iterations, R)
        Tridiagonal matrices of the corresponding Lanczos processes; NaN after a system has converged.
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
        diagonal, before = _chain_precision(self.decays)
        self._diagonal, self._before = np.ascontiguousarray(diagonal.T), np.ascontiguousarray(before.T)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and of factors."""
        return self.steps.n_rows, self.params.n_components

    def common(self, factors: FloatArray) -> FloatArray:
        """Return the contribution (..., D, T) of factors (..., T, K) to the columns."""
        return np.asarray(self.params.loadings @ factors.swapaxes(-1, -2))

    def information(self, values: FloatArray) -> FloatArray:
        """Return the contribution of values (..., D, T), zero where missing, to the right-hand side."""
        return np.asarray(self.noise.solve(values).swapaxes(-1, -2) @ self.params.loadings)

    def apply(self, factors: FloatArray) -> FloatArray:
        """Return the posterior precision times factors (R, T, K)."""
        out = self.information(self.common(factors))
        out += self._diagonal * factors
        out[:, 1:] += self._before[1:] * factors[:, :-1]
        out[:, :-1] += self._before[1:] * factors[:, 1:]
        return out

    @cached_property
    def _root(self) -> FloatArray:
        """Banded Cholesky factor of the preconditioner."""
        n, k = self.shape
        diagonal, before = self.noise.markov_precision()
        outer_products = (self.params.loadings[:, :, None] * self.params.loadings[:, None, :]).reshape(
            -1, k * k
        )
        here, across = ((x.T @ outer_products).reshape(n, k, k) for x in (diagonal, before))
        each = np.arange(k)
        here[:, each, each] += self._diagonal
        across[:, each, each] += self._before
        band = np.zeros((n, k, 2 * k))
        for j in range(k):
            band[:, j, : k - j] = here[:, j:, j]
            band[:-1, j, k - j : 2 * k - j] = across[1:, :, j]
        root, info = lapack.dpbtrf(band.reshape(n * k, 2 * k).T, lower=1, overwrite_ab=1)
        if info:
            raise np.linalg.LinAlgError("the preconditioner is not positive definite in double precision.")
        return np.asarray(root)

    def precondition(self, right: FloatArray) -> FloatArray:
        """Solve the preconditioner's systems with right-hand sides (R, T, K)."""
        flat = right.reshape(len(right), -1).copy()
        solved, _ = lapack.dpbtrs(self._root, flat.T, lower=1, overwrite_b=1)
        return np.asarray(solved.T).reshape(right.shape)

    def solve(self, right: FloatArray, start: FloatArray | None = None, *, tol: float = 1e-3) -> Solution:
        """Solve systems in the posterior precision by preconditioned conjugate gradients.

        Parameters
        ----------
        right : ndarray of shape (R, T, K)
            Right-hand sides.
        start : ndarray of shape (R, T, K), optional
            Solutions to start from; zero by default.
        tol : float, default=1e-3
            Root mean square error at which to stop, in posterior standard deviations of the factors.

        Returns
        -------
        Solution
        """
        n, k = self.shape
        values = np.zeros_like(right) if start is None else start.copy()
        residual = right.copy() if start is None else right - self.apply(values)
        direction = np.zeros_like(right)
        last, last_step, ratio = np.ones(len(right)), np.ones(len(right)), np.zeros(len(right))
        diagonals: list[FloatArray] = []
        off_diagonals: list[FloatArray] = []
        for _ in range(_MAX_ITERATIONS):
            scaled = self.precondition(residual)
            power = np.einsum("rtk,rtk->r", residual, scaled)
            # Squared error in the norm of the precision, approximated by the preconditioner.
            active = power > tol**2 * n * k
            if not active.any():
                break
            ratio = np.where(active & bool(diagonals), power / last, 0.0)
            direction *= ratio[:, None, None]
            direction += scaled
            image = self.apply(direction)
            step = np.where(active, power / np.einsum("rtk,rtk->r", direction, image), 0.0)
            values += step[:, None, None] * direction
            residual -= step[:, None, None] * image
            with np.errstate(divide="ignore", invalid="ignore"):
                before = ratio / last_step if diagonals else 0.0
                diagonals.append(np.where(active, 1.0 / step + before, np.nan))
                off_diagonals.append(np.where(active, np.sqrt(ratio) / last_step, np.nan))
            last, last_step = power, np.where(active, step, 1.0)
        shape = (len(diagonals), len(right))
        return Solution(
            values, len(diagonals), np.reshape(diagonals, shape), np.reshape(off_diagonals, shape)
        )

    def log_determinant(self, n_probes: int = 8, *, tol: float = 1e-2) -> tuple[float, float]:
        """Estimate the log-determinant of the posterior precision by stochastic Lanczos quadrature.

        Parameters
        ----------
        n_probes : int, default=8
            Number of random sign vectors, the same at each call.
        tol : float, default=1e-2
            Relative residual at which the Lanczos process stops.

        Returns
        -------
        value, standard_error : float
            The log-determinant of the preconditioner is exact; only its difference is estimated.
        """
        n, k = self.shape
        signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(n_probes, n * k))
        root, right = self._root, np.zeros_like(signs)
        for i in range(len(root)):
            right[:, i:] += root[i, : n * k - i] * signs[:, : n * k - i]
        found = self.solve(right.reshape(n_probes, n, k), tol=tol)
        terms = np.zeros(n_probes)
        for j in range(n_probes):
            count = int(np.isfinite(found.diagonals[:, j]).sum())
            if count:
                eigenvalues, vectors = eigh_tridiagonal(
                    found.diagonals[:count, j], found.off_diagonals[1:count, j]
                )
                terms[j] = n * k * float(vectors[0] ** 2 @ np.log(eigenvalues))
        of_preconditioner = 2.0 * float(np.sum(np.log(root[0])))
        error = float(np.std(terms, ddof=1) / np.sqrt(n_probes)) if n_probes > 1 else np.nan
        return of_preconditioner + float(np.mean(terms)), error

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
            factors[i] = _chains(self.decays, rng.standard_normal((k, n)))
            processes[i] = _chains(self.noise.decays, rng.standard_normal(weights.shape))
            values[i] = rng.standard_normal(weights.shape) * std
        swapped = factors.swapaxes(1, 2)
        values += np.where(weights > 0.0, self.common(swapped) + self.noise.scale * processes, 0.0)
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
        left = self.noise.solve(values)
        # The values' quadratic form with the factors integrated out; the posterior means minimise it.
        power = float(np.sum(left * (values - self.common(means))))
        logs = self.noise.log_determinant.sum() + np.log1p(-(self.decays**2)).sum() + log_determinant
        count = np.count_nonzero(self.steps.weights)
        return -0.5 * float(power + logs + count * np.log(2.0 * np.pi))


def _chains(decays: FloatArray, normals: FloatArray) -> FloatArray:
    """Return unit-variance AR(1) processes (M, T) from normals; a decay of zero starts a new process."""
    right = np.sqrt(1.0 - decays**2) * normals
    band = np.ones((2, decays.size))
    band[1, :-1] = -decays.ravel()[1:]
    solved, _ = lapack.dtbtrs(band, right.reshape(-1, 1), uplo="L", diag="U")
    return np.asarray(solved).reshape(decays.shape)
