"""Heat kernel: samples are similar as a Gaussian function of their distance."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import check_array

from probsfa.graphs._rows import check_rows, exact_shift
from probsfa.graphs._sparse import SparseGraph, from_sparse

__all__ = ["heat_kernel"]


def heat_kernel(X: Any, bandwidth: float, *, node_weights: Any = "degree") -> SparseGraph:
    """Return the graph with edge weights ``exp(-|x - x'|^2 / (2 bandwidth^2))``.

    Edges below the rounding error of the heaviest, further than about 8.5 bandwidths, are left out: the
    graph is sparse where the bandwidth is small against the extent of the data. There are no self-loops.

    Parameters
    ----------
    X : array-like (N, D)
        Samples.
    bandwidth : float
        Standard deviation of the Gaussian, in the units of `X`.
    node_weights : array-like (N,), "degree" or None, default="degree"
        As in :func:`from_sparse`; "degree" by default.

    See Also
    --------
    nearest_neighbors : Sparse at any scale.
    from_sparse : Any other weights.

    Notes
    -----
    The isotropic Gaussian neighbourhood of Sprekeler (2011), Neural Computation 23:3287, figure 1.

    Examples
    --------
    >>> heat_kernel([[0.0], [1.0], [100.0]], bandwidth=1.0).to_sparse().toarray().round(3)
    array([[0.   , 0.607, 0.   ],
           [0.607, 0.   , 0.   ],
           [0.   , 0.   , 0.   ]])
    """
    values = check_array(check_rows(X, "X"), ensure_min_samples=2)
    if isinstance(bandwidth, bool) or not isinstance(bandwidth, Real) or not 0 < bandwidth < np.inf:
        raise ValueError(f"bandwidth must be a positive number; got {bandwidth!r}.")
    width = float(bandwidth)
    from sklearn.neighbors import radius_neighbors_graph  # takes long to load

    reach = width * (-2.0 * np.log(np.finfo(np.float64).eps)) ** 0.5
    # Distances of many columns are differences of products, which a large offset would leave no digits.
    edges = radius_neighbors_graph(values - exact_shift(values), reach, mode="distance")
    if edges.nnz == 0:
        raise ValueError(
            f"bandwidth={bandwidth!r} joins no sample to another: all edge weights are below the rounding "
            f"error of the heaviest; no two samples are closer than {reach:.3g}. Give a larger one."
        )
    edges.data = np.exp(-0.5 * (edges.data / width) ** 2)
    return from_sparse(edges, node_weights)
