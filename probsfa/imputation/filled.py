"""The interface of imputation methods."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa._like_input import like_input
from probsfa._validation import Sequences, check_sequences

__all__ = ["Filled", "Method", "check_series", "fill_missing"]


@dataclass(frozen=True, eq=False)
class Filled:
    """Result of an imputation method.

    Attributes
    ----------
    values : ndarray or DataFrame (T, D), or list of them
        The completed series, in the type of the input; observed values are unchanged.
    std : like `values`, or None
        Predictive standard deviations of imputed values, zero for observed values; None for methods without
        standard deviations.
    model : estimator or None
        The fitted model, if there is one.
    """

    values: Any
    std: Any = None
    model: Any = None


class Method(Protocol):
    """An imputation method: any object with a `name` and a method `fill`."""

    @property
    def name(self) -> str:
        """Name of the method in tables."""

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Impute the missing values of a series.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time, NaN where missing; a list is several independent sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence. By default, the times are the index of a
            DataFrame if it contains dates, periods or durations; otherwise rows are evenly spaced.

        Returns
        -------
        Filled
            The completed series.

        Raises
        ------
        ValueError
            If a column has no observed value, or the input is not valid.
        """


class Series(BaseEstimator):
    """Class whose name appears in messages of input validation."""


def check_series(X: Any, times: Any = None) -> Sequences:
    """Validate a series with missing values.

    Raises
    ------
    ValueError
        If a column has no observed value, or the input is not valid.
    """
    return check_sequences(Series(), X, reset=True, allow_nan=True, times=times, index="use")


def fill_missing(X: Any, series: Sequences, imputed: NDArray[np.float64]) -> Filled:
    """Replace the missing values of a series.

    Parameters
    ----------
    X : array-like or DataFrame (T, D), or list of them
        The series as given by the user.
    series : Sequences
        The validated series.
    imputed : ndarray (N, D)
        Imputed values, or an array (D,) with one value for all rows of a column; entries where `X` is
        observed are ignored.

    Returns
    -------
    Filled
        The completed series in the type of `X`.
    """
    return Filled(like_input(X, series, np.where(series.mask, series.values, imputed)))
