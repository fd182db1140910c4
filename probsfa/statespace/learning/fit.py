"""A whole fit: several starts, refined on Whittle's likelihood, judged and finished on the exact one."""

import warnings
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probsfa._threads import one_blas_thread
from probsfa.statespace.engine.statistics import Statistics
from probsfa.statespace.learning.coordinates import FASTEST_DECAY, Coordinates, from_vector, to_vector
from probsfa.statespace.learning.em import fit_em, warm_up
from probsfa.statespace.learning.objective import (
    EStep,
    Evaluator,
    FitResult,
    Noise,
    Report,
    fit_quasi_newton,
    make_box,
)
from probsfa.statespace.learning.quasi_newton import ascend
from probsfa.statespace.learning.starts import interpolate, starts
from probsfa.statespace.learning.whittle import Periodogram, WhittleObjective, periodogram
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Parameters
from probsfa.statespace.posterior import smooth

FloatArray = NDArray[np.float64]

_WHITTLE_EVALUATIONS = 80
# Starts whose log-likelihoods differ by less than this (nats) have found the same optimum.
_SAME_OPTIMUM = 0.05
# A start this far behind the best (nats) after Whittle's likelihood is not followed further.
_OUT_OF_RACE = 30.0
_RACE_EVALUATIONS = 12
# Steps of EM before the quasi-Newton climb, as long as one gains more than this (nats).
_EM_STEPS, _EM_WORTH = 5, 2.0
# Times that gaps are filled again by the model before the climb, as long as it gains more than this (nats).
_REFILLS, _REFILL_WORTH = 6, 5.0
# Spectra of shorter sequences say nothing.
_SHORTEST_FOR_SPECTRA = 8
#: Smallest noise variance that is allowed at all, as a fraction of a feature's variance.
LEAST_NOISE = 1e-9
#: What a Heywood case is held to, and the typical noise variance above which there can be one.
HEYWOOD_FLOOR = 1e-3
_HEYWOOD_LOW = 1e-4
# Evaluations that are kept for holding Heywood cases to that floor, as a part of all.
_KEPT_FOR_GUARD = 0.2


def fit(
    panel: Panel,
    n_components: int,
    noise: Noise,
    start_noise: FloatArray | None,
    *,
    solver: str,
    max_iter: int,
    tol: float,
    guarded: bool = False,
    start: Parameters | None = None,
    report: Report | None = None,
    e_step: EStep | None = None,
) -> FitResult:
    """Maximise the likelihood of standardised data.

    A latent that explains one feature without any noise (a Heywood case) raises the likelihood and makes
    intervals too narrow. Where single features are left without noise while most are not, a guarded fit goes
    on with a floor under them; some evaluations are kept for that.

    Parameters
    ----------
    panel : Panel
        Packed observations, each feature with mean near zero and variance near one.
    n_components : int
        Number of latents.
    noise : Noise
        What may happen to the noise variance.
    start_noise : ndarray of shape (D,), optional
        The noise variance where it is fixed.
    solver : {"auto", "em", "lbfgs"}
        How to climb; "auto" is "lbfgs".
    max_iter : int
        Most posterior evaluations.
    tol : float
        Gain to come at which to stop, in nats.
    guarded : bool
        Whether to hold Heywood cases to a floor; of use for diagonal noise only.
    start : Parameters, optional
        Where to start, if that is known.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Expected statistics of parameters, where the panel is only a sample of the data, to start from.

    Returns
    -------
    FitResult
        Also after an interrupt from the keyboard, with the best parameters so far.
    """
    guarded = guarded and noise.kind == "diagonal"
    layout = Coordinates(panel.values.shape[1], n_components, noise.kind, panel.evenly_sampled)
    kept = int(np.ceil(_KEPT_FOR_GUARD * max_iter)) if guarded and max_iter > 1 else 0
    evaluate = Evaluator(panel, max_iter - kept, report, e_step)
    # Matrices here are as small as there are features.
    with one_blas_thread():
        if start is None:
            result = _fit(evaluate, layout, noise, start_noise, solver, tol)
        else:
            result = _fit_from(evaluate, layout, noise, start, solver, tol)
        evaluate.limit = max_iter
        return _guard(evaluate, layout, noise, result, solver, tol) if guarded else result


def _fit(
    evaluate: Evaluator,
    layout: Coordinates,
    noise: Noise,
    start_noise: FloatArray | None,
    solver: str,
    tol: float,
) -> FitResult:
    panel = evaluate.panel
    begun = _begin(panel, layout, noise, start_noise)
    try:
        candidates = _refine_all(panel, layout, noise, begun)
        judged = _judge(evaluate, candidates)
        judged = _refill(evaluate, layout, noise, judged)
        if solver == "em":
            return fit_em(evaluate, judged[0].params, noise, tol, judged[0].stats)
        return _race(evaluate, layout, judged, noise, tol)
    except KeyboardInterrupt:
        # Interrupted between two climbs, each of which keeps its own best.
        if evaluate.best is None:
            evaluate(begun[0])
        best = evaluate.best if evaluate.best is not None else begun[0]
        value = evaluate.best_log_likelihood
        return FitResult(best, value, (value,), evaluate.count, "interrupted")


def _fit_from(
    evaluate: Evaluator, layout: Coordinates, noise: Noise, start: Parameters, solver: str, tol: float
) -> FitResult:
    """Climb from one place."""
    start = start._replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
    if solver == "em":
        return fit_em(evaluate, start, noise, tol)
    params, stats = warm_up(evaluate, start, evaluate(start), noise, _EM_STEPS, _EM_WORTH)
    return fit_quasi_newton(evaluate, layout, params, noise, tol, stats)


def is_heywood(variance: FloatArray) -> bool:
    """Whether single features are left without noise while most are not; standardised."""
    return bool(variance.min() < _HEYWOOD_LOW and np.median(variance) > HEYWOOD_FLOOR)


def _guard(
    evaluate: Evaluator, layout: Coordinates, noise: Noise, result: FitResult, solver: str, tol: float
) -> FitResult:
    """Go on: with a floor under Heywood cases, or as before where there are none and evaluations are left."""
    variance = result.params.noise_variance
    heywood = is_heywood(variance)
    if evaluate.exhausted or result.status == "interrupted" or not (heywood or result.status == "max_iter"):
        return result
    floor = np.maximum(noise.floor, HEYWOOD_FLOOR) if heywood else noise.floor
    start = result.params._replace(noise_variance=np.maximum(variance, floor))
    climb = fit_em if solver == "em" else partial(fit_quasi_newton, layout=layout)
    finished = climb(evaluate, start=start, noise=noise._replace(floor=floor), tol=tol)
    if not finished.history:  # interrupted before the floor could be tried
        return result._replace(status="interrupted")
    history = finished.history if heywood else (*result.history, *finished.history[1:])
    return finished._replace(history=history)


def _begin(
    panel: Panel, layout: Coordinates, noise: Noise, start_noise: FloatArray | None
) -> list[Parameters]:
    """Starts that the layout can express, the most faithful to slow feature analysis first."""
    centred, offset = _centred(panel)
    return [
        _conform(params, layout, noise, start_noise)
        for params in starts(centred, offset, layout.n_components)
    ]


def _centred(panel: Panel, params: Parameters | None = None) -> tuple[list[FloatArray], FloatArray]:
    """Sequences without their common mean, and the mean; gaps are interpolated, or filled by a model."""
    if params is None:
        sequences = interpolate(panel)
    else:
        predicted = params.offset + smooth(params, panel).means @ params.loadings.T
        n = panel.n_rows
        filled = np.where(panel.mask[:n] > 0.0, panel.values[:n], predicted)
        sequences = np.split(filled, np.cumsum(panel.lengths)[:-1])
    offset = np.sum([x.sum(axis=0) for x in sequences], axis=0) / panel.n_rows
    return [x - offset for x in sequences], offset


def _refine_all(panel: Panel, layout: Coordinates, noise: Noise, begun: list[Parameters]) -> list[Parameters]:
    """Starts refined on Whittle's likelihood, best first by it."""
    if max(panel.lengths) < _SHORTEST_FOR_SPECTRA:
        return begun
    data = periodogram(_centred(panel)[0])
    refined = [_refine(params, layout, noise, data) for params in begun]
    refined.sort(key=lambda found: -found[0])
    return [params for _, params in refined]


def _conform(
    params: Parameters, layout: Coordinates, noise: Noise, start_noise: FloatArray | None
) -> Parameters:
    """A start brought to what the layout can express."""
    variance = np.maximum(params.noise_variance, noise.floor)
    if noise.kind == "isotropic":
        variance = np.full_like(variance, variance.mean())
    elif start_noise is not None:
        variance = start_noise
    decay = params.decay if layout.evenly_sampled else np.maximum(params.decay, 10.0 * FASTEST_DECAY)
    return params._replace(decay=decay, noise_variance=variance)


def _refine(
    params: Parameters, layout: Coordinates, noise: Noise, data: Periodogram
) -> tuple[float, Parameters]:
    even = layout._replace(evenly_sampled=True)
    objective = WhittleObjective(even, data, params.noise_variance, _WHITTLE_EVALUATIONS)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A wild step may overflow; the search then shortens it.
        warnings.simplefilter("ignore", RuntimeWarning)
        end = ascend(objective, to_vector(even, params), make_box(even, noise), tol=0.1)
    refined = from_vector(even, end.vector, params.noise_variance)
    if end.ending == "interrupted":
        raise KeyboardInterrupt
    if not end.history or not np.isfinite(end.history[-1]):
        return -np.inf, params
    if not layout.evenly_sampled:
        refined = refined._replace(decay=np.maximum(refined.decay, 10.0 * FASTEST_DECAY))
    return end.history[-1], refined


def _refill(
    evaluate: Evaluator, layout: Coordinates, noise: Noise, judged: list["_Judged"]
) -> list["_Judged"]:
    """Refine the best start on Whittle's likelihood again, with gaps filled by what it predicts.

    Straight lines through gaps look like noise, of which there may be little. Repeated as long as the exact
    likelihood says that it pays.
    """
    panel = evaluate.panel
    if panel.mask[: panel.n_rows].all() or max(panel.lengths) < _SHORTEST_FOR_SPECTRA:
        return judged
    for _ in range(_REFILLS):
        if evaluate.limit - evaluate.count < 2:
            break
        best = judged[0]
        params, _ = warm_up(evaluate, best.params, best.stats, noise, 1, _EM_WORTH)
        if evaluate.limit - evaluate.count < 2:
            break
        evaluate.count += 1  # of the posterior that fills the gaps
        filled, offset = _centred(panel, params)
        _, refined = _refine(params._replace(offset=offset), layout, noise, periodogram(filled))
        stats = evaluate(refined)
        gain = stats.log_likelihood - best.value
        if not gain > 0.0:
            break
        judged = [_Judged(stats.log_likelihood, refined, stats), *judged[1:]]
        if gain < _REFILL_WORTH:
            break
    return judged


class _Judged(NamedTuple):
    """A start with its exact log-likelihood."""

    value: float
    params: Parameters
    stats: Statistics


def _judge(evaluate: Evaluator, candidates: list[Parameters]) -> list[_Judged]:
    """Starts by their exact log-likelihood, best first; those that reach the same value count once."""
    judged: list[_Judged] = []
    for params in candidates:
        if judged and evaluate.exhausted:
            break
        stats = evaluate(params)
        value = stats.log_likelihood
        if np.isfinite(value) and all(abs(value - other.value) > _SAME_OPTIMUM for other in judged):
            judged.append(_Judged(value, params, stats))
    if not judged:
        raise FloatingPointError(
            "The log-likelihood is not finite at any start; are some values extremely large?"
        )
    return sorted(judged, key=lambda found: -found.value)


def _race(
    evaluate: Evaluator, layout: Coordinates, judged: list[_Judged], noise: Noise, tol: float
) -> FitResult:
    """Follow every start that is still in the race a little way, then the best one to its end."""
    racing = [found for found in judged if found.value > judged[0].value - _OUT_OF_RACE]
    limit = evaluate.limit
    results: list[FitResult] = []
    for _, params, stats in racing:
        if results and evaluate.count >= limit:
            break
        alone = len(racing) == 1
        evaluate.limit = limit if alone else min(limit, evaluate.count + _RACE_EVALUATIONS)
        try:
            params, stats = warm_up(evaluate, params, stats, noise, _EM_STEPS, _EM_WORTH)
            results.append(fit_quasi_newton(evaluate, layout, params, noise, tol, stats))
        finally:
            evaluate.limit = limit
        if results[-1].status == "interrupted":
            break
    best = max(results, key=lambda result: result.log_likelihood)
    if results[-1].status == "interrupted":
        best = best._replace(status="interrupted")
    elif best.status == "max_iter" and not evaluate.exhausted:
        finished = fit_quasi_newton(evaluate, layout, best.params, noise, tol)
        best = finished._replace(history=(*best.history, *finished.history[1:]))
    return best._replace(n_evaluations=evaluate.count)
