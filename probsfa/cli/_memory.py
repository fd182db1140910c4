"""Return freed memory to the operating system."""

import ctypes
import gc
import sys

__all__ = ["release_memory"]


def release_memory() -> None:
    """Return freed memory to the operating system.

    The allocator of glibc keeps freed memory at addresses below memory in use. After a fit of five million
    values this is 150 MB, in addition to the memory of the next step. On other systems nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # not available in other C libraries
        trim(0)
