"""Maximum likelihood from starts refined by Whittle's likelihood and ranked by the exact likelihood."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probsfa._threads import one_blas_thread
from probsfa._typing import FloatArray
from probsfa.statespace.engine.moments import Statistics
from probsfa.statespace.engine.posterior import visit_moments
from probsfa.statespace.learning.coordinates import (
    Coordinates,
    clip_decays,
    from_vector,
    impose_limits,
    to_vector,
)
from probsfa.statespace.learning.em import fit_em, maximize, warm_up
from probsfa.statespace.learning.objective import (
    AR1NoiseWhittleObjective,
    CountedEStep,
    EStep,
    FitResult,
    Periodogram,
    Report,
    WhittleObjective,
    fit_quasi_newton,
    make_box,
    periodogram,
)
from probsfa.statespace.learning.options import InitialProcesses, Optimizer
from probsfa.statespace.learning.quasi_newton import maximize_objective
from probsfa.statespace.learning.starts import (
    DAMPING_TIMES,
    from_ar1_factors,
    interpolate,
    on_even_grid,
    random_starts,
    signs_of_ar1_noise,
    silent_processes,
    starts,
    strongest_frequency,
    with_ar1_noise,
    with_cycle,
    with_silent_ar1_noise,
)
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import Latents, StateSpace, with_more_latents

_MAX_WHITTLE_EVALUATIONS = 80
# Refined starts are dropped if their exact log-likelihood is below the best by more than this (nats).
_MAX_LOSS_OF_START = 30.0
# Maximum number of EM steps before quasi-Newton steps, and the gain (nats) below which they end.
_MAX_EM_STEPS, _MIN_EM_GAIN = 5, 2.0
# Maximum number of imputations by the model before optimization, and the gain (nats) below which they end.
_MAX_IMPUTATIONS, _MIN_IMPUTATION_GAIN = 6, 5.0
# If all sequences are shorter than this (rows), Whittle's likelihood is not used.
_MIN_ROWS_OF_SPECTRA = 8
# Multipliers of the initial loadings of cycles, smooth factors and trends that are added to AR(1) factors.
_LOADING_MULTIPLIERS = (0.3, 0.03)


def fit(
    panel: Panel,
    coordinates: Coordinates,
    noise: Noise,
    optimizer: Optimizer,
    *,
    initial_processes: InitialProcesses | None = None,
    start: StateSpace | None = None,
    report: Report | None = None,
    e_step: EStep | None = None,
) -> FitResult:
    """Maximise the likelihood of standardised data.

    With a noise prior, the posterior density is maximised from the first step on. With the likelihood alone,
    variances would reach their lower bound, where the likelihood is flat and convergence is slow.

    Parameters
    ----------
    panel : Panel
        Packed observations, each column with mean near zero and variance near one.
    coordinates : Coordinates
        Layout of the free parameters. With AR(1) noise of columns, all parameters are those of the
        state-space form, in which the noise processes are the last AR(1) states.
    noise : Noise
        Constraints and prior of the noise variances; known variances are lower bounds (`noise.floor`).
    optimizer : Optimizer
        Settings of the optimizer.
    initial_processes : InitialProcesses, optional
        Initial values of stochastic cycles and smooth processes.
    start : StateSpace, optional
        Initial parameters, if they are known.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Function that returns expected statistics over all data; required if `panel` is only a sample for
        the computation of starts.

    Returns
    -------
    FitResult
        After a keyboard interrupt, with the best parameters so far.
    """
    evaluate = CountedEStep(panel, optimizer.max_iter, report, e_step)
    evaluate.limits, evaluate.tol = coordinates.limits_of_states, optimizer.tol
    evaluate.set_prior(noise)
    search = _Search(evaluate, noise, optimizer, initial_processes or InitialProcesses())
    # Matrices here have the size of the number of columns, too small for several threads.
    with one_blas_thread():
        if start is not None:
            result = search.from_known(coordinates, start)
        elif coordinates.any_fixed:
            result = search.from_held(coordinates)
        else:
            result = search.from_data(coordinates)
        # The objective includes the prior, the reported log-likelihood does not.
        prior = evaluate.log_prior(result.params)
        return result._replace(
            log_likelihood=result.log_likelihood - prior,
            history=tuple(value - prior for value in result.history),
            n_evaluations=evaluate.count,
        )


@dataclass(frozen=True)
class _Search:
    """Search for the maximum: rank candidates by the exact log-likelihood, and refine the best.

    Attributes
    ----------
    evaluate : CountedEStep
        Computes expected statistics and counts evaluations, up to a limit.
    noise : Noise
        How the noise variances are learned.
    optimizer : Optimizer
        Settings of the optimizer.
    initial_processes : InitialProcesses
        Initial values of processes.
    """

    evaluate: CountedEStep
    noise: Noise
    optimizer: Optimizer
    initial_processes: InitialProcesses

    @property
    def panel(self) -> Panel:
        """The data."""
        return self.evaluate.panel

    # -------------------------------------------------------------------------- initial parameters

    def from_known(self, coordinates: Coordinates, start: StateSpace) -> FitResult:
        """Maximise from known parameters; AR(1) noise is added if they have white noise."""
        white_coordinates = coordinates.with_white_noise
        if (
            coordinates.n_ar1_noise
            and start.latents == white_coordinates.latents
            and not coordinates.any_fixed
        ):
            white = self.conform(start, white_coordinates)
            value = self.evaluate(white).log_likelihood
            white_fit = FitResult(white, value, (value,), self.evaluate.count, "converged")
            return self.with_ar1_noise(coordinates, white_fit, one_start=True)
        initial = self.conform(start, coordinates)
        if coordinates.limits is not None and not coordinates.n_ar1_noise:
            initial = impose_limits(initial, coordinates.limits)
        return self.refined_from(coordinates, initial)

    def from_held(self, coordinates: Coordinates) -> FitResult:
        """Maximise with some parameters fixed, from candidates in which their values are imposed."""
        limits = coordinates.limits
        assert limits is not None
        white_coordinates = coordinates.with_white_noise._replace(limits=limits.frequencies_only)
        if white_coordinates.latents.n_other_processes:
            candidates = self.process_candidates(white_coordinates, None)
        else:
            candidates = self.ar1_candidates(white_coordinates)
            candidates = [*self.refined_all(white_coordinates, candidates), *candidates]
            candidates += self.random_candidates(white_coordinates, candidates[0])
        imposed_candidates = [impose_limits(params, limits) for params in candidates]
        if coordinates.n_ar1_noise:
            imposed_candidates = [with_ar1_noise(params) for params in imposed_candidates]
        imposed_candidates = [self.conform(params, coordinates) for params in imposed_candidates]
        return self.from_candidates(
            coordinates, [*self.refined_all(coordinates, imposed_candidates), *imposed_candidates]
        )

    def from_data(self, coordinates: Coordinates) -> FitResult:
        """Maximise from candidates computed from the data: first with white noise, then with AR(1) noise."""
        white_coordinates, max_iter = coordinates.with_white_noise, self.evaluate.limit
        first_fit = (
            self.with_processes(white_coordinates)
            if white_coordinates.latents.n_other_processes
            else self.from_ar1_candidates(white_coordinates)
        )
        result = first_fit
        for candidate in self.random_candidates(white_coordinates, first_fit.params):
            if result.status == "interrupted":
                break
            self.evaluate.limit = self.evaluate.count + max_iter
            try:
                result = _better(result, self.refined_from(white_coordinates, candidate))
            except KeyboardInterrupt:  # before the optimizer, which handles later interrupts itself
                result = result._replace(status="interrupted")
        if not coordinates.n_ar1_noise:
            return result
        # The best model with white noise need not be the best with AR(1) noise.
        for i, white_fit in enumerate([result] if first_fit is result else [first_fit, result]):
            self.evaluate.limit = self.evaluate.count + max_iter
            ar1_fit = self.with_ar1_noise(coordinates, white_fit, one_start=self.optimizer.one_start)
            result = _better(result, ar1_fit) if i else ar1_fit
            if result.status == "interrupted":
                break
        return result

    def from_ar1_candidates(self, coordinates: Coordinates) -> FitResult:
        """Maximise with AR(1) factors alone."""
        candidates = self.ar1_candidates(coordinates)
        try:
            return self.from_candidates(coordinates, self.refined_all(coordinates, candidates))
        except KeyboardInterrupt:
            # Interrupted between two optimization runs, each of which stores its own best.
            return self.interrupted(candidates[0])

    def with_processes(self, coordinates: Coordinates) -> FitResult:
        """Maximise with cycles, smooth factors or trends; stationary ones do not lower the likelihood.

        The model without them is fitted first, with as many evaluations. The processes are then added to it,
        and to the candidates of :mod:`.starts`, and all are refined on Whittle's likelihood.
        """
        limit, nested = self.evaluate.limit, None
        if coordinates.latents.n_components:
            ar1_coordinates = coordinates._replace(latents=Latents(coordinates.latents.n_components))
            nested = self.from_ar1_candidates(ar1_coordinates)
            silent = with_more_latents(
                nested.params, silent_processes(coordinates.latents, nested.params, self.initial_processes)
            )
            nested = nested._replace(params=silent)
            if nested.status == "interrupted":
                return nested
        self.evaluate.limit = self.evaluate.count + limit
        try:
            candidates = self.process_candidates(coordinates, nested)
            result = self.from_candidates(coordinates, candidates, impute_missing=coordinates.evenly_sampled)
        except KeyboardInterrupt:
            if nested is not None:
                return nested._replace(status="interrupted")
            if self.evaluate.best is None:
                raise
            return self.interrupted(self.evaluate.best)
        # Under a diffuse initial state the density of the first row is small: trends may lower the
        # likelihood.
        stationary = all(kind.stationary for kind in coordinates.latents.counts)
        if nested is not None and stationary and not result.log_likelihood >= nested.log_likelihood:
            return nested._replace(status=result.status)
        return result

    def with_ar1_noise(self, coordinates: Coordinates, nested: FitResult, *, one_start: bool) -> FitResult:
        """Maximise with AR(1) noise; the result is at least as likely as the white-noise fit ``nested``.

        The factors of ``nested`` may describe noise of single columns. Unless ``one_start``, AR(1) noise is
        therefore also added to the candidates of the white-noise model. All are refined on Whittle's
        likelihood.
        """
        silent = nested._replace(params=with_silent_ar1_noise(nested.params))
        if nested.status == "interrupted":
            return silent
        try:
            candidates = self.ar1_noise_candidates(coordinates, nested.params, one_start=one_start)
            result = self.from_candidates(coordinates, candidates)
        except KeyboardInterrupt:
            return silent._replace(status="interrupted")
        if not result.log_likelihood >= nested.log_likelihood:
            return silent._replace(status=result.status)
        return result

    def interrupted(self, start: StateSpace) -> FitResult:
        """Return the best evaluated parameters, or the best by Whittle's likelihood, or `start`."""
        evaluate = self.evaluate
        if evaluate.best is None:
            start = start if evaluate.best_start is None else evaluate.best_start[1]
            evaluate(start)
        best = start if evaluate.best is None else evaluate.best
        value = evaluate.best_log_likelihood
        return FitResult(best, value, (value,), evaluate.count, "interrupted")

    # ---------------------------------------------------------------------------------- candidates

    def conform(self, params: StateSpace, coordinates: Coordinates) -> StateSpace:
        """Return a candidate that satisfies the constraints of the layout."""
        return conform(params, coordinates, self.noise)

    def ar1_candidates(self, coordinates: Coordinates) -> list[StateSpace]:
        """Return candidates with AR(1) factors, the closest to slow feature analysis first."""
        centred, offset = _centred(self.panel)
        return [self.conform(params, coordinates) for params in starts(centred, offset, coordinates.latents)]

    def random_candidates(self, coordinates: Coordinates, first: StateSpace) -> list[StateSpace]:
        """Return candidates with random AR(1) factors; other processes are those of the first fit."""
        k, n_starts = coordinates.latents.n_components, self.optimizer.n_init - 1
        if n_starts == 0 or k == 0:
            return []
        other_processes = first.replace(decay=first.decay[:0], loadings=first.loadings[:, k:])
        random_factors = random_starts(*_centred(self.panel), Latents(k), n_starts)
        return [
            self.conform(with_more_latents(params, other_processes), coordinates) for params in random_factors
        ]

    def ar1_noise_candidates(
        self, coordinates: Coordinates, nested: StateSpace, *, one_start: bool
    ) -> list[StateSpace]:
        """Return refined candidates with AR(1) noise, and the white-noise model with weak AR(1) noise."""
        white_coordinates, white_models = coordinates.with_white_noise, [nested]
        if not one_start:
            n_other_processes = nested.latents.n_other_processes
            white_models += (
                self.process_candidates(white_coordinates, None)
                if n_other_processes
                else self.ar1_candidates(white_coordinates)
            )
        candidates = [with_ar1_noise(params) for params in white_models]
        evenly_sampled = coordinates.evenly_sampled
        sign = (
            signs_of_ar1_noise(nested, _centred_residuals(self.panel, nested)[0])
            if evenly_sampled
            else np.ones(1)
        )
        if np.any(sign < 0.0):
            candidates.append(with_ar1_noise(nested, sign=sign))
        conforming = [self.conform(params, coordinates) for params in candidates]
        # Share of each column's noise that is AR(1) noise in the last start from a model with white noise.
        weak = self.conform(with_ar1_noise(nested, 0.1), coordinates)
        return [*self.refined_all(coordinates, conforming), weak]

    def process_candidates(self, coordinates: Coordinates, nested: FitResult | None) -> list[StateSpace]:
        """Return candidates with processes beside AR(1) factors; those from a nested model are the last."""
        latents = coordinates.latents
        grid = on_even_grid(self.panel)
        offset = np.sum([x.sum(axis=0) for x in grid], axis=0) / sum(map(len, grid))
        centred = [x - offset for x in grid]
        data = periodogram(centred) if max(map(len, grid)) >= _MIN_ROWS_OF_SPECTRA else None
        ar1_latents = Latents(latents.n_components + latents.n_like_ar1)
        if ar1_latents.n_components:
            bases = [
                base_model
                for params in starts(centred, offset, ar1_latents)
                for base_model in from_ar1_factors(params, latents, self.initial_processes)
            ]
        else:
            variance = np.mean(np.concatenate(centred) ** 2, axis=0)
            bases = [StateSpace(np.zeros(0), np.zeros((len(offset), 0)), variance, offset)]
        bases = [self.conform(params, coordinates) for params in bases]
        if data is not None and ar1_latents.n_components and latents.n_from_periodogram:
            bases = [
                self.refined(coordinates._replace(latents=base_model.latents), base_model, data)[1]
                for base_model in bases
            ]
        candidates = [self.with_cycles(coordinates, params, data, centred) for params in bases]
        if nested is not None:
            ar1_model = nested.params.ar1_alone
            base = ar1_model
            if latents.n_like_ar1:
                residuals, _ = _centred_residuals(self.panel, ar1_model)
                residual_factors = next(starts(residuals, np.zeros_like(offset), Latents(latents.n_like_ar1)))
                base = with_more_latents(
                    ar1_model, from_ar1_factors(residual_factors, latents, self.initial_processes)[0]
                )
            complete_model = self.with_cycles(coordinates, base, data, centred)
            candidates.append(complete_model)
            for multiplier in _LOADING_MULTIPLIERS:
                loadings = complete_model.loadings.copy()
                loadings[:, latents.n_components :] *= multiplier
                loadings[:, : latents.n_components] = ar1_model.loadings
                candidates.append(
                    complete_model.replace(
                        decay=ar1_model.decay, loadings=loadings, noise_variance=ar1_model.noise_variance
                    )
                )
        return [self.conform(params.replace(offset=offset), coordinates) for params in candidates]

    def with_cycles(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        data: Periodogram | None,
        centred: list[FloatArray],
    ) -> StateSpace:
        """Add stochastic cycles, detected one by one or given, and refine them on Whittle's likelihood."""
        n_rhythms = coordinates.latents.n_from_periodogram
        for j in range(n_rhythms):
            if self.initial_processes.frequencies is None:
                frequency = strongest_frequency(params, centred)
            else:
                frequency = float(self.initial_processes.frequencies[j])
            previous_frequencies = params.rhythm_frequency
            candidates = [
                with_cycle(params, frequency, centred, damping_time) for damping_time in DAMPING_TIMES
            ]
            if data is None:
                params = candidates[0]
            else:
                refined = [
                    self.refined(coordinates._replace(latents=candidate.latents), candidate, data)
                    for candidate in candidates
                ]
                params = max(refined, key=lambda pair: pair[0])[1]
                initial_frequencies = np.append(previous_frequencies, frequency)
                # Largest relative change of a cycle's frequency on Whittle's likelihood. With too few latent
                # factors, a cycle would otherwise become slow and replace a missing factor.
                if np.any(np.abs(np.abs(params.rhythm_frequency) / np.abs(initial_frequencies) - 1.0) > 0.1):
                    params = candidates[0]
        if n_rhythms == 0 and data is not None:
            params = self.refined(coordinates, params, data)[1]
        return params

    # ------------------------------------------------------------------- refinement by the spectrum

    def refined(
        self, coordinates: Coordinates, params: StateSpace, data: Periodogram
    ) -> tuple[float, StateSpace]:
        """Refine a candidate on Whittle's likelihood; return its value there and the candidate."""
        evenly_sampled = coordinates._replace(evenly_sampled=True)
        objective_class = AR1NoiseWhittleObjective if coordinates.n_ar1_noise else WhittleObjective
        objective = objective_class(
            evenly_sampled, data, params, _MAX_WHITTLE_EVALUATIONS, self.evaluate.on_whittle_step, self.noise
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A very long step may overflow; the optimizer then shortens it.
            warnings.simplefilter("ignore", RuntimeWarning)
            # Tolerance in nats, not small because Whittle's likelihood is approximate: at least 0.1, 0.003
            # for each free parameter, and 0.3 of the tolerance on the exact likelihood.
            tol = max(0.1, 0.003 * coordinates.size, 0.3 * self.evaluate.tol)
            optimum = maximize_objective(
                objective,
                to_vector(evenly_sampled, params),
                make_box(evenly_sampled, self.noise, params),
                tol=tol,
            )
        refined = from_vector(evenly_sampled, optimum.vector, params)
        value = optimum.history[-1] if optimum.history else -np.inf
        refined = clip_decays(refined, evenly_sampled=coordinates.evenly_sampled)
        self.evaluate.record_start(value, refined)
        if optimum.stop_reason == "interrupted":
            raise KeyboardInterrupt
        return (value, refined) if np.isfinite(value) else (-np.inf, params)

    def refined_all(self, coordinates: Coordinates, candidates: list[StateSpace]) -> list[StateSpace]:
        """Refine candidates on Whittle's likelihood and sort them by it, best first."""
        if max(self.panel.lengths) < _MIN_ROWS_OF_SPECTRA:
            return candidates
        data = periodogram(_centred(self.panel)[0])
        refined = [self.refined(coordinates, params, data) for params in candidates]
        refined.sort(key=lambda pair: -pair[0])
        return [params for _, params in refined]

    # --------------------------------------------------------------------- the exact log-likelihood

    def from_candidates(
        self, coordinates: Coordinates, candidates: list[StateSpace], *, impute_missing: bool = True
    ) -> FitResult:
        """Maximise from the best candidates; the first is also refined with imputed missing values."""
        ranked = self.ranked(candidates)
        if impute_missing:
            ranked = self.refined_with_imputed(coordinates, ranked)
        if self.optimizer.solver == "em":
            best = ranked[0]
            return fit_em(
                self.evaluate,
                best.params,
                self.noise,
                self.optimizer.tol,
                best.stats,
                coordinates.has_loading,
            )
        return self.best_of(coordinates, ranked)

    def ranked(self, candidates: list[StateSpace]) -> list["_RankedStart"]:
        """Sort candidates by their exact log-likelihood, best first; equal values count once."""
        ranked: list[_RankedStart] = []
        for params in candidates:
            if ranked and self.evaluate.exhausted:
                break
            stats = self.evaluate(params)
            value = stats.log_likelihood
            # Starts whose log-likelihoods differ by less than this (nats) count as one optimum.
            if np.isfinite(value) and all(abs(value - other.value) > 0.05 for other in ranked):
                ranked.append(_RankedStart(value, params, stats))
        if not ranked:
            raise ValueError(
                "The log-likelihood is not finite at any start: some values of X are too far from the "
                "others, or the known noise variances are too small or too large. Rescale or remove these "
                "values."
            )
        return sorted(ranked, key=lambda start: -start.value)

    def refined_with_imputed(
        self, coordinates: Coordinates, ranked: list["_RankedStart"]
    ) -> list["_RankedStart"]:
        """Refine the best candidate on Whittle's likelihood again, with missing values imputed by the model.

        With linear interpolation, data with little noise appear noisier. The refinement is repeated as long
        as the exact likelihood increases enough.
        """
        panel, evaluate = self.panel, self.evaluate
        if panel.mask[: panel.n_rows].all() or max(panel.lengths) < _MIN_ROWS_OF_SPECTRA:
            return ranked
        for _ in range(_MAX_IMPUTATIONS):
            if evaluate.limit - evaluate.count < 2:
                break
            best = ranked[0]
            # An EM step never lowers the likelihood, so its gain need not be evaluated.
            params = maximize(best.params, best.stats, self.noise, panel.gaps, coordinates.has_loading)
            evaluate.count += 1  # the posterior that imputes the values
            filled, offset = _centred(panel, params)
            _, refined = self.refined(coordinates, params.replace(offset=offset), periodogram(filled))
            stats = evaluate(refined)
            gain = stats.log_likelihood - best.value
            if not gain > 0.0:
                break
            ranked = [_RankedStart(stats.log_likelihood, refined, stats), *ranked[1:]]
            if gain < max(_MIN_IMPUTATION_GAIN, evaluate.tol):
                break
        return ranked

    def best_of(self, coordinates: Coordinates, ranked: list["_RankedStart"]) -> FitResult:
        """Maximise for a few evaluations from candidates near the best, then from the best to convergence."""
        # `>=` keeps the best start even if 30 nats are below the rounding error of its value (above 1e17
        # nats, as with very little noise).
        promising = [start for start in ranked if start.value >= ranked[0].value - _MAX_LOSS_OF_START]
        evaluate, limit = self.evaluate, self.evaluate.limit
        results: list[FitResult] = []
        for _, params, stats in promising:
            if results and evaluate.count >= limit:
                break
            is_single = len(promising) == 1
            # Evaluations of the first optimization run from each start, if there are several.
            evaluate.limit = limit if is_single else min(limit, evaluate.count + 12)
            try:
                params, stats = warm_up(
                    evaluate, params, stats, self.noise, _MAX_EM_STEPS, _MIN_EM_GAIN, coordinates.has_loading
                )
                results.append(
                    fit_quasi_newton(evaluate, coordinates, params, self.noise, self.optimizer.tol, stats)
                )
            finally:
                evaluate.limit = limit
            if results[-1].status == "interrupted":
                break
        best = max(results, key=lambda result: result.log_likelihood)
        if results[-1].status == "interrupted":
            best = best._replace(status="interrupted")
        elif best.status == "max_iter" and not evaluate.exhausted:
            finished = fit_quasi_newton(evaluate, coordinates, best.params, self.noise, self.optimizer.tol)
            best = finished._replace(history=(*best.history, *finished.history[1:]))
        return best._replace(n_evaluations=evaluate.count)

    def refined_from(self, coordinates: Coordinates, start: StateSpace) -> FitResult:
        """Maximise the exact log-likelihood from one candidate."""
        evaluate, noise = self.evaluate, self.noise
        start = start.replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
        if self.optimizer.solver == "em":
            return fit_em(evaluate, start, noise, self.optimizer.tol, has_loading=coordinates.has_loading)
        params, stats = warm_up(
            evaluate, start, evaluate(start), noise, _MAX_EM_STEPS, _MIN_EM_GAIN, coordinates.has_loading
        )
        return fit_quasi_newton(evaluate, coordinates, params, noise, self.optimizer.tol, stats)


class _RankedStart(NamedTuple):
    """A candidate with its exact log-likelihood."""

    value: float
    params: StateSpace
    stats: Statistics


def _better(best: FitResult, other: FitResult) -> FitResult:
    """Return the better of two results, with status "interrupted" if `other` was interrupted."""
    better = other if other.history and other.log_likelihood > best.log_likelihood else best
    return better._replace(status="interrupted") if other.status == "interrupted" else better


def _centred_residuals(panel: Panel, params: StateSpace) -> tuple[list[FloatArray], FloatArray]:
    """Return centred residuals of a model, with missing values interpolated, and their mean."""
    residuals = np.array(panel.values[:])
    residuals[: panel.n_rows] -= _predicted(panel, params)
    return _centred(panel._replace(values=residuals * panel.mask[:]))


def _predicted(panel: Panel, params: StateSpace) -> FloatArray:
    """Return posterior means of all values (N, D), to eight digits, which suffice for a start."""
    predicted = np.empty((panel.n_rows, panel.values.shape[1]))

    def store(rows: slice, means: FloatArray, _: FloatArray) -> None:
        predicted[rows] = params.offset + means @ params.loadings.T

    visit_moments(params, panel, store, for_steps=True)
    return predicted


def _centred(panel: Panel, params: StateSpace | None = None) -> tuple[list[FloatArray], FloatArray]:
    """Return centred sequences and their mean; missing values are interpolated, or imputed by a model."""
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


def conform(params: StateSpace, coordinates: Coordinates, noise: Noise) -> StateSpace:
    """Return a start that satisfies the constraints of the layout."""
    variance = np.maximum(params.noise_variance, noise.floor)
    known = variance if noise.variances.n_free else noise.floor
    variance = noise.variances.of_columns(noise.variances.means(variance), known)
    in_range = clip_decays(params, evenly_sampled=coordinates.evenly_sampled)
    return in_range.replace(noise_variance=noise.with_held(variance))
