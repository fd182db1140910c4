"""A graph whose vertices are the samples in another order."""

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["PermutedGraph"]


class PermutedGraph(TrainingGraph):
    """The graph `base` on the samples sorted by `order`, seen from their original order.

    Parameters
    ----------
    base : TrainingGraph
        Its vertex i is sample ``order[i]``.
    order : ndarray (N,)
        A permutation, for example ``np.argsort(labels)``.
    """

    def __init__(self, base: TrainingGraph, order: NDArray[np.intp]) -> None:
        self._place = np.empty_like(order)  # where in the order every sample stands
        self._place[order] = np.arange(len(order))
        super().__init__(base.node_weights[self._place], base.degrees[self._place])
        self.base = base
        self.order = order

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        edges = self.base.to_sparse().tocoo()
        rows, columns = self.order[edges.coords[0]], self.order[edges.coords[1]]
        return scipy.sparse.csr_array((edges.data, (rows, columns)), shape=edges.shape)

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return self.base.component_labels()[self._place]

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = np.empty_like(X)
        product[self.order] = self.base._laplacian_matmul(X[self.order])
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        return self.base._energy(X.reordered(self.order))

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        return self.base._relative_energy(X.reordered(self.order))

    def _slowest(self, root: FloatArray, count: int) -> FloatArray | None:
        vectors = self.base._slowest(root[self.order], count)
        return None if vectors is None else vectors[self._place]

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self.order[self.base._random_walk(int(self._place[start]), n_steps, rng)]
