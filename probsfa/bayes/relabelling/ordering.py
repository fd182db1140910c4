"""Draws with their latents exchanged and turned: each draw by itself, or all by one rule."""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.bayes.draws import AnyDraws, StructuralDraws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.linalg import canonical_signs


def relabelled(draws: AnyDraws, relabelling: Relabelling) -> AnyDraws:
    """Draws (C, N, ...) with the signed permutation of each, given for one chain after the other."""
    chains, n, k = draws.decay.shape
    decay = relabelling.latents(draws.decay.reshape(chains * n, k), signed=False)
    shared = draws.loadings[..., :k]
    loadings = relabelling.latents(shared.reshape(chains * n, -1, k)).reshape(shared.shape)
    return draws._replace(
        decay=decay.reshape(draws.decay.shape), loadings=_with_others(loadings, draws.loadings)
    )


def _with_others(loadings: FloatArray, every: FloatArray) -> FloatArray:
    """Loadings (..., D, S) of all states, of which those of the AR(1) factors are the first ones."""
    return np.concatenate([loadings, every[..., loadings.shape[-1] :]], axis=-1)


def aligned_with(draws: StructuralDraws, reference: FloatArray) -> StructuralDraws:
    """Draws with the phases of cycles and the signs of smooth factors closest to a reference (D, S).

    A turn of the two states of a cycle by any angle, and a change of the sign of a smooth factor, leave the
    model unchanged.
    """
    loadings, first = draws.loadings.copy(), draws.decay.shape[-1]
    for j in range(first, first + 2 * draws.rhythm_decay.shape[-1], 2):
        phasor = loadings[..., j] + 1j * loadings[..., j + 1]
        inner = np.sum(phasor * (reference[:, j] - 1j * reference[:, j + 1]), axis=-1, keepdims=True)
        turned = phasor * np.exp(-1j * np.angle(inner))
        loadings[..., j], loadings[..., j + 1] = turned.real, turned.imag
    for j in range(first + 2 * draws.rhythm_decay.shape[-1], loadings.shape[-1], 2):
        inner = np.sum(loadings[..., j] * reference[:, j], axis=-1, keepdims=True)
        loadings[..., j] *= np.where(inner < 0.0, -1.0, 1.0)
    return draws._replace(loadings=loadings)


def canonical_order(draws: AnyDraws, scale: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Order and signs of the labels by the package's rule: slowest first, largest correlation positive."""
    order = np.argsort(-np.median(draws.decay, axis=(0, 1)), kind="stable")
    loadings = np.mean(draws.loadings, axis=(0, 1))[:, order]
    return order, canonical_signs(loadings, scale)


def reordered(draws: AnyDraws, order: NDArray[np.intp], signs: FloatArray) -> AnyDraws:
    """Draws with their labels in another order and with other signs."""
    shared = draws.loadings[..., order] * signs
    return draws._replace(decay=draws.decay[..., order], loadings=_with_others(shared, draws.loadings))
