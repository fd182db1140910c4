"""A bar that shows how far a fit has come, and lines beside it."""

import sys
from typing import Any

from tqdm import tqdm

from probsfa.statespace.learning.objective import Report

__all__ = ["Progress", "tell"]


def tell(sentence: str) -> None:
    """Write a line to standard error, above any bar."""
    tqdm.write(sentence, file=sys.stderr)


class Progress:
    """A bar that counts posterior evaluations, on standard error; a context manager.

    Parameters
    ----------
    shown : bool
        Whether there is a bar at all.
    total : int
        Most evaluations.
    """

    def __init__(self, shown: bool, total: int) -> None:
        self._bar: Any = tqdm(total=total, desc="fit", unit="posterior", file=sys.stderr, disable=not shown)

    def __enter__(self) -> Report:
        return self._report

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def _report(self, count: int, best: float) -> None:
        self._bar.update(count - self._bar.n)
        self._bar.set_postfix_str(f"log-likelihood {best:.6g}", refresh=False)
