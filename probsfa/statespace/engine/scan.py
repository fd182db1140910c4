"""Joins of many segments by an associative scan: the strategy for accelerators.

:mod:`.segmented` summarizes each segment: its last state given the state ``s`` at its left border,
``N(F s + m, P)``, and the potential of its rows about that state, ``exp(h' s - s' J s / 2)``; then it filters
the borders one after the other. Here the borders are computed in parallel: the summaries of two adjacent
segments combine to one of the same form, and this operation is associative (Särkkä & García-Fernández 2021,
doi:10.1109/TAC.2020.2976316). All borders are computed in ``log2 S`` steps, each for all ``S`` segments at
once. Accelerators run 100,000 threads, so that segments have one or a few rows.

*Forward.* With ``P = L L'`` of the first of two adjacent segments, ``J`` and ``h`` of the second, and
``B = I + L' J L`` and ``W = L B^-1/2``, the state between them, given the one before them, has the covariance
``W W'`` and the mean ``g = F s + m + L B^-1 L' (h - J (F s + m))``, and the combined summary is::

    F, m  <-  F2 g + m2        P  <-  P2 + F2 W (F2 W)'        J  <-  J1 + (L^-1 F1)' (I - B^-1) (L^-1 F1)

These are the elements of the paper in another form: sums of positive terms, without the inverse of ``I + P
J``, which is badly scaled for small noise. The distribution of the state before the first row is an element
with ``F = 0`` and ``J = 0``.

*Backward.* Each border is ``N(G e + g, S)`` given the next one, ``e``. Two of these in succession combine to
``G1 G2``, ``G1 g2 + g1``, ``S1 + G1 S2 G1'``. The last state of all is an element with ``G = 0``.

*Doubling.* After step ``i`` every element combines itself and the ``2^i - 1`` before it (Hillis & Steele
1986, doi:10.1145/7902.7903). This takes ``S log2 S`` merges, against about ``2 S`` in a tree
(``jax.lax.associative_scan``). However, doubling takes half as many sequential steps, accesses contiguous
memory, and is one loop. The tree compiles a program for each of its levels, which takes 47 s for 5 latent
factors and 8,192 segments on a CPU, against 5 s for the loop.

*Work.* With ``n`` latent factors, a row takes about ``17 n^3`` flops to summarize, ``8 n^3`` to filter and
``9 n^3`` to smooth; a merge takes ``21 n^3`` forward and ``6 n^3`` backward. For ``T`` rows in ``S`` segments
this is ``34 T n^3 + 27 S log2(S) n^3``; for 65,536 rows and 8,192 segments, ``78 n^3`` a row, against 17 of
plain recursions. Memory traffic is at least ``8 (5.5 n^2 + 9.5 n)`` bytes a row for sums, ``12 n^2`` more for
all moments, and ``8 (15 n^2 + 9 n)`` a merge, forward and backward together: at ``n = 5`` about 7 kB a row,
0.14 ms for 65,536 rows at an H100's 3.35 TB/s. The 0.6 GFLOP take less time. Kernel launches are expected to
dominate: ``3 T / S`` steps inside segments and ``2 log2 S`` merges run in sequence, each with about ten
kernels that take a few microseconds to start. Segments should therefore be as short as the number of threads
allows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa.statespace.engine.batched import times, times_transpose, transpose_times
from probsfa.statespace.engine.compiler import materialize, one_kernel, without_kernel_hints
from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.segmented import Borders, Segmented, Summaries, given_next, update

_Elements = TypeVar("_Elements", bound=tuple[Array, ...])


class Steps(NamedTuple):
    """A state given the next, ``N(G e + g, covariance)``; ``transfer``: columns of ``G``, then ``g``."""

    transfer: Array
    covariance: Array


def scan(merge: Callable[[_Elements, _Elements], _Elements], elements: _Elements) -> _Elements:
    """Merge each element with all those before it, the last axis running over elements.

    ``merge(earlier, later)`` is associative and works on every pair of elements at once.
    """
    n = elements[0].shape[-1]
    index = jnp.arange(n, dtype=np.int32)
    shifts = jnp.asarray([1 << i for i in range((n - 1).bit_length())], dtype=np.int32)

    def double(elements: _Elements, shift: Array) -> tuple[_Elements, None]:
        # Elements at the start wrap around to the end's elements, and are not changed.
        merged = merge(jax.tree.map(lambda x: jnp.roll(x, shift, axis=-1), elements), elements)
        return jax.tree.map(lambda new, old: jnp.where(index >= shift, new, old), merged, elements), None

    return jax.lax.scan(double, elements, shifts)[0]


@one_kernel
def combine_segments(first: Summaries, second: Summaries) -> Summaries:
    """Combine the summaries of two adjacent segments, for every pair of a batch."""
    n = first.covariance.shape[0]
    step = update(first.covariance, -second.potential[:, :n], first.transfer, second.potential[:, n])
    between = materialize(first.transfer + transpose_times(step.root, step.surprise))
    carried = materialize(times_transpose(step.root, second.transfer[:, :n]))
    return Summaries(
        _with_constant(times(second.transfer[:, :n], between), second.transfer),
        second.covariance + transpose_times(carried, carried),
        first.potential + transpose_times(step.carried, step.surprise),
    )


@one_kernel
def combine_steps(later: Steps, earlier: Steps) -> Steps:
    """Return a state given the one after the next, for all pairs of a batch; ``later`` is the second step."""
    gain = earlier.transfer[:, :-1]
    cross_products = materialize(times_transpose(later.covariance, gain))
    return Steps(
        _with_constant(times(gain, later.transfer), earlier.transfer),
        earlier.covariance + times(gain, cross_products),
    )


def _with_constant(transfer: Array, constant: Array) -> Array:
    """Add the last column of ``constant`` to that of ``transfer``, both (K, K + 1, S)."""
    return transfer.at[:, -1].add(constant[:, -1])


def join(segments: Summaries, before: Gaussian) -> Borders:
    """Return the states at the left border of every segment given all rows before it."""
    n = before.mean.shape[0]
    transfer = jnp.zeros_like(segments.transfer[..., 0]).at[:, n].set(before.mean)
    start = Summaries(transfer, before.covariance, jnp.zeros_like(transfer))
    scanned = scan(combine_segments, jax.tree.map(_shifted, start, segments))
    left = Gaussian(scanned.transfer[:, n], scanned.covariance)
    step = update(left.covariance, -segments.potential[:, :n], left.mean[:, None], segments.potential[:, n])
    means = left.mean + transpose_times(step.root, step.surprise)[:, 0]
    matrix, constant = segments.transfer[:, :n, -1], segments.transfer[:, n, -1]
    carried = matrix @ step.root[:, :, -1].T
    last = Gaussian(matrix @ means[:, -1] + constant, carried @ carried.T + segments.covariance[:, :, -1])
    return Borders(left, means, step.root, last)


def _shifted(first: Array, elements: Array) -> Array:
    """Shift elements by one place, after a first one."""
    return jnp.concatenate([first[..., None], elements[..., :-1]], axis=-1)


def join_back(segments: Summaries, borders: Borders) -> Gaussian:
    """Return the last state of every segment given all rows, from the last state of all."""
    n = borders.last.mean.shape[0]
    gain, spread = given_next(segments, borders.roots)
    transfer = segments.transfer[:, :n]
    expected = times(transfer, borders.means[:, None])[:, 0] + segments.transfer[:, n]
    constant = borders.means - times(gain, expected[:, None])[:, 0]
    steps = Steps(jnp.concatenate([gain, constant[:, None]], axis=1), spread)
    last = Steps(
        jnp.zeros_like(steps.transfer[..., 0]).at[:, n].set(borders.last.mean), borders.last.covariance
    )
    backwards = jax.tree.map(lambda first, x: _shifted(first, jnp.flip(x, axis=-1)), last, steps)
    ends = jax.tree.map(lambda x: jnp.flip(x, axis=-1), scan(combine_steps, backwards))
    return Gaussian(ends.transfer[:, n], ends.covariance)


@dataclass(frozen=True)
class ParallelScan(Segmented):
    """Segments joined by a parallel scan, a :class:`.Strategy`."""

    name: ClassVar[str] = "scan"
    low_optimization: ClassVar[bool] = False

    def join(self, segments: Summaries, before: Gaussian) -> Borders:
        """Return the distributions at the borders of the segments."""
        return join(segments, before)

    def join_back(self, segments: Summaries, borders: Borders) -> Gaussian:
        """Return the last state of every segment given all rows."""
        return join_back(segments, borders)

    @staticmethod
    def tracing() -> AbstractContextManager[None]:
        """Return the context for tracing, without kernel hints.

        XLA's compiler for CPUs cannot make a single kernel of operations on so many segments at large K.
        """
        return without_kernel_hints()
