"""Sums of moments over rows, and the expected statistics computed from them."""

from typing import NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.triangles import unpacked
from probsfa.statespace.engine.moments import Statistics

# As in segments.c: columns are padded to whole vectors.
_LANES = 4


class Sums(NamedTuple):
    """Sums over rows for the expected statistics; see ``add_up`` of ``segments.c``."""

    seen: FloatArray
    residual_moments: FloatArray
    residual_power: FloatArray
    transitions: FloatArray

    @classmethod
    def zero(
        cls, n_states: int, n_terms: int, n_features: int, n_gaps: int, *, complete: bool = False
    ) -> "Sums":
        """Return sums over no rows; if rows are complete, all columns share the sums ``seen``."""
        k, d = n_states, n_features
        width = d + 1 + -(d + 1) % _LANES
        seen = (k * (k + 1) + k + 1, _LANES if complete else width)
        shapes = (seen, (k + 1, width), (d,), (n_gaps + 1, 3 * n_terms + 1))
        return cls(*(np.zeros(shape) for shape in shapes))

    def statistics(self, log_likelihood: float, loadings: FloatArray, *, complete: bool) -> Statistics:
        """Return the expected statistics, of complete rows or others."""
        d, k = loadings.shape
        packed = k * (k + 1) // 2
        seen = self.seen[:, :1] if complete else self.seen[:, : d + 1]
        spread, second = (unpacked(seen[part].T) for part in (slice(packed), slice(packed, 2 * packed)))
        first, counts = seen[2 * packed : -1].T, seen[-1]
        moments = np.empty((d + 1, k + 1, k + 1))
        moments[:, :k, :k] = spread + second
        moments[:, :k, k] = moments[:, k, :k] = first
        moments[:, k, k] = counts
        loaded = loadings @ spread[0] if complete else np.einsum("dij,dj->di", spread[:-1], loadings)
        crossed = self.residual_moments[:, :d].T.copy()
        crossed[:, :k] -= loaded
        power = self.residual_power + np.einsum("di,di->d", loaded, loadings)
        of_gaps = self.transitions[:-1]
        steps = (of_gaps[:, -1], *np.split(of_gaps[:, :-1], 3, axis=1))
        return Statistics(
            log_likelihood,
            np.broadcast_to(counts, d + 1)[:-1].copy(),
            power,
            crossed,
            moments[:-1],
            moments[-1],
            *map(np.copy, steps),
        )
