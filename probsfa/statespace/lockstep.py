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

from probsfa.statespace.engine import Law
from probsfa.statespace.lanes import (
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
)


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


def to_lanes(rows: Array, n_segments: int) -> Array:
    """Cut rows (T, ...) into segments: (L, ..., S)."""
    return jnp.moveaxis(rows.reshape(n_segments, -1, *rows.shape[1:]), 0, -1)


def from_lanes(lanes: Array) -> Array:
    """Join segments (L, ..., S) into rows (T, ...)."""
    joined = jnp.moveaxis(lanes, -1, 0)
    return joined.reshape(-1, *joined.shape[2:])


class Update(NamedTuple):
    """Upper factor ``U = L'`` of a covariance, ``J L``, and that of ``B = I + L' J L``, with reciprocals.

    It is how what is said with precision ``J`` changes a law of that covariance.
    """

    spread: Array
    spread_reciprocals: Array
    weighted: Array
    factor: Array
    reciprocals: Array


def meet(covariance: Array, precision: Array) -> Update:
    """A law of the given covariance (K, K, S) meets information of the given precision (K, K, S)."""
    upper, upper_reciprocals = cholesky(settle(covariance))
    weighted = settle(times_transpose(precision, upper))
    factor, reciprocals = cholesky(settle(times(upper, weighted) + identity_like(covariance)))
    return Update(upper, upper_reciprocals, weighted, factor, reciprocals)


def _step(covariance: Array, precision: Array, decay: Array) -> Update:
    innovation = (1.0 - decay) * (1.0 + decay)
    spread = decay[:, None] * decay[None] * covariance + identity_like(covariance) * innovation[:, None]
    return meet(spread, precision)


def transposed_root(update: Update) -> Array:
    """Transposed root ``W'`` of the updated covariance ``W W'``."""
    return solve_lower(update.factor, update.reciprocals, update.spread)


def absorb(update: Update, predicted: Array, information: Array) -> Array:
    """``B^-1 L' (h - J m)`` for the columns ``m`` of ``predicted`` (K, J, S); only the last meets data."""
    surprise = -transpose_times(update.weighted, predicted)
    told = times(update.spread, information[:, None])
    surprise = surprise + jnp.pad(told, ((0, 0), (predicted.shape[1] - 1, 0), (0, 0)))
    whitened = solve_lower(update.factor, update.reciprocals, settle(surprise))
    return solve_upper(update.factor, update.reciprocals, whitened)


@one_kernel
def couple(rows: Rows) -> Segments:
    """Summarise every segment as a law of its last state given the state at its left border."""
    _, n, n_segments = rows.information.shape
    zeros = jnp.zeros((n, n + 1, n_segments), rows.information.dtype)
    # The columns of the transfer move like means that meet no data.
    start = Segments(zeros.at[:, :n].set(identity_like(zeros[:, :n])), zeros[:, :n], zeros)

    def body(state: Segments, row: Rows) -> tuple[Segments, None]:
        step = _step(state.covariance, row.precision, row.decays)
        predicted = row.decays[:, None] * state.moves
        shift = absorb(step, predicted, row.information)
        whitened = solve_lower(step.spread, step.spread_reciprocals, predicted[:, :n])
        root = transposed_root(step)
        return Segments(
            predicted + transpose_times(step.spread, shift),
            transpose_times(root, root),
            state.told + transpose_times(whitened, shift),
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
    Written out entry by entry: calls of a library for whole batches wait for each other without end where
    several of them meet on few cores (JAX 0.10).
    """
    n = segments.covariance.shape[0]
    upper, reciprocals = cholesky(settle(segments.covariance))
    half = solve_lower(upper, reciprocals, segments.moves[:, :n])
    whitened = settle(times_transpose(roots, half))
    inner = times_transpose(whitened, whitened) + identity_like(segments.covariance)
    narrowed = solve_lower(*cholesky(settle(inner)), roots)
    spread = settle(transpose_times(narrowed, narrowed))
    return settle(times_transpose(spread, solve_upper(upper, reciprocals, half))), spread


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
        step = _step(law.covariance, row.precision, row.decays)
        predicted = row.decays * law.mean
        shift = absorb(step, predicted[:, None], row.information)
        mean = predicted + transpose_times(step.spread, shift)[:, 0]
        root = transposed_root(step)
        out = FilteredRows(mean, root, products(step.reciprocals), jnp.sum(shift[:, 0] ** 2, axis=0))
        return LaneLaw(mean, transpose_times(root, root)), out

    filtered = jax.lax.scan(body, left, rows)[1]
    return filtered._replace(log_dets=-2.0 * jnp.sum(jnp.log(filtered.log_dets), axis=1))


@one_kernel
def smooth_rows(filtered: FilteredRows, following: Array, last: LaneLaw) -> SmoothedRows:
    """Smooth every segment from the law of its last state; ``following`` (L, K, S) decays to the next row."""
    n_rows = filtered.means.shape[0]
    is_last = jnp.arange(n_rows) == n_rows - 1

    def body(later: LaneLaw, row: tuple[Array, Array, Array, Array]) -> tuple[LaneLaw, SmoothedRows]:
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
        return law, SmoothedRows(*law, jnp.where(is_last, transposed_gain, crossed))

    return jax.lax.scan(body, last, (filtered.means, filtered.roots, following, is_last), reverse=True)[1]
