"""Expected information of the parameters, in the frequency domain.

For a stationary Gaussian series the expected information per time step is (Whittle's formula)

    I_ij = (1 / 2) mean over w in (0, pi) of  tr(S^-1 d_i S S^-1 d_j S),     S(w) = C diag(f(w)) C' + diag(r),

with the spectrum ``f_k`` of factor ``k``. It does not depend on the length of the series and requires no
pass over the data, so it is a cheap and nearly exact metric for the optimizer: steps have the right size and
direction at any noise level. Its approximations (edges, ``1 - a`` below ``1 / T``, missing values assumed
evenly spread) cost a few more steps and no accuracy, because the score itself is exact.

The matrix is never formed. With ``R^-1/2 C = U L``, ``U`` orthonormal of shape (D, q), ``q = min(D, K)``, and
``B(w) = 1 + L F L'``,

    S^-1 = R^-1/2 (E + U B^-1 U') R^-1/2,        E = 1 - U U'

so in the scaled loadings ``R^-1/2 C`` the part beyond the span of ``U`` has one K-by-K matrix for all
columns, and the part within it has a matrix over q K coordinates only. Only sums of positive terms are
formed: the textbook difference ``R^-1 - R^-1 C (...) C' R^-1`` has no correct digit in the directions of
the factors when the noise is small. Solving costs O(D^3 + D^2 q K + (q K)^3), the dense matrix O(D^3 K^3).

With ``G = C' S^-1 C`` and ``H = B^-1 L`` (q, K) at each frequency, derivatives by ``s_k = atanh a_k``, the
scaled loadings beyond (``E``) and within (``U M``), ``log r`` and ``mu`` (those of the spectra ``f`` are in
:class:`.LatentSpectra`)::

    s_j, s_k          f'_j f'_k G_jk^2 / 2
    s_j, M_bk         f'_j f_k H_bj G_jk
    s_j, log r_d      f'_j (U H)_dj^2 / 2
    beyond, beyond    E_de f_j f_k G_jk
    M_aj, M_bk        f_j f_k (B^-1_ab G_jk + H_ak H_bj)
    beyond, log r_e   E_de f_j (U H)_ej
    M_aj, log r_e     f_j (U B^-1)_ea (U H)_ej
    log r_d, log r_e  (E + U B^-1 U')_de^2 / 2
    mu_d, mu_e        S^-1_de at w = 0 (and zero with the others)
"""

from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.parameters import Parameters


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
    log_det : ndarray of shape (W,)
        ``log |S|``.
    """

    root: FloatArray
    left: FloatArray
    scaled: FloatArray
    inverse: FloatArray
    log_det: FloatArray


def factor_spectra(params: Parameters, spectrum: FloatArray) -> SpectralFactors:
    """Factor ``C diag(f) C' + diag(r)`` at each frequency, with ``f`` in ``spectrum`` (W, K)."""
    root = 1.0 / np.sqrt(params.noise_variance)
    left, singular, right = np.linalg.svd(params.seen_loadings * root[:, None], full_matrices=False)
    scaled = singular[:, None] * right
    core = np.eye(len(singular)) + (scaled * spectrum[:, None, :]) @ scaled.T
    return SpectralFactors(
        root,
        left,
        scaled,
        np.linalg.inv(core),
        np.linalg.slogdet(core)[1] + float(np.sum(np.log(params.noise_variance))),
    )
