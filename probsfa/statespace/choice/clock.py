"""Time budget: at the deadline, a fit ends and returns its best parameters."""

from time import perf_counter as _now

import numpy as np

from probsfa.statespace.learning.maximum_likelihood import FitProblem, maximize
from probsfa.statespace.learning.objective import FitResult
from probsfa.statespace.parameters import StateSpace

__all__ = ["Clock", "OutOfTime"]

# Deadlines of the search, the comparison and the final fit, as shares of the budget.
_SEARCH, _COMPARISON, _FINAL_FIT = 0.4, 0.65, 0.95


class OutOfTime(KeyboardInterrupt):
    """Raised at the deadline; a fit handles it like a keyboard interrupt."""


class Clock:
    """Elapsed time and the deadlines of a budget.

    Parameters
    ----------
    budget : float or None
        Seconds, or None for no limit.
    """

    def __init__(self, budget: float | None) -> None:
        self._start_time = _now()
        self.budget = np.inf if budget is None else float(budget)
        self.deadline = _SEARCH * self.budget
        self._deadline_reported = False

    @property
    def seconds(self) -> float:
        """Seconds since the clock was created."""
        return _now() - self._start_time

    @property
    def remaining(self) -> float:
        """Seconds to the current deadline."""
        return self.deadline - self.seconds

    def maximize(self, problem: FitProblem, start: StateSpace | None) -> tuple[FitResult | None, str]:
        """Maximize a likelihood until the current deadline.

        Returns
        -------
        result : FitResult or None
            None if interrupted before the first optimizer step.
        ended_by : {"", "budget", "keyboard"}
            Reason of an interruption; empty if the optimization was not interrupted.
        """
        self._deadline_reported = False
        try:
            result = maximize(problem, start=start, report=self._report)
        except KeyboardInterrupt:  # before the first optimizer step
            return None, "budget" if self._deadline_reported else "keyboard"
        if result.status != "interrupted":
            return result, ""
        return result if result.history else None, "budget" if self._deadline_reported else "keyboard"

    def _report(self, count: int, best: float) -> None:
        """Raise OutOfTime after the deadline.

        It is raised only once, because the fit then evaluates its best parameters.
        """
        if self.remaining <= 0.0 and not self._deadline_reported:
            self._deadline_reported = True
            raise OutOfTime

    def begin_comparison(self) -> None:
        """Set the deadline of the comparison by held-out values."""
        self.deadline = _COMPARISON * self.budget

    def finish(self) -> None:
        """Set the deadline of the final fit."""
        self.deadline = _FINAL_FIT * self.budget
