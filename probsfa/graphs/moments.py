"""Second moments of time series: streamed, mergeable, and exact at large offsets.

With rows ``x(t)`` of one or more sequences and a lag ``h``::

    B = (1/T) sum_t (x(t) - xbar)(x(t) - xbar)'          over the T rows
    A = (1/n) sum_t (x(t+h) - x(t))(x(t+h) - x(t))'      over the n pairs inside one sequence

``A`` is not centred: a drift counts as change. Rows with missing values may be skipped; only pairs of two
complete rows are then used.

Rows are processed in blocks that fit the cache, in one pass without a copy. Every block is centred and merged
by the update of Chan, Golub & LeVeque (1983, The American Statistician 37:242, eq. 2.1), which avoids
cancellation. Means are stored relative to the first row, so that differences of means are exact at an offset
of 1e8.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probsfa._arrays import as_float_array
from probsfa._typing import FloatArray
from probsfa._validation import check_count, check_lengths
from probsfa.graphs._rows import check_rows

__all__ = ["CentredRows", "MomentStream", "Moments", "block_rows", "rounding_variance", "temporal_moments"]

_BLOCK_SIZE = 2**17  # number of values, 1 MiB of float64: with differences, about the cache of a core
# Minimum and maximum number of rows of a block. With fewer rows, a third of the time is spent on adding the
# products of the blocks; with more rows, the computation is not faster.
_BLOCK_ROWS = (1024, 8192)
_CONSTANT_ULPS = 4  # columns that vary by fewer units in the last place are treated as constant


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of outer products of centred rows, and of differences.

    Attributes
    ----------
    n_rows : int
        Number of rows.
    origin : ndarray (D,)
        A row of the data.
    offset : ndarray (D,)
        Mean of the rows minus `origin`.
    scatter : ndarray (D, D)
        Sum of ``(x - mean)(x - mean)'``.
    n_differences : int
        Number of differences.
    difference_scatter : ndarray (D, D)
        Sum of ``dx dx'``, not centred.
    lag : int
        Lag of the differences, in rows.
    """

    n_rows: int
    origin: FloatArray
    offset: FloatArray
    scatter: FloatArray
    n_differences: int
    difference_scatter: FloatArray
    lag: int = 1

    @classmethod
    def empty(cls, n_features: int, lag: int = 1) -> "Moments":
        """Return the moments of zero rows, the neutral element of :meth:`merge`."""
        vector = np.zeros(n_features, dtype=np.float64)
        matrix = np.zeros((n_features, n_features), dtype=np.float64)
        return cls(0, vector, vector, matrix, 0, matrix, lag)

    @property
    def mean(self) -> FloatArray:
        """Mean of the rows, shape (D,); zero without rows."""
        return self.origin + self.offset

    @property
    def covariance(self) -> FloatArray:
        """``B``: covariance with 1/T, shape (D, D)."""
        if self.n_rows == 0:
            raise ValueError("X has no complete row; the covariance requires complete rows.")
        return self.scatter / self.n_rows

    @property
    def difference_moment(self) -> FloatArray:
        """``A``: uncentred second moment of differences with 1/(number of differences), shape (D, D)."""
        if self.n_differences == 0:
            raise ValueError(
                f"X has no two complete rows {self.lag} apart (lag={self.lag}) in one sequence, so that no "
                "differences can be computed. Use longer sequences or a smaller lag."
            )
        return self.difference_scatter / self.n_differences

    @property
    def variance_floor(self) -> FloatArray:
        """Largest variance that rounding errors give to a constant column with this mean, shape (D,)."""
        return rounding_variance(self.mean)

    def merge(self, other: "Moments") -> "Moments":
        """Return the moments of the rows and pairs of both parts.

        The two parts are different sequences, without a difference between them. Use :class:`MomentStream`
        for consecutive parts of one sequence.

        Raises
        ------
        ValueError
            If the number of columns or the lag differs.
        """
        if self.lag != other.lag or self.offset.shape != other.offset.shape:
            raise ValueError(
                f"Moments of {self.offset.size} columns at lag {self.lag} cannot be merged with moments of "
                f"{other.offset.size} columns at lag {other.lag}."
            )
        if self.n_rows == 0 or other.n_rows == 0:
            nonempty = other if self.n_rows == 0 else self
            n, origin, offset, scatter = nonempty.n_rows, nonempty.origin, nonempty.offset, nonempty.scatter
        else:
            n, origin = self.n_rows + other.n_rows, self.origin
            mean_difference = (other.origin - self.origin) + (other.offset - self.offset)
            offset = self.offset + mean_difference * (other.n_rows / n)
            between = np.outer(mean_difference, mean_difference) * (self.n_rows * (other.n_rows / n))
            scatter = self.scatter + other.scatter + between
        return Moments(
            n_rows=n,
            origin=origin,
            offset=offset,
            scatter=scatter,
            n_differences=self.n_differences + other.n_differences,
            difference_scatter=self.difference_scatter + other.difference_scatter,
            lag=self.lag,
        )


@dataclass(frozen=True, eq=False)
class MomentStream:
    """Moments of the rows so far, and the last rows, for differences with the next rows.

    Attributes
    ----------
    moments : Moments
        Moments of all rows so far.
    tail : ndarray (h, D)
        The last ``h <= lag`` rows of the current sequence, missing values included.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.cumsum(np.ones((7, 2)), axis=0)
    >>> stream = MomentStream.start(n_features=2).extend(X[:4]).extend(X[4:])
    >>> stream.moments.n_differences
    6
    >>> stream.extend(X[:1], new_sequence=True).moments.n_differences
    6
    """

    moments: Moments
    tail: FloatArray

    @classmethod
    def start(cls, n_features: int, lag: int = 1) -> "MomentStream":
        """Return an empty stream."""
        return cls(Moments.empty(n_features, lag), np.zeros((0, n_features), dtype=np.float64))

    def extend(
        self,
        values: ArrayLike,
        *,
        lengths: Sequence[int] | None = None,
        new_sequence: bool = False,
        skip_incomplete: bool = False,
    ) -> "MomentStream":
        """Return the stream after some more rows.

        Parameters
        ----------
        values : array-like (N, D)
            Rows in order; they are not stored.
        lengths : sequence of int, optional
            Lengths of sequences; the first sequence continues the current one unless `new_sequence`.
        new_sequence : bool, default=False
            Whether the first row begins a new sequence.
        skip_incomplete : bool, default=False
            Whether to leave out rows with a NaN, and pairs with such rows.

        Returns
        -------
        MomentStream
            The stream; it equals the stream of all rows at once, up to rounding.
        """
        rows = as_float_array(values, "values")
        n, lag = len(rows), self.moments.lag
        tail = self.tail[:0] if new_sequence else self.tail
        starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]) if lengths is not None else np.zeros(1, int)
        starts[0] = -len(tail)

        moments = _add_rows(self.moments, rows, skip_incomplete)
        # The first rows of a sequence have no row `lag` rows earlier; the pairs with zeros are not valid.
        padding = np.zeros((min(lag - len(tail), n), rows.shape[1]), dtype=np.float64)
        earlier = np.concatenate([padding, tail])
        border_sums = _difference_scatter(earlier[:n], rows[:lag], starts, 0, lag, skip_incomplete)
        inner_sums = _difference_scatter(rows[:-lag], rows[lag:], starts, lag, lag, skip_incomplete)
        moments = replace(
            moments,
            n_differences=moments.n_differences + border_sums[0] + inner_sums[0],
            difference_scatter=moments.difference_scatter + border_sums[1] + inner_sums[1],
        )
        open_rows = rows[max(0, int(starts[-1])) :] if n else rows
        if len(starts) > 1:
            tail = tail[:0]
        return MomentStream(moments, np.concatenate([tail, open_rows[-lag:]])[-lag:])


def temporal_moments(
    values: ArrayLike,
    *,
    lengths: Sequence[int] | None = None,
    lag: int = 1,
    skip_incomplete: bool = False,
) -> Moments:
    """Return the second moments of rows and of their differences in time.

    Parameters
    ----------
    values : array-like (N, D)
        All rows. Missing values (NaN or masked) require `skip_incomplete`.
    lengths : sequence of int, optional
        Rows of every sequence. There are no differences across sequence boundaries.
    lag : int, default=1
        Lag of the differences, in rows.
    skip_incomplete : bool, default=False
        Whether to leave out rows with a missing value, and differences with such rows.

    Returns
    -------
    Moments
        The moments; the data are not copied.

    Raises
    ------
    ValueError
        If `values` is not a two-dimensional array of finite numbers, has missing values without
        `skip_incomplete`, or `lengths` do not sum to the number of rows.

    See Also
    --------
    graph_moments : Moments on any training graph.
    MomentStream : Moments of rows that arrive in parts.
    probsfa.distributed.fit : Estimators of data on a Dask cluster.

    Examples
    --------
    >>> m = temporal_moments([[0.0], [1.0], [3.0], [7.0]], lengths=[2, 2])
    >>> m.mean, m.covariance, m.difference_moment
    (array([2.75]), array([[7.1875]]), array([[8.5]]))
    """
    rows = check_rows(values, "values", allow_nan=skip_incomplete)
    stream = MomentStream.start(rows.shape[1], check_count("lag", lag))
    sizes = None if lengths is None else check_lengths(lengths, len(rows))
    return stream.extend(rows, lengths=sizes, skip_incomplete=skip_incomplete).moments


def block_rows(n_features: int) -> int:
    """Return the number of rows of `n_features` columns in a block."""
    minimum, maximum = _BLOCK_ROWS
    return min(max(_BLOCK_SIZE // max(n_features, 1), minimum), maximum)


def rounding_variance(mean: FloatArray) -> FloatArray:
    """Return the largest variance that rounding errors give to a constant column with this mean, (D,)."""
    floor: FloatArray = (_CONSTANT_ULPS * np.finfo(np.float64).eps * mean) ** 2
    return floor


def _add_rows(moments: Moments, rows: FloatArray, skip_incomplete: bool) -> Moments:
    """Return the moments with rows added, without differences."""
    n, origin, offset = moments.n_rows, moments.origin, moments.offset
    scatter = moments.scatter.copy()
    size = block_rows(rows.shape[1])
    for start in range(0, len(rows), size):
        block = rows[start : start + size]
        if skip_incomplete:
            complete = ~np.isnan(block).any(axis=1)
            if not complete.all():
                block = block[complete]
        m = len(block)
        if m == 0:
            continue
        if n == 0:
            origin = block[0].copy()
        centred = np.empty((m + 1, rows.shape[1]), dtype=np.float64)
        np.subtract(block, origin, out=centred[:m])
        mean = np.ones(m, dtype=np.float64) @ centred[:m] / m
        centred[:m] -= mean
        # The update of the scatter by means is an additional row, so that one matrix product suffices for a
        # block.
        centred[m] = (mean - offset) * np.sqrt(n * (m / (n + m)))
        scatter += centred.T @ centred
        offset = offset + (mean - offset) * (m / (n + m))
        n += m
    return replace(moments, n_rows=n, origin=origin, offset=offset, scatter=scatter)


def _difference_scatter(
    earlier: FloatArray,
    later: FloatArray,
    starts: NDArray[np.intp],
    first: int,
    lag: int,
    skip_incomplete: bool,
) -> tuple[int, FloatArray]:
    """Return the number of valid pairs of rows, and the sum of outer products of their differences.

    `first` is the index of the first later row and `starts` are the indices at which sequences begin; a pair
    is valid if at least `lag` rows of the sequence precede its later row.
    """
    count, total = 0, np.zeros((later.shape[1], later.shape[1]), dtype=np.float64)
    size = block_rows(later.shape[1])
    for start in range(0, len(later), size):
        stop = min(start + size, len(later))
        index = np.arange(first + start, first + stop)
        valid = index - starts[np.searchsorted(starts, index, side="right") - 1] >= lag
        change = later[start:stop] - earlier[start:stop]
        if skip_incomplete:
            valid &= ~np.isnan(change).any(axis=1)
        if not valid.all():
            change = change[valid]
        count += len(change)
        total += change.T @ change
    return count, total


# ---- centred rows, read block by block in any order


IntArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Samples minus their mean; blocks are centred when they are read.

    Attributes
    ----------
    rows : ndarray (N, D)
        Samples, not centred.
    origin, offset : ndarray (D,)
        The mean of the rows is ``origin + offset``; `origin` is a sample.
    order : ndarray (n,), int, or None
        Indices of the samples in the order of reading; None for all.
    """

    rows: FloatArray
    origin: FloatArray
    offset: FloatArray
    order: IntArray | None = None

    def __len__(self) -> int:
        """Return the number of rows to read."""
        return len(self.rows) if self.order is None else len(self.order)

    @property
    def n_features(self) -> int:
        """Number of columns, D."""
        return self.rows.shape[1]

    def reordered(self, order: IntArray) -> "CentredRows":
        """Return samples in another order: row i is row ``order[i]`` of these."""
        return replace(self, order=order if self.order is None else self.order[order])

    def take(self, index: slice | IntArray, columns: slice = slice(None)) -> FloatArray:
        """Return some rows and columns, centred, as a new array."""
        positions = index if self.order is None else self.order[index]
        centred: FloatArray = self.rows[positions, columns] - self.origin[columns]
        centred -= self.offset[columns]
        return centred

    def blocks(self, n_rows: int | None = None) -> Iterator[slice]:
        """Divide `n_rows` rows (by default all) into blocks that fit the cache."""
        n = len(self) if n_rows is None else n_rows
        size = block_rows(self.n_features)
        for start in range(0, n, size):
            yield slice(start, min(start + size, n))
