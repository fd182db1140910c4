"""Default numbers of latent factors and of rows of a fit.

For imputation, fast factors are as important as slow ones. The default number of factors is therefore that of
the columns, or less for few data or long computing times. Time is measured in products, not in seconds, so
that the same data lead to the same model on all machines. A posterior costs about ``T K (K (K + D) + 400)``
products.

With AR(1) noise of all columns, a posterior has ``K + D`` instead of ``K`` states, or that noise is
integrated out (:mod:`~probsfa.statespace.engine.idiosyncratic`); see :func:`integrates_ar1_noise`.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray
from probsfa.statespace.engine.core.kernels import MAX_STATES

__all__ = [
    "N_SEGMENTS",
    "Size",
    "affordable_rows",
    "ar1_noise_affordable",
    "default_size",
    "integrates_ar1_noise",
    "most_components",
    "choose_segments",
]

# Maximum number of factors with white and with AR(1) noise.
_MAX_FACTORS, _MAX_FACTORS_WITH_AR1_NOISE = 64, 16
# More than 32 factors are used if the posterior over all rows takes at most this number of products. In 500
# to 1,000 rows of 52 columns of process data, 52 factors have 5 to 26 % smaller errors than 32.
_MANY_FACTORS, _MAX_PRODUCTS_OF_MANY_FACTORS = 32, 3e8
# Maximum number of products of the posterior over all rows that imputation or transformation requires.
_MAX_POSTERIOR_PRODUCTS = 1e10
# Maximum number of products of a posterior in a fit to all rows. A fit computes dozens of posteriors; one of
# this size takes the compiled engine 0.1 to 0.2 s of processor time.
_MAX_FIT_PRODUCTS = 1e9
# Number of products above which AR(1) noise of columns is integrated out. With 50 columns and 1,000 rows fits
# then take at most half the time, and errors are equal or up to 5 % larger (blocks of 50 sensors: 0.166
# against 0.158).
_MAX_FIT_PRODUCTS_BY_STATES = 5e8
# Maximum number of products with AR(1) noise of all columns; if necessary, the number of factors is reduced,
# not that of rows.
_MAX_FIT_PRODUCTS_AR1_NOISE = 1.5e9
# Products for each value of a tridiagonal solution, including multiplication by weights.
_TRIDIAGONAL_PRODUCTS = 12
# Maximum number of observed values for which a fit to segments is continued with all rows, total number of
# products of the continuation (about that of a fit to segments), and minimum number of its evaluations.
_MAX_VALUES_OF_CONTINUATION, _CONTINUATION_PRODUCTS, _MIN_EVALUATIONS = 5_000_000, 3e10, 4
# Minimum number of rows for each factor; with fewer, many factors overfit.
_MIN_ROWS_PER_FACTOR = 48
# Overhead in products for each row and factor.
_OVERHEAD_PRODUCTS = 400
# Minimum number of observed values for each free parameter; with fewer, a further factor increases the
# estimation error by more than it explains.
_MIN_VALUES_PER_PARAMETER = 5.0
# If there are too many rows for a fit: number of segments, minimum number of rows of a segment, and minimum
# number of observed values of each column in all segments (or a quarter of its share, if that is less).
N_SEGMENTS, _MIN_SEGMENT_ROWS = 8, 24
_MIN_VALUES_OF_COLUMN = 100


class Size(NamedTuple):
    """Numbers of factors and rows of a fit.

    Attributes
    ----------
    n_components : int
        Number of latent factors.
    segments : list of slice, or None, default=None
        Segments of rows that parameters are learned from; None for all rows.
    n_rows : int, default=0
        Number of all rows.
    n_further : int, default=0
        Number of likelihood evaluations on all rows, after the fit to the segments.
    """

    n_components: int
    segments: list[slice] | None = None
    n_rows: int = 0
    n_further: int = 0

    @property
    def sentence(self) -> str:
        """Sentence on the selected size, for the status of a fit."""
        words = f" Selected {self.n_components} latent factor{'' if self.n_components == 1 else 's'}"
        if self.segments is None:
            return words + "."
        used = sum(s.stop - s.start for s in self.segments)
        words += f", fitted to {used:,} of {self.n_rows:,} rows in {len(self.segments)} segments"
        if self.n_further:
            words += f", then to all rows with at most {self.n_further} evaluations"
        return f"{words}; with a number as n_components, all evaluations use all rows."


def default_size(
    mask: BoolArray, lengths: tuple[int, ...], varying: BoolArray, *, ar1_noise: bool = False
) -> Size:
    """Choose the number of factors of a fit, and its rows.

    Parameters
    ----------
    mask : ndarray of bool of shape (N, D)
        Which values are observed; rows in order.
    lengths : tuple of int
        Rows of each sequence.
    varying : ndarray of bool of shape (D,)
        Columns that are not constant.
    ar1_noise : bool, default=False
        Whether each column has AR(1) noise.

    Returns
    -------
    Size
    """
    n_rows, n_features = mask.shape
    counts = mask.sum(axis=0)
    k = most_components(
        n_rows, counts, varying, np.inf if ar1_noise else _MAX_POSTERIOR_PRODUCTS, ar1_noise=ar1_noise
    )
    if ar1_noise and integrates_ar1_noise(n_rows, k, n_features):
        while k > 1 and n_rows * _integrated_products(k, n_features) > _MAX_FIT_PRODUCTS_AR1_NOISE:
            k -= 1
        return Size(k)
    k = most_components(n_rows, counts, varying, ar1_noise=ar1_noise)
    own = n_features if ar1_noise else 0
    affordable = affordable_rows(k + own, n_features)
    if n_rows <= affordable:
        return Size(k)
    selected = choose_segments(mask, lengths, affordable)
    if selected is not None:
        n_further = 0
        if counts.sum() <= _MAX_VALUES_OF_CONTINUATION:
            evaluations = _CONTINUATION_PRODUCTS / (n_rows * _products(k + own, n_features))
            n_further = max(int(evaluations), _MIN_EVALUATIONS)
        return Size(k, selected, n_rows, n_further)
    while k > 1 and n_rows * _products(k + own, n_features) > _MAX_FIT_PRODUCTS:
        k -= 1
    return Size(k)


def ar1_noise_affordable(n_rows: int, n_features: int) -> bool:
    """Whether AR(1) noise of all columns can be learned from all rows, beside one factor."""
    products = min(_products(1 + n_features, n_features), _integrated_products(1, n_features))
    return n_rows * products <= _MAX_FIT_PRODUCTS_AR1_NOISE


def integrates_ar1_noise(n_rows: int, n_components: int, n_features: int) -> bool:
    """Return whether AR(1) noise of columns is integrated out; otherwise each column has a state.

    Parameters
    ----------
    n_rows, n_components, n_features : int
        Numbers of rows, factors and columns.

    Returns
    -------
    bool
        True if a posterior of ``K + D`` states takes more than 5e8 products and more than integrating out,
        or if the compiled engine does not support so many states.
    """
    n_states = n_components + n_features
    by_states = _products(n_states, n_features)
    dear = (
        n_rows * by_states > _MAX_FIT_PRODUCTS_BY_STATES
        and _integrated_products(n_components, n_features) < by_states
    )
    return dear or n_states > MAX_STATES


def affordable_rows(n_states: int, n_features: int) -> int:
    """Return the number of rows for which a fit can compute a posterior of so many states many times."""
    n_states = max(n_states, 1)
    return max(int(_MAX_FIT_PRODUCTS / _products(n_states, n_features)), _MIN_ROWS_PER_FACTOR * n_states)


def most_components(
    n_rows: int,
    counts: NDArray[Any],
    varying: BoolArray,
    products: float = _MAX_POSTERIOR_PRODUCTS,
    *,
    ar1_noise: bool = False,
) -> int:
    """Return the largest useful number of factors: that of varying columns, unless data or time limit it.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    counts : ndarray of shape (D,)
        Observed values of each column.
    varying : ndarray of bool of shape (D,)
        Columns that are not constant.
    products : float, default=1e10
        Maximum number of products of a posterior over all rows.
    ar1_noise : bool, default=False
        Whether each column has AR(1) noise.

    Returns
    -------
    int
        At least one.
    """
    n_features, n_varying, n_cells = len(counts), int(varying.sum()), float(counts[varying].sum())
    # A factor has a loading for each column and a decay; a column a mean, a noise variance, and two
    # parameters of AR(1) noise.
    of_columns = (4 if ar1_noise else 2) * n_varying
    by_data = int((n_cells / _MIN_VALUES_PER_PARAMETER - of_columns) / (n_varying + 1))
    k = max(1, min(n_varying, _MAX_FACTORS_WITH_AR1_NOISE if ar1_noise else _MAX_FACTORS, by_data))
    own = n_features if ar1_noise else 0
    while k > _MANY_FACTORS and n_rows * _products(k + own, n_features) > _MAX_PRODUCTS_OF_MANY_FACTORS:
        k -= 1
    while k > 1 and n_rows * _products(k + own, n_features) > products:
        k -= 1
    return k


def choose_segments(
    mask: BoolArray, lengths: tuple[int, ...], n_wanted: int, n_segments: int = N_SEGMENTS
) -> list[slice] | None:
    """Choose segments of rows, spread evenly, in which every column is observed.

    Parameters
    ----------
    mask : ndarray of bool of shape (N, D)
        Which values are observed.
    lengths : tuple of int
        Rows of each sequence; a segment lies within one.
    n_wanted : int
        Approximate total number of rows.
    n_segments : int, default=8
        Number of segments; doubled until every column has enough observed values in them.

    Returns
    -------
    list of slice, or None
        None if no such segments have enough observed values of every column.
    """
    n_rows = len(mask)
    counts = mask.sum(axis=0)
    enough = np.minimum(_MIN_VALUES_OF_COLUMN, 0.25 * counts * n_wanted / n_rows)
    ends = np.cumsum(lengths)
    while n_segments * _MIN_SEGMENT_ROWS <= n_wanted:
        length = n_wanted // n_segments
        selected: list[slice] = []
        for first in np.linspace(0, n_rows - length, n_segments).astype(int).tolist():
            start = max(first, selected[-1].stop) if selected else first
            # A segment ends at the end of its sequence.
            end = min(start + length, int(ends[np.searchsorted(ends, start, side="right")]))
            if end - start >= 2:
                selected.append(slice(start, end))
        if selected:
            observed = np.sum([mask[s].sum(axis=0) for s in selected], axis=0)
            if np.all(observed >= enough):
                return selected
        n_segments *= 2
    return None


def _products(n_components: int, n_features: int) -> int:
    """Return the approximate cost of a row in a posterior, in products."""
    return n_components * (n_components * (n_components + n_features) + _OVERHEAD_PRODUCTS)


def _integrated_products(n_components: int, n_features: int) -> int:
    """Return the approximate cost of a row in an EM iteration with integrated AR(1) noise, in products.

    The cost is that of ten conjugate gradient iterations for the mean and a draw, the computation of the
    bands, and forty further solutions for the columns. An iteration multiplies twice by the loadings and
    solves a tridiagonal system for each column and a banded one.
    """
    k, d = n_components, n_features
    iteration = 2 * d * k + _TRIDIAGONAL_PRODUCTS * d + 8 * k**2
    return 20 * iteration + 3 * d * k**2 + 4 * k**3 + 40 * _TRIDIAGONAL_PRODUCTS * d
