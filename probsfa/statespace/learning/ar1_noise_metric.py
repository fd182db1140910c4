"""Spectra and expected information with AR(1) noise of the columns, whose spectrum is not flat.

The spectral matrix of the observations is ``S(w) = C diag(f(w)) C' + diag(n(w))`` with

    n_d(w) = r_d + s_d^2 f_b,d(w)

so that AR(1) noise is part of a diagonal here and adds no states: the inverted matrices have the size of the
shared states only. With ``P = S^-1``, ``Q = P C`` and ``G = C' P C`` at each frequency, the expected
information on the spectra ``f_k`` of shared states, on loadings and on each parameter of ``n_d`` with slope
``g_d(w)`` (``log r``, ``s`` and the decay of the AR(1) noise) is::

    f_j, f_k         f'_j f'_k G_jk^2 / 2
    f_j, C_dk        f'_j f_k Q_dj G_jk
    f_j, n_d         f'_j g_d Q_dj^2 / 2
    C_dj, C_ek       f_j f_k (P_de G_jk + Q_dk Q_ej)
    C_dk, n_e        f_k g_e P_de Q_ek
    n_d, n_e         g_d g_e P_de^2 / 2
    mu_d, mu_e       P_de at w = 0

Unlike in :mod:`.fisher_metric`, loadings have no basis in which the noise is the same for all of them, so
the matrix is formed as a whole. It has as many rows as there are parameters, which is cheap relative to a
posterior with a state for each factor and each column.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.learning import processes
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fisher_metric import MOST_WITHIN, CompleteData, DenseMetric, Metric
from probsfa.statespace.learning.processes import LatentSpectra
from probsfa.statespace.parameters import Parameters

__all__ = ["ColouredSpectra", "AR1NoiseMetric", "coloured_spectra", "make_metric"]

# Information added to that on the decay of AR(1) noise: where noise is too weak for the data to determine its
# decay, steps would otherwise be unbounded and shorten all others.
_LEAST_INFORMATION = 1.0


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
    layout: Coordinates, params: Parameters, omega: FloatArray, share: FloatArray | float = 1.0
) -> ColouredSpectra:
    """Invert the spectral matrix at frequencies ``omega`` (W,).

    Parameters
    ----------
    layout : Coordinates
        Coordinates, which define the states of AR(1) noise.
    params : Parameters
        Parameters in the state space.
    omega : ndarray of shape (W,)
        Frequencies.
    share : float or ndarray of shape (D,), default=1.0
        Fraction of rows in which each column is observed; white noise is divided by it.
    """
    own = layout.memories
    spectra = processes.latent_spectra(params, omega, evenly_sampled=layout.evenly_sampled)
    scale = np.diagonal(params.seen_loadings[:, own])
    loadings = np.delete(params.seen_loadings, own, axis=1)
    white = params.noise_variance / share
    noise = white + scale**2 * spectra.values[:, own]
    root = 1.0 / np.sqrt(noise)
    left, singular, right = np.linalg.svd(loadings * root[:, :, None], full_matrices=False)
    shared = _without(spectra, layout)
    scaled = singular[:, :, None] * right
    turned = np.swapaxes(scaled, 1, 2)
    core = np.eye(singular.shape[1]) + (scaled * shared.values[:, None, :]) @ turned
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
        turned @ inverse @ scaled,
        np.linalg.slogdet(core)[1] + np.sum(np.log(noise), axis=1),
    )


def _without(spectra: LatentSpectra, layout: Coordinates) -> LatentSpectra:
    """Return the spectra of the shared states; indices of coordinates do not change."""
    n, own = layout.n_states, layout.memories
    states = np.arange(n) if spectra.states is None else spectra.states
    coordinates = np.arange(n) if spectra.coordinates is None else spectra.coordinates
    kept = (states < own.start) | (states >= own.stop)
    return LatentSpectra(
        np.delete(spectra.values, own, axis=1),
        spectra.slopes[:, kept],
        np.where(states < own.start, states, states - layout.n_ar1_noise)[kept],
        coordinates[kept],
        layout.latents.n_dynamics,
    )


class _Places(NamedTuple):
    """Indices of coordinates: loadings of shared states (D, K); decays and scales of AR(1) noise (2, D)."""

    loadings: NDArray[np.intp]
    own: NDArray[np.intp]

    @classmethod
    def of(cls, layout: Coordinates) -> "_Places":
        places = np.full(layout.loaded.shape, -1)
        places[layout.loaded] = np.arange(layout.n_loadings) + layout.slices[1].start
        own = layout.memories
        return cls(
            np.delete(places, own, axis=1),
            np.array([np.arange(own.start, own.stop), np.diagonal(places[:, own])]),
        )


class AR1NoiseMetric(DenseMetric):
    """Expected information of the coordinates plus a multiple of the damping matrix, as one dense matrix.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates, with AR(1) noise.
    params : Parameters
        Parameters in the state space at which the information is taken.
    complete : CompleteData
        Moments of the complete data.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood; see :class:`.Metric`. The likelihood depends on the squared scale of
        AR(1) noise, which adds ``gradient / scale`` to its curvature by the scale.
    """

    def __init__(
        self,
        layout: Coordinates,
        params: Parameters,
        complete: CompleteData,
        gradient: FloatArray | None = None,
    ) -> None:
        n, d = complete.n_rows, layout.n_features
        share = np.maximum(complete.counts / n, np.finfo(np.float64).eps)
        omega, weights = processes.frequencies(params)
        spectra = coloured_spectra(layout, params, omega, share)
        dynamics, _, noise, offset = layout.slices
        places = _Places.of(layout)
        size = layout.size
        # Variances of all columns first, reduced to the coordinates of the noise at the end.
        wide = np.zeros((size + d, size + d))
        white = np.arange(size, size + d)
        self._fill(wide, spectra, weights, places, white, np.sqrt(share), dynamics)
        wide *= n
        spread = layout.variances.indicator
        information = wide[:size, :size]
        information[:, noise] = wide[:size, size:] @ spread
        information[noise] = information[:, noise].T
        information[noise, noise] = spread.T @ wide[size:, size:] @ spread
        at_zero = coloured_spectra(layout, params, np.zeros(1), share)
        information[offset, offset] = n * at_zero.precision[0]

        own = layout.memories
        added = np.zeros(size)
        added[own] += _LEAST_INFORMATION
        if gradient is not None:
            even = layout.evenly_sampled
            added[dynamics] += processes.curvature(params, gradient[dynamics], evenly_sampled=even)
            added[noise] += np.maximum(-gradient[noise], 0.0)
            scale = np.diagonal(params.seen_loadings[:, own])
            slope = np.abs(gradient[places.own[1]])
            added[places.own[1]] += np.divide(slope, np.abs(scale), out=np.zeros(d), where=scale != 0.0)
        information[np.diag_indices(size)] += added
        self.information = information
        self.damping = self._damping(layout, params, complete, share, spread)

    def _fill(
        self,
        wide: FloatArray,
        spectra: ColouredSpectra,
        weights: FloatArray,
        places: _Places,
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
        where = np.concatenate([places.own[0], places.own[1], white])
        n_own = len(where)

        w = weights[:, None, None]
        moved = (w * g[:, :, None] * g[:, None, :]).transpose(1, 2, 0).reshape(n_own, n_own, -1)
        squared = (precision**2).transpose(1, 2, 0)
        wide[np.ix_(where, where)] = 0.5 * np.einsum(
            "abw,abw->ab", moved, squared[column[:, None], column[None, :]]
        )

        entries = shared.states
        assert entries is not None
        of_dynamics = shared.information(weights, within)
        wide[dynamics, dynamics] += 0.5 * of_dynamics
        # (W, D, E): Q^2 of the state of each derivative.
        by_entry = np.einsum(
            "we,wa,wae->ea",
            weights[:, None] * shared.slopes,
            g,
            loaded[:, column][:, :, entries] ** 2,
            optimize=True,
        )
        crossed = 0.5 * shared.summed(by_entry.T).T
        wide[dynamics, where] += crossed
        wide[where, dynamics] += crossed.T

        flat = places.loadings.ravel()
        by_loadings = shared.with_loadings(weights, loaded, within).reshape(
            d * k, dynamics.stop - dynamics.start
        )
        wide[flat, dynamics] = by_loadings
        wide[dynamics, flat] = by_loadings.T

        fgf = f[:, :, None] * within * f[:, None, :]
        fq = loaded * f[:, None, :]
        n_nodes = len(weights)
        first = ((w * precision).reshape(n_nodes, d * d).T @ fgf.reshape(n_nodes, k * k)).reshape(d, d, k, k)
        second = ((w * fq).reshape(n_nodes, d * k).T @ fq.reshape(n_nodes, d * k)).reshape(d, k, d, k)
        # (d, e, j, k) and (d, k, e, j) as (d, j, e, k)
        both = first.transpose(0, 2, 1, 3) + second.transpose(0, 3, 2, 1)
        wide[np.ix_(flat, flat)] = both.reshape(d * k, d * k)

        beside = precision[:, :, column].transpose(2, 1, 0)
        moved_loaded = (w * g[:, :, None] * fq[:, column]).transpose(1, 0, 2)
        crossing = (beside @ moved_loaded).transpose(1, 2, 0).reshape(d * k, n_own)
        wide[np.ix_(flat, where)] = crossing
        wide[np.ix_(where, flat)] = crossing.T

    def _damping(
        self,
        layout: Coordinates,
        params: Parameters,
        complete: CompleteData,
        share: FloatArray,
        spread: FloatArray,
    ) -> FloatArray:
        """Return the information if all states, AR(1) noise included, were observed."""
        dynamics, _, noise, offset = layout.slices
        out = np.zeros((layout.size, layout.size))
        even = layout.evenly_sampled
        diagonal = np.zeros(layout.size)
        diagonal[dynamics] = processes.damping(params, complete.n_rows, evenly_sampled=even)
        diagonal[noise] = 0.5 * complete.counts @ spread
        diagonal[offset] = complete.counts / params.noise_variance
        out[np.diag_indices(layout.size)] = diagonal
        first = layout.slices[1].start
        for j, states in enumerate(layout.loaded):
            regressors = np.flatnonzero(states)
            block = slice(first, first + len(regressors))
            weight = share[j] / params.noise_variance[j]
            out[block, block] = weight * complete.moments[regressors[:, None], regressors]
            first += len(regressors)
        return out


def make_metric(
    layout: Coordinates,
    params: Parameters,
    complete: CompleteData,
    gradient: FloatArray | None = None,
    most_within: int = MOST_WITHIN,
) -> Metric | AR1NoiseMetric:
    """Return the metric of these coordinates; parameters as in :class:`.Metric`."""
    if layout.n_ar1_noise:
        return AR1NoiseMetric(layout, params, complete, gradient)
    return Metric(layout, params, complete, gradient, most_within)
