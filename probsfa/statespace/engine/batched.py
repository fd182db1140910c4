"""Linear algebra of many small matrices at once, written out entry by entry.

A *lane* is one of ``S`` independent problems of the same small size; the last axis of every array runs over
them. Each scalar operation of the textbook algorithm then becomes a vector instruction, or several. For the
sizes that this is meant for (about five) it runs several times faster than batched calls of a library made
for large matrices.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.xla_metadata import set_xla_metadata
from jax.lax.linalg import triangular_solve

#: Most rows of a matrix whose operations are written out on accelerators.
MOST_UNROLLED = 8

_hints: ContextVar[bool] = ContextVar("kernel_hints", default=True)
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def on_cpu() -> bool:
    """Whether programs traced now are meant for the CPU."""
    device = jax.config.jax_default_device  # type: ignore[attr-defined]
    if device is None:
        return jax.default_backend() == "cpu"
    return str(getattr(device, "platform", device)) == "cpu"


def _for_library(n_rows: int) -> bool:
    """Whether matrices of so many rows go to a library.

    Not on CPUs, where a program with such calls on batches of 2,048 matrices did not end (JAX 0.10).
    """
    return n_rows > MOST_UNROLLED and not on_cpu()


def _single_kernels() -> bool:
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

    # What is written differently for a single kernel (`_single_kernels`) must not be found in one's cache.
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


def settle(values: _T) -> _T:
    """Have values computed once and kept, where the compiler would compute them again at each use.

    Chains of scalar operations on lanes look cheap to it, and it repeats them, growing like the fourth power
    of the size. A call that must not be inlined is a border it does not cross. Compilers for accelerators
    weigh repeating against another kernel themselves, and need not know what to do with such a call.
    """
    if not on_cpu():
        return values
    with set_xla_metadata(inlineable="false"):
        return cast(_T, _copy(values))


def dot(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """Sum of products, entry by entry."""
    total = left[0] * right[0]
    for x, y in zip(left[1:], right[1:], strict=True):
        total = total + x * y
    return total


def times(left: Array, right: Array) -> Array:
    """Product ``left right`` of matrices (I, K, S) and (K, J, S)."""
    n = right.shape[0]
    if _for_library(n):
        return jnp.einsum("iks,kjs->ijs", left, right)
    return dot([left[:, k, None] for k in range(n)], [right[None, k] for k in range(n)])


def times_transpose(left: Array, right: Array) -> Array:
    """Product ``left right'`` of matrices (I, K, S) and (J, K, S)."""
    n = right.shape[1]
    if _for_library(n):
        return jnp.einsum("iks,jks->ijs", left, right)
    return dot([left[:, k, None] for k in range(n)], [right[None, :, k] for k in range(n)])


def transpose_times(left: Array, right: Array) -> Array:
    """Product ``left' right`` of matrices (K, I, S) and (K, J, S)."""
    n = right.shape[0]
    if _for_library(n):
        return jnp.einsum("kis,kjs->ijs", left, right)
    return dot([left[k, :, None] for k in range(n)], [right[k, None] for k in range(n)])


def identity_like(matrix: Array) -> Array:
    """Identity matrix in every lane."""
    return jnp.broadcast_to(jnp.eye(matrix.shape[0], dtype=matrix.dtype)[:, :, None], matrix.shape)


def cholesky(matrix: Array) -> tuple[Array, Array]:
    """Upper factor ``U`` (K, K, S) with ``U' U = matrix``, and the reciprocals (K, S) of its diagonal."""
    n = matrix.shape[0]
    if _for_library(n):
        upper = jnp.linalg.cholesky(matrix.T, symmetrize_input=False).T
        return upper, 1.0 / jnp.einsum("iis->is", upper)
    rows: list[Array] = []
    reciprocals: list[Array] = []
    for j in range(n):
        rest = matrix[j]
        for row in rows:
            rest = rest - row[j, None] * row
        if _single_kernels():
            rest = settle(rest)  # otherwise made twice, for the root and for the row
        reciprocals.append(jax.lax.rsqrt(rest[j]))
        keep = (jnp.arange(n) >= j).astype(matrix.dtype)[:, None]
        rows.append(rest * (reciprocals[j][None] * keep))
    return settle((jnp.stack(rows), jnp.stack(reciprocals)))


def solve_lower(upper: Array, reciprocals: Array, right: Array) -> Array:
    """Solution ``x`` (K, J, S) of ``U' x = right``."""
    if _for_library(right.shape[0]):
        return _solve_batch(upper, right, transposed=False)
    solution: list[Array] = []
    for i in range(right.shape[0]):
        entry = right[i]
        for k in range(i):
            entry = entry - upper[k, i, None] * solution[k]
        solution.append(entry * reciprocals[i, None])
    return settle(jnp.stack(solution))


def solve_upper(upper: Array, reciprocals: Array, right: Array) -> Array:
    """Solution ``x`` (K, J, S) of ``U x = right``."""
    n = right.shape[0]
    if _for_library(n):
        return _solve_batch(upper, right, transposed=True)
    solution = [right[i] for i in range(n)]
    for i in reversed(range(n)):
        entry = right[i]
        for k in range(i + 1, n):
            entry = entry - upper[i, k, None] * solution[k]
        solution[i] = entry * reciprocals[i, None]
    return settle(jnp.stack(solution))


def whiten(matrix: Array, right: Array) -> Array:
    """Solution ``x`` (K, J, S) of ``U' x = right`` with ``U' U = matrix`` (K, K, S).

    For what is done once and not in every row, inside :func:`one_kernel`: there a loop, quick to compile.
    """
    if not _single_kernels():
        return solve_lower(*cholesky(matrix), right)
    n = matrix.shape[0]
    index = jnp.arange(n)[:, None]

    def eliminate(j: Array, rest: Array) -> Array:
        row = rest[j]
        row = row * jax.lax.rsqrt(row[j])
        rest = rest - jnp.where(index > j, row[:n], 0.0)[:, None] * row
        return rest.at[j].set(row)

    both = jnp.concatenate([matrix, right], axis=1)
    return jax.lax.fori_loop(0, n, eliminate, both)[:, n:]


def _solve_batch(upper: Array, right: Array, *, transposed: bool) -> Array:
    """Solve with ``L = U'``, or with its transpose ``U``, in one call of a library."""
    columns = jnp.moveaxis(right, -1, 0)
    solution = triangular_solve(upper.T, columns, left_side=True, lower=True, transpose_a=transposed)
    return jnp.moveaxis(solution, 0, -1)


def products(values: Array) -> Array:
    """Products (N, S) of numbers (K, S), up to eight each, so that logarithms can be taken later and at once.

    The product of more might leave the range of floating point.
    """
    found = []
    for start in range(0, values.shape[0], MOST_UNROLLED):
        product = values[start]
        for value in values[start + 1 : start + MOST_UNROLLED]:
            product = product * value
        found.append(product)
    return jnp.stack(found)
