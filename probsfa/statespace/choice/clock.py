"""A budget of time: fits that end when it is spent, with the best so far."""

from time import perf_counter as _now

import numpy as np

from probsfa.statespace.learning.maximum_likelihood import FitProblem, maximise
from probsfa.statespace.learning.objective import FitResult
from probsfa.statespace.parameters import Parameters

__all__ = ["Clock", "OutOfTime"]

# Parts of a budget that go to the rounds before the last one, to all rounds, and to these and the last fit.
_FOR_TRIALS, _FOR_SEARCH, _FOR_ALL = 0.4, 0.65, 0.95


class OutOfTime(KeyboardInterrupt):
    """The budget is spent; a fit ends on it as on an interrupt from the keyboard, with the best so far."""


class Clock:
    """Seconds since its making, and the ends of a budget.

    Parameters
    ----------
    budget : float or None
        Seconds, or None for as many as it takes.
    """

    def __init__(self, budget: float | None) -> None:
        self._begin = _now()
        self.budget = np.inf if budget is None else float(budget)
        self.end = _FOR_TRIALS * self.budget
        self._told = False

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return _now() - self._begin

    @property
    def left(self) -> float:
        """Seconds to the end of what is done now."""
        return self.end - self.seconds

    def climb(self, problem: FitProblem, start: Parameters | None) -> tuple[FitResult | None, str]:
        """Maximise a likelihood as long as there is time.

        Returns
        -------
        result : FitResult or None
            None where the climb ended before its first step.
        ended_by : {"", "budget", "keyboard"}
            What ended it before its own end.
        """
        self._told = False
        try:
            result = maximise(problem, start=start, report=self._report)
        except KeyboardInterrupt:  # before there is a step to go back to
            return None, "budget" if self._told else "keyboard"
        if result.status != "interrupted":
            return result, ""
        return result if result.history else None, "budget" if self._told else "keyboard"

    def _report(self, count: int, best: float) -> None:
        """End a fit where no time is left; once, as what is left of it is needed to end in order."""
        if self.left <= 0.0 and not self._told:
            self._told = True
            raise OutOfTime

    def begin(self, *, last: bool) -> None:
        """Let a round begin, the last one or one before it."""
        self.end = (_FOR_SEARCH if last else _FOR_TRIALS) * self.budget

    def finish(self) -> None:
        """Let the last fit begin."""
        self.end = _FOR_ALL * self.budget
