"""Model tables for the kernels: columns, and transitions over the gaps between rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.statespace.engine.core.triangles import lower_triangle
from probsfa.statespace.engine.dynamics import Blocks, Transition
from probsfa.statespace.parameters import Parameters


class Precisions(NamedTuple):
    """Transitions over each gap and then the sequence start, in the form that segments use.

    ``A' Q^-1``, ``A' Q^-1 A`` and ``Q^-1`` as returned by :func:`by_diagonals`, (U + 1, 2, K); and ``log|Q|``
    (U + 1,).
    """

    weight: FloatArray
    known: FloatArray
    inverse: FloatArray
    log_det: FloatArray

    @classmethod
    def of(cls, steps: Transition) -> "Precisions":
        """Return the tables of transitions (U + 1, K)."""
        batch = steps.as_batch()
        precisions = batch.in_information_form()
        return cls(
            weight=by_diagonals(precisions.weights),
            known=by_diagonals(precisions.known),
            inverse=by_diagonals(precisions.innovation),
            log_det=np.ascontiguousarray(batch.innovation_log_det(), np.float64),
        )


def by_diagonals(batch: Blocks) -> FloatArray:
    """Return a batch of matrices of blocks as (U, B, K), the diagonals first.

    For row ``i`` of a block, columns ``i + 1``, ``i + 2``, modulo the size of the block, follow. ``B`` is the
    size of the largest block, at least two.
    """
    first, count = batch.diagonal.shape
    width = max((2, *(group.shape[1] for group in batch.groups)))
    out = np.zeros((count, width, batch.n_states))
    out[:, 0, :first] = batch.diagonal.T
    for group in batch.groups:
        n, size = group.shape[:2]
        rows = np.arange(size)
        for b in range(size):
            own = group[:, rows, (rows + b) % size]  # (P, B, U)
            out[:, b, first : first + n * size] = own.reshape(n * size, count).T
        first += n * size
    return out


class Roots(NamedTuple):
    """Transitions over each gap and then the sequence start, in the form that recursions use.

    ``A`` and upper triangles ``N`` with ``Q = N' N``, both (U + 1, K, K).
    """

    transition: FloatArray
    innovation: FloatArray

    @classmethod
    def of(cls, steps: Transition) -> "Roots":
        """Return the tables of transitions (U + 1, K)."""
        batch = steps.as_batch()
        both = (batch.matrix.matrix(), batch.innovation_root().matrix())
        return cls(*(np.ascontiguousarray(np.moveaxis(x, -1, 0), np.float64) for x in both))

    def chosen(self, index: NDArray[np.int32]) -> tuple["Roots", NDArray[np.int32]]:
        """Return only the transitions that an index uses, and the index into them."""
        used, inverse = np.unique(index, return_inverse=True)
        return Roots(self.transition[used], self.innovation[used]), inverse.astype(np.int32)


class Columns(NamedTuple):
    """Parameters of the columns; see ``observations`` of ``kernels.h``."""

    offset: FloatArray
    reciprocal_noise: FloatArray
    log_norm: FloatArray
    loadings: FloatArray
    scaled: FloatArray
    products: FloatArray

    @classmethod
    def of(cls, params: Parameters) -> "Columns":
        """Return the parameters of a model's columns."""
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
