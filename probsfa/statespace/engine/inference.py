"""The posterior of a stretch of rows, by whichever strategy is quickest for its size.

*Plain*: one step of the recursions for each row (:mod:`.recursions`). *Lockstep*: the stretch
cut into segments that take their steps together (:mod:`.segmented`); quicker where matrices
are so small that a processor would mostly wait, but it takes longer to compile. *Associative*: lockstep with
thousands of segments of few rows, joined by an associative scan (:mod:`.parallel_scan`); for
accelerators. All are exact. (Two more are chosen before it comes to this module, from the parameters or the
data: :mod:`.covariance_form` and :mod:`.steady_state`.)

A stretch may be the whole of the data or one chunk of it: it starts from the law of the state before its
first row and its backward pass from the law of the state after its last.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from probsfa.statespace.engine import parallel_scan, segmented
from probsfa.statespace.engine.batched import MOST_UNROLLED, on_cpu, times, without_kernel_hints
from probsfa.statespace.engine.recursions import (
    Collapsed,
    Filtered,
    Law,
    Smoothed,
    collapse,
    condition,
    filter_pass,
    smoother_pass,
)
from probsfa.statespace.engine.statistics import Moments
from probsfa.statespace.engine.symmetric import triangle

#: Most latents for which lockstep is quicker on a CPU.
MOST_LANE_COMPONENTS = MOST_UNROLLED
#: Fewest rows for which lockstep repays its longer compilation within one fit.
FEWEST_ROWS_FOR_ONE_FIT = 4096
#: The same where a program is run many thousand times.
FEWEST_ROWS_FOR_SAMPLING = 64
_SEGMENTS = (64, 32, 16, 8)
_SHORTEST_SEGMENT = 8

_associative_everywhere: ContextVar[bool] = ContextVar("associative_everywhere", default=False)


@contextmanager
def associative_everywhere() -> Iterator[None]:
    """Choose for CPUs, too, as for accelerators; for tests and measurements."""
    token = _associative_everywhere.set(True)
    try:
        # XLA's CPU compiler cannot make a single kernel of the operations on so many segments at large K.
        with without_kernel_hints():
            yield
    finally:
        _associative_everywhere.reset(token)


class Problem(NamedTuple):
    """Parameters and a stretch of rows: ``decays`` (T, K) lead to each row from the one before.

    ``after_decay`` (K,) leads from the last row to the one after; zero where nothing follows.
    """

    values: Array
    mask: Array
    decays: Array
    after_decay: Array
    loadings: Array
    noise_variance: Array
    offset: Array

    @property
    def following(self) -> Array:
        """Decays from each row to the next, shape (T, K)."""
        return jnp.concatenate([self.decays[1:], self.after_decay[None]])


class Forward(NamedTuple):
    """What the forward pass leaves for the backward one; ``filtered`` is the strategy's own."""

    filtered: Filtered | segmented.FilteredRows
    segments: segmented.Segments | None
    borders: segmented.Borders | parallel_scan.Borders | None
    last: Law


def choose_segments(n_rows: int, n_components: int, fewest_rows: int = FEWEST_ROWS_FOR_ONE_FIT) -> int:
    """Number of segments to cut ``n_rows`` into.

    One is the plain strategy, up to 64 are lockstep, and more are joined by an associative scan.
    """
    if _associative_everywhere.get() or not on_cpu():
        return parallel_scan.choose_segments(n_rows) if n_rows > _SEGMENTS[0] else 1
    if n_components > MOST_LANE_COMPONENTS or n_rows < fewest_rows:
        return 1
    fitting = (s for s in _SEGMENTS if n_rows % s == 0 and n_rows // s >= _SHORTEST_SEGMENT)
    return next(fitting, 1)


def forward(problem: Problem, before: Law, n_segments: int) -> tuple[Forward, Array]:
    """Filter, and the log density of each row given the rows before it, shape (T,).

    With the filtered mean in place of the predicted one, the quadratic form splits into two positive parts:
    the residual against the noise and the update against the predicted covariance.
    """
    collapsed = collapse(
        problem.values, problem.mask, problem.loadings, problem.noise_variance, problem.offset
    )
    if n_segments == 1:
        filtered, last = filter_pass(collapsed, problem.decays, before)
        result = Forward(filtered, None, None, last)
        means, log_dets, distances = filtered.means, filtered.log_dets, filtered.distances
    else:
        rows = lanes_of(collapsed, problem.decays, n_segments)
        segments = segmented.couple(rows)
        borders = join(segments, before)
        lanes = segmented.filter_rows(rows, borders.left)
        result = Forward(lanes, segments, borders, borders.last)
        means, log_dets, distances = filtered_rows(lanes)
    return result, row_log_likelihoods(problem, means, log_dets, distances)


def join(segments: segmented.Segments, before: Law) -> segmented.Borders | parallel_scan.Borders:
    """Law of the state at the left border of every segment: in turn, or all at once where there are many."""
    is_long = segments.covariance.shape[-1] > _SEGMENTS[0]
    return (parallel_scan if is_long else segmented).join(segments, before)


def join_back(
    segments: segmented.Segments, borders: segmented.Borders | parallel_scan.Borders
) -> segmented.LaneLaw:
    """Law of the last state of every segment given all rows."""
    if isinstance(borders, parallel_scan.Borders):
        return parallel_scan.join_back(segments, borders)
    return segmented.join_back(segments, borders)


def row_log_likelihoods(problem: Problem, means: Array, log_dets: Array, distances: Array) -> Array:
    """Log density of each row from the filtered means (T, K) and the two terms (T,) of the filter."""
    residuals = problem.values - problem.offset - means @ problem.loadings.T
    log_norm = problem.mask @ jnp.log(2.0 * jnp.pi * problem.noise_variance)
    quadratic = (problem.mask * residuals**2) @ (1.0 / problem.noise_variance)
    return -0.5 * (log_norm + quadratic + log_dets + distances)


def lanes_of(collapsed: Collapsed, decays: Array, n_segments: int) -> segmented.Rows:
    """What the lockstep passes read."""
    arrays = (collapsed.precision, collapsed.information, decays)
    return segmented.Rows(*(segmented.to_lanes(array, n_segments) for array in arrays))


def filtered_rows(lanes: segmented.FilteredRows) -> tuple[Array, Array, Array]:
    """Filtered means and the two terms of the likelihood in the order of rows."""
    terms = (lanes.log_dets.T.reshape(-1), lanes.distances.T.reshape(-1))
    return segmented.from_lanes(lanes.means), *terms


def _smoother_inputs(
    result: Forward, following: Array, after: Law
) -> tuple[segmented.FilteredRows, Array, segmented.LaneLaw]:
    """What the lockstep backward passes take."""
    lanes, segments, borders = result.filtered, result.segments, result.borders
    assert isinstance(lanes, segmented.FilteredRows) and segments is not None and borders is not None
    # The last state of all given the one after it, by the formulas of the plain strategy.
    gain, narrowed = condition(lanes.roots[-1, :, :, -1].T, following[-1])
    mean = result.last.mean + gain @ (after.mean - following[-1] * result.last.mean)
    last = Law(mean, narrowed @ narrowed.T + gain @ after.covariance @ gain.T)
    ends = join_back(segments, borders._replace(last=last))
    return lanes, segmented.to_lanes(following, lanes.means.shape[2]), ends


def backward(problem: Problem, result: Forward, after: Law) -> Moments:
    """Moments for the sums over rows, given the law of the state after the last row."""
    following = problem.following
    if result.segments is None:
        smoothed = smoother_pass(result.filtered, following, after, full=False)  # type: ignore[arg-type]
        n_rows = following.shape[0]
        return Moments(
            smoothed.means.T,
            smoothed.covariances.reshape(n_rows, -1)[:, triangle(following.shape[1]).flat].T,
            smoothed.lag_one.T,
        )
    rows = segmented.smooth_rows_for_sums(*_smoother_inputs(result, following, after))
    return moments_of_lanes(rows, after)


def moments_of_lanes(rows: segmented.SummedRows, after: Law) -> Moments:
    """Moments in the order of rows, which are along the last axis."""
    across = jnp.einsum("ijs,jis->is", _next_of_last(rows.first.covariance, after), rows.last_gain)
    lag_one = jnp.concatenate([rows.lag_one[:-1], across[None]])
    moments = (rows.means, rows.covariances, lag_one)
    return Moments(*(jnp.transpose(x, (1, 2, 0)).reshape(x.shape[1], -1) for x in moments))


def backward_in_full(problem: Problem, result: Forward, after: Law) -> Smoothed:
    """All moments of all rows."""
    following = problem.following
    if result.segments is None:
        return smoother_pass(result.filtered, following, after)  # type: ignore[arg-type]
    rows = segmented.smooth_rows(*_smoother_inputs(result, following, after))
    return Smoothed(*map(segmented.from_lanes, (rows.means, rows.covariances, _lag_one(rows, after))))


def _lag_one(rows: segmented.SmoothedRows, after: Law) -> Array:
    """Covariance of the next state with this one: (L, K, K, S)."""
    return rows.lag_one.at[-1].set(times(_next_of_last(rows.covariances[0], after), rows.lag_one[-1]))


def _next_of_last(first: Array, after: Law) -> Array:
    """Covariance (K, K, S) of the state after each segment, which is the ``first`` of the next one."""
    return jnp.concatenate([first[:, :, 1:], after.covariance[:, :, None]], axis=2)
