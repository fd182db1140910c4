"""The border: arrays, frames and lists of sequences in, checked sequences with a mask out.

Every estimator takes its data through :func:`check_sequences`, so that the same mistake meets the same
sentence everywhere. What comes back is one float64 array of all rows, in which NaN means missing, and the
lengths of the sequences it is made of.
"""

import functools
import numbers
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsfa._arrays import SCAN_ROWS, check_array, check_spread
from probsfa._index import read_time_index
from probsfa._times import TimeAxis

__all__ = [
    "Sequences",
    "check_count",
    "check_lengths",
    "check_observed",
    "check_option",
    "check_sequences",
    "is_list_of_sequences",
]


@dataclass(frozen=True, eq=False)
class Sequences:
    """Checked input: all rows in one array, and where its sequences begin.

    Attributes
    ----------
    values : ndarray (N, D)
        All rows in order, float64; NaN is missing. May be the caller's own array: do not write to it.
    lengths : tuple of int
        Rows of every sequence, all positive, summing to N.
    times : ndarray (N,) or None
        Times of observation: numbers, or time since 1970-01-01 UTC in units of ``axis.unit`` seconds.
    is_list : bool
        Whether the input was a list of sequences, so that results go back as a list.
    feature_names : tuple of str or None
        Column names, where the estimator was fitted on a frame.
    step : float or None
        Time between rows, if the index is regular; `times` are rounded.
    axis : TimeAxis
        What `times` are counted in.
    labels : tuple or None
        Dates, durations or periods of each sequence as they were given, by `times` or by the index of a
        frame.
    exog : ndarray (N, P) or None
        Known inputs of the rows, where the model has such.
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

    def take(self, order: NDArray[np.intp]) -> "Sequences":
        """Return the rows of one sequence without times in another order."""
        return replace(self, values=self.values[order])

    @property
    def n_rows(self) -> int:
        """Number of rows of all sequences together, N."""
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
        """True on the first row of each sequence, shape (N,)."""
        starts = np.zeros(self.n_rows, dtype=bool)
        starts[[s.start for s in self.slices]] = True
        return starts

    @functools.cached_property
    def mask(self) -> NDArray[np.bool_]:
        """True where a cell is observed, shape (N, D)."""
        return ~np.isnan(self.values)

    @property
    def time_unit(self) -> float:
        """Unit of time: one row, or the median time between the rows of a sequence where there are times."""
        if self.times is None:
            return 1.0
        if self.step is not None:
            return self.step
        if self.axis.unit != 1.0:  # times are in units of their median step
            return 1.0
        return float(np.median(np.concatenate([np.diff(self.times[s]) for s in self.slices])))

    def retimed(self, unit: float) -> "Sequences":
        """Return the same rows with their times in another unit."""
        if self.times is None:
            return self
        return replace(self, times=self.times / unit, step=None if self.step is None else self.step / unit)

    def one(self, which: int) -> "Sequences":
        """Return one of the sequences by itself."""
        rows = self.slices[which]
        return replace(
            self,
            values=self.values[rows],
            lengths=(self.lengths[which],),
            times=None if self.times is None else self.times[rows],
            is_list=False,
            labels=None if self.labels is None else self.labels[which : which + 1],
            exog=None if self.exog is None else self.exog[rows],
        )

    def standardised(self, shift: NDArray[np.float64], scale: NDArray[np.float64]) -> "Sequences":
        """Return the same rows with their values in other units: ``(values - shift) / scale``."""
        return replace(self, values=(self.values - shift) / scale)

    def cut_out(self, segments: list[slice]) -> "Sequences":
        """Return segments of rows as separate sequences."""
        rows = np.concatenate([np.arange(s.start, s.stop) for s in segments])
        times = None if self.times is None else self.times[rows]
        lengths = tuple(s.stop - s.start for s in segments)
        exog = None if self.exog is None else self.exog[rows]
        return replace(self, values=self.values[rows], times=times, lengths=lengths, labels=None, exog=exog)

    def restore(self, result: Any) -> Any:
        """Give a result with one entry per row the shape of the input.

        Parameters
        ----------
        result : array-like (N, ...)
            One entry for every row of `values`.

        Returns
        -------
        array-like (N, ...) or list of them
            `result` itself when one array came in, one piece per sequence when a list came in.
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
    """Check the data given to an estimator.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Gets ``n_features_in_`` and ``feature_names_in_`` when `reset`, is compared with them otherwise.
    X : array-like (T, D), or list of array-likes (T_i, D)
        A list whose members are two-dimensional is several sequences; a plain nested list of numbers is one
        array. NaN, None in a masked array's mask and pandas' NA all mean missing.
    reset : bool
        True in ``fit`` and in the first ``partial_fit``.
    allow_nan : bool
        Whether missing cells are allowed.
    lengths : array-like of int, optional
        Cuts one array into consecutive sequences (as hmmlearn does).
    times : array-like (T,) or list of array-likes, optional
        Strictly increasing inside each sequence.
    min_rows : int
        Fewest rows of all sequences together.
    require_observed : bool, optional
        Whether a column in which every cell is missing is an error; by default when `reset` and `allow_nan`.
    index : {"use", "warn", "ignore"}, default="ignore"
        What becomes of the index of a frame of pandas where there are no `times`: dates, durations and
        periods are the times, or a warning is issued if rows are not evenly spaced.
    axis : TimeAxis, optional
        What the times of a fitted model are counted in; dates are counted by its calendar, in seconds.
        Without one, dates are counted in units of their median step.

    Returns
    -------
    Sequences
        The checked rows.

    Raises
    ------
    ValueError
        For everything the caller can put right, naming the argument, what came and what is wanted. Cells
        beyond 1e150 and, with `reset`, columns that vary by less than 1e-140 are among that: their squares
        are no numbers in double precision.
    TypeError
        For sparse matrices and cells that are no numbers at all, as scikit-learn does.

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
            raise ValueError("lengths cannot be given when X is a list of sequences: the list has them.")
        arrays = [
            check_array(estimator, x, f"X[{i}]", reset=reset and i == 0, allow_nan=allow_nan, min_rows=1)
            for i, x in enumerate(X)
        ]
        sizes = tuple(len(a) for a in arrays)
        if sum(sizes) < min_rows:
            raise ValueError(
                f"X holds {sum(sizes)} rows in {len(sizes)} sequences; "
                f"{type(estimator).__name__} needs at least {min_rows}."
            )
        values = np.concatenate(arrays) if len(arrays) > 1 else arrays[0]
    else:
        values = check_array(estimator, X, "X", reset=reset, allow_nan=allow_nan, min_rows=min_rows)
        sizes = check_lengths(lengths, len(values))
    if reset:
        check_spread(estimator, values, "X")
    names = getattr(estimator, "feature_names_in_", None)
    timed = None
    if times is not None or index == "use":
        timed = read_time_index(X, sizes, as_list=is_list, times=times, axis=axis)
    if timed is None and index == "warn":
        _warn_of_uneven_index(estimator, X, sizes, is_list)
    sequences = Sequences(
        values=values,
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
        why = None if read is None or read.axis.even else "its rows are unevenly spaced"
    except ValueError as error:
        why = str(error).partition(":")[0]
    if why is not None:
        warnings.warn(
            f"{type(estimator).__name__} takes rows as evenly spaced in their order and does not use the "
            f"index of X, although {why}. Sort and resample the rows, cut the series at its gaps (lengths=), "
            "or use ProbabilisticSFA, which takes times as they are.",
            UserWarning,
            stacklevel=5,
        )


def is_list_of_sequences(X: Any) -> bool:
    """Tell a list of two-dimensional sequences from one array-like, and refuse what could be either.

    Raises
    ------
    ValueError
        For an empty list, a tuple of two-dimensional arrays (elsewhere that means a pair of aligned arrays),
        members of mixed dimensions, and a list of one-dimensional arrays of unequal length.
    """
    if not isinstance(X, (list, tuple)):
        return False
    if len(X) == 0:
        raise ValueError("X is an empty list; wanted an array (n_rows, n_features) or a list of such arrays.")
    dims = [len(x.shape) if hasattr(x, "shape") else None for x in X]
    if 2 not in dims:
        if set(dims) == {1} and len({x.shape for x in X}) > 1:
            raise ValueError(
                "X is a list of 1-dimensional arrays of unequal length; every sequence must have the shape "
                "(n_rows, n_features): use [x.reshape(-1, 1) for x in X] where one variable was measured."
            )
        return False
    if isinstance(X, tuple):
        raise ValueError(
            f"X is a tuple of {len(X)} arrays, which could mean several sequences or a pair of aligned "
            "arrays; give several sequences as a list."
        )
    odd = next((i for i, d in enumerate(dims) if d != 2), None)
    if odd is not None:
        raise ValueError(f"X is a list of sequences, so every member must be 2-dimensional; X[{odd}] is not.")
    return True


def check_count(name: str, value: Any, *, minimum: int = 1) -> int:
    """Return a parameter that counts something as an int, or raise a ValueError naming it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}; got {value!r}.")
    return int(value)


def check_positive(name: str, value: Any) -> float:
    """Return a parameter that is a positive finite number, or raise a ValueError naming it."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def check_estimator_type(name: str, value: Any, method: str) -> None:
    """Raise a ValueError naming a parameter that is no estimator with a method, or a class of such."""
    if isinstance(value, type) or not (hasattr(value, "get_params") and hasattr(value, method)):
        raise ValueError(
            f"{name} must be None or a scikit-learn estimator with the method {method}; got {value!r:.80}."
        )


def check_option(name: str, value: Any, options: tuple[str, ...]) -> str:
    """Return a parameter that is one of a few words, or raise a ValueError naming them."""
    if not isinstance(value, str) or value not in options:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, options))}; got {value!r}.")
    return value


def check_lengths(lengths: Any, n_rows: int) -> tuple[int, ...]:
    """Return the rows of every sequence, one sequence by default, or raise a ValueError naming lengths."""
    if lengths is None:
        return (n_rows,)
    array = np.asarray(lengths)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise ValueError(f"lengths must be a list of integers, the rows of every sequence; got {lengths!r}.")
    if (array < 1).any():
        bad = int(np.argmax(array < 1))
        raise ValueError(f"lengths must be positive; lengths[{bad}] is {array[bad]}.")
    if array.sum() != n_rows:
        raise ValueError(f"lengths must sum to the {n_rows} rows of X; they sum to {array.sum()}.")
    return tuple(array.tolist())


def check_observed(sequences: Sequences) -> None:
    """Raise a ValueError that names the columns in which every cell is missing, if there are any."""
    seen = np.zeros(sequences.n_features, dtype=bool)
    for start in range(0, sequences.n_rows, SCAN_ROWS):
        seen |= ~np.isnan(sequences.values[start : start + SCAN_ROWS]).all(axis=0)
        if seen.all():
            return
    empty = np.flatnonzero(~seen).tolist()
    names = sequences.feature_names
    listed = ", ".join(f"{j}" if names is None else f"{j} ({names[j]!r})" for j in empty[:5])
    more = f" and {len(empty) - 5} more" if len(empty) > 5 else ""
    raise ValueError(
        f"X has nothing observed in column {listed}{more}: every value is NaN. Leave such columns out."
    )
