"""Posterior moments, log-likelihood and expected statistics of checked data.

This is the one place through which everything else asks the engine, in float64 whatever the user's JAX
configuration is, with NumPy arrays going in and coming out.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from probsfa._threads import one_blas_thread
from probsfa.statespace.engine import covariance_form, inference, steady_state, two_filter
from probsfa.statespace.engine.chunks import Chunk, Chunks, Model, chunks_of, chunks_of_halves, make_model
from probsfa.statespace.engine.inference import Problem, choose_segments
from probsfa.statespace.engine.recursions import Filtered, Law, Smoothed, backward_draws
from probsfa.statespace.engine.sharding import sharded_sums
from probsfa.statespace.engine.statistics import (
    Moments,
    ObservationSums,
    Statistics,
    complete_sums,
    observation_sums,
    transition_statistics,
)
from probsfa.statespace.engine.symmetric import unpack
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters

FloatArray = NDArray[np.float64]
Forward = inference.Forward | covariance_form.Forward


_devices: ContextVar[tuple[jax.Device, ...]] = ContextVar("devices", default=())
# Rows on one device below which the exchange between devices is not worth it.
_FEWEST_ROWS_ON_A_DEVICE = 1024


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


class Posterior(NamedTuple):
    """Law of the latents given the observations.

    Attributes
    ----------
    means : ndarray of shape (T, K)
        Posterior means.
    covariances : ndarray of shape (T, K, K)
        Posterior covariances of the latents of one time step.
    lag_one_covariances : ndarray of shape (T - 1, K, K)
        ``lag_one_covariances[t]`` is the covariance of ``z_t+1`` (rows) with ``z_t`` (columns).
    row_log_likelihoods : ndarray of shape (T,)
        Log density of each row given the rows before it, in nats; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    lag_one_covariances: FloatArray
    row_log_likelihoods: FloatArray

    @property
    def log_likelihood(self) -> float:
        """Log-likelihood of the observations, in nats."""
        return float(np.sum(self.row_log_likelihoods))

    @property
    def std(self) -> FloatArray:
        """Posterior standard deviations, shape (T, K)."""
        return np.sqrt(np.diagonal(self.covariances, axis1=1, axis2=2))


class Filtering(NamedTuple):
    """Law of each latent state given the rows up to its own.

    ``means`` (T, K), ``covariances`` (T, K, K) and ``log_likelihoods`` (T,): log density of each row given
    the rows before it; zero where nothing is observed.
    """

    means: FloatArray
    covariances: FloatArray
    log_likelihoods: FloatArray


# What the forward pass leaves is kept for the backward pass up to this size; beyond it, it is made again.
_KEPT_BYTES = 1536 * 2**20


def _problem(model: Model, chunk: Chunk, after_index: Array) -> Problem:
    if model.table.shape[0] == 2:
        decays = jnp.where((chunk.gap_index == 0)[:, None], model.table[0], 0.0)
    else:
        decays = model.table[chunk.gap_index]
    return Problem(chunk.values, chunk.mask, decays, model.table[after_index], *model[1:])


def _following_index(chunk: Chunk, after_index: Array) -> Array:
    return jnp.concatenate([chunk.gap_index[1:], jnp.asarray(after_index, chunk.gap_index.dtype)[None]])


def forward(problem: Problem, before: Law, n_segments: int) -> tuple[Forward, Array]:
    """Filter by a strategy: :data:`.FEW_COLUMNS` or a number of segments."""
    if n_segments == covariance_form.FEW_COLUMNS:
        return covariance_form.forward(problem, before)
    return inference.forward(problem, before, n_segments)


def backward(problem: Problem, result: Forward, after: Law) -> Moments:
    """Moments for the sums over rows, by the strategy of the forward pass."""
    if isinstance(result, covariance_form.Forward):
        return covariance_form.backward(problem, result, after)
    return inference.backward(problem, result, after)


def backward_in_full(problem: Problem, result: Forward, after: Law) -> Smoothed:
    """All moments of all rows, by the strategy of the forward pass."""
    if isinstance(result, covariance_form.Forward):
        return covariance_form.backward_in_full(problem, result, after)
    return inference.backward_in_full(problem, result, after)


@partial(jax.jit, static_argnames="n_segments")
def _forward_program(
    model: Model, chunk: Chunk, after_index: Array, before: Law, n_segments: int
) -> tuple[Forward, Array]:
    return forward(_problem(model, chunk, after_index), before, n_segments)


@partial(jax.jit, static_argnames="n_segments")
def _likelihood_program(
    model: Model, chunk: Chunk, after_index: Array, before: Law, n_segments: int
) -> tuple[Law, Array]:
    result, log_likelihoods = forward(_problem(model, chunk, after_index), before, n_segments)
    return result.last, jnp.sum(log_likelihoods)


def _sums(
    model: Model,
    chunk: Chunk,
    after_index: Array,
    result: Forward,
    after: Law,
    backwards: Array | bool = False,
    last_counts: Array | bool = True,
) -> tuple[tuple[Array, ...], Law]:
    """Sums of one chunk, which add up to what :func:`_completed` takes, and the law of its first state."""
    n_gaps = model.table.shape[0] - 1
    problem = _problem(model, chunk, after_index)
    moments = backward(problem, result, after)
    n_components = model.table.shape[1]
    sums = (
        *observation_sums(chunk.values, chunk.mask, model.loadings, model.offset, moments),
        *transition_statistics(
            problem.following,
            _following_index(chunk, jnp.where(last_counts, after_index, n_gaps)),
            n_gaps,
            moments,
            after.mean,
            jnp.diagonal(after.covariance),
            backwards,
        ),
    )
    return sums, Law(moments.means[:, 0], unpack(moments.covariances[:, :1].T, n_components)[0])


_sums_program = jax.jit(_sums)


def _completed(model: Model, sums: Sequence[Any]) -> tuple[Array, ...]:
    """Fields of :class:`~probsfa.statespace.engine.statistics.Statistics` after the log-likelihood."""
    n_first = len(ObservationSums._fields)
    return (*complete_sums(ObservationSums(*sums[:n_first]), model.loadings), *sums[n_first:])


_completing_program = jax.jit(_completed)


@partial(jax.jit, static_argnames="n_segments")
def _statistics_program(
    model: Model, chunk: Chunk, after_index: Array, before: Law, after: Law, n_segments: int
) -> tuple[Array, tuple[Array, ...]]:
    result, log_likelihoods = forward(_problem(model, chunk, after_index), before, n_segments)
    sums = _sums(model, chunk, after_index, result, after)[0]
    return jnp.sum(log_likelihoods), _completed(model, sums)


@jax.jit
def _moments_program(model: Model, chunk: Chunk, after_index: Array, result: Forward, after: Law) -> Smoothed:
    return backward_in_full(_problem(model, chunk, after_index), result, after)


@partial(jax.jit, static_argnames="n_segments")
def _posterior_program(
    model: Model, chunk: Chunk, after_index: Array, before: Law, after: Law, n_segments: int
) -> tuple[Smoothed, Array]:
    problem = _problem(model, chunk, after_index)
    result, log_likelihoods = forward(problem, before, n_segments)
    return backward_in_full(problem, result, after), log_likelihoods


@jax.jit
def _filter_program(
    values: Array, mask: Array, decays: Array, model: Model, before: Law
) -> tuple[Array, Array, Array]:
    problem = Problem(values, mask, decays, jnp.zeros_like(decays[0]), *model[1:])
    result, log_likelihoods = inference.forward(problem, before, 1)
    roots = result.filtered.roots
    return result.filtered.means, roots @ jnp.swapaxes(roots, 1, 2), log_likelihoods


@jax.jit
def _draw_program(
    model: Model, chunk: Chunk, after_index: Array, result: Forward, normals: Array, after: Array
) -> Array:
    problem = _problem(model, chunk, after_index)
    return backward_draws(result.filtered, problem.following, normals, after)  # type: ignore[arg-type]


class _Sweep:
    """The forward pass over all chunks, and what the backward pass needs of it."""

    def __init__(
        self,
        params: Parameters,
        panel: Panel,
        n_segments: int | None = None,
        chunks: Chunks | None = None,
        kept_bytes: int | None = None,
    ) -> None:
        n_components = params.n_components
        self.model = make_model(params, panel)
        self.chunks = chunks_of(panel, n_components) if chunks is None else chunks
        self.kept_bytes = _KEPT_BYTES if kept_bytes is None else kept_bytes
        if n_segments is None:
            few = covariance_form.suits(params, panel)
            n_segments = (
                covariance_form.FEW_COLUMNS if few else choose_segments(self.chunks.rows, n_components)
            )
        self.n_segments = n_segments
        # NumPy arrays: each JAX operation outside a compiled program is a program of its own.
        zeros = np.zeros((n_components, n_components))
        self.prior = Law(*map(jnp.asarray, (zeros[0], np.eye(n_components))))
        self.nothing = Law(*map(jnp.asarray, (zeros[0], zeros)))
        self.laws = [self.prior]
        self.kept: list[Forward] = []
        self.log_likelihoods: list[Array] = []
        self.last: Forward | None = None
        self.totals: list[FloatArray] = []

    def forward(self) -> None:
        """Filter every chunk in turn."""
        for _ in self.filter_chunks():
            pass

    def filter_chunks(self) -> Iterator[Law]:
        """Filter every chunk in turn; gives the law of each chunk's last state."""
        n_components = self.model.table.shape[1]
        size = 8 * (n_components + 1) ** 2 * self.chunks.rows * len(self.chunks)
        for k in range(len(self.chunks)):
            self.last, log_likelihoods = self._filter(k)
            self.log_likelihoods.append(log_likelihoods)
            self.laws.append(self.last.last)
            if size <= self.kept_bytes:
                self.kept.append(self.last)
            yield self.last.last

    def _filter(self, k: int) -> tuple[Forward, Array]:
        after_index = self.chunks.after_index(k)
        return _forward_program(
            self.model, self.chunks[k], after_index, self.laws[k], n_segments=self.n_segments
        )

    @property
    def log_likelihood(self) -> float:
        """Log density of all rows, after the forward pass."""
        return float(np.sum([np.sum(np.asarray(part)) for part in self.log_likelihoods]))

    @property
    def end(self) -> two_filter.End:
        """Law of the last state given all rows, after the forward pass of a strategy for many latents."""
        assert self.last is not None
        if isinstance(self.last, covariance_form.Forward):
            mean, covariance = map(np.array, self.last.last)
            return two_filter.End(mean, np.linalg.cholesky(covariance))
        assert isinstance(self.last.filtered, Filtered)
        return two_filter.End(*(np.array(x[-1]) for x in map(np.asarray, self.last.filtered[:2])))

    def sum_chunks(self, after: Law, *, backwards: bool = False) -> Iterator[Law]:
        """Add the sums of every chunk, from the last to the first, to ``totals``.

        ``after`` is the law of the state after the last row. Rows in reverse order are ``backwards``; the
        transition past their last row is then the other side's to count.
        """
        last = len(self.chunks) - 1
        for k, chunk, after_index, result in self.backward():
            sums, after = _sums_program(
                self.model, chunk, after_index, result, after, backwards, not (backwards and k == last)
            )
            if not self.totals:
                self.totals = [np.array(x) for x in sums]
            else:
                for total, part in zip(self.totals, sums, strict=True):
                    total += np.asarray(part)
            yield after

    def backward(self) -> Iterator[tuple[int, Chunk, int, Forward]]:
        """Chunks from the last to the first, with their forward pass."""
        for k in reversed(range(len(self.chunks))):
            result = self.kept.pop() if self.kept else self._filter(k)[0]
            yield k, self.chunks[k], self.chunks.after_index(k), result


def smooth(params: Parameters, panel: Panel) -> Posterior:
    """Posterior moments of the latents and log-likelihood.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.

    Returns
    -------
    Posterior
        Moments for the ``n_rows`` rows of the panel, one sequence after the other.
    """
    with jax.enable_x64(True), one_blas_thread():
        plan = steady_state.plan(params, panel)
        if plan is not None:
            return Posterior(*steady_state.smooth(params, panel, plan))
        sweep, n = _Sweep(params, panel), panel.n_rows
        if len(sweep.chunks) == 1:
            smoothed, log_likelihoods = _posterior_program(
                sweep.model,
                sweep.chunks[0],
                sweep.chunks.after_index(0),
                sweep.prior,
                sweep.nothing,
                n_segments=sweep.n_segments,
            )
            means, covariances, lag_one = map(np.asarray, smoothed)
            return Posterior(means[:n], covariances[:n], lag_one[: n - 1], np.asarray(log_likelihoods)[:n])
        sweep.forward()
        # Parts are copied into NumPy's memory, which comes in large pages, while they are in the cache: to
        # join them at the end took a fifth longer, and twice the memory.
        n_components, after = params.n_components, sweep.nothing
        whole = [np.empty((n, n_components)), *(np.empty((n, n_components, n_components)) for _ in range(2))]
        for k, chunk, after_index, result in sweep.backward():
            smoothed = _moments_program(sweep.model, chunk, after_index, result, after)
            after = Law(smoothed.means[0], smoothed.covariances[0])
            rows = slice(k * sweep.chunks.rows, (k + 1) * sweep.chunks.rows)
            for moments, part in zip(whole, smoothed, strict=True):
                moments[rows] = np.asarray(part)[: len(moments[rows])]
        means, covariances, lag_one = whole
        return Posterior(means, covariances, lag_one[: n - 1], _joined(sweep.log_likelihoods)[:n])


def _joined(parts: Any) -> FloatArray:
    arrays = [np.asarray(part) for part in parts]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def log_likelihood(params: Parameters, panel: Panel) -> float:
    """Log-likelihood of the observations in nats; the forward pass alone."""
    with jax.enable_x64(True), one_blas_thread():
        plan = steady_state.plan(params, panel)
        if plan is not None:
            return steady_state.log_likelihood(params, panel, plan)
        sweep = _Sweep(params, panel)
        law, total = sweep.prior, []
        for k in range(len(sweep.chunks)):
            law, part = _likelihood_program(
                sweep.model,
                sweep.chunks[k],
                sweep.chunks.after_index(k),
                law,
                n_segments=sweep.n_segments,
            )
            total.append(part)
        return float(np.sum(total))


def filter_rows(
    params: Parameters, panel: Panel, decays: FloatArray, mean: FloatArray, covariance: FloatArray
) -> Filtering:
    """Causal law of the states, starting from a given law of the state before the first row.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    decays : ndarray of shape (T, K)
        Decay from the row before to each row; the first may differ from zero to resume a sequence.
    mean : ndarray of shape (K,)
        Mean of the state before the first row.
    covariance : ndarray of shape (K, K)
        Its covariance.

    Returns
    -------
    Filtering
    """
    with jax.enable_x64(True), one_blas_thread():
        before = Law(jnp.asarray(mean), jnp.asarray(covariance))
        means, covariances, log_likelihoods = _filter_program(
            panel.values, panel.mask, decays, make_model(params, panel), before
        )
        n = panel.n_rows
        return Filtering(np.asarray(means)[:n], np.asarray(covariances)[:n], np.asarray(log_likelihoods)[:n])


def expected_statistics(params: Parameters, panel: Panel) -> Statistics:
    """Sums of expected moments that EM and the score are made of, with the log-likelihood."""
    with jax.enable_x64(True), one_blas_thread():
        plan = None if _devices.get() else steady_state.plan(params, panel)
        if plan is not None:
            value, found = steady_state.statistics(params, panel, plan)
            return Statistics(value, *found)
        if two_filter.pays(panel.values.shape[0], params.n_components):
            return _from_both_ends(params, panel)
        sweep = _Sweep(params, panel)
        shared = _shared_segments(sweep)
        if shared:
            total, sums = sharded_sums(sweep.model, sweep.chunks[0], _devices.get(), shared)
            return Statistics(float(total), *(np.asarray(x) for x in sums))
        if len(sweep.chunks) == 1:
            total, sums = _statistics_program(
                sweep.model,
                sweep.chunks[0],
                sweep.chunks.after_index(0),
                sweep.prior,
                sweep.nothing,
                n_segments=sweep.n_segments,
            )
            return Statistics(float(total), *(np.asarray(x) for x in sums))
        sweep.forward()
        for _ in sweep.sum_chunks(sweep.nothing):
            pass
        return _statistics(sweep, sweep.log_likelihood, sweep.totals)


def _statistics(sweep: _Sweep, log_likelihood: float, totals: list[FloatArray]) -> Statistics:
    completed = _completing_program(sweep.model, totals)
    return Statistics(log_likelihood, *(np.asarray(x) for x in completed))


def _from_both_ends(params: Parameters, panel: Panel) -> Statistics:
    """The expected statistics with one thread at each end of the rows."""
    halves = chunks_of_halves(panel, params.n_components)
    n_segments = covariance_form.FEW_COLUMNS if covariance_form.suits(params, panel) else 1
    first, second = (
        _Sweep(params, panel, n_segments=n_segments, chunks=chunks, kept_bytes=_KEPT_BYTES // 2)
        for chunks in halves
    )
    two_filter.run_both(*(map(jax.block_until_ready, side.filter_chunks()) for side in (first, second)))
    decay = np.asarray(first.model.table)[first.chunks.after_index(len(first.chunks) - 1)]
    ends = first.end, second.end
    here, there = two_filter.meet(*ends, decay), two_filter.meet(*ends[::-1], decay)
    two_filter.run_both(
        map(jax.block_until_ready, first.sum_chunks(_law(there))),
        map(jax.block_until_ready, second.sum_chunks(_law(here), backwards=True)),
    )
    value = first.log_likelihood + second.log_likelihood + here.log_ratio
    return _statistics(first, value, [x + y for x, y in zip(first.totals, second.totals, strict=True)])


def _law(meeting: two_filter.Meeting) -> Law:
    return Law(jnp.asarray(meeting.mean), jnp.asarray(meeting.covariance))


def _shared_segments(sweep: _Sweep) -> int:
    """Segments for each of several devices; 0 where the work is not to be shared."""
    n_devices, rows = len(_devices.get()), sweep.chunks.rows
    if (
        n_devices < 2
        or len(sweep.chunks) > 1
        or rows % n_devices
        or rows < n_devices * _FEWEST_ROWS_ON_A_DEVICE
    ):
        return 0
    n_segments = choose_segments(rows // n_devices, sweep.model.table.shape[1], _FEWEST_ROWS_ON_A_DEVICE)
    return n_segments if n_segments > 1 else 0


def draw_states(params: Parameters, panel: Panel, normals: FloatArray) -> FloatArray:
    """Draws from the joint law of the states given all rows, made of standard normals.

    Parameters
    ----------
    params : Parameters
        Parameters of the model.
    panel : Panel
        Packed observations.
    normals : ndarray of shape (T, n_draws, K)
        Independent standard normal numbers.

    Returns
    -------
    ndarray of shape (n_draws, N, K)
    """
    with jax.enable_x64(True), one_blas_thread():
        sweep = _Sweep(params, panel, n_segments=1)
        sweep.forward()
        rows = sweep.chunks.rows
        after, parts = np.zeros(normals.shape[1:]), []
        for k, chunk, after_index, result in sweep.backward():
            noise = normals[k * rows : (k + 1) * rows]
            noise = np.pad(noise, ((0, rows - noise.shape[0]), (0, 0), (0, 0)))
            draws = _draw_program(sweep.model, chunk, after_index, result, noise, after)
            after = draws[0]
            parts.append(draws)
        return _joined(parts[::-1])[: panel.n_rows].swapaxes(0, 1)
