"""Rows worked through from both ends at once, one processor core at each end.

The latents are stationary: read backwards in time, a series follows a model of the same kind, with the
transitions reversed over the same gaps (:meth:`.Transition.reversed`). So the rows are cut in two; one thread
filters the first part forwards and another the second part backwards, with the same programs and from the
same stationary distribution. In the middle there is the distribution of ``z_m``, the last state of the first
part, given that part, and that of ``z_m+1`` given the second part. With ``A``, ``Q`` the
transition between the two (``A = 0`` where a sequence begins)::

    p = A m1,   S = A P1 A' + Q                              z_m+1 given the first part
    J = P2^-1 - 1,   J m2 + m2                               what the second part adds to it

because the stationary distribution, which the second part started from too, must count once. Then both smooth
outwards from the middle, each from the other's last state given all rows, and their sums add up. All is
exact; this is the two-filter formula (Fraser & Potter 1969), whose backward filter is an ordinary one here.

The stable forms are those of :mod:`.recursions`: what is factorised is ``1 + L' J L`` with
``S = L L'``, and ``J`` comes from a root of ``P2``, so it is positive whether ``P2`` is tiny or nearly one.
"""

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Gaussian, Transition
from probsfa.statespace.engine.problem import Chunks, cached_rows
from probsfa.statespace.engine.settings import engine_settings
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.engine.strategy import Strategy
from probsfa.statespace.engine.sweep import InTurn, Sweep, complete
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters


class End(NamedTuple):
    """The last state that one side reached, given its rows: ``mean`` (K,), covariance ``W W'``."""

    mean: FloatArray
    root: FloatArray


class Combined(NamedTuple):
    """A state given all rows, and how much likelier the two sides are together than apart.

    ``mean`` (K,), ``covariance`` (K, K) and ``log_ratio``, the log of the joint density of the rows of both
    sides over the product of their densities, in nats.
    """

    mean: FloatArray
    covariance: FloatArray
    log_ratio: float


def combine(own: End, other: End, between: Transition) -> Combined:
    """Distribution of a side's last state given all rows.

    Parameters
    ----------
    own : End
        Where the side whose state is asked for ended.
    other : End
        Where the other side ended.
    between : Transition
        From the other side's state to this one, forwards or backwards in time.

    Returns
    -------
    Combined
    """
    predicted, scaled = np.asarray(between.move(other.mean)), np.asarray(between.move(other.root))
    spread = scaled @ scaled.T + np.asarray(between.innovation_covariance())
    lower = cholesky(spread, lower=True)
    # P2 = U s^2 U' of the root itself: small variances keep their digits, which those of P2 would not.
    axes, sizes, _ = np.linalg.svd(own.root)
    precision = np.maximum((1.0 - sizes) * (1.0 + sizes), 0.0) / sizes**2
    turned = axes.T @ lower
    factor = cholesky(np.eye(len(sizes)) + (turned.T * precision) @ turned, lower=True)
    surprise = turned.T @ (precision * (axes.T @ (own.mean - predicted))) + lower.T @ own.mean
    update = cho_solve((factor, True), surprise)
    mean = predicted + lower @ update
    root = solve_triangular(factor, lower.T, lower=True).T
    # At the mean, the exponent is three squares; written otherwise it is a difference of large numbers.
    missed = (axes.T @ (mean - own.mean)) / sizes
    squares = update @ update + missed @ missed - mean @ mean
    log_det = 2.0 * float(np.sum(np.log(sizes)) + np.sum(np.log(np.diag(factor))))
    return Combined(mean, root @ root.T, -0.5 * (float(squares) + log_det))


class _Backwards:
    """Rows of an array in reverse order, cut out when asked for; rows past the end of the array are zero."""

    def __init__(self, rows: Any, first: int, n_rows: int) -> None:
        self.shape = (n_rows, int(rows.shape[1]))
        self._rows, self._last = rows, first + n_rows

    def __getitem__(self, part: slice) -> FloatArray:
        first, end = self._last - part.stop, self._last - part.start
        block = np.asarray(self._rows[first : min(end, self._rows.shape[0])])
        return np.pad(block, ((0, end - first - block.shape[0]), (0, 0)))[::-1]


def backwards(panel: Panel, first: int, n_rows: int) -> Panel:
    """Rows from ``first`` on in reverse order, after as many empty rows as make them ``n_rows``.

    ``gap_index`` has one entry more than there are rows, for the gap to row ``first - 1``.
    """
    n_gaps = panel.gaps.shape[0]
    index = np.full(n_rows + 1, n_gaps, dtype=panel.gap_index.dtype)
    # The gap that leads into a row leads, in reverse, into the row before it.
    known = panel.gap_index[first : first + n_rows + 1]
    index[: known.shape[0]] = known
    values, weights = (_Backwards(rows, first, n_rows) for rows in (panel.values, panel.cell_weights))
    return panel._replace(values=values, mask=weights, gap_index=index[::-1], complete=False, weights=weights)


def run_both(first: Iterable[object], second: Iterable[object]) -> None:
    """Go through two iterables at once, the second in a thread of its own.

    Where one fails or is interrupted, the other stops after its current item, no thread is left, and the
    exception is raised.
    """
    stopped, failures = threading.Event(), list[BaseException]()
    device = jax.config.jax_default_device  # type: ignore[attr-defined]

    def exhaust(items: Iterable[object]) -> None:
        try:
            for _ in items:
                if stopped.is_set():
                    return
        except BaseException:
            stopped.set()
            raise

    def exhaust_in_thread() -> None:
        try:
            # Settings of JAX made in a `with` block are those of one thread.
            with engine_settings(), jax.default_device(device):
                exhaust(second)
        except BaseException as error:
            failures.append(error)

    other = threading.Thread(target=exhaust_in_thread)
    try:
        other.start()
        exhaust(first)
        other.join()
    finally:
        stopped.set()
        if other.is_alive():
            other.join()
    if failures:
        raise failures[0]


@dataclass(frozen=True)
class TwoFilter(InTurn):
    """Sums over rows from both ends at once; everything else chunk by chunk in turn.

    Attributes
    ----------
    half_rows : int
        Rows of a chunk where the two halves are worked through at once, at most half of all rows.
    half_strategy : Strategy
        How each of these is.
    """

    half_rows: int
    half_strategy: Strategy

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """See :class:`.Route`."""
        first, second = (
            Sweep(params, panel, self.half_strategy, chunks, self.cached_bytes // 2, backwards=reverse)
            for chunks, reverse in zip(halves(panel, self.half_rows), (False, True), strict=True)
        )
        run_both(*(map(jax.block_until_ready, side.filter_chunks()) for side in (first, second)))
        between = first.chunks.after_index(len(first.chunks) - 1)
        transition = first.model.transitions.map(np.asarray).at(between)
        ends = _end(first), _end(second)
        here, there = combine(*ends, transition.reversed()), combine(*ends[::-1], transition)
        run_both(
            map(jax.block_until_ready, first.sum_chunks(_gaussian(there))),
            map(jax.block_until_ready, second.sum_chunks(_gaussian(here))),
        )
        value = first.log_likelihood + second.log_likelihood + here.log_ratio
        sums = [x + y for x, y in zip(first.totals, second.totals, strict=True)]
        return complete(first.model, value, sums)


def halves(panel: Panel, rows: int) -> tuple[Chunks, Chunks]:
    """The chunks of the first rows of a panel, and those of the others in reverse order."""
    n_chunks = -(-panel.values.shape[0] // rows)
    n_first = -(-n_chunks // 2)
    n_second = n_chunks - n_first
    second = backwards(panel, n_first * rows, n_second * rows)
    return (
        Chunks(panel, rows, n_first, cached_rows(panel, rows)),
        Chunks(second, rows, n_second, cached_rows(panel, rows, n_first)),
    )


def _end(side: Sweep) -> End:
    assert side.last is not None
    return End(np.array(side.last.last.mean), side.last.last_root)


def _gaussian(combined: Combined) -> Gaussian:
    return Gaussian(jnp.asarray(combined.mean), jnp.asarray(combined.covariance))
