"""Settings of JAX under which everything here is traced and run, and what JAX must know of the package.

JAX keeps settings that are made in a ``with`` block for one thread: what starts a thread makes them anew
in it.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import jax

from probsfa.statespace.parameters import Parameters
from probsfa.statespace.processes import Process

__all__ = ["broadcasting", "engine_settings"]


def _flatten(params: Parameters) -> tuple[list[Any], tuple[type[Process], ...]]:
    arrays = [getattr(params, name) for name in _ARRAYS]
    arrays += [array for one in params.processes for array in one.arrays().values()]
    return arrays, tuple(type(one) for one in params.processes)


def _unflatten(kinds: tuple[type[Process], ...], leaves: Iterable[Any]) -> Parameters:
    left = iter(leaves)
    arrays = {name: next(left) for name in _ARRAYS}
    processes = tuple(kind(**{field: next(left) for field in kind.names}) for kind in kinds)
    made = object.__new__(Parameters)  # leaves need not be arrays, so that nothing is looked at
    made.__dict__.update(arrays, processes=processes)
    return made


_ARRAYS = ("decay", "loadings", "noise_variance", "offset", "memory_decay", "memory_scale")
# Registered here and not where it is defined: parameters.py must not import JAX. All arrays are leaves.
jax.tree_util.register_pytree_node(Parameters, _flatten, _unflatten)


@contextmanager
def broadcasting() -> Iterator[None]:
    """Let arrays of different ranks be combined, also where the user has made that a warning or an error.

    Functions that users call in programs of their own are decorated with ``@broadcasting()``. Those with a
    derivative of their own (``jax.custom_vjp``) need it on each part: JAX traces them at different times.

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
    """Numbers of 64 bits, and arrays of different ranks: what the engine is written for.

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
    """Raise a RuntimeError where JAX cannot use the device it is asked for; its own may have no message."""
    try:
        jax.default_backend()
    except (AssertionError, RuntimeError) as error:
        asked = os.environ.get("JAX_PLATFORMS")
        raise RuntimeError(
            f"JAX cannot use the devices of JAX_PLATFORMS={asked!r}{f' ({error})' if str(error) else ''}. "
            "Unset JAX_PLATFORMS, set it to 'cpu', or install the JAX of that device, such as jax[cuda12]."
        ) from error
