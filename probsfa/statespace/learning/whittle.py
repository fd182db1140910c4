"""Whittle's likelihood: approximate log-likelihood from the periodogram, at a cost independent of length.

    log p(X) ~ -1/2 sum_w  log|S(w)| + tr(S(w)^-1 I(w)),        S(w) = C diag(f(w)) C' + diag(r)

over the Fourier frequencies, with the periodogram matrix ``I``; with AR(1) noise of the columns,
``diag(n(w))`` replaces ``diag(r)`` (:mod:`.ar1_noise_metric`). Adjacent frequencies are averaged into bands,
narrow near zero where the spectra of slow factors peak, and the periodogram of a band is stored as a factor
of at most D rows, ``I = Z' Z``. After one Fourier transform an evaluation costs a few products of these rows
with D-by-K matrices. Its maximum differs from the exact one by edge terms, so it yields good initial values:
many can be compared at the cost of one posterior.
"""

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.learning.ar1_noise_metric import AR1NoiseMetric, coloured_spectra
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, pack_gradient
from probsfa.statespace.learning.fisher_metric import Metric, complete_data_without_holes
from probsfa.statespace.learning.information import factor_spectra
from probsfa.statespace.learning.processes import latent_spectra
from probsfa.statespace.learning.quasi_newton import Evaluation
from probsfa.statespace.noise.gaussian import Noise, slope_for_metric
from probsfa.statespace.parameters import Parameters

# Size as in :class:`.Metric`, smaller because an evaluation is cheaper here than with the exact likelihood.
_MOST_WITHIN = 144
# Number of frequencies of one band and sequence beyond which the band is reduced before the next one.
_MANY_FREQUENCIES = 4096


class Periodogram(NamedTuple):
    """Periodogram averaged over bands.

    Attributes
    ----------
    frequencies : ndarray of shape (W,)
        Mean frequency of each band, in (0, pi].
    weights : ndarray of shape (W,)
        Degrees of freedom of each band; their sum is the number of rows, without the mean.
    rows : ndarray of shape (M, D)
        Factors ``Z`` of the bands, stacked: the sum of ``z z'`` over the rows of a band is the real part of
        its periodogram matrix times its weight.
    first : ndarray of shape (W,)
        First row of each band.
    """

    frequencies: FloatArray
    weights: FloatArray
    rows: FloatArray
    first: NDArray[np.intp]

    @property
    def by_band(self) -> FloatArray:
        """The rows of each band, padded with zeros to equal numbers: (W, m, D)."""
        numbers = np.diff(self.first, append=len(self.rows))
        padded = np.zeros((len(numbers), int(numbers.max()), self.rows.shape[1]))
        padded[self.band, np.arange(len(self.rows)) - np.repeat(self.first, numbers)] = self.rows
        return padded

    @property
    def band(self) -> NDArray[np.intp]:
        """Band of each row, shape (M,)."""
        return np.repeat(np.arange(len(self.first)), np.diff(self.first, append=len(self.rows)))


def band_edges(longest: int, growth: float = 1.12) -> FloatArray:
    """Return borders between bands: single Fourier frequencies first, then geometrically growing widths."""
    base = 2.0 * np.pi / longest
    edges = [0.5 * base]
    while edges[-1] < np.pi:
        edges.append(edges[-1] + max(base, (growth - 1.0) * edges[-1]))
    edges[-1] = np.nextafter(np.pi, 4.0)
    return np.array(edges)


def periodogram(sequences: list[FloatArray]) -> Periodogram:
    """Compute the banded periodogram of complete, centred sequences.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Centred data without missing values.

    Returns
    -------
    Periodogram
    """
    edges = band_edges(max(len(x) for x in sequences))
    d = sequences[0].shape[1]
    n_bands = len(edges) - 1
    weights, moments = np.zeros(n_bands), np.zeros(n_bands)
    rows: list[list[FloatArray]] = [[np.zeros((0, d))] for _ in range(n_bands)]
    for x in sequences:
        n = len(x)
        if n < 3:
            continue
        transform = np.fft.rfft(x, axis=0)[1:]
        transform /= np.sqrt(n)
        omega = 2.0 * np.pi * np.arange(1, len(transform) + 1) / n
        # Each frequency also represents its negative, except the last one of an even length.
        weight = np.full(len(omega), 2.0)
        weight[omega >= np.pi * (1.0 - 1e-12)] = 1.0
        first = np.searchsorted(omega, edges, side="left")
        for band, (i, j) in enumerate(zip(first[:-1], first[1:], strict=True)):
            scaled = transform[i:j] * np.sqrt(weight[i:j, None])
            rows[band] += [scaled.real, scaled.imag]
            if j - i > _MANY_FREQUENCIES:  # a band of a long sequence may be as large as the sequence
                rows[band] = [_shortened(np.concatenate(rows[band]))]
            weights[band] += weight[i:j].sum()
            moments[band] += weight[i:j] @ omega[i:j]
    used = np.flatnonzero(weights)
    factors = [_shortened(np.concatenate(rows[band])) for band in used]
    first_rows = np.cumsum([0, *map(len, factors[:-1])])
    return Periodogram(moments[used] / weights[used], weights[used], np.concatenate(factors), first_rows)


def _shortened(rows: FloatArray) -> FloatArray:
    """Return at most as many rows as there are columns, with the same second moments."""
    if len(rows) <= rows.shape[1]:
        return rows
    return np.asarray(np.linalg.qr(rows, mode="r"))


class WhittleObjective:
    """Whittle's log-likelihood as an objective of :func:`probsfa.statespace.learning.quasi_newton.ascend`.

    It does not depend on the offset, which stays constant.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates.
    data : Periodogram
        Periodogram of the data.
    template : Parameters
        Values of parameters without coordinates.
    limit : int
        Maximum number of evaluations.
    told : callable, optional
        Called at each evaluation.
    noise : Noise, optional
        Noise whose log prior density is added.
    """

    def __init__(
        self,
        layout: Coordinates,
        data: Periodogram,
        template: Parameters,
        limit: int,
        told: Callable[[], None] | None = None,
        noise: Noise | None = None,
    ) -> None:
        self.layout = layout
        self.noise = noise
        self.data = data
        self.template = template
        self._complete = complete_data_without_holes(float(data.weights.sum()), layout)
        self._band = data.band
        self.limit = limit
        self.count = 0
        self._told = told

    @property
    def exhausted(self) -> bool:
        """Whether the maximum number of evaluations is reached."""
        return self.count >= self.limit

    def rounding(self, value: float) -> float:
        """Return the smallest change of the value that exceeds rounding errors."""
        return float(1e-12 * (abs(value) + self.data.weights.sum()))

    def _with_prior(self, params: Parameters, value: float, gradient: FloatArray) -> Evaluation:
        if self.noise is not None:
            value += self.noise.log_prior(params.noise_variance)
            gradient[self.layout.slices[2]] += self.noise.prior_slope(params.noise_variance)
        return Evaluation(value, gradient)

    def _begin_evaluation(self) -> None:
        self.count += 1
        if self._told is not None:
            self._told()

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return value and gradient."""
        self._begin_evaluation()
        params = from_vector(self.layout, vector, self.template)
        even = self.layout.evenly_sampled
        spectra = latent_spectra(params, self.data.frequencies, evenly_sampled=even)
        spectrum = spectra.values
        weights = self.data.weights
        root, left, scaled, inverse, log_det = factor_spectra(params, spectrum)
        # S^-1 = root (1 - left left' + left inverse left') root: rows beyond the span of the loadings are
        # residuals, rows within it are shrunk.
        rows = self.data.rows * root
        within = rows @ left
        beyond = rows - within @ left.T
        shrunk = np.einsum("ma,mab->mb", within, inverse[self._band])
        value = -0.5 * float(weights @ log_det + np.sum(beyond**2) + np.sum(shrunk * within))

        whitened = beyond + shrunk @ left.T  # root^-1 S^-1 z
        explained = shrunk @ scaled  # C' S^-1 z
        transfer = inverse @ scaled
        expected = np.einsum("wak,w,wk->ak", transfer, weights, spectrum)
        by_loadings = whitened.T @ (explained * spectrum[self._band]) - left @ expected
        power = np.einsum("ak,wak->wk", scaled, transfer)
        by_dynamics = spectra.gradient(weights, explained, self._band, power)
        shrink = np.einsum("da,ab,db->d", left, np.einsum("w,wab->ab", weights, inverse), left)
        precision = weights.sum() * (1.0 - np.sum(left**2, axis=1)) + shrink
        by_noise = 0.5 * (np.sum(whitened**2, axis=0) - precision)
        gradient = pack_gradient(
            self.layout, by_dynamics, root[:, None] * by_loadings, by_noise, np.zeros_like(root)
        )
        return self._with_prior(params, value, gradient)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> Metric:
        """Return the metric from expected and complete-data information, as for the exact likelihood."""
        params = from_vector(self.layout, vector, self.template)
        slope = slope_for_metric(
            evaluation.gradient, self.layout.slices[2], self.noise, params.noise_variance
        )
        return Metric(self.layout, params, self._complete, slope, _MOST_WITHIN)


class AR1NoiseWhittleObjective(WhittleObjective):
    """Whittle's log-likelihood with AR(1) noise of the columns; parameters in the state space."""

    @cached_property
    def _rows(self) -> FloatArray:
        return self.data.by_band

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Return value and gradient."""
        self._begin_evaluation()
        params, layout = from_vector(self.layout, vector, self.template), self.layout
        spectra = coloured_spectra(layout, params, self.data.frequencies)
        weights = self.data.weights
        whitened = self._rows @ spectra.precision  # (S^-1 z)'
        value = -0.5 * float(weights @ spectra.log_det + np.sum(whitened * self._rows))
        # Twice the derivative by S in each band.
        by_spectrum = np.swapaxes(whitened, 1, 2) @ whitened - weights[:, None, None] * spectra.precision
        moved = by_spectrum @ spectra.loadings
        shared = spectra.shared
        by_loadings = np.zeros((layout.n_features, layout.n_states))
        own = layout.memories
        others = np.delete(np.arange(layout.n_states), own)
        by_loadings[:, others] = np.einsum("wdk,wk->dk", moved, shared.values)
        by_state = np.einsum("dk,wdk->wk", spectra.loadings, moved)
        by_dynamics = 0.5 * shared.summed(np.sum(shared.slopes * shared.of_states(by_state), axis=0))
        diagonal = 0.5 * np.diagonal(by_spectrum, axis1=1, axis2=2)
        by_decay, by_scale, by_noise = (np.sum(slope * diagonal, axis=0) for slope in spectra.by_column)
        by_dynamics[own] += by_decay
        by_loadings[:, own] = np.diag(by_scale)
        gradient = pack_gradient(layout, by_dynamics, by_loadings, by_noise, np.zeros_like(by_noise))
        return self._with_prior(params, value, gradient)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> AR1NoiseMetric:  # type: ignore[override]
        """Return the metric from expected and complete-data information, as for the exact likelihood."""
        params = from_vector(self.layout, vector, self.template)
        slope = slope_for_metric(
            evaluation.gradient, self.layout.slices[2], self.noise, params.noise_variance
        )
        return AR1NoiseMetric(self.layout, params, self._complete, slope)
