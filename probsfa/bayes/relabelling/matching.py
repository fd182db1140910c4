"""Relabelling of draws: signed permutations of the factors.

The posterior does not change if factors are permuted or change sign, so that a sampler may visit all
equivalent modes (label switching). Before draws are averaged or chains compared, each draw is transformed by
the signed permutation that minimizes its distance to a reference, the maximum a posteriori (Stephens 2000;
Papastamoulis & Ntzoufras 2022, doi:10.1007/s11222-022-10084-4).
"""

from typing import NamedTuple

import numpy as np
import scipy.optimize
from numpy.typing import NDArray

from probsfa._renamed import warn_of_old_name
from probsfa._typing import FloatArray

#: A pair of factors is reported if the order of their time scales changes with more than this probability.
MAX_SWITCHING_PROBABILITY = 0.05


class Relabelling(NamedTuple):
    """A signed permutation for each draw.

    Attributes
    ----------
    permutations : int ndarray (N, K)
        ``permutations[n, k]`` is the factor of draw n with the new label k.
    signs : ndarray (N, K)
        +1 or -1, by label.
    """

    permutations: NDArray[np.intp]
    signs: FloatArray

    @property
    def n_permuted(self) -> int:
        """Number of draws with a changed order of factors."""
        return int(np.sum(np.any(self.permutations != np.arange(self.permutations.shape[1]), axis=1)))

    @property
    def n_flipped(self) -> int:
        """Number of draws with a changed sign."""
        return int(np.sum(np.any(self.signs < 0.0, axis=1)))

    def apply(self, values: FloatArray, signed: bool = True) -> FloatArray:
        """Return values (N, ..., K) of the factors in the common labelling.

        `signed` is False for quantities that do not change sign with the factor, such as time scales.
        """
        between = tuple(range(1, values.ndim - 1))
        order = np.expand_dims(self.permutations, between)
        out = np.take_along_axis(values, np.broadcast_to(order, values.shape), axis=-1)
        return out * np.expand_dims(self.signs, between) if signed else out

    def latents(self, values: FloatArray, signed: bool = True) -> FloatArray:
        """Former name of :meth:`apply`; will be removed in version 2.0."""
        warn_of_old_name("Relabelling.latents", "apply")
        return self.apply(values, signed)


def relabel(
    timescales: FloatArray,
    loadings: FloatArray,
    reference_timescales: FloatArray,
    reference_loadings: FloatArray,
    timescale_spread: FloatArray | None = None,
    loadings_spread: FloatArray | None = None,
) -> Relabelling:
    """Find the signed permutation of each draw that minimizes its distance to a reference.

    Parameters
    ----------
    timescales : ndarray (N, K)
        Time scales of the draws, or their logarithms.
    loadings : ndarray (N, D, K)
        Loadings of the draws.
    reference_timescales : ndarray (K,)
        Time scales of the reference.
    reference_loadings : ndarray (D, K)
        Loadings of the reference.
    timescale_spread, loadings_spread : ndarray (K,) and (D, K), optional
        Posterior standard deviations, by which differences are divided; one by default.

    Returns
    -------
    Relabelling

    Examples
    --------
    >>> import numpy as np
    >>> draw, reference = np.array([[0.0, -1.0]]), np.array([[1.0, 0.0]])
    >>> relabelling = relabel(np.array([[2.0, 9.0]]), draw[None], np.array([9.0, 2.0]), reference)
    >>> relabelling.permutations, relabelling.signs
    (array([[1, 0]]), array([[-1.,  1.]]))
    """
    timescale_unit = 1.0 if timescale_spread is None else timescale_spread
    loadings_unit = np.ones_like(reference_loadings) if loadings_spread is None else loadings_spread
    differences = timescales[:, :, None] - reference_timescales
    weights = 1.0 / loadings_unit**2
    # |s C_j - C*_k|^2 = |C_j|^2 - 2 s C_j C*_k + ..., minimized by the sign of the product.
    product = np.einsum("ndj,dk->njk", loadings, reference_loadings * weights)
    squared_norm = np.einsum("ndj,dk->njk", loadings**2, weights)
    costs = (differences / timescale_unit) ** 2 + squared_norm - 2.0 * np.abs(product)
    n, k = timescales.shape
    permutations = np.empty((n, k), dtype=np.intp)
    for i in range(n):
        rows, labels = scipy.optimize.linear_sum_assignment(costs[i])
        permutations[i, labels] = rows
    selected = np.take_along_axis(product, permutations[:, None, :], axis=1)[:, 0]
    return Relabelling(permutations, np.where(selected < 0.0, -1.0, 1.0))


def close_pairs(timescales: FloatArray) -> list[tuple[int, int, float]]:
    """Return pairs of factors whose relabelled time scales (N, K) have an uncertain order.

    Returns
    -------
    list of (int, int, float)
        Two labels and the posterior probability, between 5 and 95 %, that the second is slower than the
        first.
    """
    pairs = []
    for i in range(timescales.shape[1]):
        for j in range(i + 1, timescales.shape[1]):
            slower = float(np.mean(timescales[:, j] > timescales[:, i]))
            if MAX_SWITCHING_PROBABILITY < slower < 1.0 - MAX_SWITCHING_PROBABILITY:
                pairs.append((i, j, slower))
    return pairs
