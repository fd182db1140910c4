"""Processor cores, threads of the linear algebra libraries, and interrupts of long computations.

The number of threads of a BLAS library is a setting of the process (OpenBLAS with POSIX threads, as in the
wheels of NumPy and SciPy) or of the calling thread (libraries with OpenMP, and MKL). A thread can save, set
and restore a setting of the thread. If two threads did the same for a setting of the process, the second
thread would save the value set by the first, and could restore it permanently. A setting of the process is
therefore changed when the first thread enters the context, and restored when the last thread leaves it.
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
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["lost_interrupts_raised", "n_cores", "on_two_threads", "one_blas_thread", "one_core"]

_uses_one_core: ContextVar[bool] = ContextVar("of_one_core", default=False)


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


class ThreadLimit:
    """Limit libraries to one thread while any thread of this process requires it.

    Parameters
    ----------
    libraries : sequence of threadpoolctl.LibController
        The libraries to limit.
    """

    def __init__(self, libraries: Sequence[Any]) -> None:
        libraries_with_threads = [library for library in libraries if library.num_threads is not None]
        self._thread_libraries = [library for library in libraries_with_threads if _is_set_by_thread(library)]
        self._process_libraries = [
            library for library in libraries_with_threads if not _is_set_by_thread(library)
        ]
        self._lock = threading.Lock()
        self._holders: set[int] = set()  # identifiers of the threads within the context
        self._previous_settings: list[int] = []  # settings before the first thread entered
        self._entries_of_thread = (
            threading.local()
        )  # of the calling thread: the depth of nested calls of `enter`, and its earlier numbers

    def enter(self) -> None:
        """Set the limit, unless this thread has set it."""
        depth = getattr(self._entries_of_thread, "depth", 0)
        if depth == 0:
            self._entries_of_thread.numbers = [library.num_threads for library in self._thread_libraries]
            try:
                self._limit_process()
            except BaseException:
                self._release()
                raise
        self._entries_of_thread.depth = depth + 1

    def leave(self) -> None:
        """Undo one :meth:`enter` of this thread; the last thread to leave removes the limit."""
        self._entries_of_thread.depth -= 1
        if self._entries_of_thread.depth == 0:
            self._release()

    def forget_other_threads(self) -> None:
        """Remove the limits of other threads: a forked process has only the thread that forked it."""
        self._lock = threading.Lock()
        current_thread = self._holders & {threading.get_ident()}
        if self._holders and not current_thread:
            _set(self._process_libraries, self._previous_settings)
        self._holders = current_thread

    def _limit_process(self) -> None:
        with self._lock:
            if not self._holders:
                self._previous_settings = [library.num_threads for library in self._process_libraries]
            self._holders.add(threading.get_ident())
            if len(self._holders) == 1:
                _set(self._process_libraries, [1] * len(self._process_libraries))
        _set(self._thread_libraries, [1] * len(self._thread_libraries))

    def _release(self) -> None:
        with self._lock:
            # This thread is removed after the reset, so that the next release repeats the reset after an
            # interrupt.
            if self._holders == {threading.get_ident()}:
                _set(self._process_libraries, self._previous_settings)
            self._holders.discard(threading.get_ident())
        _set(self._thread_libraries, self._entries_of_thread.numbers)


def _is_set_by_thread(library: Any) -> bool:
    """Return whether the number of threads is a setting of the calling thread, not of the process."""
    if library.internal_api == "mkl":
        # Older versions of threadpoolctl change the setting of the process.
        return "MKL_Set_Num_Threads_Local" in library.check_symbols
    return getattr(library, "threading_layer", None) == "openmp"


def _set(libraries: Sequence[Any], numbers: Sequence[int]) -> None:
    for library, number in zip(libraries, numbers, strict=True):
        library.set_num_threads(number)
        # threadpoolctl allows only the first thread that set the number of OpenBLAS threads to change it, but
        # another thread may leave last.
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread()


_LIMITS: dict[str, ThreadLimit] = {}  # shared by all threads; filled at first use


def _blas_limit() -> ThreadLimit:
    """Return the limit of all BLAS libraries, which are searched once, because this takes milliseconds."""
    if "blas" not in _LIMITS:
        import scipy.linalg  # noqa: F401  (brings a BLAS library of its own, found once it is loaded)

        libraries = ThreadpoolController().select(user_api="blas").lib_controllers
        _LIMITS.setdefault("blas", ThreadLimit(libraries))  # atomic: all threads share one object
    return _LIMITS["blas"]


def _forget_other_threads() -> None:
    for limit in _LIMITS.values():
        limit.forget_other_threads()
    _helper.forget_other_threads()


class Helper:
    """A second thread, which is reused, because starting a thread is slow."""

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

    def both(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Run ``first`` in the calling thread and ``second`` in parallel, or one after the other."""
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


_helper = Helper()


def on_two_threads(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Run two functions that release the GIL in parallel, on two cores if available.

    Parameters
    ----------
    first : callable
        Function for the calling thread.
    second : callable
        Function for a helper thread; it runs after ``first`` if the helper is busy.
    """
    _helper.both(first, second)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while many small matrices are factorised.

    Threads mostly wait for each other in products of small matrices. The context can be nested, and several
    threads can enter it; settings are restored when the last thread leaves.
    """
    limit = _blas_limit()
    limit.enter()
    try:
        yield
    finally:
        limit.leave()


# ----------------------------------------------------------------------------------------------- interrupts

# Keyboard interrupts that are lost in callbacks are raised again.
#
# Python runs the handler of Ctrl-C at any point of the main thread. Python prints and ignores exceptions in
# callbacks of the garbage collector (JAX has one) and of weak references, so that a fit would continue.

# Delay in seconds before a lost interrupt is raised again, after the callback has ended.
_REPEAT_INTERVAL = 0.05

_lock = threading.Lock()
_users = 0
_previous: Any = None


def _hook(unraisable: Any) -> None:
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        (_previous or sys.__unraisablehook__)(unraisable)
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
