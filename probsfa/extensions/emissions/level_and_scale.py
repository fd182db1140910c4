"""Uncertainty of the level and the scale of AR(1) latent factors, which learned offsets and loadings fix.

A factor ``z`` and ``(z - level) / scale`` give the same predictors with other offsets and loadings; the mean
of zero and the unit variance of the prior alone tell them apart. From few rows both are uncertain, since a
slow factor visits few values. Their variances are those of the maximum likelihood estimates from a factor
that is seen itself, with the decay unknown: over a step of ``g`` units with ``r = a^g`` the information is ::

    level:  (1 - r) / (1 + r)
    (log scale, a):  [[2, -2 q], [-2 q, r'^2 / (1 - r^2) + 2 q^2]],   q = r r' / (1 - r^2),  r' = dr / da

and ``1`` and ``2`` for the level and the scale where a sequence begins. By the delta method they add
``var(level) + mean^2 var(log scale)`` to the variance of a factor whose posterior mean is ``mean``.
"""

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences

__all__ = ["level_and_scale_variances"]

# Decays beyond which their powers, or their derivatives, are no numbers.
_SMALLEST, _LARGEST = 1e-6, 0.9999


def level_and_scale_variances(decay: FloatArray, sequences: Sequences) -> FloatArray:
    """Variances of the level and of the logarithm of the scale of each AR(1) latent factor.

    Parameters
    ----------
    decay : ndarray (K,)
        Decays for a unit of time.
    sequences : Sequences
        The rows that were learned from, with times in that unit; rows without any value do not count.

    Returns
    -------
    ndarray (2, K)
        Variances of the levels and of the logarithms of the scales, the latter 1 at most.
    """
    gaps, n_sequences = _gaps(sequences)
    size = np.clip(np.abs(decay), _SMALLEST, _LARGEST)
    a = np.where(decay < 0.0, -size, size)[:, None]
    r, slope = a**gaps, gaps * a ** (gaps - 1.0)
    level = n_sequences + np.sum((1.0 - r) / (1.0 + r), axis=1)
    q = r * slope / (1.0 - r**2)
    of_scale = 2.0 * n_sequences + 2.0 * gaps.size
    of_decay = np.sum(slope**2 / (1.0 - r**2) + 2.0 * q**2, axis=1)
    both = -2.0 * np.sum(q, axis=1)
    known = of_scale - both**2 / of_decay if gaps.size else np.full_like(level, of_scale)
    return np.stack([1.0 / level, np.minimum(1.0 / known, 1.0)])


def _gaps(sequences: Sequences) -> tuple[FloatArray, int]:
    """Time between rows in which something is observed (n,), and the number of sequences with such rows."""
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    seen, gaps, count = np.asarray(sequences.mask.any(axis=1)), [np.zeros(0)], 0
    for rows in sequences.slices:
        own = times[rows][seen[rows]]
        count += len(own) > 0
        gaps.append(np.diff(own))
    return np.concatenate(gaps), count
