"""Extensions of the linear Gaussian model, in the estimators' contract of this package.

========================  ==============================================================================
``emissions/``            ``EmissionSFA``: counts, zeros and ones, categories, and noise with heavy tails
========================  ==============================================================================

Names are looked up when they are first used: those that need no JAX do not load it.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probsfa.extensions.emissions import EmissionSFA as EmissionSFA

_HOMES = {
    "EmissionSFA": "emissions",
}

__all__ = ["EmissionSFA"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'probsfa.extensions' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"probsfa.extensions.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
