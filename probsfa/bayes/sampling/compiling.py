"""A way around a fault of XLA's compiler for CPUs that comes with JAX 0.10, the last for Python 3.11."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import jax

from probsfa.statespace.engine import compiler

_FAULTY = jax.__version_info__ < (0, 11)

_no_loop: ContextVar[bool] = ContextVar("no_loop", default=False)


@contextmanager
def no_loop_around() -> Iterator[None]:
    """Trace a program of our own that no loop will contain: single kernels can be asked for."""
    token = _no_loop.set(True)
    try:
        yield
    finally:
        _no_loop.reset(token)


def without_kernel_hints() -> AbstractContextManager[None]:
    """Trace the likelihood without asking for single kernels where, inside a loop, that would fail."""
    return compiler.without_kernel_hints() if _FAULTY and not _no_loop.get() else nullcontext()
