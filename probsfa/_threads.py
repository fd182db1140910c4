"""How many threads the linear algebra libraries use."""

import functools
from contextlib import AbstractContextManager

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

__all__ = ["one_blas_thread"]


@functools.cache
def _libraries() -> ThreadpoolController:
    """Return the control of the linear algebra libraries, which takes milliseconds to find them."""
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[None]:
    """Hold BLAS to one thread while many small matrices are factorised.

    Threads that share a small matrix mostly wait for each other: with two of them a triangular solve of size
    90 took ten times as long as with one.
    """
    limit: AbstractContextManager[None] = _libraries().limit(limits=1, user_api="blas")
    return limit
