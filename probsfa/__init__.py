"""Slow feature analysis, classic and probabilistic.

Slowly varying signals behind a multivariate time series: by one eigenproblem if the series is complete and
has little noise (:class:`SFA`), and by a dynamic factor model with missing data and prediction intervals
(:class:`ProbabilisticSFA`; :class:`BayesianSFA` includes the uncertainty of the parameters).

Importing this package loads no numerical library: names are imported when they are first used. Public names
and their modules are listed in ``__init__.pyi`` alone.
"""

import os

from probsfa._lazy import homes_in_stub, looked_up

__version__ = "1.0.0rc1"

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = ["__version__"] + list(_HOMES)
__getattr__, __dir__ = looked_up(globals(), _HOMES)
