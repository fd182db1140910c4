"""A metric in which offsets are those of the columns' means, and loadings do not move these.

Over finite rows latents have means of their own, the slow ones most of all, and what a loading adds to the
mean of its column an offset can take away again: both together are a valley. The expected information,
which takes latents to have mean zero, knows of none. In the coordinates ``mu_d + C_d zbar_d``, with the
posterior mean ``zbar_d`` of the latents over the rows in which column ``d`` is seen, there is none, so that
is where the metric is taken.
"""

from typing import Protocol

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.parameters import Parameters

__all__ = ["CentredMetric", "means_of_latents"]


class _Metric(Protocol):
    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray: ...

    def to_dense(self, damping: float = 0.0) -> FloatArray: ...


def means_of_latents(stats: Statistics, params: Parameters) -> FloatArray:
    """Posterior means (D, n_seen) of the states, over the rows in which each column is seen."""
    sums = stats.latent_moments[:, params.latents.seen, -1]
    weights = stats.latent_moments[:, -1, -1, None]  # of the cells: their number, where they have none
    return np.asarray(np.divide(sums, weights, out=np.zeros_like(sums), where=weights > 0.0))


class CentredMetric:
    """A metric that is taken in the coordinates in which offsets are those of the columns' means.

    Parameters
    ----------
    inner : Metric
        The metric in these coordinates.
    layout : Coordinates
        Free coordinates.
    means : ndarray of shape (D, n_states)
        Mean of each state over the rows in which each column is seen.
    """

    def __init__(self, inner: _Metric, layout: Coordinates, means: FloatArray) -> None:
        self.inner, self.layout = inner, layout
        self.column = np.nonzero(layout.loaded)[0]
        self.means = means[layout.loaded]

    def solve(self, gradient: FloatArray, free: BoolArray, damping: float = 0.0) -> FloatArray:
        """Solve with the metric plus ``damping`` times its damping matrix; what is not free stays zero.

        Parameters
        ----------
        gradient : ndarray of shape (P,)
        free : ndarray of bool of shape (P,)
            Which coordinates take part, all offsets among them.
        damping : float
            How much of the damping matrix is added.

        Returns
        -------
        ndarray of shape (P,)
        """
        _, loadings, _, offset = self.layout.slices
        slope = gradient.copy()
        slope[loadings] -= gradient[offset][self.column] * self.means
        step = self.inner.solve(slope, free, damping)
        step[offset] -= np.bincount(
            self.column, step[loadings] * self.means, minlength=self.layout.n_features
        )
        return step

    def to_dense(self, damping: float = 0.0) -> FloatArray:
        """The whole matrix, shape (P, P): for small models and for tests."""
        _, loadings, _, offset = self.layout.slices
        moved = np.eye(self.layout.size)
        moved[offset.start + self.column, np.arange(loadings.start, loadings.stop)] = self.means
        return np.asarray(moved.T @ self.inner.to_dense(damping) @ moved)
