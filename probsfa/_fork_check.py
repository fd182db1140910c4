"""Check that JAX is not used in a forked process."""

import os

__all__ = ["check_not_forked"]


class _JaxUse:
    """Record of the use of JAX by this package."""

    used = False  # in this process, or in a parent before the fork
    used_before_fork = False

    @classmethod
    def after_fork(cls) -> None:
        cls.used_before_fork = cls.used


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_JaxUse.after_fork)


def check_not_forked() -> None:
    """Raise an error in a forked child of a process that has used JAX, because JAX would never return.

    JAX computes in its own threads. ``os.fork`` copies only the thread that calls it, so that the first
    computation in the child would wait for threads that do not exist. ``multiprocessing`` and
    ``concurrent.futures.ProcessPoolExecutor`` fork by default on Linux up to Python 3.13; the start methods
    "spawn" and "forkserver", and the default backend of joblib, start processes that have not used JAX.

    Call this function before each use of JAX; the first call in a process records the use. JAX may be used in
    children that were forked before the first call.

    Raises
    ------
    RuntimeError
        If this process was forked from a process that had called this function.

    Examples
    --------
    >>> check_not_forked()  # would raise an error in a child that is forked after this call
    """
    if _JaxUse.used_before_fork:
        raise RuntimeError(
            "JAX cannot be used in a forked child of a process that has used it. Start processes "
            'with the "spawn" or "forkserver" method, such as multiprocessing.get_context("spawn").'
        )
    _JaxUse.used = True
