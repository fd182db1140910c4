"""Leave-one-out prediction errors of observed values, compared with linear interpolation.

No refit is needed. The posterior of the noise-free value is Gaussian, and so is the likelihood of the
observed value, which can be divided out,

    1 / v' = 1 / v - 1 / r,        m' = v' (m / v - x / r),

with posterior mean ``m`` and variance ``v`` and noise variance ``r``.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import listed
from probsfa.statespace.held_out_values import EQUALITY_TOL, STANDARD_ERRORS, standard_errors
from probsfa.statespace.parameters import StateSpace

__all__ = [
    "Comparison",
    "compare_with_interpolation",
    "interpolate_leave_one_out",
    "interpolation_errors",
    "leave_one_out_means",
    "leave_one_out_moments",
    "interpolate_linearly",
    "near_zero_noise",
    "worse_columns_message",
    "worse_than_interpolation",
]

# Minimum number of values for a reliable comparison.
_MIN_VALUES = 20


class Comparison(NamedTuple):
    """Root mean square errors of the same values, in units of each column's standard deviation.

    Attributes
    ----------
    model, interpolation : float
        Errors of the model, and of linear interpolation in time.
    n_cells : int
        Number of values left out.
    """

    model: float
    interpolation: float
    n_cells: int

    @property
    def sentence(self) -> str:
        """Return a warning if the model is no better than linear interpolation, else an empty string."""
        if self.n_cells < _MIN_VALUES or self.model < self.interpolation:
            return ""
        return (
            "Observed values left out one at a time are predicted no better than by linear interpolation: "
            f"RMSE {self.model:.3g} against {self.interpolation:.3g} standard deviations, over "
            f"{self.n_cells:,} values. Try AR(1) noise (ProbabilisticSFA(noise='ar1')) or another number of "
            "factors (select_model), or use linear interpolation."
        )


def leave_one_out_means(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> FloatArray:
    """Return the leave-one-out prediction of each observed value.

    Parameters
    ----------
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    means, variances : ndarray of shape (T, D)
        Moments of new observations given all values, including noise.
    noise_variance : ndarray of shape (D,)
        Noise variance.

    Returns
    -------
    ndarray of shape (T, D)
        NaN where a value is missing, or where rounding errors dominate.
    """
    return leave_one_out_moments(values, means, variances, noise_variance)[0]


def leave_one_out_moments(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of leave-one-out predictions, including noise.

    Parameters, and entries that are NaN, are those of :func:`leave_one_out_means`.
    """
    posterior_variance = variances - noise_variance
    with np.errstate(divide="ignore", invalid="ignore"):
        variance_ratio = 1.0 - posterior_variance / noise_variance  # v / v'
        mean = (means - values * (posterior_variance / noise_variance)) / variance_ratio
        variance = posterior_variance / variance_ratio + noise_variance
    # Posterior variance over noise variance is below one. If it is within 1e-7 of one, the information of the
    # other values is lost to rounding errors.
    is_determined = (variance_ratio > 1e-7) & ~np.isnan(values)
    return np.where(is_determined, mean, np.nan), np.where(is_determined, variance, np.nan)


def near_zero_noise(params: StateSpace) -> BoolArray:
    """Return which columns (D,) have so little noise that leave-one-out moments are lost to rounding.

    Their leave-one-out moments are computed by :func:`.cells_left_out` instead.
    """
    noise, explained = params.noise_variance, np.sum(params.loadings**2, axis=1)
    # Below 1e-5 of the explained variance, rounding errors dominate leave-one-out moments.
    return np.asarray((noise > 0.0) & (noise < 1e-5 * explained))


def interpolate_leave_one_out(sequences: Sequences) -> FloatArray:
    """Interpolate each observed value linearly between the adjacent observations of its column.

    At the ends of a sequence, the only adjacent observation is used.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        NaN where a value is missing, or is the only one of its column in its sequence.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    out = np.full(sequences.values.shape, np.nan)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            observed = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(observed) < 2:
                continue
            x, t = sequences.values[observed, d], times[observed]
            out[observed[0], d], out[observed[-1], d] = x[1], x[-2]
            share = (t[1:-1] - t[:-2]) / (t[2:] - t[:-2])
            out[observed[1:-1], d] = x[:-2] + share * (x[2:] - x[:-2])
    return out


def interpolate_linearly(sequences: Sequences) -> FloatArray:
    """Interpolate the observed values of each column linearly in time, at all rows.

    Before the first and after the last observed value of a sequence, that value is repeated.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.

    Returns
    -------
    ndarray of shape (N, D)
        A column without observations in a sequence has its mean over all sequences there.
    """
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    out = np.empty_like(sequences.values)
    means = np.nanmean(sequences.values, axis=0)
    for rows in sequences.slices:
        for d in range(sequences.n_features):
            observed = rows.start + np.flatnonzero(sequences.mask[rows, d])
            if len(observed):
                out[rows, d] = np.interp(times[rows], times[observed], sequences.values[observed, d])
            else:
                out[rows, d] = means[d]
    return out


def compare_with_interpolation(sequences: Sequences, by_model: FloatArray) -> Comparison:
    """Compare a model with linear interpolation on the observed values of data.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.
    by_model : ndarray of shape (T, D)
        Leave-one-out predictions of the model, as from :func:`leave_one_out_means`.

    Returns
    -------
    Comparison
        Over the values for which both predictions exist.
    """
    values = sequences.values
    by_interpolation = interpolate_leave_one_out(sequences)
    both = ~np.isnan(by_model) & ~np.isnan(by_interpolation)
    observed = sequences.mask.any(axis=0)  # a column of new data may have no observations
    scale = np.zeros(sequences.n_features)
    scale[observed] = np.nanstd(values[:, observed], axis=0)
    both &= scale > 0.0
    n_cells = int(np.count_nonzero(both))
    if n_cells == 0:
        return Comparison(np.nan, np.nan, 0)
    unit = np.broadcast_to(scale, values.shape)[both]
    errors = [(guess[both] - values[both]) / unit for guess in (by_model, by_interpolation)]
    model, interpolation = (float(np.sqrt(np.mean(error**2))) for error in errors)
    return Comparison(model, interpolation, n_cells)


def interpolation_errors(sequences: Sequences, part: NDArray[np.int64]) -> FloatArray:
    """Return errors (N, D) of linear interpolation at hidden values, zero elsewhere.

    Parameters
    ----------
    sequences : Sequences
        Rows, with the hidden values.
    part : ndarray of int of shape (N, D)
        Number of the part in which a value is hidden, 0 if it is not. The values of each part are predicted
        given all values outside it.
    """
    errors = np.zeros(part.shape)
    for j in range(1, int(part.max()) + 1):
        hidden = part == j
        remaining = replace(sequences, values=np.where(hidden, np.nan, sequences.values))
        errors = np.where(hidden, interpolate_linearly(remaining) - sequences.values, errors)
    return errors


def worse_than_interpolation(
    errors: FloatArray,
    errors_of_interpolation: FloatArray,
    columns: NDArray[np.intp],
    groups: NDArray[np.int64],
    n_columns: int,
) -> NDArray[np.intp]:
    """Return the columns whose hidden values a model predicts worse than linear interpolation.

    Parameters
    ----------
    errors, errors_of_interpolation : ndarray of shape (n,)
        Errors of the model and of linear interpolation at the same values.
    columns, groups : ndarray of int of shape (n,)
        Column of each value, and a number that is shared by values that are not independent.
    n_columns : int
        Number of columns.

    Returns
    -------
    ndarray of int
        Columns with 20 hidden values at least, in which the mean squared error of the model is larger by 2.5
        standard errors of the difference, and by 1 %.
    """
    worse = []
    for j in range(n_columns):
        in_column = columns == j
        if np.count_nonzero(in_column) < _MIN_VALUES:
            continue
        squared_errors, squared_errors_of_interpolation = (
            errors[in_column] ** 2,
            errors_of_interpolation[in_column] ** 2,
        )
        standard_error = float(
            standard_errors((squared_errors - squared_errors_of_interpolation)[None], groups[in_column])[0]
        )
        if squared_errors.mean() - squared_errors_of_interpolation.mean() > max(
            STANDARD_ERRORS * standard_error, EQUALITY_TOL * squared_errors_of_interpolation.mean()
        ):
            worse.append(j)
    return np.array(worse, dtype=np.intp)


def worse_columns_message(columns: NDArray[np.intp], names: Sequence[str] | None) -> str:
    """Return a message that names at most five columns; an empty string without columns."""
    if not columns.size:
        return ""
    number = f"{columns.size} column{'s' if columns.size > 1 else ''}"
    return (
        f"Held-out values of {number} ({listed(columns, names)}) are predicted worse than by linear "
        "interpolation."
    )
