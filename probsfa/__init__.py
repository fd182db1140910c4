"""Slow feature analysis, classic and probabilistic.

The few slow things behind a multivariate time series: in one eigenproblem where the series is clean and
complete (:class:`SFA`), and with honest error bars where it is noisy and has holes
(:class:`ProbabilisticSFA`, and :class:`BayesianSFA` where its parameters are uncertain too).

Importing this package loads none of the numerical libraries it stands on: a name is looked up when it is
first used. The public names, and the modules they come from, are listed in ``__init__.pyi`` alone.
"""

import importlib
import os

from probsfa._lazy import homes_in_stub

__version__ = "0.1.0"


_HOMES = homes_in_stub(os.path.splitext(__file__)[0] + ".pyi")
__all__ = ["__version__"] + list(_HOMES)


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'probsfa' has no attribute {name!r}")
    if _HOMES[name] == "probsfa":  # a module of this package
        return importlib.import_module(f"probsfa.{name}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value  # looked up once, then as cheap as any other name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
