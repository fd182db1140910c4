"""Advice from prediction errors: messages about misfit, and suggested options.

Misfit is reported if it exceeds a threshold and is significant. The significance level is 1 % over all
columns and types of misfit. Cycles are removed from the errors before the other tests, so that a cycle is not
also reported as another type of misfit.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.prediction_errors import LEVELS, PredictionErrors, coverage
from probsfa.statespace.whiteness import (
    compare_parts,
    heavy_tails,
    highest_peak,
    largest_magnitude,
    ljung_box,
    nan_max,
    nan_range,
    remove_cycle,
    split_into_parts,
    standard_deviations,
)

__all__ = ["CALENDAR_PERIODS", "N_LAGS", "ModelProperties", "Suggestion", "advise", "tested_lags"]

# Significance level of each of the six types of misfit over all columns; 1 % for all types together.
_SIGNIFICANCE_LEVEL = 0.01 / 6.0
# Thresholds beyond which misfit is reported.
_MIN_AUTOCORRELATION = 0.12
_MIN_CYCLE_SHARE = 0.01  # share of the mean square of the errors that a cycle explains
_MIN_KURTOSIS = 1.0  # excess kurtosis
_MAX_DEGREES = 10.0  # degrees of freedom of Student's t
_MIN_STD_RATIO = 1.5  # ratio of the standard deviations of two parts of the series
_MIN_LEVEL_DIFFERENCE = 0.5  # difference between the means of two parts, in standard deviations
_MIN_COVERAGE_DEFICIT = 0.08  # nominal minus actual coverage
# A smooth factor is suggested only if the errors of a column, or of a linear combination of columns, have at
# least this autocorrelation at lag 1.
_MIN_ERROR_CORRELATION = 0.3
# Number that is added to the eigenvalues of the correlation matrix of the columns before its inversion.
_RELATIVE_RIDGE = 0.05
# Minimum autocorrelation at lag 2 of the increments of a smooth column. Lag 1 is not used, because white
# noise makes the autocorrelation of increments at lag 1 negative.
_MIN_INCREMENT_CORRELATION = 0.25
# Factors transfer the misfit of one column to other columns. A column is therefore not reported if its misfit
# is smaller than this fraction of the largest misfit.
_MIN_RELATIVE_SIZE = 1.0 / 3.0
#: Number of consecutive lags that are tested.
N_LAGS = 10
#: Periods of the calendar, in seconds.
CALENDAR_PERIODS = {"1D": 86_400.0, "7D": 604_800.0, "365.25D": 31_557_600.0}
# Periods of the harmonics of a day, in seconds.
_DAILY_HARMONICS = {"12h": 43_200.0, "8h": 28_800.0, "6h": 21_600.0}
# Maximum number of cycles that are removed from the errors of a column, and that are suggested.
_MAX_CYCLES = 3
# Largest ratio by which a fit may change a period (`PERIOD_RANGE` of learning).
_PERIOD_RANGE = 1.25
# Minimum number of values of a column that is tested.
_MIN_VALUES = 50


class Suggestion(NamedTuple):
    """Options that would remove a misfit.

    Attributes
    ----------
    options : dict
        Options of :class:`probsfa.ProbabilisticSFA` that differ from the options of the model.
    gain : float
        Approximate gain in log-likelihood, in nats.
    n_states : int
        Number of states of the suggested model. The time of a fit increases at least with its square.
    """

    options: dict[str, Any]
    gain: float
    n_states: int


class ModelProperties(NamedTuple):
    """Processes and noise of a model; options that it already has are not suggested.

    Attributes
    ----------
    n_components : int
        Number of AR(1) factors.
    periods : sequence of float, default=()
        Periods of the stochastic cycles, in the model's unit of time.
    n_smooth : int, default=0
        Number of smooth factors.
    ar1_noise : bool, default=False
        Whether the model has AR(1) noise.
    robust : bool, default=False
        Whether the model has Student-t noise.
    smooth_factors : sequence of int, default=()
        AR(1) factors that smooth factors should replace (:mod:`.smooth_alternatives`).
    n_states : int, default=0
        Number of states.
    """

    n_components: int
    periods: Sequence[float] | FloatArray = ()
    n_smooth: int = 0
    ar1_noise: bool = False
    robust: bool = False
    smooth_factors: Sequence[int] | NDArray[np.intp] = ()
    n_states: int = 0


class _Names:
    """Names of columns in messages."""

    def __init__(self, sequences: Sequences) -> None:
        names = sequences.feature_names
        self._names = [str(j) if names is None else repr(str(names[j])) for j in range(sequences.n_features)]

    def list_columns(self, selected: BoolArray, size: FloatArray) -> str:
        """Return "column" or "columns", and the names of up to five selected columns by decreasing size."""
        order = [j for j in np.argsort(-np.nan_to_num(np.abs(size), posinf=1e300)) if selected[j]]
        names = ", ".join(self._names[j] for j in order[:5])
        if len(order) == 1:
            return f"column {names}"
        more = f" and {len(order) - 5} more" if len(order) > 5 else ""
        return f"columns {names}{more}"


def _largest_column(selected: BoolArray, size: FloatArray) -> int:
    """Return the index of the selected column with the largest size."""
    return int(np.argmax(np.where(selected, np.nan_to_num(np.abs(size), posinf=1e300), -1.0)))


def tested_lags(sequences: Sequences) -> NDArray[np.intp]:
    """Return the tested lags, 1 to 10; fewer in short sequences."""
    return np.arange(1, max(min(N_LAGS, max(sequences.lengths) // 5), 1) + 1)


# -------------------------------------------------------------------------------------- errors without cycles


class _CleanedErrors(NamedTuple):
    """Prediction errors after the removal of cycles.

    Attributes
    ----------
    errors : ndarray of shape (N, D)
        The errors.
    stationary : ndarray of shape (N, D)
        The errors, centred and standardized in each part of the series.
    parts : list of slice
        Rows of each part of the series.
    periods : list of ndarray of shape (D,)
        Periods of the removed cycles that are reported for each column; NaN without such a cycle.
    resolution : float
        Width of a spectral peak, in cycles per unit of time.
    """

    errors: FloatArray
    stationary: FloatArray
    parts: list[slice]
    periods: list[FloatArray]
    resolution: float


def _remove_cycles(innovations: FloatArray, sequences: Sequences, times: FloatArray) -> _CleanedErrors:
    """Remove significant cycles from each column, and standardize the parts of the series."""
    errors, periods, resolution = innovations, list[FloatArray](), np.nan
    for _ in range(_MAX_CYCLES):
        peak = highest_peak(errors, sequences.lengths, times)
        is_significant = (peak.p_values < _SIGNIFICANCE_LEVEL / errors.shape[1]) & (
            peak.shares > _MIN_CYCLE_SHARE
        )
        resolution = peak.resolution
        if not is_significant.any():
            break
        significant_periods = np.where(is_significant, peak.periods, np.nan)
        errors = remove_cycle(errors, sequences.lengths, times, significant_periods)
        # A cycle that is much smaller than that of another column with the same period is not reported,
        # because the other column may have caused it. Size is the square root of the share, which is
        # proportional to the amplitude.
        size = np.sqrt(np.where(is_significant, peak.shares, 0.0))
        with np.errstate(invalid="ignore"):
            is_same = np.abs(1.0 / significant_periods[:, None] - 1.0 / significant_periods) <= resolution
        periods.append(
            np.where(size >= _MIN_RELATIVE_SIZE * np.max(size * is_same, axis=1), significant_periods, np.nan)
        )
    parts, stationary = split_into_parts(len(errors)), errors.copy()
    for rows, std in zip(parts, standard_deviations(errors, parts), strict=True):
        varies = std > 0.0
        if varies.any():
            centre = np.nanmedian(errors[rows][:, varies], axis=0)
            stationary[rows, varies] = (errors[rows][:, varies] - centre) / std[varies]
    return _CleanedErrors(errors, stationary, parts, periods, resolution)


# ----------------------------------------------------------------------------------------------------- advice


def advise(
    errors: PredictionErrors,
    sequences: Sequences,
    times: FloatArray,
    seconds: float | None,
    model: ModelProperties,
) -> tuple[tuple[str, ...], tuple[Suggestion, ...]]:
    """Describe misfit, and suggest options.

    Parameters
    ----------
    errors : PredictionErrors
        One-step prediction errors of all rows, and errors of left-out values.
    sequences : Sequences
        The rows, with times in the model's unit.
    times : ndarray of shape (N,)
        Times of the rows.
    seconds : float or None
        The model's unit of time in seconds, if known.
    model : ModelProperties
        The model.

    Returns
    -------
    advice : tuple of str
        A message for each type of misfit.
    suggestions : tuple of Suggestion
        Suggested options. Cycles are first, because other misfit is estimated after the removal of cycles;
        other options are sorted by gain.
    """
    innovations = errors.by_kind["one step"]
    d = innovations.shape[1]
    has_values = np.count_nonzero(~np.isnan(innovations), axis=0) >= _MIN_VALUES
    level = _SIGNIFICANCE_LEVEL / d
    cleaned = _remove_cycles(np.where(has_values, innovations, np.nan), sequences, times)
    names = _Names(sequences)
    advice: list[str] = []
    suggestions: list[Suggestion] = []

    if cleaned.periods:
        periods = _distinct_periods(cleaned, seconds)
        model_periods = [(period_label(p, seconds, cleaned.resolution), float(p)) for p in model.periods]
        rhythms = [label if seconds is not None else p for label, p in [*model_periods, *periods]]
        gain = _gain(innovations, np.nanmean(cleaned.errors**2, axis=0) / np.nanmean(innovations**2, axis=0))
        suggestions.append(Suggestion({"rhythms": rhythms}, gain, model.n_states + 2 * len(periods)))
        advice.append(_cycle_message(cleaned, [label for label, _ in periods], names, seconds))

    lags = tested_lags(sequences)
    correlations = autocorrelation(cleaned.stationary, sequences.lengths, lags)
    size, lag_index = largest_magnitude(correlations.values)
    with np.errstate(invalid="ignore"):
        is_autocorrelated = has_values & (ljung_box(correlations) < level)
        is_autocorrelated &= np.abs(size) >= _MIN_AUTOCORRELATION
        lag_one = correlations.values[0]
        is_smooth = is_autocorrelated & (lag_one >= _MIN_ERROR_CORRELATION)
    is_smooth &= _has_smooth_increments(sequences, times, is_smooth)
    n_replaced = len(model.smooth_factors)
    # If there are cycles, smooth factors are not suggested in place of AR(1) factors, because smooth factors
    # would explain part of a cycle.
    replace_factors = n_replaced > 0 and not cleaned.periods and not is_smooth.any()
    if is_smooth.any():
        n_added = _count_autocorrelated_combinations(cleaned.stationary[:, is_smooth], sequences.lengths)
        gain = _gain(innovations, np.where(is_smooth, 1.0 - lag_one**2, 1.0))
        n_smooth = model.n_smooth + n_added
        suggestions.append(Suggestion({"smooth": n_smooth}, gain, model.n_states + 2 * n_added))
        advice.append(_smoothness_message(is_smooth, lag_one, n_smooth, names))
    elif replace_factors:
        gain = _gain(innovations, 1.0 - np.nan_to_num(lag_one) ** 2)
        options = {"n_components": model.n_components - n_replaced, "smooth": model.n_smooth + n_replaced}
        suggestions.append(Suggestion(options, gain, model.n_states + n_replaced))
        advice.append(_replacement_message(model.smooth_factors, options["smooth"], options["n_components"]))
    is_autocorrelated = _exclude_transferred_misfit(is_autocorrelated, size) & ~is_smooth
    # If AR(1) factors are to be replaced by smooth factors, they may be the cause of autocorrelated errors.
    if is_autocorrelated.any() and not replace_factors:
        if not model.ar1_noise:
            gain = _gain(innovations, np.where(is_autocorrelated, 1.0 - size**2, 1.0))
            suggestions.append(Suggestion({"noise": "ar1"}, gain, model.n_states + d))
        advice.append(_autocorrelation_message(is_autocorrelated, size, lags[lag_index], names, model))

    tails = heavy_tails(cleaned.stationary)
    with np.errstate(invalid="ignore"):
        is_heavy = has_values & (tails.p_values < level) & (tails.excess_kurtosis > _MIN_KURTOSIS)
        is_heavy &= tails.degrees_of_freedom < _MAX_DEGREES
    if is_heavy.any():
        if not model.robust:
            gain = float(np.sum(tails.gains[is_heavy]))
            suggestions.append(Suggestion({"robust": True}, gain, model.n_states))
        advice.append(_tails_message(is_heavy, tails.degrees_of_freedom, innovations, names, model.robust))

    stds = standard_deviations(cleaned.errors, cleaned.parts)
    medians = np.full(innovations.shape, np.nan)
    for rows in cleaned.parts:
        observed = ~np.isnan(cleaned.errors[rows]).all(axis=0)
        medians[rows, observed] = np.nanmedian(cleaned.errors[rows][:, observed], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = nan_max(stds) / -nan_max(-stds)
        p_values = compare_parts(np.abs(cleaned.errors - medians), cleaned.parts).p_values
        is_variable = has_values & (p_values < level) & (ratio > _MIN_STD_RATIO)
    if is_variable.any():
        advice.append(_variance_message(is_variable, ratio, stds, names))

    comparison = compare_parts(cleaned.errors, cleaned.parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = nan_range(comparison.means) / nan_max(stds)
        is_shifted = has_values & (comparison.p_values < level) & (size > _MIN_LEVEL_DIFFERENCE)
    is_shifted = _exclude_transferred_misfit(is_shifted, size)
    if is_shifted.any():
        advice.append(_level_message(is_shifted, size, names))

    suggestions.sort(key=lambda suggestion: ("rhythms" not in suggestion.options, -suggestion.gain))
    if not advice:  # coverage is tested last, because any other misfit may cause wrong coverage
        advice = _coverage_messages(errors, has_values, level, names)
    return tuple(advice), tuple(suggestions)


def _gain(errors: FloatArray, shares: FloatArray) -> float:
    """Return the gain in log-likelihood (nats) if the mean square errors are multiplied by shares (D,)."""
    counts = np.count_nonzero(~np.isnan(errors), axis=0)
    is_valid = (counts > 0) & (shares > 0.0)
    return float(-0.5 * np.sum(counts[is_valid] * np.log(np.minimum(shares[is_valid], 1.0))))


def _exclude_transferred_misfit(is_significant: BoolArray, size: FloatArray) -> BoolArray:
    """Return the mask (D,) of columns whose misfit is not much smaller than the largest misfit.

    Factors may have transferred smaller misfit from other columns.
    """
    maximum = np.max(np.abs(size), where=is_significant, initial=0.0)
    return is_significant & (np.nan_to_num(np.abs(size)) >= _MIN_RELATIVE_SIZE * maximum)


# ----------------------------------------------------------------------------------------------------- cycles


def period_label(period: float, seconds: float | None, resolution: float) -> str:
    """Return a label of a period for `rhythms=`.

    The label is a calendar period (without `seconds`: an integer) if its frequency differs by at most half
    the width of a spectral peak.

    Parameters
    ----------
    period : float
        Period in the model's unit of time.
    seconds : float or None
        The unit of time in seconds, if known.
    resolution : float
        Width of a spectral peak, in cycles per unit of time.
    """
    if seconds is None:
        rounded = np.rint(period)
        is_close = rounded > 0 and abs(1.0 / rounded - 1.0 / period) <= 0.5 * resolution
        return f"{rounded:.0f}" if is_close else f"{period:.3g}"
    for label, length in {**CALENDAR_PERIODS, **_DAILY_HARMONICS}.items():
        if abs(seconds / length - 1.0 / period) <= 0.5 * resolution:
            return label
    for unit, length in (("D", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if period * seconds >= length:
            return f"{period * seconds / length:.3g}{unit}"
    return f"{1e3 * period * seconds:.3g}ms"


def _distinct_periods(cleaned: _CleanedErrors, seconds: float | None) -> list[tuple[str, float]]:
    """Return the most frequent periods of the columns as labels and numbers, at most three.

    High harmonics are omitted, because they describe the shape of a cycle. If a fit could converge from one
    period to another, only the more frequent period is returned.
    """
    counts: dict[str, int] = {}
    periods: dict[str, float] = {}
    for column in np.array(cleaned.periods).T:
        labels = {period_label(p, seconds, cleaned.resolution): p for p in column[~np.isnan(column)]}
        for label, period in labels.items():
            counts[label] = counts.get(label, 0) + 1
            periods.setdefault(label, float(period))
    harmonics = {
        label
        for label, period in periods.items()
        if any(
            np.rint(other / period) >= 3
            and abs(np.rint(other / period) / other - 1.0 / period) <= cleaned.resolution
            for other in periods.values()
        )
    }
    distinct: list[str] = []
    for label in sorted(set(periods) - harmonics, key=lambda label: (-counts[label], label)):
        # If the phase of a cycle drifts, its peak is broad, and its estimated period differs between columns.
        ratios = [max(periods[label], periods[one]) / min(periods[label], periods[one]) for one in distinct]
        if all(ratio > _PERIOD_RANGE for ratio in ratios):
            distinct.append(label)
    return [(label, periods[label]) for label in distinct[:_MAX_CYCLES]]


def _cycle_message(cleaned: _CleanedErrors, labels: list[str], names: _Names, seconds: float | None) -> str:
    n_cycles = np.count_nonzero(~np.isnan(cleaned.periods), axis=0)
    columns = names.list_columns(n_cycles > 0, n_cycles.astype(float))
    verb = "has" if np.count_nonzero(n_cycles) == 1 else "have"
    noun, is_not = ("a cycle", "is not") if len(labels) == 1 else ("cycles", "are not")
    unit = "" if seconds is not None else " units of time"
    rhythms = ", ".join(repr(label) if seconds is not None else label for label in labels)
    return (
        f"{columns[0].upper()}{columns[1:]} {verb} {noun} of {', '.join(labels)}{unit} that {is_not} in the "
        f"model: rhythms=[{rhythms}]."
    )


# --------------------------------------------------------------------------------------------- smooth factors


def _has_smooth_increments(sequences: Sequences, times: FloatArray, tested: BoolArray) -> BoolArray:
    """Return a mask of tested columns with positively autocorrelated increments at lag 2.

    Differentiable paths have such increments. Increments of an AR(1) process, and increments of white noise
    at lag 2, have zero or negative autocorrelations. Cycles are removed first, because increments of a cycle
    are also positively autocorrelated at lags of less than a quarter of its period.
    """
    has_smooth_increments = np.zeros(tested.shape, dtype=bool)
    if not tested.any():
        return has_smooth_increments
    increments = np.full((sequences.n_rows, np.count_nonzero(tested)), np.nan)
    increments[1:] = np.diff(sequences.values[:, tested], axis=0)
    increments[np.cumsum((0, *sequences.lengths[:-1]))] = np.nan
    step = np.diff(times, prepend=np.nan)
    median_step = np.nanmedian(step)
    increments[~(np.abs(step - median_step) <= 1e-3 * median_step)] = np.nan
    has_values = np.count_nonzero(~np.isnan(increments), axis=0) >= _MIN_VALUES
    if not has_values.any():
        return has_smooth_increments
    cleaned = _remove_cycles(np.where(has_values, increments, np.nan), sequences, times)
    correlations = autocorrelation(cleaned.stationary, sequences.lengths, np.array([2]))
    with np.errstate(invalid="ignore", divide="ignore"):
        minimum = np.maximum(_MIN_INCREMENT_CORRELATION, 4.0 / np.sqrt(correlations.n_pairs[0]))
        has_smooth_increments[tested] = has_values & (correlations.values[0] >= minimum)
    return has_smooth_increments


def _count_autocorrelated_combinations(errors: FloatArray, lengths: Sequence[int]) -> int:
    """Count the linear combinations of errors (N, D) that are autocorrelated at lag 1; at least one.

    The ridge shrinks the autocorrelation of combinations whose variance consists of rounding errors.
    """
    x = np.nan_to_num(errors / np.sqrt(np.nanmean(errors**2, axis=0)))
    observed = (~np.isnan(errors)).astype(np.float64)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    is_same_sequence = sequence[1:] == sequence[:-1]

    def mean_products(lag: int) -> FloatArray:
        rows = is_same_sequence if lag else np.ones(len(x), dtype=bool)
        n_pairs = observed[lag:][rows].T @ observed[: len(x) - lag][rows]
        return np.asarray(x[lag:][rows].T @ x[: len(x) - lag][rows] / np.maximum(n_pairs, 1.0))

    lagged, correlation = mean_products(1), mean_products(0)
    variances, vectors = np.linalg.eigh(correlation)
    whitening = vectors / np.sqrt(np.maximum(variances, 0.0) + _RELATIVE_RIDGE)
    autocorrelations = np.linalg.eigvalsh(whitening.T @ (0.5 * (lagged + lagged.T)) @ whitening)
    return max(int(np.count_nonzero(autocorrelations >= _MIN_ERROR_CORRELATION)), 1)


def _smoothness_message(is_smooth: BoolArray, lag_one: FloatArray, n_smooth: int, names: _Names) -> str:
    largest = _largest_column(is_smooth, lag_one)
    path, verb, its = ("path", "is", "Its") if np.count_nonzero(is_smooth) == 1 else ("paths", "are", "Their")
    return (
        f"The {path} of {names.list_columns(is_smooth, lag_one)} {verb} smooth. {its} increments are "
        "positively autocorrelated, unlike those of AR(1) factors, and one-step prediction errors have an "
        f"autocorrelation of {lag_one[largest]:.2f}. Use smooth={n_smooth}."
    )


def _replacement_message(factors: Sequence[int] | NDArray[np.intp], n_smooth: int, n_components: int) -> str:
    listing = ", ".join(str(int(k)) for k in factors)
    if len(factors) == 1:
        subject, replacement = f"path of factor {listing} is", "a smooth factor in its place"
    else:
        subject, replacement = f"paths of factors {listing} are", "smooth factors in their place"
    return (
        f"The {subject} smooth: with {replacement}, the likelihood is higher. Use smooth={n_smooth} with "
        f"n_components={n_components}."
    )


# -------------------------------------------------------------------------------------- other kinds of misfit


def _autocorrelation_message(
    is_autocorrelated: BoolArray,
    size: FloatArray,
    lag: NDArray[np.intp],
    names: _Names,
    model: ModelProperties,
) -> str:
    columns = names.list_columns(is_autocorrelated, size)
    largest = _largest_column(is_autocorrelated, size)
    values = f"{size[largest]:.2f}"
    if np.count_nonzero(is_autocorrelated) > 1:
        smallest = int(np.argmin(np.where(is_autocorrelated, np.abs(size), np.inf)))
        values = f"{size[smallest]:.2f} to {values}"
    where = f"at lag {lag[largest]} ({values})"
    more_factors = f"more than {model.n_components} factors"
    if model.ar1_noise:
        return (
            f"The noise of {columns} is autocorrelated {where} beyond an AR(1) process. Use {more_factors} "
            "(n_components, select_n_components)."
        )
    return (
        f"The noise of {columns} is autocorrelated {where}, but white in the model. Use noise='ar1' for "
        f"noise of single columns, or {more_factors} for noise that columns have in common (n_components, "
        "select_n_components)."
    )


def _tails_message(
    is_heavy: BoolArray, degrees: FloatArray, innovations: FloatArray, names: _Names, robust: bool
) -> str:
    columns = names.list_columns(is_heavy, 1.0 / degrees)
    largest = _largest_column(is_heavy, 1.0 / degrees)
    size = np.nan_to_num(np.abs(np.where(is_heavy, innovations, np.nan)))
    rows = ", ".join(str(row) for row in sorted(np.argsort(-size.max(axis=1))[:3].tolist()))
    if robust:
        return (
            f"The noise of {columns} has heavier tails than the Student's t of the model (largest errors in "
            f"rows {rows}). Set artefacts to NaN."
        )
    return (
        f"The noise of {columns} has heavy tails (Student's t with {degrees[largest]:.1f} degrees of "
        f"freedom, largest errors in rows {rows}), but is normal in the model. Use robust=True, set "
        "artefacts to NaN, or use transforms='log' for a skewed, positive column."
    )


def _variance_message(is_variable: BoolArray, ratio: FloatArray, stds: FloatArray, names: _Names) -> str:
    largest = _largest_column(is_variable, ratio)
    minimum, maximum = np.nanmin(stds[:, largest]), np.nanmax(stds[:, largest])
    return (
        f"The noise of {names.list_columns(is_variable, ratio)} changes over the series: in different parts, "
        f"the standard deviation of the prediction errors is {minimum:.2g} to {maximum:.2g}. Fit similar "
        "parts separately, or use transforms='log' for a column whose variance grows with its level."
    )


def _level_message(is_shifted: BoolArray, size: FloatArray, names: _Names) -> str:
    largest = _largest_column(is_shifted, size)
    return (
        f"The level of {names.list_columns(is_shifted, size)} changes more than the model predicts: between "
        f"parts of the series by {size[largest]:.2g} standard deviations of the prediction errors. Use "
        "trend=1, remove a trend before the fit, or fit to rows that include such changes."
    )


def _coverage_messages(
    errors: PredictionErrors, has_values: BoolArray, level: float, names: _Names
) -> list[str]:
    """Return a message about the first kind of prediction with too narrow intervals, if any."""
    from scipy.stats import binom

    for kind, errors_of_kind in errors.by_kind.items():
        share = coverage(errors_of_kind)[np.isclose(LEVELS, 0.9)][0]
        counts = np.count_nonzero(~np.isnan(errors_of_kind), axis=0)
        n_covered = np.nan_to_num(share * counts)
        # Leave-one-out errors of adjacent values are correlated; the effective number of values is smaller.
        n_correlated = {"one step": 1, "blocks": errors.block}.get(kind, 4)
        p_values = binom.cdf(np.floor(n_covered / n_correlated), np.maximum(counts // n_correlated, 1), 0.9)
        with np.errstate(invalid="ignore"):
            is_narrow = has_values & (counts >= _MIN_VALUES) & (p_values < level)
            is_narrow &= share < 0.9 - _MIN_COVERAGE_DEFICIT
        if is_narrow.any():
            largest = _largest_column(is_narrow, 1.0 - share)
            predicted = {
                "one step": "predictions one step ahead",
                "cells": "predictions of single values",
                "rows": "predictions of whole rows",
            }.get(kind, "predictions of blocks of rows")
            return [
                f"90 % intervals of {names.list_columns(is_narrow, 1.0 - share)} are too narrow for "
                f"{predicted}: they cover {100.0 * share[largest]:.0f} %. Include these rows in the fit, or "
                "try another number of factors (n_components, select_n_components)."
            ]
    return []
