"""Learning of the bilinear model by variational EM from several random starts in parallel.

An iteration updates the distributions of the posterior (:mod:`.inference`) and then maximizes the bound over
each group of parameters, in closed form: loadings and offset by a regression on expected products of gates
and factors, noise variances by its residuals, decays by the cubic equation of the linear model, and switching
probabilities of the stationary chains by alternating quadratic equations. No step decreases the bound.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.extensions.bilinear.inference import MAX_JOINT_CHAINS, Statistics, sweeps, without_dynamics
from probsfa.extensions.bilinear.parameters import BilinearParameters
from probsfa.statespace.panel import Panel
from probsfa.statespace.processes.ar1 import cubic_decay

__all__ = ["MIN_SWITCHING", "Optimization", "optimize", "learn", "maximize", "random_starts", "switching"]

#: Called with the number of iterations and the best bound.
Report = Callable[[int, float], None]

#: Minimum distance of switching probabilities from 0 and 1.
MIN_SWITCHING = 1e-6
_ITERATIONS_WITHOUT_DYNAMICS = 40
_ITERATIONS_OF_STARTS = 40  # iterations of all runs, before only the best is continued
_MIN_EIGENVALUE = 1e-12  # relative eigenvalue of moments below which a direction is not identified


class Optimization(NamedTuple):
    """Result of variational EM.

    Attributes
    ----------
    params : BilinearParameters
        The parameters of the largest bound.
    gates : ndarray (T, M)
        Probabilities of active chains, on the rows of the panel including padding.
    history : tuple of float
        The bound after each iteration of the selected run.
    status : str
        "converged", "max_iter" or "interrupted".
    bounds : ndarray (n_init,)
        The bound at which each run ended or was abandoned.
    """

    params: BilinearParameters
    gates: FloatArray
    history: tuple[float, ...]
    status: str
    bounds: FloatArray


def random_starts(
    panel: Panel, n_components: int, n_chains: int, n_init: int, rng: np.random.Generator
) -> tuple[BilinearParameters, FloatArray]:
    """Draw initial parameters and gates, (R, ...), for standardized columns.

    The gates are random chains, and the loadings random in the subspace of the leading directions of the
    rows.
    """
    values, mask = np.asarray(panel.values[:]), np.asarray(panel.mask[:])
    n_rows, n_features = values.shape
    covariance = values.T @ values / np.maximum(mask.T @ mask, 1.0)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    n_directions = min(n_features, n_components * n_chains)
    basis = vectors[:, ::-1][:, :n_directions] * np.sqrt(np.maximum(eigenvalues[::-1][:n_directions], 1e-6))
    timescale = np.geomspace(30.0, 3.0, n_components) if n_components > 1 else np.array([10.0])
    starts, gates = [], []
    for _ in range(n_init):
        mixing = rng.standard_normal((n_directions, n_chains * n_components)) / np.sqrt(n_components)
        starts.append(
            BilinearParameters(
                decay=np.exp(-1.0 / (timescale * rng.uniform(0.5, 2.0, n_components))),
                switch_on=rng.uniform(0.01, 0.1, n_chains),
                switch_off=rng.uniform(0.01, 0.1, n_chains),
                loadings=(basis @ mixing).reshape(n_features, n_chains, n_components),
                noise_variance=np.full(n_features, 0.5),
                offset=np.zeros(n_features),
            )
        )
        switched = rng.uniform(size=(n_rows, n_chains)) < 0.03
        is_active = (np.cumsum(switched, axis=0) + rng.integers(2, size=n_chains)) % 2
        gates.append(0.5 + 0.3 * (is_active - 0.5) * 2)
    return BilinearParameters(*(np.stack(part) for part in zip(*starts, strict=True))), np.stack(gates)


def maximize(
    params: BilinearParameters, stats: Statistics, panel: Panel, noise: str, floor: float
) -> BilinearParameters:
    """M-step: return the parameters that maximize the bound given the statistics, for a batch.

    Parameters
    ----------
    params : BilinearParameters
        Parameters at which the statistics were taken, with a leading axis of length R.
    stats : Statistics
        Expected sums, (R, ...).
    panel : Panel
        Its numbers of observed values of each column are used.
    noise : {"diagonal", "isotropic"}
        A noise variance for each column, or one for all.
    floor : float
        Smallest noise variance.

    Returns
    -------
    BilinearParameters
    """
    n_starts, n_features, n_chains, n_components = params.loadings.shape
    counts = np.asarray(panel.mask[:]).sum(axis=0)
    change = _regress(stats.latent_moments, stats.residual_moments)
    power = np.maximum(stats.residual_power - np.sum(change * stats.residual_moments, axis=2), 0.0)
    if noise == "isotropic":
        shared_variance = power.sum(axis=1, keepdims=True) / counts.sum()
        variance = np.broadcast_to(shared_variance, power.shape)
    else:
        variance = power / np.maximum(counts, 1.0)
    n_transitions = panel.n_rows - len(panel.lengths)
    decay, switch_on, switch_off = params.decay.copy(), params.switch_on.copy(), params.switch_off.copy()
    for r in range(n_starts):
        if n_transitions and np.any(stats.current[r]):
            for k in range(n_components):
                decay[r, k] = cubic_decay(
                    float(n_transitions), stats.previous[r, k], stats.cross[r, k], stats.current[r, k]
                )
        for m in range(n_chains):
            switch_on[r, m], switch_off[r, m] = switching(
                stats.initial[r, m], stats.pairs[r, m], switch_on[r, m], switch_off[r, m]
            )
    return BilinearParameters(
        decay,
        switch_on,
        switch_off,
        params.loadings + change[:, :, :-1].reshape(params.loadings.shape),
        np.maximum(variance, floor),
        params.offset + change[:, :, -1],
    )


def _regress(moments: FloatArray, cross_products: FloatArray) -> FloatArray:
    """Return minimum-norm solutions (R, D, P) of normal equations (R, D or 1, P, P), (R, D, P)."""
    # With regressors of unit mean square, the numerical rank includes rarely active chains.
    size = np.sqrt(np.maximum(np.diagonal(moments, axis1=2, axis2=3), 1e-300))
    eigenvalues, vectors = np.linalg.eigh(moments / (size[..., :, None] * size[..., None, :]))
    retained = eigenvalues > _MIN_EIGENVALUE * np.maximum(eigenvalues[..., -1:], 1e-300)
    inverse = np.where(retained, 1.0 / np.where(retained, eigenvalues, 1.0), 0.0)
    rotated = np.einsum(
        "rdij,rdi->rdj",
        np.broadcast_to(vectors, (*cross_products.shape, cross_products.shape[2])),
        cross_products / size,
    )
    solved = np.einsum(
        "rdij,rdj->rdi",
        np.broadcast_to(vectors, (*cross_products.shape, cross_products.shape[2])),
        rotated * inverse,
    )
    return np.asarray(solved / size)


def switching(initial: FloatArray, pairs: FloatArray, on: float, off: float) -> tuple[float, float]:
    """Return the switching probabilities of a stationary chain that maximize its expected log probability.

    With expected counts ``i`` of first states and ``c`` of transitions it is ::

        (c01 + i1) log on + c00 log(1 - on) + (c10 + i0) log off + c11 log(1 - off) - (i0 + i1) log(on + off)

    With the other probability fixed, setting the derivative to zero gives a quadratic equation with one root
    in (0, 1).

    Parameters
    ----------
    initial : ndarray (2,)
        Expected number of sequences that begin inactive and active.
    pairs : ndarray (2, 2)
        Expected number of transitions from state to state.
    on, off : float
        Starting values.

    Returns
    -------
    on, off : float
    """
    total = float(initial.sum())
    for _ in range(100):
        previous = on, off
        on = _one_probability(pairs[0, 1] + initial[1], pairs[0, 0], total, off)
        off = _one_probability(pairs[1, 0] + initial[0], pairs[1, 1], total, on)
        if abs(on - previous[0]) + abs(off - previous[1]) < 1e-12:
            break
    return on, off


def _one_probability(left_state: float, kept_state: float, total: float, other: float) -> float:
    """Return the p that maximizes ``gone log p + stayed log(1 - p) - total log(p + other)`` within bounds."""
    # gone (1 - p) (p + q) - stayed p (p + q) - total p (1 - p) = 0
    a = total - left_state - kept_state
    b = left_state * (1.0 - other) - kept_state * other - total
    c = left_state * other
    if abs(a) < 1e-12 * (abs(b) + abs(c)):
        p = -c / b if b != 0.0 else 0.5
    else:
        # The root in (0, 1), in the form without cancellation.
        root = np.sqrt(max(b * b - 4.0 * a * c, 0.0))
        half = -0.5 * (b + (root if b >= 0.0 else -root))
        options = [x for x in (half / a, c / half if half != 0.0 else np.inf) if -1e-12 <= x <= 1.0 + 1e-12]
        p = options[0] if options else (1.0 if left_state > kept_state else 0.0)
    return float(np.clip(p, MIN_SWITCHING, 1.0 - MIN_SWITCHING))


def learn(
    panel: Panel,
    n_components: int,
    n_chains: int,
    *,
    n_init: int,
    noise: str,
    floor: float,
    max_iter: int,
    tol: float,
    rng: np.random.Generator,
    report: Report | None = None,
) -> Optimization:
    """Learn from random starts, which are first improved in the model without dynamics of the factors.

    Parameters
    ----------
    panel : Panel
        Packed observations, in standard units.
    n_components, n_chains : int
        Numbers of continuous factors and of chains.
    n_init : int
        Number of random starts.
    noise, floor
        As in :func:`maximize`.
    max_iter : int
        Maximum number of iterations of the final run.
    tol : float
        The run stops if the bound increases by less in 10 iterations, in nats.
    rng : Generator
        Random number generator.
    report : callable
        Called with the number of iterations and the best bound.

    Returns
    -------
    Optimization
    """
    options: Any = {"noise": noise, "floor": floor}
    params, gates = random_starts(panel, n_components, n_chains, n_init, rng)
    interrupted = False
    if n_chains <= MAX_JOINT_CHAINS:
        params, gates, interrupted = _reassign_uncertain_gates(panel, params, **options)
        params, gates = _with_randomized_gates(params, gates)
    if interrupted:
        params, gates = _select(params, slice(0, 1)), gates[:1]
    n_iterations = 1 if interrupted else min(_ITERATIONS_OF_STARTS, max_iter)
    race = optimize(panel, params, gates, **options, max_iter=n_iterations, tol=tol, report=report)
    if interrupted or race.status == "interrupted" or n_iterations == max_iter or not race.history:
        return race._replace(status="interrupted") if interrupted else race
    batch = BilinearParameters(*(part[None] for part in race.params))
    final_run = optimize(
        panel,
        batch,
        race.gates[None],
        **options,
        max_iter=max_iter - n_iterations,
        tol=tol,
        report=report,
        history=race.history,
    )
    return final_run._replace(bounds=race.bounds)


def _reassign_uncertain_gates(
    panel: Panel, params: BilinearParameters, noise: str, floor: float
) -> tuple[BilinearParameters, FloatArray, bool]:
    """Run EM without dynamics; return the starts, the best first, and whether it was interrupted."""
    inferred = without_dynamics(params, panel)
    interrupted = False
    try:
        for _ in range(_ITERATIONS_WITHOUT_DYNAMICS):
            proposal = maximize(params, inferred.statistics, panel, noise, floor)
            inferred, params = without_dynamics(proposal, panel), proposal
    except KeyboardInterrupt:
        interrupted = True
    order = np.argsort(-inferred.bounds, kind="stable")
    return BilinearParameters(*(part[order] for part in params)), inferred.gates[order], interrupted


def _with_randomized_gates(
    params: BilinearParameters, gates: FloatArray
) -> tuple[BilinearParameters, FloatArray]:
    """Return variants of the best starts: gates shrunk to 0.5 by half, gates unchanged, and prior gates.

    If the rows hardly determine the gates, bounds after overconfident starts are lower.
    """
    index = np.arange(len(gates)) // 3
    selected = BilinearParameters(*(part[index] for part in params))
    randomized = gates[index].copy()
    prior = np.broadcast_to(selected.probability[:, None, :], randomized.shape)
    randomized[0::3] = 0.5 + 0.5 * (randomized[0::3] - 0.5)
    randomized[2::3] = prior[2::3]
    return selected, randomized


def optimize(
    panel: Panel,
    params: BilinearParameters,
    gates: FloatArray,
    *,
    noise: str,
    floor: float,
    max_iter: int,
    tol: float,
    report: Report | None = None,
    history: Sequence[float] = (),
) -> Optimization:
    """Run variational EM from several starts in parallel; return the best.

    Parameters
    ----------
    panel : Panel
        Packed observations, in standard units.
    params : BilinearParameters
        Starting points, with a leading axis of length R.
    gates : ndarray (R, T, M)
        Probabilities of active chains at the start.
    noise, floor, max_iter, tol, report
        As in :func:`learn`; the run ends early if no starting point improves.
    history : sequence of float, default=()
        Bounds of earlier iterations, if a single run is continued.

    Returns
    -------
    Optimization
    """
    course = [np.full(len(gates), value) for value in history]
    status = "max_iter"
    try:
        proposal = params
        for _ in range(max_iter):
            inferred = sweeps(proposal, panel, gates)
            bounds = inferred.bounds
            if course:
                # Near the maximum only rounding errors remain, and a run without an increase of the bound is
                # not changed.
                has_increased = bounds >= course[-1]
                bounds = np.where(has_increased, bounds, course[-1])
                retained = [
                    np.where(has_increased.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                    for new, old in zip(proposal, params, strict=True)
                ]
                params = BilinearParameters(*retained)
                gates = np.where(has_increased[:, None, None], inferred.gates, gates)
            else:
                has_increased = np.ones(len(gates), dtype=bool)
                params, gates = proposal, inferred.gates
            course.append(bounds)
            if report is not None:
                report(len(course), float(bounds.max()))
            if not has_increased.any() or (len(course) > 10 and np.all(bounds - course[-11] < tol)):
                status = "converged"
                break
            proposal = maximize(proposal, inferred.statistics, panel, noise, floor)
    except KeyboardInterrupt:
        status = "interrupted"
    if not course:
        return Optimization(_select(params, 0), gates[0], (), status, np.full(len(gates), -np.inf))
    best = int(np.argmax(course[-1]))
    return Optimization(
        _select(params, best),
        gates[best],
        tuple(float(values[best]) for values in course),
        status,
        course[-1],
    )


def _select(params: BilinearParameters, index: int | slice) -> BilinearParameters:
    return BilinearParameters(*(part[index] for part in params))
