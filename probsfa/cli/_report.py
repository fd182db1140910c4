"""Results as plain text."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from probsfa.imputation import Comparison, Score

__all__ = ["align", "scores_as_csv", "scores_as_text"]

_HEADINGS = ("", "RMSE", "MAE", "coverage (90 %)", "seconds")


def scores_as_text(comparisons: "Iterable[Comparison]") -> str:
    """Return the scores as text tables; errors are in standard deviations of the columns."""
    tables = (f"{c.hidden}\n{align([_HEADINGS, *map(_score_as_texts, c.scores)])}" for c in comparisons)
    return "\n\n".join([*tables, "Errors are in units of each column's standard deviation."])


def scores_as_csv(comparisons: "Iterable[Comparison]") -> str:
    """Return the scores as CSV text, one row for each method and pattern of hidden values."""
    from probsfa.imputation import Score

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["hidden", *(field.name for field in fields(Score))])
    for comparison in comparisons:
        for score in comparison.scores:
            method, *values = asdict(score).values()
            writer.writerow([comparison.hidden, method, *("" if v is None else f"{v:.6g}" for v in values)])
    return text.getvalue()


def align(rows: Sequence[Sequence[str]]) -> str:
    """Align values in columns: the first column to the left, other columns to the right.

    Examples
    --------
    >>> print(align([["", "RMSE"], ["mean", "1.0"]]))
            RMSE
      mean   1.0
    """
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(others, widths[1:], strict=True))]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _score_as_texts(score: "Score") -> tuple[str, ...]:
    coverage_text = "-" if score.coverage is None else f"{100.0 * score.coverage:.1f} %"
    return score.method, f"{score.rmse:.3f}", f"{score.mae:.3f}", coverage_text, f"{score.seconds:.1f}"
