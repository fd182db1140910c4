"""Draws with their latents exchanged and turned: each draw by itself, or all by one rule."""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.bayes.draws import Draws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.linalg import canonical_signs


def relabelled(draws: Draws, relabelling: Relabelling) -> Draws:
    """Draws (C, N, ...) with the signed permutation of each, given for one chain after the other."""
    chains, n, k = draws.decay.shape
    decay = relabelling.latents(draws.decay.reshape(chains * n, k), signed=False)
    loadings = relabelling.latents(draws.loadings.reshape(chains * n, -1, k))
    return draws._replace(
        decay=decay.reshape(draws.decay.shape), loadings=loadings.reshape(draws.loadings.shape)
    )


def canonical_order(draws: Draws, scale: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Order and signs of the labels by the package's rule: slowest first, largest correlation positive."""
    order = np.argsort(-np.median(draws.decay, axis=(0, 1)), kind="stable")
    loadings = np.mean(draws.loadings, axis=(0, 1))[:, order]
    return order, canonical_signs(loadings, scale)


def reordered(draws: Draws, order: NDArray[np.intp], signs: FloatArray) -> Draws:
    """Draws with their labels in another order and with other signs."""
    return draws._replace(decay=draws.decay[..., order], loadings=draws.loadings[..., order] * signs)
