"""Covariates (exogenous variables): validation, and functions that compute them from a calendar.

The model with covariates ``u_t``, which are known for every row, is ``x_t = mu + B u_t + C z_t + n_t``. This
module validates the argument `exog`. :func:`calendar_terms`, :func:`trend` and :func:`harmonics` compute
covariates from times. They return pandas DataFrames with the index of the times, which ``pandas.concat([...],
axis=1)`` combines. For forecasts, pass times that continue after the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr

from probsfa._arrays import as_float_array
from probsfa._times import has_times, index_of, seconds_of
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count, check_option

__all__ = [
    "FutureRows",
    "Regression",
    "calendar_terms",
    "check_identified",
    "covariate_names",
    "harmonics",
    "trend",
    "with_exog",
]

_YEAR = 365.2425 * 86_400.0
# Minimum ratio of the standard deviations of a covariate after and before regression on the other covariates;
# smaller ratios are due to rounding errors.
_MIN_UNEXPLAINED = 1e-9


@dataclass(frozen=True, eq=False)
class Regression:
    """Effects of covariates on the columns, in data units or, with transforms, in transformed units.

    Attributes
    ----------
    coefficients : ndarray of shape (D, P)
        Change of each column for one unit of each covariate.
    names : tuple of str
        Names of the covariates.
    """

    coefficients: FloatArray
    names: tuple[str, ...]

    def effects(self, exog: FloatArray | None) -> FloatArray:
        """Return the effects (N, D) of covariates (N, P) on each value."""
        assert exog is not None
        return np.asarray(exog @ self.coefficients.T)


# ------------------------------------------------------------------------------------- validation


class FutureRows(NamedTuple):
    """Rows after a sequence, such as those of a forecast, for which covariates are required.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    index : object
        Labels of these rows, if the rows of the sequence have labels.
    """

    n_rows: int
    index: Any = None


def _columns(exog: Any) -> list[Any] | None:
    """Return the names of the columns of a DataFrame or table; None for arrays."""
    if hasattr(exog, "to_frame") and hasattr(exog, "name") and not hasattr(exog, "columns"):
        return ["exog0" if exog.name is None else exog.name]  # a pandas Series
    names = (
        getattr(exog, "columns", None) if hasattr(exog, "columns") else getattr(exog, "column_names", None)
    )
    return None if names is None else list(names)


def covariate_names(exog: Any) -> tuple[str, ...]:
    """Return the names of covariates: the columns of a DataFrame, or ``exog0``, ``exog1`` and so on."""
    first = exog[0] if isinstance(exog, list) and exog and hasattr(exog[0], "shape") else exog
    names = _columns(first)
    if names is not None:
        return tuple(str(name) for name in names)
    array = np.asarray(first)
    return tuple(f"exog{j}" for j in range(1 if array.ndim == 1 else array.shape[-1]))


def _as_array(exog: Any, label: str, names: tuple[str, ...]) -> FloatArray:
    """Return covariates as an array (N, P), with columns in the order of the names."""
    columns = _columns(exog)
    if columns is not None:
        texts = [str(column) for column in columns]
        missing = [name for name in names if name not in texts]
        if missing:
            raise ValueError(
                f"{label} has no column {missing[0]!r}; the model was fitted with covariates "
                f"{', '.join(map(repr, names))}."
            )
        if hasattr(exog, "iloc") and hasattr(exog, "columns"):
            exog = exog.iloc[:, [texts.index(name) for name in names]]
        elif hasattr(exog, "select"):
            exog = exog.select([columns[texts.index(name)] for name in names])
    array = as_float_array(exog, label)
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ValueError(
            f"{label} must have a row for each row of X and {len(names)} columns ({', '.join(names[:10])}); "
            f"got shape {array.shape}."
        )
    return array


def with_exog(
    sequences: Sequences,
    X: Any,
    exog: Any,
    names: tuple[str, ...],
    future_rows: Sequence[FutureRows] | None = None,
) -> tuple[Sequences, list[FloatArray]]:
    """Validate covariates, and assign them to the rows of the data and to later rows.

    If data and covariates are DataFrames, rows of covariates are selected by the index of the data; the
    covariates may have additional rows, in any order. Otherwise rows are selected by position: covariates of
    the rows of a sequence come first, covariates of its later rows follow.

    Parameters
    ----------
    sequences : Sequences
        Validated rows.
    X : object
        Data from which `sequences` was made; None if rows are simulated.
    exog : array-like or DataFrame (T, P), or list of them
        Covariates; a list has one array or DataFrame for each sequence.
    names : tuple of str
        Names of the covariates.
    future_rows : sequence of FutureRows, optional
        Later rows of each sequence.

    Returns
    -------
    sequences : Sequences
        The rows with `exog`.
    future_exog : list of ndarray (H, P)
        Covariates of the later rows of each sequence.

    Raises
    ------
    ValueError
        If a row, a column or a value of the covariates is missing, or there are too many rows.
    """
    if future_rows is None:
        future_rows = [FutureRows(0)] * len(sequences.lengths)
    if _columns(exog) is not None and not hasattr(exog, "columns") and hasattr(exog, "to_frame"):
        exog = exog.to_frame(name=names[0] if exog.name is None else exog.name)
    has_several = isinstance(exog, list) and len(exog) > 0 and hasattr(exog[0], "shape")
    if has_several and len(exog) != len(sequences.lengths):
        raise ValueError(
            f"exog is a list of {len(exog)} arrays, but X has {len(sequences.lengths)} sequences. Pass one "
            "array for each sequence."
        )
    uses_labels = index_of(exog) is not None and index_of(X[0] if sequences.is_list else X) is not None
    if not has_several and uses_labels and sequences.is_list:
        _check_no_shared_labels(sequences, X, exog)
    parts, future_exog = [], []
    if not has_several and len(sequences.lengths) > 1 and not uses_labels:
        if any(one.n_rows for one in future_rows):
            raise ValueError(
                "exog must be a list with one array for each sequence, each with the rows of the sequence "
                "and then the rows of the forecast."
            )
        array = _as_array(exog, "exog", names)
        if len(array) != sequences.n_rows:
            raise ValueError(
                f"exog must have {sequences.n_rows} rows, one for each row of X; got {len(array)}."
            )
        parts = [array[rows] for rows in sequences.slices]
        future_exog = [array[:0] for _ in parts]
    else:
        for i, (n, future) in enumerate(zip(sequences.lengths, future_rows, strict=True)):
            exog_of_sequence = exog[i] if has_several else exog
            label = f"exog[{i}]" if has_several else "exog"
            frame = X[i] if sequences.is_list else X  # None if rows are simulated
            index = index_of(frame)
            if index is not None and index_of(exog_of_sequence) is not None:
                index = index if sequences.is_list else index[sequences.slices[i]]
                parts.append(_select_by_label(exog_of_sequence, index, label, names))
                if future.n_rows:
                    future_exog.append(_select_by_label(exog_of_sequence, future.index, label, names))
                else:
                    future_exog.append(parts[-1][:0])
                continue
            array = _as_array(exog_of_sequence, label, names)
            if len(array) != n + future.n_rows:
                more = f" and {future.n_rows} more for the forecast" if future.n_rows else ""
                raise ValueError(
                    f"{label} must have {n} rows, one for each row of X{more}; got {len(array)}."
                )
            parts.append(array[:n])
            future_exog.append(array[n:])
    values = np.concatenate(parts)
    _check_complete(values, names, "exog")
    for each in future_exog:
        _check_complete(each, names, "exog of the forecast")
    return replace(sequences, exog=values), future_exog


def _check_no_shared_labels(sequences: Sequences, X: Any, exog: Any) -> None:
    """Raise a ValueError if `exog` is one table for several sequences whose row labels overlap.

    If the rows of each sequence are numbered from zero, for example, a label does not identify one row. Dates
    may overlap, because all sequences then have the same covariates at a date.
    """
    indexes = [index_of(frame) for frame in X]
    if len(exog) != sequences.n_rows or any(index is None or has_times(index) for index in indexes):
        return
    shared = int(indexes[0].append(indexes[1:]).duplicated().sum())
    if shared:
        raise ValueError(
            f"exog is one table of {len(exog)} rows for all sequences, and {shared} of the row labels occur "
            "in several sequences of X, so that rows cannot be matched. Pass a list with one DataFrame for "
            "each sequence."
        )


def _select_by_label(exog: Any, index: Any, label: str, names: tuple[str, ...]) -> FloatArray:
    """Return the rows (N, P) of a DataFrame for the labels in `index`."""
    if not exog.index.is_unique:
        raise ValueError(
            f"{label} has {exog.index[exog.index.duplicated()][0]!r} twice in its index. Remove duplicates."
        )
    positions = exog.index.get_indexer(index)
    if np.any(positions < 0):
        raise ValueError(
            f"{label} has no row for {index[int(np.argmax(positions < 0))]}, a row of X or of the forecast; "
            f"its index ranges from {exog.index[0]} to {exog.index[-1]}. Add the missing rows."
        )
    return _as_array(exog, label, names)[positions]


def _check_complete(values: FloatArray, names: tuple[str, ...], label: str) -> None:
    is_invalid = ~np.isfinite(values)
    if is_invalid.any():
        row, column = np.argwhere(is_invalid)[0]
        raise ValueError(
            f"{label} is {values[row, column]} in row {row}, column {names[column]!r}. Covariates must be "
            "known for every row. Impute the column before, or make it a column of X."
        )


def check_identified(sequences: Sequences, names: tuple[str, ...]) -> None:
    """Raise a ValueError unless the effect of each covariate on each column is identified.

    Parameters
    ----------
    sequences : Sequences
        Training rows with covariates.
    names : tuple of str
        Names of the covariates.
    """
    assert sequences.exog is not None
    collinear = _collinear(sequences.exog)
    if collinear is not None:
        what = (
            "constant, like the mean"
            if np.ptp(sequences.exog[:, collinear]) == 0.0
            else "a linear combination of the others and the mean"
        )
        raise ValueError(f"exog has the column {names[collinear]!r}, which is {what}. Remove this column.")
    for j in range(sequences.n_features):
        observed = sequences.mask[:, j]
        collinear = None if observed.all() else _collinear(sequences.exog[observed])
        if collinear is not None:
            name = "" if sequences.feature_names is None else f" ({sequences.feature_names[j]!r})"
            raise ValueError(
                f"exog has the column {names[collinear]!r}, whose effect on column {j}{name} of X is not "
                f"identified: in rows in which column {j} is observed, the covariate is constant or a linear "
                "combination of the others. Remove this covariate."
            )


def _collinear(exog: FloatArray) -> int | None:
    """Return the index of a column that is a linear combination of a constant and other columns, or None."""
    if len(exog) == 0:
        return 0
    centred = exog - exog.mean(axis=0)
    std = np.sqrt(np.mean(centred**2, axis=0))
    is_constant = std <= 8.0 * np.finfo(np.float64).eps * np.abs(exog).max(axis=0)
    if is_constant.any():
        return int(np.argmax(is_constant))
    triangle, order = qr(centred / std, mode="r", pivoting=True)
    unexplained = np.zeros(exog.shape[1])
    n = min(triangle.shape)
    unexplained[:n] = np.abs(np.diag(triangle)[:n]) / np.sqrt(len(exog))
    return int(order[int(np.argmin(unexplained))]) if unexplained.min() < _MIN_UNEXPLAINED else None


# ------------------------------------------------------------------------------- calendar


def _labels_and_times(times: Any) -> tuple[Any, Any]:
    """Return labels and times of rows.

    Both are the index of a DataFrame, or the values of an array. For a pandas Series without dates in its
    index, labels are the index and times are the values.
    """
    import pandas as pd

    if not hasattr(times, "iloc"):
        index = pd.Index(times)
        return index, index
    is_series = not hasattr(times, "columns")
    return times.index, pd.Index(times) if is_series and not has_times(times.index) else times.index


def _as_dates(index: Any) -> Any:
    """Return dates or periods as a DatetimeIndex, without a change of time zone."""
    import pandas as pd

    if isinstance(index, pd.PeriodIndex):
        return index.to_timestamp(how="start")
    if not isinstance(index, pd.DatetimeIndex):
        raise ValueError(
            f"times must be dates; got {index.inferred_type}. Convert them with pandas.to_datetime."
        )
    return index


def calendar_terms(times: Any, terms: Sequence[str] = ("hour", "weekday"), *, holidays: Any = ()) -> Any:
    """Return indicator variables of hours, weekdays, months, weekends and holidays.

    Parameters
    ----------
    times : DatetimeIndex, PeriodIndex, a DataFrame with such an index, or a series of dates
        Dates of the rows; hours are in their time zone.
    terms : sequence of {"hour", "weekday", "weekend", "month"}, default=("hour", "weekday")
        Types of indicators. The first hour (0), weekday (Monday) and month (January) are reference
        categories, which have no column.
    holidays : array-like of dates, default=()
        Days indicated by the column ``holiday``.

    Returns
    -------
    pandas.DataFrame (T, P)
        Values of 0.0 and 1.0, with the index of the times.

    Raises
    ------
    ValueError
        If the times are not dates, or a term is unknown.

    See Also
    --------
    harmonics : Smooth periodic effects with few columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from probsfa.statespace import calendar_terms
    >>> hours = pd.date_range("2024-05-01", periods=48, freq="h")
    >>> U = calendar_terms(hours, ["hour"], holidays=["2024-05-01"])
    >>> U.shape, U.columns[-1], float(U["holiday"].sum())
    ((48, 24), 'holiday', 24.0)
    """
    import pandas as pd

    index, times_of_rows = _labels_and_times(times)
    dates = _as_dates(times_of_rows)
    columns: dict[str, FloatArray] = {}
    for term in terms:
        check_option("terms", term, ("hour", "weekday", "weekend", "month"))
        if term == "weekend":
            columns["weekend"] = (dates.day_of_week.to_numpy() >= 5).astype(np.float64)
            continue
        category = getattr(dates, "day_of_week" if term == "weekday" else term).to_numpy()
        first, n = {"hour": (0, 24), "weekday": (0, 7), "month": (1, 12)}[term]
        for value in range(first + 1, first + n):
            columns[f"{term}_{value}"] = (category == value).astype(np.float64)
    if len(holidays):
        days = pd.DatetimeIndex(holidays).tz_localize(None).normalize()
        columns["holiday"] = dates.tz_localize(None).normalize().isin(days).astype(np.float64)
    return pd.DataFrame(columns, index=index)


def trend(times: Any, degree: int = 1) -> Any:
    """Return a polynomial trend: powers of the times.

    Dates are converted to years since 2000.

    The origin is fixed, so that the trend of a forecast continues the trend of the training data.

    Parameters
    ----------
    times : DatetimeIndex, PeriodIndex, DataFrame with an index, or array-like of numbers or dates (T,)
        For a pandas Series, its index if it contains dates, otherwise its values.
    degree : int, default=1
        Highest power.

    Returns
    -------
    pandas.DataFrame (T, degree)

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa.statespace import trend
    >>> trend(np.arange(4), degree=2)["trend_2"].tolist()
    [0.0, 1.0, 4.0, 9.0]
    """
    import pandas as pd

    check_count("degree", degree)
    index, numbers, has_dates = _elapsed(times)
    if has_dates:
        numbers = numbers / _YEAR
    names = ["trend", *(f"trend_{k}" for k in range(2, degree + 1))]
    return pd.DataFrame({name: numbers ** (k + 1) for k, name in enumerate(names)}, index=index)


def harmonics(times: Any, period: Any, n: int = 1) -> Any:
    """Return sines and cosines of a period and its harmonics.

    Phase and amplitude of the cycle are constant. For cycles whose phase drifts, use the parameter `rhythms`
    of :class:`probsfa.ProbabilisticSFA`.

    Parameters
    ----------
    times : DatetimeIndex, PeriodIndex, DataFrame with an index, or array-like of numbers or dates (T,)
        For a pandas Series, its index if it contains dates, otherwise its values.
    period : number or duration
        Period in the unit of the numbers; for dates a duration such as ``"24h"`` or ``"365.2425D"``.
    n : int, default=1
        Number of harmonics, with periods ``period``, ``period / 2``, ``period / 3`` and so on.

    Returns
    -------
    pandas.DataFrame (T, 2 n)

    Raises
    ------
    ValueError
        If the period is not positive, or does not match the type of the times.

    Examples
    --------
    >>> import pandas as pd
    >>> from probsfa.statespace import harmonics
    >>> U = harmonics(pd.date_range("2024", periods=4, freq="6h"), "24h")
    >>> U.columns.tolist(), U.round(6).to_numpy().tolist()[1]
    (['cos_24h_1', 'sin_24h_1'], [0.0, 1.0])
    """
    import pandas as pd

    check_count("n", n)
    index, numbers, has_dates = _elapsed(times)
    if has_dates == isinstance(period, (int, float, np.integer, np.floating)):
        expected = (
            "a duration such as '24h', because times are dates"
            if has_dates
            else "a number, because times are numbers"
        )
        raise ValueError(f"period must be {expected}; got {period!r}.")
    length = seconds_of(period, "period") if has_dates else float(period)
    if not length > 0.0:
        raise ValueError(f"period must be positive; got {period!r}.")
    columns = {}
    for k in range(1, n + 1):
        angle = 2.0 * np.pi * np.mod(k * numbers / length, 1.0)
        columns[f"cos_{period}_{k}"], columns[f"sin_{period}_{k}"] = np.cos(angle), np.sin(angle)
    return pd.DataFrame(columns, index=index)


def _elapsed(times: Any) -> tuple[Any, FloatArray, bool]:
    """Return labels of rows, times as numbers, and whether the times are dates.

    Dates are converted to seconds since 2000.
    """
    import pandas as pd

    index, times_of_rows = _labels_and_times(times)
    if isinstance(times_of_rows, pd.DatetimeIndex | pd.PeriodIndex):
        elapsed = _as_dates(times_of_rows).tz_localize(None) - pd.Timestamp(2000, 1, 1)
        return index, np.asarray(elapsed / pd.Timedelta(seconds=1), dtype=np.float64), True
    numbers = as_float_array(times_of_rows.to_numpy(), "times")
    return (index if hasattr(times, "iloc") else pd.RangeIndex(len(numbers))), numbers, False
