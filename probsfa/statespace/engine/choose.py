"""Choice of the algorithm of a posterior: the compiled engine, or JAX where it is not available."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, get_args

from probsfa.statespace.engine.core.algorithm import Core, supports
from probsfa.statespace.engine.core.kernels import MOST_STATES, warn_if_missing
from probsfa.statespace.engine.stateless import Stateless
from probsfa.statespace.parameters import Parameters

if TYPE_CHECKING:
    from probsfa.statespace.engine.problem import Strategy
    from probsfa.statespace.engine.sweep import Sweep

__all__ = ["choose", "strategy_for_sampling", "use_strategy"]

#: The algorithms, by name.
StrategyName = Literal["core", "recursions", "segmented", "scan"]
_selected: ContextVar[StrategyName | None] = ContextVar("engine_strategy", default=None)


@contextmanager
def use_strategy(strategy: StrategyName) -> Iterator[None]:
    """Compute posteriors with a given algorithm, for tests and measurements.

    Parameters
    ----------
    strategy : {"core", "recursions", "segmented", "scan"}
        "core" is the compiled engine, the default if it is installed and supports the number of states. The
        others use JAX: row by row, segments in parallel, or very many segments joined by a parallel scan, as
        on accelerators.

    Raises
    ------
    ValueError
        If the name is not known; and, inside the context, if segments do not divide the rows, or the compiled
        engine is not available.

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
    if strategy not in get_args(StrategyName):
        known = ", ".join(map(repr, get_args(StrategyName)))
        raise ValueError(f"strategy must be one of {known}; got {strategy!r}.")
    token = _selected.set(strategy)
    try:
        yield
    finally:
        _selected.reset(token)


def choose(params: Parameters, *, for_steps: bool = False) -> Core | Stateless | Sweep:
    """Return the algorithm for a model with white noise; ``for_steps`` as in :class:`.Core`.

    Raises
    ------
    ValueError
        If the model does not support the choice of :func:`~probsfa.statespace.use_strategy`.
    """
    if params.n_states == 0:
        return Stateless()
    name = _selected.get()
    if name in (None, "core"):
        if supports(params):
            return Core(for_steps)
        if name == "core":
            raise ValueError(
                "strategy='core' requires the compiled engine (installed if there is a C compiler), and at "
                f"most {MOST_STATES} states; this model has {params.n_states}."
            )
        if params.n_states <= MOST_STATES:
            warn_if_missing()
    # Imported here: importing JAX takes longer than most results of the compiled engine.
    from probsfa.statespace.engine.sweep import Sweep

    return Sweep(name)


def strategy_for_sampling(n_rows: int, n_states: int) -> Strategy:
    """Return the algorithm of a likelihood of so many rows that is traced into a JAX program."""
    from probsfa.statespace.engine.sweep import jax_strategy, sampling_strategy

    name = _selected.get()
    if name in (None, "core"):
        return sampling_strategy(n_rows, n_states)
    return jax_strategy(n_rows, name)
