"""Kalman filter and smoother over segments of rows in parallel, in JAX.

A pass over time is a sequence of small dependent steps, which cannot use the vector units of a processor.
With ``S`` segments, each step is computed for all segments at once (:mod:`.batched`). A segment depends on
earlier segments only through the distribution of the state ``s`` at its left boundary, the last state of the
previous segment. The algorithm is exact:

1. *Summarize.* Filter every segment given ``s``. The last state of the segment is then ``N(F s + m, P)``, and
   the likelihood of its rows as a function of ``s`` is proportional to ``exp(h' s - s' J s / 2)``, the
   potential of the segment. The conditional distribution and the potential are the summary of the segment.
2. *Join.* Filter the states at the ``S`` boundaries one after the other.
3. *Filter* every segment again, from the distribution of the state at its left boundary.
4. *Smooth* the last states of all segments by a backward pass over the boundaries, then every segment from
   its last state.

Let ``P`` be the filtered covariance of ``z_t``, ``z_t+1 = A z_t + e`` with ``Cov e = Q``, ``P_t+1|T`` the
smoothed covariance of ``z_t+1``, and ``G = P A' (A P A' + Q)^-1`` the smoother gain. The smoothed covariance
of ``z_t`` is ``(I - G A) P (I - G A)' + G (Q + P_t+1|T) G'`` (Rauch, Tung & Striebel 1965). The information
form with ``A' Q^-1 A`` would have no significant digits for closely spaced rows, because entries of ``Q^-1``
of a smooth process grow with the third power of the reciprocal gap. In this module all results are sums of
positive terms, as accurate as results of :mod:`.recursions`.

The last axis of arrays is the segment: ``(L, n, S)`` for ``n`` numbers at each of ``L`` rows.
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
    """Summary of each segment, given the state ``s`` at its left boundary.

    The last state is ``N(F s + m, covariance)``; ``transfer`` (K, K + 1, S) are the columns of ``F`` and then
    ``m``. The likelihood of the rows is proportional to ``exp(h' s - s' J s / 2)``; ``potential``
    (K, K + 1, S) are the columns of ``-J`` and then ``h``.
    """

    transfer: Array
    covariance: Array
    potential: Array


class FilteredSegments(NamedTuple):
    """Filtered ``means`` (L, K, S) and transposed ``roots`` (L, K, K, S).

    ``log_dets`` (L, S) and ``distances`` (L, S) are the terms of log densities of :class:`.Filtered`.
    """

    means: Array
    roots: Array
    log_dets: Array
    distances: Array


class SmoothedRows(NamedTuple):
    """Smoothed ``means`` (L, K, S), ``covariances`` (L, K, K, S) and ``lag_one`` (L, K, K, S).

    ``lag_one`` is the covariance of the next state (rows) with this state (columns). In the last row of a
    segment it is the transposed gain instead, because the next state belongs to another segment.
    """

    means: Array
    covariances: Array
    lag_one: Array


class SummedRows(NamedTuple):
    """Smoothed moments that sums over rows use.

    ``means`` (L, K, S); ``covariances`` (L, K (K + 1) / 2, S), upper triangles; ``lag_one`` (L, n, S), the
    ``n`` :meth:`.Transition.lag_terms` of each state and the next one, undefined in the last row of a
    segment. ``first`` is the distribution of the first state of each segment, ``last_gain`` (K, K, S) the
    transposed gain of its last state.
    """

    means: Array
    covariances: Array
    lag_one: Array
    first: Gaussian
    last_gain: Array


def to_segments(rows: Array, n_segments: int) -> Array:
    """Reshape rows (T, ...) to segments (L, ..., S)."""
    return jnp.moveaxis(rows.reshape(n_segments, -1, *rows.shape[1:]), 0, -1)


def transitions_to_segments(transitions: Transition, n_segments: int) -> Transition:
    """Reshape the transitions of rows (T, K) to segments (L, K, S)."""
    return transitions.map(lambda rows: to_segments(rows, n_segments))


def from_segments(segments: Array) -> Array:
    """Reshape segments (L, ..., S) to rows (T, ...)."""
    joined = jnp.moveaxis(segments, -1, 0)
    return joined.reshape(-1, *joined.shape[2:])


class Update(NamedTuple):
    """Product of a Gaussian ``N(m, L L')`` and a potential ``exp(h' z - z' J z / 2)``.

    ``X`` is the lower triangle with ``X X' = I + L' J L``.

    Attributes
    ----------
    root : Array of shape (K, K, S)
        Transposed root ``W' = X^-1 L'`` of the updated covariance.
    whitened_innovation : Array of shape (K, J, S)
        ``X^-1 L' (h - J m)`` for columns ``m``; its product with ``W`` is the change of the mean.
    whitened_columns : Array of shape (K, J - 1, S)
        ``X^-1 L^-1 m`` for all columns except the last one.
    factor : Array of shape (K, K, S)
        ``X'``.
    reciprocals : Array of shape (K, S)
        Reciprocals of the diagonal of ``X``.
    """

    root: Array
    whitened_innovation: Array
    whitened_columns: Array
    factor: Array
    reciprocals: Array


def update(covariance: Array, precision: Array, predicted: Array, information: Array) -> Update:
    """Multiply Gaussian densities by potentials.

    Parameters
    ----------
    covariance : Array of shape (K, K, S)
        Covariances ``L L'`` of the Gaussians.
    precision : Array of shape (K, K, S)
        ``J``.
    predicted : Array of shape (K, J, S)
        Columns ``m``. Only the last column is a mean; for the other columns, ``h`` is zero.
    information : Array of shape (K, S)
        ``h``.
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
    root, whitened_innovation, whitened_columns = jnp.split(solved, (n, n + last + 1), axis=1)
    return Update(root, whitened_innovation, whitened_columns, factor, reciprocals)


@one_kernel
def summarize(rows: SegmentRows) -> Summaries:
    """Compute the summary of each segment."""
    _, n, n_segments = rows.information.shape
    zeros = jnp.zeros((n, n + 1, n_segments), rows.information.dtype)
    # The columns of F are propagated like means, without observations.
    start = Summaries(zeros.at[:, :n].set(identity_like(zeros[:, :n])), zeros[:, :n], zeros)

    def body(state: Summaries, row: SegmentRows) -> tuple[Summaries, None]:
        predicted = row.transitions.move(state.transfer)
        covariance = row.transitions.predict_covariance(state.covariance)
        step = update(covariance, row.precision, predicted, row.information)
        return Summaries(
            predicted + transpose_times(step.root, step.whitened_innovation),
            transpose_times(step.root, step.root),
            state.potential + transpose_times(step.whitened_columns, step.whitened_innovation),
        ), None

    return jax.lax.scan(body, start, rows)[0]


class Boundaries(NamedTuple):
    """Distributions of the states at the left boundaries of segments, and of the last state of all rows.

    ``left`` is the distribution given all rows before the segment. ``means`` (K, S) and transposed ``roots``
    (K, K, S) describe the distribution of the same state given also the rows of the segment.
    """

    left: Gaussian
    means: Array
    roots: Array
    last: Gaussian


def join(segments: Summaries, before: Gaussian) -> Boundaries:
    """Filter the states at the left boundaries of all segments, one after the other."""
    n = before.mean.shape[0]
    identity = jnp.eye(n, dtype=before.mean.dtype)

    def body(state: Gaussian, segment: Summaries) -> tuple[Gaussian, tuple[Gaussian, Array, Array]]:
        precision, information = -segment.potential[:, :n], segment.potential[:, n]
        lower = jnp.linalg.cholesky(state.covariance, symmetrize_input=False)
        factor = jnp.linalg.cholesky(identity + lower.T @ precision @ lower, symmetrize_input=False)
        whitened_innovation = lower.T @ (information - precision @ state.mean)
        solved = triangular_solve(
            factor,
            jnp.concatenate([lower.T, whitened_innovation[:, None]], axis=1),
            left_side=True,
            lower=True,
        )
        root = solved[:, :-1].T
        updated = state.mean + root @ solved[:, -1]
        transfer, constant = segment.transfer[:, :n], segment.transfer[:, n]
        propagated = transfer @ root
        after = Gaussian(transfer @ updated + constant, propagated @ propagated.T + segment.covariance)
        return after, (state, updated, solved[:, :-1])

    last, boundaries = jax.lax.scan(body, before, _segments_first(segments))
    left, means, roots = jax.tree.map(lambda x: jnp.moveaxis(x, 0, -1), boundaries)
    return Boundaries(left, means, roots, last)


def _segments_first(segments: Summaries) -> Summaries:
    return Summaries(*(jnp.moveaxis(x, -1, 0) for x in segments))


@one_kernel
def condition_on_next(segments: Summaries, roots: Array) -> tuple[Array, Array]:
    """Return gain and covariance (K, K, S) of the state at each boundary, given the state at the next one.

    ``roots`` (K, K, S) are transposed roots of the covariance of the state at the left boundary, given the
    rows up to the next boundary. On CPUs no library is called: batched calls deadlock if several of them run
    on few cores (JAX 0.10).
    """
    n = segments.covariance.shape[0]
    propagated = materialize(times_transpose(roots, segments.transfer[:, :n]))
    predicted = transpose_times(propagated, propagated) + segments.covariance
    cross_products = transpose_times(propagated, roots)
    solved = whiten(predicted, jnp.concatenate([cross_products, identity_like(cross_products)], axis=1))
    gain = materialize(transpose_times(solved[:, :n], solved[:, n:]))
    conditional_root = materialize(roots - times_transpose(propagated, gain))
    propagated_noise = times(gain, materialize(times_transpose(segments.covariance, gain)))
    return gain, transpose_times(conditional_root, conditional_root) + propagated_noise


def join_back(segments: Summaries, boundaries: Boundaries) -> Gaussian:
    """Return the smoothed last states of all segments, from the smoothed state of the last row."""
    n = boundaries.last.mean.shape[0]
    gains, conditional_covariances = (
        jnp.moveaxis(x, -1, 0) for x in condition_on_next(segments, boundaries.roots)
    )
    means, transfer = boundaries.means.T, jnp.moveaxis(segments.transfer, -1, 0)
    expected = jnp.einsum("sij,sj->si", transfer[:, :, :n], means) + transfer[:, :, n]

    def body(after: Gaussian, segment: tuple[Array, Array, Array, Array]) -> tuple[Gaussian, Gaussian]:
        mean, expected, gain, conditional_covariance = segment
        smoothed = Gaussian(
            mean + gain @ (after.mean - expected), conditional_covariance + gain @ after.covariance @ gain.T
        )
        return smoothed, after

    _, ends = jax.lax.scan(
        body, boundaries.last, (means, expected, gains, conditional_covariances), reverse=True
    )
    return Gaussian(*(jnp.moveaxis(x, 0, -1) for x in ends))


@one_kernel
def filter_rows(rows: SegmentRows, left: Gaussian) -> FilteredSegments:
    """Filter every segment from the state at its left boundary."""

    def body(state: Gaussian, row: SegmentRows) -> tuple[Gaussian, FilteredSegments]:
        predicted = row.transitions.move(state.mean)[:, None]
        covariance = row.transitions.predict_covariance(state.covariance)
        step = update(covariance, row.precision, predicted, row.information)
        mean = (predicted + transpose_times(step.root, step.whitened_innovation))[:, 0]
        shift = solve_upper(step.factor, step.reciprocals, step.whitened_innovation)[:, 0]
        out = FilteredSegments(mean, step.root, products(step.reciprocals), jnp.sum(shift**2, axis=0))
        return Gaussian(mean, transpose_times(step.root, step.root)), out

    filtered = jax.lax.scan(body, left, rows)[1]
    return filtered._replace(log_dets=-2.0 * jnp.sum(jnp.log(filtered.log_dets), axis=1))


_Row = tuple[Array, Array, Transition, Array]


def _smooth_row(later: Gaussian, row: _Row, last: Gaussian) -> tuple[Gaussian, Array]:
    """Return the smoothed states of a row of all segments, and ``lag_one`` as in :class:`SmoothedRows`."""
    (filtered_mean, root, transition), is_last = materialize(row[:3]), row[3]
    propagated = materialize(transition.matrix.transposed().times_from_right(root))
    predicted = materialize(transpose_times(propagated, propagated) + transition.innovation_covariance())
    predicted_factor = cholesky(predicted)
    transposed_gain = solve_upper(
        *predicted_factor, solve_lower(*predicted_factor, transpose_times(propagated, root))
    )
    conditional_root = materialize(root - times(propagated, transposed_gain))
    prediction_error = (later.mean - transition.move(filtered_mean))[:, None]
    mean = filtered_mean + transpose_times(transposed_gain, prediction_error)[:, 0]
    lag_one = materialize(times(later.covariance, transposed_gain))
    next_covariance_gain = materialize(transition.innovation.times(transposed_gain) + lag_one)
    covariance = transpose_times(conditional_root, conditional_root) + transpose_times(
        transposed_gain, next_covariance_gain
    )
    state = Gaussian(jnp.where(is_last, last.mean, mean), jnp.where(is_last, last.covariance, covariance))
    return state, jnp.where(is_last, transposed_gain, lag_one)


def _smoother_rows(filtered: FilteredSegments, following: Transition) -> _Row:
    """Return the inputs of the backward pass for each row; the last input marks the last row of a segment."""
    n_rows = filtered.means.shape[0]
    return filtered.means, filtered.roots, following, jnp.arange(n_rows) == n_rows - 1


@one_kernel
def smooth_rows(filtered: FilteredSegments, following: Transition, last: Gaussian) -> SmoothedRows:
    """Smooth every segment from its last state; ``following`` (L, K, S) are transitions to the next rows."""

    def body(later: Gaussian, row: _Row) -> tuple[Gaussian, SmoothedRows]:
        state, lag_one = _smooth_row(later, row, last)
        return state, SmoothedRows(*state, lag_one)

    return jax.lax.scan(body, last, _smoother_rows(filtered, following), reverse=True)[1]


@one_kernel
def smooth_rows_for_sums(filtered: FilteredSegments, following: Transition, last: Gaussian) -> SummedRows:
    """Smooth every segment, and return only the moments that sums over rows use."""
    n = last.mean.shape[0]

    def body(
        carry: tuple[Gaussian, Array], row: _Row
    ) -> tuple[tuple[Gaussian, Array], tuple[Array, Array, Array]]:
        state, lag_one = _smooth_row(carry[0], row, last)
        upper = jnp.concatenate([state.covariance[i, i:] for i in range(n)])
        lag_terms = row[2].lag_terms(lag_one)
        return (state, jnp.where(row[3], lag_one, carry[1])), (state.mean, upper, lag_terms)

    start = (last, jnp.zeros_like(last.covariance))
    (first, gain), rows = jax.lax.scan(body, start, _smoother_rows(filtered, following), reverse=True)
    return SummedRows(*rows, first, gain)


def make_segment_rows(collapsed: Collapsed, transitions: Transition, n_segments: int) -> SegmentRows:
    """Return the inputs of the passes over segments."""
    precision, information = (to_segments(rows, n_segments) for rows in collapsed)
    return SegmentRows(precision, information, transitions_to_segments(transitions, n_segments))


def filtered_terms(filtered: FilteredSegments) -> tuple[Array, Array, Array]:
    """Return filtered means and the two terms of the likelihood in the order of rows."""
    terms = (filtered.log_dets.T.reshape(-1), filtered.distances.T.reshape(-1))
    return from_segments(filtered.means), *terms


def _next_covariances(first: Array, after: Gaussian) -> Array:
    """Return the covariance (K, K, S) of the state after each segment.

    The state is the ``first`` state of the next segment, or the state ``after`` all rows.
    """
    return jnp.concatenate([first[:, :, 1:], after.covariance[:, :, None]], axis=2)


def packed_in_row_order(rows: SummedRows, after: Gaussian, following: Transition) -> PackedMoments:
    """Return moments in the order of rows, which are along the last axis."""
    next_covariance = _next_covariances(rows.first.covariance, after)
    lag_one_between = following.at(-1).lag_terms_of_product(next_covariance, rows.last_gain)
    lag_one = jnp.concatenate([rows.lag_one[:-1], lag_one_between[None]])
    moments = (rows.means, rows.covariances, lag_one)
    return PackedMoments(*(jnp.transpose(x, (1, 2, 0)).reshape(x.shape[1], -1) for x in moments))


class SegmentedForward(NamedTuple):
    """Results of the forward pass that the backward pass uses."""

    filtered: FilteredSegments
    segments: Summaries
    boundaries: Boundaries

    @property
    def last(self) -> Gaussian:
        """Distribution of the last state given the rows."""
        return self.boundaries.last


@dataclass(frozen=True)
class Segmented:
    """Filter and smoother over segments in parallel, a :class:`.Strategy`.

    Attributes
    ----------
    n_segments : int
        Number of segments; the number of rows must be a multiple of it.
    """

    n_segments: int

    name: ClassVar[str] = "segmented"
    low_optimization: ClassVar[bool] = False

    def join(self, segments: Summaries, before: Gaussian) -> Boundaries:
        """Return the distributions at the boundaries of the segments."""
        return join(segments, before)

    def join_back(self, segments: Summaries, boundaries: Boundaries) -> Gaussian:
        """Return the last state of every segment given all rows."""
        return join_back(segments, boundaries)

    @staticmethod
    def tracing() -> AbstractContextManager[None]:
        """Return the context in which programs with this strategy are traced."""
        return nullcontext()

    def forward(self, problem: Problem, before: Gaussian) -> tuple[SegmentedForward, Array]:
        """See :class:`.Strategy`."""
        rows = make_segment_rows(collapse(problem), problem.transitions, self.n_segments)
        with self.tracing():
            segments = summarize(rows)
            boundaries = self.join(segments, before)
            filtered = filter_rows(rows, boundaries.left)
        result = SegmentedForward(filtered, segments, boundaries)
        return result, row_log_likelihoods(problem, *filtered_terms(filtered))

    def packed_moments(self, problem: Problem, result: SegmentedForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        with self.tracing():
            ends, following = self._ends(problem, result, after)
            smoothed = smooth_rows_for_sums(result.filtered, following, ends)
            return packed_in_row_order(smoothed, after, following)

    def moments(self, problem: Problem, result: SegmentedForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        with self.tracing():
            ends, following = self._ends(problem, result, after)
            rows = smooth_rows(result.filtered, following, ends)
        lag_one_between = times(_next_covariances(rows.covariances[0], after), rows.lag_one[-1])
        in_segments = (rows.means, rows.covariances, rows.lag_one.at[-1].set(lag_one_between))
        return RowMoments(*map(from_segments, in_segments))

    def _ends(
        self, problem: Problem, result: SegmentedForward, after: Gaussian
    ) -> tuple[Gaussian, Transition]:
        """Return the last states of segments given all rows, and the transitions to the next rows."""
        # The smoothed last state of all rows, by the formulas of :mod:`.recursions`.
        gain, conditional_root = condition(result.filtered.roots[-1, :, :, -1].T, problem.after)
        filtered = result.last
        mean = filtered.mean + gain @ (after.mean - problem.after.move(filtered.mean))
        last = Gaussian(mean, conditional_root @ conditional_root.T + gain @ after.covariance @ gain.T)
        ends = self.join_back(result.segments, result.boundaries._replace(last=last))
        return ends, transitions_to_segments(problem.following, self.n_segments)
