"""Imputation methods, simplest first: from the mean of a column to the posterior of a fitted model."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from probsfa._threads import one_blas_thread
from probsfa.imputation.filled import Filled, Method, check_series, fill_missing
from probsfa.sfa import SFA
from probsfa.statespace.leave_one_out import interpolate_linearly

__all__ = [
    "ClassicSFA",
    "ColumnMean",
    "EstimatorImputation",
    "IterativeRegression",
    "LinearInterpolation",
    "default_methods",
    "fit_quietly",
]


_N_ITERATIONS = 5


@dataclass(frozen=True)
class ColumnMean:
    """Impute the mean of the observed values of the column.

    Parameters
    ----------
    name : str, default="mean"
        Name of the method in tables.

    See Also
    --------
    LinearInterpolation : Interpolation between adjacent observations.

    Examples
    --------
    >>> ColumnMean().fill([[1.0], [np.nan], [3.0]]).values.tolist()
    [[1.0], [2.0], [3.0]]
    """

    name: str = "mean"

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the NaN values of a series (T, D), and return the completed series."""
        series = check_series(X, times)
        return fill_missing(X, series, np.nanmean(series.values, axis=0))


@dataclass(frozen=True)
class LinearInterpolation:
    """Interpolate linearly in time, each column separately.

    The first observation of a sequence replaces missing values before it, and the last observation those
    after it. If a column has no observations in a sequence, its mean over the other sequences is used.

    Parameters
    ----------
    name : str, default="linear interpolation"
        Name of the method in tables.

    See Also
    --------
    ColumnMean : Imputation without the order of rows.
    ClassicSFA : Imputation from all columns.

    Examples
    --------
    >>> LinearInterpolation().fill([[1.0], [np.nan], [3.0]], times=[0.0, 3.0, 4.0]).values.tolist()
    [[1.0], [2.5], [3.0]]
    """

    name: str = "linear interpolation"

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the NaN values of a series (T, D), and return the completed series."""
        series = check_series(X, times)
        return fill_missing(X, series, interpolate_linearly(series))


@dataclass(frozen=True)
class IterativeRegression:
    """Impute by `IterativeImputer` of scikit-learn, with five rounds of regressions between columns.

    The order of rows is not used.

    Parameters
    ----------
    name : str, default="IterativeImputer"
        Name of the method in tables.

    See Also
    --------
    ClassicSFA : Imputation with the order of rows.

    Examples
    --------
    >>> X = [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [4.0, np.nan]]
    >>> print(IterativeRegression().fill(X).values[3, 1].round(2))
    8.0
    """

    name: str = "IterativeImputer"

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the missing values of a series; `times` are validated, but not used."""
        from sklearn.experimental import (
            enable_iterative_imputer as enable_iterative_imputer,  # makes it importable
        )
        from sklearn.impute import IterativeImputer

        series = check_series(X, times)
        # Several threads are slower for small matrices.
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # five iterations seldom converge
            imputed = IterativeImputer(max_iter=_N_ITERATIONS, random_state=0).fit_transform(series.values)
        return fill_missing(X, series, np.asarray(imputed))


@dataclass(frozen=True)
class ClassicSFA:
    """Impute by slow feature analysis of the linearly interpolated series.

    The series is reconstructed from the slower half of its slow features; a reconstruction from all features
    would equal the interpolation. Rows are treated as evenly spaced.

    Parameters
    ----------
    name : str, default="classic SFA"
        Name of the method in tables.

    See Also
    --------
    LinearInterpolation : The first step of this method.
    probsfa.SFA : Slow features.

    Examples
    --------
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, missing_fraction=0.1, random_state=0).data
    >>> np.isnan(ClassicSFA().fill(X).values).any()
    np.False_
    """

    name: str = "classic SFA"

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the NaN values of a series (T, D), and return the completed series."""
        series = check_series(X, times)
        interpolated = np.where(series.mask, series.values, interpolate_linearly(series))
        sfa = SFA().fit(interpolated, lengths=series.lengths)
        features = np.array(sfa.transform(interpolated))  # scikit-learn may return DataFrames
        features[:, (features.shape[1] + 1) // 2 :] = 0.0
        return fill_missing(X, series, sfa.inverse_transform(features))


@dataclass(frozen=True)
class EstimatorImputation:
    """Impute by an estimator that is fitted to the same series.

    Parameters
    ----------
    estimator : estimator
        Estimator such as `ProbabilisticSFA`, which is cloned for each series. It has the methods ``fit`` and
        ``impute(X, return_std=True)``. Its attribute ``status_`` describes how the fit ended.
    name : str, default="probabilistic SFA"
        Name of the method in tables.

    See Also
    --------
    probsfa.ProbabilisticSFA : An estimator with these methods.

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, missing_fraction=0.1, random_state=0).data
    >>> filled = EstimatorImputation(ProbabilisticSFA(1)).fill(X)
    >>> bool((filled.std[np.isnan(X)] > 0.0).all()), filled.model.n_components
    (True, 1)
    """

    estimator: Any
    name: str = "probabilistic SFA"

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the missing values of a series; `Filled.model` is the fitted estimator.

        Raises
        ------
        KeyboardInterrupt
            If the fit was interrupted.
        """
        fitted = fit_quietly(clone(self.estimator), X, times=times)
        if fitted.status_.startswith("Interrupted"):
            raise KeyboardInterrupt
        with warnings.catch_warnings():
            # The warning compares the model with linear interpolation, as `compare_methods` does.
            warnings.filterwarnings("ignore", message="Observed values left out one at a time")
            values, std = fitted.impute(X, return_std=True, **_without_none(times=times))
        return Filled(values, std, fitted)


def default_methods(estimator: Any) -> tuple[Method, ...]:
    """Return the default methods of a comparison, simplest first.

    Parameters
    ----------
    estimator : estimator
        Estimator of the last method, such as `ProbabilisticSFA`; unfitted.

    Returns
    -------
    tuple of methods

    See Also
    --------
    compare_methods : Compare methods.

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA
    >>> [method.name for method in default_methods(ProbabilisticSFA())]
    ['mean', 'linear interpolation', 'IterativeImputer', 'classic SFA', 'probabilistic SFA']
    """
    return (
        ColumnMean(),
        LinearInterpolation(),
        IterativeRegression(),
        ClassicSFA(),
        EstimatorImputation(estimator),
    )


def fit_quietly(estimator: Any, X: Any, *, times: Any = None) -> Any:
    """Fit an estimator without ConvergenceWarning; ``status_`` reports convergence.

    Parameters
    ----------
    estimator : estimator
        Estimator, which is fitted in place.
    X : array-like or DataFrame (T, D), or list of them
        Rows in order of time, NaN where missing.
    times : array-like (T,) or list of array-likes, optional
        Times of the rows; evenly spaced by default.

    Returns
    -------
    estimator
        The fitted estimator.

    See Also
    --------
    EstimatorImputation : Imputation by an estimator.

    Examples
    --------
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(100, 3, random_state=0).data
    >>> fit_quietly(ProbabilisticSFA(1, max_iter=1), X).converged_
    False
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X, **_without_none(times=times))


def _without_none(**arguments: Any) -> dict[str, Any]:
    """Omit arguments that are None, for estimators without these arguments."""
    return {name: value for name, value in arguments.items() if value is not None}
