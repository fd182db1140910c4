"""Model diagnostics: residual tests, coverage of prediction intervals, and advice.

If a model is right, the standardized one-step prediction errors are independent and standard normal in each
column, and prediction intervals have their nominal coverage for every pattern of missing values. This module
computes the errors for each pattern, the tests of :mod:`.whiteness`, and the advice that follows from them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.columns import autocorrelation
from probsfa.statespace.engine.posterior import observation_moments
from probsfa.statespace.filtering import standardised_errors
from probsfa.statespace.leave_one_out import leave_one_out_moments
from probsfa.statespace.parameters import StateSpace
from probsfa.statespace.whiteness import (
    heavy_tails,
    ljung_box,
    part_contrast,
    peak,
    split_into_parts,
    without_cycle,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Diagnostics",
    "PredictionErrors",
    "diagnose",
    "left_out_row_moments",
    "left_out_rows",
]

#: Nominal probabilities of the calibration curves.
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
# Significance level of each of the six kinds of misfit, over all columns: 1 % for all kinds together.
_SIGNIFICANCE_LEVEL = 0.01 / 6.0
# Thresholds above which misfit is reported: autocorrelation, share of a cycle in the mean square, excess
# kurtosis and degrees of freedom, ratio of standard deviations, difference of levels in standard deviations,
# lack of coverage.
_MIN_AUTOCORRELATION, _MIN_CYCLE_SHARE = 0.12, 0.01
_MIN_KURTOSIS, _MAX_DEGREES = 1.0, 10.0
_MIN_STD_RATIO, _MIN_LEVEL_DIFFERENCE, _MIN_COVERAGE_DEFICIT = 1.5, 0.5, 0.08
# Minimum autocorrelation of a smooth column: of its errors at lag 1, and of its increments at lag 2 (white
# noise makes the latter negative at lag 1). The first is also required of linear combinations of columns. The
# ridge regularizes the correlation matrix of errors.
_MIN_ERROR_CORRELATION, _MIN_INCREMENT_CORRELATION, _RELATIVE_RIDGE = 0.3, 0.25, 0.05
# Misfit of one column can affect others through the factors, at most by this fraction.
_MIN_RELATIVE_SIZE = 1.0 / 3.0
# Number of consecutive lags that are tested, and additional calendar periods in seconds.
_LAGS = 10
_CALENDAR_PERIODS = {"1D": 86_400.0, "7D": 604_800.0, "365.25D": 31_557_600.0}
_DAILY_HARMONICS = {"12h": 43_200.0, "8h": 28_800.0, "6h": 21_600.0}
_MAX_CYCLES = 3
# Largest ratio by which a fit may change a period (`PERIOD_RANGE` of learning).
_PERIOD_RANGE = 1.25
# Columns with fewer values are not tested.
_MIN_VALUES = 50


class PredictionErrors(NamedTuple):
    """One-step predictions, and standardized errors by pattern of hidden values.

    Attributes
    ----------
    predictions, prediction_std : ndarray of shape (N, D)
        Means and standard deviations of observations given the rows before.
    by_kind : dict of ndarray of shape (M, D)
        Standardized errors of hidden observed values, NaN elsewhere: ``"one step"``, given the rows before;
        ``"cells"``, one value; ``"rows"``, the whole row; ``"blocks"``, a block of rows in one column.
    block : int
        Number of rows of a block.
    """

    predictions: FloatArray
    prediction_std: FloatArray
    by_kind: dict[str, FloatArray]
    block: int


class Suggestion(NamedTuple):
    """Options that would remove a misfit.

    Attributes
    ----------
    options : dict
        Options of :class:`probsfa.ProbabilisticSFA` that are added to those of the model.
    gain : float
        Approximate gain in log-likelihood, in nats.
    n_states : int
        Number of states with these options; the time of a fit grows with its square.
    """

    options: dict[str, Any]
    gain: float
    n_states: int


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a fitted model from its prediction errors.

    Attributes
    ----------
    predictions, prediction_std : ndarray or frame of shape (T, D), or list of them
        Mean and standard deviation of each row given the rows before it, noise included.
    innovations : ndarray or frame of shape (T, D), or list of them
        Standardized errors of `predictions`; NaN where a value is missing. If the model is right, they are
        independent and standard normal in each column.
    lags : ndarray of int of shape (L,)
        Lags in rows: the first ten, and for rows with dates a day, a week and a year.
    autocorrelation : ndarray of shape (L, D)
        Autocorrelation of the innovations.
    ljung_box : ndarray of shape (D,)
        P-values of the Ljung-Box test for white noise at these lags, in the form for missing values.
    excess_kurtosis, degrees_of_freedom : ndarray of shape (D,)
        Excess kurtosis of the innovations (zero if normal), and degrees of freedom of the best-fitting
        Student's t (infinity if normal).
    rhythm_periods, rhythm_p_values : ndarray of shape (D,)
        Period of the highest peak of the innovations' spectrum, in `time_unit_` of the model, and its
        p-value.
    level_drift : ndarray of shape (D,)
        Largest difference of the means of the innovations between segments.
    spread_ratio : ndarray of shape (D,)
        Largest ratio of their standard deviations between segments.
    levels : ndarray of shape (P,)
        Nominal coverage of prediction intervals.
    coverage : dict of ndarray of shape (P, D)
        Coverage of prediction intervals by pattern: ``"one step"`` ahead, single values left out
        (``"cells"``), whole ``"rows"`` left out, and ``"blocks"`` of rows left out in one column.
    n_cells : ndarray of shape (D,)
        Number of innovations.
    feature_names : tuple of str
        Names of the columns.
    advice : tuple of str
        Descriptions of misfit, each with a suggestion; empty if no test fails.
    suggestions : tuple of Suggestion
        Suggested options of :class:`probsfa.ProbabilisticSFA`: cycles first, then others by expected gain.
        Apply one, fit and diagnose again: it may remove further misfit.

    See Also
    --------
    probsfa.ProbabilisticSFA.diagnose : Compute diagnostics.
    Diagnostics.plot : Draw them.

    Notes
    -----
    Advice is given only for misfit that is both large enough to matter and significant at a level of 1 % for
    all columns together. Cycles are removed before the other tests, so that each misfit is reported once; the
    numbers by column are those of the original innovations. A smooth factor is suggested if the likelihood
    with it is much higher than with an AR(1) factor with the same loadings.
    """

    predictions: Any
    prediction_std: Any
    innovations: Any
    lags: NDArray[np.intp]
    autocorrelation: FloatArray
    ljung_box: FloatArray
    excess_kurtosis: FloatArray
    degrees_of_freedom: FloatArray
    rhythm_periods: FloatArray
    rhythm_p_values: FloatArray
    level_drift: FloatArray
    spread_ratio: FloatArray
    levels: FloatArray
    coverage: Mapping[str, FloatArray]
    n_cells: NDArray[np.intp]
    feature_names: tuple[str, ...]
    advice: tuple[str, ...]
    suggestions: tuple[Suggestion, ...] = ()

    @property
    def suggested(self) -> dict[str, Any]:
        """Options of the first suggestion, such as ``{"noise": "ar1"}``; empty without suggestions."""
        return dict(self.suggestions[0].options) if self.suggestions else {}

    def covered(self, level: float = 0.9) -> dict[str, FloatArray]:
        """Return the coverage of prediction intervals, by pattern of hidden values and column.

        Parameters
        ----------
        level : float, default=0.9
            One of `levels`.

        Returns
        -------
        dict of ndarray of shape (D,)

        Raises
        ------
        ValueError
            If it is not one of them.
        """
        at = np.flatnonzero(np.isclose(self.levels, level))
        if at.size == 0:
            raise ValueError(f"level must be one of {self.levels.tolist()}; got {level!r}.")
        return {kind: curve[at[0]] for kind, curve in self.coverage.items()}

    @property
    def table(self) -> Any:
        """Diagnostics by column, as a pandas DataFrame."""
        import pandas as pd

        largest = _largest(self.autocorrelation)
        columns: dict[str, Any] = {
            "n": self.n_cells,
            "lag 1": self.autocorrelation[0],
            "largest": largest[0],
            "at lag": self.lags[largest[1]],
            "Ljung-Box p": self.ljung_box,
            "kurtosis": self.excess_kurtosis,
            "t df": self.degrees_of_freedom,
            "period": self.rhythm_periods,
            "period p": self.rhythm_p_values,
            "level drift": self.level_drift,
            "spread ratio": self.spread_ratio,
            **{f"90 % {kind}": covered for kind, covered in self.covered(0.9).items()},
        }
        return pd.DataFrame(columns, index=pd.Index(self.feature_names, name="column"))

    def plot(self, *, axes: "Sequence[Axes] | NDArray[Any] | None" = None) -> "list[Axes]":
        """Draw residual diagnostics and coverage by column.

        Parameters
        ----------
        axes : sequence of 4 matplotlib Axes, optional
            Axes to draw on; a new figure by default.

        Returns
        -------
        list of matplotlib Axes
            Autocorrelations of the innovations by column and lag; normal quantile plots by column;
            calibration curves by pattern of hidden values; coverage of 90 % intervals by column.
        """
        from probsfa.plots.diagnostics import plot_diagnostics  # loads scikit-learn

        return plot_diagnostics(self, axes=axes)

    def __str__(self) -> str:
        lines = [self.table.to_string(float_format=lambda x: f"{x:.3g}"), ""]
        for kind, covered in self.covered(0.9).items():
            if np.isnan(covered).all():
                continue
            largest = int(np.nanargmin(covered))
            lines.append(
                f"90 % intervals, {kind}: cover {100 * np.nanmean(covered):.0f} % in the mean over columns, "
                f"{100 * covered[largest]:.0f} % in {self.feature_names[largest]!r}."
            )
        return "\n".join([*lines, "", *(self.advice or (_NO_MISFIT,))])


_NO_MISFIT = "No misfit found: prediction errors are white, normal and of constant variance."


def diagnose(
    errors: PredictionErrors,
    sequences: Sequences,
    seconds: float | None,
    n_components: int,
    *,
    periods: Sequence[float] | FloatArray = (),
    n_smooth: int = 0,
    ar1_noise: bool = False,
    robust: bool = False,
    smoother: Sequence[int] | NDArray[np.intp] = (),
    n_states: int = 0,
) -> Diagnostics:
    """Test the prediction errors of a model.

    Parameters
    ----------
    errors : PredictionErrors
        Errors of all rows.
    sequences : Sequences
        The rows, in units of the model's time.
    seconds : float or None
        Length of that unit, if known.
    n_components : int
        Number of AR(1) factors.
    periods : sequence of float, default=()
        Periods of the model's stochastic cycles, in its unit of time.
    n_smooth : int, default=0
        Number of smooth factors.
    ar1_noise : bool, default=False
        Whether the model has AR(1) noise.
    robust : bool, default=False
        Whether the model has Student-t noise.
    smoother : sequence of int, default=()
        AR(1) factors whose replacement by a smooth factor has a higher likelihood.
    n_states : int, default=0
        Number of states of the model.

    Returns
    -------
    Diagnostics
    """
    innovations, lengths = errors.by_kind["one step"], sequences.lengths
    names = sequences.feature_names or tuple(str(j) for j in range(sequences.n_features))
    times = np.arange(sequences.n_rows, dtype=np.float64) if sequences.times is None else sequences.times
    lags = _lags(sequences, seconds)
    correlations = autocorrelation(innovations, lengths, lags)
    tails = heavy_tails(innovations)
    parts = split_into_parts(sequences.n_rows)
    highest = peak(innovations, lengths, times)
    level, spread = part_contrast(innovations, parts).means, _spreads(innovations, parts)
    advice, suggestions = _advise(
        errors,
        sequences,
        times,
        seconds,
        n_components,
        periods,
        n_smooth,
        ar1_noise=ar1_noise,
        robust=robust,
        smoother=smoother,
        n_states=n_states,
    )
    with np.errstate(all="ignore"):
        return Diagnostics(
            predictions=errors.predictions,
            prediction_std=errors.prediction_std,
            innovations=innovations,
            lags=lags,
            autocorrelation=correlations.values,
            ljung_box=ljung_box(correlations),
            excess_kurtosis=tails.excess_kurtosis,
            degrees_of_freedom=tails.degrees_of_freedom,
            rhythm_periods=highest.periods,
            rhythm_p_values=highest.p_values,
            level_drift=_range(level),
            spread_ratio=_max(spread) / -_max(-spread),
            levels=LEVELS,
            coverage={kind: coverage(each) for kind, each in errors.by_kind.items()},
            n_cells=np.count_nonzero(~np.isnan(innovations), axis=0),
            feature_names=tuple(str(name) for name in names),
            advice=advice,
            suggestions=suggestions,
        )


def coverage(errors: FloatArray) -> FloatArray:
    """Return the coverage (P, D) of central normal intervals by column; NaN for columns without errors."""
    from scipy.special import ndtri

    observed = ~np.isnan(errors)
    reach = ndtri(0.5 + 0.5 * LEVELS)
    with np.errstate(invalid="ignore"):
        size = np.where(observed, np.abs(errors), np.inf)
        return np.array([np.sum(size <= maximum, axis=0) / observed.sum(axis=0) for maximum in reach])


def left_out_errors(
    values: FloatArray, means: FloatArray, variances: FloatArray, noise_variance: FloatArray
) -> FloatArray:
    """Return standardised leave-one-out errors (T, D) of values; parameters as of :func:`.left_out`."""
    without, variance = leave_one_out_moments(values, means, variances, noise_variance)
    return standardised_errors(values, without, np.sqrt(variance))


def left_out_rows(
    params: StateSpace, values: FloatArray, means: FloatArray, covariances: FloatArray
) -> FloatArray:
    """Return standardised errors of the values of each row given all other rows.

    The posterior of a state without the row's own information ``J`` and ``h`` is
    ``(1 - V J)^-1 (m - V h)`` with covariance ``(1 - V J)^-1 V``, for posterior mean ``m`` and covariance
    ``V``.

    Parameters
    ----------
    params : StateSpace
        Parameters for predictions of the observations.
    values : ndarray of shape (T, D)
        Observations, NaN where missing.
    means, covariances : ndarray of shape (T, K) and (T, K, K)
        Moments of the latent states given all rows.

    Returns
    -------
    ndarray of shape (T, D)
        NaN where a value is missing, or where rounding errors dominate.
    """
    predicted, explained = left_out_row_moments(params, values, means, covariances)
    return standardised_errors(values, predicted, np.sqrt(explained + params.noise_variance))


def left_out_row_moments(
    params: StateSpace,
    values: FloatArray,
    means: FloatArray,
    covariances: FloatArray,
    cell_weights: FloatArray | float = 1.0,
) -> tuple[FloatArray, FloatArray]:
    """Return means and variances (T, D) of noise-free observed values given all other rows.

    Parameters are those of :func:`left_out_rows`, and the weights (T, D) of the values if they differ. The
    result is NaN for the same values.
    """
    k = means.shape[1]
    noisy = params.noise_variance > 0.0
    observed = ~np.isnan(values) & noisy
    weights = np.where(observed, cell_weights / np.where(noisy, params.noise_variance, 1.0), 0.0)
    outer_products = (params.loadings[:, :, None] * params.loadings[:, None, :]).reshape(
        params.n_features, k * k
    )
    information = (weights @ outer_products).reshape(len(weights), k, k)
    score = (weights * np.where(observed, values - params.offset, 0.0)) @ params.loadings
    # With V = L L' the matrix 1 - L' J L is symmetric; a small eigenvalue means loss of digits.
    power, axes = np.linalg.eigh(covariances)
    root = axes * np.sqrt(np.maximum(power, 0.0))[:, None, :]
    rotated = np.swapaxes(root, 1, 2)
    left, vectors = np.linalg.eigh(np.eye(k) - rotated @ information @ root)
    # Smallest relative eigenvalue for which rounding errors do not dominate leave-one-row-out moments.
    fine = np.min(left, axis=1, initial=1.0) > 1e-7
    left = np.where(fine[:, None], left, 1.0)
    inflated = root @ vectors / np.sqrt(left)[:, None, :]
    covariance = inflated @ np.swapaxes(inflated, 1, 2)
    rest = means - np.einsum("tij,tj->ti", covariances, score)
    rest = rest + np.einsum("tij,tjk,tk->ti", covariance, information, rest, optimize=True)
    is_significant = fine[:, None] & observed
    predicted, variances = observation_moments(params, rest, covariance)
    explained = variances - params.noise_variance
    return np.where(is_significant, predicted, np.nan), np.where(is_significant, explained, np.nan)


# ------------------------------------------------------------------------------------------- advice


def _lags(sequences: Sequences, seconds: float | None) -> NDArray[np.intp]:
    """Return the lags that are tested: the first ones, and those of the calendar."""
    longest = max(sequences.lengths)
    lags = set(range(1, max(min(_LAGS, longest // 5), 1) + 1))
    evenly_sampled = sequences.times is None or sequences.step is not None
    if seconds is not None and evenly_sampled:
        step = seconds * (1.0 if sequences.step is None or sequences.times is None else sequences.step)
        for period in _CALENDAR_PERIODS.values():
            rows = period / step
            if rows > _LAGS and longest >= 3 * rows and abs(rows - np.rint(rows)) < 0.01 * rows:
                lags.add(int(np.rint(rows)))
    return np.array(sorted(lags), dtype=np.intp)


def _spreads(errors: FloatArray, parts: Sequence[slice]) -> FloatArray:
    """Return the standard deviation of each column in each part (M, D); NaN if a part has few values."""
    out = np.full((len(parts), errors.shape[1]), np.nan)
    for i, rows in enumerate(parts):
        enough = np.count_nonzero(~np.isnan(errors[rows]), axis=0) >= 10
        if enough.any():
            out[i, enough] = np.nanstd(errors[rows][:, enough], axis=0)
    return out


def _max(values: FloatArray) -> FloatArray:
    """Return the largest value of each column; NaN for columns without values."""
    maximum = np.max(np.where(np.isnan(values), -np.inf, values), axis=0)
    return np.where(np.isinf(maximum), np.nan, maximum)


def _range(values: FloatArray) -> FloatArray:
    return _max(values) + _max(-values)


def _largest(values: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the value of largest magnitude in each column (D,), and its row; NaN without values."""
    at = np.argmax(np.where(np.isnan(values), -1.0, np.abs(values)), axis=0)
    return values[at, np.arange(values.shape[1])], at


class _Cleaned(NamedTuple):
    """Innovations without cycles (`errors`), and also standardized in each part (`steady`)."""

    errors: FloatArray
    steady: FloatArray
    parts: list[slice]
    periods: list[FloatArray]
    resolution: float


def _clean(innovations: FloatArray, sequences: Sequences, times: FloatArray) -> _Cleaned:
    errors, periods, width = innovations, list[FloatArray](), np.nan
    for _ in range(_MAX_CYCLES):
        highest = peak(errors, sequences.lengths, times)
        is_significant = (highest.p_values < _SIGNIFICANCE_LEVEL / errors.shape[1]) & (
            highest.shares > _MIN_CYCLE_SHARE
        )
        width = highest.resolution
        if not is_significant.any():
            break
        found = np.where(is_significant, highest.periods, np.nan)
        errors = without_cycle(errors, sequences.lengths, times, found)
        # Amplitudes are proportional to the square roots of shares.
        size = np.sqrt(np.where(is_significant, highest.shares, 0.0))
        with np.errstate(invalid="ignore"):
            same = np.abs(1.0 / found[:, None] - 1.0 / found) <= width
        periods.append(np.where(size >= _MIN_RELATIVE_SIZE * np.max(size * same, axis=1), found, np.nan))
    parts, steady = split_into_parts(len(errors)), errors.copy()
    spreads = _spreads(errors, parts)
    for rows, spread in zip(parts, spreads, strict=True):
        there = spread > 0.0
        if there.any():
            centre = np.nanmedian(errors[rows][:, there], axis=0)
            steady[rows, there] = (errors[rows][:, there] - centre) / spread[there]
    return _Cleaned(errors, steady, parts, periods, width)


def _advise(
    errors: PredictionErrors,
    sequences: Sequences,
    times: FloatArray,
    seconds: float | None,
    n_components: int,
    own_periods: Sequence[float] | FloatArray,
    n_smooth: int,
    *,
    ar1_noise: bool,
    robust: bool,
    smoother: Sequence[int] | NDArray[np.intp],
    n_states: int,
) -> tuple[tuple[str, ...], tuple[Suggestion, ...]]:
    """Return a sentence for each kind of misfit, and the suggested options in order of gain."""
    innovations = errors.by_kind["one step"]
    d = innovations.shape[1]
    tested = np.count_nonzero(~np.isnan(innovations), axis=0) >= _MIN_VALUES
    rare = _SIGNIFICANCE_LEVEL / d
    cleaned = _clean(np.where(tested, innovations, np.nan), sequences, times)
    say = _Sentences(sequences)
    advice: list[str] = []
    suggestions: list[Suggestion] = []

    if cleaned.periods:
        periods = _lasting_periods(cleaned, seconds)
        own = [(period_label(p, seconds, cleaned.resolution), float(p)) for p in own_periods]
        rhythms = [label if seconds is not None else p for label, p in [*own, *periods]]
        gain = _gain(innovations, np.nanmean(cleaned.errors**2, axis=0) / np.nanmean(innovations**2, axis=0))
        suggestions.append(Suggestion({"rhythms": rhythms}, gain, n_states + 2 * len(periods)))
        advice.append(_about_cycles(cleaned, [label for label, _ in periods], say, seconds))

    lags = np.arange(1, max(min(_LAGS, max(sequences.lengths) // 5), 1) + 1)
    correlations = autocorrelation(cleaned.steady, sequences.lengths, lags)
    size, at = _largest(correlations.values)
    with np.errstate(invalid="ignore"):
        is_significant = tested & (ljung_box(correlations) < rare) & (np.abs(size) >= _MIN_AUTOCORRELATION)
        first = correlations.values[0]
        smooth = is_significant & (first >= _MIN_ERROR_CORRELATION)
    smooth &= _increments_go_on(sequences, times, smooth)
    # A smooth factor would explain part of a cycle.
    exchange = len(smoother) > 0 and not cleaned.periods and not smooth.any()
    if smooth.any():
        more = _n_shared(cleaned.steady[:, smooth], sequences.lengths)
        gain = _gain(innovations, np.where(smooth, 1.0 - first**2, 1.0))
        suggestions.append(Suggestion({"smooth": n_smooth + more}, gain, n_states + 2 * more))
        advice.append(_about_smoothness(smooth, first, n_smooth + more, say))
    elif exchange:
        gain = _gain(innovations, 1.0 - np.nan_to_num(first) ** 2)
        options = {"n_components": n_components - len(smoother), "smooth": n_smooth + len(smoother)}
        suggestions.append(Suggestion(options, gain, n_states + len(smoother)))
        advice.append(_about_smoother(smoother, options["smooth"], options["n_components"]))
    is_significant = _own(is_significant, size) & ~smooth
    # An AR(1) factor in place of a smooth one causes autocorrelated errors.
    if is_significant.any() and not exchange:
        if not ar1_noise:
            gain = _gain(innovations, np.where(is_significant, 1.0 - size**2, 1.0))
            suggestions.append(Suggestion({"noise": "ar1"}, gain, n_states + d))
        advice.append(
            _about_autocorrelation(is_significant, size, lags[at], say, n_components, ar1_noise=ar1_noise)
        )

    tails = heavy_tails(cleaned.steady)
    with np.errstate(invalid="ignore"):
        is_significant = tested & (tails.p_values < rare) & (tails.excess_kurtosis > _MIN_KURTOSIS)
        is_significant &= tails.degrees_of_freedom < _MAX_DEGREES
    if is_significant.any():
        if not robust:
            gain = float(np.sum(tails.gains[is_significant]))
            suggestions.append(Suggestion({"robust": True}, gain, n_states))
        advice.append(_about_tails(is_significant, tails.degrees_of_freedom, innovations, say, robust))

    spreads = _spreads(cleaned.errors, cleaned.parts)
    medians = np.full(innovations.shape, np.nan)
    for rows in cleaned.parts:
        observed = ~np.isnan(cleaned.errors[rows]).all(axis=0)
        medians[rows, observed] = np.nanmedian(cleaned.errors[rows][:, observed], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = _max(spreads) / -_max(-spreads)
        changed = part_contrast(np.abs(cleaned.errors - medians), cleaned.parts).p_values
        is_significant = tested & (changed < rare) & (ratio > _MIN_STD_RATIO)
    if is_significant.any():
        advice.append(_about_spread(is_significant, ratio, spreads, say))

    drift = part_contrast(cleaned.errors, cleaned.parts)
    with np.errstate(invalid="ignore", divide="ignore"):
        size = _range(drift.means) / _max(spreads)
        is_significant = tested & (drift.p_values < rare) & (size > _MIN_LEVEL_DIFFERENCE)
    is_significant = _own(is_significant, size)
    if is_significant.any():
        who = say.who(is_significant, size)
        largest = say.worst(is_significant, size)
        advice.append(
            f"The level of {who} deviates from the predictions (by {size[largest]:.2g} standard deviations "
            "of "
            "its errors between parts of the series): remove a trend before the fit, use trend=1, or fit "
            "to a series with such levels."
        )

    # Other misfit is measured after cycles are removed.
    suggestions.sort(key=lambda one: ("rhythms" not in one.options, -one.gain))
    if advice:  # this misfit explains wrong coverage
        return tuple(advice), tuple(suggestions)
    covered = {kind: coverage(each)[np.isclose(LEVELS, 0.9)][0] for kind, each in errors.by_kind.items()}
    counts = {kind: np.count_nonzero(~np.isnan(each), axis=0) for kind, each in errors.by_kind.items()}
    return _about_coverage(covered, counts, tested, rare, say, errors.block), tuple(suggestions)


def _gain(errors: FloatArray, shares: FloatArray) -> float:
    """Return the gain in nats if the mean squares of the columns are reduced to the given shares (D,)."""
    counts = np.count_nonzero(~np.isnan(errors), axis=0)
    known = (counts > 0) & (shares > 0.0)
    return float(-0.5 * np.sum(counts[known] * np.log(np.minimum(shares[known], 1.0))))


def _own(is_significant: BoolArray, size: FloatArray) -> BoolArray:
    """Return columns with a misfit, except where it may be caused by a larger misfit of another column."""
    maximum = np.max(np.abs(size), where=is_significant, initial=0.0)
    return is_significant & (np.nan_to_num(np.abs(size)) >= _MIN_RELATIVE_SIZE * maximum)


class _Sentences:
    """Descriptions of columns by their names."""

    def __init__(self, sequences: Sequences) -> None:
        names = sequences.feature_names
        self.names = [str(j) if names is None else repr(str(names[j])) for j in range(sequences.n_features)]

    def worst(self, told: BoolArray, size: FloatArray) -> int:
        """Return the column with the largest misfit."""
        return int(np.argmax(np.where(told, np.nan_to_num(np.abs(size), posinf=1e300), -1.0)))

    def who(self, told: BoolArray, size: FloatArray) -> str:
        """Return the names of columns with a misfit, the largest first; five at most."""
        order = [j for j in np.argsort(-np.nan_to_num(np.abs(size), posinf=1e300)) if told[j]]
        listing = ", ".join(self.names[j] for j in order[:5])
        if len(order) == 1:
            return f"column {listing}"
        more = f" and {len(order) - 5} more" if len(order) > 5 else ""
        return f"columns {listing}{more}"


def _increments_go_on(sequences: Sequences, times: FloatArray, among: BoolArray) -> BoolArray:
    """Return which columns of `among` have positively autocorrelated increments, as differentiable paths do.

    Increments of an AR(1) process have zero or negative correlations, as do those of white noise two rows
    apart. Cycles, whose increments are correlated within part of a period, are removed first.
    """
    out = np.zeros(among.shape, dtype=bool)
    if not among.any():
        return out
    increments = np.full((sequences.n_rows, np.count_nonzero(among)), np.nan)
    increments[1:] = np.diff(sequences.values[:, among], axis=0)
    increments[np.cumsum((0, *sequences.lengths[:-1]))] = np.nan
    step = np.diff(times, prepend=np.nan)
    usual = np.nanmedian(step)
    increments[~(np.abs(step - usual) <= 1e-3 * usual)] = np.nan  # time steps of other lengths
    observed = np.count_nonzero(~np.isnan(increments), axis=0) >= _MIN_VALUES
    if not observed.any():
        return out
    cleaned = _clean(np.where(observed, increments, np.nan), sequences, times)
    after = autocorrelation(cleaned.steady, sequences.lengths, np.array([2]))
    with np.errstate(invalid="ignore", divide="ignore"):
        minimum = np.maximum(_MIN_INCREMENT_CORRELATION, 4.0 / np.sqrt(after.n_pairs[0]))
        out[among] = observed & (after.values[0] >= minimum)
    return out


def _n_shared(errors: FloatArray, lengths: Sequence[int]) -> int:
    """Return the number (at least one) of linear combinations of errors (N, D) autocorrelated at lag 1.

    The autocorrelation of combinations with very small variance is shrunk, because it is rounding error.
    """
    x = np.nan_to_num(errors / np.sqrt(np.nanmean(errors**2, axis=0)))
    observed = (~np.isnan(errors)).astype(np.float64)
    which = np.repeat(np.arange(len(lengths)), lengths)
    within = which[1:] == which[:-1]

    def moments(lag: int) -> FloatArray:
        rows = within if lag else np.ones(len(x), dtype=bool)
        pairs = observed[lag:][rows].T @ observed[: len(x) - lag][rows]
        return np.asarray(x[lag:][rows].T @ x[: len(x) - lag][rows] / np.maximum(pairs, 1.0))

    lagged, spread = moments(1), moments(0)
    values, vectors = np.linalg.eigh(spread)
    root = vectors / np.sqrt(np.maximum(values, 0.0) + _RELATIVE_RIDGE)
    shared = np.linalg.eigvalsh(root.T @ (0.5 * (lagged + lagged.T)) @ root)
    return max(int(np.count_nonzero(shared >= _MIN_ERROR_CORRELATION)), 1)


def _about_smoothness(is_significant: BoolArray, first: FloatArray, n_smooth: int, say: _Sentences) -> str:
    one, largest = np.count_nonzero(is_significant) == 1, say.worst(is_significant, first)
    path, verb = ("path", "is") if one else ("paths", "are")
    return (
        f"The {path} of {say.who(is_significant, first)} {verb} smooth: increments are positively "
        "correlated, unlike "
        f"those of AR(1) factors, and one-step prediction errors are autocorrelated ({first[largest]:.2f}): "
        f"smooth={n_smooth}."
    )


def _about_smoother(latents: Sequence[int] | NDArray[np.intp], n_smooth: int, n_components: int) -> str:
    one = len(latents) == 1
    listing = ", ".join(str(int(k)) for k in latents)
    return (
        f"{'Factor' if one else 'Factors'} {listing} {'has a path' if one else 'have paths'} with a "
        f"derivative: the likelihood is higher with {'a smooth factor' if one else 'smooth factors'} "
        f"instead: smooth={n_smooth} with n_components={n_components}."
    )


def _lasting_periods(cleaned: _Cleaned, seconds: float | None) -> list[tuple[str, float]]:
    """Return the most frequent periods of the columns as labels and numbers, at most three.

    High harmonics are omitted. If a fit of one period may converge to another, only the more frequent of the
    two is returned.
    """
    counts: dict[str, int] = {}
    lengths: dict[str, float] = {}
    for column in np.array(cleaned.periods).T:
        labels = {period_label(p, seconds, cleaned.resolution): p for p in column[~np.isnan(column)]}
        for label, period in labels.items():
            counts[label] = counts.get(label, 0) + 1
            lengths.setdefault(label, float(period))
    # High harmonics describe the shape of a cycle.
    shape = {
        label
        for label, period in lengths.items()
        if any(
            np.rint(other / period) >= 3
            and abs(np.rint(other / period) / other - 1.0 / period) <= cleaned.resolution
            for other in lengths.values()
        )
    }
    often: list[str] = []
    for label in sorted(set(lengths) - shape, key=lambda label: (-counts[label], label)):
        # A cycle with a drifting phase has a broad peak, in which several periods are found.
        differences = [max(lengths[label], lengths[one]) / min(lengths[label], lengths[one]) for one in often]
        if all(ratio > _PERIOD_RANGE for ratio in differences):
            often.append(label)
    return [(label, lengths[label]) for label in often[:_MAX_CYCLES]]


def _about_cycles(cleaned: _Cleaned, often: list[str], say: _Sentences, seconds: float | None) -> str:
    is_significant = np.any(~np.isnan(cleaned.periods), axis=0)
    who = say.who(is_significant, np.sum(~np.isnan(cleaned.periods), axis=0).astype(float))
    verb = "has" if np.count_nonzero(is_significant) == 1 else "have"
    noun, is_not = ("a cycle", "is not") if len(often) == 1 else ("cycles", "are not")
    unit = "" if seconds is not None else " units of time"
    quoted = ", ".join(repr(label) if seconds is not None else label for label in often)
    return (
        f"{who[0].upper()}{who[1:]} {verb} {noun} of {', '.join(often)}{unit} that {is_not} in the model: "
        f"rhythms=[{quoted}]."
    )


def _about_spread(is_significant: BoolArray, ratio: FloatArray, spreads: FloatArray, say: _Sentences) -> str:
    largest = say.worst(is_significant, ratio)
    minimum, maximum = np.nanmin(spreads[:, largest]), np.nanmax(spreads[:, largest])
    return (
        f"The noise of {say.who(is_significant, ratio)} changes over the series (standard deviation of the "
        "prediction "
        f"errors {minimum:.2g} to {maximum:.2g} between parts of it): fit similar segments separately, or "
        "use "
        "the logarithm of a column whose variance grows with its level."
    )


def period_label(period: float, seconds: float | None, resolution: float) -> str:
    """Return a period as a label for `rhythms=`: that of the calendar if the two cannot be distinguished.

    Parameters
    ----------
    period : float
        Period in units of the model's time.
    seconds : float or None
        Length of the unit, if known.
    resolution : float
        Width of a peak in cycles per unit.
    """
    if seconds is None:
        full = np.rint(period)
        near = full > 0 and abs(1.0 / full - 1.0 / period) <= 0.5 * resolution
        return f"{full:.0f}" if near else f"{period:.3g}"
    for label, length in {**_CALENDAR_PERIODS, **_DAILY_HARMONICS}.items():
        if abs(seconds / length - 1.0 / period) <= 0.5 * resolution:
            return label
    for unit, length in (("D", 86_400.0), ("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if period * seconds >= length:
            return f"{period * seconds / length:.3g}{unit}"
    return f"{1e3 * period * seconds:.3g}ms"


def _about_autocorrelation(
    is_significant: BoolArray,
    size: FloatArray,
    at: NDArray[np.intp],
    say: _Sentences,
    n_components: int,
    *,
    ar1_noise: bool,
) -> str:
    who = say.who(is_significant, size)
    largest = say.worst(is_significant, size)
    listing = [f"{size[largest]:.2f}"]
    if np.count_nonzero(is_significant) > 1:
        smallest = int(np.argmin(np.where(is_significant, np.abs(size), np.inf)))
        listing = [f"{size[smallest]:.2f}", f"{size[largest]:.2f}"]
    how = f"at lag {at[largest]} ({' to '.join(listing)})"
    more = f"use more factors than {n_components} (n_components, select_n_components)."
    if ar1_noise:
        return f"The noise of {who} is autocorrelated {how} beyond an AR(1) process: {more}"
    return (
        f"The noise of {who} is autocorrelated {how}, but white in the model: use noise='ar1' for noise of "
        f"single columns; for shared noise, {more}"
    )


def _about_tails(
    is_significant: BoolArray, degrees: FloatArray, innovations: FloatArray, say: _Sentences, robust: bool
) -> str:
    who = say.who(is_significant, 1.0 / degrees)
    largest = say.worst(is_significant, 1.0 / degrees)
    size = np.nan_to_num(np.abs(np.where(is_significant, innovations, np.nan)))
    rows = [str(row) for row in sorted(np.argsort(-size.max(axis=1))[:3].tolist())]
    if robust:
        return (
            f"The noise of {who} has heavier tails than its Student's t (largest errors in rows "
            f"{', '.join(rows)}): set artefacts to NaN."
        )
    return (
        f"The noise of {who} has heavy tails (a t distribution with {degrees[largest]:.1f} degrees of "
        f"freedom, largest errors in rows {', '.join(rows)}), but normal in the model: robust=True gives "
        "outliers little weight; or set artefacts to NaN, and use the logarithm of a skewed column."
    )


def _about_coverage(
    covered: dict[str, FloatArray],
    counts: dict[str, NDArray[np.intp]],
    tested: BoolArray,
    rare: float,
    say: _Sentences,
    block: int,
) -> tuple[str, ...]:
    """Return a sentence on intervals that are too narrow for a pattern of missing values."""
    from scipy.stats import binom

    for kind, share in covered.items():
        held = np.nan_to_num(share * counts[kind])
        # Leave-one-out errors of adjacent values are correlated, so that several count as one.
        alike = {"one step": 1, "blocks": block}.get(kind, 4)
        chance = binom.cdf(np.floor(held / alike), np.maximum(counts[kind] // alike, 1), 0.9)
        with np.errstate(invalid="ignore"):
            is_significant = (
                tested
                & (counts[kind] >= _MIN_VALUES)
                & (chance < rare)
                & (share < 0.9 - _MIN_COVERAGE_DEFICIT)
            )
        if is_significant.any():
            who = say.who(is_significant, 1.0 - share)
            largest = say.worst(is_significant, 1.0 - share)
            where = {"one step": "one step ahead", "cells": "for single cells", "rows": "for whole rows"}
            return (
                f"90 % intervals of {who} cover {100.0 * share[largest]:.0f} % "
                f"{where.get(kind, 'for blocks of rows')}: they are too narrow. Fit to these rows, too, or "
                "try another number of factors (n_components, select_n_components).",
            )
    return ()
