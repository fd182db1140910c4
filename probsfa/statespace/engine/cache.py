"""What is worked out of a panel once, and kept as long as the panel's arrays live."""

import weakref
from collections.abc import Callable
from typing import TypeVar

from probsfa.statespace.panel import Panel

Key = tuple[int, ...]
_T = TypeVar("_T")


def keep(store: dict[Key, _T], panel: Panel, make: Callable[[], _T], *how: int) -> _T:
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
