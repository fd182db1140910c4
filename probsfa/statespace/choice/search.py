"""Candidates compared by their likelihood round after round, and the last few by hidden cells."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.choice.candidates import Candidate, has_no_peak, score
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.halving import halving_schedule
from probsfa.statespace.choice.leftovers import Leftovers, leftovers
from probsfa.statespace.choice.proposals import Proposals
from probsfa.statespace.criterion import bayesian_criterion
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.growth import enlarged, reduced
from probsfa.statespace.hidden_cells import CLOSE, SLIGHT, Evidence, HiddenCells, units_of, weigh_draws
from probsfa.statespace.learning.budget import stretches
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    in_data_units,
    make_problem,
    start_of,
)
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.parameters import Parameters, rescale
from probsfa.statespace.student_model import with_noise

__all__ = ["Round", "Search"]

# Stretches that the rows of a round come from; what is cut out shows rhythms of a stretch's length.
_STRETCHES = 4
# Gain to come at which a fit of the search ends, in nats: a small part of what criteria may differ by and be
# close. Only the last fit, to all cells, goes on to its own end.
_WORTH_A_STEP = 0.05 * CLOSE
_LATENTS = ("n_components", "rhythms", "smooth")
# Noise under which a larger model can begin with the latents of a smaller one.
_PLAIN_NOISE = ("diagonal", "isotropic")


class Round(NamedTuple):
    """Data of a round, and what of it is hidden."""

    sequences: Sequences
    part: Any
    group: Any
    units: FloatArray
    scale: FloatArray


@dataclass
class Search:
    """Candidates fitted round after round.

    All rounds but the last fit to all cells, and go by the Bayesian information criterion. The last one fits
    the few that are left without the hidden cells, and asks them for these.

    Attributes
    ----------
    sequences : Sequences
        All rows, with the hidden cells.
    hide : callable
        Draws cells to hide.
    clock : Clock
        How much time there is.
    propose : callable
        Gives the candidates of the first round.
    most : int
        Largest number of latents.
    rounds : list of list of Candidate
        What was fitted so far.
    asked : list of Round
        Rows of the last round, with the hidden cells that were asked for; twice, where the first ones refused
        the likeliest model.
    """

    sequences: Sequences
    hide: Callable[[], HiddenCells]
    clock: Clock
    propose: Callable[["Search"], Proposals]
    most: int
    rounds: list[list[Candidate]] = field(default_factory=lambda: [[]])
    asked: list[Round] = field(default_factory=list)
    stopped: str = ""
    _cut_short: bool = False

    def __post_init__(self) -> None:
        self.hidden = self.hide()

    @property
    def n_observed(self) -> int:
        """Rows in which anything is observed."""
        return int(np.count_nonzero(self.sequences.mask.any(axis=1)))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.sequences.n_features

    @property
    def tried(self) -> list[dict[str, Any]]:
        """Options of the candidates of this round."""
        return [candidate.options for candidate in self.rounds[-1]]

    @property
    def evidence(self) -> Evidence:
        """What this round says so far."""
        return self.evidence_of(len(self.rounds) - 1)

    def evidence_of(self, rung: int) -> Evidence:
        """What a round says: by hidden cells where they were asked for, else by the criterion alone."""
        candidates = self.rounds[rung]
        criteria = self.criteria(candidates)
        if not all(candidate.scores.size for candidate in candidates):
            unknown = np.full(len(candidates), np.nan)
            return Evidence(int(np.argmin(criteria)), unknown, unknown, np.ones(len(candidates), dtype=bool))
        groups = [data.group[data.part > 0] for data in self.asked]
        ends = np.cumsum([len(group) for group in groups])[:-1]
        scores = np.split(np.array([candidate.scores for candidate in candidates]), ends, axis=1)
        return weigh_draws(scores, groups, criteria)

    @staticmethod
    def criteria(candidates: list[Candidate]) -> FloatArray:
        """What decides between candidates (C,) that find hidden cells equally well, smaller is better.

        The Bayesian information criterion. The lower bound of robust candidates does not compare with the
        likelihood of others: of the two kinds the hidden cells alone say which it is, normal noise where
        they are as good, and criteria are those of the candidates of this kind. Before hidden cells are
        asked for, the bound stands for the likelihood that it is below. A candidate whose rhythms are none
        is as good as lost.
        """
        bic = np.array([np.inf if has_no_peak(each) else each.bic for each in candidates])
        if np.isinf(bic).all():
            bic = np.array([each.bic for each in candidates])
        robust = np.array([_is_robust(candidate) for candidate in candidates])
        if robust.all() or not robust.any() or not all(each.scores.size for each in candidates):
            return bic
        scores = np.array([candidate.scores.mean() for candidate in candidates])
        wanted = scores[robust].min() < (1.0 - SLIGHT) * scores[~robust].min()
        return np.where(robust == wanted, bic, np.inf)

    @property
    def best(self) -> Candidate:
        """The choice of this round so far."""
        return self.rounds[-1][self.evidence.chosen]

    def bic_of(self, options: dict[str, Any]) -> float:
        """Bayesian information criterion of a candidate of this round; infinite where a rhythm is none."""
        candidate = self.rounds[-1][self.tried.index(options)]
        return np.inf if has_no_peak(candidate) else candidate.bic

    def leftovers_of(self, options: dict[str, Any]) -> Leftovers:
        """What a candidate of this round leaves unexplained, as it would be in all rows."""
        candidate = self.rounds[-1][self.tried.index(options)]
        rows = self.data(candidate.n_rows).sequences
        left = leftovers(candidate.model, rows)
        share = np.count_nonzero(rows.mask.any(axis=1)) / self.n_observed
        return left._replace(rhythm=left.rhythm / share)

    def run(self, report: Callable[[int, float], None]) -> tuple[Candidate, bool]:
        """Go through all rounds; the choice, and whether it was interrupted from the keyboard."""
        schedule = halving_schedule(1, self.sequences.n_rows, self.most)
        last = len(schedule) - 1
        n_done = 0
        try:
            for rung in range(len(schedule)):
                chosen = self._survivors(rung == last) if rung else []
                if rung:
                    self.rounds.append([])
                self.clock.begin(last=rung == last)
                data = self.data(schedule[rung].n_rows)
                if rung == last:
                    self.asked.append(data)
                asked = iter([each.options for each in chosen]) if rung else self.propose(self)
                for options in asked:
                    if self._out_of_time():
                        break
                    before = next((c for c in chosen if c.options == options), None)
                    made = self._fit(options, data, rung, schedule[rung].max_iter, before, rung == last)
                    if made is not None:
                        self.rounds[-1].append(made)
                    if self._cut_short:
                        break
                    n_done += 1
                    report(n_done, self.best.bic)
                if self.stopped == "keyboard":
                    break
            if self._refuses() and not self._out_of_time():
                self._ask_again(schedule[last].max_iter)
        except KeyboardInterrupt:
            self.stopped = "keyboard"
        while len(self.rounds) > 1 and not self._comparable():
            self.rounds.pop()
        if not self.rounds[-1]:
            raise KeyboardInterrupt
        return self.best, self.stopped == "keyboard"

    def _refuses(self) -> bool:
        """Whether hidden cells are against the model that the likelihood is for."""
        candidates = self.rounds[-1]
        if len(self.rounds) == 1 or not all(each.scores.size for each in candidates) or not candidates:
            return False
        return self.evidence.chosen != int(np.argmin(self.criteria(candidates)))

    def _ask_again(self, max_iter: int) -> None:
        """Hide other cells: a model is refused where both draws refuse it."""
        rung = len(self.rounds) - 1
        self.hidden = self.hide()
        data = self.data(self.sequences.n_rows)
        both = []
        for candidate in self.rounds[-1]:
            again = self._fit(candidate.options, data, rung, max_iter, candidate, True)
            if again is None:
                return
            both.append(
                replace(
                    candidate,
                    scores=np.concatenate([candidate.scores, again.scores]),
                    errors=np.concatenate([candidate.errors, again.errors]),
                    seconds=candidate.seconds + again.seconds,
                )
            )
        self.rounds[-1] = both
        self.asked.append(data)

    def _comparable(self) -> bool:
        """Whether a round that was cut short has the choice of the one before in it."""
        if not self.rounds[-2]:
            return False
        chosen = self.rounds[-2][self.evidence_of(len(self.rounds) - 2).chosen].options
        return any(candidate.options == chosen for candidate in self.rounds[-1])

    def _out_of_time(self) -> bool:
        """Whether the next fit would go beyond the budget, if it took as long as the longest before."""
        longest = max((c.seconds for candidates in self.rounds for c in candidates), default=0.0)
        if self.clock.left > longest or not self.rounds[0]:
            return False
        self.stopped = "budget"
        return True

    def _survivors(self, last: bool) -> list[Candidate]:
        """Candidates that go on: those of the smallest criterion, and the best one of each kind of noise."""
        candidates = self.rounds[-1]
        order = [candidates[j] for j in np.argsort(self.criteria(candidates), kind="stable")]
        schedule = halving_schedule(len(self.rounds[0]), self.sequences.n_rows, self.most)
        n = schedule[-1 if last else len(self.rounds)].n_candidates
        kept = order[:n]
        other = next((each for each in order[n:] if _is_robust(each) != _is_robust(order[0])), None)
        if other is not None and len({_is_robust(each) for each in kept}) == 1:
            kept[-1] = other
        return kept

    def data(self, n_rows: int) -> Round:
        """Rows of a round, in a few stretches where they are not all, and their hidden cells."""
        sequences, part, group = self.sequences, self.hidden.part, self.hidden.group
        if n_rows < sequences.n_rows:
            seen = sequences.mask & (part == 0)
            chosen = stretches(seen, sequences.lengths, n_rows, n_stretches=_STRETCHES)
            if chosen is not None:
                rows = np.concatenate([np.arange(s.start, s.stop) for s in chosen])
                sequences, part, group = sequences.cut_out(chosen), part[rows], group[rows]
        scale = np.nanstd(self.sequences.values, axis=0)
        units = units_of(self.sequences.values)
        return Round(sequences, part, group, units, np.where(scale > 0.0, scale, 1.0))

    def _fit(
        self,
        options: dict[str, Any],
        data: Round,
        rung: int,
        max_iter: int,
        before: Candidate | None,
        hiding: bool,
    ) -> Candidate | None:
        """A candidate fitted to the rows of a round; None where time ran out.

        Where cells are hidden, it is fitted without them and scored on them.
        """
        begin = self.clock.seconds
        seen = data.sequences
        if hiding:
            seen = replace(seen, values=np.where(data.part > 0, np.nan, seen.values))
        asked = FitOptions.of(ProbabilisticSFA(**options)).check().with_times(seen.axis)
        if asked.tol == "auto":
            asked = replace(asked, tol=_WORTH_A_STEP)
        problem = make_problem(InMemory(seen), replace(asked, max_iter=max_iter))
        start = self._start(problem, options, before)
        result, ended_by = self.clock.climb(problem, start)
        self._cut_short, self.stopped = bool(ended_by), ended_by or self.stopped
        if result is None or (ended_by and self.rounds[0]):
            return None
        model = with_noise(in_data_units(problem, result))
        scores = errors = np.zeros(0)
        if hiding:
            scores, errors = score(model, data.sequences, data.part, data.units, data.scale)
        whole: LinearGaussianModel | None = None if hiding else model
        if before is not None and before.n_rows == seen.n_rows and before.whole is not None:
            # Known of all cells already.
            bic, whole = before.bic, before.whole
        else:
            # As it would be for all rows, of which some show too little to pay for a large model.
            share = np.count_nonzero(seen.mask.any(axis=1)) / self.n_observed
            bic = bayesian_criterion(
                model.fitted.log_likelihood, model.n_parameters, self.n_observed, share=float(share)
            )
        seconds = self.clock.seconds - begin
        return Candidate(options, rung, seen.n_rows, model, scores, errors, bic, seconds, whole)

    def _start(
        self, problem: FitProblem, options: dict[str, Any], before: Candidate | None
    ) -> Parameters | None:
        """Where a fit begins: at its own parameters of the round before, or at those of a near candidate."""
        if before is not None:
            return start_of(before.model.fitted.params, problem)
        wanted = problem.options.latents
        others = {name: value for name, value in options.items() if name not in _LATENTS}
        if isinstance(problem.options.noise, str) and problem.options.noise not in _PLAIN_NOISE:
            return None
        near: Parameters | None = None
        least = (np.inf, np.inf)
        for candidate in self.rounds[-1]:
            have = candidate.model.fitted.options.latents
            rest = {name: value for name, value in candidate.options.items() if name not in _LATENTS}
            more = wanted.without(have).numbers
            if rest != others or not (min(more) >= 0 or max(more) <= 0):
                continue
            distance = (float(max(more) <= 0), float(sum(map(abs, more))))
            if distance < least:
                least, near = distance, candidate.model.fitted.params
        if near is None:
            return None
        inner = rescale(near, -problem.shift / problem.scale, 1.0 / problem.scale)
        panel = problem.observations.panel
        if least[0]:
            return reduced(inner, wanted)
        given = problem.options.given(problem.time_unit, evenly_sampled=panel.evenly_sampled)
        return enlarged(inner, panel, wanted, problem.learned_noise, given)


def _is_robust(candidate: Candidate) -> bool:
    """Whether the noise of a candidate is Student-t."""
    return bool(candidate.options.get("robust", False))
