"""Time series: every sample is joined to the one `lag` later in its sequence."""

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_lengths
from probsfa.graphs._centred_rows import CentredRows
from probsfa.graphs._walk import SparseWalk
from probsfa.graphs.training_graph import IntArray, TrainingGraph

__all__ = ["TemporalGraph", "temporal"]


def temporal(n: int, lag: int = 1, lengths: Any = None) -> "TemporalGraph":
    """Return the graph of one or several time series, which makes GSFA plain SFA.

    All node weights are 1, and so are the weights of the edges (t, t + lag) inside each sequence (figure 4b
    of the paper); A and B are then the moments of :class:`probsfa.SFA`, divisors included.

    Parameters
    ----------
    n : int
        Number of samples of all sequences together.
    lag : int, default=1
        Time steps from one end of an edge to the other.
    lengths : array-like of int, optional
        Samples of every sequence, summing to `n`. No edge crosses from one sequence to the next. Sequences
        of `lag` samples or fewer count in B only.

    Raises
    ------
    ValueError
        If every sequence is too short to hold an edge.

    See Also
    --------
    temporal_moments : The moments of this graph without making it.
    reordering : In the order of labels.

    Examples
    --------
    >>> graph = temporal(5, lengths=[3, 2])
    >>> graph.laplacian_matmul([0.0, 1.0, 4.0, 9.0, 7.0])
    array([-1., -2.,  3.,  2., -2.])
    """
    n, lag = check_count("n", n), check_count("lag", lag)
    sizes = check_lengths(lengths, n)
    if max(sizes) <= lag:
        raise ValueError(
            f"No sequence has two samples {lag} apart (lag={lag}); the longest has {max(sizes)}. Give longer "
            "sequences or a smaller lag."
        )
    sequence = np.repeat(np.arange(len(sizes)), sizes)
    return TemporalGraph(sequence[lag:] == sequence[:-lag], lag)


class TemporalGraph(TrainingGraph):
    """Edges of weight 1 from sample t to sample t + lag.

    Parameters
    ----------
    joined : ndarray (N - lag,), bool
        Whether samples t and t + lag belong to one sequence.
    lag : int
        Distance of the ends of an edge.
    """

    def __init__(self, joined: NDArray[np.bool_], lag: int) -> None:
        n = len(joined) + lag
        degrees = np.zeros(n, dtype=np.float64)
        degrees[:-lag] += joined
        degrees[lag:] += joined
        super().__init__(np.ones(n, dtype=np.float64), degrees)
        self.joined = joined
        self.lag = lag

    def to_sparse(self) -> scipy.sparse.csr_array:
        """Return the edge weights as a sparse matrix (N, N)."""
        later = scipy.sparse.diags_array(
            self.joined.astype(np.float64), offsets=self.lag, shape=(self.n_vertices, self.n_vertices)
        ).tocsr()
        later.eliminate_zeros()
        return later + later.T

    def component_labels(self) -> IntArray:
        """Return the connected component of every vertex, shape (N,)."""
        return connected_components(self.to_sparse(), directed=False)[1].astype(np.intp)

    def _laplacian_matmul(self, X: FloatArray) -> FloatArray:
        # By differences, not as degree times x minus neighbours: slow signals keep all their digits.
        change = X[self.lag :] - X[: -self.lag]
        change[~self.joined] = 0.0
        product = np.zeros_like(X)
        product[self.lag :] += change
        product[: -self.lag] -= change
        return product

    def _energy(self, X: CentredRows) -> FloatArray:
        total = np.zeros((X.n_features, X.n_features), dtype=np.float64)
        for block in X.blocks(len(self.joined)):
            change = X.take(slice(block.start + self.lag, block.stop + self.lag)) - X.take(block)
            change[~self.joined[block]] = 0.0
            total += change.T @ change
        return total

    @cached_property
    def _walk(self) -> SparseWalk:
        return SparseWalk(self.to_sparse())

    def _random_walk(self, start: int, n_steps: int, rng: np.random.RandomState) -> IntArray:
        return self._walk(start, n_steps, rng)
