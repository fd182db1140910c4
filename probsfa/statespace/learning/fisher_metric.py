"""Metric of the optimizer: expected (Fisher) information plus damping by complete-data information.

The formulas are in the comments of each section. A column that is observed in a fraction ``p`` of the rows is
treated as a complete column with ``1 / p`` times the noise variance. The alternative, to multiply the
information of the column by ``p``, is inaccurate for small noise: the data then have far less information
about changes ``C -> C W`` of the basis of the factors than about other changes of ``C``. With a different
``p`` for each column, a change of the basis would wrongly obtain part of the large information about the
other changes.
"""

from collections.abc import Callable
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag
from scipy.linalg.lapack import dpotrf, dpotrs

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    LatentSpectra,
    dynamics_curvature,
    dynamics_damping,
    information_frequencies,
    latent_spectra,
)
from probsfa.statespace.parameters import StateSpace

# --------------------------------------------------------------------------------- factored spectral matrix

# Expected information of the parameters, in the frequency domain.
#
# For a stationary Gaussian series the expected information per time step is (Whittle's formula)
#
#   I_ij = (1 / 2) mean over w in (0, pi) of  tr(S^-1 d_i S S^-1 d_j S),     S(w) = C diag(f(w)) C' + R,
#
# with the spectrum ``f_k`` of factor ``k``, ``F = diag(f(w))`` and the noise covariance ``R = diag(r)``. The
# cost of this formula does not depend on the length of the series. The formula is nearly exact at any noise
# level. It neglects the ends of the series, and assumes time scales shorter than the series and evenly
# distributed missing values. These approximations increase the number of optimizer steps slightly, but do not
# change results, because the score is exact.
#
# The matrix ``I`` is not computed. Let ``R^-1/2 C = U L`` with orthonormal ``U`` (D, q) and ``q = min(D,
# K)``. With ``B(w) = 1 + L F L'`` and the projector ``E = 1 - U U'``,
#
#     S^-1 = R^-1/2 (E + U B^-1 U') R^-1/2.
#
# A change of the scaled loadings ``R^-1/2 C`` is ``U M + E V``: a part inside the span of ``U``, with ``M``
# (q, K), and a part outside, with ``V`` (D, K). The information on ``V`` is the same K-by-K
# matrix for all columns; the information on ``M`` is a matrix of size q K. Only sums of positive terms are
# computed, because the usual difference ``R^-1 - R^-1 C (F^-1 + C' R^-1 C)^-1 C' R^-1`` has no correct digit
# in the directions of the factors if the noise is small. A solution costs O(D^3 + D^2 q K + (q K)^3), instead
# of O(D^3 K^3) for the dense matrix.
#
# Let ``G = C' S^-1 C`` and ``H = B^-1 L`` (q, K) at each frequency. The terms of the information per time
# step are means over frequencies of the following products, with derivatives ``f'`` with respect to the
# coordinates ``s`` of the dynamics (written for AR(1) factors, with one coordinate each; see
# :class:`.LatentSpectra`)::
#
#     s_j, s_k          f'_j f'_k G_jk^2 / 2
#     s_j, M_bk         f'_j f_k H_bj G_jk
#     s_j, log r_d      f'_j (U H)_dj^2 / 2
#     V_dj, V_ek        E_de f_j f_k G_jk
#     M_aj, M_bk        f_j f_k (B^-1_ab G_jk + H_ak H_bj)
#     V_dj, log r_e     E_de f_j (U H)_ej
#     M_aj, log r_e     f_j (U B^-1)_ea (U H)_ej
#     log r_d, log r_e  (E + U B^-1 U')_de^2 / 2
#     mu_d, mu_e        S^-1_de at w = 0
#
# All other terms are zero.


class SpectralFactors(NamedTuple):
    """Inverse of the spectral matrix ``S`` of the observations at ``W`` frequencies, in factored form.

    ``S^-1 = R^-1/2 (1 - U U' + U B^-1 U') R^-1/2``, where ``R^-1/2 C = U L`` and ``B = 1 + L F L'``.

    Attributes
    ----------
    inverse_noise_std : ndarray of shape (D,)
        Diagonal of ``R^-1/2``.
    left_singular : ndarray of shape (D, q)
        ``U``, orthonormal with ``q = min(D, K)``.
    scaled_loadings : ndarray of shape (q, K)
        ``L``.
    core_inverse : ndarray of shape (W, q, q)
        ``B^-1``.
    core : ndarray of shape (W, q, q)
        ``B``, with ``log |S| = log |B| + log |R|``.
    """

    inverse_noise_std: FloatArray
    left_singular: FloatArray
    scaled_loadings: FloatArray
    core_inverse: FloatArray
    core: FloatArray


def factor_spectra(params: StateSpace, spectrum: FloatArray) -> SpectralFactors:
    """Factor ``C diag(f) C' + diag(r)`` at each frequency, with ``f`` in ``spectrum`` (W, K)."""
    inverse_noise_std = 1.0 / np.sqrt(params.noise_variance)
    left_singular, singular, right_singular = np.linalg.svd(
        params.nonzero_loadings * inverse_noise_std[:, None], full_matrices=False
    )
    scaled_loadings = singular[:, None] * right_singular
    core = np.eye(len(singular)) + (scaled_loadings * spectrum[:, None, :]) @ scaled_loadings.T
    return SpectralFactors(inverse_noise_std, left_singular, scaled_loadings, np.linalg.inv(core), core)


# ---------------------------------------------------------------------------------- metric with white noise

_TINY = np.finfo(np.float64).tiny
Solver = Callable[[FloatArray], FloatArray]

# Maximum size q K of the information on loadings inside the span. For larger matrices only the diagonal
# blocks are used, because a complete factorization takes longer than the optimizer steps that it saves.
MAX_DENSE_SIZE = 400
# Maximum number of noise coordinates; for more, cross terms with other coordinates are neglected.
_MAX_DENSE_NOISE = 256
# Maximum number of coordinates for which the complete matrix is computed if some loadings or offsets are
# fixed.
_MAX_DENSE_SUBSET = 2000


class CompleteData(NamedTuple):
    """Numbers of observed values and expected moments of the states, for complete-data information.

    Attributes
    ----------
    counts : ndarray of shape (D,)
        Number of observed values of each column.
    moments : ndarray of shape (K, K)
        Sum of the second moments of the states over the rows with at least one observed value.
    n_rows : float
        Number of these rows, at least one.
    n_sequences : float, default=0.0
        Number of sequences in these rows. With zero, the information on offsets assumes an infinitely long
        sequence.
    """

    counts: FloatArray
    moments: FloatArray
    n_rows: float
    n_sequences: float = 0.0


def complete_data_of(
    stats: Statistics, params: StateSpace, n_sequences: float = 0.0, *, centred: bool = False
) -> CompleteData:
    """Compute the complete-data moments from the expected statistics of the states.

    Parameters
    ----------
    stats : Statistics
        Expected statistics at ``params``.
    params : StateSpace
        Model; its latent factors define which states have loadings.
    n_sequences : float, default=0.0
        Number of sequences in the rows.
    centred : bool, default=False
        Whether to compute moments about the mean of the rows.
    """
    total, states = stats.total_moments, params.state_layout.loaded_states
    n_rows = max(float(total[-1, -1]), 1.0)
    moments = total[states[:, None], states]
    if centred:
        moments = moments - np.outer(total[states, -1], total[states, -1]) / n_rows
    return CompleteData(stats.counts, moments, n_rows, n_sequences)


def complete_data_without_missing_values(n_rows: float, coordinates: Coordinates) -> CompleteData:
    """Return moments of `n_rows` rows without missing values, for states with unit variance."""
    return CompleteData(
        np.full(coordinates.n_features, n_rows), n_rows * np.eye(coordinates.n_states), n_rows
    )


class Metric:
    """Expected information of the coordinates plus a multiple of the damping matrix, stored by blocks.

    The damping matrix is the information on the coordinates if the states were observed. If the multiple is
    one, a step is roughly between half an EM step and an EM step.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates.
    params : StateSpace
        Parameters at which the information is taken.
    complete : CompleteData
        Moments of the complete data.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood. Minus the second derivative of the log-likelihood has terms
        proportional to the gradient, which the expected information does not have. If the gradient points
        towards a noise variance of zero or a bound of a decay, these terms are large, and steps without them
        would be far too long. Only positive terms, which shorten steps, are added.
    max_dense_size : int, default=400
        Size above which only diagonal blocks of the information on loadings inside the span are used.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        gradient: FloatArray | None = None,
        max_dense_size: int = MAX_DENSE_SIZE,
    ) -> None:
        d, k = params.nonzero_loadings.shape
        n = complete.n_rows
        share = np.maximum(complete.counts / n, np.finfo(np.float64).eps)
        evenly_sampled = coordinates.evenly_sampled
        omega, weights = _metric_frequencies(params, complete)
        spectra = latent_spectra(params, omega, evenly_sampled=evenly_sampled)
        spectrum = spectra.values
        self.coordinates, self.n_rows = coordinates, n
        self.inverse_noise_std, left, scaled_loadings, inverse, _ = factor_spectra(
            params.replace(noise_variance=params.noise_variance / share), spectrum
        )
        q = left.shape[1]
        self.left_singular = left
        self.block_diagonal = q * k > max_dense_size or coordinates.n_noise > _MAX_DENSE_NOISE
        self.moments = complete.moments
        # With noise variance r / p, the formulas give the information on log r for a column that is observed
        # in all rows. The result is multiplied by the observed fraction p, and its cross terms by sqrt(p).
        self.root_share = np.sqrt(share)
        self.noise_counts = coordinates.variances.totals(complete.counts)

        # The matrices H, G, H F and F G F of the formulas above.
        h = inverse @ scaled_loadings
        g = scaled_loadings.T @ h
        fh, fgf = spectrum[:, None, :] * h, spectrum[:, :, None] * g * spectrum[:, None, :]
        w = weights[:, None, None]
        self.outside_span = n * np.einsum("w,wjk->jk", weights, fgf)
        dynamics = 0.5 * n * spectra.information(weights, g)
        mean_inverse = np.einsum("w,wab->ab", weights, inverse)
        if self.block_diagonal:
            inside_span = np.einsum("waa,wjk->ajk", w * inverse, fgf, optimize=True)
            inside_span += np.einsum("wak,waj->ajk", w * fh, fh, optimize=True)
            self.inside_span = n * inside_span
            complement = 1.0 - np.sum(left**2, axis=1) if d > q else np.zeros(d)
            precision = complement + np.einsum("da,ab,db->d", left, mean_inverse, left)
            # Cross terms of variances, dynamics and loadings are neglected.
            self.noise = coordinates.variances.totals(0.5 * n * precision**2 * share)
            self.dynamics = dynamics
        else:
            self.complement = np.eye(d) - left @ left.T if d > q else np.zeros((d, d))
            # f_j (U H)_ej: cross terms of the loadings outside the span and the noise of column e
            self.outside_noise = n * np.einsum("ea,aj->ej", left, np.einsum("w,waj->aj", weights, fh))
            inside_span = _sum_outer_products(w * inverse, fgf).transpose(0, 2, 1, 3)
            inside_span += _sum_outer_products(w * fh, fh).transpose(0, 3, 2, 1)
            self.inside_span = n * inside_span.reshape(1, q * k, q * k)
            pairs = (left[:, :, None] * left[:, None, :]).reshape(d, q * q)
            # (E + U B^-1 U')^2, elementwise
            squared = self.complement**2 + 2.0 * self.complement * (left @ mean_inverse @ left.T)
            products = _sum_outer_products(w * inverse, inverse).transpose(0, 2, 1, 3).reshape(q * q, q * q)
            noise = 0.5 * n * (squared + pairs @ products @ pairs.T)
            by_noise = (
                _sum_outer_products(w * inverse, fh).transpose(0, 3, 1, 2).reshape(q * k, q * q) @ pairs.T
            )
            by_dynamics = spectra.loading_cross_information(weights, h, g).reshape(
                q * k, coordinates.state_layout.n_dynamics
            )
            self.inside_coupling = n * np.hstack([self._sum_by_variance(by_noise.T).T, by_dynamics])
            noise *= np.outer(self.root_share, self.root_share)
            dynamics_noise = 0.5 * n * spectra.noise_cross_information(weights, left @ h)
            cross = self._sum_by_variance(dynamics_noise.T)
            self.noise_and_dynamics = np.block(
                [[self._reduce_to_variances(noise), cross], [cross.T, dynamics]]
            )
        at_zero = latent_spectra(params, np.zeros(1), evenly_sampled=evenly_sampled).values[0]
        # The spectrum at zero is n times the variance of the mean of n rows. Even for very slow processes,
        # this variance is at most the variance of a single value divided by the number of sequences.
        at_zero = 1.0 / (1.0 / at_zero + complete.n_sequences / n)
        self.offset_inside_span = np.linalg.inv(np.eye(q) + (scaled_loadings * at_zero) @ scaled_loadings.T)
        self.dynamics_damping = dynamics_damping(params, n, evenly_sampled=evenly_sampled)
        self.noise_curvature, self.dynamics_curvature = _gradient_curvature(coordinates, params, gradient)
        self._cached_solvers: tuple[tuple[float, bytes], tuple[Solver, Solver]] | None = None

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray:
        """Solve with the information plus ``damping`` times the damping matrix; fixed coordinates stay zero.

        Parameters
        ----------
        gradient : ndarray of shape (P,)
            Right-hand side.
        free : ndarray of bool of shape (P,)
            Coordinates to solve for. If loadings or offsets are excluded and the matrix is large, the result
            is approximate: only fixed noise variances are excluded from the system, and all other excluded
            coordinates are set to zero in its solution.
        damping : float
            Multiple of the damping matrix that is added.

        Returns
        -------
        ndarray of shape (P,)
        """
        dynamics, loadings, noise, offset = self.coordinates.slices
        if not (free[loadings].all() and free[offset].all()):
            return self._solve_subset(gradient, free, damping)
        d, k = self.coordinates.n_features, self.coordinates.n_states
        inverse_noise_std, n_noise = self.inverse_noise_std[:, None], self.coordinates.n_noise
        retained = np.concatenate([free[noise], free[dynamics]])
        solve_loadings, solve_noise_and_dynamics = self._solvers(damping, retained)

        # Elimination of the loadings. The gradient with respect to scaled loadings is the gradient with
        # respect to loadings times the standard deviation of the noise.
        loading_step = solve_loadings(gradient[loadings].reshape(d, k) / inverse_noise_std)
        other_gradient = np.concatenate([gradient[noise], gradient[dynamics]])
        if not self.block_diagonal:
            other_gradient -= self._from_loadings(loading_step)
        other_step = np.zeros_like(other_gradient)
        other_step[retained] = solve_noise_and_dynamics(other_gradient[retained])
        if not self.block_diagonal:
            loading_step = loading_step - solve_loadings(self._to_loadings(other_step))

        step = np.zeros_like(gradient)
        step[offset] = self._solve_offset(gradient[offset], damping)
        step[loadings] = (loading_step / inverse_noise_std).ravel()
        step[noise], step[dynamics] = other_step[:n_noise], other_step[n_noise:]
        return step

    def _solvers(self, damping: float, retained: BoolArray) -> tuple[Solver, Solver]:
        """Return solvers for the scaled loadings (D, K), and for the free coordinates of noise and dynamics.

        The last pair is cached, because the optimizer solves several systems with the same damping.
        """
        key = (damping, retained.tobytes())
        if self._cached_solvers is not None and self._cached_solvers[0] == key:
            return self._cached_solvers[1]
        solve_outside = factorize(self.outside_span + damping * self.moments)
        solve_inside = self._inside_solver(damping)

        def solve_loadings(gradient: FloatArray) -> FloatArray:
            inside = self.left_singular.T @ gradient
            outside_step = solve_outside((gradient - self.left_singular @ inside).T).T
            return outside_step + self.left_singular @ solve_inside(inside.ravel()).reshape(inside.shape)

        if self.block_diagonal:
            solvers = solve_loadings, self._decoupled_solver(damping, retained)
        else:
            schur = self._schur_complement(damping, solve_outside, solve_inside)
            solvers = (
                solve_loadings,
                factorize(schur if retained.all() else schur[np.ix_(retained, retained)]),
            )
        self._cached_solvers = key, solvers
        return solvers

    def _decoupled_solver(self, damping: float, retained: BoolArray) -> Solver:
        """Return a solver for the free coordinates of noise and dynamics, without cross terms."""
        n_noise, diagonal = self.coordinates.n_noise, self._diagonal_terms(damping)
        noise = np.maximum(self.noise + diagonal[:n_noise], _TINY)[retained[:n_noise]]
        free = np.flatnonzero(retained[n_noise:])
        dynamics = self.dynamics + np.diag(diagonal[n_noise:])
        solve_dynamics = factorize(dynamics[free[:, None], free])
        return lambda x: np.concatenate([x[: noise.size] / noise, solve_dynamics(x[noise.size :])])

    def _solve_subset(self, gradient: FloatArray, free: BoolArray, damping: float) -> FloatArray:
        """Solve for a subset of coordinates that excludes some loadings or offsets."""
        retained = np.flatnonzero(free)
        step = np.zeros_like(gradient)
        if len(retained) <= _MAX_DENSE_SUBSET:
            matrix = self.to_dense(damping)[retained[:, None], retained]
            step[retained] = factorize(matrix)(gradient[retained])
            return step
        # The step is an ascent direction, because the inverse of the complete matrix is positive definite.
        all_but_fixed_noise = np.ones_like(free)
        all_but_fixed_noise[self.coordinates.slices[2]] = free[self.coordinates.slices[2]]
        return np.where(free, self.solve(np.where(free, gradient, 0.0), all_but_fixed_noise, damping), 0.0)

    def _inside_solver(self, damping: float) -> Solver:
        """Return a solver for the loadings inside the span, for one vector (q K,) or several (q K, M)."""
        q, k = self.left_singular.shape[1], self.coordinates.n_states
        added = damping * self.moments
        if not self.block_diagonal:
            inside_span, blocks = self.inside_span[0].copy(), np.arange(q)
            inside_span.reshape(q, k, q, k)[blocks, :, blocks] += added
            return factorize(inside_span)
        solvers = [factorize(block + added) for block in self.inside_span]
        return lambda x: np.concatenate([solve(x[i * k : (i + 1) * k]) for i, solve in enumerate(solvers)])

    def _schur_complement(self, damping: float, solve_outside: Solver, solve_inside: Solver) -> FloatArray:
        """Return the Schur complement of noise and dynamics after elimination of the loadings."""
        n_noise = self.coordinates.n_noise
        schur = self._noise_and_dynamics(damping)
        outside_noise = self.root_share[:, None] * self.outside_noise
        eliminated = outside_noise @ solve_outside(outside_noise.T)
        eliminated *= self.complement
        schur[:n_noise, :n_noise] -= self._reduce_to_variances(eliminated)
        schur -= self.inside_coupling.T @ solve_inside(self.inside_coupling)
        return schur

    def _diagonal_terms(self, damping: float) -> FloatArray:
        """Return damping and curvature (n_noise + n_dynamics,) on the diagonal of noise and dynamics."""
        return np.concatenate(
            [
                self.noise_curvature + 0.5 * damping * self.noise_counts,
                self.dynamics_curvature + damping * self.dynamics_damping,
            ]
        )

    def _noise_and_dynamics(self, damping: float) -> FloatArray:
        """Return the information, with damping and curvature, of noise and dynamics."""
        if self.block_diagonal:
            matrix = block_diag(np.diag(self.noise), self.dynamics)
        else:
            matrix = self.noise_and_dynamics.copy()
        matrix[np.diag_indices(len(matrix))] += self._diagonal_terms(damping)
        return matrix

    def _to_loadings(self, other: FloatArray) -> FloatArray:
        """Multiply a vector of noise and dynamics by their cross information with scaled loadings: (D, K)."""
        by_noise = self._expand_to_columns(other[: self.coordinates.n_noise])[:, None] * self.outside_noise
        inside = (self.inside_coupling @ other).reshape(
            self.left_singular.shape[1], self.coordinates.n_states
        )
        return by_noise + self.left_singular @ (inside - self.left_singular.T @ by_noise)

    def _from_loadings(self, scaled_loadings: FloatArray) -> FloatArray:
        """Multiply scaled loadings (D, K) by the transpose of the matrix of :meth:`_to_loadings`."""
        inside = self.left_singular.T @ scaled_loadings
        out = self.inside_coupling.T @ inside.ravel()
        outside = scaled_loadings - self.left_singular @ inside
        out[: self.coordinates.n_noise] += self._sum_by_variance(np.sum(self.outside_noise * outside, axis=1))
        return out

    def _sum_by_variance(self, by_column: FloatArray) -> FloatArray:
        """Sum derivatives with respect to ``log r``, times sqrt(p), over columns that share a variance."""
        return self.coordinates.variances.totals((by_column.T * self.root_share).T)

    def _reduce_to_variances(self, by_columns: FloatArray) -> FloatArray:
        """Sum a matrix (D, D) over the columns of each noise coordinate."""
        variances = self.coordinates.variances
        return variances.totals(variances.totals(by_columns).T).T

    def _expand_to_columns(self, change: FloatArray) -> FloatArray:
        """Map a change of the noise coordinates to changes (D,) of ``log r``, weighted by sqrt(p)."""
        return self.root_share * self.coordinates.variances.column_values(change)

    def _solve_offset(self, gradient: FloatArray, damping: float) -> FloatArray:
        """Solve for the offsets, which have no cross information with other coordinates."""
        scaled = gradient / self.inverse_noise_std
        inside = self.left_singular.T @ scaled
        outside_step = (scaled - self.left_singular @ inside) / (1.0 + damping)
        inside_step = factorize(self.offset_inside_span + damping * np.eye(len(inside)))(inside)
        step = (outside_step + self.left_singular @ inside_step) / (self.inverse_noise_std * self.n_rows)
        return np.asarray(step)

    def to_dense(self, damping: float = 0.0) -> FloatArray:
        """Return the complete matrix (P, P), for small models and for tests."""
        dynamics, loadings, noise, offset = self.coordinates.slices
        d, k, q = self.coordinates.n_features, self.coordinates.n_states, self.left_singular.shape[1]
        left, inverse_noise_std = self.left_singular, self.inverse_noise_std
        out = np.zeros((self.coordinates.size, self.coordinates.size))
        complement = np.eye(d) - left @ left.T if d > q else np.zeros((d, d))
        added = damping * self.moments
        if self.block_diagonal:
            inside_span = block_diag(*(self.inside_span + added))
        else:
            inside_span = self.inside_span[0] + np.kron(np.eye(q), added)
        span, scale = np.kron(left, np.eye(k)), np.repeat(inverse_noise_std, k)
        scaled = np.kron(complement, self.outside_span + added) + span @ inside_span @ span.T
        out[loadings, loadings] = scaled * scale[:, None] * scale
        others = np.r_[noise, dynamics]
        out[np.ix_(others, others)] = self._noise_and_dynamics(damping)
        if not self.block_diagonal:
            for position, unit_vector in zip(others, np.eye(len(others)), strict=True):
                out[loadings, position] = self._to_loadings(unit_vector).ravel() * scale
                out[position, loadings] = out[loadings, position]
        offsets = complement + left @ self.offset_inside_span @ left.T + damping * np.eye(d)
        out[offset, offset] = self.n_rows * offsets * np.outer(inverse_noise_std, inverse_noise_std)
        return out


def factorize(matrix: FloatArray) -> Solver:
    """Return a solver for a positive semidefinite matrix, by a Cholesky factorization.

    A ridge is added to the matrix scaled to unit diagonal: 1e-14, multiplied by ten until the
    factorization succeeds.
    """
    size = len(matrix)
    if size == 0:
        return lambda x: x
    diagonal = np.diag(matrix)
    minimum = max(1e-30 * float(diagonal.max()), np.finfo(np.float64).tiny)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, minimum))
    scaled = matrix * scale[:, None]
    scaled *= scale
    ridge = 1e-14
    diagonal_view = np.einsum("ii->i", scaled)
    unit_diagonal = diagonal_view.copy()
    while True:
        diagonal_view[:] = unit_diagonal + ridge
        # LAPACK is called directly: for small matrices the wrappers of scipy.linalg take longer than the
        # computation.
        factor, info = dpotrf(scaled, lower=1, clean=0)
        if info == 0:
            return lambda x: (dpotrs(factor, (x.T * scale).T, lower=1)[0].T * scale).T
        ridge *= 10.0


def _sum_outer_products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Sum the outer products of matrices (W, a, b) and (W, j, k) over frequencies: (a, b, j, k)."""
    size = len(first)
    product = first.reshape(size, prod(first.shape[1:])).T @ second.reshape(size, prod(second.shape[1:]))
    return product.reshape(*first.shape[1:], *second.shape[1:])


def _metric_frequencies(params: StateSpace, complete: CompleteData) -> tuple[FloatArray, FloatArray]:
    """Return the frequencies and weights (W,) of :func:`.information_frequencies`.

    The spectra of trends are infinite at zero. In a model with trends, frequencies are therefore at least
    half a period per sequence of mean length. The data have no information at lower frequencies; if these
    were included, steps of the loadings of trends would be far too short.
    """
    omega, weights = information_frequencies(params)
    if not all(kind.stationary for kind in params.state_layout.counts):
        omega = np.maximum(omega, np.pi * max(complete.n_sequences, 1.0) / complete.n_rows)
    return omega, weights


def _gradient_curvature(
    coordinates: Coordinates, params: StateSpace, gradient: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return the terms that the gradient adds to the information on noise and dynamics; see :class:`Metric`.

    They are zero without a gradient.
    """
    if gradient is None:
        return np.zeros(coordinates.n_noise), np.zeros(coordinates.state_layout.n_dynamics)
    dynamics, _, noise, _ = coordinates.slices
    by_dynamics = dynamics_curvature(params, gradient[dynamics], evenly_sampled=coordinates.evenly_sampled)
    return np.maximum(-gradient[noise], 0.0), by_dynamics


# ---------------------------------------------------------------------------------- metric with AR(1) noise

# Spectra and expected information with AR(1) noise of the columns, whose spectrum depends on the frequency.
#
# The spectral matrix of the observations is ``S(w) = C diag(f(w)) C' + diag(n(w))``. The noise spectrum
#
#     n_d(w) = r_d + s_d^2 f_b,d(w)
#
# contains white noise with variance ``r_d`` and AR(1) noise with standard deviation ``s_d``, decay ``a_b,d``
# and unit-variance spectrum ``f_b,d``. AR(1) noise changes the diagonal only, so that the size of inverted
# matrices is the number of shared states (states of the factors). Let ``P = S^-1``, ``Q = P C`` and
# ``G = C' P C`` at each frequency. Let ``f'`` be derivatives with respect to the coordinates of the
# dynamics of shared states, and ``g_d`` the derivative of ``n_d`` with respect to one of its parameters
# (``log r_d``, ``s_d`` or the coordinate of ``a_b,d``). The terms of the information per time step are means
# over frequencies of::
#
#     f_j, f_k         f'_j f'_k G_jk^2 / 2
#     f_j, C_dk        f'_j f_k Q_dj G_jk
#     f_j, n_d         f'_j g_d Q_dj^2 / 2
#     C_dj, C_ek       f_j f_k (P_de G_jk + Q_dk Q_ej)
#     C_dk, n_e        f_k g_e P_de Q_ek
#     n_d, n_e         g_d g_e P_de^2 / 2
#     mu_d, mu_e       P_de at w = 0
#
# The factored form for white noise does not apply, because the noise spectrum depends on the frequency. The
# complete matrix is therefore computed, at a small cost relative to a smoother run with a state for each
# factor and each column.


class ColouredSpectra(NamedTuple):
    """Inverse of the spectral matrix ``S`` at ``W`` frequencies, and derivatives of ``S``, with AR(1) noise.

    Attributes
    ----------
    shared : LatentSpectra
        Spectra of the ``K`` shared states.
    loadings : ndarray of shape (D, K)
        Loadings on the shared states.
    noise_derivatives : tuple of three ndarrays of shape (W, D)
        Derivatives of the noise spectrum of each column with respect to the coordinate of the decay of its
        AR(1) noise, the standard deviation of that noise, and ``log r``.
    precision : ndarray of shape (W, D, D)
        ``P``.
    precision_loadings : ndarray of shape (W, D, K)
        ``Q = P C``.
    loading_precision : ndarray of shape (W, K, K)
        ``G = C' P C``.
    log_det : ndarray of shape (W,)
        ``log |S|``.
    """

    shared: LatentSpectra
    loadings: FloatArray
    noise_derivatives: tuple[FloatArray, FloatArray, FloatArray]
    precision: FloatArray
    precision_loadings: FloatArray
    loading_precision: FloatArray
    log_det: FloatArray


def coloured_spectra(
    coordinates: Coordinates, params: StateSpace, omega: FloatArray, share: FloatArray | float = 1.0
) -> ColouredSpectra:
    """Invert the spectral matrix at frequencies ``omega`` (W,), for a model with AR(1) noise.

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates, which define the states of AR(1) noise.
    params : StateSpace
        Parameters with AR(1) noise as states.
    omega : ndarray of shape (W,)
        Frequencies.
    share : float or ndarray of shape (D,), default=1.0
        Fraction of rows in which each column is observed; white noise is divided by it.
    """
    noise_states = coordinates.ar1_noise_states
    spectra = latent_spectra(params, omega, evenly_sampled=coordinates.evenly_sampled)
    scale = np.diagonal(params.nonzero_loadings[:, noise_states])
    loadings = np.delete(params.nonzero_loadings, noise_states, axis=1)
    white = params.noise_variance / share
    noise = white + scale**2 * spectra.values[:, noise_states]
    inverse_noise_std = 1.0 / np.sqrt(noise)
    left, singular, right = np.linalg.svd(loadings * inverse_noise_std[:, :, None], full_matrices=False)
    left_transposed = np.swapaxes(left, 1, 2)
    shared = _shared_spectra(spectra, coordinates)
    # The matrices L, L', B and B^-1 of the factored spectral matrix, for the noise at each frequency.
    scaled_loadings = singular[:, :, None] * right
    scaled_transposed = np.swapaxes(scaled_loadings, 1, 2)
    core = np.eye(singular.shape[1]) + (scaled_loadings * shared.values[:, None, :]) @ scaled_transposed
    inverse = np.linalg.inv(core)
    complement = np.eye(len(white)) - left @ left_transposed
    scaled_precision = complement + left @ inverse @ left_transposed
    # Each AR(1) process has one coordinate of its dynamics, which has the index of its state.
    by_decay = scale**2 * spectra.derivatives[:, noise_states]
    by_scale = 2.0 * scale * spectra.values[:, noise_states]
    return ColouredSpectra(
        shared,
        loadings,
        (by_decay, by_scale, np.broadcast_to(white, noise.shape)),
        inverse_noise_std[:, :, None] * scaled_precision * inverse_noise_std[:, None, :],
        inverse_noise_std[:, :, None] * (left @ (inverse @ scaled_loadings)),
        scaled_transposed @ inverse @ scaled_loadings,
        np.linalg.slogdet(core)[1] + np.sum(np.log(noise), axis=1),
    )


def _shared_spectra(spectra: LatentSpectra, coordinates: Coordinates) -> LatentSpectra:
    """Return the spectra of the shared states, without states of AR(1) noise.

    States are numbered without the states of AR(1) noise; the numbers of the coordinates do not change.
    """
    n_states, noise_states = coordinates.n_states, coordinates.ar1_noise_states
    state_of_derivative = (
        np.arange(n_states) if spectra.state_of_derivative is None else spectra.state_of_derivative
    )
    coordinate_of_derivative = (
        np.arange(n_states) if spectra.coordinate_of_derivative is None else spectra.coordinate_of_derivative
    )
    retained = (state_of_derivative < noise_states.start) | (state_of_derivative >= noise_states.stop)
    return LatentSpectra(
        np.delete(spectra.values, noise_states, axis=1),
        spectra.derivatives[:, retained],
        np.where(
            state_of_derivative < noise_states.start,
            state_of_derivative,
            state_of_derivative - coordinates.n_ar1_noise,
        )[retained],
        coordinate_of_derivative[retained],
        coordinates.state_layout.n_dynamics,
    )


class _Positions(NamedTuple):
    """Positions in the vector of coordinates.

    ``loadings`` (D, K) are positions of loadings on shared states, ``decays`` and ``scales`` (D,) positions
    of the parameters of AR(1) noise.
    """

    loadings: NDArray[np.intp]
    decays: NDArray[np.intp]
    scales: NDArray[np.intp]

    @classmethod
    def of(cls, coordinates: Coordinates) -> "_Positions":
        positions = np.full(coordinates.has_loading.shape, -1)
        positions[coordinates.has_loading] = np.arange(coordinates.n_loadings) + coordinates.slices[1].start
        noise_states = coordinates.ar1_noise_states
        return cls(
            np.delete(positions, noise_states, axis=1),
            np.arange(noise_states.start, noise_states.stop),
            np.diagonal(positions[:, noise_states]),
        )


class AR1NoiseMetric:
    """Expected information of the coordinates plus a multiple of the damping matrix, both dense.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates, with AR(1) noise.
    params : StateSpace
        Parameters, with AR(1) noise as states, at which the information is taken.
    complete : CompleteData
        Moments of the complete data.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood; see :class:`.Metric`. The likelihood depends on the squared scale of
        AR(1) noise, so that minus its second derivative with respect to the scale contains minus ``gradient /
        scale``. The absolute value of this term is added.

    Attributes
    ----------
    information, damping : ndarray of shape (P, P)
        The two matrices.
    """

    _cached_solver: tuple[float, bytes, Solver] | None = None

    def __init__(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        gradient: FloatArray | None = None,
    ) -> None:
        n, d = complete.n_rows, coordinates.n_features
        share = np.maximum(complete.counts / n, np.finfo(np.float64).eps)
        omega, weights = _metric_frequencies(params, complete)
        spectra = coloured_spectra(coordinates, params, omega, share)
        dynamics, _, noise, offset = coordinates.slices
        positions = _Positions.of(coordinates)
        size = coordinates.size
        # The information on log r of all D columns is in the last D rows and columns of a larger matrix. It
        # is then summed over the columns that share a variance.
        matrix = np.zeros((size + d, size + d))
        white = np.arange(size, size + d)
        self._fill(matrix, spectra, weights, positions, white, np.sqrt(share), dynamics)
        matrix *= n
        groups = coordinates.variances.indicator
        information = matrix[:size, :size]
        information[:, noise] = matrix[:size, size:] @ groups
        information[noise] = information[:, noise].T
        information[noise, noise] = groups.T @ matrix[size:, size:] @ groups
        at_zero = coloured_spectra(coordinates, params, np.zeros(1), share)
        information[offset, offset] = n * at_zero.precision[0]

        added = np.zeros(size)
        # The decay of very weak AR(1) noise is not identified. Without this term, the step of the decay would
        # be unbounded, and would have to be scaled down together with the steps of all other coordinates.
        added[positions.decays] += 1.0
        added[noise], by_dynamics = _gradient_curvature(coordinates, params, gradient)
        added[dynamics] += by_dynamics
        if gradient is not None:
            scale = np.diagonal(params.nonzero_loadings[:, coordinates.ar1_noise_states])
            abs_gradient = np.abs(gradient[positions.scales])
            added[positions.scales] += np.divide(
                abs_gradient, np.abs(scale), out=np.zeros(d), where=scale != 0.0
            )
        information[np.diag_indices(size)] += added
        self.information = information
        self.damping = self._damping(coordinates, params, complete, share, groups)

    def _fill(
        self,
        matrix: FloatArray,
        spectra: ColouredSpectra,
        weights: FloatArray,
        positions: _Positions,
        white: NDArray[np.intp],
        root_share: FloatArray,
        dynamics: slice,
    ) -> None:
        """Compute the information per time step, except for the offsets.

        Parameters
        ----------
        matrix : ndarray of shape (P + D, P + D)
            Information, changed in place. The last ``D`` coordinates are ``log r`` of the columns.
        spectra : ColouredSpectra
            Spectra at the frequencies.
        weights : ndarray of shape (W,)
            Weights of the frequencies.
        positions : _Positions
            Positions of loadings and of parameters of AR(1) noise.
        white : ndarray of shape (D,)
            Positions of ``log r`` of the columns.
        root_share : ndarray of shape (D,)
            Square root of the fraction of rows in which each column is observed.
        dynamics : slice
            Positions of the coordinates of the dynamics.
        """
        shared, _, (by_decay, by_scale, by_variance), p, q, g, _ = spectra
        d, k = q.shape[1:]
        f = shared.values
        # Derivatives (W, 3 D) of the noise spectra by all their parameters, and the column of each.
        derivatives = np.hstack([by_decay, by_scale, by_variance * root_share])
        column = np.tile(np.arange(d), 3)
        noise = np.concatenate([positions.decays, positions.scales, white])
        n_noise = len(noise)

        # n_d, n_e
        w = weights[:, None, None]
        pairs = (
            (w * derivatives[:, :, None] * derivatives[:, None, :])
            .transpose(1, 2, 0)
            .reshape(n_noise, n_noise, -1)
        )
        squared = (p**2).transpose(1, 2, 0)
        matrix[np.ix_(noise, noise)] = 0.5 * np.einsum(
            "abw,abw->ab", pairs, squared[column[:, None], column[None, :]]
        )

        # f_j, f_k and f_j, n_d
        matrix[dynamics, dynamics] += 0.5 * shared.information(weights, g)
        by_derivative = np.einsum(
            "we,wa,wae->ea",
            weights[:, None] * shared.derivatives,
            derivatives,
            shared.select_states(q[:, column]) ** 2,
            optimize=True,
        )
        dynamics_noise = 0.5 * shared.sum_by_coordinate(by_derivative.T).T
        matrix[dynamics, noise] += dynamics_noise
        matrix[noise, dynamics] += dynamics_noise.T

        # C_dk, f_j
        loadings = positions.loadings.ravel()
        loadings_dynamics = shared.loading_cross_information(weights, q, g).reshape(
            d * k, dynamics.stop - dynamics.start
        )
        matrix[loadings, dynamics] = loadings_dynamics
        matrix[dynamics, loadings] = loadings_dynamics.T

        # C_dj, C_ek: terms (d, e, j, k) and (d, k, e, j) as (d, j, e, k)
        fgf = f[:, :, None] * g * f[:, None, :]
        fq = q * f[:, None, :]
        loadings_loadings = _sum_outer_products(w * p, fgf).transpose(0, 2, 1, 3)
        loadings_loadings = loadings_loadings + _sum_outer_products(w * fq, fq).transpose(0, 3, 2, 1)
        matrix[np.ix_(loadings, loadings)] = loadings_loadings.reshape(d * k, d * k)

        # C_dk, n_e
        p_of_derivatives = p[:, :, column].transpose(2, 1, 0)
        derivatives_fq = (w * derivatives[:, :, None] * fq[:, column]).transpose(1, 0, 2)
        loadings_noise = (p_of_derivatives @ derivatives_fq).transpose(1, 2, 0).reshape(d * k, n_noise)
        matrix[np.ix_(loadings, noise)] = loadings_noise
        matrix[np.ix_(noise, loadings)] = loadings_noise.T

    def _damping(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        share: FloatArray,
        groups: FloatArray,
    ) -> FloatArray:
        """Return the information if all states, AR(1) noise included, were observed."""
        dynamics, _, noise, offset = coordinates.slices
        out = np.zeros((coordinates.size, coordinates.size))
        evenly_sampled = coordinates.evenly_sampled
        diagonal = np.zeros(coordinates.size)
        diagonal[dynamics] = dynamics_damping(params, complete.n_rows, evenly_sampled=evenly_sampled)
        diagonal[noise] = 0.5 * complete.counts @ groups
        diagonal[offset] = complete.counts / params.noise_variance
        out[np.diag_indices(coordinates.size)] = diagonal
        first = coordinates.slices[1].start
        for j, has_loading in enumerate(coordinates.has_loading):
            states = np.flatnonzero(has_loading)
            block = slice(first, first + len(states))
            weight = share[j] / params.noise_variance[j]
            out[block, block] = weight * complete.moments[states[:, None], states]
            first += len(states)
        return out

    def to_dense(self, damping: float = 0.0) -> FloatArray:
        """Return the complete matrix (P, P)."""
        return self.information + damping * self.damping

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray:
        """Solve with the information plus ``damping`` times the damping matrix; fixed coordinates stay zero.

        Parameters
        ----------
        gradient : ndarray of shape (P,)
            Right-hand side.
        free : ndarray of bool of shape (P,)
            Coordinates to solve for.
        damping : float
            Multiple of the damping matrix that is added.

        Returns
        -------
        ndarray of shape (P,)
        """
        # The optimizer solves several systems with the same damping.
        if self._cached_solver is None or self._cached_solver[:2] != (damping, free.tobytes()):
            matrix = self.to_dense(damping)
            solver = factorize(matrix if free.all() else matrix[np.ix_(free, free)])
            self._cached_solver = (damping, free.tobytes(), solver)
        step = np.zeros_like(gradient)
        step[free] = self._cached_solver[2](gradient[free])
        return step


def make_metric(
    coordinates: Coordinates,
    params: StateSpace,
    complete: CompleteData,
    gradient: FloatArray | None = None,
) -> Metric | AR1NoiseMetric:
    """Return the metric for white or for AR(1) noise; parameters as in :class:`.Metric`."""
    if coordinates.n_ar1_noise:
        return AR1NoiseMetric(coordinates, params, complete, gradient)
    return Metric(coordinates, params, complete, gradient)
