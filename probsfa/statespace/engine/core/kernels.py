"""The Python module of the compiled kernels, where it was built and may be used."""

import importlib
import os
import warnings
from functools import cache
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.panel import Units, aligned_like, pack_rows

__all__ = ["MOST_STATES", "SWITCH", "available", "kernels", "pack", "warn_if_missing"]

#: Environment variable that switches the compiled engine off when it is "0".
SWITCH = "PROBSFA_CORE"
#: Largest dimension of the state that kernels are compiled for.
MOST_STATES = 160
# The version of the module's functions that this file calls.
_INTERFACE = 2


@cache
def _module() -> Any:
    """The module; None where the package was installed without a compiler, or it is of another version."""
    try:
        module = importlib.import_module("_probsfa_core")
    except ImportError:
        return None
    return module if module.INTERFACE == _INTERFACE else None


def available() -> bool:
    """Return whether the compiled engine is installed, and not switched off in the environment."""
    return os.environ.get(SWITCH) != "0" and _module() is not None


def warn_if_missing() -> None:
    """Warn, once in a process, where the compiled engine is not installed and not switched off.

    Installers show the errors of a build only on request, so that otherwise a failed build is not noticed.
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
            "the compiled engine is not installed: install probsfa where there is a C and a C++ compiler."
        )
    return module


def pack(block: FloatArray, units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Return values, zero where missing, and mask of rows: :func:`.pack_rows`, compiled where possible."""
    plain = type(block) in (np.ndarray, np.memmap) and block.dtype == np.float64  # no masked array
    in_place = block.flags.c_contiguous and block.flags.aligned
    if units is None or not (plain and in_place and block.shape[1:] == units.shift.shape and available()):
        return pack_rows(block, units)
    values, mask = aligned_like(block), aligned_like(block)
    shift, scale = (np.ascontiguousarray(x, np.float64) for x in units)
    kernels().pack(np.asarray(block), shift, scale, values, mask)
    return values, mask
