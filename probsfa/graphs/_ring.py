"""Ring: a window over samples in the order of an angle, without ends."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from probsfa._typing import FloatArray
from probsfa._validation import check_count
from probsfa.graphs._labels import check_labels, from_labels
from probsfa.graphs._permuted import PermutedGraph
from probsfa.graphs._sliding_window import _sums_in_blocks
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["RingGraph", "ring"]


@from_labels
def ring(y: Any, period: float = 2 * np.pi, half_width: int | None = None) -> PermutedGraph:
    """Return the window graph of samples around a circle.

    The samples are sorted by their position on the circle, and each is joined to the `half_width` next on
    either side, with the weight 1, across the point where the circle closes too. All samples weigh 1 and
    have the degree ``2 half_width + 1``, so that the graph is consistent. Slow features of it come in pairs:
    sine and cosine of the angle, of twice the angle, and so on.

    Parameters
    ----------
    y : array-like (N,)
        Angles, or other positions that are the same after a period.
    period : float, default=2 * pi
        The period: 360 for degrees, 24 for hours of the day.
    half_width : int, optional
        From 1 to (N - 1) // 2. Default N // 10, at most 32.

    Raises
    ------
    ValueError
        If y are no finite numbers or all the same, the period is not positive, or the window does not fit.

    See Also
    --------
    sliding_window : The same on a line.
    probsfa.sfa.GraphSFARegressor : Estimates angles, with ``period=``.

    Notes
    -----
    The periodic form of the window of Escalante-B. & Wiskott (2013, section 5.2); a circle has no ends to be
    mirrored. Equal positions have no order: they get the mean of the weights of all of them, so that the
    graph does not depend on the order of the rows. In linear time.

    Examples
    --------
    >>> ring([0.0, 1.0, 2.0, 3.0, 4.0], period=5.0, half_width=1).to_sparse().toarray().astype(int)
    array([[1, 1, 0, 0, 1],
           [1, 1, 1, 0, 0],
           [0, 1, 1, 1, 0],
           [0, 0, 1, 1, 1],
           [1, 0, 0, 1, 1]])
    """
    labels = check_labels(y)
    if isinstance(period, bool) or not np.isfinite(period) or period <= 0:
        raise ValueError(f"period must be a positive number; got {period!r}.")
    n = len(labels)
    if n < 3:
        raise ValueError(f"y has {n} positions; a ring needs at least three samples.")
    most = (n - 1) // 2
    d = min(32, max(1, n // 10)) if half_width is None else check_count("half_width", half_width)
    if d > most:
        raise ValueError(f"half_width must be at most {most} for {n} samples; got {d}.")
    positions = np.mod(labels, period)
    positions[positions >= period] = 0.0  # rounding of small negative ones
    order = np.argsort(positions, kind="stable")
    distinct, ties = np.unique(positions[order], return_inverse=True)
    if len(distinct) < 2:
        raise ValueError(f"y has only one position, {distinct[0]}, on the circle; a ring needs at least two.")
    return PermutedGraph(RingGraph(ties.astype(np.intp), d), order)


class RingGraph(TrainingGraph):
    """Periodic window over samples that stand in order already.

    Parameters
    ----------
    ties : ndarray (N,), int
        From 0, ascending: samples with the same number have the same position.
    half_width : int
        d, from 1 to (N - 1) // 2.
    """

    def __init__(self, ties: IntArray, half_width: int) -> None:
        n = len(ties)
        self.half_width = half_width
        self.ties = ties
        self._sizes = np.bincount(ties).astype(np.float64)
        self._first = np.flatnonzero(np.diff(ties, prepend=-1))
        super().__init__(np.ones(n), np.full(n, 2.0 * half_width + 1))

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        n, d = self.n_vertices, self.half_width
        rows = np.repeat(np.arange(n), 2 * d + 1)
        columns = (rows + np.tile(np.arange(-d, d + 1), n)) % n
        window = scipy.sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n))
        if len(self._sizes) == n:
            return window
        member = scipy.sparse.csr_array((np.ones(n), (np.arange(n), self.ties)), shape=(n, len(self._sizes)))
        mean = member @ scipy.sparse.diags_array(1 / self._sizes)
        return (mean @ (member.T @ window @ member) @ mean.T).tocsr()

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,): there is only one."""
        return np.zeros(self.n_vertices, dtype=np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        d = self.half_width
        means = self._means_of_ties(X)
        padded = np.concatenate([means[-d:], means, means[:d]])
        product: FloatArray = self.degrees[:, None] * X
        product -= self._means_of_ties(_sums_in_blocks(padded, d))
        return product

    def _means_of_ties(self, X: FloatArray) -> FloatArray:
        if len(self._sizes) == len(X):
            return X
        means: FloatArray = (np.add.reduceat(X, self._first, axis=0) / self._sizes[:, None])[self.ties]
        return means

    @cached_property
    def _walk(self) -> SparseWalk:
        return SparseWalk(self.to_sparse())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self._walk(start, n_steps, rng)
