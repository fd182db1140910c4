"""Second moments of distributed rows and of their differences in time."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from probsfa._typing import FloatArray
from probsfa._validation import Sequences, check_count
from probsfa.distributed._dask import compute, delayed, reduce_tree
from probsfa.distributed._parts import DistributedRows, NoEstimator, Part, validated_parts
from probsfa.graphs.moments import Moments, MomentStream
from probsfa.sfa._expand import Expander, extend_stream

__all__ = ["DistributedMoments", "fit_expander", "sum_moments", "temporal_moments"]


class DistributedMoments(NamedTuple):
    """Moments of all rows, lengths of the sequences, and last rows of the last sequence."""

    moments: Moments
    lengths: tuple[int, ...]
    tail: FloatArray


def temporal_moments(X: Any, *, lengths: Any = None, lag: int = 1, skip_incomplete: bool = False) -> Moments:
    """Return the second moments of distributed rows and of their differences in time.

    Parameters
    ----------
    X : dask.array (T, D), or list with one entry for each sequence
        Rows. An array is chunked by rows; a chunk receives the previous `lag` rows, so that differences
        between chunks are exact. Members of a list are dask arrays, or delayed objects that return
        array-likes.
    lengths : array-like of int, optional
        Lengths of consecutive sequences in an array; there are no differences between sequences.
    lag : int, default=1
        Lag of the differences, in rows.
    skip_incomplete : bool, default=False
        Whether to leave out rows with missing values, and differences with such rows.

    Returns
    -------
    probsfa.graphs.Moments
        Moments; equal to the moments of rows in memory, up to rounding.

    Raises
    ------
    ValueError
        If the data are not distributed, have missing values without `skip_incomplete`, or differ in columns.

    See Also
    --------
    probsfa.graphs.moments.temporal_moments : Moments of rows in memory.

    Examples
    --------
    >>> import dask.array as da
    >>> from probsfa.distributed._moments import temporal_moments
    >>> m = temporal_moments(da.from_array([[0.0], [1.0], [3.0], [7.0]], chunks=(3, 1)), lengths=[2, 2])
    >>> m.mean, m.covariance, m.difference_moment
    (array([2.75]), array([[7.1875]]), array([[8.5]]))
    """
    check_count("lag", lag)
    rows = validated_parts(NoEstimator(), X, lengths=lengths, lag=lag, allow_nan=skip_incomplete)
    return sum_moments(rows, fit_expander(None, rows), lag, skip_incomplete).moments


def sum_moments(rows: DistributedRows, expander: Any, lag: int, skip_incomplete: bool) -> DistributedMoments:
    """Return the moments of expanded rows; `expander` is a task that returns an Expander."""
    add = delayed(_part_moments)
    parts = [add(p.rows, p.before, p.n_before, p.lengths, expander, lag, skip_incomplete) for p in rows.parts]
    last: Part = rows.parts[-1]
    tail = delayed(_last_rows)([*last.before, last.rows], lag, last.lengths, last.n_before, expander)
    total, last_rows = compute(reduce_tree(_merge, parts), tail)
    return DistributedMoments(total.moments, total.lengths, last_rows)


def fit_expander(expansion: Any, rows: DistributedRows) -> Any:
    """Return the task that fits an optional expansion to the complete rows of the first part."""
    return delayed(Expander.fit)(None if expansion is None else clone(expansion), rows.parts[0].rows)


class _PartMoments(NamedTuple):
    """Moments of parts, lengths of sequences, and whether the first sequence continues an earlier part."""

    moments: Moments
    lengths: tuple[int, ...]
    continues: bool


def _part_moments(
    values: FloatArray,
    previous_rows: list[FloatArray],
    n_before: int,
    lengths: Sequence[int] | None,
    expander: Expander,
    lag: int,
    skip_incomplete: bool,
) -> _PartMoments:
    """Return the moments of one part, including differences from previous rows."""
    sizes = (len(values),) if lengths is None else tuple(lengths)
    stream = MomentStream.start(expander.n_features_out, lag)
    if n_before:
        stream = MomentStream(stream.moments, expander(np.concatenate(previous_rows)[-n_before:]))
    stream = extend_stream(
        stream,
        Sequences(values, sizes),
        expander,
        new_sequence=not n_before,
        skip_incomplete=skip_incomplete,
    )
    return _PartMoments(stream.moments, sizes, n_before > 0)


def _merge(pieces: list[_PartMoments]) -> _PartMoments:
    return functools.reduce(_join, pieces)


def _join(left: _PartMoments, right: _PartMoments) -> _PartMoments:
    lengths = left.lengths + right.lengths
    if right.continues:
        lengths = (*left.lengths[:-1], left.lengths[-1] + right.lengths[0], *right.lengths[1:])
    return _PartMoments(left.moments.merge(right.moments), lengths, left.continues)


def _last_rows(
    blocks: list[FloatArray], lag: int, lengths: Sequence[int] | None, n_before: int, expander: Expander
) -> FloatArray:
    """Return the last expanded rows of the last sequence, at most `lag`."""
    last = len(blocks[-1]) if lengths is None else lengths[-1]
    available = last + n_before if lengths is None or len(lengths) == 1 else last
    return expander(np.concatenate([block[-lag:] for block in blocks])[-min(lag, available) :])
