"""Fits of data that lie on a Dask cluster: sums travel, not rows (``pip install 'probsfa[dask]'``).

Second moments of parts add up, and so do the expected statistics of independent sequences. :func:`fit` takes
an estimator and data in parts, a ``dask.array`` chunked by rows or a list with one sequence to each member,
and leaves the estimator as ``fit`` on the same data in memory would, up to rounding. Work goes to whatever
scheduler Dask has at the time: a ``distributed.Client`` where there is one, threads on this machine
otherwise.
"""

from probsfa.distributed._fit import fit as fit
from probsfa.distributed._graph_moments import graph_moments as graph_moments
from probsfa.distributed._moments import temporal_moments as temporal_moments

__all__ = ["fit", "graph_moments", "temporal_moments"]
