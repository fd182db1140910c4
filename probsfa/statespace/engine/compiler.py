"""What the compiler is asked for, and on which platform: apart from all mathematics."""

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
    """Whether programs traced now are meant for the CPU."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return str(getattr(device, "platform", device)) == "cpu"


def single_kernels() -> bool:
    """Whether functions of :func:`one_kernel` become single ones, in which calls and loops cost nothing."""
    return on_cpu() and _hints.get()


# Fusions by the emitters that XLA had before those written in MLIR, which take two to four times as long to
# compile and give programs that are no quicker.
_SIMPLE_FUSIONS = MappingProxyType({"xla_cpu_use_fusion_emitters": False})
# Fewer passes over the code, for programs whose loops are vectorised as they are written.
_FEW_PASSES = MappingProxyType({"xla_backend_optimization_level": 1})


@cache
def _known(options: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Those of some options that the compiler knows: their names are those of a version of XLA."""
    known = {}
    for name, value in options:
        try:
            jax.jit(lambda: np.float32(0.0), compiler_options={name: value}).lower().compile()
        except jax.errors.JaxRuntimeError:
            continue
        known[name] = value
    return known


def compiler_options(*, few_passes: bool) -> dict[str, Any]:
    """Options with which a program of the engine is soon compiled and as quick as without; none but on CPUs.

    Parameters
    ----------
    few_passes : bool
        Whether the compiler is to go over the code less often, which serves where loops are written as vector
        instructions or call a library, but makes those of :mod:`.segmented` half as quick at eight states.
    """
    if not on_cpu():
        return {}
    wanted: Mapping[str, Any] = {**_SIMPLE_FUSIONS, **(_FEW_PASSES if few_passes else {})}
    return dict(_known(tuple(wanted.items())))


class Program:
    """A function that is compiled as by ``jax.jit``, with :func:`compiler_options`.

    Parameters
    ----------
    function : callable
        What to compile. Where it has a strategy, that comes first, and its ``few_passes`` says with
        which options.
    static_argnames : tuple of str, default=()
        Arguments that a program is compiled for, as those of ``jax.jit``.
    """

    def __init__(self, function: Callable[..., Any], static_argnames: tuple[str, ...] = ()) -> None:
        self._function = function
        self._static = static_argnames
        self._variants: dict[tuple[tuple[str, Any], ...], Any] = {}
        wraps(function)(self)

    def _variant(self, few_passes: bool) -> Any:
        options = compiler_options(few_passes=few_passes)
        key = tuple(options.items())
        if key not in self._variants:
            compiled = jax.jit(self._function, static_argnames=self._static, compiler_options=options or None)
            # Another thread may have been first.
            self._variants.setdefault(key, compiled)
        return self._variants[key]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, compiled for arguments of such shapes."""
        return self._variant(bool(args) and getattr(args[0], "few_passes", False))(*args, **kwargs)

    def _cache_size(self) -> int:
        """Number of programs that have been compiled."""
        return sum(variant._cache_size() for variant in self._variants.values())


def program(*static_argnames: str) -> Callable[[Callable[..., Any]], Program]:
    """Decorate a function to be compiled by :class:`Program`; the names are those of static arguments."""
    return lambda function: Program(function, static_argnames)


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
