"""Distributed data as tasks that each return some rows."""

import bisect
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from probsfa._arrays import check_array
from probsfa._times import read_time_index
from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_lengths
from probsfa.distributed._dask import compute, delayed, is_array, is_delayed

__all__ = ["DistributedRows", "NoEstimator", "Part", "validated_parts", "whole_sequences"]


class Part(NamedTuple):
    """Rows that one task returns.

    Attributes
    ----------
    rows : task
        Task that returns an ndarray (n, D) of validated float64 rows.
    before : list of tasks
        Tasks of the parts with the previous `lag` rows of the sequence, or fewer near its start; empty if a
        sequence begins with the first row.
    n_before : int
        Number of previous rows, counted from the end of these parts.
    lengths : tuple of int or None
        Lengths of the sequences; None for one sequence of unknown length.
    """

    rows: Any
    before: list[Any]
    n_before: int
    lengths: tuple[int, ...] | None


class NoEstimator(BaseEstimator):
    """Substitute of an estimator, for the validation of data."""


class DistributedRows(NamedTuple):
    """Validated distributed data.

    Attributes
    ----------
    parts : list of Part
        Parts, in the order of the data.
    lengths : tuple of int or None
        Number of rows of every sequence; None if unknown.
    """

    parts: list[Part]
    lengths: tuple[int, ...] | None


def validated_parts(
    estimator: BaseEstimator, X: Any, *, lengths: Any = None, lag: int = 1, allow_nan: bool = False
) -> DistributedRows:
    """Return distributed data as validated parts; set the number of columns of the estimator.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Estimator; ``n_features_in_`` is set, and ``feature_names_in_`` for DataFrames.
    X : dask.array (T, D), or list with one entry for each sequence
        An array is chunked by rows. Members of a list are delayed objects or futures that give array-likes,
        dask arrays, or array-likes in memory.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in an array.
    lag : int, default=1
        Number of previous rows that the differences of a part require.
    allow_nan : bool, default=False
        Whether values may be missing.

    Raises
    ------
    ValueError
        If `X` has another type or chunks of unknown size, or `lengths` do not sum to its number of rows.
        Values are validated in the tasks; messages name the rows or the sequence, as in ``X[300:600]``.
    """
    template = _check_structure(estimator, X, lengths)
    if is_array(X):
        sizes = check_lengths(lengths, X.shape[0])
        return DistributedRows(_array_parts(template, X, "X", sizes, lag, allow_nan), sizes)
    parts: list[Part] = []
    for i, sequence in enumerate(X):
        if is_array(sequence):
            parts += _array_parts(template, sequence, f"X[{i}]", (sequence.shape[0],), lag, allow_nan)
        else:
            parts.append(Part(delayed(_check_rows)(template, sequence, f"X[{i}]", allow_nan), [], 0, None))
    known = tuple(None if is_delayed(sequence) else len(sequence) for sequence in X)
    return DistributedRows(parts, None if None in known else known)  # type: ignore[arg-type]


def whole_sequences(estimator: BaseEstimator, X: Any, *, lengths: Any = None, n_parts: int) -> list[Any]:
    """Return distributed data as tasks that each return some whole validated sequences.

    Parameters
    ----------
    estimator : scikit-learn estimator
        As in :func:`validated_parts`.
    X : dask.array (T, D), or list with one entry for each sequence
        An array is chunked by rows. Members of a list are delayed objects or futures that give array-likes,
        dask arrays, or array-likes in memory.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in an array.
    n_parts : int
        Maximum number of tasks.

    Returns
    -------
    list of tasks
        Tasks that return :class:`~probsfa._validation.Sequences`, in the order of the data; values may be
        missing.
    """
    template = _check_structure(estimator, X, lengths)
    if is_array(X):
        sizes = check_lengths(lengths, X.shape[0])
        groups = [sizes[i : i + step] for i, step in _steps(len(sizes), n_parts)]
        stops = np.cumsum([sum(group) for group in groups]).tolist()
        blocks = X.rechunk({0: tuple(map(sum, groups)), 1: -1}).to_delayed(optimize_graph=False)[:, 0]
        return [
            delayed(_sequences_of_rows)(
                delayed(_check_rows)(template, block, f"X[{stop - sum(group)}:{stop}]", True), group
            )
            for block, group, stop in zip(blocks, groups, stops, strict=True)
        ]
    rows = [delayed(_check_sequence)(template, x, f"X[{i}]") for i, x in enumerate(X)]
    return [delayed(_concatenate)(rows[i : i + step]) for i, step in _steps(len(rows), n_parts)]


def _check_structure(estimator: BaseEstimator, X: Any, lengths: Any) -> BaseEstimator:
    """Validate the structure of the data, not the values; see :func:`_set_columns`."""
    if is_array(X):
        _check_known_sizes(X, "X")
        return _set_columns(estimator, np.zeros((1, X.shape[1])))
    if not isinstance(X, list) or not X:
        raise ValueError(
            "X must be a dask.array, or a list of delayed sequences (dask.delayed objects, futures or dask "
            f"arrays); got {type(X).__name__}{' without members' if isinstance(X, list) else ''}. "
            "For data in memory use estimator.fit."
        )
    if lengths is not None:
        raise ValueError("lengths cannot be given when X is a list of sequences, which defines the lengths.")
    for i, sequence in enumerate(X):
        if is_array(sequence):
            _check_known_sizes(sequence, f"X[{i}]")
    first = X[0][:1] if is_array(X[0]) else X[0]
    return _set_columns(estimator, compute(delayed(_first_row)(first))[0])


def _steps(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Divide n members into at most `n_parts` groups; return the start and the maximum size of each group."""
    step = -(-n // n_parts)
    return [(i, step) for i in range(0, n, step)]


def _sequences_of_rows(rows: FloatArray, lengths: tuple[int, ...]) -> Sequences:
    return Sequences(rows, lengths)


def _concatenate(sequences: list[FloatArray]) -> Sequences:
    return Sequences(np.concatenate(sequences), tuple(map(len, sequences)))


def _array_parts(
    template: BaseEstimator, X: Any, name: str, lengths: Sequence[int], lag: int, allow_nan: bool
) -> list[Part]:
    """Return one part for each chunk of rows."""
    X = X.rechunk({1: -1})
    stops = np.cumsum(X.chunks[0]).tolist()
    starts = [0, *stops[:-1]]
    sequence_starts = [0, *np.cumsum(lengths)[:-1].tolist()]
    # All parts share the tasks of the chunks, so that each chunk is computed once.
    chunks = X.to_delayed(optimize_graph=False)[:, 0]
    rows = [
        delayed(_check_rows)(template, chunk, f"{name}[{start}:{stop}]", allow_nan)
        for chunk, start, stop in zip(chunks, starts, stops, strict=True)
        if stop > start
    ]
    bounds = [(start, stop) for start, stop in zip(starts, stops, strict=True) if stop > start]
    parts = []
    for i, (start, stop) in enumerate(bounds):
        sequence_start = sequence_starts[bisect.bisect_right(sequence_starts, start) - 1]
        inner_starts = [b for b in sequence_starts[bisect.bisect_right(sequence_starts, start) :] if b < stop]
        n_before = min(lag, start - sequence_start)
        previous_parts = [rows[j] for j in range(i) if bounds[j][1] > start - n_before]
        sizes = tuple(np.diff([start, *inner_starts, stop]).tolist())
        parts.append(Part(rows[i], previous_parts, n_before, sizes))
    return parts


def _check_known_sizes(X: Any, name: str) -> None:
    if X.ndim != 2:
        raise ValueError(f"{name} is {X.ndim}-dimensional, shape {X.shape}; expected (n_rows, n_features).")
    if np.isnan(X.shape).any():
        raise ValueError(
            f"{name} has chunks of unknown size. Call {name}.compute_chunk_sizes() first, or make it with "
            "to_dask_array(lengths=True)."
        )


def _set_columns(estimator: BaseEstimator, rows: Any) -> BaseEstimator:
    """Set number and names of the columns of the estimator; return an unfitted copy for the tasks."""
    check_array(estimator, rows, "X", reset=True, allow_nan=True, min_rows=1)
    template = clone(estimator)
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(estimator, name):
            setattr(template, name, getattr(estimator, name))
    return template


def _check_sequence(template: BaseEstimator, rows: Any, name: str) -> FloatArray:
    """Return validated rows of a sequence, whose time index must be even."""
    checked = _check_rows(template, rows, name, True)
    times = read_time_index(rows, (len(checked),), as_list=False)
    if times is not None and not times.axis.even:
        raise ValueError(
            f"{name} has an irregular time index; a fit on a cluster requires evenly spaced rows. "
            "Resample them, fit in memory, or drop the index: reset_index(drop=True)."
        )
    return checked


def _first_row(sequence: Any) -> Any:
    return sequence.iloc[:1] if hasattr(sequence, "iloc") else np.asarray(sequence)[:1]


def _check_rows(template: BaseEstimator, rows: Any, name: str, allow_nan: bool) -> FloatArray:
    return check_array(template, rows, name, reset=False, allow_nan=allow_nan, min_rows=1)
