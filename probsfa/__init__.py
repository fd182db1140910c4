"""Slow feature analysis, classic and probabilistic.

The few slow things behind a multivariate time series: in one eigenproblem where the series is clean and
complete (:class:`SFA`), and with honest error bars where it is noisy and has holes
(:class:`ProbabilisticSFA`, and :class:`BayesianSFA` where its parameters are uncertain too).

Importing this package loads none of the numerical libraries it stands on: a name is looked up when it is
first used. The public names, and the modules they come from, are listed in ``__init__.pyi`` alone.
"""

import os

from probsfa._lazy import homes_in_stub, looked_up

__version__ = "1.0.0rc1"

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = ["__version__"] + list(_HOMES)
__getattr__, __dir__ = looked_up(globals(), _HOMES)
