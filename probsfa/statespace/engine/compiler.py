"""What the compiler is asked for, and on which platform: apart from all mathematics."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

import jax
from jax.experimental.xla_metadata import set_xla_metadata

_hints: ContextVar[bool] = ContextVar("kernel_hints", default=True)
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def on_cpu() -> bool:
    """Whether programs traced now are meant for the CPU."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return str(getattr(device, "platform", device)) == "cpu"


def single_kernels() -> bool:
    """Whether functions of :func:`one_kernel` become single ones, in which calls and loops cost nothing."""
    return on_cpu() and _hints.get()


def one_kernel(function: _F) -> _F:
    """Ask the compiler for a single kernel in place of one for each operation.

    On CPUs a loop over time is otherwise run operation by operation, at a cost for each that exceeds the work
    in it (about three times at K = 5). The request is a hint in the program's metadata, which a compiler that
    does not know it ignores; results are the same up to rounding. See :func:`without_kernel_hints`. Elsewhere
    than on CPUs nothing is asked for.
    """

    @wraps(function)
    def plain(*args: Any) -> Any:
        with set_xla_metadata(inlineable=None, xla_cpu_small_call=None):
            return function(*args)

    @wraps(function)
    def in_parts(*args: Any) -> Any:
        return plain(*args)

    # What is written differently for a single kernel (`single_kernels`) must not be found in one's cache.
    compiled = {True: jax.jit(plain), False: jax.jit(in_parts)}

    @wraps(function)
    def hinted(*args: Any) -> Any:
        if not on_cpu():
            return function(*args)
        single = _hints.get()
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true" if single else None):
            return compiled[single](*args)

    return cast(_F, hinted)


@contextmanager
def without_kernel_hints() -> Iterator[None]:
    """Trace without asking for single kernels, where the compiler cannot take it.

    Inside ``lax.while_loop``, of which samplers are made, XLA as of JAX 0.10 ends the process on a call with
    that request ("All or none of the slices should have an explicit index"). Results are the same up to
    rounding: a few steps are written differently.
    """
    token = _hints.set(False)
    try:
        yield
    finally:
        _hints.reset(token)


@jax.jit
def _copy(values: Any) -> Any:
    with set_xla_metadata(inlineable=None):
        return jax.tree.map(lambda value: value * 1.0, values)


def materialize(values: _T) -> _T:
    """Have values computed once and stored, where the compiler would compute them again at each use.

    Chains of scalar operations on a batch look cheap to it, and it repeats them, growing like the fourth
    power of the size. A call that must not be inlined is a border it does not cross. Compilers for
    accelerators weigh repeating against another kernel themselves, and need not know what to do with such a
    call.
    """
    if not on_cpu():
        return values
    with set_xla_metadata(inlineable="false"):
        return cast(_T, _copy(values))
