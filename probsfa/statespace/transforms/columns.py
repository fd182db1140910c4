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
        """Pairs of a column and its transform, for columns with a transform."""
        return [(j, transform) for j, transform in enumerate(self.by_column) if transform is not None]

    @property
    def n_free(self) -> int:
        """Number of estimated parameters."""
        return sum(transform.n_free for _, transform in self.used)

    def check(self, values: FloatArray, names: Sequence[str] | None) -> None:
        """Raise a ValueError that names the first value outside the domain of its transform.

        Parameters
        ----------
        values : ndarray of shape (N, D)
        names : sequence of str or None
            Names of the columns.
        """
        for j, transform in self.used:
            check_domain(transform, values[:, j], j, names)

    def forward(self, values: FloatArray) -> FloatArray:
        """Return transformed values (..., D); a new array if any column has a transform."""
        return self._mapped(values, "forward")

    def inverse(self, values: FloatArray) -> FloatArray:
        """Return values (..., D) in data units."""
        return self._mapped(values, "inverse")

    def _mapped(self, values: FloatArray, direction: str) -> FloatArray:
        if not self.used:
            return values
        mapped = values.copy()
        for j, transform in self.used:
            mapped[..., j] = getattr(transform, direction)(values[..., j])
        return mapped

    def log_slopes(self, values: FloatArray) -> FloatArray:
        """Return the sum of ``log T'(x)`` over the observed values of each row, shape (N,)."""
        total = np.zeros(len(values))
        for j, transform in self.used:
            total += np.nan_to_num(transform.log_slope(values[:, j]))
        return total

    def moments(
        self, means: FloatArray, std: FloatArray, where: BoolArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and standard deviations (N, D) in data units.

        With ``where``, only selected values are converted.
        """
        if not self.used:
            return means, std
        converted = means.copy(), std.copy()
        for j, transform in self.used:
            rows = np.ones(len(means), dtype=bool) if where is None else where[:, j]
            rows = rows & ~np.isnan(means[:, j])
            converted[0][rows, j], converted[1][rows, j] = transform.moments(means[rows, j], std[rows, j])
        return converted


def check_domain(transform: Transform, values: FloatArray, column: int, names: Sequence[str] | None) -> None:
    """Raise a ValueError that names the first value outside the domain of a transform."""
    is_outside = transform.is_outside(values)  # False for NaN
    if is_outside.any():
        row = int(np.argmax(is_outside))
        name_clause = "" if names is None else f" ({names[column]!r})"
        raise ValueError(
            f"X has {values[row]:g} in row {row}, column {column}{name_clause}; "
            f"transforms={name_of(transform)} requires values {transform.domain}. Replace the value by NaN "
            "if it is missing, or choose another transform."
        )


def name_of(transform: Transform) -> str:
    """Return the text of a transform as a value of the parameter ``transforms``."""
    if isinstance(transform, Bounds):
        return repr((transform.lower, transform.upper))
    return repr(transform.as_list[0])
