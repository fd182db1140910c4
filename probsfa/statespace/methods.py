"""The public methods of all probabilistic estimators, and their documentation.

:class:`StateSpaceMethods` is the base of :class:`probsfa.ProbabilisticSFA`, :class:`probsfa.BayesianSFA`,
:class:`probsfa.EmissionSFA`, :class:`probsfa.BilinearSFA` and :class:`probsfa.ProductOfExpertsSFA`. Each
method validates its arguments, calls the method of the same name of the fitted model
(:class:`~probsfa.statespace.fitted_model.FittedModel`), and returns results of the type of the input.

A new method is added here and to the models that support it. Estimators that do not support it list it in
`_unsupported`.
"""

import inspect
import numbers
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from probsfa._frames import lists_in_lists_out
from probsfa._like_input import like_array, like_input, select_rows
from probsfa._random import generator
from probsfa._renamed import warn_of_old_name
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_option, check_sequences
from probsfa.statespace.columns import list_columns, unexpectedly_negative
from probsfa.statespace.covariates import FutureRows, with_exog
from probsfa.statespace.diagnostics import Diagnostics
from probsfa.statespace.filtering import FilterResult
from probsfa.statespace.fitted_model import FittedModel, bayesian_criterion
from probsfa.statespace.learning.standard_errors import (
    Interval,
    StandardErrors,
    TimescaleProfile,
    normal_quantile,
)
from probsfa.statespace.news import News, align_rows, row_dates, row_number
from probsfa.statespace.prediction import check_probability, interval_probabilities
from probsfa.statespace.quantities import Quantity
from probsfa.statespace.summary import Summary, summarize
from probsfa.statespace.timeline import (
    append_empty_rows,
    check_evenly_spaced,
    make_horizon,
    to_model_time,
)

__all__ = ["StateSpaceMethods", "Unavailable"]

# Former values of the argument `of` of `sample_posterior`.
_OLD_OPTIONS_OF_DRAWS = {"latents": "factors", "cells": "values"}


class Unavailable:
    """Placeholder for a method that an estimator does not support: access raises an AttributeError.

    ``hasattr`` is then False, as for conditional methods of scikit-learn.

    Parameters
    ----------
    name : str
        The method.
    reason : str
        Why the method is not supported, and what to use instead.
    """

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason

    def __get__(self, instance: Any, owner: type) -> NoReturn:
        """Raise an AttributeError with the reason."""
        raise AttributeError(f"{owner.__name__} has no method {self.name!r}: {self.reason}")


@lists_in_lists_out
class StateSpaceMethods(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base class of the probabilistic estimators, with the methods of a fitted model.

    Attributes
    ----------
    _model : FittedModel
        The fitted model.
    _unsupported : mapping of str to str
        Methods that the estimator does not support, with the reason and a remedy.
    _unsupported_arguments : mapping of str to str
        Arguments (`times`, `exog`) that its methods do not support, with a remedy.
    _renamed_attributes : mapping of str to str
        Old names of fitted attributes, to be removed in version 2.0, and the new names.
    _quantities : tuple of Quantity
        Fitted attributes that only this estimator has, for the table of `summary`.
    """

    _model: Any
    _frames_for_frames: ClassVar[bool] = True  # whether `transform` returns DataFrames for DataFrames
    _unsupported: ClassVar[Mapping[str, str]] = {}
    _unsupported_arguments: ClassVar[Mapping[str, str]] = {}
    _renamed_attributes: ClassVar[Mapping[str, str]] = {}
    _quantities: ClassVar[tuple[Quantity, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Replace the methods in `_unsupported` by placeholders."""
        super().__init_subclass__(**kwargs)
        for name, reason in vars(cls).get("_unsupported", {}).items():
            setattr(cls, name, Unavailable(name, reason))

    def __getattr__(self, name: str) -> Any:
        """Return a renamed attribute.

        The old name returns the attribute with a warning. The new name also works if the estimator was loaded
        from a file that contains the old name.
        """
        placeholder = inspect.getattr_static(type(self), name, None)
        if isinstance(placeholder, Unavailable):
            placeholder.__get__(self, type(self))
        for old, new in self._renamed_attributes.items():
            if name == new and old in vars(self):
                return vars(self)[old]
            if name == old and hasattr(self, new):
                warn_of_old_name(f"{type(self).__name__}.{old}", new)
                return getattr(self, new)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __dir__(self) -> list[str]:
        """Return the names of attributes, without unsupported methods."""
        return sorted(set(super().__dir__()) - set(self._unsupported))

    # ---------------------------------------------------------------- inference

    def transform(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return the posterior means of the factors, given all rows of each sequence (Kalman smoother).

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        ndarray or DataFrame (T, K), or list of them (T_i, K)
            Posterior means, slowest first (:class:`probsfa.BayesianSFA`: averaged over the posterior of the
            parameters). For a DataFrame the result is a DataFrame with the same index and the column names of
            `get_feature_names_out`, unless ``set_output(transform="default")`` selects arrays. With
            ``noise=0.0`` rows must be complete; use `posterior` for rows with missing values.
        """
        sequences = self._check(X, lengths, times, exog, factors_only=True)
        return sequences.restore(self._model.factor_means(sequences))

    def fit_transform(
        self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Any:
        """Fit, and return the posterior means of the factors of the same rows.

        Parameters
        ----------
        X, y, lengths, times, exog
            As in `fit`.

        Returns
        -------
        ndarray or DataFrame (T, K), or list of them (T_i, K)
            As from ``fit(X, ...).transform(X, ...)``, with the same `lengths`, `times` and `exog`.
        """
        options = {name: value for name, value in {"times": times, "exog": exog}.items() if value is not None}
        fitted = self.fit(X, y, lengths=lengths, **options)
        return fitted.transform(X, lengths=lengths, **options)

    def posterior(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return the distribution of the factors given all rows of each sequence (Kalman smoother).

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.

        Returns
        -------
        Posterior, or list of Posterior
            Means (T, K), covariances (T, K, K), lag-one covariances (T - 1, K, K), and log-likelihoods of the
            rows (:class:`probsfa.EmissionSFA`: lower bounds). :class:`probsfa.BayesianSFA` returns moments of
            the mixture over the draws, :class:`probsfa.BilinearSFA` a ``BilinearPosterior`` with
            probabilities of the gates, and :class:`probsfa.ProductOfExpertsSFA` means and standard
            deviations. For a DataFrame, means and standard deviations are DataFrames with the same index;
            other results are arrays.
        """
        sequences = self._check(X, lengths, times, exog)
        model: FittedModel = self._model
        if sequences.is_list:
            return self._like_input(model.posteriors(sequences), X, sequences)
        return self._like_input([model.posterior(sequences)], X, sequences)[0]

    def factor_interval(
        self, X: Any, level: float = 0.9, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Any:
        """Return intervals of the factors that include the uncertainty of the estimated parameters.

        `posterior` treats the estimated parameters as known. In a short series its standard deviations are
        too small, because the data determine levels and scales of the factors poorly.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        level : float, default=0.9
            Probability that an interval contains the factor.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        Interval, or list of Interval
            Limits ``lower`` and ``upper``, each (T, K); DataFrames if `X` is a DataFrame.

        Raises
        ------
        ValueError
            If the level is not between 0 and 1.

        Notes
        -----
        Standard deviations are computed by the delta method from the expected information; for
        :class:`probsfa.BayesianSFA` they are standard deviations over the draws. In simulations (100 series
        of 300 rows and six columns; AR(1) factors, a stochastic cycle or smooth factors; white, AR(1) or
        Student-t noise), 90 % intervals covered 87 to 90 % of the factor values, and intervals from
        `posterior` 30 to 75 %. The level and the scale of a trend are not identified; its intervals are those
        of `posterior`.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(300, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> model = ProbabilisticSFA(1).fit(X)
        >>> lower, upper = model.factor_interval(X)
        >>> bool((upper - lower > 2 * 1.64 * model.posterior(X).std).all())
        True
        """
        z = normal_quantile(level)
        sequences = self._check(X, lengths, times, exog)
        means, std = self._model.factor_moments(sequences)
        lower, upper = (sequences.restore(means + sign * z * std) for sign in (-1.0, 1.0))
        if sequences.is_list:
            return [self._limits(*one) for one in zip(X, lower, upper, strict=True)]
        return self._limits(X, lower, upper)

    def _limits(self, X: Any, lower: FloatArray, upper: FloatArray) -> Interval:
        """Return limits of the factors, as DataFrames if `X` is a DataFrame."""
        names = self.get_feature_names_out()
        return Interval(like_array(X, lower, names, ()), like_array(X, upper, names, ()))

    def _like_input(self, results: list[Any], X: Any, sequences: Sequences) -> list[Any]:
        """Convert arrays (T, K) of factors and (T, D) of columns in the results to the type of `X`."""
        if type(X) is np.ndarray:
            return results
        names, all_rows = self.get_feature_names_out(), [slice(0, sequences.n_rows)]
        parts = sequences.slices if len(results) > 1 else all_rows
        frames = X if sequences.is_list else [select_rows(X, rows) for rows in parts]
        return [_result_like(one, x, names) for one, x in zip(results, frames, strict=True)]

    def filter(
        self,
        X: Any,
        state: Any = None,
        *,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Any:
        """Return the distribution of the factors in each row given the rows up to it (Kalman filter).

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing.
        state : FilterState or BayesianFilterState, optional
            ``state`` of the result for earlier rows, to continue one sequence.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        FilterResult, BayesianFilterResult or EmissionFilter, or list of them
            Filtered means and covariances, log-likelihoods of the rows, one-step predictions (except for
            :class:`probsfa.BayesianSFA`), and the state for later rows; a list if `lengths` is given. For a
            DataFrame, means, standard deviations and predictions are DataFrames with the same index. With
            `robust`, and for :class:`probsfa.EmissionSFA`, distributions are approximate, and log-likelihoods
            are lower bounds.

        Raises
        ------
        ValueError
            If a state is given for several sequences, or does not match the model or the times.

        See Also
        --------
        posterior : Distribution given all rows.
        """
        sequences = self._check(X, lengths, times, exog)
        return self._filtered(X, sequences, lengths, self._model, state)

    def _filtered(self, X: Any, sequences: Sequences, lengths: Any, model: FittedModel, state: Any) -> Any:
        results = model.filter(sequences, state)
        results = self._like_input(results, X, sequences)
        return results if sequences.is_list or lengths is not None else results[0]

    def impute(
        self,
        X: Any,
        return_std: bool = False,
        *,
        interval: float | None = None,
        quantile: float | Sequence[float] | None = None,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Any:
        """Impute missing values by their posterior means, or by quantiles.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing.
        return_std : bool, default=False
            Whether to return standard deviations as well.
        interval : float, optional
            Probability of central prediction intervals, such as 0.9; their limits are returned as well.
        quantile : float or sequence of float, optional
            Impute quantiles instead of means: 0.5 for medians, ``[0.05, 0.95]`` for 90 % intervals.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        filled : like X, or list of them
            `X` with imputed missing values; with several quantiles a list with one entry for each. Means of
            counts are not integers, and the mean of a binary value is the probability of a one. A categorical
            value is imputed by its most probable level.
        std : like X
            With `return_std`: predictive standard deviation of each imputed value, noise included; zero for
            observed values. For a categorical value of probability ``p`` it is ``sqrt(p (1 - p))``.
        lower, upper : like X
            With `interval`: limits of the prediction intervals of imputed values; observed values unchanged.
            Limits of counts are integers, limits of categorical values NaN. For :class:`probsfa.BayesianSFA`
            they are quantiles of the mixture over the draws.

        Raises
        ------
        ValueError
            If `quantile` is given together with `return_std` or `interval`.

        Warns
        -----
        UserWarning
            If the leave-one-out error of observed values is not smaller than that of linear interpolation; or
            if imputed values are negative in columns without negative observations.
        """
        sequences = self._check(X, lengths, times, exog)
        return self._imputed(X, sequences, self._model, return_std, interval, quantile)

    def _imputed(
        self,
        X: Any,
        sequences: Sequences,
        model: FittedModel,
        return_std: bool,
        interval: float | None,
        quantile: float | Sequence[float] | None,
    ) -> Any:
        """Impute missing values of validated rows; see `impute`."""
        if quantile is not None and (return_std or interval is not None):
            raise ValueError("quantile cannot be combined with return_std or interval. Use one of them.")
        requested = _probabilities(interval, quantile)
        filled = model.impute(sequences, with_std=bool(return_std or requested))
        comparison = filled.interpolation_check
        if comparison is not None and comparison.warning and quantile is None:
            warnings.warn(comparison.warning, UserWarning, stacklevel=3)
        if quantile is None and (negative := unexpectedly_negative(sequences.values, filled.values)).any():
            names = list_columns(np.flatnonzero(negative.any(axis=0)), sequences.feature_names)
            warnings.warn(
                f"{int(negative.sum()):,} imputed values of column {names} are negative, but no observed "
                "value is. If negative values are impossible, use transforms=(0, None), 'log1p' or 'sqrt', "
                "or clip the imputed values.",
                UserWarning,
                stacklevel=3,
            )
        quantiles = [like_input(X, sequences, filled.quantile(p)) for p in requested]
        if quantile is not None:
            return quantiles[0] if isinstance(quantile, numbers.Real) else quantiles
        out = [like_input(X, sequences, filled.values)]
        if return_std:
            out.append(like_input(X, sequences, filled.std))  # type: ignore[arg-type]
        out += quantiles
        return out[0] if len(out) == 1 else tuple(out)

    def outlier_scores(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return outlier scores of the observed values.

        Parameters
        ----------
        X : array-like, DataFrame or Table (T, D), or list of them
            Rows in order of time, NaN where missing: the training data or other rows.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        scores : like X
            Absolute leave-one-out error of each value (predicted from all others), in standard deviations of
            the prediction; scores of 4 or more are rare without outliers. NaN where a value is missing, or if
            the noise variance is below 1e-13 of the variance that the factors explain.
            :class:`probsfa.EmissionSFA` and :class:`probsfa.BilinearSFA` leave out a random tenth of the
            values at a time. The score of a binary or categorical value of predicted probability ``p`` is the
            normal quantile of ``1 - p / 2``.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        diagnose : Tests for heavy tails and other misfit.

        Notes
        -----
        Without `robust`, outliers increase the estimated noise variances, and several outliers can mask each
        other.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(200, 4, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> X[50, 2] += 20.0
        >>> scores = ProbabilisticSFA(1, robust=True).fit(X).outlier_scores(X)
        >>> row, column = np.unravel_index(np.argmax(scores), scores.shape)
        >>> int(row), int(column), bool(np.sort(scores.ravel())[-2] < 5.0)
        (50, 2, True)
        """
        sequences = self._check(X, lengths, times, exog)
        return like_input(X, sequences, self._model.outlier_scores(sequences))

    def contributions(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> FloatArray | list[FloatArray]:
        """Return the contribution of each factor to each value.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.

        Returns
        -------
        ndarray (T, D, K), or list of ndarrays (T_i, D, K)
            Posterior mean of each factor times its loading, in data units. With `transforms`, units are those
            of the transformed columns. With ``noise="ar1"`` the last axis has one more entry, the AR(1)
            noise; with covariates it has P more entries, their effects. The sum over the last axis plus
            `mean_` is the imputed value. For :class:`probsfa.BayesianSFA` the result is an average over the
            draws.

        See Also
        --------
        news : Effect of each new observation on a forecast.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9, 0.5], noise_variance=0.3, random_state=0).data
        >>> X[7, 1] = float("nan")
        >>> model = ProbabilisticSFA(2).fit(X)
        >>> parts = model.contributions(X)
        >>> parts.shape, bool(abs(parts[7, 1].sum() + model.mean_[1] - model.impute(X)[7, 1]) < 1e-9)
        ((100, 3, 2), True)
        """
        sequences = self._check(X, lengths, times, exog)
        restored: FloatArray | list[FloatArray] = sequences.restore(self._model.contributions(sequences))
        return restored

    def news(self, X_old: Any, X_new: Any, target: tuple[int, Any], *, exog: Any = None) -> News:
        """Decompose the revision of a prediction into impacts of new observations.

        Parameters
        ----------
        X_old : array-like (T_old, D)
            Earlier data, NaN where missing: rows one `time_unit_` apart, or a DataFrame with dates.
        X_new : array-like (T_new, D)
            The rows of `X_old` and later rows, with new or revised values. With dates, there may be new rows
            between old ones.
        target : tuple
            Row and column of the predicted value, which must be missing in `X_new`. The row is a number or a
            date, possibly after the last row; the column is a number or a name.
        exog : array-like or DataFrame, optional
            Covariates of the rows of `X_new` and of later rows up to the target.

        Returns
        -------
        News
            Predictions ``before`` and ``after``, and the impact of each new value; impacts add up to the
            difference. ``table`` lists the largest impacts first. :class:`probsfa.BayesianSFA` uses the
            posterior means of the parameters.

        Raises
        ------
        ValueError
            If rows or values of `X_old` are missing in `X_new`, or the target is observed.

        See Also
        --------
        contributions : Contribution of each factor to each value.

        References
        ----------
        Banbura & Modugno (2014), Journal of Applied Econometrics 29:133, doi:10.1002/jae.2306.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[-1, 0] = float("nan")
        >>> model = ProbabilisticSFA(1).fit(X[:90])
        >>> news = model.news(X[:99], X, target=(99, 0))
        >>> news.table["column"].tolist(), bool(abs(news.impacts.sum() - (news.after - news.before)) < 1e-9)
        (['2', '1'], True)
        """
        old, new = (self._check(X, None, None, add_exog=False) for X in (X_old, X_new))
        if any(len(each.lengths) > 1 for each in (old, new)):
            raise ValueError("X_old and X_new must each be one sequence.")
        old = align_rows(old, new, self._model.time_unit)
        row, column = target
        row = row_number(row, X_new, new, self._model.time_axis, self._model.time_unit)
        names = getattr(self, "feature_names_in_", None)
        if names is not None and column in list(names):
            column = list(names).index(column)
        if not isinstance(column, numbers.Integral) or int(column) not in range(new.n_features):
            raise ValueError(
                f"target must contain the name or number of one of the {new.n_features} columns; got "
                f"{target[1]!r}."
            )
        n_rows = max(new.n_rows, row + 1)
        new, future_exog = self._with_exog(new, X_new, exog, n_steps=n_rows - new.n_rows)
        old = append_empty_rows(old, n_rows - old.n_rows, self._model.time_unit)
        new = append_empty_rows(new, n_rows - new.n_rows, self._model.time_unit, future_exog)
        old = replace(old, exog=new.exog)
        if np.any(old.mask & ~new.mask):
            where = np.argwhere(old.mask & ~new.mask)[0]
            raise ValueError(
                f"X_new[{where[0]}, {where[1]}] is missing, but observed in X_old. Add the values of X_old."
            )
        if new.mask[row, column]:
            raise ValueError(
                f"target is row {row}, column {column}, which is observed. Choose a missing value."
            )
        news, dates = self._model.news(old, new, (row, int(column))), row_dates(new)
        return news if dates is None else news._replace(times=dates[news.rows])

    def forecast(
        self,
        X: Any,
        n_steps: int | None = None,
        *,
        fh: Any = None,
        interval: float = 0.9,
        quantile: float | Sequence[float] | None = None,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Any:
        """Forecast the rows after each sequence.

        Parameters
        ----------
        X, lengths, times
            As in `transform`: the rows before the forecast.
        exog : array-like or DataFrame (T + H, P), or list of them, optional
            Covariates of the rows and of the forecast steps; or a DataFrame whose index contains both.
        n_steps : int, optional
            Number of steps, each of one `time_unit_`.
        fh : array-like (H,), optional
            Forecasting horizon instead of `n_steps`, increasing: numbers of steps after the last row (may be
            fractions), durations after the last row, or dates.
        interval : float, default=0.9
            Probability of the prediction intervals from ``lower`` to ``upper``.
        quantile : float or sequence of float, optional
            Probability of a quantile, or a sequence of probabilities. With this argument, quantiles of the
            observations are returned instead of a Forecast.

        Returns
        -------
        Forecast, or list of Forecast
            Means and standard deviations of observations (H, D) and factors (H, K), and prediction intervals
            of observations; a list if `lengths` is given. :class:`probsfa.BayesianSFA` includes the
            uncertainty of the parameters. With `robust`, and for :class:`probsfa.BilinearSFA`, intervals are
            those of a normal distribution with the same moments; for exact intervals use quantiles of
            ``sample_posterior(X, of="values", n_steps=...)``. For DataFrames the moments are DataFrames.
            Their index continues that of `X`; if this is not possible, it is the number of steps ahead.
        quantiles : ndarray or DataFrame (H, D), or list of them
            Returned with `quantile`; with several quantiles a list with one entry for each.

        Raises
        ------
        ValueError
            If both or neither of `n_steps` and `fh` are given, if `fh` does not increase or does not match
            the times of the rows, or if a step is a fraction and a decay is negative.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from probsfa import ProbabilisticSFA
        >>> X = np.random.default_rng(0).standard_normal((60, 2)).cumsum(axis=0)
        >>> hourly = pd.DataFrame(X, columns=["a", "b"], index=pd.date_range("2024", periods=60, freq="h"))
        >>> model = ProbabilisticSFA(n_components=1).fit(hourly)
        >>> print(model.forecast(hourly, 2).means.index[-1])
        2024-01-03 13:00:00
        >>> model.forecast(hourly, fh=pd.to_timedelta(["20min", "5h"])).std.shape
        (2, 2)
        """
        check_is_fitted(self)
        if n_steps is not None:
            check_count("n_steps", n_steps)
        sequences = self._check(X, lengths, times, add_exog=False)
        horizon = make_horizon(
            X, sequences, self._model.time_axis, self._model.time_unit, n_steps=n_steps, fh=fh
        )
        steps = [each.steps for each in horizon]
        sequences, future_exog = self._with_exog(
            sequences, X, exog, [FutureRows(len(each.steps), each.index) for each in horizon]
        )
        forecasts = self._model.forecast(sequences, steps, future_exog)
        frames = X if sequences.is_list else [X] * len(forecasts)
        factor_names = self.get_feature_names_out()
        results = [
            one.with_interval(interval).like(frame, each.index, factor_names)
            for frame, one, each in zip(frames, forecasts, horizon, strict=True)
        ]
        if quantile is not None:
            several = not isinstance(quantile, numbers.Real)
            requested = _probabilities(None, quantile)
            results = [
                [one.quantile(p) for p in requested] if several else one.quantile(requested[0])
                for one in results
            ]
        return results if sequences.is_list or lengths is not None else results[0]

    def sample(
        self, n_steps: int = 1, *, exog: Any = None, random_state: Seed = None
    ) -> tuple[FloatArray, ...]:
        """Simulate a series from the model (:class:`probsfa.BayesianSFA`: with the parameters of one draw).

        Parameters
        ----------
        n_steps : int, default=1
            Number of rows, one `time_unit_` apart.
        exog : array-like (n_steps, P), optional
            Covariates of the rows, if the model has any.
        random_state : int, Generator or None
            Source of random numbers; by default `random_state` of the estimator.

        Returns
        -------
        X : ndarray (n_steps, D)
            Observations.
        factors : ndarray (n_steps, K)
            Factors. :class:`probsfa.BilinearSFA` also returns the gates (n_steps, M), 0.0 or 1.0.
        """
        check_is_fitted(self)
        check_count("n_steps", n_steps)
        rows = Sequences(np.full((n_steps, self.n_features_in_), np.nan), (n_steps,))
        rows, _ = self._with_exog(rows, None, exog)
        draws: tuple[FloatArray, ...] = self._model.sample(n_steps, self._generator(random_state), rows.exog)
        return draws

    def sample_posterior(
        self,
        X: Any,
        n_draws: int = 1,
        *,
        of: str = "factors",
        n_steps: int = 0,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
        random_state: Seed = None,
    ) -> FloatArray | list[FloatArray]:
        """Draw factors, or missing and future values, from their joint posterior distribution.

        Parameters
        ----------
        X, lengths, times, exog
            As in `transform`.
        n_draws : int, default=1
            Number of draws.
        of : {"factors", "values"}, default="factors"
            What to draw: factors, or series with imputed missing values. Missing values are drawn jointly,
            with noise. Sums, maxima and other functions of the draws therefore have the correct distribution.
        n_steps : int, default=0
            Number of future rows after each sequence, one `time_unit_` apart.
        random_state : int, Generator or None
            Source of random numbers; by default `random_state` of the estimator.

        Returns
        -------
        ndarray (n_draws, T + n_steps, K), or list of ndarrays (n_draws, T_i + n_steps, K)
            Draws of the factors, or with ``of="values"`` of complete series, with D columns instead of K.
            :class:`probsfa.BayesianSFA` uses different parameters for each draw.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.9], noise_variance=0.3, random_state=0).data
        >>> X[40:60, 0] = np.nan
        >>> model = ProbabilisticSFA(1).fit(X)
        >>> draws = model.sample_posterior(X, 200, of="values", n_steps=5, random_state=0)
        >>> largest = draws[:, 40:60, 0].max(axis=1)  # of the missing block, 200 draws
        >>> draws.shape, largest.shape
        ((200, 105, 3), (200,))
        """
        check_count("n_draws", n_draws)
        check_count("n_steps", n_steps, minimum=0)
        if of in _OLD_OPTIONS_OF_DRAWS:
            old, of = of, _OLD_OPTIONS_OF_DRAWS[of]
            warn_of_old_name(f"of={old!r}", f"of={of!r}")
        check_option("of", of, ("factors", "values"))
        sequences = self._check(X, lengths, times, add_exog=False)
        sequences, future_exog = self._with_exog(sequences, X, exog, n_steps=n_steps)
        sequences = append_empty_rows(sequences, n_steps, self._model.time_unit, future_exog)
        draw = self._model.draw_factors if of == "factors" else self._model.draw_values
        draws = draw(sequences, n_draws, self._generator(random_state))
        return [draws[:, s] for s in sequences.slices] if sequences.is_list else draws

    # -------------------------------------------------------------------- scores

    def log_likelihood(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> Any:
        """Return the log-likelihood of all rows, in nats.

        With `robust`, and for :class:`probsfa.EmissionSFA` and :class:`probsfa.BilinearSFA`, the result is a
        lower bound. For :class:`probsfa.BayesianSFA` it is the logarithm of the average likelihood over the
        draws. Parameters are those of `transform`.
        """
        sequences = self._check(X, lengths, times, exog)
        return self._model.log_likelihood(sequences)

    def lower_bound(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> float:
        """Return a lower bound of the log-likelihood of all rows (nats); parameters as in `transform`."""
        sequences = self._check(X, lengths, times, exog)
        return float(self._model.log_likelihood(sequences))

    def score(
        self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> float:
        """Return `log_likelihood` per row, in nats; parameters as in `transform`, `y` is ignored."""
        sequences = self._check(X, lengths, times, exog)
        return float(self._model.log_likelihood(sequences) / sequences.n_rows)

    def bic(self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None) -> float:
        """Return the Bayesian information criterion (smaller is better); parameters as in `transform`.

        The criterion is ``-2 log L + P log N``, with the likelihood ``L``, ``P`` free parameters, and ``N``
        rows with at least one observed value.
        With ``noise=0.0``, ``L`` and ``P`` are those of a model with as many factors as columns, of which
        `n_components` are reported. If
        `log_likelihood` is a lower bound, the result is an upper bound of the criterion. For
        :class:`probsfa.BayesianSFA`, ``L`` is the likelihood at the posterior means of the parameters.
        """
        sequences = self._check_observed(X, lengths, times, exog)
        n_observed = int(np.count_nonzero(sequences.mask.any(axis=1)))
        return bayesian_criterion(
            self._model.maximum_log_likelihood(sequences), self._model.n_parameters, n_observed
        )

    def diagnose(
        self, X: Any, *, block: int = 24, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> Diagnostics:
        """Test the fit of the model in each column, and suggest options.

        Parameters
        ----------
        X : array-like (T, D), or list of array-likes (T_i, D)
            Rows in order of time, NaN where missing: the training data or other rows.
        block : int, default=24
            Number of rows of the held-out blocks for which coverage is measured.
        lengths, times, exog : optional
            As in `fit`.

        Returns
        -------
        Diagnostics
            One-step predictions and their standardized errors; tests of these errors for autocorrelation,
            heavy tails, cycles and drifts; coverage of prediction intervals by column; and ``advice``.
            ``print`` shows a table, ``plot()`` a figure. :class:`probsfa.BayesianSFA` uses the posterior
            means of the parameters.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).

        See Also
        --------
        filter : One-step predictions; the filter can be continued with later rows.
        probsfa.select_model : Compare models.

        Examples
        --------
        >>> import numpy as np
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(400, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> X[:, 1] += np.sin(2 * np.pi * np.arange(400) / 12)
        >>> for sentence in ProbabilisticSFA(1).fit(X).diagnose(X).advice:
        ...     print(sentence)
        Column 1 has a cycle of 12 units of time that is not in the model: rhythms=[12].
        """
        check_count("block", block)
        sequences = self._check_observed(X, lengths, times, exog)
        found = self._model.diagnose(sequences, block)
        like = {
            name: like_input(X, sequences, getattr(found, name))
            for name in ("predictions", "prediction_std", "innovations")
        }
        return replace(found, **like)

    def standard_errors(
        self, X: Any, *, lengths: Any = None, times: Any = None, exog: Any = None
    ) -> StandardErrors:
        """Return standard errors of the parameters from the observed information of the training data.

        Parameters
        ----------
        X, lengths, times, exog
            The training data.

        Returns
        -------
        StandardErrors
            Standard errors with the shapes and units of the parameters (with covariates also ``exog_coef``).
            ``interval(name, level)`` returns confidence intervals; those of time scales are computed on the
            logarithmic scale. Each free parameter requires two likelihood evaluations, each coefficient of a
            covariate three.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``).
        """
        sequences = self._check_observed(X, lengths, times, exog)
        return self._model.standard_errors(sequences)

    def summary(
        self,
        X: Any = None,
        *,
        level: float = 0.95,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> Summary:
        """Return a table of the parameters, with units, standard errors and intervals.

        Parameters
        ----------
        X, lengths, times, exog : optional
            The training data, from which :class:`probsfa.ProbabilisticSFA` computes standard errors (see
            `standard_errors`). Without data, the table has only the estimates. The table of
            :class:`probsfa.BayesianSFA` has posterior standard deviations and central intervals, and does not
            need data.
        level : float, default=0.95
            Nominal coverage of the intervals.

        Returns
        -------
        Summary
            ``print`` shows the table, ``to_frame()`` returns a DataFrame.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(300, 2, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> table = ProbabilisticSFA(1).fit(X).summary(X).to_frame()
        >>> table.loc["time scale"].columns.tolist()
        ['estimate', 'std_error', 'lower', 'upper', 'unit']
        """
        check_is_fitted(self)
        check_probability(level, "level")
        sequences = None if X is None else self._check_observed(X, lengths, times, exog)
        return summarize(self, self._model.parameter_errors(sequences, level), level)

    def profile_timescale(
        self,
        X: Any,
        component: int = 0,
        *,
        level: float = 0.95,
        lengths: Any = None,
        times: Any = None,
        exog: Any = None,
    ) -> TimescaleProfile:
        """Return a confidence interval of the time scale of a factor by profile likelihood.

        For each value of the time scale, all other parameters except coefficients of covariates are fitted
        again. The interval may be asymmetric, and is unbounded if the series is too short to distinguish a
        slow factor from a drift. If two factors have nearly the same time scale, their order may change along
        the profile, and the interval contains both estimates.

        Parameters
        ----------
        X, lengths, times, exog
            The training data.
        component : int, default=0
            Index of the factor, slowest first.
        level : float, default=0.95
            Nominal coverage.

        Returns
        -------
        TimescaleProfile
            ``lower``, ``upper``, and the profile. Computing it takes about as long as a fit.

        Raises
        ------
        ValueError
            If the model has no noise (``noise=0.0``), or the decay is not positive.

        See Also
        --------
        standard_errors : Intervals of all parameters, from the curvature at the maximum.

        References
        ----------
        Venzon & Moolgavkar (1988), Applied Statistics 37:87, doi:10.2307/2347496.

        Examples
        --------
        >>> from probsfa import ProbabilisticSFA
        >>> from probsfa.datasets import make_slow_mixture
        >>> X = make_slow_mixture(100, 3, decay=[0.95], noise_variance=0.3, random_state=0).data
        >>> profile = ProbabilisticSFA(1).fit(X).profile_timescale(X, level=0.9)
        >>> bool(profile.upper - profile.timescale > profile.timescale - profile.lower > 0)
        True
        """
        sequences = self._check_observed(X, lengths, times, exog)
        check_count("component", component, minimum=0)
        if component >= self.decay_.shape[0]:
            raise ValueError(
                f"component={component} must be an integer below {self.decay_.shape[0]}, the "
                "number of factors."
            )
        return self._model.profile_timescale(sequences, component, level)

    # ---------------------------------------------------------------- validation

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
            Lower-case class name and index for AR(1) factors; names of states for cycles and smooth factors.
        """
        names = super().get_feature_names_out(input_features)
        states = self._model.state_names
        return names if not states else np.append(names[: -len(states)], np.array(states, dtype=object))

    @property
    def _n_features_out(self) -> int:
        return int(self._model.n_states)

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _set_optional(self, groups: Iterable[tuple[Any, Mapping[str, Any]]]) -> None:
        """Set fitted attributes that depend on options; delete those of an earlier fit.

        Each group consists of a condition and a mapping from names of attributes to values.
        """
        for is_available, attributes in groups:
            for name, value in attributes.items():
                self.__dict__.pop(name, None)
                if is_available:
                    setattr(self, name, value)

    def _refuse_arguments(self, **arguments: Any) -> None:
        """Raise a TypeError for arguments that the estimator does not support."""
        for name, value in arguments.items():
            if value is not None and name in self._unsupported_arguments:
                raise TypeError(
                    f"{type(self).__name__} does not support the argument {name!r}. "
                    f"{self._unsupported_arguments[name]}"
                )

    def _check(
        self,
        X: Any,
        lengths: Any,
        times: Any,
        exog: Any = None,
        *,
        factors_only: bool = False,
        add_exog: bool = True,
    ) -> Sequences:
        """Validate the data of a method, and add covariates unless the caller adds them (`_with_exog`)."""
        if "_model" not in vars(self):
            # scikit-learn's check takes as long as the posterior of a short series.
            check_is_fitted(self)
        self._refuse_arguments(times=times)
        model = self._model
        allow_nan = model.supports_missing and not (factors_only and model.factors_need_complete_rows)
        if "times" in self._unsupported_arguments:
            sequences = check_sequences(
                self, X, reset=False, allow_nan=allow_nan, lengths=lengths, index="warn"
            )
        else:
            sequences = check_sequences(
                self,
                X,
                reset=False,
                allow_nan=allow_nan,
                lengths=lengths,
                times=times,
                index="use",
                axis=model.time_axis,
            )
            axis = model.time_axis
            if sequences.times is not None or not axis.even:
                sequences = to_model_time(sequences, axis, model.time_unit)
        if not model.supports_irregular_times:
            check_evenly_spaced(sequences, model.time_unit)
        if model.n_sequences not in (None, len(sequences.lengths)):
            raise ValueError(
                f"X has {len(sequences.lengths)} sequences, and the hierarchical model was fitted to "
                f"{model.n_sequences}: it has noise variances only for these. Pass the sequences of the fit, "
                "in the same order."
            )
        return self._with_exog(sequences, X, exog)[0] if add_exog else sequences

    def _check_observed(self, X: Any, lengths: Any, times: Any, exog: Any) -> Sequences:
        """Validate the data of a method that requires at least one observed value."""
        sequences = self._check(X, lengths, times, exog)
        if not sequences.mask.any():
            raise ValueError(
                "X has no observed value. Pass rows with observed values, such as the training data."
            )
        return sequences

    def _with_exog(
        self,
        sequences: Sequences,
        X: Any,
        exog: Any,
        future_rows: list[FutureRows] | None = None,
        *,
        n_steps: int = 0,
    ) -> tuple[Sequences, list[FloatArray] | None]:
        """Return rows with their covariates, and the covariates of later rows, if the model has any.

        The later rows are `future_rows`, or the next `n_steps` rows of each sequence.
        """
        self._refuse_arguments(exog=exog)
        model = self._model
        regression = model.regression
        if regression is None:
            if exog is not None:
                raise ValueError("The model was fitted without exog and has no effects of covariates.")
            return sequences, None
        if exog is None:
            names = ", ".join(map(repr, regression.names[:10]))
            raise ValueError(f"exog is required: the model was fitted with {names}. Pass these covariates.")
        if n_steps:
            horizon = make_horizon(X, sequences, model.time_axis, model.time_unit, n_steps=n_steps, fh=None)
            future_rows = [FutureRows(n_steps, each.index) for each in horizon]
        return with_exog(sequences, X, exog, regression.names, future_rows)

    def _generator(self, random_state: Seed) -> np.random.Generator:
        return generator(getattr(self, "random_state", None) if random_state is None else random_state)


def _result_like(result: Any, x: Any, names: Any) -> Any:
    """Convert arrays (T, K) of factors and (T, D) of columns in a result to the type of `x`."""
    if isinstance(result, FilterResult):
        return result.like(x, names)
    values = {name: getattr(result, name) for name in result._fields}
    factor_moments = {
        name: like_array(x, values[name], names, ()) for name in ("means", "std") if name in values
    }
    value_names = ("predictions", "prediction_std", "residuals")
    predicted = {name: like_array(x, values[name]) for name in value_names if name in values}
    return result._replace(**factor_moments, **predicted)


def _probabilities(interval: float | None, quantile: Any) -> list[float]:
    """Return the probabilities of `quantile`, or of the limits of `interval`."""
    if interval is not None:
        return list(interval_probabilities(interval))
    if quantile is None:
        return []
    return [check_probability(p) for p in ([quantile] if isinstance(quantile, numbers.Real) else quantile)]
