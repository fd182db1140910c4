"""Where the cells of a delimited text begin and end."""

import math
import re
from array import array
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.content import Content

__all__ = ["Cells", "cut", "unquote"]

Offsets = NDArray[np.integer]
# Bytes that are searched for delimiters at a time.
_CHUNK = 2**22
# Of such bytes Python makes numbers that are written as numbers are here, and no others.
_BLANKS = b" \t\r"
_OF_NUMBERS = b"0123456789+-.eE" + _BLANKS


@dataclass(frozen=True)
class Cells:
    """The raw cells of a text, told by where they lie in it: a few bytes for each, however long it is.

    Attributes
    ----------
    data : bytes
        The text.
    codec : str
        Its encoding.
    delimiter : str
        What separates cells.
    starts, ends : ndarray of int (N,)
        Where each cell begins, and where it has ended.
    lines : ndarray of int (L + 1,)
        Number of the first cell of each line, and of all cells.
    """

    data: bytes
    codec: str
    delimiter: str
    starts: Offsets
    ends: Offsets
    lines: Offsets

    def __len__(self) -> int:
        """Return how many lines there are; the empty one after the last line end counts."""
        return len(self.lines) - 1

    def counts(self) -> NDArray[np.int64]:
        """Return how many cells each line has."""
        lines = self.lines.astype(np.int64)
        return lines[1:] - lines[:-1]

    def raw(self, cell: int) -> str:
        """Return the text of one cell, quotes and spaces included."""
        return self.data[self.starts[cell] : self.ends[cell]].decode(self.codec)

    def line(self, line: int) -> list[str]:
        """Return the texts of a line, without quotes and surrounding spaces."""
        return self.texts(np.arange(self.lines[line], self.lines[line + 1]))

    def texts(self, cells: Offsets) -> list[str]:
        """Return the texts of some cells, without quotes and surrounding spaces."""
        data, codec = self.data, self.codec
        spans = zip(self.starts[cells].tolist(), self.ends[cells].tolist(), strict=True)
        return [unquote(data[start:end].decode(codec)) for start, end in spans]

    def numbers(self, cells: Offsets) -> FloatArray | None:
        """Return the numbers of some cells with decimal points, NaN where a cell is empty.

        Parameters
        ----------
        cells : ndarray of int (N,)
            Which cells.

        Returns
        -------
        ndarray (N,) or None
            None where a cell holds anything else: their texts must be looked at one by one.
        """
        data = self.data
        spans = zip(self.starts[cells].tolist(), self.ends[cells].tolist(), strict=True)
        raw = [data[start:end] for start, end in spans]
        joined = b"".join(raw)
        if joined.translate(None, _OF_NUMBERS):
            return None
        if joined.translate(None, _BLANKS) != joined:
            raw = [cell.strip() for cell in raw]
        try:
            values = np.array([float(cell) if cell else math.nan for cell in raw], dtype=np.float64)
        except ValueError:
            return None
        return None if np.isinf(values).any() else values

    def blank(self) -> NDArray[np.bool_]:
        """Return for each line whether there is nothing in any of its cells."""
        dispensable = b' \t\r"' + self.delimiter.encode(self.codec)
        starts = self.starts[self.lines[:-1]].tolist()
        ends = self.ends[self.lines[1:] - 1].tolist()
        spans = zip(starts, ends, strict=True)
        return np.array([not self.data[start:end].translate(None, dispensable) for start, end in spans])

    def empty_lines(self) -> NDArray[np.bool_]:
        """Return for each line whether it has no character at all, not even a delimiter."""
        first = self.lines[:-1]
        lengths = self.ends[first].astype(np.int64) - self.starts[first]
        single = self.counts() == 1
        empty = single & (lengths == 0)
        for line in np.flatnonzero(single & (lengths == 1)):
            empty[line] = self.raw(int(first[line])) == "\r"
        return empty

    def with_byte(self, mark: str, most: int) -> list[str]:
        """Return the texts of the first so many cells that hold a character of one byte."""
        if mark == self.delimiter and b'"' not in self.data:
            return []
        data = np.frombuffer(self.data, dtype=np.uint8)
        holders = np.zeros(0, dtype=np.int64)
        for start in range(0, len(data), _CHUNK):
            places = (np.flatnonzero(data[start : start + _CHUNK] == ord(mark)) + start).astype(
                self.ends.dtype
            )
            # The first cell that ends behind the mark holds it, unless the mark lies between cells.
            cells = np.minimum(np.searchsorted(self.ends, places, side="right"), len(self.ends) - 1)
            holders = np.union1d(holders, cells[(self.starts[cells] <= places) & (places < self.ends[cells])])
            if len(holders) >= most:
                break
        return self.texts(holders[:most])


def cut(content: Content, delimiter: str) -> Cells:
    """Cut a text into cells; a quoted cell may hold delimiters and line ends.

    Parameters
    ----------
    content : Content
        The text. Lines end in a line feed, after a carriage return or not, or in carriage returns alone.
    delimiter : str
        One character.

    Returns
    -------
    Cells

    Raises
    ------
    CommandError
        If a quotation mark stands where none can be.
    """
    data = content.data
    newline = b"\r" if b"\n" not in data and b"\r" in data else b"\n"
    mark = delimiter.encode(content.codec, "replace")
    if b'"' in data or len(mark) > 1:
        return _cut_quoted(content, delimiter, mark, newline)
    size = np.uint32 if len(data) < 2**32 - 1 else np.int64
    stops, breaks = [], []
    text = np.frombuffer(data, dtype=np.uint8)
    for start in range(0, len(text), _CHUNK):
        piece = text[start : start + _CHUNK]
        places = np.flatnonzero((piece == mark[0]) | (piece == newline[0]))
        breaks.append(piece[places] == newline[0])
        stops.append((places + start).astype(size))
    ends = np.concatenate([*stops, np.array([len(data)], dtype=size)])
    starts = np.concatenate([np.zeros(1, dtype=size), ends[:-1] + size(1)])
    is_break = np.concatenate([*breaks, np.ones(1, dtype=bool)])
    lines = np.concatenate([[0], np.flatnonzero(is_break) + 1])
    return Cells(data, content.codec, delimiter, starts, ends, lines)


def _cut_quoted(content: Content, delimiter: str, mark: bytes, newline: bytes) -> Cells:
    """Cut a text with quotation marks in it, cell by cell."""
    blanks = b"".join(
        re.escape(blank) for blank in (b" ", b"\t", b"\v", b"\f", b"\r") if blank not in (mark, newline)
    )
    stop = re.escape(mark) + b"|" + re.escape(newline)
    char = b"[^" + re.escape(mark) + newline + b"]" if len(mark) == 1 else b"(?:(?!" + stop + b")[\\s\\S])"
    quoted = b"[" + blanks + b']*"(?:[^"]++|"")*+"[' + blanks + b"]*"
    plain = b"(?![" + blanks + b']*")' + char + b"*+"
    scan = re.compile(b"(?:" + quoted + b"|" + plain + b")(" + stop + b"|\\Z)")
    starts, ends, lines = array("q"), array("q"), array("q", [0])
    position = 0
    while True:
        match = scan.match(content.data, position)
        if match is None:
            raise CommandError(f"{content.source}: row {len(lines)} has a quotation mark in the wrong place.")
        starts.append(position)
        ends.append(match.start(1))
        position = match.end()
        end = match[1]
        if end in (newline, b""):
            lines.append(len(starts))
            if end == b"":
                break
    parts = (np.frombuffer(numbers, dtype=np.int64) for numbers in (starts, ends, lines))
    return Cells(content.data, content.codec, delimiter, *parts)


def unquote(cell: str) -> str:
    """Return the text of a raw cell, without quotes and surrounding spaces.

    Examples
    --------
    >>> unquote(' "1.5" ')
    '1.5'
    """
    cell = cell.strip()
    if cell[:1] == '"' == cell[-1:] and len(cell) >= 2:
        return cell[1:-1].replace('""', '"').strip()
    return cell
