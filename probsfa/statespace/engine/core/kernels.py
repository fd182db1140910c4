"""Import of the compiled kernels' Python module, if it was built and is not switched off."""

import importlib
import os
import warnings
from functools import cache
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.panel import Units, aligned_like, pack_rows

__all__ = ["MOST_STATES", "SWITCH", "available", "kernels", "pack", "warn_if_missing"]

#: Environment variable that switches the compiled engine off if it is "0".
SWITCH = "PROBSFA_CORE"
#: Maximum dimension of the state that kernels are compiled for.
MOST_STATES = 160
# Version of the module's functions that this file requires.
_INTERFACE = 2


@cache
def _module() -> Any:
    """Return the module; None if the package was installed without a compiler, or versions differ."""
    try:
        module = importlib.import_module("_probsfa_core")
    except ImportError:
        return None
    return module if module.INTERFACE == _INTERFACE else None


def available() -> bool:
    """Return whether the compiled engine is installed, and not switched off by the environment variable."""
    return os.environ.get(SWITCH) != "0" and _module() is not None


def warn_if_missing() -> None:
    """Warn, once in a process, if the compiled engine is neither installed nor switched off.

    Installers show build errors only on request, so a failed build would go unnoticed.
    """
    if os.environ.get(SWITCH) != "0" and _module() is None:
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "The compiled engine of probsfa is not installed: JAX computes the results, which takes seconds more "
        "for each process and shape of data. Install a wheel of probsfa for this system; or install GCC or "
        "Clang and repeat the installation with `pip install -v --no-cache-dir --force-reinstall --no-deps`, "
        f"where -v shows the errors of the build. Set {SWITCH}=0 to use JAX without this warning.",
        stacklevel=4,
    )


def kernels() -> Any:
    """Return the module ``_probsfa_core``.

    Raises
    ------
    RuntimeError
        If it is not installed.
    """
    module = _module()
    if module is None:
        raise RuntimeError(
            "the compiled engine is not installed. Install probsfa with a C and a C++ compiler."
        )
    return module


def pack(block: FloatArray, units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Return values, zero where missing, and mask of rows: :func:`.pack_rows`, compiled if possible."""
    plain = type(block) in (np.ndarray, np.memmap) and block.dtype == np.float64  # no masked array
    in_place = block.flags.c_contiguous and block.flags.aligned
    if units is None or not (plain and in_place and block.shape[1:] == units.shift.shape and available()):
        return pack_rows(block, units)
    values, mask = aligned_like(block), aligned_like(block)
    shift, scale = (np.ascontiguousarray(x, np.float64) for x in units)
    kernels().pack(np.asarray(block), shift, scale, values, mask)
    return values, mask
