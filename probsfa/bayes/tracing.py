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
#: a second thread would run with the handlers of the first. Compiled programs run without the lock. Programs
#: that acquire it while they are traced must not be called with the lock held: another thread may be tracing
#: one of them and waiting for the lock, and JAX lets only one thread trace a program.
handlers_lock = threading.RLock()

# The compiler of JAX 0.10, the last for Python 3.11, aborts the process for single kernels inside loops on
# CPUs.
_FAULTY = jax.__version_info__ < (0, 11)

_no_loop: ContextVar[bool] = ContextVar("no_loop", default=False)


@contextmanager
def no_loop_around() -> Iterator[None]:
    """Trace a program that is not called in a loop, where single kernels are safe."""
    token = _no_loop.set(True)
    try:
        yield
    finally:
        _no_loop.reset(token)


def kernel_hints_outside_loops() -> AbstractContextManager[None]:
    """Trace the likelihood without single kernels if it may be inside a loop."""
    return compiler.without_kernel_hints() if _FAULTY and not _no_loop.get() else nullcontext()
