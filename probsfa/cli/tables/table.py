"""A delimited text file, kept as the text it is.

A cell that is not filled must come out as it went in, to the last character: its digits, its quotes and the
spaces around it. So a table keeps the bytes of the file and where its cells lie in them, numbers are read
from copies, and filling replaces the bytes of missing cells alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.cells import Cells, cut
from probsfa.cli.tables.content import Content, read_content
from probsfa.cli.tables.missing import Missing
from probsfa.cli.tables.numbers import Style, guess_decimal, is_in_thousands, is_with_comma

__all__ = ["NewTexts", "Table", "make_table", "read_table"]

DELIMITERS = (",", ";", "\t", "|")
NewTexts = Callable[[slice], Mapping[int, Mapping[int, str]]]
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
# Rows whose new texts are put in at a time.
_BLOCK_ROWS = 16_384
# Cells that are looked at to tell decimal marks.
_ENOUGH_CELLS = 20_000


@dataclass(frozen=True)
class Table:
    """A delimited text file.

    Attributes
    ----------
    content : Content
        Its text.
    delimiter : str
        What separates cells.
    rows : ndarray of int (T,)
        Which of the lines hold data.
    names : tuple of str
        Names of the columns.
    named : bool
        Whether a line of the file names the columns.
    style : Style
        How numbers are written.
    n_blank : int
        Lines at the end that hold delimiters and nothing else; they are no rows.
    """

    content: Content
    delimiter: str
    rows: NDArray[np.int64]
    names: tuple[str, ...]
    named: bool
    style: Style
    n_blank: int = 0

    @property
    def source(self) -> str:
        """What the file is called in messages."""
        return self.content.source

    @cached_property
    def cells(self) -> Cells:
        """Where the cells of every line lie in the text, the header and blank lines included."""
        return cut(self.content, self.delimiter)

    def release(self) -> None:
        """Forget where the cells are, which can take more memory than the text, until that is asked again."""
        self.__dict__.pop("cells", None)

    def texts(self, column: int) -> list[str]:
        """Return the texts of a column, without quotes and surrounding spaces."""
        return self.cells.texts(self._cells_of(column))

    def text(self, index: int, column: int) -> str:
        """Return the text of one cell."""
        return self.cells.texts(self._cells_of(column)[index : index + 1])[0]

    def where(self, index: int, column: int) -> str:
        """Name a cell of the data: file, row (the header is row 1) and column."""
        return f"{self.source}: row {self.rows[index] + 1}, column {self.names[column]!r}"

    def numbers(self, column: int, missing: Missing) -> NDArray[np.float64]:
        """Return the numbers of a column, NaN where missing.

        Parameters
        ----------
        column : int
            Which column.
        missing : Missing
            Which texts and numbers mean that a cell is missing.

        Returns
        -------
        ndarray (T,)
            One number for each row of data.

        Raises
        ------
        CommandError
            If a cell is neither missing nor a finite number; names file, row and column.
        """
        values, bad = self.read_numbers(column, missing)
        if bad:
            raise self.not_a_number(bad[0], column)
        return values

    def read_numbers(self, column: int, missing: Missing) -> tuple[FloatArray, list[int]]:
        """Return the numbers of a column as `Style.numbers` does: NaN where there is none, and bad rows."""
        values = self.cells.numbers(self._cells_of(column)) if self.style == Style() else None
        if values is None:
            return self.style.numbers(self.texts(column), missing)
        return missing.without_codes(values), []

    def not_a_number(self, index: int, column: int) -> CommandError:
        """Make the error of a cell that is neither missing nor a number; it says which option may help."""
        text = self.text(index, column)
        where, shown = self.where(index, column), _shorten(text)
        if len(self.names) == 1 and any(d in text for d in DELIMITERS):
            return CommandError(
                f"{where}: {shown} is not a number; is {self.delimiter!r} the delimiter? See --delimiter."
            )
        if is_in_thousands(text) and self.style == Style():
            ungrouped, fraction = text.replace(",", ""), text.replace(",", ".", 1)
            other = "" if text.count(",") > 1 or "." in text else f", or --decimal , for {fraction}"
            return CommandError(
                f"{where}: {shown} is not a number as it stands; say --thousands , for {ungrouped}{other}."
            )
        if is_with_comma(text):
            return CommandError(f"{where}: {shown} is not a number; for a decimal comma say --decimal ,")
        if Style(self.style.decimal, " ").number(text) is not None:
            return CommandError(f"{where}: {shown} is not a number as it stands; say --thousands ' '.")
        if Style(",", ".").number(text) is not None:
            return CommandError(
                f"{where}: {shown} is not a number as it stands; say --decimal , --thousands ."
            )
        return CommandError(
            f"{where}: {shown} is not a finite number; say --missing-code if it stands for missing, "
            "--time if it tells the time, or leave the column out with --exclude."
        )

    def filled(self, texts: NewTexts) -> Iterator[bytes]:
        """Give the file's bytes with some cells replaced, piece by piece.

        Parameters
        ----------
        texts : callable
            Called with a slice of rows, one after the other; gives for each column in which cells change the
            new texts by the number of the row. So few of them are in memory at a time.

        Yields
        ------
        bytes
            The next piece of the file, the header included.
        """
        cells, data, position = self.cells, self.cells.data, 0
        yield self.content.bom
        for start in range(0, len(self.rows), _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, len(self.rows))
            places: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
            new: list[str] = []
            for column, by_row in texts(slice(start, stop)).items():
                places.append(np.asarray(cells.lines[self.rows[list(by_row)]] + column, dtype=np.int64))
                new += by_row.values()
            changed = np.concatenate(places)
            order = np.argsort(changed)
            changed = changed[order]
            spans = zip(cells.starts[changed].tolist(), cells.ends[changed].tolist(), strict=True)
            pieces = []
            for (begin, end), i in zip(spans, order.tolist(), strict=True):
                pieces.append(data[position:begin])
                old = data[begin:end].decode(cells.codec)
                pieces.append(_replace(old, new[i], self.delimiter).encode(cells.codec))
                position = end
            last = int(cells.ends[cells.lines[self.rows[stop - 1] + 1] - 1])
            pieces.append(data[position:last])
            position = last
            yield self.content.encoded(b"".join(pieces))
        yield self.content.encoded(data[position:])

    def _cells_of(self, column: int) -> NDArray[np.int64]:
        return np.asarray(self.cells.lines[self.rows] + column)


def read_table(path: Path, **options: str | int | None) -> Table:
    """Read a delimited text file, packed or not; see `make_table` and `read_content`."""
    return make_table(read_content(path), **options)  # type: ignore[arg-type]


def make_table(
    content: Content,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str = "",
    header: str = "auto",
    skip_rows: int = 0,
) -> Table:
    """Cut a text into a table.

    Parameters
    ----------
    content : Content
        The text.
    delimiter : str or None, default=None
        What separates cells; guessed among comma, semicolon, tab and bar where not given.
    decimal : str or None, default=None
        The decimal mark; guessed between point and comma where not given.
    thousands : str, default=""
        What groups the digits of numbers in threes.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line names the columns. "auto" says no where it holds only numbers and dates, unless
        its first cell is empty and those below are not, as data frames are written.
    skip_rows : int, default=0
        Lines in front of the table.

    Returns
    -------
    Table

    Raises
    ------
    CommandError
        If the file is empty, or a row has more or fewer cells than the header.
    """
    delimiter = delimiter or _guess_delimiter(content, skip_rows)
    cells = cut(content, delimiter)
    written = np.flatnonzero(~cells.blank())
    written = written[written >= skip_rows]
    if not len(written):
        raise CommandError(f"{content.source}: the file is empty{' behind --skip-rows' * bool(skip_rows)}.")
    if decimal is None:
        many = _ENOUGH_CELLS
        decimal = (
            guess_decimal(cells.with_byte(",", many), cells.with_byte(".", many)) if not thousands else "."
        )
    style = Style(decimal, thousands)
    top, last = int(written[0]), int(written[-1])
    first = cells.line(top)
    named = header == "yes" or (header == "auto" and _is_header(first, cells, written, style))
    rows = np.arange(top + named, last + 1)
    if not len(rows):
        raise CommandError(f"{content.source}: there is a header and no data.")
    counts = cells.counts()
    if named and counts[rows[0]] == len(first) + 1:
        first = ["", *first]  # as R writes tables: the row names have no header
    names = tuple(first) if named else tuple(f"column {j + 1}" for j in range(len(first)))
    if len(names) > 1:  # where a row has several cells, a blank line is no row
        rows = rows[~cells.empty_lines()[rows]]
    ragged = np.flatnonzero(counts[rows] != len(names))
    if len(ragged):
        row = int(rows[ragged[0]])
        raise CommandError(
            f"{content.source}: row {row + 1} has {_count(int(counts[row]))} where {len(names)} were "
            f"expected; is {delimiter!r} the delimiter? See --delimiter, and --skip-rows for lines in front "
            "of the table."
        )
    # Rows without anything in them end a file, as spreadsheets write them; elsewhere they are data.
    n_blank = int(np.count_nonzero(counts[last + 1 :] > 1))
    table = Table(content, delimiter, rows, names, named, style, n_blank)
    table.__dict__["cells"] = cells  # cut already
    return table


def _is_header(first: list[str], cells: Cells, written: NDArray[np.int64], style: Style) -> bool:
    """Whether the first line names the columns."""
    if not all(_is_number_or_date(text, style) for text in first):
        return True
    below = [cells.line(int(line))[:1] for line in written[1:21]]
    corner = len(first) > 1 and first[0] == "" and all(first[1:])
    return corner and bool(below) and all(cell and cell[0] for cell in below)


def _is_number_or_date(text: str, style: Style) -> bool:
    """Whether a text may be data: a number, a date, or what always means missing."""
    return Missing().matches(text) or style.number(text) is not None or bool(_DATE.fullmatch(text))


def _guess_delimiter(content: Content, skip_rows: int) -> str:
    """Return the delimiter that cuts the first lines into the same number of cells.

    Where several do, it is one that cuts the header too (decimal commas are in the numbers alone), rather
    another one than the comma (which may be a decimal mark), and the one that makes the most cells.
    """
    start = content.data[:100_000].decode(content.codec, "replace").replace("\r\n", "\n")
    if "\n" not in start:
        start = start.replace("\r", "\n")
    head = [line for line in start.split("\n")[skip_rows : skip_rows + 50] if line.strip()][:20]

    def plausibility(delimiter: str) -> tuple[bool, bool, bool, int]:
        # Quoted text may hold the delimiter.
        counts = [re.sub(r'"[^"]*"', "", line).count(delimiter) for line in head] or [0]
        header, usual = counts[0], counts[-1]
        same = usual > 0 and sum(n == usual for n in counts) >= 0.8 * len(counts)
        return same, header in (usual, usual - 1) and header > 0, delimiter != ",", usual

    best = max(DELIMITERS, key=plausibility)
    return best if plausibility(best)[-1] > 0 else ","


def _replace(cell: str, text: str, delimiter: str) -> str:
    """Put a new text into a raw cell, with the spaces and the quotes that the old one had."""
    core = cell.strip()
    before, _, after = cell.partition(core) if core else ("", "", cell)
    quoted = core.startswith('"') or delimiter in text
    return f'{before}"{text}"{after}' if quoted else f"{before}{text}{after}"


def _shorten(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _count(n: int) -> str:
    return "1 cell" if n == 1 else f"{n} cells"
