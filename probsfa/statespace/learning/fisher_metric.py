"""Metric of the optimizer: expected information, damped by that of complete data.

The formulas are in the comments of each section. A column that is observed in a fraction ``p`` of the rows is
treated as a complete column with ``1 / p`` times the noise variance. Scaling its contribution to the
information instead would be wrong for small noise: the data then contain least information on changes ``C ->
C W`` of the basis of the factors, which must be separated from all other changes.
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
#   I_ij = (1 / 2) mean over w in (0, pi) of  tr(S^-1 d_i S S^-1 d_j S),     S(w) = C diag(f(w)) C' + diag(r),
#
# with the spectrum ``f_k`` of factor ``k``. It requires no pass over the data and does not depend on the
# length of the series, so that it is a cheap and nearly exact metric for the optimizer at any noise level.
# Its approximations (edges, ``1 - a`` below ``1 / T``, missing values assumed evenly spread) lead to a few
# more steps, but not to errors, because the score is exact.
#
# The matrix is never formed. With ``R^-1/2 C = U L``, ``U`` orthonormal of shape (D, q), ``q = min(D, K)``,
# and ``B(w) = 1 + L F L'``,
#
#     S^-1 = R^-1/2 (E + U B^-1 U') R^-1/2,        E = 1 - U U'
#
# Scaled loadings ``R^-1/2 C`` are divided into two parts. The part beyond the span of ``U`` has the same
# K-by-K matrix for all columns, the part within it a matrix of q K coordinates. Only sums of positive terms
# are computed: the textbook difference ``R^-1 - R^-1 C (...) C' R^-1`` has no correct digit in the directions
# of the factors if the noise is small. Solving costs O(D^3 + D^2 q K + (q K)^3), the dense matrix O(D^3 K^3).
#
# With ``G = C' S^-1 C`` and ``H = B^-1 L`` (q, K) at each frequency, derivatives by ``s_k = atanh a_k``, the
# scaled loadings beyond (``E``) and within (``U M``), ``log r`` and ``mu`` (those of the spectra ``f`` are in
# :class:`.LatentSpectra`)::
#
#     s_j, s_k          f'_j f'_k G_jk^2 / 2
#     s_j, M_bk         f'_j f_k H_bj G_jk
#     s_j, log r_d      f'_j (U H)_dj^2 / 2
#     beyond, beyond    E_de f_j f_k G_jk
#     M_aj, M_bk        f_j f_k (B^-1_ab G_jk + H_ak H_bj)
#     beyond, log r_e   E_de f_j (U H)_ej
#     M_aj, log r_e     f_j (U B^-1)_ea (U H)_ej
#     log r_d, log r_e  (E + U B^-1 U')_de^2 / 2
#     mu_d, mu_e        S^-1_de at w = 0 (and zero with the others)


class SpectralFactors(NamedTuple):
    """Inverse of the spectral matrix ``S`` of the observations at ``W`` frequencies, in factored form.

    ``S^-1 = root (1 - left left' + left inverse left') root`` and ``root C = left scaled``.

    Attributes
    ----------
    root : ndarray of shape (D,)
        ``R^-1/2``.
    left : ndarray of shape (D, q)
        Orthonormal, ``q = min(D, K)``.
    scaled : ndarray of shape (q, K)
        ``L``.
    inverse : ndarray of shape (W, q, q)
        ``B^-1 = (1 + L F L')^-1``.
    core : ndarray of shape (W, q, q)
        ``B``, with ``log |S| = log |B| + log |diag(r)|``.
    """

    root: FloatArray
    left: FloatArray
    scaled: FloatArray
    inverse: FloatArray
    core: FloatArray


def factor_spectra(params: StateSpace, spectrum: FloatArray) -> SpectralFactors:
    """Factor ``C diag(f) C' + diag(r)`` at each frequency, with ``f`` in ``spectrum`` (W, K)."""
    root = 1.0 / np.sqrt(params.noise_variance)
    left, singular, right = np.linalg.svd(params.seen_loadings * root[:, None], full_matrices=False)
    scaled = singular[:, None] * right
    core = np.eye(len(singular)) + (scaled * spectrum[:, None, :]) @ scaled.T
    return SpectralFactors(root, left, scaled, np.linalg.inv(core), core)


# ---------------------------------------------------------------------------------- metric with white noise

_TINY = np.finfo(np.float64).tiny
Solver = Callable[[FloatArray], FloatArray]

# Size of the matrix of the loadings within the span (q K) above which only its diagonal blocks are used: a
# complete factorization would take longer than the optimizer steps that it saves.
MAX_DENSE_SIZE = 400


class CompleteData(NamedTuple):
    """Moments over the rows in which columns are observed, as if the latent states were observed.

    Attributes
    ----------
    counts : ndarray of shape (D,)
        Observed values of each column.
    moments : ndarray of shape (K, K)
        Sum of the second moments of the states over the rows with at least one observed value.
    n_rows : float
        Number of those rows, at least one.
    n_segments : float, default=0.0
        Number of segments in these rows; with zero, the information on offsets is that of one infinitely long
        segment.
    """

    counts: FloatArray
    moments: FloatArray
    n_rows: float
    n_segments: float = 0.0


def complete_data_of(
    stats: Statistics, params: StateSpace, n_segments: float = 0.0, *, centred: bool = False
) -> CompleteData:
    """Compute the complete-data moments from the expected statistics of the states.

    Parameters
    ----------
    stats : Statistics
        Expected statistics at ``params``.
    params : StateSpace
        Model; its latent factors define which states have loadings.
    n_segments : float, default=0.0
        Number of segments in the rows.
    centred : bool, default=False
        Whether to compute moments about the mean of the rows.
    """
    total, loaded_states = stats.total_moments, params.latents.seen
    n_rows = max(float(total[-1, -1]), 1.0)
    moments = total[loaded_states[:, None], loaded_states]
    if centred:
        moments = moments - np.outer(total[loaded_states, -1], total[loaded_states, -1]) / n_rows
    return CompleteData(stats.counts, moments, n_rows, n_segments)


def complete_data_without_missing_values(n_rows: float, coordinates: Coordinates) -> CompleteData:
    """Return moments of `n_rows` rows without missing values, for states with unit variance."""
    return CompleteData(
        np.full(coordinates.n_features, n_rows), n_rows * np.eye(coordinates.n_states), n_rows
    )


class Metric:
    """Expected information of the coordinates plus a multiple of the damping matrix, stored by blocks.

    The damping matrix is the information on the coordinates if the states were observed; with a weight of
    one, a step is nearly an EM step. For each column it is proportional to the number of observed values.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates.
    params : StateSpace
        Parameters at which the information is taken.
    complete : CompleteData
        Moments of the complete data.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood. If it points towards a noise variance of zero, or a bound of a decay,
        the second derivative with respect to the coordinate has a term proportional to the gradient, which
        the expected information does not contain. Without this term steps towards the bound are far too long.
        Only terms that shorten steps are added.
    most_within : int, default=400
        Size beyond which only diagonal blocks of the matrix of the loadings within the span are used.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        gradient: FloatArray | None = None,
        most_within: int = MAX_DENSE_SIZE,
    ) -> None:
        d, k = params.seen_loadings.shape
        n = complete.n_rows
        share = np.maximum(complete.counts / n, np.finfo(np.float64).eps)
        evenly_sampled = coordinates.evenly_sampled
        omega, weights = _seen_frequencies(params, complete)
        spectra = latent_spectra(params, omega, evenly_sampled=evenly_sampled)
        spectrum = spectra.values
        self.coordinates, self.n_rows = coordinates, n
        self.root, left, scaled, inverse, _ = factor_spectra(
            params.replace(noise_variance=params.noise_variance / share), spectrum
        )
        q = left.shape[1]
        self.left = left
        # Number of noise coordinates above which their coupling to other coordinates is neglected.
        self.coarse = q * k > most_within or coordinates.n_noise > 256
        self.moments = complete.moments
        # The information on a noise variance is proportional to the number of observed values of its column.
        self.share = np.sqrt(share)
        self.counts = self._gather(complete.counts / self.share)

        h = inverse @ scaled
        g = scaled.T @ h
        fh, fgf = spectrum[:, None, :] * h, spectrum[:, :, None] * g * spectrum[:, None, :]
        w = weights[:, None, None]
        self.beyond = n * np.einsum("w,wjk->jk", weights, fgf)
        dynamics = 0.5 * n * spectra.information(weights, g)
        mean_inverse = np.einsum("w,wab->ab", weights, inverse)
        if self.coarse:
            within = np.einsum("waa,wjk->ajk", w * inverse, fgf, optimize=True)
            within += np.einsum("wak,waj->ajk", w * fh, fh, optimize=True)
            self.within = n * within
            outside = 1.0 - np.sum(left**2, axis=1) if d > q else np.zeros(d)
            precision = outside + np.einsum("da,ab,db->d", left, mean_inverse, left)
            by_feature = 0.5 * n * precision**2 * self.share**2
            # Variances, dynamics and loadings are not coupled to each other.
            self.noise = coordinates.variances.totals(by_feature)
            self.dynamics = dynamics
        else:
            self.outside = np.eye(d) - left @ left.T if d > q else np.zeros((d, d))
            # f_j (U H)_ej, which couples loadings beyond the span and the noise of column e
            self.local = n * np.einsum("ea,aj->ej", left, np.einsum("w,waj->aj", weights, fh))
            within = _pairs(w * inverse, fgf).transpose(0, 2, 1, 3)
            within += _pairs(w * fh, fh).transpose(0, 3, 2, 1)
            self.within = n * within.reshape(1, q * k, q * k)
            pairs = (left[:, :, None] * left[:, None, :]).reshape(d, q * q)
            # (E + U B^-1 U')^2, elementwise
            squared = self.outside**2 + 2.0 * self.outside * (left @ mean_inverse @ left.T)
            products = _pairs(w * inverse, inverse).transpose(0, 2, 1, 3).reshape(q * q, q * q)
            noise = 0.5 * n * (squared + pairs @ products @ pairs.T)
            by_noise = _pairs(w * inverse, fh).transpose(0, 3, 1, 2).reshape(q * k, q * q) @ pairs.T
            by_dynamics = spectra.loading_cross_information(weights, h, g).reshape(
                q * k, coordinates.latents.n_dynamics
            )
            self.coupled = n * np.hstack([self._gather(by_noise.T).T, by_dynamics])
            noise *= np.outer(self.share, self.share)
            dynamics_noise = 0.5 * n * spectra.noise_cross_information(weights, left @ h)
            between = self._gather(dynamics_noise.T)
            self.small = np.block([[self._total(noise), between], [between.T, dynamics]])
        zero = latent_spectra(params, np.zeros(1), evenly_sampled=evenly_sampled).values
        # The variance of the mean over a segment is at most that of a single value, also for very slow
        # processes.
        zero = 1.0 / (1.0 / zero[0] + complete.n_segments / n)
        self.offset_within = np.linalg.inv(np.eye(q) + (scaled * zero) @ scaled.T)
        self.dynamics_damping = dynamics_damping(params, n, evenly_sampled=evenly_sampled)
        self.noise_curvature, self.dynamics_curvature = _curvature(coordinates, params, gradient)
        self._remembered: tuple[tuple[float, bytes], tuple[Solver, Solver]] | None = None

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray:
        """Solve with the information plus ``damping`` times the damping matrix; fixed coordinates stay zero.

        Parameters
        ----------
        gradient : ndarray of shape (P,)
        free : ndarray of bool of shape (P,)
            Coordinates to solve for. If loadings or offsets are excluded, the whole matrix is formed if it is
            small; otherwise the step is solved for all coordinates and the excluded ones are set to zero.
        damping : float
            Multiple of the damping matrix that is added.

        Returns
        -------
        ndarray of shape (P,)
        """
        dynamics, loadings, noise, offset = self.coordinates.slices
        if not (free[loadings].all() and free[offset].all()):
            return self._solve_some(gradient, free, damping)
        d, k = self.coordinates.n_features, self.coordinates.n_states
        root, n_noise = self.root[:, None], self.coordinates.n_noise
        retained = np.concatenate([free[noise], free[dynamics]])
        solve_loadings, solve_small = self._factored(damping, retained)

        # The gradient by the scaled loadings is that by the loadings times the noise's standard deviation.
        first = solve_loadings(gradient[loadings].reshape(d, k) / root)
        step = np.zeros_like(gradient)
        step[offset] = self._solve_offset(gradient[offset], damping)
        rest = np.concatenate([gradient[noise], gradient[dynamics]])
        if not self.coarse:
            rest -= self._from_loadings(first)
        small_step = np.zeros_like(rest)
        small_step[retained] = solve_small(rest[retained])
        change = first if self.coarse else first - solve_loadings(self._to_loadings(small_step))

        step[loadings] = (change / root).ravel()
        step[noise], step[dynamics] = small_step[:n_noise], small_step[n_noise:]
        return step

    def _factored(self, damping: float, retained: BoolArray) -> tuple[Solver, Solver]:
        """Return solvers for the scaled loadings (D, K), and for the free coordinates of noise and dynamics.

        The last pair is cached: the optimizer solves several times at the same damping.
        """
        requested = (damping, retained.tobytes())
        if self._remembered is not None and self._remembered[0] == requested:
            return self._remembered[1]
        beyond = factorise(self.beyond + damping * self.moments)
        within = self._within_solver(damping)

        def solve_loadings(scaled: FloatArray) -> FloatArray:
            inside = self.left.T @ scaled
            outer_products = beyond((scaled - self.left @ inside).T).T
            return outer_products + self.left @ within(inside.ravel()).reshape(inside.shape)

        if self.coarse:
            solvers = solve_loadings, self._apart(damping, retained)
        else:
            small = self._small(damping, beyond, within)
            solvers = (
                solve_loadings,
                factorise(small if retained.all() else small[np.ix_(retained, retained)]),
            )
        self._remembered = requested, solvers
        return solvers

    def _apart(self, damping: float, retained: BoolArray) -> Solver:
        """Return a solver for the free coordinates of noise and dynamics, without couplings between them."""
        n_noise = self.coordinates.n_noise
        added, moved = self._added(damping), np.flatnonzero(retained[n_noise:])
        noise = np.maximum(self.noise + added[:n_noise], _TINY)[retained[:n_noise]]
        curved = self.dynamics + np.diag(added[n_noise:])
        dynamics = factorise(curved[moved[:, None], moved])
        return lambda x: np.concatenate([x[: noise.size] / noise, dynamics(x[noise.size :])])

    def _solve_some(self, gradient: FloatArray, free: BoolArray, damping: float) -> FloatArray:
        """Solve for a subset of coordinates that excludes some loadings or offsets."""
        retained = np.flatnonzero(free)
        step = np.zeros_like(gradient)
        # Largest number of coordinates for which the whole matrix is formed if some loadings are held.
        if len(retained) <= 2000:
            matrix = self.to_dense(damping)[retained[:, None], retained]
            step[retained] = factorise(matrix)(gradient[retained])
            return step
        # This is still an ascent direction, because the inverse of the whole matrix is positive definite.
        everything = np.ones_like(free)
        everything[self.coordinates.slices[2]] = free[self.coordinates.slices[2]]
        return np.where(free, self.solve(np.where(free, gradient, 0.0), everything, damping), 0.0)

    def _within_solver(self, damping: float) -> Solver:
        """Return a solver for the loadings within the span, for vectors or columns of size q K."""
        q, k = self.left.shape[1], self.coordinates.n_states
        damped = damping * self.moments
        if not self.coarse:
            within, blocks = self.within[0].copy(), np.arange(q)
            within.reshape(q, k, q, k)[blocks, :, blocks] += damped
            return factorise(within)
        solvers = [factorise(block + damped) for block in self.within]
        return lambda x: np.concatenate([solve(x[i * k : (i + 1) * k]) for i, solve in enumerate(solvers)])

    def _small(self, damping: float, beyond: Solver, within: Solver) -> FloatArray:
        """Return the Schur complement of noise and dynamics after elimination of the loadings."""
        n_noise = self.coordinates.n_noise
        small = self._noise_and_dynamics(damping)
        local = self.share[:, None] * self.local
        around = local @ beyond(local.T)
        around *= self.outside
        small[:n_noise, :n_noise] -= self._total(around)
        small -= self.coupled.T @ within(self.coupled)
        return small

    def _added(self, damping: float) -> FloatArray:
        """Terms added to the diagonal of noise and dynamics."""
        return np.concatenate(
            [
                self.noise_curvature + 0.5 * damping * self.counts,
                self.dynamics_curvature + damping * self.dynamics_damping,
            ]
        )

    def _noise_and_dynamics(self, damping: float) -> FloatArray:
        small = block_diag(np.diag(self.noise), self.dynamics) if self.coarse else self.small.copy()
        small[np.diag_indices(len(small))] += self._added(damping)
        return small

    def _to_loadings(self, small: FloatArray) -> FloatArray:
        """Multiply a vector of noise and dynamics by their information with the scaled loadings: (D, K)."""
        by_noise = self._spread(small[: self.coordinates.n_noise])[:, None] * self.local
        inside = (self.coupled @ small).reshape(self.left.shape[1], self.coordinates.n_states)
        return by_noise + self.left @ (inside - self.left.T @ by_noise)

    def _from_loadings(self, scaled: FloatArray) -> FloatArray:
        """Multiply by the transpose of :meth:`_to_loadings`."""
        inside = self.left.T @ scaled
        out = self.coupled.T @ inside.ravel()
        outer_products = scaled - self.left @ inside
        out[: self.coordinates.n_noise] += self._gather(np.sum(self.local * outer_products, axis=1))
        return out

    def _gather(self, by_feature: FloatArray) -> FloatArray:
        """Sum derivatives by the columns' log variances to those by the noise coordinates, along axis 0."""
        return self.coordinates.variances.totals((by_feature.T * self.share).T)

    def _total(self, by_features: FloatArray) -> FloatArray:
        """Reduce a matrix (D, D) over weighted columns to the noise coordinates."""
        tied = self.coordinates.variances
        return tied.totals(tied.totals(by_features).T).T

    def _spread(self, change: FloatArray) -> FloatArray:
        """Map a change of the noise coordinates to changes of the columns' log variances, shape (D,)."""
        return self.share * self.coordinates.variances.of_columns(change)

    def _solve_offset(self, gradient: FloatArray, damping: float) -> FloatArray:
        scaled = gradient / self.root
        inside = self.left.T @ scaled
        damped = self.offset_within + damping * np.eye(len(inside))
        outer_products = (scaled - self.left @ inside) / (1.0 + damping)
        return np.asarray(
            (outer_products + self.left @ factorise(damped)(inside)) / (self.root * self.n_rows)
        )

    def to_dense(self, damping: float = 0.0) -> FloatArray:
        """Return the whole matrix, shape (P, P), for small models and for tests."""
        dynamics, loadings, noise, offset = self.coordinates.slices
        d, k = self.coordinates.n_features, self.coordinates.n_states
        n_noise, n_dynamics = self.coordinates.n_noise, self.coordinates.latents.n_dynamics
        out = np.zeros((self.coordinates.size, self.coordinates.size))
        damped = damping * self.moments
        span = np.kron(self.left, np.eye(k))
        if self.coarse:
            within = block_diag(*(self.within + damped))
        else:
            within = self.within[0] + np.kron(np.eye(self.left.shape[1]), damped)
        rows = np.repeat(self.root, k)
        outside = np.eye(d) - self.left @ self.left.T if d > self.left.shape[1] else np.zeros((d, d))
        full = np.kron(outside, self.beyond + damped) + span @ within @ span.T
        out[loadings, loadings] = full * rows[:, None] * rows
        small = self._noise_and_dynamics(damping)
        coupled = () if self.coarse else np.eye(n_noise + n_dynamics)
        cross = [self._to_loadings(e).ravel() * rows for e in coupled]
        for part, first, size in ((noise, 0, n_noise), (dynamics, n_noise, n_dynamics)):
            if size and cross:
                out[loadings, part] = np.array(cross[first : first + size]).T
                out[part, loadings] = out[loadings, part].T
        order = np.r_[noise, dynamics]
        out[np.ix_(order, order)] = small
        inverse = outside + self.left @ self.offset_within @ self.left.T + damping * np.eye(d)
        out[offset, offset] = self.n_rows * inverse * np.outer(self.root, self.root)
        return out


class DenseMetric:
    """Expected information plus a multiple of the damping matrix, both dense, for few coordinates.

    Attributes
    ----------
    information, damping : ndarray of shape (P, P)
    """

    information: FloatArray
    damping: FloatArray
    _solved: tuple[float, bytes, Solver] | None = None

    def to_dense(self, damping: float = 0.0) -> FloatArray:
        """Return the whole matrix, shape (P, P)."""
        return self.information + damping * self.damping

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray:
        """Solve with the information plus ``damping`` times the damping matrix; fixed coordinates stay zero.

        Parameters
        ----------
        gradient : ndarray of shape (P,)
        free : ndarray of bool of shape (P,)
            Coordinates to solve for.
        damping : float
            Multiple of the damping matrix that is added.

        Returns
        -------
        ndarray of shape (P,)
        """
        # The optimizer solves several times at the same damping.
        if self._solved is None or self._solved[:2] != (damping, free.tobytes()):
            full = self.to_dense(damping)
            solver = factorise(full if free.all() else full[np.ix_(free, free)])
            self._solved = (damping, free.tobytes(), solver)
        step = np.zeros_like(gradient)
        step[free] = self._solved[2](gradient[free])
        return step


def factorise(matrix: FloatArray) -> Solver:
    """Return a solver for a positive semidefinite matrix, with the smallest ridge that allows Cholesky."""
    size = len(matrix)
    if size == 0:
        return lambda x: x
    diagonal = np.diag(matrix)
    minimum = max(1e-30 * float(diagonal.max()), np.finfo(np.float64).tiny)
    scale = 1.0 / np.sqrt(np.maximum(diagonal, minimum))
    scaled = matrix * scale[:, None]
    scaled *= scale
    ridge = 1e-14
    on_diagonal = np.einsum("ii->i", scaled)  # a view
    ones = on_diagonal.copy()
    while True:
        on_diagonal[:] = ones + ridge
        # LAPACK is called directly: for small matrices the wrappers of scipy.linalg take longer than the
        # computation.
        factor, info = dpotrf(scaled, lower=1, clean=0)
        if info == 0:
            return lambda x: (dpotrs(factor, (x.T * scale).T, lower=1)[0].T * scale).T
        ridge *= 10.0


def _pairs(one: FloatArray, other: FloatArray) -> FloatArray:
    """Sum the outer products of two series of matrices over frequencies: (a, b, j, k)."""
    size = len(one)
    product = one.reshape(size, prod(one.shape[1:])).T @ other.reshape(size, prod(other.shape[1:]))
    return product.reshape(*one.shape[1:], *other.shape[1:])


def _seen_frequencies(params: StateSpace, complete: CompleteData) -> tuple[FloatArray, FloatArray]:
    """Return the frequencies and weights (W,) of :func:`.information_frequencies`.

    If a spectrum is infinite at zero, frequencies are at least half a period in a segment.
    Information from lower frequencies, which no series has, would make steps of the loadings of trends far
    too short.
    """
    omega, weights = information_frequencies(params)
    if not all(kind.stationary for kind in params.latents.counts):
        omega = np.maximum(omega, np.pi * max(complete.n_segments, 1.0) / complete.n_rows)
    return omega, weights


def _curvature(
    coordinates: Coordinates, params: StateSpace, gradient: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Second-derivative terms of noise and dynamics coordinates, if they shorten steps."""
    if gradient is None:
        return np.zeros(coordinates.n_noise), np.zeros(coordinates.latents.n_dynamics)
    dynamics, _, noise, _ = coordinates.slices
    of_dynamics = dynamics_curvature(params, gradient[dynamics], evenly_sampled=coordinates.evenly_sampled)
    return np.maximum(-gradient[noise], 0.0), of_dynamics


# ---------------------------------------------------------------------------------- metric with AR(1) noise

# Spectra and expected information with AR(1) noise of the columns, whose spectrum is not flat.
#
# The spectral matrix of the observations is ``S(w) = C diag(f(w)) C' + diag(n(w))`` with
#
#     n_d(w) = r_d + s_d^2 f_b,d(w)
#
# so that AR(1) noise is part of the diagonal and does not add states: the size of the inverted matrices is
# the number of shared states. With ``P = S^-1``, ``Q = P C`` and ``G = C' P C`` at each frequency, the
# expected information on the spectra ``f_k`` of shared states, on loadings and on each parameter of ``n_d``
# with slope ``g_d(w)`` (``log r``, ``s`` and the decay of the AR(1) noise) is::
#
#     f_j, f_k         f'_j f'_k G_jk^2 / 2
#     f_j, C_dk        f'_j f_k Q_dj G_jk
#     f_j, n_d         f'_j g_d Q_dj^2 / 2
#     C_dj, C_ek       f_j f_k (P_de G_jk + Q_dk Q_ej)
#     C_dk, n_e        f_k g_e P_de Q_ek
#     n_d, n_e         g_d g_e P_de^2 / 2
#     mu_d, mu_e       P_de at w = 0
#
# There is no basis in which the noise is the same for all loadings, so that the matrix is computed as a
# whole, with one row for each parameter. This is cheap relative to a posterior with a state for each factor
# and each column.


class ColouredSpectra(NamedTuple):
    """Inverse of the spectral matrix ``S`` at ``W`` frequencies, and derivatives of ``S``.

    Attributes
    ----------
    shared : LatentSpectra
        Spectra of the ``K`` shared states.
    loadings : ndarray of shape (D, K)
        Loadings of the shared states.
    by_column : tuple of three ndarrays of shape (W, D)
        Derivatives of the noise spectrum of each column: by the coordinate of the decay of its AR(1) noise,
        by the scale of that noise, and by ``log r``.
    precision : ndarray of shape (W, D, D)
        ``P``.
    loaded : ndarray of shape (W, D, K)
        ``Q = P C``.
    within : ndarray of shape (W, K, K)
        ``G = C' P C``.
    log_det : ndarray of shape (W,)
        ``log |S|``.
    """

    shared: LatentSpectra
    loadings: FloatArray
    by_column: tuple[FloatArray, FloatArray, FloatArray]
    precision: FloatArray
    loaded: FloatArray
    within: FloatArray
    log_det: FloatArray


def coloured_spectra(
    coordinates: Coordinates, params: StateSpace, omega: FloatArray, share: FloatArray | float = 1.0
) -> ColouredSpectra:
    """Invert the spectral matrix at frequencies ``omega`` (W,).

    Parameters
    ----------
    coordinates : Coordinates
        Coordinates, which define the states of AR(1) noise.
    params : StateSpace
        Parameters in the state space.
    omega : ndarray of shape (W,)
        Frequencies.
    share : float or ndarray of shape (D,), default=1.0
        Fraction of rows in which each column is observed; white noise is divided by it.
    """
    own = coordinates.ar1_noise_states
    spectra = latent_spectra(params, omega, evenly_sampled=coordinates.evenly_sampled)
    scale = np.diagonal(params.seen_loadings[:, own])
    loadings = np.delete(params.seen_loadings, own, axis=1)
    white = params.noise_variance / share
    noise = white + scale**2 * spectra.values[:, own]
    root = 1.0 / np.sqrt(noise)
    left, singular, right = np.linalg.svd(loadings * root[:, :, None], full_matrices=False)
    shared = _without(spectra, coordinates)
    scaled = singular[:, :, None] * right
    rotated = np.swapaxes(scaled, 1, 2)
    core = np.eye(singular.shape[1]) + (scaled * shared.values[:, None, :]) @ rotated
    inverse = np.linalg.inv(core)
    # Sums of positive terms: the difference of two inverses would have no significant digits at low noise.
    outside = np.eye(len(white)) - left @ np.swapaxes(left, 1, 2)
    precision = root[:, :, None] * (outside + left @ inverse @ np.swapaxes(left, 1, 2)) * root[:, None, :]
    # Each decay of an AR(1) process has one spectrum, in the same order.
    by_decay = scale**2 * spectra.slopes[:, own]
    return ColouredSpectra(
        shared,
        loadings,
        (by_decay, 2.0 * scale * spectra.values[:, own], np.broadcast_to(white, noise.shape)),
        precision,
        root[:, :, None] * (left @ (inverse @ scaled)),
        rotated @ inverse @ scaled,
        np.linalg.slogdet(core)[1] + np.sum(np.log(noise), axis=1),
    )


def _without(spectra: LatentSpectra, coordinates: Coordinates) -> LatentSpectra:
    """Return the spectra of the shared states; indices of coordinates do not change."""
    n_states, noise_states = coordinates.n_states, coordinates.ar1_noise_states
    state_of_slope = np.arange(n_states) if spectra.state_of_slope is None else spectra.state_of_slope
    coordinate_of_slope = (
        np.arange(n_states) if spectra.coordinate_of_slope is None else spectra.coordinate_of_slope
    )
    retained = (state_of_slope < noise_states.start) | (state_of_slope >= noise_states.stop)
    return LatentSpectra(
        np.delete(spectra.values, noise_states, axis=1),
        spectra.slopes[:, retained],
        np.where(
            state_of_slope < noise_states.start, state_of_slope, state_of_slope - coordinates.n_ar1_noise
        )[retained],
        coordinate_of_slope[retained],
        coordinates.latents.n_dynamics,
    )


class _Positions(NamedTuple):
    """Indices of coordinates: loadings of shared states (D, K); decays and scales of AR(1) noise (2, D)."""

    loadings: NDArray[np.intp]
    own: NDArray[np.intp]

    @classmethod
    def of(cls, coordinates: Coordinates) -> "_Positions":
        positions = np.full(coordinates.has_loading.shape, -1)
        positions[coordinates.has_loading] = np.arange(coordinates.n_loadings) + coordinates.slices[1].start
        own = coordinates.ar1_noise_states
        return cls(
            np.delete(positions, own, axis=1),
            np.array([np.arange(own.start, own.stop), np.diagonal(positions[:, own])]),
        )


class AR1NoiseMetric(DenseMetric):
    """Expected information of the coordinates plus a multiple of the damping matrix, as one dense matrix.

    Parameters
    ----------
    coordinates : Coordinates
        Free coordinates, with AR(1) noise.
    params : StateSpace
        Parameters in the state space at which the information is taken.
    complete : CompleteData
        Moments of the complete data.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood; see :class:`.Metric`. The likelihood depends on the squared scale of
        AR(1) noise, which adds ``gradient / scale`` to its curvature by the scale.
    """

    def __init__(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        gradient: FloatArray | None = None,
    ) -> None:
        n, d = complete.n_rows, coordinates.n_features
        share = np.maximum(complete.counts / n, np.finfo(np.float64).eps)
        omega, weights = _seen_frequencies(params, complete)
        spectra = coloured_spectra(coordinates, params, omega, share)
        dynamics, _, noise, offset = coordinates.slices
        positions = _Positions.of(coordinates)
        size = coordinates.size
        # Variances of all columns first, reduced to the coordinates of the noise at the end.
        matrix = np.zeros((size + d, size + d))
        white = np.arange(size, size + d)
        self._fill(matrix, spectra, weights, positions, white, np.sqrt(share), dynamics)
        matrix *= n
        spread = coordinates.variances.indicator
        information = matrix[:size, :size]
        information[:, noise] = matrix[:size, size:] @ spread
        information[noise] = information[:, noise].T
        information[noise, noise] = spread.T @ matrix[size:, size:] @ spread
        at_zero = coloured_spectra(coordinates, params, np.zeros(1), share)
        information[offset, offset] = n * at_zero.precision[0]

        own = coordinates.ar1_noise_states
        added = np.zeros(size)
        # Information that is added for the decay of AR(1) noise: if the noise is very weak, its decay is not
        # identified, and steps would otherwise be unbounded and shorten all others.
        added[own] += 1.0
        if gradient is not None:
            evenly_sampled = coordinates.evenly_sampled
            added[dynamics] += dynamics_curvature(params, gradient[dynamics], evenly_sampled=evenly_sampled)
            added[noise] += np.maximum(-gradient[noise], 0.0)
            scale = np.diagonal(params.seen_loadings[:, own])
            slope = np.abs(gradient[positions.own[1]])
            added[positions.own[1]] += np.divide(slope, np.abs(scale), out=np.zeros(d), where=scale != 0.0)
        information[np.diag_indices(size)] += added
        self.information = information
        self.damping = self._damping(coordinates, params, complete, share, spread)

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
        """Fill in the information of one row, except for the offsets."""
        shared, _, by_column, precision, loaded, within, _ = spectra
        d, k = loaded.shape[1:]
        f = shared.values
        # Slopes of the noise spectrum of a column: by decay and scale of AR(1) noise, and by its variance.
        g = np.hstack([by_column[0], by_column[1], by_column[2] * root_share])
        column = np.tile(np.arange(d), 3)
        where = np.concatenate([positions.own[0], positions.own[1], white])
        n_own = len(where)

        w = weights[:, None, None]
        moved = (w * g[:, :, None] * g[:, None, :]).transpose(1, 2, 0).reshape(n_own, n_own, -1)
        squared = (precision**2).transpose(1, 2, 0)
        matrix[np.ix_(where, where)] = 0.5 * np.einsum(
            "abw,abw->ab", moved, squared[column[:, None], column[None, :]]
        )

        entries = shared.state_of_slope
        assert entries is not None
        of_dynamics = shared.information(weights, within)
        matrix[dynamics, dynamics] += 0.5 * of_dynamics
        # (W, D, E): Q^2 of the state of each derivative.
        by_entry = np.einsum(
            "we,wa,wae->ea",
            weights[:, None] * shared.slopes,
            g,
            loaded[:, column][:, :, entries] ** 2,
            optimize=True,
        )
        cross_products = 0.5 * shared.sum_by_coordinate(by_entry.T).T
        matrix[dynamics, where] += cross_products
        matrix[where, dynamics] += cross_products.T

        flat = positions.loadings.ravel()
        by_loadings = shared.loading_cross_information(weights, loaded, within).reshape(
            d * k, dynamics.stop - dynamics.start
        )
        matrix[flat, dynamics] = by_loadings
        matrix[dynamics, flat] = by_loadings.T

        fgf = f[:, :, None] * within * f[:, None, :]
        fq = loaded * f[:, None, :]
        n_nodes = len(weights)
        first = ((w * precision).reshape(n_nodes, d * d).T @ fgf.reshape(n_nodes, k * k)).reshape(d, d, k, k)
        second = ((w * fq).reshape(n_nodes, d * k).T @ fq.reshape(n_nodes, d * k)).reshape(d, k, d, k)
        # (d, e, j, k) and (d, k, e, j) as (d, j, e, k)
        both = first.transpose(0, 2, 1, 3) + second.transpose(0, 3, 2, 1)
        matrix[np.ix_(flat, flat)] = both.reshape(d * k, d * k)

        beside = precision[:, :, column].transpose(2, 1, 0)
        moved_loaded = (w * g[:, :, None] * fq[:, column]).transpose(1, 0, 2)
        crossing = (beside @ moved_loaded).transpose(1, 2, 0).reshape(d * k, n_own)
        matrix[np.ix_(flat, where)] = crossing
        matrix[np.ix_(where, flat)] = crossing.T

    def _damping(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        complete: CompleteData,
        share: FloatArray,
        spread: FloatArray,
    ) -> FloatArray:
        """Return the information if all states, AR(1) noise included, were observed."""
        dynamics, _, noise, offset = coordinates.slices
        out = np.zeros((coordinates.size, coordinates.size))
        evenly_sampled = coordinates.evenly_sampled
        diagonal = np.zeros(coordinates.size)
        diagonal[dynamics] = dynamics_damping(params, complete.n_rows, evenly_sampled=evenly_sampled)
        diagonal[noise] = 0.5 * complete.counts @ spread
        diagonal[offset] = complete.counts / params.noise_variance
        out[np.diag_indices(coordinates.size)] = diagonal
        first = coordinates.slices[1].start
        for j, states in enumerate(coordinates.has_loading):
            regressors = np.flatnonzero(states)
            block = slice(first, first + len(regressors))
            weight = share[j] / params.noise_variance[j]
            out[block, block] = weight * complete.moments[regressors[:, None], regressors]
            first += len(regressors)
        return out


def make_metric(
    coordinates: Coordinates,
    params: StateSpace,
    complete: CompleteData,
    gradient: FloatArray | None = None,
    most_within: int = MAX_DENSE_SIZE,
) -> Metric | AR1NoiseMetric:
    """Return the metric of these coordinates; parameters as in :class:`.Metric`."""
    if coordinates.n_ar1_noise:
        return AR1NoiseMetric(coordinates, params, complete, gradient)
    return Metric(coordinates, params, complete, gradient, most_within)
