"""The maps of all columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.transforms.maps import Bounds, Transform


@dataclass(frozen=True)
class Transforms:
    """The maps of all columns.

    Attributes
    ----------
    by_column : tuple of Transform or None
        One for each column; None where it stays as it is.
    """

    by_column: tuple[Transform | None, ...]

    @property
    def used(self) -> list[tuple[int, Transform]]:
        """Columns that have a map, and the map."""
        return [(j, one) for j, one in enumerate(self.by_column) if one is not None]

    @property
    def n_free(self) -> int:
        """Number of parameters that were learned."""
        return sum(one.n_free for _, one in self.used)

    def check(self, values: FloatArray, names: Sequence[str] | None) -> None:
        """Raise a ValueError that names the first value outside the domain of its column's map.

        Parameters
        ----------
        values : ndarray of shape (N, D)
        names : sequence of str or None
            What the columns are called.
        """
        for j, one in self.used:
            refuse_outside(one, values[:, j], j, names)

    def forward(self, values: FloatArray) -> FloatArray:
        """Cells (..., D) in the scales of the columns; a new array where any has one."""
        return self._mapped(values, "forward")

    def inverse(self, values: FloatArray) -> FloatArray:
        """Cells (..., D) in data units."""
        return self._mapped(values, "inverse")

    def _mapped(self, values: FloatArray, how: str) -> FloatArray:
        if not self.used:
            return values
        out = values.copy()
        for j, one in self.used:
            out[..., j] = getattr(one, how)(values[..., j])
        return out

    def log_slopes(self, values: FloatArray) -> FloatArray:
        """Sum of ``log T'(x)`` over the observed cells of each row, shape (N,)."""
        total = np.zeros(len(values))
        for j, one in self.used:
            total += np.nan_to_num(one.log_slope(values[:, j]))
        return total

    def moments(
        self, means: FloatArray, std: FloatArray, where: BoolArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Means and standard deviations (N, D) in data units, of all cells or of some."""
        if not self.used:
            return means, std
        out = means.copy(), std.copy()
        for j, one in self.used:
            cells = np.ones(len(means), dtype=bool) if where is None else where[:, j]
            cells = cells & ~np.isnan(means[:, j])
            out[0][cells, j], out[1][cells, j] = one.moments(means[cells, j], std[cells, j])
        return out


def refuse_outside(one: Transform, cells: FloatArray, column: int, names: Sequence[str] | None) -> None:
    """Raise a ValueError that names the first cell outside the domain of a map."""
    bad = one.outside(cells)  # NaN is outside of nothing
    if bad.any():
        row = int(np.argmax(bad))
        called = "" if names is None else f" ({names[column]!r})"
        raise ValueError(
            f"X has {cells[row]:g} in row {row}, column {column}{called}, and transforms={name_of(one)} "
            f"takes what is {one.domain}. Replace the value by NaN where it stands for a missing "
            "measurement, or choose another transform."
        )


def name_of(one: Transform) -> str:
    """A map as its user would write it."""
    if isinstance(one, Bounds):
        return repr((one.lower, one.upper))
    return repr(one.plain[0])
