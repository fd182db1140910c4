"""Large data: fits on a Dask cluster (``pip install 'probsfa[dask]'``).

Workers return sums, not rows, because second moments of parts and expected statistics of independent
sequences are additive. :func:`fit` accepts an estimator and data in parts, a ``dask.array`` chunked by rows
or a list of sequences. The result equals that of ``fit`` in memory up to rounding. The current Dask scheduler
is used: a ``distributed.Client`` if there is one, otherwise threads.
"""

from probsfa.distributed._fit import fit as fit
from probsfa.distributed._graph_moments import graph_moments as graph_moments
from probsfa.distributed._moments import temporal_moments as temporal_moments

__all__ = ["fit", "graph_moments", "temporal_moments"]
