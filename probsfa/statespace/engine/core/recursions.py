"""Row-by-row inference by square roots of covariances, accurate for tiny noise and closely spaced rows."""

from functools import cached_property
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.kernels import kernels
from probsfa.statespace.engine.core.passes import Arrays, Chunk, State
from probsfa.statespace.engine.core.tables import Roots
from probsfa.statespace.parameters import Parameters

__all__ = ["Recursions"]

# Bytes of a chunk's gains and roots.
_CHUNK_BYTES = 64 * 2**20


class Recursions(Chunk):
    """A chunk processed row by row; see ``recursions.c``."""

    @classmethod
    def rows_of_chunk(cls, n_states: int, shown: bool) -> int:
        """Return the number of rows of a chunk."""
        return _CHUNK_BYTES // (16 * n_states**2)

    @classmethod
    def prior(cls, n_states: int) -> State:
        """See :class:`.Chunk`: mean and root of the covariance."""
        return State(np.zeros(n_states), np.eye(n_states))

    @property
    def nbytes(self) -> int:
        """Bytes of the results kept for the backward pass; gains that steady-state rows share count once."""
        return 16 * self.n_slots * self.whole.n_states**2 + self.means_of_filter.nbytes

    @cached_property
    def _rows(self) -> Any:
        roots, index = self.whole.shared(Roots).chosen(self.gap_index)
        return make_rows(self.whole.params, self.values, self.weights, roots, index)

    def _room_for_means(self) -> FloatArray:
        self.means_of_filter = np.empty((self.n_rows, self.whole.n_states))
        return self.means_of_filter

    def _filter(self, before: State, terms: FloatArray, means: FloatArray) -> State:
        n, k, rows = self.n_rows, self.whole.n_states, self._rows
        rows.filtered_means, rows.terms = means, terms
        rows.slot = np.empty(n, np.int32)
        rows.gain, rows.root = np.empty((n, k, k)), np.empty((n, k, k))
        mean, root = (x.copy() for x in before)
        self.n_slots = rows.filter(mean, root)
        rows.values = rows.weights = None
        return State(mean, root)

    def smooth(self, last: State, into: Arrays, *, full: bool) -> State:
        """See :class:`.Chunk`."""
        k, after = self.whole.n_states, self.whole.after
        mean, covariance = np.zeros(k), np.zeros((k, k))
        if after is not None:
            mean[:], covariance[:] = after
        self._set_moments(into)
        self._rows.set_moments(into["means"], into["covariances"], into["lag_one"])
        self._rows.smooth(full, self.whole.n_single, self.whole.n_triples, mean, covariance)
        return State(mean, covariance)

    def draw(self, normals: FloatArray, after: FloatArray, draws: FloatArray) -> None:
        """Draw states (n, M, K) from normals; ``after`` (M, K), the next state, becomes the first."""
        self._rows.draw(normals.shape[1], normals, after, draws)


def make_rows(
    params: Parameters, values: FloatArray, weights: FloatArray, roots: Roots, gap_index: Any
) -> Any:
    """Return the kernel of rows (n, D), with indices (n + 1,) of the transitions to and after them."""
    n, d = values.shape
    reach = max(params.latents.sizes, default=1) - 1
    sizes = {"n_states": params.n_states, "n_features": d, "n_rows": n, "n_gaps": len(roots.transition) - 1}
    rows = kernels().Rows(**sizes, reach=reach)
    rows.values, rows.weights, rows.gap_index = values, weights, gap_index
    rows.transition, rows.innovation = roots
    named = {"loadings": params.loadings, "noise": params.noise_variance, "offset": params.offset}
    for name, array in named.items():
        setattr(rows, name, np.ascontiguousarray(array, np.float64))
    return rows
