"""A graph that some of the samples have, among samples that it does not join."""

import numpy as np
import scipy.sparse

from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["SubsetGraph"]


class SubsetGraph(TrainingGraph):
    """The graph `base` on the rows `samples` of the data; all other rows count nothing.

    Parameters
    ----------
    base : TrainingGraph
        Its vertex i is sample ``samples[i]``.
    samples : ndarray (n,), int
        Different row numbers below `n_samples`.
    n_samples : int
        Number of rows of the data.
    """

    def __init__(self, base: TrainingGraph, samples: IntArray, n_samples: int) -> None:
        def spread(values: FloatArray) -> FloatArray:
            whole = np.zeros(n_samples, dtype=np.float64)
            whole[samples] = values
            return whole

        super().__init__(spread(base.node_weights), spread(base.degrees))
        self.base = base
        self.samples = samples

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        edges = self.base.to_sparse().tocoo()
        places = (self.samples[edges.coords[0]], self.samples[edges.coords[1]])
        return scipy.sparse.csr_array((edges.data, places), shape=(self.n_vertices, self.n_vertices))

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,); a row not in the graph is its own."""
        inside = self.base.component_labels()
        labels = np.arange(self.n_vertices, dtype=np.intp) + int(inside.max()) + 1
        labels[self.samples] = inside
        return np.unique(labels, return_inverse=True)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = np.zeros_like(X)
        product[self.samples] = self.base._laplacian_matmul(X[self.samples])
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        return self.base._energy(X.reordered(self.samples))

    def _relative_energy(self, X: CentredRows) -> FloatArray:
        return self.base._relative_energy(X.reordered(self.samples))

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        (place,) = np.flatnonzero(self.samples == start)
        return self.samples[self.base._random_walk(int(place), n_steps, rng)]
