"""Rows of a panel as compiled programs take them: in chunks, on the device, cached for the next time."""

import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

import jax.numpy as jnp
import numpy as np

from probsfa.statespace.engine.problem import Rows
from probsfa.statespace.panel import Panel

# Data up to this size are kept ready for the next evaluation.
_MOST_CACHED_BYTES = 512 * 2**20

_Key = tuple[int, ...]
_T = TypeVar("_T")


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
    arrays = (panel.values, panel.mask, panel.gap_index)
    key = (*map(id, arrays), *how)
    if key not in store:
        store[key] = make()
        for array in arrays:
            weakref.finalize(array, store.pop, key, None)
    return store[key]


_rows: dict[_Key, dict[int, Rows]] = {}
# A source that rows are read from need not bear two readers at once.
_reading = threading.Lock()


def cached_rows(panel: Panel, *how: int) -> dict[int, Rows] | None:
    """Where the chunks of a panel, cut in some way, stay as long as its values live; None if very large."""
    if panel.values.nbytes + panel.mask.nbytes > _MOST_CACHED_BYTES:
        return None
    return cached(_rows, panel, dict, *how)


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
        with _reading:
            seen, values = (np.pad(rows[part], ((0, missing), (0, 0))) for rows in (panel.mask, panel.values))
        return Rows(
            jnp.asarray(values),
            jnp.asarray(seen),
            jnp.asarray(np.pad(index, (0, missing), constant_values=panel.gaps.shape[0])),
        )

    def after_index(self, k: int) -> int:
        """Which gap leads from the last row of chunk ``k`` to the row after it."""
        start = (k + 1) * self.rows
        if start >= self.panel.gap_index.shape[0]:
            return self.panel.gaps.shape[0]
        return int(self.panel.gap_index[start])
