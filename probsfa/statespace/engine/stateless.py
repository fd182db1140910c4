"""Inference for a model without latent processes, whose rows are independent."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Transition
from probsfa.statespace.engine.moments import Filtering, PanelMoments, Statistics
from probsfa.statespace.panel import Panel, cache_sized_parts
from probsfa.statespace.parameters import StateSpace

__all__ = ["Stateless"]


@dataclass(frozen=True)
class Stateless:
    """Inference for models with zero states; methods as in :class:`.Core`."""

    def log_likelihood(self, params: StateSpace, panel: Panel) -> float:
        """Return the log-likelihood in nats."""
        return float(np.sum(_log_densities(params, panel)))

    def moments(self, params: StateSpace, panel: Panel) -> PanelMoments:
        """Return empty moments of all rows, with their log densities."""
        n = panel.n_rows
        empty = np.zeros((n, 0, 0))
        return PanelMoments(np.zeros((n, 0)), empty, empty[: n - 1], _log_densities(params, panel))

    def visit_moments(
        self, params: StateSpace, panel: Panel, visit: Callable[[slice, FloatArray, FloatArray], None]
    ) -> float:
        """Call ``visit`` with the empty moments of all rows; return the log-likelihood."""
        n = panel.n_rows
        visit(slice(0, n), np.zeros((n, 0)), np.zeros((n, 0, 0)))
        return self.log_likelihood(params, panel)

    def expected_statistics(self, params: StateSpace, panel: Panel) -> Statistics:
        """Return sums over rows, with the log-likelihood."""
        sums = np.zeros((3, params.n_features))
        n_observed = 0
        for part in _parts(panel):
            weights, residuals = panel.value_weights[part], panel.values[part] - params.offset
            weighted = weights * residuals
            sums += [weights.sum(axis=0), np.sum(weighted * residuals, axis=0), weighted.sum(axis=0)]
            n_observed += int(np.count_nonzero(panel.mask[part].any(axis=1)))
        counts, power, residual_sums = sums
        n_gaps, index = panel.gaps.size, panel.gap_index[: panel.n_rows]
        transitions = np.bincount(index, minlength=n_gaps + 1)[:n_gaps].astype(float)
        empty = np.zeros((n_gaps, 0))
        return Statistics(
            self.log_likelihood(params, panel),
            counts,
            power,
            residual_sums[:, None],
            counts[:, None, None],
            np.full((1, 1), float(n_observed)),
            transitions,
            empty,
            empty,
            empty,
        )

    def filter(
        self,
        params: StateSpace,
        panel: Panel,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None = None,
    ) -> Filtering:
        """Return empty moments and the log densities of the rows."""
        moments = self.moments(params, panel)
        return Filtering(moments.means, moments.covariances, moments.row_log_likelihoods)

    def draw(self, params: StateSpace, panel: Panel, normals: FloatArray) -> FloatArray:
        """Return empty draws (n_draws, N, 0)."""
        return np.zeros((normals.shape[1], panel.n_rows, 0))

    def leave_one_out(self, params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
        """Return ``(x - mu) / r`` and ``1 / r``, both (N, D); zero for missing values."""
        n = panel.n_rows
        precisions = panel.mask[:n] / params.noise_variance
        return precisions * (panel.values[:n] - params.offset), precisions


def _parts(panel: Panel) -> Iterator[slice]:
    """Yield parts of the rows, without the padding."""
    return (slice(part.start, min(part.stop, panel.n_rows)) for part in cache_sized_parts(panel.n_rows))


def _log_densities(params: StateSpace, panel: Panel) -> FloatArray:
    """Return the log density (N,) of each row, in nats."""
    noise = params.noise_variance
    parts = []
    for part in _parts(panel):
        weights, residuals = panel.value_weights[part], panel.values[part] - params.offset
        terms = np.log(2.0 * np.pi * noise) + residuals**2 / noise
        parts.append(-0.5 * np.sum(weights * terms, axis=1))
    return np.concatenate(parts)
