"""Coordinates of the offset in which its posterior is as wide for slow latents as for fast ones.

A slow latent does not average out over the data, so that its mean cannot be distinguished from the offset's:
the offset is as uncertain as ``C`` times the mean of the latents, which grows with their time scales. To a
sampler this is a funnel. Here the offset is ``M(theta)`` times a vector that is about standard normal, with
``M`` from the power spectrum at frequency zero.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray

#: Longest time scale, as a share of the rows, for which the formula holds: the mean of a slower latent is as
#: uncertain as the latent itself, and the prior of the offset decides.
LONGEST = 0.15


class OffsetScale(NamedTuple):
    """What the uncertainty of an offset depends on beside the parameters.

    Attributes
    ----------
    counts : Array (D,)
        Observed cells of each column.
    n_rows, n_sequences : float
        Rows, and independent sequences among them.
    prior_precision : Array (D,)
        Inverse variances of the prior; zero where it has none.
    root : Array (D, D)
        Transposed root of the precision at a reference, where coordinates are the offsets themselves.
    """

    counts: Any
    n_rows: Any
    n_sequences: Any
    prior_precision: Any
    root: Any


def precision_root(scale: OffsetScale, decay: Any, loadings: Any, noise_variance: Any) -> Array:
    """Lower root (D, D) of the offset's precision: that of the mean of a series, and that of the prior.

    The mean of ``n`` rows of an AR(1) latent has the variance ``g / n`` with ``g = (1 + a) / (1 - a)``, and
    at most one for each sequence.
    """
    power = (1.0 + decay) / (1.0 - decay)
    latent = power / (scale.n_rows + scale.n_sequences * power)
    spread = (loadings * latent) @ loadings.T + jnp.diag(noise_variance / jnp.maximum(scale.counts, 1.0))
    lower = jnp.linalg.cholesky(spread, symmetrize_input=False)
    identity = jnp.eye(loadings.shape[0], dtype=spread.dtype)
    half = jax.lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    precision = half.T @ half + jnp.diag(scale.prior_precision)
    return jnp.linalg.cholesky(precision, symmetrize_input=False)


def scaled_offset(
    scale: OffsetScale, coordinates: Array, decay: Array, loadings: Array, noise_variance: Array
) -> tuple[Array, Array]:
    """Offset (D,) at coordinates (D,), and the log determinant of the map."""
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
    """Scale of the offset with given parameters as its reference."""
    scale = OffsetScale(counts, n_rows, n_sequences, prior_precision, None)
    root = precision_root(scale, decay, loadings, noise_variance)
    return scale._replace(root=np.asarray(root).T)
