"""Which strategy and which route serve: decided here, and nowhere else; and how to ask for one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, get_args

import jax
import numpy as np

from probsfa._threads import n_cores
from probsfa.statespace.engine import steady_state
from probsfa.statespace.engine.batched import MOST_UNROLLED
from probsfa.statespace.engine.compiler import on_cpu
from probsfa.statespace.engine.covariance_form import (
    MOST_COLUMNS,
    MOST_PRECISION,
    CovarianceForm,
    largest_precision,
)
from probsfa.statespace.engine.parallel_scan import ParallelScan
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.engine.segmented import Segmented
from probsfa.statespace.engine.sharding import Sharded
from probsfa.statespace.engine.steady_state import SteadyState
from probsfa.statespace.engine.strategy import Route, Strategy
from probsfa.statespace.engine.sweep import InTurn
from probsfa.statespace.engine.two_filter import TwoFilter
from probsfa.statespace.panel import Panel, decay_over, padded_length, resident_bytes
from probsfa.statespace.parameters import Parameters

# Most latents for which segments are quicker on a CPU than one step for each row.
_MOST_SEGMENTED = MOST_UNROLLED
# Fewest rows for which segments repay their longer compilation within one fit, and where a program is run
# many thousand times, as by samplers.
_FEWEST_ROWS, _FEWEST_ROWS_SAMPLING = 4096, 64
_SEGMENTS = (64, 32, 16, 8)
_SHORTEST_SEGMENT = 8

# Segments that fill an accelerator: more would take their turns. Most rows of one: beyond, its steps take
# longer than more segments would.
_MOST_SEGMENTS_AT_ONCE, _LONGEST_SEGMENT = 8192, 64

# Rows are worked through in chunks whose matrices (K x K for each row) take about so many bytes: few enough
# to stay in the cache and to bound memory, many enough to be worth a call.
_CHUNK_BYTES = 32 * 2**20
# The recursions hold several such arrays at once. When they were larger than this, a quarter of the time
# went into pages of fresh memory.
_RECURSIONS_CHUNK_BYTES = 8 * 2**20
# An accelerator has no such cache, and each of its programs should have enough to do.
_ACCELERATOR_CHUNK_BYTES = 256 * 2**20
_MOST_CHUNK_ROWS, _FEWEST_CHUNK_ROWS = 65_536, 64
# What the forward pass leaves is cached for the backward pass up to this size; beyond it, it is made again.
_CACHED_BYTES = 1536 * 2**20

# Work below which a second thread does not pay for putting halves together and for the smaller programs (some
# 5 ms). In units of 1 ns: a row costs about K^3 of them and 10,000 more, so this is 0.05 s.
_LEAST_WORK, _ROW_WORK = 5e7, 1e4
# Rows on one device below which the exchange between devices is not worth it.
_FEWEST_ROWS_ON_A_DEVICE = 1024

# The steady state: fewest rows and largest data (bytes) for which a program of its own is worth compiling;
# rows at either end that are worked through one by one, the least of these that is enough; their largest
# share of all rows.
_FEWEST_ROWS_STEADY, _MOST_BYTES_STEADY = 2048, 512 * 2**20
_ENDS, _LONGEST_END = (32, 128, 512), 0.25

#: The strategies, by name.
StrategyName = Literal["recursions", "segmented", "parallel_scan", "covariance_form", "steady_state"]

_devices: ContextVar[tuple[jax.Device, ...]] = ContextVar("devices", default=())


@contextmanager
def on_devices(devices: Sequence[jax.Device]) -> Iterator[None]:
    """Spread long series over several JAX devices while fitting.

    Inside this context, the sums that a fit asks for are computed with the rows of the series cut into one
    run for each device, for models of few latents (up to eight) and long series (a thousand rows for each
    device); others are computed as before. Results agree to rounding.

    Parameters
    ----------
    devices : sequence of jax.Device
        For instance ``jax.devices()``. CPUs count as one device unless JAX is told otherwise before its first
        use: ``jax.config.update("jax_num_cpu_devices", 2)``.

    See Also
    --------
    probsfa.distributed.fit : Fit on a Dask cluster.

    Examples
    --------
    >>> import jax
    >>> import numpy as np
    >>> import probsfa
    >>> X = np.random.default_rng(0).standard_normal((200, 4)).cumsum(axis=0)
    >>> with probsfa.on_devices(jax.devices()):
    ...     model = probsfa.ProbabilisticSFA(n_components=1).fit(X)
    """
    token = _devices.set(tuple(devices))
    try:
        yield
    finally:
        _devices.reset(token)


class Request(NamedTuple):
    """What :func:`use_strategy` asks for; None where the plan is to choose."""

    strategy: StrategyName | None = None
    n_segments: int | None = None
    two_filter: bool | None = None
    chunk_rows: int | None = None
    cached_bytes: int | None = None


_NOTHING = Request()
_request: ContextVar[Request] = ContextVar("engine_request", default=_NOTHING)


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


class Shape(NamedTuple):
    """Rows ``T`` of a panel, padded as they are; its features ``D``; and latents ``K``."""

    n_rows: int
    n_features: int
    n_components: int


class Plan(NamedTuple):
    """How a panel is worked through.

    Attributes
    ----------
    strategy : Strategy
        How stretches of rows are worked through, where the route has any.
    route : Route
        How the whole panel is.
    reason : str
        Why, in words.
    """

    strategy: Strategy
    route: Route
    reason: str


def plan(shape: Shape, params: Parameters | None = None, panel: Panel | None = None) -> Plan:
    """Choose how a panel is worked through.

    Parameters
    ----------
    shape : Shape
        Numbers of rows, features and latents.
    params : Parameters, optional
        Parameters of the model. Without them, and the panel, the choice is for a program that is compiled
        once for any, and run many thousand times: by shapes alone, all rows in one piece.
    panel : Panel, optional
        Packed observations.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If :func:`~probsfa.statespace.use_strategy` asks for what the data do not allow.
    """
    request = _request.get()
    cached_bytes = _cached_bytes(request)
    if params is None or panel is None:
        strategy, reason = _strategy(shape, shape.n_rows, _FEWEST_ROWS_SAMPLING, request)
        return Plan(strategy, InTurn(strategy, shape.n_rows, cached_bytes), reason)

    n_end = _steady_end(params, panel, request)
    if n_end is not None and not _device_share(shape, request):
        reason = f"nothing is missing, and covariances are steady within {n_end} rows"
        return Plan(Recursions(), SteadyState(n_end), reason)

    rows = request.chunk_rows or chunk_rows(shape.n_rows, shape.n_components)
    if request.strategy in (None, "covariance_form") and _few_columns(shape, params, panel, request):
        strategy, reason = CovarianceForm(), "there are many latents and few columns"
    else:
        strategy, reason = _strategy(shape, rows, _FEWEST_ROWS, request)
    in_turn = (strategy, rows, cached_bytes)

    if _both_ends(shape, strategy, request):
        half = request.chunk_rows or chunk_rows(-(-shape.n_rows // 2), shape.n_components)
        reason += ", and enough work for a thread at each end of the rows"
        return Plan(strategy, TwoFilter(*in_turn, half_rows=half), reason)
    share = _device_share(shape, request)
    if share is not None:
        reason += f"; rows are spread over {len(_devices.get())} devices"
        return Plan(strategy, Sharded(*in_turn, _devices.get(), share), reason)
    return Plan(strategy, InTurn(*in_turn), reason)


def route_for_draws(shape: Shape) -> InTurn:
    """The route by which states are drawn, backwards and row by row whatever serves for moments."""
    request = _request.get()
    rows = request.chunk_rows or chunk_rows(shape.n_rows, shape.n_components)
    return InTurn(Recursions(), rows, _cached_bytes(request))


def _cached_bytes(request: Request) -> int:
    return _CACHED_BYTES if request.cached_bytes is None else request.cached_bytes


def chunk_rows(n_rows: int, n_components: int) -> int:
    """Rows of each chunk of a panel with ``n_rows``; chunks are equally long, so one program serves all."""
    segments = n_components <= _MOST_SEGMENTED
    if not on_cpu():
        size = _ACCELERATOR_CHUNK_BYTES
    else:
        size = _CHUNK_BYTES if segments else _RECURSIONS_CHUNK_BYTES
    most = int(np.clip(size // (8 * n_components**2), _FEWEST_CHUNK_ROWS, _MOST_CHUNK_ROWS))
    n_chunks = -(-n_rows // most)
    # Chunks are cut into segments, and so need lengths that have many divisors.
    if n_chunks == 1 or (not segments and n_rows % n_chunks == 0):
        return n_rows // n_chunks
    return padded_length(-(-n_rows // n_chunks))


def _strategy(shape: Shape, n_rows: int, fewest_rows: int, request: Request) -> tuple[Strategy, str]:
    """Strategy for stretches of ``n_rows``, and why; by shapes alone."""
    asked, n_components = request.strategy, shape.n_components
    if asked == "parallel_scan" or (asked is None and not on_cpu()):
        n_segments = request.n_segments or _segments_at_once(n_rows)
        if n_rows <= _SEGMENTS[0]:
            return Recursions(), f"{n_rows} rows are too few to be joined by a parallel scan"
        return ParallelScan(n_segments), f"an accelerator takes {n_segments} segments at once"
    if asked == "covariance_form":
        return CovarianceForm(), "it is asked for"
    if asked == "segmented" or (asked is None and n_components <= _MOST_SEGMENTED and n_rows >= fewest_rows):
        shortest = _SHORTEST_SEGMENT if asked is None else 2
        known = _SEGMENTS if request.n_segments is None else (request.n_segments,)
        fitting = [s for s in known if n_rows % s == 0 and n_rows // s >= shortest]
        if fitting:
            return Segmented(fitting[0]), f"few latents: {fitting[0]} segments of rows go side by side"
        if asked is not None:
            raise ValueError(
                f"strategy='segmented' needs rows that {' or '.join(map(str, known))} segments divide; there "
                f"are {n_rows}."
            )
        return Recursions(), f"{n_rows} rows cannot be cut into equal segments"
    if asked in ("recursions", "steady_state"):
        return Recursions(), "it is asked for"
    if n_components > _MOST_SEGMENTED:
        return Recursions(), f"{n_components} latents fill a processor row by row"
    return Recursions(), f"{n_rows} rows are too few to repay the compilation of segments"


def _segments_at_once(n_rows: int) -> int:
    """Number of equally long segments, as many as an accelerator is filled with.

    Where no short segments divide the rows evenly, each row is one.
    """
    lengths = [n for n in range(1, _LONGEST_SEGMENT + 1) if n_rows % n == 0]
    return n_rows // next((n for n in lengths if n_rows // n <= _MOST_SEGMENTS_AT_ONCE), lengths[-1])


def _steady_end(params: Parameters, panel: Panel, request: Request) -> int | None:
    """Rows of an end by the steady state; None where it is of no use: gaps, a short or a slow series."""
    if request.strategy not in (None, "steady_state"):
        return None
    asked = request.strategy is not None
    if asked:
        most, ends = panel.n_rows // 2 - 1, tuple(2**i for i in range(32))
        unfit = False
    else:
        most, ends = min(_ENDS[-1], int(_LONGEST_END * panel.n_rows)), _ENDS
        size = resident_bytes(panel.values)
        unfit = size is None or size > _MOST_BYTES_STEADY or panel.n_rows < _FEWEST_ROWS_STEADY
    n_end = None
    one_even_series = panel.complete and len(panel.lengths) == 1 and panel.gaps.size == 1
    if one_even_series and not unfit:
        needed = steady_state.rows_of_an_end(params, panel.gaps, most)
        n_end = None if needed is None else next((n for n in ends if needed <= n <= most), None)
    if asked and n_end is None:
        raise ValueError(
            "strategy='steady_state' needs one complete series at even steps, at least twice as long as it "
            f"takes covariances to be steady; these {panel.n_rows} rows are not."
        )
    return n_end


def _few_columns(shape: Shape, params: Parameters, panel: Panel, request: Request) -> bool:
    """Whether updates of the rank of the columns are quicker than recursions, and as accurate."""
    if request.strategy == "covariance_form":
        return True
    return (
        shape.n_components > _MOST_SEGMENTED
        and shape.n_features <= MOST_COLUMNS * shape.n_components
        and on_cpu()
        and largest_precision(params, decay_over(params.decay, panel.gaps), panel.n_rows) <= MOST_PRECISION
    )


def _both_ends(shape: Shape, strategy: Strategy, request: Request) -> bool:
    """Whether two threads are quicker: with two cores and enough work on matrices that fill only one."""
    if request.two_filter is not None or request.strategy is not None:
        return bool(request.two_filter)
    return (
        shape.n_components > _MOST_SEGMENTED
        and shape.n_rows * (shape.n_components**3 + _ROW_WORK) >= _LEAST_WORK
        and n_cores() > 1
        and on_cpu()
    )


def _device_share(shape: Shape, request: Request) -> Segmented | None:
    """How each of several devices works through its rows; None where the work is not to be shared."""
    n_devices = len(_devices.get())
    if n_devices < 2 or shape.n_rows % n_devices or shape.n_rows < n_devices * _FEWEST_ROWS_ON_A_DEVICE:
        return None
    if chunk_rows(shape.n_rows, shape.n_components) < shape.n_rows:
        return None
    own, _ = _strategy(shape, shape.n_rows // n_devices, _FEWEST_ROWS_ON_A_DEVICE, request)
    return own if isinstance(own, Segmented) else None
