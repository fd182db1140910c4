"""Lower bound of the time of a posterior on this machine, from its operations and its memory traffic.

Operations are those of the exact algorithm of ``probsfa``: observations are collapsed to the dimension of
the factors, and the recursion works on K-by-K blocks. After a change of the algorithm, the counts in this
module must be changed, too.
"""

from typing import NamedTuple

import numpy as np
from common.side_by_side import product_rate, timed


class Machine(NamedTuple):
    """Rates of one core: floating-point operations and bytes per second, in double precision."""

    flops: float
    bytes: float

    @classmethod
    def measured(cls) -> "Machine":
        """Measure a matrix product and a copy of an array larger than the cache; the best of several runs."""
        source = np.zeros(2**25)
        target = np.ones_like(source)
        copies = min(timed(lambda: np.copyto(target, source))[0] for _ in range(5))
        return cls(product_rate(), 2 * source.nbytes / copies)


def posterior_flops(n_rows: int, n_features: int, n_components: int, *, gaps: bool) -> float:
    """Return the operations of one posterior with covariances and log-likelihood.

    The collapse of a row takes ``2 D K`` operations, and ``D K (K + 1)`` more for its mask (a symmetric
    block); without missing values all rows share one block. Forward and backward recursion take about
    ``12 K^3`` operations per row.
    """
    collapse = 2.0 * n_features * n_components
    if gaps:
        collapse += n_features * n_components * (n_components + 1.0)
    return n_rows * (collapse + 12.0 * n_components**3)


def posterior_bytes(n_rows: int, n_features: int, n_components: int) -> float:
    """Return the bytes that are read (rows) and written (means, covariances, lag-one covariances)."""
    return 8.0 * n_rows * (n_features + n_components + 2.0 * n_components**2)


def posterior_floor(
    machine: Machine, n_rows: int, n_features: int, n_components: int, *, gaps: bool
) -> float:
    """Return a lower bound, in seconds, of the time of a posterior of this size."""
    work = posterior_flops(n_rows, n_features, n_components, gaps=gaps) / machine.flops
    return max(work, posterior_bytes(n_rows, n_features, n_components) / machine.bytes)
