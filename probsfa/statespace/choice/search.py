"""Comparison of candidates by BIC, and of the best candidates by held-out values."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.choice.candidates import Options, has_no_peak
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.proposals import Proposals
from probsfa.statespace.comparison import Candidate, Comparison, scores
from probsfa.statespace.engine.posterior import log_likelihood
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.fitted_model import bayesian_criterion
from probsfa.statespace.growth import enlarged, reduced
from probsfa.statespace.held_out_values import (
    EQUALITY_TOL,
    MAX_EQUAL_BIC,
    Evidence,
    HeldOutValues,
    compare_scores_of_draws,
)
from probsfa.statespace.learning.budget import choose_segments, integrates_ar1_noise
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    in_data_units,
    make_problem,
    start_of,
)
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.parameters import StateSpace, rescale
from probsfa.statespace.residual_structure import ResidualStructure, residual_structure
from probsfa.statespace.student_model import model_of_fit

__all__ = ["Search"]

# Minimum number of rows of the search.
_MIN_ROWS = 2000
# Minimum number of rows of the search for each factor of the largest model.
_MIN_ROWS_PER_FACTOR = 100
# Number of segments that these rows consist of. Cycles are found only if a segment is longer than the period.
_N_SEGMENTS = 4
# Maximum numbers of likelihood evaluations of a fit in the search and in the comparison.
_MAX_SEARCH_EVALUATIONS, _MAX_COMPARISON_EVALUATIONS = 30, 40
# Share of the candidates that are compared by held-out values.
_COMPARED_SHARE = 1 / 4
# Minimum and maximum number of these candidates.
_MIN_COMPARED, _MAX_COMPARED = 2, 3
# Expected gain in nats below which a fit of the search ends; it is small relative to decisive differences of
# BIC. Only the final fit, to all values, converges.
_SEARCH_TOL = 0.05 * MAX_EQUAL_BIC
_LATENT_OPTIONS = ("n_components", "rhythms", "smooth")
# Kinds of noise for which a larger model can start from the factors of a smaller one.
_WHITE_NOISE_KINDS = ("diagonal", "isotropic")


@dataclass
class Search:
    """Fit and compare candidates.

    In the search, candidates are fitted to all values of some rows, and ranked by BIC. The best candidates
    are then fitted to all rows without held-out values, and compared by predictions of the held-out values.

    Attributes
    ----------
    sequences : Sequences
        All rows, including the held-out values; without isolated values (outliers) unless a candidate is
        robust.
    hide : callable
        Function that draws values to hold out.
    clock : Clock
        Time budget.
    propose : callable
        Function that returns the candidates of the search.
    max_factors : int
        Maximum number of latent factors.
    default_candidates : list of dict, default=[]
        Options of the candidates of `ProbabilisticSFA()` without arguments, which are always compared.
    searched : list of Candidate
        Candidates of the search.
    compared : list of Candidate
        Candidates of the comparison by held-out values.
    comparison : Comparison
        Held-out values. A second set is drawn if the first set rejects the model with the lowest BIC.
    stopped_by : {"", "budget", "keyboard"}
        Reason why the search ended early.
    """

    sequences: Sequences
    hide: Callable[[], HeldOutValues]
    clock: Clock
    propose: Callable[["Search"], Proposals]
    max_factors: int
    default_candidates: list[dict[str, Any]] = field(default_factory=list)
    searched: list[Candidate] = field(default_factory=list)
    compared: list[Candidate] = field(default_factory=list)
    stopped_by: str = ""
    _fit_interrupted: bool = False

    def __post_init__(self) -> None:
        self.comparison = Comparison(self.sequences, [self.hide()])
        self.search_rows = self._choose_search_rows()

    @property
    def n_observed(self) -> int:
        """Number of rows with at least one observed value."""
        return int(np.count_nonzero(self.sequences.mask.any(axis=1)))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.sequences.n_features

    @property
    def fitted_options(self) -> list[dict[str, Any]]:
        """Options of the candidates of the search."""
        return [candidate.options for candidate in self.searched]

    def has_fast_fits(self, options: Options) -> bool:
        """Return whether models with these options can be fitted many times.

        Fits are slow if AR(1) noise of many columns is integrated out by Monte Carlo draws. The search then
        tries AR(1) noise only in the default candidates.
        """
        if options.get("noise") != "ar1":
            return True
        return not integrates_ar1_noise(self.n_search_rows, self.max_factors, self.n_features)

    @property
    def n_search_rows(self) -> int:
        """Number of rows of the search."""
        return min(self.sequences.n_rows, max(_MIN_ROWS, _MIN_ROWS_PER_FACTOR * self.max_factors))

    @property
    def last_candidates(self) -> list[Candidate]:
        """Candidates of the comparison, or of the search if there is no comparison so far."""
        return self.compared or self.searched

    @property
    def evidence(self) -> Evidence:
        """Comparison of the last candidates so far."""
        return self.evidence_of(self.last_candidates)

    def evidence_of(self, candidates: list[Candidate]) -> Evidence:
        """Compare candidates by held-out values if they were scored, otherwise by BIC."""
        criteria = self.criteria(candidates)
        if not all(candidate.predictions_by_draw for candidate in candidates):
            unknown = np.full(len(candidates), np.nan)
            return Evidence(int(np.argmin(criteria)), unknown, unknown, np.ones(len(candidates), dtype=bool))
        draws = list(zip(*(candidate.predictions_by_draw for candidate in candidates), strict=True))
        by_draw = [np.array([scores(held_out) for held_out in draw]) for draw in draws]
        return compare_scores_of_draws(by_draw, [draw[0].groups for draw in draws], criteria)

    @staticmethod
    def criteria(candidates: list[Candidate]) -> FloatArray:
        """Return the criterion (C,) that selects one of several candidates with equal scores.

        The criterion is BIC (smaller is better). It is infinite for candidates that have a cycle without a
        spectral peak, unless all candidates do.

        BIC of robust candidates is based on a lower bound of the likelihood, and cannot be compared with BIC
        of Gaussian candidates. In the comparison, held-out scores therefore select robust or Gaussian noise
        (Gaussian if scores are about equal), and the criterion of candidates with the other noise is
        infinite.
        """
        # BIC is NaN if AR(1) noise is integrated out, because the likelihood is not computed.
        bic = np.array([np.inf if np.isnan(each.bic) else each.bic for each in candidates])
        bic_of_peaks = np.where([has_no_peak(each) for each in candidates], np.inf, bic)
        if not np.isinf(bic_of_peaks).all():
            bic = bic_of_peaks
        robust = np.array([_is_robust(candidate) for candidate in candidates])
        if robust.all() or not robust.any() or not all(each.predictions_by_draw for each in candidates):
            return bic
        scores_of_candidates = np.array([candidate.score for candidate in candidates])
        best_gaussian = scores_of_candidates[~robust].min()
        robust_is_better = scores_of_candidates[robust].min() < (1.0 - EQUALITY_TOL) * best_gaussian
        return np.where(robust == robust_is_better, bic, np.inf)

    @property
    def best(self) -> Candidate:
        """Best candidate so far."""
        return self.last_candidates[self.evidence.chosen]

    def bic_of(self, options: dict[str, Any]) -> float:
        """Return the BIC of a candidate of the search; infinite if a cycle has no spectral peak."""
        candidate = self.searched[self.fitted_options.index(options)]
        return np.inf if has_no_peak(candidate) else candidate.bic

    def residual_structure_of(self, options: dict[str, Any]) -> ResidualStructure:
        """Return residual diagnostics of a candidate of the search, extrapolated to all rows."""
        candidate = self.searched[self.fitted_options.index(options)]
        rows = self.search_rows
        structure = residual_structure(candidate.model, rows)
        share = np.count_nonzero(rows.mask.any(axis=1)) / self.n_observed
        return structure._replace(cycle=structure.cycle / share)

    def run(self, report: Callable[[int, float], None] | None) -> tuple[Candidate, bool]:
        """Search and compare; return the best candidate, and whether Ctrl-C interrupted the search."""
        try:
            self._fit_each(((options, None) for options in self.propose(self)), self.searched, report)
            if self.stopped_by != "keyboard":
                selected = self._candidates_to_compare()
                self.clock.begin_comparison()
                self._fit_each(((each.options, each) for each in selected), self.compared, report)
            if self.stopped_by != "keyboard" and self._rejects_lowest_bic() and not self._is_out_of_time():
                self._score_second_draw()
        except KeyboardInterrupt:
            self.stopped_by = "keyboard"
        if not self.searched:
            raise KeyboardInterrupt
        if not self._has_compared_the_best():
            self.compared = []
        return self.best, self.stopped_by == "keyboard"

    def _fit_each(
        self,
        requested: Iterable[tuple[dict[str, Any], Candidate | None]],
        candidates: list[Candidate],
        report: Callable[[int, float], None] | None,
    ) -> None:
        """Fit and append candidates, until the time is used up or Ctrl-C is pressed.

        Parameters
        ----------
        requested : iterable of (dict, Candidate or None)
            Options of each candidate; in the comparison, also its fit in the search.
        candidates : list of Candidate
            List to which fitted candidates are appended.
        report : callable or None
            Called with the number of fits and the BIC of the best candidate.
        """
        for options, searched in requested:
            if self._is_out_of_time():
                return
            held_out = None if searched is None else self.comparison.draws[0]
            candidate = self._fit(options, searched, held_out)
            if candidate is not None:
                candidates.append(candidate)
            if self._fit_interrupted:
                return
            if report is not None:
                report(len(self.searched) + len(self.compared), self.best.bic)

    def _rejects_lowest_bic(self) -> bool:
        """Return whether held-out values reject the model with the lowest BIC."""
        if not self.compared:
            return False
        return self.evidence.chosen != int(np.argmin(self.criteria(self.compared)))

    def _score_second_draw(self) -> None:
        """Fit and score all candidates again, with a second draw of held-out values."""
        held_out = self.hide()
        with_both_draws = []
        for candidate in self.compared:
            refit = self._fit(candidate.options, candidate, held_out)
            if refit is None:
                return
            with_both_draws.append(
                replace(
                    candidate,
                    predictions_by_draw=candidate.predictions_by_draw + refit.predictions_by_draw,
                    seconds=candidate.seconds + refit.seconds,
                )
            )
        self.compared = with_both_draws
        self.comparison.draws.append(held_out)

    def _has_compared_the_best(self) -> bool:
        """Return whether the comparison, possibly incomplete, includes the best candidate of the search."""
        best = self.searched[self.evidence_of(self.searched).chosen].options
        return any(candidate.options == best for candidate in self.compared)

    def _is_out_of_time(self) -> bool:
        """Return whether a fit with the duration of the longest fit so far would exceed the budget."""
        longest = max((each.seconds for each in self.searched + self.compared), default=0.0)
        if self.clock.remaining > longest or not self.searched:
            return False
        self.stopped_by = "budget"
        return True

    def _candidates_to_compare(self) -> list[Candidate]:
        """Return the candidates that are compared by held-out values.

        These are the candidates with the lowest BIC, including at least one robust and one Gaussian candidate
        if both kinds were fitted, and the default candidates.
        """
        order = [self.searched[j] for j in np.argsort(self.criteria(self.searched), kind="stable")]
        n = min(max(round(_COMPARED_SHARE * len(order)), _MIN_COMPARED), _MAX_COMPARED)
        selected = order[:n]
        other_kind = next((each for each in order[n:] if _is_robust(each) != _is_robust(order[0])), None)
        if other_kind is not None and len({_is_robust(each) for each in selected}) == 1:
            selected[-1] = other_kind
        return selected + [
            each for each in order[n:] if each.options in self.default_candidates and each not in selected
        ]

    def _choose_search_rows(self) -> Sequences:
        """Return the rows of the search: a few segments if there are many rows."""
        if self.n_search_rows == self.sequences.n_rows:
            return self.sequences
        observed = self.sequences.mask & ~self.comparison.draws[0].all
        selected = choose_segments(
            observed, self.sequences.lengths, self.n_search_rows, n_segments=_N_SEGMENTS
        )
        return self.sequences if selected is None else self.sequences.segments_as_sequences(selected)

    def _fit(
        self, options: dict[str, Any], previous: Candidate | None, held_out: HeldOutValues | None
    ) -> Candidate | None:
        """Fit a candidate to the rows of the search; with `held_out`, to all rows without these values.

        Parameters
        ----------
        options : dict
            Options of the candidate.
        previous : Candidate or None
            An earlier fit of the candidate.
        held_out : HeldOutValues or None
            Values to hold out, and to predict; None to fit all values.

        Returns
        -------
        Candidate or None
            None if the fit was interrupted. An interrupted first fit of the search is returned with its best
            parameters, so that there is a result.
        """
        start_time = self.clock.seconds
        if held_out is None:
            observed, max_iter = self.search_rows, _MAX_SEARCH_EVALUATIONS
        else:
            observed, max_iter = self.comparison.remaining(held_out), _MAX_COMPARISON_EVALUATIONS
        fit_options = FitOptions.of(ProbabilisticSFA(**options)).check().with_times(observed.axis)
        if fit_options.tol == "auto":
            fit_options = replace(fit_options, tol=_SEARCH_TOL)
        problem = make_problem(InMemory(observed), replace(fit_options, max_iter=max_iter))
        start = self._start(problem, options, previous)
        result, ended_by = self.clock.maximize(problem, start)
        self._fit_interrupted, self.stopped_by = bool(ended_by), ended_by or self.stopped_by
        if result is None or (ended_by and self.searched):
            return None
        model = model_of_fit(in_data_units(problem, result))
        predictions = () if held_out is None else (self.comparison.predict(model, held_out),)
        full_fit = model if held_out is None else None
        if previous is not None and previous.n_rows == observed.n_rows and previous.full_fit is not None:
            # The search fitted all values of the same rows; BIC of that fit needs no extrapolation.
            bic, full_fit = previous.bic, previous.full_fit
        else:
            # BIC is extrapolated to all rows, because BIC favours larger models if there are more rows.
            share = np.count_nonzero(observed.mask.any(axis=1)) / self.n_observed
            bic = bayesian_criterion(
                model.fitted.log_likelihood, model.n_parameters, self.n_observed, share=float(share)
            )
        seconds = self.clock.seconds - start_time
        return Candidate(options, model, predictions, observed.n_rows, bic, seconds, full_fit)

    def _start(
        self, problem: FitProblem, options: dict[str, Any], previous: Candidate | None
    ) -> StateSpace | None:
        """Return initial parameters, from an earlier fit or from the most similar candidates."""
        if previous is not None:
            return start_of(previous.model.fitted.params, problem)
        state_layout = problem.options.state_layout
        other_options = {name: value for name, value in options.items() if name not in _LATENT_OPTIONS}
        if isinstance(problem.options.noise, str) and problem.options.noise not in _WHITE_NOISE_KINDS:
            return None
        fewer: list[tuple[int, StateSpace]] = []
        more: list[tuple[int, StateSpace]] = []
        for candidate in self.searched:
            candidate_options = {
                name: value for name, value in candidate.options.items() if name not in _LATENT_OPTIONS
            }
            n_additional = state_layout.without(candidate.model.fitted.options.state_layout).numbers
            if candidate_options == other_options and min(n_additional) >= 0:
                fewer.append((sum(n_additional), candidate.model.fitted.params))
            elif candidate_options == other_options and max(n_additional) <= 0:
                more.append((-sum(n_additional), candidate.model.fitted.params))

        def closest(models: list[tuple[int, StateSpace]]) -> StateSpace:
            _, params = min(models, key=lambda each: each[0])
            return rescale(params, -problem.shift / problem.scale, 1.0 / problem.scale)

        # Factors of a smaller model may approximate a cycle. A fit that starts from these factors and the
        # cycle may end at a local maximum; the start with the higher likelihood is therefore used.
        panel = problem.observations.panel
        starts: list[StateSpace] = []
        if fewer:
            fixed_parameters = problem.options.initial_processes(
                problem.time_unit, evenly_sampled=panel.evenly_sampled
            )
            noise = problem.standardized_noise
            starts.append(enlarged(closest(fewer), panel, state_layout, noise, fixed_parameters))
        if more:
            starts.append(reduced(closest(more), state_layout))
        if len(starts) < 2:
            return starts[0] if starts else None
        return max(starts, key=lambda start: log_likelihood(start, panel))


def _is_robust(candidate: Candidate) -> bool:
    """Return whether the noise of a candidate is Student-t."""
    return bool(candidate.options.get("robust", False))
