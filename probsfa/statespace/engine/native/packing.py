"""Rows that are read from elsewhere, brought to the units of a model by the library, where there is one."""

import numpy as np

from probsfa._typing import FloatArray
from probsfa.statespace.engine.native.library import packer, serves
from probsfa.statespace.panel import Units, aligned_like, pack_rows

__all__ = ["pack"]


def pack(block: FloatArray, units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Values, zero where missing, and mask: what :func:`.pack_rows` gives, in a third of the time."""
    plain = type(block) in (np.ndarray, np.memmap) and block.dtype == np.float64  # no masked array
    in_place = block.flags.c_contiguous and block.flags.aligned
    if units is None or not (plain and in_place and block.shape[1:] == units.shift.shape and serves()):
        return pack_rows(block, units)
    values, mask = aligned_like(block), aligned_like(block)
    arrays = (block, *(np.ascontiguousarray(x, np.float64) for x in units), values, mask)
    packer()(*block.shape, *(x.ctypes.data for x in arrays))
    return values, mask
