"""Tables in Markdown, printed row by row."""

from collections.abc import Sequence

FIRST, OTHERS = 28, 7  # least widths of the first column and of the others


class Table:
    """A table in Markdown: the first column is aligned to the left, the others to the right.

    Parameters
    ----------
    *header : str
        Names of the columns; they are printed at once.
    rows : sequence of sequences
        Rows that are already known; they are printed, too, and determine the widths of the columns.
    """

    def __init__(self, *header: str, rows: Sequence[Sequence[object]] = ()) -> None:
        known = [[str(cell) for cell in row] for row in (header, *rows)]
        if rows:
            self.widths = [max(map(len, column)) for column in zip(*known, strict=True)]
        else:
            self.widths = [max(len(name), OTHERS if j else FIRST) for j, name in enumerate(header)]
        self.add(*header)
        rule = ["-" * (n - 1) + ":" if j else "-" * n for j, n in enumerate(self.widths)]
        for row in (rule, *known[1:]):
            self.add(*row)

    def add(self, *cells: object) -> None:
        """Print a row; missing entries at its end are empty."""
        texts = [*map(str, cells), *[""] * (len(self.widths) - len(cells))]
        aligned = [
            text.rjust(n) if j else text.ljust(n)
            for j, (text, n) in enumerate(zip(texts, self.widths, strict=True))
        ]
        print("| " + " | ".join(aligned) + " |", flush=True)
