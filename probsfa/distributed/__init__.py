"""Large data: fits on a Dask cluster (``pip install 'probsfa[dask]'``).

Second moments of parts and expected statistics of independent sequences are additive, so that workers return
sums instead of rows. :func:`fit` accepts an estimator and a ``dask.array`` chunked by rows, or a list of
sequences. The result equals the result of ``fit`` in memory up to rounding. The current Dask scheduler is
used: a ``distributed.Client`` if there is one, otherwise threads.
"""

from probsfa._lazy import deprecated as _deprecated
from probsfa.distributed._fit import fit as fit

__all__ = ["fit"]

_FIT = "Use probsfa.distributed.fit and the attribute moments_."
__getattr__ = _deprecated(
    __name__,
    {
        "graph_moments": ("probsfa.distributed._graph_moments:graph_moments", _FIT),
        "temporal_moments": ("probsfa.distributed._moments:temporal_moments", _FIT),
    },
)
