"""Rows that are in memory, or that are read when they are asked for.

The engine goes through long series chunk by chunk and asks for rows by slices alone. So the values of a panel
may be an array, or anything else that has a shape and gives rows for a slice.
"""

from typing import Protocol, runtime_checkable

import numpy as np

from probsfa._typing import FloatArray

__all__ = ["RowSource", "resident_bytes"]


@runtime_checkable
class RowSource(Protocol):
    """Rows of float64 that are cut out by slices; NumPy arrays are row sources too."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows and of columns."""
        ...

    def __getitem__(self, rows: slice, /) -> FloatArray:
        """Rows of a slice, as an array."""
        ...


def resident_bytes(x: RowSource) -> int | None:
    """Bytes that the rows take in memory; None where they are read only when asked for."""
    return int(x.nbytes) if isinstance(x, np.ndarray) and not isinstance(x, np.memmap) else None
