"""Coordinates of the offset whose posterior width does not depend on the time scales of the factors.

A slow factor does not average out over the data, so that its mean cannot be distinguished from the offset:
the offset is as uncertain as ``C`` times the mean of the factors, which grows with their time scales. This
makes the posterior a funnel. Here the offset is ``M(theta)`` times an approximately standard normal vector,
with ``M`` from the power spectrum at frequency zero.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray

#: Longest time scale, relative to the number of rows, for which the formula holds. The mean of a slower
#: factor is as uncertain as the factor itself, and the prior of the offset dominates.
MAX_RELATIVE_TIMESCALE = 0.15


class OffsetScale(NamedTuple):
    """Quantities, other than the parameters, on which the uncertainty of an offset depends.

    Attributes
    ----------
    counts : Array (D,)
        Number of observed values of each column.
    n_rows, n_sequences : float
        Numbers of rows and of independent sequences.
    prior_precision : Array (D,)
        Inverse variances of the prior; zero if they do not exist.
    root : Array (D, D)
        Transposed root of the precision at a reference; there the coordinates are the offsets themselves.
    """

    counts: Any
    n_rows: Any
    n_sequences: Any
    prior_precision: Any
    root: Any


def precision_root(scale: OffsetScale, decay: Any, loadings: Any, noise_variance: Any) -> Array:
    """Return the lower root (D, D) of the precision of the offset: data plus prior.

    The mean of ``n`` rows of an AR(1) factor has the variance ``g / n`` with ``g = (1 + a) / (1 - a)``, and
    at most one in each sequence.
    """
    power = (1.0 + decay) / (1.0 - decay)
    latent = power / (scale.n_rows + scale.n_sequences * power)
    spread = (loadings * latent) @ loadings.T + jnp.diag(noise_variance / jnp.maximum(scale.counts, 1.0))
    lower = jnp.linalg.cholesky(spread, symmetrize_input=False)
    identity = jnp.eye(loadings.shape[0], dtype=spread.dtype)
    solved = jax.lax.linalg.triangular_solve(lower, identity, left_side=True, lower=True)
    precision = solved.T @ solved + jnp.diag(scale.prior_precision)
    return jnp.linalg.cholesky(precision, symmetrize_input=False)


def scaled_offset(
    scale: OffsetScale, coordinates: Array, decay: Array, loadings: Array, noise_variance: Array
) -> tuple[Array, Array]:
    """Return the offset (D,) at coordinates (D,), and the log determinant of the map."""
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
    """Return the scale of the offset with these parameters as reference."""
    scale = OffsetScale(counts, n_rows, n_sequences, prior_precision, None)
    root = precision_root(scale, decay, loadings, noise_variance)
    return scale._replace(root=np.asarray(root).T)
