"""The signature of every method: a series with missing values in, a series without missing values out."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from probsfa._like_input import like_input
from probsfa._validation import Sequences, check_sequences

__all__ = ["Filled", "Method", "check_series", "fill_holes"]


@dataclass(frozen=True, eq=False)
class Filled:
    """A series without missing values.

    Attributes
    ----------
    values : ndarray or DataFrame (T, D), or list of them
        The filled series, in the form of the series that came in; observed values are as they were.
    std : like `values`, or None
        Standard deviation of what would have been observed, zero in observed values; None where the method
        has none.
    model : estimator or None
        What was fitted, where that is of use later.
    """

    values: Any
    std: Any = None
    model: Any = None


class Method(Protocol):
    """A way to fill missing values: anything with a name and a `fill`."""

    @property
    def name(self) -> str:
        """What the method is called in tables."""

    def fill(self, X: Any, *, times: Any = None) -> Filled:
        """Fill the missing values of a series.

        Parameters
        ----------
        X : array-like or DataFrame (T, D), or list of them
            Rows in order of time, NaN where missing; a list is several independent sequences.
        times : array-like (T,) or list of array-likes, optional
            Times of the rows, strictly increasing in each sequence; those of the index by default, where a
            frame has dates, periods or durations there, and else evenly spaced.

        Returns
        -------
        Filled
            Nothing in it is missing.

        Raises
        ------
        ValueError
            If a column has nothing observed, or the input is not valid; see the message.
        """


class Series(BaseEstimator):
    """What the border calls the reader of a series in its messages; it has nothing to fit."""


def check_series(X: Any, times: Any = None) -> Sequences:
    """Check a series with missing values as estimators do.

    Raises
    ------
    ValueError
        If a column has nothing observed, or the input is not valid; see the message.
    """
    return check_sequences(Series(), X, reset=True, allow_nan=True, times=times, index="use")


def fill_holes(X: Any, series: Sequences, guesses: NDArray[np.float64]) -> Filled:
    """Put guesses into the missing values of a series.

    Parameters
    ----------
    X : array-like or DataFrame (T, D), or list of them
        The series as it came in.
    series : Sequences
        The same, checked.
    guesses : ndarray (N, D)
        Values for its missing values; those of observed values are not used. A row (D,) stands for all rows.

    Returns
    -------
    Filled
        In the form of `X`.
    """
    return Filled(like_input(X, series, np.where(series.mask, series.values, guesses)))
