"""Candidates fitted round after round, and compared by the same hidden cells."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.choice.candidates import Candidate, score
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.halving import halving_schedule
from probsfa.statespace.choice.proposals import Proposals
from probsfa.statespace.criterion import bayesian_criterion
from probsfa.statespace.estimator import ProbabilisticSFA
from probsfa.statespace.growth import enlarged, reduced
from probsfa.statespace.hidden_cells import CLOSE, SLIGHT, Evidence, HiddenCells, units_of, weigh
from probsfa.statespace.learning.budget import stretches
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    in_data_units,
    pose,
    start_of,
)
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.parameters import Parameters, rescale
from probsfa.statespace.student_model import with_noise

__all__ = ["Round", "Search"]

# Stretches that the rows of a round come from; what is cut out shows rhythms of a stretch's length.
_STRETCHES = 4
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

    Attributes
    ----------
    sequences : Sequences
        All rows, with the hidden cells.
    hidden : HiddenCells
        What is hidden.
    clock : Clock
        How much time there is.
    propose : callable
        Gives the candidates of the first round.
    most : int
        Largest number of latents.
    rounds : list of list of Candidate
        What was fitted so far.
    """

    sequences: Sequences
    hidden: HiddenCells
    clock: Clock
    propose: Callable[["Search"], Proposals]
    most: int
    rounds: list[list[Candidate]] = field(default_factory=lambda: [[]])
    groups: list[Any] = field(default_factory=list)
    stopped: str = ""

    @property
    def n_observed(self) -> int:
        """Rows in which anything is observed."""
        return int(np.count_nonzero(self.sequences.mask.any(axis=1)))

    @property
    def tried(self) -> list[dict[str, Any]]:
        """Options of the candidates of this round."""
        return [candidate.options for candidate in self.rounds[-1]]

    @property
    def evidence(self) -> Evidence:
        """What this round says so far."""
        return self.evidence_of(len(self.rounds) - 1)

    def evidence_of(self, rung: int) -> Evidence:
        """What a round says."""
        candidates = self.rounds[rung]
        scores = np.array([candidate.scores for candidate in candidates])
        return weigh(scores, self.groups[rung], self.criteria(candidates))

    @staticmethod
    def criteria(candidates: list[Candidate]) -> FloatArray:
        """What decides between candidates (C,) that find hidden cells equally well, smaller is better.

        The Bayesian information criterion. The lower bound of robust candidates does not compare with the
        likelihood of others: of the two kinds the hidden cells alone say which it is, normal noise where they
        are as good, and criteria are those of the candidates of this kind.
        """
        bic = np.array([candidate.bic for candidate in candidates])
        robust = np.array([bool(candidate.options.get("robust", False)) for candidate in candidates])
        if robust.all() or not robust.any():
            return bic
        scores = np.array([candidate.scores.mean() for candidate in candidates])
        wanted = scores[robust].min() < (1.0 - SLIGHT) * scores[~robust].min()
        return np.where(robust == wanted, bic, np.inf)

    @property
    def best(self) -> Candidate:
        """The choice of this round so far."""
        return self.rounds[-1][self.evidence.chosen]

    def bic_of(self, options: dict[str, Any]) -> float:
        """Bayesian information criterion of a candidate of this round."""
        return self.rounds[-1][self.tried.index(options)].bic

    def clearly_worse(self, options: dict[str, Any]) -> bool:
        """Whether neither the hidden cells nor the likelihood of the others are for a larger model."""
        here = self.tried.index(options)
        candidate, best = self.rounds[-1][here], self.best
        larger = candidate.model.n_parameters > best.model.n_parameters
        worse = candidate.scores.mean() > best.scores.mean()
        criterion, of_best = self.criteria([candidate, best])
        return bool(larger and worse and criterion > of_best + CLOSE)

    def run(self, report: Callable[[int, float], None]) -> tuple[Candidate, bool]:
        """Go through all rounds; the choice, and whether it was interrupted from the keyboard."""
        schedule = halving_schedule(1, self.sequences.n_rows, self.most)
        n_done = 0
        try:
            for rung in range(len(schedule)):
                chosen = self._survivors() if rung else []
                if rung:
                    self.rounds.append([])
                data = self.data(schedule[rung].n_rows)
                self.groups.append(data.group[data.part > 0])
                asked = iter([each.options for each in chosen]) if rung else self.propose(self)
                for options in asked:
                    if self._out_of_time(options):
                        break
                    before = next((c for c in chosen if c.options == options), None)
                    made = self._fit(options, data, rung, schedule[rung].max_iter, before)
                    if made is not None:
                        self.rounds[-1].append(made)
                    if self.stopped:
                        break
                    n_done += 1
                    report(n_done, self.best.scores.mean())
                if self.stopped:
                    break
        except KeyboardInterrupt:
            self.stopped = "keyboard"
        while len(self.rounds) > 1 and not self._comparable():
            self.rounds.pop()
        if not self.rounds[-1]:
            raise KeyboardInterrupt
        return self.best, self.stopped == "keyboard"

    def _comparable(self) -> bool:
        """Whether a round that was cut short has the choice of the one before in it."""
        chosen = self.rounds[-2][self.evidence_of(len(self.rounds) - 2).chosen].options
        return any(candidate.options == chosen for candidate in self.rounds[-1])

    def _out_of_time(self, options: dict[str, Any]) -> bool:
        """Whether the next fit would go beyond the budget, if it took as long as the longest before."""
        longest = max((c.seconds for candidates in self.rounds for c in candidates), default=0.0)
        if self.clock.left > longest or not self.rounds[0]:
            return False
        self.stopped = "budget"
        return True

    def _survivors(self) -> list[Candidate]:
        """Candidates that go on: the choice, those as good by their criterion, then the others by score."""
        candidates, evidence = self.rounds[-1], self.evidence
        criteria = self.criteria(candidates)
        order = sorted(
            range(len(candidates)),
            key=lambda j: (
                not evidence.equal[j],
                criteria[j] if evidence.equal[j] else evidence.behind[j],
            ),
        )
        schedule = halving_schedule(len(self.rounds[0]), self.sequences.n_rows, self.most)
        n = schedule[len(self.rounds)].n_candidates
        return [candidates[j] for j in order[:n]]

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
        self, options: dict[str, Any], data: Round, rung: int, max_iter: int, before: Candidate | None
    ) -> Candidate | None:
        """A candidate fitted to the cells seen, and scored on the others; None where time ran out."""
        begin = self.clock.seconds
        seen = replace(data.sequences, values=np.where(data.part > 0, np.nan, data.sequences.values))
        asked = FitOptions.of(ProbabilisticSFA(**options)).check().with_times(seen.axis)
        problem = pose(InMemory(seen), replace(asked, max_iter=max_iter))
        start = self._start(problem, options, before)
        result, ended_by = self.clock.climb(problem, start)
        self.stopped = ended_by
        if result is None or (ended_by and self.rounds[0]):
            return None
        model = with_noise(in_data_units(problem, result))
        scores, errors = score(model, data.sequences, data.part, data.units, data.scale)
        # As it would be for all rows, of which some show too little to pay for a large model.
        share = np.count_nonzero(seen.mask.any(axis=1)) / self.n_observed
        bic = bayesian_criterion(
            model.fitted.log_likelihood, model.n_parameters, self.n_observed, share=float(share)
        )
        seconds = self.clock.seconds - begin
        return Candidate(options, rung, seen.n_rows, model, scores, errors, bic, seconds)

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
            more = wanted.without(have)
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
        return enlarged(inner, panel, wanted, problem.options.learned_noise(problem.scale), given)
