"""A random walk on an explicit graph."""

from bisect import bisect_right

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

__all__ = ["SparseWalk"]


class SparseWalk:
    """Walks on the edges of a sparse matrix; made once, walked often.

    Parameters
    ----------
    weights : sparse array (N, N)
        Non-negative; the walk moves from n to n' with probability ``weights[n, n'] / weights[n].sum()``.
    """

    def __init__(self, weights: scipy.sparse.csr_array) -> None:
        rows = weights.tocsr()
        # Python lists: bisection on them is an order of magnitude faster than on small array slices.
        self._borders = rows.indptr.tolist()
        self._targets = rows.indices.tolist()
        self._sums = np.concatenate([[0.0], np.cumsum(rows.data)]).tolist()

    def __call__(self, start: int, n_steps: int, rng: np.random.RandomState) -> NDArray[np.intp]:
        """Return `start` and the vertices that follow it, `n_steps` in all; stays where there is no edge."""
        borders, targets, sums = self._borders, self._targets, self._sums
        path, here = np.empty(n_steps, dtype=np.intp), start
        for step, u in enumerate(rng.random_sample(n_steps).tolist()):
            path[step] = here
            first, stop = borders[here], borders[here + 1]
            if first < stop:
                wanted = sums[first] + u * (sums[stop] - sums[first])
                edge = bisect_right(sums, wanted, first + 1, stop + 1) - 1
                here = targets[min(edge, stop - 1)]
        return path
