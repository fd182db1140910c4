"""Which strategy and which route serve: decided here, and nowhere else; and how to ask for one."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, NamedTuple, get_args

import jax
import numpy as np

from probsfa._threads import n_cores
from probsfa._validation import check_count
from probsfa.statespace.engine import information_form, steady_state
from probsfa.statespace.engine.batched import MOST_UNROLLED
from probsfa.statespace.engine.compiler import on_cpu
from probsfa.statespace.engine.covariance_form import (
    MOST_COLUMNS,
    MOST_PRECISION,
    CovarianceForm,
    largest_precision,
)
from probsfa.statespace.engine.dynamics import transition_over
from probsfa.statespace.engine.information_form import InformationForm
from probsfa.statespace.engine.native import route as native
from probsfa.statespace.engine.native.route import NativeSegments
from probsfa.statespace.engine.parallel_scan import ParallelScan
from probsfa.statespace.engine.recursions import Recursions
from probsfa.statespace.engine.segmented import Segmented
from probsfa.statespace.engine.sharding import Sharded
from probsfa.statespace.engine.steady_state import SteadyState
from probsfa.statespace.engine.strategy import Route, Strategy
from probsfa.statespace.engine.sweep import InTurn
from probsfa.statespace.engine.two_filter import TwoFilter
from probsfa.statespace.panel import Panel, padded_length, resident_bytes
from probsfa.statespace.parameters import Parameters

# Most latents for which segments are quicker on a CPU than one step for each row.
_MOST_SEGMENTED = MOST_UNROLLED
# Most latents of segments in the information form; fewest rows for which these repay compilation within one
# fit, where there are more latents than other segments serve; and how many there are: of fewer, XLA makes no
# vector instructions, and more do not fit into the cache.
_MOST_INFORMATION, _FEWEST_ROWS_INFORMATION, _INFORMATION_SEGMENTS = 32, 1000, 16
# Most latents for which they are quicker than updates of the rank of few columns, too.
_MOST_INFORMATION_FEW_COLUMNS = 22
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
# What may be kept of a forward pass where little besides the data is to be in memory.
_FEW_CACHED_BYTES = 64 * 2**20
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
# Products of a posterior from which it is, where there is the library.
_LEAST_WORK_STEADY = 2e8

#: The strategies, by name.
StrategyName = Literal[
    "recursions",
    "segmented",
    "information_form",
    "native",
    "parallel_scan",
    "covariance_form",
    "steady_state",
]

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
    strategy : {"recursions", "segmented", "information_form", "native", "parallel_scan", \
            "covariance_form", "steady_state"}, optional
        How rows are worked through: one by one; in segments side by side; the same by the precisions of
        states, which is quicker and loses digits where noise is tiny; this in a compiled library, where
        there is one; in very many segments joined by a parallel scan, as on accelerators; by updates of
        covariances of the rank of the columns; or, for a complete series at even steps, by the steady state.
        By default what serves is chosen.
    n_segments : int, optional
        Number of segments of the second, third and fourth; of each device inside :func:`probsfa.on_devices`.
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
        If an argument is not valid, or two of them exclude each other; and, from what is called inside, if
        the data do not allow it: segments must divide the rows, and for ``"steady_state"`` the series must be
        complete and even, with parameters whose covariances are soon steady. A fit may come by others. For
        ``"native"`` there must be a library, and up to 160 states.

    Notes
    -----
    It holds for the thread that enters it. Inside another one, it adds to what that asks for. Likelihoods
    that are traced into programs of JAX, as those of :class:`probsfa.BayesianSFA`, know ``"recursions"``,
    ``"segmented"`` and ``"parallel_scan"`` alone; a program that is compiled already keeps the one it has.

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
    for name, count in (("n_segments", n_segments), ("chunk_rows", chunk_rows)):
        if count is not None:
            check_count(name, count)
    if cached_bytes is not None and cached_bytes < 0:
        raise ValueError(f"cached_bytes must not be negative; got {cached_bytes!r}.")
    asked = Request(strategy, n_segments, two_filter, chunk_rows, cached_bytes)
    given = {name: value for name, value in asked._asdict().items() if value is not None}
    request = _request.get()._replace(**given)
    if request.strategy in ("steady_state", "native") and request.two_filter:
        raise ValueError(f"two_filter=True excludes strategy={request.strategy!r}.")
    token = _request.set(request)
    try:
        yield
    finally:
        _request.reset(token)


class Plan(NamedTuple):
    """How a panel is worked through.

    Attributes
    ----------
    strategy : Strategy or None
        How stretches of rows are; None where the route has no need of a strategy.
    route : Route
        How the whole panel is.
    reason : str
        Why, in words.
    """

    strategy: Strategy | None
    route: Route
    reason: str


_ASKED = "it is asked for"
_LIBRARY = "segments of rows go side by side through a compiled library, by the precisions of states"


def plan(params: Parameters, panel: Panel, *, for_steps: bool = False) -> Plan:
    """Choose how a panel is worked through.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    for_steps : bool, default=False
        Whether eight digits serve, as they do where sums only tell how to change the parameters.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If :func:`~probsfa.statespace.use_strategy` asks for what the data do not allow.
    """
    request = _request.get()
    chosen = _on_one_device(params, panel, request, for_steps)
    share = _device_share(panel, params.n_states, request)
    if share is None:
        return chosen
    devices = _devices.get()
    reason = f"{chosen.reason}; sums over rows are spread over {len(devices)} devices"
    return chosen._replace(route=Sharded(chosen.route, devices, share), reason=reason)


def _on_one_device(params: Parameters, panel: Panel, request: Request, for_steps: bool) -> Plan:
    (n_rows, n_features), n_states = panel.values.shape, params.n_states
    library = _takes_library(params, panel, request, for_steps)
    # The steady state is a program of JAX, which must be worth its compilation where the library needs none.
    quick = library and n_rows * n_states**2 * (n_states + n_features) < _LEAST_WORK_STEADY
    n_end = None if quick else _steady_end(params, panel, request)
    if n_end is not None:
        reason = f"nothing is missing, and covariances are steady within {n_end} rows"
        return Plan(None, SteadyState(n_end), reason if request.strategy is None else _ASKED)
    if library:
        return Plan(None, NativeSegments(), _LIBRARY if request.strategy is None else _ASKED)

    choose = _chooser(params, panel, request, for_steps)
    rows = _rows_of_chunks(n_rows, n_states, request)
    strategy, reason = choose(rows)
    in_turn = (strategy, rows, _cached_bytes(request))
    if not _both_ends(n_rows, n_states, request):
        return Plan(strategy, InTurn(*in_turn), reason)
    half = rows if request.chunk_rows is None else min(rows, -(-n_rows // 2))
    if request.two_filter is None:
        reason += ", and there is enough work for a thread at each end of the rows"
    return Plan(strategy, TwoFilter(*in_turn, half_rows=half, half_strategy=choose(half)[0]), reason)


def in_turn(params: Parameters, panel: Panel, *, for_steps: bool = False) -> InTurn | NativeSegments:
    """One chunk after the other, for rows of which little besides may be in memory."""
    request = _request.get()
    if _takes_library(params, panel, request, for_steps):
        return NativeSegments(_FEW_CACHED_BYTES)
    rows = _rows_of_chunks(panel.values.shape[0], params.n_states, request)
    strategy, _ = _chooser(params, panel, request, for_steps)(rows)
    return InTurn(strategy, rows, min(_cached_bytes(request), _FEW_CACHED_BYTES))


def _chooser(
    params: Parameters, panel: Panel, request: Request, for_steps: bool
) -> Callable[[int], tuple[Strategy, str]]:
    """What gives the strategy for chunks of so many rows of a panel, and why."""
    few_columns = request.strategy is None and _has_few_columns(params, panel)
    mid_sized = (
        request.strategy is None
        and not (few_columns and params.n_states > _MOST_INFORMATION_FEW_COLUMNS)
        and _suits_information_form(params, panel, for_steps)
    )

    def choose(rows: int) -> tuple[Strategy, str]:
        n_segments = _INFORMATION_SEGMENTS
        if mid_sized and rows % n_segments == 0 and rows // n_segments >= _SHORTEST_SEGMENT:
            reason = f"{n_segments} segments of rows go side by side, by the precisions of states"
            return InformationForm(n_segments), reason
        if few_columns:
            return CovarianceForm(), "there are many latents and few columns"
        return _choose_strategy(rows, params.n_states, _FEWEST_ROWS, request)

    return choose


def strategy_for_sampling(n_rows: int, n_states: int) -> Strategy:
    """Strategy for a likelihood that is traced into a program which is run many thousand times.

    It is chosen by shapes alone, because one program serves any parameters and any data. Hence it is never
    one whose accuracy or use depends on these. A program that JAX has compiled already keeps its strategy.

    Parameters
    ----------
    n_rows : int
        Rows, all in one piece.
    n_states : int
        Dimension of the state.
    """
    request = _request.get()
    if request.strategy in ("information_form", "covariance_form", "steady_state"):
        request = Request()
    return _choose_strategy(n_rows, n_states, _FEWEST_ROWS_SAMPLING, request)[0]


def settings_for_draws(n_rows: int, n_states: int) -> tuple[int, int]:
    """Rows of a chunk, and most memory for the forward pass, where states are drawn row by row."""
    request = _request.get()
    return _chunk_rows(n_rows, n_states, request), _cached_bytes(request)


def _cached_bytes(request: Request) -> int:
    return _CACHED_BYTES if request.cached_bytes is None else request.cached_bytes


def _chunk_rows(n_rows: int, n_states: int, request: Request) -> int:
    return chunk_rows(n_rows, n_states) if request.chunk_rows is None else request.chunk_rows


def _rows_of_chunks(n_rows: int, n_states: int, request: Request) -> int:
    """Rows of a chunk of a panel, the same from one end and from both, which share programs."""
    if request.chunk_rows is not None or not _both_ends(n_rows, n_states, request):
        return _chunk_rows(n_rows, n_states, request)
    half = -(-n_rows // 2)
    rows = min(chunk_rows(half, n_states), half)
    if n_rows >= _FEWEST_ROWS_INFORMATION and n_states <= _MOST_INFORMATION:
        rows = padded_length(rows)  # segments must divide it
    return rows


def chunk_rows(n_rows: int, n_states: int) -> int:
    """Rows of each chunk of a panel with ``n_rows``; chunks are equally long, so one program serves all."""
    segments = n_states <= _MOST_INFORMATION
    if not on_cpu():
        size = _ACCELERATOR_CHUNK_BYTES
    else:
        size = _CHUNK_BYTES if n_states <= _MOST_SEGMENTED else _RECURSIONS_CHUNK_BYTES
    most = int(np.clip(size // (8 * n_states**2), _FEWEST_CHUNK_ROWS, _MOST_CHUNK_ROWS))
    n_chunks = -(-n_rows // most)
    # Chunks are cut into segments, and so need lengths that have many divisors.
    if n_chunks == 1 or (not segments and n_rows % n_chunks == 0):
        return n_rows // n_chunks
    return padded_length(-(-n_rows // n_chunks))


def _choose_strategy(n_rows: int, n_states: int, fewest_rows: int, request: Request) -> tuple[Strategy, str]:
    """Strategy for stretches of ``n_rows``, and why; by shapes alone."""
    if request.strategy is not None:
        return _requested_strategy(n_rows, request), _ASKED
    if not on_cpu():
        if n_rows <= _SEGMENTS[0]:
            return Recursions(), f"{n_rows} rows are too few to be joined by a parallel scan"
        n_segments = _segments_at_once(n_rows)
        return ParallelScan(n_segments), f"an accelerator takes {n_segments} segments at once"
    if n_states > _MOST_SEGMENTED:
        return Recursions(), f"{n_states} latents fill a processor row by row"
    if n_rows < fewest_rows:
        return Recursions(), f"{n_rows} rows are too few to repay the compilation of segments"
    for n_segments in _SEGMENTS:
        if n_rows % n_segments == 0 and n_rows // n_segments >= _SHORTEST_SEGMENT:
            return Segmented(n_segments), f"few latents: {n_segments} segments of rows go side by side"
    return Recursions(), f"{n_rows} rows cannot be cut into equal segments"


def _requested_strategy(n_rows: int, request: Request) -> Strategy:
    if request.strategy == "covariance_form":
        return CovarianceForm()
    kinds: dict[str | None, type[Segmented] | type[InformationForm]] = {
        "segmented": Segmented,
        "information_form": InformationForm,
        "parallel_scan": ParallelScan,
    }
    if request.strategy not in kinds:
        return Recursions()
    shortest = 1 if request.strategy == "parallel_scan" else 2
    if request.n_segments is not None:
        known: tuple[int, ...] = (request.n_segments,)
    else:
        usual: dict[str | None, tuple[int, ...]] = {
            "segmented": _SEGMENTS,
            "information_form": (_INFORMATION_SEGMENTS, 8, 4, 2),
        }
        known = usual.get(request.strategy) or (_segments_at_once(n_rows),)
    fitting = [s for s in known if n_rows % s == 0 and n_rows // s >= shortest]
    if not fitting:
        raise ValueError(
            f"strategy={request.strategy!r} needs rows that {' or '.join(map(str, known))} segments divide, "
            f"with {shortest} or more in each; there are {n_rows}."
        )
    return kinds[request.strategy](fitting[0])


def _segments_at_once(n_rows: int) -> int:
    """Number of equally long segments, as many as an accelerator is filled with.

    Where no short segments divide the rows evenly, each row is one.
    """
    lengths = [n for n in range(1, _LONGEST_SEGMENT + 1) if n_rows % n == 0]
    return n_rows // next((n for n in lengths if n_rows // n <= _MOST_SEGMENTS_AT_ONCE), lengths[-1])


def _steady_end(params: Parameters, panel: Panel, request: Request) -> int | None:
    """Rows of an end by the steady state; None where it is of no use: gaps, a short or a slow series."""
    asked = request.strategy == "steady_state"
    if asked:
        most, ends = panel.n_rows // 2 - 1, tuple(2**i for i in range(32))
        fits = True
    else:
        most, ends = min(_ENDS[-1], int(_LONGEST_END * panel.n_rows)), _ENDS
        size = resident_bytes(panel.values)
        fits = (
            # Whoever asks for chunks, segments or two threads means to use them.
            request._replace(cached_bytes=None) == _NOTHING
            and size is not None
            and size <= _MOST_BYTES_STEADY
            and panel.n_rows >= _FEWEST_ROWS_STEADY
        )
    n_end = None
    one_even_series = panel.complete and len(panel.lengths) == 1 and panel.gaps.size == 1
    if one_even_series and fits:
        needed = steady_state.rows_of_an_end(params, panel.gaps, most)
        n_end = None if needed is None else next((n for n in ends if needed <= n <= most), None)
    if asked and n_end is None:
        raise ValueError(
            "strategy='steady_state' needs one complete series at even steps, at least twice as long as it "
            f"takes covariances to be steady; these {panel.n_rows} rows are not."
        )
    return n_end


def _takes_library(params: Parameters, panel: Panel, request: Request, for_steps: bool) -> bool:
    """Whether a panel goes through the compiled library."""
    if request.strategy == "native":
        if not native.suits(params):
            raise ValueError(
                "strategy='native' needs the compiled library, which is made when the package is installed "
                f"where there is a C compiler, and up to {native.MOST_STATES} states; this model has "
                f"{params.n_states}, and the library {'is there' if native.serves() else 'is not'}."
            )
        return True
    most = native.MOST_PRECISION_OF_STEPS if for_steps else information_form.most_precision(params)
    return (
        # Whoever asks for chunks, segments or two threads means to use them.
        request._replace(cached_bytes=None) == _NOTHING
        and native.suits(params)
        and on_cpu()
        and information_form.largest_precision(params, panel) <= most
    )


def _has_few_columns(params: Parameters, panel: Panel) -> bool:
    """Whether updates of the rank of the columns are quicker than recursions, and as accurate."""
    n_features, n_states = params.loadings.shape
    return (
        n_states > _MOST_SEGMENTED
        and n_features <= MOST_COLUMNS * n_states
        and on_cpu()
        and largest_precision(params, transition_over(params, panel.gaps), panel.n_rows) <= MOST_PRECISION
    )


def _suits_information_form(params: Parameters, panel: Panel, for_steps: bool) -> bool:
    """Whether segments in the information form are quicker than row by row, and as accurate."""
    fewest_rows = _FEWEST_ROWS_INFORMATION if params.n_states > _MOST_SEGMENTED else _FEWEST_ROWS
    return (
        1 <= params.n_states <= _MOST_INFORMATION
        and panel.values.shape[0] >= fewest_rows
        and on_cpu()
        and information_form.largest_precision(params, panel)
        <= information_form.most_precision(params, for_steps=for_steps)
    )


def _both_ends(n_rows: int, n_states: int, request: Request) -> bool:
    """Whether two threads are quicker: with two cores and enough work on matrices that fill only one."""
    if request.two_filter is not None or request.strategy is not None:
        return bool(request.two_filter) and n_rows > 1
    return (
        n_states > _MOST_SEGMENTED
        and n_rows * (n_states**3 + _ROW_WORK) >= _LEAST_WORK
        and n_cores() > 1
        and on_cpu()
    )


def _device_share(panel: Panel, n_states: int, request: Request) -> Segmented | None:
    """How each of several devices works through its rows; None where the work is not to be shared."""
    n_devices, n_rows = len(_devices.get()), panel.values.shape[0]
    if n_devices < 2 or n_rows % n_devices or n_rows < n_devices * _FEWEST_ROWS_ON_A_DEVICE:
        return None
    if _chunk_rows(n_rows, n_states, request) < n_rows:
        return None
    try:
        own, _ = _choose_strategy(n_rows // n_devices, n_states, _FEWEST_ROWS_ON_A_DEVICE, request)
    except ValueError:  # segments that are asked for divide all rows, but not those of a device
        return None
    return own if isinstance(own, Segmented) else None
