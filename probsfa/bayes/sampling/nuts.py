"""The No-U-Turn sampler in whitened coordinates, run a few iterations at a time.

The sampler is that of NumPyro (Hoffman & Gelman 2014; Phan, Pradhan & Jankowiak 2019). It runs in short
compiled batches of iterations, so that progress is shown and draws are not lost after a keyboard interrupt.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from numpyro.infer.hmc import hmc
from numpyro.infer.util import ParamInfo
from sklearn.covariance import ledoit_wolf

from probsfa._typing import FloatArray
from probsfa.bayes.coordinates.data import TargetData
from probsfa.bayes.coordinates.target import Target
from probsfa.bayes.sampling.evaluation import PotentialEvaluator
from probsfa.bayes.sampling.laplace import LaplaceApproximation
from probsfa.statespace.engine.compiler import compile_program, on_cpu
from probsfa.statespace.engine.settings import engine_settings

#: Iterations of one compiled batch. The warm-up has three parts, each a whole number of batches.
BATCH_ITERATIONS = 25
# Parts of the warm-up. With two parts, the covariance is estimated only once, from draws in Laplace's
# coordinates, which are poor for short series. On 100 rows of one factor, fitted with two factors, R-hat was
# 1.016 with two parts and 1.007 with three.
_N_STAGES = 3

CHAIN_METHODS = ("auto", "vectorized", "parallel", "sequential")


def chosen_chain_method() -> str:
    """Return "parallel" on CPUs, where each chain has its own thread, and "vectorized" on accelerators.

    In a vectorized program all chains make as many leapfrog steps as the longest trajectory. On a CPU, four
    such chains take four times as long as one.
    """
    return "parallel" if on_cpu() else "vectorized"


class SamplerSettings(NamedTuple):
    """Settings of the sampler: warm-up iterations, target acceptance probability, maximum tree depth."""

    n_warmup: int
    target_accept: float
    max_tree_depth: int


class Chains(NamedTuple):
    """Results of the sampler for each chain and draw after the warm-up.

    Attributes
    ----------
    vectors : ndarray (C, N, P)
        Draws of the unconstrained parameters.
    stats : dict of ndarray (C, N)
        ``lp`` (log density, up to a constant), ``acceptance_rate``, ``n_steps``, ``diverging``, ``energy``,
        ``step_size``.
    interrupted : bool
        Whether a keyboard interrupt ended the run.
    """

    vectors: FloatArray
    stats: dict[str, NDArray[Any]]
    interrupted: bool


class _Problem(NamedTuple):
    """Data, and whitened coordinates ``u`` with ``vector = centre + factor u``."""

    data: TargetData
    centre: Array
    factor: Array


def _kernel(target: Target, problem: _Problem, settings: SamplerSettings) -> tuple[Any, Any]:
    """Return the start and step functions of the sampler of one chain, in whitened coordinates."""

    def potential(u: Array) -> Array:
        return target.potential(problem.centre + problem.factor @ u, problem.data)

    initialize, step = hmc(potential, algo="NUTS")

    def start(position: ParamInfo, key: Array, step_size: Any) -> Any:
        return initialize(
            position,
            settings.n_warmup // _N_STAGES,
            step_size=step_size,
            adapt_mass_matrix=False,
            target_accept_prob=settings.target_accept,
            max_tree_depth=settings.max_tree_depth,
            rng_key=key,
        )

    return start, step


@compile_program("target", "settings")
def _start(
    target: Target,
    problem: _Problem,
    settings: SamplerSettings,
    position: ParamInfo,
    keys: Array,
    step_size: Array,
) -> Any:
    start = _kernel(target, problem, settings)[0]
    return jax.vmap(lambda one, key: start(one, key, step_size))(position, keys)


@compile_program("target", "settings")
def _advance(
    target: Target, problem: _Problem, settings: SamplerSettings, states: Any
) -> tuple[Any, tuple[Array, ...]]:
    start, step = _kernel(target, problem, settings)
    # NumPyro's step function requires that the start function was called; the state is not used.
    zeros = jnp.zeros_like(problem.centre)
    start(ParamInfo(zeros, jnp.zeros(()), zeros), jax.random.key(0), 1.0)

    def iterate(state: Any, _: None) -> tuple[Any, tuple[Array, ...]]:
        state = step(state)
        out = (
            state.z,
            -state.potential_energy,
            state.accept_prob,
            state.num_steps,
            state.diverging,
            state.energy,
            state.adapt_state.step_size,
        )
        return state, out

    return jax.vmap(lambda state: jax.lax.scan(iterate, state, None, length=BATCH_ITERATIONS))(states)


_STATISTICS = ("lp", "acceptance_rate", "n_steps", "diverging", "energy", "step_size")
Fold = Callable[[FloatArray], FloatArray]
Report = Callable[[int], None]
Convergence = Callable[[FloatArray], bool]


class _Job:
    """Chains of one thread: the problem, their states, and outputs of the batches so far."""

    def __init__(self, problem: "_Problem", states: Any) -> None:
        self.problem, self.states = problem, states
        self.output: list[list[NDArray[Any]]] = []


def sample_chains(
    target: Target,
    data: TargetData,
    modes: Sequence[LaplaceApproximation],
    *,
    settings: SamplerSettings,
    n_draws: int,
    n_chains: int,
    chain_method: str,
    seed: int,
    fold: Fold,
    report: Report | None = None,
    max_draws: int | None = None,
    have_converged: Convergence | None = None,
) -> Chains:
    """Draw from the posterior.

    Parameters
    ----------
    target : Target
        The posterior.
    data : TargetData
        Data of the posterior density.
    modes : sequence of LaplaceApproximation
        Modes of the posterior. Chains start at draws from the normal approximations around the modes. The
        number of chains at a mode is proportional to its approximate evidence. The first mode defines the
        initial coordinates. After the first and the second third of the warm-up, the coordinates are whitened
        by the covariance of the draws of all chains.
    settings : SamplerSettings
        Settings; the warm-up is rounded up to a multiple of 75, at least 150.
    n_draws, n_chains : int
        Draws of each chain after the warm-up, and number of chains.
    chain_method : {"auto", "vectorized", "parallel", "sequential"}
        Chains in one program, in parallel threads, or one after the other; ``"auto"`` is
        :func:`chosen_chain_method`.
    seed : int
        Seed of all random numbers.
    fold : callable
        Maps vectors (..., P) to the labelling of the maximum. Used only in the warm-up, to adapt the
        coordinates to one of the equivalent modes.
    report : callable, optional
        Called with the number of iterations since the last call, summed over chains.
    max_draws : int, optional
        Draws of each chain at which sampling ends without convergence; by default `n_draws`.
    have_converged : callable, optional
        Returns whether vectors (C, N, P) have converged. Required if `max_draws` is larger than `n_draws`;
        chains are then continued by a quarter of `n_draws` at a time.

    Returns
    -------
    Chains
        After an interrupt fewer draws; no draws if it occurred in the warm-up.
    """
    stage_length = BATCH_ITERATIONS * max(2, -(-settings.n_warmup // (_N_STAGES * BATCH_ITERATIONS)))
    settings = settings._replace(n_warmup=_N_STAGES * stage_length)
    method = chosen_chain_method() if chain_method == "auto" else chain_method
    runner = _Runner(target, settings, method, report if report is not None else _silent)
    rng = np.random.default_rng(seed)
    try:
        with engine_settings():
            problem = _Problem(*jax.tree.map(jnp.asarray, (data, modes[0].centre, modes[0].factor)))
            mode_of_chain = _modes_of_chains(modes, n_chains)
            normals = rng.standard_normal((n_chains, target.size))
            positions = np.stack([modes[i].apply(normals)[c] for c, i in enumerate(mode_of_chain)])
            step_size = target.size**-0.25
            for _ in range(_N_STAGES - 1):
                out = runner.run(problem, positions, stage_length, step_size, rng)
                step_size = float(np.median(out[_STATISTICS.index("step_size") + 1][:, -1]))
                vectors = fold(_vectors(problem, out)[:, stage_length // 4 :])
                root = _whitening_root(problem, vectors, mode_of_chain)
                problem = problem._replace(factor=problem.factor @ root)
                positions = vectors[:, -1]
            jobs = runner.start(problem, positions, step_size, rng)
            outputs, n_added = runner.extend(jobs, stage_length + n_draws), max(n_draws // 4, 1)
            while n_draws < (max_draws or n_draws) and not runner.interrupted:
                if have_converged is not None and have_converged(
                    _vectors(problem, [outputs[0][:, stage_length : stage_length + n_draws]])
                ):
                    break
                n_draws = min(n_draws + n_added, max_draws or n_draws)
                outputs = runner.extend(jobs, stage_length + n_draws)
    except KeyboardInterrupt:
        return Chains(np.zeros((n_chains, 0, target.size)), {}, True)
    retained = [part[:, stage_length : stage_length + n_draws] for part in outputs]
    stats = dict(zip(_STATISTICS, retained[1:], strict=True))
    return Chains(_vectors(problem, retained), stats, runner.interrupted)


def _silent(count: int) -> None:
    pass


def _vectors(problem: _Problem, out: list[NDArray[Any]]) -> FloatArray:
    return np.asarray(problem.centre) + out[0] @ np.asarray(problem.factor).T


def _modes_of_chains(modes: Sequence[LaplaceApproximation], n_chains: int) -> list[int]:
    """Return the index of the mode near which each chain starts, in proportion to the evidence."""
    evidence = np.array([mode.log_evidence for mode in modes])
    shares = np.exp(evidence - evidence.max())
    ends = np.cumsum(shares / shares.sum())
    places = np.searchsorted(ends, (np.arange(n_chains) + 0.5) / n_chains)
    return [min(place, len(modes) - 1) for place in places.tolist()]


def _whitening_root(problem: _Problem, vectors: FloatArray, mode_of_chain: list[int]) -> FloatArray:
    """Return the Cholesky factor of the covariance of the draws in whitened coordinates.

    With several modes, the covariance is that of deviations from the mean of the draws of each mode.
    The covariance is shrunk towards a multiple of the identity (Ledoit & Wolf 2004), so that a few draws in
    many dimensions hardly change the coordinates.
    """
    size = vectors.shape[-1]
    centred = vectors - np.asarray(problem.centre)
    if len(set(mode_of_chain)) > 1:
        modes = np.array(mode_of_chain)
        for mode in set(mode_of_chain):
            centred[modes == mode] -= np.mean(centred[modes == mode], axis=(0, 1))
    whitened = np.linalg.solve(np.asarray(problem.factor), centred.reshape(-1, size).T).T
    return np.linalg.cholesky(ledoit_wolf(whitened)[0])


class _Runner:
    """Run chains in batches of iterations, sequentially, vectorized or in parallel."""

    def __init__(self, target: Target, settings: SamplerSettings, chain_method: str, report: Report) -> None:
        self._target, self._settings = target, settings
        self._chain_method, self._report = chain_method, report
        self.interrupted = False
        self._stopped = False

    def run(
        self,
        problem: _Problem,
        starts: FloatArray,
        n_iterations: int,
        step_size: float,
        rng: np.random.Generator,
    ) -> list[NDArray[Any]]:
        """Return the outputs (C, n_iterations or more, ...) of chains that start at vectors (C, P).

        An interrupt ends the run; it is raised again if there is no draw after the warm-up.
        """
        return self.extend(self.start(problem, starts, step_size, rng), n_iterations)

    def start(
        self, problem: _Problem, starts: FloatArray, step_size: float, rng: np.random.Generator
    ) -> list[_Job]:
        """Return chains that start at vectors (C, P), without iterations."""
        chains = len(starts)
        with PotentialEvaluator(self._target, problem.data) as evaluate:
            values, gradients = evaluate.many(starts)
        positions = ParamInfo(
            jnp.linalg.solve(problem.factor, (starts - problem.centre).T).T,
            jnp.asarray(values),
            jnp.asarray(gradients) @ problem.factor,
        )
        keys = jax.random.split(jax.random.key(int(rng.integers(2**31))), chains)
        states = _start(self._target, problem, self._settings, positions, keys, jnp.asarray(step_size))
        groups = [slice(0, chains)] if self._chain_method == "vectorized" else _one_each(chains)
        return [_Job(problem, jax.tree.map(lambda leaf, g=group: leaf[g], states)) for group in groups]

    def extend(self, jobs: list[_Job], n_iterations: int) -> list[NDArray[Any]]:
        """Continue chains to `n_iterations` or more, and return all their outputs; see :meth:`run`."""
        try:
            if self._chain_method == "parallel":
                self._run_in_threads(jobs, n_iterations)
            else:
                for job in jobs:
                    self._advance(job, n_iterations)
        except KeyboardInterrupt:
            self.interrupted = True
        return self._join([job.output for job in jobs])

    def _advance(self, job: _Job, n_iterations: int) -> None:
        # The 64-bit setting applies to one thread.
        with engine_settings():
            for _ in range(len(job.output), -(-n_iterations // BATCH_ITERATIONS)):
                if self._stopped:
                    return
                job.states, out = _advance(self._target, job.problem, self._settings, job.states)
                job.output.append([np.asarray(x) for x in out])
                self._report(out[1].size)

    def _run_in_threads(self, jobs: list[_Job], n_iterations: int) -> None:
        with ThreadPoolExecutor(len(jobs)) as pool:
            futures = [pool.submit(self._advance, job, n_iterations) for job in jobs]
            try:
                for future in futures:
                    future.result()
            except BaseException:
                self._stopped = True
                raise

    def _join(self, outputs: list[list[list[NDArray[Any]]]]) -> list[NDArray[Any]]:
        """Concatenate batches, stack chains, and cut them to equal length."""
        stage_length = self._settings.n_warmup // _N_STAGES
        # After an interrupt, chains without draws are omitted, such as sequential chains before their start.
        started = [
            output
            for output in outputs
            if len(output) * BATCH_ITERATIONS > stage_length or not self.interrupted
        ]
        if not started:
            raise KeyboardInterrupt
        shortest = min(map(len, started))
        return [
            np.concatenate(
                [np.concatenate([batch[i] for batch in output[:shortest]], axis=1) for output in started]
            )
            for i in range(len(_STATISTICS) + 1)
        ]


def _one_each(n_chains: int) -> list[slice]:
    return [slice(i, i + 1) for i in range(n_chains)]
