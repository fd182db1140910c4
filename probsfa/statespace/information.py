"""Expected information of the parameters, in the frequency domain.

For a stationary Gaussian series the expected information per time step is (Whittle's formula)

    I_ij = (1 / 2) mean over w in (0, pi) of  tr(S^-1 d_i S S^-1 d_j S),     S(w) = C diag(f(w)) C' + diag(r),

``f_k`` being the spectrum of latent ``k``. It does not depend on the length of the series and asks for no
pass over the data, which makes it a cheap and nearly exact metric for learning: in it, the steps have the
right size and direction whatever the noise is. Its limits (edges, ``1 - a`` below ``1 / T``, gaps taken as
evenly spread) cost a few more steps and no accuracy, because the score itself is exact.

Blocks, with ``V = S^-1`` (D, D), ``U = V C`` (D, K), ``G = C' V C`` (K, K) at each frequency, for coordinates
``s_k = atanh a_k``, ``C``, ``log r`` and ``mu``::

    s_j, s_k          f'_j f'_k G_jk^2 / 2
    s_j, C_ek         f'_j f_k U_ej G_jk
    s_j, log r_d      f'_j r_d U_dj^2 / 2
    C_dj, C_ek        f_j f_k (U_dk U_ej + V_de G_jk)
    C_dj, log r_e     f_j r_e V_de U_ej
    log r_d, log r_e  r_d r_e V_de^2 / 2
    mu_d, mu_e        V_de at w = 0 (and nothing with the others)
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]


class Blocks(NamedTuple):
    """Information per time step, by pairs of parameter groups (see the module's table)."""

    decay_decay: FloatArray  # (K, K)
    decay_loadings: FloatArray  # (K, D, K)
    decay_noise: FloatArray  # (K, D)
    loadings_loadings: FloatArray  # (D, K, D, K)
    loadings_noise: FloatArray  # (D, K, D)
    noise_noise: FloatArray  # (D, D)
    offset_offset: FloatArray  # (D, D)


def frequencies(decay: FloatArray, nodes_per_panel: int = 6) -> tuple[FloatArray, FloatArray]:
    """Quadrature nodes in (0, pi) and weights of mean one, dense where the spectra have their peaks.

    A latent's spectrum has a Lorentzian peak of width ``1 - |a|`` at 0, or at pi when ``a`` is negative.
    Gauss-Legendre panels whose width grows with the distance from the peak resolve it with a number of
    nodes that grows only with the logarithm of the narrowest width.
    """
    edges = _panel_edges(decay[decay >= 0.0])
    mirrored = np.pi - _panel_edges(-decay[decay < 0.0])
    borders = np.unique(np.concatenate([edges, mirrored, [0.0, np.pi]]))
    nodes, weights = np.polynomial.legendre.leggauss(nodes_per_panel)
    half = 0.5 * np.diff(borders)
    centre = 0.5 * (borders[1:] + borders[:-1])
    return (centre[:, None] + half[:, None] * nodes).ravel(), (half[:, None] * weights).ravel() / np.pi


def _panel_edges(decay: FloatArray, ratio: float = 3.0) -> FloatArray:
    if decay.size == 0:
        return np.array([0.0, np.pi])
    narrowest = max(1.0 - float(decay.max()), 1e-9)
    n_panels = int(np.ceil(np.log(np.pi / (0.3 * narrowest)) / np.log(ratio)))
    return np.concatenate([[0.0], np.pi * ratio ** -np.arange(max(n_panels, 1), -1.0, -1.0)])


def latent_spectra(decay: FloatArray, omega: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Spectrum of each unit-variance latent and its derivative by ``atanh a``: two arrays (W, K)."""
    innovation = (1.0 - decay) * (1.0 + decay)
    # |1 - a exp(-iw)|^2 as a sum of positive terms, also where a is near -1 and w near pi.
    half = 0.5 * omega[:, None]
    size = np.abs(decay)
    transfer = (1.0 - size) ** 2 + 4.0 * size * np.where(decay >= 0.0, np.sin(half), np.cos(half)) ** 2
    spectrum = innovation / transfer
    slope = -2.0 * decay - 2.0 * (decay - np.cos(omega[:, None])) * spectrum
    return spectrum, spectrum * slope


class InverseSpectra(NamedTuple):
    """Inverse of the spectral matrix ``S`` of the observations at ``W`` frequencies.

    Attributes
    ----------
    v : ndarray of shape (W, D, D)
        ``S^-1``.
    u : ndarray of shape (W, D, K)
        ``S^-1 C``.
    g : ndarray of shape (W, K, K)
        ``C' S^-1 C``.
    log_det : ndarray of shape (W,)
        ``log |S|``.
    """

    v: FloatArray
    u: FloatArray
    g: FloatArray
    log_det: FloatArray


def invert_spectra(params: Parameters, spectrum: FloatArray) -> InverseSpectra:
    """Invert ``C diag(f) C' + diag(r)`` at each frequency.

    With ``R^-1/2 C = U s W'``, the inverse is ``R^-1/2 (U_o U_o' + U B^-1 U') R^-1/2``, where ``U_o``
    completes ``U`` and ``B = 1 + s W' F W s``. Only sums of positive terms are formed: the textbook
    difference ``R^-1 - R^-1 C (...) C' R^-1`` has no correct digit left in the directions of the latents
    when the noise is small.
    """
    d, k = params.loadings.shape
    root = 1.0 / np.sqrt(params.noise_variance)
    left, singular, right = np.linalg.svd(params.loadings * root[:, None])
    used = min(d, k)
    scaled = singular[:, None] * right[:used]  # s W'
    within, beyond = left[:, :used] * root[:, None], left[:, used:] * root[:, None]
    core = np.eye(used) + (scaled * spectrum[:, None, :]) @ scaled.T
    inverse = np.linalg.inv(core)
    half = within @ inverse
    u = half @ scaled
    return InverseSpectra(
        v=beyond @ beyond.T + half @ within.T,
        u=u,
        g=scaled.T @ (inverse @ scaled),
        log_det=np.linalg.slogdet(core)[1] + float(np.sum(np.log(params.noise_variance))),
    )


def whittle_blocks(params: Parameters) -> Blocks:
    """Expected information per time step of a complete, evenly sampled series.

    Parameters
    ----------
    params : Parameters
        Parameters at which the information is taken.

    Returns
    -------
    Blocks
    """
    d, k = params.loadings.shape
    omega, weights = frequencies(params.decay)
    spectrum, slope = latent_spectra(params.decay, omega)
    v, u, g, _ = invert_spectra(params, spectrum)
    r = params.noise_variance

    fu = spectrum[:, None, :] * u  # (W, D, K)
    su = slope[:, None, :] * u
    fgf = spectrum[:, :, None] * g * spectrum[:, None, :]
    sgf = slope[:, :, None] * g * spectrum[:, None, :]
    w = weights[:, None, None]
    flat_fu = fu.reshape(-1, d * k)
    # mean f_j f_k U_dk U_ej = < (f_k U_dk) (f_j U_ej) >: an outer product with the latents' indices swapped.
    crossed = (flat_fu.T @ (weights[:, None] * flat_fu)).reshape(d, k, d, k).transpose(0, 3, 2, 1)
    direct = (v.reshape(-1, d * d).T @ (w * fgf).reshape(-1, k * k)).reshape(d, d, k, k).transpose(0, 2, 1, 3)
    at_zero = invert_spectra(params, latent_spectra(params.decay, np.zeros(1))[0]).v[0]
    return Blocks(
        decay_decay=0.5 * np.einsum("w,wj,wk,wjk->jk", weights, slope, slope, g**2, optimize=True),
        decay_loadings=np.einsum("wej,wjk->jek", u, w * sgf, optimize=True),
        decay_noise=0.5 * np.einsum("wdj,wdj->jd", w * su, u) * r,
        loadings_loadings=crossed + direct,
        loadings_noise=np.einsum("wde,wej->dje", v, w * fu, optimize=True) * r,
        noise_noise=0.5 * np.einsum("wde,wde->de", w * v, v) * np.outer(r, r),
        offset_offset=at_zero,
    )
