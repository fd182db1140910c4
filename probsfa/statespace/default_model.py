"""Selection of the model if neither the number of factors nor the noise is specified.

Some observed values are held out, and four candidates are fitted to the remaining values:

==========================  ==============================================
noise of each column        number of factors
==========================  ==============================================
white                       number of columns, at most 64
AR(1)                       number of columns, at most 16
AR(1)                       number of columns, at most 4
AR(1)                       0
==========================  ==============================================

In long or wide data, the maximum numbers of factors are smaller, to limit the time of a fit. Stochastic
cycles are added to the best candidate while they improve the predictions of held-out values. The model with
the best predictions is then fitted to all values.

Linear interpolation is a limiting case of a model with AR(1) noise of each column.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probsfa._typing import FloatArray
from probsfa._validation import Sequences
from probsfa.statespace.comparison import Candidate, Comparison, calibrated, scores
from probsfa.statespace.growth import enlarged
from probsfa.statespace.held_out_values import (
    EQUALITY_TOL,
    HeldOutValues,
    hide_for_comparison,
    standard_errors,
)
from probsfa.statespace.learning.budget import (
    Size,
    affordable_segments,
    ar1_noise_affordable,
    integrates_ar1_noise,
)
from probsfa.statespace.learning.maximum_likelihood import InMemory
from probsfa.statespace.learning.options import FitOptions
from probsfa.statespace.leave_one_out import worse_columns_message
from probsfa.statespace.models import LinearGaussianModel
from probsfa.statespace.noise import NoiseVariances
from probsfa.statespace.noise.gaussian import Noise
from probsfa.statespace.outlier_model import OutlierModel, far_from_adjacent, robust_scale_with_outliers
from probsfa.statespace.parameters import StateLayout, StateSpace, rescale
from probsfa.statespace.processes.rhythm import Rhythm
from probsfa.statespace.residual_structure import expected_gain_of_cycle, required_gain_of_cycle

__all__ = ["default_candidates", "fit_default_model"]

# Maximum number of factors of the smaller candidate with AR(1) noise.
_MAX_FEW_FACTORS = 4
# Share of the observed values that is held out. Rows of a held-out block, if few values are missing;
# otherwise the pattern of missing values is used.
_HELD_OUT_SHARE, _BLOCK_ROWS = 0.1, 24
# Values are held out in random draws until their number reaches the first limit; the second limits the draws.
_MIN_HELD_OUT, _MAX_DRAWS = 200, 5
# Minimum number of observed values for a comparison, in total and in the column with the most values.
_MIN_VALUES, _MIN_COLUMN_VALUES = 20, 4
# A fit ends if a further step is expected to raise the log-likelihood by less than the first number times the
# number of free parameters, or by less than the second number (in nats). This is small compared with the
# sampling error: the maximum exceeds the log-likelihood of the true parameters by half a nat per parameter on
# average.
_TOL_PER_PARAMETER, _MIN_TOL = 0.03, 0.5
# Number of candidates with factors. The number of rows in the comparison is limited so that fits of these
# candidates together cost about as much as one fit to all rows.
_N_FITS = 3
# A candidate is fitted to segments if there are more than _MIN_COMPARED_ROWS rows, and if _N_COMPARED_FITS
# fits to all rows would take too long (:func:`.affordable_segments`).
_N_COMPARED_FITS, _MIN_COMPARED_ROWS = 10, 4000
# Maximum number of likelihood evaluations of a candidate in the comparison.
_MAX_EVALUATIONS = 40
# Maximum number of stochastic cycles, as in `select_model`. The search for cycles ends after this number of
# cycles in succession that do not improve predictions.
_MAX_CYCLES, _MAX_FAILURES = 3, 2
# Upper limit of the score of a held-out value in the test for outliers, in standard deviations of the column.
# A prediction by the mean of the column has about this score. With limits of 3 and 6, the scores of a few
# artefacts dominated the mean.
_MAX_SCORE = 1.0
# Maximum number of factors of the first model in the test for outliers.
_MAX_FIRST_FACTORS = 16

#: Function that fits a model of given options and size to sequences, with optional initial parameters.
Fit = Callable[[Sequences, FitOptions, Size, StateSpace | None], LinearGaussianModel]


def fit_default_model(
    data: InMemory, options: FitOptions, fit: Fit, *, without_outliers: bool = False
) -> LinearGaussianModel:
    """Select the number of factors and the noise by held-out values; fit the selected model to all values.

    Parameters
    ----------
    data : InMemory
        All rows.
    options : FitOptions
        Options of the user, in which the number of factors and the noise are not specified.
    fit : callable
        Function that fits one candidate.
    without_outliers : bool, default=False
        Whether to leave out gross outliers if a few values dominate a column, and if held-out values are then
        predicted better.

    Returns
    -------
    LinearGaussianModel
        The fitted model. Its status reports the mean score of each candidate (see :func:`.crps`), in standard
        deviations. Its prediction intervals are calibrated by the held-out values (:mod:`.calibration`).
    """
    without_outliers_result, compared_model = (
        _without_outliers(data, options, fit) if without_outliers else (None, None)
    )
    if compared_model is not None and compared_model.fitted.interrupted:
        return compared_model
    if without_outliers_result is None:
        return _fit_best(data, options, fit, compared_model)
    rows, spread = without_outliers_result
    model = OutlierModel.of(_fit_best(InMemory(rows), options, fit).fitted, spread)
    n_outliers = int(np.count_nonzero(data.sequences.mask & ~rows.mask))
    number = f"{n_outliers:,} value{'s are' if n_outliers > 1 else ' is'}"
    sentence = (
        f"{number} left out as outliers, far from adjacent values and from predictions. outlier_scores(X) "
        "ranks them; robust=False uses all values."
    )
    status = model.fitted.status.adding("outliers_left_out", sentence, n_outliers=n_outliers)
    return replace(model, fitted=replace(model.fitted, status=status))


def _without_outliers(
    data: InMemory, options: FitOptions, fit: Fit
) -> tuple[tuple[Sequences, FloatArray] | None, LinearGaussianModel | None]:
    """Return rows without outliers, scales of columns with outliers, and a model fitted to all values.

    Rows and scales are None if all values are used: if no column is dominated by a few values, or if outliers
    do not make predictions of held-out values worse. The model, if any, is the fit of the last candidate,
    which :func:`_fit_best` reuses, or a fit that Ctrl-C interrupted.

    Predictions are those of the candidate with the most factors: with fewer, a burst in several columns might
    be an outlier in each of them. A candidate with at most 16 factors is tested first: in wide data without
    outliers, its two fits take a tenth of the time of the large fit.
    """
    spread = robust_scale_with_outliers(data.sequences.values, data.sequences.lengths)
    candidates = default_candidates(data)
    if not spread.any() or len(candidates) == 1:
        return None, None
    comparison = _comparison(data.sequences, candidates)
    held_out = comparison.draws[0]
    remaining = comparison.remaining(held_out)
    is_far = far_from_adjacent(comparison.rows, spread)
    rows_without_outliers = replace(remaining, values=np.where(is_far, np.nan, remaining.values))
    most_factors = candidates[-1]["n_components"]
    for n_components in sorted({min(most_factors, _MAX_FIRST_FACTORS), most_factors}):
        requested = {**candidates[-1], "n_components": n_components}
        # Both fits start from initial values computed from the data. If the second fit started at the result
        # of the first, it would have more evaluations in total. In a record of gas sensors, regular values
        # were then left out as outliers, and the error of imputed values was 0.159 instead of 0.114 standard
        # deviations.
        with_outliers_model = _fit_compared(fit, options, requested, remaining)
        if with_outliers_model.fitted.interrupted:
            return None, with_outliers_model
        without_outliers_model = _fit_compared(fit, options, requested, rows_without_outliers)
        if without_outliers_model.fitted.interrupted:
            return None, without_outliers_model
        outlier_model = OutlierModel.of(without_outliers_model.fitted, spread)
        # Scores are bounded, because a few artefacts would dominate the mean. Extreme values are also scored,
        # because other columns may predict them, as in a burst of several columns.
        score_with, score_without = (
            float(np.mean(scores(comparison.predict(model, held_out), _MAX_SCORE)))
            for model in (with_outliers_model, outlier_model)
        )
        if not score_without < (1.0 - EQUALITY_TOL) * score_with:
            return None, with_outliers_model if n_components == most_factors else None
    cleaned = outlier_model.cleaned(data.sequences)
    return (None if cleaned is data.sequences else (cleaned, spread)), with_outliers_model


def _fit_best(
    data: InMemory, options: FitOptions, fit: Fit, last_compared: LinearGaussianModel | None = None
) -> LinearGaussianModel:
    """Fit the best candidate to all values; `last_compared` is an existing fit of the last candidate."""
    requested, sequences = default_candidates(data), data.sequences
    if len(requested) == 1:
        fit_options = _fit_options(options, requested[0], sequences.n_features)
        return calibrated(fit(sequences, fit_options, data.default_size(), None), sequences.mask, None)
    comparison = _comparison(sequences, requested)
    evaluate = partial(_evaluate, comparison, partial(_fit_compared, fit, options))
    candidates: list[Candidate] = []
    for each in requested:
        candidates.append(evaluate(each, first_fit=last_compared if each is requested[-1] else None))
        if candidates[-1].model.fitted.interrupted:
            return candidates[-1].model
    if not options.n_other_processes:
        candidates = _with_cycles(candidates, comparison, evaluate)
        if candidates[-1].model.fitted.interrupted:
            return candidates[-1].model
    best = _best(candidates)
    compared = best.model.fitted
    varied = compared.constant is None or np.array_equal(compared.constant, data.columns.constant)
    # A column that was constant in the comparison has zero loadings. A fit cannot start there, because the
    # gradient with respect to these loadings is zero.
    start = compared.params if varied else None
    fit_options = _fit_options(options, best.options, sequences.n_features)
    size = data.default_size(ar1_noise=fit_options.has_ar1_noise)
    size = size._replace(n_components=best.options["n_components"])
    model = fit(sequences, fit_options, size, start)
    score_by_candidate = {_describe(each.options): _score(each) for each in candidates}
    table = ", ".join(f"{score:.3g} with {name}" for name, score in score_by_candidate.items())
    sentence = f"Mean errors (CRPS) of held-out values: {table}."
    if best is not min(candidates, key=_score):
        sentence = f"{sentence} Factors do not reduce the error by more than its standard error."
    status = model.fitted.status.adding("candidates", sentence, **score_by_candidate)
    worse = comparison.worse_columns(best)
    text = worse_columns_message(worse, sequences.feature_names)
    status = status.adding("worse_than_interpolation", text, columns=worse.tolist())
    model = replace(model, fitted=replace(model.fitted, status=status))
    return calibrated(model, sequences.mask, best.predictions)


def default_candidates(data: InMemory) -> list[dict[str, Any]]:
    """Return the options of the models that the default call compares, simplest first.

    For few values or long computing times, only the model with white noise is returned.
    """
    white = {"n_components": data.default_size().n_components}
    counts = data.columns.counts
    is_few = counts.sum() < _MIN_VALUES or counts.max() < _MIN_COLUMN_VALUES
    if is_few or not ar1_noise_affordable(*data.sequences.mask.shape):
        return [white]
    largest = data.default_size(ar1_noise=True).n_components
    numbers = {min(largest, _MAX_FEW_FACTORS), largest}
    if not integrates_ar1_noise(data.sequences.n_rows, 1, data.sequences.n_features):
        numbers.add(0)
    return [*({"n_components": k, "noise": "ar1"} for k in sorted(numbers)), white]


def _comparison(sequences: Sequences, requested: list[dict[str, Any]]) -> Comparison:
    """Draw values to hold out until there are enough; in segments of rows if fits to all rows are slow."""
    n_states = max(options["n_components"] for options in requested) + sequences.n_features
    segments = affordable_segments(sequences.mask, sequences.lengths, n_states, n_fits=_N_FITS)
    rows = sequences if segments is None else sequences.segments_as_sequences(segments)
    rng = np.random.default_rng(0)  # equal data must give equal models
    draws: list[HeldOutValues] = []
    while len(draws) < _MAX_DRAWS and sum(int(draw.all.sum()) for draw in draws) < _MIN_HELD_OUT:
        draws.append(
            hide_for_comparison(rows.values, fraction=_HELD_OUT_SHARE, n_masks=2, block=_BLOCK_ROWS, rng=rng)
        )
    return Comparison(rows, draws)


def _fit_options(options: FitOptions, requested: dict[str, Any], n_features: int) -> FitOptions:
    """Return the options of the fit of a candidate to all values."""
    noise, n_cycles = requested.get("noise", "diagonal"), requested.get("rhythms", 0)
    n_linear_states = requested["n_components"] + 2 * n_cycles
    n_parameters = n_linear_states + (n_linear_states + (4 if noise == "ar1" else 2)) * n_features
    tol = max(_MIN_TOL, _TOL_PER_PARAMETER * n_parameters) if options.tol == "auto" else options.tol
    processes = options.processes.replace(rhythms=n_cycles) if n_cycles else options.processes
    return replace(options, noise=noise, processes=processes, tol=tol)


def _fit_compared(
    fit: Fit,
    options: FitOptions,
    requested: dict[str, Any],
    rows: Sequences,
    start: StateSpace | None = None,
) -> LinearGaussianModel:
    """Fit a candidate for the comparison, to segments of the rows if a fit to all rows is slow."""
    k, n_features, n_rows = requested["n_components"], rows.n_features, rows.n_rows
    fit_options = _fit_options(options, requested, n_features)
    fit_options = replace(fit_options, max_iter=min(fit_options.max_iter, _MAX_EVALUATIONS))
    n_noise_states = n_features if fit_options.has_ar1_noise else 0
    if n_noise_states and integrates_ar1_noise(n_rows, k, n_features):
        return fit(rows, fit_options, Size(k), start)
    n_states = k + 2 * requested.get("rhythms", 0) + n_noise_states
    segments = affordable_segments(
        rows.mask, rows.lengths, n_states, n_fits=_N_COMPARED_FITS, min_rows=_MIN_COMPARED_ROWS
    )
    return fit(rows, fit_options, Size(k, segments, n_rows), start)


def _evaluate(
    comparison: Comparison,
    fit: Callable[..., LinearGaussianModel],
    requested: dict[str, Any],
    *,
    start: StateSpace | None = None,
    first_fit: LinearGaussianModel | None = None,
) -> Candidate:
    """Fit a candidate without the held-out values of each draw, and predict them.

    The fit without the first draw is `first_fit`, or starts at `start`. If Ctrl-C interrupts a fit, the
    candidate has this fit and no predictions.
    """
    first, *others = comparison.draws
    models = [fit(requested, comparison.remaining(first), start) if first_fit is None else first_fit]
    for held_out in others:
        if not models[-1].fitted.interrupted:
            models.append(fit(requested, comparison.remaining(held_out), models[0].fitted.params))
    if models[-1].fitted.interrupted:
        return Candidate(requested, models[-1])
    predictions = map(comparison.predict, models, comparison.draws)
    return Candidate(requested, models[0], tuple(predictions))


def _describe(requested: dict[str, Any]) -> str:
    """Return the description of a candidate in the status."""
    n_cycles = requested.get("rhythms", 0)
    cycles = f", {n_cycles} cycle{'s' if n_cycles > 1 else ''}" if n_cycles else ""
    factors = f"{requested['n_components']} factor{'' if requested['n_components'] == 1 else 's'}"
    separator = ", " if cycles else " "
    return f"{factors}{cycles}{separator}and {'AR(1)' if 'noise' in requested else 'white'} noise"


def _score(candidate: Candidate) -> float:
    """Return the mean score of the held-out values of all draws, whose standard deviations are calibrated."""
    return float(np.mean(candidate.joint_scores))


def _best(candidates: list[Candidate]) -> Candidate:
    """Return the candidate with the smallest mean score, or the candidate without factors.

    Without factors, imputed values are close to linear interpolation. Factors are used only if they improve
    the score by more than the standard error of the difference.
    """
    best = min(candidates, key=_score)
    for candidate in candidates:
        difference = candidate.joint_scores - best.joint_scores
        standard_error = float(standard_errors(difference[None], candidate.predictions.groups)[0])
        if candidate.options["n_components"] == 0 and difference.mean() <= standard_error:
            return candidate
    return best


def _with_cycles(
    candidates: list[Candidate], comparison: Comparison, evaluate: Callable[..., Candidate]
) -> list[Candidate]:
    """Add candidates with stochastic cycles to the best candidate, if they improve predictions.

    A cycle is tried if BIC would accept it for the highest peak of the residual periodogram. A peak may be
    due to chance, and hide a smaller peak of a real cycle: after a cycle that does not improve predictions,
    one more is tried. If Ctrl-C interrupts a fit, its candidate is the last.
    """
    rows, remaining = comparison.rows, comparison.remaining(comparison.draws[0])
    best = last = _best(candidates)
    n_retained = len(candidates)
    if "noise" in best.options and integrates_ar1_noise(
        rows.n_rows, best.options["n_components"], rows.n_features
    ):
        return candidates
    required = required_gain_of_cycle(rows.n_features, int(np.count_nonzero(rows.mask.any(axis=1))))
    for n_cycles in range(1, _MAX_CYCLES + 1):
        if expected_gain_of_cycle(last.model, remaining) < required:
            break
        start = _with_another_cycle(last.model, remaining)
        last = evaluate({**best.options, "rhythms": n_cycles}, start=start)
        candidates = [*candidates, last]
        if last.model.fitted.interrupted:
            return candidates
        if _score(last) < (1.0 - EQUALITY_TOL) * _score(best):
            best, n_retained = last, len(candidates)
        elif len(candidates) - n_retained == _MAX_FAILURES:
            break
    # Cycles that do not improve predictions make computations slower.
    return candidates[:n_retained]


def _with_another_cycle(model: LinearGaussianModel, sequences: Sequences) -> StateSpace:
    """Return parameters with an additional stochastic cycle, initialized from the residuals of a model."""
    fitted = model.fitted
    params = fitted.standardized_params
    panel = model.standardized_panel(sequences)
    state_layout = StateLayout(params.n_components, {Rhythm: params.state_layout.counts.get(Rhythm, 0) + 1})
    noise = Noise(NoiseVariances.diagonal(params.n_features), np.zeros(params.n_features))
    return rescale(enlarged(params, panel, state_layout, noise), fitted.shift, fitted.scale)
