"""Comparison of candidates in rounds by BIC, and of the last few by held-out values."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.choice.candidates import Options, has_no_peak
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.halving import halving_schedule
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
    weigh_draws,
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

# Number of segments that contain the rows of a round. Cycles are found only if a segment is longer than the
# period.
_N_SEGMENTS = 4
# Expected gain in nats below which a fit of the search stops, which is small compared with relevant
# differences in BIC. Only the final fit, to all values, runs to convergence.
_SEARCH_TOL = 0.05 * MAX_EQUAL_BIC
_LATENT_OPTIONS = ("n_components", "rhythms", "smooth")
# Kinds of noise for which a larger model can start from the factors of a smaller one.
_WHITE_NOISE_KINDS = ("diagonal", "isotropic")


@dataclass
class Search:
    """Fit and compare candidates in rounds.

    Before the last round, candidates are fitted to all values of some rows, and compared by BIC. In the last
    round, they are fitted without the held-out values, and compared by their predictions of these.

    Attributes
    ----------
    sequences : Sequences
        All rows, including the held-out values.
    hide : callable
        Function that draws values to hold out.
    clock : Clock
        Time budget.
    propose : callable
        Function that returns the candidates of the first round.
    max_factors : int
        Maximum number of latent factors.
    default_candidates : list of dict, default=[]
        Options of the candidates of `ProbabilisticSFA()` without arguments, which are fitted in every round.
    rounds : list of list of Candidate
        Candidates of each round.
    comparison : Comparison
        Held-out values of the last round. There is a second draw if the first one rejects the model with the
        lowest BIC.
    stopped_by : {"", "budget", "keyboard"}
        What ended the search early.
    """

    sequences: Sequences
    hide: Callable[[], HeldOutValues]
    clock: Clock
    propose: Callable[["Search"], Proposals]
    max_factors: int
    default_candidates: list[dict[str, Any]] = field(default_factory=list)
    rounds: list[list[Candidate]] = field(default_factory=lambda: [[]])
    stopped_by: str = ""
    _fit_interrupted: bool = False

    def __post_init__(self) -> None:
        self.comparison = Comparison(self.sequences, [self.hide()])

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
        """Options of the candidates of this round."""
        return [candidate.options for candidate in self.rounds[-1]]

    def has_fast_fits(self, options: Options) -> bool:
        """Return whether models with these options can be fitted many times.

        This is not the case if AR(1) noise of many columns is integrated out, because such fits use Monte
        Carlo draws; only the candidates of the default call have such noise.
        """
        n_rows = halving_schedule(1, self.sequences.n_rows, self.max_factors)[0].n_rows
        if options.get("noise") != "ar1":
            return True
        return not integrates_ar1_noise(n_rows, self.max_factors, self.n_features)

    @property
    def evidence(self) -> Evidence:
        """Comparison of the candidates of this round so far."""
        return self.evidence_of(len(self.rounds) - 1)

    def evidence_of(self, rung: int) -> Evidence:
        """Compare the candidates of a round by held-out values if they were scored, otherwise by BIC."""
        candidates = self.rounds[rung]
        criteria = self.criteria(candidates)
        if not all(candidate.predictions_by_draw for candidate in candidates):
            unknown = np.full(len(candidates), np.nan)
            return Evidence(int(np.argmin(criteria)), unknown, unknown, np.ones(len(candidates), dtype=bool))
        draws = list(zip(*(candidate.predictions_by_draw for candidate in candidates), strict=True))
        by_draw = [np.array([scores(held_out) for held_out in draw]) for draw in draws]
        return weigh_draws(by_draw, [draw[0].groups for draw in draws], criteria)

    @staticmethod
    def criteria(candidates: list[Candidate]) -> FloatArray:
        """Return the criterion (C,) by which one of several candidates with equal scores is selected.

        The criterion is BIC (smaller is better). It is infinite for candidates with cycles without a spectral
        peak. Robust candidates have a lower bound in place of the likelihood, so that their BIC is not
        comparable with that of Gaussian candidates. In the last round, held-out scores therefore select the
        kind of noise (Gaussian if scores are about equal), and the criterion is infinite for candidates of
        the other kind.
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
        """Best candidate of this round so far."""
        return self.rounds[-1][self.evidence.chosen]

    def bic_of(self, options: dict[str, Any]) -> float:
        """Return the BIC of a candidate of this round; infinite if a cycle has no spectral peak."""
        candidate = self.rounds[-1][self.fitted_options.index(options)]
        return np.inf if has_no_peak(candidate) else candidate.bic

    def residual_structure_of(self, options: dict[str, Any]) -> ResidualStructure:
        """Return residual diagnostics of a candidate of this round, extrapolated to all rows."""
        candidate = self.rounds[-1][self.fitted_options.index(options)]
        rows = self.sample(candidate.n_rows)
        structure = residual_structure(candidate.model, rows)
        share = np.count_nonzero(rows.mask.any(axis=1)) / self.n_observed
        return structure._replace(cycle=structure.cycle / share)

    def run(self, report: Callable[[int, float], None] | None) -> tuple[Candidate, bool]:
        """Run all rounds; return the best candidate, and whether Ctrl-C interrupted the search."""
        schedule = halving_schedule(1, self.sequences.n_rows, self.max_factors)
        last = len(schedule) - 1
        n_done = 0
        try:
            for rung in range(len(schedule)):
                selected = self._select_candidates(rung == last) if rung else []
                if rung:
                    self.rounds.append([])
                self.clock.begin(last=rung == last)
                rows = self.sample(schedule[rung].n_rows)
                hidden = self.comparison.draws[0] if rung == last else None
                options_to_fit = iter([each.options for each in selected]) if rung else self.propose(self)
                for options in options_to_fit:
                    if self._is_out_of_time():
                        break
                    previous = next((c for c in selected if c.options == options), None)
                    candidate = self._fit(options, rows, schedule[rung].max_iter, previous, hidden)
                    if candidate is not None:
                        self.rounds[-1].append(candidate)
                    if self._fit_interrupted:
                        break
                    n_done += 1
                    if report is not None:
                        report(n_done, self.best.bic)
                if self.stopped_by == "keyboard":
                    break
            if self._rejects_lowest_bic() and not self._is_out_of_time():
                self._score_second_draw(schedule[last].max_iter)
        except KeyboardInterrupt:
            self.stopped_by = "keyboard"
        while len(self.rounds) > 1 and not self._last_round_is_comparable():
            self.rounds.pop()
        if not self.rounds[-1]:
            raise KeyboardInterrupt
        return self.best, self.stopped_by == "keyboard"

    def _rejects_lowest_bic(self) -> bool:
        """Return whether held-out values reject the model with the lowest BIC."""
        candidates = self.rounds[-1]
        if (
            len(self.rounds) == 1
            or not all(each.predictions_by_draw for each in candidates)
            or not candidates
        ):
            return False
        return self.evidence.chosen != int(np.argmin(self.criteria(candidates)))

    def _score_second_draw(self, max_iter: int) -> None:
        """Fit and score all candidates again, with a second draw of held-out values."""
        hidden = self.hide()
        with_both_draws = []
        for candidate in self.rounds[-1]:
            refit = self._fit(candidate.options, self.sequences, max_iter, candidate, hidden)
            if refit is None:
                return
            with_both_draws.append(
                replace(
                    candidate,
                    predictions_by_draw=candidate.predictions_by_draw + refit.predictions_by_draw,
                    seconds=candidate.seconds + refit.seconds,
                )
            )
        self.rounds[-1] = with_both_draws
        self.comparison.draws.append(hidden)

    def _last_round_is_comparable(self) -> bool:
        """Return whether the last round, maybe incomplete, has the best candidate of the previous one."""
        if not self.rounds[-2]:
            return False
        selected = self.rounds[-2][self.evidence_of(len(self.rounds) - 2).chosen].options
        return any(candidate.options == selected for candidate in self.rounds[-1])

    def _is_out_of_time(self) -> bool:
        """Return whether a fit as long as the longest so far would exceed the budget."""
        longest = max((c.seconds for candidates in self.rounds for c in candidates), default=0.0)
        if self.clock.remaining > longest or not self.rounds[0]:
            return False
        self.stopped_by = "budget"
        return True

    def _select_candidates(self, last: bool) -> list[Candidate]:
        """Return the candidates of the next round.

        These are the candidates of lowest BIC, with at least one robust and one Gaussian candidate if there
        are both, and the default candidates.
        """
        candidates = self.rounds[-1]
        order = [candidates[j] for j in np.argsort(self.criteria(candidates), kind="stable")]
        schedule = halving_schedule(len(self.rounds[0]), self.sequences.n_rows, self.max_factors)
        n = schedule[-1 if last else len(self.rounds)].n_candidates
        selected = order[:n]
        other_kind = next((each for each in order[n:] if _is_robust(each) != _is_robust(order[0])), None)
        if other_kind is not None and len({_is_robust(each) for each in selected}) == 1:
            selected[-1] = other_kind
        return selected + [
            each for each in order[n:] if each.options in self.default_candidates and each not in selected
        ]

    def sample(self, n_rows: int) -> Sequences:
        """Return the rows of a round: a few segments if the round does not have all rows."""
        if n_rows == self.sequences.n_rows:
            return self.sequences
        observed = self.sequences.mask & ~self.comparison.draws[0].all
        selected = choose_segments(observed, self.sequences.lengths, n_rows, n_segments=_N_SEGMENTS)
        return self.sequences if selected is None else self.sequences.cut_out(selected)

    def _fit(
        self,
        options: dict[str, Any],
        rows: Sequences,
        max_iter: int,
        previous: Candidate | None,
        hidden: HeldOutValues | None,
    ) -> Candidate | None:
        """Fit a candidate to the rows of a round; with `hidden`, without the held-out values.

        Parameters
        ----------
        options : dict
            Options of the candidate.
        rows : Sequences
            Rows of the round.
        max_iter : int
            Maximum number of likelihood evaluations.
        previous : Candidate or None
            The candidate in the previous round.
        hidden : HeldOutValues or None
            Values to hold out, and to predict; None to fit all values.

        Returns
        -------
        Candidate or None
            None if the fit was interrupted; before the first fit of the search ends, its best parameters.
        """
        start_time = self.clock.seconds
        observed = rows if hidden is None else self.comparison.remaining(hidden)
        fit_options = FitOptions.of(ProbabilisticSFA(**options)).check().with_times(observed.axis)
        if fit_options.tol == "auto":
            fit_options = replace(fit_options, tol=_SEARCH_TOL)
        problem = make_problem(InMemory(observed), replace(fit_options, max_iter=max_iter))
        start = self._start(problem, options, previous)
        result, ended_by = self.clock.maximize(problem, start)
        self._fit_interrupted, self.stopped_by = bool(ended_by), ended_by or self.stopped_by
        if result is None or (ended_by and self.rounds[0]):
            return None
        model = model_of_fit(in_data_units(problem, result))
        predictions = () if hidden is None else (self.comparison.predict(model, hidden),)
        full_fit = model if hidden is None else None
        if previous is not None and previous.n_rows == observed.n_rows and previous.full_fit is not None:
            # The previous round had the same rows.
            bic, full_fit = previous.bic, previous.full_fit
        else:
            # BIC is extrapolated to all rows, because larger models have lower BIC with more rows.
            share = np.count_nonzero(observed.mask.any(axis=1)) / self.n_observed
            bic = bayesian_criterion(
                model.fitted.log_likelihood, model.n_parameters, self.n_observed, share=float(share)
            )
        seconds = self.clock.seconds - start_time
        return Candidate(options, model, predictions, observed.n_rows, bic, seconds, full_fit)

    def _start(
        self, problem: FitProblem, options: dict[str, Any], previous: Candidate | None
    ) -> StateSpace | None:
        """Return initial parameters: those of the previous round, or adapted from the closest candidates."""
        if previous is not None:
            return start_of(previous.model.fitted.params, problem)
        latents = problem.options.latents
        other_options = {name: value for name, value in options.items() if name not in _LATENT_OPTIONS}
        if isinstance(problem.options.noise, str) and problem.options.noise not in _WHITE_NOISE_KINDS:
            return None
        fewer: list[tuple[int, StateSpace]] = []
        more: list[tuple[int, StateSpace]] = []
        for candidate in self.rounds[-1]:
            candidate_options = {
                name: value for name, value in candidate.options.items() if name not in _LATENT_OPTIONS
            }
            n_additional = latents.without(candidate.model.fitted.options.latents).numbers
            if candidate_options == other_options and min(n_additional) >= 0:
                fewer.append((sum(n_additional), candidate.model.fitted.params))
            elif candidate_options == other_options and max(n_additional) <= 0:
                more.append((-sum(n_additional), candidate.model.fitted.params))

        def closest(models: list[tuple[int, StateSpace]]) -> StateSpace:
            _, params = min(models, key=lambda each: each[0])
            return rescale(params, -problem.shift / problem.scale, 1.0 / problem.scale)

        # Factors of a smaller model may describe a cycle in part. A fit that begins with them and the cycle
        # may end at a local maximum; therefore the start with the higher likelihood is used.
        panel = problem.observations.panel
        starts: list[StateSpace] = []
        if fewer:
            fixed_parameters = problem.options.initial_processes(
                problem.time_unit, evenly_sampled=panel.evenly_sampled
            )
            noise = problem.learned_noise
            starts.append(enlarged(closest(fewer), panel, latents, noise, fixed_parameters))
        if more:
            starts.append(reduced(closest(more), latents))
        if len(starts) < 2:
            return starts[0] if starts else None
        return max(starts, key=lambda start: log_likelihood(start, panel))


def _is_robust(candidate: Candidate) -> bool:
    """Return whether the noise of a candidate is Student-t."""
    return bool(candidate.options.get("robust", False))
