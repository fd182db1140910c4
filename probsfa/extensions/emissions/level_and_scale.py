"""Uncertainty of level, scale and mixture of AR(1) latent factors, at fixed offsets and loadings.

Factors ``z`` and ``level + M z`` give the same predictors with other offsets and loadings. They differ only
in the prior of the factors: mean zero, unit variances and different decays. In a short series the mean and
variance of a slow factor are uncertain, and with them the level, the scale and the mixture ``M``. Their
variances are those of maximum likelihood estimates from observed factors with unknown decays. Over a step of
``g`` units, ``r = a^g``, the information is ::

    level:               (1 - r) / (1 + r)
    (log scale, a):      [[2, -2 q], [-2 q, r'^2 / (1 - r^2) + 2 q^2]],   q = r r' / (1 - r^2),  r' = dr / da
    (M[i, j], M[j, i]):  [[h_ij, 1], [1, h_ji]],   h_ij = (1 + r_i^2 - 2 r_i r_j) / (1 - r_i^2)

and ``1``, ``2`` and ``[[1, 1], [1, 1]]`` at the start of a sequence. By the delta method they add
``var(level) + mean_i^2 var(log scale) + sum_j mean_j^2 var(M[i, j])`` to the variance of a factor ``i`` with
posterior means ``mean``. Factors with equal decays may be rotated by any angle; the variance of an entry is
then that of the sine of a uniform angle, one half.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["MAX_MIXTURE_VARIANCE", "level_and_scale_variances", "mixture_variances"]

# Bounds of decays within which powers of decays and their derivatives are finite.
_MIN_DECAY, _MAX_DECAY = 1e-6, 0.9999
#: Largest variance of an entry of the mixture, that of the sine of a uniform angle.
MAX_MIXTURE_VARIANCE = 0.5


def level_and_scale_variances(decay: FloatArray, sequences: Sequences) -> FloatArray:
    """Return variances of the level and of the logarithm of the scale of each AR(1) latent factor.

    Parameters
    ----------
    decay : ndarray (K,)
        Decays for a unit of time.
    sequences : Sequences
        The training rows, with times in that unit; rows without observed values are ignored.

    Returns
    -------
    ndarray (2, K)
        Variances of the levels and of the logarithms of the scales, the latter at most 1.
    """
    gaps, n_sequences = _gaps(sequences)
    a = _clipped(decay)[:, None]
    r, slope = a**gaps, gaps * a ** (gaps - 1.0)
    level = n_sequences + np.sum((1.0 - r) / (1.0 + r), axis=1)
    q = r * slope / (1.0 - r**2)
    of_scale = 2.0 * n_sequences + 2.0 * gaps.size
    of_decay = np.sum(slope**2 / (1.0 - r**2) + 2.0 * q**2, axis=1)
    cross_information = -2.0 * np.sum(q, axis=1)
    conditional_information = (
        of_scale - cross_information**2 / of_decay if gaps.size else np.full_like(level, of_scale)
    )
    return np.stack([1.0 / level, np.minimum(1.0 / conditional_information, 1.0)])


def mixture_variances(decay: FloatArray, sequences: Sequences) -> FloatArray:
    """Return variances of the mixture of AR(1) latent factors, and covariances of its opposite entries.

    Parameters
    ----------
    decay, sequences
        As in `level_and_scale_variances`.

    Returns
    -------
    ndarray (2, K, K)
        Variances of ``M[i, j]``, at most `MAX_MIXTURE_VARIANCE`, and covariances of ``M[i, j]`` and ``M[j,
        i]``. The diagonal is zero.
    """
    gaps, n_sequences = _gaps(sequences)
    r = _clipped(decay)[:, None] ** gaps
    steps = (1.0 + r[:, None] ** 2 - 2.0 * r[:, None] * r) / (1.0 - r[:, None] ** 2)
    information, count = n_sequences + np.sum(steps, axis=2), n_sequences + gaps.size
    # In units of one row, so that the determinant for equal decays is zero up to rounding errors.
    determinant = (
        np.maximum((information / count) * (information.T / count) - 1.0, np.finfo(float).eps) * count**2
    )
    variances = np.stack([information.T, np.full_like(information, -count)]) / determinant
    largest = np.maximum(variances[0], variances[0].T)
    variances *= np.minimum(1.0, MAX_MIXTURE_VARIANCE / largest)
    variances[:, np.arange(len(decay)), np.arange(len(decay))] = 0.0
    return variances


def _clipped(decay: FloatArray) -> FloatArray:
    size = np.clip(np.abs(decay), _MIN_DECAY, _MAX_DECAY)
    return np.where(decay < 0.0, -size, size)


def _gaps(sequences: Sequences) -> tuple[FloatArray, int]:
    """Return times between rows with observed values (n,), and the number of sequences with such rows."""
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    observed, gaps, count = np.asarray(sequences.mask.any(axis=1)), [np.zeros(0)], 0
    for rows in sequences.slices:
        observed_times = times[rows][observed[rows]]
        count += len(observed_times) > 0
        gaps.append(np.diff(observed_times))
    return np.concatenate(gaps), count
