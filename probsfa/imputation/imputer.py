"""Imputation as a step of a scikit-learn pipeline."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from probsfa._arrays import as_frame
from probsfa._frames import lists_in_lists_out, output_container
from probsfa._like_input import like_input
from probsfa._saving import Saveable
from probsfa._typing import BoolArray, FloatArray
from probsfa._validation import Sequences, check_estimator_type, check_sequences
from probsfa.statespace import ProbabilisticSFA

__all__ = ["ProbabilisticImputer"]


@lists_in_lists_out
class ProbabilisticImputer(Saveable, TransformerMixin, BaseEstimator):
    """Impute missing values of a time series inside a scikit-learn pipeline.

    A drop-in replacement for :class:`sklearn.impute.IterativeImputer` for rows in order of time. `fit`
    estimates a state-space model. `transform` returns the table with missing values replaced by their
    posterior means given all observed values of the same series; observed values are unchanged.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Model with ``fit`` and ``impute(X, return_std=True)``, such as :class:`probsfa.ProbabilisticSFA`; it
        is cloned. None is ``ProbabilisticSFA()``, with its default number of factors and noise.
    add_indicator : bool, default=False
        Whether `transform` appends an indicator of missing values for each column with missing values in
        `fit`.
    keep_empty_features : bool, default=False
        Whether `transform` keeps columns without any observed value in `fit`, with missing values replaced by
        0; by default they are dropped.

    Attributes
    ----------
    estimator_ : estimator or None
        The fitted model of the columns that vary; None if no column varies.
    indicator_ : sklearn.impute.MissingIndicator or None
        Indicator of missing values; None unless `add_indicator`.
    modelled_features_ : ndarray of bool (D,)
        Columns with at least two different observed values in `fit`. `estimator_` is the model of these
        columns.
    fill_values_ : ndarray (D,)
        Replacement of missing values in all columns that are not modelled: the constant of a column that does
        not vary, 0 for a column without observed values. NaN for the columns in `modelled_features_`.
    fill_std_ : ndarray (D,)
        Standard deviation of each value in `fill_values_`: 0 for a constant column, infinite for a column
        with a single observed value, whose variance cannot be estimated, and NaN for all other columns.
    empty_features_ : ndarray of bool (D,)
        Columns without any observed value in `fit`.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    See Also
    --------
    probsfa.ProbabilisticSFA : The model; its ``impute`` also returns quantiles.
    compare_methods : Compare methods on hidden values.

    Notes
    -----
    *Rows are a time series.* The rows given to `transform` are one series: a missing value is imputed from
    earlier and later rows of the same call. The rows given to `fit` are used to estimate the parameters only.
    In cross-validation, use splits that keep the order of rows, such as
    :class:`sklearn.model_selection.TimeSeriesSplit`.

    *Times.* `times` has the time of each row. By default, the times are the index of a pandas DataFrame if it
    contains dates, periods or durations, as in :class:`probsfa.ProbabilisticSFA`; otherwise rows are evenly
    spaced.

    *Several series.* `groups` has the label of the series of each row; rows of different series may
    alternate. `lengths` are the lengths of consecutive series. A list of tables is several series, too. With
    scikit-learn's metadata routing, `times` and `groups` are split together with the rows.

    *Output.* The output has the type of the input: an array, or a DataFrame of pandas (with the same index)
    or polars. ``set_output`` overrides this.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> from probsfa.imputation import ProbabilisticImputer
    >>> X = make_slow_mixture(200, 4, decay=[0.98], noise_variance=0.1, random_state=0).data
    >>> y = X.sum(axis=1)
    >>> X[50:70, 1] = np.nan
    >>> imputer = ProbabilisticImputer(ProbabilisticSFA(1))
    >>> bool(np.isnan(imputer.fit_transform(X)).any())
    False
    >>> filled, std = imputer.impute(X, return_std=True)
    >>> bool(std[60, 1] > 0.0), float(std[0, 0])
    (True, 0.0)
    >>> pipeline = make_pipeline(imputer, Ridge()).fit(X, y)
    >>> pipeline.score(X, y) > 0.9
    True
    """

    def __init__(
        self, estimator: Any = None, *, add_indicator: bool = False, keep_empty_features: bool = False
    ) -> None:
        self.estimator = estimator
        self.add_indicator = add_indicator
        self.keep_empty_features = keep_empty_features

    def fit(
        self, X: Any, y: Any = None, *, lengths: Any = None, times: Any = None, groups: Any = None
    ) -> Self:
        """Fit the model to a table with missing values.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time, NaN where missing; a list is several series.
        y : ignored
        lengths : array-like of int, optional
            Numbers of rows of consecutive series.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each series. By default, the times are the index of a
            DataFrame if it contains dates, periods or durations; otherwise rows are evenly spaced.
        groups : array-like (T,), optional
            Label of the series of each row.

        Returns
        -------
        ProbabilisticImputer
            The fitted imputer.

        Raises
        ------
        ValueError
            If no value is observed, or the data or a parameter is not valid; see the message.

        Warns
        -----
        sklearn.exceptions.ConvergenceWarning
            If the fit stopped before a maximum of the likelihood.
        """
        if self.estimator is not None:
            check_estimator_type("estimator", self.estimator, "impute")
        series = self._read(X, lengths, times, groups, reset=True)
        values = series.sequences.values
        low, high = np.fmin.reduce(values, axis=0), np.fmax.reduce(values, axis=0)
        self.empty_features_ = np.isnan(low)
        if self.empty_features_.all():
            raise ValueError("X has no observed value: every value is NaN. Pass rows with observed values.")
        self.modelled_features_ = low < high
        constants = np.where(self.empty_features_, 0.0, low)
        self.fill_values_ = np.where(self.modelled_features_, np.nan, constants)
        self._observed_once = np.count_nonzero(series.sequences.mask, axis=0) == 1
        self.indicator_ = None
        if self.add_indicator:
            from sklearn.impute import MissingIndicator

            self.indicator_ = MissingIndicator(error_on_new=False).fit(values)
        self.estimator_ = None
        if self.modelled_features_.any():
            estimator = ProbabilisticSFA() if self.estimator is None else clone(self.estimator)
            self.estimator_ = estimator.fit(self._model_input(series), **series.model_arguments)
        return self

    def transform(self, X: Any, *, lengths: Any = None, times: Any = None, groups: Any = None) -> Any:
        """Return the completed table.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows of a series in order of time, NaN where missing; a list is several series.
        lengths, times, groups : optional
            As in `fit`.

        Returns
        -------
        array or DataFrame (T, D_out), or list of them
            All columns, with missing values imputed. If `add_indicator` is set, indicators of missing values
            follow. ``D_out`` is the number of columns in the result.
        """
        series = self._read(X, lengths, times, groups)
        filled, _ = self._impute(series, False)
        if self.indicator_ is not None:
            missing = ~series.sequences.mask[:, self.indicator_.features_]
            filled = np.hstack([filled, missing])
        if output_container(self) != "default":
            return series.sequences.restore(filled)  # scikit-learn converts arrays to DataFrames
        return self._like(X, series, filled)

    def impute(
        self,
        X: Any,
        return_std: bool = False,
        *,
        lengths: Any = None,
        times: Any = None,
        groups: Any = None,
    ) -> Any:
        """Return the completed table, with standard deviations if requested.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows of a series in order of time, NaN where missing; a list is several series.
        return_std : bool, default=False
            Whether to return also standard deviations.
        lengths, times, groups : optional
            As in `fit`.

        Returns
        -------
        filled : array or DataFrame, or list of them
            As in `transform`, without indicators.
        std : like `filled`
            Only with `return_std`: standard deviation of each imputed value, zero for observed values. For
            columns that did not vary in `fit`, see `fill_std_`.
        """
        series = self._read(X, lengths, times, groups)
        filled, std = self._impute(series, return_std)
        values = self._like(X, series, filled)
        return values if std is None else (values, self._like(X, series, std))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`.

        Parameters
        ----------
        input_features : array-like of str or None, default=None
            Names of the input columns; by default those of `fit`, else ``x0``, ``x1``, ...

        Returns
        -------
        ndarray of str
            Names of the completed columns, then ``missingindicator_`` with the name of each column that has
            an indicator.
        """
        check_is_fitted(self)
        names = np.asarray(_check_feature_names_in(self, input_features), dtype=object)
        kept_names = names[self._output_columns]
        if self.indicator_ is None:
            return kept_names
        indicator_names = [f"missingindicator_{name}" for name in names[self.indicator_.features_]]
        return np.concatenate([kept_names, np.array(indicator_names, dtype=object)])

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model is fitted."""
        return hasattr(self, "estimator_")

    def __sklearn_tags__(self) -> Any:
        """Return the tags of scikit-learn: missing values are supported."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    def fill_std_(self) -> FloatArray:
        """Standard deviations of `fill_values_`, see the class."""
        std = np.where(self.modelled_features_ | self.empty_features_, np.nan, 0.0)
        # Files saved by earlier versions do not contain `_observed_once`.
        return np.where(getattr(self, "_observed_once", False), np.inf, std)

    # ------------------------------------------------------------------ scikit-learn

    @property
    def _output_columns(self) -> NDArray[np.intp]:
        """Indices of the input columns that `transform` returns."""
        dropped: BoolArray = self.empty_features_ & (not self.keep_empty_features)
        return np.flatnonzero(~dropped)

    def _read(self, X: Any, lengths: Any, times: Any, groups: Any, *, reset: bool = False) -> "_Series":
        """Validate a table, and determine which rows belong to the same series."""
        if not reset:
            check_is_fitted(self)
        # Times are not read here; the model reads them from `times` or from the index.
        sequences = check_sequences(
            self, X, reset=reset, allow_nan=True, lengths=lengths, require_observed=False
        )
        arguments = {"lengths": lengths, "times": times}
        order = None
        if groups is not None:
            if lengths is not None or sequences.is_list:
                raise ValueError("groups cannot be given with lengths or with X as a list of series.")
            order, arguments["lengths"] = _order_by_group(groups, sequences.n_rows)
            arguments["times"] = None if times is None else _reorder_times(times, order)
        return _Series(
            X, sequences, {name: value for name, value in arguments.items() if value is not None}, order
        )

    def _model_input(self, series: "_Series") -> Any:
        """Return the columns that vary, with rows sorted by group and with the index of these rows."""
        columns = np.flatnonzero(self.modelled_features_)
        names = getattr(self, "feature_names_in_", np.arange(len(self.modelled_features_)))[columns]
        values = series.sequences.values[:, columns]
        pieces = series.sequences.restore(values)
        if series.sequences.is_list:
            return [_with_index(x, piece, names) for x, piece in zip(series.X, pieces, strict=True)]
        return _with_index(series.X, values, names, series.order)

    def _impute(self, series: "_Series", return_std: bool) -> tuple[FloatArray, FloatArray | None]:
        """Return completed values of the output columns, and their standard deviations or None."""
        sequences, modelled = series.sequences, self.modelled_features_
        filled = np.where(sequences.mask, sequences.values, self.fill_values_)
        std = np.where(sequences.mask, 0.0, self.fill_std_)
        if self.estimator_ is not None:
            result = self.estimator_.impute(
                self._model_input(series), return_std=return_std, **series.model_arguments
            )
            means, result_std = result if return_std else (result, None)
            filled[:, modelled] = series.restore_order(means)
            if result_std is not None:
                std[:, modelled] = series.restore_order(result_std)
        return filled[:, self._output_columns], std[:, self._output_columns] if return_std else None

    def _like(self, X: Any, series: "_Series", values: FloatArray) -> Any:
        """Return a result in the type of the input."""
        names: Any = list(self.get_feature_names_out())[: values.shape[1]]
        first = as_frame(X[0] if series.sequences.is_list else X)
        if not hasattr(self, "feature_names_in_") and hasattr(first, "iloc"):
            if not all(isinstance(label, str) for label in first.columns):
                # scikit-learn does not accept such labels (numbers or pairs, for example) as names.
                columns = first.columns[self._output_columns]
                names = columns if len(columns) == len(names) else [*columns, *names[len(columns) :]]
        return like_input(X, series.sequences, values, columns=names, sources=self._output_columns.tolist())


class _Series(NamedTuple):
    """A validated table, and the arguments and the order of rows with which it is passed to the model.

    Attributes
    ----------
    X : object
        Data of the user.
    sequences : Sequences
        Validated data.
    model_arguments : dict
        Arguments `lengths` and `times` of the methods of the model, if they are not None.
    order : ndarray (N,) or None
        Order of the rows for the model; None for the order of the input.
    """

    X: Any
    sequences: Sequences
    model_arguments: dict[str, Any]
    order: NDArray[np.intp] | None

    def restore_order(self, result: Any) -> FloatArray:
        """Return a result of the model as one array in the order of the rows."""
        pieces = result if self.sequences.is_list else [result]
        values = np.concatenate([np.asarray(piece, dtype=np.float64) for piece in pieces])
        if self.order is None:
            return values
        rows = np.empty_like(values)
        rows[self.order] = values
        return rows


def _order_by_group(groups: Any, n_rows: int) -> tuple[NDArray[np.intp], list[int]]:
    """Return the order of rows in which each group is consecutive, and the number of rows of each group."""
    import pandas as pd

    labels = pd.Series(np.asarray(groups))
    if len(labels) != n_rows:
        raise ValueError(f"groups must have one label for each of the {n_rows} rows of X; got {len(labels)}.")
    codes, group_labels = pd.factorize(labels)
    if (codes < 0).any():
        row = int(np.argmax(codes < 0))
        raise ValueError(f"groups[{row}] is missing. Pass a label for every row of X.")
    return np.argsort(codes, kind="stable"), np.bincount(codes, minlength=len(group_labels)).tolist()


def _reorder_times(times: Any, order: NDArray[np.intp]) -> Any:
    """Return times in another order of the rows, for any type of times."""
    if hasattr(times, "iloc"):
        return times.iloc[order]
    if len(times) != len(order):
        raise ValueError(
            f"times must have one value for each of the {len(order)} rows of X; got {len(times)}."
        )
    return times[order] if hasattr(times, "dtype") else [times[i] for i in order]


def _with_index(X: Any, values: FloatArray, names: Any, order: NDArray[np.intp] | None = None) -> Any:
    """Return values as a DataFrame with the index of `X` if `X` is a DataFrame, else unchanged."""
    if order is not None:
        values = values[order]
    X = as_frame(X)
    if not (hasattr(X, "iloc") and hasattr(X, "columns")):
        return values
    return type(X)(values, index=X.index if order is None else X.index[order], columns=names)
