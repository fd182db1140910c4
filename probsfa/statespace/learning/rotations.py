"""Retraction for rotations of the latent factors.

Rotations ``C -> C Q`` with orthogonal ``Q`` of factors with nearly equal time scales hardly change the
likelihood, so steps in these directions are long. A rotation is not a straight line in the loadings. A step
``C + C A`` with antisymmetric ``A`` changes the variances of the factors to second order in ``A``, but at low
noise nothing else can explain the change, and a step with a predicted gain loses thousands of nats. So the
rotation ``C A`` contained in a step ``S`` follows its arc,

    C  ->  (C + S - C A) exp(A),

which is the same step to first order. ``A`` minimizes the rest of the step in units of the noise: with
``L = R^-1/2 C`` and ``D = R^-1/2 S`` it solves ``G A + A G = L' D - D' L``, ``G = L' L``. Stored steps and
gradients of earlier iterations are rotated too (Absil, Mahony & Sepulchre 2008, Optimization algorithms on
matrix manifolds, chapters 4 and 8, on retractions and vector transport).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from probsfa._typing import FloatArray
from probsfa.statespace.learning.coordinates import Coordinates

__all__ = ["Turn", "rotate_along"]

# Lower bound of the sums of two eigenvalues of ``G``, relative to the largest: factors are degenerate below.
_LEAST_PART = 1e-10


@dataclass(frozen=True, eq=False)
class Turn:
    """Rotation of the shared states.

    Attributes
    ----------
    layout : Coordinates
        Coordinates, which define the place of loadings in a vector.
    matrix : ndarray of shape (n, n)
        Orthogonal matrix that multiplies the loadings of the rotated states from the right.
    """

    layout: Coordinates
    matrix: FloatArray

    def __call__(self, vector: FloatArray) -> FloatArray:
        """Rotate a vector (P,) of coordinates, of their changes or of derivatives by them."""
        return self._turned_by(self.matrix, vector)

    def back(self, vector: FloatArray) -> FloatArray:
        """Rotate a vector (P,) back."""
        return self._turned_by(self.matrix.T, vector)

    def _turned_by(self, matrix: FloatArray, vector: FloatArray) -> FloatArray:
        loadings = _loadings(self.layout, vector)
        shared = _rotated_states(self.layout)
        loadings[:, shared] = loadings[:, shared] @ matrix
        turned = vector.copy()
        turned[self.layout.slices[1]] = loadings[self.layout.loaded]
        return turned


def rotate_along(
    layout: Coordinates, vector: FloatArray, step: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, Turn]:
    """Take a step from a vector of coordinates, with its rotation of the factors along the arc.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates.
    vector, step : ndarray of shape (P,)
        Initial coordinates, and the step.
    noise_variance : ndarray of shape (D,)
        Noise variance at the initial coordinates.

    Returns
    -------
    reached : ndarray of shape (P,)
        Coordinates after the step.
    turn : Turn
        Rotation of the factors in the step.
    """
    shared = _rotated_states(layout)
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


def _rotated_states(layout: Coordinates) -> NDArray[np.intp]:
    """Return the rotated states: all except those of AR(1) noise."""
    states = np.ones(layout.n_states, dtype=bool)
    if layout.n_ar1_noise:
        states[layout.memories] = False
    return np.flatnonzero(states)


def _loadings(layout: Coordinates, vector: FloatArray) -> FloatArray:
    """Return the loadings (D, n_states) of a vector of coordinates, zero where they have none."""
    loadings = np.zeros((layout.n_features, layout.n_states))
    loadings[layout.loaded] = vector[layout.slices[1]]
    return loadings
