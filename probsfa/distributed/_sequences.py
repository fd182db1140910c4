"""Probabilistic slow feature analysis of sequences on a cluster: parameters go out, sums come back."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._validation import Sequences, check_observed
from probsfa.distributed._dask import compute, delayed, persist, reduce_tree
from probsfa.distributed._parts import whole_sequences
from probsfa.statespace import ProbabilisticSFA
from probsfa.statespace.columns import column_sums, merge_columns
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import expected_statistics

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
    columns = compute(reduce_tree(merge_columns, [delayed(column_sums)(group) for group in groups]))[0]
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
