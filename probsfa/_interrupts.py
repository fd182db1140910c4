"""Keyboard interrupts that are lost in callbacks are raised again.

Python runs the handler of Ctrl-C at any point of the main thread. In a callback of the garbage collector, of
which JAX has one, or of a weak reference, exceptions are printed and ignored: the fit would continue.
"""

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["interrupts_kept"]

# Seconds after which a lost interrupt is raised again; the callback has ended by then.
_AGAIN_AFTER = 0.05

_lock = threading.Lock()
_users = 0
_previous: Any = None


def _hook(unraisable: Any) -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        (_previous or sys.__unraisablehook__)(unraisable)
        return
    # Not immediately: it would be lost in this hook, too.
    again = threading.Timer(_AGAIN_AFTER, _interrupt)
    again.daemon = True
    again.start()


def _interrupt() -> None:
    """Interrupt the main thread, also if it is waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise again, a moment later, an interrupt that is lost in this block; also a decorator.

    Examples
    --------
    >>> with interrupts_kept():
    ...     total = sum(range(3))
    """
    global _users, _previous
    with _lock:
        if _users == 0:
            _previous, sys.unraisablehook = sys.unraisablehook, _hook
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0 and sys.unraisablehook is _hook:
                sys.unraisablehook = _previous
