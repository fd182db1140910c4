"""What a strategy is given: parameters and rows on the device, and a stretch of rows under a model.

Rows go to the device in chunks, which are kept there for the next evaluation.
"""

import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Transition, transition_table
from probsfa.statespace.panel import Panel, resident_bytes
from probsfa.statespace.parameters import Parameters

# Data up to this size are kept ready for the next evaluation.
_MOST_CACHED_BYTES = 512 * 2**20

_Key = tuple[int, ...]
_T = TypeVar("_T")
# Two threads that ask for one entry at once would both make it.
_making = threading.RLock()


class Model(NamedTuple):
    """Parameters as the compiled programs take them.

    ``transitions`` (U + 1, K) has the transition over each of a panel's gaps, and last the one that starts a
    sequence.
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
    """Rows as the compiled programs take them; ``gap_index`` says which gap leads to each row.

    ``weights`` (T, D) are the powers to which the densities of cells are raised: one where a cell is
    observed, unless the panel has weights of its own, and zero where it is missing.
    """

    values: Array
    weights: Array
    gap_index: Array


class Problem(NamedTuple):
    """Parameters and a stretch of rows, the whole of the data or a chunk of it.

    ``weights`` (T, D) are those of :class:`Rows`. ``transitions`` (T, K) lead to each row from the one
    before, ``after`` (K,) from the last row to the one after; where nothing follows, it is the one that
    starts a sequence.
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


def make_model(params: Parameters, panel: Panel, *, backwards: bool = False) -> Model:
    """Parameters with the transitions over the gaps of a panel, whose rows may be in reverse order."""
    transitions = transition_table(params, panel.gaps)
    if backwards:
        transitions = transitions.reversed()
    observed = map(jnp.asarray, (params.loadings, params.noise_variance, params.offset))
    return Model(transitions.map(jnp.asarray), *observed)


def make_problem(model: Model, rows: Rows, after_index: Array | int) -> Problem:
    """A stretch of rows under a model; gap ``after_index`` leads to the row after it."""
    table = model.transitions
    if model.n_gaps == 1:
        transitions = table.at(0).kept_where(rows.gap_index == 0)
    else:
        transitions = table.at(rows.gap_index)
    return Problem(rows.values, rows.weights, transitions, table.at(after_index), *model[1:])


def following_index(rows: Rows, after_index: Array | int) -> Array:
    """Which gap leads from each row to the next."""
    return jnp.concatenate([rows.gap_index[1:], jnp.asarray(after_index, rows.gap_index.dtype)[None]])


def cached(store: dict[_Key, _T], panel: Panel, make: Callable[[], _T], *how: int) -> _T:
    """Return the entry of a panel in ``store``, made if it is not there yet.

    Parameters
    ----------
    store : dict
        The entries; that of a panel goes when one of its arrays does.
    panel : Panel
        The panel.
    make : callable
        Makes its entry.
    *how : int
        Tells apart several entries of one panel.
    """
    arrays = (panel.values, panel.cell_weights, panel.gap_index)
    key = (*map(id, arrays), *how)
    with _making:
        if key not in store:
            store[key] = make()
            for array in arrays:
                weakref.finalize(array, store.pop, key, None)
        return store[key]


_rows: dict[_Key, dict[int, Rows]] = {}
# A source that rows are read from need not bear two readers at once.
reading = threading.Lock()


def cached_rows(panel: Panel, *how: int) -> dict[int, Rows] | None:
    """Where the chunks of a panel, cut in some way, are kept; None if very large or read from elsewhere."""
    size = resident_bytes(panel.values)
    if size is None or 2 * size > _MOST_CACHED_BYTES:
        return None
    return cached(_rows, panel, dict, *how)


def _filled_up(rows: FloatArray, missing: int) -> FloatArray:
    """Rows with so many of zeros after them."""
    return np.pad(rows, ((0, missing), (0, 0))) if missing else rows


class Chunks:
    """Chunks of a panel, equally long; the last may be filled up with rows in which nothing is observed.

    Parameters
    ----------
    panel : Panel
        The panel, or rows of one in reverse order.
    rows : int
        Rows of a chunk.
    count : int
        Number of chunks.
    cache : dict, optional
        Keeps chunks that have been converted.
    """

    def __init__(self, panel: Panel, rows: int, count: int, cache: dict[int, Rows] | None) -> None:
        self.panel = panel
        self.rows = rows
        self.count = count
        self.cache = cache

    @classmethod
    def of(cls, panel: Panel, rows: int) -> "Chunks":
        """The chunks of a whole panel."""
        return cls(panel, rows, -(-panel.values.shape[0] // rows), cached_rows(panel, rows))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, k: int) -> Rows:
        if self.cache is None:
            return self.convert(k)
        if k not in self.cache:
            self.cache[k] = self.convert(k)
        return self.cache[k]

    def convert(self, k: int) -> Rows:
        """Chunk ``k`` as device arrays."""
        part = slice(k * self.rows, (k + 1) * self.rows)
        panel = self.panel
        index = panel.gap_index[part]
        missing = self.rows - index.shape[0]
        with reading:
            sources = (panel.values, panel.cell_weights)
            values, weights = (_filled_up(rows[part], missing) for rows in sources)
        # What is cached goes with the panel's arrays, and must not hold on to them.
        put = partial(jax.device_put, may_alias=self.cache is None)
        return Rows(
            put(values),
            put(weights),
            jnp.asarray(np.pad(index, (0, missing), constant_values=panel.gaps.shape[0])),
        )

    def after_index(self, k: int) -> int:
        """Which gap leads from the last row of chunk ``k`` to the row after it."""
        start = (k + 1) * self.rows
        if start >= self.panel.gap_index.shape[0]:
            return self.panel.gaps.shape[0]
        return int(self.panel.gap_index[start])
