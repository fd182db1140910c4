"""Calibration of prediction intervals by held-out values.

Standard deviations of a fitted model ignore the uncertainty of its parameters and errors of its dynamics.
Intervals are therefore too narrow in short series, whose parameters are uncertain, and in long missing
blocks, where errors of the dynamics are large. Two factors correct the standard deviations.

*Number of values.* A column with ``n`` observed values and ``p`` parameters is treated as a regression. The
maximum likelihood estimate of the variance is multiplied by ``n / (n - p)``, and by ``1 + p / n`` for the
uncertainty of the coefficients. Quantiles are those of a t distribution with ``n - p`` degrees of freedom.
The factor converges to one as the number of values increases.

*Distance.* Values are held out in the pattern of the missing values. The second factor depends on the
distance of a value to the nearest observed value of its column. With this factor, 90 % intervals cover 90 %
of the values held out at this distance. The logarithm ``l`` of the factor, with standard error ``h``, is
multiplied by ``1 - (h / l)^2``, or by zero if this is negative (positive-part James-Stein estimator).
Intervals whose coverage is already correct therefore hardly change.

References
----------
Efron & Morris (1973), Journal of the American Statistical Association 68:117,
doi:10.1080/01621459.1973.10481350.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.held_out_values import standard_errors

__all__ = ["Calibration", "HeldOutPredictions", "calibrate", "distance_to_observed", "small_sample_factors"]

# Nominal coverage at which intervals are calibrated.
_NOMINAL_COVERAGE = 0.9
# Minimum number of held-out blocks in a class of distances, for the standard error of the coverage.
_MIN_BLOCKS = 8


class Calibration(NamedTuple):
    """Factors by which standard deviations of predictions are multiplied.

    Attributes
    ----------
    distances : ndarray of shape (B,)
        Distances to the nearest observed value of a column, increasing, in units of `time_unit_`.
    factors : ndarray of shape (B,)
        Factors at these distances, with linear interpolation in the logarithm of the distance and constant
        extrapolation.
    small_sample : ndarray of shape (D,)
        Factor of each column, which depends on its number of observed values.
    """

    distances: FloatArray
    factors: FloatArray
    small_sample: FloatArray

    def at(self, distances: FloatArray) -> FloatArray:
        """Return the factors (..., D) of values at some distances (..., D)."""
        return self.small_sample * self.by_distance(distances)

    def factors_of_forecasts(self, distances: FloatArray) -> FloatArray:
        """Return the factors (..., D) of forecasts at distances (..., D) after the last observed value.

        Factors below one are not used for forecasts. They are estimated from values with observations on both
        sides and in other columns of the same row, and would make intervals of forecasts too narrow.
        """
        return self.small_sample * np.maximum(self.by_distance(distances), 1.0)

    def by_distance(self, distances: FloatArray) -> FloatArray:
        """Return the factors at distances of any shape, without the factors of the columns."""
        where = np.log(np.maximum(distances, 1.0))
        return np.asarray(np.interp(where, np.log(self.distances), self.factors))


class HeldOutPredictions(NamedTuple):
    """Predictions of values that were held out.

    Attributes
    ----------
    errors, std : ndarray of shape (n,)
        Errors and standard deviations, in the same units.
    distances : ndarray of shape (n,)
        Distances to the nearest observed value of the column.
    groups : ndarray of int of shape (n,)
        Group of each value. Values of one group are not independent: missing blocks that begin in the same
        row are one group.
    """

    errors: FloatArray
    std: FloatArray
    distances: FloatArray
    groups: NDArray[np.int64]

    @classmethod
    def joined(cls, parts: Sequence["HeldOutPredictions"]) -> "HeldOutPredictions":
        """Concatenate the predictions of several draws; groups of different draws have different indices."""
        first_groups = np.cumsum([0, *(one.groups.max(initial=-1) + 1 for one in parts[:-1])])
        groups = [one.groups + start for one, start in zip(parts, first_groups, strict=True)]
        errors, std, distances = (
            np.concatenate([getattr(one, name) for one in parts]) for name in ("errors", "std", "distances")
        )
        return cls(errors, std, distances, np.concatenate(groups))


def small_sample_factors(counts: FloatArray, n_parameters: int) -> FloatArray:
    """Return the ratio (D,) of the widths of 90 % intervals with estimated and with known parameters.

    Parameters
    ----------
    counts : ndarray of shape (D,)
        Numbers of observed values.
    n_parameters : int
        Number of coefficients of each column.

    Returns
    -------
    ndarray of shape (D,)
        Ratios. If there are fewer than two degrees of freedom, the ratio is that for two.
    """
    n = np.maximum(np.asarray(counts, dtype=float), 1.0)
    degrees = np.maximum(n - n_parameters, 2.0)
    quantile_ratio = stdtrit(degrees, 0.5 + 0.5 * _NOMINAL_COVERAGE) / ndtri(0.5 + 0.5 * _NOMINAL_COVERAGE)
    n_coefficients = np.minimum(n_parameters, n)
    return np.asarray(quantile_ratio * np.sqrt((1.0 + n_coefficients / n) * np.maximum(n / degrees, 1.0)))


def distance_to_observed(sequences: Sequences, time_unit: float) -> FloatArray:
    """Return the time (N, D) to the nearest observed value of the column in the same sequence.

    Parameters
    ----------
    sequences : Sequences
        Rows, NaN where missing.
    time_unit : float
        Unit of the distances.

    Returns
    -------
    ndarray of shape (N, D)
        Distances; infinite if a sequence has no observed value of a column.
    """
    times = np.arange(sequences.n_rows, dtype=float)
    if sequences.times is not None:
        times = sequences.times / time_unit
    distances = np.empty(sequences.values.shape)
    for part in sequences.slices:
        t, observed = times[part, None], sequences.mask[part]
        before = np.maximum.accumulate(np.where(observed, t, -np.inf), axis=0)
        after = np.minimum.accumulate(np.where(observed, t, np.inf)[::-1], axis=0)[::-1]
        distances[part] = np.minimum(t - before, after - t)
    return distances


def calibrate(predictions: HeldOutPredictions, small_sample: FloatArray) -> Calibration:
    """Estimate the calibration factors by which standard deviations are multiplied.

    Parameters
    ----------
    predictions : HeldOutPredictions
        Predictions of held-out values, with standard deviations multiplied by the factors of their columns.
    small_sample : ndarray of shape (D,)
        Factors of the columns; see :func:`small_sample_factors`.

    Returns
    -------
    Calibration
        Calibration with one factor for each class of distances: ``[1, 2)``, ``[2, 4)``, ``[4, 8)`` and so on.
        A class with fewer than eight held-out blocks is merged with the class of smaller distances. If fewer
        than eight blocks remain at the smallest distances, the factor of the next class is used there.
    """
    log_distance = np.log(
        np.maximum(np.where(np.isfinite(predictions.distances), predictions.distances, 1.0), 1.0)
    )
    is_valid = (predictions.std > 0.0) & np.isfinite(predictions.distances)
    octaves = np.floor(log_distance / np.log(2.0) + 1e-9).astype(int)
    distances, factors = [], []
    last = int(octaves[is_valid].max(initial=0))
    members = np.zeros_like(is_valid)
    for octave in range(last, -1, -1):
        members = members | (is_valid & (octaves == octave))
        if np.unique(predictions.groups[members]).size < _MIN_BLOCKS:
            continue
        distances.append(float(np.exp(np.mean(log_distance[members]))))
        scores = np.abs(predictions.errors[members]) / predictions.std[members]
        factors.append(_factor(scores, predictions.groups[members]))
        members = np.zeros_like(is_valid)
    if not distances:
        return Calibration(np.ones(1), np.ones(1), small_sample)
    return Calibration(np.array(distances[::-1]), np.array(factors[::-1]), small_sample)


def _factor(scores: FloatArray, groups: NDArray[np.int64]) -> float:
    """Return the factor of intervals that have nominal coverage, shrunk towards one.

    Scores (n,) are absolute errors divided by standard deviations.
    """
    limit = float(ndtri(0.5 + 0.5 * _NOMINAL_COVERAGE))
    estimate = float(np.quantile(scores, _NOMINAL_COVERAGE))
    if estimate <= 0.0:
        return 1.0
    covered = (scores <= estimate).astype(float)
    standard_error = max(
        float(standard_errors(covered[None], groups)[0]),
        np.sqrt(_NOMINAL_COVERAGE * (1.0 - _NOMINAL_COVERAGE) / scores.size),
    )
    low, high = np.quantile(
        scores, [max(_NOMINAL_COVERAGE - standard_error, 0.0), min(_NOMINAL_COVERAGE + standard_error, 1.0)]
    )
    if low <= 0.0:
        return 1.0
    half_width = 0.5 * np.log(high / low)
    logarithm = np.log(estimate / limit)
    if abs(logarithm) <= half_width:
        return 1.0
    return float(np.exp(logarithm * (1.0 - (half_width / logarithm) ** 2)))
