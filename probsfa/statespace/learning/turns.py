"""Steps that turn latents into each other, along the arcs on which they turn.

Latents of nearly equal time scales may be turned into each other, ``C -> C Q`` with ``Q`` orthogonal, at
hardly any cost: the data say little of that, and steps in these directions are long. In the loadings an arc
is no straight line. What a step ``C + C A`` with an antisymmetric ``A`` adds to the variances of the latents
is of second order in ``A``, but where there is little noise it cannot be explained by anything else, and a
step that promised to gain loses thousands of nats. So the part ``C A`` of a step ``S`` that turns the latents
is followed along its arc,

    C  ->  (C + S - C A) exp(A),

which is the same step to first order. ``A`` is the turn that leaves least of the step in units of the noise:
with ``L = R^-1/2 C`` and ``D = R^-1/2 S`` it solves ``G A + A G = L' D - D' L``, ``G = L' L``. What is
remembered of steps and gradients before is turned along (Absil, Mahony & Sepulchre 2008, Optimization
algorithms on matrix manifolds, chapters 4 and 8, on retractions and vector transport).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from probsfa._typing import FloatArray
from probsfa.statespace.learning.coordinates import Coordinates

__all__ = ["Turn", "turn_along"]

# Part of the largest sum of two entries of ``G`` in its own basis below which latents are not told apart.
_LEAST_PART = 1e-10


@dataclass(frozen=True, eq=False)
class Turn:
    """A turn of the latents that columns share.

    Attributes
    ----------
    layout : Coordinates
        Where loadings lie in a vector of coordinates.
    matrix : ndarray of shape (n, n)
        Orthogonal matrix by which loadings of the turned states are multiplied from the right.
    """

    layout: Coordinates
    matrix: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        """A vector (P,) of coordinates, of changes of them or of slopes by them, in the turned latents."""
        return self._turned_by(self.matrix, vector)

    def back(self, vector: FloatArray) -> FloatArray:
        """A vector (P,) in the turned latents as it is in those before the turn."""
        return self._turned_by(self.matrix.T, vector)

    def _turned_by(self, matrix: FloatArray, vector: FloatArray) -> FloatArray:
        loadings = _loadings(self.layout, vector)
        shared = _turned_states(self.layout)
        loadings[:, shared] = loadings[:, shared] @ matrix
        turned = vector.copy()
        turned[self.layout.slices[1]] = loadings[self.layout.loaded]
        return turned


def turn_along(
    layout: Coordinates, vector: FloatArray, step: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, Turn]:
    """Take a step from a vector of coordinates, what of it turns the latents along its arc.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates.
    vector, step : ndarray of shape (P,)
        Where the step begins, and the step.
    noise_variance : ndarray of shape (D,)
        Noise variance where it begins.

    Returns
    -------
    reached : ndarray of shape (P,)
        Where the step leads.
    turn : Turn
        How latents are turned on the way.
    """
    shared = _turned_states(layout)
    here, change = (_loadings(layout, x)[:, shared] for x in (vector, step))
    root = 1.0 / np.sqrt(noise_variance)[:, None]
    scaled = here * root
    crossed = scaled.T @ (change * root)
    crossed = crossed - crossed.T
    power, basis = np.linalg.eigh(scaled.T @ scaled)
    weights = power[:, None] + power
    least = max(_LEAST_PART * float(weights.max(initial=0.0)), np.finfo(np.float64).tiny)
    generator = basis @ ((basis.T @ crossed @ basis) / np.maximum(weights, least)) @ basis.T
    generator = 0.5 * (generator - generator.T)
    turn = Turn(layout, expm(generator))
    straight = _loadings(layout, vector + step)
    straight[:, shared] -= here @ generator
    reached = vector + step
    reached[layout.slices[1]] = straight[layout.loaded]
    return turn(reached), turn


def _turned_states(layout: Coordinates) -> NDArray[np.intp]:
    """Which states are turned: all that columns share."""
    states = np.ones(layout.n_states, dtype=bool)
    if layout.n_memories:
        states[layout.memories] = False
    return np.flatnonzero(states)


def _loadings(layout: Coordinates, vector: FloatArray) -> FloatArray:
    """Loadings (D, n_states) at a vector of coordinates, zero where they have none."""
    loadings = np.zeros((layout.n_features, layout.n_states))
    loadings[layout.loaded] = vector[layout.slices[1]]
    return loadings
