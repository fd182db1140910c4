"""Input validation: arrays, DataFrames and lists of sequences are converted to validated sequences.

Every estimator validates its data by :func:`check_sequences`, so that messages are the same everywhere. The
result is one float64 array of all rows, NaN where missing, and the lengths of the sequences.
"""

import functools
import numbers
import os
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import SCAN_ROWS, check_array, check_spread
from probsfa._times import TimeAxis, index_of, read_time_index

__all__ = [
    "Sequences",
    "check_count",
    "check_lengths",
    "check_observed",
    "check_option",
    "check_sequences",
    "is_list_of_sequences",
    "readable_count",
]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Validated input: all rows in one array, and the lengths of its sequences.

    Attributes
    ----------
    values : ndarray (N, D)
        All rows in order, float64; NaN is missing. Possibly the array of the caller, which must not be
        changed.
    lengths : tuple of int
        Number of rows of each sequence; positive, with sum N.
    times : ndarray (N,) or None
        Times of observation. Numbers are unchanged; dates (since 1970-01-01 UTC) and durations are in units
        of ``axis.unit`` seconds.
    is_list : bool
        Whether the input was a list of sequences; results are then also lists.
    feature_names : tuple of str or None
        Column names, if the estimator was fitted to a DataFrame.
    step : float or None
        Exact time between evenly spaced rows; `times` have rounding errors.
    axis : TimeAxis
        Time axis of `times`.
    labels : tuple or None
        Dates, durations or periods of each sequence in the type of the input, from `times` or from the index
        of a DataFrame.
    exog : ndarray (N, P) or None
        Covariates of the rows, if the model has some.
    """

    values: NDArray[np.float64]
    lengths: tuple[int, ...]
    times: NDArray[np.float64] | None = None
    is_list: bool = False
    feature_names: tuple[str, ...] | None = None
    step: float | None = None
    axis: TimeAxis = TimeAxis()
    labels: tuple[Any, ...] | None = None
    exog: NDArray[np.float64] | None = None

    def reordered(self, order: NDArray[np.intp]) -> "Sequences":
        """Return the rows in another order; only for a single sequence without times."""
        return replace(self, values=self.values[order])

    @property
    def n_rows(self) -> int:
        """Total number of rows, N."""
        return int(self.values.shape[0])

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return int(self.values.shape[1])

    @property
    def slices(self) -> list[slice]:
        """The rows of every sequence."""
        ends = np.cumsum(self.lengths).tolist()
        return [slice(end - n, end) for end, n in zip(ends, self.lengths, strict=True)]

    @functools.cached_property
    def starts(self) -> NDArray[np.bool_]:
        """True for the first row of each sequence, shape (N,)."""
        starts = np.zeros(self.n_rows, dtype=bool)
        starts[[s.start for s in self.slices]] = True
        return starts

    @functools.cached_property
    def mask(self) -> NDArray[np.bool_]:
        """True where a value is observed, shape (N, D)."""
        return ~np.isnan(self.values)

    @property
    def time_unit(self) -> float:
        """Unit of time: the median time between the rows of a sequence; without times, one row."""
        if self.times is None:
            return 1.0
        if self.step is not None:
            return self.step
        if self.axis.unit != 1.0:  # times are in units of their median step
            return 1.0
        return float(np.median(np.concatenate([np.diff(self.times[s]) for s in self.slices])))

    def with_time_unit(self, unit: float) -> "Sequences":
        """Return the rows with times in another unit."""
        if self.times is None:
            return self
        return replace(self, times=self.times / unit, step=None if self.step is None else self.step / unit)

    def sequence(self, index: int) -> "Sequences":
        """Return the sequence with this index alone."""
        rows = self.slices[index]
        return replace(
            self,
            values=self.values[rows],
            lengths=(self.lengths[index],),
            times=None if self.times is None else self.times[rows],
            is_list=False,
            labels=None if self.labels is None else self.labels[index : index + 1],
            exog=None if self.exog is None else self.exog[rows],
        )

    def standardized(self, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> "Sequences":
        """Return the rows with standardized values ``(values - shift) / scale``."""
        return replace(self, values=(self.values - shift) / scale)

    def segments_as_sequences(self, segments: list[slice]) -> "Sequences":
        """Return segments of rows as separate sequences."""
        rows = np.concatenate([np.arange(s.start, s.stop) for s in segments])
        times = None if self.times is None else self.times[rows]
        lengths = tuple(s.stop - s.start for s in segments)
        exog = None if self.exog is None else self.exog[rows]
        return replace(self, values=self.values[rows], times=times, lengths=lengths, labels=None, exog=exog)

    def restore(self, result: Any) -> Any:
        """Convert a result with one entry per row to the structure of the input.

        Parameters
        ----------
        result : array-like (N, ...)
            One entry for every row of `values`.

        Returns
        -------
        array-like (N, ...) or list of them
            `result` itself for one array, one piece per sequence for a list.
        """
        if len(result) != self.n_rows:
            raise ValueError(f"result must have one entry per row, {self.n_rows}; got {len(result)}.")
        return [result[s] for s in self.slices] if self.is_list else result


def check_sequences(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    allow_nan: bool,
    lengths: Any = None,
    times: Any = None,
    min_rows: int = 1,
    require_observed: bool | None = None,
    index: str = "ignore",
    axis: TimeAxis | None = None,
) -> Sequences:
    """Validate the data of an estimator.

    Parameters
    ----------
    estimator : scikit-learn estimator
        The estimator. With `reset`, ``n_features_in_`` and ``feature_names_in_`` are set; otherwise X must
        match them.
    X : array-like (T, D), or list of array-likes (T_i, D)
        A list of two-dimensional members is several sequences; a nested list of numbers is one array. NaN,
        None, masked values and the NA of pandas are missing.
    reset : bool
        True in ``fit`` and in the first ``partial_fit``.
    allow_nan : bool
        Whether missing values are allowed.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in one array (as in hmmlearn).
    times : array-like (T,) or list of array-likes, optional
        Times, strictly increasing in each sequence.
    min_rows : int
        Minimum total number of rows.
    require_observed : bool, optional
        Whether a column without observed values is an error; by default if `reset` and `allow_nan`.
    index : {"use", "warn", "ignore"}, default="ignore"
        Use of the index of a DataFrame if `times` is None. "use": dates, durations and periods are times.
        "warn": unevenly spaced rows cause a warning. "ignore": the index has no effect.
    axis : TimeAxis, optional
        Time axis of a fitted model, which defines the unit of dates and their calendar (days, months or
        business days). By default the unit is the median step of the dates.

    Returns
    -------
    Sequences
        The validated rows.

    Raises
    ------
    ValueError
        For invalid input; the message names the argument, the value and the remedy. Values beyond 1e150 and,
        with `reset`, columns that vary by less than 1e-140 are invalid: their squares overflow or underflow
        in double precision.
    TypeError
        For sparse matrices and values that are not numbers, as in scikit-learn.

    Warns
    -----
    UserWarning
        If the index of a DataFrame is unevenly sampled and is not used.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator
    >>> X = [np.ones((3, 2)), np.ones((1, 2))]
    >>> sequences = check_sequences(BaseEstimator(), X, reset=True, allow_nan=False)
    >>> sequences.lengths, sequences.starts.tolist()
    ((3, 1), [True, False, False, True])
    """
    is_list = is_list_of_sequences(X)
    if is_list:
        if lengths is not None:
            raise ValueError(
                "lengths cannot be given when X is a list of sequences, which defines the lengths."
            )
        arrays = [
            check_array(estimator, x, f"X[{i}]", reset=reset and i == 0, allow_nan=allow_nan, min_rows=1)
            for i, x in enumerate(X)
        ]
        sizes = tuple(len(a) for a in arrays)
        if sum(sizes) < min_rows:
            raise ValueError(
                f"X has {sum(sizes)} rows in {len(sizes)} sequences; {type(estimator).__name__} requires at "
                f"least {min_rows}."
            )
        values = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    else:
        values = check_array(estimator, X, "X", reset=reset, allow_nan=allow_nan, min_rows=min_rows)
        sizes = check_lengths(lengths, len(values))
    if reset:
        check_spread(estimator, values, "X")
    names = getattr(estimator, "feature_names_in_", None)
    timed = None
    if times is not None or (index == "use" and type(X) is not np.ndarray):  # arrays have no index
        timed = read_time_index(X, sizes, as_list=is_list, times=times, axis=axis)
    if timed is None and index == "warn":
        _warn_of_uneven_index(estimator, X, sizes, is_list)
    sequences = Sequences(
        values=np.ascontiguousarray(values),  # rounding errors of sums depend on the memory layout
        lengths=sizes,
        times=None if timed is None else timed.times,
        is_list=is_list,
        feature_names=None if names is None else tuple(str(n) for n in names),
        step=None if timed is None else timed.step,
        axis=TimeAxis() if timed is None else timed.axis,
        labels=None if timed is None else timed.labels,
    )
    if allow_nan and (reset if require_observed is None else require_observed):
        check_observed(sequences)
    return sequences


def _warn_of_uneven_index(estimator: Any, X: Any, lengths: tuple[int, ...], is_list: bool) -> None:
    """Warn if the index of a DataFrame is unevenly sampled."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read = read_time_index(X, lengths, as_list=is_list)
        reason = None if read is None or read.axis.even else "its rows are unevenly spaced"
    except ValueError as error:
        reason = str(error).partition(":")[0]
    for index in map(index_of, X if is_list else [X]):
        if index is not None and index.inferred_type in ("floating", "integer") and index.hasnans:
            reason = "it has missing values"
    if reason is not None:
        warnings.warn(
            f"{type(estimator).__name__} treats rows as evenly spaced in their order and ignores the index "
            f"of X, although {reason}. Sort and resample the rows, split the series at its gaps "
            "(lengths=), or "
            "use ProbabilisticSFA, which supports uneven times.",
            UserWarning,
            stacklevel=5,
        )


def is_list_of_sequences(X: Any) -> bool:
    """Return whether X is a list of sequences; raise an error for ambiguous input.

    Raises
    ------
    ValueError
        For an empty list, a tuple of two-dimensional arrays (in other packages a pair of aligned arrays),
        members of different dimensions, and a list of one-dimensional arrays of unequal length.
    """
    if not isinstance(X, (list, tuple)):
        return False
    if len(X) == 0:
        raise ValueError(
            "X is an empty list; expected an array (n_rows, n_features) or a list of such arrays."
        )
    dims = [len(x.shape) if hasattr(x, "shape") else None for x in X]
    if 2 not in dims:
        if set(dims) == {1} and len({x.shape for x in X}) > 1:
            raise ValueError(
                "X is a list of 1-dimensional arrays of unequal length; every sequence must have the shape "
                "(n_rows, n_features): use [x.reshape(-1, 1) for x in X] for a single variable."
            )
        return False
    if isinstance(X, tuple):
        raise ValueError(
            f"X is a tuple of {len(X)} arrays, which is ambiguous: several sequences, or a pair of aligned "
            "arrays. Use a list for several sequences."
        )
    wrong_dimension = next((i for i, d in enumerate(dims) if d != 2), None)
    if wrong_dimension is not None:
        raise ValueError(
            f"X is a list of sequences, so every member must be 2-dimensional; X[{wrong_dimension}] is not."
        )
    return True


def check_count(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return a count as an int, or raise a ValueError that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}; got {value!r}.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a positive finite number, or raise a ValueError that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def readable_count(number: float) -> str:
    """Return a number as text without decimals: all digits up to 1e15, otherwise the order of magnitude."""
    return f"{number:,.0f}" if number < 1e15 else f"{number:.0e}"


def check_memory(required: float, content: str, remedy: str, available: float | None = None) -> None:
    """Raise a ValueError if a computation requires more RAM than this machine has.

    Parameters
    ----------
    required : float
        Bytes of the largest arrays.
    content : str
        Beginning of the message, with ``{size}`` for the size.
    remedy : str
        Advice in the message.
    available : float, optional
        Bytes of RAM; by default the memory of the machine. There is no check if the system does not report
        it.
    """
    if available is None:
        try:
            available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, OSError, ValueError):  # not on every system
            return
    if required > available:
        size, available_text = (f"{readable_count(number / 2**30)} GiB" for number in (required, available))
        raise ValueError(
            f"{content.format(size=size)}, and this machine has {available_text} of memory. {remedy}"
        )


def check_estimator_type(name: str, value: Any, method: str) -> None:
    """Raise a ValueError for a parameter that is not an estimator with a method, or that is a class."""
    if isinstance(value, type) or not (hasattr(value, "get_params") and hasattr(value, method)):
        raise ValueError(
            f"{name} must be None or a scikit-learn estimator with the method {method}; got {value!r:.80}."
        )


def check_option(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return the value; raise a ValueError if it is not one of the options."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")
    return value


def check_lengths(lengths: Any, n_rows: int | None = None) -> tuple[int, ...]:
    """Return the number of rows of each sequence, or raise a ValueError; by default there is one sequence.

    The sum of the lengths is not checked if `n_rows` is None, as for a stream of rows.
    """
    if lengths is None and n_rows is not None:
        return (n_rows,)
    array = np.asarray(lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(
            f"lengths must be a list of integers, the number of rows of each sequence; got {lengths!r}."
        )
    if (array < 1).any():
        bad = int(np.argmax(array < 1))
        raise ValueError(f"lengths must be positive; lengths[{bad}] is {array[bad]}.")
    if n_rows is not None and array.sum() != n_rows:
        raise ValueError(f"lengths must sum to the {n_rows} rows of X; they sum to {array.sum()}.")
    return tuple(array.tolist())


def check_observed(sequences: Sequences) -> None:
    """Raise a ValueError that names the columns without observed values, if there are any."""
    observed = np.zeros(sequences.n_features, dtype=bool)
    for start in range(0, sequences.n_rows, SCAN_ROWS):
        observed |= ~np.isnan(sequences.values[start : start + SCAN_ROWS]).all(axis=0)
        if observed.all():
            return
    empty_columns = np.flatnonzero(~observed).tolist()
    names = sequences.feature_names
    listing = ", ".join(f"{j}" if names is None else f"{j} ({names[j]!r})" for j in empty_columns[:5])
    remainder = f" and {len(empty_columns) - 5} more" if len(empty_columns) > 5 else ""
    raise ValueError(
        f"X has no observed value in column {listing}{remainder}: every value is NaN. Remove such columns."
    )
