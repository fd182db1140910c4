"""Delimited text files: values as texts and as numbers, and output with some values replaced."""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from probsfa._typing import BoolArray, FloatArray
from probsfa.cli._errors import CommandError
from probsfa.cli.tables.content import Content

__all__ = ["MISSING", "Table", "as_numbers", "make_table", "split_codes"]

# Texts for missing values in any file.
MISSING = frozenset({"", "na", "n/a", "<na>", "nan", "null", "none"})

_DELIMITERS = (",", ";", "\t", "|")
_DATE_PATTERN = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ].*)?")
_DECIMAL_COMMA_PATTERN = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?")
_THOUSANDS_PATTERN = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
# Number of rows from which the decimal mark is inferred.
_SAMPLE_ROWS = 2000


@dataclass(frozen=True)
class Table:
    """A delimited text file.

    Attributes
    ----------
    content : Content
        Text of the file.
    delimiter, decimal, thousands : str
        Delimiter of values, decimal mark, and separator of groups of three digits ("" for none).
    names : tuple of str
        Names of the columns.
    has_header : bool
        Whether the file has a header.
    texts : DataFrame (T, number of columns)
        Texts of the values of all rows of data, without surrounding blanks.
    rows : list of int
        Index of each row of data among all records of the file, including header, blank and skipped lines.
    n_skipped : int
        Number of lines before the table.
    n_blank : int
        Number of final records that consist of delimiters and are not used.
    codes : frozenset of str
        Texts for missing values in addition to `MISSING`, in lower case.
    """

    content: Content
    delimiter: str
    decimal: str
    thousands: str
    names: tuple[str, ...]
    has_header: bool
    texts: pd.DataFrame
    rows: list[int]
    n_skipped: int = 0
    n_blank: int = 0
    codes: frozenset[str] = frozenset()

    @property
    def source(self) -> str:
        """Name of the file in messages."""
        return self.content.source

    def where(self, row: int, column: int) -> str:
        """Return the location of a value: file, row (from 1, with header and skipped lines) and column."""
        return f"{self.source}: row {self.rows[row] + 1}, column {self.names[column]!r}"

    def missing(self, column: int) -> BoolArray:
        """Return a mask of the texts of a column that represent missing values."""
        return np.asarray(self.texts[column].str.lower().isin(MISSING | self.codes), dtype=bool)

    def numbers(self, column: int) -> tuple[FloatArray, BoolArray]:
        """Return the numbers of a column, NaN for other texts, and a mask of invalid texts.

        A text is invalid if it is neither a finite number nor a missing value.
        """
        values = as_numbers(self.texts[column], self.decimal, self.thousands)
        codes = as_numbers(pd.Series(sorted(self.codes), dtype=str), self.decimal, self.thousands)
        missing = self.missing(column) | np.isin(values, codes[np.isfinite(codes)])
        is_invalid = ~np.isfinite(values) & ~missing
        values[missing | is_invalid] = np.nan
        return values, is_invalid

    def filled(self, new_texts: Callable[[int], Iterable[tuple[int, str]]]) -> Iterator[str]:
        """Yield the text of the file in pieces, with some values replaced.

        All other characters are unchanged: digits, quotes, blanks, line ends. `new_texts` returns pairs of
        column and text for the replaced values of a row.
        """
        preamble, body = _split_lines(self.content.text, self.n_skipped)
        yield preamble
        row_of_record = {place: row for row, place in enumerate(self.rows)}
        for place, (record, _) in enumerate(_records(self.source, body, self.delimiter), self.n_skipped):
            changes = dict(new_texts(row_of_record[place])) if place in row_of_record else {}
            yield _replace_values(record, changes, self.delimiter) if changes else record


def as_numbers(texts: pd.Series, decimal: str = ".", thousands: str = "") -> FloatArray:
    """Convert texts to numbers; NaN for texts that are not numbers.

    Examples
    --------
    >>> as_numbers(pd.Series(["1.234,5", "x"]), ",", ".").tolist()
    [1234.5, nan]
    """
    if thousands:
        separator = "[ \u00a0\u2009\u202f]" if thousands == " " else re.escape(thousands)
        texts = texts.str.replace(rf"(?<=\d){separator}(?=\d{{3}}(?!\d))", "", regex=True)
    if decimal == ",":
        texts = texts.str.replace(".", "?", regex=False).str.replace(",", ".", regex=False)
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(dtype=np.float64, copy=True)
    numbers[texts.str.contains(r"\s").to_numpy(dtype=bool)] = np.nan  # pandas reads "1e 5"
    return numbers


def split_codes(given: Iterable[str], decimal: str | None = ".") -> list[str]:
    """Split the values of ``--missing-code`` at commas, or at semicolons if numbers have a decimal comma.

    Examples
    --------
    >>> split_codes(["-999,-99.9", "?"]), split_codes(["-99,9; bad"], ",")
    (['-999', '-99.9', '?'], ['-99,9', 'bad'])
    """
    separator = ";" if decimal == "," else ","
    return [code.strip() for text in given for code in text.split(separator) if code.strip()]


def make_table(
    content: Content,
    *,
    delimiter: str | None = None,
    decimal: str | None = None,
    thousands: str = "",
    header: str = "auto",
    skip_rows: int = 0,
    codes: Sequence[str] = (),
) -> Table:
    """Read a text as a table.

    The arguments are options of the command. By default the delimiter (comma, semicolon, tab or bar) and the
    decimal mark (point or comma) are inferred. By default the first record is a header unless it has only
    numbers and dates.
    """
    source, body = content.source, _split_lines(content.text, skip_rows)[1]
    if not body.strip():
        raise CommandError(
            f"{source}: the file is empty{' after the rows of --skip-rows' * bool(skip_rows)}."
        )
    delimiter = delimiter or _infer_delimiter(body)
    records = [[value.strip() for value in values] for _, values in _records(source, body, delimiter)]
    nonempty = [record_index for record_index, values in enumerate(records) if any(values)]
    if not nonempty:
        raise CommandError(f"{source}: the file has only delimiters.")
    header_index, last = nonempty[0], nonempty[-1]
    names = records[header_index]
    if decimal is None:
        decimal = "." if thousands else _infer_decimal(records[header_index : header_index + _SAMPLE_ROWS])
    rows_below = [values for values in records[header_index + 1 : header_index + 21] if values]
    has_header = header == "yes" or (header == "auto" and _is_header(names, rows_below, decimal, thousands))
    if max(map(len, records)) <= 1:  # a blank line is a missing value of the only column
        rows = list(range(header_index + has_header, last + 1))
    else:
        rows = [
            i for i in range(header_index + has_header, last + 1) if any(records[i]) or len(records[i]) > 1
        ]
    if not rows:
        raise CommandError(f"{source}: the file has a header and no data.")
    width = len(records[rows[0]])
    if has_header and width == len(names) + 1:
        # Rows of data may end in a delimiter, or begin with row names that have no header.
        names = [*names, ""] if not any(records[i][-1] for i in rows) else ["", *names]
    elif not has_header:
        names = [f"column {j + 1}" for j in range(width)]
    for i in rows:
        records[i] = records[i] or [""]
        if len(records[i]) != len(names):
            raise CommandError(
                f"{source}: row {i + skip_rows + 1} has {len(records[i])} values and row "
                f"{header_index + skip_rows + 1} has {len(names)}. If {delimiter!r} is not the delimiter, "
                "name it "
                "with --delimiter; skip lines in front of the table with --skip-rows."
            )
    return Table(
        content,
        delimiter,
        decimal,
        thousands,
        tuple(names),
        has_header,
        pd.DataFrame([records[i] for i in rows], dtype=str),
        [i + skip_rows for i in rows],
        skip_rows,
        n_blank=sum(len(values) > 1 for values in records[last + 1 :]),
        codes=frozenset(code.lower() for code in split_codes(codes, decimal)),
    )


def _split_lines(text: str, n: int) -> tuple[str, str]:
    """Split a text after its first `n` lines."""
    match = re.match(rf"(?:[^\r\n]*(?:\r\n|\r|\n)){{0,{n}}}", text)
    end = match.end() if match else 0
    return text[:end], text[end:]


def _records(source: str, text: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the text of each record, including line ends, and its values."""
    lines_of_record: list[str] = []

    def lines() -> Iterator[str]:
        for line in io.StringIO(text, newline=""):
            lines_of_record.append(line)
            yield line

    reader = csv.reader(lines(), delimiter=delimiter, skipinitialspace=delimiter != " ")
    record = ""
    try:
        for values in reader:
            record = "".join(lines_of_record)
            yield record, values
            lines_of_record.clear()
        list(csv.reader([record], reader.dialect, strict=True))
    except csv.Error as error:
        if "unexpected end" in str(error):
            raise CommandError(f"{source}: a quotation mark is not closed; add the missing one.") from None
        if lines_of_record:
            raise CommandError(f"{source}: line {reader.line_num}: {error}.") from None


def _is_header(names: list[str], rows_below: list[list[str]], decimal: str, thousands: str) -> bool:
    """Return whether the first record is a header.

    A header has a text that is neither a number, a date nor a missing value. The header of a file that pandas
    wrote with an index has an empty first value.
    """
    numbers = np.isfinite(as_numbers(pd.Series(names, dtype=str), decimal, thousands))
    if not all(
        n or text.lower() in MISSING or _DATE_PATTERN.fullmatch(text)
        for n, text in zip(numbers, names, strict=True)
    ):
        return True
    has_empty_corner = len(names) > 1 and names[0] == "" and all(names[1:])
    return has_empty_corner and bool(rows_below) and all(values[0] for values in rows_below)


def _infer_delimiter(text: str) -> str:
    """Return the delimiter that splits the first lines into the same number of values.

    Several such delimiters are ranked by these criteria, the most important first:

    - the delimiter also splits the header, in which there are no decimal commas;
    - the delimiter is not the comma, which may be a decimal mark;
    - the number of values.
    """
    head = [line for line in re.split(r"\r\n|\r|\n", text[:100_000])[:50] if line.strip()][:20]

    def plausibility(delimiter: str) -> tuple[bool, bool, bool, int]:
        counts = [re.sub(r'"[^"]*"', "", line).count(delimiter) for line in head]
        header, typical_count = counts[0], counts[-1]
        is_constant = typical_count > 0 and sum(n == typical_count for n in counts) >= 0.8 * len(counts)
        return (
            is_constant,
            header in (typical_count, typical_count - 1) and header > 0,
            delimiter != ",",
            typical_count,
        )

    best = max(_DELIMITERS, key=plausibility)
    return best if plausibility(best)[-1] > 0 else ","


def _infer_decimal(records: list[list[str]]) -> str:
    """Return a comma if numbers have commas and no points, unless all commas may separate thousands."""
    values = [text for record in records for text in record if "," in text or "." in text]
    commas = [text for text in values if _DECIMAL_COMMA_PATTERN.fullmatch(text)]
    if not commas or all(map(_THOUSANDS_PATTERN.fullmatch, commas)):
        return "."
    return "." if np.isfinite(as_numbers(pd.Series(values, dtype=str))).any() else ","


def _replace_values(record: str, new: dict[int, str], delimiter: str) -> str:
    """Replace some values of a record; surrounding blanks and quotes are unchanged."""
    blanks = "" if delimiter == " " else " *"
    value = re.compile(rf'{blanks}(?:"(?:[^"]|"")*")?[^{re.escape(delimiter)}\r\n]*')
    pieces: list[str] = []
    end = column = 0
    while match := value.match(record, end):
        text, end = match[0], match.end()
        if column in new:
            core = text.strip()
            prefix, _, suffix = text.partition(core) if core else ("", "", text)
            quote = '"' if core.startswith('"') or delimiter in new[column] else ""
            text = f"{prefix}{quote}{new[column]}{quote}{suffix}"
        pieces.append(text)
        if not record.startswith(delimiter, end):
            break
        end, column = end + 1, column + 1
    return delimiter.join(pieces) + record[end:]
