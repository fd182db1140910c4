"""Expected information where columns are unseen for long.

A hole of one cell, or of few, leaves of a column's information what noise that is so much larger would
(:mod:`.fisher_metric`). A column that is seen in the first weeks alone is another matter: there each of its
cells tells as much as one of any other column, and later it tells nothing. The information of rows adds up,
so that of the whole is the sum, over the few patterns of columns that are seen, of Whittle's for the rows of
each. Taken as evenly spread instead, so few cells seem to tell of the latent that they alone see as much as
all rows would, and steps are short by the factor by which they are fewer.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning import processes
from probsfa.statespace.learning.coordinates import Coordinates
from probsfa.statespace.learning.fisher_metric import CompleteData, DenseMetric, Metric
from probsfa.statespace.panel import Panel, resident_bytes
from probsfa.statespace.parameters import Parameters

__all__ = [
    "Pattern",
    "PatternCounts",
    "PatternMetric",
    "add_patterns",
    "count_patterns",
    "patterns_of",
    "suits",
]

# Rows in succession without a column's cell from which on it counts as unseen there; part of the rows in
# which a column must be unseen so for patterns to matter; and how many patterns are told apart.
_LONG, _SELDOM, _MOST_PATTERNS = 48, 0.3, 6
# The matrix is formed as a whole: of no more coordinates than these.
_MOST_COORDINATES = 800


class Pattern(NamedTuple):
    """Rows in which the same columns are seen, but for short holes.

    Attributes
    ----------
    n_rows : float
        Number of those in which anything is seen.
    share : ndarray of shape (D,)
        Part of them in which each column is, each cell counted by its weight.
    """

    n_rows: float
    share: FloatArray


class PatternCounts(NamedTuple):
    """Rows by the columns that are unseen for long in them; those of parts of the data add up.

    Attributes
    ----------
    unseen : ndarray of bool of shape (M, D)
        The columns, each combination once, in lexicographic order.
    n_rows : ndarray of shape (M,)
        Number of rows with this combination.
    n_observed : ndarray of shape (M,)
        Number of those in which anything is seen.
    weights : ndarray of shape (M, D)
        Sums of the weights of their cells.
    """

    unseen: BoolArray
    n_rows: FloatArray
    n_observed: FloatArray
    weights: FloatArray


def count_patterns(panel: Panel) -> PatternCounts | None:
    """Count the combinations of columns that are unseen for long; None where the panel is not in memory."""
    if resident_bytes(panel.mask) is None:
        return None
    mask = panel.mask[: panel.n_rows] > 0.0
    weights = np.asarray(panel.cell_weights[: panel.n_rows], dtype=np.float64)
    unseen = np.concatenate([_unseen_for_long(part) for part in _sequences(mask, panel.lengths)])
    if not unseen.any():  # the usual case, without sorting the rows
        n_rows, seen = float(len(mask)), float(np.count_nonzero(mask.any(axis=1)))
        sums = weights.sum(axis=0)[None]
        return PatternCounts(unseen[:1], np.array([n_rows]), np.array([seen]), sums)
    n_observed = np.asarray(mask.any(axis=1), dtype=np.float64)
    return _summed(unseen, np.ones(len(mask)), n_observed, weights)


def add_patterns(parts: Sequence[PatternCounts]) -> PatternCounts:
    """Counts of several parts of the data together."""
    return _summed(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _summed(
    unseen: BoolArray, n_rows: FloatArray, n_observed: FloatArray, weights: FloatArray
) -> PatternCounts:
    kinds, which = np.unique(unseen, axis=0, return_inverse=True)
    which, m = which.ravel(), len(kinds)
    sums = np.zeros((m, unseen.shape[1]))
    for d in range(unseen.shape[1]):
        sums[:, d] = np.bincount(which, weights[:, d], minlength=m)
    rows = np.bincount(which, n_rows, minlength=m).astype(np.float64)
    observed = np.bincount(which, n_observed, minlength=m).astype(np.float64)
    return PatternCounts(kinds, rows, observed, sums)


def suits(layout: Coordinates) -> bool:
    """Whether a model of these coordinates has a metric by patterns: without memories, and not too many."""
    return not layout.n_memories and layout.size <= _MOST_COORDINATES


def patterns_of(counts: PatternCounts | None) -> tuple[Pattern, ...]:
    """Patterns of columns that are seen; none where no column is unseen for long.

    Parameters
    ----------
    counts : PatternCounts or None
        Rows by the columns that are unseen for long in them; None where that is not known.

    Returns
    -------
    tuple of Pattern
    """
    if counts is None:
        return ()
    if np.all(counts.n_rows @ counts.unseen < _SELDOM * counts.n_rows.sum()):
        return ()
    kept = np.argsort(-counts.n_rows, kind="stable")[:_MOST_PATTERNS]
    apart = np.count_nonzero(counts.unseen[:, None] != counts.unseen[kept], axis=2)
    nearest = np.argmin(apart, axis=1)
    found = []
    for i in range(len(kept)):
        n = float(counts.n_observed[nearest == i].sum())
        if n > 0.0:
            found.append(Pattern(n, counts.weights[nearest == i].sum(axis=0) / n))
    return tuple(found)


def _sequences(mask: BoolArray, lengths: tuple[int, ...]) -> list[BoolArray]:
    return np.split(mask, np.cumsum(lengths)[:-1])


def _unseen_for_long(mask: BoolArray) -> BoolArray:
    """Cells (T, D) of one sequence within long holes of their columns."""
    edge = np.ones((1, mask.shape[1]), dtype=bool)
    padded = np.concatenate([edge, mask, edge])
    unseen = np.zeros_like(mask)
    for column in np.flatnonzero(~mask.all(axis=0)).tolist():
        seen = np.flatnonzero(padded[:, column])
        for i in np.flatnonzero(np.diff(seen) > _LONG).tolist():
            unseen[seen[i] : seen[i + 1] - 1, column] = True
    return unseen


class PatternMetric(DenseMetric):
    """Expected information plus a multiple of the damping matrix, of rows in which not all columns are seen.

    Parameters
    ----------
    layout : Coordinates
        Free coordinates, without memories, with offsets as in :mod:`.centred_metric`.
    params : Parameters
        Parameters at which the information is taken.
    stats : Statistics
        Expected statistics there: the damping matrix is the information there would be if the latents were
        observed, of each column in the rows in which it is.
    patterns : sequence of Pattern
        Which columns are seen in how many rows.
    gradient : ndarray of shape (P,), optional
        Gradient of the log-likelihood; see :class:`.Metric`.
    """

    def __init__(
        self,
        layout: Coordinates,
        params: Parameters,
        stats: Statistics,
        patterns: tuple[Pattern, ...],
        gradient: FloatArray | None = None,
    ) -> None:
        size = layout.size
        self.information = np.zeros((size, size))
        nothing = np.zeros((layout.n_states, layout.n_states))
        for n, share in patterns:
            complete = CompleteData(n * share, nothing, n, 1.0)
            self.information += Metric(layout, params, complete, None, _MOST_COORDINATES).to_dense()
        n_rows = sum(pattern.n_rows for pattern in patterns)
        whole = Metric(layout, params, CompleteData(stats.counts, nothing, n_rows), gradient)
        dynamics, _, noise, _ = layout.slices
        added = np.zeros(size)
        added[dynamics], added[noise] = whole.dynamics_curvature, whole.noise_curvature
        self.information[np.diag_indices(size)] += added
        self.damping = _complete_information(layout, params, stats, n_rows)


def _complete_information(
    layout: Coordinates, params: Parameters, stats: Statistics, n_rows: float
) -> FloatArray:
    """Information there would be if the latents were observed, (P, P); loadings move no means of columns."""
    dynamics, loadings, noise, offset = layout.slices
    out = np.zeros((layout.size, layout.size))
    diagonal = np.zeros(layout.size)
    diagonal[dynamics] = processes.damping(params, n_rows, evenly_sampled=layout.evenly_sampled)
    half = 0.5 * stats.counts
    diagonal[noise] = half if layout.noise == "diagonal" else half.sum(keepdims=True)[: layout.n_noise]
    diagonal[offset] = stats.counts / params.noise_variance
    out[np.diag_indices(layout.size)] = diagonal
    seen, k = params.latents.seen, layout.n_states
    for d, (moments, count) in enumerate(zip(stats.latent_moments, stats.counts, strict=True)):
        block = slice(loadings.start + d * k, loadings.start + (d + 1) * k)
        sums = moments[seen, -1]
        about_mean = moments[seen[:, None], seen] - np.outer(sums, sums) / max(float(count), 1.0)
        out[block, block] = about_mean / params.noise_variance[d]
    return out
