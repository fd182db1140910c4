"""Rounds of successive halving (Jamieson & Talwalkar 2016): fewer candidates, more rows, more evaluations."""

from typing import NamedTuple

__all__ = ["Rung", "halving_schedule"]

# Minimum number of rows of the first round, in total and for each state of the largest candidate.
_MIN_ROWS, _MIN_ROWS_PER_STATE = 2000, 100
# Factor by which the number of rows increases from round to round. If the next round would have at least the
# given share of all rows, it has all rows.
_ROW_GROWTH, _MIN_SHARE_OF_ALL = 16, 2 / 3
# Maximum numbers of likelihood evaluations of a fit in the first round, and in later rounds.
_MAX_FIRST_EVALUATIONS, _MAX_LATER_EVALUATIONS = 30, 40
# Share of the candidates that is selected for the next round, the minimum number, and the maximum number in
# the last round.
_SELECTED_SHARE, _MIN_SELECTED, _MAX_SELECTED = 1 / 4, 2, 3


class Rung(NamedTuple):
    """A round of successive halving.

    Attributes
    ----------
    n_candidates : int
        Number of candidates.
    n_rows : int
        Number of rows of each fit.
    max_iter : int
        Maximum number of likelihood evaluations of each fit.
    """

    n_candidates: int
    n_rows: int
    max_iter: int


def halving_schedule(n_candidates: int, n_rows: int, n_states: int = 1) -> list[Rung]:
    """Return the rounds of a comparison of candidates.

    Each round has sixteen times as many rows as the previous one, up to all rows, and a fourth of its
    candidates: at least two, and at most three in the last round. Short series have two rounds with all rows.

    Parameters
    ----------
    n_candidates : int
        Number of candidates.
    n_rows : int
        Number of all rows.
    n_states : int, default=1
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
    rows = min(n_rows, max(_MIN_ROWS, _MIN_ROWS_PER_STATE * n_states))
    rungs = [Rung(n_candidates, rows, _MAX_FIRST_EVALUATIONS)]
    while len(rungs) < 2 or rows < n_rows:
        rows = n_rows if _ROW_GROWTH * rows >= _MIN_SHARE_OF_ALL * n_rows else _ROW_GROWTH * rows
        n_previous = rungs[-1].n_candidates
        n_selected = min(n_previous, max(_MIN_SELECTED, round(_SELECTED_SHARE * n_previous)))
        if rows >= n_rows:
            n_selected = min(n_selected, _MAX_SELECTED)
        rungs.append(Rung(n_selected, rows, _MAX_LATER_EVALUATIONS))
    return rungs
