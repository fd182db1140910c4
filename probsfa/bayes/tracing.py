"""What has to be seen to while NumPyro's programs are traced: a lock, and a fault of a compiler.

Tracing is the one run of a model's Python code from which JAX makes a compiled program.
"""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

import jax

from probsfa.statespace.engine import compiler

#: Held while NumPyro's handlers are at work. NumPyro has one list of them for the whole process, so that a
#: second thread would run its model under the handlers of the first. Compiled programs run without the lock.
#: Those that take it while they are traced must not be called by whoever holds it: another thread may be
#: tracing one of them, waiting for the lock, and JAX lets only one thread trace a program.
handlers_lock = threading.RLock()

# The compiler of JAX 0.10, the last for Python 3.11, ends the process on single kernels inside loops on CPUs.
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


def kernel_hints_outside_loops() -> AbstractContextManager[None]:
    """Trace the likelihood without asking for single kernels where, inside a loop, that would fail."""
    return compiler.without_kernel_hints() if _FAULTY and not _no_loop.get() else nullcontext()
