"""Compiler options and hints of JAX programs, and the platform they run on."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, wraps
from types import MappingProxyType
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata

_hints: ContextVar[bool] = ContextVar("kernel_hints", default=True)
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def on_cpu() -> bool:
    """Return whether programs traced now will run on the CPU."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return str(getattr(device, "platform", device)) == "cpu"


def single_kernels() -> bool:
    """Return whether :func:`one_kernel` makes single kernels, in which calls and loops have no overhead."""
    return on_cpu() and _hints.get()


# Fusion emitters of XLA without MLIR. Emitters with MLIR take two to four times as long to compile, and the
# programs are not faster.
_SIMPLE_FUSIONS = MappingProxyType({"xla_cpu_use_fusion_emitters": False})
# Lower optimization level, for programs whose loops already consist of vector operations.
_FAST_COMPILATION = MappingProxyType({"xla_backend_optimization_level": 1})


@cache
def _supported_options(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Return the options that this version of XLA supports."""
    supported = {}
    for name, value in options:
        try:
            jax.jit(lambda: np.float32(0.0), compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        supported[name] = value
    return supported


def compiler_options(*, low_optimization: bool) -> dict[str, Any]:
    """Return options that shorten compilation on CPUs; empty on other devices.

    Parameters
    ----------
    low_optimization : bool
        Whether to lower the optimization level. A lower level halves the speed of the loops of
        :mod:`.segmented` at eight states. It does not slow down library calls and loops of vector
        instructions.
    """
    if not on_cpu():
        return {}
    requested: Mapping[str, Any] = {**_SIMPLE_FUSIONS, **(_FAST_COMPILATION if low_optimization else {})}
    return dict(_supported_options(tuple(requested.items())))


class Program:
    """A function compiled by ``jax.jit`` with :func:`compiler_options`.

    Parameters
    ----------
    function : callable
        Function to compile. If its first argument is a strategy, its ``low_optimization`` selects the
        options.
    static_argnames : tuple of str, default=()
        Static arguments, as in ``jax.jit``.
    """

    def __init__(self, function: Callable[..., Any], static_argnames: tuple[str, ...] = ()) -> None:
        self._function = function
        self._static = static_argnames
        self._variants: dict[tuple[tuple[str, Any], ...], Any] = {}
        wraps(function)(self)

    def _variant(self, low_optimization: bool) -> Any:
        options = compiler_options(low_optimization=low_optimization)
        key = tuple(options.items())
        if key not in self._variants:
            executable = jax.jit(
                self._function, static_argnames=self._static, compiler_options=options or None
            )
            # Another thread may have compiled it in the meantime.
            self._variants.setdefault(key, executable)
        return self._variants[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, compiled for the shapes of the arguments."""
        return self._variant(bool(args) and getattr(args[0], "low_optimization", False))(*args, **kwargs)

    def _cache_size(self) -> int:
        """Return the number of compiled programs."""
        return sum(variant._cache_size() for variant in self._variants.values())


def compile_program(*static_argnames: str) -> Callable[[Callable[..., Any]], Program]:
    """Return a decorator that compiles a function as a :class:`Program`, with these static arguments."""
    return lambda function: Program(function, static_argnames)


def one_kernel(function: _F) -> _F:
    """Decorate a function so that the compiler makes one kernel instead of one for each operation.

    Without this decorator, a loop over time on a CPU calls a kernel for each operation, and the calls take
    longer than the operations (about three times as long at K = 5). The decorator adds a hint to the metadata
    of the program, on CPUs only; compilers may ignore it. Results are the same up to rounding. See
    :func:`without_kernel_hints`.
    """

    @wraps(function)
    def without_hint(*args: Any) -> Any:
        with set_xla_metadata(inlineable=None, xla_cpu_small_call=None):
            return function(*args)

    @wraps(function)
    def second_copy(*args: Any) -> Any:
        return without_hint(*args)

    # JAX caches the traced operations of each function. The operations depend on `single_kernels`; therefore
    # there is one function for each of its values.
    compiled = {True: jax.jit(without_hint), False: jax.jit(second_copy)}

    @wraps(function)
    def with_hint(*args: Any) -> Any:
        if not on_cpu():
            return function(*args)
        single_kernel = _hints.get()
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true" if single_kernel else None):
            return compiled[single_kernel](*args)

    return cast(_F, with_hint)


@contextmanager
def without_kernel_hints() -> Iterator[None]:
    """Trace without hints for single kernels, for contexts in which the compiler does not support them.

    Inside ``lax.while_loop``, which samplers use, XLA of JAX 0.10 aborts the process on a call with the hint
    ("All or none of the slices should have an explicit index"). Results are the same up to rounding.
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
    """Return values that the compiler computes once and stores, not again at each use.

    Without this function, the compiler repeats sequences of scalar operations on a batch at each use, so that
    the cost grows with the fourth power of the size of matrices. A call of a function that must not be
    inlined prevents this. On accelerators, values are returned as they are, because their compilers may not
    support such calls.
    """
    if not on_cpu():
        return values
    with set_xla_metadata(inlineable="false"):
        return cast(_T, _copy(values))
