"""The compiled kernels: import of their Python module, and their array formats."""

import importlib
import os
import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Blocks, Transition
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.panel import Units, empty_aligned, pack_rows
from probsfa.statespace.parameters import StateSpace

__all__ = ["ENVIRONMENT_VARIABLE", "MAX_STATES", "available", "kernels", "pack", "warn_if_missing"]

#: Environment variable that switches the compiled engine off if it is "0".
ENVIRONMENT_VARIABLE = "PROBSFA_CORE"
#: Maximum dimension of the state that kernels are compiled for.
MAX_STATES = 160
# Version of the module's interface that this file requires.
_INTERFACE_VERSION = 2


@cache
def _module() -> Any:
    """Return ``_probsfa_core``; None if it is not installed, or if its interface has another version."""
    try:
        module = importlib.import_module("_probsfa_core")
    except ImportError:
        return None
    return module if module.INTERFACE == _INTERFACE_VERSION else None


def available() -> bool:
    """Return whether the compiled engine is installed, and not switched off by the environment variable."""
    return os.environ.get(ENVIRONMENT_VARIABLE) != "0" and _module() is not None


def warn_if_missing() -> None:
    """Warn, once in a process, if the compiled engine is neither installed nor switched off.

    The warning is necessary because installers show errors of the build only on request.
    """
    if os.environ.get(ENVIRONMENT_VARIABLE) != "0" and _module() is None:
        _warn()


@cache
def _warn() -> None:
    warnings.warn(
        "The compiled engine of probsfa is not installed: JAX computes the results. In each process, JAX "
        "compiles for some seconds when data have a new shape. Install a wheel of probsfa for this system; "
        "or install GCC or Clang and repeat the installation with "
        "`pip install -v --no-cache-dir --force-reinstall --no-deps`, "
        f"where -v shows the errors of the build. Set {ENVIRONMENT_VARIABLE}=0 to use JAX without this "
        "warning.",
        stacklevel=4,
    )


def kernels() -> Any:
    """Return the module ``_probsfa_core``.

    Raises
    ------
    RuntimeError
        If it is not installed.
    """
    module = _module()
    if module is None:
        raise RuntimeError(
            "the compiled engine is not installed. Install probsfa with a C and a C++ compiler."
        )
    return module


def pack(block: FloatArray, units: Units | None) -> tuple[FloatArray, FloatArray]:
    """Return standardized values, zero where missing, and the mask of observed values.

    Like :func:`.pack_rows`, but computed by the compiled engine if it supports the array.
    """
    is_plain = type(block) in (np.ndarray, np.memmap) and block.dtype == np.float64  # no masked array
    is_contiguous = block.flags.c_contiguous and block.flags.aligned
    has_units = units is not None and block.shape[1:] == units.shift.shape
    if units is None or not (is_plain and is_contiguous and has_units and available()):
        return pack_rows(block, units)
    values, mask = empty_aligned(block), empty_aligned(block)
    shift, scale = (np.ascontiguousarray(x, np.float64) for x in units)
    kernels().pack(np.asarray(block), shift, scale, values, mask)
    return values, mask


# ---- arrays: transitions over gaps, columns, sums, lower triangles

#: Number of doubles in a SIMD vector, as in segments.c.
LANES = 4


class Precisions(NamedTuple):
    """Matrices of transitions for information filters, as arrays for the kernels of ``segments.c``.

    The first axis is the ``U`` gaps, followed by the sequence start.

    Attributes
    ----------
    cross_precision, previous_precision, innovation_precision : ndarray (U + 1, B, K)
        ``A' Q^-1``, ``A' Q^-1 A`` and ``Q^-1``, in the form of :func:`by_diagonals`. The kernels require
        ``B = 2``.
    log_det : ndarray (U + 1,)
        ``log|Q|``.
    """

    cross_precision: FloatArray
    previous_precision: FloatArray
    innovation_precision: FloatArray
    log_det: FloatArray

    @classmethod
    def of(cls, steps: Transition) -> "Precisions":
        """Return the matrices of transitions (U + 1, K) from :func:`.transition_table`."""
        batch = steps.as_batch()
        precisions = batch.in_information_form()
        return cls(
            cross_precision=by_diagonals(precisions.cross_precision),
            previous_precision=by_diagonals(precisions.previous_precision),
            innovation_precision=by_diagonals(precisions.innovation_precision),
            log_det=np.ascontiguousarray(batch.innovation_log_det(), np.float64),
        )


def by_diagonals(batch: Blocks) -> FloatArray:
    """Return the cyclic diagonals of a batch of ``U`` block-diagonal matrices, as an array (U, B, K).

    Entry ``[u, b, k]`` is from row ``k`` of matrix ``u``. If row ``k`` is row ``i`` of a block of size ``n``,
    it is the entry in column ``(i + b) mod n`` of the block, or zero if ``b >= n``. ``B`` is the size of the
    largest block, at least two.
    """
    first, count = batch.diagonal.shape
    width = max((2, *(group.shape[1] for group in batch.groups)))
    diagonals = np.zeros((count, width, batch.n_states))
    diagonals[:, 0, :first] = batch.diagonal.T
    for group in batch.groups:
        n, size = group.shape[:2]
        rows = np.arange(size)
        for b in range(size):
            diagonal = group[:, rows, (rows + b) % size]  # (P, B, U)
            diagonals[:, b, first : first + n * size] = diagonal.reshape(n * size, count).T
        first += n * size
    return diagonals


class Roots(NamedTuple):
    """Matrices of transitions for square-root filters, as arrays for the kernels of ``recursions.c``.

    The first axis is the ``U`` gaps, followed by the sequence start.

    Attributes
    ----------
    transition : ndarray (U + 1, K, K)
        ``A``.
    innovation : ndarray (U + 1, K, K)
        Upper triangles ``N`` with ``Q = N' N``.
    """

    transition: FloatArray
    innovation: FloatArray

    @classmethod
    def of(cls, steps: Transition) -> "Roots":
        """Return the matrices of transitions (U + 1, K) from :func:`.transition_table`."""
        batch = steps.as_batch()
        both = (batch.matrix.matrix(), batch.innovation_root().matrix())
        return cls(*(np.ascontiguousarray(np.moveaxis(x, -1, 0), np.float64) for x in both))

    def select(self, index: NDArray[np.int32]) -> tuple["Roots", NDArray[np.int32]]:
        """Return only the transitions to which `index` refers, and the index into the result."""
        used, inverse = np.unique(index, return_inverse=True)
        return Roots(self.transition[used], self.innovation[used]), inverse.astype(np.int32)


class Columns(NamedTuple):
    """Parameters of the columns as arrays for the kernels; see ``observations`` of ``kernels.h``."""

    offset: FloatArray
    reciprocal_noise: FloatArray
    log_norm: FloatArray
    loadings: FloatArray
    scaled: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, params: StateSpace) -> "Columns":
        """Return the parameters of the columns of a model."""
        rows, columns = lower_triangle(params.n_states)
        loadings, noise = (np.asarray(x, np.float64) for x in (params.loadings, params.noise_variance))
        scaled = loadings / noise[:, None]
        arrays = (
            params.offset,
            1.0 / noise,
            np.log(2.0 * np.pi * noise),
            loadings.T,
            scaled,
            scaled[:, rows] * loadings[:, columns],
        )
        return cls(*(np.ascontiguousarray(array, np.float64) for array in arrays))


class Sums(NamedTuple):
    """Sums over rows for the expected statistics; see ``add_up`` of ``segments.c``."""

    observed_sums: FloatArray
    residual_moments: FloatArray
    residual_power: FloatArray
    transitions: FloatArray

    @classmethod
    def zero(
        cls, n_states: int, n_terms: int, n_features: int, n_gaps: int, *, complete: bool = False
    ) -> "Sums":
        """Return arrays of zeros.

        If all rows are complete, the ``observed_sums`` of all columns are equal and stored once.
        """
        k, d = n_states, n_features
        width = d + 1 + -(d + 1) % LANES
        observed = (k * (k + 1) + k + 1, LANES if complete else width)
        shapes = (observed, (k + 1, width), (d,), (n_gaps + 1, 3 * n_terms + 1))
        return cls(*(np.zeros(shape) for shape in shapes))

    def statistics(self, log_likelihood: float, loadings: FloatArray, *, complete: bool) -> Statistics:
        """Return the expected statistics; `complete` as in :meth:`zero`."""
        d, k = loadings.shape
        packed = k * (k + 1) // 2
        observed = self.observed_sums[:, :1] if complete else self.observed_sums[:, : d + 1]
        covariance_sums, mean_products = (
            unpacked(observed[part].T) for part in (slice(packed), slice(packed, 2 * packed))
        )
        mean_sums, counts = observed[2 * packed : -1].T, observed[-1]
        moments = np.empty((d + 1, k + 1, k + 1))
        moments[:, :k, :k] = covariance_sums + mean_products
        moments[:, :k, k] = moments[:, k, :k] = mean_sums
        moments[:, k, k] = counts
        covariance_loadings = (
            loadings @ covariance_sums[0]
            if complete
            else np.einsum("dij,dj->di", covariance_sums[:-1], loadings)
        )
        cross_products = self.residual_moments[:, :d].T.copy()
        cross_products[:, :k] -= covariance_loadings
        residual_power = self.residual_power + np.einsum("di,di->d", covariance_loadings, loadings)
        gap_sums = self.transitions[:-1]
        transition_sums = (gap_sums[:, -1], *np.split(gap_sums[:, :-1], 3, axis=1))
        return Statistics(
            log_likelihood,
            np.broadcast_to(counts, d + 1)[:-1].copy(),
            residual_power,
            cross_products,
            moments[:-1],
            moments[-1],
            *map(np.copy, transition_sums),
        )


@cache
def lower_triangle(size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the entries of a lower triangle, row after row."""
    return np.tril_indices(size)


def packed(matrix: FloatArray) -> FloatArray:
    """Return the lower triangle of a matrix, row after row."""
    return matrix[lower_triangle(len(matrix))]


def unpacked(lower: FloatArray) -> FloatArray:
    """Return the symmetric matrices (..., K, K) of lower triangles."""
    return lower[..., _packed_positions(lower.shape[-1])]


@cache
def _packed_positions(count: int) -> NDArray[np.intp]:
    """Return, for each entry of a symmetric matrix, its index in the packed lower triangle (count,)."""
    size = round((np.sqrt(8.0 * count + 1.0) - 1.0) / 2.0)
    positions = np.zeros((size, size), dtype=np.intp)
    positions[lower_triangle(size)] = np.arange(count)
    return np.maximum(positions, positions.T)
