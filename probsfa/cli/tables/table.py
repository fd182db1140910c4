"""A delimited text file, kept as the text it is.

A cell that is not filled must come out as it went in, to the last character: its digits, its quotes and the
spaces around it. So a table keeps the raw text of every cell, numbers are read from a copy, and filling
replaces the text of missing cells alone.
"""

import gzip
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probsfa._typing import FloatArray
from probsfa.cli._errors import CommandError

__all__ = ["Missing", "Table", "plain_number", "read_table", "write_text"]


DELIMITERS = (",", ";", "\t", "|")
_NOT_A_VALUE = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WITH_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_IN_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")


class Missing:
    """Which texts and numbers mean that a cell is missing.

    Parameters
    ----------
    codes : iterable of str, default=()
        Texts that mean missing, beside an empty cell, NA, NaN, N/A, null and None. A code that is a number
        also stands for its other spellings: "-200" for "-200.0".
    """

    def __init__(self, codes: Iterable[str] = ()) -> None:
        codes = [code.strip() for code in codes]
        self.texts = _NOT_A_VALUE | {code.lower() for code in codes}
        self.numbers = frozenset(float(code) for code in codes if _NUMBER.fullmatch(code))

    def matches(self, text: str) -> bool:
        """Whether a cell's text means that it is missing."""
        return text.lower() in self.texts

    def matches_number(self, number: float) -> bool:
        """Whether a cell's number means that it is missing."""
        return number in self.numbers


@dataclass(frozen=True)
class Table:
    """A delimited text file.

    Attributes
    ----------
    path : Path
        Where it was read from.
    lines : list of list of str
        Raw text of the cells of every line, the header and blank lines included.
    rows : list of int
        Which of the lines hold data.
    names : tuple of str
        Names of the columns.
    named : bool
        Whether the file's first line names the columns.
    delimiter, decimal, encoding : str
        How it is written.
    """

    path: Path
    lines: list[list[str]]
    rows: list[int]
    names: tuple[str, ...]
    named: bool
    delimiter: str
    decimal: str
    encoding: str

    def texts(self, column: int) -> list[str]:
        """Return the texts of a column, without quotes and surrounding spaces."""
        return [_unquote(self.lines[row][column]) for row in self.rows]

    def where(self, index: int, column: int) -> str:
        """Name a cell of the data: file, row (the header is row 1) and column."""
        return f"{self.path}: row {self.rows[index] + 1}, column {self.names[column]!r}"

    def numbers(self, column: int, missing: Missing) -> FloatArray:
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
        texts = self.texts(column)
        values = np.empty(len(texts))
        for i, text in enumerate(texts):
            if missing.matches(text):
                values[i] = math.nan
                continue
            plain = plain_number(text, self.decimal)
            if not _NUMBER.fullmatch(plain) or math.isinf(float(plain)):
                raise CommandError(f"{self.where(i, column)}: {self._not_a_number(text)}")
            value = float(plain)
            values[i] = math.nan if missing.matches_number(value) else value
        return values

    def filled(self, columns: Sequence[int], texts: Sequence[Sequence[str | None]]) -> str:
        """Return the file's text with some cells replaced.

        Parameters
        ----------
        columns : sequence of int
            Columns in which cells may change.
        texts : sequence of sequences of str or None
            For each of those columns the new text of each of its data cells; None leaves a cell as it is.

        Returns
        -------
        str
            All lines, the header included.
        """
        lines = [list(line) for line in self.lines]
        for column, new in zip(columns, texts, strict=True):
            for row, text in zip(self.rows, new, strict=True):
                if text is not None:
                    lines[row][column] = _replace(lines[row][column], text, self.delimiter)
        return "\n".join(self.delimiter.join(line) for line in lines)

    def _not_a_number(self, text: str) -> str:
        """Say that a text is not a number, and which option may help."""
        if len(self.names) == 1 and any(d in text for d in DELIMITERS):
            return f"{_shorten(text)} is not a number; is {self.delimiter!r} the delimiter? See --delimiter."
        if _WITH_COMMA.fullmatch(text):
            return f"{_shorten(text)} is not a number; for a decimal comma say --decimal ,"
        return (
            f"{_shorten(text)} is not a finite number; say --missing-code if it stands for missing, or "
            "choose the columns to use with --columns."
        )


def plain_number(text: str, decimal: str) -> str:
    """Return a number's text as Python writes it: with a decimal point."""
    return text if decimal == "." else text.replace(".", "?").replace(decimal, ".")


def read_table(
    path: Path, *, delimiter: str | None = None, decimal: str | None = None, header: str = "auto"
) -> Table:
    """Read a delimited text file, gzipped or not.

    Parameters
    ----------
    path : Path
        The file; gunzipped where its content is gzip's.
    delimiter : str or None, default=None
        What separates cells; guessed among comma, semicolon, tab and bar where not given.
    decimal : str or None, default=None
        The decimal mark; guessed between point and comma where not given.
    header : {"auto", "yes", "no"}, default="auto"
        Whether the first line names the columns. "auto" says no where it holds only numbers and dates.

    Returns
    -------
    Table

    Raises
    ------
    CommandError
        If the file cannot be read, is empty, or a row has more or fewer cells than the header.
    """
    text, encoding = _read_text(path)
    if "\0" in text:
        raise CommandError(f"{path}: not a text file.")
    delimiter = delimiter or _guess_delimiter(text)
    lines = _split(text, delimiter, path)
    # Rows without anything in them end a file, as spreadsheets write them; elsewhere they are data.
    written = [i for i, line in enumerate(lines) if any(cell.strip() for cell in line)]
    if not written:
        raise CommandError(f"{path}: the file is empty.")
    decimal = decimal or _guess_decimal(lines)
    first = [_unquote(cell) for cell in lines[written[0]]]
    numeric = all(_is_number_or_date(text, decimal) for text in first)
    named = header == "yes" or (header == "auto" and not numeric)
    rows = list(range(written[0] + named, written[-1] + 1))
    if not rows:
        raise CommandError(f"{path}: there is a header and no data.")
    if named and len(lines[rows[0]]) == len(first) + 1:
        first = ["", *first]  # as R writes tables: the row names have no header
    names = tuple(first) if named else tuple(f"column {j + 1}" for j in range(len(first)))
    if len(names) > 1:  # where a row has several cells, a blank line is no row
        rows = [row for row in rows if lines[row] not in ([""], ["\r"])]
    for row in rows:
        if len(lines[row]) != len(names):
            raise CommandError(
                f"{path}: row {row + 1} has {_count(len(lines[row]))} where {len(names)} were expected; "
                f"is {delimiter!r} the delimiter? See --delimiter."
            )
    return Table(path, lines, rows, names, named, delimiter, decimal, encoding)


def write_text(path: Path, text: str, encoding: str) -> None:
    """Write text as it is, gzipped where the name ends in .gz."""
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def _read_text(path: Path) -> tuple[str, str]:
    """Return the text of a file and its encoding."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except FileNotFoundError:
        raise CommandError(f"{path}: there is no such file.") from None
    except (OSError, EOFError) as error:
        raise CommandError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16"), "utf-16"
    try:
        encoding = "utf-8-sig" if content[:3] == b"\xef\xbb\xbf" else "utf-8"
        return content.decode(encoding), encoding
    except UnicodeDecodeError:
        return content.decode("latin-1"), "latin-1"  # reads any bytes, and writes the same ones


def _guess_delimiter(text: str) -> str:
    """Return the delimiter that cuts the first lines into the same number of cells.

    Where several do, it is one that cuts the header too (decimal commas are in the numbers alone), rather
    another one than the comma (which may be a decimal mark), and the one that makes the most cells.
    """
    head = [line for line in text[:100_000].split("\n")[:50] if line.strip()][:20]

    def plausibility(delimiter: str) -> tuple[bool, bool, bool, int]:
        # Quoted text may hold the delimiter.
        counts = [re.sub(r'"[^"]*"', "", line).count(delimiter) for line in head] or [0]
        header, usual = counts[0], counts[-1]
        same = usual > 0 and sum(n == usual for n in counts) >= 0.8 * len(counts)
        return same, header in (usual, usual - 1) and header > 0, delimiter != ",", usual

    best = max(DELIMITERS, key=plausibility)
    return best if plausibility(best)[-1] > 0 else ","


def _guess_decimal(lines: Sequence[Sequence[str]]) -> str:
    """Return the decimal mark: a comma where numbers are written with one and none with a point.

    If all of them could be thousands ("1,234"), nothing is guessed; that is for the user to say.
    """
    commas = [text for text in _cells_with(",", lines) if _WITH_COMMA.fullmatch(text)]
    if not commas or all(map(_IN_THOUSANDS.fullmatch, commas)):
        return "."
    return "." if any(map(_NUMBER.fullmatch, _cells_with(".", lines))) else ","


def _cells_with(mark: str, lines: Iterable[Sequence[str]]) -> Iterator[str]:
    return (_unquote(cell) for line in lines for cell in line if mark in cell)


def _split(text: str, delimiter: str, path: Path) -> list[list[str]]:
    """Cut a text into the raw cells of its lines; a quoted cell may hold delimiters and line ends."""
    if '"' not in text:
        return [line.split(delimiter) for line in text.split("\n")]
    end = re.escape(delimiter)
    cell = re.compile(rf'([^\S\n]*"(?:[^"]|"")*"[^\S\n]*|(?![^\S\n]*")[^{end}\n]*)({end}|\n|\Z)')
    lines: list[list[str]] = [[]]
    position = 0
    while True:
        match = cell.match(text, position)
        if match is None:
            raise CommandError(f"{path}: row {len(lines)} has a quotation mark in the wrong place.")
        lines[-1].append(match[1])
        position = match.end()
        if match[2] == "":
            return lines
        if match[2] == "\n":
            lines.append([])


def _is_number_or_date(text: str, decimal: str) -> bool:
    """Whether a text may be data: a number, a date, or what always means missing."""
    number = _NUMBER.fullmatch(plain_number(text, decimal))
    return text.lower() in _NOT_A_VALUE or bool(number or _DATE.fullmatch(text))


def _unquote(cell: str) -> str:
    """Return the text of a raw cell, without quotes and surrounding spaces."""
    cell = cell.strip()
    if len(cell) >= 2 and cell[0] == cell[-1] == '"':
        return cell[1:-1].replace('""', '"').strip()
    return cell


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
