"""What an algorithm of JAX is: how a run of rows is filtered forwards and smoothed backwards."""

from typing import Any, Protocol

from jax import Array

from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem


class Forward(Protocol):
    """What a forward pass leaves for the backward one, a tuple of arrays of the algorithm's own."""

    @property
    def last(self) -> Gaussian:
        """Distribution of the last state given the rows."""
        ...


class Strategy(Protocol):
    """How a run of rows is worked through.

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
