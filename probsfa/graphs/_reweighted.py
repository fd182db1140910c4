"""Any graph with other node weights and another scale of its edges."""

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from probsfa.graphs.training_graph import FloatArray, IntArray, TrainingGraph

__all__ = ["ReweightedGraph"]


class ReweightedGraph(TrainingGraph):
    """The edges of another graph times a factor, with node weights of their own.

    Parameters
    ----------
    base : TrainingGraph
        Gives the edges.
    node_weights : array-like (N,)
        Not negative.
    scale : float
        Positive factor on all edge weights.
    """

    def __init__(self, base: TrainingGraph, node_weights: ArrayLike, *, scale: float = 1.0) -> None:
        super().__init__(node_weights, base.degrees * scale)
        self.base = base
        self.scale = scale

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        return self.base.to_sparse() * self.scale

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return self.base.component_labels()

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = self.base._laplacian_matmul(X)
        product *= self.scale
        return product

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self.base._random_walk(start, n_steps, rng)
