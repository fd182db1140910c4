"""Sliding windows: every sample is joined to all that stand close to it in the order of the labels."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._labels import check_labels, from_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.moments import block_rows
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["WindowGraph", "sliding_window"]


@from_labels
def sliding_window(y: Any, half_width: int | None = None, mirrored: bool = True) -> PermutedGraph:
    """Return the sliding window graph of the samples sorted by label.

    All node weights are 1. With samples numbered from 1 to N in the order of the labels and half-width d,
    the edge weights of the square window are 1 where ``|n - n'| <= d``. Those of the mirrored window are
    besides 2 where ``n + n' <= d + 1`` or ``n + n' >= 2 N + 1 - d``: the window of a sample near an end is
    folded back onto the samples, so that all degrees are ``2 d + 1`` and the graph is consistent.

    Parameters
    ----------
    y : array-like (N,)
        Numeric labels; equal ones keep the order of the samples.
    half_width : int, optional
        d, from 1 to N - 1. Default N // 10, at most 32, the smaller of the two windows of section 6.2.
    mirrored : bool, default=True
        Whether the ends are mirrored.

    See Also
    --------
    reordering : Only the next sample in the order of the labels.
    serial, mixed : Groups of samples instead of a window.

    Notes
    -----
    Section 5.2 of the paper. Its condition for the upper end, ``n + n' >= 2 N - 1``, is the one above for
    d = 2, the case of its figure 7. As its formulas say, a window includes its own sample; these self-loops
    count in R alone.

    Examples
    --------
    >>> sliding_window([1, 2, 3, 4, 5], half_width=2).to_sparse().toarray().astype(int)
    array([[2, 2, 1, 0, 0],
           [2, 1, 1, 1, 0],
           [1, 1, 1, 1, 1],
           [0, 1, 1, 1, 2],
           [0, 0, 1, 2, 2]])
    """
    labels = check_labels(y)
    n = len(labels)
    d = min(32, max(1, n // 10)) if half_width is None else check_count("half_width", half_width)
    if d >= n:
        raise ValueError(f"half_width must be smaller than the number of samples, {n}; got {d}.")
    return PermutedGraph(WindowGraph(n, d, mirrored=mirrored), np.argsort(labels, kind="stable"))


class WindowGraph(TrainingGraph):
    """Sliding window over samples that stand in order already.

    Parameters
    ----------
    n : int
        Number of samples.
    half_width : int
        d, from 1 to n - 1.
    mirrored : bool
        Whether windows are folded back at the ends.
    """

    def __init__(self, n: int, half_width: int, *, mirrored: bool) -> None:
        self.half_width = half_width
        self.mirrored = mirrored
        ones = np.ones((n, 1), dtype=np.float64)
        super().__init__(ones[:, 0], _window_sums(ones, half_width, mirrored)[:, 0])

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        n, d = self.n_vertices, self.half_width
        rows = np.repeat(np.arange(n), 2 * d + 1)
        columns = rows + np.tile(np.arange(-d, d + 1), n)
        if self.mirrored:
            columns = _fold(columns, n)
        inside = (columns >= 0) & (columns < n)
        ones = np.ones(int(inside.sum()), dtype=np.float64)
        return scipy.sparse.csr_array((ones, (rows[inside], columns[inside])), shape=(n, n))

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,): there is only one."""
        return np.zeros(self.n_vertices, dtype=np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        product = self.degrees[:, None] * X
        product -= _window_sums(X, self.half_width, self.mirrored)
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        n, d = self.n_vertices, self.half_width
        total = np.zeros((X.n_features, X.n_features), dtype=np.float64)
        size = max(block_rows(X.n_features), 4 * d)  # what is read twice is a small part
        for start in range(0, n, size):
            stop = min(start + size, n)
            places = np.arange(start - d, stop + d)
            if self.mirrored:
                around = X.take(_fold(places, n))
            else:
                around = np.zeros((len(places), X.n_features), dtype=np.float64)
                inside = slice(max(0, d - start), len(places) - max(0, stop + d - n))
                around[inside] = X.take(slice(max(0, start - d), min(n, stop + d)))
            here = around[d : d + stop - start]
            product = self.degrees[start:stop, None] * here
            product -= _sums_in_blocks(around, d)
            total += here.T @ product
        return total

    @cached_property
    def _walk(self) -> SparseWalk:
        return SparseWalk(self.to_sparse())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        if not self.mirrored:
            return self._walk(start, n_steps, rng)
        # The steps of a mirrored window are those of an endless one, folded.
        steps = rng.randint(-self.half_width, self.half_width + 1, n_steps)
        steps[0] = start
        return _fold(np.cumsum(steps), self.n_vertices)


def _fold(places: IntArray, n: int) -> IntArray:
    """Fold the integers onto 0 ... n - 1 by mirrors at -1/2 and n - 1/2."""
    places = places % (2 * n)
    return np.minimum(places, 2 * n - 1 - places)


def _window_sums(X: FloatArray, d: int, mirrored: bool) -> FloatArray:
    """Return the sum of rows n - d to n + d for every n, in O(N D) whatever the width."""
    n = len(X)
    padded = np.zeros((n + 2 * d, X.shape[1]), dtype=np.float64)
    padded[d : d + n] = X
    if mirrored:
        padded[:d] = X[:d][::-1]
        padded[d + n :] = X[n - d :][::-1]
    return _sums_in_blocks(padded, d)


def _sums_in_blocks(padded: FloatArray, d: int) -> FloatArray:
    """Return the sum of every 2 d + 1 rows that stand together, for each of their middles.

    The rows are cut into blocks as long as the window. A window covers the end of one block and the beginning
    of the next, so its sum is a sum of two running sums: no two large sums are subtracted, and no rounding
    travels further than a window.
    """
    n, width = len(padded) - 2 * d, 2 * d + 1
    n_blocks = -(-len(padded) // width)
    whole = np.zeros((n_blocks * width, padded.shape[1]), dtype=np.float64)
    whole[: len(padded)] = padded
    blocks = whole.reshape(n_blocks, width, -1)
    from_begin = np.cumsum(blocks, axis=1).reshape(whole.shape)
    to_end = np.cumsum(blocks[:, ::-1], axis=1)[:, ::-1].reshape(whole.shape)
    from_begin[width - 1 :: width] = 0.0  # a window that is a block is complete in to_end
    return to_end[:n] + from_begin[width - 1 : width - 1 + n]
