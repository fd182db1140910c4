"""What a strategy is, and how one is asked for.

A *strategy* works through a stretch of rows: forwards, which filters, and backwards, which smooths. A *route*
takes a whole panel through the engine: chunk by chunk with some strategy, from both ends at once, spread over
devices, or by the steady state without any strategy. All of them give the same numbers up to rounding; which
serves is decided by :func:`probsfa.statespace.engine.plan.plan` alone.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple, Protocol, get_args

import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa.statespace.engine.dynamics import Gaussian
from probsfa.statespace.engine.moments import PackedMoments, RowMoments
from probsfa.statespace.engine.problem import Problem
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]
StrategyName = Literal["recursions", "segmented", "parallel_scan", "covariance_form", "steady_state"]


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
        """The name by which :func:`use_strategy` knows it."""
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

    def moments(
        self, params: Parameters, panel: Panel
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Means (N, K), covariances (N, K, K), lag-one covariances (N - 1, K, K), row log-likelihoods."""
        ...

    def expected_statistics(self, params: Parameters, panel: Panel) -> Statistics:
        """Sums of expected moments, with the log-likelihood."""
        ...


class Request(NamedTuple):
    """What :func:`use_strategy` asks for; None where the plan is to choose."""

    strategy: StrategyName | None = None
    n_segments: int | None = None
    two_filter: bool | None = None
    chunk_rows: int | None = None
    cached_bytes: int | None = None


_NOTHING = Request()
_request: ContextVar[Request] = ContextVar("engine_request", default=_NOTHING)


def requested() -> Request:
    """What is asked for here and now."""
    return _request.get()


@contextmanager
def use_strategy(
    strategy: StrategyName | None = None,
    *,
    n_segments: int | None = None,
    two_filter: bool | None = None,
    chunk_rows: int | None = None,
    cached_bytes: int | None = None,
) -> Iterator[None]:
    """Have the engine work in a given way, whatever serves best, for tests and measurements.

    Parameters
    ----------
    strategy : {"recursions", "segmented", "parallel_scan", "covariance_form", "steady_state"}, optional
        How rows are worked through: one by one; in segments side by side; in very many segments joined by a
        parallel scan, as on accelerators; by updates of covariances of the rank of the columns; or, for a
        complete series at even steps, by the steady state. By default what serves is chosen.
    n_segments : int, optional
        Number of segments of the second and the third.
    two_filter : bool, optional
        Whether sums over rows are computed from both ends at once, with a thread at each. Not with
        ``"steady_state"``. By default no where a strategy is given.
    chunk_rows : int, optional
        Rows of a chunk.
    cached_bytes : int, optional
        Most memory in which the forward pass of many chunks is kept for the backward pass; beyond it, the
        pass is made again.

    Raises
    ------
    ValueError
        If there is no such strategy; and, from what is called inside, if the data do not allow it: they must
        be complete and even for ``"steady_state"``, and segments must divide the rows.

    See Also
    --------
    probsfa.on_devices : Spread long series over several devices.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.statespace import use_strategy
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=0)
    >>> model = ProbabilisticSFA(n_components=1).fit(X)
    >>> with use_strategy("segmented", n_segments=8):
    ...     value = model.log_likelihood(X)
    >>> bool(np.isclose(value, model.log_likelihood_, rtol=1e-10))
    True
    """
    if strategy is not None and strategy not in get_args(StrategyName):
        known = ", ".join(map(repr, get_args(StrategyName)))
        raise ValueError(f"strategy must be one of {known}; got {strategy!r}.")
    token = _request.set(Request(strategy, n_segments, two_filter, chunk_rows, cached_bytes))
    try:
        yield
    finally:
        _request.reset(token)
