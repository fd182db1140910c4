"""Which model: the number of latents, rhythms, smooth latents and the noise, by how well holes are filled.

Candidates are options of :class:`~probsfa.statespace.estimator.ProbabilisticSFA`. They are fitted shortly,
to a part of the rows, and the most likely of them go on with more rows and more evaluations (successive
halving, Jamieson & Talwalkar 2016). The last few are fitted without some cells, the same for all of them
(:mod:`.hidden_cells`), and what they say of these is compared. Where a smaller model is fitted already, a
larger one begins with its latents (:mod:`.growth`).
"""

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa._random import generator
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.statespace.choice.candidates import Candidate, Options, checked, has_no_peak, words
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.proposals import listed, searched
from probsfa.statespace.choice.search import Round, Search
from probsfa.statespace.criterion import bayesian_criterion
from probsfa.statespace.estimator import ProbabilisticSFA, set_fitted, with_times
from probsfa.statespace.hidden_cells import HiddenCells, contenders, hide_for_choice, isolated_cells
from probsfa.statespace.learning.budget import most_components
from probsfa.statespace.learning.maximum_likelihood import (
    InMemory,
    check_lengths_for_timescales,
    in_data_units,
    pose,
    start_of,
)
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.leave_one_out import straight_lines
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.progress import Progress
from probsfa.statespace.student_model import with_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ModelSelection", "select_model"]

#: What is tried beside the number of latents, once that is chosen, in groups: within a group each takes the
#: place of the one before, and the first that does not serve ends it.
ALTERNATIVES: tuple[tuple[Options, ...], ...] = (
    ({"rhythms": 1}, {"rhythms": 2}, {"rhythms": 3}),
    ({"smooth": 1},),
    ({"noise": "ar1"},),
)


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
        each column's spread, and smaller is better, NaN before the last round; ``behind`` by how much it is
        worse than the best of the round, with its ``standard_error``; ``rmse`` and ``mae`` errors in
        standard deviations; ``bic`` the Bayesian information criterion; ``verdict`` what became of it.
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
    """Choose a model by its likelihood and by how well it finds hidden cells again, and fit it.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of dict, optional
        Options of :class:`ProbabilisticSFA`, a dictionary for each model. By default they are searched for:
        numbers of latents up to one for each column, then rhythms, smooth latents and noise with memory
        beside the best number where that leaves anything to them, then numbers around it again.
    alternatives : iterable of iterables of dict, optional
        Where candidates are searched for: options that are tried beside the number of latents, in groups.
        Within a group each takes the place of the one before, and the first that does not serve ends it. By
        default up to three rhythms, a smooth latent, and noise with memory.
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

    *Choice.* The Bayesian information criterion of fits to all cells says which models are left for the
    last round: it asks for no random number. Hidden cells decide between these where they can: models are
    compared by the difference of their continuous ranked probability scores on the same cells, which a few
    cells far out cannot dominate. Those that are behind the best by less than 2.5 standard errors, or by
    less than a hundredth, are as good, and the one of them with the smallest criterion is chosen; where two
    are close, that of fits that have converged. Where hidden cells refuse the model of the smallest
    criterion, other cells are hidden, and it is refused where these refuse it, too. Where only some
    candidates have robust noise, whose lower bound does not compare with a likelihood, the best of each
    kind reaches the last round, where hidden cells alone say whether noise is robust: where scores are
    better by a hundredth.

    *Cells left out.* Cells that are six robust standard deviations from the median of the four observed
    cells of their column that are nearest in time are taken to be missing while models are compared, unless
    a candidate has robust noise: two such cells, any number of rows apart, look like a rhythm. The choice
    is fitted to all cells.

    *Search.* Rhythms, smooth latents and memory are tried where the best model so far leaves something that
    they could explain: power at a frequency beyond that of its neighbours, or correlated errors one row
    ahead.

    *Rounds.* All candidates are fitted with up to 30 evaluations to 2,000 rows or more; a fourth of them,
    two at least, with up to 40 more to sixteen times as many rows, and so on up to all, which two or three
    of them reach. These fits end where a step would gain less than half a nat, the last one to all cells by
    its own `tol`.

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
    given = None if candidates is None else checked(candidates)
    groups = [checked(group) for group in (ALTERNATIVES if alternatives is None else alternatives)]
    clock = Clock(budget)
    estimator = ProbabilisticSFA(1)
    sequences = check_sequences(
        estimator, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
    )
    check_lengths_for_timescales(sequences.lengths)
    rng = generator(random_state)
    far = np.zeros(sequences.values.shape, dtype=bool)
    if not any(options.get("robust", False) for options in [*(given or []), *chain(*groups)]):
        far = isolated_cells(sequences.values, sequences.lengths)
    compared = sequences
    if far.any():
        compared = replace(sequences, values=np.where(far, np.nan, sequences.values))

    def hide() -> HiddenCells:
        drawn = hide_for_choice(sequences.values, fraction=fraction, n_masks=n_masks, block=block, rng=rng)
        return drawn._replace(part=np.where(far, 0, drawn.part))

    most = most_components(
        sequences.n_rows, sequences.mask.sum(axis=0), ~InMemory(sequences).columns.constant
    )
    search = Search(compared, hide, clock, listed(given) if given else searched(most, groups), most)
    with Progress(verbose, None, desc="select", unit="fit", value="BIC") as report:
        best, interrupted = search.run(report)
    return _finished(search, best, sequences, estimator, interrupted)


def _finished(
    search: Search,
    best: Candidate,
    sequences: Sequences,
    estimator: ProbabilisticSFA,
    interrupted: bool,
) -> ModelSelection:
    """Fit what may be the choice to all cells, from where it is; choose, and say why."""
    clock = search.clock
    candidates = search.rounds[-1]
    order = [candidates[j] for j in contenders(search.evidence, search.criteria(candidates))]
    clock.finish()
    ends: list[tuple[float, Candidate, LinearGaussianModel]] = []
    for candidate in [] if interrupted else order:
        begin = clock.seconds
        model, ended_by = _fit_to_all(search.sequences, candidate, _of_all_cells(candidate), clock)
        interrupted = ended_by == "keyboard"
        if ended_by and ends:
            break
        likelihood = model.fitted.log_likelihood
        criterion = bayesian_criterion(likelihood, model.n_parameters, search.n_observed)
        ends.append((criterion, candidate, model))
        if ended_by or clock.left < clock.seconds - begin:
            break
    if ends:
        _, best, model = min(ends, key=lambda end: end[0])
    else:
        model = _of_all_cells(best)
    if ends and not interrupted and search.sequences is not sequences:
        model, ended_by = _fit_to_all(sequences, best, model, clock)
        interrupted = ended_by == "keyboard"
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


def _of_all_cells(candidate: Candidate) -> LinearGaussianModel:
    """The fit of a candidate to all cells, where there is one, else to those that were not hidden."""
    return candidate.model if candidate.whole is None else candidate.whole


def _fit_to_all(
    sequences: Sequences, candidate: Candidate, start: LinearGaussianModel, clock: Clock
) -> tuple[LinearGaussianModel, str]:
    """A candidate fitted to all cells of all rows, from a model of it; and what ended that too early."""
    asked = FitOptions.of(ProbabilisticSFA(**candidate.options)).check().with_times(sequences.axis)
    try:
        problem = pose(InMemory(sequences), asked)
        result, ended_by = clock.climb(problem, start_of(start.fitted.params, problem))
        model = start if result is None else with_noise(in_data_units(problem, result))
    except KeyboardInterrupt:  # between two steps of this
        return start, "keyboard"
    return _stopped_by_budget(model) if ended_by == "budget" else model, ended_by


def _stopped_by_budget(model: LinearGaussianModel) -> LinearGaussianModel:
    """A model that is no maximum for all cells, whose status says that time ran out."""
    ended = "Stopped at the end of the budget: the best parameters so far are kept."
    status = model.fitted.status
    for sentence in STATUS_SENTENCES.values():
        status = status.replace(sentence, ended)
    return replace(model, fitted=replace(model.fitted, status=status, converged=False, interrupted=False))


def _records(search: Search, best: Candidate) -> Iterator[dict[str, Any]]:
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
                verdict = _behind(candidate, bool(evidence.equal[j]))
            params = candidate.model.fitted.params
            yield {
                "model": words(candidate.options),
                **{name: candidate.options.get(name, default) for name, default in _SHOWN.items()},
                "round": rung,
                "rows": candidate.n_rows,
                "score": _mean(candidate.scores),
                "behind": _mean(evidence.behind[j : j + 1]),
                "standard_error": _mean(evidence.standard_error[j : j + 1]),
                "rmse": _root(_mean(candidate.errors**2)),
                "mae": _mean(np.abs(candidate.errors)),
                "bic": candidate.bic,
                "n_states": params.n_states,
                "n_evaluations": candidate.model.fitted.n_evaluations,
                "seconds": candidate.seconds,
                "verdict": verdict,
            }


def _behind(candidate: Candidate, equal: bool) -> str:
    """What is said of a candidate that is not chosen and does not go on."""
    if has_no_peak(candidate):
        return "no rhythm"
    if not candidate.scores.size:
        return "less likely"
    return "as good, less likely" if equal else "worse"


def _mean(values: FloatArray) -> float:
    """The mean of what was asked of hidden cells, NaN where nothing was."""
    # The same NaN each time, so that equal records are equal.
    return float(values.mean()) if values.size and np.isfinite(values).all() else np.nan


def _root(mean_square: float) -> float:
    return mean_square**0.5 if np.isfinite(mean_square) else np.nan


_SHOWN: dict[str, Any] = {"n_components": None, "rhythms": 0, "smooth": 0, "noise": "diagonal"}


def _reason(search: Search, best: Candidate) -> str:
    """What was chosen and why, in a sentence."""
    evidence = search.evidence
    candidates = search.rounds[-1]
    n_tried = len(search.rounds[0])
    among = f"{words(best.options)}: chosen of {n_tried} model{'' if n_tried == 1 else 's'} by "
    if not best.scores.size:
        ended = (
            "the search was interrupted" if search.stopped == "keyboard" else "the budget ended the search"
        )
        return f"{among}the likelihood; {ended} before hidden cells were asked for."
    errors = np.concatenate([interpolation_errors(data) for data in search.asked])
    by_lines = float(np.sqrt(np.mean(errors**2)))
    rmse = float(np.sqrt(np.mean(best.errors**2)))
    kinds = " and ".join(dict.fromkeys(search.hidden.kinds))
    parts = [
        f"{among}the likelihood and {best.scores.size:,} hidden cells ({kinds}), found again with RMSE "
        f"{rmse:.3g} against {by_lines:.3g} standard deviations by linear interpolation"
    ]
    others = [j for j, candidate in enumerate(candidates) if candidate is not best]
    if others:
        j = min(others, key=lambda j: evidence.behind[j])
        name = words(candidates[j].options)
        if evidence.equal[j]:
            parts.append(f"the cells cannot tell {name} from it, which the likelihood does")
        else:
            times = evidence.behind[j] / evidence.standard_error[j]
            parts.append(f"{name}, the next, is behind by {times:.2g} standard errors")
    if search.stopped == "budget":
        parts.append("the budget ended the search")
    elif search.stopped == "keyboard":
        parts.append("the search was interrupted")
    return "; ".join(parts) + "."


def interpolation_errors(data: Round) -> FloatArray:
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
