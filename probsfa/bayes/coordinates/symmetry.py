"""Selection of one of the equivalent modes of the posterior by a smooth weight.

The posterior is invariant under all signed permutations ``g`` of the factors: each mode has equivalent modes,
its images. The coordinates of a sampler are adapted to one of them only. The density is therefore multiplied
by a weight ``w`` that sums to one over the images of a point ``x``, ``sum_g w(g x) = 1``. The distribution of
quantities that do not depend on the labelling is unchanged. The weighted density has one of the equivalent
modes, and decreases smoothly where labels are uncertain.

``w`` is the responsibility of one component of a mixture of normal distributions: the component is centred at
a reference, the others at the images of the reference.
"""

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import logsumexp

#: Maximum number of factors for sums over permutations.
MAX_PERMUTED = 5
#: Standard deviation of the normal distributions, as a multiple of that of the posterior; large, so that the
#: weight is smooth.
RELATIVE_WIDTH = 2.0
#: Concentration of the von Mises density of the phases of cycles: a standard deviation of 0.2 radians.
CONCENTRATION = 25.0


class SymmetryReference(NamedTuple):
    """A reference and the widths around it, in the coordinates of the sampled vector.

    Shapes are (K,) for ``timescale`` and ``timescale_width``, and (D, K) for ``loadings`` and
    ``loadings_width``. References of ``M`` modes of the posterior have a leading axis, (M, ...).
    """

    timescale: Any
    loadings: Any
    timescale_width: Any
    loadings_width: Any


def log_weight(
    reference: SymmetryReference, timescale: Array, loadings: Array, permuted: bool, members: Any = ()
) -> Array:
    """Return the logarithm of the weight.

    Parameters
    ----------
    reference : SymmetryReference
        Location of the selected mode. With several modes, the mixture has normal distributions around the
        modes and around all their images; the weight is the total responsibility of those around the modes.
    timescale : Array (K,)
        Unconstrained time scales.
    loadings : Array (D, K)
        Unconstrained loadings.
    permuted : bool
        Whether factors may be exchanged; otherwise only their signs may change.
    members : int Array
        Rotated factors (:mod:`.rotation`). All their signed permutations have the same coordinates, so that
        the weight selects all of them.

    Returns
    -------
    Array of shape ()
    """
    if jnp.ndim(reference.timescale) == 1:
        identity_sums, image_sums = _log_sums(reference, timescale, loadings, permuted, members)
        return identity_sums - image_sums

    def of_mode(one: SymmetryReference) -> tuple[Array, Array]:
        # The normalizer, common to all images of one reference, differs between references.
        scaled = jnp.sum((one.loadings / one.loadings_width) ** 2)
        widths = jnp.sum(jnp.log(one.timescale_width)) + jnp.sum(jnp.log(one.loadings_width))
        sums = _log_sums(one, timescale, loadings, permuted, members)
        return sums[0] - 0.5 * scaled - widths, sums[1] - 0.5 * scaled - widths

    identity_sums, image_sums = jax.vmap(of_mode)(jax.tree.map(jnp.asarray, reference))
    return logsumexp(identity_sums) - logsumexp(image_sums)


def _log_sums(
    reference: SymmetryReference, timescale: Array, loadings: Array, permuted: bool, members: Any
) -> tuple[Array, Array]:
    """Return the log of the summed densities of the selected images, and of all images, up to a constant."""
    weights = 1.0 / reference.loadings_width**2
    product = loadings.T @ (reference.loadings * weights)
    standardized_differences = (timescale[:, None] - reference.timescale) / reference.timescale_width
    # -|s C_j - C*_k|^2 / 2 without the term |C*_k|^2 / 2, summed over both signs s.
    base = -0.5 * (standardized_differences**2 + (loadings**2).T @ weights)
    both_signs = base + jnp.logaddexp(product, -product)
    k = timescale.shape[0]
    is_rotated = jnp.isin(jnp.arange(k), jnp.asarray(members, dtype=int))
    selected_signs = jnp.where(is_rotated, both_signs, base + product)
    if not permuted or k > MAX_PERMUTED:
        return jnp.trace(selected_signs), jnp.trace(both_signs)
    orders = np.array(list(itertools.permutations(range(k))))
    selected = jnp.all((orders == np.arange(k)) | is_rotated, axis=1)
    identity_sums, image_sums = (
        jnp.sum(x[orders, np.arange(k)], axis=1) for x in (selected_signs, both_signs)
    )
    return logsumexp(jnp.where(selected, identity_sums, -jnp.inf)), logsumexp(image_sums)


def log_phase_weight(reference: Any, loadings: Array) -> Array:
    """Return the logarithm of the weight that fixes the phases of stochastic cycles.

    A rotation of the two states of a cycle leaves the posterior unchanged, so that its modes form a ring.
    The weight is a von Mises density of the rotation angle from a reference, which leaves a single mode. The
    distribution of quantities that do not depend on the phase is unchanged.

    Parameters
    ----------
    reference, loadings : Array (D, 2 R)
        Loadings of the two states of each cycle.
    """
    reference_pairs, pairs = (jnp.asarray(x).reshape(len(loadings), -1, 2) for x in (reference, loadings))
    along = jnp.sum(reference_pairs * pairs, axis=(0, 2))
    across = jnp.sum(
        reference_pairs[..., 0] * pairs[..., 1] - reference_pairs[..., 1] * pairs[..., 0], axis=0
    )
    # The tiny number keeps the gradient finite if all loadings of a cycle are zero.
    return CONCENTRATION * jnp.sum(along / jnp.sqrt(along**2 + across**2 + 1e-300))
