"""Methods that fill windows: a fitted model, interpolation, centres of columns, and regressions on rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
from common.window_records import Filler
from sklearn.preprocessing import StandardScaler

from probsfa import ProbabilisticSFA

#: Rows that scikit-learn's imputers learn from.
ROWS_FOR_PEERS = 5000


class Model:
    """Fill by a fitted model of this package."""

    def __init__(self, model: ProbabilisticSFA) -> None:
        self.model = model
        #: Numbers that were learned.
        self.parameters = sum(array.size for array in model.params_.to_arrays().values())

    def __call__(self, windows: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Means and standard deviations of all cells, window by window."""
        filled, std = self.model.impute(windows, return_std=True)
        return filled, std


def straight_lines(mean: np.ndarray) -> Filler:
    """Fill along straight lines, levelled at the ends; by the mean where a column has nothing."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = []
        for window in windows:
            values = window.copy()
            rows = np.arange(len(values))
            for column, level in zip(values.T, mean, strict=True):
                seen = ~np.isnan(column)
                column[~seen] = np.interp(rows[~seen], rows[seen], column[seen]) if seen.any() else level
            filled.append(values)
        return filled, None

    return fill


def middle_of_test(middle: Callable[..., np.ndarray]) -> Filler:
    """Fill with the mean or the median of what is seen of a column in all windows."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        level = middle(np.concatenate(windows), axis=0)
        return [np.where(np.isnan(window), level, window) for window in windows], None

    return fill


def row_by_row(imputer: Any, seen: np.ndarray) -> Filler:
    """Fill by an imputer of scikit-learn that was learned from some of the rows, standardised."""
    scaler = StandardScaler().fit(seen)
    step = max(len(seen) // ROWS_FOR_PEERS, 1)
    imputer.fit(scaler.transform(seen[::step]))

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = scaler.inverse_transform(imputer.transform(scaler.transform(np.concatenate(windows))))
        return np.split(filled, np.cumsum([len(w) for w in windows])[:-1]), None

    return fill
