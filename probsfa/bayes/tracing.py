"""Tracing of NumPyro's programs: a lock, and a workaround for a compiler error.

JAX traces a model's Python code once, and compiles the result.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import jax

from probsfa.statespace.engine import compiler

#: Acquired while NumPyro's handlers are active. NumPyro has one global list of handlers, so that the model of
#: a second thread would run with the handlers of the first. Compiled programs run without the lock. While a
#: thread holds the lock, it must not call a program whose tracing acquires the lock. Another thread may be
#: tracing this program and waiting for the lock. JAX traces a program in one thread only, so that both
#: threads would wait forever.
handlers_lock = threading.RLock()

# The likelihood can be compiled as one fused kernel. On CPUs the compiler of JAX 0.10, the last for Python
# 3.11, aborts the process if a loop contains such a kernel.
_HAS_COMPILER_FAULT = jax.__version_info__ < (0, 11)

_no_loop: ContextVar[bool] = ContextVar("no_loop", default=False)


@contextmanager
def no_loop_around() -> Iterator[None]:
    """Trace with fused kernels, which are safe in a program that is not called in a loop."""
    token = _no_loop.set(True)
    try:
        yield
    finally:
        _no_loop.reset(token)


def kernel_hints_outside_loops() -> AbstractContextManager[None]:
    """Trace the likelihood without fused kernels if it may be inside a loop."""
    return compiler.without_kernel_hints() if _HAS_COMPILER_FAULT and not _no_loop.get() else nullcontext()
