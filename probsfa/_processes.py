"""What JAX cannot do: go on in a forked process."""

import os

__all__ = ["check_not_forked"]


class _History:
    """What has happened to JAX in this process and in those it was forked from."""

    used = False  # by probsfa, here or in a parent before the fork
    forked_since = False

    @classmethod
    def after_fork(cls) -> None:
        cls.forked_since = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_History.after_fork)


def check_not_forked() -> None:
    """Raise where JAX would wait for ever: in a forked child of a process that has used it.

    JAX computes on threads of its own. ``os.fork`` copies the memory of a process and only the thread that
    calls it, so in the child the first computation waits for threads that are not there. ``multiprocessing``
    and ``concurrent.futures.ProcessPoolExecutor`` fork by default on Linux up to Python 3.13; the start
    methods "spawn" and "forkserver" begin with a process that has not used JAX. joblib's default back end
    does so, too.

    Call this before each use of JAX: the first call in a process notes that it is used from then on. A child
    that was forked before that may use JAX.

    Raises
    ------
    RuntimeError
        If this process was forked from one that had called this function.

    Examples
    --------
    >>> check_not_forked()  # once more in a forked child, it raises
    """
    if _History.forked_since:
        raise RuntimeError(
            "JAX cannot be used in a forked child of a process that has used it already: start processes "
            'with the "spawn" or "forkserver" method, such as multiprocessing.get_context("spawn").'
        )
    _History.used = True
