"""Rounds of successive halving (Jamieson & Talwalkar 2016): fewer candidates, more rows, more evaluations."""

from typing import NamedTuple

__all__ = ["Rung", "halving_schedule"]

# Rows of the first rung, at least.
_FEWEST_ROWS = 2000
# By what rows grow from rung to rung; evaluations of the first rung and of the others.
_GROWTH = 16
_FIRST_EVALUATIONS, _LATER_EVALUATIONS = 30, 40
# Part of the candidates that goes on; how many do at least, and at most to the last rung.
_KEPT, _FEWEST_KEPT, _MOST_KEPT = 1 / 4, 2, 3


class Rung(NamedTuple):
    """A round of successive halving.

    Attributes
    ----------
    n_candidates : int
        Candidates that take part.
    n_rows : int
        Rows that each is fitted to.
    max_iter : int
        Most posterior evaluations of each fit.
    """

    n_candidates: int
    n_rows: int
    max_iter: int


def halving_schedule(n_candidates: int, n_rows: int, n_latents: int = 1) -> list[Rung]:
    """Return the rounds in which candidates are told apart.

    Each round takes sixteen times the rows of the one before, until it takes all, and a fourth of the
    candidates, two at least and in the last round three at most. Short series are taken whole from the
    beginning, in two rounds.

    Parameters
    ----------
    n_candidates : int
        Number of candidates.
    n_rows : int
        Number of all rows.
    n_latents : int, default=1
        Number of states of the largest candidate, each of which takes some rows.

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
    rows = min(n_rows, max(_FEWEST_ROWS, 100 * n_latents))
    rungs = [Rung(n_candidates, rows, _FIRST_EVALUATIONS)]
    while len(rungs) < 2 or rows < n_rows:
        # What would be nearly all is all.
        rows = n_rows if 2 * _GROWTH * rows >= 3 * n_rows else _GROWTH * rows
        kept = min(rungs[-1].n_candidates, max(_FEWEST_KEPT, round(_KEPT * rungs[-1].n_candidates)))
        rungs.append(Rung(min(kept, _MOST_KEPT) if rows >= n_rows else kept, rows, _LATER_EVALUATIONS))
    return rungs
