"""Fit of ProbabilisticSFA to sequences on a cluster: workers receive parameters and return sums."""

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from probsfa._threads import one_core
from probsfa._times import TimeAxis
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_observed
from probsfa.distributed._dask import compute, delayed, is_array, persist, reduce_tree
from probsfa.distributed._parts import whole_sequences
from probsfa.statespace import ProbabilisticSFA
from probsfa.statespace.columns import column_moments, merge_columns
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.posterior import expected_statistics
from probsfa.statespace.estimator import set_fitted
from probsfa.statespace.learning.budget import Size, max_components
from probsfa.statespace.learning.maximum_likelihood import (
    Observations,
    check_lengths_for_timescales,
    maximum_likelihood,
)
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.panel import Panel, make_panel
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.progress import Progress

__all__ = ["DistributedPanel", "fit_probabilistic"]

_MAX_PARTS = 256  # each step of a fit runs one task for every part
# Parts of an array have at least 2**14 rows; arrays that are too small for 16 such parts have up to 16 parts.
_MIN_PART_ROWS, _MAX_SMALL_PARTS = 2**14, 16
_MAX_START_VALUES = 2**24  # 128 MiB of float64: maximum number of values for starting points


class DistributedPanel(NamedTuple):
    """Packed observations that remain on the cluster.

    Attributes
    ----------
    panels : tuple of tasks
        Tasks that return a :class:`~probsfa.statespace.panel.Panel` of whole sequences.
    """

    panels: tuple[Any, ...]

    def expected_statistics(self, params: StateSpace) -> Statistics:
        """Return sums of expected moments over all panels."""
        step = delayed(_em_sums)
        return compute(reduce_tree(_add, [step(params, panel) for panel in self.panels]))[0]


class DistributedSequences:
    """Sequences on a cluster, as training data of :mod:`probsfa.statespace.learning.maximum_likelihood`.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Estimator whose number and names of columns are set.
    X : dask.array (T, D), or list with one entry for each sequence
        As in :func:`probsfa.distributed.fit`.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in an array.

    Raises
    ------
    ValueError
        If the data are not valid, a column has no observation, or no sequence has two rows.
    """

    #: Rows are evenly sampled.
    time_unit = 1.0

    def __init__(self, estimator: Any, X: Any, lengths: Any) -> None:
        self.groups = whole_sequences(estimator, X, lengths=lengths, n_parts=_n_parts(X))
        moments = [delayed(column_moments)(group) for group in self.groups]
        self.columns = compute(reduce_tree(merge_columns, moments))[0]
        names = getattr(estimator, "feature_names_in_", None)
        observed = np.where(self.columns.counts > 0, 0.0, np.nan)[None]
        self.feature_names = None if names is None else tuple(map(str, names))
        check_observed(Sequences(observed, (1,), feature_names=self.feature_names))
        check_lengths_for_timescales(self.columns.lengths)

    def default_size(self, *, ar1_noise: bool = False) -> Size:
        """Return the default number of factors; all rows are used."""
        n_rows = sum(self.columns.lengths)
        return Size(max_components(n_rows, self.columns.counts, ~self.columns.constant, ar1_noise=ar1_noise))

    def standardized(
        self, shift: FloatArray, scale: FloatArray, segments: list[slice] | None = None
    ) -> Observations:
        """Return standardized observations: a local sample, and expected statistics of all observations."""
        scaled = [delayed(_scaled)(group, shift, scale) for group in self.groups]
        panel = DistributedPanel(persist(*(delayed(make_panel)(part) for part in scaled)))
        n_values = sum(self.columns.lengths) * self.columns.counts.size
        sample = _sample(scaled, n_values)
        return Observations(sample, self.columns.counts, panel.expected_statistics)


def fit_probabilistic(model: ProbabilisticSFA, X: Any, lengths: Any) -> None:
    """Fit the model to sequences on a cluster."""
    options = FitOptions.of(model).check().with_times(TimeAxis())
    if options.noise_free:
        raise ValueError("noise=0.0 is equivalent to slow feature analysis. Fit an SFA on the cluster.")
    if model.transforms is not None:
        raise ValueError(
            "transforms are not supported on a cluster. Transform the columns before, for example by "
            "X.map_blocks, or fit in memory."
        )
    data = DistributedSequences(model, X, lengths)
    with Progress(model.max_iter) if model.verbose else nullcontext() as report:
        fitted = maximum_likelihood(data, options, init=model.init, report=report)
    set_fitted(model, LinearGaussianModel(fitted))


def _n_parts(X: Any) -> int:
    """Return the maximum number of parts; 256 for a list, because the lengths of its members are unknown."""
    if not is_array(X):
        return _MAX_PARTS
    return min(max(X.shape[0] // _MIN_PART_ROWS, _MAX_SMALL_PARTS), _MAX_PARTS)


def _em_sums(params: StateSpace, panel: Panel) -> Statistics:
    """Compute expected statistics with one thread, because other tasks run in parallel."""
    with one_core():
        return expected_statistics(params, panel, for_steps=True)


def _scaled(part: Sequences, shift: FloatArray, scale: FloatArray) -> Sequences:
    return part.standardized(shift, scale)


def _sample(scaled: Sequence[Any], n_values: int) -> Panel:
    """Return evenly spaced parts of the data, or all parts if they have at most 2**24 values (128 MiB)."""
    n = max(1, min(len(scaled), len(scaled) * _MAX_START_VALUES // n_values))
    selected = np.linspace(0, len(scaled) - 1, n).round().astype(int)
    parts = compute(*(scaled[i] for i in selected))
    values = np.concatenate([part.values for part in parts])
    return make_panel(Sequences(values, tuple(n for part in parts for n in part.lengths)))


def _add(parts: list[Statistics]) -> Statistics:
    return Statistics(*(sum(terms) for terms in zip(*parts, strict=True)))
