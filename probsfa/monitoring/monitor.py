"""Process monitoring with control charts, as a scikit-learn estimator."""

import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from probsfa._saving import Saveable
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.monitoring.limits import contiguous_folds, control_limits, is_evaluated, trailing_means
from probsfa.monitoring.statistics import (
    Chart,
    count_slow_factors,
    count_slower_features,
    factor_charts,
    slow_feature_charts,
)
from probsfa.sfa import SFA
from probsfa.statespace import FilterResult, ProbabilisticSFA
from probsfa.statespace.learning.options import is_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ProcessMonitor"]


class ProcessMonitor(Saveable, BaseEstimator):
    """Control charts of slow features, for process monitoring and anomaly detection.

    A model is fitted to rows of normal operation. Control limits are estimated from statistics of held-out
    normal rows: contiguous segments are held out one after the other.

    Parameters
    ----------
    model : SFA, ProbabilisticSFA or None, default=None
        Model of normal rows; None is ``SFA()``. If values are missing, use ``ProbabilisticSFA(...)``, whose
        statistics are computed by the Kalman filter. With ``SFA(missing="skip")``, incomplete rows have no
        statistics.
    alpha : float, default=0.01
        Nominal false alarm rate: fraction of normal rows with an alarm; see `joint`.
    n_slow : int or None, default=None
        Number of slow features, or of slow AR(1) factors; the remaining, fast features have separate charts.
        None selects the features slower than the fastest column (Shang et al. 2015). Stochastic cycles and
        smooth factors are always slow, and not counted.
    window : int, default=1
        Number of rows, up to the current one, over which each statistic is averaged. A larger window detects
        smaller persistent faults, but later. The first ``window - 1`` rows of a sequence have no statistics.
    n_folds : int, default=5
        Number of cross-validation folds; each is a contiguous segment of the rows.
    joint : bool, default=True
        Whether `alpha` is the fraction of normal rows above at least one limit; otherwise it is the fraction
        above the limit of each chart.

    Attributes
    ----------
    model_ : SFA or ProbabilisticSFA
        Model fitted to all normal rows.
    n_slow_ : int
        Number of slow features, or of slow AR(1) factors.
    statistics_ : tuple of str
        Names of the charts; see Notes.
    limits_ : dict of float
        Control limit of each chart.
    held_out_ : DataFrame (N, S)
        Held-out statistics of the normal rows.
    false_alarm_rate_ : float
        Fraction of the held-out rows above at least one limit; at most `alpha` if `joint` is true.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA.outlier_scores : Outliers among single values.
    probsfa.ProbabilisticSFA.diagnose : Test the fit to normal rows.

    Notes
    -----
    The charts are the columns of `score_samples`:

    ``T2``, ``T2 fast``
        Operating point: squared slow (or fast) features, in units of their variance.
    ``S2``, ``S2 fast``
        Dynamics: squared differences of the features between rows. If a controller keeps the process at
        another operating point, S2 returns to normal, but T2 stays high.
    ``residual``
        Deviation from the model. With the probabilistic model, the one-step prediction error of a row; with
        `SFA`, the reconstruction error, if features are omitted.

    With the probabilistic model, statistics have chi-squared distributions if the model is correct. The
    statistic of an incomplete row is converted to the value with the same tail probability for a complete
    row. Rows without observations have no statistic. :mod:`probsfa.monitoring.statistics` has the formulas.

    Limits are quantiles of the held-out statistics. If fewer than 20 normal rows are expected above a limit,
    a generalized Pareto distribution of the largest tenth of the statistic gives a second limit, and the
    higher of the two is used (:mod:`probsfa.monitoring.limits`). Averages over a `window` overlap; the
    expected number is therefore divided by `window`.

    References
    ----------
    Shang, Yang, Gao, Huang, Suykens & Huang (2015), AIChE Journal 61:3666, doi:10.1002/aic.14888.
    Alcala & Qin (2009), Automatica 45:1593, doi:10.1016/j.automatica.2009.02.027 (contributions).
    Pickands (1975), Annals of Statistics 3:119, doi:10.1214/aos/1176343003 (tails).

    Examples
    --------
    A sensor with a fault from row 150 on:

    >>> import numpy as np
    >>> from probsfa import SFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> from probsfa.monitoring import ProcessMonitor
    >>> X = make_slow_mixture(2300, 4, decay=[0.95, 0.5], noise_variance=0.1, random_state=0).data
    >>> monitor = ProcessMonitor(SFA(), alpha=0.02).fit(X[:2000])
    >>> monitor.statistics_
    ('T2', 'T2 fast', 'S2', 'S2 fast')
    >>> faulty = X[2000:].copy()
    >>> faulty[150:, 1] += 3.0
    >>> alarms = monitor.predict(faulty)
    >>> bool(alarms[:150].mean() < 0.06), bool(alarms[150:].mean() > 0.9)
    (True, True)
    >>> int(monitor.contributions(faulty, "T2")[150:].mean().argmax())
    1
    """

    _advice_on_missing: ClassVar[str] = (
        "The model of the monitor does not support missing values. Use ProbabilisticSFA(n_components) or "
        'SFA(missing="skip") as model.'
    )

    def __init__(
        self,
        model: Any = None,
        *,
        alpha: float = 0.01,
        n_slow: int | None = None,
        window: int = 1,
        n_folds: int = 5,
        joint: bool = True,
    ) -> None:
        self.model = model
        self.alpha = alpha
        self.n_slow = n_slow
        self.window = window
        self.n_folds = n_folds
        self.joint = joint

    def fit(self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None) -> Self:
        """Fit the model and the control limits.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows of normal operation in order of time; NaN where missing, if the model supports missing
            values.
        y : ignored
        lengths : array-like of int, optional
            Lengths of consecutive sequences in one array.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, for the probabilistic model, as in its ``fit``.

        Returns
        -------
        ProcessMonitor
            The fitted monitor.

        Raises
        ------
        ValueError
            If a parameter or the data are not valid, or the model has ``robust=True``, ``transforms`` or
            ``noise=0.0``.

        Warns
        -----
        UserWarning
            If there are too few rows, or too few independent averages over `window` rows, for the nominal
            false alarm rate.
        """
        template = self._check_parameters()
        sequences = check_sequences(
            self, X, reset=True, allow_nan=_supports_missing(template), lengths=lengths, times=times
        )
        if sequences.n_rows < 2 * self.n_folds:
            raise ValueError(
                f"n_folds={self.n_folds} requires at least {2 * self.n_folds} rows; got {sequences.n_rows}."
            )
        rows = _Rows.of(X, sequences, times)
        self.model_ = rows.fit(clone(template))
        self.n_slow_ = self._count_slow(self.model_)
        self.statistics_ = tuple(self._charts(self.model_, rows.take([(0, 0, 1)]))[0])
        parts = []
        for segments in contiguous_folds(sequences.lengths, self.n_folds):
            model = clone(template)
            if isinstance(model, ProbabilisticSFA):
                model.set_params(init=self.model_)  # as starting point
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit to all rows has issued them
                rows.without(segments).fit(model)
            held_out = rows.take(segments)
            charts = self._charts(model, held_out)
            if tuple(charts[0]) != self.statistics_:
                raise ValueError(
                    f"The model of all rows has the statistics {', '.join(self.statistics_)}; the model "
                    f"without one of the n_folds={self.n_folds} folds has {', '.join(charts[0])}. Either a "
                    "column varies in that fold only, or there are about as many columns as rows. Remove "
                    "such columns, use more rows, or set n_components of the model."
                )
            parts.append(self._statistics(held_out, charts))
        values = np.concatenate(parts)
        tested = is_evaluated(values)
        if not tested.any():
            raise ValueError(
                f"window={self.window} leaves no row with a statistic: all segments of the "
                f"n_folds={self.n_folds} folds are shorter. Use a shorter window or longer sequences."
            )
        limits = control_limits(values, self.alpha, joint=self.joint, window=self.window)
        self.limits_ = dict(zip(self.statistics_, limits.tolist(), strict=True))
        self._held_out = values
        self.false_alarm_rate_ = float(np.mean(np.any(values[tested] > limits, axis=1)))
        return self

    @property
    def held_out_(self) -> Any:
        """Statistics (N, S) of the normal rows when they were held out, as a DataFrame."""
        return _frame(self._held_out, self.statistics_)

    def score_samples(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Return the statistics of rows. Larger values are more abnormal.

        The outlier detectors of scikit-learn have the opposite convention: their `score_samples` is larger
        for normal rows.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time.
        lengths, times : optional
            As in `fit`.

        Returns
        -------
        DataFrame (T, S), or list of them
            One column for each of the ``S`` charts in `statistics_`, with the index of `X`. NaN for rows
            without observations, and for the first rows of a sequence if the statistic depends on earlier
            rows.
        """
        rows = self._check(X, lengths, times)
        return rows.restore(self._statistics(rows, self._charts(self.model_, rows)), self.statistics_)

    def predict(self, X: Any, *, lengths: Any = None, times: Any = None) -> Any:
        """Return whether a statistic of each row is above its control limit.

        Parameters
        ----------
        X, lengths, times
            As in `score_samples`.

        Returns
        -------
        ndarray of bool (T,), or list of them
            True for alarms; False for rows without statistics.
        """
        rows = self._check(X, lengths, times)
        values = self._statistics(rows, self._charts(self.model_, rows))
        alarms = np.any(values > np.array(list(self.limits_.values())), axis=1)
        return rows.sequences.restore(alarms)

    def contributions(
        self, X: Any, statistic: str | None = None, *, lengths: Any = None, times: Any = None
    ) -> Any:
        """Return the contribution of each column to a statistic (fault diagnosis).

        Parameters
        ----------
        X, lengths, times
            As in `score_samples`.
        statistic : str or None, default=None
            One of `statistics_`. By default, for each row, the statistic with the largest ratio to its limit.

        Returns
        -------
        DataFrame (T, D), or list of them
            Decrease of the statistic if the value of the column is replaced by the value that minimizes the
            statistic, averaged over the `window`. It is zero for missing values and NaN for rows without
            statistics. The conversion of incomplete rows (see the class) is not applied to contributions.

        Raises
        ------
        ValueError
            If there is no such statistic, or the features are not linear in the columns.

        Notes
        -----
        The column with the largest contribution is the most likely cause of a fault of a single column. If
        several columns are faulty, contributions of other correlated columns may also be large.
        """
        rows = self._check(X, lengths, times)
        if statistic is not None and statistic not in self.statistics_:
            raise ValueError(f"statistic must be one of {list(self.statistics_)}; got {statistic!r}.")
        charts = self._charts(self.model_, rows)
        ratios = self._statistics(rows, charts) / np.array(list(self.limits_.values()))
        if statistic is None:
            selected = np.argmax(np.where(np.isnan(ratios), -np.inf, ratios), axis=1)
        else:
            selected = np.full(len(ratios), self.statistics_.index(statistic))
        contributions = np.full(rows.sequences.values.shape, np.nan)
        for s in np.unique(selected):
            name = self.statistics_[s]
            reductions = np.concatenate([trailing_means(c[name].reductions(), self.window) for c in charts])
            is_selected = (selected == s) & ~np.isnan(ratios[:, s])
            contributions[is_selected] = reductions[is_selected]
        return rows.restore(contributions, getattr(self, "feature_names_in_", range(self.n_features_in_)))

    def plot(
        self, X: Any, *, truth: Any = None, axes: "list[Axes] | NDArray[Any] | None" = None, times: Any = None
    ) -> "list[Axes]":
        """Draw control charts of one sequence: statistics over time, limits, and rows above them.

        Parameters
        ----------
        X : array-like or DataFrame (T, D)
            Rows in order of time.
        truth : array-like of bool (T,), optional
            Rows that are known to be faulty; they are shaded.
        axes : sequence of matplotlib Axes, optional
            One for each statistic; a new figure by default.
        times : array-like (T,), optional
            As in `fit`.

        Returns
        -------
        list of matplotlib Axes
        """
        from probsfa.plots.monitoring import plot_control_charts

        return plot_control_charts(self.score_samples(X, times=times), self.limits_, truth=truth, axes=axes)

    # ------------------------------------------------------------------ helpers

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the monitor is fitted."""
        return hasattr(self, "limits_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = _supports_missing(self.model)
        return tags

    def _check_parameters(self) -> Any:
        """Validate the parameters; return the model to fit."""
        if not (is_number(self.alpha) and 0.0 < self.alpha < 1.0):
            raise ValueError(f"alpha must be a number above 0 and below 1; got {self.alpha!r}.")
        check_count("window", self.window)
        check_count("n_folds", self.n_folds, minimum=2)
        if self.n_slow is not None:
            check_count("n_slow", self.n_slow)
        model = SFA() if self.model is None else self.model
        if not isinstance(model, (SFA, ProbabilisticSFA)):
            raise ValueError(f"model must be an SFA or a ProbabilisticSFA; got {type(model).__name__}.")
        if isinstance(model, ProbabilisticSFA):
            if model.robust not in (False, "auto") or model.transforms is not None:
                raise ValueError(
                    "model has robust=True or transforms, which would hide faults. Remove outliers from the "
                    "normal rows, and transform columns before the fit."
                )
            if is_number(model.noise) and model.noise == 0.0:
                raise ValueError(
                    "model has noise=0.0, which is equivalent to slow feature analysis. Use SFA()."
                )
        return model

    def _count_slow(self, model: Any) -> int:
        """Return the number of slow features of the fitted model."""
        if isinstance(model, ProbabilisticSFA):
            maximum = model.params_.n_components
            default = count_slow_factors(model.params_)
        else:
            maximum = len(model.components_)
            moments = (model.moments_.covariance, model.moments_.difference_moment)
            variance, change = (np.diagonal(moment) for moment in moments)
            is_varying = variance > 0.0
            default = count_slower_features(model.delta_values_, change[is_varying] / variance[is_varying])
        if self.n_slow is not None and self.n_slow > maximum:
            raise ValueError(
                f"n_slow={self.n_slow} is more than the {maximum} features of the model. "
                f"Use at most {maximum}."
            )
        return min(default, maximum) if self.n_slow is None else self.n_slow

    def _check(self, X: Any, lengths: Any, times: Any) -> "_Rows":
        check_is_fitted(self)
        sequences = check_sequences(
            self, X, reset=False, allow_nan=_supports_missing(self.model_), lengths=lengths, times=times
        )
        return _Rows.of(X, sequences, times)

    def _charts(self, model: Any, rows: "_Rows") -> list[dict[str, Chart]]:
        """Return the statistics of each sequence by a fitted model."""
        charts = []
        for x, values, times in zip(rows.pieces, rows.values, rows.times, strict=True):
            if isinstance(model, ProbabilisticSFA):
                slow = np.arange(model.params_.n_states) < self.n_slow_
                slow[model.params_.n_components :] = True  # cycles and smooth factors
                result = cast(FilterResult, model.filter(x, times=times)).arrays
                missing: BoolArray = np.asarray(np.isnan(values).all(axis=1))
                charts.append(factor_charts(result, slow, missing))
            else:
                features = np.asarray(model.transform(x), dtype=np.float64)
                charts.append(slow_feature_charts(model, features, values, self.n_slow_))
        return charts

    def _statistics(self, rows: "_Rows", charts: list[dict[str, Chart]]) -> FloatArray:
        """Return the statistics (N, S) that are compared with the limits."""
        names = list(charts[0])
        return np.concatenate(
            [
                trailing_means(
                    np.stack([sequence_charts[name].values for name in names], axis=1), self.window
                )
                for sequence_charts in charts
            ]
        )


class _Rows:
    """Sequences in the type of the input and as arrays; methods select segments of rows.

    DataFrames of pandas are retained, because the model may read times from their index.
    """

    X: Any
    sequences: Sequences

    def __init__(self, pieces: list[Any], values: list[FloatArray], times: list[Any]) -> None:
        self.pieces, self.values, self.times = pieces, values, times

    @classmethod
    def of(cls, X: Any, sequences: Sequences, times: Any) -> Self:
        """Return the rows of validated data."""
        values = [sequences.values[s] for s in sequences.slices]
        if sequences.is_list:
            pieces = [x if hasattr(x, "iloc") else array for x, array in zip(X, values, strict=True)]
            time_values = [None] * len(pieces) if times is None else list(times)
        else:
            pieces = [X.iloc[s] for s in sequences.slices] if hasattr(X, "iloc") else values
            time_values = [None if times is None else times[s] for s in sequences.slices]
        rows = cls(pieces, values, time_values)
        rows.X, rows.sequences = X, sequences
        return rows

    def take(self, segments: list[tuple[int, int, int]]) -> "_Rows":
        """Return segments as sequences."""
        pieces: list[Any] = []
        values, times = [], []
        for i, a, b in segments:
            x, time_values = self.pieces[i], self.times[i]
            pieces.append(x.iloc[a:b] if hasattr(x, "iloc") else x[a:b])
            values.append(self.values[i][a:b])
            times.append(None if time_values is None else time_values[a:b])
        return _Rows(pieces, values, times)

    def without(self, segments: list[tuple[int, int, int]]) -> "_Rows":
        """Return the sequences without some segments, at most one in each sequence."""
        excluded = {i: (a, b) for i, a, b in segments}
        remaining = []
        for i, x in enumerate(self.values):
            a, b = excluded.get(i, (0, 0))
            remaining += [(i, first, last) for first, last in ((0, a), (b, len(x))) if first < last]
        return self.take(remaining)

    def fit(self, model: Any) -> Any:
        """Fit a model to all sequences."""
        has_several = len(self.pieces) > 1
        arguments = {} if self.times[0] is None else {"times": self.times if has_several else self.times[0]}
        return model.fit(self.pieces if has_several else self.pieces[0], **arguments)

    def restore(self, values: FloatArray, columns: Any) -> Any:
        """Return values (N, S) as a DataFrame, or as one DataFrame for each sequence of a list."""
        if not self.sequences.is_list:
            return _frame(values, columns, self.X)
        return [_frame(values[s], columns, x) for x, s in zip(self.X, self.sequences.slices, strict=True)]


def _frame(values: FloatArray, columns: Any, template: Any = None) -> Any:
    """Return a DataFrame with the index of `template`, if it is a DataFrame."""
    import pandas as pd

    return pd.DataFrame(
        values, index=template.index if hasattr(template, "iloc") else None, columns=list(columns)
    )


def _supports_missing(model: Any) -> bool:
    return isinstance(model, ProbabilisticSFA) or getattr(model, "missing", "raise") == "skip"
