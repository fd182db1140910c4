"""Deterministic slow feature analysis.

Names are imported at their first use, from the modules that ``__init__.pyi`` lists. The probabilistic models,
which use only :class:`SFA`, therefore do not import the dependencies of the other estimators.
"""

import os

from probsfa._lazy import homes_in_stub, looked_up

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_HOMES)
__getattr__, __dir__ = looked_up(globals(), _HOMES)
