"""Inputs of the algorithms in JAX (parameters and rows as device arrays), and their interface."""

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa.statespace.engine.dynamics import Gaussian, Transition, transition_table
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.panel import Panel, read_lock
from probsfa.statespace.parameters import StateSpace


class Model(NamedTuple):
    """Parameters as inputs of the compiled programs.

    ``transitions`` (U + 1, K) are the transitions over each of a panel's gaps, followed by the sequence
    start.
    """

    transitions: Transition
    loadings: Array
    noise_variance: Array
    offset: Array

    @property
    def n_gaps(self) -> int:
        """Number of different gaps, ``U``."""
        return self.transitions.n_rows - 1

    @property
    def n_states(self) -> int:
        """Dimension of the state, ``K``."""
        return self.loadings.shape[1]


class Rows(NamedTuple):
    """Rows as inputs of the compiled programs.

    ``values`` (T, D) are zero where missing. ``weights`` (T, D) multiply the log densities of values: zero
    for missing values, and one for observed values unless the panel has weights. ``gap_index`` (T,) is the
    index of the gap before each row.
    """

    values: Array
    weights: Array
    gap_index: Array


class Problem(NamedTuple):
    """Parameters and consecutive rows: all data or a chunk.

    For ``weights`` (T, D) see :class:`Rows`. ``transitions`` (T, K) are transitions from the previous row to
    each row; ``after`` (K,) is the transition from the last row, or a sequence start at the end of the data.
    """

    values: Array
    weights: Array
    transitions: Transition
    after: Transition
    loadings: Array
    noise_variance: Array
    offset: Array

    @property
    def following(self) -> Transition:
        """Transitions from each row to the next, (T, K)."""
        return self.transitions.followed_by(self.after)


def make_model(params: StateSpace, panel: Panel) -> Model:
    """Return parameters with the transitions over the gaps of a panel."""
    transitions = transition_table(params, panel.gaps)
    observed = map(jnp.asarray, (params.loadings, params.noise_variance, params.offset))
    return Model(transitions.map(jnp.asarray), *observed)


def make_problem(model: Model, rows: Rows, after_index: Array | int) -> Problem:
    """Combine parameters and rows; ``after_index`` is the index of the gap after the rows."""
    table = model.transitions
    if model.n_gaps == 1:
        transitions = table.at(0).start_unless(rows.gap_index == 0)
    else:
        transitions = table.at(rows.gap_index)
    return Problem(rows.values, rows.weights, transitions, table.at(after_index), *model[1:])


def following_index(rows: Rows, after_index: Array | int) -> Array:
    """Return the index of the gap from each row to the next."""
    return jnp.concatenate([rows.gap_index[1:], jnp.asarray(after_index, rows.gap_index.dtype)[None]])


def rows_of(panel: Panel, start: int, length: int) -> Rows:
    """Return ``length`` rows of a panel as device arrays, padded with rows of missing values."""
    part = slice(start, start + length)
    index = panel.gap_index[part]
    missing = length - index.shape[0]
    with read_lock:
        values, weights = (np.asarray(x[part], np.float64) for x in (panel.values, panel.value_weights))
    if missing:
        values, weights = (np.pad(x, ((0, missing), (0, 0))) for x in (values, weights))
    index = np.pad(index, (0, missing), constant_values=panel.gaps.shape[0])
    return Rows(*map(jnp.asarray, (values, weights, index)))


def index_after(panel: Panel, end: int) -> int:
    """Return the index of the gap from row ``end - 1`` to the row after it."""
    return int(panel.gap_index[end]) if end < panel.gap_index.shape[0] else panel.gaps.shape[0]


class Strategy(Protocol):
    """Interface of an algorithm for consecutive rows.

    JAX traces the methods, which are pure functions. Equal strategies share compiled programs.
    """

    @property
    def name(self) -> str:
        """Name of the strategy in :func:`~probsfa.statespace.use_strategy`."""
        ...

    @property
    def low_optimization(self) -> bool:
        """Whether to compile programs at a lower optimization level; true if they are equally fast."""
        ...

    def forward(self, problem: Problem, before: Gaussian) -> tuple[Any, Array]:
        """Filter from the distribution of the state before the first row.

        Returns a tuple of arrays for the backward pass, and the log density (T,) of each row given the rows
        before it. The field ``last`` of the tuple is the distribution of the last state given the rows.
        """
        ...

    def packed_moments(self, problem: Problem, result: Any, after: Gaussian) -> PackedMoments:
        """Return moments for sums over rows, from the distribution of the state after the last row."""
        ...

    def moments(self, problem: Problem, result: Any, after: Gaussian) -> RowMoments:
        """Return all moments of all rows, from the distribution of the state after the last row."""
        ...
