"""Estimators with the interface of sktime: a transformer and a forecaster of pandas series.

Methods such as ``fit``, ``transform``, ``predict`` and ``predict_interval`` have the signatures of
transformers and forecasters in sktime. sktime is neither imported nor subclassed.

Examples
--------
>>> import numpy as np, pandas as pd
>>> from probsfa import ProbabilisticSFA
>>> from probsfa.adapters import SeriesForecaster
>>> months = pd.period_range("2015-01", periods=96, freq="M")
>>> y = pd.Series(np.sin(np.arange(96) / 9.0), index=months, name="y")
>>> forecaster = SeriesForecaster(ProbabilisticSFA(0, smooth=1)).fit(y, fh=[1, 2, 3])
>>> forecaster.predict().index.tolist() == list(months[-1] + np.arange(1, 4))
True
"""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from probsfa._validation import check_estimator_type
from probsfa.statespace import ProbabilisticSFA

__all__ = ["SeriesForecaster", "SeriesTransformer"]


class SeriesTransformer(BaseEstimator):
    """Transformer of pandas series, with the methods of a transformer of sktime.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Estimator with ``fit``, ``transform`` and ``set_output``, such as :class:`probsfa.SFA`, or
        :class:`probsfa.imputation.ProbabilisticImputer`, for imputation; it is cloned. None is
        ``ProbabilisticSFA()``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.

    See Also
    --------
    SeriesForecaster : Forecasts.

    Notes
    -----
    A DataFrame with an index of two levels is a panel: the first level is the name of the series, the second
    level the time of the row. All series have the same columns, and rows are ordered by series.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from probsfa import SFA
    >>> from probsfa.adapters import SeriesTransformer
    >>> rows = pd.MultiIndex.from_product([["a", "b"], range(50)], names=["series", "time"])
    >>> X = pd.DataFrame(np.random.default_rng(0).standard_normal((100, 3)), index=rows)
    >>> features = SeriesTransformer(SFA(2)).fit_transform(X)
    >>> features.shape, features.index.equals(X.index)
    ((100, 2), True)
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the estimator.

        Parameters
        ----------
        X : DataFrame, Series or array-like
            Rows in order of time; a DataFrame with an index of two levels is a panel of several series.
        y : object, optional
            Labels, passed to the estimator.

        Returns
        -------
        SeriesTransformer
            The fitted transformer.
        """
        if self.estimator is not None:
            check_estimator_type("estimator", self.estimator, "transform")
        estimator = ProbabilisticSFA() if self.estimator is None else clone(self.estimator)
        self.estimator_ = estimator.set_output(transform="pandas").fit(_estimator_input(X), y)
        return self

    def transform(self, X: Any, y: Any = None) -> Any:
        """Return the outputs of the estimator.

        Parameters
        ----------
        X : DataFrame, Series or array-like
            As in `fit`.
        y : ignored

        Returns
        -------
        DataFrame
            Outputs, with the index of `X` and column names of the estimator.
        """
        check_is_fitted(self)
        result = self.estimator_.transform(_estimator_input(X))
        if not isinstance(result, list):
            return result
        import pandas as pd

        panel: Any = pd.concat(result)
        panel.index = X.index
        return panel

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit the estimator and return its outputs; parameters as in `fit`."""
        return self.fit(X, y).transform(X)


class SeriesForecaster(BaseEstimator):
    """Forecaster of pandas series, with the methods of a forecaster of sktime.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Model with ``forecast``, such as :class:`probsfa.ProbabilisticSFA`; it is cloned. None is
        ``ProbabilisticSFA()``.

    Attributes
    ----------
    estimator_ : estimator
        The fitted model.
    fh : array-like or None
        Forecasting horizon of the last call to which a horizon was passed.
    cutoff : Index
        Time of the last row of `y`, an index of length one.

    See Also
    --------
    SeriesTransformer : Slow features, factors, imputed series.
    probsfa.ProbabilisticSFA.forecast : The method of the estimator.

    Notes
    -----
    A forecasting horizon consists of positive numbers of steps ahead, or times after those of `y`. Objects
    with ``to_pandas``, such as sktime's ``ForecastingHorizon``, are accepted. Missing values of `y` are
    supported.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.adapters import SeriesForecaster
    >>> hours = pd.date_range("2024-01-01", periods=200, freq="h")
    >>> walk = np.random.default_rng(0).standard_normal((200, 2)).cumsum(axis=0)
    >>> y = pd.DataFrame(walk, columns=["a", "b"], index=hours)
    >>> forecaster = SeriesForecaster(ProbabilisticSFA(1)).fit(y)
    >>> forecaster.predict([1, 2]).shape
    (2, 2)
    >>> list(forecaster.predict_interval([1, 2], coverage=0.8).columns[:2])
    [('a', 0.8, 'lower'), ('a', 0.8, 'upper')]
    """

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, y: Any, X: Any = None, fh: Any = None) -> Self:
        """Fit the model to the observed rows.

        Parameters
        ----------
        y : Series or DataFrame
            Rows in order of time, NaN where missing.
        X : DataFrame, optional
            Covariates of the rows, complete.
        fh : int, array-like, Index or ForecastingHorizon, optional
            Default forecasting horizon of later calls.

        Returns
        -------
        SeriesForecaster
            The fitted forecaster.
        """
        if self.estimator is not None:
            check_estimator_type("estimator", self.estimator, "forecast")
        estimator = ProbabilisticSFA() if self.estimator is None else clone(self.estimator)
        self.fh = fh
        self._y, self._X = y, X
        self.estimator_ = estimator.fit(_table(y), **({} if X is None else {"exog": X}))
        return self

    def update(self, y: Any, X: Any = None, update_params: bool = True) -> Self:
        """Append new rows.

        Parameters
        ----------
        y : Series or DataFrame
            The new rows, which follow the previous ones.
        X : DataFrame, optional
            Covariates of the new rows, if the model has covariates.
        update_params : bool, default=True
            Whether to fit the model to all rows; otherwise its parameters are unchanged.

        Returns
        -------
        SeriesForecaster
            The updated forecaster.
        """
        import pandas as pd

        check_is_fitted(self)
        y = pd.concat([self._y, y])
        X = self._X if X is None else pd.concat([self._X, X])
        if update_params:
            return self.fit(y, X, self.fh)
        self._y, self._X = y, X
        return self

    def predict(self, fh: Any = None, X: Any = None) -> Any:
        """Return mean forecasts.

        Parameters
        ----------
        fh : int, array-like, Index or ForecastingHorizon, optional
            Steps ahead, or times; by default those of the last call to which a horizon was passed.
        X : DataFrame, optional
            Covariates of the rows after `y`, if the model has covariates.

        Returns
        -------
        Series or DataFrame
            In the type of `y`, with the times of the horizon as its index.
        """
        return self._like_y(self._forecast(fh, X).means)

    def predict_interval(self, fh: Any = None, X: Any = None, coverage: Any = 0.9) -> Any:
        """Return prediction intervals.

        Parameters
        ----------
        fh, X : optional
            As in `predict`.
        coverage : float or sequence of float, default=0.9
            Probability of each interval.

        Returns
        -------
        DataFrame
            Columns of three levels: variable, coverage, ``"lower"`` or ``"upper"``.
        """
        levels = _probabilities("coverage", coverage)
        ends = {(c, end): 0.5 + side * c for c in levels for end, side in (("lower", -0.5), ("upper", 0.5))}
        return self._quantiles(fh, X, ends)

    def predict_quantiles(self, fh: Any = None, X: Any = None, alpha: Any = (0.05, 0.95)) -> Any:
        """Return quantiles.

        Parameters
        ----------
        fh, X : optional
            As in `predict`.
        alpha : float or sequence of float, default=(0.05, 0.95)
            Probabilities.

        Returns
        -------
        DataFrame
            Columns of two levels: variable, probability.
        """
        return self._quantiles(fh, X, {(a,): a for a in _probabilities("alpha", alpha)})

    def predict_var(self, fh: Any = None, X: Any = None) -> Any:
        """Return variances; parameters as in `predict`.

        Returns
        -------
        DataFrame
            A column for each variable.
        """
        return self._named(self._forecast(fh, X).std) ** 2

    @property
    def cutoff(self) -> Any:
        """Time of the last row of `y`, an index of length one."""
        check_is_fitted(self)
        return self._y.index[-1:]

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the model is fitted."""
        return hasattr(self, "estimator_")

    def _forecast(self, fh: Any, X: Any) -> Any:
        check_is_fitted(self)
        if fh is None and self.fh is None:
            raise ValueError(
                "fh is None, and was None in fit. Pass a forecasting horizon such as fh=[1, 2, 3]."
            )
        self.fh = self.fh if fh is None else fh
        arguments = {}
        if self._X is not None:
            import pandas as pd

            arguments["exog"] = self._X if X is None else pd.concat([self._X, X])
        return self.estimator_.forecast(_table(self._y), fh=_horizon(self.fh, self.cutoff), **arguments)

    def _quantiles(self, fh: Any, X: Any, probabilities: dict[tuple[Any, ...], float]) -> Any:
        """Return quantiles by variable; keys of `probabilities` are the lower levels of the columns."""
        import pandas as pd

        forecast = self._forecast(fh, X)
        tables = {key: self._named(forecast.quantile(p)) for key, p in probabilities.items()}
        variables = next(iter(tables.values())).columns
        columns = {(name, *key): table[name] for name in variables for key, table in tables.items()}
        return pd.DataFrame(columns)

    def _named(self, table: Any) -> Any:
        """Return a table with the column names of sktime for `y`."""
        if self._y.ndim == 1:
            table.columns = [0 if self._y.name is None else self._y.name]
        return table

    def _like_y(self, table: Any) -> Any:
        return table.iloc[:, 0].rename(self._y.name) if self._y.ndim == 1 else table


def _table(y: Any) -> Any:
    """Return a series as a DataFrame of one column."""
    if not (hasattr(y, "index") and hasattr(y, "iloc")):
        raise ValueError(f"y must be a Series or a DataFrame of pandas; got a {type(y).__name__}.")
    return y if y.ndim == 2 else y.to_frame("y" if y.name is None else str(y.name))


def _estimator_input(X: Any) -> Any:
    """Return the input of an estimator: a table, or a list of tables for a panel."""
    if hasattr(X, "to_frame") and getattr(X, "ndim", 0) == 1:
        return X.to_frame("x" if X.name is None else str(X.name))
    if not hasattr(X, "iloc") or X.index.nlevels == 1:
        return X
    if X.index.nlevels > 2:
        raise ValueError(
            f"X.index has {X.index.nlevels} levels; a panel has two, the series and the times. Join the "
            "levels above the times into one."
        )
    codes = X.index.codes[0]
    starts = np.flatnonzero(np.diff(codes, prepend=codes[0] - 1))
    if len(starts) > len(np.unique(codes)):
        raise ValueError("X has rows of one series that are not consecutive. Sort them: X.sort_index().")
    pieces = np.split(np.arange(len(X)), starts[1:])
    return [X.iloc[rows].droplevel(0) for rows in pieces]


def _horizon(fh: Any, cutoff: Any) -> Any:
    """Return a forecasting horizon as numbers of steps ahead or as an index of increasing times."""
    import pandas as pd

    absolute = getattr(fh, "is_relative", True) is False
    if hasattr(fh, "to_pandas"):
        fh = fh.to_pandas()
    index = fh if isinstance(fh, pd.Index) else pd.Index(np.atleast_1d(fh))
    index = index.sort_values()
    if index.inferred_type not in ("integer", "floating"):
        return index
    steps = index.to_numpy()
    return steps - cutoff[0] if absolute else steps


def _probabilities(name: str, values: Any) -> list[float]:
    probabilities = [float(probability) for probability in np.atleast_1d(values)]
    if not all(0.0 < probability < 1.0 for probability in probabilities):
        raise ValueError(f"{name} must be probabilities above 0 and below 1; got {values!r}.")
    return probabilities
