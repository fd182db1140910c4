"""Progress bar of a fit."""

import sys
import time
from typing import Any, Self

__all__ = ["Progress"]

# Minimum time between updates of the bar, in seconds, while initial parameters are optimized; these steps are
# short.
_REPORT_INTERVAL = 0.1


class Progress:
    """A progress bar on standard error that shows the number of likelihood evaluations; a context manager.

    After each evaluation, a fit calls the instance with the number of evaluations and the best value. After
    each optimizer step for initial parameters, which maximizes the Whittle likelihood, it calls
    :meth:`on_whittle_step`; before the first evaluation, the bar shows the number of these steps.

    Parameters
    ----------
    total : int or None
        Maximum number of evaluations; None if not known.
    desc, unit, value : str
        Description of the task, unit of the count, and name of the best value.
    """

    def __init__(
        self,
        total: int | None,
        desc: str = "fit",
        unit: str = "evaluation",
        value: str = "log-likelihood",
    ) -> None:
        self._total, self._desc, self._unit, self._value = total, desc, unit, value
        from tqdm import tqdm  # optional dependency

        self._bar: Any = tqdm(total=total, desc=desc, unit=unit, file=sys.stderr)
        self._n_steps, self._drawn = 0, 0.0
        self._best = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.close()

    def __call__(self, count: int, best: float) -> None:
        """Show the number of evaluations and the best value so far."""
        if self._n_steps and not self._best:  # the first evaluation, after steps for initial parameters
            self._bar.unit = self._unit
            self._bar.set_description_str(self._desc, refresh=False)
            self._bar.reset(self._total)
        self._best, self._n_steps = f"{self._value} {best:.6g}", 0
        self._bar.update(count - self._bar.n)
        self._bar.set_postfix_str(self._best, refresh=False)

    def on_whittle_step(self) -> None:
        """Count an optimizer step for initial parameters, which is not an evaluation."""
        self._n_steps += 1
        now = time.monotonic()
        if now - self._drawn < _REPORT_INTERVAL:
            return
        self._drawn = now
        if self._best:
            self._bar.set_postfix_str(f"{self._best}, step {self._n_steps} of initial parameters")
            return
        self._bar.total, self._bar.unit, self._bar.n = None, "step", self._n_steps
        self._bar.set_description_str(f"{self._desc}, initial parameters")
