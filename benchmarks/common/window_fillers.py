"""Methods that impute windows: a fitted model, interpolation, column means and medians, and regressions."""

from collections.abc import Callable
from typing import Any

import numpy as np
from common.window_records import Filler
from sklearn.preprocessing import StandardScaler

from probsfa import ProbabilisticSFA

#: Number of training rows of scikit-learn's imputers.
ROWS_FOR_PEERS = 5000


class Model:
    """Impute by a fitted model of this package."""

    def __init__(self, model: ProbabilisticSFA) -> None:
        self.model = model
        #: Number of learned parameters.
        self.parameters = sum(array.size for array in model.params_.to_arrays().values())

    def __call__(self, windows: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return means and standard deviations of all values, window by window."""
        filled, std = self.model.impute(windows, return_std=True)
        return filled, std


def straight_lines(mean: np.ndarray) -> Filler:
    """Interpolate linearly, with the nearest value at the ends, and the mean for columns without values."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = []
        for window in windows:
            values = window.copy()
            rows = np.arange(len(values))
            for column, level in zip(values.T, mean, strict=True):
                is_observed = ~np.isnan(column)
                column[~is_observed] = (
                    np.interp(rows[~is_observed], rows[is_observed], column[is_observed])
                    if is_observed.any()
                    else level
                )
            filled.append(values)
        return filled, None

    return fill


def middle_of_test(middle: Callable[..., np.ndarray]) -> Filler:
    """Impute the mean or the median of the observed values of a column in all windows."""

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        level = middle(np.concatenate(windows), axis=0)
        return [np.where(np.isnan(window), level, window) for window in windows], None

    return fill


def row_by_row(imputer: Any, training_rows: np.ndarray) -> Filler:
    """Impute by an imputer of scikit-learn that is fitted to some of the standardised training rows."""
    scaler = StandardScaler().fit(training_rows)
    step = max(len(training_rows) // ROWS_FOR_PEERS, 1)
    imputer.fit(scaler.transform(training_rows[::step]))

    def fill(windows: list[np.ndarray]) -> tuple[list[np.ndarray], None]:
        filled = scaler.inverse_transform(imputer.transform(scaler.transform(np.concatenate(windows))))
        return np.split(filled, np.cumsum([len(w) for w in windows])[:-1]), None

    return fill
