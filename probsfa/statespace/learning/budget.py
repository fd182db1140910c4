"""Default numbers of latent factors and of rows of a fit.

For imputation, fast factors are as important as slow factors. By default there are therefore as many factors
as columns, or fewer for few data or long computing times. The cost is measured in multiplications, not in
seconds, so that the same data lead to the same model on all machines. One run of the smoother over ``T`` rows
with ``K`` factors and ``D`` columns requires about ``T K (K (K + D) + 400)`` multiplications.

With AR(1) noise of all columns, a model has ``K + D`` instead of ``K`` states. For many columns, AR(1) noise
is integrated out (:mod:`~probsfa.statespace.engine.idiosyncratic`); see :func:`integrates_ar1_noise`.
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
    "affordable_segments",
    "ar1_noise_affordable",
    "choose_segments",
    "default_size",
    "integrates_ar1_noise",
    "max_components",
]

# Maximum number of factors with white and with AR(1) noise.
_MAX_FACTORS, _MAX_FACTORS_WITH_AR1_NOISE = 64, 16
# More than `_MANY_FACTORS` factors are used only if a smoother run over all rows costs at most
# `_MAX_COST_OF_MANY_FACTORS`. For 500 to 1,000 rows of 52 columns of process data, imputation errors with 52
# factors are 5 to 26 % smaller than with 32 factors.
_MANY_FACTORS, _MAX_COST_OF_MANY_FACTORS = 32, 3e8
# Maximum cost of a smoother run over all rows; imputation and transformation require one run.
_MAX_SMOOTHER_COST = 1e10
# Maximum cost of a smoother run in a fit to all rows, which requires dozens of runs. A run of this cost takes
# the compiled engine 0.1 to 0.2 s of processor time.
_MAX_FIT_COST = 1e9
# Maximum cost of a smoother run with a state for each column; at higher cost, AR(1) noise of columns is
# integrated out. With 50 columns and 1,000 rows, integration halves the time of a fit, and imputation
# errors are equal or up to 5 % larger.
_MAX_FIT_COST_BY_STATES = 5e8
# Maximum cost of an EM iteration with integrated AR(1) noise; at higher cost, the number of factors is
# reduced, not the number of rows.
_MAX_FIT_COST_AR1_NOISE = 1.5e9
# Number of multiplications per value to solve a tridiagonal system, including multiplication by weights.
_TRIDIAGONAL_COST = 12
# After a fit to segments, a few evaluations on all rows follow if there are at most
# `_MAX_VALUES_OF_CONTINUATION` observed values in total. Their number is the larger of `_MIN_EVALUATIONS` and
# the number with the total cost `_CONTINUATION_COST`, which is about that of the fit to segments.
_MAX_VALUES_OF_CONTINUATION, _CONTINUATION_COST, _MIN_EVALUATIONS = 5_000_000, 3e10, 4
# Minimum number of rows for each factor; with fewer rows, many factors overfit.
_MIN_ROWS_PER_FACTOR = 48
# Overhead for each row and factor, as a number of multiplications.
_OVERHEAD_COST = 400
# Minimum number of observed values for each free parameter. With fewer values, an additional factor increases
# the estimation error by more than it reduces the unexplained variance.
_MIN_VALUES_PER_PARAMETER = 5.0
# Fits to segments of the rows: number of segments, and minimum number of rows of a segment.
N_SEGMENTS, _MIN_SEGMENT_ROWS = 8, 24
# Minimum number of observed values of each column in all segments together: `_MIN_COLUMN_VALUES`; or the
# fraction `_MIN_SHARE_OF_EXPECTED` of the number in random rows, if that is less.
_MIN_COLUMN_VALUES, _MIN_SHARE_OF_EXPECTED = 100, 0.25


class Size(NamedTuple):
    """Numbers of factors and rows of a fit.

    Attributes
    ----------
    n_components : int
        Number of latent factors.
    segments : list of slice, or None, default=None
        Segments of rows to which the model is fitted; None for all rows.
    n_rows : int, default=0
        Number of all rows.
    n_full_evaluations : int, default=0
        Maximum number of likelihood evaluations on all rows, after the fit to the segments.
    """

    n_components: int
    segments: list[slice] | None = None
    n_rows: int = 0
    n_full_evaluations: int = 0

    @property
    def sentence(self) -> str:
        """Sentence on the selected size, for the status of a fit."""
        text = f" Selected {self.n_components} latent factor{'' if self.n_components == 1 else 's'}"
        if self.segments is None:
            return text + "."
        n_used = sum(s.stop - s.start for s in self.segments)
        text += f", fitted to {n_used:,} of {self.n_rows:,} rows in {len(self.segments)} segments"
        if self.n_full_evaluations:
            text += f", then to all rows with at most {self.n_full_evaluations} evaluations"
        return f"{text}; with a number as n_components, all evaluations use all rows."


def default_size(
    mask: BoolArray, lengths: tuple[int, ...], varying: BoolArray, *, ar1_noise: bool = False
) -> Size:
    """Choose the number of factors of a fit, and the rows that it uses.

    Parameters
    ----------
    mask : ndarray of bool of shape (N, D)
        Mask of observed values; rows in order of time.
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
    max_cost = np.inf if ar1_noise else _MAX_SMOOTHER_COST
    k = max_components(n_rows, counts, varying, max_cost, ar1_noise=ar1_noise)
    if ar1_noise and integrates_ar1_noise(n_rows, k, n_features):
        while k > 1 and n_rows * _integrated_row_cost(k, n_features) > _MAX_FIT_COST_AR1_NOISE:
            k -= 1
        return Size(k)
    k = max_components(n_rows, counts, varying, ar1_noise=ar1_noise)
    n_noise_states = n_features if ar1_noise else 0
    segments = affordable_segments(mask, lengths, k + n_noise_states)
    if segments is not None:
        n_full_evaluations = 0
        if counts.sum() <= _MAX_VALUES_OF_CONTINUATION:
            evaluations = _CONTINUATION_COST / (n_rows * _row_cost(k + n_noise_states, n_features))
            n_full_evaluations = max(int(evaluations), _MIN_EVALUATIONS)
        return Size(k, segments, n_rows, n_full_evaluations)
    if n_rows > affordable_rows(k + n_noise_states, n_features):  # no segments with enough observed values
        while k > 1 and n_rows * _row_cost(k + n_noise_states, n_features) > _MAX_FIT_COST:
            k -= 1
    return Size(k)


def ar1_noise_affordable(n_rows: int, n_features: int) -> bool:
    """Return whether a model with one factor and AR(1) noise of all columns can be fitted to all rows."""
    row_cost = min(_row_cost(1 + n_features, n_features), _integrated_row_cost(1, n_features))
    return n_rows * row_cost <= _MAX_FIT_COST_AR1_NOISE


def integrates_ar1_noise(n_rows: int, n_components: int, n_features: int) -> bool:
    """Return whether AR(1) noise of columns is integrated out; otherwise each column has a state.

    Parameters
    ----------
    n_rows, n_components, n_features : int
        Numbers of rows, factors and columns.

    Returns
    -------
    bool
        True if the compiled engine does not support ``K + D`` states. Also true if a smoother run with
        ``K + D`` states requires more than 5e8 multiplications, and more multiplications than an EM iteration
        in which AR(1) noise is integrated out.
    """
    n_states = n_components + n_features
    row_cost = _row_cost(n_states, n_features)
    is_slow = n_rows * row_cost > _MAX_FIT_COST_BY_STATES
    is_slower = row_cost > _integrated_row_cost(n_components, n_features)
    return (is_slow and is_slower) or n_states > MAX_STATES


def affordable_rows(n_states: int, n_features: int) -> int:
    """Return the maximum number of rows for which a smoother run is fast enough for a fit to all rows.

    The result is at least 48 rows for each state, even if a smoother run over these rows is slower.
    """
    n_states = max(n_states, 1)
    return max(int(_MAX_FIT_COST / _row_cost(n_states, n_features)), _MIN_ROWS_PER_FACTOR * n_states)


def max_components(
    n_rows: int,
    counts: NDArray[Any],
    varying: BoolArray,
    max_cost: float = _MAX_SMOOTHER_COST,
    *,
    ar1_noise: bool = False,
) -> int:
    """Return the default number of factors: the number of varying columns, or less for few data or high cost.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    counts : ndarray of shape (D,)
        Observed values of each column.
    varying : ndarray of bool of shape (D,)
        Columns that are not constant.
    max_cost : float, default=1e10
        Maximum cost of a smoother run over all rows, in multiplications.
    ar1_noise : bool, default=False
        Whether each column has AR(1) noise.

    Returns
    -------
    int
        At least one.
    """
    n_features, n_varying, n_values = len(counts), int(varying.sum()), float(counts[varying].sum())
    # A factor has a decay and a loading for each column. A column has a mean, a noise variance, and with
    # AR(1) noise a decay and a scale.
    n_column_parameters = (4 if ar1_noise else 2) * n_varying
    max_by_data = int((n_values / _MIN_VALUES_PER_PARAMETER - n_column_parameters) / (n_varying + 1))
    k = max(1, min(n_varying, _MAX_FACTORS_WITH_AR1_NOISE if ar1_noise else _MAX_FACTORS, max_by_data))
    n_noise_states = n_features if ar1_noise else 0
    for k_min, limit in ((_MANY_FACTORS, _MAX_COST_OF_MANY_FACTORS), (1, max_cost)):
        while k > k_min and n_rows * _row_cost(k + n_noise_states, n_features) > limit:
            k -= 1
    return k


def affordable_segments(
    mask: BoolArray, lengths: tuple[int, ...], n_states: int, *, n_fits: int = 1, min_rows: int = 0
) -> list[slice] | None:
    """Choose segments of rows for fits, because fits to all rows would take too long.

    Parameters
    ----------
    mask : ndarray of bool of shape (N, D)
        Which values are observed.
    lengths : tuple of int
        Rows of each sequence.
    n_states : int
        Number of states of the model.
    n_fits : int, default=1
        Number of fits; their total computing time is limited to that of one fit.
    min_rows : int, default=0
        Minimum number of rows of a fit.

    Returns
    -------
    list of slice, or None
        None if all rows are affordable, or if no segments have enough observed values of every column.
    """
    n_rows, n_features = mask.shape
    affordable = max(affordable_rows(n_states, n_features) // n_fits, min_rows)
    return None if n_rows <= affordable else choose_segments(mask, lengths, affordable)


def choose_segments(
    mask: BoolArray, lengths: tuple[int, ...], n_wanted: int, n_segments: int = N_SEGMENTS
) -> list[slice] | None:
    """Choose segments of rows at regular distances, in which all columns have enough observed values.

    Parameters
    ----------
    mask : ndarray of bool of shape (N, D)
        Which values are observed.
    lengths : tuple of int
        Rows of each sequence; a segment is part of one sequence.
    n_wanted : int
        Approximate total number of rows of the segments.
    n_segments : int, default=8
        Number of segments; it is doubled until every column has enough observed values.

    Returns
    -------
    list of slice, or None
        None if no number of segments gives enough observed values of every column.
    """
    n_rows = len(mask)
    counts = mask.sum(axis=0)
    expected_counts = counts * n_wanted / n_rows
    min_counts = np.minimum(_MIN_COLUMN_VALUES, _MIN_SHARE_OF_EXPECTED * expected_counts)
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
            if np.all(observed >= min_counts):
                return selected
        n_segments *= 2
    return None


def _row_cost(n_states: int, n_features: int) -> int:
    """Return the approximate cost of one row in a smoother run, in multiplications."""
    return n_states * (n_states * (n_states + n_features) + _OVERHEAD_COST)


def _integrated_row_cost(n_components: int, n_features: int) -> int:
    """Return the approximate cost of one row in an EM iteration in which AR(1) noise is integrated out.

    An EM iteration consists of twenty conjugate gradient iterations (ten for a mean and ten for a draw), the
    computation of the bands of the precision matrix, and forty tridiagonal systems for each column. A
    conjugate gradient iteration multiplies twice by the loadings, and solves a tridiagonal system for each
    column and a banded system.
    """
    k, d = n_components, n_features
    gradient_iteration = 2 * d * k + _TRIDIAGONAL_COST * d + 8 * k**2
    return 20 * gradient_iteration + 3 * d * k**2 + 4 * k**3 + 40 * _TRIDIAGONAL_COST * d
