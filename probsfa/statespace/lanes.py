"""Linear algebra of many small matrices at once, written out entry by entry.

A *lane* is one of ``S`` independent problems of the same small size. Every entry of a vector or matrix is an
array over the lanes, so each scalar operation of the textbook algorithm becomes one vector instruction:
``vector[i]`` and ``lower[i][j]`` (``j <= i``) are arrays of shape (S,). For the sizes that this is meant for
(about five) it runs several times faster than batched calls of a library made for large matrices.
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar, cast

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental.xla_metadata import set_xla_metadata

Vector = list[Array]
Lower = list[list[Array]]
Matrix = list[list[Array]]
_F = TypeVar("_F", bound=Callable[..., Any])
_T = TypeVar("_T")


def one_kernel(function: _F) -> _F:
    """Ask the compiler for a single kernel in place of one for each operation.

    On CPUs a loop over time is otherwise run operation by operation, at a cost for each that exceeds the work
    in it (about three times at K = 5). The request is a hint in the program's metadata: a compiler that does
    not know it ignores it, and results are the same.
    """

    @wraps(function)
    def plain(*args: Any) -> Any:
        with set_xla_metadata(inlineable=None, xla_cpu_small_call=None):
            return function(*args)

    compiled = jax.jit(plain)

    @wraps(function)
    def hinted(*args: Any) -> Any:
        with set_xla_metadata(inlineable="false", xla_cpu_small_call="true"):
            return compiled(*args)

    return cast(_F, hinted)


@jax.jit
def _copy(values: Any) -> Any:
    with set_xla_metadata(inlineable=None):
        return jax.tree.map(lambda value: value * 1.0, values)


def settle(values: _T) -> _T:
    """Have values computed once and kept, where the compiler would compute them again at each use.

    Chains of scalar operations on lanes look cheap to it, and it repeats them, growing like the fourth power
    of the size. A call that must not be inlined is a border it does not cross.
    """
    with set_xla_metadata(inlineable="false"):
        return cast(_T, _copy(values))


def dot(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """Sum of products."""
    total = left[0] * right[0]
    for x, y in zip(left[1:], right[1:], strict=True):
        total = total + x * y
    return total


def unpack_lower(packed: Array, size: int) -> Lower:
    """Rows of the lower triangle from their concatenation: (K (K + 1) / 2, S)."""
    return [[packed[i * (i + 1) // 2 + j] for j in range(i + 1)] for i in range(size)]


def pack_lower(lower: Lower) -> Array:
    """Concatenate the rows of the lower triangle."""
    return jnp.stack([entry for row in lower for entry in row])


def symmetric_times(lower: Lower, vector: Vector) -> Vector:
    """Product of a symmetric matrix, given by its lower triangle, and a vector."""
    n = len(vector)
    return [dot([lower[max(i, k)][min(i, k)] for k in range(n)], vector) for i in range(n)]


def cholesky(lower: Lower) -> tuple[Lower, Vector]:
    """Cholesky factor of a positive definite matrix, and the reciprocals of its diagonal."""
    n = len(lower)
    factor: Lower = [[] for _ in range(n)]
    reciprocals: Vector = []
    for j in range(n):
        pivot = lower[j][j]
        for k in range(j):
            pivot = pivot - factor[j][k] * factor[j][k]
        factor[j].append(jnp.sqrt(pivot))
        reciprocals.append(1.0 / factor[j][j])
        for i in range(j + 1, n):
            entry = lower[i][j]
            for k in range(j):
                entry = entry - factor[i][k] * factor[j][k]
            factor[i].append(entry * reciprocals[j])
    return factor, reciprocals


def solve_lower(factor: Lower, reciprocals: Vector, right: Vector) -> Vector:
    """Solution ``x`` of ``L x = right``."""
    solution: Vector = []
    for i, entry in enumerate(right):
        for k in range(i):
            entry = entry - factor[i][k] * solution[k]
        solution.append(entry * reciprocals[i])
    return solution


def solve_upper(factor: Lower, reciprocals: Vector, right: Vector) -> Vector:
    """Solution ``x`` of ``L' x = right``."""
    n = len(right)
    solution: Vector = [right[0]] * n
    for i in reversed(range(n)):
        entry = right[i]
        for k in range(i + 1, n):
            entry = entry - factor[k][i] * solution[k]
        solution[i] = entry * reciprocals[i]
    return solution


def lower_times(factor: Lower, vector: Vector) -> Vector:
    """Product ``L vector``."""
    return [dot(row, vector[: i + 1]) for i, row in enumerate(factor)]


def upper_times(factor: Lower, vector: Vector) -> Vector:
    """Product ``L' vector``."""
    n = len(vector)
    return [dot([factor[k][i] for k in range(i, n)], vector[i:]) for i in range(n)]


def solve_for_transpose(factor: Lower, reciprocals: Vector, left: Lower) -> Matrix:
    """Rows of ``left F^-T`` for a lower triangular ``left``: row ``i`` solves ``F row = left[i]``."""
    n = len(left)
    zero = jnp.zeros_like(left[0][0])
    return [solve_lower(factor, reciprocals, [*left[i], *([zero] * (n - 1 - i))]) for i in range(n)]


def outer_gram(rows: Matrix) -> Lower:
    """Lower triangle of ``M M'`` from the rows of ``M``."""
    return [[dot(rows[i], rows[j]) for j in range(i + 1)] for i in range(len(rows))]
