"""The engine's two passes with time cut into segments that are worked through in lockstep.

A pass over time is a chain of small dependent steps, in which a processor mostly waits. Cut into ``S``
segments, the same step is done for all of them at once (:mod:`.batched`). What a segment
needs to know of those before it is the law of the state at its left border, and this is found exactly:

1. *Couple.* Filter every segment as if the state ``s`` at its left border were known. The law of the
   segment's last state is then ``N(F s + m, P)``, and the rows of the segment say ``exp(h' s - s' J s / 2)``
   about ``s``. Only the five summaries are kept.
2. *Join.* Run through the ``S`` borders: they are a short chain of the same kind.
3. *Filter* every segment again, now from the law of its left border.
4. *Smooth* every segment backwards, from the law of its last state given all rows, which the backward run
   through the borders gives.

All of it is sums of positive terms, as in :mod:`.recursions`, whose results these are.
Arrays over segments have the segment last: ``(L, n, S)`` for ``n`` numbers at each of ``L`` rows.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.batched import (
    cholesky,
    identity_like,
    one_kernel,
    products,
    settle,
    solve_lower,
    solve_upper,
    times,
    times_transpose,
    transpose_times,
    whiten,
)
from probsfa.statespace.engine.recursions import Law


class Rows(NamedTuple):
    """What the passes read: ``precision`` (L, K, K, S), ``information`` and ``decays`` (L, K, S)."""

    precision: Array
    information: Array
    decays: Array


class LaneLaw(NamedTuple):
    """A normal law in each lane: ``mean`` (K, S) and ``covariance`` (K, K, S)."""

    mean: Array
    covariance: Array


class Segments(NamedTuple):
    """What each segment says of the states at its borders.

    Given the state ``s`` at the left border, the last state is ``N(F s + m, covariance)``, with ``moves``
    (K, K + 1, S) the columns of ``F`` and then ``m``. About ``s`` the rows say
    ``exp(h' s - s' J s / 2)``, with ``told`` (K, K + 1, S) the columns of ``-J`` and then ``h``.
    """

    moves: Array
    covariance: Array
    told: Array


class FilteredRows(NamedTuple):
    """Filtered ``means`` (L, K, S), transposed ``roots`` (L, K, K, S), and two terms of the likelihood."""

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class SmoothedRows(NamedTuple):
    """Smoothed ``means`` (L, K, S), ``covariances`` (L, K, K, S) and ``lag_one`` (L, K, K, S).

    ``lag_one`` is the covariance of the next state with this one; in the last row of a segment it has the
    transposed gain instead, for the next state lies in another lane.
    """

    means: Array
    covariances: Array
    lag_one: Array


class SummedRows(NamedTuple):
    """Of the smoothed rows, what sums over them need.

    ``means`` (L, K, S); ``covariances`` (L, K (K + 1) / 2, S), upper triangles; ``lag_one`` (L, K, S), the
    covariance of each latent with itself one row later, meaningless in a segment's last row. ``first`` is the
    law of each segment's first state, ``last_gain`` (K, K, S) the transposed gain of its last.
    """

    means: Array
    covariances: Array
    lag_one: Array
    first: LaneLaw
    last_gain: Array


def to_lanes(rows: Array, n_segments: int) -> Array:
    """Cut rows (T, ...) into segments: (L, ..., S)."""
    return jnp.moveaxis(rows.reshape(n_segments, -1, *rows.shape[1:]), 0, -1)


def from_lanes(lanes: Array) -> Array:
    """Join segments (L, ..., S) into rows (T, ...)."""
    joined = jnp.moveaxis(lanes, -1, 0)
    return joined.reshape(-1, *joined.shape[2:])


class Update(NamedTuple):
    """How what is said, ``exp(h' z - z' J z / 2)``, changes a law of covariance ``L L'`` and mean ``m``.

    With ``F F' = 1 + L' J L``: the transposed ``root`` ``W' = F^-1 L'`` (K, K, S) of the covariance
    afterwards; ``surprise`` (K, J, S), ``F^-1 L' (h - J m)`` for columns ``m``, by ``W`` the changes of the
    mean; ``carried`` (K, J - 1, S), ``F^-1 L^-1 m`` for all columns but the last; the upper factor ``F'`` and
    the reciprocals (K, S) of its diagonal.
    """

    root: Array
    surprise: Array
    carried: Array
    factor: Array
    reciprocals: Array


def meet(covariance: Array, precision: Array, predicted: Array, information: Array) -> Update:
    """A law meets what is said about it.

    ``covariance`` and ``precision`` (K, K, S), ``predicted`` (K, J, S) the columns ``m``, of which only the
    last meets ``information`` (K, S).
    """
    n, last = covariance.shape[0], predicted.shape[1] - 1
    upper, upper_reciprocals = cholesky(settle(covariance))
    weighted = settle(times_transpose(precision, upper))
    factor, reciprocals = cholesky(settle(times(upper, weighted) + identity_like(covariance)))
    told = jnp.pad(times(upper, information[:, None]), ((0, 0), (last, 0), (0, 0)))
    columns = [upper, told - transpose_times(weighted, predicted)]
    if last:
        columns.append(solve_lower(upper, upper_reciprocals, predicted[:, :last]))
    # One solve for all: each is as much to compile as it is to run.
    solved = solve_lower(factor, reciprocals, settle(jnp.concatenate(columns, axis=1)))
    root, surprise, carried = jnp.split(solved, (n, n + last + 1), axis=1)
    return Update(root, surprise, carried, factor, reciprocals)


def _predict(covariance: Array, decay: Array) -> Array:
    innovation = (1.0 - decay) * (1.0 + decay)
    return decay[:, None] * decay[None] * covariance + identity_like(covariance) * innovation[:, None]


@one_kernel
def couple(rows: Rows) -> Segments:
    """Summarise every segment as a law of its last state given the state at its left border."""
    _, n, n_segments = rows.information.shape
    zeros = jnp.zeros((n, n + 1, n_segments), rows.information.dtype)
    # The columns of the transfer move like means that meet no data.
    start = Segments(zeros.at[:, :n].set(identity_like(zeros[:, :n])), zeros[:, :n], zeros)

    def body(state: Segments, row: Rows) -> tuple[Segments, None]:
        predicted = row.decays[:, None] * state.moves
        step = meet(_predict(state.covariance, row.decays), row.precision, predicted, row.information)
        return Segments(
            predicted + transpose_times(step.root, step.surprise),
            transpose_times(step.root, step.root),
            state.told + transpose_times(step.carried, step.surprise),
        ), None

    return jax.lax.scan(body, start, rows)[0]


class Borders(NamedTuple):
    """Laws of the states at the segments' left borders, and of the last state of all.

    ``left`` is given all rows before, ``means`` (S, K) and ``roots`` (S, K, K) the segment's rows as well.
    """

    left: LaneLaw
    means: Array
    roots: Array
    last: Law


def join(segments: Segments, before: Law) -> Borders:
    """Law of the state at the left border of every segment given all rows before it."""
    n = before.mean.shape[0]
    identity = jnp.eye(n, dtype=before.mean.dtype)

    def body(law: _Pair, segment: Segments) -> tuple[_Pair, tuple[Array, Array, Array, Array]]:
        mean, covariance = law
        precision, information = -segment.told[:, :n], segment.told[:, n]
        lower = jnp.linalg.cholesky(covariance, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        surprise = lower.T @ (information - precision @ mean)
        solved = triangular_solve(
            factor, jnp.concatenate([lower.T, surprise[:, None]], axis=1), left_side=True, lower=True
        )
        root = solved[:, :-1].T
        updated = mean + root @ solved[:, -1]
        carried = segment.moves[:, :n] @ root
        law = (segment.moves[:, :n] @ updated + segment.moves[:, n], carried @ carried.T + segment.covariance)
        return law, (mean, covariance, updated, root)

    last, (left_means, left_covariances, means, roots) = jax.lax.scan(
        body, (before.mean, before.covariance), _lanes_first(segments)
    )
    left = LaneLaw(jnp.moveaxis(left_means, 0, -1), jnp.moveaxis(left_covariances, 0, -1))
    return Borders(left, means, roots, Law(*last))


_Pair = tuple[Array, Array]


def _lanes_first(segments: Segments) -> Segments:
    return Segments(*(jnp.moveaxis(x, -1, 0) for x in segments))


@one_kernel
def given_next(segments: Segments, roots: Array) -> tuple[Array, Array]:
    """Gain and covariance (K, K, S) of the state at each left border given that at the next one.

    ``roots`` (K, K, S) are the transposed ones of the law of the state given the rows up to the next border.
    Not by a library on CPUs: its calls for whole batches wait for each other without end where several of
    them meet on few cores (JAX 0.10).
    """
    n = segments.covariance.shape[0]
    identity = identity_like(segments.covariance)
    known = whiten(segments.covariance, jnp.concatenate([segments.moves[:, :n], identity], axis=1))
    half, inverse = known[:, :n], known[:, n:]
    whitened = settle(times_transpose(roots, half))
    inner = times_transpose(whitened, whitened) + identity
    solved = whiten(inner, jnp.concatenate([roots, whitened], axis=1))
    narrowed, told = solved[:, :n], solved[:, n:]
    # By `told`, whose norm is below one: the covariance times `half` would cancel.
    gain = times(settle(transpose_times(narrowed, told)), inverse)
    return gain, transpose_times(narrowed, narrowed)


def join_back(segments: Segments, borders: Borders) -> LaneLaw:
    """Law of the last state of every segment given all rows, from that of the last state of all."""
    n = borders.last.mean.shape[0]
    gains, spreads = (jnp.moveaxis(x, -1, 0) for x in given_next(segments, borders.roots.T))
    moves = jnp.moveaxis(segments.moves, -1, 0)
    expected = jnp.einsum("sij,sj->si", moves[:, :, :n], borders.means) + moves[:, :, n]

    def body(law: _Pair, segment: tuple[Array, Array, Array, Array]) -> tuple[_Pair, _Pair]:
        mean, expected, gain, spread = segment
        mean = mean + gain @ (law[0] - expected)
        return (mean, spread + gain @ law[1] @ gain.T), law

    last = (borders.last.mean, borders.last.covariance)
    _, laws = jax.lax.scan(body, last, (borders.means, expected, gains, spreads), reverse=True)
    return LaneLaw(*(jnp.moveaxis(x, 0, -1) for x in laws))


@one_kernel
def filter_rows(rows: Rows, left: LaneLaw) -> FilteredRows:
    """Filter every segment from the law of the state at its left border."""

    def body(law: LaneLaw, row: Rows) -> tuple[LaneLaw, FilteredRows]:
        predicted = (row.decays * law.mean)[:, None]
        step = meet(_predict(law.covariance, row.decays), row.precision, predicted, row.information)
        mean = (predicted + transpose_times(step.root, step.surprise))[:, 0]
        shift = solve_upper(step.factor, step.reciprocals, step.surprise)[:, 0]
        out = FilteredRows(mean, step.root, products(step.reciprocals), jnp.sum(shift**2, axis=0))
        return LaneLaw(mean, transpose_times(step.root, step.root)), out

    filtered = jax.lax.scan(body, left, rows)[1]
    return filtered._replace(log_dets=-2.0 * jnp.sum(jnp.log(filtered.log_dets), axis=1))


def _smooth_row(later: LaneLaw, row: tuple[Array, ...], last: LaneLaw) -> tuple[LaneLaw, Array]:
    """Law of a row's states given all rows, and its lag-one covariances as in :class:`SmoothedRows`."""
    (filtered_mean, root, decay), is_last = settle(row[:3]), row[3]
    weight = decay / ((1.0 - decay) * (1.0 + decay))
    inner = settle(times_transpose((weight * decay)[None] * root, root) + identity_like(root))
    narrowed = solve_lower(*cholesky(inner), root)
    spread = settle(transpose_times(narrowed, narrowed))
    gain, transposed_gain = spread * weight[None], weight[:, None] * spread
    mean = filtered_mean + times(gain, (later.mean - decay * filtered_mean)[:, None])[:, 0]
    crossed = settle(times(later.covariance, transposed_gain))
    law = LaneLaw(
        jnp.where(is_last, last.mean, mean),
        jnp.where(is_last, last.covariance, spread + times(gain, crossed)),
    )
    return law, jnp.where(is_last, transposed_gain, crossed)


def _smoother_inputs(filtered: FilteredRows, following: Array) -> tuple[Array, ...]:
    """What the backward pass reads of each row; last, whether it is the last one."""
    n_rows = filtered.means.shape[0]
    return filtered.means, filtered.roots, following, jnp.arange(n_rows) == n_rows - 1


@one_kernel
def smooth_rows(filtered: FilteredRows, following: Array, last: LaneLaw) -> SmoothedRows:
    """Smooth every segment from the law of its last state; ``following`` (L, K, S) decays to the next row."""

    def body(later: LaneLaw, row: tuple[Array, ...]) -> tuple[LaneLaw, SmoothedRows]:
        law, lag_one = _smooth_row(later, row, last)
        return law, SmoothedRows(*law, lag_one)

    return jax.lax.scan(body, last, _smoother_inputs(filtered, following), reverse=True)[1]


@one_kernel
def smooth_rows_for_sums(filtered: FilteredRows, following: Array, last: LaneLaw) -> SummedRows:
    """Smooth every segment, and keep what sums over rows need."""
    n = last.mean.shape[0]

    def body(state: _LawAndGain, row: tuple[Array, ...]) -> tuple[_LawAndGain, tuple[Array, Array, Array]]:
        law, lag_one = _smooth_row(state[0], row, last)
        upper = jnp.concatenate([law.covariance[i, i:] for i in range(n)])
        own = jnp.stack([lag_one[i, i] for i in range(n)])
        return (law, jnp.where(row[3], lag_one, state[1])), (law.mean, upper, own)

    start = (last, jnp.zeros_like(last.covariance))
    (first, gain), rows = jax.lax.scan(body, start, _smoother_inputs(filtered, following), reverse=True)
    return SummedRows(*rows, first, gain)


_LawAndGain = tuple[LaneLaw, Array]
