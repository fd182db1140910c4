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
    total : int or None
        Most evaluations; None where that is not known.
    desc, unit, value : str
        What is done, what is counted, and what the best value is.
    """

    def __init__(
        self,
        shown: bool,
        total: int | None,
        desc: str = "fit",
        unit: str = "posterior",
        value: str = "log-likelihood",
    ) -> None:
        self._bar: Any = tqdm(total=total, desc=desc, unit=unit, file=sys.stderr, disable=not shown)
        self._value = value

    def __enter__(self) -> Report:
        return self._report

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def _report(self, count: int, best: float) -> None:
        self._bar.update(count - self._bar.n)
        self._bar.set_postfix_str(f"{self._value} {best:.6g}", refresh=False)
