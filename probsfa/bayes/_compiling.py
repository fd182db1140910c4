"""A way around a fault of XLA's compiler for CPUs that comes with JAX 0.10, the last for Python 3.11."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax

from probsfa.statespace import lanes

_FAULTY = jax.__version_info__ < (0, 11)
_HINT = "xla_cpu_small_call"
_lock = threading.RLock()


@contextmanager
def without_kernel_hints() -> Iterator[None]:
    """Trace the likelihood without asking for single kernels.

    Inside ``lax.while_loop``, of which samplers are made, the compiler of JAX 0.10 ends the process on a call
    with that request ("All or none of the slices should have an explicit index"). Results are the same.
    """
    wanted = getattr(lanes, "set_xla_metadata", None)
    if not _FAULTY or wanted is None:
        yield
        return

    def without(**hints: Any) -> Any:
        return wanted(**{name: value for name, value in hints.items() if name != _HINT})

    with _lock:  # chains may be traced in threads
        lanes.set_xla_metadata = without  # type: ignore[assignment]
        try:
            yield
        finally:
            lanes.set_xla_metadata = wanted
