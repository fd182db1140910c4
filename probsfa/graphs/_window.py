"""Graphs of a window over samples in order, with and without ties."""

from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import connected_components

from probsfa._typing import FloatArray
from probsfa.graphs.moments import CentredRows, block_rows
from probsfa.graphs.training_graph import IntArray, TrainingGraph, check_number_of_edges

__all__ = ["Ends", "TiedWindowGraph", "WindowGraph"]

#: Treatment of windows at the ends: truncated, reflected, or periodic.
Ends = Literal["open", "mirrored", "ring"]

_MAX_DIRECT_HALF_WIDTH = 32  # weighted windows are summed lag by lag up to this half-width, else by FFT


class WindowGraph(TrainingGraph):
    """Sliding window over sorted samples.

    Parameters
    ----------
    n : int
        Number of samples.
    half_width : int
        d, from 1 to n - 1; of a ring at most (n - 1) // 2.
    ends : {"open", "mirrored", "ring"}
        Whether windows are truncated at the ends, reflected, or periodic.
    weights : ndarray (d + 1,), optional
        Edge weight by distance; by default 1.
    """

    weights: FloatArray | None = None

    def __init__(self, n: int, half_width: int, *, ends: Ends, weights: FloatArray | None = None) -> None:
        self.half_width = half_width
        self.ends = ends
        self.weights = weights
        ones = np.ones((n, 1), dtype=np.float64)
        super().__init__(ones[:, 0], self._window_sums(ones)[:, 0])

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        n, d = self.n_vertices, self.half_width
        lags = np.arange(-d, d + 1)
        rows = np.repeat(np.arange(n), 2 * d + 1)
        columns = rows + np.tile(lags, n)
        if self.ends != "open":
            columns = self._reflected(columns)
        inside = (columns >= 0) & (columns < n)
        values = np.tile(self._weight_of(np.abs(lags)), n)[inside]
        edges = scipy.sparse.csr_array((values, (rows[inside], columns[inside])), shape=(n, n))
        edges.eliminate_zeros()
        return edges

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        if self._weight_of(np.ones(1, dtype=np.intp))[0] > 0:
            return np.zeros(self.n_vertices, dtype=np.intp)  # adjacent vertices have edges
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def self_loops(self) -> FloatArray:
        """Return the weight of the edge from every vertex to itself, shape (N,)."""
        n = self.n_vertices
        loops = np.full(n, self._weight_of(np.zeros(1, dtype=np.intp))[0])
        if self.ends == "mirrored":
            for positions in (
                np.arange(n),
                np.arange(n)[::-1],
            ):  # edges to the reflection of the sample itself
                loops += self._weight_of(2 * positions + 1)
        return loops

    def weights_within(self, starts: IntArray, blocks: IntArray) -> FloatArray:
        """Return the sums of the edge weights within blocks of consecutive vertices.

        Parameters
        ----------
        starts : ndarray (S,), int
            First vertex of each block.
        blocks : ndarray (N,), int
            Block of every vertex.

        Returns
        -------
        ndarray (S,)
            Sums over both directions of edges, and self-loops once; computed in O(N + d).
        """
        n, d = self.n_vertices, self.half_width
        cumulative = np.cumsum(self._weight_of(np.arange(d + 1)))  # entry l: sum of weights of lags 0 to l
        positions = np.arange(n)
        first = starts[blocks]
        last = np.append(starts[1:], n)[blocks] - 1

        def cumulative_weights(lag: IntArray) -> FloatArray:  # sums of weights of lags from 0 to `lag`
            return cumulative[np.minimum(lag, d)]

        row_sums = (
            cumulative_weights(last - positions) + cumulative_weights(positions - first) - cumulative[0]
        )
        if self.ends == "ring":  # edges across the end of the ring
            row_sums += (
                2.0 * cumulative_weights(first + n)
                - cumulative_weights(n - 1 - positions + first)
                - cumulative_weights(n - 1 - last + positions)
            )
        if self.ends == "mirrored":
            row_sums += cumulative_weights(positions + last + 1) - cumulative_weights(positions + first)
            positions, first, last = n - 1 - positions, n - 1 - last, n - 1 - first
            row_sums += cumulative_weights(positions + last + 1) - cumulative_weights(positions + first)
        return np.add.reduceat(row_sums, starts)

    def _weight_of(self, lags: IntArray) -> FloatArray:
        inside = lags <= self.half_width
        if self.weights is None:
            return inside.astype(np.float64)
        return np.where(inside, self.weights[np.where(inside, lags, 0)], 0.0)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        if self.weights is not None and len(X):
            X = X - X.mean(axis=0)  # rounding errors of an FFT are relative to the largest value
        product = self.degrees[:, None] * X
        product -= self._window_sums(X)
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        n, d = self.n_vertices, self.half_width
        total = np.zeros((X.n_features, X.n_features), dtype=np.float64)
        size = max(block_rows(X.n_features), 4 * d)  # so that few rows are read twice
        for start in range(0, n, size):
            stop = min(start + size, n)
            positions = np.arange(start - d, stop + d)
            if self.ends != "open":
                surrounding = X.take(self._reflected(positions))
            else:
                surrounding = np.zeros((len(positions), X.n_features), dtype=np.float64)
                inside = slice(max(0, d - start), len(positions) - max(0, stop + d - n))
                surrounding[inside] = X.take(slice(max(0, start - d), min(n, stop + d)))
            inner_rows = surrounding[d : d + stop - start]
            product = self.degrees[start:stop, None] * inner_rows
            product -= self._sums(surrounding)
            total += inner_rows.T @ product
        return total

    def _window_sums(self, X: FloatArray) -> FloatArray:
        """Return the weighted sum of rows n - d to n + d for every n."""
        n, d = len(X), self.half_width
        padded = np.zeros((n + 2 * d, X.shape[1]), dtype=np.float64)
        padded[d : d + n] = X
        if self.ends == "mirrored":
            padded[:d] = X[:d][::-1]
            padded[d + n :] = X[n - d :][::-1]
        elif self.ends == "ring":
            padded[:d] = X[n - d :]
            padded[d + n :] = X[:d]
        return self._sums(padded)

    def _reflected(self, positions: IntArray) -> IntArray:
        """Return the vertices 0 ... n - 1 that correspond to positions beyond the ends."""
        n = self.n_vertices
        if self.ends == "ring":
            return positions % n
        positions = positions % (2 * n)  # reflections at -1/2 and n - 1/2
        return np.minimum(positions, 2 * n - 1 - positions)

    def _sums(self, padded: FloatArray) -> FloatArray:
        """Return the weighted sum of 2 d + 1 consecutive rows around each row."""
        d, weights = self.half_width, self.weights
        if weights is None:
            return _moving_sums(padded, d)
        n = len(padded) - 2 * d
        if d > _MAX_DIRECT_HALF_WIDTH:
            from scipy.signal import oaconvolve  # slow import

            window = np.concatenate([weights[:0:-1], weights])[:, None]
            return oaconvolve(padded, window, mode="valid", axes=0)
        total = weights[0] * padded[d : d + n]
        for lag in np.flatnonzero(weights[1:]) + 1:
            total += weights[lag] * (padded[d - lag : d - lag + n] + padded[d + lag : d + lag + n])
        return total


def _moving_sums(padded: FloatArray, d: int) -> FloatArray:
    """Return the sum of 2 d + 1 consecutive rows around each row.

    The rows are divided into blocks of the length of the window. A window covers the end of one block and the
    beginning of the next block, so that its sum is the sum of two cumulative sums. There is no difference of
    large sums, and rounding errors do not accumulate beyond a window.
    """
    n, width = len(padded) - 2 * d, 2 * d + 1
    n_blocks = -(-len(padded) // width)
    full = np.zeros((n_blocks * width, padded.shape[1]), dtype=np.float64)
    full[: len(padded)] = padded
    blocks = full.reshape(n_blocks, width, -1)
    from_begin = np.cumsum(blocks, axis=1).reshape(full.shape)
    to_end = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].reshape(full.shape)
    from_begin[width - 1 :: width] = 0.0  # to_end includes all rows of a window that is a block
    return to_end[:n] + from_begin[width - 1 : width - 1 + n]


# ---- windows over samples with ties: the mean over all orders of tied samples


class TiedWindowGraph(TrainingGraph):
    """Mean of a window graph over all permutations of samples within each block of equal labels.

    Let M average over the samples of each block, and L be the Laplacian of the window. Outside the diagonal
    blocks, the mean of ``P L P'`` over all such permutations P is ``M L M``. The mean of a diagonal block of
    m samples has one value on the diagonal and another value elsewhere. Both follow from the trace and the
    sum of the block, which permutations preserve. The result is

        M L M + diag(c) (1 - M),      c = (trace - sum / m) / (m - 1) of the block of L,

    so that a product requires one product with L and sums over blocks.

    Parameters
    ----------
    window : WindowGraph
        Window over the samples in the order of their labels.
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
        self._within_weights = window.weights_within(self._starts, self.blocks)
        trace, total = degrees - self._loops, degrees - self._within_weights
        self._deviation_weights = np.where(sizes > 1, (trace - total / sizes) / np.maximum(sizes - 1, 1), 0.0)
        super().__init__(np.ones(window.n_vertices, dtype=np.float64), (degrees / sizes)[self.blocks])

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        n, sizes = self.n_vertices, self.sizes
        check_number_of_edges(float(np.sum(sizes.astype(float) ** 2)), "window and sizes define the graph")
        inverse_sizes = scipy.sparse.diags_array(1.0 / sizes)
        within_weights = (self._within_weights - self._loops) / np.maximum(sizes * (sizes - 1), 1)
        pair_weights = inverse_sizes @ self._between_blocks @ inverse_sizes + scipy.sparse.diags_array(
            within_weights
        )
        ones = np.ones(n, dtype=np.float64)
        members = scipy.sparse.csr_array((ones, self.blocks, np.arange(n + 1)), shape=(n, len(sizes)))
        pairs = scipy.sparse.csr_array(members @ pair_weights @ members.T)
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
        product += self._deviation_weights[self.blocks, None] * (X - means)
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        means = np.zeros((len(self.sizes), X.n_features), dtype=np.float64)
        for block in X.blocks():
            present, block_starts = np.unique(self.blocks[block], return_index=True)
            means[present] += np.add.reduceat(X.take(block), block_starts)
        means /= self.sizes[:, None]
        zeros = np.zeros(X.n_features, dtype=np.float64)
        total = self.window._energy(CentredRows(means, zeros, zeros, self.blocks))
        for block in X.blocks():
            blocks = self.blocks[block]
            centred = X.take(block)
            centred -= means[blocks]
            total += centred.T @ (self._deviation_weights[blocks, None] * centred)
        return total

    def _block_means(self, X: FloatArray) -> FloatArray:
        means: FloatArray = np.add.reduceat(X, self._starts) / self.sizes[:, None]
        return means

    @cached_property
    def _between_blocks(self) -> scipy.sparse.csr_array:
        """Return the sum of the edge weights between each pair of blocks, (S, S)."""
        edges = self.window.to_sparse().tocoo()
        blocks = tuple(self.blocks[ends] for ends in edges.coords)
        n_blocks = len(self.sizes)
        sums = scipy.sparse.csr_array((edges.data, blocks), shape=(n_blocks, n_blocks))
        sums.setdiag(0.0)
        sums.eliminate_zeros()
        return sums
