"""Tests of standardized prediction errors, which are white, normal and stationary if the model is correct.

Errors are arrays (N, D) of the concatenated rows of all sequences, NaN where a value is missing. Functions
return one result for each column. Pairs of rows from different sequences are not used.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.fft
import scipy.stats
from numpy.typing import NDArray
from scipy.special import gammaln

from probsfa._typing import FloatArray
from probsfa.statespace.columns import Correlations

__all__ = [
    "Peak",
    "Tails",
    "compare_parts",
    "heavy_tails",
    "highest_peak",
    "largest_magnitude",
    "ljung_box",
    "nan_max",
    "nan_range",
    "remove_cycle",
    "split_into_parts",
    "standard_deviations",
]

# Minimum number of periods of a peak in the longest sequence.
_MIN_PERIODS = 4
# Minimum and maximum number of frequencies on each side of a peak from which its background is computed.
_MIN_BINS, _MAX_BINS = 30, 200
# Maximum number of steps of the time grid of a spectrum.
_MAX_GRID = 2**22
# Number of robust standard deviations at which errors are clipped. The periodogram of an outlier is flat, so
# that a single outlier could hide a peak.
_MAX_DEVIATIONS = 4.0
# Grid of degrees of freedom of Student's t.
_TRIAL_DEGREES = 1.0 / np.linspace(0.0, 0.6, 31)[1:]
# Minimum number of values for mean and variance of a part of the series.
_MIN_PART_VALUES = 10


def ljung_box(correlations: Correlations, at: NDArray[np.bool_] | None = None) -> FloatArray:
    """Return p-values (D,) of the Ljung-Box test for white noise, modified for missing values.

    Parameters
    ----------
    correlations : Correlations
        Autocorrelations.
    at : ndarray of bool of shape (L,), optional
        Lags to use; all by default.

    Returns
    -------
    ndarray of shape (D,)
        NaN if a column has no pair of values at any lag.

    Notes
    -----
    The statistic is ``(n + 2) / n sum_l n_l r_l^2``, where ``n`` is the number of observed values, ``n_l``
    the number of pairs of observed values at lag ``l``, and ``r_l`` their mean product divided by the mean
    square. Without missing values ``n_l = n - l``, and this is the statistic of Ljung & Box (1978).

    References
    ----------
    Ljung & Box (1978), Biometrika 65:297, doi:10.1093/biomet/65.2.297. Stoffer & Toloi (1992), Statistics &
    Probability Letters 13:391, doi:10.1016/0167-7152(92)90112-I.
    """
    selected = slice(None) if at is None else at
    values, pairs, n = correlations.values[selected], correlations.n_pairs[selected], correlations.n_values
    has_pairs = pairs > 0.0
    squares = np.where(has_pairs, pairs * np.where(has_pairs, values, 0.0) ** 2, 0.0).sum(axis=0)
    degrees = has_pairs.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        statistic = (n + 2.0) / n * squares
        return np.where(degrees > 0, scipy.stats.chi2.sf(statistic, np.maximum(degrees, 1)), np.nan)


class Tails(NamedTuple):
    """Heaviness of the tails of each column.

    Attributes
    ----------
    excess_kurtosis : ndarray of shape (D,)
        Excess kurtosis, zero for a normal distribution.
    degrees_of_freedom : ndarray of shape (D,)
        Degrees of freedom of the best-fitting Student's t; infinite if the normal distribution fits as well.
    p_values : ndarray of shape (D,)
        P-values of the likelihood ratio test of the normal distribution against Student's t.
    gains : ndarray of shape (D,)
        Log-likelihood of Student's t minus log-likelihood of the normal distribution, in nats.
    """

    excess_kurtosis: FloatArray
    degrees_of_freedom: FloatArray
    p_values: FloatArray
    gains: FloatArray


def heavy_tails(errors: FloatArray) -> Tails:
    """Fit Student's t with a free scale to each column, by maximum likelihood on a grid.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        Standardized errors, NaN where missing.

    Returns
    -------
    Tails
        NaN for columns with fewer than eight values or zero variance.
    """
    d = errors.shape[1]
    kurtosis, degrees, p, gains = np.full((4, d), np.nan)
    for j in range(d):
        x = errors[~np.isnan(errors[:, j]), j]
        if len(x) < 8 or np.ptp(x) == 0.0:
            continue
        x = x - np.median(x)
        mean_square = np.mean(x**2)
        kurtosis[j] = np.mean((x - x.mean()) ** 4) / np.var(x) ** 2 - 3.0
        normal_log_likelihood = -0.5 * len(x) * (np.log(2.0 * np.pi * mean_square) + 1.0)
        t_log_likelihoods, scale = np.empty(len(_TRIAL_DEGREES)), mean_square
        for i, nu in enumerate(_TRIAL_DEGREES):
            t_log_likelihoods[i], scale = _log_likelihood_of_t(x**2, nu, scale)
        best = int(np.argmax(t_log_likelihoods))
        statistic = 2.0 * (t_log_likelihoods[best] - normal_log_likelihood)
        gains[j] = 0.5 * statistic
        degrees[j] = _TRIAL_DEGREES[best] if statistic > 0.0 else np.inf
        # The normal distribution is on the boundary of the family. The likelihood ratio statistic is then
        # zero or chi-squared, each with probability 1/2 (Self & Liang 1987).
        p[j] = 0.5 * scipy.stats.chi2.sf(statistic, 1) if statistic > 0.0 else 1.0
    return Tails(kurtosis, degrees, p, gains)


def _log_likelihood_of_t(squares: FloatArray, nu: float, scale: float) -> tuple[float, float]:
    """Return the log-likelihood of Student's t at the best squared scale, and this squared scale.

    The squared scale is computed by fixed-point iteration from `scale`.
    """
    for _ in range(12):
        scale = float(np.mean((nu + 1.0) * squares / (nu + squares / scale)))
    constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(np.pi * nu * scale)
    value = len(squares) * constant - 0.5 * (nu + 1.0) * np.sum(np.log1p(squares / (nu * scale)))
    return float(value), scale


def split_into_parts(n_rows: int) -> list[slice]:
    """Split a series into one to eight equal parts, of at least 100 rows if there are several."""
    n_parts = int(np.clip(n_rows // 100, 1, 8))
    edges = np.linspace(0, n_rows, n_parts + 1).astype(int)
    return [slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True)]


def standard_deviations(errors: FloatArray, parts: Sequence[slice]) -> FloatArray:
    """Return the standard deviation of each column in each part (M, D); NaN if a part has few values."""
    result = np.full((len(parts), errors.shape[1]), np.nan)
    for i, rows in enumerate(parts):
        has_enough = np.count_nonzero(~np.isnan(errors[rows]), axis=0) >= _MIN_PART_VALUES
        if has_enough.any():
            result[i, has_enough] = np.nanstd(errors[rows][:, has_enough], axis=0)
    return result


def nan_max(values: FloatArray) -> FloatArray:
    """Return the largest value of each column; NaN for columns without values."""
    maximum = np.max(np.where(np.isnan(values), -np.inf, values), axis=0)
    return np.where(np.isinf(maximum), np.nan, maximum)


def nan_range(values: FloatArray) -> FloatArray:
    """Return the difference of the largest and smallest value of each column."""
    return nan_max(values) + nan_max(-values)


def largest_magnitude(values: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the value of largest magnitude in each column (D,), and its row; NaN without values."""
    rows = np.argmax(np.where(np.isnan(values), -1.0, np.abs(values)), axis=0)
    return values[rows, np.arange(values.shape[1])], rows


class PartComparison(NamedTuple):
    """Means of each column in the parts of a series, and a test of their equality.

    Attributes
    ----------
    means : ndarray of shape (M, D)
        Means; NaN for parts with fewer than ten values.
    p_values : ndarray of shape (D,)
        P-values of equal means; NaN if fewer than two parts have a mean.
    """

    means: FloatArray
    p_values: FloatArray


def compare_parts(values: FloatArray, parts: Sequence[slice]) -> PartComparison:
    """Compare the means of the parts of a series, whose values may be autocorrelated.

    The variance of a mean is the spectrum at frequency zero, divided by the number of values. The spectrum is
    estimated from deviations from the means of the parts, after prewhitening by a first-order autoregression
    (Andrews & Monahan 1992).

    Parameters
    ----------
    values : ndarray of shape (N, D)
        NaN where missing.
    parts : sequence of slice
        The parts.

    Returns
    -------
    PartComparison
    """
    d = values.shape[1]
    means, counts = np.full((len(parts), d), np.nan), np.zeros((len(parts), d))
    deviations = np.full(values.shape, np.nan)
    for i, rows in enumerate(parts):
        observed = ~np.isnan(values[rows])
        counts[i] = observed.sum(axis=0)
        has_enough = counts[i] >= _MIN_PART_VALUES
        sums = np.where(observed, values[rows], 0.0).sum(axis=0)
        means[i, has_enough] = sums[has_enough] / counts[i, has_enough]
        deviations[rows] = values[rows] - means[i]
    has_mean = ~np.isnan(means)
    weights = np.where(has_mean, counts, 0.0)
    p = np.full(d, np.nan)
    for j in np.flatnonzero(has_mean.sum(axis=0) >= 2):
        variance = _spectrum_at_zero(deviations[:, j])
        if not variance > 0.0:
            continue
        weights_of_column, means_of_column = weights[has_mean[:, j], j], means[has_mean[:, j], j]
        deviation = means_of_column - np.average(means_of_column, weights=weights_of_column)
        statistic = float(np.sum(weights_of_column * deviation**2) / variance)
        p[j] = scipy.stats.chi2.sf(statistic, len(means_of_column) - 1)
    return PartComparison(means, p)


def _spectrum_at_zero(x: FloatArray) -> float:
    """Return the sum of autocovariances of a centred column over all lags; missing values are NaN."""
    observed = ~np.isnan(x)
    filled = np.where(observed, x, 0.0)

    def covariance(y: FloatArray, is_observed: NDArray[np.bool_], lag: int) -> float:
        pairs = int(np.count_nonzero(is_observed[lag:] & is_observed[: len(y) - lag]))
        return float(y[lag:] @ y[: len(y) - lag]) / max(pairs, 1)

    variance = covariance(filled, observed, 0)
    if variance == 0.0:
        return 0.0
    rho = float(np.clip(covariance(filled, observed, 1) / variance, -0.97, 0.97))
    is_pair = observed[1:] & observed[:-1]
    prewhitened = np.where(is_pair, filled[1:] - rho * filled[:-1], 0.0)
    bandwidth = min(
        int(4.0 * (np.count_nonzero(is_pair) / 100.0) ** (2.0 / 9.0)), max(len(prewhitened) - 1, 0)
    )
    spectrum = prewhitened_variance = covariance(prewhitened, is_pair, 0)
    for lag in range(1, bandwidth + 1):
        spectrum += 2.0 * (1.0 - lag / (bandwidth + 1.0)) * covariance(prewhitened, is_pair, lag)
    # The estimate may be negative; the minimum is a tenth of the variance of the prewhitened series.
    return max(spectrum, 0.1 * prewhitened_variance) / (1.0 - rho) ** 2


class Peak(NamedTuple):
    """The highest peak in the periodogram of each column, relative to its background.

    Attributes
    ----------
    periods : ndarray of shape (D,)
        Periods in units of the times; NaN if no spectrum can be computed.
    p_values : ndarray of shape (D,)
        Probability that a series with a smooth spectrum has a peak of this height at any frequency.
    shares : ndarray of shape (D,)
        Share of the mean square that is explained by a sinusoid of the period.
    resolution : float
        Width of a peak, in cycles per unit of time.
    """

    periods: FloatArray
    p_values: FloatArray
    shares: FloatArray
    resolution: float


def highest_peak(errors: FloatArray, lengths: Sequence[int], times: FloatArray) -> Peak:
    """Find the highest peak in the periodogram of each column, relative to its background.

    Each ordinate of the periodogram is divided by the median of adjacent ordinates, so that the smooth
    spectrum of an autocorrelated series has no peak. Periodograms of several sequences are added.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        Standardized errors, NaN where missing.
    lengths : sequence of int
        Rows of each sequence.
    times : ndarray of shape (N,)
        Times of the rows; they are rounded to a grid whose step is the median time step.

    Returns
    -------
    Peak
    """
    d = errors.shape[1]
    empty = Peak(np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan), np.nan)
    pieces = np.split(np.arange(len(errors)), np.cumsum(lengths)[:-1])
    differences = np.concatenate([np.diff(times[rows]) for rows in pieces])
    if differences.size == 0:
        return empty
    step = float(np.median(differences))
    if max(float(times[rows[-1]] - times[rows[0]]) for rows in pieces) > _MAX_GRID * step:
        return empty
    grids = [np.rint((times[rows] - times[rows[0]]) / step).astype(np.int64) for rows in pieces]
    spans = np.array([int(grid[-1]) + 1 for grid in grids])
    longest = int(spans.max())
    if longest < 4 * _MIN_PERIODS:
        return empty
    size = scipy.fft.next_fast_len(2 * longest, real=True)
    power, counts = np.zeros((size // 2 + 1, d)), np.zeros(d)
    centred = _clipped(errors)
    for rows, grid in zip(pieces, grids, strict=True):
        values = np.zeros((int(grid[-1]) + 1, d))
        np.add.at(values, grid, np.nan_to_num(centred[rows]))
        power += np.abs(np.fft.rfft(values, size, axis=0)) ** 2
        counts += np.sum(~np.isnan(centred[rows]), axis=0)
    # Effective number of averaged periodograms, because sequences have different lengths.
    n_effective = float(spans.sum() ** 2 / np.sum(spans.astype(float) ** 2))
    first = int(np.ceil(_MIN_PERIODS * size / longest))
    orders = np.arange(first, size // 2 + 1)
    if len(orders) < 2:
        return empty
    variance = np.nansum(centred**2, axis=0) / np.maximum(counts, 1.0)
    periods, p, shares = np.full(d, np.nan), np.full(d, np.nan), np.full(d, np.nan)
    height, degrees = _relative_to_background(power, orders, n_effective)
    # An ordinate is a mean of exponential variables; divided by the background, it has an F distribution.
    # Half of the adjacent ordinates are independent, because the series is padded with zeros to twice its
    # length.
    log_p = np.asarray(scipy.stats.f.logsf(height, 2.0 * n_effective, degrees[:, None] * n_effective))
    for j in np.flatnonzero((counts >= 4 * _MIN_PERIODS) & (variance > 0.0)):
        best = int(np.argmin(log_p[:, j]))
        p[j] = min(float(np.exp(log_p[best, j])) * len(orders), 1.0)
        periods[j] = step * size / (orders[best] + _offset_of_peak(power[:, j], int(orders[best])))
        # A sinusoid with share s of the mean square v has power s v n^2 / 2.
        shares[j] = min(2.0 * n_effective * power[orders[best], j] / (counts[j] ** 2 * variance[j]), 1.0)
    return Peak(periods, p, shares, 1.0 / (longest * step))


def _clipped(errors: FloatArray) -> FloatArray:
    """Return deviations from the median of each column, clipped at four robust standard deviations."""
    clipped = np.full(errors.shape, np.nan)
    for j in range(errors.shape[1]):
        observed = ~np.isnan(errors[:, j])
        if not observed.any():
            continue
        x = errors[observed, j] - np.median(errors[observed, j])
        maximum = _MAX_DEVIATIONS * 1.4826 * float(np.median(np.abs(x)))
        x = np.clip(x, -maximum, maximum) if maximum > 0.0 else x
        clipped[observed, j] = x - x.mean()
    return clipped


def _relative_to_background(
    power: FloatArray, orders: NDArray[np.intp], n_effective: float
) -> tuple[FloatArray, FloatArray]:
    """Return ordinates (M, D) divided by their background, and the degrees of freedom (M,) of the background.

    The background is the median of adjacent ordinates. It is computed at some frequencies, and interpolated
    between them.
    """
    last, centres = len(power) - 1, [int(orders[0])]
    while centres[-1] < last:
        centres.append(min(centres[-1] + max(centres[-1] // 16, 1), last))
    levels, sizes = np.empty((len(centres), power.shape[1])), np.empty(len(centres))
    for i, k in enumerate(centres):
        half_width = int(np.clip(k, _MIN_BINS, _MAX_BINS))
        adjacent_power = power[max(k - half_width, 2) : k + half_width + 1]
        levels[i], sizes[i] = np.median(adjacent_power, axis=0), len(adjacent_power)
    # Convert the median of a mean of exponential variables to their mean.
    levels /= float(np.asarray(scipy.stats.gamma.median(n_effective))) / n_effective
    level = np.column_stack([np.interp(orders, centres, column) for column in levels.T])
    with np.errstate(divide="ignore", invalid="ignore"):
        height = np.where(level > 0.0, power[orders] / level, 0.0)
    # The median of n exponential variables has the relative variance of a mean of n log(2)^2 variables.
    return height, np.interp(orders, centres, sizes) * np.log(2.0) ** 2


def _offset_of_peak(power: FloatArray, k: int) -> float:
    """Return the offset of the peak from ordinate ``k``, by a parabola through three logarithms."""
    if not 0 < k < len(power) - 1 or power[k - 1 : k + 2].min() <= 0.0:
        return 0.0
    a, b, c = np.log(power[k - 1 : k + 2])
    curvature = a - 2.0 * b + c
    return float(np.clip(0.5 * (a - c) / curvature, -0.5, 0.5)) if curvature < 0.0 else 0.0


def remove_cycle(
    errors: FloatArray, lengths: Sequence[int], times: FloatArray, periods: FloatArray
) -> FloatArray:
    """Fit a sinusoid of the given period to each column in each sequence, and subtract it.

    Parameters
    ----------
    errors : ndarray of shape (N, D)
        NaN where missing.
    lengths : sequence of int
        Rows of each sequence.
    times : ndarray of shape (N,)
        Times of the rows.
    periods : ndarray of shape (D,)
        Periods in units of the times; NaN for columns that are not changed.

    Returns
    -------
    ndarray of shape (N, D)
    """
    result = errors.copy()
    for rows in np.split(np.arange(len(errors)), np.cumsum(lengths)[:-1]):
        for j in np.flatnonzero(~np.isnan(periods)):
            observed = rows[~np.isnan(errors[rows, j])]
            if len(observed) < 8:
                continue
            angle = 2.0 * np.pi * times[observed] / periods[j]
            regressors = np.column_stack([np.cos(angle), np.sin(angle), np.ones(len(observed))])
            coefficients = np.linalg.lstsq(regressors, errors[observed, j], rcond=None)[0]
            result[observed, j] -= regressors[:, :2] @ coefficients[:2]
    return result
