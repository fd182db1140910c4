"""The least a posterior can cost on this machine: its flops at the rate of a matrix product, or its traffic.

The method counted here is the exact one of ``probsfa``: observations are collapsed onto the latents, what is
left is a recursion over K-by-K blocks. Whoever changes the method changes the counts here, and nowhere else.
"""

from typing import NamedTuple

import numpy as np
from common.side_by_side import product_rate, timed


class Machine(NamedTuple):
    """What one run of this machine can do: flops and bytes per second, in double precision."""

    flops: float
    bytes: float

    @classmethod
    def measured(cls) -> "Machine":
        """Measure a matrix product and a copy out of cache, the best of some runs each."""
        source = np.zeros(2**25)
        target = np.ones_like(source)
        copies = min(timed(lambda: np.copyto(target, source))[0] for _ in range(5))
        return cls(product_rate(), 2 * source.nbytes / copies)


def posterior_flops(n_rows: int, n_features: int, n_components: int, *, gaps: bool) -> float:
    """Flops of one posterior with covariances and log-likelihood.

    The collapse of the observations is ``2 D K`` a row, that of a mask ``D K (K + 1)`` (a symmetric block);
    without gaps all rows share one block. The recursion, forward and back, is about ``12 K^3`` a row.
    """
    collapse = 2.0 * n_features * n_components
    if gaps:
        collapse += n_features * n_components * (n_components + 1.0)
    return n_rows * (collapse + 12.0 * n_components**3)


def posterior_bytes(n_rows: int, n_features: int, n_components: int) -> float:
    """Bytes that must cross the memory bus: the rows in; means, covariances, lag-one covariances out."""
    return 8.0 * n_rows * (n_features + n_components + 2.0 * n_components**2)


def posterior_floor(
    machine: Machine, n_rows: int, n_features: int, n_components: int, *, gaps: bool
) -> float:
    """Seconds below which no posterior of this size can come."""
    work = posterior_flops(n_rows, n_features, n_components, gaps=gaps) / machine.flops
    return max(work, posterior_bytes(n_rows, n_features, n_components) / machine.bytes)
