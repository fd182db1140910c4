"""Deterministic slow feature analysis.

A name is looked up when it is first used, in the module that ``__init__.pyi`` gives: who needs :class:`SFA`
alone, as the probabilistic models do, loads none of the libraries behind the others.
"""

import importlib
import os

from probsfa._lazy import homes_in_stub

_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'probsfa.sfa' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
