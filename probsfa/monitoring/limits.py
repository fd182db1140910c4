"""Control limits from statistics of held-out normal rows."""

import warnings

import numpy as np

from probsfa._typing import BoolArray, FloatArray

__all__ = [
    "contiguous_folds",
    "control_limits",
    "empirical_limits",
    "is_evaluated",
    "tail_limits",
    "trailing_means",
]

# Minimum expected number of exceedances for an accurate quantile.
_MIN_EXPECTED_EXCEEDANCES = 20
# The tail of a statistic is its largest tenth, but at least 20 values.
_TAIL_SHARE, _MIN_TAIL_ROWS = 0.1, 20
# Smaller shape parameters are numerically equivalent to an exponential tail.
_MIN_SHAPE = 1e-8


def contiguous_folds(lengths: tuple[int, ...], n_folds: int) -> list[list[tuple[int, int, int]]]:
    """Divide the rows of all sequences into folds of contiguous segments.

    Parameters
    ----------
    lengths : tuple of int
        Number of rows of each sequence.
    n_folds : int
        Number of folds, of nearly equal size.

    Returns
    -------
    list of list of tuple of int
        Segments of each fold: index of the sequence, first row, row after the last.
    """
    starts = np.concatenate([[0], np.cumsum(lengths)])
    edges = np.linspace(0, starts[-1], n_folds + 1).round().astype(int)
    folds = []
    for first, last in zip(edges[:-1], edges[1:], strict=True):
        segments = []
        for i, (sequence_start, sequence_stop) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
            a, b = max(first, sequence_start), min(last, sequence_stop)
            if a < b:
                segments.append((i, int(a - sequence_start), int(b - sequence_start)))
        folds.append(segments)
    return folds


def trailing_means(values: FloatArray, window: int) -> FloatArray:
    """Return means (T, S) over the last `window` rows, ignoring NaN; NaN in the first ``window - 1`` rows."""
    means = np.full(values.shape, np.nan)
    if len(values) < window:
        return means
    observed = ~np.isnan(values)
    observed_values = np.where(observed, values, 0.0)
    n = len(values) - window + 1
    counts, totals = np.zeros((n, *values.shape[1:]), dtype=np.intp), np.zeros((n, *values.shape[1:]))
    for offset in range(window):  # an array of all windows would need `window` times the memory
        counts += observed[offset : offset + n]
        totals += observed_values[offset : offset + n]
    np.divide(totals, counts, out=means[window - 1 :], where=counts > 0)
    return means


def is_evaluated(statistics: FloatArray) -> BoolArray:
    """Return a mask (N,) of the rows with at least one statistic (N, S)."""
    return np.asarray(~np.isnan(statistics).all(axis=1))


def control_limits(held_out: FloatArray, alpha: float, *, joint: bool, window: int = 1) -> FloatArray:
    """Return limits that new rows of the same process exceed with a given probability.

    The limits are quantiles (:func:`empirical_limits`) if at least 20 exceedances are expected. If fewer are
    expected, each limit is the larger of the quantile and the limit from a distribution of the tail
    (:func:`tail_limits`): the quantile depends on a few rows, and a limit that is too low causes false
    alarms. Averages over a window overlap; the expected number of exceedances is therefore divided by
    `window`.

    Parameters
    ----------
    held_out : ndarray of shape (N, S)
        Held-out statistics of normal rows; NaN where missing, with at least one value that is not NaN.
    alpha : float
        False alarm rate.
    joint : bool
        Whether `alpha` is the share of rows above at least one limit; otherwise it is the share of rows above
        each limit.
    window : int, default=1
        Number of rows over which the statistics are averaged.

    Returns
    -------
    ndarray of shape (S,)
        Limits; infinite for a statistic without values.

    Warns
    -----
    UserWarning
        If there are too few rows, or too few independent averages, for the rate.
    """
    n, n_statistics = int(np.count_nonzero(is_evaluated(held_out))), held_out.shape[1]
    limits, excess_counts = empirical_limits(held_out, alpha, joint=joint)
    n_expected = alpha * n / window
    if n_expected < _MIN_EXPECTED_EXCEEDANCES:
        rate = alpha / n_statistics if joint else alpha
        limits = np.maximum(limits, tail_limits(held_out, rate))
    if excess_counts == 0:
        warnings.warn(
            f"{n} normal rows are too few for alpha={alpha:g} with {n_statistics} statistics: no held-out "
            "value is above its limit. Use more rows or a larger alpha.",
            UserWarning,
            stacklevel=3,
        )
    elif n_expected < 1.0:
        warnings.warn(
            f"{n} normal rows contain only {n // window} independent averages over window={window} rows, "
            f"too few for alpha={alpha:g}: the false alarm rate may be several times as high. Use more "
            "rows, a shorter window or a larger alpha.",
            UserWarning,
            stacklevel=3,
        )
    return limits


def empirical_limits(values: FloatArray, alpha: float, *, joint: bool) -> tuple[FloatArray, int]:
    """Return limits that a given share of rows exceeds.

    Parameters
    ----------
    values : ndarray of shape (N, S)
        Statistics of rows; NaN where missing.
    alpha : float
        Share of rows above the limits.
    joint : bool
        Whether `alpha` is the share of rows above at least one limit; otherwise it is the share of rows above
        each limit. All limits have the same rank in both cases.

    Returns
    -------
    limits : ndarray of shape (S,)
        The value of rank ``k + 1`` of each statistic, in descending order.
    k : int
        The largest number for which the share of rows above the limits is at most `alpha`. At most ``k``
        values of a statistic are above its limit.
    """
    tested = values[is_evaluated(values)]
    n = len(tested)
    descending = np.sort(np.where(np.isnan(tested), -np.inf, tested), axis=0)[::-1]
    k = int(np.floor(alpha * n + 1e-9))
    if joint:
        # The rank of a value is the number of values of its statistic that are at least as large. A row is
        # above at least one limit if the smallest rank of its values is at most k.
        ranks = np.stack(
            [np.searchsorted(-descending[:, s], -tested[:, s], side="right") for s in range(tested.shape[1])],
            axis=1,
        )
        smallest_ranks = np.sort(np.where(np.isnan(tested), n + 1, ranks).min(axis=1))
        k = int(smallest_ranks[k]) - 1
    limits = descending[k]
    return np.where(np.isneginf(limits), np.inf, limits), k


def tail_limits(values: FloatArray, rate: float) -> FloatArray:
    """Return limits from a generalized Pareto distribution of the tail of each statistic.

    The tail of a statistic is its largest tenth, but at least 20 values; its share of the rows is ``q``. The
    tail begins at the threshold ``u``. From the mean ``m`` and the variance ``v`` of the excesses over ``u``,
    the shape is ``xi = (1 - m^2 / v) / 2`` and the scale is ``sigma = (1 - xi) m`` (Hosking & Wallis 1987). A
    negative shape is replaced by zero, so that the tail is unbounded. The limit is ::

        u + sigma ((rate / q)^-xi - 1) / xi

    Parameters
    ----------
    values : ndarray of shape (N, S)
        Statistics of rows; NaN where missing.
    rate : float
        Share of rows above each limit.

    Returns
    -------
    ndarray of shape (S,)
        Limits; minus infinity if no tail can be fitted, because there are fewer than 40 rows or the rate is
        at least ``q``.

    References
    ----------
    Pickands (1975), Annals of Statistics 3:119, doi:10.1214/aos/1176343003 (distribution of excesses).
    Hosking & Wallis (1987), Technometrics 29:339, doi:10.2307/1269343 (estimates by moments).
    """
    limits = np.full(values.shape[1], -np.inf)
    for s, column in enumerate(values.T):
        descending = np.sort(column[~np.isnan(column)])[::-1]
        n = len(descending)
        n_above = max(_MIN_TAIL_ROWS, round(_TAIL_SHARE * n))
        if n < 2 * _MIN_TAIL_ROWS or rate * n >= n_above:
            continue
        threshold = descending[n_above]
        excesses = descending[:n_above] - threshold
        mean, variance = float(np.mean(excesses)), float(np.var(excesses))
        shape = max(0.5 * (1.0 - mean**2 / variance), 0.0) if variance > 0.0 else 0.0
        rate_ratio = n_above / (rate * n)
        standardized_quantile = (
            np.log(rate_ratio) if shape < _MIN_SHAPE else (rate_ratio**shape - 1.0) / shape
        )
        limits[s] = threshold + (1.0 - shape) * mean * standardized_quantile
    return limits
