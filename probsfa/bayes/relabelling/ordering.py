"""Permutations and sign changes of the factors, separately for each draw or equally for all draws."""

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.bayes.draws import AnyDraws, StructuralDraws
from probsfa.bayes.relabelling.matching import Relabelling
from probsfa.linalg import canonical_signs
from probsfa.statespace.processes.rhythm import Rhythm


def relabelled(draws: AnyDraws, relabelling: Relabelling) -> AnyDraws:
    """Return draws (C, N, ...) transformed by their signed permutations.

    The relabelling has C N permutations, one chain after the other.
    """
    chains, n, k = draws.decay.shape
    decay = relabelling.apply(draws.decay.reshape(chains * n, k), signed=False)
    factor_loadings = draws.loadings[..., :k]
    loadings = relabelling.apply(factor_loadings.reshape(chains * n, -1, k)).reshape(factor_loadings.shape)
    return draws._replace(
        decay=decay.reshape(draws.decay.shape), loadings=_with_others(loadings, draws.loadings)
    )


def _with_others(loadings: FloatArray, all_loadings: FloatArray) -> FloatArray:
    """Return loadings (..., D, S) of all states, with `loadings` in place of those of the AR(1) factors."""
    return np.concatenate([loadings, all_loadings[..., loadings.shape[-1] :]], axis=-1)


def aligned_with(draws: StructuralDraws, reference: FloatArray) -> StructuralDraws:
    """Return draws with phases of cycles and signs of other processes closest to a reference (D, S).

    The model does not change if the two states of a cycle are rotated, or if a smooth factor or a trend
    changes sign.
    """
    loadings, k = draws.loadings.copy(), draws.decay.shape[-1]
    for kind, states in draws.other_processes.states.items():
        for j in range(k + states.start, k + states.stop, kind.n_states):
            if kind is Rhythm:
                phasor = loadings[..., j] + 1j * loadings[..., j + 1]
                inner_product = np.sum(
                    phasor * (reference[:, j] - 1j * reference[:, j + 1]), axis=-1, keepdims=True
                )
                rotated = phasor * np.exp(-1j * np.angle(inner_product))
                loadings[..., j], loadings[..., j + 1] = rotated.real, rotated.imag
            else:
                inner_product = np.sum(loadings[..., j] * reference[:, j], axis=-1, keepdims=True)
                loadings[..., j] *= np.where(inner_product < 0.0, -1.0, 1.0)
    return draws._replace(loadings=loadings)


def canonical_order(draws: AnyDraws, scale: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
    """Return the canonical order and signs of the factors.

    The slowest factor is first. Each factor correlates positively with its most correlated column, according
    to the mean of the draws.
    """
    order = np.argsort(-np.median(draws.decay, axis=(0, 1)), kind="stable")
    loadings = np.mean(draws.loadings, axis=(0, 1))[:, order]
    return order, canonical_signs(loadings, scale)


def reordered(draws: AnyDraws, order: NDArray[np.intp], signs: FloatArray) -> AnyDraws:
    """Return draws after one permutation and change of signs (K,) of the factors, equal for all draws."""
    factor_loadings = draws.loadings[..., order] * signs
    return draws._replace(
        decay=draws.decay[..., order], loadings=_with_others(factor_loadings, draws.loadings)
    )
