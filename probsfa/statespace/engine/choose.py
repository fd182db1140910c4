"""Choice of the algorithm of a posterior: the compiled engine, or JAX where it is not available."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from probsfa._validation import check_count
from probsfa.statespace.engine.core.algorithm import Core, supports
from probsfa.statespace.engine.core.kernels import MOST_STATES, warn_if_missing
from probsfa.statespace.engine.stateless import Stateless
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
        "core" is the compiled engine. The others use JAX: row by row, segments in parallel, or very many
        segments joined by a parallel scan, as on accelerators. The default is "core" if it is installed and
        supports the number of states, else "recursions".
    n_segments : int, optional
        Number of segments, for "segmented" and "scan".
    chunk_rows : int, optional
        Rows of a chunk, for the algorithms in JAX.

    Raises
    ------
    ValueError
        If an argument is not valid; and, inside the context, if segments do not divide the rows, or the
        compiled engine is not available.

    Notes
    -----
    The choice applies to the current thread. Likelihoods traced into JAX programs, as in
    :class:`probsfa.BayesianSFA`, never use the compiled engine; programs that are already compiled keep their
    algorithm.

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


def choose(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Core | Stateless | Sweep:
    """Return the algorithm for a model and a panel.

    Parameters
    ----------
    params : Parameters
        Parameters of the model, with white noise.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether results are only used for optimizer steps, for which five digits suffice.

    Raises
    ------
    ValueError
        If the model or the panel does not support the choice of :func:`~probsfa.statespace.use_strategy`.
    """
    if params.n_states == 0:
        return Stateless()
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
    # Imported here: importing JAX takes longer than most results of the compiled engine.
    from probsfa.statespace.engine.sweep import Sweep

    return Sweep(*request)


def strategy_for_sampling(n_rows: int, n_states: int) -> Strategy:
    """Return the algorithm of a likelihood that is traced into a JAX program and runs many times.

    Parameters
    ----------
    n_rows : int
        Number of rows, all in one chunk.
    n_states : int
        Dimension of the state.
    """
    from probsfa.statespace.engine.sweep import jax_strategy, sampling_strategy

    request = _request.get()
    if request.strategy in (None, "core"):
        return sampling_strategy(n_rows, n_states)
    return jax_strategy(n_rows, request.strategy, request.n_segments)
