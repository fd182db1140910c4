"""Coordinates in which latents of similar time scales may turn into each other.

How a series splits into latents is known far less well than what they span. In time scales and loadings the
posterior is bent around the rotations of the latents, and torn where two time scales cross, for there the
labels change. Here the ``K`` time scales (by the coordinate ``t``, their logarithm) and the loadings ``C``
(D, K), in units of the innovations, are given by

* a symmetric matrix ``M = R diag(t) R'``, and
* aligned loadings ``W = C R'``, for which ``B' L W`` is symmetric: no rotation brings them closer to a
  reference ``B`` with row weights ``L`` (orthogonal Procrustes).

``y = R z`` is the same process with correlated dynamics ``R diag(a) R'``, and the likelihood is a smooth
function of these and of ``W``. All orders and signs of the latents are one point:
it is for models that do not tell them apart. The off-diagonal entries of ``M`` take the place of the part of
the loadings that alignment removes, so that there are as many coordinates as parameters; at the reference
they are the parameters themselves, to first order.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa._typing import FloatArray

# Share of a row's variance that counts as noise at least: no row decides on the alignment alone.
_LEAST_NOISE = 0.1
# A latent takes part if its loadings are known to a fifth of their size, by the number of rows.
_PRECISION = 25.0
# Largest standard error of a logarithm of a time scale, and least distance of two in standard errors.
_VAGUE, _APART = 0.6, 2.25


class RotationFrame(NamedTuple):
    """A reference for rotations among some of the latents.

    Attributes
    ----------
    members : int Array (M,)
        Those latents, from the smallest coordinate of the time scale to the largest.
    reference : Array (D, M)
        ``B``.
    weighted : Array (D, M)
        ``L B``, the reference times the weight of each row.
    axes, sizes : Array (M, M) and (M,)
        Eigenvectors and eigenvalues of ``B' L B``.
    distances : Array (M, M)
        Entry of ``M`` for each unit of an angle; skew symmetric.
    """

    members: Any
    reference: Any
    weighted: Any
    axes: Any
    sizes: Any
    distances: Any


def choose_frame(
    timescale: FloatArray,
    coordinate: FloatArray,
    loadings: FloatArray,
    reference: FloatArray,
    noise_variance: FloatArray,
    n_rows: int,
) -> RotationFrame | None:
    """Frame for the latents that are seen well; None where fewer than two are, or any two may be one.

    Where two time scales may be equal, ``M`` may be a multiple of the identity, and there its density has a
    spike (its eigenvalues repel each other, those of the priors do not): such models have better coordinates
    in the parameters themselves.

    Parameters
    ----------
    timescale, coordinate : ndarray (K,)
        Time scales in steps, and the coordinates that stand for them.
    loadings, reference : ndarray (D, K)
        Loadings of unit latents, and the same in units of the innovations.
    noise_variance : ndarray (D,)
        Noise variance.
    n_rows : int
        Number of rows that all this is known from.
    """
    power = np.sum(loadings**2, axis=1)
    weights = 1.0 / ((1.0 - _LEAST_NOISE) * noise_variance + _LEAST_NOISE * (power + noise_variance))
    signal = weights @ loadings**2
    # The standard error of a latent that is seen without noise (an AR(1) coefficient's, by its logarithm).
    errors = np.sqrt(2.0 * np.maximum(timescale, 1.0) / max(n_rows, 1))
    members = np.flatnonzero((n_rows * signal >= _PRECISION * len(loadings)) & (errors <= _VAGUE))
    if len(members) < 2:
        return None
    if may_merge(members, np.log(timescale), errors):
        return None
    return make_frame(coordinate, reference, weights, members)


def may_merge(members: NDArray[np.intp], coordinate: FloatArray, errors: FloatArray) -> bool:
    """Whether two of some latents may have one time scale, by its coordinates (K,) and their errors (K,)."""
    order = members[np.argsort(coordinate[members], kind="stable")]
    apart = np.diff(coordinate[order])
    return not np.all(apart >= _APART * np.hypot(errors[order][1:], errors[order][:-1]))


def make_frame(
    timescale: FloatArray, reference: FloatArray, weights: FloatArray, members: NDArray[np.intp]
) -> RotationFrame:
    """Frame at time scales (K,) and loadings (D, K), with a weight (D,) for each row."""
    members = members[np.argsort(timescale[members], kind="stable")]
    chosen, ordered = reference[:, members], timescale[members]
    weighted = chosen * weights[:, None]
    sizes, axes = np.linalg.eigh(chosen.T @ weighted)
    return RotationFrame(members, chosen, weighted, axes, sizes, ordered - ordered[:, None])


def diagonalize(frame: RotationFrame, timescale: Array, loadings: Array) -> tuple[Array, Array, Array]:
    """Time scales (K,) and loadings (D, K) at coordinates of the same shapes, and the log determinant.

    The eigenvectors of ``M`` are the rotation, its eigenvalues the time scales.

    The log determinant is NaN where nothing has such coordinates: aligned loadings would have to be turned
    once more.
    """
    members = jnp.asarray(frame.members)
    chosen = loadings[:, members]
    # The skew matrix O for which W = V - B O is aligned: S O + O S is twice the skew part of B' L V.
    product = frame.axes.T @ (frame.weighted.T @ chosen) @ frame.axes
    pairs = frame.sizes[:, None] + frame.sizes
    angles = frame.axes @ ((product - product.T) / pairs) @ frame.axes.T
    aligned = chosen - frame.reference @ angles
    symmetric = jnp.diag(timescale[members]) + angles * frame.distances
    values, vectors = jnp.linalg.eigh(0.5 * (symmetric + symmetric.T), symmetrize_input=False)
    upright = jnp.sign(jnp.sign(jnp.diagonal(vectors)) + 0.5)
    closeness = frame.weighted.T @ aligned
    factor = jnp.linalg.cholesky(_compound(0.5 * (closeness + closeness.T)), symmetrize_input=False)
    i, j = np.triu_indices(chosen.shape[1], 1)
    log_det = 2.0 * jnp.sum(jnp.log(jnp.diagonal(factor))) - jnp.sum(jnp.log(pairs[i, j]))
    log_det += jnp.sum(jnp.log(jnp.asarray(frame.distances)[i, j] / (values[j] - values[i])))
    turned = aligned @ (vectors * upright)
    return timescale.at[members].set(values), loadings.at[:, members].set(turned), log_det


def _compound(symmetric: Array) -> Array:
    """The map ``O -> S O + O S`` on skew matrices; its eigenvalues are sums of two of those of ``S``."""
    i, j = np.triu_indices(symmetric.shape[0], 1)
    same = np.eye(symmetric.shape[0])
    return (
        symmetric[i][:, i] * same[j][:, j]
        - symmetric[i][:, j] * same[j][:, i]
        + same[i][:, i] * symmetric[j][:, j]
        - same[i][:, j] * symmetric[j][:, i]
    )


def align(frame: RotationFrame, timescale: FloatArray, loadings: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coordinates of time scales (K,) and loadings (D, K), aligned with the reference.

    The inverse of :func:`diagonalize`, up to the order and the signs of the latents.
    """
    members = np.asarray(frame.members)
    chosen = loadings[:, members]
    left, _, right = np.linalg.svd(np.asarray(frame.weighted).T @ chosen)
    rotation = left @ right
    symmetric = (rotation * timescale[members]) @ rotation.T
    angles = np.divide(
        symmetric, frame.distances, out=np.zeros_like(symmetric), where=~np.eye(len(members), dtype=bool)
    )
    timescale, loadings = timescale.copy(), loadings.copy()
    timescale[members] = np.diagonal(symmetric)
    loadings[:, members] = chosen @ rotation.T + np.asarray(frame.reference) @ angles
    return timescale, loadings
