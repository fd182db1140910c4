"""A bar that shows how far a fit has come, and lines beside it."""

import sys
import time
from typing import Any, Self

__all__ = ["Progress", "tell"]

# Seconds between two pictures of the bar while starts are refined, whose steps are short.
_PAUSE = 0.1


def tell(sentence: str) -> None:
    """Write a line to standard error, above any bar."""
    from tqdm import tqdm

    tqdm.write(sentence, file=sys.stderr)


class Progress:
    """A bar that counts posterior evaluations, on standard error; a context manager.

    It is what a fit reports to: called with the number of evaluations and the best value, and by
    :meth:`refined` of the steps of starts, which are counted before the first evaluation.

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
        self._total, self._desc, self._unit, self._value = total, desc, unit, value
        self._bar: Any = None
        if shown:
            from tqdm import tqdm  # without a bar, it need not be installed

            self._bar = tqdm(total=total, desc=desc, unit=unit, file=sys.stderr)
        self._n_steps, self._drawn = 0, 0.0
        self._best = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, count: int, best: float) -> None:
        """Count evaluations, and show the best value so far."""
        if self._bar is None:
            return
        if self._n_steps and not self._best:  # from now on evaluations are counted
            self._bar.unit = self._unit
            self._bar.set_description_str(self._desc, refresh=False)
            self._bar.reset(self._total)
        self._best, self._n_steps = f"{self._value} {best:.6g}", 0
        self._bar.update(count - self._bar.n)
        self._bar.set_postfix_str(self._best, refresh=False)

    def refined(self) -> None:
        """Count a step of a start, which costs no evaluation."""
        if self._bar is None:
            return
        self._n_steps += 1
        now = time.monotonic()
        if now - self._drawn < _PAUSE:
            return
        self._drawn = now
        if self._best:
            self._bar.set_postfix_str(f"{self._best}, step {self._n_steps} of a start")
            return
        self._bar.total, self._bar.unit, self._bar.n = None, "step", self._n_steps
        self._bar.set_description_str(f"{self._desc}, starts")
