"""Transforms of all columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from probsfa._typing import BoolArray, FloatArray
from probsfa.statespace.transforms.maps import Bounds, Transform


@dataclass(frozen=True)
class Transforms:
    """Transforms of all columns.

    Attributes
    ----------
    by_column : tuple of Transform or None
        One for each column; None for columns without a transform.
    """

    by_column: tuple[Transform | None, ...]

    @property
    def used(self) -> list[tuple[int, Transform]]:
        """Columns with a transform, and the transforms."""
        return [(j, one) for j, one in enumerate(self.by_column) if one is not None]

    @property
    def n_free(self) -> int:
        """Number of estimated parameters."""
        return sum(one.n_free for _, one in self.used)

    def check(self, values: FloatArray, names: Sequence[str] | None) -> None:
        """Raise a ValueError that names the first value outside the domain of its transform.

        Parameters
        ----------
        values : ndarray of shape (N, D)
        names : sequence of str or None
            Names of the columns.
        """
        for j, one in self.used:
            refuse_outside(one, values[:, j], j, names)

    def forward(self, values: FloatArray) -> FloatArray:
        """Return transformed values (..., D); a new array if any column has a transform."""
        return self._mapped(values, "forward")

    def inverse(self, values: FloatArray) -> FloatArray:
        """Return values (..., D) in data units."""
        return self._mapped(values, "inverse")

    def _mapped(self, values: FloatArray, how: str) -> FloatArray:
        if not self.used:
            return values
        out = values.copy()
        for j, one in self.used:
            out[..., j] = getattr(one, how)(values[..., j])
        return out

    def log_slopes(self, values: FloatArray) -> FloatArray:
        """Return the sum of ``log T'(x)`` over the observed values of each row, shape (N,)."""
        total = np.zeros(len(values))
        for j, one in self.used:
            total += np.nan_to_num(one.log_slope(values[:, j]))
        return total

    def moments(
        self, means: FloatArray, std: FloatArray, where: BoolArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations (N, D) in data units, of all values or of some."""
        if not self.used:
            return means, std
        out = means.copy(), std.copy()
        for j, one in self.used:
            cells = np.ones(len(means), dtype=bool) if where is None else where[:, j]
            cells = cells & ~np.isnan(means[:, j])
            out[0][cells, j], out[1][cells, j] = one.moments(means[cells, j], std[cells, j])
        return out


def refuse_outside(one: Transform, cells: FloatArray, column: int, names: Sequence[str] | None) -> None:
    """Raise a ValueError that names the first value outside the domain of a transform."""
    bad = one.outside(cells)  # False for NaN
    if bad.any():
        row = int(np.argmax(bad))
        called = "" if names is None else f" ({names[column]!r})"
        raise ValueError(
            f"X has {cells[row]:g} in row {row}, column {column}{called}; transforms={name_of(one)} requires "
            f"values {one.domain}. Replace the value by NaN if it is missing, or choose another transform."
        )


def name_of(one: Transform) -> str:
    """Return a transform as it is written in the parameter ``transforms``."""
    if isinstance(one, Bounds):
        return repr((one.lower, one.upper))
    return repr(one.plain[0])
