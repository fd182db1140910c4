"""A whole fit: several starts, refined on Whittle's likelihood, ranked and finished on the exact one."""

import warnings
from typing import NamedTuple

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.learning.coordinates import Coordinates, from_vector, to_vector
from probsfa.statespace.learning.em import fit_em, maximize, warm_up
from probsfa.statespace.learning.limits import Limits, imposed
from probsfa.statespace.learning.memory_starts import signs_of_memory, with_memories, with_silent_memory
from probsfa.statespace.learning.objective import (
    CountedEStep,
    EStep,
    FitResult,
    Report,
    fit_quasi_newton,
    make_box,
)
from probsfa.statespace.learning.options import Given
from probsfa.statespace.learning.process_starts import (
    MEMORIES,
    from_slow,
    on_even_grid,
    silent_processes,
    strongest_frequency,
    with_rhythm,
)
from probsfa.statespace.learning.processes import within_range
from probsfa.statespace.learning.quasi_newton import ascend
from probsfa.statespace.learning.starts import interpolate, random_starts, starts
from probsfa.statespace.learning.whittle import (
    MemoryWhittleObjective,
    Periodogram,
    WhittleObjective,
    periodogram,
)
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, Parameters, with_more_latents
from probsfa.statespace.posterior import visit_moments

_WHITTLE_EVALUATIONS = 80
# Nats for each free parameter for which a step on Whittle's likelihood, itself not exact, is worth taking.
_WHITTLE_WORTH = 0.003
# Starts whose log-likelihoods differ by less than this (nats) are at the same optimum.
_SAME_OPTIMUM = 0.05
# A start this far below the best (nats) after Whittle's likelihood is not climbed from.
_TOO_LOW = 30.0
# Evaluations of the first climb from each start, where there are several.
_TRIAL_EVALUATIONS = 12
# Steps of EM before the quasi-Newton climb, as long as one gains more than this (nats).
_EM_STEPS, _EM_WORTH = 5, 2.0
# Times that gaps are imputed again by the model before the climb, as long as it gains more than this (nats).
_IMPUTATIONS, _IMPUTATION_WORTH = 6, 5.0
# Spectra of shorter sequences say nothing.
_SHORTEST_FOR_SPECTRA = 8
# Parts of their first loadings with which rhythms and smooth latents are added to a model without them.
_STRENGTHS = (0.3, 0.03)
# Part of the noise of a model that a climb from it takes to have memory.
_WEAK = 0.1
# Part of its frequency by which a rhythm may move on Whittle's likelihood. Where latents are few, it would
# rather become one of the slow ones that are wanting.
_LARGEST_DRIFT = 0.1


def fit(
    panel: Panel,
    latents: Latents,
    noise: Noise,
    start_noise: FloatArray | None,
    *,
    solver: str,
    max_iter: int,
    tol: float,
    n_init: int = 1,
    start: Parameters | None = None,
    memory: bool = False,
    given: Given | None = None,
    limits: Limits | None = None,
    report: Report | None = None,
    e_step: EStep | None = None,
    one_start: bool = False,
) -> FitResult:
    """Maximise the likelihood of standardised data.

    Where the noise has a prior, the posterior density is climbed: from the start, since the likelihood alone
    leads to variances at their floor, among which it says nothing and from which the way back is long.

    Parameters
    ----------
    panel : Panel
        Packed observations, each feature with mean near zero and variance near one.
    latents : Latents
        Which latents there are.
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
    n_init : int, default=1
        Number of climbs to the end; all but the first begin at random, with `max_iter` evaluations each.
    start : Parameters, optional
        Where to start, if that is known.
    memory : bool, default=False
        Whether the noise of each column has memory; all parameters are then those of the state space.
    given : Given, optional
        What is known of rhythms and smooth latents.
    limits : Limits, optional
        What is held, and how far periods may move.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Expected statistics of parameters, where the panel is only a sample of the data, to start from.
    one_start : bool, default=False
        Whether a climb with AR(1) noise starts from the model of white noise alone.

    Returns
    -------
    FitResult
        Also after an interrupt from the keyboard, with the best parameters so far.
    """
    layout = Coordinates(latents, noise.variances, panel.evenly_sampled, limits=limits)
    whole = layout.with_memories if memory else layout
    evaluate = CountedEStep(panel, max_iter, report, e_step)
    evaluate.limits, evaluate.tol = whole.limits_of_states, tol
    holds = limits is not None and limits.hold
    evaluate.begin_with_prior(noise)
    # Matrices here are as small as there are features.
    with one_blas_thread():
        if start is None and holds:
            result = _fit_held(evaluate, whole, noise, solver, tol, given or Given(), n_init)
        elif start is None and latents.n_others:
            result = _fit_with_processes(evaluate, layout, noise, start_noise, solver, tol, given or Given())
        elif start is None:
            result = _fit_from_all_starts(evaluate, layout, noise, start_noise, solver, tol)
        if start is None and not holds:
            first = result
            for other in _random_starts(panel, layout, noise, start_noise, n_init - 1, result.params):
                if result.status == "interrupted":
                    break
                evaluate.limit = evaluate.count + max_iter
                try:
                    result = _better(result, _fit_from(evaluate, layout, noise, other, solver, tol))
                except KeyboardInterrupt:  # before the climb has a first step to remember
                    result = result._replace(status="interrupted")
        if start is not None and memory and start.latents == latents and not holds:
            white = conform(start, layout, noise, start_noise)
            value = evaluate(white).log_likelihood
            reached = FitResult(white, value, (value,), evaluate.count, "converged")
            result = _fit_with_memory(
                evaluate, whole, noise, solver, tol, given or Given(), reached, only=True
            )
        elif start is not None:
            begin = conform(start, whole, noise, start_noise)
            if limits is not None and not memory:
                begin = imposed(begin, limits)
            result = _fit_from(evaluate, whole, noise, begin, solver, tol)
        elif memory and not holds:
            # What is best under white noise need not be with memory.
            nested = [result] if first is result else [first, result]
            for i, one in enumerate(nested):
                evaluate.limit = evaluate.count + max_iter
                reached = _fit_with_memory(
                    evaluate, whole, noise, solver, tol, given or Given(), one, only=one_start
                )
                result = _better(result, reached) if i else reached
                if result.status == "interrupted":
                    break
        # What is climbed counts the prior, what is told does not.
        prior = evaluate.log_prior(result.params)
        return result._replace(
            log_likelihood=result.log_likelihood - prior,
            history=tuple(value - prior for value in result.history),
            n_evaluations=evaluate.count,
        )


def _fit_from_all_starts(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    start_noise: FloatArray | None,
    solver: str,
    tol: float,
) -> FitResult:
    panel = evaluate.panel
    first = _first_starts(panel, layout, noise, start_noise)
    try:
        refined = _refine_all(evaluate, layout, noise, first)
        ranked = _rank(evaluate, refined)
        ranked = _refine_with_imputed_gaps(evaluate, layout, noise, ranked)
        if solver == "em":
            return fit_em(evaluate, ranked[0].params, noise, tol, ranked[0].stats)
        return _climb(evaluate, layout, ranked, noise, tol)
    except KeyboardInterrupt:
        # Interrupted between two climbs, each of which remembers its own best.
        return _interrupted(evaluate, first[0])


def _interrupted(evaluate: CountedEStep, start: Parameters) -> FitResult:
    """The best so far: of what was evaluated, else of the starts on Whittle's likelihood, else this one."""
    if evaluate.best is None:
        start = start if evaluate.best_start is None else evaluate.best_start[1]
        evaluate(start)
    best = start if evaluate.best is None else evaluate.best
    value = evaluate.best_log_likelihood
    return FitResult(best, value, (value,), evaluate.count, "interrupted")


def _fit_with_processes(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    start_noise: FloatArray | None,
    solver: str,
    tol: float,
    given: Given,
) -> FitResult:
    """Maximise with processes beside AR(1) factors, to no less than without them where they are stationary.

    That model is fitted first, with as many evaluations. The processes are then added to it, and to the
    starts of :mod:`.starts`, and all are refined on Whittle's likelihood.
    """
    limit, nested = evaluate.limit, None
    if layout.latents.n_components:
        alone = layout._replace(latents=Latents(layout.latents.n_components))
        nested = _fit_from_all_starts(evaluate, alone, noise, start_noise, solver, tol)
        silent = with_more_latents(nested.params, silent_processes(layout.latents, nested.params, given))
        nested = nested._replace(params=silent)
        if nested.status == "interrupted":
            return nested
    evaluate.limit = evaluate.count + limit
    try:
        candidates = _process_starts(evaluate, layout, noise, start_noise, nested, given)
        ranked = _rank(evaluate, candidates)
        if layout.evenly_sampled:
            ranked = _refine_with_imputed_gaps(evaluate, layout, noise, ranked)
        if solver == "em":
            result = fit_em(evaluate, ranked[0].params, noise, tol, ranked[0].stats)
        else:
            result = _climb(evaluate, layout, ranked, noise, tol)
    except KeyboardInterrupt:
        if nested is not None:
            return nested._replace(status="interrupted")
        if evaluate.best is None:
            raise
        return _interrupted(evaluate, evaluate.best)
    # A diffuse start makes the first row improbable: a trend is kept although its likelihood may be lower.
    stationary = all(kind.stationary for kind in layout.latents.counts)
    if nested is not None and stationary and not result.log_likelihood >= nested.log_likelihood:
        return nested._replace(status=result.status)
    return result


def _fit_held(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    solver: str,
    tol: float,
    given: Given,
    n_init: int,
) -> FitResult:
    """Climb where some parameters are held, from starts that are brought to hold them."""
    panel, limits = evaluate.panel, layout.limits
    assert limits is not None
    plain = layout.without_memories._replace(limits=limits.of_periods)
    if plain.latents.n_others:
        firsts = _process_starts(evaluate, plain, noise, None, None, given)
    else:
        firsts = _first_starts(panel, plain, noise, None)
        firsts = [*_refine_all(evaluate, plain, noise, firsts), *firsts]
        firsts += _random_starts(panel, plain, noise, None, n_init - 1, firsts[0])
    made = [imposed(params, limits) for params in firsts]
    if layout.n_memories:
        made = [with_memories(params) for params in made]
    made = [conform(params, layout, noise, None) for params in made]
    return _fit_from_ranked(
        evaluate, layout, noise, solver, tol, [*_refine_all(evaluate, layout, noise, made), *made]
    )


def _fit_from_ranked(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    solver: str,
    tol: float,
    candidates: list[Parameters],
) -> FitResult:
    """Climb from the best of some starts, whose gaps it imputes first."""
    ranked = _refine_with_imputed_gaps(evaluate, layout, noise, _rank(evaluate, candidates))
    if solver == "em":
        return fit_em(evaluate, ranked[0].params, noise, tol, ranked[0].stats, layout.loaded)
    return _climb(evaluate, layout, ranked, noise, tol)


def _fit_with_memory(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    solver: str,
    tol: float,
    given: Given,
    nested: FitResult,
    *,
    only: bool = False,
) -> FitResult:
    """Climb with AR(1) noise, to no less than what the model of white noise reaches, ``nested``.

    Its factors may carry what is noise of single columns: besides it, the starts of the model of white noise
    are given AR(1) noise too, unless ``only`` this one is asked for. All are refined on Whittle's likelihood.
    """
    silent = nested._replace(params=with_silent_memory(nested.params))
    if nested.status == "interrupted":
        return silent
    try:
        candidates = _memory_starts(evaluate, layout, noise, given, nested.params, only=only)
        result = _fit_from_ranked(evaluate, layout, noise, solver, tol, candidates)
    except KeyboardInterrupt:
        return silent._replace(status="interrupted")
    if not result.log_likelihood >= nested.log_likelihood:
        return silent._replace(status=result.status)
    return result


def _memory_starts(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    given: Given,
    nested: Parameters,
    *,
    only: bool = False,
) -> list[Parameters]:
    """Starts with AR(1) noise: the model of white noise with a part of it, and refined ones."""
    panel, alone = evaluate.panel, layout.without_memories
    bases = [nested]
    if only:
        pass
    elif nested.latents.n_others:
        bases += _process_starts(evaluate, alone, noise, None, None, given)
    else:
        bases += _first_starts(panel, alone, noise, None)
    made = [with_memories(params) for params in bases]
    even = layout.evenly_sampled
    sign = signs_of_memory(nested, _unexplained(panel, nested)[0]) if even else np.ones(1)
    if np.any(sign < 0.0):
        made.append(with_memories(nested, sign=sign))
    firsts = [conform(params, layout, noise, None) for params in made]
    weak = conform(with_memories(nested, _WEAK), layout, noise, None)
    return [*_refine_all(evaluate, layout, noise, firsts), weak]


def _process_starts(
    evaluate: CountedEStep,
    layout: Coordinates,
    noise: Noise,
    start_noise: FloatArray | None,
    nested: FitResult | None,
    given: Given,
) -> list[Parameters]:
    """Starts with processes beside AR(1) factors, of which those from a nested model come last."""
    panel, latents = evaluate.panel, layout.latents
    grid = on_even_grid(panel)
    offset = np.sum([x.sum(axis=0) for x in grid], axis=0) / sum(map(len, grid))
    centred = [x - offset for x in grid]
    data = periodogram(centred) if max(map(len, grid)) >= _SHORTEST_FOR_SPECTRA else None
    slow = Latents(latents.n_components + latents.n_like_ar1)
    if slow.n_components:
        firsts = [
            each for params in starts(centred, offset, slow) for each in from_slow(params, latents, given)
        ]
    else:
        variance = np.mean(np.concatenate(centred) ** 2, axis=0)
        firsts = [Parameters(np.zeros(0), np.zeros((len(offset), 0)), variance, offset)]
    firsts = [conform(params, layout, noise, start_noise) for params in firsts]
    if data is not None and slow.n_components and latents.n_sought:
        firsts = [
            _refine(evaluate, one, layout._replace(latents=one.latents), noise, data)[1] for one in firsts
        ]
    made = [_add_rhythms(evaluate, params, layout, noise, data, centred, given) for params in firsts]
    if nested is not None:
        alone = nested.params.ar1_alone
        base = alone
        if latents.n_like_ar1:
            left, _ = _unexplained(panel, alone)
            first = next(starts(left, np.zeros_like(offset), Latents(latents.n_like_ar1)))
            base = with_more_latents(alone, from_slow(first, latents, given)[0])
        whole = _add_rhythms(evaluate, base, layout, noise, data, centred, given)
        made.append(whole)
        for strength in _STRENGTHS:
            loadings = whole.loadings.copy()
            loadings[:, latents.n_components :] *= strength
            loadings[:, : latents.n_components] = alone.loadings
            weak = whole.replace(decay=alone.decay, loadings=loadings, noise_variance=alone.noise_variance)
            made.append(weak)
    return [conform(params.replace(offset=offset), layout, noise, start_noise) for params in made]


def _unexplained(panel: Panel, params: Parameters) -> tuple[list[FloatArray], FloatArray]:
    """What a model leaves of the data, centred and with interpolated gaps."""
    left = np.array(panel.values[:])
    left[: panel.n_rows] -= _predicted(panel, params)
    return _centred(panel._replace(values=left * panel.mask[:]))


def _add_rhythms(
    evaluate: CountedEStep,
    params: Parameters,
    layout: Coordinates,
    noise: Noise,
    data: Periodogram | None,
    centred: list[FloatArray],
    given: Given,
) -> Parameters:
    """The model with rhythms, looked for one by one or given, and refined on Whittle's likelihood."""
    n_rhythms = layout.latents.n_sought
    for j in range(n_rhythms):
        if given.frequencies is None:
            frequency = strongest_frequency(params, centred)
        else:
            frequency = float(given.frequencies[j])
        before = params.rhythm_frequency
        tried = [with_rhythm(params, frequency, centred, memory) for memory in MEMORIES]
        if data is None:
            params = tried[0]
        else:
            refined = [
                _refine(evaluate, one, layout._replace(latents=one.latents), noise, data) for one in tried
            ]
            params = max(refined, key=lambda pair: pair[0])[1]
            sought = np.append(before, frequency)
            if np.any(np.abs(np.abs(params.rhythm_frequency) / np.abs(sought) - 1.0) > _LARGEST_DRIFT):
                params = tried[0]
    if n_rhythms == 0 and data is not None:
        params = _refine(evaluate, params, layout, noise, data)[1]
    return params


def _fit_from(
    evaluate: CountedEStep, layout: Coordinates, noise: Noise, start: Parameters, solver: str, tol: float
) -> FitResult:
    """Climb from one place."""
    start = start.replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
    if solver == "em":
        return fit_em(evaluate, start, noise, tol, loaded=layout.loaded)
    params, stats = warm_up(evaluate, start, evaluate(start), noise, _EM_STEPS, _EM_WORTH, layout.loaded)
    return fit_quasi_newton(evaluate, layout, params, noise, tol, stats)


def _random_starts(
    panel: Panel,
    layout: Coordinates,
    noise: Noise,
    start_noise: FloatArray | None,
    n_starts: int,
    first: Parameters,
) -> list[Parameters]:
    """Random starts that the layout can express; other processes are those of the first fit."""
    k = layout.latents.n_components
    if n_starts == 0 or k == 0:
        return []
    others = first.replace(decay=first.decay[:0], loadings=first.loadings[:, k:])
    slow = random_starts(*_centred(panel), Latents(k), n_starts)
    drawn = [with_more_latents(params, others) for params in slow]
    return [conform(params, layout, noise, start_noise) for params in drawn]


def _better(best: FitResult, other: FitResult) -> FitResult:
    """The higher of two; interrupted if the later one was."""
    higher = other if other.history and other.log_likelihood > best.log_likelihood else best
    return higher._replace(status="interrupted") if other.status == "interrupted" else higher


def _first_starts(
    panel: Panel, layout: Coordinates, noise: Noise, start_noise: FloatArray | None
) -> list[Parameters]:
    """Starts that the layout can express, the most faithful to slow feature analysis first."""
    centred, offset = _centred(panel)
    return [conform(params, layout, noise, start_noise) for params in starts(centred, offset, layout.latents)]


def _predicted(panel: Panel, params: Parameters) -> FloatArray:
    """Posterior means of all cells (N, D), to eight digits: a start is made of them."""
    predicted = np.empty((panel.n_rows, panel.values.shape[1]))

    def see(rows: slice, means: FloatArray, _: FloatArray) -> None:
        predicted[rows] = params.offset + means @ params.loadings.T

    visit_moments(params, panel, see, for_steps=True)
    return predicted


def _centred(panel: Panel, params: Parameters | None = None) -> tuple[list[FloatArray], FloatArray]:
    """Sequences without their common mean, and the mean; gaps are interpolated, or filled by a model."""
    if params is None:
        sequences = interpolate(panel)
    else:
        filled, n = _predicted(panel, params), panel.n_rows
        np.copyto(filled, panel.values[:n], where=panel.mask[:n] > 0.0)
        sequences = np.split(filled, np.cumsum(panel.lengths)[:-1])
    offset = np.sum([x.sum(axis=0) for x in sequences], axis=0) / panel.n_rows
    for x in sequences:
        x -= offset
    return sequences, offset


def _refine_all(
    evaluate: CountedEStep, layout: Coordinates, noise: Noise, first: list[Parameters]
) -> list[Parameters]:
    """Starts refined on Whittle's likelihood, best first by it."""
    panel = evaluate.panel
    if max(panel.lengths) < _SHORTEST_FOR_SPECTRA:
        return first
    data = periodogram(_centred(panel)[0])
    refined = [_refine(evaluate, params, layout, noise, data) for params in first]
    refined.sort(key=lambda pair: -pair[0])
    return [params for _, params in refined]


def conform(
    params: Parameters, layout: Coordinates, noise: Noise, start_noise: FloatArray | None
) -> Parameters:
    """A start brought to what the layout can express."""
    variance = np.maximum(params.noise_variance, noise.floor)
    known = variance if start_noise is None else start_noise
    variance = noise.variances.of_columns(noise.variances.means(variance), known)
    within = within_range(params, evenly_sampled=layout.evenly_sampled)
    return within.replace(noise_variance=noise.with_held(variance))


def _refine(
    evaluate: CountedEStep, params: Parameters, layout: Coordinates, noise: Noise, data: Periodogram
) -> tuple[float, Parameters]:
    even = layout._replace(evenly_sampled=True)
    kind = MemoryWhittleObjective if layout.n_memories else WhittleObjective
    objective = kind(even, data, params, _WHITTLE_EVALUATIONS, evaluate.refined, noise)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # A wild step may overflow; the search then shortens it.
        warnings.simplefilter("ignore", RuntimeWarning)
        worth = max(0.1, _WHITTLE_WORTH * layout.size)
        end = ascend(objective, to_vector(even, params), make_box(even, noise), tol=worth)
    refined = from_vector(even, end.vector, params)
    value = end.history[-1] if end.history else -np.inf
    refined = within_range(refined, evenly_sampled=layout.evenly_sampled)
    evaluate.remember_start(value, refined)
    if end.ending == "interrupted":
        raise KeyboardInterrupt
    return (value, refined) if np.isfinite(value) else (-np.inf, params)


def _refine_with_imputed_gaps(
    evaluate: CountedEStep, layout: Coordinates, noise: Noise, ranked: list["_RankedStart"]
) -> list["_RankedStart"]:
    """Refine the best start on Whittle's likelihood again, with gaps imputed by what it predicts.

    Straight lines through gaps look like noise, of which there may be little. Repeated as long as the exact
    likelihood rises enough.
    """
    panel = evaluate.panel
    if panel.mask[: panel.n_rows].all() or max(panel.lengths) < _SHORTEST_FOR_SPECTRA:
        return ranked
    for _ in range(_IMPUTATIONS):
        if evaluate.limit - evaluate.count < 2:
            break
        best = ranked[0]
        # A step of EM, which never lowers the likelihood; what it gains is not asked, and so costs nothing.
        params = maximize(best.params, best.stats, noise, panel.gaps, layout.loaded)
        evaluate.count += 1  # of the posterior that fills the gaps
        filled, offset = _centred(panel, params)
        _, refined = _refine(evaluate, params.replace(offset=offset), layout, noise, periodogram(filled))
        stats = evaluate(refined)
        gain = stats.log_likelihood - best.value
        if not gain > 0.0:
            break
        ranked = [_RankedStart(stats.log_likelihood, refined, stats), *ranked[1:]]
        if gain < max(_IMPUTATION_WORTH, evaluate.tol):
            break
    return ranked


class _RankedStart(NamedTuple):
    """A start with its exact log-likelihood."""

    value: float
    params: Parameters
    stats: Statistics


def _rank(evaluate: CountedEStep, candidates: list[Parameters]) -> list[_RankedStart]:
    """Starts by their exact log-likelihood, best first; those that reach the same value count once."""
    ranked: list[_RankedStart] = []
    for params in candidates:
        if ranked and evaluate.exhausted:
            break
        stats = evaluate(params)
        value = stats.log_likelihood
        if np.isfinite(value) and all(abs(value - other.value) > _SAME_OPTIMUM for other in ranked):
            ranked.append(_RankedStart(value, params, stats))
    if not ranked:
        raise ValueError(
            "The log-likelihood is no finite number at any start: some values of X are too far from the "
            "others, or the noise that is given is too small or too large for them."
        )
    return sorted(ranked, key=lambda start: -start.value)


def _climb(
    evaluate: CountedEStep, layout: Coordinates, ranked: list[_RankedStart], noise: Noise, tol: float
) -> FitResult:
    """Climb a little way from every start that is high enough, then from the best one to the end."""
    # Not `>`: beyond 1e17 nats, which very little noise gives, a difference of a few is lost.
    promising = [start for start in ranked if start.value >= ranked[0].value - _TOO_LOW]
    limit = evaluate.limit
    results: list[FitResult] = []
    for _, params, stats in promising:
        if results and evaluate.count >= limit:
            break
        alone = len(promising) == 1
        evaluate.limit = limit if alone else min(limit, evaluate.count + _TRIAL_EVALUATIONS)
        try:
            params, stats = warm_up(evaluate, params, stats, noise, _EM_STEPS, _EM_WORTH, layout.loaded)
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
