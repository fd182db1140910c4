"""Table of the parameters of a fitted model, with units, standard errors and intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._times import duration_text
from probsfa._typing import FloatArray
from probsfa.statespace.parameters import QUANTITIES
from probsfa.statespace.quantities import Quantity

__all__ = ["ParameterErrors", "Summary", "summarize"]

# Maximum number of rows that are printed; `to_frame` returns all rows.
_MAX_PRINTED_ROWS = 60


class ParameterErrors(NamedTuple):
    """Standard errors, and limits of intervals, in the shape of the parameter."""

    std_error: FloatArray
    lower: FloatArray
    upper: FloatArray


@dataclass(frozen=True, eq=False)
class Summary:
    """Parameters of a fitted model, one in each row.

    Attributes
    ----------
    title : str
        Name of the estimator.
    status : str
        `status_` of the estimator.
    level : float
        Nominal coverage of the intervals.
    parameter : ndarray of str (P,)
        Name of the parameter, such as "time scale".
    of : ndarray of str (P,)
        Factor or column to which the parameter belongs, or both.
    unit : ndarray of str (P,)
        Unit of time, "data", "data^2", or empty. With `transforms`, data units are those of transformed
        columns.
    estimate, std_error, lower, upper : ndarray (P,)
        Estimate, its standard error (or posterior standard deviation), and limits of its interval; NaN if
        they are not known.

    See Also
    --------
    probsfa.ProbabilisticSFA.summary : Compute the summary of an estimator.
    """

    title: str
    status: str
    level: float
    parameter: NDArray[np.str_]
    of: NDArray[np.str_]
    unit: NDArray[np.str_]
    estimate: FloatArray
    std_error: FloatArray
    lower: FloatArray
    upper: FloatArray

    def to_frame(self) -> Any:
        """Return the table as a pandas.DataFrame, indexed by parameter and by factor or column."""
        import pandas as pd

        names = ("parameter", "of", "estimate", "std_error", "lower", "upper", "unit")
        return pd.DataFrame({name: getattr(self, name) for name in names}).set_index(["parameter", "of"])

    def __str__(self) -> str:
        head = ("parameter", "of", "estimate", "std error", *self._limits, "unit")
        rows: list[tuple[str, ...]] = [head]
        numbers = np.stack([self.estimate, self.std_error, self.lower, self.upper], axis=1)
        for i, numbers_of_row in enumerate(numbers[:_MAX_PRINTED_ROWS]):
            formatted = ("" if np.isnan(x) else f"{x:.4g}" for x in numbers_of_row)
            rows.append((str(self.parameter[i]), str(self.of[i]), *formatted, str(self.unit[i])))
        widths = [max(len(row[j]) for row in rows) for j in range(len(head))]
        left_aligned = (0, 1, 6)
        lines = [
            "  ".join(
                text.ljust(width) if j in left_aligned else text.rjust(width)
                for j, (text, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        n_more = len(numbers) - _MAX_PRINTED_ROWS
        remainder = [f"... {n_more} more rows; see to_frame()."] if n_more > 0 else []
        return "\n".join([self.title, self.status, "", *lines, *remainder])

    @property
    def _limits(self) -> tuple[str, str]:
        tail = 50.0 * (1.0 - self.level)
        return f"{tail:g} %", f"{100.0 - tail:g} %"


def summarize(estimator: Any, errors: Mapping[str, ParameterErrors], level: float) -> Summary:
    """Return the table of the parameters of a fitted estimator.

    Parameters
    ----------
    estimator : estimator
        A fitted probabilistic estimator.
    errors : mapping of str to ParameterErrors
        Standard errors and intervals of parameters, by the name of the fitted attribute.
    level : float
        Nominal coverage of the intervals.
    """
    parts = []
    for attribute, name, unit, axes, *_ in _ordered(estimator._quantities):
        values = getattr(estimator, attribute, None)
        if values is None:
            continue
        values = np.asarray(values, dtype=np.float64)
        empty = np.full(values.shape, np.nan)
        errors_of_values = errors.get(attribute, ParameterErrors(empty, empty, empty))
        labels = _labels(estimator, values.shape, axes)
        is_of_predictors = attribute in ("mean_", "loadings_") and hasattr(estimator, "predictor_columns_")
        if unit == "time":
            unit = _time_unit(estimator)
        elif unit and (is_of_predictors or len(values) != estimator.n_features_in_):
            unit = ""  # linear predictors, or outputs of an expansion, do not have the unit of a column
        columns = [np.asarray(x, dtype=np.float64).ravel() for x in (values, *errors_of_values)]
        is_shown = ~np.isnan(values)
        if attribute == "loadings_":  # not for states whose loadings are zero or not in data units (trends)
            is_shown &= estimator._model.stationary_states
        is_shown = is_shown.ravel()
        parts.append(
            [np.full(values.size, name)[is_shown], labels[is_shown], np.full(values.size, unit)[is_shown]]
            + [x[is_shown] for x in columns]
        )
    table = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return Summary(type(estimator).__name__, estimator.status_, level, *table)


def _ordered(other_quantities: Iterable[Quantity]) -> list[Quantity]:
    """Return the quantities of the table: first quantities of processes, then of columns, then of both."""
    labelled = [one for one in (*other_quantities, *QUANTITIES.values()) if one.label]
    return sorted(labelled, key=lambda one: (one.axes[0] == "column", len(one.axes)))


def _time_unit(estimator: Any) -> str:
    """Return the unit of time scales: a duration if rows have dates, otherwise "rows" or "units of times"."""
    seconds = getattr(estimator, "time_unit_seconds_", None)
    unit = getattr(estimator, "time_unit_", 1.0)
    if seconds is not None:
        text = duration_text(seconds / unit)
        return text.removeprefix("1 ")
    return "rows" if unit == 1.0 else "units of times"


def _labels(estimator: Any, shape: tuple[int, ...], axes: Sequence[str]) -> NDArray[np.str_]:
    """Return the label of each value, composed of the names along its axes."""
    if len(shape) == 3:  # loadings of a bilinear model
        axes = ("column", "gate", "factor")
    labels = [""]
    for n, axis in zip(shape, axes, strict=False):
        names = _names(estimator, n, axis)
        labels = [f"{label}, {name}" if label else name for label in labels for name in names]
    return np.array(labels)


def _names(estimator: Any, n: int, axis: str) -> list[str]:
    """Return names of the entries of one axis."""
    if axis == "column":
        features = getattr(estimator, "feature_names_in_", None)
        columns = getattr(estimator, "predictor_columns_", ())  # a categorical column has several predictors
        if n == estimator.n_features_in_:
            columns = np.arange(n)
        elif n != len(columns):
            return [f"output {i}" for i in range(n)]
        return [f"column {j}" if features is None else str(features[j]) for j in columns]
    if axis == "covariate":
        return [str(name) for name in estimator.exog_names_]
    if axis == "direction":
        return ["on", "off"]
    if axis == "state":
        states = estimator._model.state_names
        return [*(f"factor {k}" for k in range(n - len(states))), *states]
    return [f"{axis} {k}" for k in range(n)]
