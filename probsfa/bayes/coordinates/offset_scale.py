"""Coordinates of the offset whose posterior width does not depend on the time scales of the factors.

The mean of a slow factor over the data differs from zero and cannot be distinguished from the offset. The
offset is therefore as uncertain as the loadings ``C`` times the mean of the factors. The variance of this
mean increases with the time scales: the posterior has a funnel. Here the offset is ``M(theta) B u`` with
coordinates ``u`` and a constant matrix ``B``. ``M`` is computed from the power spectrum of the model at
frequency zero, which depends on the other parameters ``theta``. For all ``theta``, the posterior covariance
of ``B u`` is approximately the identity.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray

#: Longest time scale, relative to the number of rows, for which these coordinates are used. The mean of a
#: slower factor is as uncertain as the factor itself, and the prior of the offset dominates.
MAX_RELATIVE_TIMESCALE = 0.15


class OffsetScale(NamedTuple):
    """Quantities on which the uncertainty of the offset depends, in addition to the parameters.

    Attributes
    ----------
    counts : Array (D,)
        Number of observed values of each column.
    n_rows, n_sequences : float
        Number of rows with observed values, and number of independent sequences.
    prior_precision : Array (D,)
        Inverse variances of the prior; zero if they do not exist.
    root : Array (D, D)
        Transposed Cholesky factor of the precision at a reference point, where the coordinates are equal to
        the offset.
    """

    counts: Any
    n_rows: Any
    n_sequences: Any
    prior_precision: Any
    root: Any


def precision_root(scale: OffsetScale, decay: Any, loadings: Any, noise_variance: Any) -> Array:
    """Return the lower Cholesky factor (D, D) of the precision of the offset: data plus prior.

    The mean of an AR(1) factor over ``n`` rows has approximately the variance ``g / (n + m g)`` with
    ``g = (1 + a) / (1 - a)`` and the number ``m`` of sequences. This variance is below ``1 / m``.
    """
    power = (1.0 + decay) / (1.0 - decay)
    variance = power / (scale.n_rows + scale.n_sequences * power)
    covariance = (loadings * variance) @ loadings.T + jnp.diag(
        noise_variance / jnp.maximum(scale.counts, 1.0)
    )
    lower = jnp.linalg.cholesky(covariance, symmetrize_input=False)
    identity = jnp.eye(loadings.shape[0], dtype=covariance.dtype)
    solved = jax.lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    precision = solved.T @ solved + jnp.diag(scale.prior_precision)
    return jnp.linalg.cholesky(precision, symmetrize_input=False)


def scaled_offset(
    scale: OffsetScale, coordinates: Array, decay: Array, loadings: Array, noise_variance: Array
) -> tuple[Array, Array]:
    """Return the offset (D,) at coordinates (D,), and the log |det| of the Jacobian."""
    root = precision_root(scale, decay, loadings, noise_variance)
    offset = jax.lax.linalg.triangular_solve(
        root, (scale.root @ coordinates)[:, None], left_side=True, lower=True, transpose_a=True
    )[:, 0]
    diagonals = jnp.diagonal(scale.root), jnp.diagonal(root)
    return offset, jnp.sum(jnp.log(diagonals[0])) - jnp.sum(jnp.log(diagonals[1]))


def make_offset_scale(
    counts: FloatArray,
    n_rows: float,
    n_sequences: float,
    prior_precision: FloatArray,
    decay: FloatArray,
    loadings: FloatArray,
    noise_variance: FloatArray,
) -> OffsetScale:
    """Return the scale of the offset with these decays, loadings and noise variances as reference point."""
    scale = OffsetScale(counts, n_rows, n_sequences, prior_precision, None)
    root = precision_root(scale, decay, loadings, noise_variance)
    return scale._replace(root=np.asarray(root).T)
