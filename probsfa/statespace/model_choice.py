"""Model selection by BIC and held-out values: number of factors, stochastic cycles, smooth factors, noise.

Candidates are options of :class:`~probsfa.statespace.estimator.ProbabilisticSFA`. All are fitted to a part of
the rows with few likelihood evaluations. Those with the smallest BIC are fitted to all rows without held-out
values (:mod:`.held_out_values`), and their predictions of the held-out values are compared. Fits of larger
models begin at the factors of smaller fitted models (:mod:`.growth`).
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
from probsfa.statespace.columns import counts_message
from probsfa.statespace.comparison import Candidate, calibrated
from probsfa.statespace.default_model import default_candidates
from probsfa.statespace.estimator import ProbabilisticSFA, set_fitted, with_times
from probsfa.statespace.fitted_model import bayesian_criterion
from probsfa.statespace.held_out_values import (
    HeldOutValues,
    hide_for_comparison,
    isolated_values,
    near_best_models,
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
from probsfa.statespace.student_model import model_of_fit

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ModelSelection", "select_model", "select_n_components"]

#: Options that are tried after the number of factors is selected, in groups. The options of a group are tried
#: in order, each in place of the previous one, until one does not improve the model.
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
        Message: the selected model and the reason.
    hidden : tuple of str
        Descriptions of the patterns of held-out values.
    seconds : float
        Total wall-clock time.
    interrupted : bool
        Whether the search was interrupted from the keyboard; the selected model may then be fitted without
        the held-out values.
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
        """All fits, as a pandas DataFrame with one row for each fit.

        ===================================== ================================================================
        column                                meaning
        ===================================== ================================================================
        model                                 description of the options
        n_components, rhythms, smooth, noise  options
        round                                 0 in the search by BIC, 1 in the comparison by held-out values
        rows                                  number of rows of the fit
        score                                 mean continuous ranked probability score of held-out values, in
                                              units of each column; smaller is better; NaN in the search
        behind, standard_error                difference from the best score, and its standard error
        rmse, mae                             errors of held-out values, in standard deviations
        bic                                   Bayesian information criterion
        n_states, n_evaluations, seconds      number of states and of likelihood evaluations; time of the fit
        verdict                               whether the candidate was selected, or why it was rejected
        ===================================== ================================================================
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
        from probsfa.plots.model_selection import plot_model_selection  # the import is slow

        return plot_model_selection(self, axes=axes)

    def __repr__(self) -> str:
        """Return the compared candidates as a table, and the reason."""
        names = ("model", "rows", "score", "behind", "standard_error", "rmse", "mae", "verdict")
        last = [row for row in self.records if row["round"] > 0] or list(self.records)
        entries = [[_format_entry(row[name]) for name in names] for row in last]
        heads = [name.replace("_", " ") for name in names]
        widths = [max(len(row[j]) for row in [heads, *entries]) for j in range(len(names))]
        lines = [
            "  ".join(
                text.ljust(w) if j in (0, 7) else text.rjust(w)
                for j, (text, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in [heads, *entries]
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
        Options of :class:`ProbabilisticSFA`, a dictionary for each model. By default the function first
        searches over numbers of factors from zero to at most the number of columns, with white and with
        AR(1) noise. It then tries cycles and smooth factors, in addition to factors or in place of them. The
        search includes the models that ``ProbabilisticSFA()`` compares.
    alternatives : iterable of iterables of dict, optional
        Groups of options for the search, in place of the default: up to three cycles, a smooth factor, and
        AR(1) noise. The options of a group are tried in order, with several numbers of factors, until one
        does not improve the model.
    budget : float, optional
        Maximum time in seconds. Fewer candidates are then compared, and the last fit may stop before it
        converges. At least one model is fitted.
    fraction : float, default=0.2
        Fraction of the observed values that are held out.
    n_masks : int, default=4
        Number of parts of the held-out values, which are drawn separately.
    block : int, default=24
        Number of rows of a held-out block; used only if few values of `X` are missing (see Notes).
    lengths, times : optional
        As in `ProbabilisticSFA.fit`.
    random_state : int, Generator, RandomState or None, default=0
        Random numbers that select the held-out values.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    ModelSelection
        Selected model, fitted to all values, and a table of all fits. After Ctrl-C, the best model so far.

    Raises
    ------
    ValueError
        If the data or a candidate is not valid, or no value can be held out.

    Warns
    -----
    ConvergenceWarning
        If the last fit stopped before a maximum of the likelihood.
    UserWarning
        If held-out values of a column are predicted worse than by linear interpolation.

    See Also
    --------
    select_n_components : Select only the number of factors.
    ProbabilisticSFA.diagnose : Test the selected model.

    Notes
    -----
    BIC ranks the candidates. The two or three best, and the models of the default call, are compared by the
    continuous ranked probability score of held-out values. Models within 2.5 standard errors of the best, or
    within 1 %, are treated as equal; of these, the model with the smallest BIC is selected. If held-out
    values reject the model with the smallest BIC, the comparison is repeated with other values, and the model
    is rejected only if both comparisons agree. Robust and Gaussian models are compared only by held-out
    values.

    If 20 or more values are missing, the pattern of missing values is shifted in time, and the observed
    values in the shifted pattern are held out. If fewer values are missing, or if the shifted pattern holds
    out too few values, half of the held-out values are single values and half are blocks.

    Values that are more than six robust standard deviations from the median of four adjacent observations
    are treated as missing during the comparison, unless a candidate has Student-t noise.

    All candidates are fitted to at least 2,000 rows (to all rows of a shorter series), with up to 30
    likelihood evaluations. Candidates of the comparison by held-out values are fitted to all rows, with up to
    40 evaluations. See :doc:`/selection`.

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
    listed = None if candidates is None else validate_candidates(candidates)
    groups = [
        validate_candidates(group) for group in (ALTERNATIVES if alternatives is None else alternatives)
    ]
    clock = Clock(budget)
    estimator = ProbabilisticSFA(1)
    sequences = check_sequences(
        estimator, X, reset=True, allow_nan=True, lengths=lengths, times=times, min_rows=2, index="use"
    )
    check_lengths_for_timescales(sequences.lengths)
    message = counts_message(sequences)
    if message:
        warnings.warn(message, UserWarning, stacklevel=2)
    rng = generator(random_state)
    is_isolated = np.zeros(sequences.values.shape, dtype=bool)
    if not any(options.get("robust", False) for options in [*(listed or []), *chain(*groups)]):
        is_isolated = isolated_values(sequences.values, sequences.lengths)
    without_isolated = sequences
    if is_isolated.any():
        without_isolated = replace(sequences, values=np.where(is_isolated, np.nan, sequences.values))

    def hide() -> HeldOutValues:
        draw = hide_for_comparison(sequences.values, fraction=fraction, n_masks=n_masks, block=block, rng=rng)
        return draw._replace(part=np.where(is_isolated, 0, draw.part))

    max_factors = max_components(
        sequences.n_rows, sequences.mask.sum(axis=0), ~InMemory(sequences).columns.constant
    )
    is_default_search = listed is None and alternatives is None
    search = Search(
        without_isolated,
        hide,
        clock,
        propose_list(listed) if listed else propose_by_search(max_factors, groups),
        max_factors,
        default_candidates(InMemory(without_isolated)) if is_default_search else [],
    )
    with Progress(None, desc="select", unit="fit", value="BIC") if verbose else nullcontext() as report:
        best, interrupted = search.run(report)
    return _make_selection(search, best, sequences, estimator, interrupted)


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
    """Select the number of factors among candidates.

    Candidates are compared as in :func:`select_model`. Of the candidates whose predictions of held-out values
    are about as good as the best predictions, the one with the smallest BIC is selected.

    Parameters
    ----------
    X : array-like (T, D), or list of array-likes (T_i, D)
        Rows in order of time, NaN where missing.
    candidates : iterable of int
        Numbers of factors to compare, in any order.
    budget, fraction, n_masks, block, lengths, times, random_state, verbose : optional
        Time limit, choice of held-out values, input data, random numbers and progress, as in
        :func:`select_model`.
    **options
        Further options of `ProbabilisticSFA`, the same for all candidates, for example ``noise="ar1"``.

    Returns
    -------
    ModelSelection
        The selected model, fitted to all values; its number of factors, `n_components`; a table of all fits.

    Raises
    ------
    ValueError
        If the data or an argument is not valid, or no value can be held out.

    See Also
    --------
    select_model : Select also the numbers of cycles and smooth factors, and the kind of noise.

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


def _make_selection(
    search: Search,
    best: Candidate,
    sequences: Sequences,
    estimator: ProbabilisticSFA,
    interrupted: bool,
) -> ModelSelection:
    """Fit the nearly best models of the search to all values, and select one of them by BIC.

    Parameters
    ----------
    search : Search
        The completed search.
    best : Candidate
        Best candidate of the search.
    sequences : Sequences
        All rows, including isolated values.
    estimator : ProbabilisticSFA
        Estimator of the result.
    interrupted : bool
        Whether the search was interrupted from the keyboard; then there are no further fits.
    """
    clock = search.clock
    candidates = search.last_candidates
    not_distinguished = [
        candidates[j] for j in near_best_models(search.evidence, search.criteria(candidates))
    ]
    clock.finish()
    fits: list[tuple[float, Candidate, LinearGaussianModel]] = []
    for candidate in [] if interrupted else not_distinguished:
        start_time = clock.seconds
        model, ended_by = _refit(search.sequences, candidate, _fit_to_all_values(candidate), clock)
        interrupted = ended_by == "keyboard"
        if ended_by and fits:
            break
        likelihood = model.fitted.log_likelihood
        criterion = bayesian_criterion(likelihood, model.n_parameters, search.n_observed)
        fits.append((criterion, candidate, model))
        if ended_by or clock.remaining < clock.seconds - start_time:
            break
    if fits:
        _, best, model = min(fits, key=lambda fit: fit[0])
    else:
        model = _fit_to_all_values(best)
    if fits and not interrupted and search.sequences is not sequences:
        model, ended_by = _refit(sequences, best, model, clock)
        interrupted = ended_by == "keyboard"
    if not interrupted:
        model = model.with_misfit_check(sequences)
    if not best.options.get("robust", False):  # intervals of robust models are not calibrated
        predictions = best.predictions if best.predictions_by_draw else None
        model = calibrated(model, sequences.mask, predictions)
    message = ""
    if best.predictions_by_draw:
        message = worse_columns_message(search.comparison.worse_columns(best), sequences.feature_names)
    if message:
        warnings.warn(message, UserWarning, stacklevel=3)
    status = model.fitted.status.adding("worse_than_interpolation", message)
    model = replace(model, fitted=replace(model.fitted, status=status))
    model = replace(model, fitted=with_times(model.fitted, sequences.axis, sequences.time_unit))
    set_fitted(estimator.set_params(**best.options), model)
    return ModelSelection(
        options=dict(best.options),
        best_estimator_=estimator,
        records=tuple(_records(search, best)),
        reason=_reason(search, best),
        hidden=tuple(dict.fromkeys(search.comparison.draws[-1].kinds)),
        seconds=clock.seconds,
        interrupted=interrupted,
    )


def _fit_to_all_values(candidate: Candidate) -> LinearGaussianModel:
    """Return the fit of a candidate to all values if available, otherwise the fit without held-out values."""
    return candidate.model if candidate.full_fit is None else candidate.full_fit


def _refit(
    sequences: Sequences, candidate: Candidate, previous: LinearGaussianModel, clock: Clock
) -> tuple[LinearGaussianModel, str]:
    """Fit a candidate to all values, from a previous fit.

    Returns
    -------
    model : LinearGaussianModel
        The fit; the previous fit if there was no optimizer step.
    ended_by : {"", "budget", "keyboard"}
        Reason of an interruption; empty if the fit was not interrupted.
    """
    options = FitOptions.of(ProbabilisticSFA(**candidate.options)).check().with_times(sequences.axis)
    try:
        problem = make_problem(InMemory(sequences), options)
        result, ended_by = clock.maximize(problem, start_of(previous.fitted.params, problem))
        model = previous if result is None else model_of_fit(in_data_units(problem, result))
    except KeyboardInterrupt:  # outside the optimizer
        return previous, "keyboard"
    return _stopped_by_budget(model) if ended_by == "budget" else model, ended_by


def _stopped_by_budget(model: LinearGaussianModel) -> LinearGaussianModel:
    """Return the model with a status that reports the end of the time budget."""
    text = "Stopped at the end of the budget: the best parameters so far are kept."
    other_notes = [note for note in model.fitted.status.notes if note.code not in STATUS_SENTENCES]
    status = FitStatus([Note("budget", text, {}), *other_notes])
    return replace(model, fitted=replace(model.fitted, status=status, converged=False, interrupted=False))


def _records(search: Search, best: Candidate) -> Iterator[dict[str, Any]]:
    """Yield the rows of the table."""
    compared = [candidate.options for candidate in search.compared]
    for number, candidates in enumerate([search.searched, search.compared]):
        if not candidates:
            continue
        evidence = search.evidence_of(candidates)
        for j, candidate in enumerate(candidates):
            if candidate is best:
                verdict = "selected"
            elif number == 0 and candidate.options in compared:
                verdict = "next round"
            else:
                verdict = _verdict(candidate, bool(evidence.equal[j]))
            params, errors = candidate.model.fitted.params, np.zeros(0)
            if candidate.predictions_by_draw:
                errors = _in_standard_deviations(search, candidate.predictions.errors)
            yield {
                "model": describe_options(candidate.options),
                **{name: candidate.options.get(name, value) for name, value in _OPTION_COLUMNS.items()},
                "round": number,
                "rows": candidate.n_rows,
                "score": candidate.score if candidate.predictions_by_draw else np.nan,
                "behind": _finite_or_nan(evidence.behind[j]),
                "standard_error": _finite_or_nan(evidence.standard_error[j]),
                "rmse": float(np.sqrt(np.mean(errors**2))) if errors.size else np.nan,
                "mae": float(np.mean(np.abs(errors))) if errors.size else np.nan,
                "bic": candidate.bic,
                "n_states": params.n_states,
                "n_evaluations": candidate.model.fitted.n_evaluations,
                "seconds": candidate.seconds,
                "verdict": verdict,
            }


def _verdict(candidate: Candidate, equal: bool) -> str:
    """Return the verdict on a candidate that was not selected and is not in the next round."""
    if has_no_peak(candidate):
        return "no spectral peak"
    if not candidate.predictions_by_draw:
        return "larger BIC"
    return "equal, larger BIC" if equal else "worse"


def _finite_or_nan(value: float) -> float:
    """Return a finite value, or the object `np.nan`, because records with one NaN object are equal."""
    return float(value) if np.isfinite(value) else np.nan


# Options that are columns of the table, with their defaults.
_OPTION_COLUMNS: dict[str, Any] = {"n_components": None, "rhythms": 0, "smooth": 0, "noise": "diagonal"}


def _reason(search: Search, best: Candidate) -> str:
    """Return a message about the selected model and the reason."""
    evidence = search.evidence
    candidates = search.last_candidates
    n_fitted = len(search.searched)
    models = f"{n_fitted} model{'' if n_fitted == 1 else 's'}"
    selected = f"Selected {describe_options(best.options)} among {models} by BIC"
    if not best.predictions_by_draw:
        ended = (
            "the search was interrupted" if search.stopped_by == "keyboard" else "the budget ended the search"
        )
        return f"{selected}; {ended} before the comparison of held-out values."
    rmse, interpolation_rmse = (
        float(np.sqrt(np.mean(_in_standard_deviations(search, errors) ** 2)))
        for errors in (best.predictions.errors, search.comparison.interpolation_errors)
    )
    n_values = sum(len(held_out.errors) for held_out in best.predictions_by_draw)
    kinds = " and ".join(dict.fromkeys(search.comparison.draws[-1].kinds))
    parts = [
        f"{selected} and {n_values:,} held-out values ({kinds}): RMSE {rmse:.3g} standard deviations, "
        f"{interpolation_rmse:.3g} by linear interpolation"
    ]
    others = [j for j, candidate in enumerate(candidates) if candidate is not best]
    if others:
        j = min(others, key=lambda j: evidence.behind[j])
        name = describe_options(candidates[j].options)
        if evidence.equal[j]:
            parts.append(f"{name} predicts these values equally well, but has a larger BIC")
        else:
            n_errors = evidence.behind[j] / evidence.standard_error[j]
            parts.append(f"the score of the next best, {name}, is larger by {n_errors:.2g} standard errors")
    if search.stopped_by == "budget":
        parts.append("the budget ended the search")
    elif search.stopped_by == "keyboard":
        parts.append("the search was interrupted")
    return "; ".join(parts) + "."


def _in_standard_deviations(search: Search, errors: FloatArray) -> FloatArray:
    """Return errors (n,) of held-out values in standard deviations, instead of units of the comparison."""
    scale = np.nanstd(search.sequences.values, axis=0)
    factors = search.comparison.units / np.where(scale > 0.0, scale, 1.0)
    return errors * factors[search.comparison.columns]


def _format_entry(value: Any) -> str:
    return (
        f"{value:.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
    )
