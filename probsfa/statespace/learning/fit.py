"""Maximum likelihood from several initial values.

Initial values are optimized on Whittle's likelihood and ranked by the exact likelihood. The best initial
values are then optimized on the exact likelihood.
"""

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
from probsfa.statespace.learning.em import fit_em, fit_monte_carlo_em, maximize, warm_up
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
    ar1_noise_signs,
    from_ar1_factors,
    interpolate,
    interpolate_to_grid,
    processes_without_loadings,
    starts,
    strongest_frequency,
    with_ar1_noise,
    with_cycle,
    with_zero_ar1_noise,
)
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.panel import Panel
from probsfa.statespace.parameters import StateLayout, StateSpace, with_more_factors

# Maximum number of evaluations of Whittle's likelihood for one candidate.
_MAX_WHITTLE_EVALUATIONS = 80
# A candidate is dropped if its exact log-likelihood is lower than that of the best candidate by more than
# this number of nats.
_MAX_LOSS_OF_START = 30.0
# Minimum difference of the log-likelihoods of different candidates (nats).
_MIN_DIFFERENCE_OF_STARTS = 0.05
# If there are several candidates: number of evaluations for each of them, before only the best is continued.
_N_FIRST_EVALUATIONS = 12
# Before quasi-Newton steps: maximum number of EM steps, and gain (nats) of an EM step below which they end.
_MAX_EM_STEPS, _MIN_EM_GAIN = 5, 2.0
# Before optimization: maximum number of imputations by the model, each followed by a refinement on Whittle's
# likelihood, and gain (nats) of such an iteration below which they end.
_MAX_IMPUTATIONS, _MIN_IMPUTATION_GAIN = 6, 5.0
# Minimum length of the longest sequence, in rows, for Whittle's likelihood.
_MIN_ROWS_OF_SPECTRA = 8
# Multipliers of the initial loadings of cycles, smooth factors and trends that are added to AR(1) factors.
_LOADING_MULTIPLIERS = (0.3, 0.03)
# Maximum relative change of the frequency of a cycle by refinement. After a larger change the refinement is
# discarded, because the cycle may have replaced a missing slow factor.
_MAX_FREQUENCY_CHANGE = 0.1
# A fit with integrated AR(1) noise starts from a fit with white noise, which has at most this number of
# likelihood evaluations.
_MAX_WHITE_NOISE_EVALUATIONS = 15
# Share of AR(1) noise in the noise of each column, for the candidate with weak AR(1) noise.
_WEAK_AR1_SHARE = 0.1


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
    """Maximize the likelihood of standardized data.

    With a noise prior, the posterior density is maximized. Without it, variances may reach their lower bound,
    where the likelihood is flat and convergence is slow.

    Parameters
    ----------
    panel : Panel
        Packed observations, each column with mean near zero and variance near one.
    coordinates : Coordinates
        Free coordinates. With AR(1) noise of columns, all parameters are in state-space form, in which the
        noise processes are the last AR(1) states.
    noise : Noise
        Constraints and prior of the noise variances. Values of known variances are in `noise.floor`.
    optimizer : Optimizer
        Settings of the optimizer.
    initial_processes : InitialProcesses, optional
        Initial values of stochastic cycles and smooth processes.
    start : StateSpace, optional
        Initial parameters. By default they are computed from the data.
    report : callable, optional
        Called with the number of evaluations and the best log-likelihood so far.
    e_step : callable, optional
        Function that returns expected statistics over all data; required if `panel` is only a sample for
        initial values.

    Returns
    -------
    FitResult
        After a keyboard interrupt, with the best parameters so far.
    """
    evaluate = CountedEStep(panel, optimizer.max_iter, report, e_step)
    evaluate.limits, evaluate.tol = coordinates.limits_of_states, optimizer.tol
    evaluate.set_prior(noise)
    search = _Search(evaluate, noise, optimizer, initial_processes or InitialProcesses())
    # Matrices have about as many rows as there are columns, too few for several threads.
    with one_blas_thread():
        if start is not None:
            result = search.from_initial_values(coordinates, start)
        elif coordinates.any_fixed:
            result = search.from_fixed(coordinates)
        else:
            result = search.from_data(coordinates)
        # The objective includes the prior, the reported log-likelihood does not.
        prior = evaluate.log_prior(result.params)
        return result._replace(
            log_likelihood=result.log_likelihood - prior,
            history=tuple(value - prior for value in result.history),
            n_evaluations=evaluate.count,
        )


def fit_integrated(
    panel: Panel,
    coordinates: Coordinates,
    noise: Noise,
    optimizer: Optimizer,
    *,
    initial_processes: InitialProcesses | None = None,
    start: StateSpace | None = None,
    report: Report | None = None,
) -> FitResult:
    """Maximize the likelihood with AR(1) noise of all columns, which is integrated out.

    Without `start`, a model with white noise is fitted first. For the parameters see :func:`fit`;
    `initial_processes` is not used, because all factors are AR(1) processes.
    """
    if start is None:
        few_steps = optimizer._replace(max_iter=min(optimizer.max_iter, _MAX_WHITE_NOISE_EVALUATIONS))
        white_fit = fit(panel, coordinates.with_white_noise, noise, few_steps, report=report)
        if white_fit.status == "interrupted":
            zeros = np.zeros(white_fit.params.n_features)
            return white_fit._replace(params=white_fit.params.replace(noise_decay=zeros, noise_scale=zeros))
        start = white_fit.params
    return fit_monte_carlo_em(panel, start, noise, max_iter=optimizer.max_iter, tol=optimizer.tol)


@dataclass(frozen=True)
class _Search:
    """Search for the maximum: rank candidates by the exact log-likelihood, and optimize the best.

    A candidate is a model with initial parameters. To refine a candidate means to optimize it on Whittle's
    likelihood.

    Attributes
    ----------
    evaluate : CountedEStep
        E-step with a limited number of evaluations.
    noise : Noise
        Constraints and prior of the noise variances.
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
        """Packed observations."""
        return self.evaluate.panel

    # -------------------------------------------------------------------------- initial parameters

    def from_initial_values(self, coordinates: Coordinates, start: StateSpace) -> FitResult:
        """Maximize from given parameters; AR(1) noise is added to parameters with white noise."""
        white_coordinates = coordinates.with_white_noise
        if (
            coordinates.n_ar1_noise
            and start.state_layout == white_coordinates.state_layout
            and not coordinates.any_fixed
        ):
            white = self.satisfy_constraints(start, white_coordinates)
            value = self.evaluate(white).log_likelihood
            white_fit = FitResult(white, value, (value,), self.evaluate.count, "converged")
            return self.with_ar1_noise(coordinates, white_fit, one_start=True)
        initial = self.satisfy_constraints(start, coordinates)
        if coordinates.limits is not None and not coordinates.n_ar1_noise:
            initial = impose_limits(initial, coordinates.limits)
        return self.maximize_from_one(coordinates, initial)

    def from_fixed(self, coordinates: Coordinates) -> FitResult:
        """Maximize with some parameters fixed, from candidates with the fixed values."""
        limits = coordinates.limits
        assert limits is not None
        white_coordinates = coordinates.with_white_noise._replace(limits=limits.frequencies_only)
        if white_coordinates.state_layout.n_other_processes:
            candidates = self.process_candidates(white_coordinates, None)
        else:
            candidates = self.ar1_candidates(white_coordinates)
            candidates = [*self.refine_all(white_coordinates, candidates), *candidates]
        imposed_candidates = [impose_limits(params, limits) for params in candidates]
        if coordinates.n_ar1_noise:
            imposed_candidates = [with_ar1_noise(params) for params in imposed_candidates]
        imposed_candidates = [self.satisfy_constraints(params, coordinates) for params in imposed_candidates]
        return self.from_candidates(
            coordinates, [*self.refine_all(coordinates, imposed_candidates), *imposed_candidates]
        )

    def from_data(self, coordinates: Coordinates) -> FitResult:
        """Maximize from candidates computed from the data: first with white noise, then with AR(1) noise."""
        white_coordinates, max_iter = coordinates.with_white_noise, self.evaluate.limit
        white_fit = (
            self.with_processes(white_coordinates)
            if white_coordinates.state_layout.n_other_processes
            else self.from_ar1_candidates(white_coordinates)
        )
        if not coordinates.n_ar1_noise:
            return white_fit
        self.evaluate.limit = self.evaluate.count + max_iter
        return self.with_ar1_noise(coordinates, white_fit, one_start=self.optimizer.one_start)

    def from_ar1_candidates(self, coordinates: Coordinates) -> FitResult:
        """Maximize a model with AR(1) factors only."""
        candidates = self.ar1_candidates(coordinates)
        try:
            return self.from_candidates(coordinates, self.refine_all(coordinates, candidates))
        except KeyboardInterrupt:
            return self.interrupted_result(candidates[0])

    def with_processes(self, coordinates: Coordinates) -> FitResult:
        """Maximize a model with cycles, smooth factors or trends.

        If there are AR(1) factors, a model with only these factors is fitted first, with at most ``max_iter``
        evaluations. The other processes are then added to this fit and to the candidates of :mod:`.starts`.
        The fit of the complete model from these candidates has at most ``max_iter`` further evaluations. The
        result is at least as likely as the model with only AR(1) factors, unless there are trends.
        """
        limit, nested = self.evaluate.limit, None
        if coordinates.state_layout.n_components:
            ar1_coordinates = coordinates._replace(
                state_layout=StateLayout(coordinates.state_layout.n_components)
            )
            nested = self.from_ar1_candidates(ar1_coordinates)
            extended = with_more_factors(
                nested.params,
                processes_without_loadings(coordinates.state_layout, nested.params, self.initial_processes),
            )
            nested = nested._replace(params=extended)
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
            return self.interrupted_result(self.evaluate.best)
        # The initial state of a trend is diffuse, so that the density of the first row is small and a trend
        # may lower the likelihood.
        stationary = all(kind.stationary for kind in coordinates.state_layout.counts)
        if nested is not None and stationary and not result.log_likelihood >= nested.log_likelihood:
            return nested._replace(status=result.status)
        return result

    def with_ar1_noise(self, coordinates: Coordinates, nested: FitResult, *, one_start: bool) -> FitResult:
        """Maximize a model with AR(1) noise; the result is at least as likely as the white-noise fit.

        AR(1) noise is added to the white-noise fit ``nested``. The factors of this fit may describe noise of
        single columns. AR(1) noise is therefore also added to the initial models with white noise, unless
        ``one_start`` is true.
        """
        extended = nested._replace(params=with_zero_ar1_noise(nested.params))
        if nested.status == "interrupted":
            return extended
        try:
            candidates = self.ar1_noise_candidates(coordinates, nested.params, one_start=one_start)
            result = self.from_candidates(coordinates, candidates)
        except KeyboardInterrupt:
            return extended._replace(status="interrupted")
        if not result.log_likelihood >= nested.log_likelihood:
            return extended._replace(status=result.status)
        return result

    def interrupted_result(self, start: StateSpace) -> FitResult:
        """Return the best parameters by the exact likelihood.

        Before the first exact evaluation, they are the best by Whittle's likelihood; before the first
        evaluation of either likelihood, they are `start`.
        """
        evaluate = self.evaluate
        if evaluate.best is None:
            start = start if evaluate.best_start is None else evaluate.best_start[1]
            evaluate(start)
        best = start if evaluate.best is None else evaluate.best
        value = evaluate.best_log_likelihood
        return FitResult(best, value, (value,), evaluate.count, "interrupted")

    # ---------------------------------------------------------------------------------- candidates

    def satisfy_constraints(self, params: StateSpace, coordinates: Coordinates) -> StateSpace:
        """Return a candidate within the constraints of coordinates and noise."""
        return satisfy_constraints(params, coordinates, self.noise)

    def ar1_candidates(self, coordinates: Coordinates) -> list[StateSpace]:
        """Return candidates with AR(1) factors; the first is the solution of slow feature analysis."""
        centred, offset = _centred(self.panel)
        return [
            self.satisfy_constraints(params, coordinates)
            for params in starts(centred, offset, coordinates.state_layout)
        ]

    def ar1_noise_candidates(
        self, coordinates: Coordinates, nested: StateSpace, *, one_start: bool
    ) -> list[StateSpace]:
        """Return refined candidates with AR(1) noise, and the white-noise model with weak AR(1) noise."""
        white_coordinates, white_models = coordinates.with_white_noise, [nested]
        if not one_start:
            n_other_processes = nested.state_layout.n_other_processes
            white_models += (
                self.process_candidates(white_coordinates, None)
                if n_other_processes
                else self.ar1_candidates(white_coordinates)
            )
        candidates = [with_ar1_noise(params) for params in white_models]
        evenly_sampled = coordinates.evenly_sampled
        sign = (
            ar1_noise_signs(nested, _centred_residuals(self.panel, nested)[0])
            if evenly_sampled
            else np.ones(1)
        )
        if np.any(sign < 0.0):
            candidates.append(with_ar1_noise(nested, sign=sign))
        refinable = [self.satisfy_constraints(params, coordinates) for params in candidates]
        weak = self.satisfy_constraints(with_ar1_noise(nested, _WEAK_AR1_SHARE), coordinates)
        return [*self.refine_all(coordinates, refinable), weak]

    def process_candidates(self, coordinates: Coordinates, nested: FitResult | None) -> list[StateSpace]:
        """Return candidates with cycles, smooth factors or trends; candidates from `nested` are last."""
        state_layout = coordinates.state_layout
        grid = interpolate_to_grid(self.panel)
        offset = np.sum([x.sum(axis=0) for x in grid], axis=0) / sum(map(len, grid))
        centred = [x - offset for x in grid]
        data = periodogram(centred) if max(map(len, grid)) >= _MIN_ROWS_OF_SPECTRA else None
        ar1_factors = StateLayout(state_layout.n_components + state_layout.n_from_ar1)
        if ar1_factors.n_components:
            bases = [
                base_model
                for params in starts(centred, offset, ar1_factors)
                for base_model in from_ar1_factors(params, state_layout, self.initial_processes)
            ]
        else:
            variance = np.mean(np.concatenate(centred) ** 2, axis=0)
            bases = [StateSpace(np.zeros(0), np.zeros((len(offset), 0)), variance, offset)]
        bases = [self.satisfy_constraints(params, coordinates) for params in bases]
        if data is not None and ar1_factors.n_components and state_layout.n_from_periodogram:
            bases = [
                self.refine(coordinates._replace(state_layout=base_model.state_layout), base_model, data)[1]
                for base_model in bases
            ]
        candidates = [self.with_cycles(coordinates, params, data, centred) for params in bases]
        if nested is not None:
            ar1_model = nested.params.ar1_factors_only
            base = ar1_model
            if state_layout.n_from_ar1:
                residuals, _ = _centred_residuals(self.panel, ar1_model)
                residual_factors = next(
                    starts(residuals, np.zeros_like(offset), StateLayout(state_layout.n_from_ar1))
                )
                base = with_more_factors(
                    ar1_model, from_ar1_factors(residual_factors, state_layout, self.initial_processes)[0]
                )
            complete_model = self.with_cycles(coordinates, base, data, centred)
            candidates.append(complete_model)
            for multiplier in _LOADING_MULTIPLIERS:
                loadings = complete_model.loadings.copy()
                loadings[:, state_layout.n_components :] *= multiplier
                loadings[:, : state_layout.n_components] = ar1_model.loadings
                candidates.append(
                    complete_model.replace(
                        decay=ar1_model.decay, loadings=loadings, noise_variance=ar1_model.noise_variance
                    )
                )
        return [self.satisfy_constraints(params.replace(offset=offset), coordinates) for params in candidates]

    def with_cycles(
        self,
        coordinates: Coordinates,
        params: StateSpace,
        data: Periodogram | None,
        centred: list[FloatArray],
    ) -> StateSpace:
        """Add stochastic cycles one by one, with detected or given frequencies, and refine the model."""
        n_rhythms = coordinates.state_layout.n_from_periodogram
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
                    self.refine(coordinates._replace(state_layout=candidate.state_layout), candidate, data)
                    for candidate in candidates
                ]
                params = max(refined, key=lambda pair: pair[0])[1]
                initial_frequencies = np.append(previous_frequencies, frequency)
                changes = np.abs(params.rhythm_frequency) / np.abs(initial_frequencies) - 1.0
                if np.any(np.abs(changes) > _MAX_FREQUENCY_CHANGE):
                    params = candidates[0]
        if n_rhythms == 0 and data is not None:
            params = self.refine(coordinates, params, data)[1]
        return params

    # ------------------------------------------------------------------- refinement by the spectrum

    def refine(
        self, coordinates: Coordinates, params: StateSpace, data: Periodogram
    ) -> tuple[float, StateSpace]:
        """Optimize a candidate on Whittle's likelihood; return the likelihood and the candidate."""
        evenly_sampled = coordinates._replace(evenly_sampled=True)
        objective_class = AR1NoiseWhittleObjective if coordinates.n_ar1_noise else WhittleObjective
        objective = objective_class(
            evenly_sampled, data, params, _MAX_WHITTLE_EVALUATIONS, self.evaluate.on_whittle_step, self.noise
        )
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            # A very long step may overflow; the optimizer then shortens it.
            warnings.simplefilter("ignore", RuntimeWarning)
            # The tolerance in nats is large, because Whittle's likelihood is approximate.
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

    def refine_all(self, coordinates: Coordinates, candidates: list[StateSpace]) -> list[StateSpace]:
        """Optimize candidates on Whittle's likelihood and sort them by this likelihood, best first."""
        if max(self.panel.lengths) < _MIN_ROWS_OF_SPECTRA:
            return candidates
        data = periodogram(_centred(self.panel)[0])
        refined = [self.refine(coordinates, params, data) for params in candidates]
        refined.sort(key=lambda pair: -pair[0])
        return [params for _, params in refined]

    # --------------------------------------------------------------------- the exact log-likelihood

    def from_candidates(
        self, coordinates: Coordinates, candidates: list[StateSpace], *, impute_missing: bool = True
    ) -> FitResult:
        """Maximize the exact likelihood from the best candidates.

        The best candidate is first refined with missing values imputed by the model.
        """
        ranked = self.rank(candidates)
        if impute_missing:
            ranked = self.refine_with_imputation(coordinates, ranked)
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
        return self.maximize_from(coordinates, ranked)

    def rank(self, candidates: list[StateSpace]) -> list["_RankedStart"]:
        """Sort candidates by their exact log-likelihood, best first, and remove duplicates."""
        ranked: list[_RankedStart] = []
        for params in candidates:
            if ranked and self.evaluate.exhausted:
                break
            stats = self.evaluate(params)
            value = stats.log_likelihood
            if np.isfinite(value) and all(
                abs(value - other.value) > _MIN_DIFFERENCE_OF_STARTS for other in ranked
            ):
                ranked.append(_RankedStart(value, params, stats))
        if not ranked:
            raise ValueError(
                "The log-likelihood is not finite at any initial parameters: some values of X are too far "
                "from the others, or the known noise variances are too small or too large. Rescale or remove "
                "these values."
            )
        return sorted(ranked, key=lambda start: -start.value)

    def refine_with_imputation(
        self, coordinates: Coordinates, ranked: list["_RankedStart"]
    ) -> list["_RankedStart"]:
        """Refine the best candidate again, with missing values imputed by the model.

        Linear interpolation increases the apparent noise of data with little noise. Imputation and refinement
        are repeated as long as the exact likelihood increases enough.
        """
        panel, evaluate = self.panel, self.evaluate
        if panel.mask[: panel.n_rows].all() or max(panel.lengths) < _MIN_ROWS_OF_SPECTRA:
            return ranked
        for _ in range(_MAX_IMPUTATIONS):
            if evaluate.limit - evaluate.count < 2:
                break
            best = ranked[0]
            params = maximize(best.params, best.stats, self.noise, panel.gaps, coordinates.has_loading)
            evaluate.count += 1  # imputation runs the smoother once
            imputed, offset = _centred(panel, params)
            _, refined = self.refine(coordinates, params.replace(offset=offset), periodogram(imputed))
            stats = evaluate(refined)
            gain = stats.log_likelihood - best.value
            if not gain > 0.0:
                break
            ranked = [_RankedStart(stats.log_likelihood, refined, stats), *ranked[1:]]
            if gain < max(_MIN_IMPUTATION_GAIN, evaluate.tol):
                break
        return ranked

    def maximize_from(self, coordinates: Coordinates, ranked: list["_RankedStart"]) -> FitResult:
        """Optimize good candidates for a few evaluations, then the best candidate until convergence."""
        # With very little noise, values may exceed 1e17 nats, and 30 nats are below their rounding error.
        # `>=` includes the best candidate also in this case.
        good = [start for start in ranked if start.value >= ranked[0].value - _MAX_LOSS_OF_START]
        evaluate, limit = self.evaluate, self.evaluate.limit
        results: list[FitResult] = []
        for _, params, stats in good:
            if results and evaluate.count >= limit:
                break
            if len(good) > 1:
                evaluate.limit = min(limit, evaluate.count + _N_FIRST_EVALUATIONS)
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

    def maximize_from_one(self, coordinates: Coordinates, start: StateSpace) -> FitResult:
        """Maximize the exact likelihood from one candidate."""
        evaluate, noise = self.evaluate, self.noise
        start = start.replace(noise_variance=np.maximum(start.noise_variance, noise.floor))
        if self.optimizer.solver == "em":
            return fit_em(evaluate, start, noise, self.optimizer.tol, has_loading=coordinates.has_loading)
        params, stats = warm_up(
            evaluate, start, evaluate(start), noise, _MAX_EM_STEPS, _MIN_EM_GAIN, coordinates.has_loading
        )
        return fit_quasi_newton(evaluate, coordinates, params, noise, self.optimizer.tol, stats)


class _RankedStart(NamedTuple):
    """A candidate with its exact log-likelihood and expected statistics."""

    value: float
    params: StateSpace
    stats: Statistics


def _centred_residuals(panel: Panel, params: StateSpace) -> tuple[list[FloatArray], FloatArray]:
    """Return the residuals of a model as centred sequences, and their mean.

    Residuals of missing values are interpolated.
    """
    residuals = np.array(panel.values[:])
    residuals[: panel.n_rows] -= _predicted(panel, params)
    return _centred(panel._replace(values=residuals * panel.mask[:]))


def _predicted(panel: Panel, params: StateSpace) -> FloatArray:
    """Return posterior means of all values (N, D), to eight digits."""
    predicted = np.empty((panel.n_rows, panel.values.shape[1]))

    def store(rows: slice, means: FloatArray, _: FloatArray) -> None:
        predicted[rows] = params.offset + means @ params.loadings.T

    visit_moments(params, panel, store, for_steps=True)
    return predicted


def _centred(panel: Panel, params: StateSpace | None = None) -> tuple[list[FloatArray], FloatArray]:
    """Return centred sequences and their mean, with missing values interpolated or imputed by a model."""
    if params is None:
        sequences = interpolate(panel)
    else:
        imputed, n = _predicted(panel, params), panel.n_rows
        np.copyto(imputed, panel.values[:n], where=panel.mask[:n] > 0.0)
        sequences = np.split(imputed, np.cumsum(panel.lengths)[:-1])
    offset = np.sum([x.sum(axis=0) for x in sequences], axis=0) / panel.n_rows
    for x in sequences:
        x -= offset
    return sequences, offset


def satisfy_constraints(params: StateSpace, coordinates: Coordinates, noise: Noise) -> StateSpace:
    """Return parameters within the constraints of coordinates and noise."""
    variance = np.maximum(params.noise_variance, noise.floor)
    known = variance if noise.variances.n_free else noise.floor
    variance = noise.variances.column_values(noise.variances.means(variance), known)
    in_range = clip_decays(params, evenly_sampled=coordinates.evenly_sampled)
    return in_range.replace(noise_variance=noise.with_fixed(variance))
