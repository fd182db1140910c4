"""Segments of rows side by side in the information form: the strategy for up to 32 latents.

A filtered state is kept by its precision ``F`` and its mean. A row adds a precision ``J`` and an information
``h`` (:mod:`.recursions`), and a transition ``A``, ``Q`` to the next state costs a single inverse::

    S = (F + A' Q^-1 A)^-1                    Cov(z_t | z_t+1 and the rows up to t)
    Pi = Q^-1 - Q^-1 A S A' Q^-1              precision of the next state, predicted
    F <- Pi + J,    m <- A m + F^-1 (h - J A m)

(Anderson & Moore 1979, section 6.3). Going back, ``G = S A' Q^-1`` is the gain of a state on the next one,
and ``P_t = S + G P_t+1 G'``. ``A`` and ``Q`` are diagonal but for blocks of two states, so that products with
them cost little.

As in :mod:`.segmented`, rows are cut into segments whose passes go side by side, and what a segment must know
of the others is found exactly:

1. *Eliminate* the rows of each segment in turn, given the state ``s`` before it, as long as later states
   depend on that. What is left is ``exp(z' (X s + f) - z' F z / 2 + v' s - s' V s / 2)``. ``X`` vanishes as
   the filter forgets: in some dozen rows where latents are quick or well seen, else not within the segment.
2. *Filter* the rows after those, which know nothing of ``s``.
3. *Join* the segments in a chain over the states between them.
4. *Filter* the first rows of each segment from the state before it, and
5. *smooth* all rows from the last state of each segment, once the chain has been run through backwards.

*Floating-point operations of a row*, with ``n`` latents: ``2 n^3`` for the inverse, ``n^3`` for the filtered
mean, ``4 n^3`` to smooth, and ``6 n^3`` more in the rows that are eliminated: ``7 n^3`` to ``13 n^3``, where
:mod:`.segmented` has ``34 n^3`` and :mod:`.recursions` ``17 n^3``. It is quicker than the count says by its
layout: numbers of all segments lie side by side, so that loops over them are vector instructions, without
a call of a library for each matrix, which at a dozen latents costs more than the work in it.

*Accuracy.* Precisions lose as many roundings as they are large: ``1 / (1 - a^2)`` of a slow latent, where
``Pi`` is a difference, and what a row says where noise is small. :func:`largest_precision` bounds both.

Arrays over segments have the segment last: ``(L, n, S)`` for ``n`` numbers at each of ``L`` rows. Products
are sums over the second index of both factors (:func:`.times_transpose`): along the first one, neighbours may
be a power of two of bytes apart, and displace each other in the cache.
"""

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.lax.linalg import triangular_solve

from probsfa._typing import FloatArray
from probsfa.statespace.engine.batched import (
    MOST_UNROLLED,
    dot,
    identity_like,
    inverse,
    products,
    solve,
    times_transpose,
    times_vector,
    transpose_times,
)
from probsfa.statespace.engine.compiler import materialize, one_kernel
from probsfa.statespace.engine.dynamics import Blocks, Gaussian, Precisions, Transition, transition_over
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.recursions import collapse, row_log_likelihoods
from probsfa.statespace.engine.segmented import from_segments, to_segments
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

#: Most precision of a filtered state with which this is chosen, so that ten digits are left; and that of few
#: latents seen in as many columns: they lose less, and what else serves takes twice as long to compile.
MOST_PRECISION, MOST_PRECISION_OF_FEW = 1e4, 6e4
#: The same for sums that tell where to step next: moments of a row keep eight digits, log-likelihoods eleven.
MOST_PRECISION_OF_STEPS = 3e5

# Dependence on the state at the left border that is none any more: states have a variance of one.
_NEGLIGIBLE = 1e-15
# Rows that are eliminated between two looks at what is left of that dependence.
_ROWS_AT_ONCE = 8


_T = TypeVar("_T")


def _row(rows: _T, t: Array) -> _T:
    """Row ``t`` of the arrays of a tree."""
    return jax.tree.map(lambda x: jax.lax.dynamic_index_in_dim(x, t, keepdims=False), rows)


def _with_row(rows: _T, t: Array | np.int32, values: _T) -> _T:
    """The arrays of a tree with other values in row ``t``."""
    return jax.tree.map(lambda x, y: jax.lax.dynamic_update_index_in_dim(x, y, t, 0), rows, values)


class SegmentRows(NamedTuple):
    """What the forward pass reads of each row.

    ``precision`` (L, K, K, S) and ``information`` (L, K, S), and the ``steps`` that lead to it.
    """

    precision: Array
    information: Array
    steps: "Steps"


class Steps(NamedTuple):
    """Transitions into each row of the segments, (L, K, S), and the same in the information form."""

    transition: Transition
    inverse: Precisions

    @classmethod
    def of(cls, transitions: Transition, n_segments: int) -> "Steps":
        """From the transitions of rows (T, K)."""
        # Blocks have the batch last.
        precisions = jax.tree.map(lambda x: x.T, transitions.as_batch().in_information_form())
        both = cls(transitions, precisions)
        return jax.tree.map(lambda rows: to_segments(rows, n_segments), both)


class Potentials(NamedTuple):
    """What the rows of each segment say of the state ``s`` before it and of a later one, ``z``.

    They multiply the densities by ``exp(z' (X s + f) - z' F z / 2 + v' s - s' V s / 2)``.

    Attributes
    ----------
    precision : Array of shape (K, K, S)
        ``F``.
    cross : Array of shape (K + 1, K, S)
        The columns of ``X``, and then ``f``, as rows.
    before : Array of shape (K + 1, K, S)
        The columns of ``-V``, and then ``v``, as rows.
    """

    precision: Array
    cross: Array
    before: Array


class FilteredRows(NamedTuple):
    """What the forward pass leaves of the rows of each segment, after the state before the first one.

    Attributes
    ----------
    means : Array of shape (L + 1, K, S)
        Filtered means.
    conditional : Array of shape (L + 1, K, K, S)
        Covariances of each state given the next one and the rows up to its own, ``S`` of the module; the last
        one of a segment is the first of the next segment, and has no meaning here.
    pivots, next_pivots : Array of shape (L + 1, N, S)
        Products of a few pivots each: their logs add up to ``log|F|`` and to ``-log|S|``.
    distances : Array of shape (L + 1, S)
        Squared distance of the filtered mean from the predicted one, in units of the predicted covariance.
    """

    means: Array
    conditional: Array
    pivots: Array
    next_pivots: Array
    distances: Array


class Borders(NamedTuple):
    """The states between the segments.

    Attributes
    ----------
    precision, information : Array of shape (K, K, S) and (K, S)
        Of the state before each segment given all rows before it.
    spreads, gains, constants : Array of shape (K, K, S), (K, K, S) and (K, S)
        Given the last state ``e`` of the segment, too, that state is ``N(gain e + constant, spread)``.
    """

    precision: Array
    information: Array
    spreads: Array
    gains: Array
    constants: Array


class InformationState(NamedTuple):
    """States by ``precision`` (K, K, S) and ``information`` (K, S), its product with the mean."""

    precision: Array
    information: Array


class SmoothedRows(NamedTuple):
    """Moments of the rows given all data.

    Attributes
    ----------
    means : Array of shape (L, K, S)
        Means.
    covariances : Array of shape (L, K, K, S) or (L, N, S)
        Covariances, or their upper triangles.
    lag_one : Array of shape (L, K, K, S) or (L, N, S)
        Covariances of the next state with this one, or of these the :meth:`.Transition.lag_terms`; the last
        row of a segment has none.
    """

    means: Array
    covariances: Array
    lag_one: Array


def _largest(matrices: Array) -> Array:
    """Largest magnitude.

    Not by one reduction: of larger arrays XLA makes a call of a library, which a single kernel cannot hold.
    """
    largest = jnp.abs(matrices)
    for _ in range(2):
        largest = functools.reduce(jnp.maximum, list(largest))
    return functools.reduce(jnp.maximum, [largest[s] for s in range(largest.shape[0])])


def _eliminate(rows: SegmentRows) -> tuple[Potentials, Array]:
    """Eliminate rows until states no longer depend on that before the segment; also how many it takes."""
    n_rows, n, _ = rows.information.shape
    first = jax.tree.map(lambda x: x[0], rows)
    inverse_step = first.steps.inverse
    own = inverse_step.gain(identity_like(first.precision))
    start = Potentials(
        inverse_step.innovation.matrix() + first.precision,
        jnp.concatenate([own, first.information[None]]),
        jnp.pad(-inverse_step.known.matrix(), ((0, 1), (0, 0), (0, 0))),
    )

    def row(t: Array, state: Potentials) -> Potentials:
        precision, information, (_, step) = _row(rows, t)
        conditional, _ = inverse(materialize(state.precision + step.known.matrix()))
        solved = materialize(times_transpose(state.cross, conditional))
        return Potentials(
            step.predicted_precision(conditional) + precision,
            step.gain(solved) + jnp.pad(information[None], ((n, 0), (0, 0), (0, 0))),
            state.before + times_transpose(solved, state.cross[:n]),
        )

    def several(carry: tuple[Array, Array, Potentials]) -> tuple[Array, Array, Potentials]:
        t, _, state = carry
        end = jnp.minimum(t + np.int32(_ROWS_AT_ONCE), np.int32(n_rows))
        state = jax.lax.fori_loop(t, end, row, state)
        return end, _largest(state.cross[:n]), state

    def goes_on(carry: tuple[Array, Array, Potentials]) -> Array:
        t, dependence, _ = carry
        return (t < np.int32(n_rows)) & (dependence > _NEGLIGIBLE)

    one = jnp.asarray(1, np.int32)
    end, _, state = jax.lax.while_loop(goes_on, several, (one, jnp.ones_like(own[0, 0, 0]), start))
    return state, end


def _filter(
    rows: SegmentRows, state: InformationState, first: Array, last: Array, into: FilteredRows
) -> tuple[InformationState, FilteredRows]:
    """Filter the rows from ``first`` to ``last``, given the state of the first; also gives that of the last.

    Row -1 is the state before the segment. The first row's distance has no meaning.
    """
    n_rows = rows.information.shape[0]
    nothing = jnp.zeros_like(state.precision)

    def row(t: Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        filtered, predicted, moved, missed, _, _, into = carry
        change, pivots = solve(filtered, missed)
        mean = moved + change
        # Of the last row of a segment, any: what leads from it to the next segment is found there.
        following = jnp.minimum(t + np.int32(1), np.int32(n_rows - 1))
        precision, information, (transition, step) = _row(rows, following)
        conditional, next_pivots = inverse(materialize(filtered + step.known.matrix()))
        distance = dot(list(change), list(times_vector(predicted, change)))
        out = FilteredRows(mean, conditional, products(pivots), products(next_pivots), distance)
        into = _with_row(into, t + np.int32(1), out)
        information_here = times_vector(filtered, moved) + missed
        moved = transition.move(mean)
        predicted = materialize(step.predicted_precision(conditional))
        missed = materialize(information - times_vector(precision, moved))
        return predicted + precision, predicted, moved, missed, filtered, information_here, into

    zero = jnp.zeros_like(state.information)
    start = (state.precision, nothing, zero, state.information, nothing, zero, into)
    *_, precision, information, into = jax.lax.fori_loop(first, last + np.int32(1), row, start)
    return InformationState(precision, information), into


def _lane(arrays: _T, s: Array) -> _T:
    """The arrays of one segment."""
    return jax.tree.map(lambda x: jax.lax.dynamic_slice_in_dim(x, s, 1, axis=-1), arrays)


def _with_lane(arrays: _T, s: Array, values: _T) -> _T:
    return jax.tree.map(lambda x, y: jax.lax.dynamic_update_slice_in_dim(x, y, s, axis=-1), arrays, values)


def _join(
    segments: Potentials, before: InformationState, into: Borders, count: Array
) -> tuple[InformationState, Borders]:
    """Run through the first ``count`` borders from the state before all rows; gives the last state, too."""
    n = before.information.shape[0]

    def border(s: Array, carry: tuple[InformationState, Borders]) -> tuple[InformationState, Borders]:
        state, into = carry
        segment = _lane(segments, s)
        spread, _ = inverse(materialize(state.precision - segment.before[:n]))
        known = (state.information + segment.before[n])[:, None]
        cross = materialize(jnp.concatenate([segment.cross[:n], known], axis=1))
        solved = materialize(transpose_times(spread, cross))
        change = transpose_times(cross[:, :n], solved)
        into = _with_lane(into, s, Borders(*state, spread, solved[:, :n], solved[:, n]))
        later = InformationState(segment.precision - change[:, :n], segment.cross[n] + change[:, n])
        return later, into

    return jax.lax.fori_loop(np.int32(0), count, border, (before, into))


@one_kernel
def filter_segments(
    rows: SegmentRows, before: InformationState
) -> tuple[FilteredRows, Borders, InformationState]:
    """Filter all rows, from the state before them, of one segment; gives the last state of all, too."""
    n_rows, n, n_segments = rows.information.shape
    potentials, end = _eliminate(rows)

    def zeros(*shape: int) -> Array:
        return jnp.zeros((*shape, n_segments), rows.information.dtype)

    n_products = -(-n // MOST_UNROLLED)
    sizes = ((n,), (n, n), (n_products,), (n_products,), ())
    out = FilteredRows(*(zeros(n_rows + 1, *size) for size in sizes))
    borders = Borders(zeros(n, n), zeros(n), zeros(n, n), zeros(n, n), zeros(n))
    # Twice: rows after those eliminated, and, once the segments are joined, these. A loop is compiled once.
    start = InformationState(potentials.precision, potentials.cross[n])

    def phase(i: Array, carry: tuple[Any, ...]) -> tuple[Any, ...]:
        state, first, last, out, last_of_all, borders = carry
        state, out = _filter(rows, state, first, last, out)
        cross = jnp.concatenate([potentials.cross[:n], state.information[None]])
        count = jnp.where(i == 0, np.int32(n_segments), np.int32(0))
        given = jax.tree.map(lambda x, y: jnp.where(i == 0, x, y), before, last_of_all)
        last_of_all, borders = _join(
            Potentials(state.precision, cross, potentials.before), given, borders, count
        )
        left = InformationState(borders.precision, borders.information)
        return left, jnp.asarray(-1, np.int32), end - np.int32(1), out, last_of_all, borders

    carry = (start, end - np.int32(1), jnp.asarray(n_rows - 1, np.int32), out, before, borders)
    *_, out, last, borders = jax.lax.fori_loop(np.int32(0), np.int32(2), phase, carry)
    return out, borders, last


def _smooth(
    transitions: Transition, weights: Blocks, filtered: tuple[Array, Array], last: Gaussian, *, full: bool
) -> tuple[Gaussian, SmoothedRows]:
    """Smooth every segment from its last state; gives the first one, too.

    ``filtered`` are means and conditional covariances of :class:`FilteredRows`.
    """
    n_rows, n = filtered[0].shape[0] - 1, filtered[0].shape[1]

    def stored(state: Gaussian, lag_one: Array, step: Transition) -> SmoothedRows:
        if full:
            return SmoothedRows(state.mean, state.covariance, lag_one)
        upper = jnp.concatenate([state.covariance[i, i:] for i in range(n)])
        return SmoothedRows(state.mean, upper, step.lag_terms(lag_one))

    def row(i: Array, carry: tuple[Gaussian, SmoothedRows]) -> tuple[Gaussian, SmoothedRows]:
        later, into = carry
        t = np.int32(n_rows - 2) - i
        transition, weights_here = _row((transitions, weights), t + np.int32(1))
        mean, spread = (_row(x, t + np.int32(1)) for x in filtered)
        gain = materialize(weights_here.of_columns(spread))
        crossed = materialize(times_transpose(gain, later.covariance))
        missed = materialize(later.mean - transition.move(mean))
        state = Gaussian(
            mean + times_vector(gain, missed), materialize(spread + times_transpose(gain, crossed))
        )
        return state, _with_row(into, t, stored(state, crossed.swapaxes(0, 1), transition))

    end = stored(last, jnp.zeros_like(last.covariance), transitions.at(0))
    room = jax.tree.map(lambda x: jnp.zeros((n_rows, *x.shape), x.dtype), end)
    start = (last, _with_row(room, np.int32(n_rows - 1), end))
    return jax.lax.fori_loop(np.int32(0), np.int32(n_rows - 1), row, start)


@one_kernel
def smooth_rows(
    transitions: Transition, weights: Blocks, filtered: tuple[Array, Array], last: Gaussian
) -> tuple[Gaussian, SmoothedRows]:
    """Smooth every segment from its last state."""
    return _smooth(transitions, weights, filtered, last, full=True)


@one_kernel
def smooth_rows_for_sums(
    transitions: Transition, weights: Blocks, filtered: tuple[Array, Array], last: Gaussian
) -> tuple[Gaussian, SmoothedRows]:
    """Smooth every segment, and store upper triangles and :meth:`.Transition.lag_terms` alone."""
    return _smooth(transitions, weights, filtered, last, full=False)


def _join_back(borders: Borders, last: Gaussian) -> Gaussian:
    """Last state of every segment given all rows, from that of the last one."""

    def body(after: Gaussian, border: tuple[Array, ...]) -> tuple[Gaussian, Gaussian]:
        spread, gain, constant = border
        state = Gaussian(constant + gain @ after.mean, spread + gain @ after.covariance @ gain.T)
        return state, after

    segments_first = tuple(jnp.moveaxis(x, -1, 0) for x in borders[2:])
    _, ends = jax.lax.scan(body, last, segments_first, reverse=True)
    return Gaussian(*(jnp.moveaxis(x, 0, -1) for x in ends))


def _invert(matrix: Array) -> Array:
    """Inverse of a symmetric positive definite matrix."""
    lower = jnp.linalg.cholesky(matrix, symmetrize_input=False)
    identity = jnp.eye(matrix.shape[0], dtype=matrix.dtype)
    root = triangular_solve(lower, identity, left_side=True, lower=True)
    return root.T @ root


class InformationForward(NamedTuple):
    """What the forward pass leaves for the backward one.

    ``last`` is the distribution of the last state, ``last_spread`` (K, K) its covariance given the next one.
    """

    filtered: FilteredRows
    borders: Borders
    last: Gaussian
    last_spread: Array

    @property
    def last_root(self) -> FloatArray:
        """Root ``W`` (K, K) of the covariance ``W W'`` of the last state, outside compiled programs."""
        return np.linalg.cholesky(np.asarray(self.last.covariance))


@dataclass(frozen=True)
class InformationForm:
    """The strategy of this module.

    Attributes
    ----------
    n_segments : int
        Number of segments, which divides the rows into two or more each.
    """

    n_segments: int

    name: ClassVar[str] = "information_form"
    few_passes: ClassVar[bool] = True
    shares_forward: ClassVar[bool] = True

    def forward(self, problem: Problem, before: Gaussian) -> tuple[InformationForward, Array]:
        """See :class:`.Strategy`."""
        precision, information = (to_segments(x, self.n_segments) for x in collapse(problem))
        rows = SegmentRows(precision, information, Steps.of(problem.transitions, self.n_segments))
        precision = _invert(before.covariance)
        start = InformationState(precision[..., None], (precision @ before.mean)[:, None])
        filtered, borders, end = filter_segments(rows, start)
        covariance = _invert(end.precision[..., 0])
        last = Gaussian(covariance @ end.information[:, 0], covariance)
        spread = _invert(end.precision[..., 0] + problem.after.in_information_form().known.matrix())
        result = InformationForward(filtered, borders, last, spread)
        return result, _row_log_likelihoods(problem, filtered)

    def packed_moments(self, problem: Problem, result: InformationForward, after: Gaussian) -> PackedMoments:
        """See :class:`.Strategy`."""
        ends, steps = self._ends(problem, result, after)
        first, rows = smooth_rows_for_sums(steps.transition, steps.inverse.weights, result.filtered[:2], ends)
        step, later, gain = _across(problem, result, steps, first, after)
        lag_one = jnp.concatenate([rows.lag_one[:-1], step.lag_terms_of_product(later, gain)[None]])
        moments = (rows.means, rows.covariances, lag_one)
        return PackedMoments(*(jnp.transpose(x, (1, 2, 0)).reshape(x.shape[1], -1) for x in moments))

    def moments(self, problem: Problem, result: InformationForward, after: Gaussian) -> RowMoments:
        """See :class:`.Strategy`."""
        ends, steps = self._ends(problem, result, after)
        first, rows = smooth_rows(steps.transition, steps.inverse.weights, result.filtered[:2], ends)
        _, later, gain = _across(problem, result, steps, first, after)
        across = transpose_times(later, gain)
        return RowMoments(*map(from_segments, rows._replace(lag_one=rows.lag_one.at[-1].set(across))))

    def _ends(self, problem: Problem, result: InformationForward, after: Gaussian) -> tuple[Gaussian, Steps]:
        """Last state of every segment given all rows, and the steps to each row."""
        filtered, spread, step = result.last, result.last_spread, problem.after
        gain = step.gain(spread)
        mean = filtered.mean + gain @ (after.mean - step.move(filtered.mean))
        last = Gaussian(mean, spread + gain @ after.covariance @ gain.T)
        return _join_back(result.borders, last), Steps.of(problem.transitions, self.n_segments)


def _across(
    problem: Problem, result: InformationForward, steps: Steps, first: Gaussian, after: Gaussian
) -> tuple[Transition, Array, Array]:
    """From the last state of a segment to the next: the transition, its covariance, the transposed gain."""

    def moved_on(arrays: Array, last: Array) -> Array:
        return jnp.concatenate([arrays[..., 1:], last[..., None]], axis=-1)

    step = jax.tree.map(moved_on, steps.transition.at(0), problem.after)
    spread = moved_on(result.filtered.conditional[0], result.last_spread)
    return step, moved_on(first.covariance, after.covariance), step.gain_transposed(spread)


def _row_log_likelihoods(problem: Problem, filtered: FilteredRows) -> Array:
    """Log density of each row given the rows before it."""
    # log|P F|, with P the predicted covariance: |P| = |Q| |S^-1| / |F|, the last two of the row before.
    log_dets, next_log_dets = (jnp.sum(jnp.log(x), axis=1) for x in filtered[2:4])
    changes = (log_dets[1:] - log_dets[:-1] + next_log_dets[:-1]).T.reshape(-1)
    innovations = problem.transitions.as_batch().innovation_log_det()
    terms = (changes + innovations, filtered.distances[1:].T.reshape(-1))
    return row_log_likelihoods(problem, from_segments(filtered.means[1:]), *terms)


def most_precision(params: Parameters, *, for_steps: bool = False) -> float:
    """Most precision of a filtered state with which this is chosen, for results or for steps of a climb."""
    if for_steps:
        return MOST_PRECISION_OF_STEPS
    few = params.n_states <= min(MOST_UNROLLED, params.n_features)
    return MOST_PRECISION_OF_FEW if few else MOST_PRECISION


def largest_precision(params: Parameters, panel: Panel) -> float:
    """Bound on the precision of a filtered state: what a row says, and what a known state before it would.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        The rows.
    """
    with np.errstate(all="ignore"):
        scaled = params.loadings / np.sqrt(params.noise_variance)[:, None]
        gram = scaled.T @ scaled if scaled.shape[0] > scaled.shape[1] else scaled @ scaled.T
        # Innovations grow with the time that passes.
        step = transition_over(params, np.min(panel.gaps, keepdims=True))
        if params.latents.n_pairs:
            innovations = np.linalg.eigvalsh(np.asarray(step.at(0).innovation_covariance()))[0]
        else:
            innovations = np.min(step.innovation_variance)
        if not np.all(np.isfinite(gram)) or not innovations > 0.0:
            return np.inf
    most_weight = 1.0 if panel.weights is None else float(np.max(panel.weights[:]))
    return most_weight * float(np.linalg.eigvalsh(gram)[-1]) + 1.0 / float(innovations)
