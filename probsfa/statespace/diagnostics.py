"""Model diagnostics: residual tests, coverage of prediction intervals, and advice.

If a model is correct, the standardized one-step prediction errors are independent and standard normal in each
column. Prediction intervals then have their nominal coverage for every pattern of missing values. This module
collects the tests of :mod:`.whiteness`, the errors of :mod:`.prediction_errors`, and :mod:`.advice`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.advice import (
    CALENDAR_PERIODS,
    N_LAGS,
    ModelProperties,
    Suggestion,
    advise,
    tested_lags,
)
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
    split_into_parts,
    standard_deviations,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Diagnostics", "Suggestion", "diagnose"]


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of a fitted model from its prediction errors.

    Attributes
    ----------
    predictions, prediction_std : ndarray or DataFrame of shape (T, D), or list of them
        Mean and standard deviation of each value given the previous rows, noise included.
    innovations : ndarray or DataFrame of shape (T, D), or list of them
        Standardized errors of `predictions`; NaN where a value is missing. If the model is correct, they are
        independent and standard normal in each column.
    lags : ndarray of int of shape (L,)
        Lags in rows: the first ten (fewer in short series). For rows with dates also a day, a week and a
        year, if the series contains three of these periods.
    autocorrelation : ndarray of shape (L, D)
        Autocorrelation of the innovations.
    ljung_box : ndarray of shape (D,)
        P-values of the Ljung-Box test for white noise at these lags, modified for missing values.
    excess_kurtosis, degrees_of_freedom : ndarray of shape (D,)
        Excess kurtosis of the innovations (zero if normal), and degrees of freedom of the best-fitting
        Student's t (infinity if normal).
    rhythm_periods, rhythm_p_values : ndarray of shape (D,)
        Period of the highest peak in the spectrum of the innovations, in `time_unit_` of the model, and its
        p-value.
    level_drift : ndarray of shape (D,)
        Largest difference between the means of the innovations in different parts of the series.
    spread_ratio : ndarray of shape (D,)
        Largest ratio of the standard deviations of the innovations in different parts.
    levels : ndarray of shape (P,)
        Nominal coverage of prediction intervals.
    coverage : dict of ndarray of shape (P, D)
        Coverage of prediction intervals by kind of prediction:

        - ``"one step"``: values given the previous rows;
        - ``"cells"``: single left-out values;
        - ``"rows"``: left-out rows;
        - ``"blocks"``: left-out blocks of rows in one column.
    n_cells : ndarray of shape (D,)
        Number of innovations of each column.
    feature_names : tuple of str
        Names of the columns.
    advice : tuple of str
        Descriptions of misfit, each with a suggestion; empty if no misfit is found.
    suggestions : tuple of Suggestion
        Suggested options of :class:`probsfa.ProbabilisticSFA`: cycles first, then others by expected gain.
        Apply one of them, fit and diagnose again, because it may remove several kinds of misfit.

    See Also
    --------
    probsfa.ProbabilisticSFA.diagnose : Compute diagnostics.
    Diagnostics.plot : Draw them.

    Notes
    -----
    Misfit is reported if it is large enough to matter and significant at a level of 1 % for all columns
    together. For the advice, cycles are removed before the other tests, so that each misfit is reported once;
    the attributes describe the original innovations. Smooth factors are suggested if paths of columns are
    smooth, or if the likelihood is much higher with a smooth factor in place of an AR(1) factor.
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
        """Return the coverage of prediction intervals in each column, by kind of prediction.

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
            If `level` is not one of `levels`.
        """
        level_index = np.flatnonzero(np.isclose(self.levels, level))
        if level_index.size == 0:
            raise ValueError(f"level must be one of {self.levels.tolist()}; got {level!r}.")
        return {kind: curve[level_index[0]] for kind, curve in self.coverage.items()}

    @property
    def table(self) -> Any:
        """Diagnostics by column, as a pandas DataFrame."""
        import pandas as pd

        largest, row = largest_magnitude(self.autocorrelation)
        columns: dict[str, Any] = {
            "n": self.n_cells,
            "lag 1": self.autocorrelation[0],
            "largest": largest,
            "at lag": self.lags[row],
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
            calibration curves by kind of prediction; coverage of 90 % intervals by column.
        """
        from probsfa.plots.diagnostics import plot_diagnostics  # the import is slow

        return plot_diagnostics(self, axes=axes)

    def __str__(self) -> str:
        lines = [self.table.to_string(float_format=lambda x: f"{x:.3g}"), ""]
        for kind, covered in self.covered(0.9).items():
            if np.isnan(covered).all():
                continue
            smallest = int(np.nanargmin(covered))
            lines.append(
                f"90 % intervals, {kind}: coverage {100 * np.nanmean(covered):.0f} % on average over "
                f"columns, smallest {100 * covered[smallest]:.0f} % in {self.feature_names[smallest]!r}."
            )
        return "\n".join([*lines, "", *(self.advice or (_NO_MISFIT,))])


_NO_MISFIT = "No misfit found: prediction errors are white, normal and of constant variance."


def diagnose(
    errors: PredictionErrors,
    sequences: Sequences,
    seconds: float | None,
    model: ModelProperties,
) -> Diagnostics:
    """Test the prediction errors of a model.

    Parameters
    ----------
    errors : PredictionErrors
        One-step prediction errors of all rows, and errors of left-out values.
    sequences : Sequences
        The rows, with times in the model's unit.
    seconds : float or None
        The model's unit of time in seconds, if known.
    model : ModelProperties
        Processes and noise of the model.

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
    peak = highest_peak(innovations, lengths, times)
    means, stds = compare_parts(innovations, parts).means, standard_deviations(innovations, parts)
    advice, suggestions = advise(errors, sequences, times, seconds, model)
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
            rhythm_periods=peak.periods,
            rhythm_p_values=peak.p_values,
            level_drift=nan_range(means),
            spread_ratio=nan_max(stds) / -nan_max(-stds),
            levels=LEVELS,
            coverage={kind: coverage(each) for kind, each in errors.by_kind.items()},
            n_cells=np.count_nonzero(~np.isnan(innovations), axis=0),
            feature_names=tuple(str(name) for name in names),
            advice=advice,
            suggestions=suggestions,
        )


def _lags(sequences: Sequences, seconds: float | None) -> NDArray[np.intp]:
    """Return the lags of the autocorrelation: the first lags, and calendar periods."""
    longest = max(sequences.lengths)
    calendar = set[int]()
    evenly_sampled = sequences.times is None or sequences.step is not None
    if seconds is not None and evenly_sampled:
        step = seconds * (1.0 if sequences.step is None or sequences.times is None else sequences.step)
        for period in CALENDAR_PERIODS.values():
            rows = period / step
            if rows > N_LAGS and longest >= 3 * rows and abs(rows - np.rint(rows)) < 0.01 * rows:
                calendar.add(int(np.rint(rows)))
    return np.array([*tested_lags(sequences), *sorted(calendar)], dtype=np.intp)
