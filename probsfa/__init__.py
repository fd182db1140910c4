"""Slow feature analysis, classic and probabilistic.

The package estimates slowly varying signals behind a multivariate time series. :class:`SFA` solves one
eigenproblem, for complete series with little noise. :class:`ProbabilisticSFA` is a dynamic factor model with
missing data and prediction intervals; :class:`BayesianSFA` also includes the uncertainty of the parameters.

Importing this package does not import numerical libraries: names are imported at their first use. Public
names and their modules are listed in ``__init__.pyi``.
"""

import os

from probsfa._lazy import import_name, modules_in_stub

__version__ = "1.0.0rc1"

_MODULES = modules_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = ["__version__"] + list(_MODULES)
__getattr__, __dir__ = import_name(globals(), _MODULES)
