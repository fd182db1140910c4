"""Learning of the bilinear model by variational EM from several random starts in parallel.

An iteration updates the distributions of the posterior (:mod:`.inference`). It then maximizes the bound over
each group of parameters in closed form. Loadings and offset solve a regression on expected products of gates
and factors, and the residuals of this regression determine the noise variances. Decays are roots of the cubic
equation of the linear model. Switching probabilities of the stationary chains are updated alternately, each
as the root of a quadratic equation. No step decreases the bound.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa.extensions.bilinear.inference import MAX_JOINT_CHAINS, Statistics, sweeps, white_factor_posterior
from probsfa.extensions.bilinear.parameters import BilinearParameters
from probsfa.statespace.panel import Panel
from probsfa.statespace.processes.ar1 import cubic_decay

__all__ = ["MIN_SWITCHING", "Optimization", "learn", "maximize", "optimize", "random_starts", "switching"]

#: Called with the number of iterations and the best bound.
Report = Callable[[int, float], None]

#: Lower bound of switching probabilities; one minus this value is the upper bound.
MIN_SWITCHING = 1e-6
_WHITE_FACTOR_ITERATIONS = 40
_PARALLEL_ITERATIONS = 40  # iterations of all runs; then only the best run is continued
_MIN_EIGENVALUE = 1e-12  # relative to the largest; smaller eigenvalues are treated as zero


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
        The last bound of each run.
    """

    params: BilinearParameters
    gates: FloatArray
    history: tuple[float, ...]
    status: str
    bounds: FloatArray


def random_starts(
    panel: Panel, n_components: int, n_chains: int, n_init: int, rng: np.random.Generator
) -> tuple[BilinearParameters, FloatArray]:
    """Draw R sets of initial parameters (R, ...) and gates (R, T, M), for standardized columns.

    The gates switch at random rows. The loadings are random combinations of the leading principal components.
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
        Parameters at which the statistics were computed, with a leading axis of length R.
    stats : Statistics
        Expected sums, (R, ...).
    panel : Panel
        Observations; the number of observed values of each column and the numbers of rows are used.
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
    """Return minimum-norm solutions (R, D, P) of the normal equations ``moments b = cross_products``.

    The moments have shape (R, D, P, P), or (R, 1, P, P) if they are the same for all columns; the cross
    products have shape (R, D, P).
    """
    # Regressors are scaled to unit mean square, because the rank tolerance would otherwise discard rarely
    # active chains.
    root_mean_squares = np.sqrt(np.maximum(np.diagonal(moments, axis1=2, axis2=3), 1e-300))
    eigenvalues, vectors = np.linalg.eigh(
        moments / (root_mean_squares[..., :, None] * root_mean_squares[..., None, :])
    )
    retained = eigenvalues > _MIN_EIGENVALUE * np.maximum(eigenvalues[..., -1:], 1e-300)
    inverse = np.where(retained, 1.0 / np.where(retained, eigenvalues, 1.0), 0.0)
    rotated = np.einsum(
        "rdij,rdi->rdj",
        np.broadcast_to(vectors, (*cross_products.shape, cross_products.shape[2])),
        cross_products / root_mean_squares,
    )
    solved = np.einsum(
        "rdij,rdj->rdi",
        np.broadcast_to(vectors, (*cross_products.shape, cross_products.shape[2])),
        rotated * inverse,
    )
    return np.asarray(solved / root_mean_squares)


def switching(initial: FloatArray, pairs: FloatArray, on: float, off: float) -> tuple[float, float]:
    """Return the switching probabilities of a stationary chain that maximize its expected log probability.

    With expected counts ``i`` of first states and ``c`` of transitions, the expected log probability is ::

        (c01 + i1) log on + c00 log(1 - on) + (c10 + i0) log off + c11 log(1 - off) - (i0 + i1) log(on + off)

    The two probabilities are updated alternately. The maximum over one of them is the only root in (0, 1) of
    a quadratic equation.

    Parameters
    ----------
    initial : ndarray (2,)
        Expected number of sequences that begin inactive and active.
    pairs : ndarray (2, 2)
        Expected number of transitions from each state to each state.
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


def _one_probability(left: float, stayed: float, total: float, other: float) -> float:
    """Return the ``p`` that maximizes ``left log p + stayed log(1 - p) - total log(p + other)``.

    The result is at least `MIN_SWITCHING` and at most one minus this value.
    """
    # left (1 - p) (p + other) - stayed p (p + other) - total p (1 - p) = 0
    a = total - left - stayed
    b = left * (1.0 - other) - stayed * other - total
    c = left * other
    if abs(a) < 1e-12 * (abs(b) + abs(c)):
        p = -c / b if b != 0.0 else 0.5
    else:
        # The standard formula for the roots loses digits by cancellation if b^2 is much larger than 4 a c.
        root = np.sqrt(max(b * b - 4.0 * a * c, 0.0))
        stable_sum = -0.5 * (b + (root if b >= 0.0 else -root))
        options = [
            x
            for x in (stable_sum / a, c / stable_sum if stable_sum != 0.0 else np.inf)
            if -1e-12 <= x <= 1.0 + 1e-12
        ]
        p = options[0] if options else (1.0 if left > stayed else 0.0)
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
    """Fit from random starts.

    The starts are first improved by EM in the model whose factors are independent between rows.

    Parameters
    ----------
    panel : Panel
        Packed observations, in standard units.
    n_components, n_chains : int
        Numbers of continuous factors and of chains.
    n_init : int
        Number of random starts.
    noise : {"diagonal", "isotropic"}
        A noise variance for each column, or one for all.
    floor : float
        Smallest noise variance.
    max_iter : int
        Maximum number of iterations of the selected run, including those in parallel with other runs.
    tol : float
        A run stops if its bound increases by less than `tol` nats in ten iterations.
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
        params, gates, interrupted = _improve_starts(panel, params, **options)
        params, gates = _gate_variants(params, gates)
    if interrupted:
        params, gates = _select(params, slice(0, 1)), gates[:1]
    n_iterations = 1 if interrupted else min(_PARALLEL_ITERATIONS, max_iter)
    first_run = optimize(panel, params, gates, **options, max_iter=n_iterations, tol=tol, report=report)
    if interrupted or first_run.status == "interrupted" or n_iterations == max_iter or not first_run.history:
        return first_run._replace(status="interrupted") if interrupted else first_run
    batch = BilinearParameters(*(part[None] for part in first_run.params))
    final_run = optimize(
        panel,
        batch,
        first_run.gates[None],
        **options,
        max_iter=max_iter - n_iterations,
        tol=tol,
        report=report,
        history=first_run.history,
    )
    return final_run._replace(bounds=first_run.bounds)


def _improve_starts(
    panel: Panel, params: BilinearParameters, noise: str, floor: float
) -> tuple[BilinearParameters, FloatArray, bool]:
    """Run EM with factors that are independent between rows.

    Return parameters and gates, ordered by decreasing likelihood, and whether EM was interrupted.
    """
    inferred = white_factor_posterior(params, panel)
    interrupted = False
    try:
        for _ in range(_WHITE_FACTOR_ITERATIONS):
            proposal = maximize(params, inferred.statistics, panel, noise, floor)
            inferred, params = white_factor_posterior(proposal, panel), proposal
    except KeyboardInterrupt:
        interrupted = True
    order = np.argsort(-inferred.bounds, kind="stable")
    return BilinearParameters(*(part[order] for part in params)), inferred.gates[order], interrupted


def _gate_variants(params: BilinearParameters, gates: FloatArray) -> tuple[BilinearParameters, FloatArray]:
    """Replace the starts, ordered from best to worst, by three variants of the best third.

    The variants differ in the gate probabilities: halfway to 0.5, unchanged, and prior probabilities. If the
    data hardly determine the gates, EM from overconfident gates ends at a smaller bound.
    """
    index = np.arange(len(gates)) // 3
    selected = BilinearParameters(*(part[index] for part in params))
    variants = gates[index].copy()
    prior = np.broadcast_to(selected.probability[:, None, :], variants.shape)
    variants[0::3] = 0.5 + 0.5 * (variants[0::3] - 0.5)
    variants[2::3] = prior[2::3]
    return selected, variants


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
    noise : {"diagonal", "isotropic"}
        A noise variance for each column, or one for all.
    floor : float
        Smallest noise variance.
    max_iter : int
        Maximum number of iterations.
    tol : float
        The iterations end if no bound increases by `tol` nats in ten iterations, or if all bounds decrease in
        one iteration (by rounding errors).
    report : callable, optional
        Called with the number of iterations and the best bound.
    history : sequence of float, default=()
        Bounds of earlier iterations, for the continuation of a single run.

    Returns
    -------
    Optimization
    """
    bound_history = [np.full(len(gates), value) for value in history]
    status = "max_iter"
    try:
        proposal = params
        for _ in range(max_iter):
            inferred = sweeps(proposal, panel, gates)
            bounds = inferred.bounds
            if bound_history:
                # A decrease near the maximum is a rounding error; such a run keeps its previous parameters.
                has_increased = bounds >= bound_history[-1]
                bounds = np.where(has_increased, bounds, bound_history[-1])
                retained = [
                    np.where(has_increased.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                    for new, old in zip(proposal, params, strict=True)
                ]
                params = BilinearParameters(*retained)
                gates = np.where(has_increased[:, None, None], inferred.gates, gates)
            else:
                has_increased = np.ones(len(gates), dtype=bool)
                params, gates = proposal, inferred.gates
            bound_history.append(bounds)
            if report is not None:
                report(len(bound_history), float(bounds.max()))
            if not has_increased.any() or (
                len(bound_history) > 10 and np.all(bounds - bound_history[-11] < tol)
            ):
                status = "converged"
                break
            proposal = maximize(proposal, inferred.statistics, panel, noise, floor)
    except KeyboardInterrupt:
        status = "interrupted"
    if not bound_history:
        return Optimization(_select(params, 0), gates[0], (), status, np.full(len(gates), -np.inf))
    best = int(np.argmax(bound_history[-1]))
    return Optimization(
        _select(params, best),
        gates[best],
        tuple(float(values[best]) for values in bound_history),
        status,
        bound_history[-1],
    )


def _select(params: BilinearParameters, index: int | slice) -> BilinearParameters:
    return BilinearParameters(*(part[index] for part in params))
