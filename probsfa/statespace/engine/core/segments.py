"""Segments of rows in parallel, in information form (precisions): fast if noise is not tiny."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from probsfa._threads import on_two_threads
from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.passes import Arrays, Chunk, State, scratch
from probsfa.statespace.engine.core.tables import LANES, Precisions, unpacked
from probsfa.statespace.engine.dynamics import Blocks

__all__ = ["Segments"]

# Groups of four parallel segments, for two threads; one if segments would be shorter than the minimum.
_GROUPS, _SHORTEST = 2, 24
# Maximum number of distinct gaps for which transitions are stored for all lanes.
_FEW_GAPS = 64
# Bytes of a chunk's precisions, and minimum rows of a chunk. Segments should be long compared with the rows
# that depend on those before them, which are processed twice: at 24 to 64 states, chunks of 2048 rows take 14
# to 34 % more time than chunks of 8192.
_CHUNK_BYTES, _FEWEST_CHUNK_ROWS = 64 * 2**20, 2048


class Segments(Chunk):
    """A chunk whose segments are processed in parallel; see ``segments.c``."""

    #: Maximum number of states of a block that segments support.
    most_states_of_a_block = 2

    @classmethod
    def rows_of_chunk(cls, n_states: int, shown: bool) -> int:
        """Return the number of rows of a chunk."""
        rows = _CHUNK_BYTES // (4 * n_states * (n_states + 1))
        # Moments in full are several times as large, and are returned.
        return max(rows // 8 if shown else rows, _FEWEST_CHUNK_ROWS)

    @classmethod
    def prior(cls, n_states: int) -> State:
        """See :class:`.Chunk`: information and precision."""
        return State(np.zeros(n_states), np.eye(n_states))

    def _n_groups(self) -> int:
        return 1 if self.one_thread else min(_GROUPS, max(1, self.n_rows // (LANES * _SHORTEST)))

    @property
    def nbytes(self) -> int:
        """Bytes of the results kept for the backward pass."""
        return int(self.rows.nbytes + self.group.nbytes)

    @cached_property
    def _precisions(self) -> Precisions:
        return self.whole.shared(Precisions)

    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        kernel = self.kernel
        for name, array in self._precisions._asdict().items():
            setattr(kernel, name, array)
        self.group = np.zeros(kernel.size_of_groups, np.uint8)
        size = kernel.size_of_rows
        self.rows = np.empty(size) if self.fresh else scratch.array("rows", size)
        kernel.group, kernel.rows = self.group, self.rows
        kernel.collapsed = scratch.array("collapsed", kernel.size_of_collapsed)
        if self.whole.n_gaps <= _FEW_GAPS:
            kernel.steps = np.empty(kernel.size_of_steps, np.uint8)
            kernel.tabulate()
        information, precision = (x.copy() for x in before)
        self._on_groups(kernel.collapse)
        self._on_groups(kernel.eliminate)
        kernel.join(precision, information)
        self._on_groups(kernel.refilter)
        kernel.collapsed = None
        return State(information, precision)

    def smooth(self, last: State, into: Arrays, *, full: bool) -> State:
        """See :class:`.Chunk`."""
        k, after = self.whole.n_states, self.whole.after
        table = self._precisions
        mean = _inverse(last.matrix) @ last.vector
        covariance = _inverse(last.matrix + self._over_last(table.known))
        if after is not None:
            gain = covariance @ self._over_last(table.weight)
            crossed = gain @ after.matrix
            mean = mean + gain @ (after.vector - self._over_last(self.whole.diagonals) @ mean)
            covariance = covariance + crossed @ gain.T
            into["lag_one"][-1] = crossed.T if full else self._of_lag_one(crossed.T)
        self._set_moments(into)
        self.kernel.join_back(mean, np.ascontiguousarray(covariance))
        self._on_groups(lambda first, end: self.kernel.smooth(first, end, full))
        self.kernel.link(full)
        first = into["covariances"][0]
        return State(into["means"][0].copy(), first.copy() if full else unpacked(first[: k * (k + 1) // 2]))

    def _over_last(self, table: FloatArray) -> FloatArray:
        """Return the matrix (K, K) of a table for the step after the last row."""
        diagonal, beside = table[self.following]
        n = self.whole.n_single
        paired = np.arange(n, self.whole.n_states).reshape(-1, 2)
        pairs = np.stack([diagonal[paired], beside[paired]], axis=2)
        pairs[:, 1] = pairs[:, 1, ::-1]
        return np.asarray(Blocks(diagonal[:n], (pairs,) if len(pairs) else ()).matrix())

    def _of_lag_one(self, matrix: FloatArray) -> FloatArray:
        """Return the entries of a lag-one covariance that sums use, see :meth:`smooth`."""
        paired = np.arange(self.whole.n_single, self.whole.n_states)
        partner = paired.reshape(-1, 2)[:, ::-1].ravel()
        return np.concatenate([np.diagonal(matrix), matrix[paired, partner]])

    def _on_groups(self, run: Callable[[int, int], None]) -> None:
        n = self._n_groups()
        if n < 2:
            run(0, n)
        else:
            on_two_threads(lambda: run(0, n // 2), lambda: run(n // 2, n))


def _inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric positive definite matrix; NaN if it is not positive definite."""
    try:
        root = np.linalg.inv(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        return np.full_like(matrix, np.nan)
    return root.T @ root
