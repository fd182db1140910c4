"""Patterns of hidden values: observed values that are treated as missing, so that the truth is known."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import BoolArray
from probsfa.datasets import hide_blocks, hide_values

__all__ = ["HiddenBlocks", "HiddenPattern", "HiddenValues", "without_hidden"]

_MIN_OBSERVED = 2  # minimum number of observed values left in a column


class HiddenPattern(Protocol):
    """A pattern of hidden values: any object with a `name` and a method `choose`."""

    @property
    def name(self) -> str:
        """Description of the pattern."""

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Return a mask (N, D) of the values to hide in a series `X` (N, D), which is NaN where missing."""


@dataclass(frozen=True)
class HiddenValues:
    """Hide single observed values, each with the same probability.

    Parameters
    ----------
    fraction : float, default=0.1
        Probability that an observed value is hidden, above 0 and below 1.

    See Also
    --------
    HiddenBlocks : Hide blocks of consecutive rows.
    probsfa.datasets.hide_values : Function that returns the same mask.

    Examples
    --------
    >>> print(HiddenValues(0.1).name)
    10 % of the observed values hidden, single values
    """

    fraction: float = 0.1

    @property
    def name(self) -> str:
        """Description of the pattern."""
        return f"{_percentage_text(self.fraction)}, single values"

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Return a mask (N, D) of the values to hide, selected at random with a seed."""
        return hide_values(X, self.fraction, random_state=seed)


@dataclass(frozen=True)
class HiddenBlocks:
    """Hide blocks of consecutive rows, each in one column, like temporary failures of a sensor.

    Parameters
    ----------
    length : int, default=24
        Number of rows of a block, at most the number of rows of the series. A block may extend over two
        sequences.
    fraction : float, default=0.1
        Share of the observed values to hide, above 0 and below 1.

    See Also
    --------
    HiddenValues : Hide single values.
    probsfa.datasets.hide_blocks : Function that returns the same mask.

    Examples
    --------
    >>> print(HiddenBlocks(24, 0.1).name)
    10 % of the observed values hidden, in blocks of 24 rows
    """

    length: int = 24
    fraction: float = 0.1

    @property
    def name(self) -> str:
        """Description of the pattern."""
        return f"{_percentage_text(self.fraction)}, in blocks of {self.length} rows"

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Return a mask (N, D) of the values to hide, selected at random with a seed."""
        return hide_blocks(X, self.length, self.fraction, random_state=seed)


def without_hidden(X: ArrayLike, hidden: ArrayLike) -> NDArray[np.float64]:
    """Return a series with NaN for hidden values.

    Columns that would keep fewer than two observed values are not changed.

    Parameters
    ----------
    X : array-like (N, D)
        The series, NaN where missing.
    hidden : array-like of bool (N, D)
        True for values to hide.

    Returns
    -------
    ndarray (N, D)
        NaN where missing or hidden.

    See Also
    --------
    HiddenValues, HiddenBlocks : Patterns of hidden values.

    Examples
    --------
    >>> hidden = [[True, True], [False, True], [False, False]]
    >>> without_hidden([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], hidden).tolist()
    [[nan, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """
    values = as_float_array(X, "X")
    observed = np.where(hidden, np.nan, values)
    has_too_few = np.count_nonzero(~np.isnan(observed), axis=0) < _MIN_OBSERVED
    observed[:, has_too_few] = values[:, has_too_few]
    return observed


def _percentage_text(fraction: float) -> str:
    return f"{100.0 * fraction:g} % of the observed values hidden"
