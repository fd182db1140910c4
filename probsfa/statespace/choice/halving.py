"""Rounds of successive halving (Jamieson & Talwalkar 2016): fewer candidates, more rows, more evaluations."""

from typing import NamedTuple

__all__ = ["Rung", "halving_schedule"]

# Minimum number of rows of the first round.
_MIN_ROWS = 2000
# Growth factor of the rows from round to round; evaluations of the first round and of the others.
_ROW_GROWTH = 16
_MAX_FIRST_EVALUATIONS, _MAX_LATER_EVALUATIONS = 30, 40
# Share of the candidates that continues; its minimum number, and the maximum number in the last round.
_SELECTED_SHARE, _MIN_SELECTED, _MAX_SELECTED = 1 / 4, 2, 3


class Rung(NamedTuple):
    """A round of successive halving.

    Attributes
    ----------
    n_candidates : int
        Candidates that take part.
    n_rows : int
        Number of rows of each fit.
    max_iter : int
        Maximum number of likelihood evaluations of each fit.
    """

    n_candidates: int
    n_rows: int
    max_iter: int


def halving_schedule(n_candidates: int, n_rows: int, n_latents: int = 1) -> list[Rung]:
    """Return the rounds of a comparison of candidates.

    Each round uses sixteen times the rows of the round before, up to all rows, and keeps a fourth of the
    candidates: at least two, and at most three in the last round. For short series, two rounds use all rows.

    Parameters
    ----------
    n_candidates : int
        Number of candidates.
    n_rows : int
        Number of all rows.
    n_latents : int, default=1
        Number of states of the largest candidate; the first round has at least 100 rows for each.

    Returns
    -------
    list of Rung

    Examples
    --------
    >>> from probsfa.statespace.choice.halving import halving_schedule
    >>> for rung in halving_schedule(12, 20_000):
    ...     print(*rung)
    12 2000 30
    3 20000 40
    """
    rows = min(n_rows, max(_MIN_ROWS, 100 * n_latents))
    rungs = [Rung(n_candidates, rows, _MAX_FIRST_EVALUATIONS)]
    while len(rungs) < 2 or rows < n_rows:
        # Use all rows if the next round would have at least two thirds of them.
        rows = n_rows if 3 * _ROW_GROWTH * rows >= 2 * n_rows else _ROW_GROWTH * rows
        retained = min(
            rungs[-1].n_candidates, max(_MIN_SELECTED, round(_SELECTED_SHARE * rungs[-1].n_candidates))
        )
        rungs.append(
            Rung(min(retained, _MAX_SELECTED) if rows >= n_rows else retained, rows, _MAX_LATER_EVALUATIONS)
        )
    return rungs
