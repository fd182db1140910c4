"""What a strategy is, and what a route.

A *strategy* works through a stretch of rows: forwards, which filters, and backwards, which smooths. A *route*
takes a whole panel through the engine: chunk by chunk with some strategy, from both ends at once, spread over
devices, or by the steady state without any strategy. All of them give the same numbers up to rounding; which
serves is decided in :mod:`probsfa.statespace.engine.plan` alone. What only the recursions can do, filtering
on from a given state and drawing, takes :mod:`.recursions` without asking.
"""

from typing import Any, Protocol

from jax import Array

from probsfa._typing import FloatArray
from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.moments import PackedMoments, PanelMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters


class Forward(Protocol):
    """What a forward pass leaves for the backward one, a tuple of arrays of the strategy's own."""

    @property
    def last(self) -> Gaussian:
        """Distribution of the last state given the rows."""
        ...

    @property
    def last_root(self) -> FloatArray:
        """Root ``W`` (K, K) of its covariance ``W W'``, outside compiled programs."""
        ...


class Strategy(Protocol):
    """How a stretch of rows is worked through.

    The methods are pure and are traced by compiled programs; strategies that compare equal share these.
    """

    @property
    def name(self) -> str:
        """The name by which :func:`~probsfa.statespace.use_strategy` knows it."""
        ...

    @property
    def few_passes(self) -> bool:
        """Whether its programs are as quick where the compiler goes over them less often."""
        ...

    @property
    def shares_forward(self) -> bool:
        """Whether its forward pass takes long to compile: one program of it then serves sums and moments."""
        ...

    def forward(self, problem: Problem, before: Gaussian) -> tuple[Any, Array]:
        """Filter from the distribution of the state before the first row.

        Returns a :class:`Forward` and the log density (T,) of each row given the rows before it.
        """
        ...

    def packed_moments(self, problem: Problem, result: Any, after: Gaussian) -> PackedMoments:
        """Moments for sums over rows, from the distribution of the state after the last row."""
        ...

    def moments(self, problem: Problem, result: Any, after: Gaussian) -> RowMoments:
        """All moments of all rows, from the distribution of the state after the last row."""
        ...


class Route(Protocol):
    """How a whole panel is taken through the engine."""

    def log_likelihood(self, params: Parameters, panel: Panel) -> float:
        """Log-likelihood in nats."""
        ...

    def moments(self, params: Parameters, panel: Panel) -> PanelMoments:
        """Posterior moments of all rows, with their log-likelihoods."""
        ...

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """Sums of expected moments, with the log-likelihood."""
        ...
