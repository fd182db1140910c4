"""The compiled library, where there is one that serves on this machine."""

import ctypes
import os
from collections.abc import Callable
from functools import cache
from typing import Any

from probsfa.statespace.engine.native.build import LIBRARY, sources_hash, suffix

__all__ = ["Data", "Passes", "Work", "packer", "passes", "serves"]

#: The environment's word for doing without, when it is "0": when a wheel is built, or when a program runs.
SWITCH = "PROBSFA_NATIVE"
_INT, _POINTER = ctypes.c_int64, ctypes.c_void_p


class Data(ctypes.Structure):
    """``data`` of ``segments.c``: rows and columns, and what is known of the columns."""

    _fields_ = [
        *((name, _INT) for name in ("n_states", "n_alone", "n_features", "n_rows", "length", "n_gaps")),
        *(
            (name, _POINTER)
            for name in (
                *("values", "weights", "offset", "reciprocal_noise", "log_norm", "loadings"),
                *("scaled", "products", "collapsed", "means", "terms"),
                *("moments", "lag_one", "next_gap", "decay"),
            )
        ),
    ]


class Work(ctypes.Structure):
    """``work`` of ``segments.c``: sizes, and addresses of arrays."""

    _fields_ = [
        *((name, _INT) for name in ("n_states", "n_alone", "n_rows", "length", "n_gaps")),
        *(
            (name, _POINTER)
            for name in (
                *("collapsed", "gap_index"),
                *("decay", "weight", "known", "inverse", "log_det", "steps"),
                *("group", "rows", "filtered_means", "terms", "means", "covariances", "lag_one"),
            )
        ),
    ]


_ON_WORK: dict[str, tuple[Any, ...]] = {
    "tabulate": (),
    "eliminate": (_INT, _INT),
    "join": (_INT, _POINTER, _POINTER),
    "refilter": (_INT, _INT),
    "join_back": (_INT, _POINTER, _POINTER),
    "smooth": (_INT, _INT, _INT),
    "link": (_INT, _INT),
}
_ON_DATA: dict[str, tuple[Any, ...]] = {
    "collapse": (_INT, _INT),
    "likelihoods": (_INT, _INT),
    "add_up": (_INT, _INT, *(_POINTER,) * 5),
}


@cache
def _library() -> ctypes.CDLL | None:
    """The library; None where there is none, or of other sources, or where the processor is too old."""
    if not LIBRARY.exists():
        return None
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.made_of.restype = ctypes.c_char_p
        if library.made_of() != sources_hash().encode() or not library.supported():
            return None
    except (OSError, AttributeError):  # of another system, or of another version
        return None
    return library


def serves() -> bool:
    """Whether there is a library, and the environment does not forbid it."""
    return os.environ.get(SWITCH) != "0" and _library() is not None


class Passes:
    """The functions for a number of states.

    Parameters
    ----------
    n_states : int
        Dimension of the state.
    """

    def __init__(self, n_states: int) -> None:
        library = _library()
        assert library is not None
        ending = suffix(n_states)
        for structure, functions in ((Work, _ON_WORK), (Data, _ON_DATA)):
            for name, types in functions.items():
                function = getattr(library, f"{name}_{ending}")
                function.argtypes, function.restype = (ctypes.POINTER(structure), *types), None
                setattr(self, name, function)
        sizes = []
        for name in ("group", "step"):
            size = getattr(library, f"size_of_{name}_{ending}")
            size.restype = _INT
            sizes.append(int(size()))
        self.size_of_group, self.size_of_step = sizes

    tabulate: Callable[..., None]
    eliminate: Callable[..., None]
    join: Callable[..., None]
    refilter: Callable[..., None]
    join_back: Callable[..., None]
    smooth: Callable[..., None]
    link: Callable[..., None]
    collapse: Callable[..., None]
    likelihoods: Callable[..., None]
    add_up: Callable[..., None]


@cache
def packer() -> Callable[..., None]:
    """``pack`` of ``pack.c``, where the library serves."""
    library = _library()
    assert library is not None
    function: Callable[..., None] = library.pack
    library.pack.argtypes, library.pack.restype = (_INT, _INT, *(_POINTER,) * 5), None
    return function


@cache
def passes(n_states: int) -> Passes:
    """The functions for a number of states, where the library serves."""
    return Passes(n_states)
