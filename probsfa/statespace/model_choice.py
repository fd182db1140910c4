"""Which model: the number of latents, rhythms, smooth latents and the noise, by how well holes are filled.

Candidates are options of :class:`~probsfa.statespace.estimator.ProbabilisticSFA`. Cells are hidden once, for
all of them (:mod:`.hidden_cells`); each candidate is fitted to the rest, and what it says of the hidden cells
is compared on the same cells. Most candidates are fitted shortly, to a part of the rows; the best of them
go on with more rows and more evaluations (successive halving, Jamieson & Talwalkar 2016). Where a smaller
model is fitted already, a larger one begins with its latents (:mod:`.growth`).
"""

import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter as _now
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probsfa._random import generator
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.statespace.estimator import ProbabilisticSFA, set_fitted, with_times
from probsfa.statespace.growth import enlarged, reduced
from probsfa.statespace.hidden_cells import (
    CLOSE,
    Evidence,
    HiddenCells,
    contenders,
    crps,
    hide_for_choice,
    units_of,
    weigh,
)
from probsfa.statespace.learning.budget import most_components, stretches
from probsfa.statespace.learning.maximum_likelihood import (
    FitProblem,
    InMemory,
    check_lengths_for_timescales,
    in_data_units,
    maximise,
    pose,
    start_of,
)
from probsfa.statespace.learning.objective import STATUS_SENTENCES, FitResult
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.leave_one_out import straight_lines
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.parameters import Parameters, rescale
from probsfa.statespace.progress import Progress
from probsfa.statespace.student_model import with_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ModelSelection", "Rung", "halving_schedule", "select_model"]

Options = Mapping[str, Any]

#: What is tried beside the number of latents, once that is chosen, in groups: within a group each takes the
#: place of the one before, and the first that does not serve ends it.
ALTERNATIVES: tuple[tuple[Options, ...], ...] = (
    ({"rhythms": 1}, {"rhythms": 2}, {"rhythms": 3}),
    ({"smooth": 1},),
    ({"noise": "ar1"},),
)

# Rows of the first rung, at least, in so many stretches; what is cut out shows rhythms of a stretch's length.
_FEWEST_ROWS, _STRETCHES = 2000, 4
# By what rows grow from rung to rung; evaluations of the first rung and of the others.
_GROWTH = 16
_FIRST_EVALUATIONS, _LATER_EVALUATIONS = 20, 30
# Part of the candidates that goes on, and how many do at least.
_KEPT, _FEWEST_KEPT = 1 / 3, 3
# Part of a budget that goes to the search, and to search and last fit together.
_FOR_SEARCH, _FOR_ALL = 0.6, 0.95
# Numbers of latents that are passed over without a gain before the search upwards ends.
_FAILURES = 2


class Rung(NamedTuple):
    """A round of successive halving.

    Attributes
    ----------
    n_candidates : int
        Candidates that take part.
    n_rows : int
        Rows that each is fitted to.
    max_iter : int
        Most posterior evaluations of each fit.
    """

    n_candidates: int
    n_rows: int
    max_iter: int


def halving_schedule(n_candidates: int, n_rows: int, n_latents: int = 1) -> list[Rung]:
    """Return the rounds in which candidates are told apart.

    Each round takes sixteen times the rows of the one before, until it takes all, and a third of the
    candidates, three at least. Short series are taken whole from the beginning, in two rounds.

    Parameters
    ----------
    n_candidates : int
        Number of candidates.
    n_rows : int
        Number of all rows.
    n_latents : int, default=1
        Number of states of the largest candidate, each of which takes some rows.

    Returns
    -------
    list of Rung

    Examples
    --------
    >>> from probsfa.statespace.model_choice import halving_schedule
    >>> for rung in halving_schedule(12, 20_000):
    ...     print(*rung)
    12 2000 20
    4 20000 30
    """
    rows = min(n_rows, max(_FEWEST_ROWS, 100 * n_latents))
    rungs = [Rung(n_candidates, rows, _FIRST_EVALUATIONS)]
    while len(rungs) < 2 or rows < n_rows:
        # What would be nearly all is all.
        rows = n_rows if 2 * _GROWTH * rows >= 3 * n_rows else _GROWTH * rows
        kept = min(rungs[-1].n_candidates, max(_FEWEST_KEPT, round(_KEPT * rungs[-1].n_candidates)))
        rungs.append(Rung(kept, rows, _LATER_EVALUATIONS))
    return rungs


class OutOfTime(KeyboardInterrupt):
    """The budget is spent; a fit ends on it as on an interrupt from the keyboard, with the best so far."""


class Clock:
    """Seconds since its making, and the ends of a budget.

    Parameters
    ----------
    budget : float or None
        Seconds, or None for as many as it takes.
    """

    def __init__(self, budget: float | None) -> None:
        self._begin = _now()
        self.budget = np.inf if budget is None else float(budget)
        self.end = _FOR_SEARCH * self.budget
        self._told = False

    @property
    def seconds(self) -> float:
        """Seconds since the beginning."""
        return _now() - self._begin

    @property
    def left(self) -> float:
        """Seconds to the end of what is done now."""
        return self.end - self.seconds

    def climb(self, problem: FitProblem, start: Parameters | None) -> tuple[FitResult | None, str]:
        """Maximise a likelihood as long as there is time.

        Returns
        -------
        result : FitResult or None
            None where the climb ended before its first step.
        ended_by : {"", "budget", "keyboard"}
            What ended it before its own end.
        """
        self._told = False
        try:
            result = maximise(problem, start=start, report=self._report)
        except KeyboardInterrupt:  # before there is a step to go back to
            return None, "budget" if self._told else "keyboard"
        if result.status != "interrupted":
            return result, ""
        return result if result.history else None, "budget" if self._told else "keyboard"

    def _report(self, count: int, best: float) -> None:
        """End a fit where no time is left; once, as what is left of it is needed to end in order."""
        if self.left <= 0.0 and not self._told:
            self._told = True
            raise OutOfTime

    def finish(self) -> None:
        """Let the last fit begin."""
        self.end = _FOR_ALL * self.budget


@dataclass(frozen=True, eq=False)
class Candidate:
    """A candidate after a fit to some of the rows, without the hidden cells.

    Attributes
    ----------
    options : dict
        Options of the estimator.
    rung : int
        Round of the comparison, from 0.
    n_rows : int
        Rows it was fitted to.
    model : LinearGaussianModel
        The fit.
    scores : ndarray of shape (n,)
        Continuous ranked probability score of each hidden cell, in units of the columns.
    errors : ndarray of shape (n,)
        Errors of the same cells in units of the columns' standard deviations.
    bic : float
        Bayesian information criterion of the cells that were seen, taken to be as informative in all rows.
    seconds : float
        Time of fit and scores.
    """

    options: dict[str, Any]
    rung: int
    n_rows: int
    model: LinearGaussianModel
    scores: FloatArray
    errors: FloatArray
    bic: float
    seconds: float


@dataclass(frozen=True, eq=False)
class ModelSelection:
    """Models compared by hidden cells, and the choice among them.

    Attributes
    ----------
    options : dict
        Options of the choice, for `ProbabilisticSFA`.
    best_estimator_ : ProbabilisticSFA
        The choice, fitted to all cells of all rows.
    records : tuple of dict
        A row of the table for each fit; see `table`.
    reason : str
        What was chosen and why, in a sentence.
    hidden : tuple of str
        How cells were hidden, in words.
    seconds : float
        Time of the whole.
    interrupted : bool
        Whether it was interrupted from the keyboard, so that fewer candidates were compared, and the choice
        is fitted to the cells that were not hidden alone.
    """

    options: dict[str, Any]
    best_estimator_: ProbabilisticSFA
    records: tuple[dict[str, Any], ...]
    reason: str
    hidden: tuple[str, ...]
    seconds: float
    interrupted: bool = False

    @property
    def table(self) -> "pd.DataFrame":
        """Every fit as a row of a frame of pandas.

        ``model`` are the options in words, ``round`` the round of successive halving, ``rows`` the rows of
        the fit; ``score`` is the mean continuous ranked probability score of the hidden cells, in units of
        each column's spread, and smaller is better; ``behind`` by how much it is worse than the best of the
        round, with its ``standard_error``; ``rmse`` and ``mae`` errors in standard deviations; ``bic`` the
        Bayesian information criterion of the cells seen; ``verdict`` what became of it.
        """
        import pandas as pd

        return pd.DataFrame(list(self.records))

    def plot(self, *, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
        """Draw the scores of all candidates; see :func:`probsfa.plots.plot_model_selection`."""
        # By name, because pictures stand above the models in the package.
        return importlib.import_module("probsfa.plots").plot_model_selection(self, axes=axes)

    def __repr__(self) -> str:
        """The last rounds as a table, and the reason."""
        names = ("model", "rows", "score", "behind", "standard_error", "rmse", "mae", "verdict")
        last = [row for row in self.records if row["round"] > 0] or list(self.records)
        cells = [[_cell(row[name]) for name in names] for row in last]
        heads = [name.replace("_", " ") for name in names]
        widths = [max(len(row[j]) for row in [heads, *cells]) for j in range(len(names))]
        lines = [
            "  ".join(
                text.ljust(w) if j in (0, 7) else text.rjust(w)
                for j, (text, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [heads, *cells]
        ]
        return "\n".join([*(line.rstrip() for line in lines), self.reason])


def select_model(
    X: Any,
    candidates: Iterable[Options] | None = None,
    *,
    alternatives: Iterable[Iterable[Options]] | None = None,
    budget: float | None = None,
    fraction: float = 0.2,
    n_masks: int = 4,
    block: int = 24,
    lengths: Any = None,
    times: Any = None,
    random_state: Seed = 0,
    verbose: bool = False,
) -> ModelSelection:
    """Choose a model by how well it finds hidden cells again, and fit it.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of dict, optional
        Options of :class:`ProbabilisticSFA`, a dictionary for each model. By default they are searched for:
        numbers of latents up to one for each column, then rhythms, smooth latents and noise beside the best
        number, then numbers around it again.
    alternatives : iterable of iterables of dict, optional
        Where candidates are searched for: options that are tried beside the number of latents, in groups.
        Within a group each takes the place of the one before, and the first that does not serve ends it. By
        default up to three rhythms, and a smooth latent.
    budget : float, optional
        Seconds that all of it may take. Fewer candidates are tried then, and the last fit may end before it
        converges. One model is fitted in any case.
    fraction : float, default=0.2
        Part of the observed cells to hide.
    n_masks : int, default=4
        Number of parts of the hidden cells, each of which is filled given all other cells.
    block : int, default=24
        Rows of a hidden block, where `X` has no gaps of its own to take as a pattern.
    lengths, times : optional
        As in `ProbabilisticSFA.fit`.
    random_state : int, Generator, RandomState or None, default=0
        Chooses the hidden cells.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    ModelSelection
        The choice, fitted to all cells, and a table of all models that were compared. After Ctrl-C with the
        best so far.

    Raises
    ------
    ValueError
        If the data or a candidate is not valid, or nothing can be hidden.

    Warns
    -----
    ConvergenceWarning
        If the last fit stopped before a maximum.

    See Also
    --------
    select_n_components : The number of latents alone.
    ProbabilisticSFA.diagnose : Whether the chosen model fits.

    Notes
    -----
    *Holes.* Where 20 or more cells are missing, the mask of the missing cells is moved in time, and hides the
    observed cells that it comes to lie on. Else half of the cells are hidden one by one and half in blocks of
    rows of one column.

    *Choice.* Hidden cells decide where they can: models are compared by the difference of their continuous
    ranked probability scores on the same cells, which a few cells far out cannot dominate. Those that are
    behind the best by less than 2.5 standard errors, or by less than a hundredth, are as good, and the one of
    them with the smallest Bayesian information criterion is chosen; where two are close, the criterion of
    fits to all cells.

    *Rounds.* All candidates are fitted with 20 evaluations to 2,000 rows or more; a third of them, and three
    at least, with 30 more to sixteen times as many rows, and so on up to all.

    References
    ----------
    Jamieson & Talwalkar (2016), AISTATS, arXiv:1502.07943 (successive halving).

    Examples
    --------
    >>> from probsfa import select_model
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(400, 4, decay=[0.98, 0.7], noise_variance=0.2, random_state=0).data
    >>> selection = select_model(X, [{"n_components": 1}, {"n_components": 2}, {"n_components": 3}])
    >>> selection.options, selection.best_estimator_.decay_.shape
    ({'n_components': 2}, (2,))
    """
    if budget is not None and not (is_number(budget) and 0.0 < budget < np.inf):
        raise ValueError(f"budget must be a positive number of seconds; got {budget!r}.")
    check_count("n_masks", n_masks, minimum=2)
    check_count("block", block)
    if candidates is not None and alternatives is not None:
        raise ValueError("alternatives are for the search that is made where no candidates are given.")
    listed = None if candidates is None else _checked(candidates)
    groups = [_checked(group) for group in (ALTERNATIVES if alternatives is None else alternatives)]
    clock = Clock(budget)
    estimator = ProbabilisticSFA(1)
    sequences = check_sequences(
        estimator, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
    )
    check_lengths_for_timescales(sequences.lengths)
    hidden = hide_for_choice(
        sequences.values, fraction=fraction, n_masks=n_masks, block=block, rng=generator(random_state)
    )
    most = most_components(
        sequences.n_rows, sequences.mask.sum(axis=0), ~InMemory(sequences).columns.constant
    )
    search = _Search(sequences, hidden, clock, _listed(listed) if listed else _searched(most, groups), most)
    with Progress(verbose, None, desc="select", unit="fit", value="score") as report:
        best, interrupted = search.run(report)
    return _finished(search, best, estimator, interrupted)


def _checked(candidates: Iterable[Options]) -> list[dict[str, Any]]:
    """Options that the estimator knows and takes, with noise.

    Raises
    ------
    ValueError
        That names the candidate.
    """
    known = ProbabilisticSFA().get_params(deep=False)
    out: list[dict[str, Any]] = []
    for each in candidates:
        if not isinstance(each, Mapping):
            raise ValueError(f"candidates must be dictionaries of options of ProbabilisticSFA; got {each!r}.")
        unknown = sorted(set(each) - (set(known) - {"init", "random_state", "verbose"}))
        if unknown:
            raise ValueError(f"candidates have options that ProbabilisticSFA does not choose by: {unknown}.")
        if FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **each})).check().noise_free:
            raise ValueError(f"noise must be positive: {dict(each)!r} leaves nothing to hide and find again.")
        out.append(dict(each))
    if not out:
        raise ValueError("candidates must hold at least one dictionary of options, got none.")
    return out


# ------------------------------------------------------------------- which candidates, one after the other

#: Gives candidates one by one; sent the best one so far after each.
Proposals = Iterator[dict[str, Any]]
"""A generator that yields options, and is asked again after they were fitted."""


def _listed(candidates: list[dict[str, Any]]) -> Callable[["_Search"], Proposals]:
    """All candidates of a list, small ones first, from which larger ones begin."""

    def size(options: dict[str, Any]) -> int:
        asked = FitOptions.of(ProbabilisticSFA(**options))
        return 10**6 if asked.n_components is None else asked.latents.n_states

    return lambda search: iter(sorted(candidates, key=size))


def _searched(most: int, groups: list[list[dict[str, Any]]]) -> Callable[["_Search"], Proposals]:
    """Numbers of latents, other options beside the best, and numbers around it again."""

    def proposals(search: "_Search") -> Proposals:
        if search.clock.budget < np.inf:  # what serves without a choice, lest time runs out at too few
            yield {"n_components": most}
        yield from _numbers_upwards(search, most)
        yield from _numbers_between(search)
        for group in groups:
            for options in group:
                asked = {**search.best.options, **options}
                yield asked
                if search.best.options != asked:
                    break
        if set(search.best.options) != {"n_components"}:
            yield from _numbers_around(search, most)

    return proposals


def _numbers_upwards(search: "_Search", most: int) -> Proposals:
    """1, 2, 4, 8, ... and the most, until one of them clearly gains nothing, or two of them."""
    k, failures = 1, 0
    while failures < _FAILURES:
        asked = {"n_components": k}
        if asked not in search.tried:
            yield asked
        if search.best.options == asked:
            failures = 0
        else:
            failures += _FAILURES if search.clearly_worse(asked) else 1
        if k == most:
            break
        k = min(2 * k, most)


def _numbers_between(search: "_Search") -> Proposals:
    """Numbers between those that were tried, around the best one, until its neighbours are known.

    Neighbours are as close as a seventh of the number.
    """
    while True:
        best = search.best.options
        k = best["n_components"]
        tried = sorted(each["n_components"] for each in search.tried if each == {**best, **_number(each)})
        below = [each for each in tried if each < k]
        above = [each for each in tried if each > k]
        wanted = None
        if above and above[0] - k > max(1, k // 7):
            wanted = (k + above[0]) // 2
        elif below and k - below[-1] > max(1, k // 7):
            wanted = (k + below[-1] + 1) // 2
        if wanted is None:
            return
        yield {**best, "n_components": wanted}


def _numbers_around(search: "_Search", most: int) -> Proposals:
    """Fewer latents, now that there is something beside them, as long as that serves; else one more."""
    fewer = False
    while True:
        best = search.best.options
        k = best["n_components"]
        asked = {**best, "n_components": k - max(1, k // 3)}
        if asked["n_components"] < (0 if _has_pairs(best) else 1) or asked in search.tried:
            break
        yield asked
        if search.best.options != asked:
            break
        fewer = True
    if not fewer and search.best.options["n_components"] < most:
        asked = {**search.best.options, "n_components": search.best.options["n_components"] + 1}
        if asked not in search.tried:
            yield asked
    yield from _numbers_between(search)


def _number(options: Options) -> dict[str, Any]:
    return {"n_components": options["n_components"]}


def _has_pairs(options: dict[str, Any]) -> bool:
    return FitOptions.of(ProbabilisticSFA(**{"n_components": 1, **options})).n_pairs > 0


# ---------------------------------------------------------------------------------------------- the search


class _Round(NamedTuple):
    """Data of a round, and what of it is hidden."""

    sequences: Sequences
    part: Any
    group: Any
    units: FloatArray
    scale: FloatArray


@dataclass
class _Search:
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
    propose: Callable[["_Search"], Proposals]
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
        return weigh(scores, self.groups[rung], np.array([candidate.bic for candidate in candidates]))

    @property
    def best(self) -> Candidate:
        """The choice of this round so far."""
        return self.rounds[-1][self.evidence.chosen]

    def clearly_worse(self, options: dict[str, Any]) -> bool:
        """Whether neither the hidden cells nor the likelihood of the others are for a larger model."""
        here = self.tried.index(options)
        candidate, best = self.rounds[-1][here], self.best
        larger = candidate.model.n_parameters > best.model.n_parameters
        worse = candidate.scores.mean() > best.scores.mean()
        return bool(larger and worse and candidate.bic > best.bic + CLOSE)

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
        order = sorted(
            range(len(candidates)),
            key=lambda j: (
                not evidence.equal[j],
                candidates[j].bic if evidence.equal[j] else evidence.behind[j],
            ),
        )
        schedule = halving_schedule(len(self.rounds[0]), self.sequences.n_rows, self.most)
        n = schedule[len(self.rounds)].n_candidates
        return [candidates[j] for j in order[:n]]

    def data(self, n_rows: int) -> _Round:
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
        return _Round(sequences, part, group, units, np.where(scale > 0.0, scale, 1.0))

    def _fit(
        self, options: dict[str, Any], data: _Round, rung: int, max_iter: int, before: Candidate | None
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
        bic = model.n_parameters * np.log(self.n_observed) - 2.0 * model.fitted.log_likelihood / share
        seconds = self.clock.seconds - begin
        return Candidate(options, rung, seen.n_rows, model, scores, errors, float(bic), seconds)

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


_LATENTS = ("n_components", "rhythms", "smooth")
# Noise under which a larger model can begin with the latents of a smaller one.
_PLAIN_NOISE = ("diagonal", "isotropic")


def score(
    model: LinearGaussianModel, sequences: Sequences, part: Any, units: FloatArray, scale: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """What a model says of hidden cells, part by part, each given all cells but those of the part.

    Parameters
    ----------
    model : LinearGaussianModel
        Fitted without any of them.
    sequences : Sequences
        Rows, with the hidden cells.
    part : ndarray of int of shape (N, D)
        Part in which a cell is hidden, 0 where it is not.
    units, scale : ndarray of shape (D,)
        Units of scores and of errors.

    Returns
    -------
    scores, errors : ndarray of shape (n,)
        In the order of the hidden cells, ``part > 0``.
    """
    scores, errors = np.zeros(part.shape), np.zeros(part.shape)
    for j in range(1, int(part.max()) + 1):
        hidden = part == j
        rest = replace(sequences, values=np.where(hidden, np.nan, sequences.values))
        filled = model.impute(rest, with_std=True)
        assert filled.std is not None
        error = np.where(hidden, filled.values - sequences.values, 0.0)
        scores = np.where(hidden, crps(error / units, filled.std / units), scores)
        errors = np.where(hidden, error / scale, errors)
    return scores[part > 0], errors[part > 0]


# ------------------------------------------------------------------------------------------------ the end


def _finished(
    search: _Search, best: Candidate, estimator: ProbabilisticSFA, interrupted: bool
) -> ModelSelection:
    """Fit what may be the choice to all cells, from where it is; choose, and say why."""
    sequences, clock = search.sequences, search.clock
    candidates = search.rounds[-1]
    bic = np.array([candidate.bic for candidate in candidates])
    order = [candidates[j] for j in contenders(search.evidence, bic)]
    clock.finish()
    ends: list[tuple[float, Candidate, LinearGaussianModel]] = []
    for candidate in [] if interrupted else order:
        begin = clock.seconds
        model, ended_by = _fit_to_all(sequences, candidate, clock)
        interrupted = ended_by == "keyboard"
        if ended_by and ends:
            break
        criterion = model.n_parameters * np.log(search.n_observed) - 2.0 * model.fitted.log_likelihood
        ends.append((criterion, candidate, model))
        if ended_by or clock.left < clock.seconds - begin:
            break
    if ends:
        _, best, model = min(ends, key=lambda end: end[0])
    else:
        model = best.model
    if not interrupted:
        model = model.with_gross_misfit(sequences)
    model = replace(model, fitted=with_times(model.fitted, sequences.axis, sequences.time_unit))
    set_fitted(estimator.set_params(**best.options), model)
    return ModelSelection(
        options=dict(best.options),
        best_estimator_=estimator,
        records=tuple(_records(search, best)),
        reason=_reason(search, best),
        hidden=tuple(dict.fromkeys(search.hidden.kinds)),
        seconds=clock.seconds,
        interrupted=interrupted,
    )


def _fit_to_all(sequences: Sequences, candidate: Candidate, clock: Clock) -> tuple[LinearGaussianModel, str]:
    """A candidate fitted to all cells of all rows, from its parameters; and what ended that too early."""
    asked = FitOptions.of(ProbabilisticSFA(**candidate.options)).check().with_times(sequences.axis)
    try:
        problem = pose(InMemory(sequences), asked)
        result, ended_by = clock.climb(problem, start_of(candidate.model.fitted.params, problem))
        model = candidate.model if result is None else with_noise(in_data_units(problem, result))
    except KeyboardInterrupt:  # between two steps of this
        return candidate.model, "keyboard"
    return _stopped_by_budget(model) if ended_by == "budget" else model, ended_by


def _stopped_by_budget(model: LinearGaussianModel) -> LinearGaussianModel:
    """A model that is no maximum for all cells, whose status says that time ran out."""
    ended = "Stopped at the end of the budget: the best parameters so far are kept."
    status = model.fitted.status
    for sentence in STATUS_SENTENCES.values():
        status = status.replace(sentence, ended)
    return replace(model, fitted=replace(model.fitted, status=status, converged=False))


def _records(search: _Search, best: Candidate) -> Iterator[dict[str, Any]]:
    """Rows of the table."""
    for rung, candidates in enumerate(search.rounds):
        if not candidates:
            continue
        evidence = search.evidence_of(rung)
        goes_on = [] if rung + 1 >= len(search.rounds) else [c.options for c in search.rounds[rung + 1]]
        for j, candidate in enumerate(candidates):
            if candidate is best:
                verdict = "chosen"
            elif candidate.options in goes_on:
                verdict = "goes on"
            else:
                verdict = "as good, less likely" if evidence.equal[j] else "worse"
            params = candidate.model.fitted.params
            yield {
                "model": words(candidate.options),
                **{name: candidate.options.get(name, default) for name, default in _SHOWN.items()},
                "round": rung,
                "rows": candidate.n_rows,
                "score": float(candidate.scores.mean()),
                "behind": float(evidence.behind[j]),
                "standard_error": float(evidence.standard_error[j]),
                "rmse": float(np.sqrt(np.mean(candidate.errors**2))),
                "mae": float(np.mean(np.abs(candidate.errors))),
                "bic": candidate.bic,
                "n_states": params.n_states,
                "n_evaluations": candidate.model.fitted.n_evaluations,
                "seconds": candidate.seconds,
                "verdict": verdict,
            }


_SHOWN: dict[str, Any] = {"n_components": None, "rhythms": 0, "smooth": 0, "noise": "diagonal"}


def words(options: Options) -> str:
    """Options in words.

    Examples
    --------
    >>> words({"n_components": 3, "rhythms": 2, "noise": "isotropic"})
    "3 latents, 2 rhythms, noise='isotropic'"
    """
    parts = []
    for name, value in options.items():
        noun = {"n_components": "latent", "rhythms": "rhythm", "smooth": "smooth latent"}.get(name)
        if noun is None:
            parts.append(f"{name}={value!r}")
        elif is_number(value):
            parts.append(f"{value} {noun}{'' if value == 1 else 's'}")
        else:
            parts.append(f"{name}={value!r}")
    return ", ".join(parts)


def _reason(search: _Search, best: Candidate) -> str:
    """What was chosen and why, in a sentence."""
    evidence = search.evidence
    candidates = search.rounds[-1]
    by_lines = float(np.sqrt(np.mean(interpolation_errors(search.data(best.n_rows)) ** 2)))
    rmse = float(np.sqrt(np.mean(best.errors**2)))
    n_tried, kinds = len(search.rounds[0]), " and ".join(dict.fromkeys(search.hidden.kinds))
    parts = [
        f"{words(best.options)}: chosen of {n_tried} model{'' if n_tried == 1 else 's'} by "
        f"{best.scores.size:,} hidden cells ({kinds}), found again with RMSE {rmse:.3g} against "
        f"{by_lines:.3g} standard deviations by linear interpolation"
    ]
    others = [j for j, candidate in enumerate(candidates) if candidate is not best]
    if others:
        j = min(others, key=lambda j: evidence.behind[j])
        name = words(candidates[j].options)
        if evidence.equal[j]:
            parts.append(f"the cells cannot tell {name} from it, which the likelihood of the others does")
        else:
            times = evidence.behind[j] / evidence.standard_error[j]
            parts.append(f"{name}, the next, is behind by {times:.2g} standard errors")
    if search.stopped == "budget":
        parts.append("the budget ended the search")
    elif search.stopped == "keyboard":
        parts.append("the search was interrupted")
    return "; ".join(parts) + "."


def interpolation_errors(data: _Round) -> FloatArray:
    """Errors (n,) of straight lines at the hidden cells, part by part, in standard deviations."""
    errors = np.zeros(data.part.shape)
    for j in range(1, int(data.part.max()) + 1):
        hidden = data.part == j
        rest = replace(data.sequences, values=np.where(hidden, np.nan, data.sequences.values))
        errors = np.where(hidden, (straight_lines(rest) - data.sequences.values) / data.scale, errors)
    return errors[data.part > 0]


def _cell(value: Any) -> str:
    return (
        f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
