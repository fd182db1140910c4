"""Deterministic slow feature analysis.

Names are imported at their first use, from the modules that ``__init__.pyi`` lists. The probabilistic models,
which use only :class:`SFA`, therefore do not import the dependencies of the other estimators.
"""

import os

from probsfa._lazy import import_name, modules_in_stub

_MODULES = modules_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_MODULES)
__getattr__, __dir__ = import_name(globals(), _MODULES)
