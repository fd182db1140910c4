"""Leave-one-out prediction errors of observed values, compared with linear interpolation.

Parameters are not estimated again. Given all values, the posterior of the noise-free value has mean ``m`` and
variance ``v``. Division by the likelihood of the observed value ``x`` with noise variance ``r`` gives the
posterior given all other values, with

    1 / v' = 1 / v - 1 / r,        m' = v' (m / v - x / r).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import list_columns
from probsfa.statespace.held_out_values import EQUALITY_TOL, STANDARD_ERRORS, standard_errors
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "InterpolationComparison",
    "compare_with_interpolation",
    "interpolate_leave_one_out",
    "interpolate_linearly",
    "interpolation_errors",
    "leave_one_out_means",
    "leave_one_out_moments",
    "near_zero_noise",
    "worse_columns_message",
    "worse_than_interpolation",
]

# Minimum number of values for a reliable comparison.
_MIN_VALUES = 20
# Minimum of ``1 - v / r``, with the symbols of the module documentation. If it is smaller, rounding errors
# exceed the information in the other values.
_MIN_VARIANCE_RATIO = 1e-7
# Minimum ratio of noise variance to explained variance at which leave-one-out moments are not affected by
# rounding errors.
_MIN_RELATIVE_NOISE = 1e-5


class InterpolationComparison(NamedTuple):
    """Leave-one-out errors of a model and of linear interpolation, for the same values.

    Attributes
    ----------
    model, interpolation : float
        Root mean square errors, in units of each column's standard deviation.
    n_values : int
        Number of compared values.
    """

    model: float
    interpolation: float
    n_values: int

    @property
    def warning(self) -> str:
        """A warning if the model is not more accurate than linear interpolation, otherwise ""."""
        if self.n_values < _MIN_VALUES or self.model < self.interpolation:
            return ""
        return (
            "Observed values left out one at a time are predicted no better than by linear interpolation: "
            f"RMSE {self.model:.3g} against {self.interpolation:.3g} standard deviations, over "
            f"{self.n_values:,} values. Try AR(1) noise (ProbabilisticSFA(noise='ar1')) or another number of "
            "factors (select_model), or use linear interpolation."
        )


def leave_one_out_means(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> FloatArray:
    """Return leave-one-out predictions of the observed values.

    Parameters
    ----------
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    means, variances : ndarray of shape (T, D)
        Means and variances of new observations given all values, noise included.
    noise_variance : ndarray of shape (D,) or (T, D)
        Noise variance of the values.

    Returns
    -------
    ndarray of shape (T, D)
        NaN where a value is missing, or where rounding errors dominate.
    """
    return leave_one_out_moments(values, means, variances, noise_variance)[0]


def leave_one_out_moments(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of leave-one-out predictions, noise included.

    Parameters are those of :func:`leave_one_out_means`; the same entries are NaN.
    """
    posterior_variance = variances - noise_variance
    with np.errstate(divide="ignore", invalid="ignore"):
        variance_ratio = 1.0 - posterior_variance / noise_variance  # v / v'
        mean = (means - values * (posterior_variance / noise_variance)) / variance_ratio
        variance = posterior_variance / variance_ratio + noise_variance
    is_determined = (variance_ratio > _MIN_VARIANCE_RATIO) & ~np.isnan(values)
    return np.where(is_determined, mean, np.nan), np.where(is_determined, variance, np.nan)


def near_zero_noise(params: StateSpace) -> BoolArray:
    """Return a mask (D,) of columns with too little noise for :func:`leave_one_out_moments`.

    Rounding errors would affect the result; :func:`.leave_one_out_distributions` is used instead.
    """
    noise, explained = params.noise_variance, np.sum(params.loadings**2, axis=1)
    return np.asarray((noise > 0.0) & (noise < _MIN_RELATIVE_NOISE * explained))


def interpolate_leave_one_out(sequences: Sequences) -> FloatArray:
    """Predict each observed value by linear interpolation between the adjacent observations of its column.

    The first and last observation of a sequence have only one adjacent observation, whose value is used.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        Predictions; NaN for missing values, and for the only value of a column in a sequence.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    interpolated = np.full(sequences.values.shape, np.nan)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            observed = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(observed) < 2:
                continue
            x, t = sequences.values[observed, d], times[observed]
            interpolated[observed[0], d], interpolated[observed[-1], d] = x[1], x[-2]
            weight = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
            interpolated[observed[1:-1], d] = x[:-2] + weight * (x[2:] - x[:-2])
    return interpolated


def interpolate_linearly(sequences: Sequences) -> FloatArray:
    """Interpolate the observed values of each column linearly in time, at all rows.

    The first and last observed values of a sequence are used for all rows before and after them.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        Interpolated values. If a sequence has no observations of a column, its values are the mean of the
        column over all sequences.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64)
    if sequences.times is not None and sequences.step is None:
        times = sequences.times
    interpolated = np.empty_like(sequences.values)
    means = np.nanmean(sequences.values, axis=0)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            observed = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(observed):
                interpolated[rows, d] = np.interp(times[rows], times[observed], sequences.values[observed, d])
            else:
                interpolated[rows, d] = means[d]
    return interpolated


def compare_with_interpolation(sequences: Sequences, predictions: FloatArray) -> InterpolationComparison:
    """Compare leave-one-out predictions of a model with linear interpolation.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.
    predictions : ndarray of shape (T, D)
        Leave-one-out predictions of the model, as from :func:`leave_one_out_means`.

    Returns
    -------
    InterpolationComparison
        Errors of the values for which both predictions exist.
    """
    values = sequences.values
    interpolated = interpolate_leave_one_out(sequences)
    is_compared = ~np.isnan(predictions) & ~np.isnan(interpolated)
    observed = sequences.mask.any(axis=0)  # a column of new data may have no observations
    scale = np.zeros(sequences.n_features)
    scale[observed] = np.nanstd(values[:, observed], axis=0)
    is_compared &= scale > 0.0
    n_values = int(np.count_nonzero(is_compared))
    if n_values == 0:
        return InterpolationComparison(np.nan, np.nan, 0)
    unit = np.broadcast_to(scale, values.shape)[is_compared]
    errors = [
        (predicted[is_compared] - values[is_compared]) / unit for predicted in (predictions, interpolated)
    ]
    model, interpolation = (float(np.sqrt(np.mean(error**2))) for error in errors)
    return InterpolationComparison(model, interpolation, n_values)


def interpolation_errors(sequences: Sequences, part: NDArray[np.int64]) -> FloatArray:
    """Return errors (N, D) of linear interpolation at held-out values, zero elsewhere.

    Parameters
    ----------
    sequences : Sequences
        Rows, with the held-out values.
    part : ndarray of int of shape (N, D)
        Number of the part in which a value is held out, from 1; 0 if it is never held out. The values of each
        part are interpolated between all other values.
    """
    errors = np.zeros(part.shape)
    for j in range(1, int(part.max()) + 1):
        held_out = part == j
        remaining = replace(sequences, values=np.where(held_out, np.nan, sequences.values))
        errors = np.where(held_out, interpolate_linearly(remaining) - sequences.values, errors)
    return errors


def worse_than_interpolation(
    errors: FloatArray,
    errors_of_interpolation: FloatArray,
    columns: NDArray[np.intp],
    groups: NDArray[np.int64],
    n_columns: int,
) -> NDArray[np.intp]:
    """Return the columns whose held-out values are predicted worse by a model than by linear interpolation.

    Parameters
    ----------
    errors, errors_of_interpolation : ndarray of shape (n,)
        Errors of the model and of linear interpolation at the same values.
    columns, groups : ndarray of int of shape (n,)
        Column of each value, and number of its group; values of one group are not independent.
    n_columns : int
        Number of columns.

    Returns
    -------
    ndarray of int
        Columns with at least 20 held-out values, in which the mean squared error of the model is larger by
        more than 2.5 standard errors of the difference, and by more than 1 %.
    """
    worse = []
    for j in range(n_columns):
        in_column = columns == j
        if np.count_nonzero(in_column) < _MIN_VALUES:
            continue
        squares, squares_of_interpolation = errors[in_column] ** 2, errors_of_interpolation[in_column] ** 2
        difference = squares - squares_of_interpolation
        standard_error = float(standard_errors(difference[None], groups[in_column])[0])
        minimum = max(STANDARD_ERRORS * standard_error, EQUALITY_TOL * squares_of_interpolation.mean())
        if squares.mean() - squares_of_interpolation.mean() > minimum:
            worse.append(j)
    return np.array(worse, dtype=np.intp)


def worse_columns_message(columns: NDArray[np.intp], names: Sequence[str] | None) -> str:
    """Return a message on columns that are predicted worse than by interpolation; "" without such columns."""
    if not columns.size:
        return ""
    number = f"{columns.size} column{'s' if columns.size > 1 else ''}"
    return (
        f"Held-out values of {number} ({list_columns(columns, names)}) are predicted worse than by linear "
        "interpolation."
    )
