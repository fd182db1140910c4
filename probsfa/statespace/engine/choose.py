"""Which algorithm computes a posterior: the compiled engine, or one of JAX's where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from probsfa._validation import check_count
from probsfa.statespace.engine.core.algorithm import Core, supports
from probsfa.statespace.engine.core.kernels import MOST_STATES, warn_if_missing
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

if TYPE_CHECKING:
    from probsfa.statespace.engine.strategy import Strategy
    from probsfa.statespace.engine.sweep import Sweep

__all__ = ["choose", "strategy_for_sampling", "use_strategy"]

#: The algorithms, by name.
StrategyName = Literal["core", "recursions", "segmented", "scan"]


class _Request(NamedTuple):
    strategy: StrategyName | None = None
    n_segments: int | None = None
    chunk_rows: int | None = None


_NOTHING = _Request()
_request: ContextVar[_Request] = ContextVar("engine_request", default=_NOTHING)


@contextmanager
def use_strategy(
    strategy: StrategyName | None = None, *, n_segments: int | None = None, chunk_rows: int | None = None
) -> Iterator[None]:
    """Compute posteriors with a given algorithm, for tests and measurements.

    Parameters
    ----------
    strategy : {"core", "recursions", "segmented", "scan"}, optional
        The compiled engine; or with JAX: row by row, in segments side by side, or in very many segments
        joined by a parallel scan, as on accelerators. By default the compiled engine where it is installed
        and has kernels for so many states, else recursions.
    n_segments : int, optional
        Number of segments of the last two.
    chunk_rows : int, optional
        Rows of a chunk of the last three.

    Raises
    ------
    ValueError
        If an argument is not valid; and, inside the context, if segments do not divide the rows, or the
        compiled engine is not there.

    Notes
    -----
    It holds for the thread that enters it. Likelihoods that are traced into programs of JAX, as those of
    :class:`probsfa.BayesianSFA`, are never those of the compiled engine; a program that is compiled already
    keeps its algorithm.

    Examples
    --------
    >>> import numpy as np
    >>> from probsfa import ProbabilisticSFA
    >>> from probsfa.statespace import use_strategy
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=0)
    >>> model = ProbabilisticSFA(n_components=1).fit(X)
    >>> with use_strategy("recursions"):
    ...     value = model.log_likelihood(X)
    >>> bool(np.isclose(value, model.log_likelihood_, rtol=1e-10))
    True
    """
    if strategy is not None and strategy not in get_args(StrategyName):
        known = ", ".join(map(repr, get_args(StrategyName)))
        raise ValueError(f"strategy must be one of {known}; got {strategy!r}.")
    for name, count in (("n_segments", n_segments), ("chunk_rows", chunk_rows)):
        if count is not None:
            check_count(name, count)
    outside = _request.get()
    token = _request.set(
        _Request(
            strategy or outside.strategy, n_segments or outside.n_segments, chunk_rows or outside.chunk_rows
        )
    )
    try:
        yield
    finally:
        _request.reset(token)


def choose(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Core | Sweep:
    """Return the algorithm for a model and a panel.

    Parameters
    ----------
    params : Parameters
        Parameters of the model, with white noise.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether results only tell an optimizer where to step next, for which five digits suffice.

    Raises
    ------
    ValueError
        If :func:`~probsfa.statespace.use_strategy` asks for what the model or the panel does not allow.
    """
    request = _request.get()
    if request.strategy == "core" and not supports(params):
        raise ValueError(
            "strategy='core' needs the compiled engine, which is installed where there is a compiler, and "
            f"at most {MOST_STATES} states; this model has {params.n_states}."
        )
    if request.strategy in (None, "core") and supports(params):
        return Core(for_steps)
    if request.strategy is None and params.n_states <= MOST_STATES:
        warn_if_missing()
    # Loaded here: importing JAX takes longer than most results of the compiled engine.
    from probsfa.statespace.engine.sweep import Sweep

    return Sweep(*request)


def strategy_for_sampling(n_rows: int, n_states: int) -> Strategy:
    """Return the algorithm of a likelihood that is traced into a program of JAX and run many times.

    Parameters
    ----------
    n_rows : int
        Rows, all in one piece.
    n_states : int
        Dimension of the state.
    """
    from probsfa.statespace.engine.sweep import jax_strategy, sampling_strategy

    request = _request.get()
    if request.strategy in (None, "core"):
        return sampling_strategy(n_rows, n_states)
    return jax_strategy(n_rows, request.strategy, request.n_segments)
