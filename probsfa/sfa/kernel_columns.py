"""Kernel values between training rows, computed when asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from probsfa._typing import FloatArray

__all__ = ["KernelColumns", "check_kernel", "kernel_block", "rows_at_a_time"]

IntArray = NDArray[np.intp]
Metric = str | Callable[..., float]

_DIAGONAL_BLOCK = 32
_BLOCK_CELLS = 2**21  # 16 MiB: large enough for the matrix products, small beside what they add up to
_BLOCK_ROWS = (256, 8192)


@dataclass(frozen=True, eq=False)
class KernelColumns:
    """The kernel matrix of some rows, as a thing that gives blocks of itself.

    Attributes
    ----------
    values : ndarray (n, D), or (n, n) where the metric is "precomputed"
        The rows, or all kernel values.
    metric : str or callable
        As in ``sklearn.metrics.pairwise.pairwise_kernels``.
    params : mapping
        Parameters of the kernel; those it does not know are ignored for a named one.
    """

    values: FloatArray
    metric: Metric
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Number of rows, n."""
        return int(self.values.shape[0])

    def block(self, rows: IntArray | slice, columns: IntArray) -> FloatArray:
        """Return ``k(x_i, x_j)`` for i in rows and j in columns."""
        if self.metric == "precomputed":
            return self.values[rows][:, columns]
        return kernel_block(self.values[rows], self.values[columns], self.metric, self.params)

    def diagonal(self) -> FloatArray:
        """Return ``k(x_i, x_i)`` for all rows, shape (n,)."""
        if self.metric == "precomputed":
            return np.array(np.diagonal(self.values))
        if callable(self.metric):
            values = [self.metric(x, x, **self.params) for x in self.values]
            return np.array(values, dtype=np.float64)
        parts = []
        for start in range(0, self.n_rows, _DIAGONAL_BLOCK):
            rows = self.values[start : start + _DIAGONAL_BLOCK]
            parts.append(np.diagonal(kernel_block(rows, rows, self.metric, self.params)))
        return np.concatenate(parts)


def kernel_block(X: FloatArray, Z: FloatArray, metric: Metric, params: Mapping[str, Any]) -> FloatArray:
    """Return the kernel between two sets of rows, (len(X), len(Z)).

    Raises
    ------
    ValueError
        If the kernel returns a value that is not finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        block: FloatArray = pairwise_kernels(X, Z, metric=metric, filter_params=True, **params)
    if not np.isfinite(block.sum()):
        raise ValueError(f"kernel={metric!r} gave values that are not finite on these rows; scale X first.")
    return block


def check_kernel(metric: Any) -> None:
    """Raise a ValueError for what is neither a kernel scikit-learn knows nor callable."""
    known = {*PAIRWISE_KERNEL_FUNCTIONS, "precomputed"}
    if not callable(metric) and not (isinstance(metric, str) and metric in known):
        raise ValueError(f"kernel must be callable or one of {', '.join(sorted(known))}; got {metric!r}.")


def rows_at_a_time(n_columns: int) -> int:
    """Return how many rows of a kernel with so many columns to compute at a time."""
    fewest, most = _BLOCK_ROWS
    return int(np.clip(_BLOCK_CELLS // max(n_columns, 1), fewest, most))
