"""Probabilistic slow feature analysis of sequences on a cluster: parameters go out, sums come back."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences, check_observed
from probsfa.distributed._dask import compute, delayed, persist, reduce_tree
from probsfa.distributed._parts import whole_sequences
from probsfa.statespace import ProbabilisticSFA
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics
from probsfa.statespace.statistics import Statistics

__all__ = ["DistributedPanel", "fit_probabilistic"]

FloatArray = NDArray[np.float64]

_MOST_PARTS = 256  # each step of a fit sends a task to every part
_START_CELLS = 2**24  # 128 MiB of float64: rows that starts are sought on


class DistributedPanel(NamedTuple):
    """Packed observations that stay on the cluster.

    Attributes
    ----------
    panels : tuple of tasks
        Each a :class:`~probsfa.statespace.panel.Panel` of whole sequences.
    """

    panels: tuple[Any, ...]

    def expected_statistics(self, params: Parameters) -> Statistics:
        """Sums of expected moments over all panels."""
        step = delayed(expected_statistics)
        return compute(reduce_tree(_add, [step(params, panel) for panel in self.panels]))[0]


def fit_probabilistic(model: ProbabilisticSFA, X: Any, lengths: Any) -> None:
    """Fit the model to sequences on a cluster."""
    model._check_parameters()
    if model._noise_kind == "fixed" and model.noise == 0.0:
        raise ValueError("noise=0.0 is slow feature analysis itself; on a cluster, fit an SFA.")
    groups = whole_sequences(model, X, lengths=lengths, n_parts=_MOST_PARTS)
    columns = compute(reduce_tree(_merge, [delayed(_column_sums)(group) for group in groups]))[0]
    names = getattr(model, "feature_names_in_", None)
    seen = np.where(columns.counts > 0, 0.0, np.nan)[None]
    check_observed(Sequences(seen, (1,), feature_names=None if names is None else tuple(map(str, names))))
    if max(columns.lengths) < 2:
        raise ValueError("X has no sequence of two rows or more; time scales need at least one.")
    std = np.sqrt(columns.scatter / columns.counts)
    model.time_unit_ = 1.0
    model._shift, model._scale = model._units(columns.origin + columns.offset, std)

    scaled = [delayed(_scaled)(group, model._shift, model._scale) for group in groups]
    panel = DistributedPanel(persist(*(delayed(make_panel)(part) for part in scaled)))
    sample = _sample(scaled, sum(columns.lengths) * columns.counts.size)
    model._maximise(sample, columns.counts, panel.expected_statistics)


class _Columns(NamedTuple):
    """Observed cells of each feature: how many, their means about an origin, and their sums of squares.

    `lengths` has the rows of every sequence, `origin`, `offset` and `scatter` (D,) are as in
    :class:`probsfa.graphs.Moments`.
    """

    counts: FloatArray
    origin: FloatArray
    offset: FloatArray
    scatter: FloatArray
    lengths: tuple[int, ...]


def _column_sums(part: Sequences) -> _Columns:
    values = part.values
    seen = ~np.isnan(values)
    counts = seen.sum(axis=0).astype(np.float64)
    # The first observed value of each feature: at a large offset, sums about it have all their digits.
    origin = values[np.argmax(seen, axis=0), np.arange(values.shape[1])]
    origin = np.where(counts > 0, origin, 0.0)
    deviation = np.where(seen, values - origin, 0.0)
    offset = deviation.sum(axis=0) / np.maximum(counts, 1.0)
    scatter = np.sum(np.where(seen, deviation - offset, 0.0) ** 2, axis=0)
    return _Columns(counts, origin, offset, scatter, part.lengths)


def _merge(parts: list[_Columns]) -> _Columns:
    return functools.reduce(_join, parts)


def _join(left: _Columns, right: _Columns) -> _Columns:
    """Join the sums of two parts (Chan, Golub & LeVeque 1983, eq. 2.1)."""
    counts = left.counts + right.counts
    share = right.counts / np.maximum(counts, 1.0)
    gap = np.where(right.counts > 0, right.origin - left.origin + right.offset - left.offset, 0.0)
    begun = left.counts > 0
    return _Columns(
        counts,
        np.where(begun, left.origin, right.origin),
        np.where(begun, left.offset + gap * share, right.offset),
        left.scatter + right.scatter + gap**2 * left.counts * share,
        left.lengths + right.lengths,
    )


def _scaled(part: Sequences, shift: FloatArray, scale: FloatArray) -> Sequences:
    return Sequences((part.values - shift) / scale, part.lengths)


def _sample(scaled: Sequence[Any], n_cells: int) -> Panel:
    """Return parts spread evenly over the data, all of them where there is room for them here."""
    n = max(1, min(len(scaled), len(scaled) * _START_CELLS // n_cells))
    chosen = np.linspace(0, len(scaled) - 1, n).round().astype(int)
    found = compute(*(scaled[i] for i in chosen))
    values = np.concatenate([part.values for part in found])
    return make_panel(Sequences(values, tuple(n for part in found for n in part.lengths)))


def _add(parts: list[Statistics]) -> Statistics:
    return Statistics(*(sum(terms) for terms in zip(*parts, strict=True)))
