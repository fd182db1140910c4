"""Whittle's likelihood: the model against the periodogram, at a cost independent of the length of the series.

    log p(X) ~ -1/2 sum_w  log|S(w)| + tr(S(w)^-1 I(w)),        S(w) = C diag(f(w)) C' + diag(r)

over the Fourier frequencies, ``I`` being the periodogram matrix. Neighbouring frequencies are averaged into
bands, narrow near zero where slow latents have their peaks; after one Fourier transform an evaluation costs
a handful of D-by-D products per band. Its optimum is within the edge terms of the exact one, so it is the
place to look for good starts: many can be tried for the price of one posterior.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa.statespace.coordinates import (
    Coordinates,
    Seen,
    complete_information,
    from_vector,
    information_matrix,
    pack_gradient,
    strengthen_at_borders,
)
from probsfa.statespace.information import invert_spectra, latent_spectra
from probsfa.statespace.quasi_newton import Evaluation

FloatArray = NDArray[np.float64]


class Periodogram(NamedTuple):
    """Periodogram averaged over bands.

    Attributes
    ----------
    frequencies : ndarray of shape (W,)
        Mean frequency of each band, in (0, pi].
    weights : ndarray of shape (W,)
        Degrees of freedom of each band: they add up to the number of rows less the mean.
    power : ndarray of shape (W, D, D)
        Real part of the mean periodogram matrix of each band.
    """

    frequencies: FloatArray
    weights: FloatArray
    power: FloatArray


def band_edges(longest: int, growth: float = 1.12) -> FloatArray:
    """Borders between bands: single Fourier frequencies at first, then widths that grow geometrically."""
    base = 2.0 * np.pi / longest
    edges = [0.5 * base]
    while edges[-1] < np.pi:
        edges.append(edges[-1] + max(base, (growth - 1.0) * edges[-1]))
    edges[-1] = np.nextafter(np.pi, 4.0)
    return np.array(edges)


def periodogram(sequences: list[FloatArray]) -> Periodogram:
    """Banded periodogram of complete, centred sequences.

    Parameters
    ----------
    sequences : list of ndarray of shape (T_i, D)
        Centred data without gaps.

    Returns
    -------
    Periodogram
    """
    edges = band_edges(max(len(x) for x in sequences))
    d = sequences[0].shape[1]
    n_bands = len(edges) - 1
    power, weights, moments = np.zeros((n_bands, d, d)), np.zeros(n_bands), np.zeros(n_bands)
    for x in sequences:
        n = len(x)
        if n < 3:
            continue
        transform = np.fft.rfft(x, axis=0)[1:] / np.sqrt(n)
        omega = 2.0 * np.pi * np.arange(1, len(transform) + 1) / n
        # Each frequency stands for itself and its negative, except the last one of an even length.
        weight = np.full(len(omega), 2.0)
        weight[omega >= np.pi * (1.0 - 1e-12)] = 1.0
        first = np.searchsorted(omega, edges, side="left")
        for band, (i, j) in enumerate(zip(first[:-1], first[1:], strict=True)):
            if i == j:
                continue
            scaled = transform[i:j] * np.sqrt(weight[i:j, None])
            power[band] += scaled.real.T @ scaled.real + scaled.imag.T @ scaled.imag
            weights[band] += weight[i:j].sum()
            moments[band] += weight[i:j] @ omega[i:j]
    used = weights > 0.0
    weights = weights[used]
    return Periodogram(moments[used] / weights, weights, power[used] / weights[:, None, None])


class WhittleObjective:
    """Whittle's log-likelihood as an objective of :func:`probsfa.statespace.quasi_newton.ascend`.

    The offset has no part in it and stays where it is.
    """

    def __init__(
        self, layout: Coordinates, data: Periodogram, noise_variance: FloatArray, limit: int
    ) -> None:
        self.layout = layout
        self.data = data
        self.noise_variance = noise_variance
        n_rows = float(data.weights.sum())
        complete = n_rows * np.eye(layout.n_components + 1)
        self._seen = Seen(
            np.full(layout.n_features, n_rows),
            np.broadcast_to(complete, (layout.n_features, *complete.shape)),
            complete,
        )
        self.limit = limit
        self.count = 0

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return self.count >= self.limit

    def rounding(self, value: float) -> float:
        """Smallest change of the value that is more than rounding."""
        return float(1e-12 * (abs(value) + self.data.weights.sum()))

    def __call__(self, vector: FloatArray) -> Evaluation:
        """Value and gradient."""
        self.count += 1
        params = from_vector(self.layout, vector, self.noise_variance)
        spectrum, slope = latent_spectra(params.decay, self.data.frequencies)
        loadings, r = params.loadings, params.noise_variance
        power, weights = self.data.power, self.data.weights

        inverse, _, _, log_det = invert_spectra(params, spectrum)
        explained = inverse @ power
        value = -0.5 * float(weights @ (log_det + np.einsum("wdd->w", explained)))

        misfit = explained @ inverse - inverse
        by_loadings = np.einsum("w,wde,ek,wk->dk", weights, misfit, loadings, spectrum, optimize=True)
        by_decay = 0.5 * np.einsum(
            "w,wk,dk,wde,ek->k", weights, slope, loadings, misfit, loadings, optimize=True
        )
        by_noise = 0.5 * r * np.einsum("w,wdd->d", weights, misfit)
        gradient = pack_gradient(self.layout, params, by_decay, by_loadings, by_noise, np.zeros_like(r))
        return Evaluation(value, gradient)

    def metric(self, vector: FloatArray, evaluation: Evaluation) -> tuple[FloatArray, FloatArray]:
        """Expected and complete-data information, as for the exact likelihood."""
        params = from_vector(self.layout, vector, self.noise_variance)
        info = information_matrix(self.layout, params, self._seen)
        info = strengthen_at_borders(self.layout, params, info, evaluation.gradient)
        return info, complete_information(self.layout, params, self._seen)
