"""Ways of hiding observed values, so that the truth is known where a method fills."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import BoolArray
from probsfa.datasets import hide_blocks, hide_cells

__all__ = ["HiddenBlocks", "HiddenCells", "Hiding", "hide"]

_FEWEST = 2  # observed values of a column, without which no method could fill it


class Hiding(Protocol):
    """A way of hiding values: anything with a name and a `choose`."""

    @property
    def name(self) -> str:
        """How values are hidden, in words."""

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Choose values of a series (N, D), NaN where missing; true where a value is to be hidden."""


@dataclass(frozen=True)
class HiddenCells:
    """Hide observed values one by one, each with the same probability.

    Parameters
    ----------
    fraction : float, default=0.1
        Part of the observed values, above 0 and below 1.

    See Also
    --------
    HiddenBlocks : Hides rows that follow each other.
    probsfa.datasets.hide_cells : The same as a function.

    Examples
    --------
    >>> print(HiddenCells(0.1).name)
    10 % of the observed cells hidden, one by one
    """

    fraction: float = 0.1

    @property
    def name(self) -> str:
        """How values are hidden, in words."""
        return f"{_part(self.fraction)}, one by one"

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Choose values, see :class:`Hiding`."""
        return hide_cells(X, self.fraction, random_state=seed)


@dataclass(frozen=True)
class HiddenBlocks:
    """Hide blocks of consecutive rows, each in one column, as a sensor that fails for a while leaves them.

    Parameters
    ----------
    length : int, default=24
        Rows of a block, at most as many as the series has. Where it has several sequences, a block may go on
        in the next.
    fraction : float, default=0.1
        Part of the observed values, above 0 and below 1.

    See Also
    --------
    HiddenCells : Hides single values.
    probsfa.datasets.hide_blocks : The same as a function.

    Examples
    --------
    >>> print(HiddenBlocks(24, 0.1).name)
    10 % of the observed cells hidden, in blocks of 24 rows
    """

    length: int = 24
    fraction: float = 0.1

    @property
    def name(self) -> str:
        """How values are hidden, in words."""
        return f"{_part(self.fraction)}, in blocks of {self.length} rows"

    def choose(self, X: NDArray[np.float64], seed: int) -> BoolArray:
        """Choose values, see :class:`Hiding`."""
        return hide_blocks(X, self.length, self.fraction, random_state=seed)


def hide(X: ArrayLike, hidden: ArrayLike) -> NDArray[np.float64]:
    """Return a series without its hidden values.

    A column that would keep fewer than two observed values is left as it is: no method could fill it.

    Parameters
    ----------
    X : array-like (N, D)
        The series, NaN where missing.
    hidden : array-like of bool (N, D)
        True where a value is to be hidden.

    Returns
    -------
    ndarray (N, D)
        NaN where missing or hidden.

    See Also
    --------
    HiddenCells, HiddenBlocks : Choose the values.

    Examples
    --------
    >>> hide([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [[True, True], [False, True], [False, False]]).tolist()
    [[nan, 1.0], [2.0, 2.0], [3.0, 3.0]]
    """
    values = as_float_array(X, "X")
    seen = np.where(hidden, np.nan, values)
    bare = np.count_nonzero(~np.isnan(seen), axis=0) < _FEWEST
    seen[:, bare] = values[:, bare]
    return seen


def _part(fraction: float) -> str:
    return f"{100.0 * fraction:g} % of the observed values hidden"
