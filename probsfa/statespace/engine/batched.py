"""Linear algebra of batches of small matrices, written out entry by entry.

The last axis of every array runs over the ``S`` independent problems of a batch, all of the same small size.
Each scalar operation of the textbook algorithm is then one or more vector instructions. For small sizes
(about five) this is several times faster than batched calls of a library made for large matrices.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.compiler import materialize, on_cpu, single_kernels

#: Maximum rows of a matrix for which operations are written out on accelerators.
MOST_UNROLLED = 8


def _for_library(n_rows: int) -> bool:
    """Return whether matrices of so many rows are passed to a library.

    Never on CPUs, where a program with such calls on batches of 2,048 matrices did not end (JAX 0.10).
    """
    return n_rows > MOST_UNROLLED and not on_cpu()


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
    """Return ``U`` (K, K, S) with ``U' U = matrix``, upper, and the reciprocals (K, S) of its diagonal."""
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
        if single_kernels():
            rest = materialize(rest)  # otherwise computed twice, for the root and for the row
        reciprocals.append(jax.lax.rsqrt(rest[j]))
        keep = (jnp.arange(n) >= j).astype(matrix.dtype)[:, None]
        rows.append(rest * (reciprocals[j][None] * keep))
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

    For work outside the loop over rows. Inside :func:`.one_kernel` it is a loop, which compiles quickly.
    """
    if not single_kernels():
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
    """Solve with ``L = U'``, or with its transpose ``U``, in one library call."""
    columns = jnp.moveaxis(right, -1, 0)
    solution = triangular_solve(upper.T, columns, left_side=True, lower=True, transpose_a=transposed)
    return jnp.moveaxis(solution, 0, -1)


def products(values: Array) -> Array:
    """Return products (N, S) of up to eight numbers each of (K, S), so that fewer logarithms are needed.

    Products of more numbers might overflow or underflow.
    """
    factors = []
    for start in range(0, values.shape[0], MOST_UNROLLED):
        product = values[start]
        for value in values[start + 1 : start + MOST_UNROLLED]:
            product = product * value
        factors.append(product)
    return jnp.stack(factors)


# ---------------------------------------------------------------------- matrices of a dozen to sixty rows

# Rows swept at once: enough to justify the overhead of a loop over a dozen segments.
_BLOCK = 4


def times_vector(matrix: Array, vector: Array) -> Array:
    """Return the product (I, S) of matrices (I, K, S) and vectors (K, S)."""
    return dot([matrix[:, k] for k in range(vector.shape[0])], [entry[None] for entry in vector])


def inverse(matrix: Array) -> tuple[Array, Array]:
    """Return the inverse (K, K, S) of symmetric positive definite matrices, and the pivots (K, S).

    The sweep operator (Goodnight 1979) is applied to a block of rows at a time, in a loop that compiles
    quickly. The product of the pivots is the determinant. For use inside :func:`.one_kernel`, where loops
    have no overhead.
    """
    n = matrix.shape[0]
    blocks, rest = divmod(n, _BLOCK)

    def sweep_block(i: Array, swept: tuple[Array, Array]) -> tuple[Array, Array]:
        return _sweep(swept[0], swept[1], i * np.int32(_BLOCK), _BLOCK)

    swept = matrix, jnp.zeros_like(matrix[0])
    if blocks:
        swept = jax.lax.fori_loop(np.int32(0), np.int32(blocks), sweep_block, swept)
    if rest:
        swept = _sweep(swept[0], swept[1], jnp.asarray(blocks * _BLOCK, np.int32), rest)
    return materialize(-swept[0]), swept[1]


def solve(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Return the solution ``x`` (K, S) of ``matrix x = right``, positive definite, and the pivots (K, S).

    Two halves are inverted separately, which is half the work of inverting the whole. One step of iterative
    refinement follows, because errors of the inverses grow with the condition number.
    """
    n = matrix.shape[0]
    half = -(-n // (2 * _BLOCK)) * _BLOCK
    if half >= n:
        whole, pivots = inverse(matrix)

        def approximate(missed: Array) -> Array:
            return times_vector(whole, missed)

    else:
        first, start_pivots = inverse(materialize(matrix[:half, :half]))
        below = materialize(matrix[half:, :half])
        solved = materialize(times_transpose(below, first))
        second, others = inverse(materialize(matrix[half:, half:] - times_transpose(solved, below)))
        pivots = jnp.concatenate([start_pivots, others])

        def approximate(missed: Array) -> Array:
            end = times_vector(second, materialize(missed[half:] - times_vector(solved, missed[:half])))
            back = dot([solved[k] for k in range(n - half)], [entry[None] for entry in end])
            return jnp.concatenate([times_vector(first, missed[:half]) - back, end])

    x = materialize(approximate(right))
    return x + approximate(materialize(right - times_vector(matrix, x))), pivots


def _sweep(matrix: Array, pivots: Array, start: Array, size: int) -> tuple[Array, Array]:
    """Sweep ``size`` rows from ``start`` on; their diagonal block ``B`` becomes ``-B^-1``."""
    rows = materialize(jax.lax.dynamic_slice_in_dim(matrix, start, size, 0))
    own, found = _swept_one_by_one(jax.lax.dynamic_slice_in_dim(rows, start, size, 1))
    solved = materialize(-transpose_times(own, rows))
    matrix = matrix - transpose_times(rows, solved)
    matrix = jax.lax.dynamic_update_slice_in_dim(matrix, solved, start, 0)
    matrix = jax.lax.dynamic_update_slice_in_dim(matrix, solved.swapaxes(0, 1), start, 1)
    matrix = jax.lax.dynamic_update_slice(matrix, own, (start, start, np.int32(0)))
    return matrix, jax.lax.dynamic_update_slice_in_dim(pivots, found, start, 0)


def _swept_one_by_one(block: Array) -> tuple[Array, Array]:
    """Return minus the inverse of a small block, and its pivots; a loop, for half the compile time."""
    index = np.arange(block.shape[0], dtype=np.int32)

    def sweep_row(k: Array, swept: tuple[Array, Array]) -> tuple[Array, Array]:
        block, pivots = swept
        row = jax.lax.dynamic_index_in_dim(block, k, keepdims=False)
        pivot = jax.lax.dynamic_index_in_dim(row, k)
        here = (index == k)[:, None]
        # The row and the column of the pivot; the row includes the pivot's own entry.
        solved = materialize(jnp.where(here, -1.0, row) / pivot)
        rest = jnp.where(here[:, None] | here, 0.0, block - row[:, None] * solved)
        column = jnp.where(here & ~here[:, None], solved[:, None], 0.0)
        block = rest + jnp.where(here[:, None], solved, column)
        return materialize(block), jax.lax.dynamic_update_slice_in_dim(pivots, pivot, k, 0)

    size = np.int32(block.shape[0])
    return jax.lax.fori_loop(np.int32(0), size, sweep_row, (block, jnp.zeros_like(block[0])))
