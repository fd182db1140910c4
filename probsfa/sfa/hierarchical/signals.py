"""Where the rows come from, chunk by chunk: an array, a stream, or what lies below in the hierarchy.

A *chunk* is an array (positions, rows, channels): some consecutive rows of the signals at every position of a
grid. A source gives its chunks anew, in the same order, every time it is asked.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import numpy as np

from probsfa._arrays import check_array
from probsfa.expansions._base import FloatArray

__all__ = [
    "ArraySource",
    "MappedSource",
    "Source",
    "StoredSource",
    "StreamSource",
    "check_stream_lengths",
    "peek",
]


class Source(Protocol):
    """Rows in chunks, as often as asked."""

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels)."""

    def count_rows(self) -> int:
        """Return the number of rows of all chunks."""


class ArraySource:
    """The rows of an array (N, positions * channels), without a copy."""

    def __init__(self, values: FloatArray, n_positions: int, chunk_rows: int) -> None:
        self.values = values
        self.n_positions = n_positions
        self.chunk_rows = chunk_rows

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels), views of the array."""
        yield from _cut(self.values, self.n_positions, self.chunk_rows)

    def count_rows(self) -> int:
        """Return the number of rows."""
        return len(self.values)


class StreamSource:
    """The rows of the arrays that a callable yields each time it is called.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Knows the number of columns; see :func:`peek`.
    factory : callable
        Returns an iterable of array-likes (rows, D), the same every time.
    n_rows : int, optional
        Rows of all of them together, where that is known.
    """

    def __init__(
        self,
        estimator: Any,
        factory: Callable[[], Iterable[Any]],
        n_positions: int,
        chunk_rows: int,
        *,
        n_rows: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.factory = factory
        self.n_positions = n_positions
        self.chunk_rows = chunk_rows
        self.n_rows = n_rows
        self._expected = "lengths sum to" if n_rows is not None else "it yielded before"

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks (positions, rows, channels).

        Raises
        ------
        ValueError
            If the callable yields anything but complete rows of numbers, or not as many as before.
        """
        for values in self._pieces():
            yield from _cut(values, self.n_positions, self.chunk_rows)

    def count_rows(self) -> int:
        """Return the number of rows, by a pass over them the first time."""
        if self.n_rows is None:
            self.n_rows = sum(len(values) for values in self._pieces())
        return self.n_rows

    def _pieces(self) -> Iterator[FloatArray]:
        seen = 0
        for i, piece in enumerate(_iterate(self.factory)):
            values = _check_piece(self.estimator, piece, i, reset=False)
            seen += len(values)
            yield values
        if self.n_rows is None:
            self.n_rows = seen
        if seen != self.n_rows:
            raise ValueError(
                f"X is a callable that yielded {seen} rows; {self._expected} {self.n_rows}. It is called "
                "once for every pass over the data and must yield the same rows each time."
            )


class StoredSource:
    """Chunks that are held in memory."""

    def __init__(self, held: list[FloatArray]) -> None:
        self.held = held

    def chunks(self) -> Iterator[FloatArray]:
        """Yield the chunks."""
        yield from self.held

    def count_rows(self) -> int:
        """Return the number of rows."""
        return sum(chunk.shape[1] for chunk in self.held)


class MappedSource:
    """What a function makes of the chunks of another source, computed again on every pass."""

    def __init__(self, below: Source, function: Callable[[FloatArray], FloatArray]) -> None:
        self.below = below
        self.function = function

    def chunks(self) -> Iterator[FloatArray]:
        """Yield chunks, one for each below."""
        for chunk in self.below.chunks():
            yield self.function(chunk)

    def count_rows(self) -> int:
        """Return the number of rows below."""
        return self.below.count_rows()


def _cut(values: FloatArray, n_positions: int, chunk_rows: int) -> Iterator[FloatArray]:
    for start in range(0, len(values), chunk_rows):
        rows = values[start : start + chunk_rows]
        yield rows.reshape(len(rows), n_positions, -1).transpose(1, 0, 2)


def _iterate(factory: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    pieces = factory()
    try:
        return iter(pieces)
    except TypeError:
        raise ValueError(
            f"X is a callable, so it must return an iterable of arrays (rows, features); it returned "
            f"{type(pieces).__name__}."
        ) from None


def peek(estimator: Any, factory: Callable[[], Iterable[Any]]) -> None:
    """Set the number of columns and their names from the first array that a callable yields.

    Raises
    ------
    ValueError
        If it yields nothing, or no complete array of numbers.
    """
    for piece in _iterate(factory):
        _check_piece(estimator, piece, 0, reset=True)
        return
    raise ValueError("X is a callable that yielded nothing; wanted arrays (rows, features).")


def _check_piece(estimator: Any, piece: Any, index: int, *, reset: bool) -> FloatArray:
    name = f"chunk {index} of X"
    return check_array(estimator, piece, name, reset=reset, allow_nan=False, min_rows=1)


def check_stream_lengths(lengths: Any) -> tuple[int, ...] | None:
    """Return the rows of every sequence of a stream, whose sum is known only after a pass over it."""
    if lengths is None:
        return None
    sizes = np.asarray(lengths)
    if sizes.ndim != 1 or sizes.size == 0 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise ValueError(f"lengths must be positive integers, the rows of every sequence; got {lengths!r}.")
    return tuple(sizes.tolist())
