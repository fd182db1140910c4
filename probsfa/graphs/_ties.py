"""Windows over samples some of which have equal labels: the mean over all orders in which these may stand."""

from functools import cached_property

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from probsfa._typing import FloatArray
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs._window import WindowGraph
from probsfa.graphs.training_graph import IntArray, TrainingGraph, check_edges

__all__ = ["TiedWindowGraph"]


class TiedWindowGraph(TrainingGraph):
    """Mean of a window graph over all permutations of the samples inside each block of equal labels.

    Let M average over the samples of each block, and L be the Laplacian of the window. Outside the diagonal
    blocks, the mean of ``P L P'`` over all such permutations P is ``M L M``. In a block of m samples a
    permutation keeps the trace and the sum of L, and the mean over all of them has one number on the diagonal
    and one beside it; both follow from trace and sum. Together that is

        M L M + diag(c) (1 - M),      c = (trace - sum / m) / (m - 1) of the block of L,

    one product with L and some sums over blocks.

    Parameters
    ----------
    window : WindowGraph
        Over the samples in the order of their labels.
    sizes : ndarray (S,), int
        Number of samples of each label, in the same order.

    Examples
    --------
    >>> import numpy as np
    >>> window = WindowGraph(3, 1, ends="open")
    >>> TiedWindowGraph(window, np.array([1, 2])).to_sparse().toarray()
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 1. ],
           [0.5, 1. , 1. ]])
    """

    def __init__(self, window: WindowGraph, sizes: IntArray) -> None:
        self.window = window
        self.sizes = sizes
        self.blocks = np.repeat(np.arange(len(sizes)), sizes)
        self._starts = np.cumsum(sizes) - sizes
        degrees = np.add.reduceat(window.degrees, self._starts)
        self._loops = np.add.reduceat(window.self_loops(), self._starts)
        self._inside = window.weights_inside(self._starts, self.blocks)
        trace, total = degrees - self._loops, degrees - self._inside
        self._spread_weights = np.where(sizes > 1, (trace - total / sizes) / np.maximum(sizes - 1, 1), 0.0)
        super().__init__(np.ones(window.n_vertices, dtype=np.float64), (degrees / sizes)[self.blocks])

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        n, sizes = self.n_vertices, self.sizes
        check_edges(float(np.sum(sizes.astype(float) ** 2)), "window and sizes say what they are")
        share = scipy.sparse.diags_array(1.0 / sizes)
        inside = (self._inside - self._loops) / np.maximum(sizes * (sizes - 1), 1)
        of_pair = share @ self._between_blocks @ share + scipy.sparse.diags_array(inside)
        ones = np.ones(n, dtype=np.float64)
        members = scipy.sparse.csr_array((ones, self.blocks, np.arange(n + 1)), shape=(n, len(sizes)))
        pairs = scipy.sparse.csr_array(members @ of_pair @ members.T)
        loops = (self._loops / sizes)[self.blocks]
        edges = scipy.sparse.csr_array(pairs + scipy.sparse.diags_array(loops - pairs.diagonal()))
        edges.eliminate_zeros()
        return edges

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        if self.window.component_labels().max() == 0:
            return np.zeros(self.n_vertices, dtype=np.intp)
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        means = self._block_means(X)[self.blocks]
        product = self._block_means(self.window._laplacian_matmul(means))[self.blocks]
        product += self._spread_weights[self.blocks, None] * (X - means)
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        means = np.zeros((len(self.sizes), X.n_features), dtype=np.float64)
        for block in X.blocks():
            present, borders = np.unique(self.blocks[block], return_index=True)
            means[present] += np.add.reduceat(X.take(block), borders)
        means /= self.sizes[:, None]
        nothing = np.zeros(X.n_features, dtype=np.float64)
        total = self.window._energy(CentredRows(means, nothing, nothing, self.blocks))
        for block in X.blocks():
            places = self.blocks[block]
            centred = X.take(block)
            centred -= means[places]
            total += centred.T @ (self._spread_weights[places, None] * centred)
        return total

    def _block_means(self, X: FloatArray) -> FloatArray:
        means: FloatArray = np.add.reduceat(X, self._starts) / self.sizes[:, None]
        return means

    @cached_property
    def _between_blocks(self) -> scipy.sparse.csr_array:
        """Sum of the edge weights from each block to each other one, (S, S)."""
        edges = self.window.to_sparse().tocoo()
        places = tuple(self.blocks[ends] for ends in edges.coords)
        n_blocks = len(self.sizes)
        sums = scipy.sparse.csr_array((edges.data, places), shape=(n_blocks, n_blocks))
        sums.setdiag(0.0)
        sums.eliminate_zeros()
        return sums

    @cached_property
    def _block_walk(self) -> SparseWalk:
        return SparseWalk((self._between_blocks + scipy.sparse.diags_array(self._inside)).tocsr())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        # Samples of a block look alike, so the blocks walk first. A visit that comes from another block picks
        # any member; one that stays in its block stays at its member with the share of the self-loops.
        visited = self._block_walk(int(self.blocks[start]), n_steps, rng)
        sizes, staying = self.sizes[visited], (self._loops / np.maximum(self._inside, 1e-300))[visited]
        moved = np.diff(visited, prepend=-1) != 0
        pick = np.floor(rng.random_sample(n_steps) * sizes).astype(np.intp)
        others = 1 + np.floor(rng.random_sample(n_steps) * (sizes - 1)).astype(np.intp)
        shift = np.where(rng.random_sample(n_steps) < staying, 0, others)
        pick[0] = start - self._starts[visited[0]]
        begins = np.flatnonzero(moved)
        run = np.cumsum(moved) - 1
        total = np.cumsum(np.where(moved, 0, shift))
        member = (pick[begins][run] + total - total[begins][run]) % sizes
        path: IntArray = self._starts[visited] + member
        return path
