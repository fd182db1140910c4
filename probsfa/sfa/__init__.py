"""Deterministic slow feature analysis.

A name is looked up when it is first used, in the module that ``__init__.pyi`` gives: who needs :class:`SFA`
alone, as the probabilistic models do, loads none of the libraries behind the others.
"""

import os

from probsfa._lazy import homes_in_stub, looked_up

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_HOMES)
__getattr__, __dir__ = looked_up(globals(), _HOMES)
