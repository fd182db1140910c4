"""The engine's two passes with time cut into segments that are worked through in lockstep.

A pass over time is a chain of small dependent steps, in which a processor mostly waits. Cut into ``S``
segments, the same step is done for all of them at once (:mod:`probsfa.statespace.lanes`). What a segment
needs to know of those before it is the law of the state at its left border, and this is found exactly:

1. *Couple.* Filter every segment as if the state ``s`` at its left border were known. The law of the
   segment's last state is then ``N(F s + m, P)``, and the rows of the segment say ``exp(h' s - s' J s / 2)``
   about ``s``. Only the five summaries are kept.
2. *Join.* Run through the ``S`` borders: they are a short chain of the same kind.
3. *Filter* every segment again, now from the law of its left border.
4. *Smooth* every segment backwards, from the law of its last state given all rows, which the backward run
   through the borders gives.

All of it is sums of positive terms, as in :mod:`probsfa.statespace.engine`, whose results these are.
Arrays over segments have the segment last: ``(L, n, S)`` for ``n`` numbers at each of ``L`` rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.lanes import (
    Lower,
    Vector,
    cholesky,
    dot,
    lower_times,
    one_kernel,
    outer_gram,
    pack_lower,
    settle,
    solve_for_transpose,
    solve_lower,
    solve_upper,
    symmetric_times,
    unpack_lower,
    upper_times,
)


class Rows(NamedTuple):
    """What the passes read: ``precision`` (L, K (K + 1) / 2, S), ``information`` and ``decays`` (L, K, S)."""

    precision: Array
    information: Array
    decays: Array


class Law(NamedTuple):
    """A normal law in each lane: ``mean`` (K, S) and ``covariance`` (K (K + 1) / 2, S), lower triangle."""

    mean: Array
    covariance: Array


class Segments(NamedTuple):
    """What each segment says of its borders: ``transfer`` (K K, S), ``last`` and what it says of the first.

    The last state is ``N(F s + last.mean, last.covariance)`` given the state ``s`` at the left border, with
    ``F`` in ``transfer`` column by column; ``precision`` and ``information`` are the ``J`` and ``h`` that the
    rows have about ``s``.
    """

    transfer: Array
    last: Law
    precision: Array
    information: Array


class FilteredRows(NamedTuple):
    """Filtered ``means`` (L, K, S), ``roots`` (L, K K, S) row by row, and two terms of the log-likelihood."""

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class SmoothedRows(NamedTuple):
    """Smoothed ``means`` (L, K, S), ``covariances`` (L, K (K + 1) / 2, S) and ``gains`` (L, K K, S)."""

    means: Array
    covariances: Array
    gains: Array


def to_lanes(rows: Array, n_segments: int) -> Array:
    """Cut rows (T, n) into segments: (L, n, S)."""
    return rows.reshape(n_segments, -1, rows.shape[1]).transpose(1, 2, 0)


def from_lanes(lanes: Array) -> Array:
    """Join segments (L, n, S) into rows (T, n)."""
    return lanes.transpose(2, 0, 1).reshape(-1, lanes.shape[1])


class _Step(NamedTuple):
    """Factors of one step: predicted law, its Cholesky factor ``L``, ``J L``, and ``B = I + L' J L``."""

    predicted: Vector
    lower: Lower
    lower_reciprocals: Vector
    weighted: list[Vector]
    factor: Lower
    reciprocals: Vector


def _weighted(precision: Lower, lower: Lower) -> list[Vector]:
    """Columns of ``J L``."""
    n = len(lower)
    return [
        [
            dot([precision[max(i, k)][min(i, k)] for k in range(j, n)], [lower[k][j] for k in range(j, n)])
            for i in range(n)
        ]
        for j in range(n)
    ]


def _one_plus_gram(lower: Lower, weighted: list[Vector]) -> Lower:
    """Lower triangle of ``I + L' (J L)``."""
    n = len(lower)
    gram = [
        [dot([lower[k][i] for k in range(i, n)], weighted[j][i:]) for j in range(i + 1)] for i in range(n)
    ]
    for i in range(n):
        gram[i][i] = gram[i][i] + 1.0
    return gram


def _step(mean: Vector, covariance: Lower, precision: Lower, decay: Vector) -> _Step:
    n = len(mean)
    spread = [[decay[i] * decay[j] * covariance[i][j] for j in range(i + 1)] for i in range(n)]
    for i in range(n):
        spread[i][i] = spread[i][i] + (1.0 - decay[i]) * (1.0 + decay[i])
    lower, lower_reciprocals = cholesky(spread)
    weighted = _weighted(precision, lower)
    inner = _one_plus_gram(lower, weighted)
    factor, reciprocals = cholesky(inner)
    predicted = [a * m for a, m in zip(decay, mean, strict=True)]
    return _Step(predicted, lower, lower_reciprocals, weighted, factor, reciprocals)


def _absorb(step: _Step, surprise: Vector) -> tuple[Vector, Vector]:
    """Whitened update ``x = B^-1 surprise``, and ``L x``, by which the mean moves."""
    shift = _whiten(step, surprise)
    return shift, lower_times(step.lower, shift)


def _whiten(step: _Step, surprise: Vector) -> Vector:
    return solve_upper(step.factor, step.reciprocals, solve_lower(step.factor, step.reciprocals, surprise))


def _plus(left: Vector, right: Vector) -> Vector:
    return [x + y for x, y in zip(left, right, strict=True)]


@one_kernel
def couple(rows: Rows) -> Segments:
    """Summarise every segment as a law of its last state given the state at its left border."""
    _, n, n_segments = rows.information.shape
    dtype = rows.information.dtype
    zeros = jnp.zeros((n, n_segments), dtype)
    pairs = jnp.zeros((rows.precision.shape[1], n_segments), dtype)
    identity = jnp.broadcast_to(jnp.eye(n, dtype=dtype).reshape(-1, 1), (n * n, n_segments))

    def body(state: Segments, row: Rows) -> tuple[Segments, None]:
        transfer, last, told_precision, told_information = state
        precision, information = unpack_lower(row.precision, n), list(row.information)
        decay = list(row.decays)
        step = settle(_step(list(last.mean), unpack_lower(last.covariance, n), precision, decay))
        missed = symmetric_times(precision, step.predicted)
        surprise = upper_times(step.lower, [x - y for x, y in zip(information, missed, strict=True)])
        shift, move = _absorb(step, surprise)
        mean = _plus(step.predicted, move)

        # Each column of the transfer moves like a mean that meets no data.
        carried = [[decay[i] * transfer[j * n + i] for i in range(n)] for j in range(n)]
        told, whitened = [], []
        for column in carried:
            missed = [-dot(weights, column) for weights in step.weighted]
            told.append(_whiten(step, missed))
            whitened.append(solve_lower(step.lower, step.lower_reciprocals, column))
        told, whitened = settle((told, whitened))
        columns = [_plus(column, lower_times(step.lower, x)) for column, x in zip(carried, told, strict=True)]
        told_precision = told_precision - jnp.stack(
            [dot(whitened[i], told[j]) for i in range(n) for j in range(i + 1)]
        )
        told_information = told_information + jnp.stack([dot(column, shift) for column in whitened])
        covariance = outer_gram(solve_for_transpose(step.factor, step.reciprocals, step.lower))
        law = Law(jnp.stack(mean), pack_lower(covariance))
        flat = jnp.stack([entry for column in columns for entry in column])
        return Segments(flat, law, told_precision, told_information), None

    start = Segments(identity, Law(zeros, pairs), pairs, zeros)
    return jax.lax.scan(body, start, rows)[0]


def _square(packed: Array, n: int) -> Array:
    """Symmetric matrices (S, K, K) from their lower triangles (K (K + 1) / 2, S)."""
    index = jnp.array([[max(i, j) * (max(i, j) + 1) // 2 + min(i, j) for j in range(n)] for i in range(n)])
    return packed.T[:, index]


def _packed(matrices: Array, n: int) -> Array:
    """Lower triangles (K (K + 1) / 2, S) of matrices (S, K, K)."""
    rows, columns = jnp.tril_indices(n)
    return matrices[:, rows, columns].T


class Borders(NamedTuple):
    """Laws at the borders given the rows before: ``left`` of each segment and, after its own rows, updated.

    ``means`` and ``roots`` (S, K), (S, K, K) are those of the state at a segment's left border given the rows
    up to the segment's end, ``last_mean`` and ``last_covariance`` those of the last state of all.
    """

    left: Law
    means: Array
    roots: Array
    last_mean: Array
    last_covariance: Array


def _matrices(segments: Segments) -> tuple[Array, Array, Array, Array, Array]:
    n = segments.information.shape[0]
    transfer = segments.transfer.T.reshape(-1, n, n).swapaxes(1, 2)
    spreads, precision = _square(segments.last.covariance, n), _square(segments.precision, n)
    return transfer, segments.last.mean.T, spreads, precision, segments.information.T


def join(segments: Segments, mean: Array, covariance: Array) -> Borders:
    """Law of the state at the left border of every segment given all rows before it."""
    n = mean.shape[0]
    identity = jnp.eye(n, dtype=mean.dtype)

    def body(
        law: tuple[Array, Array], segment: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, ...]]:
        mean, covariance = law
        transfer, offset, spread, precision, information = segment
        lower = jnp.linalg.cholesky(covariance, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        surprise = lower.T @ (information - precision @ mean)
        solved = triangular_solve(
            factor, jnp.concatenate([lower.T, surprise[:, None]], axis=1), left_side=True, lower=True
        )
        root = solved[:, :-1].T
        updated = mean + root @ solved[:, -1]
        carried = transfer @ root
        law = (transfer @ updated + offset, carried @ carried.T + spread)
        return law, (mean, covariance, updated, root)

    (last_mean, last_covariance), (left_means, left_covariances, means, roots) = jax.lax.scan(
        body, (mean, covariance), _matrices(segments)
    )
    return Borders(Law(left_means.T, _packed(left_covariances, n)), means, roots, last_mean, last_covariance)


def join_back(segments: Segments, borders: Borders) -> Law:
    """Law of the last state of every segment given all rows."""
    n = borders.last_mean.shape[0]
    identity = jnp.eye(n, dtype=borders.last_mean.dtype)
    transfer, offset, spreads, _, _ = _matrices(segments)
    lower = jnp.linalg.cholesky(spreads, symmetrize_input=False)
    whitened = triangular_solve(lower, transfer @ borders.roots, left_side=True, lower=True)
    inner = identity + whitened.swapaxes(1, 2) @ whitened
    factor = jnp.linalg.cholesky(inner, symmetrize_input=False)
    narrowed = triangular_solve(factor, borders.roots, left_side=False, lower=True, transpose_a=True)
    weights = triangular_solve(lower, transfer, left_side=True, lower=True)
    weights = triangular_solve(lower, weights, left_side=True, lower=True, transpose_a=True)
    conditional = narrowed @ narrowed.swapaxes(1, 2)
    gains = conditional @ weights.swapaxes(1, 2)
    expected = jnp.einsum("sij,sj->si", transfer, borders.means) + offset

    def body(
        law: tuple[Array, Array], segment: tuple[Array, ...]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        later_mean, later_covariance = law
        mean, expected, gain, conditional = segment
        mean = mean + gain @ (later_mean - expected)
        return (mean, conditional + gain @ later_covariance @ gain.T), law

    last = (borders.last_mean, borders.last_covariance)
    _, (means, covariances) = jax.lax.scan(
        body, last, (borders.means, expected, gains, conditional), reverse=True
    )
    return Law(means.T, _packed(covariances, n))


@one_kernel
def filter_rows(rows: Rows, left: Law) -> FilteredRows:
    """Filter every segment from the law of the state at its left border."""
    n = rows.information.shape[1]

    def body(law: Law, row: Rows) -> tuple[Law, FilteredRows]:
        precision, information = unpack_lower(row.precision, n), list(row.information)
        step = _step(list(law.mean), unpack_lower(law.covariance, n), precision, list(row.decays))
        missed = symmetric_times(precision, step.predicted)
        surprise = upper_times(step.lower, [x - y for x, y in zip(information, missed, strict=True)])
        shift, move = _absorb(step, surprise)
        root = solve_for_transpose(step.factor, step.reciprocals, step.lower)
        mean = jnp.stack(_plus(step.predicted, move))
        product = step.reciprocals[0]
        for reciprocal in step.reciprocals[1:]:
            product = product * reciprocal
        out = FilteredRows(
            mean, jnp.stack([entry for line in root for entry in line]), product, dot(shift, shift)
        )
        return Law(mean, pack_lower(outer_gram(root))), out

    filtered = jax.lax.scan(body, left, rows)[1]
    return filtered._replace(log_dets=-2.0 * jnp.log(filtered.log_dets))


@one_kernel
def smooth_rows(filtered: FilteredRows, following: Array, last: Law) -> SmoothedRows:
    """Smooth every segment from the law of its last state; ``following`` (L, K, S) decays to the next row."""
    n_rows, n, _ = filtered.means.shape
    is_last = jnp.arange(n_rows) == n_rows - 1

    def body(later: Law, row: tuple[Array, Array, Array, Array]) -> tuple[Law, SmoothedRows]:
        filtered_mean, flat_root, decay, is_last = row
        root = [[flat_root[i * n + j] for j in range(n)] for i in range(n)]
        weight = [a / ((1.0 - a) * (1.0 + a)) for a in decay]
        scaled = [[weight[i] * decay[i] * entry for entry in root[i]] for i in range(n)]
        inner = [
            [dot([line[i] for line in root], [line[j] for line in scaled]) for j in range(i + 1)]
            for i in range(n)
        ]
        for i in range(n):
            inner[i][i] = inner[i][i] + 1.0
        factor, reciprocals = cholesky(inner)
        narrowed = settle([solve_lower(factor, reciprocals, line) for line in root])
        spread = outer_gram(narrowed)
        gain = [[spread[max(i, j)][min(i, j)] * weight[j] for j in range(n)] for i in range(n)]
        difference = [later.mean[j] - decay[j] * filtered_mean[j] for j in range(n)]
        mean = jnp.stack([filtered_mean[i] + dot(gain[i], difference) for i in range(n)])
        later_covariance = unpack_lower(later.covariance, n)
        crossed = settle([symmetric_times(later_covariance, line) for line in gain])
        covariance = pack_lower(
            [[spread[i][j] + dot(gain[i], crossed[j]) for j in range(i + 1)] for i in range(n)]
        )
        law = Law(jnp.where(is_last, last.mean, mean), jnp.where(is_last, last.covariance, covariance))
        return law, SmoothedRows(*law, jnp.stack([entry for line in gain for entry in line]))

    return jax.lax.scan(body, last, (filtered.means, filtered.roots, following, is_last), reverse=True)[1]
