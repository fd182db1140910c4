"""From outputs back to inputs, by a kernel ridge regression that is fitted to support vectors.

Bakir, Weston & Schoelkopf (2004), Learning to find pre-images, Advances in Neural Information Processing
Systems 16: a map from the outputs of known points to these points, learned like any other regression.
"""

from typing import NamedTuple

import numpy as np
from sklearn.metrics.pairwise import rbf_kernel

from probsfa._typing import FloatArray

__all__ = ["PreImage"]

_WIDTHS = (0.1, 1.0, 10.0)  # gamma times the number of outputs, which have unit variance
_RIDGES = 10.0 ** np.arange(-10, 1)


class PreImage(NamedTuple):
    """A Gaussian kernel ridge regression.

    Attributes
    ----------
    outputs : ndarray (m, K)
        Outputs of known points.
    coefficients : ndarray (m, D)
        The regression is ``k(y, outputs) @ coefficients + mean``.
    mean : ndarray (D,)
        Mean of the points.
    gamma : float
        Inverse squared width of the kernel of outputs.
    ridge : float
        Penalty of the squared norm.
    """

    outputs: FloatArray
    coefficients: FloatArray
    mean: FloatArray
    gamma: float
    ridge: float

    @classmethod
    def fit(cls, outputs: FloatArray, points: FloatArray) -> "PreImage":
        """Fit the width and the ridge that predict a point best from the others.

        Parameters
        ----------
        outputs : ndarray (m, K)
            Outputs of the points.
        points : ndarray (m, D)
            Known points.

        Notes
        -----
        With ``H = K (K + ridge)^-1`` the residual of a point that is left out is
        ``((1 - H) x)_i / (1 - H_ii)``, so one eigenproblem serves all ridges of a width.
        """
        mean = points.mean(axis=0)
        centred = points - mean
        best = (np.inf, 0.0, 0.0, np.zeros_like(centred))
        for width in _WIDTHS:
            gamma = width / outputs.shape[1]
            values, vectors = np.linalg.eigh(rbf_kernel(outputs, gamma=gamma))
            values = np.maximum(values, 0.0)
            rotated = vectors.T @ centred
            for ridge in _RIDGES:
                # (K + ridge)^-1 is (1 - H) / ridge, and the ridge cancels in the residual.
                inverse = 1.0 / (values + ridge)
                coefficients = vectors @ (inverse[:, None] * rotated)
                diagonal = vectors**2 @ inverse
                error = float(np.sum((coefficients / diagonal[:, None]) ** 2))
                if error < best[0]:
                    best = (error, gamma, float(ridge), coefficients)
        _, gamma, ridge, coefficients = best
        return cls(outputs, coefficients, mean, gamma, ridge)

    def __call__(self, Y: FloatArray) -> FloatArray:
        """Return the points that outputs (T, K) come from, (T, D)."""
        points: FloatArray = rbf_kernel(Y, self.outputs, gamma=self.gamma) @ self.coefficients + self.mean
        return points
