"""Exact inference over a panel with the compiled kernels."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from probsfa._threads import lost_interrupts_raised, one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.kernels import MAX_STATES, Columns, Roots, available, kernels
from probsfa.statespace.engine.core.passes import (
    Arrays,
    Chunk,
    PanelPass,
    Recursions,
    Segments,
    make_rows,
    scratch,
)
from probsfa.statespace.engine.dynamics import Transition, transition_over, transition_table
from probsfa.statespace.engine.moments import Filtering, PanelMoments, Statistics
from probsfa.statespace.panel import Panel, RowSource
from probsfa.statespace.parameters import StateSpace

__all__ = ["Core", "supports"]

#: Called with the rows of a chunk, their means and their covariances.
Visit = Callable[[slice, FloatArray, FloatArray], None]

# Segments are used up to this precision (inverse variance) of the filtered states, because their rounding
# errors grow with its square. Results then have ten accurate digits. For optimizer steps the maximum is
# larger: results have five digits, and log-likelihoods seven.
_MAX_PRECISION, _MAX_PRECISION_OF_STEPS = 1e4, 2e6
# Maximum size of stored results of the forward pass, and the smaller maximum in `visit_moments`. Results
# beyond this size are recomputed in the backward pass.
_MAX_STORED_BYTES, _MAX_STORED_BYTES_OF_CHUNKS = 1536 * 2**20, 64 * 2**20


def supports(params: StateSpace) -> bool:
    """Return whether the compiled engine is available and supports the number of states."""
    return available() and params.n_states <= MAX_STATES


@dataclass(frozen=True)
class Core:
    """The compiled engine: segments in parallel, or recursions row by row if segments would be inaccurate.

    Parameters
    ----------
    for_steps : bool, default=False
        Whether results are only used for optimizer steps, for which five digits suffice.
    chunk_type : type of Chunk, optional
        The algorithm. The default depends on model and panel, see ``_choose_chunk_type``.
    """

    for_steps: bool = False
    chunk_type: type[Chunk] | None = None

    def log_likelihood(self, params: StateSpace, panel: Panel) -> float:
        """Return the log-likelihood in nats, by the forward pass alone."""
        with _settings():
            return float(sum(map(np.sum, self._pass(params, panel).forward())))

    def moments(self, params: StateSpace, panel: Panel) -> PanelMoments:
        """Return posterior moments of all rows, with their log densities."""
        with _settings():
            panel_pass, n = self._pass(params, panel), panel.n_rows
            arrays = _arrays_for_moments(n, params.n_states)
            terms = np.concatenate(list(panel_pass.forward()))
            for _ in panel_pass.backward(
                lambda part: {name: x[part] for name, x in arrays.items()}, full=True
            ):
                pass
            return PanelMoments(arrays["means"], arrays["covariances"], arrays["lag_one"][: n - 1], terms)

    def visit_moments(self, params: StateSpace, panel: Panel, visit: Visit) -> float:
        """Call ``visit`` with means and covariances of each chunk, last first; return the log-likelihood."""
        with _settings():
            panel_pass = self._pass(params, panel, _MAX_STORED_BYTES_OF_CHUNKS, moments_by_chunk=True)
            value = float(sum(map(np.sum, panel_pass.forward())))
            for chunk in panel_pass.backward(
                lambda part: _arrays_for_moments(part.stop - part.start, params.n_states), full=True
            ):
                visit(chunk.part, chunk.means, chunk.moments)
            return value

    def expected_statistics(self, params: StateSpace, panel: Panel) -> Statistics:
        """Return sums of expected moments, with the log-likelihood."""
        with _settings():
            panel_pass, k = self._pass(params, panel), params.n_states

            def arrays_of_chunk(part: slice) -> Arrays:
                n = part.stop - part.start
                return {
                    "means": scratch.array("means", n + 1, k),
                    "covariances": scratch.array("moments", n + 1, k * (k + 1)),
                    "lag_one": scratch.array("lag-one", n, panel_pass.n_terms),
                }

            value = float(sum(map(np.sum, panel_pass.forward())))
            sums = panel_pass.zero_sums()
            for chunk in panel_pass.backward(arrays_of_chunk, full=False):
                chunk.add_up(sums)
            loadings = np.asarray(params.loadings, np.float64)
            return sums.statistics(value, loadings, complete=panel.complete)

    def filter(
        self,
        params: StateSpace,
        panel: Panel,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None = None,
    ) -> Filtering:
        """Return filtered moments; parameters as in :func:`.posterior.filter_rows`."""
        with _settings():
            rows, values, weights = _rows(params, panel, panel.value_weights, first_transition)
            means, covariances, terms = _arrays_for_filter(rows, panel.n_rows, params.n_states)
            rows.filter(np.array(mean, np.float64), _root(covariance))
            _complete_log_densities(params, values, weights, means, terms)
            return Filtering(means, covariances, terms)

    def filter_student(
        self,
        params: StateSpace,
        panel: Panel,
        degrees: float,
        by_row: bool,
        mean: FloatArray,
        covariance: FloatArray,
        first_transition: Transition | None = None,
    ) -> Filtering:
        """Return filtered moments under Student-t noise, and lower bounds of log densities.

        If `by_row` is true, the values of a row share a weight.
        """
        with _settings():
            rows, _, _ = _rows(params, panel, panel.mask, first_transition)
            arrays = _arrays_for_filter(rows, panel.n_rows, params.n_states)
            rows.filter_student(float(degrees), by_row, np.array(mean, np.float64), _root(covariance))
            return Filtering(*arrays)

    def draw(self, params: StateSpace, panel: Panel, normals: FloatArray) -> FloatArray:
        """Return draws (n_draws, N, K) of the states given all rows.

        ``normals`` (T, n_draws, K) are standard normal variables for the N rows of the panel and its padding.
        """
        with _settings():
            panel_pass = PanelPass(params, panel, Recursions, _MAX_STORED_BYTES)
            for _ in panel_pass.forward():
                pass
            draws = np.empty((panel.n_rows, *normals.shape[1:]))
            after = np.zeros(normals.shape[1:])
            for _, chunk in panel_pass.filtered_backwards():
                assert isinstance(chunk, Recursions)
                normal = np.ascontiguousarray(normals[chunk.part], np.float64)
                chunk.draw(normal, after, draws[chunk.part])
            return draws.swapaxes(0, 1)

    def leave_one_out(self, params: StateSpace, panel: Panel) -> tuple[FloatArray, FloatArray]:
        """Return smoothing errors ``P (x - mu)`` and the diagonal of ``P``, both (N, D); zero if missing.

        ``P`` is the inverse of the joint covariance of all observed values.
        """
        with _settings():
            n, k = panel.n_rows, params.n_states
            index = np.append(panel.gap_index[:n], np.int32(panel.gaps.size)).astype(np.int32)
            roots, index = Roots.of(transition_table(params, panel.gaps)).select(index)
            values, mask = (np.ascontiguousarray(x[:n], np.float64) for x in (panel.values, panel.mask))
            rows = make_rows(params, values, mask, roots, index)
            smoothing_errors, precisions = np.empty(values.shape), np.empty(values.shape)
            rows.leave_one_out(smoothing_errors, precisions, np.empty((n, k * (k + 1))))
            return smoothing_errors, precisions

    def _pass(
        self,
        params: StateSpace,
        panel: Panel,
        max_stored_bytes: int = _MAX_STORED_BYTES,
        *,
        moments_by_chunk: bool = False,
    ) -> PanelPass:
        chunk_type = self.chunk_type or _choose_chunk_type(params, panel, self.for_steps)
        return PanelPass(params, panel, chunk_type, max_stored_bytes, moments_by_chunk=moments_by_chunk)


@contextmanager
def _settings() -> Iterator[None]:
    """Use one BLAS thread, and raise keyboard interrupts that would otherwise be lost."""
    with lost_interrupts_raised(), one_blas_thread():
        yield


def _choose_chunk_type(params: StateSpace, panel: Panel, for_steps: bool) -> type[Chunk]:
    """Return segments, which are faster, if they are accurate and support all blocks, else recursions."""
    maximum = _MAX_PRECISION_OF_STEPS if for_steps else _MAX_PRECISION
    if max(params.state_layout.sizes, default=1) > Segments.max_block_size:
        return Recursions
    return Segments if largest_precision(params, panel) <= maximum else Recursions


def largest_precision(params: StateSpace, panel: Panel) -> float:
    """Return an upper bound of the precision of filtered states.

    The bound is the sum of the largest precision of the observations of a row and the largest precision of a
    state given the previous state.
    """
    with np.errstate(all="ignore"):
        scaled = params.loadings / np.sqrt(params.noise_variance)[:, None]
        gram = scaled.T @ scaled if scaled.shape[0] > scaled.shape[1] else scaled @ scaled.T
        # Innovation variances grow with the elapsed time.
        step = transition_over(params, np.min(panel.gaps, keepdims=True).reshape(1))
        innovations = step.at(0).min_innovation_eigenvalue()
        if not np.all(np.isfinite(gram)) or not innovations > 0.0:
            return np.inf
    max_weight = 1.0 if panel.weights is None else float(np.max(panel.weights[:]))
    return max_weight * float(np.linalg.eigvalsh(gram)[-1]) + 1.0 / float(innovations)


def _rows(
    params: StateSpace, panel: Panel, weights: RowSource, first_transition: Transition | None
) -> tuple[Any, FloatArray, FloatArray]:
    """Return the kernel of all rows, their values, and their weights.

    ``first_transition`` as in :func:`.posterior.filter_rows`.
    """
    n = panel.n_rows
    steps, index = transition_table(params, panel.gaps), panel.gap_index[:n]
    if first_transition is not None:
        steps, index = steps.preceded_by(first_transition.at(0)), index + 1
        index[0] = 0
    roots, index = Roots.of(steps).select(np.append(index, index[-1]))
    values, weights = (np.ascontiguousarray(x[:n], np.float64) for x in (panel.values, weights))
    return make_rows(params, values, weights, roots, index), values, weights


def _arrays_for_filter(rows: Any, n: int, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Allocate means, covariances and terms of log densities, to which the kernel will write its results."""
    arrays = np.empty((n, k)), np.empty((n, k, k)), np.empty(n)
    rows.filtered_means, rows.filtered_covariances, rows.terms = arrays
    return arrays


def _root(covariance: FloatArray) -> FloatArray:
    """Return ``N`` such that ``N' N`` is the covariance, which may be singular."""
    variances, directions = np.linalg.eigh(np.asarray(covariance, np.float64))
    return np.ascontiguousarray(np.sqrt(np.maximum(variances, 0.0))[:, None] * directions.T)


def _complete_log_densities(
    params: StateSpace, values: FloatArray, weights: FloatArray, means: FloatArray, terms: FloatArray
) -> None:
    """Replace the terms of the states (N,) by log densities of rows, which include residuals and noise."""
    n, d = values.shape
    kernel = kernels().Segments(
        n_states=params.n_states,
        n_single=params.n_states,
        n_triples=0,
        n_features=d,
        n_rows=n,
        n_groups=1,
        n_gaps=0,
    )
    for name, array in Columns.of(params)._asdict().items():
        setattr(kernel, name, array)
    kernel.values, kernel.weights, kernel.terms, kernel.filtered_means = values, weights, terms, means
    kernel.likelihoods(0, n)


def _arrays_for_moments(n_rows: int, n_states: int) -> Arrays:
    return {
        "means": np.empty((n_rows, n_states)),
        "covariances": np.empty((n_rows, n_states, n_states)),
        "lag_one": np.empty((n_rows, n_states, n_states)),
    }
