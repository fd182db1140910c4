"""Model selection by BIC and held-out values: number of factors, stochastic cycles, smooth factors, noise.

Candidates are options of :class:`~probsfa.statespace.estimator.ProbabilisticSFA`. They are fitted with few
evaluations to a part of the rows; those with the smallest BIC are fitted with more rows and more evaluations
(successive halving, Jamieson & Talwalkar 2016). The last few candidates are fitted without some values, which
are the same for all candidates (:mod:`.held_out_values`), and their predictions of these are compared. A
larger model starts from the factors of a smaller fitted one (:mod:`.growth`).
"""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from probsfa._random import generator
from probsfa._typing import FloatArray, Seed
from probsfa._validation import Sequences, check_count, check_sequences
from probsfa.statespace.choice.candidates import (
    Options,
    describe_options,
    has_no_peak,
    validate_candidates,
)
from probsfa.statespace.choice.clock import Clock
from probsfa.statespace.choice.proposals import propose_by_search, propose_list
from probsfa.statespace.choice.search import Search
from probsfa.statespace.columns import counts_sentence
from probsfa.statespace.comparison import (
    Candidate,
    calibrated,
    interpolation_errors_of_held_out,
    worse_columns,
)
from probsfa.statespace.default_model import default_candidates
from probsfa.statespace.estimator import ProbabilisticSFA, set_fitted, with_times
from probsfa.statespace.fitted_model import bayesian_criterion
from probsfa.statespace.held_out_values import (
    HeldOutValues,
    contenders,
    hide_for_choice,
    isolated_values,
    units_of,
)
from probsfa.statespace.learning.budget import max_components
from probsfa.statespace.learning.maximum_likelihood import (
    FitStatus,
    InMemory,
    Note,
    check_lengths_for_timescales,
    in_data_units,
    make_problem,
    start_of,
)
from probsfa.statespace.learning.objective import STATUS_SENTENCES
from probsfa.statespace.learning.options import FitOptions, is_number
from probsfa.statespace.leave_one_out import worse_columns_message
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.progress import Progress
from probsfa.statespace.student_model import with_noise

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ModelSelection", "select_model", "select_n_components"]

#: Options that are tried after the number of factors is selected, in groups. Within a group each replaces the
#: previous one, and the first that does not improve the model ends the group.
ALTERNATIVES: tuple[tuple[Options, ...], ...] = (
    ({"rhythms": 1}, {"rhythms": 2}, {"rhythms": 3}),
    ({"smooth": 1},),
    ({"noise": "ar1"},),
)


@dataclass(frozen=True, eq=False)
class ModelSelection:
    """Result of a model selection by BIC and held-out values.

    Attributes
    ----------
    options : dict
        Options of the selected model, for `ProbabilisticSFA`.
    best_estimator_ : ProbabilisticSFA
        Selected model, fitted to all values.
    records : tuple of dict
        One record for each fit; see `table`.
    reason : str
        Description of the choice.
    hidden : tuple of str
        Descriptions of the patterns of held-out values.
    seconds : float
        Total wall-clock time.
    interrupted : bool
        Whether the search was interrupted from the keyboard; the selected model is then fitted without the
        held-out values.
    """

    options: dict[str, Any]
    best_estimator_: ProbabilisticSFA
    records: tuple[dict[str, Any], ...]
    reason: str
    hidden: tuple[str, ...]
    seconds: float
    interrupted: bool = False

    @property
    def n_components(self) -> int:
        """Number of factors of the selected model."""
        return self.best_estimator_.params_.n_components

    @property
    def table(self) -> "pd.DataFrame":
        """All fits, as a pandas DataFrame.

        ``model``: options; ``round``: round of successive halving; ``rows``: number of rows of the fit;
        ``score``: mean continuous ranked probability score of held-out values, in units of each column's
        standard deviation (smaller is better, NaN before the last round); ``behind``: difference to the best
        score of the round, with its ``standard_error``; ``rmse`` and ``mae`` of held-out values in standard
        deviations; ``bic``; ``verdict``: whether and why the candidate was rejected.
        """
        import pandas as pd

        return pd.DataFrame(list(self.records))

    def plot(self, *, axes: "Sequence[Axes] | None" = None) -> "list[Axes]":
        """Draw held-out scores and errors of each model, and the selected model.

        Parameters
        ----------
        axes : sequence of 2 matplotlib Axes, optional
            Axes for scores and errors; a new figure by default.

        Returns
        -------
        list of matplotlib Axes
            Left: difference to the best score of the round, with two standard errors. Right: root mean square
            error. The selected model is orange.
        """
        from probsfa.plots.model_selection import plot_model_selection  # loads scikit-learn

        return plot_model_selection(self, axes=axes)

    def __repr__(self) -> str:
        """Return the last rounds as a table, and the reason."""
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
    """Select a model by BIC and by held-out values, and fit it.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of dict, optional
        Options of :class:`ProbabilisticSFA`, a dictionary for each model. By default candidates are
        searched: numbers of factors from zero to the number of columns, with white and with AR(1)
        noise, and then cycles and smooth processes beside factors and in place of them. The models compared
        by ``ProbabilisticSFA()`` are included.
    alternatives : iterable of iterables of dict, optional
        Groups of options. The search tries the options of a group in order, with several numbers of factors,
        until one does not improve the model. By default up to three cycles, a smooth factor, and AR(1)
        noise.
    budget : float, optional
        Maximum time in seconds. Fewer candidates are then compared, and the last fit may stop before it
        converges. At least one model is fitted.
    fraction : float, default=0.2
        Share of the observed values that are held out.
    n_masks : int, default=4
        Number of parts of the held-out values; each is predicted given all other values.
    block : int, default=24
        Number of rows of a hidden block; used only if fewer than 20 values of `X` are missing (see Notes).
    lengths, times : optional
        As in `ProbabilisticSFA.fit`.
    random_state : int, Generator, RandomState or None, default=0
        Random numbers that select the held-out values.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    ModelSelection
        Selected model, fitted to all values, and a table of all fits. Ctrl-C ends the search; the result is
        the best model so far.

    Raises
    ------
    ValueError
        If the data or a candidate is not valid, or no value can be held out.

    Warns
    -----
    ConvergenceWarning
        If the last fit stopped before a maximum.
    UserWarning
        If held-out values of a column are predicted worse than by linear interpolation.

    See Also
    --------
    select_n_components : Select only the number of factors.
    ProbabilisticSFA.diagnose : Test the selected model.

    Notes
    -----
    BIC ranks the candidates. The two or three best, and the models of the default call, are compared by the
    continuous ranked probability score of held-out values; models within 2.5 standard errors of the best, or
    within 1 %, count as equal, and the one with the smallest BIC is selected. If held-out values reject the
    model with the smallest BIC, other values are held out, and both comparisons must agree. Robust and
    Gaussian models are compared only by held-out values.

    If 20 or more values are missing, their pattern, moved in time, selects the held-out values; otherwise
    half are single values and half are blocks. Values that are six robust standard deviations from the median
    of four adjacent observations are treated as missing during the comparison, unless a candidate has robust
    noise.

    Candidates are compared in rounds (successive halving): all are fitted with up to 30 likelihood
    evaluations to 2,000 rows or more, the best quarter (at least two) with up to 40 more to sixteen times as
    many rows, and so on. See :doc:`/selection`.

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
        raise ValueError(
            "alternatives and candidates cannot both be set. Add the alternatives to candidates."
        )
    given = None if candidates is None else validate_candidates(candidates)
    groups = [
        validate_candidates(group) for group in (ALTERNATIVES if alternatives is None else alternatives)
    ]
    clock = Clock(budget)
    estimator = ProbabilisticSFA(1)
    sequences = check_sequences(
        estimator, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
    )
    check_lengths_for_timescales(sequences.lengths)
    counted = counts_sentence(sequences)
    if counted:
        warnings.warn(counted, UserWarning, stacklevel=2)
    rng = generator(random_state)
    far = np.zeros(sequences.values.shape, dtype=bool)
    if not any(options.get("robust", False) for options in [*(given or []), *chain(*groups)]):
        far = isolated_values(sequences.values, sequences.lengths)
    compared = sequences
    if far.any():
        compared = replace(sequences, values=np.where(far, np.nan, sequences.values))

    def hide() -> HeldOutValues:
        draws = hide_for_choice(sequences.values, fraction=fraction, n_masks=n_masks, block=block, rng=rng)
        return draws._replace(part=np.where(far, 0, draws.part))

    maximum = max_components(
        sequences.n_rows, sequences.mask.sum(axis=0), ~InMemory(sequences).columns.constant
    )
    always = default_candidates(InMemory(compared)) if given is None and alternatives is None else []
    search = Search(
        compared,
        hide,
        clock,
        propose_list(given) if given else propose_by_search(maximum, groups),
        maximum,
        always,
    )
    with Progress(None, desc="select", unit="fit", value="BIC") if verbose else nullcontext() as report:
        best, interrupted = search.run(report)
    return _finished(search, best, sequences, estimator, interrupted)


def select_n_components(
    X: Any,
    candidates: Iterable[int],
    *,
    budget: float | None = None,
    fraction: float = 0.2,
    n_masks: int = 4,
    block: int = 24,
    lengths: Any = None,
    times: Any = None,
    random_state: Seed = 0,
    verbose: bool = False,
    **options: Any,
) -> ModelSelection:
    """Select the number of factors by BIC and held-out values, as `select_model` with a list of candidates.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of int
        Numbers of factors to compare, in any order.
    budget, fraction, n_masks, block, lengths, times, random_state, verbose : optional
        As in :func:`select_model`.
    **options
        Further options of `ProbabilisticSFA`, the same for all candidates, for example ``noise="ar1"``.

    Returns
    -------
    ModelSelection
        Selected model, fitted to all values, its `n_components`, and a table of all fits.

    Raises
    ------
    ValueError
        If the data or an argument is not valid, or no value can be held out.

    See Also
    --------
    select_model : Select cycles, smooth factors and noise too.

    Examples
    --------
    >>> from probsfa import select_n_components
    >>> from probsfa.datasets import make_slow_mixture
    >>> X = make_slow_mixture(400, 6, decay=[0.98, 0.7], noise_variance=0.2, random_state=0).data
    >>> select_n_components(X, [1, 2, 3]).n_components
    2
    """
    numbers = list(candidates)
    for number in numbers:
        check_count("candidates", number, minimum=0)
    return select_model(
        X,
        [{"n_components": number, **options} for number in sorted(set(numbers))],
        budget=budget,
        fraction=fraction,
        n_masks=n_masks,
        block=block,
        lengths=lengths,
        times=times,
        random_state=random_state,
        verbose=verbose,
    )


def _finished(
    search: Search,
    best: Candidate,
    sequences: Sequences,
    estimator: ProbabilisticSFA,
    interrupted: bool,
) -> ModelSelection:
    """Fit the remaining candidates to all values, select one by BIC, and return the result."""
    clock = search.clock
    candidates = search.rounds[-1]
    order = [candidates[j] for j in contenders(search.evidence, search.criteria(candidates))]
    clock.finish()
    ends: list[tuple[float, Candidate, LinearGaussianModel]] = []
    for candidate in [] if interrupted else order:
        start = clock.seconds
        model, ended_by = _fit_to_all(search.sequences, candidate, _of_all_cells(candidate), clock)
        interrupted = ended_by == "keyboard"
        if ended_by and ends:
            break
        likelihood = model.fitted.log_likelihood
        criterion = bayesian_criterion(likelihood, model.n_parameters, search.n_observed)
        ends.append((criterion, candidate, model))
        if ended_by or clock.remaining < clock.seconds - start:
            break
    if ends:
        _, best, model = min(ends, key=lambda end: end[0])
    else:
        model = _of_all_cells(best)
    if ends and not interrupted and search.sequences is not sequences:
        model, ended_by = _fit_to_all(sequences, best, model, clock)
        interrupted = ended_by == "keyboard"
    if not interrupted:
        model = model.with_misfit_check(sequences)
    if not best.options.get("robust", False):  # intervals of robust models are not calibrated
        predictions = best.predictions if best.predictions_by_draw else None
        model = calibrated(model, sequences.mask, predictions)
    lost = _worse_columns(search, best)
    if lost:
        warnings.warn(lost, UserWarning, stacklevel=3)
    status = model.fitted.status.adding("worse_than_interpolation", lost)
    model = replace(model, fitted=replace(model.fitted, status=status))
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
    """Return the fit of a candidate to all values if it exists, otherwise to the values not hidden."""
    return candidate.model if candidate.full_fit is None else candidate.full_fit


def _fit_to_all(
    sequences: Sequences, candidate: Candidate, start: LinearGaussianModel, clock: Clock
) -> tuple[LinearGaussianModel, str]:
    """Fit a candidate to all values from its previous fit; also return why it ended early, or ""."""
    requested = FitOptions.of(ProbabilisticSFA(**candidate.options)).check().with_times(sequences.axis)
    try:
        problem = make_problem(InMemory(sequences), requested)
        result, ended_by = clock.maximize(problem, start_of(start.fitted.params, problem))
        model = start if result is None else with_noise(in_data_units(problem, result))
    except KeyboardInterrupt:  # outside the optimizer
        return start, "keyboard"
    return _stopped_by_budget(model) if ended_by == "budget" else model, ended_by


def _stopped_by_budget(model: LinearGaussianModel) -> LinearGaussianModel:
    """Return the model with a status that reports that the time budget ended its fit."""
    ended = "Stopped at the end of the budget: the best parameters so far are kept."
    rest = [note for note in model.fitted.status.notes if note.code not in STATUS_SENTENCES]
    status = FitStatus([Note("budget", ended, {}), *rest])
    return replace(model, fitted=replace(model.fitted, status=status, converged=False, interrupted=False))


def _records(search: Search, best: Candidate) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table."""
    for rung, candidates in enumerate(search.rounds):
        if not candidates:
            continue
        evidence = search.evidence_of(rung)
        continuing = [] if rung + 1 >= len(search.rounds) else [c.options for c in search.rounds[rung + 1]]
        for j, candidate in enumerate(candidates):
            if candidate is best:
                verdict = "selected"
            elif candidate.options in continuing:
                verdict = "next round"
            else:
                verdict = _behind(candidate, bool(evidence.equal[j]))
            params, errors = candidate.model.fitted.params, _errors(search, candidate)
            yield {
                "model": describe_options(candidate.options),
                **{name: candidate.options.get(name, default) for name, default in _SHOWN.items()},
                "round": rung,
                "rows": candidate.n_rows,
                "score": candidate.score if candidate.predictions_by_draw else np.nan,
                "behind": _mean(evidence.behind[j : j + 1]),
                "standard_error": _mean(evidence.standard_error[j : j + 1]),
                "rmse": float(np.sqrt(np.mean(errors**2))) if errors.size else np.nan,
                "mae": float(np.mean(np.abs(errors))) if errors.size else np.nan,
                "bic": candidate.bic,
                "n_states": params.n_states,
                "n_evaluations": candidate.model.fitted.n_evaluations,
                "seconds": candidate.seconds,
                "verdict": verdict,
            }


def _behind(candidate: Candidate, equal: bool) -> str:
    """Return the verdict on a candidate that was not selected and is not in the next round."""
    if has_no_peak(candidate):
        return "no spectral peak"
    if not candidate.predictions_by_draw:
        return "larger BIC"
    return "equal, larger BIC" if equal else "worse"


def _mean(values: FloatArray) -> float:
    """Return the mean of scores or errors of hidden values; NaN without any."""
    # Always the same NaN object, so that equal records compare as equal.
    return float(values.mean()) if values.size and np.isfinite(values).all() else np.nan


_SHOWN: dict[str, Any] = {"n_components": None, "rhythms": 0, "smooth": 0, "noise": "diagonal"}


def _reason(search: Search, best: Candidate) -> str:
    """Return a sentence on the selected model and the reason."""
    evidence = search.evidence
    candidates = search.rounds[-1]
    n_fitted = len(search.rounds[0])
    models = f"{n_fitted} model{'' if n_fitted == 1 else 's'}"
    selected = f"Selected {describe_options(best.options)} among {models} by BIC"
    if not best.predictions_by_draw:
        ended = (
            "the search was interrupted" if search.stopped_by == "keyboard" else "the budget ended the search"
        )
        return f"{selected}; {ended} before the comparison of held-out values."
    by_lines, rmse = (
        float(np.sqrt(np.mean(errors**2))) for errors in (_by_lines(search), _errors(search, best))
    )
    n_values = sum(len(held_out.errors) for held_out in best.predictions_by_draw)
    kinds = " and ".join(dict.fromkeys(search.hidden.kinds))
    parts = [
        f"{selected} and {n_values:,} held-out values ({kinds}): RMSE {rmse:.3g} standard deviations, "
        f"{by_lines:.3g} by linear interpolation"
    ]
    others = [j for j, candidate in enumerate(candidates) if candidate is not best]
    if others:
        j = min(others, key=lambda j: evidence.behind[j])
        name = describe_options(candidates[j].options)
        if evidence.equal[j]:
            parts.append(f"{name} predicts them equally well, with a larger BIC")
        else:
            times = evidence.behind[j] / evidence.standard_error[j]
            parts.append(f"the next best, {name}, has a score {times:.2g} standard errors larger")
    if search.stopped_by == "budget":
        parts.append("the budget ended the search")
    elif search.stopped_by == "keyboard":
        parts.append("the search was interrupted")
    return "; ".join(parts) + "."


def _in_standard_deviations(search: Search) -> FloatArray:
    """Return factors (n,) that convert the errors of held-out values to standard deviations of columns."""
    values = search.sequences.values
    scale = np.nanstd(values, axis=0)
    factors = units_of(values) / np.where(scale > 0.0, scale, 1.0)
    return np.concatenate([factors[np.nonzero(data.hidden.all)[1]] for data in search.held_out_rounds])


def _errors(search: Search, candidate: Candidate) -> FloatArray:
    """Return the errors (n,) of held-out values, in standard deviations; empty without any."""
    if not candidate.predictions_by_draw:
        return np.zeros(0)
    return candidate.predictions.errors * _in_standard_deviations(search)


def _by_lines(search: Search) -> FloatArray:
    """Return errors (n,) of linear interpolation at the held-out values, in standard deviations."""
    errors = [
        interpolation_errors_of_held_out(data.sequences, data.hidden, data.units)
        for data in search.held_out_rounds
    ]
    return np.concatenate(errors) * _in_standard_deviations(search)


def _worse_columns(search: Search, best: Candidate) -> str:
    """Return a sentence on columns that linear interpolation predicts better, or an empty string."""
    if not best.predictions_by_draw:
        return ""
    draws, first = [data.hidden for data in search.held_out_rounds], search.held_out_rounds[0]
    worse = worse_columns(first.sequences, draws, best.predictions, first.units)
    return worse_columns_message(worse, search.sequences.feature_names)


def _cell(value: Any) -> str:
    return (
        f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
