"""Kernel values between training rows, and the kernel functions of a support, computed when asked for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from probsfa._typing import FloatArray

__all__ = [
    "KernelColumns",
    "KernelFunctions",
    "check_kernel",
    "check_positive_semidefinite",
    "is_translation_invariant",
    "kernel_block",
    "rows_at_a_time",
]

IntArray = NDArray[np.intp]
Metric = str | Callable[..., float]

_DIAGONAL_BLOCK = 32
_BLOCK_CELLS = 2**21  # 16 MiB: large enough for the matrix products, small beside what they add up to
_BLOCK_ROWS = (256, 8192)
# Of the largest value; what single precision leaves of symmetry and of a zero eigenvalue is a tenth of it.
_ASYMMETRY = _INDEFINITE = 1e-6
# Outputs that combine linear kernels with coefficients of zero sum are translation invariant too.
_TRANSLATION_INVARIANT = ("rbf", "laplacian", "linear")


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


@dataclass(frozen=True, eq=False)
class KernelFunctions:
    """The kernel functions ``k(z_1, .), ..., k(z_m, .)`` of a support on training rows.

    Attributes
    ----------
    kernel : KernelColumns
        Kernel of all training rows.
    support : ndarray (m,) of int, or ndarray (m, D)
        Support vectors: some of the rows, by number, or points of their own.
    """

    kernel: KernelColumns
    support: NDArray[Any]

    @property
    def n_functions(self) -> int:
        """Number of support vectors, m."""
        return len(self.support)

    @property
    def n_rows(self) -> int:
        """Number of training rows, n."""
        return self.kernel.n_rows

    @property
    def of_rows(self) -> bool:
        """Whether the support vectors are training rows."""
        return self.support.ndim == 1

    def __call__(self, rows: IntArray | slice) -> FloatArray:
        """Return ``k(x_t, z_j)`` for some rows, (number of rows, m)."""
        if self.of_rows:
            return self.kernel.block(rows, self.support)
        return kernel_block(self.kernel.values[rows], self.support, self.kernel.metric, self.kernel.params)

    def gram(self) -> FloatArray:
        """Return ``k(z_i, z_j)``, (m, m)."""
        if self.of_rows:
            return self.kernel.block(self.support, self.support)
        return kernel_block(self.support, self.support.copy(), self.kernel.metric, self.kernel.params)


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


def is_translation_invariant(metric: Metric) -> bool:
    """Tell whether subtracting one point from all rows leaves the outputs of kernel SFA as they are."""
    return isinstance(metric, str) and metric in _TRANSLATION_INVARIANT


def check_positive_semidefinite(gram: FloatArray, metric: Metric) -> None:
    """Raise a ValueError unless a kernel between support vectors is symmetric and positive semidefinite.

    Parameters
    ----------
    gram : ndarray (m, m)
        ``k(z_i, z_j)``.
    metric : str or callable
        The kernel, for the message.

    Notes
    -----
    Outputs combine kernel functions with coefficients that sum to zero, so positive on those is enough, as
    minus a squared distance is. Cholesky's factorisation of the centred matrix, with a ridge as large as what
    rounding in single precision may do to an eigenvalue, exists where none lies below minus the ridge.
    """
    named = "the precomputed kernel" if metric == "precomputed" else f"kernel={metric!r:.80}"
    scale = float(np.abs(gram).max())
    asymmetry = float(np.abs(gram - gram.T).max())
    if asymmetry > _ASYMMETRY * scale:
        i, j = np.unravel_index(int(np.argmax(np.abs(gram - gram.T))), gram.shape)
        raise ValueError(
            f"{named} is not symmetric: k(z, z') = {gram[i, j]:.6g} and k(z', z) = {gram[j, i]:.6g} for "
            f"support vectors {i} and {j}. A kernel of slow feature analysis is symmetric and positive "
            "semidefinite."
        )
    centred = (gram + gram.T) / 2
    centred = centred - centred.mean(axis=0)
    centred -= centred.mean(axis=1)[:, None]
    largest = float(np.abs(np.diagonal(centred)).max())
    m = len(centred)
    centred.flat[:: m + 1] += _INDEFINITE * np.sqrt(m) * largest + 4 * m * np.finfo(np.float64).eps * scale
    try:
        scipy.linalg.cholesky(centred, check_finite=False, overwrite_a=True)
    except scipy.linalg.LinAlgError:
        raise ValueError(
            f"{named} is not positive semidefinite on these rows: combinations of its functions have a "
            "negative squared norm, so no norm can be penalised and no slowest output is defined. Use "
            "another kernel or other parameters of it."
        ) from None


def rows_at_a_time(n_columns: int) -> int:
    """Return how many rows of a kernel with so many columns to compute at a time."""
    fewest, most = _BLOCK_ROWS
    return int(np.clip(_BLOCK_CELLS // max(n_columns, 1), fewest, most))
