"""Linear algebra of batches of small matrices, entry by entry.

The last axis of all arrays has length ``S``, the number of matrices in a batch. Each scalar operation of the
textbook algorithm is an operation on vectors of length ``S``. For matrices with about five rows, this is
several times faster than batched calls of a library for large matrices.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.compiler import materialize, on_cpu, single_kernels

#: Maximum number of rows of matrices for which accelerators use this module instead of a library.
MAX_UNROLLED = 8


def _for_library(n_rows: int) -> bool:
    """Return whether matrices of this size are passed to a library.

    CPUs never use a library, because a program with library calls on batches of 2,048 matrices never
    finished (JAX 0.10).
    """
    return n_rows > MAX_UNROLLED and not on_cpu()


def dot(left: Sequence[Array], right: Sequence[Array]) -> Array:
    """Return the sum of products, entry by entry."""
    total = left[0] * right[0]
    for x, y in zip(left[1:], right[1:], strict=True):
        total = total + x * y
    return total


def times(left: Array, right: Array) -> Array:
    """Return the product ``left right`` of matrices (I, K, S) and (K, J, S)."""
    n = right.shape[0]
    if _for_library(n):
        return jnp.einsum("iks,kjs->ijs", left, right)
    return dot([left[:, k, None] for k in range(n)], [right[None, k] for k in range(n)])


def times_transpose(left: Array, right: Array) -> Array:
    """Return the product ``left right'`` of matrices (I, K, S) and (J, K, S)."""
    n = right.shape[1]
    if _for_library(n):
        return jnp.einsum("iks,jks->ijs", left, right)
    return dot([left[:, k, None] for k in range(n)], [right[None, :, k] for k in range(n)])


def transpose_times(left: Array, right: Array) -> Array:
    """Return the product ``left' right`` of matrices (K, I, S) and (K, J, S)."""
    n = right.shape[0]
    if _for_library(n):
        return jnp.einsum("kis,kjs->ijs", left, right)
    return dot([left[k, :, None] for k in range(n)], [right[k, None] for k in range(n)])


def identity_like(matrix: Array) -> Array:
    """Return a batch of identity matrices."""
    return jnp.broadcast_to(jnp.eye(matrix.shape[0], dtype=matrix.dtype)[:, :, None], matrix.shape)


def cholesky(matrix: Array) -> tuple[Array, Array]:
    """Return upper triangles ``U`` (K, K, S) with ``U' U = matrix``, and reciprocals (K, S) of diagonals."""
    n = matrix.shape[0]
    if _for_library(n):
        upper = jnp.linalg.cholesky(matrix.T, symmetrize_input=False).T
        return upper, 1.0 / jnp.einsum("iis->is", upper)
    rows: list[Array] = []
    reciprocals: list[Array] = []
    for j in range(n):
        remainder = matrix[j]
        for row in rows:
            remainder = remainder - row[j, None] * row
        if single_kernels():
            remainder = materialize(remainder)  # otherwise, the compiler computes it twice
        reciprocals.append(jax.lax.rsqrt(remainder[j]))
        upper_mask = (jnp.arange(n) >= j).astype(matrix.dtype)[:, None]
        rows.append(remainder * (reciprocals[j][None] * upper_mask))
    return materialize((jnp.stack(rows), jnp.stack(reciprocals)))


def solve_lower(upper: Array, reciprocals: Array, right: Array) -> Array:
    """Return the solution ``x`` (K, J, S) of ``U' x = right``."""
    if _for_library(right.shape[0]):
        return _solve_batch(upper, right, transposed=False)
    solution: list[Array] = []
    for i in range(right.shape[0]):
        entry = right[i]
        for k in range(i):
            entry = entry - upper[k, i, None] * solution[k]
        solution.append(entry * reciprocals[i, None])
    return materialize(jnp.stack(solution))


def solve_upper(upper: Array, reciprocals: Array, right: Array) -> Array:
    """Return the solution ``x`` (K, J, S) of ``U x = right``."""
    n = right.shape[0]
    if _for_library(n):
        return _solve_batch(upper, right, transposed=True)
    solution = [right[i] for i in range(n)]
    for i in reversed(range(n)):
        entry = right[i]
        for k in range(i + 1, n):
            entry = entry - upper[i, k, None] * solution[k]
        solution[i] = entry * reciprocals[i, None]
    return materialize(jnp.stack(solution))


def whiten(matrix: Array, right: Array) -> Array:
    """Return the solution ``x`` (K, J, S) of ``U' x = right`` with ``U' U = matrix`` (K, K, S).

    If :func:`.single_kernels` is true, the solution is computed by a loop over the rows of the matrices,
    which compiles quickly. Loops over time do not use this function.
    """
    if not single_kernels():
        return solve_lower(*cholesky(matrix), right)
    n = matrix.shape[0]
    index = jnp.arange(n)[:, None]

    def eliminate(j: Array, remainder: Array) -> Array:
        row = remainder[j]
        row = row * jax.lax.rsqrt(row[j])
        remainder = remainder - jnp.where(index > j, row[:n], 0.0)[:, None] * row
        return remainder.at[j].set(row)

    stacked = jnp.concatenate([matrix, right], axis=1)
    return jax.lax.fori_loop(0, n, eliminate, stacked)[:, n:]


def _solve_batch(upper: Array, right: Array, *, transposed: bool) -> Array:
    """Solve with ``U'``, or with ``U`` if `transposed`, in one library call."""
    columns = jnp.moveaxis(right, -1, 0)
    solution = triangular_solve(upper.T, columns, left_side=True, lower=True, transpose_a=transposed)
    return jnp.moveaxis(solution, 0, -1)


def products(values: Array) -> Array:
    """Multiply groups of eight successive numbers of an array (K, S); return the products (ceil(K / 8), S).

    The logarithm of a product replaces eight logarithms. Products of more numbers may overflow or underflow.
    """
    factors = []
    for start in range(0, values.shape[0], MAX_UNROLLED):
        product = values[start]
        for value in values[start + 1 : start + MAX_UNROLLED]:
            product = product * value
        factors.append(product)
    return jnp.stack(factors)
