"""Kalman filter and smoother over many short segments, joined by an associative scan, for accelerators.

:mod:`.segmented` computes a summary of each segment, and then filters the states at the segment boundaries
one after the other. In this module, the states at the boundaries are computed in parallel. The summaries of
two adjacent segments can be combined to a summary of the same form, and this operation is associative (Särkkä
& García-Fernández 2021, doi:10.1109/TAC.2020.2976316). For ``S`` segments, all boundaries are computed in
``log2 S`` steps, each for all segments at once. Accelerators run 100,000 threads, so that segments should
have one or a few rows. For the symbols see :mod:`.segmented`.

*Forward.* Let the first of two adjacent segments have ``F1``, ``m1``, ``P1 = L L'`` and ``J1``, and the
second ``F2``, ``m2``, ``P2``, ``J2`` and ``h2``. With ``B = I + L' J2 L`` and ``W = L B^-1/2``, the state
between them, given the state ``s`` before both, has the covariance ``W W'`` and the mean ``g = F1 s + m1 + L
B^-1 L' (h2 - J2 (F1 s + m1))``. The combined summary is::

    F s + m  =  F2 g + m2      P  =  P2 + F2 W (F2 W)'      J  =  J1 + (L^-1 F1)' (I - B^-1) (L^-1 F1)

The paper has equivalent formulas with the inverse of ``I + P J``, which is badly scaled for small noise. The
formulas above are sums of positive terms. The distribution of the state before the first row is a summary
with ``F = 0`` and ``J = 0``.

*Backward.* Given the state ``e`` at the next boundary, the state at a boundary has the conditional
distribution ``N(G e + g, C)``. Two successive conditional distributions are combined to one with ``G1 G2``,
``G1 g2 + g1`` and ``C1 + G1 C2 G1'``. The last state of all rows is an element with ``G = 0``.

*Doubling.* After step ``i`` every element is combined with the ``2^i - 1`` elements before it (Hillis &
Steele 1986, doi:10.1145/7902.7903). This requires ``S log2 S`` combinations; a tree
(``jax.lax.associative_scan``) requires about ``2 S``. But doubling requires half as many sequential steps,
accesses contiguous memory, and is one loop. For 5 latent factors and 8,192 segments on a CPU, the tree takes
47 s to compile, because each of its levels is a program; the loop takes 5 s.

*Cost.* With ``n`` latent factors, ``T`` rows and ``S`` segments, the numbers of floating-point operations and
the minimum memory traffic are:

===================================== ================================ =======================
part                                  operations                       bytes
===================================== ================================ =======================
a row: summary, filter and smoother   ``34 n^3``                       ``8 (5.5 n^2 + 9.5 n)``
a row: additional for all moments                                      ``12 n^2``
a combination, forward and backward   ``27 n^3``                       ``8 (15 n^2 + 9 n)``
all rows and combinations             ``(34 T + 27 S log2 S) n^3``
===================================== ================================ =======================

For 65,536 rows and 8,192 segments, these are ``78 n^3`` operations for each row; plain recursions require
``17 n^3``. For ``n = 5``, the traffic is about 7 kB for each row, which takes 0.14 ms for all rows on an H100
with 3.35 TB/s; the 0.6 GFLOP take less time. Launches of kernels are expected to take most of the time: the
``3 T / S`` steps inside segments and ``2 log2 S`` combinations are sequential, and each launches about ten
kernels, which takes a few microseconds for each kernel. Segments should therefore be as short as the number
of threads allows.
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
from probsfa.statespace.engine.segmented import Boundaries, Segmented, Summaries, condition_on_next, update

_Elements = TypeVar("_Elements", bound=tuple[Array, ...])


class ConditionalStates(NamedTuple):
    """Distribution ``N(G e + g, covariance)`` of a state given the state ``e`` at the next boundary.

    ``transfer`` (K, K + 1, S) are the columns of ``G`` and then ``g``.
    """

    transfer: Array
    covariance: Array


def scan(merge: Callable[[_Elements, _Elements], _Elements], elements: _Elements) -> _Elements:
    """Combine each element with all elements before it, along the last axis.

    ``merge(earlier, later)`` is associative and combines all pairs of two batches of elements.
    """
    n = elements[0].shape[-1]
    index = jnp.arange(n, dtype=np.int32)
    shifts = jnp.asarray([1 << i for i in range((n - 1).bit_length())], dtype=np.int32)

    def double(elements: _Elements, shift: Array) -> tuple[_Elements, None]:
        # The first elements, which are combined with elements from the end of the array, are not changed.
        merged = merge(jax.tree.map(lambda x: jnp.roll(x, shift, axis=-1), elements), elements)
        return jax.tree.map(lambda new, old: jnp.where(index >= shift, new, old), merged, elements), None

    return jax.lax.scan(double, elements, shifts)[0]


@one_kernel
def combine_segments(first: Summaries, second: Summaries) -> Summaries:
    """Combine the summaries of two adjacent segments, for all pairs of two batches."""
    n = first.covariance.shape[0]
    step = update(first.covariance, -second.potential[:, :n], first.transfer, second.potential[:, n])
    between = materialize(first.transfer + transpose_times(step.root, step.whitened_innovation))
    propagated = materialize(times_transpose(step.root, second.transfer[:, :n]))
    return Summaries(
        _with_constant(times(second.transfer[:, :n], between), second.transfer),
        second.covariance + transpose_times(propagated, propagated),
        first.potential + transpose_times(step.whitened_columns, step.whitened_innovation),
    )


@one_kernel
def combine_conditionals(later: ConditionalStates, earlier: ConditionalStates) -> ConditionalStates:
    """Combine distributions given the next state to distributions given the state two boundaries later."""
    gain = earlier.transfer[:, :-1]
    cross_products = materialize(times_transpose(later.covariance, gain))
    return ConditionalStates(
        _with_constant(times(gain, later.transfer), earlier.transfer),
        earlier.covariance + times(gain, cross_products),
    )


def _with_constant(transfer: Array, constant: Array) -> Array:
    """Add the last column of ``constant`` to that of ``transfer``, both (K, K + 1, S)."""
    return transfer.at[:, -1].add(constant[:, -1])


def join(segments: Summaries, before: Gaussian) -> Boundaries:
    """Filter the states at the left boundaries of all segments."""
    n = before.mean.shape[0]
    transfer = jnp.zeros_like(segments.transfer[..., 0]).at[:, n].set(before.mean)
    start = Summaries(transfer, before.covariance, jnp.zeros_like(transfer))
    scanned = scan(combine_segments, jax.tree.map(_shift_with_first, start, segments))
    left = Gaussian(scanned.transfer[:, n], scanned.covariance)
    step = update(left.covariance, -segments.potential[:, :n], left.mean[:, None], segments.potential[:, n])
    means = left.mean + transpose_times(step.root, step.whitened_innovation)[:, 0]
    matrix, constant = segments.transfer[:, :n, -1], segments.transfer[:, n, -1]
    propagated = matrix @ step.root[:, :, -1].T
    last = Gaussian(
        matrix @ means[:, -1] + constant, propagated @ propagated.T + segments.covariance[:, :, -1]
    )
    return Boundaries(left, means, step.root, last)


def _shift_with_first(first: Array, elements: Array) -> Array:
    """Insert an element at the start, and drop the last one."""
    return jnp.concatenate([first[..., None], elements[..., :-1]], axis=-1)


def join_back(segments: Summaries, boundaries: Boundaries) -> Gaussian:
    """Return the smoothed last states of all segments, from the smoothed state of the last row."""
    n = boundaries.last.mean.shape[0]
    gain, conditional_covariance = condition_on_next(segments, boundaries.roots)
    transfer = segments.transfer[:, :n]
    expected = times(transfer, boundaries.means[:, None])[:, 0] + segments.transfer[:, n]
    constant = boundaries.means - times(gain, expected[:, None])[:, 0]
    conditionals = ConditionalStates(
        jnp.concatenate([gain, constant[:, None]], axis=1), conditional_covariance
    )
    last = ConditionalStates(
        jnp.zeros_like(conditionals.transfer[..., 0]).at[:, n].set(boundaries.last.mean),
        boundaries.last.covariance,
    )
    backwards = jax.tree.map(
        lambda first, x: _shift_with_first(first, jnp.flip(x, axis=-1)), last, conditionals
    )
    ends = jax.tree.map(lambda x: jnp.flip(x, axis=-1), scan(combine_conditionals, backwards))
    return Gaussian(ends.transfer[:, n], ends.covariance)


@dataclass(frozen=True)
class ParallelScan(Segmented):
    """Segments joined by a parallel scan, a :class:`.Strategy`."""

    name: ClassVar[str] = "scan"
    low_optimization: ClassVar[bool] = False

    def join(self, segments: Summaries, before: Gaussian) -> Boundaries:
        """Return the distributions at the boundaries of the segments."""
        return join(segments, before)

    def join_back(self, segments: Summaries, boundaries: Boundaries) -> Gaussian:
        """Return the last state of every segment given all rows."""
        return join_back(segments, boundaries)

    @staticmethod
    def tracing() -> AbstractContextManager[None]:
        """Return the context for tracing, without kernel hints.

        For many segments and large K, XLA cannot compile all operations to a single kernel on CPUs.
        """
        return without_kernel_hints()
