"""Memory that is free again goes back to the machine."""

import ctypes
import gc
import sys

__all__ = ["give_back"]


def give_back() -> None:
    """Hand back the memory of what is no longer used.

    The allocator of GNU systems keeps what was freed below what is still in use: 150 MB after a fit of five
    million values, beside which the next step takes as much again. Elsewhere nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # other C libraries have none
        trim(0)
