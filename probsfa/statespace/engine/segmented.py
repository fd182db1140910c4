"""Segments of rows, processed in parallel as a batch.

A pass over time is a chain of small dependent steps, which use little of a processor. With ``S`` segments,
each step is computed for all of them at once (:mod:`.batched`). A segment depends on earlier segments only
through the distribution of the state at its left border, which is computed exactly:

1. *Summarize.* Filter every segment as if the state ``s`` at its left border were known. The segment's last
   state is then ``N(F s + m, P)``, and the rows of the segment multiply the density of ``s`` by the
   potential ``exp(h' s - s' J s / 2)``. Only these are kept.
2. *Join.* Filter the states at the ``S`` borders one after the other.
3. *Filter* every segment again, now from the distribution at its left border.
4. *Smooth* every segment backwards, from the distribution of its last state given all rows, which a backward
   pass over the borders computes.

With ``P`` the covariance of a filtered state, ``z' = A z + e`` the next one, ``Cov e = Q`` and the gain ``G =
P A' (A P A' + Q)^-1``, the smoothed covariance is ``(I - G A) P (I - G A)' + G (Q + P') G'`` (Rauch, Tung &
Striebel 1965). ``A' Q^-1 A`` would lose all digits of closely spaced rows: entries of ``Q^-1`` of a smooth
process grow with the third power of the reciprocal gap. All results are sums of positive terms, and are the
same as those of :mod:`.recursions`.
Arrays over segments have the segment last: ``(L, n, S)`` for ``n`` numbers at each of ``L`` rows.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa.statespace.engine.batched import (
    cholesky,
    identity_like,
    products,
    solve_lower,
    solve_upper,
    times,
    times_transpose,
    transpose_times,
    whiten,
)
from probsfa.statespace.engine.compiler import materialize, one_kernel
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.recursions import Collapsed, collapse, condition, row_log_likelihoods


class SegmentRows(NamedTuple):
    """Inputs of the passes: ``precision`` (L, K, K, S), ``information`` and ``transitions`` (L, K, S)."""

    precision: Array
    information: Array
    transitions: Transition


class Summaries(NamedTuple):
    """Summary of each segment about the states at its borders.

    Given the state ``s`` at the left border, the last state is ``N(F s + m, covariance)``, with ``transfer``
    (K, K + 1, S) the columns of ``F`` and then ``m``. The rows multiply the density of ``s`` by
    ``exp(h' s - s' J s / 2)``, with ``potential`` (K, K + 1, S) the columns of ``-J`` and then ``h``.
    """

    transfer: Array
    covariance: Array
    potential: Array


class FilteredSegments(NamedTuple):
    """Filtered ``means`` (L, K, S), transposed ``roots`` (L, K, K, S), and two terms of the likelihood."""

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class SmoothedRows(NamedTuple):
    """Smoothed ``means`` (L, K, S), ``covariances`` (L, K, K, S) and ``lag_one`` (L, K, K, S).

    ``lag_one`` is the covariance of the next state with this one. The last row of a segment has the
    transposed gain instead, because the next state belongs to another segment.
    """

    means: Array
    covariances: Array
    lag_one: Array


class SummedRows(NamedTuple):
    """Moments of the smoothed rows that sums over rows use.

    ``means`` (L, K, S); ``covariances`` (L, K (K + 1) / 2, S), upper triangles; ``lag_one`` (L, K, S), the
    :meth:`.Transition.lag_terms` of each state and the next, meaningless in a segment's last row. ``first``
    is the distribution of each segment's first state, ``last_gain`` (K, K, S) the transposed gain of its
    last.
    """

    means: Array
    covariances: Array
    lag_one: Array
    first: Gaussian
    last_gain: Array


def to_segments(rows: Array, n_segments: int) -> Array:
    """Reshape rows (T, ...) into segments: (L, ..., S)."""
    return jnp.moveaxis(rows.reshape(n_segments, -1, *rows.shape[1:]), 0, -1)


def transitions_to_segments(transitions: Transition, n_segments: int) -> Transition:
    """Reshape the transitions of rows (T, K) into segments: (L, K, S)."""
    return transitions.map(lambda rows: to_segments(rows, n_segments))


def from_segments(segments: Array) -> Array:
    """Join segments (L, ..., S) into rows (T, ...)."""
    joined = jnp.moveaxis(segments, -1, 0)
    return joined.reshape(-1, *joined.shape[2:])


class Update(NamedTuple):
    """Update of a Gaussian of covariance ``L L'`` and mean ``m`` by a potential ``exp(h' z - z' J z / 2)``.

    With ``F F' = 1 + L' J L``: the transposed ``root`` ``W' = F^-1 L'`` (K, K, S) of the updated covariance;
    ``surprise`` (K, J, S), ``F^-1 L' (h - J m)`` for columns ``m``, whose product with ``W`` changes the
    mean; ``carried`` (K, J - 1, S), ``F^-1 L^-1 m`` for all columns but the last; the upper factor ``F'`` and
    the reciprocals (K, S) of its diagonal.
    """

    root: Array
    surprise: Array
    carried: Array
    factor: Array
    reciprocals: Array


def update(covariance: Array, precision: Array, predicted: Array, information: Array) -> Update:
    """Multiply Gaussians by potentials.

    ``covariance`` and ``precision`` (K, K, S), ``predicted`` (K, J, S) the columns ``m``, of which only the
    last is a mean, to be updated by ``information`` (K, S).
    """
    n, last = covariance.shape[0], predicted.shape[1] - 1
    upper, upper_reciprocals = cholesky(materialize(covariance))
    weighted = materialize(times_transpose(precision, upper))
    factor, reciprocals = cholesky(materialize(times(upper, weighted) + identity_like(covariance)))
    shifted = jnp.pad(times(upper, information[:, None]), ((0, 0), (last, 0), (0, 0)))
    columns = [upper, shifted - transpose_times(weighted, predicted)]
    if last:
        columns.append(solve_lower(upper, upper_reciprocals, predicted[:, :last]))
    # One solve for all columns, because each solve takes time to compile and to run.
    solved = solve_lower(factor, reciprocals, materialize(jnp.concatenate(columns, axis=1)))
    root, surprise, carried = jnp.split(solved, (n, n + last + 1), axis=1)
    return Update(root, surprise, carried, factor, reciprocals)


@one_kernel
def summarize(rows: SegmentRows) -> Summaries:
    """Summarize segments: the last state given that at the left border, and the potential of the latter."""
    _, n, n_segments = rows.information.shape
    zeros = jnp.zeros((n, n + 1, n_segments), rows.information.dtype)
    # The columns of the transfer are propagated like means, without data.
    start = Summaries(zeros.at[:, :n].set(identity_like(zeros[:, :n])), zeros[:, :n], zeros)

    def body(state: Summaries, row: SegmentRows) -> tuple[Summaries, None]:
        predicted = row.transitions.move(state.transfer)
        covariance = row.transitions.predict_covariance(state.covariance)
        step = update(covariance, row.precision, predicted, row.information)
        return Summaries(
            predicted + transpose_times(step.root, step.surprise),
            transpose_times(step.root, step.root),
            state.potential + transpose_times(step.carried, step.surprise),
        ), None

    return jax.lax.scan(body, start, rows)[0]


class Borders(NamedTuple):
    """Distributions of the states at the segments' left borders, and of the last state of all.

    ``left`` is given all rows before the segment; ``means`` (K, S) and transposed ``roots`` (K, K, S) are
    given the rows of the segment as well.
    """

    left: Gaussian
    means: Array
    roots: Array
    last: Gaussian


def join(segments: Summaries, before: Gaussian) -> Borders:
    """Filter the borders: the state at the left of every segment given all rows before it."""
    n = before.mean.shape[0]
    identity = jnp.eye(n, dtype=before.mean.dtype)

    def body(state: Gaussian, segment: Summaries) -> tuple[Gaussian, tuple[Gaussian, Array, Array]]:
        precision, information = -segment.potential[:, :n], segment.potential[:, n]
        lower = jnp.linalg.cholesky(state.covariance, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        surprise = lower.T @ (information - precision @ state.mean)
        solved = triangular_solve(
            factor, jnp.concatenate([lower.T, surprise[:, None]], axis=1), left_side=True, lower=True
        )
        root = solved[:, :-1].T
        updated = state.mean + root @ solved[:, -1]
        transfer, constant = segment.transfer[:, :n], segment.transfer[:, n]
        carried = transfer @ root
        after = Gaussian(transfer @ updated + constant, carried @ carried.T + segment.covariance)
        return after, (state, updated, solved[:, :-1])

    last, borders = jax.lax.scan(body, before, _segments_first(segments))
    left, means, roots = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), borders)
    return Borders(left, means, roots, last)


def _segments_first(segments: Summaries) -> Summaries:
    return Summaries(*(jnp.moveaxis(x, -1, 0) for x in segments))


@one_kernel
def given_next(segments: Summaries, roots: Array) -> tuple[Array, Array]:
    """Return gain and covariance (K, K, S) of the state at each left border given that at the next one.

    ``roots`` (K, K, S) are the transposed roots of the state given the rows up to the next border. On CPUs
    library calls are avoided: batched calls deadlock if several of them run on few cores (JAX 0.10).
    """
    n = segments.covariance.shape[0]
    carried = materialize(times_transpose(roots, segments.transfer[:, :n]))
    predicted = transpose_times(carried, carried) + segments.covariance
    cross_products = transpose_times(carried, roots)
    solved = whiten(predicted, jnp.concatenate([cross_products, identity_like(cross_products)], axis=1))
    gain = materialize(transpose_times(solved[:, :n], solved[:, n:]))
    narrowed = materialize(roots - times_transpose(carried, gain))
    spread = times(gain, materialize(times_transpose(segments.covariance, gain)))
    return gain, transpose_times(narrowed, narrowed) + spread


def join_back(segments: Summaries, borders: Borders) -> Gaussian:
    """Return the last state of every segment given all rows, from the last state of all."""
    n = borders.last.mean.shape[0]
    gains, spreads = (jnp.moveaxis(x, -1, 0) for x in given_next(segments, borders.roots))
    means, transfer = borders.means.T, jnp.moveaxis(segments.transfer, -1, 0)
    expected = jnp.einsum("sij,sj->si", transfer[:, :, :n], means) + transfer[:, :, n]

    def body(after: Gaussian, segment: tuple[Array, Array, Array, Array]) -> tuple[Gaussian, Gaussian]:
        mean, expected, gain, spread = segment
        here = Gaussian(mean + gain @ (after.mean - expected), spread + gain @ after.covariance @ gain.T)
        return here, after

    _, ends = jax.lax.scan(body, borders.last, (means, expected, gains, spreads), reverse=True)
    return Gaussian(*(jnp.moveaxis(x, 0, -1) for x in ends))


@one_kernel
def filter_rows(rows: SegmentRows, left: Gaussian) -> FilteredSegments:
    """Filter every segment from the state at its left border."""

    def body(state: Gaussian, row: SegmentRows) -> tuple[Gaussian, FilteredSegments]:
        predicted = row.transitions.move(state.mean)[:, None]
        covariance = row.transitions.predict_covariance(state.covariance)
        step = update(covariance, row.precision, predicted, row.information)
        mean = (predicted + transpose_times(step.root, step.surprise))[:, 0]
        shift = solve_upper(step.factor, step.reciprocals, step.surprise)[:, 0]
        out = FilteredSegments(mean, step.root, products(step.reciprocals), jnp.sum(shift**2, axis=0))
        return Gaussian(mean, transpose_times(step.root, step.root)), out

    filtered = jax.lax.scan(body, left, rows)[1]
    return filtered._replace(log_dets=-2.0 * jnp.sum(jnp.log(filtered.log_dets), axis=1))


_Row = tuple[Array, Array, Transition, Array]


def _smooth_row(later: Gaussian, row: _Row, last: Gaussian) -> tuple[Gaussian, Array]:
    """Return a row's states given all rows, and its lag-one covariances as in :class:`SmoothedRows`."""
    (filtered_mean, root, transition), is_last = materialize(row[:3]), row[3]
    carried = materialize(transition.matrix.transposed().times_from_right(root))
    predicted = materialize(transpose_times(carried, carried) + transition.innovation_covariance())
    triangle = cholesky(predicted)
    transposed_gain = solve_upper(*triangle, solve_lower(*triangle, transpose_times(carried, root)))
    narrowed = materialize(root - times(carried, transposed_gain))
    change = (later.mean - transition.move(filtered_mean))[:, None]
    mean = filtered_mean + transpose_times(transposed_gain, change)[:, 0]
    cross_products = materialize(times(later.covariance, transposed_gain))
    beyond = materialize(transition.innovation.times(transposed_gain) + cross_products)
    covariance = transpose_times(narrowed, narrowed) + transpose_times(transposed_gain, beyond)
    state = Gaussian(jnp.where(is_last, last.mean, mean), jnp.where(is_last, last.covariance, covariance))
    return state, jnp.where(is_last, transposed_gain, cross_products)


def _smoother_rows(filtered: FilteredSegments, following: Transition) -> _Row:
    """Return inputs of the backward pass for each row, with a flag of the last row."""
    n_rows = filtered.means.shape[0]
    return filtered.means, filtered.roots, following, jnp.arange(n_rows) == n_rows - 1


@one_kernel
def smooth_rows(filtered: FilteredSegments, following: Transition, last: Gaussian) -> SmoothedRows:
    """Smooth every segment from its last state; ``following`` (L, K, S) leads to the next row."""

    def body(later: Gaussian, row: _Row) -> tuple[Gaussian, SmoothedRows]:
        state, lag_one = _smooth_row(later, row, last)
        return state, SmoothedRows(*state, lag_one)

    return jax.lax.scan(body, last, _smoother_rows(filtered, following), reverse=True)[1]


@one_kernel
def smooth_rows_for_sums(filtered: FilteredSegments, following: Transition, last: Gaussian) -> SummedRows:
    """Smooth every segment, and store only the moments that sums over rows use."""
    n = last.mean.shape[0]

    def body(
        carry: tuple[Gaussian, Array], row: _Row
    ) -> tuple[tuple[Gaussian, Array], tuple[Array, Array, Array]]:
        state, lag_one = _smooth_row(carry[0], row, last)
        upper = jnp.concatenate([state.covariance[i, i:] for i in range(n)])
        own = row[2].lag_terms(lag_one)
        return (state, jnp.where(row[3], lag_one, carry[1])), (state.mean, upper, own)

    start = (last, jnp.zeros_like(last.covariance))
    (first, gain), rows = jax.lax.scan(body, start, _smoother_rows(filtered, following), reverse=True)
    return SummedRows(*rows, first, gain)


def cut(collapsed: Collapsed, transitions: Transition, n_segments: int) -> SegmentRows:
    """Return the inputs of the passes, reshaped into segments."""
    precision, information = (to_segments(rows, n_segments) for rows in collapsed)
    return SegmentRows(precision, information, transitions_to_segments(transitions, n_segments))


def filtered_terms(filtered: FilteredSegments) -> tuple[Array, Array, Array]:
    """Return filtered means and the two terms of the likelihood in the order of rows."""
    terms = (filtered.log_dets.T.reshape(-1), filtered.distances.T.reshape(-1))
    return from_segments(filtered.means), *terms


def _next_of_last(first: Array, after: Gaussian) -> Array:
    """Return the covariance (K, K, S) of the state after each segment, the ``first`` of the next one."""
    return jnp.concatenate([first[:, :, 1:], after.covariance[:, :, None]], axis=2)


def packed_in_order(rows: SummedRows, after: Gaussian, following: Transition) -> PackedMoments:
    """Return moments in the order of rows, which are along the last axis."""
    next_covariance = _next_of_last(rows.first.covariance, after)
    across = following.at(-1).lag_terms_of_product(next_covariance, rows.last_gain)
    lag_one = jnp.concatenate([rows.lag_one[:-1], across[None]])
    moments = (rows.means, rows.covariances, lag_one)
    return PackedMoments(*(jnp.transpose(x, (1, 2, 0)).reshape(x.shape[1], -1) for x in moments))


class SegmentedForward(NamedTuple):
    """Results of the forward pass that the backward pass uses."""

    filtered: FilteredSegments
    segments: Summaries
    borders: Borders

    @property
    def last(self) -> Gaussian:
        """Distribution of the last state given the rows."""
        return self.borders.last


@dataclass(frozen=True)
class Segmented:
    """Filter and smoother over segments in parallel, a :class:`.Strategy`.

    Attributes
    ----------
    n_segments : int
        Number of segments, which divides the rows.
    """

    n_segments: int

    name: ClassVar[str] = "segmented"
    low_optimization: ClassVar[bool] = False

    def join(self, segments: Summaries, before: Gaussian) -> Borders:
        """Return the distributions at the borders of the segments."""
        return join(segments, before)

    def join_back(self, segments: Summaries, borders: Borders) -> Gaussian:
        """Return the last state of every segment given all rows."""
        return join_back(segments, borders)

    @staticmethod
    def tracing() -> AbstractContextManager[None]:
        """Return the context in which programs with this strategy are traced."""
        return nullcontext()

    def forward(self, problem: Problem, before: Gaussian) -> tuple[SegmentedForward, Array]:
        """See :class:`.Strategy`."""
        rows = cut(collapse(problem), problem.transitions, self.n_segments)
        with self.tracing():
            segments = summarize(rows)
            borders = self.join(segments, before)
            filtered = filter_rows(rows, borders.left)
        result = SegmentedForward(filtered, segments, borders)
        return result, row_log_likelihoods(problem, *filtered_terms(filtered))

    def packed_moments(self, problem: Problem, result: SegmentedForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        with self.tracing():
            ends, following = self._ends(problem, result, after)
            smoothed = smooth_rows_for_sums(result.filtered, following, ends)
            return packed_in_order(smoothed, after, following)

    def moments(self, problem: Problem, result: SegmentedForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        with self.tracing():
            ends, following = self._ends(problem, result, after)
            rows = smooth_rows(result.filtered, following, ends)
        across = times(_next_of_last(rows.covariances[0], after), rows.lag_one[-1])
        in_segments = (rows.means, rows.covariances, rows.lag_one.at[-1].set(across))
        return RowMoments(*map(from_segments, in_segments))

    def _ends(
        self, problem: Problem, result: SegmentedForward, after: Gaussian
    ) -> tuple[Gaussian, Transition]:
        """Return the last states of segments given all rows, and the transitions to the next rows."""
        # The last state of all given the state after it, by the formulas of :mod:`.recursions`.
        gain, spread = condition(result.filtered.roots[-1, :, :, -1].T, problem.after)
        filtered = result.last
        mean = filtered.mean + gain @ (after.mean - problem.after.move(filtered.mean))
        last = Gaussian(mean, spread @ spread.T + gain @ after.covariance @ gain.T)
        ends = self.join_back(result.segments, result.borders._replace(last=last))
        return ends, transitions_to_segments(problem.following, self.n_segments)
