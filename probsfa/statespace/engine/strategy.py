"""Interface of algorithms in JAX: forward filter and backward smoother over consecutive rows."""

from typing import Any, Protocol

from jax import Array

from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem


class Forward(Protocol):
    """Results of a forward pass that the backward pass uses, a tuple of arrays."""

    @property
    def last(self) -> Gaussian:
        """Distribution of the last state given the rows."""
        ...


class Strategy(Protocol):
    """Interface of an algorithm for consecutive rows.

    The methods are pure and are traced by compiled programs; strategies that compare equal share programs.
    """

    @property
    def name(self) -> str:
        """Name of the strategy in :func:`~probsfa.statespace.use_strategy`."""
        ...

    @property
    def few_passes(self) -> bool:
        """Whether a lower optimization level of the compiler does not slow its programs down."""
        ...

    def forward(self, problem: Problem, before: Gaussian) -> tuple[Any, Array]:
        """Filter from the distribution of the state before the first row.

        Returns a :class:`Forward` and the log density (T,) of each row given the rows before it.
        """
        ...

    def packed_moments(self, problem: Problem, result: Any, after: Gaussian) -> PackedMoments:
        """Return moments for sums over rows, from the distribution of the state after the last row."""
        ...

    def moments(self, problem: Problem, result: Any, after: Gaussian) -> RowMoments:
        """Return all moments of all rows, from the distribution of the state after the last row."""
        ...
