"""Processor cores, threads of the linear algebra libraries, and interrupts of long computations.

The number of threads of a BLAS library is a setting of the process (OpenBLAS with POSIX threads, as in the
wheels of NumPy and SciPy) or of the calling thread (libraries with OpenMP, and MKL). A thread can save, set
and restore a setting of the thread. If two threads did the same for a setting of the process, the second
thread would save the value set by the first thread. If the second thread finished last, it would restore this
value. A setting of the process is therefore changed when the first thread enters the context, and restored
when the last thread leaves it.
"""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["lost_interrupts_raised", "n_cores", "on_two_threads", "one_blas_thread", "one_core"]

_uses_one_core: ContextVar[bool] = ContextVar("uses_one_core", default=False)


@contextmanager
def one_core() -> Iterator[None]:
    """Use only one core in this thread, for example in parallel tasks of a cluster."""
    token = _uses_one_core.set(True)
    try:
        yield
    finally:
        _uses_one_core.reset(token)


def n_cores() -> int:
    """Return the number of processor cores for this process; 1 in a thread within :func:`one_core`."""
    if _uses_one_core.get():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _set(libraries: Sequence[Any], numbers: Sequence[int]) -> None:
    for library, number in zip(libraries, numbers, strict=True):
        library.set_num_threads(number)
        # After a thread has set the number of OpenBLAS threads, threadpoolctl allows only this thread to
        # change it. Another thread may however leave the context last.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


@cache
def _blas_libraries() -> tuple[list[Any], list[Any]]:
    """Return the BLAS libraries whose number of threads is a setting of the thread, and of the process."""
    import scipy.linalg  # noqa: F401  (brings a BLAS library of its own, found once it is loaded)

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    by_thread: list[Any] = []
    by_process: list[Any] = []
    for library in libraries:
        if library.num_threads is not None:
            (by_thread if _is_set_by_thread(library) else by_process).append(library)
    return by_thread, by_process


def _is_set_by_thread(library: Any) -> bool:
    """Return whether the number of threads is a setting of the calling thread, not of the process."""
    if library.internal_api == "mkl":
        # Older versions of threadpoolctl change the setting of the process.
        return "MKL_Set_Num_Threads_Local" in library.check_symbols
    return getattr(library, "threading_layer", None) == "openmp"


_limit_lock = threading.Lock()
_n_limits = 0  # contexts of `one_blas_thread` in all threads of the process
_numbers_before: list[int] = []  # settings of the process before the first of these contexts


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while many small matrices are factorized.

    Threads mostly wait for each other in products of small matrices. The context can be nested, and several
    threads can enter it; settings of the process are restored when the last context ends.
    """
    global _n_limits, _numbers_before
    by_thread, by_process = _blas_libraries()
    numbers = [library.num_threads for library in by_thread]
    with _limit_lock:
        is_first = _n_limits == 0
        if is_first:
            _numbers_before = [library.num_threads for library in by_process]
        _n_limits += 1
    try:
        _set(by_thread, [1] * len(by_thread))
        if is_first:
            _set(by_process, [1] * len(by_process))
        yield
    finally:
        _set(by_thread, numbers)
        with _limit_lock:
            _n_limits -= 1
            if _n_limits == 0:
                _set(by_process, _numbers_before)


class SecondThread:
    """A second thread that is reused, because starting a thread is slow."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._lock = threading.Lock()

    def _submit(self, task: Callable[[], None]) -> "Future[None] | None":
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="probsfa")
            return self._pool.submit(task)
        except RuntimeError:  # no thread can be started, or the interpreter is shutting down
            return None

    def run_both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Run ``first`` in the calling thread and ``second`` in parallel.

        If the second thread is busy or cannot be started, ``second`` runs after ``first``.
        """
        future = None
        acquired = self._lock.acquire(blocking=False)
        try:
            if acquired:
                future = self._submit(second)
            try:
                first()
            finally:
                if future is not None:
                    _wait_for(future)
            if future is None:
                second()
            else:
                future.result()
        finally:
            if acquired:
                self._lock.release()

    def forget_other_threads(self) -> None:
        """Reset in a forked process, which does not have the thread."""
        self._pool, self._lock = None, threading.Lock()


def _wait_for(future: "Future[None]") -> None:
    """Wait for the end of a task, also after an interrupt, which is then raised."""
    interrupt = None
    while not future.done():
        try:
            wait([future])
        except KeyboardInterrupt as error:
            interrupt = error
    if interrupt is not None:
        raise interrupt


_second_thread = SecondThread()


def on_two_threads(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Run two functions that release the GIL in parallel, on two cores if available.

    Parameters
    ----------
    first : callable
        Function for the calling thread.
    second : callable
        Function for a second thread; it runs after ``first`` if this thread is busy.
    """
    _second_thread.run_both(first, second)


def _forget_other_threads() -> None:
    """Replace locks and the second thread in a forked process, which has only the thread that forked it."""
    global _limit_lock
    _limit_lock = threading.Lock()  # another thread may have held it
    _second_thread.forget_other_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


# ----------------------------------------------------------------------------------------------- interrupts

# Keyboard interrupts that are lost in callbacks are raised again.
#
# Python runs the handler of Ctrl-C at any point of the main thread. Python prints and ignores exceptions in
# callbacks of the garbage collector (JAX has one) and of weak references, so that a fit would continue.

# Delay in seconds before a lost interrupt is raised again, after the callback has ended.
_REPEAT_INTERVAL = 0.05

_hook_lock = threading.Lock()
_n_hook_contexts = 0  # contexts of `lost_interrupts_raised` in all threads
_previous_hook: Any = None


def _hook(unraisable: Any) -> None:
    """Replace ``sys.unraisablehook``, which receives exceptions that Python ignores."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        (_previous_hook or sys.__unraisablehook__)(unraisable)
        return
    # An immediate interrupt would also be lost, in this hook.
    timer = threading.Timer(_REPEAT_INTERVAL, _interrupt)
    timer.daemon = True
    timer.start()


def _interrupt() -> None:
    """Interrupt the main thread, also if it is waiting."""
    if hasattr(signal, "pthread_kill"):
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
    else:
        _thread.interrupt_main()


@contextmanager
def lost_interrupts_raised() -> Iterator[None]:
    """Raise interrupts that are lost in this block again; also a decorator.

    Examples
    --------
    >>> with lost_interrupts_raised():
    ...     total = sum(range(3))
    """
    global _n_hook_contexts, _previous_hook
    with _hook_lock:
        if _n_hook_contexts == 0:
            _previous_hook, sys.unraisablehook = sys.unraisablehook, _hook
        _n_hook_contexts += 1
    try:
        yield
    finally:
        with _hook_lock:
            _n_hook_contexts -= 1
            if _n_hook_contexts == 0 and sys.unraisablehook is _hook:
                sys.unraisablehook = _previous_hook
