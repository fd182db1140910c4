"""Settings of JAX for tracing and running the engine, and registration of types with JAX.

JAX applies settings of a ``with`` block to one thread only; functions that start threads set them again.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.processes import Process

__all__ = ["broadcasting", "engine_settings"]


def _flatten(params: StateSpace) -> tuple[list[Any], tuple[type[Process], ...]]:
    arrays = [getattr(params, name) for name in _ARRAYS]
    arrays += [array for process in params.processes for array in process.arrays().values()]
    return arrays, tuple(type(process) for process in params.processes)


def _unflatten(kinds: tuple[type[Process], ...], leaves: Iterable[Any]) -> StateSpace:
    remaining = iter(leaves)
    arrays = {name: next(remaining) for name in _ARRAYS}
    processes = tuple(kind(**{field: next(remaining) for field in kind.names}) for kind in kinds)
    params = object.__new__(StateSpace)  # leaves need not be arrays, so they are not validated
    params.__dict__.update(arrays, processes=processes)
    return params


_ARRAYS = ("decay", "loadings", "noise_variance", "offset", "noise_decay", "noise_scale")
# Registered in this module, because parameters.py must not import JAX. All arrays are leaves.
jax.tree_util.register_pytree_node(StateSpace, _flatten, _unflatten)


@contextmanager
def broadcasting() -> Iterator[None]:
    """Allow broadcasting of arrays of different ranks, even if the user has made it a warning or an error.

    ``@broadcasting()`` decorates functions that users call in their own programs. If a function has a custom
    derivative (``jax.custom_vjp``), each part must be decorated, because JAX traces the parts at different
    times.

    Examples
    --------
    >>> import jax, jax.numpy as jnp
    >>> with jax.numpy_rank_promotion("raise"), broadcasting():
    ...     print(jnp.ones((2, 3)) + jnp.ones(3))
    [[2. 2. 2.]
     [2. 2. 2.]]
    """
    with jax.numpy_rank_promotion("allow"):
        yield


@contextmanager
def engine_settings() -> Iterator[None]:
    """Enable 64-bit numbers and broadcasting of different ranks, which the engine requires.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> with engine_settings():
    ...     print(jnp.ones(3).dtype)
    float64
    """
    _check_platform()
    with jax.enable_x64(True), broadcasting():
        yield


@cache
def _check_platform() -> None:
    """Raise a RuntimeError if JAX cannot use the selected device; its own error may have no message."""
    try:
        jax.default_backend()
    except (AssertionError, RuntimeError) as error:
        requested = os.environ.get("JAX_PLATFORMS")
        raise RuntimeError(
            f"JAX cannot use the devices of "
            f"JAX_PLATFORMS={requested!r}{f' ({error})' if str(error) else ''}. "
            "Unset JAX_PLATFORMS, set it to 'cpu', or install the JAX of that device, such as jax[cuda12]."
        ) from error
